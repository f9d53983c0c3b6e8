"""From rows to integers: what a site computes for each query. No noise and no charge here.

Each record's contribution is made an integer on its own (truncated toward zero), then summed
in int64, so the declared bounds hold exactly. A value that is not finite counts as 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import UnsupportedQuery
from hedgerow.kernels import dispatch as kernels
from hedgerow.kernels import layers
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
from hedgerow.site.rows import Rows
from hedgerow.values.arrays import Codes, FloatArray, IntArray
from hedgerow.values.candidates import Grids
from hedgerow.values.layers import Layer
from hedgerow.values.losses import LogLoss
from hedgerow.values.models import Additive
from hedgerow.values.regions import Region
from hedgerow.values.schema import Schema
from hedgerow.values.trees import pack

NEWTON_CHUNK = 8192  # records whose Newton vectors are held at once


class Answering:
    """One site's rows, ready to be summed. Caches are values recomputed, never a protocol."""

    def __init__(self, rows: Rows, schema: Schema) -> None:
        self.rows = rows
        self.schema = schema
        self._recoded: tuple[str, Codes] | None = None
        self._raw: tuple[Additive, FloatArray] | None = None
        self._candidates: Grids | None = None
        self._contributions: tuple[Statistic, int, IntArray] | None = None
        self._standing: dict[tuple[Region, str], NDArray[np.int32]] = {}

    def integers(self, query: Summed, unit: int) -> IntArray:
        """The query's exact integers, flat; 1.0 is `unit` of them."""
        if isinstance(query, BoundQuery):
            return self._bounds(query, unit)
        return self._sums(query, unit).reshape(-1)

    def integers_of(self, query: SumQuery, contributions: IntArray) -> IntArray:
        """The query's integers from contributions (n, C) that the rows alone do not decide."""
        self._contributions = (query.statistic, 1, contributions)
        return self.integers(query, 1)

    # ----------------------------------------------------------------------------------- sums
    def _sums(self, query: SumQuery, unit: int) -> IntArray:
        rows = self.rows.select(query.region) if query.region else None
        if isinstance(query.by, Leaves):
            return self._leaf_sums(query.by, query.statistic, rows, unit)
        if isinstance(query.by, Sides):
            return self._side_sums(query.by, query.statistic, query.region, unit)
        if isinstance(query.statistic, CurveNewton) and isinstance(query.by, Whole):
            return self._newton_sum(query.statistic, rows, unit)[None, None, :]
        codes = self._groups(query.by)
        shape = query.shape
        if codes is None:
            features = np.zeros(1, np.int64)
            codes = np.zeros((1, self.rows.n), np.uint8)
        elif isinstance(query.by, Cells):
            features = np.asarray(query.by.features, np.int64)
        else:
            features = np.arange(len(codes), dtype=np.int64)
        labels = self._labels(query.statistic)
        if labels is not None:
            return kernels.count_cells(codes, rows, features, labels, shape[1], shape[2])
        return kernels.sum_cells(
            codes, rows, features, self.contributions(query.statistic, unit), shape[1]
        )

    def _leaf_sums(
        self, by: Leaves, statistic: Statistic, rows: NDArray[np.int32] | None, unit: int
    ) -> IntArray:
        """Routing and summing in one pass over the rows."""
        trees, labels = pack(by.trees), self._labels(statistic)
        if labels is not None:
            return kernels.leaf_counts(trees, self.rows.codes, labels, statistic.channels, rows)
        return kernels.leaf_sums(trees, self.rows.codes, self.contributions(statistic, unit), rows)

    def _side_sums(self, by: Sides, statistic: Statistic, region: Region, unit: int) -> IntArray:
        standing, labels = self.standing(by.layer, region), self._labels(statistic)
        codes = self.rows.codes
        if labels is not None:
            return layers.count_sides(by.tests, standing, codes, labels, statistic.channels)
        return layers.sum_sides(by.tests, standing, codes, self.contributions(statistic, unit))

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
                self._standing[key] = layers.next_nodes(layer, above, self.rows.codes)
                if layer.above.above is not None:
                    del self._standing[region, layer.above.digest]
        return self._standing[key]

    def _at_the_root(self, region: Region) -> NDArray[np.int32]:
        if not region:
            return np.zeros(self.rows.n, np.int32)
        out = np.full(self.rows.n, -1, np.int32)
        out[self.rows.select(region)] = 0
        return out

    def _newton_sum(
        self, statistic: CurveNewton, rows: NDArray[np.int32] | None, unit: int
    ) -> IntArray:
        """(C,) chunk by chunk: a record's vector is long, and only the sum is kept."""
        total = np.zeros(statistic.channels, np.int64)
        index = np.arange(self.rows.n) if rows is None else rows
        y = self._y()
        for start in range(0, len(index), NEWTON_CHUNK):
            part = index[start : start + NEWTON_CHUNK]
            values = _curve_newton(self.rows.codes[:, part], y[part], statistic)
            total += quantised(values, unit).sum(axis=0)
        return total

    def _groups(self, by: Groups) -> NDArray[np.uint8] | NDArray[np.uint16] | None:
        match by:
            case Whole():
                return None
            case Cells():
                return self._bins(by.binning)
            case TargetCells():
                return self.rows.target_codes(by.edges)[None, :]
            case ResidualCells():
                residual = np.abs(self.rows.target - self.raw(by.at)[:, 0])
                cells = np.searchsorted(np.asarray(by.edges), residual, side="right")
                return cells.astype(np.uint16)[None, :]
        raise UnsupportedQuery(f"rows cannot be grouped by {type(by).__name__}.")

    def _bins(self, binning: Binning) -> Codes:
        if self._recoded is None or self._recoded[0] != binning.digest:
            identity = all(b == tuple(range(len(b))) for b in binning.bins)
            codes = self.rows.codes if identity else kernels.recode(self.rows.codes, binning.luts)
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
    def contributions(self, statistic: Statistic, unit: int) -> IntArray:
        """(n, C) integers of each record."""
        kept = self._contributions
        if kept is None or kept[0] is not statistic or kept[1] != unit:
            values = self._real_contributions(statistic, unit)
            kept = self._contributions = (statistic, unit, quantised(values, unit))
        return kept[2]

    def _real_contributions(self, statistic: Statistic, unit: int) -> FloatArray:
        match statistic:
            case Fractions():
                return _fractions(self.rows.target, statistic, unit)
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
        return kernels.add_values(model.trees[done:], self.rows.codes, raw, model.clip)

    # --------------------------------------------------------------------------------- bounds
    def _bounds(self, query: BoundQuery, unit: int) -> IntArray:
        """floor(unit n (1 - sum p^2) / 2) of each child, smallest sum over the candidates."""
        rows = self.rows.select(query.region) if query.region else None
        codes, grids = self._bins(query.binning), self._grids(query.binning)
        n_bins = max(query.binning.n_bins[f] for f in query.features)
        classes = len(self.schema.classes or ())
        features = np.asarray(query.features, np.int64)
        counts = kernels.count_cells(codes, rows, features, self._classes(), n_bins, classes)
        best = np.zeros(len(features), np.int64)
        for family in grids.families(query.features):
            left_sets = family.left_sets.astype(np.int64)
            histograms = counts[family.positions, : left_sets.shape[1]]
            left = left_sets @ histograms
            right = histograms.sum(axis=1)[:, None, :] - left
            units = half_gini_units(left, unit) + half_gini_units(right, unit)
            best[family.positions] = units.min(axis=1)
        return best

    def _grids(self, binning: Binning) -> Grids:
        if self._candidates is None or self._candidates.binning is not binning:
            self._candidates = Grids(self.schema, binning)
        return self._candidates


