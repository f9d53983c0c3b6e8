"""Feature screening: how `TreeClassifier` asks for tables and uses them.

The root's tables make the bins. A node asks only for its parent's best features, uses a prior from
its parent's tables, and takes the best split after subtracting the gain of noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hedgerow.errors import ParameterError
from hedgerow.methods.blocks.builder import ROOT, Belief, Chooser, Evidence, Node, SplitChoice, Stop
from hedgerow.methods.blocks.flow import Flow, ask
from hedgerow.methods.blocks.histograms import FractionAt
from hedgerow.methods.blocks.private_bins import bins_of_equal_mass
from hedgerow.methods.blocks.public_grids import thin_cells
from hedgerow.methods.blocks.scores import prefix_gains
from hedgerow.methods.blocks.tables import (
    ask_tables,
    child_prior,
    consistent,
    root_belief,
    update_belief,
)
from hedgerow.methods.blocks.target import TrainingTarget
from hedgerow.privacy.queries import Cells, Statistic, SumQuery
from hedgerow.schema.arrays import Rng
from hedgerow.schema.candidates import Grids
from hedgerow.schema.regions import EVERYONE
from hedgerow.schema.schema import Schema

LEAST_GAIN = 1e-9


@dataclass(frozen=True, kw_only=True)
class FeatureScreening:
    """Settings of the post-processing steps, each of which can be turned off; all are free.

    Parameters
    ----------
    cells : int
        Even cells of a number that the root asks for, a power of two; some powers of ten are
        added for heavy tails.
    bins : int or None
        Private bins: runs of those cells with equal noisy mass, categories in the order of their
        noisy target rate. None keeps every cell.
    prior : bool
        Whether a node's tables use its parent's as a prior (naive Bayes).
    keep : int or None
        Screening: a node's children ask for its best features only. None asks for all.
    penalty : float
        Times the gain that noise alone would show, taken off every gain. 0 takes nothing off.
    deviations : float
        Deviations of its own noise that each side of a split must hold.

    """

    cells: int = 32
    bins: int | None = 6
    prior: bool = True
    keep: int | None = 10
    penalty: float = 0.5
    deviations: float = 1.0

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            least = {"cells": 2, "bins": 2, "keep": 1}.get(name, 0)
            if value is not None and value < least:
                raise ParameterError(f"{name} is {value}; use {least} or more.")
            if isinstance(value, np.generic):  # plain numbers, also from a parameter search
                object.__setattr__(self, name, value.item())


@dataclass(frozen=True)
class Screening:
    """The queries of a node and its stopping rule, on noisy numbers only.

    A node takes the best noise-penalized prefix of its tables; its children ask for its `keep` best
    features. Fewer features per query mean less noise at the same charge.
    """

    grids: Grids
    statistic: Statistic
    pieces: FeatureScreening
    fraction_at: FractionAt
    least: float  # rows a side must hold

    def choose(self, node: Node, rng: Rng) -> Flow[SplitChoice | Stop]:
        """The root asks nothing: its tables were released earlier, to make the bins."""
        evidence, spent = node.evidence, Fraction(0)
        assert evidence is not None
        belief = evidence.belief
        assert belief is not None  # the root has one, and hands it down
        if node.depth > 0:
            spent = self.fraction_at(node)
            belief = yield from self._with_own_tables(node, belief, spent)
        penalty, deviations = self.pieces.penalty, self.pieces.deviations
        tables = belief.masses, belief.variances, belief.totals
        gains = prefix_gains(*tables, penalty=penalty, least=self.least, deviations=deviations)
        best = gains.max(axis=1)
        position = int(np.argmax(best))
        if not best[position] > LEAST_GAIN:
            return Stop(spent)
        left = np.arange(belief.masses.shape[1]) <= int(np.argmax(gains[position]))
        above = (*evidence.above, Evidence(belief.totals, belief.total_variance))
        best_places = np.sort(np.argsort(-best, kind="stable")[: self.pieces.keep])
        features = tuple(belief.features[i] for i in best_places)
        sides = [child_prior(belief, position, left, side).of(features) for side in (0, 1)]
        split = self.grids.split(belief.features[position], left)
        children = (Evidence.of(sides[0], above), Evidence.of(sides[1], above))
        return SplitChoice(split, float(best[position]), spent, evidence=children)

    def _with_own_tables(self, node: Node, belief: Belief, fraction: Fraction) -> Flow[Belief]:
        """Asks for the node's own tables and updates its belief by them."""
        by = Cells(belief.features, self.grids.binning)
        answer = yield from ask(SumQuery(node.region, self.statistic, by, fraction))
        n_padding = belief.masses.shape[1] - answer.values.shape[1]
        node_tables = np.pad(answer.values, ((0, 0), (0, n_padding), (0, 0)))
        return update_belief(belief, node_tables, answer.variance, trusting=self.pieces.prior)


def refined_chooser(
    schema: Schema,
    target: TrainingTarget,
    pieces: FeatureScreening,
    fraction_at: FractionAt,
    *,
    least: float,
    spent: Fraction = Fraction(0),
) -> Flow[tuple[Node, Chooser]]:
    """The root, whose tables are asked first because they make the bins, and the chooser of nodes.

    `spent` is what was charged before the root.
    """
    fraction = fraction_at(ROOT)
    grids, belief = yield from root_tables(schema, target, fraction, pieces.cells, pieces.bins)
    root = Node(EVERYONE, spent=spent + fraction, evidence=Evidence.of(belief))
    return root, Screening(grids, target.statistic, pieces, fraction_at, least).choose


def root_tables(
    schema: Schema, target: TrainingTarget, fraction: Fraction, cells: int, n_bins: int | None
) -> Flow[tuple[Grids, Belief]]:
    """Asks for tables of all features on a coarse grid; returns private bins and their tables."""
    thin = thin_cells(schema, cells)
    features = tuple(range(len(schema.grids)))
    by = Cells(features, thin)
    tables = consistent((yield from ask_tables(EVERYONE, target.statistic, by, fraction)))
    bins = bins_of_equal_mass(schema, thin, tables, n_bins or max(thin.n_bins))
    return Grids(schema, bins), root_belief(tables, thin, bins)
