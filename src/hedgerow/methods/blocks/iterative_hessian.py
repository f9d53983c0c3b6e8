"""Iterative Hessian: candidate cuts refined by the Hessians of the trees (Maddock et al., 4.5.2).

Algorithm 2 of the paper: light bins are merged with their neighbor, heavy bins are halved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from hedgerow.methods.blocks import private_bins
from hedgerow.methods.blocks.boosting import Batch, Splitting
from hedgerow.methods.blocks.cut_points import CutPoints, SplitContext
from hedgerow.methods.blocks.flow import Flow, NoiseModel, ask, together, watch_first_round
from hedgerow.methods.blocks.newton_steps import Update
from hedgerow.models.model import Additive
from hedgerow.models.uncertainty import NoisyTree
from hedgerow.privacy.queries import (
    Answer,
    Binning,
    Cells,
    Hessians,
    Query,
    Reply,
    SumQuery,
    sums,
)
from hedgerow.schema.arrays import FloatArray, Rng
from hedgerow.schema.grids import Grid
from hedgerow.schema.regions import EVERYONE
from hedgerow.schema.schema import Schema

CellRun = tuple[float, int, int]
"""The mass of a bin, its first cell, and the cell after its last."""


@dataclass(frozen=True)
class HessianCuts(CutPoints):
    """Iterative Hessian (Maddock et al. 2022, Algorithm 2), from the Hessians of earlier trees.

    | trees      | where Hessians come from                                    | kappa (Table 1) |
    |------------|-------------------------------------------------------------|-----------------|
    | histogram  | the root's table of every tree, for the next one            | 0               |
    | all others | a histogram asked beside each of the first `rounds` batches | `rounds` x m    |

    The trees of one batch are drawn at once. So that they too have refined cuts, batches of B > 1
    ask up to B - 1 of the histograms before the first batch, at the start model; none is asked that
    no tree would use. A Hessian has its own sensitivity, 1/4 for two classes: at the noise of a
    tree's leaf query its histogram costs a sixteenth of that query. With `full_cost` it costs as
    much as that query, (T + s m) / mu^2 in all, and has a quarter of its noise, as published.
    A bin is halved at the edge of the public fine grid nearest to its middle; remaining bins go to
    the heaviest ones.
    """

    n_bins: int = 32
    rounds: int = 5
    full_cost: bool = False
    asks = sums(Hessians, Cells)

    def rounds_for(self, setting: SplitContext) -> int:
        """The number of histograms asked before the first tree."""
        return min(self._n_histograms(setting), setting.trees_per_round - 1)

    def beside_trees(self, setting: SplitContext) -> int:
        """The number of histograms asked with the first batches, without extra rounds."""
        batches = -(-setting.n_estimators // setting.trees_per_round)
        return min(self._n_histograms(setting) - self.rounds_for(setting), batches - 1)

    def _n_histograms(self, setting: SplitContext) -> int:
        free = setting.histograms or not private_bins.numeric_features(setting.schema)
        return 0 if free else self.rounds

    def fraction(self, setting: SplitContext) -> Fraction:
        n_rounds = self.rounds_for(setting) + self.beside_trees(setting)
        return n_rounds * self._round_fraction(setting) if n_rounds else Fraction(0)

    def _round_fraction(self, setting: SplitContext) -> Fraction:
        """Of one histogram, whose weight is its cost beside a leaf query with the same noise."""
        weight = Fraction(len(private_bins.numeric_features(setting.schema)))
        if not self.full_cost:
            ratio = setting.loss.hessian_norms.l2_squared / setting.loss.norms.l2_squared
            weight *= ratio.limit_denominator(10_000)
        n_rounds = self.rounds_for(setting) + self.beside_trees(setting)
        return weight / (setting.n_estimators + n_rounds * weight)

    def place(self, setting: SplitContext, noise_model: NoiseModel) -> Flow[Binning]:
        """The bins of the first batch."""
        schema = setting.schema
        numeric = private_bins.numeric_features(schema)
        binning = binning_of(
            schema, {j: even_starts(schema.grids[j], self.n_bins) for j in numeric}
        )
        for _ in range(self.rounds_for(setting)):
            masses = yield from self.ask_hessians(setting, binning, setting.start)
            binning = self.refine(schema, binning, masses)
        return binning

    def ask_hessians(
        self, setting: SplitContext, binning: Binning, at: Additive
    ) -> Flow[dict[int, FloatArray]]:
        """Asks for the noisy Hessian in each bin of each feature, at a model."""
        numeric = private_bins.numeric_features(setting.schema)
        by, statistic = Cells(numeric, binning), Hessians(setting.loss, at)
        answer = yield from ask(SumQuery(EVERYONE, statistic, by, self._round_fraction(setting)))
        return {j: answer.values[i].sum(axis=1) for i, j in enumerate(numeric)}

    def refine(self, schema: Schema, binning: Binning, masses: Mapping[int, FloatArray]) -> Binning:
        """The bins after one more round of Algorithm 2, for the features with masses."""
        numeric = private_bins.numeric_features(schema)
        starts = {j: starts_of(schema, binning, j) for j in numeric}
        for j in starts.keys() & masses.keys():
            mass = masses[j][: len(starts[j]) - 1]
            starts[j] = refine_starts(schema.grids[j], starts[j], mass, self.n_bins)
        return binning_of(schema, starts)


def starts_of(schema: Schema, binning: Binning, feature: int) -> list[int]:
    """The first cell of each bin of a number, and the cell after the last, which is `missing`."""
    bins = np.asarray(binning.bins[feature][: schema.grids[feature].missing])
    return [0, *(np.flatnonzero(np.diff(bins)) + 1).tolist(), len(bins)]


def binning_of(schema: Schema, starts: Mapping[int, list[int]]) -> Binning:
    bins = [tuple(range(g.n_cells)) for g in schema.grids]
    for j, mine in starts.items():
        bins[j] = (*np.repeat(np.arange(len(mine) - 1), np.diff(mine)).tolist(), len(mine) - 1)
    return Binning(tuple(bins))


def even_starts(grid: Grid, n_bins: int) -> list[int]:
    """Bins of about equal width."""
    even_edges = grid.low + (grid.high - grid.low) * np.arange(1, n_bins) / n_bins
    edges = np.array(grid.edges)
    # Edge k separates cell k from cell k + 1.
    inner = {int(np.argmin(np.abs(edges - w))) + 1 for w in even_edges}
    return [0, *sorted(inner), grid.missing]


def refine_starts(grid: Grid, starts: list[int], mass: FloatArray, n_bins: int) -> list[int]:
    """Algorithm 2 for one feature: merge light bins to the right, halve heavy ones, fill up."""
    enough, first, held = max(float(mass.sum()), 0.0) / n_bins, starts[0], 0.0
    parts, single_cells = list[CellRun](), list[CellRun]()
    for end, m in zip(starts[1:], mass.tolist(), strict=True):
        held += m
        if held >= enough or end == grid.missing:
            part = (held, first, end)
            parts += _halves(grid, part) if held >= enough else [part]
            first, held = end, 0.0
    while parts and len(single_cells) + len(parts) < n_bins:
        heaviest = max(range(len(parts)), key=lambda k: parts[k][0])
        halves = _halves(grid, parts.pop(heaviest))
        (parts if len(halves) == 2 else single_cells).extend(halves)
    return [*sorted(first for _, first, _ in single_cells + parts), grid.missing]


def _halves(grid: Grid, part: CellRun) -> list[CellRun]:
    """Cut at the edge nearest to its middle; a single cell stays whole."""
    mass, first, end = part
    inside = np.array(grid.edges[first : end - 1])
    if not len(inside):
        return [part]
    ends = (grid.low, *grid.edges, grid.high)
    middle = first + 1 + int(np.argmin(np.abs(inside - (ends[first] + ends[end]) / 2.0)))
    return [(mass / 2, first, middle), (mass / 2, middle, end)]


# Trees whose candidate cuts follow the Hessians of earlier trees (Maddock et al. 2022, section
# 4.5.2; see `HessianCuts`).


@dataclass
class RefinedTrees:
    """Trees whose bins are refined with every batch; one object per flow.

    `splitting` grows trees on given bins. `at_the_model` is False if the model's output is no score
    with a Hessian: the Hessians are then those of the start model.
    """

    cuts: HessianCuts
    setting: SplitContext
    binning: Binning
    splitting: Callable[[Binning], Splitting]
    at_the_model: bool = True
    batches: int = 0

    def grow(self, batch: Batch, rng: Rng) -> Flow[list[NoisyTree]]:
        growing = self.splitting(self.binning).grow(batch, rng)
        if self.setting.histograms:
            trees, first = yield from watch_first_round(growing)
            self._refine(hessian_weights(first, batch.update))
            return trees
        flows: dict[str, Flow[Any]] = {"trees": growing}
        if self.batches < self.cuts.beside_trees(self.setting):
            model = batch.at if self.at_the_model else self.setting.start
            flows["hessians"] = self.cuts.ask_hessians(self.setting, self.binning, model)
        results = yield from together(flows)
        self.batches += 1
        self._refine(results.get("hessians", {}))
        new_trees: list[NoisyTree] = results["trees"]
        return new_trees

    def _refine(self, masses: dict[int, FloatArray]) -> None:
        if masses:
            self.binning = self.cuts.refine(self.setting.schema, self.binning, masses)


def hessian_weights(first: Iterable[tuple[Query, Reply]], update: Update) -> dict[int, FloatArray]:
    """Per feature: the weight of each bin, from the root tables of the trees."""
    root_weights = dict[int, FloatArray]()
    for query, reply in first:
        assert isinstance(query, SumQuery)
        assert isinstance(query.by, Cells)
        assert isinstance(reply, Answer)
        for position, feature in enumerate(query.by.features):
            weights = update.weight(reply.values[position])
            root_weights[feature] = root_weights.get(feature, 0.0) + weights
    return root_weights
