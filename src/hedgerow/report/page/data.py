"""The data of the page's script: the model's numbers, with only the cells it distinguishes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hedgerow.report.plain import PlainLeaf, PlainModel, PlainNode, nodes_of
from hedgerow.report.view import readable
from hedgerow.report.weighing import CellParts, part_inside
from hedgerow.schema.grids import ColumnKind, Grid

VALUE_DIGITS = 9
"""Significant digits of a value; sums of a hundred are accurate to far less than 1e-6."""
MOST_NUMBERS = 60_000
"""Largest number of leaf values on a page, which keeps it below a megabyte."""


def trees_that_fit(model: PlainModel) -> int:
    """How many trees, from the first, fit on a page."""
    room = MOST_NUMBERS - sum(_numbers(root) for root in model.curves)
    for count, root in enumerate(model.trees):
        room -= _numbers(root)
        if room < 0:
            return count
    return len(model.trees)


def _numbers(root: PlainNode) -> int:
    return sum(len(node.values) for node in nodes_of(root) if isinstance(node, PlainLeaf))


def script_data(model: PlainModel, parts: CellParts = ()) -> dict[str, Any]:
    """Columns, tests and trees in preorder: a number is a test, a list is a leaf."""
    questions: dict[tuple[int, int], int] = {}

    def numbered(root: PlainNode) -> list[Any]:
        return [
            in_page_digits(node.values)
            if isinstance(node, PlainLeaf)
            else questions.setdefault((node.column, node.cells), len(questions))
            for node in nodes_of(root)
        ]

    curves = [numbered(root) for root in model.curves]
    trees = [numbered(root) for root in model.trees[: trees_that_fit(model)]]
    turns = [
        _turns(grid, [c for j, c in questions if j == k]) for k, grid in enumerate(model.grids)
    ]
    return {
        "columns": [_column(grid, turns[j]) for j, grid in enumerate(model.grids)],
        "classes": model.classes,
        "base": in_page_digits(model.base),
        "curves": curves,
        "trees": trees,
        "pairs": model.pairs[: len(trees)],
        "clip": model.clip,
        "link": model.link.name,
        "questions": [_question(model, turns[j], j, cells, parts) for j, cells in questions],
    }


def _turns(grid: Grid, sets: list[int]) -> list[int]:
    """Cells at which some test of a number changes its outcome; others need no edge."""
    if grid.kind is not ColumnKind.NUMERIC:
        return []
    changes = 0
    for cells in sets:
        changes |= cells ^ cells >> 1
    return [k + 1 for k in range(grid.missing - 1) if changes >> k & 1]


def _column(grid: Grid, turns: list[int]) -> dict[str, Any]:
    facts: dict[str, Any] = {"name": grid.feature, "kind": grid.kind.value}
    if grid.kind is ColumnKind.NUMERIC:
        return facts | {
            "edges": [grid.edges[k - 1] for k in turns],
            "low": grid.low,
            "high": grid.high,
        }
    if grid.kind is ColumnKind.HASHED:
        return facts | {"values": list(range(len(grid.values)))}
    return facts | {"values": grid.values, "other": grid.other}


def _question(
    model: PlainModel, turns: list[int], column: int, cells: int, parts: CellParts
) -> list[Any]:
    """Column, cells of yes as hexadecimal digits, words of yes, words of no, part of yes."""
    grid = model.grids[column]
    bits = cells
    if grid.kind is ColumnKind.NUMERIC:
        kept_codes = [0, *turns, grid.missing]
        bits = sum((cells >> old & 1) << new for new, old in enumerate(kept_codes))
    everything = (1 << grid.n_cells) - 1
    words = [readable(grid.describe(side & everything)) for side in (cells, ~cells)]
    return [column, f"{bits:x}", *words, round(part_inside(column, cells, parts), VALUE_DIGITS)]


def in_page_digits(values: Sequence[float]) -> list[float]:
    """Rounded so that the page computes the model's own numbers."""
    return [float(f"{value:.{VALUE_DIGITS}g}") for value in values]
