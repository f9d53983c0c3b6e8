"""Where noise hides every table: trees drawn in public, all of the budget for their leaves."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

import numpy as np

from hedgerow.learning.bins.public_grids import thinned
from hedgerow.learning.feature_draws import random
from hedgerow.learning.flow import Flow, Quote, ask
from hedgerow.learning.forests.random_trees import totally_random
from hedgerow.learning.goal import Goal, Opening
from hedgerow.learning.leaves.leaning import lean_of
from hedgerow.learning.leaves.per_tree import leaf_values
from hedgerow.queries import Leaves, SumQuery
from hedgerow.values.candidates import Grids
from hedgerow.values.grown import Grown
from hedgerow.values.regions import EVERYONE
from hedgerow.values.schema import Schema

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
