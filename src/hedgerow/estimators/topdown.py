"""A best-first tree with private splits (Wang, Dick and Balcan 2020)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from hedgerow.errors import SpecError
from hedgerow.estimators.base import PrivateClassifier, at_least, refinement, shares
from hedgerow.learning.choosing.screening import Refinement
from hedgerow.privacy.accounting.budget import exact
from hedgerow.queries import MOST_ROWS
from hedgerow.recipes.papers import wang
from hedgerow.recipes.papers.wang import Criterion, Finding, TopDown
from hedgerow.recipes.recipe import Recipe
from hedgerow.values.schema import Schema

ERROR = 0.1
"""The paper's target error; nodes lighter than ERROR / max_splits are not split."""


class TopDownTreeClassifier(PrivateClassifier):
    """DP-TopDown, Wang, Dick and Balcan 2020, Algorithm 1, made sound.

    Parameters (besides those of every estimator)
    ----------
    max_splits : int
        Splits of the tree, best first (M in the paper).
    split : {'noisy_counts', 'local_choice', 'noisy_max'}
        How a node finds its split: from private histograms of all features; from the splits that
        each site picked on its own rows; or by one holder's private choice among all splits.
    criterion : {'gini', 'entropy', 'root_gini'}
        Impurity. One record moves 'gini' by at most 2 and 'entropy' by log(rows), so private
        choices by 'gini' are sharper; the paper uses 'entropy'. 'root_gini' needs 'noisy_counts':
        its sensitivity grows with the root of the number of rows, so it cannot score a choice.
    budget : 'decay', 'slow', 'even' or callable
        Part B(d) of the splits' budget for a node at depth d = 1, 2, ...: 2^-d, 0.8^(d - 1) / 5,
        1 / max_splits, or what the callable says. All depths together may have at most 1.
    leaf_share : float
        Part of the budget kept for the leaves (LPF in the paper).
    min_weight : float or None
        Smallest part of all rows that a node must hold to be split; None is 0.1 / max_splits.
    min_gain : float
        A node whose impurity falls by no more than this, per row, is not split.
    rows_at_most : int
        A public guess of the number of rows, used by 'entropy' in private choices: the closer from
        above, the sharper the choice. Any guess is private.
    consistency : bool
        Make the tables of a node agree with each other and with the path to it.
    lean : bool
        Whether leaves lean on the nodes above them, the more the noisier they are.
    refine : Refinement or None
        For 'noisy_counts': tables asked and read as our own tree does it, with private bins,
        naive-Bayes prior, screening and noise-penalised gain, on the fine grid of numbers.
    """

    def __init__(
        self,
        schema: Schema | None = None,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        max_splits: int = 512,
        split: str = "noisy_counts",
        criterion: str = "gini",
        budget: str | Callable[[int], Any] = "decay",
        leaf_share: float = 0.5,
        min_weight: float | None = None,
        min_gain: float = 0.01,
        rows_at_most: int = MOST_ROWS,
        consistency: bool = True,
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
        self.max_splits = max_splits
        self.split = split
        self.criterion = criterion
        self.budget = budget
        self.leaf_share = leaf_share
        self.min_weight = min_weight
        self.min_gain = min_gain
        self.rows_at_most = rows_at_most
        self.consistency = consistency
        self.lean = lean
        self.refine = refine
        self.placement = placement
        self.colluders = colluders
        self.threshold = threshold
        self.records_per_person = records_per_person
        self.random_state = random_state
        self.progress = progress

    def _recipe(self, schema: Schema) -> Recipe:
        max_splits = at_least(self.max_splits, 1, "max_splits")
        min_weight = ERROR / max_splits if self.min_weight is None else float(self.min_weight)
        return TopDown(
            max_splits=max_splits,
            finding=Finding(one_of(self.split, [f.value for f in Finding], "split")),
            criterion=Criterion(one_of(self.criterion, [c.value for c in Criterion], "criterion")),
            budget=budget_of(self.budget, max_splits),
            leaf_share=shares(self.leaf_share, "leaf_share"),
            min_weight=min_weight,
            min_gain=float(self.min_gain),
            rows_at_most=at_least(self.rows_at_most, 1, "rows_at_most"),
            consistency=bool(self.consistency),
            lean=bool(self.lean),
            refine=refinement(self.refine),
        )


def budget_of(budget: str | Callable[[int], Any], max_splits: int) -> wang.Budget:
    if callable(budget):
        return lambda depth: _share_at(budget, depth)
    named = {"decay": wang.decay, "slow": wang.slow, "even": wang.even(max_splits)}
    return named[one_of(budget, list(named), "budget")]


def _share_at(budget: Callable[[int], Any], depth: int) -> Fraction:
    return exact(budget(depth), f"budget({depth})")


def one_of(value: Any, allowed: list[str], name: str) -> str:
    if value not in allowed:
        raise SpecError(f"{name} is {value!r}; use one of {sorted(allowed)}.")
    return str(value)
