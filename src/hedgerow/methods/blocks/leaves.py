"""Leaf estimates shrunk towards their ancestors: the noisier a node, the more.

Bottom-up, a node's total is averaged with the sum of its children (Hay et al. 2010); top-down, its
proportions are p = (N + m p_parent) / (n + m), where m grows with the noise in N.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hedgerow.errors import ParameterError
from hedgerow.methods.blocks.builder import LeafFlow, Node
from hedgerow.methods.blocks.flow import Flow, ask
from hedgerow.methods.blocks.histograms import above_of
from hedgerow.methods.blocks.scores import TINY
from hedgerow.methods.blocks.tables import inverse_variance
from hedgerow.methods.blocks.target import TrainingTarget
from hedgerow.methods.constants import constant
from hedgerow.models.tree import Tree
from hedgerow.models.uncertainty import MOST_OF_A_PART, LeafValue, of_proportions
from hedgerow.privacy.queries import Answer, Leaves, Statistic, SumQuery, Whole
from hedgerow.schema.arrays import FloatArray
from hedgerow.schema.regions import EVERYONE, Region

PSEUDO_ROWS = constant(2.0, unit="rows", evidence="gates.md#0152")
"""Pseudo-rows from its parent that every node gets."""
CLASSES_PER_NOISE = constant(0.5, unit="pseudo-rows", evidence="gates.md#0152")
"""Pseudo-rows per unit of noise in a forest's leaves; the trees average noise out."""

# Leaf values. A leaf component asks for all leaves of a tree at once, or asks nothing.


def plain_proportions(masses: FloatArray) -> FloatArray:
    """Class probabilities; negative masses count as zero, an empty leaf is uniform."""
    c = np.maximum(masses, 0.0)
    n = c.sum()
    return c / n if n > 0 else np.full(len(c), 1.0 / len(c))


def unspent(node: Node) -> Fraction:
    """The fraction of the whole budget that the path to a node did not spend."""
    return 1 - node.spent


def by_query(statistic: Statistic, fraction_of: Callable[[Node], Fraction]) -> LeafFlow:
    """One sum per leaf, in one round. `fraction_of` may give a leaf what its path did not spend."""

    def leaves(ends: Sequence[Node]) -> Flow[list[LeafValue]]:
        estimates = yield from _ask_ends(ends, statistic, fraction_of)
        return [LeafValue(plain_proportions(masses), masses, v) for masses, v in estimates]

    return leaves


def _ask_ends(
    ends: Sequence[Node], statistic: Statistic, fraction_of: Callable[[Node], Fraction]
) -> Flow[list[Estimate]]:
    replies = yield [SumQuery(n.region, statistic, Whole(), fraction_of(n)) for n in ends]
    answers = (reply for reply in replies if isinstance(reply, Answer))
    return [(answer.values[0, 0], answer.variance) for answer in answers]


Estimate = tuple[FloatArray, float]
"""Channel masses of a node and the variance of each."""


@dataclass(frozen=True)
class Shrinkage:
    """Pseudo-rows from the parent: 2 plus `per_noise` times variance / rows."""

    per_noise: float

    def proportions(self, masses: FloatArray, variance: float, parent: FloatArray) -> FloatArray:
        masses = np.maximum(masses, 0.0)
        n = float(masses.sum())
        m = PSEUDO_ROWS + self.per_noise * variance * len(masses) / max(n, 1.0)
        return (masses + m * parent) / (n + m)


def shrinkage_of(target: TrainingTarget) -> Shrinkage:
    """A mean target varies less than a class, so noise weighs more against it."""
    return Shrinkage(2.0) if target.shape is None else Shrinkage(1.0 / target.shape.spread)


def by_leaf_budget(
    target: TrainingTarget, budget: str, fraction: Fraction, *, shrinkage: bool
) -> LeafFlow:
    """Leaf values with the fraction alone or, if `budget` is 'unspent', all their path left over;
    optionally shrunk towards their parents.
    """
    fraction_of = unspent if budget == "unspent" else lambda node: fraction
    if shrinkage:
        return shrink_to_parents(target, fraction_of, shrinkage_of(target))
    return by_query(target.statistic, fraction_of)


def shrink_to_parents(
    target: TrainingTarget, fraction_of: Callable[[Node], Fraction], shrinkage: Shrinkage
) -> LeafFlow:
    """One sum per leaf, in one round; then consistency upwards and shrinkage downwards."""

    def leaves(ends: Sequence[Node]) -> Flow[list[LeafValue]]:
        answers = yield from _ask_ends(ends, target.statistic, fraction_of)
        positive = [(np.maximum(masses, 0.0), variance) for masses, variance in answers]
        estimates = dict(zip((node.region for node in ends), positive, strict=True))
        p = shrunk_proportions(consistent_upwards(estimates, _above(ends)), shrinkage)
        return [target.leaf(p[region], *own) for region, own in estimates.items()]

    return leaves


