"""Wang, Dick and Balcan 2020: DP-TopDown with three ways to find a split.

The defaults are section 4's: entropy, 512 splits, budgets that halve with the depth ('even' is the
other one), half of the budget for the leaves, 10 thresholds a number, pure epsilon. A private
choice tells its index only: told with the noisy maximum, as printed, k candidates would cost k / 2
times the claim (docs/proofs/selection.md), so the value is a fresh count, for which the half of a
node's budget stands that the paper gives to its weight. 'root_gini' has no useful sensitivity, and
the two methods that choose privately refuse it.
"""

from __future__ import annotations

from typing import Any

from hedgerow.methods.topdown import TopDownTreeClassifier
from hedgerow.papers.presets import preset

_USUAL = {
    "criterion": "entropy",
    "max_splits": 512,
    "budget": "decay",
    "leaf_share": 0.5,
    "leaf_budget": "share",
    "n_bins": 11,
    "ask_all": True,
    "consistency": False,
    "delta": 0.0,
}
CHOOSING = {**_USUAL, "index_share": 0.5}


def single_machine_rnm(
    schema: Any = None, epsilon: float = 1.0, **given: Any
) -> TopDownTreeClassifier:
    """SingleMachine: one holder's report-noisy-max over all splits (Lemma 4)."""
    makes = {"split": "choice", "mechanism": "report_noisy_max"}
    typed = {"schema": schema, "epsilon": epsilon, **given}
    return preset("SingleMachine RNM", TopDownTreeClassifier, makes, CHOOSING, typed)


def noisy_counts(schema: Any = None, epsilon: float = 1.0, **given: Any) -> TopDownTreeClassifier:
    """NoisyCounts: every entity's noisy class counts of both sides of every split (Lemma 6)."""
    makes = {"split": "noisy_counts", "tables": "split"}
    usual = {**_USUAL, "placement": "silo"}
    typed = {"schema": schema, "epsilon": epsilon, **given}
    return preset("NoisyCounts", TopDownTreeClassifier, makes, usual, typed)


def local_rnm(schema: Any = None, epsilon: float = 1.0, **given: Any) -> TopDownTreeClassifier:
    """LocalRNM: every entity's report-noisy-max on its own rows, then counts of what they chose."""
    makes = {"split": "local_choice", "mechanism": "report_noisy_max"}
    usual = {**CHOOSING, "placement": "silo"}
    typed = {"schema": schema, "epsilon": epsilon, **given}
    return preset("LocalRNM", TopDownTreeClassifier, makes, usual, typed)
