"""No parameter does nothing: it changes what is built, or it raises and names who uses it."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from fractions import Fraction
from unittest.mock import patch

import pytest
from sklearn.base import is_regressor

import hedgerow as hr
from hedgerow.errors import SpecError
from hedgerow.methods import maddock, training
from hedgerow.methods.parameters import declared, estimator, parameter
from hedgerow.privacy.mechanisms.response import BloomReports
from hedgerow.schema import rules
from hedgerow.schema.schema import Schema
from support.worlds import TWO, VALUE

ESTIMATORS = [
    getattr(hr, name) for name in hr.__all__ if name.endswith(("Classifier", "Regressor"))
]
FREE = {"random_state", "n_jobs", "progress", "schema", "ledger", "hold_out"}
"""Public randomness, threads, the terminal and a file, which no plan knows; the columns; and which
rows are trained on (tests/methods/test_evaluate.py).
"""
BLOOM = BloomReports.for_epsilon(2, 4, 2, Fraction(1))

OTHERS = {
    "epsilon": [2.0],
    "delta": [1e-5],
    "placement": ["curator", "shares", "silo", "label", "nowhere"],
    "colluders": [2],
    "threshold": [2],
    "records_per_person": [2],
    "n_trees": [3],
    "max_depth": [2, 3],
    "max_splits": [5],
    "batch": [2],
    "split": {
        "ComponentBoosting": ["histogram", "partially_random", "totally_random", "oblivious"],
        "ExtraTrees": ["random"],
        "MedianForest": ["grid", "medians", "median", "table"],
        "TopDownTree": ["local_choice", "choice"],
    },
    "accounting": ["printed", "released"],
    "ask_all": [True],
    "index_share": [0.4],
    "leaf_budget": ["share"],
    "leaves": ["printed", "pulled"],
    "prune": [True],
    "spare": [3],
    "tables": ["split"],
    "update": ["averaging", "gradient", "newton", "wiener"],
    "candidates": ["uniform", "log", "quantile", "exact_quantile", "merged", "iterative_hessian"],
    "n_bins": [9],
    "hessian_rounds": [3],
    "order": ["cyclic", "random"],
    "features_per_tree": [1],
    "learning_rate": [0.2],
    "leaf_clip": [1.0],
    "ridge": [0.5],
    "criterion": ["entropy", "root_gini"],
    "budget": ["slow", "even"],
    "leaf_share": [0.4],
    "bounds_share": [0.3],
    "chunk": [2],
    "save_budget": [True],
    "consistency": [False],
    "known_zeros": [False],
    "lean": [True, False],
    "refine": [hr.Refinement()],
    "merge_equal_labels": [True],
    "min_samples_leaf": [9.0],
    "min_samples_split": [9.0],
    "rows_per_leaf": [30.0],
    "min_fraction_split": [0.2],
    "min_gain": [0.2],
    "rows_at_most": [1000],
    "max_features": [2],
    "subsample": [2],
    "ranges": ["observed"],
    "mechanism": ["exponential", "permute_and_flip", "report_noisy_max"],
    "folds": [True, False],
    "label_mechanism": ["bloom", BLOOM],
}
"""Values that differ from the default, for every parameter of every estimator."""


def others(kind, name):
    found = OTHERS[name]
    if isinstance(found, dict):
        found = found[kind.__name__.removesuffix("Classifier").removesuffix("Regressor")]
    return [value for value in found if value != getattr(kind(), name)]


def choices(kind):
    """Settings of one parameter, on which the use of others may hang: words, flags, None or not."""
    hinges = {name for p in declared(kind) for when in p.used for name in when.settings}
    words = {p.name for p in declared(kind) if p.kind.startswith(("{", "bool", "Refinement"))}
    names = [p.name for p in declared(kind) if p.name in (hinges | words) - FREE]
    return [{}, *({name: value} for name in names for value in others(kind, name))]


def seen(value):
    """What can be compared: functions by what they say."""
    if callable(value) and not isinstance(value, type):
        return [value(depth) for depth in range(1, 5)]
    if is_dataclass(value) and not isinstance(value, Schema):
        return [type(value), *(seen(getattr(value, f.name)) for f in fields(value))]
    return value


def built(model, schema, parties):
    """Grid, recipe and study: all that decides what is asked, and with how much noise."""
    model.random_state = 0  # two studies of one estimator are the same
    with patch.object(training, "check_needs"):  # what a recipe needs is another question
        return seen(list(training.agree(model, schema, parties)))


def attempt_on(model, schema, parties):
    try:
        return built(model, schema, parties)
    except SpecError as error:
        return str(error)


def attempt(kind, parties, settings):
    model = kind(**settings)
    return attempt_on(model, VALUE if is_regressor(model) else TWO, parties)


def idle(kind, settings, parties):
    """Parameters that change nothing, whatever their value, or are refused without their name.

    A value that says what the default does anyway is not idle if another one changes something.
    """
    before = attempt(kind, parties, settings)
    assert not isinstance(before, str)
    found = []
    for name in (p.name for p in declared(kind) if p.name not in FREE and p.name not in settings):
        after = [attempt(kind, parties, {**settings, name: v}) for v in others(kind, name)]
        nameless = [said for said in after if isinstance(said, str) and name not in said]
        if all(outcome == before for outcome in after) or nameless:
            found.append((name, nameless))
    return found


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda k: k.__name__)
def test_every_parameter_changes_what_is_built_or_is_refused_by_name(kind):
    tried = 0
    for settings in choices(kind):
        parties = 3 if settings.get("placement") in ("shares", "silo") else 1
        if not isinstance(attempt(kind, parties, settings), str):
            tried += 1
            assert idle(kind, settings, parties) == [], settings
    assert tried >= 5
    assert idle(kind, {}, 3) == []


@pytest.mark.parametrize("name", maddock.NAMED)
@pytest.mark.parametrize("schema", [TWO, VALUE], ids=["classes", "number"])
def test_every_method_is_tried(schema, name):
    """Twin of the above: no method of boosting is left out because it cannot be built."""
    assert not isinstance(attempt_on(maddock.NAMED[name](schema), schema, 1), str)


@estimator
class Lazy(hr.TreeClassifier):
    """A tree with a parameter that nobody reads."""

    learning_rate: float = parameter(default=0.3, rule=rules.number(), text="Nothing.")


def test_a_parameter_that_nobody_reads_would_be_found():
    assert idle(Lazy, {}, 1) == [("learning_rate", [])]


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        (hr.ComponentBoostingClassifier, {"min_gain": 2.0}, "with split='totally_random'; use it"),
        (
            hr.ComponentBoostingClassifier,
            {"learning_rate": 0.1, "update": "averaging"},
            "use it with update='newton' or 'gradient'; or leave it at 0.3",
        ),
        (hr.ComponentBoostingRegressor, {"order": "cyclic"}, "with features_per_tree=..."),
        (hr.ExtraTreesClassifier, {"label_mechanism": "bloom"}, "with placement='label'"),
        (hr.HistogramTreeClassifier, {"chunk": 2}, "with save_budget=True; or leave it at 1"),
        (hr.MedianForestClassifier, {"rows_per_leaf": 9.0, "max_depth": 2}, "with max_depth=None"),
        (hr.TreeClassifier, {"colluders": 1}, "one holder has all rows; name several"),
    ],
)
def test_a_refusal_names_the_parameter_and_who_would_use_it(kind, options, words):
    name = next(iter(options))
    refused = attempt(kind, 1, options)
    assert refused.startswith(f"{name} is ")
    assert words in refused


def test_methods_of_the_paper_take_the_numbers_that_it_varies():
    model = hr.papers.maddock.dp_tr_newton_ih(
        n_trees=7,
        max_depth=2,
        learning_rate=0.1,
        n_bins=8,
        hessian_rounds=2,
    )
    recipe = model._recipe(TWO)
    assert (recipe.n_trees, recipe.max_depth, recipe.learning_rate) == (7, 2, 0.1)
    assert (recipe.n_bins, recipe.hessian_rounds) == (8, 2)
