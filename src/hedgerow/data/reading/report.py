"""The data report: how reading changed the values of a table, for their owner only.

It has exact counts of records and never leaves the site: no model file, message or release depends
on it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

from hedgerow.errors import DataWarning, warn
from hedgerow.schema.features import LABEL
from hedgerow.schema.grids import ColumnKind, Grid, short_number, wide_edges
from hedgerow.schema.schema import Schema
from hedgerow.schema.visible import html_table

if TYPE_CHECKING:
    from hedgerow.data.reading.encoding import Encoded

WORTH_A_WARNING = 0.01
"""Fraction of clamped or unknown rows above which a column causes a warning."""
CRAMPED = 0.01
"""A column whose values cover less of its range causes a warning: check the units."""
ENOUGH_TO_FILL_A_RANGE = 20
"""With fewer rows, a small coverage of the range may be chance."""
MOST_TOLD = 8
ADVICE = (
    "Check units, spelling and scalers before the fit; correct the schema if it is "
    "wrong. `data_report_` has every column."
)


@dataclass(frozen=True, slots=True)
class ColumnReport:
    """One column: its clamped, unknown and missing rows, and its allowed values."""

    name: str
    allowed: str
    rows: int
    clamped: int
    unknown: int
    missing: int
    reach: tuple[float, float] | None = None
    width: float = 0.0
    numeric: bool = False

    @property
    def complaints(self) -> list[str]:
        """Problems worth a warning, one clause each."""
        strange = "no numbers within" if self.numeric else "not among"
        counts = [(self.clamped, "outside"), (self.unknown, strange)]
        complaints = [
            f"{n} of {self.rows} values ({n / self.rows:.1%}) are {words} {self.allowed}"
            for n, words in counts
            if self.rows and n > WORTH_A_WARNING * self.rows
        ]
        if self.rows and self.missing == self.rows:
            complaints.append(f"all {self.rows} values are missing")
        return complaints + self._range_complaints()

    def _range_complaints(self) -> list[str]:
        if self.reach is None or self.rows < ENOUGH_TO_FILL_A_RANGE:
            return []
        low, high = self.reach
        if low == high or high - low >= CRAMPED * self.width:
            return []
        ends = f"{low:.4g} and {high:.4g}"
        return [f"all values are between {ends}, a small part of {self.allowed}"]


@dataclass(frozen=True, slots=True)
class DataReport:
    """All columns, the target last, and the number of rows left out."""

    columns: tuple[ColumnReport, ...]
    skipped: int

    def __getitem__(self, name: str) -> ColumnReport:
        return next(column for column in self.columns if column.name == name)

    @property
    def complaints(self) -> list[str]:
        return [f"column {c.name!r}: {words}" for c in self.columns for words in c.complaints]

    def _repr_html_(self) -> str:
        lines = [("column", "rows", "clamped", "unknown", "missing", "allowed")]
        lines += [
            (c.name, f"{c.rows}", f"{c.clamped}", f"{c.unknown}", f"{c.missing}", c.allowed)
            for c in self.columns
        ]
        return html_table(f"Rows as they were read; {self.skipped} left out", lines)

    def __str__(self) -> str:
        width = max((len(c.name) for c in self.columns), default=0)
        head = (
            f"{'column':<{max(width, 6)}} {'rows':>9} {'clamped':>9} {'unknown':>9} {'missing':>9}"
        )
        lines = [
            f"{c.name:<{max(width, 6)}} {c.rows:>9} {c.clamped:>9} {c.unknown:>9} {c.missing:>9}"
            f"  {c.allowed}"
            for c in self.columns
        ]
        return "\n".join([head, *lines, f"rows left out: {self.skipped}"])


@dataclass(frozen=True, kw_only=True)
class EngineCounts:
    """Counts of rows that stay in an engine."""

    n: int
    skipped: int
    clamped: dict[str, int]
    unknown: dict[str, int]
    missing: dict[str, int]
    reach: dict[str, tuple[float, float]] = field(default_factory=dict)
    y: object = True


Counts: TypeAlias = "Encoded | EngineCounts"
"""Counts of a reader, of rows read here or in an engine."""


def report_of(parts: Sequence[Counts], schema: Schema, label: str = LABEL) -> DataReport:
    """The report of all sites together; several only if one process holds their rows."""
    rows = sum(part.n for part in parts)
    columns = []
    for grid in schema.grids:
        ends = [part.reach[grid.feature] for part in parts if grid.feature in part.reach]
        reach = (min(low for low, _ in ends), max(high for _, high in ends)) if ends else None
        is_open = grid.edges == wide_edges()  # no range is declared: it is never too wide
        width, is_number = 0.0 if is_open else grid.high - grid.low, grid.kind is ColumnKind.NUMERIC
        words = describe_allowed(grid)
        columns.append(_column(parts, grid.feature, words, rows, is_number, reach, width))
    if schema.target is not None and any(part.y is not None for part in parts):
        words = _range(schema.target.low if schema.survival is None else 0.0, schema.target.high)
        columns.append(_column(parts, label, words, rows, True))
    return DataReport(tuple(columns), sum(part.skipped for part in parts))


def _column(
    parts: Sequence[Counts],
    name: str,
    words: str,
    rows: int,
    numeric: bool,
    reach: tuple[float, float] | None = None,
    width: float = 0.0,
) -> ColumnReport:
    n_clamped, n_unknown, n_missing = (
        sum(getattr(part, kind).get(name, 0) for part in parts)
        for kind in ("clamped", "unknown", "missing")
    )
    return ColumnReport(name, words, rows, n_clamped, n_unknown, n_missing, reach, width, numeric)


def describe_allowed(grid: Grid) -> str:
    """The allowed values of a column, in a few words."""
    if grid.kind is ColumnKind.NUMERIC:
        return _range(grid.low, grid.high)
    if grid.kind is ColumnKind.HASHED:
        return f"{len(grid.values)} buckets"
    shown = ", ".join(grid.values[:5]) + (", ..." if len(grid.values) > 5 else "")
    return f"the {len(grid.values)} listed values ({shown})"


def _range(low: float, high: float) -> str:
    return f"the range {short_number(low)} to {short_number(high)}"


def warn_of(complaints: Sequence[str]) -> None:
    """Issues one warning for all complaints, if any."""
    first, rest = list(complaints)[:MOST_TOLD], list(complaints)[MOST_TOLD:]
    if first:
        more = [f"and {len(rest)} more"] if rest else []
        warn(f"{'; '.join([*first, *more])}. {ADVICE}", DataWarning)