def _above(ends: Sequence[Node]) -> dict[Region, Estimate]:
    """The totals of all inner nodes, as the choosers recorded them."""
    above = dict[Region, Estimate]()
    for node in ends:
        ancestor_sums = above_of(node)
        if node.depth and not ancestor_sums:
            raise ParameterError(
                "leaf values were to be shrunk towards the nodes above, which the chooser does not "
                "report; use shrinkage=False, or a chooser that reads tables or counts."
            )
        start = len(node.region) - len(ancestor_sums)
        for k, evidence in enumerate(ancestor_sums):
            above[node.region[: start + k]] = (evidence.masses, evidence.variance)
    return above


def consistent_upwards(
    leaves: dict[Region, Estimate], above: dict[Region, Estimate]
) -> dict[Region, Estimate]:
    """All nodes, each inner one averaged with the sum of its children; parents come first."""
    children = dict[Region, set[Region]]()
    for region in [*leaves, *above]:
        if region[:-1] in above and region:
            children.setdefault(region[:-1], set()).add(region)
    best = dict(leaves)
    for region in sorted(above, key=len, reverse=True):
        parts = [best[child] for child in children[region]]
        whole = sum((m for m, _ in parts), np.zeros_like(parts[0][0]))
        best[region] = inverse_variance([above[region], (whole, sum(v for _, v in parts))])
    return dict(sorted(best.items(), key=lambda item: len(item[0])))


def shrunk_proportions(
    nodes: dict[Region, Estimate], shrinkage: Shrinkage
) -> dict[Region, FloatArray]:
    """Proportions of every node, from the root down; the root is shrunk towards uniform ones."""
    p = dict[Region, FloatArray]()
    for region, (masses, variance) in nodes.items():
        parent = p.get(region[:-1]) if region else None
        if parent is None:
            parent = np.full(len(masses), 1.0 / len(masses))
        p[region] = shrinkage.proportions(masses, variance, parent)
    return p


def shrink_to_all(masses: FloatArray, variance: float) -> tuple[FloatArray, FloatArray]:
    """(L, C) proportions of leaves (L, C), shrunk towards those of all leaves, and their noise.

    A leaf gets as many pseudo-rows of the overall proportions as its total has deviations of noise;
    without noise it keeps its own proportions. A leaf of a deep tree may hold one row, whose noisy
    proportions alone would be pure noise.
    """
    positive = np.maximum(masses, 0.0)
    everyone = positive.sum(axis=0) + TINY
    pseudo_rows = np.sqrt(variance * masses.shape[1]) + TINY
    rows = positive.sum(axis=1, keepdims=True)
    prior = everyone / everyone.sum()
    p = np.asarray((positive + pseudo_rows * prior) / (rows + pseudo_rows))
    return p, of_proportions(p, rows + pseudo_rows, variance)


def level_sums(leaves: FloatArray) -> list[FloatArray]:
    """(T, 2^l, C) sums of the nodes of every level l, from the root down."""
    levels, (n_estimators, _, channels) = [leaves], leaves.shape
    while levels[0].shape[1] > 1:
        levels.insert(0, levels[0].reshape(n_estimators, -1, 2, channels).sum(axis=2))
    return levels


