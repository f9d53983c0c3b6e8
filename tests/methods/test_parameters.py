"""Parameters are declared once: signature, checks and documentation all follow from that."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import re
from dataclasses import fields, is_dataclass
from fractions import Fraction
from unittest.mock import patch

import numpy as np
import pytest
from sklearn.base import is_regressor
from sklearn.model_selection import GridSearchCV

import hedgerow as hr
from docs import make_methods
from hedgerow.errors import ParameterError, PrivacyWarning
from hedgerow.methods import registry, training
from hedgerow.methods.base import PrivateClassifier
from hedgerow.methods.parameters import check_parameters, declared_parameters, estimator, parameter
from hedgerow.privacy.mechanisms.response import BloomRandomizedResponse
from hedgerow.privacy.queries import Mechanism
from hedgerow.schema import rules
from hedgerow.schema.rules import exact
from hedgerow.schema.schema import Schema
from methods.test_estimators import EACH, SINGLE_SITE, small, world
from support.worlds import TWO, VALUE, opened_by, sample

ESTIMATORS = [
    getattr(hr, name) for name in hr.__all__ if name.endswith(("Classifier", "Regressor"))
]
EVERY_ESTIMATOR = pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda k: k.__name__)


# --------------------------------------------------------------------------------------- rules
KEPT = [
    (rules.whole(1), np.int64(3), 3),
    (rules.whole(2), np.uint8(2), 2),
    (rules.number(above=0.0), np.float32(0.5), 0.5),
    (rules.number(), Fraction(1, 4), 0.25),
    (rules.FRACTION, np.float64(0.1), Fraction(1, 10)),
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
    (rules.FRACTION, 1, "between 0 and 1"),
    (rules.FRACTION, math.nan, "between 0 and 1"),
    (rules.FLAG, 1, "True or False"),
    (rules.FLAG, "yes", "True or False"),
    (rules.one_of({"a": 1, "b": 2}), "A", "one of 'a', 'b'"),
    (rules.one_of(Mechanism), Mechanism.EXPONENTIAL, "one of"),
    (rules.one_of(Mechanism), ["exponential"], "one of"),
    (rules.a(hr.FeatureScreening), True, "a hedgerow.FeatureScreening"),
    (rules.either(rules.one_of({"all": 0}), rules.whole(1)), 0, "one of 'all', or a whole number"),
]


@pytest.mark.parametrize(("rule", "given", "read"), KEPT)
def test_a_value_that_keeps_its_rule_is_put_in_our_own_type(rule, given, read):
    found = rule.check("it", given)
    assert found == read
    assert type(found) is type(read)


@pytest.mark.parametrize(("rule", "given", "allowed"), BROKEN)
def test_a_value_that_breaks_its_rule_is_named_with_what_is_allowed(rule, given, allowed):
    with pytest.raises(ParameterError) as refused:
        rule.check("it", given)
    assert str(refused.value).startswith(f"it is {given!r}; use ")
    assert allowed in str(refused.value)


# ------------------------------------------------------------------------------------ estimators
@EVERY_ESTIMATOR
def test_the_signature_is_made_of_the_declarations(kind):
    signature = inspect.signature(kind.__init__).parameters
    known = declared_parameters(kind)
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
    assert check_parameters(kind()).progress is False


@EVERY_ESTIMATOR
def test_help_shows_every_parameter_with_kind_default_and_words(kind):
    for p in declared_parameters(kind):
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
    with pytest.raises(ParameterError, match="height is 1; use a whole number of 2 or more"):
        check_parameters(Toy(height=1))


def test_the_table_of_all_parameters_has_every_parameter_of_every_estimator():
    head, *lines = [
        line for line in make_methods.parameters_page().split("\n") if line.startswith("| ")
    ]
    columns = head.split(" | ")
    cells = {line.split("`")[1]: line.split(" | ") for line in lines if "`" in line}
    for kind in ESTIMATORS:
        family = columns.index(re.sub("Classifier$|Regressor$", "", kind.__name__))
        for p in declared_parameters(kind):
            assert repr(p.default) in cells[p.name][family], (kind, p.name)


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


def site_rows(kind, y):
    """Three, where the method can have several."""
    return None if kind in SINGLE_SITE else np.arange(len(y)) % 3


@EACH
def test_every_parameter_may_come_from_numpy(kind):
    schema, X, y = world(kind)
    plain = small(kind, schema=schema, epsilon=5.0)
    numpy = small(kind, schema=schema, epsilon=5.0)
    numpy.set_params(**{k: of_numpy(v) for k, v in plain.get_params(deep=False).items()})
    assert found(numpy._method(schema)) == []
    assert numpy._method(schema) == plain._method(schema)
    site = site_rows(kind, y)
    studies = [opened_by(model, X, y, site=site)[0] for model in (plain, numpy)]
    assert found(studies[1]) == []
    assert studies[0].hash == studies[1].hash


@EACH
def test_a_fit_with_parameters_from_numpy_can_be_saved(kind, tmp_path):
    schema, X, y = world(kind)
    model = small(kind, schema=schema)
    numbers = {"epsilon": 5.0, "delta": 1e-6, "records_per_person": 2}
    numbers |= {} if kind in SINGLE_SITE else {"colluders": 1}
    model.set_params(**{name: of_numpy(value) for name, value in numbers.items()})
    model.fit(X, y, site=site_rows(kind, y)).save(tmp_path / "model.json")
    assert json.loads((tmp_path / "model.json").read_text())["content"]["privacy"]["delta"] == 1e-6


@pytest.mark.parametrize("make", [hr.ComponentBoostingClassifier, hr.papers.maddock.dp_ebm])
def test_components_of_boosting_may_come_from_numpy(make):
    model = make(TWO, n_estimators=np.int64(4))
    plain = model._method(TWO)
    model.set_params(**{k: of_numpy(v) for k, v in model.get_params(deep=False).items()})
    assert model._method(TWO) == plain
    assert found(model._method(TWO)) == []


def test_the_pieces_of_a_tree_may_come_from_numpy():
    given = {f.name: of_numpy(f.default) for f in dataclasses.fields(hr.FeatureScreening)}
    assert hr.FeatureScreening(**given) == hr.FeatureScreening()
    assert found(hr.FeatureScreening(**given)) == []


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
    with pytest.raises(ParameterError, match="epsilon"):
        exact(number, "epsilon")


@pytest.mark.parametrize("name", ["records_per_person", "colluders", "threshold"])
@pytest.mark.parametrize("value", [-1, 1.5, "two"])
def test_a_count_that_is_none_is_refused_by_name(name, value):
    X, y = sample(30, TWO)
    model = hr.HistogramTreeClassifier(TWO, **{name: value})
    with pytest.raises(ParameterError, match=name):
        model.fit(X, y, site=np.arange(30) % 3)


# --------------------------------------------------------------------------------------------------
# No parameter does nothing: it changes what is built, or it raises and names who uses it.
FREE = {"random_state", "n_jobs", "progress", "schema", "ledger", "hold_out"}
"""Public randomness, threads, the terminal and a file, which no plan knows; the columns; and which
rows are trained on (tests/methods/test_evaluate.py).
"""
BLOOM = BloomRandomizedResponse.for_epsilon(2, 4, 2, Fraction(1))

OTHERS = {
    "epsilon": [2.0],
    "delta": [1e-5],
    "dp_model": ["central", "distributed", "per_site", "label", "none"],
    "colluders": [2],
    "threshold": [2],
    "records_per_person": [2],
    "n_estimators": [3],
    "max_depth": [2, 3],
    "max_splits": [5],
    "trees_per_round": [2],
    "split": {
        "ComponentBoosting": ["histogram", "partially_random", "totally_random", "oblivious"],
        "ExtraTrees": ["random"],
        "MedianForest": ["grid", "medians", "median", "table"],
        "TopDownTree": ["local_choice", "choice"],
    },
    "accounting": ["published", "released"],
    "ask_all": [True, False],
    "index_fraction": [0.4],
    "leaf_budget": ["fraction"],
    "leaf_values": ["published", "shrunk"],
    "norms": ["published"],
    "noise_gate": [False],
    "hessian_cost": ["published"],
    "weight_query": [True, False],
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
    "leaf_fraction": [0.4],
    "bounds_fraction": [0.3],
    "chunk": [2],
    "budget_saving": [False, True],
    "consistency": [False, True],
    "known_zeros": [False],
    "shrinkage": [True, False],
    "screening": [hr.FeatureScreening()],
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
    hinges = {
        name for p in declared_parameters(kind) for when in p.used_with for name in when.settings
    }
    words = {
        p.name
        for p in declared_parameters(kind)
        if p.kind.startswith(("{", "bool", "FeatureScreening"))
    }
    names = [p.name for p in declared_parameters(kind) if p.name in (hinges | words) - FREE]
    return [{}, *({name: value} for name in names for value in others(kind, name))]


def seen(value):
    """What can be compared: functions by what they say."""
    if callable(value) and not isinstance(value, type):
        return [value(depth) for depth in range(1, 5)]
    if is_dataclass(value) and not isinstance(value, Schema):
        return [type(value), *(seen(getattr(value, f.name)) for f in fields(value))]
    return value


def built(model, schema, n_sites):
    """Grid, method and study: all that decides what is asked, and with how much noise."""
    model.random_state = 0  # two studies of one estimator are the same
    with patch.object(training, "check_needs"):  # what a method needs is another question
        return seen(list(training.agree(model, schema, n_sites)))


def attempt_on(model, schema, n_sites):
    try:
        return built(model, schema, n_sites)
    except ParameterError as error:
        return str(error)


def attempt(kind, n_sites, settings):
    model = kind(**settings)
    return attempt_on(model, VALUE if is_regressor(model) else TWO, n_sites)


def idle(kind, settings, n_sites):
    """Parameters that change nothing, whatever their value, or are refused without their name.

    A value that says what the default does anyway is not idle if another one changes something.
    """
    before = attempt(kind, n_sites, settings)
    assert not isinstance(before, str)
    found = []
    for name in (
        p.name for p in declared_parameters(kind) if p.name not in FREE and p.name not in settings
    ):
        after = [attempt(kind, n_sites, {**settings, name: v}) for v in others(kind, name)]
        nameless = [said for said in after if isinstance(said, str) and name not in said]
        if all(outcome == before for outcome in after) or nameless:
            found.append((name, nameless))
    return found


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda k: k.__name__)
def test_every_parameter_changes_what_is_built_or_is_refused_by_name(kind):
    tried = 0
    for settings in choices(kind):
        n_sites = 3 if settings.get("dp_model") in ("distributed", "per_site") else 1
        if not isinstance(attempt(kind, n_sites, settings), str):
            tried += 1
            assert idle(kind, settings, n_sites) == [], settings
    assert tried >= 5
    assert idle(kind, {}, 3) == []


def words_refused(kind):
    """Words tried above that the parameter's own kind does not list."""
    listed = [p for p in declared_parameters(kind) if p.kind.startswith("{") and p.name in OTHERS]
    tried = [(p, word) for p in listed for word in others(kind, p.name) if isinstance(word, str)]
    return [(p.name, word) for p, word in tried if repr(word) not in p.kind]


@pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda k: k.__name__)
def test_words_that_are_tried_are_words_of_the_parameter(kind):
    """A word that is refused, and so tries nothing, would pass above."""
    assert words_refused(kind) == []


def test_a_word_that_no_parameter_lists_would_be_found(monkeypatch):
    monkeypatch.setitem(OTHERS, "leaf_values", ["printed"])
    assert words_refused(hr.ComponentBoostingClassifier) == [("leaf_values", "printed")]


CALLS = [m.call for m in registry.papers().METHODS if m.paper == "maddock" and "ldp" not in m.call]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("schema", [TWO, VALUE], ids=["classes", "number"])
def test_every_method_is_tried(schema, call):
    """Negative control: no method of boosting is left out because it cannot be built."""
    named = eval(call, {**vars(registry.papers()), "schema": schema})
    assert not isinstance(attempt_on(named, schema, 1), str)


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
        (hr.ExtraTreesClassifier, {"label_mechanism": "bloom"}, "with dp_model='label'"),
        (hr.HistogramTreeClassifier, {"chunk": 2}, "with budget_saving=True; or leave it at 1"),
        (hr.MedianForestClassifier, {"rows_per_leaf": 9.0, "max_depth": 2}, "with max_depth=None"),
        (hr.TreeClassifier, {"colluders": 1}, "one site has all rows; name several"),
    ],
)
def test_a_refusal_names_the_parameter_and_who_would_use_it(kind, options, words):
    name = next(iter(options))
    refused = attempt(kind, 1, options)
    assert refused.startswith(f"{name} is ")
    assert words in refused


def test_methods_of_the_paper_take_the_numbers_that_it_varies():
    model = hr.papers.maddock.dp_tr_newton_ih(
        n_estimators=7,
        max_depth=2,
        learning_rate=0.1,
        n_bins=8,
        hessian_rounds=2,
    )
    method = model._method(TWO)
    assert (method.n_estimators, method.max_depth, method.learning_rate) == (7, 2, 0.1)
    assert (method.n_bins, method.hessian_rounds) == (8, 2)
