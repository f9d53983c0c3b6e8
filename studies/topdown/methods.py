"""The methods that the DP-TopDown page compares, and the paper's NoisyCounts as it is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from hedgerow.learning.builder import Choice, Chooser, Node, Stop
from hedgerow.learning.choosing.histograms import ShareAt
from hedgerow.learning.choosing.selection import SelectionRules
from hedgerow.learning.choosing.stopping import if_audible
from hedgerow.learning.flow import Flow, Quote, ask
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.queries import ClassCounts, Mechanism, Score, Scoring, SumQuery
from hedgerow.recipes.papers.wang import IMPURITIES, Criterion, Finding, TopDown
from hedgerow.values.candidates import Grids
from hedgerow.values.regions import Split
from hedgerow.values.schema import ColumnKind

PARTIES = 4
DELTA = 1e-6  # of the one line with Gaussian noise
ENTROPY = Criterion.ENTROPY  # as in the paper's experiments


class OneTablePerSplit(SelectionRules):
    """The paper's splitting class: rows without missing values need each threshold once."""

    @cached_property
    def splitting_class(self) -> tuple[Split, ...]:
        return tuple(split for f in range(self.grids.n_features) for split in self._splits(f))

    def _splits(self, feature: int) -> list[Split]:
        grid, sets = self.grids.grid(feature), self.grids.left_sets[feature]
        once = len(sets) // 2 if grid.kind is ColumnKind.NUMERIC else len(grid.values)
        return [self.grids.split(feature, left) for left in sets[:once]]


def by_every_table(rules: SelectionRules, share_at: ShareAt) -> Chooser:
    """A class table of each split, so that noise grows with the size of the splitting class.

    Wang, Dick and Balcan 2020, NoisyCounts, with the noise of their Theorem 15 less what the
    marginals do not need.
    """

    def choose(node: Node, rng: np.random.Generator) -> Flow[Choice | Stop]:
        share, splits = share_at(node), rules.candidates(node.region)
        if not splits:
            return Stop()
        answer = yield from ask(rules.sides(node, splits, share))
        return rules.best(node, splits, answer.values, answer.variance, share)

    return choose


@dataclass(frozen=True, kw_only=True)
class NoisyCountsAsWritten(TopDown):
    """DP-TopDown with one table per threshold; everything else as in `TopDown`."""

    def _by_tables(self, grids: Grids, counts: ClassCounts, quote: Quote) -> Chooser:
        rules = OneTablePerSplit(
            grids,
            counts,
            IMPURITIES[self.criterion],
            Scoring(Score.ENTROPY),
            Mechanism.EXPONENTIAL,
            consistency=False,
        )

        def tables(node: Node) -> SumQuery:
            return rules.sides(node, rules.splitting_class, self._share(node))

        return if_audible(by_every_table(rules, self._share), tables, quote)


@dataclass(frozen=True)
class Method:
    """A line of a figure: a recipe, how many hold the rows, and where noise is added."""

    recipe: Callable[..., TopDown]
    parties: int
    placement: Placement
    delta: float = 0.0

    def without_noise(self) -> Method:
        return replace(self, placement=Placement.NOWHERE)


def _tables(**options: object) -> TopDown:
    return TopDown(split=Finding.NOISY_COUNTS, criterion=ENTROPY, **options)  # type: ignore[arg-type]


def _plain_tables(**options: object) -> TopDown:
    return TopDown(criterion=ENTROPY, consistency=False, **options)  # type: ignore[arg-type]


def _tables_as_written(**options: object) -> TopDown:
    return NoisyCountsAsWritten(criterion=ENTROPY, **options)  # type: ignore[arg-type]


def _local(**options: object) -> TopDown:
    return TopDown(split=Finding.LOCAL_CHOICE, criterion=ENTROPY, **options)  # type: ignore[arg-type]


def _single_gini(**options: object) -> TopDown:
    return TopDown(split=Finding.CHOICE, criterion=Criterion.GINI, **options)  # type: ignore[arg-type]


def _single(**options: object) -> TopDown:
    return TopDown(split=Finding.CHOICE, criterion=ENTROPY, **options)  # type: ignore[arg-type]


METHODS: dict[str, Method] = {
    "single machine": Method(_single, 1, Placement.CURATOR),
    "single machine, Gini": Method(_single_gini, 1, Placement.CURATOR),
    "local choice": Method(_local, PARTIES, Placement.SILO),
    "noisy counts as written": Method(_tables_as_written, PARTIES, Placement.SILO),
    "noisy counts, silo": Method(_plain_tables, PARTIES, Placement.SILO),
    "noisy counts, shares": Method(_tables, PARTIES, Placement.SHARES),
    "noisy counts, shares, Gaussian": Method(_tables, PARTIES, Placement.SHARES, DELTA),
}
SLOW = tuple(name for name in METHODS if name != "noisy counts as written")
"""Lines that are drawn again with a budget that falls slowly with the depth."""
BASELINES: dict[str, str] = {
    "without noise": "noisy counts, shares",
    "Gini without noise": "single machine, Gini",
    "local choice without noise": "local choice",
}


def of_name(name: str) -> Method:
    return METHODS[BASELINES[name]].without_noise() if name in BASELINES else METHODS[name]
