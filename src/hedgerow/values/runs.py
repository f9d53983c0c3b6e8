"""Numbers for each cell of a column, told once where neighbouring cells repeat them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, groupby, repeat
from typing import Any, TypeVar

from hedgerow.values.arrays import N_CODES

_One = TypeVar("_One")


def alike_runs(rows: Iterable[tuple[float, ...]]) -> dict[str, Any]:
    """`cells`: how many cells are alike, run by run; `values`: by output, one number for each."""
    alike = [list(run) for _, run in groupby(rows, key=repr)]  # 0.0 equals -0.0
    outputs = zip(*(run[0] for run in alike), strict=True)
    return {"cells": [len(run) for run in alike], "values": [list(one) for one in outputs]}


def spread_over_cells(cells: Sequence[int], values: Sequence[_One]) -> tuple[_One, ...]:
    """In loops of the interpreter's own: a model has thousands of cells."""
    if set(map(type, cells)) != {int} or min(cells) < 1 or sum(cells) > N_CODES:
        raise ValueError(f"a column has {cells!r} cells")
    if len(values) != len(cells):
        raise ValueError(f"a column has {len(cells)} runs of cells and {len(values)} values")
    return tuple(chain.from_iterable(map(repeat, values, cells)))
