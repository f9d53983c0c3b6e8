"""All that is wrong with a schema, said at once: who mends one problem should not meet the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import TypeVar, cast

from hedgerow.errors import SpecError

# --------------------------------------------------------------------------------------------------
# What notebooks show: small tables in HTML, every text escaped.

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


_T = TypeVar("_T")


class Problems:
    """What was found so far. Checks go on behind a problem, and `tell` ends them."""

    def __init__(self) -> None:
        self.found: list[str] = []

    def past(self, make: Callable[[], _T]) -> _T:
        """What `make` gives. If it fails there is nothing, and `tell` will not return."""
        try:
            return make()
        except SpecError as error:
            self.found += getattr(error, "problems", [str(error)])
            return cast(_T, None)

    def tell(self) -> None:
        """One error with the words of all problems, if there are any."""
        if len(self.found) == 1:
            raise SpecError(self.found[0])
        if self.found:
            listed = "".join(f"\n  {k}. {problem}" for k, problem in enumerate(self.found, 1))
            error = SpecError(f"the schema has {len(self.found)} problems:{listed}")
            error.problems = self.found
            raise error


def all_of(makers: Iterable[Callable[[], _T]]) -> list[_T]:
    """What each gives; one error with the messages of all that fail."""
    problems = Problems()
    made = [problems.past(make) for make in makers]
    problems.tell()
    return made
