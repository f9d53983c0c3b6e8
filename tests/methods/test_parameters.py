"""Parameters are declared once: signature, checks and documentation all follow from that."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import runpy
from dataclasses import fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
from sklearn.base import is_regressor
from sklearn.model_selection import GridSearchCV

import hedgerow as hr
from hedgerow.errors import PrivacyWarning, SpecError
from hedgerow.methods import maddock, training
from hedgerow.methods.base import PrivateClassifier
from hedgerow.methods.parameters import checked, declared, estimator, parameter
from hedgerow.privacy.mechanisms.response import BloomReports
from hedgerow.privacy.queries import Mechanism
from hedgerow.schema import rules
from hedgerow.schema.rules import exact
from hedgerow.schema.schema import Schema
from methods.test_estimators import EACH, ONE_HOLDER, small, world
from support.worlds import TWO, VALUE, opened_by, sample

ESTIMATORS = [
    getattr(hr, name) for name in hr.__all__ if name.endswith(("Classifier", "Regressor"))
]
DOCS = Path(__file__).parents[2] / "docs"
EVERY_ESTIMATOR = pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda k: k.__name__)


# --------------------------------------------------------------------------------------- rules
KEPT = [
    (rules.whole(1), np.int64(3), 3),
    (rules.whole(2), np.uint8(2), 2),
    (rules.number(above=0.0), np.float32(0.5), 0.5),
    (rules.number(), Fraction(1, 4), 0.25),
    (rules.SHARE, np.float64(0.1), Fraction(1, 10)),
    (rules.FLAG, np.bool_(True), True),
    (rules.one_of(Mechanism), "exponential", Mechanism.EXPONENTIAL),
    (rules.or_none(rules.whole(1)), None, None),
    (rules.or_none(rules.whole(1)), 4, 4),
    (rules.either(rules.one_of({"all": 0}), rules.whole(1)), 7, 7),
]
BROKEN = [
    (rules.whole(1), 0, "a whole number of 1 or more"),
    (rules.whole(1), 1.0, "a whole number of 1 or more"),
    (rules.whole(1), True, "a whole number of 1 or more"),
    (rules.whole(1), "3", "a whole number of 1 or more"),
    (rules.number(above=0.0), 0.0, "a finite number above 0.0"),
    (rules.number(least=0.0), -1.0, "a finite number of 0.0 or more"),
    (rules.number(), math.nan, "a finite number"),
    (rules.number(), math.inf, "a finite number"),
    (rules.number(), False, "a finite number"),
    (rules.SHARE, 1, "between 0 and 1"),
    (rules.SHARE, math.nan, "between 0 and 1"),
    (rules.FLAG, 1, "True or False"),
    (rules.FLAG, "yes", "True or False"),
    (rules.one_of({"a": 1, "b": 2}), "A", "one of 'a', 'b'"),
    (rules.one_of(Mechanism), Mechanism.EXPONENTIAL, "one of"),
    (rules.one_of(Mechanism), ["exponential"], "one of"),
    (rules.a(hr.Refinement), True, "a hedgerow.Refinement"),
    (rules.either(rules.one_of({"all": 0}), rules.whole(1)), 0, "one of 'all', or a whole number"),
]


@pytest.mark.parametrize(("rule", "given", "read"), KEPT)
def test_a_value_that_keeps_its_rule_is_put_in_our_own_type(rule, given, read):
    found = rule.check("it", given)
    assert found == read
    assert type(found) is type(read)


@pytest.mark.parametrize(("rule", "given", "allowed"), BROKEN)
def test_a_value_that_breaks_its_rule_is_named_with_what_is_allowed(rule, given, allowed):
    with pytest.raises(SpecError) as refused:
        rule.check("it", given)
    assert str(refused.value).startswith(f"it is {given!r}; use ")
    assert allowed in str(refused.value)


# ------------------------------------------------------------------------------------ estimators
@EVERY_ESTIMATOR
def test_the_signature_is_made_of_the_declarations(kind):
    signature = inspect.signature(kind.__init__).parameters
    known = declared(kind)
    assert {p.name: p.default for p in known} == {
        name: p.default for name, p in signature.items() if name != "self"
    }
    positional = [n for n, p in signature.items() if p.kind is p.POSITIONAL_OR_KEYWORD]
    assert positional == ["self", "schema", "epsilon", "delta"]
    assert [p.name for p in known][:3] == ["schema", "epsilon", "delta"]
    assert [p.name for p in known][-3:] == ["random_state", "n_jobs", "progress"]


@EVERY_ESTIMATOR
def test_a_misspelt_parameter_is_refused_at_once(kind):
    with pytest.raises(TypeError, match="epsillon"):
        kind(epsillon=1.0)


@EVERY_ESTIMATOR
def test_defaults_keep_their_own_rules_and_are_used(kind):
    assert checked(kind()).progress is False


@EVERY_ESTIMATOR
def test_help_shows_every_parameter_with_kind_default_and_words(kind):
    for p in declared(kind):
        assert f"\n{p.name} : {p.kind}, default={p.default!r}\n    " in kind.__doc__
        assert p.text.strip().endswith(".")
    assert kind.__doc__.index("\nParameters\n---") < kind.__doc__.index("\nAttributes\n---")
    assert ("\nclasses_ : " in kind.__doc__) == hasattr(kind, "predict_proba")
    assert "\nExamples\n--------\n>>> import hedgerow as hr\n" in kind.__doc__


@EVERY_ESTIMATOR
def test_no_line_of_a_docstring_but_a_list_of_choices_is_too_long(kind):
    lines = [line for line in kind.__doc__.splitlines() if " : {" not in line]
    assert max(map(len, lines)) <= 100


def test_a_declaration_is_all_that_a_new_parameter_needs():
    @estimator
    class Toy(PrivateClassifier):
        """A toy.

        Examples
        --------
        >>> 1 + 1
        2

        """

        height: int = parameter(default=3, rule=rules.whole(2), text="How high it stands.")

    assert Toy(height=5).get_params()["height"] == 5
    assert repr(Toy(height=5)) == "Toy(height=5)"
    assert "height : int, default=3\n    How high it stands.\n" in Toy.__doc__
    assert Toy.__doc__.rstrip().endswith(">>> 1 + 1\n2")
    with pytest.raises(SpecError, match="height is 1; use a whole number of 2 or more"):
        checked(Toy(height=1))


def test_the_table_of_all_parameters_is_the_one_in_the_docs():
    """If this fails: `python docs/make_parameters.py`."""
    made = runpy.run_path(str(DOCS / "make_parameters.py"))
    assert (DOCS / "parameters.md").read_text(encoding="utf-8") == made["page"]()
    for kind in ESTIMATORS:
        for p in declared(kind):
            assert f"\n| `{p.name}` | " in made["page"]()


def test_two_estimators_of_one_method_may_have_different_parameters():
    """A policy names both as one."""
    classifier, regressor = hr.TreeClassifier(max_depth=2), hr.TreeRegressor(max_depth=2)
    assert set(classifier.get_params()) - set(regressor.get_params()) == {"merge_equal_labels"}
    recipes = [classifier._recipe(TWO), regressor._recipe(VALUE)]
    assert [recipe.name for recipe in recipes] == ["tree", "tree"]
    assert type(recipes[0]) is not type(recipes[1])


# --------------------------------------------------------------------------------------------------
# Parameters from NumPy, as a search over parameters hands them out, are plain numbers inside.
def of_numpy(value):
    """The same number in a NumPy type; anything else as it is."""
    for plain, kind in ((bool, np.bool_), (int, np.int64), (float, np.float64)):
        if type(value) is plain:
            return kind(value)
    return value


def found(value) -> list[object]:
    """All NumPy numbers in a value made of dataclasses and tuples."""
    if isinstance(value, np.generic):
        return [value]
    if isinstance(value, Fraction):
        return found(value.numerator) + found(value.denominator)
    if dataclasses.is_dataclass(value):
        return [n for f in dataclasses.fields(value) for n in found(getattr(value, f.name))]
    if isinstance(value, list | tuple | dict):
        parts = value.values() if isinstance(value, dict) else value
        return [n for part in parts for n in found(part)]
    return []


def holders(kind, y):
    """Three, where the method can have several."""
    return None if kind in ONE_HOLDER else np.arange(len(y)) % 3


@EACH
def test_every_parameter_may_come_from_numpy(kind):
    schema, X, y = world(kind)
    plain = small(kind, schema=schema, epsilon=5.0)
    numpy = small(kind, schema=schema, epsilon=5.0)
    numpy.set_params(**{k: of_numpy(v) for k, v in plain.get_params(deep=False).items()})
    assert found(numpy._recipe(schema)) == []
    assert numpy._recipe(schema) == plain._recipe(schema)
    party = holders(kind, y)
    studies = [opened_by(model, X, y, party=party)[0] for model in (plain, numpy)]
    assert found(studies[1]) == []
    assert studies[0].hash == studies[1].hash


@EACH
def test_a_fit_with_parameters_from_numpy_can_be_saved(kind, tmp_path):
    schema, X, y = world(kind)
    model = small(kind, schema=schema)
    numbers = {"epsilon": 5.0, "delta": 1e-6, "records_per_person": 2}
    numbers |= {} if kind in ONE_HOLDER else {"colluders": 1}
    model.set_params(**{name: of_numpy(value) for name, value in numbers.items()})
    model.fit(X, y, party=holders(kind, y)).save(tmp_path / "model.json")
    assert json.loads((tmp_path / "model.json").read_text())["content"]["privacy"]["delta"] == 1e-6


@pytest.mark.parametrize("make", [hr.ComponentBoostingClassifier, hr.papers.maddock.dp_ebm])
def test_components_of_boosting_may_come_from_numpy(make):
    model = make(TWO, n_trees=np.int64(4))
    plain = model._recipe(TWO)
    model.set_params(**{k: of_numpy(v) for k, v in model.get_params(deep=False).items()})
    assert model._recipe(TWO) == plain
    assert found(model._recipe(TWO)) == []


def test_the_pieces_of_a_tree_may_come_from_numpy():
    given = {f.name: of_numpy(f.default) for f in dataclasses.fields(hr.Refinement)}
    assert hr.Refinement(**given) == hr.Refinement()
    assert found(hr.Refinement(**given)) == []


def test_a_search_over_numbers_of_numpy_runs():
    X, y = sample(120, TWO)
    grid = {"epsilon": np.array([1.0, 5.0]), "max_depth": np.arange(1, 3)}
    with pytest.warns(PrivacyWarning, match="8 fits"):
        search = GridSearchCV(hr.HistogramTreeClassifier(TWO), grid, cv=2).fit(X, y)
    assert search.best_estimator_.privacy_.epsilon in (1.0, 5.0)


@pytest.mark.parametrize(
    ("number", "expected"),
    [
        (np.float64(0.1), Fraction(1, 10)),
        (np.float32(0.1), Fraction(1, 10)),
        (np.float16(0.5), Fraction(1, 2)),
        (np.longdouble("0.1"), Fraction(1, 10)),
        (np.int8(100), Fraction(100)),
        (np.uint64(2**63), Fraction(2**63)),
        (Fraction(np.int64(1), np.int64(3)), Fraction(1, 3)),
    ],
)
def test_a_number_of_numpy_is_the_rational_a_person_meant(number, expected):
    assert exact(number) == expected
    assert found(exact(number)) == []
    assert exact(number) ** 9 == expected**9  # which would overflow in 8 bits


@pytest.mark.parametrize("number", [np.float64("nan"), np.float32("inf"), np.array([1.0, 2.0])])
def test_a_number_of_numpy_that_is_none_is_refused(number):
    with pytest.raises(SpecError, match="epsilon"):
        exact(number, "epsilon")


@pytest.mark.parametrize("name", ["records_per_person", "colluders", "threshold"])
@pytest.mark.parametrize("value", [-1, 1.5, "two"])
def test_a_count_that_is_none_is_refused_by_name(name, value):
    X, y = sample(30, TWO)
    model = hr.HistogramTreeClassifier(TWO, **{name: value})
    with pytest.raises(SpecError, match=name):
        model.fit(X, y, party=np.arange(30) % 3)


# --------------------------------------------------------------------------------------------------
# No parameter does nothing: it changes what is built, or it raises and names who uses it.
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
