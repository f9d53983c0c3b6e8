"""Boosting: batches of trees, each batch trained on the gradients of the model so far.

Maddock et al. 2022, Algorithm 1. A `Splitting` chooses the splits and an `Update` the leaf values,
in any combination. A batch takes one round if its splits need no query.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import accumulate, count
from typing import Protocol

from hedgerow.methods.blocks.flow import Flow, NoiseModel, ask, both
from hedgerow.methods.blocks.newton_steps import Update
from hedgerow.methods.blocks.random_trees import TreeDraw
from hedgerow.methods.constants import constant
from hedgerow.models.model import Additive
from hedgerow.models.tree import Tree
from hedgerow.models.uncertainty import NoisyTree
from hedgerow.privacy.bundles import MOST_INTEGERS, Size
from hedgerow.privacy.queries import Leaves, Statistic, SumQuery
from hedgerow.schema.arrays import FloatArray, Rng
from hedgerow.schema.regions import EVERYONE


@dataclass(frozen=True)
class Batch:
    """Trees with these numbers, trained at one model; `fraction` is their whole budget."""

    numbers: range
    update: Update
    at: Additive
    fraction: Fraction

    @property
    def size(self) -> int:
        return len(self.numbers)

    @cached_property
    def statistic(self) -> Statistic:
        return self.update.statistic(self.at)


class Splitting(Protocol):
    def grow(self, batch: Batch, rng: Rng) -> Flow[list[NoisyTree]]: ...


MOST_ROUNDS = constant(26, unit="rounds over several sites", evidence="boosting.md#0160")
"""Rounds of a training over several sites, unless the study declares `max_rounds`."""
BATCH_OVERLAP = constant(0.75, unit="power", evidence="boosting.md#0160")
"""The trees of a round are weighted by (number of trees)^-this; 1 would be their mean."""
MOST_TREES_PER_ROUND = constant(32, unit="trees")
"""Most trees that share gradients, however few rounds are allowed."""


TREES_PER_ROUND = (
    "How many trees see the same gradients, in one round. None is 1 at one site, and over several "
    "1, 1, 2, 4 and so on, until all fit into the rounds of the study (max_rounds; 26 by default)."
)


@dataclass(frozen=True)
class Rounds:
    """The number of trees in each round (which share gradients), and the whole budget.

    `looks` are the first trees of rounds before which a method asks something of its own; `beside`:
    but for the first, that query shares the round of the trees before it.
    """

    sizes: Sequence[int]
    fraction: Fraction
    looks: Collection[int] = ()
    beside: bool = False

    @property
    def starts(self) -> list[int]:
        """The number of the first tree of each round."""
        return list(accumulate(self.sizes, initial=0))[:-1]


def equal_sizes(n_estimators: int, trees_per_round: int) -> list[int]:
    """The number of trees in each round; the last round has the remainder."""
    whole, rest = divmod(n_estimators, trees_per_round)
    return [trees_per_round] * whole + [rest] * bool(rest)


def rising_sizes(n_estimators: int, most_rounds: int) -> list[int]:
    """Sizes of at most `most_rounds` rounds: 1, 1, 2, 4, ... up to the smallest sufficient maximum.

    The first steps change the model most, so few trees share their gradients.
    """
    n_rounds = min(most_rounds, n_estimators)
    ramp = [min(1 << max(k - 1, 0), n_estimators) for k in range(n_rounds)]
    if sum(ramp) < n_estimators:
        return equal_sizes(n_estimators, -(-n_estimators // n_rounds))
    most = next(m for m in count(1) if sum(min(size, m) for size in ramp) >= n_estimators)
    excess = sum(min(size, most) for size in ramp) - n_estimators
    lower = range(first := sum(size < most for size in ramp), first + excess)
    return [min(size, most) - (k in lower) for k, size in enumerate(ramp)]


def boost(
    rounds: Rounds,
    splitting: Splitting,
    update_of: Callable[[int], Update],
    start: Additive,
    rng: Rng,
    look: Callable[[Additive], Flow[None]] | None = None,
) -> Flow[tuple[Additive, list[FloatArray]]]:
    """The start model with all trees added, and the deviations of the noise in their leaves.

    The budget is divided evenly among trees. `update_of` gives the update for a round size, and
    `look` asks about a model at the rounds' `looks`.
    """
    model, noise = start, list[FloatArray]()
    for first, size in zip(rounds.starts, rounds.sizes, strict=True):
        looking = look(model) if look and first in rounds.looks else None
        is_beside = rounds.beside and first > 0
        if looking and not is_beside:
            yield from looking
        numbers, update = range(first, first + size), update_of(size)
        fraction = rounds.fraction * size / sum(rounds.sizes)
        growing = splitting.grow(Batch(numbers, update, model, fraction), rng)
        if looking and is_beside:
            trees, _ = yield from both(growing, looking)
        else:
            trees = yield from growing
        scaled_trees = [tree.scale(update.rate(size)) for tree in trees]
        model = model.plus(*(tree.tree for tree in scaled_trees))
        noise += [tree.deviations for tree in scaled_trees]
    return model, noise


@dataclass(frozen=True)
class BatchPlan:
    """Trees per round: `trees_per_round`, or None to derive them from the sites and rounds.

    None is one tree per round at one site. Several sites wait for each other in every round, so
    trees share rounds there, as far as the study's `max_rounds` demands, and so do the other
    queries between trees. `before` is the number of rounds before the first tree.
    """

    n_estimators: int
    trees_per_round: int | None
    before: int
    integers: int
    """Integers in the sums of one tree."""

    def sizes(self, noise_model: NoiseModel) -> list[int]:
        if not self.is_shared(noise_model):
            return equal_sizes(self.n_estimators, self.trees_per_round or 1)
        most = (noise_model.max_rounds or MOST_ROUNDS) - self.before
        sizes = rising_sizes(self.n_estimators, max(most, self._fewest))
        is_few = max(sizes) <= self._most_trees
        return sizes if is_few else equal_sizes(self.n_estimators, self._most_trees)

    def fits(self, noise_model: NoiseModel) -> bool:
        """Whether a study's rounds suffice for all trees and for the rounds before them."""
        most = noise_model.max_rounds
        return not most or noise_model.n_sites == 1 or self.before + self._fewest <= most

    def is_shared(self, noise_model: NoiseModel) -> bool:
        return self.trees_per_round is None and noise_model.n_sites > 1

    @property
    def _most_trees(self) -> int:
        """Most trees per round: half of a round's integers are left for other queries."""
        most = min(MOST_TREES_PER_ROUND, self.n_estimators, MOST_INTEGERS // (2 * self.integers))
        return max(most, 1)

    @property
    def _fewest(self) -> int:
        return -(-self.n_estimators // self._most_trees)

    def largest(self, trees: Callable[[int], Size], between: Size, times: int) -> Size:
        """The size of all rounds with `trees` and of at most `times` rounds `between` them."""
        if self.trees_per_round is not None:
            batches = -(-self.n_estimators // self.trees_per_round)
            return trees(self.trees_per_round) * batches + between * min(times, batches)
        alone = trees(1) * self.n_estimators + between * min(times, self.n_estimators)
        most = max(MOST_ROUNDS - self.before, self._fewest)
        shared = trees(self._most_trees).beside(between)
        rounds = min(most, self.n_estimators)
        return replace(alone | shared, rounds=rounds, fewest_rounds=self._fewest)


@dataclass(frozen=True)
class AskedLeaves:
    """Trees with the noisy sums (L, C) of their leaves, and the variance of the noise."""

    trees: list[NoisyTree]
    sums: list[FloatArray]
    variance: float


def ask_leaves(trees: tuple[Tree, ...], batch: Batch) -> Flow[AskedLeaves]:
    """Asks for the leaves of a batch of trees as one query.

    A record is in one leaf of every tree, so the sensitivity adds up over the batch.
    """
    answer = yield from ask(SumQuery(EVERYONE, batch.statistic, Leaves(trees), batch.fraction))
    left = answer.variance / len(trees)  # noise variance in the mean of the batch
    sums = [own[: tree.n_leaves] for tree, own in zip(trees, answer.values, strict=True)]
    update = batch.update
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

    def grow(self, batch: Batch, rng: Rng) -> Flow[list[NoisyTree]]:
        trees = tuple(self.draw(number, rng) for number in batch.numbers)
        return (yield from ask_leaves(trees, batch)).trees
