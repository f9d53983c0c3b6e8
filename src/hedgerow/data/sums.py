"""From rows to integers: what a site computes for each query, before noise.

Each record's contribution is truncated to an integer, checked against the bound that the statistic
declares, and summed in int64, so the bound holds exactly. Counts need no check: a record has one
label and adds 1 to one cell of each group, as declared.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import astuple
from functools import cached_property
from itertools import groupby
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.data.rows import Rows
from hedgerow.errors import UnsupportedQuery
from hedgerow.kernels.codes import recode
from hedgerow.kernels.newton import add_newton_vectors, scaled_rows
from hedgerow.kernels.sums import RowSelections, count_cells, sum_cells
from hedgerow.kernels.surfaces import add_at_places, bounded_multiples, look_up, surface_step
from hedgerow.kernels.trees import (
    add_values,
    boosting_sums,
    count_sides,
    leaf_counts,
    leaf_sums,
    next_nodes,
    sum_sides,
)
from hedgerow.kernels.units import (
    bounded_units,
    loss_contributions,
    numbers_of,
    zero_exceeding,
)
from hedgerow.models.layers import Layer
from hedgerow.models.model import Additive
from hedgerow.models.packing import PackedTrees, pack
from hedgerow.models.surfaces import Basis
from hedgerow.privacy.queries import (
    LATTICE,
    Binning,
    BoundQuery,
    Cells,
    ClassCounts,
    CurveNewton,
    Gradients,
    Groups,
    LabelReports,
    Leaves,
    Score,
    Selecting,
    Sides,
    Statistic,
    Summed,
    SumQuery,
    SurfaceGradients,
    Whole,
)
from hedgerow.schema.arrays import N_CODES, Codes, FloatArray, GroupCodes, Int32, IntArray
from hedgerow.schema.candidates import Grids
from hedgerow.schema.regions import Region
from hedgerow.schema.schema import Schema

# Newton vectors, summed record by record.

NEWTON_ENTRIES = 2**17  # entries that a Newton sum holds at once: a megabyte


def newton_sum(
    statistic: CurveNewton, codes: Codes, y: FloatArray, rows: Int32 | None, unit: int
) -> IntArray:
    """(C,) the sum of (g z, c h upper(z z^T)) in units, with z divided by the radius.

    Each record's vector is long and is added as soon as it is computed.
    """
    features = np.array([curve.feature for curve in statistic.curves], np.intp)
    tables = np.array([curve.table[:, 0] for curve in statistic.curves])
    weights, radius = np.asarray(statistic.weights), statistic.radius
    total, most = np.zeros(statistic.channels, np.int64), most_squared(statistic, unit)
    for part in _parts(len(y), rows, NEWTON_ENTRIES // statistic.dimension):
        cells = codes[:, part][features]
        z, score = scaled_rows(tables, cells, statistic.constant, radius, weights)
        with np.errstate(all="ignore"):  # non-finite values contribute 0
            raw = statistic.base + radius * score
            gh = loss_contributions(statistic.loss, raw[:, None], y[part]) * unit
        add_newton_vectors(z, gh[:, 0], gh[:, 1], most, total)
    return total


SURFACE_ROWS = 2**14
"""Of records whose places in the tables of terms are held at once."""


def surface_sum(
    statistic: SurfaceGradients,
    codes: Codes,
    raw: FloatArray,
    y: FloatArray,
    rows: Int32 | None,
    unit: int,
    norms: FloatArray | None = None,
) -> IntArray:
    """(C,) the sum of each record's multiples of its basis functions, through lookup tables.

    `raw` (n, O) are the model's scores, to which curves and surfaces are added; `norms` (n,), if
    they are known, those of `basis_norms`.
    """
    basis, units = statistic.basis, statistic.units(unit)
    outputs = np.reshape(statistic.coefficients, (statistic.loss.outputs, -1))
    tables = [basis.spread(basis.values(own)) for own in outputs]
    loss = numbers_of(statistic.loss) if type(statistic) is SurfaceGradients else None
    if rows is None and loss is not None:
        norms = basis_norms(basis, codes) if norms is None else norms
        cells, bounds = cells_within(basis, codes), (statistic.clip, units, statistic.radius)
        step = surface_step(basis, cells, tables[0], norms, (raw, loss, y), bounds)
        if step is not None:
            return basis.gather(step)
    totals = np.zeros((len(tables), basis.n_cells), np.int64)
    for part in _parts(len(y), rows, SURFACE_ROWS):
        groups = basis_rows(basis, codes[:, part])
        norm = look_up(groups, basis.layout, basis.squares) if norms is None else norms[part]
        score = np.stack([look_up(groups, basis.layout, table) for table in tables], axis=1)
        with np.errstate(all="ignore"):  # non-finite values contribute 0
            vectors = loss_contributions(statistic.loss, raw[part] + score, y[part])
            gradients = statistic.gradients(vectors)
        multiples = bounded_multiples(gradients, norm, units, statistic.radius)
        for own, total in zip(multiples.T, totals, strict=True):
            add_at_places(groups, basis.layout, own, total)
    return np.concatenate([basis.gather(total) for total in totals])


def basis_norms(basis: Basis, codes: Codes) -> FloatArray:
    """(n,) the squared norm of each record's basis functions."""
    out = np.empty(codes.shape[1])
    for part in _parts(len(out), None, SURFACE_ROWS):
        out[part] = look_up(basis_rows(basis, codes[:, part]), basis.layout, basis.squares)
    return out


