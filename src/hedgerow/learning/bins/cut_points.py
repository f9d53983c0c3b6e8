"""Where candidate cuts are placed: declared in public, or bought (Maddock et al. 2022, 4.5).

Each method says which grid it needs, what part of the budget it wants if `n_trees` trees are to
follow, and is a flow that ends with the bins.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Protocol

import numpy as np

from hedgerow.learning.bins import by_count
from hedgerow.learning.bins.equal_mass import quantile_runs
from hedgerow.learning.bins.public_grids import fine_schema, finer_schema
from hedgerow.learning.flow import Flow, Quote, ask
from hedgerow.queries import Answer, Binning, Cells, Count, Hessians, QueryKinds, SumQuery, sums
from hedgerow.values.arrays import FloatArray
from hedgerow.values.grids import Grid
from hedgerow.values.losses import Loss
from hedgerow.values.models import Additive
from hedgerow.values.regions import EVERYONE
from hedgerow.values.schema import Feature, Numeric, Schema, Spacing

Run = tuple[int, int]
"""Cells from the first up to, not including, the second."""


@dataclass(frozen=True)
class Setting:
    """What a method may know: the columns, the loss, the model at the start, the trees to come."""

    schema: Schema
    loss: Loss
    start: Additive
    n_trees: int


class CutPoints(Protocol):
    def grid(self, schema: Schema) -> Schema:
        """The schema on the grid this method starts from."""
        ...

    @property
    def asks(self) -> QueryKinds: ...
    @property
    def protects(self) -> bool:
        """False if what it asks is only for runs that protect nothing."""
        ...

    def rounds_for(self, schema: Schema) -> int: ...
    def share(self, setting: Setting) -> Fraction: ...
    def place(self, setting: Setting, quote: Quote) -> Flow[Binning]: ...


# ----------------------------------------------------------------------------------- in public
@dataclass(frozen=True)
class DeclaredCuts:
    """Evenly spaced over the public range, or over its logarithm: free of charge.

    Even cuts are x <= low + k (high - low) / (n_bins - 1) from k = 0 on, as in the paper: the first
    one tells the lowest value, where skewed columns pile up, from all others.
    """

    n_bins: int = 32
    spacing: Spacing = Spacing.UNIFORM

    def grid(self, schema: Schema) -> Schema:
        if self.spacing is not Spacing.UNIFORM:
            return schema.with_grid(bins=self.n_bins, spacing=self.spacing)
        return replace(schema, features=tuple(self._even(f) for f in schema.features))

    def _even(self, feature: Feature) -> Feature:
        if not isinstance(feature, Numeric) or feature.edges is not None:
            return feature
        ends = np.linspace(feature.low, feature.high, self.n_bins)[:-1]
        # A cell holds its lower edge, so "x <= cut" is an edge just above the cut.
        edges = np.nextafter(ends, np.inf)
        return replace(feature, edges=tuple(np.unique(edges).tolist()))

    @property
    def asks(self) -> QueryKinds:
        return frozenset()

    @property
    def protects(self) -> bool:
        return True

    def rounds_for(self, schema: Schema) -> int:
        return 0

    def share(self, setting: Setting) -> Fraction:
        return Fraction(0)

    def place(self, setting: Setting, quote: Quote) -> Flow[Binning]:
        yield from ()
        return Binning.of_cells(setting.schema)


# ------------------------------------------------------------------------------- from counts
@dataclass(frozen=True)
class MergedCuts:
    """Private bins of our own: cells of a fine grid, merged by noisy mass; spikes stay alone."""

    def grid(self, schema: Schema) -> Schema:
        return finer_schema(schema)

    @property
    def asks(self) -> QueryKinds:
        return by_count.ASKS

    @property
    def protects(self) -> bool:
        return True

    def rounds_for(self, schema: Schema) -> int:
        return 2 if by_count.numeric_features(schema) else 1

    def share(self, setting: Setting) -> Fraction:
        return by_count.BINNING_SHARE

    def place(self, setting: Setting, quote: Quote) -> Flow[Binning]:
        counted = yield from by_count.counted_records()
        return (yield from by_count.bins_by_count(setting.schema, counted))


@dataclass(frozen=True)
class QuantileCuts:
    """Bins of equal noisy mass over the fine grid; without noise, the usual quantiles.

    `exact` is the paper's non-private comparison: it runs only where nothing is protected anyway.
    """

    n_bins: int = 32
    exact: bool = False

    def grid(self, schema: Schema) -> Schema:
        return fine_schema(schema)

    @property
    def asks(self) -> QueryKinds:
        return sums(Count, Cells)

    @property
    def protects(self) -> bool:
        return not self.exact

    def rounds_for(self, schema: Schema) -> int:
        return 1 if by_count.numeric_features(schema) else 0

    def share(self, setting: Setting) -> Fraction:
        return by_count.BINS_SHARE if by_count.numeric_features(setting.schema) else Fraction(0)

    def place(self, setting: Setting, quote: Quote) -> Flow[Binning]:
        schema = setting.schema
        numeric = by_count.numeric_features(schema)
        if not numeric:
            return Binning.of_cells(schema)
        query = by_count.count_query(schema, by_count.BINS_SHARE)
        counts = (yield from ask(query)).values[:, :, 0]
        bins = [tuple(range(g.n_cells)) for g in schema.grids]
        for position, j in enumerate(numeric):
            mass = np.maximum(counts[position, : schema.grids[j].missing], 0.0)
            runs = quantile_runs(mass, self.n_bins).tolist()
            bins[j] = (*runs, runs[-1] + 1)
        return Binning(tuple(bins))


# ------------------------------------------------------------------------- iterative Hessian
@dataclass(frozen=True)
class HessianCuts:
    """Iterative Hessian (Maddock et al. 2022, Algorithm 2), `rounds` times.

    Light bins join their neighbour, heavy bins are halved. Departures: the Hessian alone is asked,
    at its own sensitivity (1/4 for two classes, so a histogram costs a sixteenth of a tree's leaf
    query at equal noise); all rounds come before the first tree, at the start's model, so that
    batches need no histogram between them; a bin is halved at the edge of the public fine grid
    nearest to its middle; places left over go to the heaviest bins.
    """

    n_bins: int = 32
    rounds: int = 5

    def grid(self, schema: Schema) -> Schema:
        return fine_schema(schema)

    @property
    def asks(self) -> QueryKinds:
        return sums(Hessians, Cells)

    @property
    def protects(self) -> bool:
        return True

    def rounds_for(self, schema: Schema) -> int:
        return self.rounds if by_count.numeric_features(schema) else 0

    def _weight(self, setting: Setting) -> Fraction:
        """Cost of one round in units of a tree's leaf query with the same noise."""
        ratio = setting.loss.hessian_norms.l2_squared / setting.loss.norms.l2_squared
        n_features = len(by_count.numeric_features(setting.schema))
        return n_features * Fraction(ratio).limit_denominator(10_000)

    def _round_share(self, setting: Setting) -> Fraction:
        weight = self._weight(setting)
        return weight / (setting.n_trees + self.rounds * weight)

    def share(self, setting: Setting) -> Fraction:
        return self.rounds * self._round_share(setting)

    def place(self, setting: Setting, quote: Quote) -> Flow[Binning]:
        grids, numeric = setting.schema.grids, by_count.numeric_features(setting.schema)
        runs = {j: even_runs(grids[j], self.n_bins) for j in numeric}
        statistic = Hessians(setting.loss, setting.start)
        for _ in range(self.rounds_for(setting.schema)):
            by = Cells(numeric, _binning(setting.schema, runs))
            query = SumQuery(EVERYONE, statistic, by, self._round_share(setting))
            answer: Answer = yield from ask(query)
            for position, j in enumerate(numeric):
                mass = answer.values[position, : len(runs[j])].sum(axis=1)
                runs[j] = refined_runs(grids[j], runs[j], mass, self.n_bins)
        return _binning(setting.schema, runs)


