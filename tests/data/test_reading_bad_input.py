"""Bad rows: a clear error to their owner, and never an error to the outside."""

import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.data.reading.encoding import encode
from hedgerow.data.schema_draft import infer_schema
from hedgerow.errors import DataError, ParameterError
from hedgerow.schema.schema import Categorical, Numeric, Schema, Target

SCHEMA = Schema(
    (Numeric("age", 0, 100, bins=10), Categorical("sex", ("f", "m"), other=False)),
    classes=("no", "yes"),
)
GOOD = pd.DataFrame({"age": [10.0, 20.0], "sex": ["f", "m"], "died": ["no", "yes"]})


def with_cell(column: str, value: object) -> pd.DataFrame:
    bad = GOOD.astype(object)
    bad.loc[1, column] = value
    return bad


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (with_cell("died", np.nan), "column 'died': 1 label.* missing .*remove those rows"),
        (with_cell("died", "perhaps"), r"column 'died': 'perhaps' is not one of the classes \("),
        (with_cell("age", "Jane Doe"), "column 'age': 'Jane Doe' is not a number. Correct"),
        (with_cell("sex", "x"), r"column 'sex': 'x' is not one .*\['f', 'm'\].*other to true"),
        (GOOD.iloc[:0], "the data frame holds no rows"),
    ],
)
def test_a_bad_row_is_an_error_to_its_owner_that_names_it(rows, says) -> None:
    with pytest.raises(DataError, match=says):
        encode(rows, SCHEMA, target="died", check=True)


@pytest.mark.parametrize(
    ("rows", "codes", "labels", "skipped"),
    [
        (with_cell("died", np.nan), [[1], [0]], [0], 1),
        (with_cell("died", "perhaps"), [[1], [0]], [0], 1),
        (with_cell("age", "Jane Doe"), [[1, 10], [0, 1]], [0, 1], 0),
        (with_cell("sex", "x"), [[1, 2], [0, 2]], [0, 1], 0),
        (with_cell("sex", [1, 2]), [[1, 2], [0, 2]], [0, 1], 0),
        (GOOD.iloc[:0], [[], []], [], 0),
    ],
)
def test_a_bad_row_is_no_error_once_joined(rows, codes, labels, skipped) -> None:
    encoded = encode(rows, SCHEMA, target="died")
    assert encoded.codes.tolist() == codes
    assert encoded.y is not None
    assert encoded.y.tolist() == labels
    assert encoded.skipped == skipped


NUMBERS = st.booleans() | st.integers() | st.floats() | st.complex_numbers()
MISSING = st.sampled_from([None, pd.NA, pd.NaT])
OBJECTS = NUMBERS | MISSING | st.text() | st.binary() | st.dates() | st.builds(object)


@pytest.mark.property
@settings(deadline=None)
@given(st.lists(st.tuples(OBJECTS, OBJECTS, st.sampled_from(["no", "yes"]) | OBJECTS), min_size=1))
def test_once_joined_any_object_has_a_code_or_its_row_is_skipped(rows) -> None:
    # A text beside the objects keeps each column of mixed type, as a file of text would be.
    mixed = [["x", "x", "no"], [1, 1, "yes"], *map(list, rows)]
    frame = pd.DataFrame(mixed, columns=["age", "sex", "died"], dtype=object)
    encoded = encode(frame, SCHEMA, target="died")
    assert encoded.n + encoded.skipped == len(mixed)
    for grid, codes in zip(SCHEMA.grids, encoded.codes, strict=True):
        assert codes.max() < grid.n_cells


@pytest.mark.parametrize("neighbor", ["7", "", "Jane Doe", "NA", "1_0", "é"])
@pytest.mark.parametrize("cell", ["5.5", " 42", "+3e1", "nan", "-inf", "0x10", "12abc", "1e400"])
def test_the_code_of_a_cell_does_not_depend_on_its_neighbors(cell, neighbor, tmp_path) -> None:
    schema = Schema((Numeric("age", 0, 100, bins=10),))
    alone, beside = tmp_path / "alone.csv", tmp_path / "beside.csv"
    alone.write_text(f'age\n"{cell}"\n')
    beside.write_text(f'age\n"{cell}"\n"{neighbor}"\n')
    assert encode(alone, schema).codes[0, 0] == encode(beside, schema).codes[0, 0]


def test_a_missing_number_is_never_taken_for_a_strange_one(tmp_path) -> None:
    (tmp_path / "rows.csv").write_text('age\n" 50"\n" NA "\nnull\n""\n')
    encoded = encode(tmp_path / "rows.csv", Schema((Numeric("age", 0, 100, bins=10),)), check=True)
    assert encoded.codes.tolist() == [[5, 10, 10, 10]]
    assert encoded.unknown == {}


