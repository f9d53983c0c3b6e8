"""Placement of candidate cuts: publicly declared, or from noisy counts (Maddock et al. 2022, 4.5).

Each method names the grid it needs and its budget fraction before `n_estimators` trees; its flow
returns the bins.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from hedgerow.methods.blocks import private_bins
from hedgerow.methods.blocks.flow import Flow, NoiseModel, ask
from hedgerow.methods.blocks.private_bins import quantile_runs
from hedgerow.methods.blocks.public_grids import fine_schema, finer_schema
from hedgerow.models.losses import Loss
from hedgerow.models.model import Additive
from hedgerow.privacy.queries import Binning, Cells, Count, QueryKinds, sums
from hedgerow.schema.schema import Feature, Numeric, Schema, Spacing


@dataclass(frozen=True)
class SplitContext:
    """Public context of a placement: columns, loss, starting model, number of trees.

    `histograms`: whether every tree asks for a table of all bins at its root.
    """

    schema: Schema
    loss: Loss
    start: Additive
    n_estimators: int
    trees_per_round: int = 1
    histograms: bool = False


class CutPoints:
    """Cuts on the fine grid that cost nothing; placements say where they differ."""

    asks: QueryKinds = frozenset()
    protects = True
    """False if it is only for runs without privacy."""

    def grid(self, schema: Schema) -> Schema:
        """The schema on the grid this method starts from."""
        return fine_schema(schema)

    def rounds_for(self, setting: SplitContext) -> int:
        """Rounds before the first tree."""
        return 0

    def fraction(self, setting: SplitContext) -> Fraction:
        return Fraction(0)

    def place(self, setting: SplitContext, noise_model: NoiseModel) -> Flow[Binning]:
        """The bins of the first trees."""
        yield from ()
        return Binning.of_cells(setting.schema)


@dataclass(frozen=True)
class DeclaredCuts(CutPoints):
    """Evenly spaced cuts over the public range or its logarithm, at no cost.

    Even cuts are x <= low + k (high - low) / (n_bins - 1) from k = 0 on, as in the paper: the first
    separates the lowest value, where skewed columns pile up, from all others.
    """

    n_bins: int = 32
    spacing: Spacing = Spacing.UNIFORM

    def grid(self, schema: Schema) -> Schema:
        if self.spacing is not Spacing.UNIFORM:
            return schema.with_grid(bins=self.n_bins, spacing=self.spacing)
        return replace(schema, features=tuple(self._space_evenly(f) for f in schema.features))

    def _space_evenly(self, feature: Feature) -> Feature:
        if not isinstance(feature, Numeric) or feature.edges is not None:
            return feature
        ends = np.linspace(feature.low, feature.high, self.n_bins)[:-1]
        # A cell holds its lower edge, so "x <= cut" is an edge just above the cut.
        edges = np.nextafter(ends, np.inf)
        return replace(feature, edges=tuple(np.unique(edges).tolist()))


@dataclass(frozen=True)
class MergedCuts(CutPoints):
    """Private bins: cells of a fine grid, merged by noisy mass; spikes stay alone."""

    asks = private_bins.ASKS

    def grid(self, schema: Schema) -> Schema:
        return finer_schema(schema)

    def rounds_for(self, setting: SplitContext) -> int:
        return 2 if private_bins.numeric_features(setting.schema) else 1

    def fraction(self, setting: SplitContext) -> Fraction:
        return private_bins.BINNING_FRACTION

    def place(self, setting: SplitContext, noise_model: NoiseModel) -> Flow[Binning]:
        record_count = yield from private_bins.count_records()
        return (yield from private_bins.bins_by_count(setting.schema, record_count))


@dataclass(frozen=True)
class QuantileCuts(CutPoints):
    """Bins of equal noisy mass over the fine grid; without noise, ordinary quantiles.

    `exact` is the paper's non-private comparison and runs only without protection.
    """

    n_bins: int = 32
    exact: bool = False
    asks = sums(Count, Cells)

    @property
    def protects(self) -> bool:  # type: ignore[override]
        return not self.exact

    def rounds_for(self, setting: SplitContext) -> int:
        return 1 if private_bins.numeric_features(setting.schema) else 0

    def fraction(self, setting: SplitContext) -> Fraction:
        return self.rounds_for(setting) * private_bins.BINS_FRACTION

    def place(self, setting: SplitContext, noise_model: NoiseModel) -> Flow[Binning]:
        schema = setting.schema
        numeric = private_bins.numeric_features(schema)
        if not numeric:
            return Binning.of_cells(schema)
        query = private_bins.cell_counts(schema, private_bins.BINS_FRACTION)
        counts = (yield from ask(query)).values[:, :, 0]
        bins = [tuple(range(g.n_cells)) for g in schema.grids]
        for position, j in enumerate(numeric):
            mass = np.maximum(counts[position, : schema.grids[j].missing], 0.0)
            runs = quantile_runs(mass, self.n_bins).tolist()
            bins[j] = (*runs, runs[-1] + 1)
        return Binning(tuple(bins))
