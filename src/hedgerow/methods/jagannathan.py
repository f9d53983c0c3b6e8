"""Random decision trees: Jagannathan, Pillaipakkamnatt and Wright 2012.

The structure of every tree is totally random, so the whole budget is for the leaves: each of N
trees has epsilon / N, and its class counts carry Laplace noise. Trees vote with the proportions of
their leaves. This is `ExtraTrees` with random splits.

It follows the paper's abstract and what others quote of it; `DEPARTURES` lists the known
differences and may be incomplete.
"""

from __future__ import annotations

from typing import Any

from hedgerow.methods.constants import constant
from hedgerow.methods.liu import ExtraTreesClassifier
from hedgerow.methods.method import Values
from hedgerow.methods.presets import Departure, preset
from hedgerow.schema.schema import Schema

MOST_LEVELS = constant(8, unit="levels")
"""Levels of a tree, instead of the logarithm of the number of records."""

PAPER = "Jagannathan et al. 2012"
DEPARTURES = (
    Departure("noisy leaf values are shrunk", {"shrinkage": False}),
    Departure(
        "a category is separated from the others and may be split again below; cuts of a number "
        "are on its public grid",
        reason="trees here are binary; the paper has a branch for every value",
    ),
    Departure(
        "a public limit replaces the logarithm of the number of records in the depth",
        unsound="that number is private here",
    ),
    Departure(
        "negative counts are set to zero before trees vote, trees are not pruned, and batches of "
        "new records are separate studies",
        reason="only the paper's abstract was available, so this list may be incomplete",
    ),
)


def _half_of_the_features(schema: Any, values: Values) -> Values:
    """The paper's depth, unless given."""
    if values["max_depth"] is not None or not isinstance(schema, Schema):
        return {}
    return {"max_depth": min(max(len(schema.features) // 2, 1), MOST_LEVELS)}


random_decision_trees = preset(
    "random_decision_trees",
    "Random decision trees",
    ExtraTreesClassifier,
    words="trees drawn without data, each with an equal part of epsilon for its leaf counts.",
    fixed_parameters={"split": "random", "shrinkage": False},
    usual={"n_estimators": 10, "max_depth": None, "delta": 0.0},
    derive=_half_of_the_features,
)
