"""A row that is read value by value has the codes of a row that is read by columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hedgerow.data.reading.encoding import encode_features
from hedgerow.errors import DataError
from hedgerow.methods import predicting
from hedgerow.methods.predicting import one_row, outputs
from hedgerow.models.model import Additive, Curve, Model, Output
from hedgerow.schema.schema import Categorical, Hashed, Numeric, Schema
from support.effort import examples

pytestmark = pytest.mark.property

SCHEMA = Schema(
    (
        Numeric("age", 0.0, 100.0, bins=20),
        Numeric("gain", -1.0, 1.0, edges=(-0.5, 0.0, 0.1, 1.0)),
        Categorical("job", ("nurse", "1", "2.5", "False", ""), other=False),
        Categorical("town", ("a", "b"), other=True),
        Hashed("zip", 7),
    ),
    classes=("no", "yes"),
)
NUMBERS = st.one_of(
    st.floats(),
    st.floats(width=32),
    st.integers(-(2**70), 2**70),
    st.integers(-2, 102),
    st.sampled_from([-0.5, 0.0, -0.0, 0.1, np.nextafter(0.1, 1.0), 5.0, 100.0]),
    st.booleans(),
)
WORDS = st.sampled_from(["nurse", " nurse", "1", "1.0", "2.5", "True", "a", "b", "", "NA", "é"])
ODD = st.sampled_from(
    [None, np.nan, pd.NA, pd.NaT, b"nurse", np.int8(1), np.float32(0.1), np.str_("a"), 1j]
)
VALUES = st.one_of(NUMBERS, WORDS, st.text(max_size=3), ODD)
NUMERIC_TYPES = ["float64", "float32", "float16", "int64", "uint8", "bool", "object"]
COLUMN_TYPES = st.sampled_from(
    [None, "object", "category", "string", "Int64", "Float64", "boolean"]
)


def check_codes(rows: Any, schema: Schema = SCHEMA) -> None:
    """The lean path may pass a row on; if it answers, it answers what columns would."""
    shrinkage = one_row(rows, schema)
    if shrinkage is not None:
        np.testing.assert_array_equal(shrinkage, encode_features(rows, schema))
        assert (shrinkage.dtype, shrinkage.shape) == (np.uint8, (len(schema.grids), 1))


@examples(300, 500)
@given(row=st.tuples(*[VALUES] * 5))
@example(row=(1e400, float("nan"), "", None, 2**53 + 1))
@example(row=(True, False, True, True, True))
def test_a_row_of_any_values_in_an_array(row: tuple[Any, ...]) -> None:
    table = np.empty((1, 5), dtype=object)
    table[0, :] = row
    check_codes(table)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
@examples(300, 500)
@given(row=st.tuples(*[NUMBERS] * 5), kind=st.sampled_from(NUMERIC_TYPES))
def test_a_row_of_numbers_in_an_array_of_any_type(row: tuple[Any, ...], kind: str) -> None:
    floats = np.array([[float(value) for value in row]])
    check_codes(floats.astype(kind))


@examples(300, 500)
@example(
    row=(False, 0.0, True, 0.0, 0.0),
    kinds=("category", None, None, None, None),
    order=[0, 1, 2, 3, 4],
)
@given(
    row=st.tuples(*[VALUES] * 5),
    kinds=st.tuples(*[COLUMN_TYPES] * 5),
    order=st.permutations(range(5)),
)
def test_a_row_of_a_frame_with_columns_of_any_type(
    row: tuple[Any, ...], kinds: tuple[str | None, ...], order: list[int]
) -> None:
    columns = {SCHEMA.names[j]: column(row[j], kinds[j]) for j in order}
    check_codes(pd.DataFrame({"extra": [0], **columns}))


def column(value: Any, kind: str | None) -> pd.Series:
    """In the type asked for, or as the object it is where pandas finds that it does not fit."""
    try:
        return pd.Series([value], dtype=kind)
    except (TypeError, ValueError, OverflowError, RuntimeWarning):
        return pd.Series([value], dtype=object)


PLAIN = [
    (34, 0.25, "nurse", "elsewhere", "8001"),
    (34.5, -7.0, 1, True, 8001),
    (np.nan, None, None, "a", None),
]


@pytest.mark.parametrize("row", PLAIN)
def test_plain_rows_are_read_value_by_value(row: tuple[Any, ...]) -> None:
    frame = pd.DataFrame([row], columns=list(SCHEMA.names), dtype=object)
    for rows in (frame, frame.to_numpy()):
        assert one_row(rows, SCHEMA) is not None
        check_codes(rows)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda frame: frame.assign(job="pilot"),
        lambda frame: frame.assign(age="old"),
        lambda frame: frame.drop(columns="zip"),
        lambda frame: frame.rename(columns={"zip": "town"}),
        lambda frame: frame.assign(age=pd.Timestamp("2020-01-01")),
    ],
    ids=["no such category", "no number", "no such column", "a column twice", "a date"],
)
def test_what_is_wrong_with_a_row_is_told_as_it_is_told_of_many(spoil: Any) -> None:
    good = pd.DataFrame([PLAIN[0]], columns=list(SCHEMA.names))
    bad = spoil(good)
    assert one_row(bad, SCHEMA) is None
    with pytest.raises(DataError):
        outputs(CONSTANT, bad, SCHEMA)


CONSTANT = Model(Additive((0.0,)), Output.SIGMOID)


def test_two_rows_are_read_by_columns() -> None:
    frame = pd.DataFrame([PLAIN[0]] * 2, columns=list(SCHEMA.names))
    assert one_row(frame, SCHEMA) is None


def test_one_row_is_predicted_as_it_is_among_others(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    schema = Schema((Numeric("a", 0.0, 1.0), Numeric("b", 0.0, 1.0)), classes=("no", "yes"))
    curves = tuple(
        Curve(j, tuple((float(v),) for v in rng.normal(size=grid.n_cells)))
        for j, grid in enumerate(schema.grids)
    )
    model = Model(Additive((0.1,), curves * 6), Output.SIGMOID)  # many: sums have an order
    rows = rng.uniform(-0.2, 1.2, (50, 2))
    whole = outputs(model, rows, schema)
    for i in range(len(rows)):
        assert outputs(model, rows[i : i + 1], schema).tobytes() == whole[i : i + 1].tobytes()
    monkeypatch.setattr(
        predicting, "code_of_value", lambda value, grid: 0
    )  # a negative control that is wrong
    broken = [outputs(model, rows[i : i + 1], schema) for i in range(len(rows))]
    assert np.concatenate(broken).tobytes() != whole.tobytes()
