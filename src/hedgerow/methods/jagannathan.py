"""Random decision trees: Jagannathan, Pillaipakkamnatt and Wright 2012.

The structure of every tree is totally random, so the whole budget is for the
leaves: each of N trees has epsilon / N, and its class counts carry Laplace noise. Trees vote with
the proportions of their leaves. All of this is `ExtraTrees` with random splits.

Departures: a nominal feature is split into one category and the others, and may be split again
further down, where the paper has a branch for every value and takes a feature once on a path; cuts
of a numeric feature fall on cells of its public grid. The paper's depth is the smaller of half the
number of features and a logarithm of the number of records; that number is private here, so a
public limit stands for it. Negative counts are taken as zero before trees vote. Trees
are not pruned, and batches of new records (section 5) are studies of their own.
"""

from __future__ import annotations

from typing import Any

from hedgerow.methods.constants import constant
from hedgerow.methods.liu import ExtraTreesClassifier
from hedgerow.methods.method import Values
from hedgerow.methods.presets import preset
from hedgerow.schema.schema import Schema

MOST_LEVELS = constant(8, unit="levels")
"""Levels of a tree, in place of the logarithm of the number of records."""

PAPER = "Jagannathan et al. 2012"


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
