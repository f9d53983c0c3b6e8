"""What notebooks show: small tables in HTML, every text escaped."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

MOST_LINES = 60


def html_table(title: str, lines: Sequence[Sequence[str]], is_open: bool = True) -> str:
    """A table that folds; a long one ends with a line that counts the rest."""
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
