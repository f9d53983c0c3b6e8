"""The same rows give the same codes, wherever they come from and however they are cut up."""

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hedgerow.data.reading import encoding, files
from hedgerow.data.reading.encoding import Encoded, encode, encode_features
from hedgerow.data.schema_draft import infer_schema
from hedgerow.errors import DataError
from hedgerow.schema.schema import Categorical, Hashed, Numeric, Schema, Target

SCHEMA = Schema(
    (
        Numeric("age", 0, 100, bins=10),
        Categorical("job", ("nurse", "clerk")),
        Categorical("smoker", ("False", "True"), other=False),
        Hashed("zip", 8),
    ),
    classes=("no", "yes"),
)
ROWS: list[list[Any]] = [
    [5.0, "nurse", True, "8001"],
    [150.0, "pilot", False, "8002"],
    [None, None, None, None],
    [99.5, "clerk", True, "8001"],
    [-3.0, "clerk", False, "9000"],
]
LABELS = ["no", "yes", "yes", "no", "no"]
NAMES = list(SCHEMA.names)


def frame() -> pd.DataFrame:
    return pd.DataFrame(ROWS, columns=NAMES).assign(died=LABELS)


def as_csv(tmp_path: Path) -> Path:
    frame().to_csv(tmp_path / "rows.csv", index=False)
    return tmp_path / "rows.csv"


def as_parquet(tmp_path: Path) -> Path:
    frame().to_parquet(tmp_path / "rows.parquet")
    return tmp_path / "rows.parquet"


def as_folder(tmp_path: Path) -> Path:
    """The first rows as CSV, the others as Parquet; what is neither is not looked at."""
    frame()[:2].to_csv(tmp_path / "1.csv", index=False)
    frame()[2:].to_parquet(tmp_path / "2.parquet")
    (tmp_path / "notes.txt").write_text("mine")
    return tmp_path


def read(kind: str, tmp_path: Path, **how: Any) -> Encoded:
    if kind == "list":
        return encode(ROWS, SCHEMA, y=LABELS, **how)
    if kind == "array":
        return encode(np.array(ROWS, dtype=object), SCHEMA, y=np.array(LABELS), **how)
    if kind == "frame and y":
        return encode(frame(), SCHEMA, y=frame()["died"], **how)
    files = {"csv": as_csv, "parquet": as_parquet, "folder": as_folder}
    source = files[kind](tmp_path) if kind in files else frame()
    return encode(source, SCHEMA, target="died", **how)


KINDS = ["list", "array", "frame", "frame and y", "csv", "parquet", "folder"]


@pytest.mark.parametrize("check", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_every_source_gives_the_same_codes_and_counts(kind, check, tmp_path) -> None:
    encoded = read(kind, tmp_path, check=check)
    zips = [SCHEMA.grids[3].category_code(row[3]) for row in ROWS]
    assert encoded.codes.tolist() == [[0, 9, 10, 9, 0], [0, 2, 3, 1, 1], [1, 0, 2, 1, 0], zips]
    assert encoded.codes.dtype == np.uint8
    assert encoded.codes.flags.c_contiguous
    assert encoded.y is not None
    assert encoded.y.tolist() == [0, 1, 1, 0, 0]
    assert (encoded.clamped, encoded.unknown, encoded.skipped) == ({"age": 2}, {"job": 1}, 0)


@pytest.mark.parametrize("kind", KINDS)
def test_the_size_of_a_chunk_changes_nothing(kind, tmp_path) -> None:
    whole, cut = read(kind, tmp_path), read(kind, tmp_path, chunk_rows=2)
    assert whole.codes.tolist() == cut.codes.tolist()
    assert (whole.clamped, whole.unknown) == (cut.clamped, cut.unknown)


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([1, 0, 1], dtype="int8"),
        pd.Series([1, 0, 1], dtype="float32"),
        pd.Series([True, False, True]),
        pd.Series([1, 0, 1], dtype="Int64"),
        pd.Series([1.0, 0.0, 1.0], dtype="Float64"),
        pd.Series([True, False, True], dtype="boolean"),
        pd.Series(["1", "0", " 1e0 "]),
        pd.Series(["1", "0", "1"], dtype="category"),
        pd.Series([1, 0, 1], dtype="category"),
        pd.Series([1, "0", 1.0], dtype=object),
        pd.Series([1, 0, 1], dtype=pd.ArrowDtype(pa.int32())),
        pd.Series(pd.arrays.SparseArray([1, 0, 1])),
    ],
    ids=lambda column: f"{column.dtype}",
)
def test_numbers_of_every_type_are_read_as_numbers(column) -> None:
    schema = Schema((Numeric("x", 0, 1, bins=2),))
    assert encode(pd.DataFrame({"x": column}), schema, check=True).codes.tolist() == [[1, 0, 1]]


