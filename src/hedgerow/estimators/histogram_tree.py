"""One interpretable tree from private histograms (Gubler 2023)."""

from __future__ import annotations

from typing import Any

from hedgerow.estimators.base import PrivateClassifier, at_least, refinement, shares
from hedgerow.learning.choosing.screening import Refinement
from hedgerow.recipes.papers.gubler import HistogramTree
from hedgerow.recipes.recipe import Recipe
from hedgerow.values.schema import Schema


class HistogramTreeClassifier(PrivateClassifier):
    """Federated private decision tree, Gubler 2023, Algorithms 5 and 6.

    Parameters (besides those of every estimator)
    ----------
    max_depth : int
        Levels of splits; a tree costs max_depth + 1 rounds.
    min_samples_leaf : float
        A node that all noisy counts call smaller becomes a leaf.
    n_bins : int or None
        Uniform bins per numeric feature; None keeps the schema's own grid.
    leaf_share : float
        Part of the budget kept for the leaves.
    save_budget : bool
        Algorithm 6: skip features whose noisy bound rules them out, hand what is saved down.
    bounds_share : float
        Part of a node's budget for the bounds.
    chunk : int
        Features asked per round while saving: larger chunks, fewer rounds, smaller savings.
    consistency : bool
        Make all histograms of a node agree on their totals.
    known_zeros : bool
        Drop the noise of bins that the path to a node excludes.
    combine : bool
        Average a leaf's own counts with what the parent's histogram said of it.
    level_growth : float
        Each level gets this many times the budget of the level above it.
    lean : bool
        Whether leaves lean on the nodes above them, the more the noisier they are.
    refine : Refinement or None
        Tables asked and read as our own tree does it: private bins, naive-Bayes prior, screening,
        noise-penalised gain. Numbers are then read on the fine grid, unless `n_bins` is given.
    """

    def __init__(
        self,
        schema: Schema | None = None,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        max_depth: int = 5,
        min_samples_leaf: float = 5.0,
        n_bins: int | None = None,
        leaf_share: float = 0.5,
        save_budget: bool = False,
        bounds_share: float = 0.25,
        chunk: int = 1,
        consistency: bool = True,
        known_zeros: bool = True,
        lean: bool = False,
        refine: Refinement | None = None,
        placement: str | None = None,
        colluders: int | None = None,
        threshold: int | None = None,
        records_per_person: int = 1,
        random_state: Any = None,
        progress: bool = False,
    ) -> None:
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
        self.max_depth = max_depth
        self.min_samples_leaf = min_samples_leaf
        self.n_bins = n_bins
        self.leaf_share = leaf_share
        self.save_budget = save_budget
        self.bounds_share = bounds_share
        self.chunk = chunk
        self.consistency = consistency
        self.known_zeros = known_zeros
        self.lean = lean
        self.refine = refine
        self.placement = placement
        self.colluders = colluders
        self.threshold = threshold
        self.records_per_person = records_per_person
        self.random_state = random_state
        self.progress = progress

    def _recipe(self, schema: Schema) -> Recipe:
        return HistogramTree(
            max_depth=at_least(self.max_depth, 1, "max_depth"),
            min_samples_leaf=float(self.min_samples_leaf),
            leaf_share=shares(self.leaf_share, "leaf_share"),
            save_budget=bool(self.save_budget),
            bounds_share=shares(self.bounds_share, "bounds_share"),
            chunk=at_least(self.chunk, 1, "chunk"),
            consistency=self.consistency,
            known_zeros=self.known_zeros,
            n_bins=self.n_bins,
            lean=self.lean,
            refine=refinement(self.refine),
        )
