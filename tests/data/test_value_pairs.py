"""A typed front listener: one record never decides how another is read, and none ends the process.

Arrow finds one type for all objects of a column. One integer made zeros of a column of float16, and
a datetime64 beside a NumPy scalar killed the process. So each kind of value is read beside each
other, in each container, by a process of its own (value_pairs.py).
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

import hedgerow as hr
from hedgerow.data.reading.columns import code_of_value
from hedgerow.data.reading.encoding import encode
from hedgerow.data.site_rows import declared_sites, split_by_site, split_persons
from hedgerow.errors import DataError
from hedgerow.schema.tokens import token_of
from support.value_pairs import KINDS, LISTED, NAMES, PLAIN, READINGS, SCHEMA, disagreements, pairs

pytestmark = pytest.mark.property

COMMON = ["as_list", "as_objects", "as_frame", "as_polars"]


def test_no_value_changes_the_code_of_another_in_any_container() -> None:
    assert len(PLAIN) >= 32
    assert disagreements(pairs(COMMON, list(PLAIN))) == {}


@pytest.mark.slow
@pytest.mark.parametrize("reading", READINGS)
def test_no_value_of_any_kind_changes_the_reading_of_another(reading: str) -> None:
    assert disagreements(pairs([reading], list(KINDS))) == {}


def test_a_reader_that_infers_types_is_caught_and_a_death_is_told_with_its_pair() -> None:
    """Twin: the same pairs by the reader that was."""
    shrunk = ("as_objects", "float16", "int")
    deadly = ("as_objects", "datetime64 of nanoseconds", "int8")
    harmless = ("as_objects", "float", "float64")
    wrong = disagreements([harmless, shrunk, deadly], "inferring")
    assert set(wrong) == {shrunk, deadly}
    assert wrong[deadly].startswith("died")


@pytest.mark.parametrize("kind", KINDS)
def test_any_value_has_a_code_and_no_error(kind: str) -> None:
    value = KINDS[kind]
    for grid in SCHEMA.grids:
        assert 0 <= code_of_value(value, grid) < grid.n_cells


@pytest.mark.parametrize("width", [np.float16, np.float32, np.float64, np.longdouble])
def test_a_number_has_one_code_in_all_widths_and_containers(width: Any) -> None:
    values = np.array([0.5, 1, 2, 3, np.nan], width)
    typed = np.stack([values] * 4, axis=1)
    loose = typed.astype(object)
    tables = [typed, loose, loose.tolist(), pd.DataFrame(typed, columns=NAMES)]
    expected = [[code_of_value(float(value), grid) for value in values] for grid in SCHEMA.grids]
    assert all(encode(table, SCHEMA).codes.tolist() == expected for table in tables)


def test_one_integer_among_float16_does_not_collapse_a_tree() -> None:
    """300 rows at epsilon 10,000: the noise hides nothing, so that only a misreading can."""
    rng = np.random.default_rng(0)
    values = rng.uniform(0, 1, 300)
    rows, labels = [[np.float16(value)] for value in values], (values > 0.5).astype(int).tolist()
    schema = hr.Schema((hr.Numeric("x", 0, 1),), classes=(0, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = hr.TreeClassifier(epsilon=1e4, schema=schema).fit([*rows, [5]], [*labels, 0])
        low, high = model.predict_proba([[np.float16(0.1)], [0.9]])[:, 1]
    assert low < 0.1
    assert high > 0.9


def test_a_site_is_known_by_its_token_whatever_the_type_of_the_column() -> None:
    """One text makes texts of all numbers of an array; the sites that were named stay the same."""
    rows = np.arange(3)
    for site in ([1, 2, "x"], np.array([1, 2, "x"]), pd.Series([1.0, 2, "x"])):
        parts = split_by_site(rows, rows, site, [1, 2, "x"])
        assert [some.tolist() for some, _ in parts] == [[0], [1], [2]]
    with pytest.raises(hr.ParameterError, match="every site once"):
        declared_sites([1], [1, "1"])


class Tensor:
    """An array of another library: its items are arrays again."""

    def __init__(self, values: Any) -> None:
        self.values = np.asarray(values)

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, *types: Any, **options: Any) -> Any:
        return self.values

    def __dlpack__(self) -> Any:
        return self.values.__dlpack__()


def test_sites_and_persons_may_come_in_an_array_of_another_library() -> None:
    rows = np.arange(3)
    parts = split_by_site(rows, rows, Tensor([1, 2, 1]), None)
    assert [some.tolist() for some, _ in parts] == [[0, 2], [1]]
    (persons,) = split_persons(Tensor([7, 7, 8]), rows, None, None)
    assert persons is not None
    assert persons.tolist() == [7, 7, 8]


# ---- masked arrays ------------------------------------------------------------------------------

MASK = [False, True, False]
MASKED = [
    np.ma.array([0.5, 2, 3], mask=MASK),
    np.ma.array([0.5, 2, 3], mask=MASK, dtype=np.float16),
    np.ma.array([1, 2, 3], mask=MASK),
    np.ma.array([True, True, False], mask=MASK),
    np.ma.array(["a", "01", "b"], mask=MASK),
    np.ma.array([1, "a", 0.5], mask=MASK, dtype=object),
    np.ma.array(["2020", "2021", "2022"], mask=MASK, dtype="datetime64[ns]"),
]


@pytest.mark.parametrize("values", MASKED, ids=lambda values: str(values.dtype))
def test_a_masked_value_is_missing_and_the_others_are_what_they_were(values: Any) -> None:
    bare = encode(np.stack([values.data] * 4, axis=1), SCHEMA).codes.T.tolist()
    missing = [grid.missing for grid in SCHEMA.grids]
    expected = [bare[0], missing, bare[2]]
    under, hidden = values.data.copy(), np.ma.stack([values] * 4, axis=1)
    tables = [hidden, [list(row) for row in hidden], pd.DataFrame(hidden, columns=NAMES)]
    assert [encode(table, SCHEMA).codes.T.tolist() for table in tables] == [expected] * 3
    np.testing.assert_array_equal(values.data, under)


def test_a_masked_label_or_person_is_missing() -> None:
    schema = hr.Schema((hr.Numeric("x", 0, 1),), classes=LISTED)
    values = np.ma.array([0, 1, 1], mask=MASK)
    read = encode(np.zeros((3, 1)), schema, y=values, person=values)
    assert read.y is not None
    assert read.y.tolist() == [0, 1]
    assert read.skipped == 1


@pytest.fixture(scope="module")
def model() -> Any:
    schema = hr.Schema((hr.Numeric("x", 0, 1),), classes=(0, 1))
    x = np.linspace(0, 1, 400)
    rows = np.where(x < 0.25, np.nan, x)[:, None]  # who is missing is in class 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return hr.TreeClassifier(epsilon=1e4, schema=schema).fit(rows, (x < 0.25).astype(int))


def test_a_prediction_sees_a_masked_value_as_a_missing_one(model: Any) -> None:
    for n in (1, 2, 5):  # one row has a way of its own
        hidden = np.ma.array(np.full((n, 1), 0.9), mask=True)
        told = model.predict_proba(hidden)
        np.testing.assert_array_equal(told, model.predict_proba(np.full((n, 1), np.nan)))
        assert (told[:, 1] > 0.9).all()


@pytest.mark.parametrize("dtype", [float, int])
def test_a_fit_refuses_masked_labels(model: Any, dtype: type) -> None:
    labels = np.ma.array([0, 1, 1], mask=MASK, dtype=dtype)
    with pytest.raises(DataError, match="remove those rows"):
        model.fit(np.zeros((3, 1)), labels)


def test_tokens_of_wrapped_values_are_those_of_what_is_inside() -> None:
    assert token_of(np.array(3.0)) == token_of(KINDS["Arrow number"]) == "3"
    assert token_of(KINDS["Arrow text"]) == "a"
    assert token_of(np.ma.masked) is token_of(KINDS["masked number"]) is None