@pytest.mark.parametrize("check", [False, True])
def test_infinite_values_are_clamped_and_counted(check) -> None:
    rows = np.array([[np.inf], [-np.inf], [50.0]])
    encoded = encode(rows, Schema((Numeric("age", 0, 100, bins=10),)), check=check)
    assert encoded.codes.tolist() == [[9, 0, 5]]
    assert encoded.clamped == {"age": 2}


@pytest.mark.parametrize("check", [False, True])
def test_one_row_and_a_constant_column_are_fine(check) -> None:
    encoded = encode(GOOD.iloc[:1], SCHEMA, target="died", check=check)
    assert encoded.codes.tolist() == [[1], [0]]
    assert encode(GOOD.assign(age=3), SCHEMA, check=check).codes[0].tolist() == [0, 0]


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize(
    ("source", "says"),
    [
        (GOOD.drop(columns="sex"), r"the data frame has no column 'sex'; it has \['age', 'died'\]"),
        (GOOD.drop(columns="died"), "has no column 'died'"),
        (pd.concat([GOOD, GOOD["sex"]], axis=1), "2 columns named 'sex'"),
    ],
)
def test_an_absent_or_repeated_column_is_refused_in_both_manners(source, says, check) -> None:
    with pytest.raises(DataError, match=says):
        encode(source, SCHEMA, target="died", check=check)


@pytest.mark.parametrize(
    ("column", "values", "says"),
    [
        ("age", pd.Timestamp("2020-01-01"), "column 'age' holds a Timestamp.*declare parse"),
        ("age", [datetime.date(2020, 1, 1)] * 2, "column 'age' holds a date"),
        ("age", pd.Timedelta(days=3), "column 'age' holds a Timedelta"),
        ("age", pd.period_range("2020-01", periods=2), "column 'age' holds a Period"),
        ("sex", [[1], [2]], "column 'sex' holds a list"),
        ("sex", [{"a": 1}, {"a": 2}], "column 'sex' holds a dict"),
        ("sex", [1 + 2j, 3j], "column 'sex' holds a complex"),
        ("sex", [10**17] * 2, "column 'sex': 1000.* is a number of 2.53 or more.*as text"),
    ],
)
def test_values_of_no_use_are_an_error_to_their_owner_and_unknown_once_joined(
    column, values, says
) -> None:
    rows = GOOD.assign(**{column: values})
    with pytest.raises(DataError, match=says):
        encode(rows, SCHEMA, target="died", check=True)
    encoded = encode(rows, SCHEMA, target="died")
    place = SCHEMA.index(column)
    assert encoded.codes[place].tolist() == [SCHEMA.grids[place].missing] * 2
    assert encoded.codes[1 - place].tolist() == encode(GOOD, SCHEMA).codes[1 - place].tolist()
    assert encoded.unknown == {column: 2}


def test_a_file_of_dates_is_an_error_to_its_owner_and_unknown_once_joined(tmp_path) -> None:
    path = tmp_path / "rows.parquet"
    GOOD.assign(age=pd.Timestamp("2020-01-01")).to_parquet(path)
    with pytest.raises(DataError, match="'age' holds a datetime"):
        encode(path, SCHEMA, target="died", check=True)
    assert encode(path, SCHEMA, target="died").codes[0].tolist() == [10, 10]


def test_ids_of_too_many_digits_are_an_error_to_their_owner() -> None:
    rows = GOOD.assign(person=[10**17, 10**17 + 1])
    with pytest.raises(DataError, match=r"the ids of persons: 1000.* as text"):
        encode(rows, SCHEMA, person="person", check=True)
    joined = encode(rows, SCHEMA, person="person")
    assert (joined.n, joined.skipped) == (0, 2)
    ids = encode(rows.astype({"person": str}), SCHEMA, person="person", check=True).persons
    assert ids is not None
    assert ids[0].tolist() != ids[1].tolist()


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (np.zeros((3, 5)), "the array has 5 columns, the schema has 2"),
        (np.zeros(3), r"shape \(3,\); give a table"),
        ([[1, "f"], [2]], "shape"),
        ([], "shape"),
    ],
)
def test_an_array_of_the_wrong_shape_is_refused(source, says) -> None:
    with pytest.raises(DataError, match=says):
        encode(source, SCHEMA)


def test_a_sparse_matrix_is_refused() -> None:
    from scipy.sparse import eye_array

    with pytest.raises(DataError, match="sparse"):
        encode(eye_array(2), SCHEMA)


@pytest.mark.parametrize("y", [["no"], [["no", "yes"], ["no", "yes"]], np.zeros((2, 1))])
def test_labels_of_another_length_are_refused(y) -> None:
    with pytest.raises(DataError, match=r"one label per row|y holds a list"):
        encode(GOOD, SCHEMA, y=y, check=True)