@pytest.mark.parametrize(
    "column",
    [
        pd.Series([1, 2, None]),
        pd.Series([1, 2, None], dtype="Int64"),
        pd.Series(["1", "2", None]),
        pd.Series(["1", "2", None], dtype="category"),
        pd.Series([1, "2", np.nan], dtype=object),
        pd.Series([1, "2", pd.NA], dtype=object),
        pd.Series([b"1", b"2", None], dtype=object),
    ],
    ids=lambda column: f"{column.dtype}",
)
def test_categories_of_every_type_are_read_as_their_text(column) -> None:
    schema = Schema((Categorical("x", (1, 2), other=False),))
    assert encode(pd.DataFrame({"x": column}), schema, check=True).codes.tolist() == [[0, 1, 2]]


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        ([0, 1, 1], (0, 1)),
        ([0.0, 1.0, 1.0], (0, 1)),
        ([False, True, True], (False, True)),
        (pd.Series(["a", "b", "b"], dtype="category"), ("a", "b")),
        (pd.Series([0, 1, 1], dtype="Int64"), (0, 1)),
    ],
)
def test_labels_of_every_type_are_read_as_classes(labels, classes) -> None:
    schema = Schema((Numeric("x", 0, 1),), classes=classes)
    encoded = encode(np.zeros((3, 1)), schema, y=labels, check=True)
    assert encoded.y is not None
    assert encoded.y.tolist() == [0, 1, 1]
    assert encoded.y.dtype == np.uint8


def test_targets_are_clamped_and_counted() -> None:
    schema = Schema((Numeric("x", 0, 1),), target=Target(-1, 1))
    y = [0.5, 7.0, -np.inf]
    encoded = encode(np.zeros((3, 1)), schema, y=y, check=True)
    assert encoded.y is not None
    assert encoded.y.tolist() == [0.5, 1.0, -1.0]
    assert encoded.clamped == {"label": 2}


def test_columns_of_a_frame_are_found_by_name_and_extra_ones_ignored() -> None:
    schema = Schema((Numeric("b", 0, 10, bins=2), Numeric("0", 0, 10, bins=2)))
    rows = pd.DataFrame({"extra": [1, 2], 0: [9, 1], "b": [1, 9]})
    assert encode(rows, schema).codes.tolist() == [[0, 1], [1, 0]]


def test_quotes_and_a_byte_order_mark_in_csv_are_understood(tmp_path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b'\xef\xbb\xbf"age",job\r\n5,"a,b"\r\n95,"say ""hi"""\r\n')
    schema = Schema((Numeric("age", 0, 100, bins=2), Categorical("job", ("a,b", 'say "hi"'))))
    assert encode(path, schema, check=True).codes.tolist() == [[0, 1], [0, 1]]


