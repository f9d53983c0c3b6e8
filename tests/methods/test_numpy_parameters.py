"""Parameters from NumPy, as a search over parameters hands them out, are plain numbers inside."""

from __future__ import annotations

import dataclasses
import json
from fractions import Fraction

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

import hedgerow as hr
from hedgerow.errors import PrivacyWarning, SpecError
from hedgerow.schema.rules import exact
from methods.test_estimators import EACH, ONE_HOLDER, small, world
from support.worlds import TWO, opened_by, sample


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
