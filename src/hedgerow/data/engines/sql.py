"""Cells, regions, leaves and target intervals as SQL that DuckDB and PostgreSQL both understand.

Cells are whole numbers, so all but two things are exact whatever the engine: the comparison of a
float8 with an edge, and the parts of a target (see `parts_of`), which take the four operations
that IEEE 754 rounds correctly and a rounding to whole numbers. No engine is asked for `exp`.
"""

from __future__ import annotations

from collections.abc import Sequence

from hedgerow.models.sensitivity import Sensitivity
from hedgerow.models.tree import Tree
from hedgerow.privacy.queries import Fractions
from hedgerow.schema.regions import Fold, HeldOut, Region, Split
from hedgerow.schema.schema import Schema

Y = "y"


def cell(feature: int) -> str:
    """The column of a feature's cells."""
    return f"c{feature}"


def sql_number(value: float) -> str:
    """As text, which engines read to the nearest float8; a bare decimal may be something else."""
    return f"'{value!r}'::float8"


def interval(value: str, edges: Sequence[float]) -> str:
    """The number of edges at or below a value that is a number: halves, not one edge by one."""

    def among(low: int, high: int) -> str:
        if low == high:
            return str(low)
        middle = (low + high + 1) // 2
        below, above = among(low, middle - 1), among(middle, high)
        return f"CASE WHEN {value} < {sql_number(edges[middle - 1])} THEN {below} ELSE {above} END"

    return among(0, len(edges))


def is_no_number(value: str) -> str:
    """NULL or NaN, which both engines take to be equal to itself."""
    return f"{value} IS NULL OR {value} = 'NaN'::float8"


def within(region: Region, schema: Schema) -> str | None:
    """Which rows are in a region; None if secret draws decide, which no engine knows."""
    asked = []
    for step in region:
        if isinstance(step.test, Fold | HeldOut):
            return None
        goes_left = in_cells(schema.index(step.test.feature), step.test.left)
        asked.append(goes_left if step.outcome == 0 else f"NOT ({goes_left})")
    return " AND ".join(f"({part})" for part in asked) or "TRUE"


def in_cells(feature: int, bits: int) -> str:
    """As runs of neighbours, which numbers have few of."""
    column = cell(feature)
    firsts = [code for code in range(bits.bit_length()) if bits >> code & 1 & ~(bits << 1 >> code)]
    lasts = [code for code in range(bits.bit_length()) if bits >> code & 1 & ~(bits >> code >> 1)]
    runs = [
        f"{column} = {a}" if a == b else f"{column} BETWEEN {a} AND {b}"
        for a, b in zip(firsts, lasts, strict=True)
    ]
    return " OR ".join(runs)


def leaf(tree: Tree, schema: Schema) -> str:
    """The number of a row's leaf. Nodes stand in preorder."""
    nodes = iter(zip(tree.tests, tree.leaf.tolist(), strict=True))

    def below() -> str:
        test, place = next(nodes)
        if test is None:
            return str(place)
        left, right = below(), below()
        return f"CASE WHEN {_question(test, schema)} THEN {left} ELSE {right} END"

    return below()


def _question(test: Split, schema: Schema) -> str:
    return in_cells(schema.index(test.feature), test.left)


def parts_of(statistic: Fractions, unit: int, nearest: str) -> list[str]:
    """`Fractions.fractions`, truncated in units: the same operations in the same order.

    float8 that are whole: they become integers once they are held against their bound. A range
    that is none has no part, in an engine as in memory, and must not be divided by.
    """
    low, high = sql_number(statistic.low), sql_number(statistic.high)
    width, units = statistic.high - statistic.low or 1.0, sql_number(float(unit))
    clipped = f"LEAST(GREATEST({Y}, {low}), {high})"
    part = nearest.format(f"((({clipped}) - {low}) / {sql_number(width)}) * {units}")
    return [
        f"trunc((({units} - {part}) / {units}) * {units})",
        f"trunc(({part} / {units}) * {units})",
    ]


def bounded(columns: Sequence[str], bound: Sensitivity) -> list[str]:
    """`kernels.units.bounded_units` of whole float8: a record beyond its bound adds nothing.

    One CASE inside the other says what is looked at first: an engine may fail where it multiplies
    numbers that are beyond any bound. What is no number is beyond it.
    """
    l1, l2_squared, linf = (
        sql_number(float(norm)) for norm in (bound.l1, bound.l2_squared, bound.linf)
    )
    small = " AND ".join(f"abs({column}) <= {linf}" for column in columns)
    size = " + ".join(f"abs({column})" for column in columns)
    squares = " + ".join(f"{column} * {column}" for column in columns)
    within = f"{size} <= {l1} AND {squares} <= {l2_squared}"
    return [
        f"CASE WHEN {small} THEN "
        f"CASE WHEN {within} THEN CAST({column} AS BIGINT) ELSE 0 END ELSE 0 END"
        for column in columns
    ]
