"""Boosting: batches of trees, each batch asked at the model that the batches before it made.

Maddock et al. 2022, Algorithm 1. How trees are split is a `Splitting`, what their leaves say is an
`Update`; both are chosen freely. A batch travels in one round if its splits ask nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from hedgerow.learning.flow import Flow, ask
from hedgerow.learning.forests.random_trees import TreeDraw
from hedgerow.learning.leaves.updates import Update
from hedgerow.queries import Leaves, SumQuery
from hedgerow.values.models import Additive
from hedgerow.values.regions import EVERYONE
from hedgerow.values.trees import Tree


class Splitting(Protocol):
    def grow(
        self,
        numbers: range,
        update: Update,
        at: Additive,
        share: Fraction,
        rng: np.random.Generator,
    ) -> Flow[list[Tree]]:
        """Trees with these numbers, all at one model; `share` pays for all of them."""
        ...


@dataclass(frozen=True)
class Rounds:
    """How many trees there are, how many of them see the same model, and what they cost."""

    n_trees: int
    batch: int
    share: Fraction


def boost(
    rounds: Rounds, splitting: Splitting, update: Update, start: Additive, rng: np.random.Generator
) -> Flow[Additive]:
    """The start with all trees added. The budget is divided evenly among trees."""
    model = start
    for first in range(0, rounds.n_trees, rounds.batch):
        numbers = range(first, min(first + rounds.batch, rounds.n_trees))
        share = rounds.share * len(numbers) / rounds.n_trees
        trees = yield from splitting.grow(numbers, update, model, share, rng)
        rate = update.rate(len(numbers))
        model = model.plus(*(tree.with_values(rate * tree.values) for tree in trees))
    return model


@dataclass(frozen=True)
class DrawnTrees:
    """Splits by public randomness; the leaves of a batch are one query.

    A record is in one leaf of every tree, so the trees of a batch add up in its sensitivity.
    """

    draw: TreeDraw

    def grow(
        self,
        numbers: range,
        update: Update,
        at: Additive,
        share: Fraction,
        rng: np.random.Generator,
    ) -> Flow[list[Tree]]:
        trees = tuple(self.draw(number, rng) for number in numbers)
        query = SumQuery(EVERYONE, update.statistic(at), Leaves(trees), share)
        answer = yield from ask(query)
        left = answer.variance / len(trees)  # of the noise, in the mean of the batch
        return [
            tree.with_values(update.values(sums[: tree.n_leaves], left))
            for tree, sums in zip(trees, answer.values, strict=True)
        ]
