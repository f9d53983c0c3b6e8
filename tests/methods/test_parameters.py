"""Parameters are declared once: signature, checks and documentation all follow from that."""

from __future__ import annotations

import inspect
import math
import runpy
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.errors import SpecError
from hedgerow.methods.base import PrivateClassifier
from hedgerow.methods.parameters import checked, declared, estimator, parameter
from hedgerow.privacy.queries import Mechanism
from hedgerow.schema import rules
from support.worlds import TWO, VALUE

ESTIMATORS = [
    getattr(hr, name) for name in hr.__all__ if name.endswith(("Classifier", "Regressor"))
]
DOCS = Path(__file__).parents[2] / "docs"
EACH = pytest.mark.parametrize("kind", ESTIMATORS, ids=lambda k: k.__name__)


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
@EACH
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


@EACH
def test_a_misspelt_parameter_is_refused_at_once(kind):
    with pytest.raises(TypeError, match="epsillon"):
        kind(epsillon=1.0)


@EACH
def test_defaults_keep_their_own_rules_and_are_used(kind):
    assert checked(kind()).progress is False


@EACH
def test_help_shows_every_parameter_with_kind_default_and_words(kind):
    for p in declared(kind):
        assert f"\n{p.name} : {p.kind}, default={p.default!r}\n    " in kind.__doc__
        assert p.text.strip().endswith(".")
    assert kind.__doc__.index("\nParameters\n---") < kind.__doc__.index("\nAttributes\n---")
    assert ("\nclasses_ : " in kind.__doc__) == hasattr(kind, "predict_proba")
    assert "\nExamples\n--------\n>>> import hedgerow as hr\n" in kind.__doc__


@EACH
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