def test_labels_given_twice_or_to_a_schema_without_any_are_refused() -> None:
    with pytest.raises(ParameterError, match="given twice"):
        encode(GOOD, SCHEMA, y=["no", "yes"], target="died")
    with pytest.raises(ParameterError, match="neither classes nor a target"):
        encode(GOOD, Schema(SCHEMA.features), target="died")


# ---- files --------------------------------------------------------------------------------------


def csv(tmp_path: Path, content: bytes) -> Path:
    (tmp_path / "rows.csv").write_bytes(content)
    return tmp_path / "rows.csv"


LATIN = "age,sex,died\n10,f,no\n20,é,yes\n30,m,yes\n".encode("latin-1")


def test_a_line_that_is_not_utf8_is_read_as_windows_1252_alone(tmp_path) -> None:
    schema = Schema((*SCHEMA.features[:1], Categorical("sex", ("f", "é", "m"))), ("no", "yes"))
    mixed = LATIN + "40,é,no\n".encode()
    for check in (True, False):
        encoded = encode(csv(tmp_path, mixed), schema, target="died", check=check)
        assert encoded.codes[1].tolist() == [0, 1, 2, 1]
        assert encoded.unknown == {}


BROKEN = b"age,sex,died\n10,f,no\n20,m\n30,m,yes,yes\n40,m,yes\n"


def test_a_line_of_another_width_is_an_error_to_its_owner_and_skipped_once_joined(tmp_path) -> None:
    with pytest.raises(DataError, match=r"rows.csv', line 3 has 2 cells, the header 3"):
        encode(csv(tmp_path, BROKEN), SCHEMA, target="died", check=True)
    encoded = encode(csv(tmp_path, BROKEN), SCHEMA, target="died")
    assert encoded.codes.tolist() == [[1, 4], [0, 1]]
    assert encoded.skipped == 2


def test_skipped_rows_leave_no_gap(tmp_path) -> None:
    lines = [b"10,f,no", b"20,f,?", b"30,m,yes", b"40,m,", b"50,f,no"]
    encoded = encode(csv(tmp_path, b"\n".join([b"age,sex,died", *lines])), SCHEMA, target="died")
    assert encoded.codes.tolist() == [[1, 3, 5], [0, 1, 0]]
    assert encoded.codes.flags.c_contiguous
    assert encoded.y is not None
    assert encoded.y.tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("rows.csv", b"", "rows.csv' cannot be read: Empty CSV"),
        ("rows.csv", b"age,sex,died\n", "rows.csv' holds no rows"),
        ("rows.csv", b"age,sex\n1,f\n", "rows.csv' has no column 'died'"),
        ("rows.csv", b"age,sex,died,sex\n1,f,no,f\n", "2 columns named 'sex'"),
        ("rows.parquet", b"", "rows.parquet' cannot be read"),
        ("rows.parquet", b"age,sex,died\n1,f,no\n", "rows.parquet' cannot be read"),
        ("rows.xls", b"", "rows.xls' is no .csv, .*, .parquet or .arrow file"),
    ],
)
def test_a_file_that_is_empty_or_something_else_is_refused(name, content, says, tmp_path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=says):
        encode(tmp_path / name, SCHEMA, target="died", check=True)


def test_a_file_that_is_not_there_is_refused(tmp_path) -> None:
    with pytest.raises(DataError, match=r"no file .*nowhere.csv"):
        encode(tmp_path / "nowhere.csv", SCHEMA)


def test_a_parquet_file_without_rows_is_refused_by_its_owner_and_empty_once_joined(
    tmp_path,
) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"age": [1.0], "sex": ["f"], "died": ["no"]}).slice(1), path)
    with pytest.raises(DataError, match=r"rows.parquet' holds no rows"):
        encode(path, SCHEMA, target="died", check=True)
    assert encode(path, SCHEMA, target="died").n == 0


# ---- inferring ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("X", "y", "says"),
    [
        (np.zeros((2, 1)), ["a", "a"], r"y holds 1 class\(es\), \['a'\]"),
        (np.zeros((0, 1)), [], "holds no rows"),
        (np.zeros((2, 1)), ["a"], "one label per row"),
        (pd.DataFrame({"when": pd.to_datetime(["2020-01-01"])}), ["a"], "'when' holds a Timestamp"),
    ],
)
def test_a_schema_is_not_inferred_from_rows_that_say_too_little(X, y, says) -> None:
    with pytest.raises(DataError, match=says):
        infer_schema(X, y)


def test_missing_targets_are_an_error_to_their_owner() -> None:
    schema = Schema((Numeric("x", 0, 1),), target=Target(0, 1))
    with pytest.raises(DataError, match="1 label"):
        encode(np.zeros((2, 1)), schema, y=[0.5, np.nan], check=True)
    assert encode(np.zeros((2, 1)), schema, y=[0.5, np.nan]).skipped == 1
