"""Trees drawn from public randomness alone: their shape costs no budget.

Totally random trees (Geurts et al. 2006; Maddock et al. 2022, section 4.3.2) draw each node's
feature and cut; oblivious ones ask one test per level.
Departures: a cut is drawn among the bins that can still reach the node, so no side is empty for
sure; one category is told from all others (oblivious trees: random halves); `missing` goes to a
random side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.methods.blocks.flow import Flow, Quote, ask
from hedgerow.methods.blocks.goal import Goal, Opening
from hedgerow.methods.blocks.leaves import leaf_values, lean_of
from hedgerow.methods.blocks.public_grids import thinned
from hedgerow.models.tree import MOST_LEAVES, Tree
from hedgerow.models.uncertainty import Grown
from hedgerow.privacy.queries import Leaves, SumQuery
from hedgerow.schema.arrays import BoolArray, FloatArray
from hedgerow.schema.candidates import Grids
from hedgerow.schema.grids import ColumnKind
from hedgerow.schema.regions import EVERYONE, Region, Split, Step
from hedgerow.schema.schema import Schema

# --------------------------------------------------------------------------------------------------
# Which features a tree may look at (Maddock et al. 2022, section 5.1).

TreeFeatures = Callable[[int, np.random.Generator], tuple[int, ...]]
"""(number of the tree, public randomness) -> the features it may split on."""


def cyclic(n_features: int, k: int) -> TreeFeatures:
    """Tree after tree the next k features, around and around; k = 1 is the EBM."""
    width = min(k, n_features)

    def draw(tree: int, rng: np.random.Generator) -> tuple[int, ...]:
        return tuple(sorted((tree * width + i) % n_features for i in range(width)))

    return draw


def random(n_features: int, k: int) -> TreeFeatures:
    """K features drawn afresh for every tree; k = all is the ordinary tree."""

    def draw(tree: int, rng: np.random.Generator) -> tuple[int, ...]:
        drawn = rng.choice(n_features, min(k, n_features), replace=False)
        return tuple(sorted(int(f) for f in drawn))

    return draw


TreeDraw = Callable[[int, np.random.Generator], Tree]
"""(number of the tree, public randomness) -> a tree whose leaves say nothing yet."""

OUTER = 0.1  # an oblivious cut leaves at least about this part of the records on each side


# ------------------------------------------------------------------------------- totally random
def totally_random(grids: Grids, features: TreeFeatures, depth: int) -> TreeDraw:
    """Every node splits at random, down to `depth` or until one bin is left.

    One that would have more leaves than a tree may have is drawn again, less deep.
    """

    def draw(number: int, rng: np.random.Generator) -> Tree:
        mine = features(number, rng)
        live = {f: np.ones(grids.binning.n_bins[f], bool) for f in mine}
        leaves = list(islice(_random_leaves(grids, EVERYONE, live, depth, rng), MOST_LEAVES + 1))
        if len(leaves) > MOST_LEAVES:
            less_deep = MOST_LEAVES.bit_length() - 1
            leaves = list(_random_leaves(grids, EVERYONE, live, less_deep, rng))
        return Tree.build(grids.schema.names, {region: () for region in leaves})

    return draw


def _random_leaves(
    grids: Grids, region: Region, live: dict[int, BoolArray], depth: int, rng: np.random.Generator
) -> Iterator[Region]:
    if depth == 0:
        yield region
        return
    for feature in rng.permutation(list(live)).tolist():
        left = random_left(grids, feature, live[feature], rng)
        if left is not None:
            break
    else:
        yield region
        return
    split = grids.split(feature, left)
    for side, bins in enumerate((live[feature] & left, live[feature] & ~left)):
        below = {**live, feature: bins}
        yield from _random_leaves(grids, (*region, Step(split, side)), below, depth - 1, rng)


def random_left(
    grids: Grids, feature: int, live: BoolArray, rng: np.random.Generator
) -> BoolArray | None:
    """A random set of bins to send left, of those that can still occur; None if one bin is left."""
    known = np.flatnonzero(live[:-1])
    if len(known) < 2:
        return None
    if grids.grid(feature).kind is ColumnKind.NUMERIC:
        left = np.arange(len(live)) < known[rng.integers(1, len(known))]
    else:
        left = np.arange(len(live)) == rng.choice(known)
    left[-1] = rng.random() < 0.5
    return np.asarray(left)


def random_half(n_bins: int, among: NDArray[np.int64], rng: np.random.Generator) -> BoolArray:
    """Each bin to a random side; of the bins `among`, at least one to each."""
    left = rng.random(n_bins) < 0.5
    if left[among].all() or not left[among].any():
        one = rng.choice(among)
        left[one] = not left[one]
    return left


# ------------------------------------------------------------------------------------ oblivious
@dataclass(frozen=True)
class DrawableFeature:
    """What is known of a feature that oblivious trees may test."""

    feature: int
    mass: FloatArray  # (B,) noisy records per bin
    weight: float  # how likely it is drawn


def oblivious(grids: Grids, known: Sequence[DrawableFeature], depth: int) -> TreeDraw:
    """Complete trees, one test per level, cut where the noisy mass is neither thin nor thick."""
    weights = np.array([k.weight for k in known])
    chances = weights / weights.sum()
    width = min(depth, len(known))

    def draw(number: int, rng: np.random.Generator) -> Tree:
        drawn = rng.choice(len(known), width, replace=False, p=chances)
        tests = [cut_by_mass(grids, known[drawn[i % width]], rng) for i in range(depth)]
        return oblivious_tree(grids.schema.names, tests)

    return draw


def cut_by_mass(grids: Grids, known: DrawableFeature, rng: np.random.Generator) -> Split:
    """A random test of a feature that leaves records on both sides."""
    return grids.split(known.feature, _left_by_mass(grids, known, rng))


def _left_by_mass(grids: Grids, known: DrawableFeature, rng: np.random.Generator) -> BoolArray:
    n_bins = len(known.mass)
    if grids.grid(known.feature).kind is not ColumnKind.NUMERIC:
        left = random_half(n_bins, np.arange(n_bins - 1), rng)
    else:
        below = np.cumsum(known.mass[:-1])
        far = np.abs(below[:-1] - rng.uniform(OUTER, 1.0 - OUTER) * below[-1])
        far[(below[:-1] <= 0.0) | (below[:-1] >= below[-1])] = np.inf  # one side would be empty
        left = np.arange(n_bins) <= np.argmin(far)
    left[-1] = rng.random() < 0.5
    return left


def oblivious_tree(names: Sequence[str], tests: Sequence[Split]) -> Tree:
    """Leaves in the binary order of the tests' outcomes.

    A test that repeats one above it would make a side empty; the tree is complete all the same.
    """
    nodes: list[Split | tuple[float, ...]] = [()]
    for test in reversed(tests):
        nodes = [test, *nodes, *nodes]
    return Tree.of_preorder(names, nodes)


# --------------------------------------------------------------------------------------------------
# Where noise hides every table: trees drawn in public, all of the budget for their leaves.

HOPELESS = 5.0
"""Signal below which a tree drawn blindly beats one that Gaussian noise has drawn."""
HOPELESS_FOR_FORESTS, HOPELESS_FOR_BOOSTING = 50.0, 30.0
"""Rows per noise of one sum below which a few such trees beat what Gaussian noise has drawn,
however few the columns are."""
HOPELESS_IF_PURE = 500.0
"""The same for both if noise is Laplace."""
BLIND_DEPTH, DEEPER_BLIND_DEPTH, DEEPER_FROM = 4, 6, 30.0
"""Levels of a tree drawn blindly, and from how many rows per noise of one sum it has more."""
DRAWN_CELLS = 16


class Gates(NamedTuple):
    """Below which trees drawn blindly beat such as noise would draw."""

    signal: float  # of all tables, Gaussian noise
    sure: float  # of one sum, Gaussian noise
    sure_if_pure: float  # of one sum, Laplace noise


def is_hopeless(opened: Opening, quote: Quote, gates: Gates) -> bool:
    """Whether trees drawn blindly beat such as noise would draw; classes only.

    Noise in tables grows with their number, and in the leaves of a few trees it does not. So the
    rows per noise of one sum decide, and with Gaussian noise the signal of all tables too.
    """
    if opened.goal.shape is not None:
        return False
    if quote.is_pure:
        return opened.sure < gates.sure_if_pure
    return opened.signal < gates.signal or opened.sure < gates.sure


def blind_depth(opened: Opening) -> int:
    return BLIND_DEPTH if opened.sure < DEEPER_FROM else DEEPER_BLIND_DEPTH


def drawn_trees(
    schema: Schema, goal: Goal, n_trees: int, depth: int, share: Fraction, rng: np.random.Generator
) -> Flow[list[Grown]]:
    """Totally random trees on an even grid; their leaves lean on the nodes above them."""
    grids, n = Grids(schema, thinned(schema, DRAWN_CELLS)), len(schema.grids)
    draw = totally_random(grids, random(n, n), depth)
    trees = tuple(draw(number, rng) for number in range(n_trees))
    answer = yield from ask(SumQuery(EVERYONE, goal.statistic, Leaves(trees), share))
    found = []
    for tree, masses in zip(trees, answer.values, strict=True):
        said = leaf_values(tree, masses, answer.variance, goal, lean_of(goal))
        leaves = tuple(said.values())
        found.append(Grown(tree.with_values(np.array([leaf.value for leaf in leaves])), leaves))
    return found
