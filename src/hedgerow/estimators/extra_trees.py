"""Extremely randomised trees over several sites (Liu et al. 2020)."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hedgerow.errors import SpecError
from hedgerow.estimators.base import (
    PrivateClassifier,
    PrivateEstimator,
    PrivateRegressor,
    at_least,
    given_or_none,
    positive,
    shares,
)
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.noise.response import BloomReports
from hedgerow.recipes.papers.liu import ExtraTrees, Ranges, SplitRule
from hedgerow.recipes.recipe import Recipe
from hedgerow.values.schema import Schema

HASHES = 2
BITS_PER_CLASS = 2
"""The filter of 'bloom': enough bits that the codes of labels seldom meet."""


class _ExtraTrees(PrivateEstimator):
    """Parameters of both kinds of extra-trees."""

    def __init__(
        self,
        schema: Schema | None = None,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        n_trees: int = 20,
        max_depth: int = 20,
        max_features: int | None = None,
        min_samples_split: float = 2.0,
        min_samples_leaf: float = 1.0,
        split: str = "best",
        ranges: str = "public",
        leaf_share: float = 0.5,
        subsample: int | None = None,
        lean: bool = False,
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
        self.n_trees = n_trees
        self.max_depth = max_depth
        self.max_features = max_features
        self.min_samples_split = min_samples_split
        self.min_samples_leaf = min_samples_leaf
        self.split = split
        self.ranges = ranges
        self.leaf_share = leaf_share
        self.subsample = subsample
        self.lean = lean
        self.placement = placement
        self.colluders = colluders
        self.threshold = threshold
        self.records_per_person = records_per_person
        self.random_state = random_state
        self.progress = progress

    def _recipe(self, schema: Schema) -> Recipe:
        if self.split not in [split.value for split in SplitRule]:
            raise SpecError(f"split is {self.split!r}; use 'best' or 'random'.")
        if self.ranges not in [ranges.value for ranges in Ranges]:
            raise SpecError(f"ranges is {self.ranges!r}; use 'public' or 'observed'.")
        subsample = self.subsample
        return ExtraTrees(
            n_trees=at_least(self.n_trees, 1, "n_trees"),
            max_depth=at_least(self.max_depth, 1, "max_depth"),
            max_features=given_or_none(self.max_features, "max_features"),
            min_samples_split=float(positive(self.min_samples_split, "min_samples_split")),
            min_samples_leaf=float(positive(self.min_samples_leaf, "min_samples_leaf")),
            split=SplitRule(self.split),
            ranges=Ranges(self.ranges),
            leaf_share=shares(self.leaf_share, "leaf_share"),
            subsample=None if subsample is None else at_least(subsample, 2, "subsample"),
            lean=self.lean,
        )


class ExtraTreesClassifier(_ExtraTrees, PrivateClassifier):
    """Federated Extra-Trees, Liu et al. 2020: all trees in lockstep, a round a level.

    Under placement 'nowhere' this is the paper's FET, under 'label' its FET-LDP (labels only:
    features are not protected), under 'silo' its FET-GDP; 'shares' divides the noise.

    Parameters (besides those of every estimator)
    ----------
    n_trees, max_depth : int
        Every tree is charged a part of the budget, and so is every level. The defaults are the
        paper's and suit 'nowhere' and 'label'; with noise on every sum use few levels.
    max_features : int or None
        Random tests that compete for a node; None is the root of the number of features, at
        least 2.
    min_samples_split, min_samples_leaf : float
        A node with fewer rows stays a leaf; a side with fewer rows is no split. Noisy numbers
        decide.
    split : {'best', 'random'}
        'random' takes splits without looking and spends everything on the leaves.
    ranges : {'public', 'observed'}
        Cuts fall within the schema's bounds, or between the lowest and the highest cell that
        holds any row. 'observed' tells everybody exactly how many rows lie in every cell of every
        feature; only placements that protect no feature ('nowhere', 'label') allow it.
    leaf_share : float
        Part of the budget kept for the leaves, where sums carry noise.
    subsample : int or None
        Each tree sees one record in so many, drawn by each record for each tree; None: all.
    lean : bool
        Whether a noisy leaf leans on the nodes above it, or on all leaves together.
    label_mechanism : 'response', 'bloom' or BloomReports
        How labels are told under placement 'label': k-ary randomised response; noisy bits of a
        Bloom filter, as in the paper, that cost epsilon for ever; or such reports spelled out.

    """

    def __init__(
        self,
        schema: Schema | None = None,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        n_trees: int = 20,
        max_depth: int = 20,
        max_features: int | None = None,
        min_samples_split: float = 2.0,
        min_samples_leaf: float = 1.0,
        split: str = "best",
        ranges: str = "public",
        leaf_share: float = 0.5,
        subsample: int | None = None,
        lean: bool = False,
        label_mechanism: str | BloomReports = "response",
        placement: str | None = None,
        colluders: int | None = None,
        threshold: int | None = None,
        records_per_person: int = 1,
        random_state: Any = None,
        progress: bool = False,
    ) -> None:
        super().__init__(
            schema,
            epsilon,
            delta,
            n_trees=n_trees,
            max_depth=max_depth,
            max_features=max_features,
            min_samples_split=min_samples_split,
            min_samples_leaf=min_samples_leaf,
            split=split,
            ranges=ranges,
            leaf_share=leaf_share,
            subsample=subsample,
            lean=lean,
            placement=placement,
            colluders=colluders,
            threshold=threshold,
            records_per_person=records_per_person,
            random_state=random_state,
            progress=progress,
        )
        self.label_mechanism = label_mechanism

    def _label_reports(
        self, schema: Schema, epsilon: Fraction, placement: Placement | None
    ) -> BloomReports | None:
        if isinstance(self.label_mechanism, BloomReports):
            return self.label_mechanism
        if self.label_mechanism not in ("response", "bloom"):
            raise SpecError(
                f"label_mechanism is {self.label_mechanism!r}; use 'response', 'bloom' or a "
                "BloomReports value."
            )
        if self.label_mechanism == "response" or placement is not Placement.LABEL:
            return None
        classes = len(schema.classes or ())
        each = epsilon / at_least(self.records_per_person, 1, "records_per_person")
        return BloomReports.for_epsilon(classes, BITS_PER_CLASS * classes, HASHES, each)


class ExtraTreesRegressor(_ExtraTrees, PrivateRegressor):
    """Federated Extra-Trees for a number: splits by variance; see ExtraTreesClassifier.

    Parameters (besides those of every estimator)
    ----------
    n_trees, max_depth, max_features, min_samples_split, min_samples_leaf, split, ranges,
    leaf_share, subsample, lean
        As for ExtraTreesClassifier; `max_features` None is all features.

    """
