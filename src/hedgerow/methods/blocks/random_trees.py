"""Trees drawn from public randomness alone: their shape costs no budget.

Totally random trees (Geurts et al. 2006; Maddock et al. 2022, section 4.3.2) draw each node's
feature and cut; oblivious ones have one test per level. A cut is drawn among the bins reachable at
the node; one category is separated from all others (oblivious trees: random halves); `missing` goes
to a random side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice

import numpy as np

from hedgerow.methods.blocks.flow import Flow, NoiseModel, ask
from hedgerow.methods.blocks.leaves import leaf_values, shrinkage_of
from hedgerow.methods.blocks.public_grids import thin_cells
from hedgerow.methods.blocks.target import InitialRound, TrainingTarget
from hedgerow.methods.constants import constant
from hedgerow.models.tree import MOST_LEAVES, Tree
from hedgerow.models.uncertainty import LeafStatistics
from hedgerow.privacy.queries import Leaves, SumQuery
from hedgerow.schema.arrays import BoolArray, FloatArray, IntArray, Rng
from hedgerow.schema.candidates import Grids
from hedgerow.schema.grids import ColumnKind
from hedgerow.schema.regions import EVERYONE, Region, Split, Step
from hedgerow.schema.schema import Schema

OUTER = constant(0.1, unit="part of the records that an oblivious cut leaves on each side at least")
RANDOM_TREES_BELOW = constant(5.0, unit="signal", evidence="trees.md#0063")
"""Signal below which a totally random tree beats one whose splits follow Gaussian noise."""
RANDOM_FOREST_BELOW = constant(
    50.0, unit="rows per Gaussian noise of one sum", evidence="gates.md#0156"
)
"""Rows per Gaussian noise of one sum below which forests are totally random."""
RANDOM_BOOSTING_BELOW = constant(
    30.0, unit="rows per such noise, of boosting", evidence="gates.md#0156"
)
RANDOM_TREES_BELOW_IF_PURE = constant(
    500.0, unit="rows per Laplace noise of one sum", evidence="gates.md#0155"
)
"""The same two thresholds for Laplace noise."""
RANDOM_DEPTH = constant(4, unit="levels of a totally random tree", evidence="gates.md#0156")
DEEPER_RANDOM_DEPTH = constant(6, unit="levels of one with enough rows", evidence="gates.md#0156")
DEEPER_FROM = constant(30.0, unit="rows", evidence="gates.md#0156")
"""Rows per noise deviation of one sum from which trees may be deeper."""
DRAWN_CELLS = constant(16, unit="cells", evidence="trees.md#0063")
"""Even cells among which cuts are drawn."""

# Which features a tree may use (Maddock et al. 2022, section 5.1).

TreeFeatures = Callable[[int, Rng], tuple[int, ...]]
"""(tree index, public randomness) -> the features it may split on."""


def cyclic(n_features: int, k: int) -> TreeFeatures:
    """Each tree uses the next k features, cyclically; k = 1 is the EBM."""
    width = min(k, n_features)

    def draw(tree: int, rng: Rng) -> tuple[int, ...]:
        return tuple(sorted((tree * width + i) % n_features for i in range(width)))

    return draw


def random(n_features: int, k: int) -> TreeFeatures:
    """K features drawn anew for every tree; k = all is the ordinary tree."""

    def draw(tree: int, rng: Rng) -> tuple[int, ...]:
        features = rng.choice(n_features, min(k, n_features), replace=False)
        return tuple(sorted(int(f) for f in features))

    return draw


TreeDraw = Callable[[int, Rng], Tree]
"""(tree index, public randomness) -> a tree without leaf values."""


def totally_random(grids: Grids, features: TreeFeatures, depth: int) -> TreeDraw:
    """Splits every node at random, down to `depth` or until one bin is left.

    A tree with too many leaves is drawn again, less deep.
    """

    def draw(number: int, rng: Rng) -> Tree:
        mine = features(number, rng)
        live = {f: np.ones(grids.binning.n_bins[f], bool) for f in mine}
        leaves = list(islice(_random_leaves(grids, EVERYONE, live, depth, rng), MOST_LEAVES + 1))
        if len(leaves) > MOST_LEAVES:
            less_deep = MOST_LEAVES.bit_length() - 1
            leaves = list(_random_leaves(grids, EVERYONE, live, less_deep, rng))
        return Tree.build(grids.schema.names, {region: () for region in leaves})

    return draw


def _random_leaves(
    grids: Grids, region: Region, live: dict[int, BoolArray], depth: int, rng: Rng
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


def random_left(grids: Grids, feature: int, live: BoolArray, rng: Rng) -> BoolArray | None:
    """A random set of the `live` bins to send left; None if one bin is left."""
    number_bins = np.flatnonzero(live[:-1])
    if len(number_bins) < 2:
        return None
    if grids.grid(feature).kind is ColumnKind.NUMERIC:
        left = np.arange(len(live)) < number_bins[rng.integers(1, len(number_bins))]
    else:
        left = np.arange(len(live)) == rng.choice(number_bins)
    left[-1] = rng.random() < 0.5
    return np.asarray(left)


def random_half(n_bins: int, among: IntArray, rng: Rng) -> BoolArray:
    """Sends each bin to a random side; of the bins `among`, at least one to each."""
    left = rng.random(n_bins) < 0.5
    if left[among].all() or not left[among].any():
        moved_bin = rng.choice(among)
        left[moved_bin] = not left[moved_bin]
    return left


@dataclass(frozen=True)
class DrawableFeature:
    """A feature that oblivious trees may test: its noisy mass per bin and its weight."""

    feature: int
    mass: FloatArray  # (B,) noisy records per bin
    weight: float  # probability weight


def oblivious(grids: Grids, drawables: Sequence[DrawableFeature], depth: int) -> TreeDraw:
    """Complete trees with one test per level, cut where neither side has too little noisy mass."""
    weights = np.array([k.weight for k in drawables])
    chances = weights / weights.sum()
    width = min(depth, len(drawables))

    def draw(number: int, rng: Rng) -> Tree:
        places = rng.choice(len(drawables), width, replace=False, p=chances)
        tests = [cut_by_mass(grids, drawables[places[i % width]], rng) for i in range(depth)]
        return oblivious_tree(grids.schema.names, tests)

    return draw


def cut_by_mass(grids: Grids, drawable: DrawableFeature, rng: Rng) -> Split:
    """A random test of a feature that leaves records on both sides."""
    n_bins = len(drawable.mass)
    if grids.grid(drawable.feature).kind is not ColumnKind.NUMERIC:
        left = random_half(n_bins, np.arange(n_bins - 1), rng)
    else:
        below = np.cumsum(drawable.mass[:-1])
        far = np.abs(below[:-1] - rng.uniform(OUTER, 1.0 - OUTER) * below[-1])
        far[(below[:-1] <= 0.0) | (below[:-1] >= below[-1])] = np.inf  # one side would be empty
        left = np.arange(n_bins) <= np.argmin(far)
    left[-1] = rng.random() < 0.5
    return grids.split(drawable.feature, left)


def oblivious_tree(names: Sequence[str], tests: Sequence[Split]) -> Tree:
    """Leaves in the binary order of the tests' outcomes.

    A test that repeats one above it has an empty side; the tree is complete nevertheless.
    """
    nodes: list[Split | tuple[float, ...]] = [()]
    for test in reversed(tests):
        nodes = [test, *nodes, *nodes]
    return Tree.of_preorder(names, nodes)


# Where every table is below the noise: totally random trees, the whole budget for their leaves.


def is_signal_below(
    first_round: InitialRound,
    noise_model: NoiseModel,
    sure: float,
    sure_if_pure: float = RANDOM_TREES_BELOW_IF_PURE,
) -> bool:
    """Whether totally random trees beat trees whose splits would follow noise; classes only.

    Noise in tables grows with their number, but in the leaves of a few trees it does not. So the
    rows per noise deviation of one sum decide, and with Gaussian noise the signal of all tables
    too.
    """
    if first_round.target.shape is not None:
        return False
    if noise_model.is_pure:
        return first_round.sure < sure_if_pure
    return first_round.signal < RANDOM_TREES_BELOW or first_round.sure < sure


def random_depth(first_round: InitialRound) -> int:
    return RANDOM_DEPTH if first_round.sure < DEEPER_FROM else DEEPER_RANDOM_DEPTH


def draw_trees(
    schema: Schema,
    target: TrainingTarget,
    n_estimators: int,
    depth: int,
    fraction: Fraction,
    rng: Rng,
) -> Flow[list[LeafStatistics]]:
    """Totally random trees on an even grid; their leaves are shrunk towards their ancestors."""
    grids, n = Grids(schema, thin_cells(schema, DRAWN_CELLS)), len(schema.grids)
    draw = totally_random(grids, random(n, n), depth)
    trees = tuple(draw(number, rng) for number in range(n_estimators))
    answer = yield from ask(SumQuery(EVERYONE, target.statistic, Leaves(trees), fraction))
    statistics = []
    for tree, masses in zip(trees, answer.values, strict=True):
        leaf_of_region = leaf_values(tree, masses, answer.variance, target, shrinkage_of(target))
        leaves = tuple(leaf_of_region.values())
        statistics.append(
            LeafStatistics(tree.with_values(np.array([leaf.value for leaf in leaves])), leaves)
        )
    return statistics