def _binning(schema: Schema, runs: dict[int, list[Run]]) -> Binning:
    bins = [tuple(range(g.n_cells)) for g in schema.grids]
    for j, mine in runs.items():
        known = [b for b, (first, end) in enumerate(mine) for _ in range(first, end)]
        bins[j] = (*known, len(mine))
    return Binning(tuple(bins))


def even_runs(grid: Grid, n_bins: int) -> list[Run]:
    """Runs of cells of about equal width."""
    wanted = grid.low + (grid.high - grid.low) * np.arange(1, n_bins) / n_bins
    edges = np.array(grid.edges)
    # Edge k separates cell k from cell k + 1.
    starts = sorted({int(np.argmin(np.abs(edges - w))) + 1 for w in wanted})
    return list(zip([0, *starts], [*starts, grid.missing], strict=True))


def refined_runs(grid: Grid, runs: list[Run], mass: FloatArray, n_bins: int) -> list[Run]:
    """Algorithm 2 for one feature: join light runs to the right, halve heavy ones, fill up."""
    enough = max(float(mass.sum()), 0.0) / n_bins
    joined = list[tuple[float, Run]]()
    first, held = runs[0][0], 0.0
    for (_, end), m in zip(runs, mass.tolist(), strict=True):
        held += m
        if held >= enough or end == grid.missing:
            joined.append((held, (first, end)))
            first, held = end, 0.0
    halved = [half for held, run in joined for half in _halves(grid, held, run, held >= enough)]
    return [run for _, run in sorted(_filled(grid, halved, n_bins), key=lambda h: h[1])]


def _halves(grid: Grid, held: float, run: Run, heavy: bool) -> list[tuple[float, Run]]:
    middle = _middle(grid, run) if heavy else None
    if middle is None:
        return [(held, run)]
    return [(held / 2, (run[0], middle)), (held / 2, (middle, run[1]))]


def _middle(grid: Grid, run: Run) -> int | None:
    """The cell that begins at the edge nearest to the run's middle; None for a single cell."""
    inside = np.array(grid.edges[run[0] : run[1] - 1])
    if not len(inside):
        return None
    ends = (grid.low, *grid.edges, grid.high)
    middle = (ends[run[0]] + ends[run[1]]) / 2.0
    return run[0] + 1 + int(np.argmin(np.abs(inside - middle)))


def _filled(grid: Grid, halves: list[tuple[float, Run]], n_bins: int) -> list[tuple[float, Run]]:
    """The heaviest runs halved until there are `n_bins` of them or only single cells."""
    done = list[tuple[float, Run]]()
    while halves and len(done) + len(halves) < n_bins:
        heaviest = max(range(len(halves)), key=lambda i: halves[i][0])
        held, run = halves.pop(heaviest)
        parts = _halves(grid, held, run, True)
        (halves if len(parts) == 2 else done).extend(parts)
    return done + halves
