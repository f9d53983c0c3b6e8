"""Hidden characters in texts, and small tables for notebooks.

Control characters steer a terminal, line separators make one line two, and bidirectional marks make
a text read differently than it is stored. Names and categories must not contain them. Joiners are
allowed: Persian, Indic scripts and emoji need them, and they move nothing.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f]")
"""Controls (C0, DEL, C1), marks and overrides of direction, line and paragraph separators."""


def has_hidden(text: str) -> bool:
    return HIDDEN.search(text) is not None


def visible(text: str) -> str:
    """The text on one line, with Python's escape for each hidden character."""
    return HIDDEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def visible_lines(text: str) -> str:
    """The same for a text that may have several lines."""
    return "\n".join(map(visible, text.split("\n")))


# Small HTML tables for notebooks, every text escaped.
MOST_LINES = 60


def html_table(title: str, lines: Sequence[Sequence[str]], is_open: bool = True) -> str:
    """A collapsible table; a long one ends with a line that counts the rest."""
    shown = lines[:MOST_LINES]
    rows = [f"<tr>{''.join(_cell(text) for text in line)}</tr>" for line in shown]
    if len(lines) > len(shown):
        rows.append(f"<tr>{_cell(f'... {len(lines) - len(shown)} more')}</tr>")
    state = " open" if is_open else ""
    return (
        f"<details{state}><summary><b>{escape(title)}</b></summary>"
        f"<table>{''.join(rows)}</table></details>"
    )


def _cell(text: str) -> str:
    return f'<td style="text-align:left;vertical-align:top">{escape(text)}</td>'
