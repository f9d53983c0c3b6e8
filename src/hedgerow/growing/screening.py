"""A node asks only for the features that looked best to its parent."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hedgerow.growing.builder import Choice, Chooser, Node, Stop
from hedgerow.growing.candidates import Grids
from hedgerow.growing.choosers import ShareAt, Totals
from hedgerow.growing.flow import Flow, ask
from hedgerow.growing.priors import Belief, child_prior, updated
from hedgerow.growing.scores import prefix_gains
from hedgerow.queries import Cells, Statistic, SumQuery

FloatArray = NDArray[np.float64]

LEAST_GAIN = 1e-9


@dataclass(frozen=True)
class Known:
    """What travels down: the expected tables, and the totals of all nodes above."""

    belief: Belief
    above: tuple[Totals, ...] = ()


@dataclass(frozen=True)
class Screening:
    """What a node asks and when it stops, on noisy numbers only."""

    grids: Grids
    statistic: Statistic
    keep: int  # features that a node's children ask for
    penalty: float  # times the gain that noise alone would show
    least: float  # rows a side must hold
    deviations: float  # deviations of its own noise a side must hold

    def gains(self, belief: Belief) -> FloatArray:
        return prefix_gains(
            belief.masses,
            belief.variances,
            belief.totals,
            penalty=self.penalty,
            least=self.least,
            deviations=self.deviations,
        )

    def query(self, node: Node, belief: Belief, share: Fraction) -> SumQuery:
        by = Cells(belief.features, self.grids.binning)
        return SumQuery(node.region, self.statistic, by, share)


def by_screened_tables(rules: Screening, share_at: ShareAt) -> Chooser:
    """Best noise-penalised prefix of the node's tables; its children ask its `keep` best features.

    Fewer features in one query mean less noise at the same charge. The root asks nothing: its
    tables were released before, to make the bins.
    """

    def choose(node: Node, rng: np.random.Generator) -> Flow[Choice | Stop]:
        known, spent = node.known, Fraction(0)
        assert isinstance(known, Known)
        belief = known.belief
        if node.depth > 0:
            spent = share_at(node)
            answer = yield from ask(rules.query(node, belief, spent))
            asked = _padded(answer.values, belief.masses.shape[1])
            belief = updated(belief, asked, answer.variance)
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
    known: Known,
    at: tuple[int, int],
    best: FloatArray,
    spent: Fraction,
) -> Choice:
    position, cut = at
    left = np.arange(belief.masses.shape[1]) <= cut
    above = (*known.above, Totals(belief.totals, belief.total_variance))
    kept = np.sort(np.argsort(-best, kind="stable")[: rules.keep])
    features = tuple(belief.features[i] for i in kept)
    sides = tuple(child_prior(belief, position, left, side).of(features) for side in (0, 1))
    split = rules.grids.split(belief.features[position], left)
    known_sides = (Known(sides[0], above), Known(sides[1], above))
    return Choice(split, float(best[position]), spent, known=known_sides)


def _padded(values: FloatArray, n_bins: int) -> FloatArray:
    """An answer has as many bins as its widest feature; tables as the widest of all."""
    return np.pad(values, ((0, 0), (0, n_bins - values.shape[1]), (0, 0)))
