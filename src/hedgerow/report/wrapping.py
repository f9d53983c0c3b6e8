"""Statements on a narrow terminal."""

from __future__ import annotations

import re
import textwrap

_TITLE = re.compile(r"\s*\S.*?\s{2,}(?=\S)|\s+")
"""A line's title and the gap behind it, or the gap alone where the title stands above."""


def hanging(text: str, width: int) -> str:
    """Lines within a width; what does not fit goes on under where its words began."""
    return "\n".join(_within(line, width) for line in text.splitlines())


def _within(line: str, width: int) -> str:
    title = _TITLE.match(line)
    indent = min(len(title[0]) if title else 0, width // 2)
    return textwrap.fill(line, width, subsequent_indent=" " * indent, break_on_hyphens=False)
