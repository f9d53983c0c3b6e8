"""A best-first tree with private splits (Wang, Dick and Balcan 2020)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

from hedgerow.methods import wang
from hedgerow.methods.base import PrivateClassifier
from hedgerow.methods.blocks.leaves import LeafBudget
from hedgerow.methods.blocks.screening import Refinement
from hedgerow.methods.method import Recipe
from hedgerow.methods.parameters import checked, estimator, filled, parameter, when
from hedgerow.methods.wang import Criterion, Finding, PerTable, TopDown
from hedgerow.privacy.queries import MOST_ROWS, Mechanism
from hedgerow.schema.rules import (
    FLAG,
    SHARE,
    Rule,
    a,
    either,
    exact,
    number,
    one_of,
    or_none,
    whole,
)
from hedgerow.schema.schema import Schema


def _callable(value: Any) -> Callable[[int], Callable[[int], Fraction]]:
    """A function of the depth, as a rule that also knows the number of splits."""
    if not callable(value):
        raise TypeError
    return lambda max_splits: wang.Listed(
        tuple(exact(value(d), f"budget({d})") for d in range(1, max_splits + 1))
    )


BUDGETS: dict[str, Callable[[int], wang.Budget]] = {
    "decay": lambda max_splits: wang.decay,
    "slow": lambda max_splits: wang.slow,
    "even": wang.even,
}


@estimator
class TopDownTreeClassifier(PrivateClassifier):
    """A best-first tree: DP-TopDown, Wang, Dick and Balcan 2020, Algorithm 1, made sound.

    Made sound means: everything that leaves a site is charged for all that it tells, also where
    the paper's own account forgets some of it (docs/design/methods.md).

    Examples
    --------
    >>> import hedgerow as hr
    >>> columns = (hr.Numeric("age", 0, 100), hr.Numeric("dose", 0, 10))
    >>> schema = hr.Schema(columns, classes=("no", "yes"))
    >>> X = [[20, 1], [30, 2], [70, 8], [80, 9]] * 500
    >>> y = ["no", "no", "yes", "yes"] * 500
    >>> model = hr.TopDownTreeClassifier(schema, epsilon=10.0, max_splits=4).fit(X, y)
    >>> model.predict([[25, 1], [75, 9]])
    array(['no', 'yes'], dtype='<U3')

    """

    max_splits: int = parameter(
        default=512, rule=whole(1), text="Splits of the tree, best first (M in the paper)."
    )
    split: str = parameter(
        default="noisy_counts",
        rule=one_of(Finding),
        text="How a node finds its split. 'noisy_counts': from private histograms of all "
        "features. 'local_choice': among the splits that each site picked on its own rows. "
        "'choice': by one holder's private choice among all splits.",
    )
    criterion: str = parameter(
        default="gini",
        rule=one_of(Criterion),
        text="Impurity. One record moves 'gini' by at most 2 and 'entropy' by log(rows), so "
        "private choices by 'gini' are sharper; the paper uses 'entropy'. 'root_gini' needs "
        "'noisy_counts': its sensitivity grows with the root of the number of rows, so it cannot "
        "score a choice.",
    )
    budget: str | Callable[[int], Any] = parameter(
        default="decay",
        rule=either(one_of(BUDGETS), Rule("callable", "a function of the depth", _callable)),
        text="Part B(d) of the splits' budget for a node at depth d = 1, 2, ...: 2^-d, "
        "0.8^(d - 1) / 5, 1 / max_splits, or what the function says. All depths together may "
        "have at most 1.",
    )
    leaf_share: float = parameter(
        default=0.5,
        rule=SHARE,
        text="Part of the budget kept for the leaves (LPF in the paper).",
    )
    min_fraction_split: float | None = parameter(
        default=None,
        rule=or_none(number(least=0.0)),
        text="Smallest part of all rows that a node must hold to be split; None is "
        "0.1 / max_splits.",
    )
    min_gain: float = parameter(
        default=0.01,
        rule=number(),
        text="A node whose impurity falls by no more than this, per row, is not split.",
    )
    rows_at_most: int = parameter(
        default=MOST_ROWS,
        rule=whole(1),
        used=(when(criterion="entropy", split=("local_choice", "choice")),),
        text="A public guess of the number of rows: the closer from above, the sharper the "
        "choice. Any guess is private.",
    )
    n_bins: int | None = parameter(
        default=None,
        rule=or_none(whole(2)),
        text="Uniform bins per numeric feature; None keeps the schema's own grid.",
    )
    tables: str = parameter(
        default="feature",
        rule=one_of(PerTable),
        used=(when(split="noisy_counts"),),
        text="What 'noisy_counts' asks: a histogram of each feature, or class counts on both sides "
        "of each 'split', as written in the paper; its noise grows with the number of splits.",
    )
    mechanism: str | None = parameter(
        default=None,
        rule=or_none(one_of(Mechanism)),
        used=(when(split=("local_choice", "choice")),),
        text="How a private choice is made; the paper's is 'report_noisy_max'. None is "
        "'permute_and_flip' where delta = 0, and 'exponential' where delta > 0.",
    )
    index_share: float = parameter(
        default=0.75,
        rule=SHARE,
        used=(when(split=("local_choice", "choice")),),
        text="Part of a node's budget that the choice may spend; counts of what was chosen have "
        "the rest. One half in the paper.",
    )
    ask_all: bool = parameter(
        default=False,
        rule=FLAG,
        text="Whether nodes are asked too whose noise would be louder than their rows, as in the "
        "paper.",
    )
    leaf_budget: str = parameter(
        default="unspent",
        rule=one_of(LeafBudget),
        text="What a leaf is asked with: all that its path did not spend, or 'share', the "
        "`leaf_share` alone, as printed.",
    )
    consistency: bool = parameter(
        default=True,
        rule=FLAG,
        text="Make the tables of a node agree with each other and with the path to it.",
    )
    lean: bool = parameter(
        default=False,
        rule=FLAG,
        text="Whether a leaf leans on the nodes above it: it says something between its own noisy "
        "counts and theirs, the closer to theirs the noisier its own are. Free of charge.",
    )
    refine: Refinement | None = parameter(
        default=None,
        rule=or_none(a(Refinement)),
        text="For 'noisy_counts': tables asked and read as our own tree does it, with private "
        "bins, naive-Bayes prior, screening and noise-penalised gain, on the fine grid of "
        "numbers; hedgerow.Refinement() takes all of them.",
    )

    def _recipe(self, schema: Schema) -> Recipe:
        given = checked(self)
        return filled(TopDown, given, budget=given.budget(given.max_splits))
