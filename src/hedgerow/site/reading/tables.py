"""Named columns that are read chunk by chunk: what every source of rows becomes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import pyarrow as pa

from hedgerow.errors import DataError, HedgerowError
from hedgerow.site.reading.columns import Column

OTHER_SEPARATORS = (";", "\t", "|")
"""Of files that are read as one column, since only commas part values."""


class RowTable(Protocol):
    """Named columns in order of rows.

    `capacity` is no less than the number of rows, or 0 where nobody knows it before the end;
    `malformed` counts, after reading, lines that were no rows.
    """

    where: str
    names: list[str]
    capacity: int

    @property
    def malformed(self) -> int: ...

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[list[Column]]:
        """The named columns, `rows` rows at a time (a CSV file: some megabytes at a time)."""
        ...


def positions_of(table: RowTable, names: Sequence[str]) -> list[int]:
    """Where the named columns are; refuses what is absent or there twice."""
    times = Counter(table.names)
    for name in names:
        if times[name] == 0:
            raise DataError(
                f"{table.where} has no column {name!r}; it has {table.names}. {_advice(table)}."
            )
        if times[name] > 1:
            raise DataError(f"{table.where} has {times[name]} columns named {name!r}; keep one.")
    return [table.names.index(name) for name in names]


def check_named(where: str, names: Sequence[str], **told: str | None) -> None:
    """Refuses a column that is no feature and that the user named by a word that is not there."""
    for what, name in told.items():
        if name is not None and name not in names:
            raise DataError(
                f"{where} has no column {name!r}, which `{what}` names; it has {list(names)}. "
                f"Correct `{what}`."
            )


def _advice(table: RowTable) -> str:
    return other_separator(table) or "Rename the column, or change the schema at all sites"


def other_separator(table: RowTable) -> str | None:
    """A single column whose name holds the names of others comes from another separator."""
    only = table.names[0] if len(table.names) == 1 else ""
    found = next((sign for sign in OTHER_SEPARATORS if sign in only), None)
    return None if found is None else f"It seems to be separated by {found!r}; save it with commas"


@contextmanager
def as_data_error(
    where: str, *others: type[Exception], advice: str = "Check or rewrite it"
) -> Iterator[None]:
    """Whatever stops the reading of a source, and is not about a row, in words of its owner."""
    try:
        yield
    except HedgerowError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError, *others) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{where} cannot be read: {reason}. {advice}.") from None
