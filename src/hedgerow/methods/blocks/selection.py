"""Splits by private selection: first the index of the winner, then fresh counts for its value.

A selection releases only which candidate won. Its gain is asked anew, for the winner alone:
publishing the noisy maximum with the index would cost k / 2 times the claimed budget for k
candidates (docs/proofs/selection.md).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Literal

import numpy as np

from hedgerow.methods.blocks.builder import Chooser, Evidence, Node, SplitChoice, Stop
from hedgerow.methods.blocks.flow import Flow, ask, selection
from hedgerow.methods.blocks.histograms import PATIENCE, FractionAt, above_of
from hedgerow.methods.blocks.scores import Impurity
from hedgerow.methods.blocks.tables import Tables, consistent
from hedgerow.models.tree import Tree
from hedgerow.privacy.queries import (
    Leaves,
    Mechanism,
    Scoring,
    Selecting,
    Statistic,
    SumQuery,
)
from hedgerow.privacy.queries.choices import Candidate, candidate
from hedgerow.schema.arrays import FloatArray, Rng
from hedgerow.schema.candidates import Grids
from hedgerow.schema.grids import ColumnKind
from hedgerow.schema.regions import Region, Split

MechanismName = Literal["exponential", "permute_and_flip", "report_noisy_max"]
"""The mechanism of a selection, as parameters name it."""


@dataclass(frozen=True)
class SelectionRules:
    """Settings of every chooser by selection. The splitting class is public and the same for all.

    `consistency` makes the shortlisted tables of a node agree on their total. `index_fraction` is
    the fraction of a node's budget for choosing the index; one pair of counts needs little
    (studies/notes/trees.md#0021). `most_counted` limits the splits that are counted to those that
    most sites selected.
    """

    grids: Grids
    statistic: Statistic
    impurity: Impurity
    scoring: Scoring
    mechanism: Mechanism
    consistency: bool = True
    index_fraction: Fraction = Fraction(3, 4)
    most_counted: int | None = None

    @cached_property
    def splitting_class(self) -> tuple[Split, ...]:
        grids = self.grids
        return tuple(
            grids.split(f, left) for f in range(grids.n_features) for left in grids.left_sets[f]
        )

    def candidates(self, region: Region) -> tuple[Split, ...]:
        """Splits with a reachable cell on both sides, by the path alone, not by rows."""
        grids, reach = self.grids.schema.grids, self.grids.reach(region)
        cells = {
            g.feature: r.cells & (1 << g.n_cells) - 1 for g, r in zip(grids, reach, strict=True)
        }
        return tuple(
            s
            for s in self.splitting_class
            if cells[s.feature] & s.left and cells[s.feature] & ~s.left
        )

    def sides(self, node: Node, splits: tuple[Split, ...], fraction: Fraction) -> SumQuery:
        """Class counts on both sides of each split: a record is on one side of every split."""
        stumps = tuple(_stump(self.grids.schema.names, split) for split in splits)
        return SumQuery(node.region, self.statistic, Leaves(stumps), fraction)

    def scoring_at(self, node: Node) -> Scoring:
        """The scoring at a node, sharper with its noisy size; the bound holds for any guess."""
        evidence = node.evidence
        if evidence is None:
            return self.scoring
        deviation = math.sqrt(evidence.variance * len(evidence.masses))
        rows = math.ceil(evidence.rows + PATIENCE * deviation)
        return replace(self.scoring, rows_at_most=min(max(rows, 1), self.scoring.rows_at_most))

    def best(
        self,
        node: Node,
        splits: tuple[Split, ...],
        values: FloatArray,
        variance: float,
        spent: Fraction,
    ) -> SplitChoice:
        """The split that leaves the least impurity; values are (k, 2, C)."""
        tables = Tables(tuple(range(len(splits))), values, variance, (2,) * len(splits))
        values = consistent(tables).values if self.consistency else values
        left, right = values[:, 0], values[:, 1]
        gains = self.impurity(left + right) - self.impurity(left) - self.impurity(right)
        k = int(np.argmax(gains))
        above = (*above_of(node), Evidence(*tables.total))
        evidence = (Evidence(left[k], variance, above), Evidence(right[k], variance, above))
        return SplitChoice(splits[k], float(gains[k]), spent, evidence=evidence)


@lru_cache(maxsize=1 << 14)
def _stump(names: tuple[str, ...], split: Split) -> Tree:
    return Tree.of_preorder(names, [split, (), ()])


def by_selection(
    rules: SelectionRules, fraction_at: FractionAt, kind: Callable[..., Selecting]
) -> Chooser:
    """The PrivateSplit of Wang, Dick and Balcan 2020: of the single machine, or LocalRNM.

    One site selects by its exact scores, or each of several on its own rows; a record has one
    site, so the sites' selections compose in parallel.
    """

    def choose(node: Node, rng: Rng) -> Flow[SplitChoice | Stop]:
        candidates = rules.candidates(node.region)
        if not candidates:
            return Stop()
        return (yield from shortlist(rules, node, candidates, fraction_at(node), kind))

    return choose


def shortlist(
    rules: SelectionRules,
    node: Node,
    candidates: tuple[Candidate, ...],
    fraction: Fraction,
    kind: Callable[..., Selecting],
) -> Flow[SplitChoice]:
    """Private selections of an index, one of each site, and counts of the selected splits."""
    index_fraction = fraction * rules.index_fraction
    query = kind(node.region, candidates, rules.scoring_at(node), index_fraction, rules.mechanism)
    votes = Counter((yield from selection(query)))
    indices = sorted(k for k, _ in votes.most_common(rules.most_counted))
    splits = tuple(split_at(candidates, k) for k in indices)
    answer = yield from ask(rules.sides(node, splits, fraction - index_fraction))
    return rules.best(node, splits, answer.values, answer.variance, fraction)


def split_at(candidates: Sequence[Candidate], k: int) -> Split:
    split = candidate(candidates, k)
    assert isinstance(split, Split)
    return split


class OneTablePerSplit(SelectionRules):
    """The paper's splitting class: each threshold once, `missing` on its right."""

    @cached_property
    def splitting_class(self) -> tuple[Split, ...]:
        return tuple(split for f in range(self.grids.n_features) for split in self._splits(f))

    def _splits(self, feature: int) -> list[Split]:
        grid, sets = self.grids.grid(feature), self.grids.left_sets[feature]
        once = len(sets) // 2 if grid.kind is ColumnKind.NUMERIC else len(grid.values)
        return [self.grids.split(feature, left) for left in sets[:once]]


def by_every_table(rules: SelectionRules, fraction_at: FractionAt) -> Chooser:
    """NoisyCounts of Wang, Dick and Balcan 2020, as written: a class table of each split."""

    def choose(node: Node, rng: Rng) -> Flow[SplitChoice | Stop]:
        fraction, splits = fraction_at(node), rules.candidates(node.region)
        if not splits:
            return Stop()
        answer = yield from ask(rules.sides(node, splits, fraction))
        return rules.best(node, splits, answer.values, answer.variance, fraction)

    return choose