def leaf_proportions(
    target: TrainingTarget, leaves: FloatArray, variance: float, prior: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """(T, nodes, C) proportions of all nodes in heap order, and the deviations of their noise.

    For classes, negative masses count as zero. For a skewed target that would raise every thin
    leaf, so its leaves are means around the prior, whose noise is symmetric.
    """
    if target.shape is None:
        return complete_proportions(leaves, variance, prior, CLASSES_PER_NOISE)
    p = float(prior[1])
    rows = leaves.sum(axis=-1)
    around = np.stack([rows, leaves[..., 1] - p * rows], axis=-1)
    noise = variance * (p**2 + (1.0 - p) ** 2)
    spread, many = target.shape.spread, len(around)
    trees = [complete_means(tree, 2.0 * variance, noise, spread, many) for tree in around]
    means, deviations = (np.stack(part) for part in zip(*trees, strict=True))
    u = np.clip(p + means, 0.0, 1.0)
    return np.stack([1.0 - u, u], axis=-1), np.stack([deviations, deviations], axis=-1)


def complete_proportions(
    leaves: FloatArray, variance: float, prior: FloatArray, per_noise: float
) -> tuple[FloatArray, FloatArray]:
    """(T, nodes, C) proportions of all nodes in heap order, each shrunk towards its parent.

    The root has the prior itself: a tree's own sum has the noise of all its leaves, and a node that
    of all leaves below it. Rows count as at least one deviation of it, so that an empty node gets
    its parent's proportions. Also returns the deviations of their noise, computed as if the noise
    of a node and of its parent were the same, since they share most of it.
    """
    levels = level_sums(leaves)
    n_estimators, _, channels = leaves.shape
    p = np.broadcast_to(prior, (n_estimators, 1, channels))
    level_noise = np.zeros_like(p)
    out, deviations = [p], [level_noise]
    for level, sums in enumerate(levels[1:], start=1):
        masses = np.maximum(sums, 0.0)
        n = masses.sum(axis=2, keepdims=True)
        noise = variance * channels * 2 ** (len(levels) - 1 - level)
        m = PSEUDO_ROWS + per_noise * noise / np.maximum(n, np.sqrt(noise) + 1e-9)
        parent, above = np.repeat(p, 2, axis=1), np.repeat(level_noise, 2, axis=1)
        p = (masses + m * parent) / (n + m)
        own = np.minimum(of_proportions(p, n + m, noise / channels), MOST_OF_A_PART * n / (n + m))
        level_noise = own + m / (n + m) * above
        out.append(p)
        deviations.append(level_noise)
    return np.concatenate(out, axis=1), np.concatenate(deviations, axis=1)


def complete_means(
    leaves: FloatArray,
    count_variance: float,
    sum_variance: float,
    second_moment: float,
    n_averaged: int = 1,
) -> tuple[FloatArray, FloatArray]:
    """(nodes,) means of all nodes of one tree in heap order, by empirical Bayes level by level.

    `leaves` (2^depth, 2) holds noisy rows and noisy sums, each record's contribution within [-1,
    1]. A node's mean has variance noise / n^2 + second_moment / n; the variance of the truth around
    the parents is what a level's squared differences show beyond that. With `n_averaged` trees the
    noise is smaller by that factor. Also returns the deviations of their noise, computed as if the
    noise of a node and of its parent were the same.
    """
    levels = level_sums(leaves[None])
    mean, level_noise = np.zeros(1), np.zeros(1)
    out, deviations = [], []
    for level, sums in enumerate(levels):
        below = 2 ** (len(levels) - 1 - level)
        n = np.maximum(sums[0, :, 0], np.sqrt(count_variance * below) + 1e-9)
        raw = np.clip(sums[0, :, 1] / n, -1.0, 1.0)
        parent, above = (
            (mean, level_noise) if level == 0 else (np.repeat(a, 2) for a in (mean, level_noise))
        )
        noise = (sum_variance * below / n**2 + second_moment / n) / n_averaged
        spread = max(float((n * ((raw - parent) ** 2 - noise)).sum() / n.sum()), 1e-9)
        part = spread / (spread + noise)
        mean = parent + part * (raw - parent)
        wider = spread + np.sqrt(2.0 * float((n**2 * noise**2).sum())) / n.sum()
        part = wider / (wider + noise)
        own = np.sqrt((sum_variance + raw**2 * count_variance) * below) / n
        level_noise = part * np.minimum(own, 1.0) + (1.0 - part) * above
        out.append(mean)
        deviations.append(level_noise)
    return np.concatenate(out), np.concatenate(deviations)


# Leaves of one whole tree, queried as one sum: a record is in one leaf, so all of them cost one.
# The sum of the leaves below a node is that node's own total with more noise. A leaf may be shrunk
# towards its ancestors by that (post-processing, free), or keep its own noisy mean, as in papers.


def by_one_sum(
    target: TrainingTarget,
    fraction: Fraction,
    root: Region,
    names: Sequence[str],
    shrinkage: Shrinkage | None,
) -> LeafFlow:
    """Leaf values of the tree under `root`; without `shrinkage`, each leaf by itself."""

    def leaves(ends: Sequence[Node]) -> Flow[list[LeafValue]]:
        tree = Tree.build(names, {n.region[len(root) :]: () for n in ends})
        by = Leaves((tree,))
        answer = yield from ask(SumQuery(root, target.statistic, by, fraction))
        values = leaf_values(tree, answer.values[0], answer.variance, target, shrinkage, root)
        return [values[n.region] for n in ends]

    return leaves


def leaf_values(
    tree: Tree,
    masses: FloatArray,
    variance: float,
    target: TrainingTarget,
    shrinkage: Shrinkage | None,
    root: Region = EVERYONE,
) -> dict[Region, LeafValue]:
    """The value of each leaf of a tree under `root`, from left to right; masses are (L, C)."""
    regions = tree.regions(root)
    mine = dict(zip(regions, masses[: len(regions)], strict=True))
    p = leaf_proportions_below(mine, variance, len(root), shrinkage)
    return {region: target.leaf(p[region], mine[region], variance) for region in regions}


def leaf_proportions_below(
    masses: dict[Region, FloatArray], variance: float, above: int, shrinkage: Shrinkage | None
) -> dict[Region, FloatArray]:
    """Proportions of the leaves; steps before `above` are not nodes of the tree."""
    if shrinkage is None:
        return {region: plain_proportions(mine) for region, mine in masses.items()}
    return shrunk_proportions(sums_above(masses.items(), variance, above), shrinkage)


def sums_above(
    leaves: Iterable[tuple[Region, FloatArray]], variance: float, above: int
) -> dict[Region, Estimate]:
    """Every node with the sum of the leaves below it and the noise of that sum; parents first."""
    nodes = dict[Region, Estimate]()
    for region, masses in leaves:
        for end in range(above, len(region) + 1):
            node_sums, noise = nodes.get(region[:end], (np.zeros_like(masses), 0.0))
            nodes[region[:end]] = (node_sums + masses, noise + variance)
    return dict(sorted(nodes.items(), key=lambda item: len(item[0])))
