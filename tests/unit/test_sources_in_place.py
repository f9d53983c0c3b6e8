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
from hedgerow.errors import DataError, SpecError
from hedgerow.site.reading import encoding
from hedgerow.site.reading.sources import open_table

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
        return hr.TreeClassifier(SCHEMA, placement="nowhere", random_state=0, max_depth=3)

    handed = model().fit(
        FRAME[["x", "kind"]], FRAME["y"], party=FRAME["clinic"], person=FRAME["patient"]
    )
    read = model().fit(made(tmp_path), target="y", party="clinic", person="patient")
    assert read.model_ == handed.model_
    assert read.classes_.tolist() == ["no", "yes"]
    assert str(read.privacy_) == str(handed.privacy_)


def test_a_frame_is_read_by_names_too():
    read = hr.TreeClassifier(SCHEMA, placement="nowhere").fit(FRAME, target="y")
    assert read.feature_names_in_.tolist() == ["x", "kind"]


def test_all_sites_take_part_if_they_are_named(tmp_path):
    model = hr.TreeClassifier(SCHEMA, epsilon=1.0)
    names = ["west", "east", "north", "south"]
    model.fit(parquet(tmp_path), target="y", party="clinic", parties=names)
    assert model.run_.rounds
    with pytest.raises(DataError, match="'south' in some row, which is not among the parties"):
        model.fit(parquet(tmp_path), target="y", party="clinic", parties=names[:3])


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ("leave y out", {"y": FRAME["y"]}),
        ("party is a Series", {"target": "y", "party": FRAME["clinic"]}),
        ("say which one is to be predicted", {}),
        ("name the column that says whose", {"target": "y", "parties": ["a"]}),
    ],
)
def test_what_does_not_go_with_a_file_is_said(words, given, tmp_path):
    with pytest.raises((SpecError, DataError), match=words):
        hr.TreeClassifier(SCHEMA).fit(parquet(tmp_path), **given)


def test_files_need_a_schema(tmp_path):
    with pytest.raises(SpecError, match="need a schema"):
        hr.TreeClassifier().fit(parquet(tmp_path), target="y")


def test_a_pattern_that_names_nothing_is_said(tmp_path):
    with pytest.raises(DataError, match=r"holds no \.csv, \.parquet or \.arrow file"):
        open_table(str(tmp_path / "*.parquet"))


def test_a_row_that_nobody_holds_is_refused(tmp_path):
    FRAME.assign(clinic=FRAME["clinic"].where(FRAME["x"] > -9)).to_parquet(tmp_path / "a.parquet")
    with pytest.raises(DataError, match="say for each row who holds it"):
        hr.TreeClassifier(SCHEMA).fit(tmp_path / "a.parquet", target="y", party="clinic")


def test_integers_of_128_bits_are_numbers_like_any_other():
    wide = pl.DataFrame({"x": pl.Series([2, 10**20, None], dtype=pl.Int128), "kind": ["a"] * 3})
    plain = pd.DataFrame({"x": [2.0, 1e20, np.nan], "kind": ["a"] * 3})
    codes = [encoding.encode(frame, SCHEMA).codes for frame in (wide, plain)]
    assert np.array_equal(*codes)
