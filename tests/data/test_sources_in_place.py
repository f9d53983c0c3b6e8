"""Rows that `fit` reads from where they are are the rows that it would have been handed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

import hedgerow as hr
from hedgerow.data.reading import encoding
from hedgerow.data.reading.sources import open_table
from hedgerow.errors import DataError, ParameterError

SCHEMA = hr.Schema({"x": (-3, 3), "kind": ["a", "b"]}, classes=("no", "yes"))
rng = np.random.default_rng(3)
FRAME = pd.DataFrame(
    {
        "x": np.where(rng.random(400) < 0.1, np.nan, rng.normal(size=400)),
        "kind": rng.choice(["a", "b"], 400),
        "y": rng.choice(["no", "yes"], 400),
        "clinic": rng.choice(["east", "north", "south"], 400),
        "patient": rng.integers(0, 150, 400),
    }
)
TABLE = pa.Table.from_pandas(FRAME, preserve_index=False)
ENCODED = encoding.encode(FRAME, SCHEMA, target="y", person="patient")


def csv(folder):
    FRAME.to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv"


def parquet(folder):
    pq.write_table(TABLE, folder / "rows.parquet", row_group_size=64)
    return str(folder / "rows.parquet")


def feather(folder):
    pa.feather.write_feather(TABLE, folder / "rows.feather", chunksize=90)
    return folder / "rows.feather"


def arrow_stream(folder):
    with pa.ipc.new_stream(folder / "rows.arrow", TABLE.schema) as writer:
        writer.write_table(TABLE, max_chunksize=50)
    return folder / "rows.arrow"


def parts(folder):
    for k in range(4):
        pq.write_table(TABLE.slice(100 * k, 100), folder / f"part-{k}.parquet")
    (folder / "notes.txt").write_text("not rows")
    return folder


def pattern(folder):
    return str(parts(folder) / "part-*.parquet")


def dataset(folder):
    return pa.dataset.dataset(str(parts(folder)), format="parquet", exclude_invalid_files=True)


def reader(folder):
    return pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches(70))


SOURCES = [csv, parquet, feather, arrow_stream, parts, pattern, dataset, reader]


@pytest.mark.parametrize("made", SOURCES)
def test_every_source_gives_the_same_codes(made, tmp_path):
    read = encoding.encode(made(tmp_path), SCHEMA, target="y", person="patient", chunk_rows=64)
    assert np.array_equal(read.codes, ENCODED.codes)
    assert np.array_equal(read.y, ENCODED.y)
    assert np.array_equal(read.persons, ENCODED.persons)
    assert read.codes.flags.c_contiguous


@pytest.mark.parametrize("made", [csv, pattern, reader])
def test_fit_reads_labels_parties_and_persons_by_the_names_of_columns(made, tmp_path):
    def model():
        return hr.TreeClassifier(SCHEMA, dp_model="none", random_state=0, max_depth=3)

    handed = model().fit(
        FRAME[["x", "kind"]], FRAME["y"], site=FRAME["clinic"], person=FRAME["patient"]
    )
    read = model().fit(made(tmp_path), target="y", site="clinic", person="patient")
    assert read.model_ == handed.model_
    assert read.classes_.tolist() == ["no", "yes"]
    assert str(read.privacy_) == str(handed.privacy_)


def test_a_frame_is_read_by_names_too():
    read = hr.TreeClassifier(SCHEMA, dp_model="none").fit(FRAME, target="y")
    assert read.feature_names_in_.tolist() == ["x", "kind"]


def test_all_sites_take_part_if_they_are_named(tmp_path):
    model = hr.TreeClassifier(SCHEMA, epsilon=1.0)
    names = ["west", "east", "north", "south"]
    model.fit(parquet(tmp_path), target="y", site="clinic", sites=names)
    assert model.run_.rounds
    with pytest.raises(DataError, match="'south' in some row, which is not among the sites"):
        model.fit(parquet(tmp_path), target="y", site="clinic", sites=names[:3])


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ("leave y out", {"y": FRAME["y"]}),
        ("site is a Series", {"target": "y", "site": FRAME["clinic"]}),
        ("say which one is to be predicted", {}),
        ("name the column that says whose", {"target": "y", "sites": ["a"]}),
    ],
)
def test_what_does_not_go_with_a_file_is_said(words, given, tmp_path):
    with pytest.raises((ParameterError, DataError), match=words):
        hr.TreeClassifier(SCHEMA).fit(parquet(tmp_path), **given)


def test_files_need_a_schema(tmp_path):
    with pytest.raises(ParameterError, match="need a schema"):
        hr.TreeClassifier().fit(parquet(tmp_path), target="y")


def test_a_pattern_that_names_nothing_is_said(tmp_path):
    with pytest.raises(DataError, match=r"holds no \.csv, .*\.parquet or \.arrow file"):
        open_table(str(tmp_path / "*.parquet"))


def test_a_row_that_nobody_holds_is_refused(tmp_path):
    FRAME.assign(clinic=FRAME["clinic"].where(FRAME["x"] > -9)).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataError, match="say for each row who holds it"):
        hr.TreeClassifier(SCHEMA).fit(tmp_path / "a.parquet", target="y", site="clinic")


def test_integers_of_128_bits_are_numbers_like_any_other():
    wide = pl.DataFrame({"x": pl.Series([2, 10**20, None], dtype=pl.Int128), "kind": ["a"] * 3})
    plain = pd.DataFrame({"x": [2.0, 1e20, np.nan], "kind": ["a"] * 3})
    codes = [encoding.encode(frame, SCHEMA).codes for frame in (wide, plain)]
    assert np.array_equal(*codes)


# ------------------------------------------------------------------------------- types of labels
COUNTED = hr.Schema({"x": (-3, 3), "kind": ["a", "b"]}, classes=(0, 1))
LABELS = {
    "whole": np.int64,
    "short": np.int8,
    "float": np.float64,
    "truth": np.bool_,
    "text": str,
    "nullable": "Int64",
    "category": "category",
    "objects": object,
}


def frame_with(kind):
    return FRAME.assign(y=(FRAME["y"] == "yes").astype(int).astype(kind))


def in_a_file(frame, folder):
    frame.to_parquet(folder / "rows.parquet")
    return folder / "rows.parquet"


def in_batches(frame, folder):
    return pa.RecordBatchReader.from_stream(pa.Table.from_pandas(frame))


@pytest.mark.parametrize("made", [lambda frame, folder: frame, in_a_file, in_batches])
@pytest.mark.parametrize("kind", LABELS)
def test_labels_that_are_read_by_name_have_the_type_of_the_schemas_classes(kind, made, tmp_path):
    frame = frame_with(LABELS[kind])
    model = hr.TreeClassifier(COUNTED, dp_model="none").fit(made(frame, tmp_path), target="y")
    assert model.classes_.dtype == np.int64
    assert model.score(frame, frame["y"].astype(int)) > 0.4  # raises where types are mixed


def test_labels_of_a_csv_file_are_what_the_schema_lists(tmp_path):
    frame = frame_with(int)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    model = hr.TreeClassifier(COUNTED, dp_model="none")
    assert model.fit(tmp_path / "rows.csv", target="y").classes_.tolist() == [0, 1]
    frame.assign(y=frame["y"].map({0: "00", 1: "1"})).to_csv(tmp_path / "rows.csv", index=False)
    odd = hr.Schema({"x": (-3, 3), "kind": ["a", "b"]}, classes=("00", "1"))
    model.set_params(schema=odd)
    assert model.fit(tmp_path / "rows.csv", target="y").classes_.tolist() == ["00", "1"]


def test_one_label_of_another_type_changes_no_code():
    """A token for each value alone; what the labels are called is the schema's."""
    mixed = frame_with(object)
    mixed.loc[7, "y"] = str(mixed.loc[7, "y"])
    one, two = (encoding.encode(f, COUNTED, target="y") for f in (frame_with(int), mixed))
    assert np.array_equal(one.y, two.y)


def test_classes_of_several_holders_are_the_schemas(tmp_path):
    model = hr.TreeClassifier(COUNTED, dp_model="none")
    model.fit(in_a_file(frame_with(int), tmp_path), target="y", site="clinic")
    assert model.classes_.tolist() == [0, 1]


# ---------------------------------------------------------------------------- names that are wrong
@pytest.mark.parametrize("what", ["target", "site", "person"])
def test_a_name_that_no_column_has_is_to_be_corrected_where_it_was_given(what, tmp_path):
    given = {"target": "y", what: "Y"}
    for source in (FRAME, parquet(tmp_path)):
        with pytest.raises(DataError, match=rf"'Y', which `{what}` names; it has .*'clinic'.*Corr"):
            hr.TreeClassifier(SCHEMA).fit(source, **given)


@pytest.mark.parametrize("place", ["rows.duckdb", "postgresql://reader@db/clinic"])
@pytest.mark.parametrize("given", [{"target": "y"}, {}])
def test_a_database_is_asked_for_something(place, given):
    with pytest.raises(DataError, match="sql='SELECT"):
        hr.TreeClassifier(SCHEMA).fit(place, **given)
