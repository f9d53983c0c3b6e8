"""One of each kind of recipe, for the tests that every recipe inherits."""

from __future__ import annotations

from hedgerow.recipes.gubler import HistogramTree
from hedgerow.recipes.plan import Recipe

ALL: tuple[Recipe, ...] = (
    HistogramTree(max_depth=3),
    HistogramTree(max_depth=2, save_budget=True),
    HistogramTree(max_depth=2, save_budget=True, chunk=3),
)
