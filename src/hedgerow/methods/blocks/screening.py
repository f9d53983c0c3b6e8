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
from hedgerow.schema.arrays import FloatArray, Rng
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
        for name, least in (
            ("cells", 2),
            ("bins", 2),
            ("keep", 1),
            ("penalty", 0),
            ("deviations", 0),
        ):
            count = getattr(self, name)
            if count is not None and count < least:
                raise ParameterError(f"{name} is {count}; use {least} or more.")
        for name, count in vars(self).items():
            if isinstance(count, np.generic):  # plain numbers, also from a parameter search
                object.__setattr__(self, name, count.item())


@dataclass(frozen=True)
class Screening:
    """The queries of a node and its stopping rule, on noisy numbers only."""

    grids: Grids
    statistic: Statistic
    pieces: FeatureScreening
    least: float  # rows a side must hold

    def gains(self, belief: Belief) -> FloatArray:
        return prefix_gains(
            belief.masses,
            belief.variances,
            belief.totals,
            penalty=self.pieces.penalty,
            least=self.least,
            deviations=self.pieces.deviations,
        )

    def with_own_tables(self, node: Node, belief: Belief, fraction: Fraction) -> Flow[Belief]:
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
    return root, by_screened_tables(Screening(grids, target.statistic, pieces, least), fraction_at)


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


def by_screened_tables(rules: Screening, fraction_at: FractionAt) -> Chooser:
    """The best noise-penalized prefix of the node's tables; its children ask for its `keep` best
    features.

    Fewer features per query mean less noise at the same charge. The root asks nothing: its tables
    were released earlier, to make the bins.
    """

    def choose(node: Node, rng: Rng) -> Flow[SplitChoice | Stop]:
        evidence, spent = node.evidence, Fraction(0)
        assert evidence is not None
        belief = evidence.belief
        assert belief is not None  # the root has one, and hands it down
        if node.depth > 0:
            spent = fraction_at(node)
            belief = yield from rules.with_own_tables(node, belief, spent)
        gains = rules.gains(belief)
        best = gains.max(axis=1)
        position = int(np.argmax(best))
        if not best[position] > LEAST_GAIN:
            return Stop(spent)
        cut = int(np.argmax(gains[position]))
        return _choice(rules, belief, evidence, (position, cut), best, spent)

    return choose


def _choice(
    rules: Screening,
    belief: Belief,
    node_evidence: Evidence,
    at: tuple[int, int],
    best: FloatArray,
    spent: Fraction,
) -> SplitChoice:
    position, cut = at
    left = np.arange(belief.masses.shape[1]) <= cut
    above = (*node_evidence.above, Evidence(belief.totals, belief.total_variance))
    best_places = np.sort(np.argsort(-best, kind="stable")[: rules.pieces.keep])
    features = tuple(belief.features[i] for i in best_places)
    sides = [child_prior(belief, position, left, side).of(features) for side in (0, 1)]
    split = rules.grids.split(belief.features[position], left)
    evidence = (Evidence.of(sides[0], above), Evidence.of(sides[1], above))
    return SplitChoice(split, float(best[position]), spent, evidence=evidence)
