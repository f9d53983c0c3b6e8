"""Tables asked and read as our own tree does it; any tree that grows from noisy tables may.

The root's tables make the bins. A node asks only for the features that looked best to its parent,
expects what its parent's tables foretell, and takes the best split after what noise would gain.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hedgerow.errors import SpecError
from hedgerow.methods.blocks.builder import ROOT, Belief, Choice, Chooser, Evidence, Node, Stop
from hedgerow.methods.blocks.flow import Flow, ask
from hedgerow.methods.blocks.goal import Goal
from hedgerow.methods.blocks.histograms import ShareAt
from hedgerow.methods.blocks.private_bins import bins_of_equal_mass
from hedgerow.methods.blocks.public_grids import thinned
from hedgerow.methods.blocks.scores import prefix_gains
from hedgerow.methods.blocks.tables import (
    asked_tables,
    child_prior,
    consistent,
    root_belief,
    updated,
)
from hedgerow.privacy.queries import Cells, Statistic, SumQuery
from hedgerow.schema.arrays import FloatArray
from hedgerow.schema.candidates import Grids
from hedgerow.schema.regions import EVERYONE
from hedgerow.schema.schema import Schema

LEAST_GAIN = 1e-9


@dataclass(frozen=True, kw_only=True)
class Refinement:
    """The pieces, each of which can be turned off. All are free: they read what was released.

    Parameters
    ----------
    cells : int
        Even cells of a number that the root asks for, a power of two; some powers of ten are
        added for heavy tails.
    bins : int or None
        Private bins: runs of those cells with equal noisy mass, categories in the order of their
        noisy target rate. None keeps every cell.
    prior : bool
        Whether a node's tables lean on what its parent's foretell (naive Bayes).
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
            given = getattr(self, name)
            if given is not None and given < least:
                raise SpecError(f"{name} is {given}; use {least} or more.")
        for name, given in vars(self).items():
            if isinstance(given, np.generic):  # plain numbers inside, whatever a search hands out
                object.__setattr__(self, name, given.item())


@dataclass(frozen=True)
class Screening:
    """What a node asks and when it stops, on noisy numbers only."""

    grids: Grids
    statistic: Statistic
    pieces: Refinement
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

    def asked(self, node: Node, belief: Belief, share: Fraction) -> Flow[Belief]:
        """What the node holds, after its own tables."""
        by = Cells(belief.features, self.grids.binning)
        answer = yield from ask(SumQuery(node.region, self.statistic, by, share))
        asked = _padded(answer.values, belief.masses.shape[1])
        return updated(belief, asked, answer.variance, trusting=self.pieces.prior)


def refined_chooser(
    schema: Schema,
    goal: Goal,
    pieces: Refinement,
    share_at: ShareAt,
    *,
    least: float,
    spent: Fraction = Fraction(0),
) -> Flow[tuple[Node, Chooser]]:
    """The root, whose tables are asked first since they make the bins, and how nodes choose.

    `spent` is what was charged before the root.
    """
    share = share_at(ROOT)
    grids, belief = yield from root_tables(schema, goal, share, pieces.cells, pieces.bins)
    root = Node(EVERYONE, spent=spent + share, evidence=Evidence.of(belief))
    return root, by_screened_tables(Screening(grids, goal.statistic, pieces, least), share_at)


def root_tables(
    schema: Schema, goal: Goal, share: Fraction, cells: int, n_bins: int | None
) -> Flow[tuple[Grids, Belief]]:
    """Tables of all features on a thinned grid; private bins, and the tables on these bins."""
    thin = thinned(schema, cells)
    features = tuple(range(len(schema.grids)))
    by = Cells(features, thin)
    tables = consistent((yield from asked_tables(EVERYONE, goal.statistic, by, share)))
    bins = bins_of_equal_mass(schema, thin, tables, n_bins or max(thin.n_bins))
    return Grids(schema, bins), root_belief(tables, thin, bins)


def by_screened_tables(rules: Screening, share_at: ShareAt) -> Chooser:
    """Best noise-penalised prefix of the node's tables; its children ask its `keep` best features.

    Fewer features in one query mean less noise at the same charge. The root asks nothing: its
    tables were released before, to make the bins.
    """

    def choose(node: Node, rng: np.random.Generator) -> Flow[Choice | Stop]:
        known, spent = node.evidence, Fraction(0)
        assert known is not None
        belief = known.belief
        assert belief is not None  # the root has one, and hands it down
        if node.depth > 0:
            spent = share_at(node)
            belief = yield from rules.asked(node, belief, spent)
        gains = rules.gains(belief)
        best = gains.max(axis=1)
        position = int(np.argmax(best))
        if not best[position] > LEAST_GAIN:
            return Stop(spent)
        cut = int(np.argmax(gains[position]))
        return _choice(rules, belief, known, (position, cut), best, spent)

    return choose


def _choice(
    rules: Screening,
    belief: Belief,
    known: Evidence,
    at: tuple[int, int],
    best: FloatArray,
    spent: Fraction,
) -> Choice:
    position, cut = at
    left = np.arange(belief.masses.shape[1]) <= cut
    above = (*known.above, Evidence(belief.totals, belief.total_variance))
    kept = np.sort(np.argsort(-best, kind="stable")[: rules.pieces.keep])
    features = tuple(belief.features[i] for i in kept)
    sides = [child_prior(belief, position, left, side).of(features) for side in (0, 1)]
    split = rules.grids.split(belief.features[position], left)
    evidence = (Evidence.of(sides[0], above), Evidence.of(sides[1], above))
    return Choice(split, float(best[position]), spent, evidence=evidence)


def _padded(values: FloatArray, n_bins: int) -> FloatArray:
    """An answer has as many bins as its widest feature; tables as the widest of all."""
    return np.pad(values, ((0, 0), (0, n_bins - values.shape[1]), (0, 0)))
