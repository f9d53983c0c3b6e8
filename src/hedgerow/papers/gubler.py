"""Gubler 2023: one tree from federated private histograms.

The defaults are those of the report's section 4: 10 bins, at least 10 rows a node, half of the
budget for the leaves, a quarter of a node's for bounds, pure epsilon. Without noise everything is
Algorithm 2: sums of exact counts.
"""

from __future__ import annotations

from typing import Any

from hedgerow.methods.gubler import Accounting, honest_factor
from hedgerow.methods.histogram_tree import HistogramTreeClassifier
from hedgerow.papers.presets import as_printed, n_features, preset
from hedgerow.schema.rules import exact

_USUAL = {
    "max_depth": 5,
    "n_bins": 10,
    "min_samples_split": 10.0,
    "leaf_share": 0.5,
    "leaf_budget": "share",
    "consistency": False,
    "known_zeros": False,
    "delta": 0.0,
}
SAVING = {**_USUAL, "bounds_share": 0.25}


def algorithm_2(schema: Any = None, **given: Any) -> HistogramTreeClassifier:
    """Algorithm 2: splits by impurities of exact sums over all parties; nothing is promised."""
    makes = {"placement": "nowhere", "save_budget": False}
    typed = {"schema": schema, **given}
    return preset("Algorithm 2", HistogramTreeClassifier, makes, _USUAL, typed)


def algorithm_5(schema: Any = None, epsilon: float = 1.0, **given: Any) -> HistogramTreeClassifier:
    """Algorithm 5: the best split of noisy histograms of all features, level by level."""
    typed = {"schema": schema, "epsilon": epsilon, **given}
    return preset("Algorithm 5", HistogramTreeClassifier, {"save_budget": False}, _USUAL, typed)


def algorithm_6(schema: Any = None, epsilon: float = 1.0, **given: Any) -> HistogramTreeClassifier:
    """Algorithm 6 made sound: noisy bounds of all features, paid, rule out some histograms."""
    makes = {"save_budget": True, "accounting": "sound"}
    typed = {"schema": schema, "epsilon": epsilon, **given}
    return preset("Algorithm 6", HistogramTreeClassifier, makes, SAVING, typed)


def algorithm_6_as_printed(
    schema: Any, printed_epsilon: float = 1.0, **given: Any
) -> HistogramTreeClassifier:
    """Algorithm 6 with the report's budgets, at the epsilon that they really cost at most."""
    return _told(Accounting.PRINTED, schema, printed_epsilon, given)


def algorithm_6_as_released(
    schema: Any, printed_epsilon: float = 1.0, **given: Any
) -> HistogramTreeClassifier:
    """Algorithm 6 as released: its bounds are noise around zero, so they cost nothing."""
    return _told(Accounting.RELEASED, schema, printed_epsilon, given)


def _told(
    accounting: Accounting, schema: Any, printed_epsilon: float, given: dict[str, Any]
) -> HistogramTreeClassifier:
    method = f"Algorithm 6 as {accounting.value}"
    shares = {**SAVING, **given}
    factor = honest_factor(
        accounting,
        n_features(method, schema),
        shares["max_depth"],
        exact(shares["leaf_share"], "leaf_share"),
        exact(shares["bounds_share"], "bounds_share"),
    )
    typed = {
        "schema": schema,
        **given,
        "epsilon": as_printed(method, printed_epsilon, factor, given),
    }
    makes = {"save_budget": True, "accounting": accounting.value}
    return preset(method, HistogramTreeClassifier, makes, SAVING, typed)