def basis_rows(basis: Basis, cells: Codes) -> Codes:
    """(R, n) the rows that `Basis.layout` numbers."""
    grouped = [basis.functions[k].feature for k in basis.grouped]
    groups = recode(cells[[*grouped, 0]], basis.groups[[*basis.grouped, -1]])
    return np.concatenate([groups, cells_within(basis, cells)])


def cells_within(basis: Basis, cells: Codes) -> Codes:
    """The cells, of which none is beyond its function's."""
    last = np.full(len(cells), N_CODES - 1, np.uint8)
    for curve in basis.functions:
        last[curve.feature] = len(curve.values) - 1
    is_within = (cells.max(axis=1, initial=0) <= last).all()
    return cells if is_within else np.minimum(cells, last[:, None])


def most_squared(statistic: CurveNewton, unit: int) -> int:
    """The largest squared norm that implies the whole bound: Linf <= L2, L1 <= sqrt(C) L2."""
    bound = statistic.bound(unit)
    return min(bound.l2_squared, bound.linf**2, bound.l1**2 // statistic.channels)


def _parts(n: int, rows: Int32 | None, size: int) -> Iterator[slice | Int32]:
    """Chunks of all rows, or of the selected ones."""
    for lo in range(0, n if rows is None else len(rows), max(size, 1)):
        chunk = slice(lo, lo + max(size, 1))
        yield chunk if rows is None else rows[chunk]


# Tables of a region's records per cell, for split scores.


def tables_of(query: Selecting, rows: Rows, features: Sequence[int]) -> IntArray:
    """(f, B, C) class counts, or n, sum y and sum y^2 of the target in units, per cell."""
    index, cells = rows.select(query.region), max(rows.schema.grids[f].n_cells for f in features)
    if is_of_target(query):
        u = np.rint(np.nan_to_num(rows.unit_target[index]) * LATTICE).astype(np.int64)
        moments = np.stack([np.ones_like(u), u, u * u], axis=1)
        codes = rows.codes[np.asarray(features)[:, None], index]
        (tables,) = sum_cells(codes, None, np.arange(len(features)), moments, cells)
    elif query.scoring.score is Score.BALANCE:  # needs no target
        one_class = np.zeros(rows.n, np.uint8)
        (tables,) = count_cells(rows.codes, [index], features, one_class, cells, 1)
    elif rows.labels is not None:
        classes = rows.n_classes
        (tables,) = count_cells(rows.codes, [index], features, rows.labels, cells, classes)
    else:
        raise UnsupportedQuery("class scores were asked of rows without classes.")
    return np.asarray(tables)


def is_of_target(query: Selecting) -> bool:
    """Whether the tables hold n, sum y and sum y^2 instead of class counts."""
    return query.scoring.score is Score.SQUARED_ERROR


MOST_RECODED_BYTES = 1 << 27
"""Of codes that are kept a second time as bins; the sums of more are merged instead."""
MOST_RECODED_FOR_ALL = 1 << 24
"""The same where one pass sums all rows: bins cost more there than they save."""


UnitOf = Callable[[Summed], int]
"""The unit in which a query is answered."""


class Sums(ABC):
    """Sums a site's rows: as a whole, in blocks or parts, or in an engine."""

    @abstractmethod
    def integers_of_all(self, queries: Sequence[Summed], unit_of: UnitOf) -> list[IntArray]:
        """The integers of each query of a round."""

    @abstractmethod
    def integers_of(self, query: SumQuery, contributions: IntArray) -> IntArray:
        """The query's integers from given contributions (n, C), such as randomized labels."""

    @abstractmethod
    def tables(self, query: Selecting, features: Sequence[int]) -> IntArray:
        """(f, B, C) the sums from which split scores are computed."""

    def integers(self, query: Summed, unit: int) -> IntArray:
        """The query's exact integers, flat, in units of 1 / `unit`."""
        return self.integers_of_all([query], lambda _: unit)[0]


class Answering(Sums):
    """Sums one site's rows in memory. All cached values can be recomputed."""

    def __init__(self, rows: Rows, schema: Schema) -> None:
        self.rows = rows
        self.schema = schema
        self._recoded_bins: tuple[str, Codes] | None = None
        self._raw: tuple[Additive, FloatArray] | None = None
        self._norms: tuple[Basis, FloatArray] | None = None
        self._candidates: Grids | None = None
        self._contributions: tuple[Statistic, int, IntArray] | None = None
        self._standing: dict[tuple[Region, str], Int32] = {}

    def integers_of_all(self, queries: Sequence[Summed], unit_of: UnitOf) -> list[IntArray]:
        """The integers of each query; the histograms of a tree level share one pass.

        Only queries with the same unit are combined.
        """
        sums = list[IntArray]()
        queries_in_units = [(query, unit_of(query)) for query in queries]
        for (kind, unit), group in groupby(
            queries_in_units, key=lambda pair: (_kind(pair[0]), pair[1])
        ):
            same = [query for query, _ in group]
            if kind:
                sums += self._level(*kind, same, unit)
                continue
            for query in same:
                sums.append(self.integers(query, unit))
        return sums

    def integers(self, query: Summed, unit: int) -> IntArray:
        if isinstance(query, BoundQuery):
            return self._bounds(query, unit)
        rows = self.rows.select(query.region) if query.region else None
        if isinstance(query.statistic, CurveNewton) and isinstance(query.by, Whole):
            sums = newton_sum(query.statistic, self.rows.codes, self.y, rows, unit)
        elif isinstance(query.statistic, SurfaceGradients) and isinstance(query.by, Whole):
            raw = self.raw(query.statistic.at)
            norms = self._norms_of(query.statistic.basis)
            sums = surface_sum(query.statistic, self.rows.codes, raw, self.y, rows, unit, norms)
        elif isinstance(query.by, Leaves):
            sums = self._leaf_sums(query.by, query.statistic, rows, unit)
        elif isinstance(query.by, Sides):
            sums = self._side_sums(query.by, query.statistic, query.region, unit)
        else:
            nodes = None if rows is None else [rows]
            (sums,) = self._cell_sums(query.statistic, query.by, nodes, unit)
        return _in_shape(sums, query)

    def integers_of(self, query: SumQuery, contributions: IntArray) -> IntArray:
        bounded_contributions = zero_exceeding(contributions, query.statistic.bound(1))
        self._contributions = (query.statistic, 1, bounded_contributions)
        return self.integers(query, 1)

    def _level(
        self, statistic: Statistic, by: Cells, queries: Sequence[Summed], unit: int
    ) -> list[IntArray]:
        """Histograms with the same statistic and grouping, each in its own region."""
        level_sums, regions = list[IntArray](), [query.region for query in queries]
        for nodes in self._batches(regions) if any(regions) else [None] * len(regions):
            level_sums.extend(self._cell_sums(statistic, by, nodes, unit))
        return [_in_shape(sums, query) for sums, query in zip(level_sums, queries, strict=True)]

    def _batches(self, regions: Sequence[Region]) -> Iterator[list[Int32]]:
        """Rows of the regions, in batches of at most n rows, to limit memory."""
        batch, size = list[Int32](), 0
        for region in regions:
            rows = self.rows.select(region)
            if batch and size + len(rows) > self.rows.n:
                yield batch
                batch, size = [], 0
            batch.append(rows)
            size += len(rows)
        yield batch

    def _cell_sums(
        self, statistic: Statistic, by: Groups, nodes: RowSelections, unit: int
    ) -> IntArray:
        """(N, G, B, C) one histogram per selection of rows."""
        most = MOST_RECODED_BYTES if nodes is not None else MOST_RECODED_FOR_ALL
        if isinstance(by, Cells) and self.rows.codes.nbytes > most:
            cells = Cells(by.features, Binning.of_cells(self.schema))
            if by.binning.bins != cells.binning.bins:
                return merge_cells(self._cell_sums(statistic, cells, nodes, unit), by)
        features, codes = by.cells(self)
        if self._is_counted(statistic):
            labels = statistic.channel(self)
            return count_cells(codes, nodes, features, labels, by.n_cells, statistic.channels)
        parts = self.contributions(statistic, unit)
        return sum_cells(codes, nodes, features, parts, by.n_cells)

    def _leaf_sums(
        self, by: Leaves, statistic: Statistic, rows: Int32 | None, unit: int
    ) -> IntArray:
        """Routes and sums in one pass over the rows."""
        trees, codes = pack(by.trees), self.rows.codes
        if rows is None and isinstance(statistic, Gradients):
            in_one_pass = self._boosting_sums(statistic, trees, unit)
            if in_one_pass is not None:
                return in_one_pass
        if self._is_counted(statistic):
            return leaf_counts(trees, codes, statistic.channel(self), statistic.channels, rows)
        return leaf_sums(trees, codes, self.contributions(statistic, unit), rows)

    def _boosting_sums(
        self, statistic: Gradients, trees: PackedTrees, unit: int
    ) -> IntArray | None:
        """A round of boosting: advances the scores, and sums there, in one pass, if it can."""
        loss, model, self._norms = numbers_of(statistic.loss), statistic.at, None
        if loss is None:
            return None
        scored_model, raw = self._raw or (None, None)
        n_scored = trees_in_common(scored_model, model)
        added = pack(model.trees[n_scored:]) if n_scored and n_scored < len(model.trees) else None
        if added is None or raw is None:
            added, raw = None, self.raw(model)
        bounds = unit, *astuple(statistic.bound(unit))
        scores = raw, loss, self.y
        sums = boosting_sums(added, trees, self.rows.codes, model.clip, scores, bounds)
        if sums is not None:
            self._raw = (model, raw)
        return sums

    def _norms_of(self, basis: Basis) -> FloatArray:
        """Computed once for all rounds with one basis."""
        if self._norms is None or self._norms[0] != basis:
            self._norms = None  # the earlier ones are freed first
            self._norms = basis, basis_norms(basis, self.rows.codes)
        return self._norms[1]

    def _side_sums(self, by: Sides, statistic: Statistic, region: Region, unit: int) -> IntArray:
        standing, codes = self.standing(by.layer, region), self.rows.codes
        if self._is_counted(statistic):
            labels = statistic.channel(self)
            return count_sides(by.tests, standing, codes, labels, statistic.channels)
        return sum_sides(by.tests, standing, codes, self.contributions(statistic, unit))

    def _is_counted(self, statistic: Statistic) -> bool:
        """Whether the statistic counts rows; randomized label reports are not read from rows."""
        return not statistic.is_fractional and not isinstance(statistic, LabelReports)

    def contributions(self, statistic: Statistic, unit: int) -> IntArray:
        """(n, C) integers of each record, within the bound that the statistic declares."""
        cache = self._contributions
        if cache is None or cache[0] is not statistic or cache[1] != unit:
            values = statistic.fractions(self, unit)
            cache = (statistic, unit, bounded_units(values, unit, statistic.bound(unit)))
            self._contributions = cache
        return cache[2]

    def standing(self, layer: Layer, region: Region) -> Int32:
        """(n,) the open node of each row, -1 for none; one step from the layer above.

        Each layer replaces the one above it.
        """
        key = (region, layer.digest)
        if key not in self._standing:
            if layer.above is None:
                root = np.full(self.rows.n, -1, np.int32)
                root[self.rows.select(region)] = 0
                self._standing[key] = root
            else:
                above = self.standing(layer.above, region)
                self._standing[key] = next_nodes(layer, above, self.rows.codes)
                if layer.above.above is not None:
                    del self._standing[region, layer.above.digest]
        return self._standing[key]

    @property
    def n(self) -> int:
        return self.rows.n

    @property
    def classes(self) -> Codes:
        if self.rows.labels is None:
            raise UnsupportedQuery("class counts were asked of rows without classes.")
        return self.rows.labels

    @property
    def target(self) -> FloatArray:
        return self.rows.target

    @cached_property
    def y(self) -> FloatArray:
        labels = self.rows.labels
        return self.rows.target if labels is None else labels.astype(np.float64)

    def target_codes(self, edges: Sequence[float]) -> GroupCodes:
        return self.rows.target_codes(edges)

    def bins(self, binning: Binning) -> Codes:
        if self._recoded_bins is None or self._recoded_bins[0] != binning.digest:
            identity = all(b == tuple(range(len(b))) for b in binning.bins)
            codes = self.rows.codes if identity else recode(self.rows.codes, binning.luts)
            self._recoded_bins = (binning.digest, codes)
        return self._recoded_bins[1]

    def raw(self, model: Additive) -> FloatArray:
        """(n, O) raw predictions; only trees added since the last model are evaluated."""
        if self._raw is not None:
            scored_model, raw = self._raw
            n_scored = trees_in_common(scored_model, model)
            if n_scored is not None:
                self._raw = (model, self._add_trees(model, raw, n_scored))
                return raw
        self._raw = self._recoded_bins = None  # freed before as much is needed again
        self._raw = (model, self._add_trees(model, model.start(self.rows.codes), 0))
        return self._raw[1]

    def _add_trees(self, model: Additive, raw: FloatArray, n_known: int) -> FloatArray:
        """The trees of `Additive.raw` by a compiled kernel, with the same bits."""
        if len(model.trees) == n_known:
            return raw
        new = pack(model.trees[n_known:]) if n_known else model.packed
        return add_values(new, self.rows.codes, raw, model.clip)

    def resume(self, model: Additive, raw: FloatArray) -> None:
        """Continues from the raw scores of an earlier model, which are updated in place."""
        self._raw = (model, raw)

    def release(self) -> None:
        """Frees what takes more memory than scores and selections; it is recomputed on demand."""
        self._recoded_bins = self._contributions = self._norms = None

    def _bounds(self, query: BoundQuery, unit: int) -> IntArray:
        rows = self.rows.select(query.region) if query.region else None
        nodes = None if rows is None else [rows]
        count_query = counts_for(query, self.schema)
        (counts,) = self._cell_sums(count_query.statistic, count_query.by, nodes, 1)
        return best_impurities(query, counts, self._grids(query.binning), unit)

    def _grids(self, binning: Binning) -> Grids:
        if self._candidates is None or self._candidates.binning is not binning:
            self._candidates = Grids(self.schema, binning)
        return self._candidates

    def tables(self, query: Selecting, features: Sequence[int]) -> IntArray:
        """(f, B, C) the sums from which split scores are computed."""
        return tables_of(query, self.rows, features)


def trees_in_common(scored_model: Additive | None, model: Additive) -> int | None:
    """The number of trees already in the raw scores; None if `scored_model` is no prefix."""
    if scored_model is None or scored_model.clip != model.clip:
        return None
    if (scored_model.base, scored_model.curves) != (model.base, model.curves):
        return None
    n = len(scored_model.trees)
    return n if model.trees[:n] == scored_model.trees else None


def merge_cells(sums: IntArray, by: Cells) -> IntArray:
    """(N, G, cells, C) -> (N, G, B, C): adds the cells of each bin."""
    out = np.zeros((*sums.shape[:2], by.n_cells, sums.shape[3]), np.int64)
    for group, feature in enumerate(by.features):
        for cell, place in enumerate(by.binning.bins[feature]):
            out[:, group, place] += sums[:, group, cell]
    return out


def counts_for(query: BoundQuery, schema: Schema) -> SumQuery:
    """The class counts from which a bound is computed."""
    by = Cells(query.features, query.binning)
    return SumQuery(query.region, ClassCounts(len(schema.classes or ())), by, query.fraction)


def best_impurities(query: BoundQuery, counts: IntArray, grids: Grids, unit: int) -> IntArray:
    """floor(unit n (1 - sum p^2) / 2) of each child, the smallest sum over all candidates."""
    best = np.zeros(len(query.features), np.int64)
    for family in grids.families(query.features):
        left_sets = family.left_sets.astype(np.int64)
        histograms = counts[family.positions, : left_sets.shape[1]]
        left = left_sets @ histograms
        right = histograms.sum(axis=1)[:, None, :] - left
        units = half_gini_units(left, unit) + half_gini_units(right, unit)
        best[family.positions] = units.min(axis=1)
    return best


def _kind(query: Summed) -> tuple[Statistic, Cells] | None:
    """The key by which histograms are counted together; None for other queries."""
    if isinstance(query, SumQuery) and isinstance(query.by, Cells):
        return query.statistic, query.by
    return None


def _in_shape(sums: IntArray, query: Summed) -> IntArray:
    """Checks the shape and flattens, so that each noise value has its own sum."""
    if sums.size != prod(query.shape):
        raise UnsupportedQuery(f"{sums.size} sums were made for a query of {query.shape}.")
    return sums.reshape(-1)


def half_gini_units(counts: IntArray, unit: int = LATTICE) -> IntArray:
    """(..., C) counts -> floor(unit (n^2 - sum c^2) / (2 n)), exactly."""
    c = _wide(counts, unit)
    n = c.sum(axis=-1)
    return np.asarray(unit * (n * n - (c * c).sum(axis=-1)) // (2 * np.maximum(n, 1)), np.int64)


def _wide(counts: IntArray, unit: int) -> NDArray[Any]:
    """Python integers where unit n^2 would overflow int64."""
    n = int(counts.sum(axis=-1).max(initial=0))
    return counts.astype(object) if unit * n * n >= 1 << 62 else counts