def test_a_value_in_quotes_may_hold_line_breaks(tmp_path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('age,job\n5,a\n7,"a\nb"\n95,b\n8,"a\n\n""q"" b\n"\n')
    schema = Schema((Numeric("age", 0, 100, bins=2), Categorical("job", ("a", "b"))))
    encoded = encode(path, schema)
    assert encoded.codes.tolist() == [[0, 0, 1, 0], [0, 2, 1, 2]]
    assert encoded.skipped == 0


def test_lines_may_fall_on_the_end_of_a_block(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(files, "CSV_BLOCK_BYTES", 64)
    path = tmp_path / "rows.csv"
    path.write_text("job,age\n" + '"a ""b"" c",7\n' * 200)
    schema = Schema((Categorical("job", ('a "b" c',), other=False), Numeric("age", 0, 10)))
    assert set(encode(path, schema, check=True).codes[0].tolist()) == {0}
    assert encode(path, schema).n == 200


def test_columns_of_an_arrow_table_are_found_by_name(tmp_path) -> None:
    table = pa.table({"died": LABELS, **{name: frame()[name] for name in reversed(NAMES)}})
    encoded = encode(table, SCHEMA, target="died", check=True)
    assert encoded.codes.tolist() == read("frame", tmp_path).codes.tolist()


def test_a_parquet_column_with_a_dot_in_its_name_is_found(tmp_path) -> None:
    pq.write_table(pa.table({"a.b": [1.0, 9.0], "a": [0, 0]}), tmp_path / "rows.parquet")
    schema = Schema((Numeric("a.b", 0, 10, bins=2),))
    assert encode(tmp_path / "rows.parquet", schema).codes.tolist() == [[0, 1]]


def test_a_folder_without_a_table_says_so(tmp_path) -> None:
    with pytest.raises(DataError, match="put some there"):
        encode(tmp_path, SCHEMA, target="died")


def test_features_to_predict_need_no_label() -> None:
    assert encode_features(frame(), SCHEMA).shape == (4, 5)


def test_rows_of_a_file_never_sit_in_memory_as_floats(tmp_path, monkeypatch) -> None:
    n, n_features, path = 200_000, 20, tmp_path / "rows.parquet"
    rng = np.random.default_rng(0)
    table = pa.table({f"x{i}": rng.normal(size=n) for i in range(n_features)})
    pq.write_table(table, path, row_group_size=20_000, use_dictionary=False)
    as_floats = table.nbytes
    del table
    held_by_arrow, add = [], encoding._Encoder.add

    def watched_add(*args: Any) -> None:
        held_by_arrow.append(pa.total_allocated_bytes())
        add(*args)

    monkeypatch.setattr(encoding._Encoder, "add", watched_add)
    before = pa.total_allocated_bytes()
    schema = Schema(tuple(Numeric(f"x{i}", -3, 3) for i in range(n_features)))
    encode(np.zeros((1, n_features)), schema)  # compiles the loops, if nothing has done so yet
    held_by_arrow.clear()
    tracemalloc.start()
    encoded = encode(path, schema, chunk_rows=8192)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5 * encoded.codes.nbytes
    assert max(held_by_arrow) - before < as_floats / 3


# ---- inferring ----------------------------------------------------------------------------------


def test_a_schema_is_inferred_from_rows() -> None:
    schema = infer_schema(frame().drop(columns="died"), LABELS)
    assert schema.features[0] == Numeric("age", -3, 150)
    assert schema.features[1] == Categorical("job", ("clerk", "nurse", "pilot"))
    assert schema.features[2] == Categorical("smoker", ("False", "True"))
    assert schema.classes == ("no", "yes")


def test_an_inferred_schema_fits_the_rows_it_was_inferred_from() -> None:
    X = frame().drop(columns="died")
    encoded = encode(X, infer_schema(X, LABELS), y=LABELS, check=True)
    assert (encoded.clamped, encoded.unknown, encoded.skipped) == ({}, {}, 0)


def test_columns_of_an_array_are_numbered_and_a_target_has_its_range() -> None:
    schema = infer_schema(np.arange(6.0).reshape(3, 2), [1.0, 2.0, 5.0], regression=True)
    assert schema.names == ("x0", "x1")
    assert schema.target == Target(1, 5)


@pytest.mark.parametrize(
    ("column", "ends"),
    [
        ([3.0, 3.0], (0.0, 3.0)),
        ([0.0, 0.0], (0.0, 1.0)),
        ([-7.0, -7.0], (-7.0, 0.0)),
        ([1.7e308, 1.7e308], (0.0, 1.7e308)),
        ([np.nan, np.nan], (0.0, 1.0)),
        ([np.inf, 2.0], (0.0, 2.0)),
    ],
)
def test_a_constant_or_empty_column_is_given_some_range(column, ends) -> None:
    feature = infer_schema(np.array(column)[:, None]).features[0]
    assert feature == Numeric("x0", *ends)


def test_more_values_than_one_byte_holds_are_hashed() -> None:
    X = pd.DataFrame({"id": [f"p{i}" for i in range(300)]})
    assert infer_schema(X).features == (Hashed("id"),)
