"""A tree in words: tests, noisy counts, probabilities, and how sure a leaf can be.

Everything shown was released with noise. A count's interval is its value plus or minus two
standard deviations of the noise; a leaf is marked unsure if noise alone could change its class.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hedgerow.growing.builder import Grown, LeafValue
from hedgerow.regions import Region, Split, Step
from hedgerow.schema import Schema


def tree_text(schema: Schema, grown: Grown) -> str:
    """The tree, one line per test and per leaf."""
    leaves = dict(zip(grown.tree.regions(), grown.leaves, strict=True))
    lines: list[str] = []
    _walk((), list(leaves), leaves, schema, "", lines)
    return "\n".join(lines)


def _walk(
    at: Region,
    below: Sequence[Region],
    leaves: dict[Region, LeafValue],
    schema: Schema,
    indent: str,
    lines: list[str],
) -> None:
    if at in leaves:
        said = leaf_words(schema, leaves[at])
        lines[-1:] = [f"{lines[-1]}: {said}" if lines else said]
        return
    test = below[0][len(at)].test
    assert isinstance(test, Split)
    for outcome in (0, 1):
        lines.append(f"{indent}{step_words(schema, Step(test, outcome))}")
        child = (*at, Step(test, outcome))
        inside = [r for r in below if r[: len(child)] == child]
        _walk(child, inside, leaves, schema, indent + "    ", lines)


def step_words(schema: Schema, step: Step) -> str:
    """One step of a path: 'age < 35'."""
    assert isinstance(step.test, Split)
    grid = schema.grids[schema.index(step.test.feature)]
    left = step.test.left
    return grid.describe(left if step.outcome == 0 else ((1 << grid.n_cells) - 1) & ~left)


def leaf_words(schema: Schema, leaf: LeafValue) -> str:
    """'malignant 93 % of about 55 +- 4 rows'."""
    classes = schema.classes or ("value",)
    winner = int(np.argmax(leaf.value))
    n = max(float(np.maximum(leaf.masses, 0.0).sum()), 0.0)
    spread = 2.0 * math.sqrt(leaf.variance * len(leaf.masses))
    words = f"{classes[winner]} {leaf.value[winner]:.0%} of about {n:.0f} +- {spread:.0f} rows"
    return words if is_sure(leaf) else f"{words} (unsure: noise could change this class)"


def is_sure(leaf: LeafValue) -> bool:
    """Whether the two largest masses differ by more than two deviations of their difference."""
    ranked = np.sort(leaf.masses)
    return len(ranked) < 2 or bool(ranked[-1] - ranked[-2] > 2.0 * math.sqrt(2.0 * leaf.variance))