def half_gini_units(counts: IntArray, unit: int = LATTICE) -> IntArray:
    """(..., C) counts -> floor(unit (n^2 - sum c^2) / (2 n)), exactly."""
    c = _wide(counts)
    n = c.sum(axis=-1)
    return np.asarray(unit * (n * n - (c * c).sum(axis=-1)) // (2 * np.maximum(n, 1)), np.int64)


def _wide(counts: IntArray) -> NDArray[Any]:
    """Python integers where LATTICE n^2 would leave int64."""
    return counts.astype(object) if int(counts.sum(axis=-1).max(initial=0)) >= 1 << 23 else counts


def quantised(values: FloatArray, unit: int) -> IntArray:
    """Each record truncated toward zero, so that no norm grows; not finite counts as 0."""
    finite = np.where(np.isfinite(values), values, 0.0)
    return np.asarray(np.trunc(finite * unit), np.int64)


def _fractions(target: FloatArray, statistic: Fractions, unit: int) -> FloatArray:
    u = (np.clip(target, statistic.low, statistic.high) - statistic.low) / (
        statistic.high - statistic.low
    )
    part = np.rint(np.nan_to_num(u) * unit)
    return np.stack([unit - part, part], axis=1) / unit


def _curve_newton(codes: Codes, y: FloatArray, statistic: CurveNewton) -> FloatArray:
    """(n, C) of (g z, c h upper(z z^T) / R) / R."""
    columns = [curve.at(codes)[:, 0] for curve in statistic.curves]
    z = np.stack([*columns, np.full(len(y), statistic.constant)], axis=1)
    norm = np.sqrt((z * z).sum(axis=1, keepdims=True))
    z = z * np.minimum(1.0, statistic.radius / np.maximum(norm, 1e-12)) / statistic.radius
    raw = statistic.base + statistic.radius * (z @ np.asarray(statistic.weights))
    gh = LogLoss().contributions(raw[:, None], y)
    upper = np.triu_indices(z.shape[1])
    outer = z[:, upper[0]] * z[:, upper[1]]
    return np.concatenate([gh[:, :1] * z, gh[:, 1:] * outer], axis=1)
