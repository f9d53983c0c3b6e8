"""All problems of a schema in one error, so that they can be fixed together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import TypeVar, cast

from hedgerow.errors import ParameterError

# --------------------------------------------------------------------------------------------------
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


_T = TypeVar("_T")


class Problems:
    """Collects problems: checks continue after one, and `tell` raises all of them."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def past(self, make: Callable[[], _T]) -> _T:
        """The result of `make`. If it fails, its message is collected and `tell` will raise."""
        try:
            return make()
        except ParameterError as error:
            self.messages += getattr(error, "problems", [str(error)])
            return cast(_T, None)

    def tell(self) -> None:
        """Raises one error with all messages, if there are any."""
        if len(self.messages) == 1:
            raise ParameterError(self.messages[0])
        if self.messages:
            lines = "".join(f"\n  {k}. {problem}" for k, problem in enumerate(self.messages, 1))
            error = ParameterError(f"the schema has {len(self.messages)} problems:{lines}")
            error.problems = self.messages
            raise error


def all_of(makers: Iterable[Callable[[], _T]]) -> list[_T]:
    """The results of all makers; one error with the messages of all that fail."""
    problems = Problems()
    results = [problems.past(make) for make in makers]
    problems.tell()
    return results
