"""Boosting: batches of trees, each batch trained on the gradients of the model so far.

Maddock et al. 2022, Algorithm 1. How trees are split is a `Splitting`, what their leaves say is an
`Update`; both are chosen freely. A batch takes one round if its splits ask nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

import numpy as np

from hedgerow.methods.blocks.flow import Flow, ask
from hedgerow.methods.blocks.newton_steps import Update
from hedgerow.methods.blocks.random_trees import TreeDraw
from hedgerow.models.model import Additive
from hedgerow.models.tree import Tree
from hedgerow.models.uncertainty import NoisyTree
from hedgerow.privacy.queries import Leaves, SumQuery
from hedgerow.schema.arrays import FloatArray
from hedgerow.schema.regions import EVERYONE


class Splitting(Protocol):
    def grow(
        self,
        numbers: range,
        update: Update,
        at: Additive,
        fraction: Fraction,
        rng: np.random.Generator,
    ) -> Flow[list[NoisyTree]]:
        """Trees with these numbers, all at one model; `fraction` is the budget of all of them."""
        ...


@dataclass(frozen=True)
class Rounds:
    """Number of trees, trees per round (they share one model's gradients), and their budget."""

    n_estimators: int
    trees_per_round: int
    fraction: Fraction


def boost(
    rounds: Rounds, splitting: Splitting, update: Update, start: Additive, rng: np.random.Generator
) -> Flow[tuple[Additive, list[FloatArray]]]:
    """The start with all trees added, and the deviations of their leaves' noise.

    The budget is divided evenly among trees.
    """
    model, noise = start, list[FloatArray]()
    for first in range(0, rounds.n_estimators, rounds.trees_per_round):
        numbers = range(first, min(first + rounds.trees_per_round, rounds.n_estimators))
        fraction = rounds.fraction * len(numbers) / rounds.n_estimators
        trees = yield from splitting.grow(numbers, update, model, fraction, rng)
        rate = update.rate(len(numbers))
        scaled_trees = [tree.scale(rate) for tree in trees]
        model = model.plus(*(tree.tree for tree in scaled_trees))
        noise += [tree.deviations for tree in scaled_trees]
    return model, noise


@dataclass(frozen=True)
class AskedLeaves:
    """Trees with the noisy sums (L, C) of their leaves, and the variance of the noise."""

    trees: list[NoisyTree]
    sums: list[FloatArray]
    variance: float


def ask_leaves(
    trees: tuple[Tree, ...], update: Update, at: Additive, fraction: Fraction
) -> Flow[AskedLeaves]:
    """The leaves of a batch of trees, as one query.

    A record is in one leaf of every tree, so the trees of a batch add up in its sensitivity.
    """
    answer = yield from ask(SumQuery(EVERYONE, update.statistic(at), Leaves(trees), fraction))
    left = answer.variance / len(trees)  # of the noise, in the mean of the batch
    sums = [own[: tree.n_leaves] for tree, own in zip(trees, answer.values, strict=True)]
    noisy = [
        NoisyTree(
            tree.with_values(update.values(own, left)),
            update.deviations(own, left, answer.variance),
        )
        for tree, own in zip(trees, sums, strict=True)
    ]
    return AskedLeaves(noisy, sums, answer.variance)


@dataclass(frozen=True)
class DrawnTrees:
    """Splits by public randomness; the leaves of a batch are one query."""

    draw: TreeDraw

    def grow(
        self,
        numbers: range,
        update: Update,
        at: Additive,
        fraction: Fraction,
        rng: np.random.Generator,
    ) -> Flow[list[NoisyTree]]:
        trees = tuple(self.draw(number, rng) for number in numbers)
        return (yield from ask_leaves(trees, update, at, fraction)).trees
