"""One tree, as good as noise allows: private bins, screened tables, leaves that lean on parents."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hedgerow.growing.binning import private_bins, thinned
from hedgerow.growing.builder import ROOT, Node, TreePlan, grow
from hedgerow.growing.candidates import Grids
from hedgerow.growing.flow import Flow, Quote, ask
from hedgerow.growing.frontier import LevelOrder
from hedgerow.growing.priors import Belief, root_belief
from hedgerow.growing.pruning import merge_equal_labels
from hedgerow.growing.screening import Known, Screening, by_screened_tables
from hedgerow.growing.shrinkage import by_leaning_on_parents, lean_of
from hedgerow.growing.tables import Tables, consistent
from hedgerow.growing.targets import Goal, opening
from hedgerow.queries import Cells, SumQuery
from hedgerow.recipes.plan import Trained, mean_of
from hedgerow.regions import EVERYONE
from hedgerow.schema import Schema

ROOT_SHARE = Fraction(35, 100)
LEAST_ROWS = 5.0


@dataclass(frozen=True)
class TreeConstants:
    """What follows from the noisy signal-to-noise ratio alone."""

    cells: int  # of the thinned grid
    bins: int
    keep: int
    penalty: float = 0.5
    deviations: float = 1.0
    leaf_share: Fraction = Fraction(1, 5)
    max_depth: int = 6


def tree_constants(signal: float, is_pure: bool) -> TreeConstants:
    few = 6 if is_pure else 10
    if signal < 30:
        # No stop rule: weak splits beat no splits.
        return TreeConstants(16, 6, few, 0.0, 0.0, Fraction(3, 10), 3)
    if signal < 300:
        return TreeConstants(32, 6, few)
    return TreeConstants(64, 6, 10) if signal < 1000 else TreeConstants(256, 16, 12)


@dataclass(frozen=True, kw_only=True)
class ScreenedTree:
    """A tree of depth D in D + 2 rounds.

    | round  | asked                                           | share of the budget       |
    |--------|-------------------------------------------------|---------------------------|
    | 1      | number of rows (and the target's histogram)     | 1 % (and 2 %)             |
    | 2      | class tables of all features on a thinned grid  | 35 % of the rest          |
    | 3..D+1 | class tables of each node's best features       | 45 % of the rest, equally |
    | D+2    | class counts of the leaves                      | all a path did not spend  |

    `max_depth` None leaves the depth to the signal: 6, or 3 where noise is as large as the data.
    `merge_equal_labels` makes siblings that name one class one leaf, at no charge.
    """

    max_depth: int | None = None
    regression: bool = False
    merge_equal_labels: bool = False

    @property
    def name(self) -> str:
        return "tree"

    def expected_rounds(self, schema: Schema) -> int | None:
        return (self.max_depth or 6) + 2

    def flow(self, schema: Schema, quote: Quote, rng: np.random.Generator) -> Flow[Trained]:
        opened = yield from opening(schema, quote)
        constants = tree_constants(opened.signal, quote.is_pure)
        rest, goal = 1 - opened.spent, opened.goal
        grids, belief = yield from root_tables(
            schema, goal, rest * ROOT_SHARE, constants.cells, constants.bins
        )
        depth = self.max_depth or constants.max_depth
        levels = rest * (1 - ROOT_SHARE - constants.leaf_share) / max(depth - 1, 1)
        rules = Screening(
            grids,
            goal.statistic,
            constants.keep,
            constants.penalty,
            LEAST_ROWS,
            constants.deviations,
        )
        plan = TreePlan(
            by_screened_tables(rules, lambda node: levels),
            LevelOrder(),
            depth,
            by_leaning_on_parents(goal, _unspent, lean_of(goal)),
        )
        root = Node(ROOT.region, spent=opened.spent + rest * ROOT_SHARE, known=Known(belief))
        grown = yield from grow(plan, schema.names, rng, root)
        if self.merge_equal_labels:
            grown = merge_equal_labels(grown)
        return Trained(mean_of([grown], grown.tree.n_outputs), (grown,))


def root_tables(
    schema: Schema, goal: Goal, share: Fraction, cells: int, n_bins: int
) -> Flow[tuple[Grids, Belief]]:
    """Tables of all features on a thinned grid; private bins, and the tables on these bins."""
    thin = thinned(schema, cells)
    features = tuple(range(len(schema.grids)))
    answer = yield from ask(SumQuery(EVERYONE, goal.statistic, Cells(features, thin), share))
    tables = consistent(Tables(features, answer.values, answer.variance, thin.n_bins))
    bins = private_bins(schema, thin, tables, n_bins)
    return Grids(schema, bins), root_belief(tables, thin, bins)


def _unspent(node: Node) -> Fraction:
    return 1 - node.spent
