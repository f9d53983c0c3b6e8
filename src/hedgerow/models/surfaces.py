"""Integer functions of one column or of two, whose weighted sum is a score of curves and surfaces.

A `Basis` is public: it is made of released tables. Every *term* reads one column or two through the
vectors that `functions` assign to their cells: the products of all numbers of the first and of the
second, times a weight, rounded to integers. A record adds a multiple of these integers to a sum, so
a sum over records is one table of multiples per term, times the integers.

Shapes: C functions, T terms, d channels, n records. Channel 0 is the constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from hedgerow.models.model import Curve
from hedgerow.models.tree import without_caches
from hedgerow.schema.arrays import N_CODES, Codes, FloatArray, IntArray

ALONE = -1
"""Second function of a term that reads one column."""
LARGEST_VALUE = 1 << 15
MOST_CHANNELS = 1 << 16
MOST_ENTRIES = 1 << 22
"""Integers of all terms together: 32 MB."""


@dataclass(frozen=True)
class Basis:
    """Functions of cells, terms as pairs of them (the second may be `ALONE`), and weights."""

    functions: tuple[Curve, ...]
    terms: tuple[tuple[int, int], ...]
    weights: tuple[float, ...]
    constant: int

    @cached_property
    def groups(self) -> Codes:
        """(C + 1, 256) the group of each cell: cells of equal values; the last row is one group."""
        return np.stack([*(inverse for _, inverse in self._distinct), np.zeros(N_CODES, np.uint8)])

    @cached_property
    def tables(self) -> tuple[IntArray, ...]:
        """Per term, the constant first: (cells of the term, its channels)."""
        alone = np.ones((1, 1))
        out = [np.full((1, 1), self.constant, np.int64)]
        for (first, second), weight in zip(self.terms, self.weights, strict=True):
            a = self._distinct[first][0]
            b = alone if second == ALONE else self._distinct[second][0]
            products = weight * a[:, None, :, None] * b[None, :, None, :]
            shape = len(a) * len(b), a.shape[1] * b.shape[1]
            out.append(np.rint(products).astype(np.int64).reshape(shape))
        return tuple(out)

    @cached_property
    def layout(self) -> IntArray:
        """(T + 1, 4) per term: two rows of `groups`, its first cell, cells of the second row."""
        none = len(self.functions)
        rows, begin = [(none, none, 0, 1)], 1
        for (first, second), table in zip(self.terms, self.tables[1:], strict=True):
            other = none if second == ALONE else second
            rows.append((first, other, begin, int(self.groups[other].max()) + 1))
            begin += len(table)
        return np.array(rows, np.int64)

    @property
    def n_cells(self) -> int:
        return sum(map(len, self.tables))

    @property
    def widths(self) -> tuple[int, ...]:
        """Channels of each term, the constant's first."""
        outputs = [len(curve.values[0]) for curve in self.functions]
        return (1, *(outputs[a] * (1 if b == ALONE else outputs[b]) for a, b in self.terms))

    @property
    def channels(self) -> int:
        return sum(self.widths)

    @cached_property
    def squares(self) -> FloatArray:
        """(cells of all terms,) the squared norm of each cell's integers."""
        return np.concatenate([(table**2).sum(axis=1) for table in self.tables]).astype(np.float64)

    def values(self, coefficients: Sequence[float] | FloatArray) -> list[FloatArray]:
        """(cells,) per term: its integers weighted and summed, channel after channel."""
        parts = np.split(np.asarray(coefficients, np.float64), np.cumsum(self.widths)[:-1])
        out = [np.zeros(len(table)) for table in self.tables]
        for total, table, part in zip(out, self.tables, parts, strict=True):
            for column, coefficient in zip(table.T, part, strict=True):
                total += coefficient * column
        return out

    def gather(self, cells: IntArray) -> IntArray:
        """(d,) sums of a multiple of the integers, from the sums of the multiple by cell."""
        parts = np.split(cells, np.cumsum([len(table) for table in self.tables])[:-1])
        return np.concatenate(
            [part @ table for part, table in zip(parts, self.tables, strict=True)]
        )

    @cached_property
    def _distinct(self) -> list[tuple[FloatArray, Codes]]:
        out = []
        for curve in self.functions:
            values, inverse = np.unique(np.array(curve.values), axis=0, return_inverse=True)
            groups = np.zeros(N_CODES, np.uint8)  # cells beyond the grid hold no record
            groups[: len(curve.values)] = inverse.reshape(-1)
            out.append((values, groups))
        return out

    def __getstate__(self) -> dict[str, Any]:
        return without_caches(self)


def basis_incompatibility(basis: Basis) -> str | None:
    """Why the integers of a basis are too many or too large, or None. Never raises."""
    n, many = len(basis.functions), len(basis.terms)
    if len(basis.weights) != many or many >= MOST_CHANNELS:
        return f"{len(basis.weights)} weights came for {many} terms"
    if any(not curve.values or not curve.values[0] for curve in basis.functions):
        return "a function has no values"
    if any(len({*map(len, curve.values)}) != 1 for curve in basis.functions):
        return "the values of a function have several lengths"
    if any(not 0 <= a < n or not (b == ALONE or 0 <= b < n) for a, b in basis.terms):
        return "a term names a function that did not come"
    distinct = [len(set(curve.values)) for curve in basis.functions]
    cells = (distinct[a] * (1 if b == ALONE else distinct[b]) for a, b in basis.terms)
    entries = sum(n * width for n, width in zip(cells, basis.widths[1:], strict=True))
    if basis.channels > MOST_CHANNELS or entries > MOST_ENTRIES:
        return f"{many} terms have too many values"
    largest = [max(map(abs, chain.from_iterable(curve.values))) for curve in basis.functions]
    sizes = (
        abs(w) * largest[a] * (1.0 if b == ALONE else largest[b])
        for (a, b), w in zip(basis.terms, basis.weights, strict=True)
    )
    if not abs(basis.constant) <= LARGEST_VALUE or not all(s <= LARGEST_VALUE for s in sizes):
        return f"a value of a term is larger than {LARGEST_VALUE}"
    return None
