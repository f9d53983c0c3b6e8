"""Hidden characters: those that show nothing and change how the rest of a text is shown.

Control characters steer a terminal, line separators make one line two, and bidirectional marks
let a text read otherwise than it is stored. Names and categories may hold none of them. Joiners
stay: Persian, Indic scripts and emoji are spelled with them, and they move nothing.
"""

from __future__ import annotations

import re

HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f]")
"""Controls (C0, DEL, C1), marks and overrides of direction, separators of lines and paragraphs."""


def has_hidden(text: str) -> bool:
    return HIDDEN.search(text) is not None


def visible(text: str) -> str:
    """The text on one line, with an escape such as Python writes for each such character."""
    return HIDDEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def visible_lines(text: str) -> str:
    """The same for a text that may have several lines."""
    return "\n".join(map(visible, text.split("\n")))
