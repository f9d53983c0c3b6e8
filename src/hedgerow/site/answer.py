"""From rows to integers: what a site computes for each query. No noise and no charge here.

Each record's contribution is made an integer on its own (truncated toward zero), held against the
bound that the statistic declares, then summed in int64: so the bound holds exactly, whatever the
query says about itself. Counts need no such check. A record has one label, which is one channel, so
it adds 1 to one cell of every group, and 1 is what they declare.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import UnsupportedQuery
from hedgerow.kernels.encoding import recode
from hedgerow.kernels.layers import count_sides, next_nodes, sum_sides
from hedgerow.kernels.loops import GroupCodes
from hedgerow.kernels.sums import Selections, count_cells, sum_cells
from hedgerow.kernels.trees import add_values, leaf_counts, leaf_sums
from hedgerow.kernels.units import bounded_units, clamped
from hedgerow.queries import (
    LATTICE,
    Binning,
    BoundQuery,
    Cells,
    ClassCounts,
    Count,
    CurveNewton,
    Fractions,
    Gradients,
    Groups,
    Hessians,
    Leaves,
    ResidualCells,
    Sides,
    Statistic,
    Summed,
    SumQuery,
    TargetCells,
    TargetClassCounts,
    Whole,
)
from hedgerow.site.contributions import fractions_of, newton_sum
from hedgerow.site.rows import Rows
from hedgerow.values.arrays import Codes, FloatArray, IntArray
from hedgerow.values.candidates import Grids
from hedgerow.values.layers import Layer
from hedgerow.values.models import Additive
from hedgerow.values.regions import Region
from hedgerow.values.schema import Schema
from hedgerow.values.trees import pack


class Answering:
    """One site's rows, ready to be summed. Caches are values recomputed, never a protocol."""

    def __init__(self, rows: Rows, schema: Schema) -> None:
        self.rows = rows
        self.schema = schema
        self._recoded: tuple[str, Codes] | None = None
        self._raw: tuple[Additive, FloatArray] | None = None
        self._candidates: Grids | None = None
        self._contributions: tuple[Statistic, IntArray] | None = None
        self._standing: dict[tuple[Region, str], NDArray[np.int32]] = {}

    def integers_of_all(self, queries: Sequence[Summed]) -> list[IntArray]:
        """The integers of each query; the histograms of a tree's level take one pass together."""
        found = list[IntArray]()
        for kind, group in groupby(queries, key=_kind):
            same = list(group)
            found += self._level(*kind, same) if kind else [self.integers(q) for q in same]
        return found

    def integers(self, query: Summed) -> IntArray:
        """The query's exact integers, flat."""
        if isinstance(query, BoundQuery):
            return self._bounds(query)
        rows = self.rows.select(query.region) if query.region else None
        if isinstance(query.by, Leaves):
            sums = self._leaf_sums(query.by, query.statistic, rows)
        elif isinstance(query.by, Sides):
            sums = self._side_sums(query.by, query.statistic, query.region)
        elif isinstance(query.statistic, CurveNewton) and isinstance(query.by, Whole):
            sums = newton_sum(query.statistic, self.rows.codes, self._y(), rows)
        else:
            nodes = None if rows is None else [rows]
            (sums,) = self._cell_sums(query.statistic, query.by, nodes)
        return _in_shape(sums, query)

    def integers_of(self, query: SumQuery, contributions: IntArray) -> IntArray:
        """The query's integers from contributions (n, C) that the rows alone do not decide."""
        self._contributions = (query.statistic, clamped(contributions, query.statistic.bound))
        return self.integers(query)

    # ----------------------------------------------------------------------------------- sums
    def _level(self, statistic: Statistic, by: Cells, queries: Sequence[Summed]) -> list[IntArray]:
        """Histograms of one kind, each of its own region."""
        batches = self._batches([query.region for query in queries])
        found = [sums for nodes in batches for sums in self._cell_sums(statistic, by, nodes)]
        return [_in_shape(sums, query) for sums, query in zip(found, queries, strict=True)]

    def _batches(self, regions: Sequence[Region]) -> Iterator[list[NDArray[np.int32]]]:
        """The regions' rows, as many at once as are no more than there are: memory is for those."""
        batch, size = list[NDArray[np.int32]](), 0
        for region in regions:
            rows = self.rows.select(region)
            if batch and size + len(rows) > self.rows.n:
                yield batch
                batch, size = [], 0
            batch.append(rows)
            size += len(rows)
        yield batch

    def _cell_sums(self, statistic: Statistic, by: Groups, nodes: Selections) -> IntArray:
        """(N, G, B, C) for each selection of rows."""
        (features, codes), labels = self._groups(by), self._labels(statistic)
        if labels is not None:
            return count_cells(codes, nodes, features, labels, by.n_cells, statistic.channels)
        return sum_cells(codes, nodes, features, self.contributions(statistic), by.n_cells)

    def _leaf_sums(
        self, by: Leaves, statistic: Statistic, rows: NDArray[np.int32] | None
    ) -> IntArray:
        """Routing and summing in one pass over the rows."""
        trees, labels = pack(by.trees), self._labels(statistic)
        if labels is not None:
            return leaf_counts(trees, self.rows.codes, labels, statistic.channels, rows)
        return leaf_sums(trees, self.rows.codes, self.contributions(statistic), rows)

    def _side_sums(self, by: Sides, statistic: Statistic, region: Region) -> IntArray:
        standing, labels = self.standing(by.layer, region), self._labels(statistic)
        codes = self.rows.codes
        if labels is not None:
            return count_sides(by.tests, standing, codes, labels, statistic.channels)
        return sum_sides(by.tests, standing, codes, self.contributions(statistic))

    def standing(self, layer: Layer, region: Region) -> NDArray[np.int32]:
        """(n,) at which open node each row stands, -1 for none; one step from the layer above.

        A layer takes the place of the one above it: a tree is not asked about upwards.
        """
        key = (region, layer.digest)
        if key not in self._standing:
            if layer.above is None:
                self._standing[key] = self._at_the_root(region)
            else:
                above = self.standing(layer.above, region)
                self._standing[key] = next_nodes(layer, above, self.rows.codes)
                if layer.above.above is not None:
                    del self._standing[region, layer.above.digest]
        return self._standing[key]

    def _at_the_root(self, region: Region) -> NDArray[np.int32]:
        if not region:
            return np.zeros(self.rows.n, np.int32)
        out = np.full(self.rows.n, -1, np.int32)
        out[self.rows.select(region)] = 0
        return out

    def _groups(self, by: Groups) -> tuple[Sequence[int], GroupCodes]:
        """Cell numbers of all rows by group, and which of the groups are asked for."""
        match by:
            case Whole():
                return (0,), np.zeros((1, self.rows.n), np.uint8)
            case Cells():
                return by.features, self._bins(by.binning)
            case TargetCells():
                return (0,), self.rows.target_codes(by.edges)[None, :]
            case ResidualCells():
                residual = np.abs(self.rows.target - self.raw(by.at)[:, 0])
                cells = np.searchsorted(np.asarray(by.edges), residual, side="right")
                return (0,), cells.astype(np.uint16)[None, :]
        raise UnsupportedQuery(f"rows cannot be grouped by {type(by).__name__}.")

    def _bins(self, binning: Binning) -> Codes:
        if self._recoded is None or self._recoded[0] != binning.digest:
            identity = all(b == tuple(range(len(b))) for b in binning.bins)
            codes = self.rows.codes if identity else recode(self.rows.codes, binning.luts)
            self._recoded = (binning.digest, codes)
        return self._recoded[1]

    def _labels(self, statistic: Statistic) -> NDArray[np.uint8] | None:
        """One class per record, for statistics that count."""
        match statistic:
            case ClassCounts():
                return self._classes()
            case Count():
                return np.zeros(self.rows.n, np.uint8)
            case TargetClassCounts():
                return self.rows.target_codes(statistic.cuts).astype(np.uint8)
        return None

    def _classes(self) -> NDArray[np.uint8]:
        if self.rows.labels is None:
            raise UnsupportedQuery("class counts were asked of rows without classes.")
        return self.rows.labels

    # -------------------------------------------------------------------------- contributions
    def contributions(self, statistic: Statistic) -> IntArray:
        """(n, C) integers of each record."""
        if self._contributions is None or self._contributions[0] is not statistic:
            values = self._real_contributions(statistic)
            units = bounded_units(values, statistic.unit, statistic.bound)
            self._contributions = (statistic, units)
        return self._contributions[1]

    def _real_contributions(self, statistic: Statistic) -> FloatArray:
        match statistic:
            case Fractions():
                return fractions_of(self.rows.target, statistic)
            case Gradients():
                return statistic.loss.contributions(self.raw(statistic.at), self._y())
            case Hessians():
                return statistic.loss.hessians(self.raw(statistic.at), self._y())
        raise UnsupportedQuery(f"rows have no statistic {type(statistic).__name__}.")

    def _y(self) -> FloatArray:
        if self.rows.labels is not None:
            return self.rows.labels.astype(np.float64)
        return self.rows.target

    def raw(self, model: Additive) -> FloatArray:
        """(n, O) raw predictions; only trees that are new since the last model are walked."""
        if self._raw is not None:
            known, raw = self._raw
            done = len(known.trees)
            same_start = (known.base, known.curves) == (model.base, model.curves)
            if same_start and model.trees[:done] == known.trees:
                self._raw = (model, self._advanced(model, raw, done))
                return raw
        self._raw = (model, self._advanced(model, model.start(self.rows.codes), 0))
        return self._raw[1]

    def _advanced(self, model: Additive, raw: FloatArray, done: int) -> FloatArray:
        """`Additive.advance` by the kernel: the same bits, sooner."""
        if len(model.trees) == done:
            return raw
        new = pack(model.trees[done:]) if done else model.packed
        return add_values(new, self.rows.codes, raw, model.clip)

    # --------------------------------------------------------------------------------- bounds
    def _bounds(self, query: BoundQuery) -> IntArray:
        """floor(unit n (1 - sum p^2) / 2) of each child, smallest sum over the candidates."""
        rows = self.rows.select(query.region) if query.region else None
        codes, grids = self._bins(query.binning), self._grids(query.binning)
        n_bins = max(query.binning.n_bins[f] for f in query.features)
        classes = len(self.schema.classes or ())
        features = np.asarray(query.features, np.int64)
        nodes = None if rows is None else [rows]
        (counts,) = count_cells(codes, nodes, features, self._classes(), n_bins, classes)
        best = np.zeros(len(features), np.int64)
        for family in grids.families(query.features):
            left_sets = family.left_sets.astype(np.int64)
            histograms = counts[family.positions, : left_sets.shape[1]]
            left = left_sets @ histograms
            right = histograms.sum(axis=1)[:, None, :] - left
            units = half_gini_units(left, query.unit) + half_gini_units(right, query.unit)
            best[family.positions] = units.min(axis=1)
        return best

    def _grids(self, binning: Binning) -> Grids:
        if self._candidates is None or self._candidates.binning is not binning:
            self._candidates = Grids(self.schema, binning)
        return self._candidates


def _kind(query: Summed) -> tuple[Statistic, Cells] | None:
    """What histograms must share to be counted together; None for all that is no histogram."""
    if isinstance(query, SumQuery) and isinstance(query.by, Cells):
        return query.statistic, query.by
    return None


def _in_shape(sums: IntArray, query: Summed) -> IntArray:
    """Flat, one integer for each of the noise; a shorter vector would be stretched over it."""
    if sums.size != prod(query.shape):
        raise UnsupportedQuery(f"{sums.size} sums were made for a query of {query.shape}.")
    return sums.reshape(-1)


def half_gini_units(counts: IntArray, unit: int = LATTICE) -> IntArray:
    """(..., C) counts -> floor(unit (n^2 - sum c^2) / (2 n)), exactly."""
    c = _wide(counts, unit)
    n = c.sum(axis=-1)
    return np.asarray(unit * (n * n - (c * c).sum(axis=-1)) // (2 * np.maximum(n, 1)), np.int64)


def _wide(counts: IntArray, unit: int) -> NDArray[Any]:
    """Python integers where unit n^2 would leave int64."""
    n = int(counts.sum(axis=-1).max(initial=0))
    return counts.astype(object) if unit * n * n >= 1 << 62 else counts
