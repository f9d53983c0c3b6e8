"""Integer functions of one column or of two, whose weighted sum is a score of curves and surfaces.

A `Basis` is public: it is made of released tables. Every *term* reads one column or two through the
vectors that `functions` assign to their cells: the products of all numbers of the first and of the
second, times a weight, rounded to integers. A record adds a multiple of these integers to a sum, so
a sum over records is one table of multiples per term, times the integers.

Shapes: C functions, T terms, d channels, n records. Channel 0 is the constant.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from math import prod

import numpy as np

from hedgerow.models.model import Curve
from hedgerow.models.tree import without_caches
from hedgerow.schema.arrays import N_CODES, Codes, FloatArray, IntArray

ALONE = -1
"""Second function of a term that reads one column."""
LARGEST_VALUE = 1 << 15
MOST_CHANNELS = 1 << 16
MOST_SHARED = 1 << 12
"""Cells of a table that terms share: 32 kB, which stay in the fastest cache."""
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
    def grouped(self) -> tuple[int, ...]:
        """Functions of pairs: cells of equal values are one group. Those of others are cells."""
        return tuple(sorted({k for term in self.terms if ALONE not in term for k in term}))

    @cached_property
    def groups(self) -> Codes:
        """(C + 1, 256) the group of each cell; the last row is one group."""
        return np.stack([*(groups for _, groups in self._distinct), np.zeros(N_CODES, np.uint8)])

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
    def shared(self) -> tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]:
        """Tables of up to three functions, and the terms that each serves: fewer look-ups.

        Terms are those of `tables`, so that the constant is number 0.
        """
        terms_of = dict[frozenset[int], list[int]]()
        for number, term in enumerate([(), *self.terms]):
            terms_of.setdefault(frozenset(term) - {ALONE}, []).append(number)
        out = []
        while terms_of:
            functions = sorted(next(iter(terms_of)))
            while (more := self._to_share(functions, terms_of)) is not None:
                functions.append(more)
            subsets = [s for k in range(3) for s in map(frozenset, combinations(functions, k))]
            numbers = sorted(chain.from_iterable(terms_of.pop(s, []) for s in subsets))
            out.append((tuple(functions), tuple(numbers)))
        return tuple(out)

    def _to_share(
        self, functions: Sequence[int], terms_of: Mapping[frozenset[int], Sequence[int]]
    ) -> int | None:
        """The function that brings most open terms, or the first that brings enough."""
        cells = prod(self._sizes[k] for k in functions)
        gains = dict[int, int]()
        for more in dict.fromkeys(chain.from_iterable(terms_of)):
            if len(functions) == 3 or more in functions or cells * self._sizes[more] > MOST_SHARED:
                continue
            sets = [{more}, *({more, known} for known in functions)]
            gains[more] = sum(frozenset(s) in terms_of for s in sets)
            if gains[more] >= max(len(functions), 1):
                return more
        best = max(gains, key=gains.__getitem__, default=None)
        return best if best is not None and gains[best] else None

    @cached_property
    def _sizes(self) -> list[int]:
        return [len(values) for values, _ in self._distinct]

    @cached_property
    def layout(self) -> IntArray:
        """(S, 6) per shared table: three rows, its first cell, the groups in the second and third.

        Rows are the `grouped` functions, one of zeros, and all columns' own cells.
        """
        begin, rows, n_rows = 0, [], len(self.grouped) + 1
        row_of = [n_rows + curve.feature for curve in self.functions]
        for row, k in enumerate(self.grouped):
            row_of[k] = row
        for functions, _ in self.shared:
            places = [*(row_of[k] for k in functions), n_rows - 1, n_rows - 1, n_rows - 1]
            sizes = [*(self._sizes[k] for k in functions), 1, 1, 1][:3]
            rows.append((*places[:3], begin, *sizes[1:]))
            begin += prod(sizes)
        return np.array(rows, np.int64)

    @cached_property
    def _places(self) -> list[list[tuple[int, IntArray]]]:
        """Per shared table its terms, each with its own cell for every cell of the table."""
        out = []
        for functions, numbers in self.shared:
            groups = np.indices([self._sizes[k] for k in functions]).reshape(len(functions), -1)
            cells = dict(zip(functions, groups, strict=True))
            cells[ALONE] = np.zeros(groups.shape[1], np.int64)
            own = list[tuple[int, IntArray]]()
            for number in numbers:
                first, second = (ALONE, ALONE) if number == 0 else self.terms[number - 1]
                width = 1 if second == ALONE else self._sizes[second]
                own.append((number, width * cells[first] + cells[second]))
            out.append(own)
        return out

    @cached_property
    def n_cells(self) -> int:
        """Cells of all shared tables."""
        return sum(prod(self._sizes[k] for k in functions) for functions, _ in self.shared)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Channels of each term, the constant's first."""
        outputs = [len(curve.values[0]) for curve in self.functions]
        return (1, *(outputs[a] * (1 if b == ALONE else outputs[b]) for a, b in self.terms))

    @cached_property
    def channels(self) -> int:
        return sum(self.widths)

    @cached_property
    def squares(self) -> FloatArray:
        """(n_cells,) the squared norm of each cell's integers."""
        return self.spread([(table**2).sum(axis=1).astype(np.float64) for table in self.tables])

    def values(self, coefficients: Sequence[float] | FloatArray) -> list[FloatArray]:
        """(cells,) per term: its integers weighted and summed, channel after channel."""
        parts = np.split(np.asarray(coefficients, np.float64), np.cumsum(self.widths)[:-1])
        out = [np.zeros(len(table)) for table in self.tables]
        for total, table, part in zip(out, self.tables, parts, strict=True):
            for column, coefficient in zip(table.T, part, strict=True):
                total += coefficient * column
        return out

    def spread(self, values: Sequence[FloatArray]) -> FloatArray:
        """(n_cells,) the sum of the terms' values in each cell, one term after the other."""
        return np.concatenate(
            [sum(values[number][cells] for number, cells in own) for own in self._places]
        )

    def gather(self, totals: IntArray) -> IntArray:
        """(d,) sums of a multiple of the integers, from the sums of the multiple by cell."""
        out = [np.zeros(len(table), np.int64) for table in self.tables]
        ends = np.cumsum([len(own[0][1]) for own in self._places])
        for part, own in zip(np.split(totals, ends[:-1]), self._places, strict=True):
            for number, cells in own:
                np.add.at(out[number], cells, part)
        return np.concatenate([a @ table for a, table in zip(out, self.tables, strict=True)])

    @cached_property
    def _distinct(self) -> list[tuple[FloatArray, Codes]]:
        """Per function, the values of its groups, and the group of each cell."""
        out = list[tuple[FloatArray, Codes]]()
        for k, curve in enumerate(self.functions):
            values, cells = np.array(curve.values), np.arange(len(curve.values))
            if k in self.grouped:
                values, cells = np.unique(values, axis=0, return_inverse=True)
            groups = np.zeros(N_CODES, np.uint8)  # cells beyond the grid hold no record
            groups[: len(curve.values)] = cells.reshape(-1)
            out.append((values, groups))
        return out

    __getstate__ = without_caches


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
