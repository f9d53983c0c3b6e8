"""One parser, everywhere: files, frames, databases, the model file and every export read alike.

Texts are drawn from what people write and from what they mistype. Whatever they are, the code by
`code_of_value` is the code in each container, and each export predicts what the model predicts.
"""

from __future__ import annotations

import datetime
import json
import runpy
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest

import hedgerow as hr
from hedgerow.data.engines.database import InDatabase
from hedgerow.data.reading.columns import code_of_value, number_of
from hedgerow.data.reading.databases import Selected
from hedgerow.data.reading.encoding import encode, signed_times
from hedgerow.errors import DataError
from hedgerow.methods.predicting import score_codes
from hedgerow.schema.schema import Schema
from hedgerow.schema.tokens import token_of
from support.rows import postgres_server

pytestmark = pytest.mark.property

FORMATS = ["%d.%m.%Y", "%d%b%y"]
DATE = {"kind": "date", "format": FORMATS}


def date(name: str, low: float, high: float, **options: Any) -> hr.Numeric:
    return hr.Numeric(name, low, high, column="visit", parse={**DATE, **options})


SCHEMA = hr.Schema(
    (
        date("days", 0, 4000, since="2015-01-01"),
        date("month", 1, 13, part="month"),
        date("hour", 0, 24, part="hour"),
        date("year", 2010, 2030, part="year"),
        hr.Categorical(
            "weekday", tuple("1234567"), column="visit", parse={**DATE, "part": "weekday"}
        ),
        hr.Numeric(
            "income", 0, 1e5, parse={"kind": "money", "decimal": ","}, missing=["unknown", -999]
        ),
        hr.Numeric("part", 0, 100, parse="percent"),
        hr.Numeric("size", 0, 1e6, parse={"kind": "number", "units": {"k": 1000, "M": 1e6}}),
        hr.Categorical("diagnosis", ("I21", "E11"), parse="icd"),
        hr.Categorical("zip", ("021", "100"), parse="zip", missing=["00000"]),
        hr.Categorical("smokes", (False, True), parse="boolean"),
        hr.Numeric("grade", 0, 3, parse={"kind": "ordinal", "order": ["none", "mild", "severe"]}),
        hr.Numeric("age", 0, 100, missing=[-999, "-99.9"]),
        hr.Hashed("drug", 20, parse={"kind": "atc", "length": 4}),
    ),
    classes=("no", "yes"),
)
LETTERS = {
    "visit": "0123456789.-: TZ+JANjan",
    "income": "0123456789.,-−() €EURe",
    "part": "0123456789.%",
    "size": "0123456789.kM",
    "diagnosis": "IE1290.ix ",
    "zip": "0123456789-",
    "smokes": "yesnoYN01.",
    "grade": "nomidsev",
    "drug": "CN07abAB",
}
USUAL: dict[str, list[Any]] = {
    "visit": [
        *(
            "31.01.2020",
            "2019-12-01 12:00",
            "05JUN18",
            " 01.02.2017 ",
            "1.2.2016 7:05",
            "29.02.2021",
        ),
        *("2020-01-31T01:00:00+02:00", "2020-06-07T23:30:00Z", "2019-12-31 23:59-0130"),
    ],
    "income": [
        "1.200,50 EUR",
        "unknown",
        "-999,00",
        "7",
        "(55,5)",
        "1.5",
        "€ 99.999",
        "-999",
        "12e2",
    ],
    "part": ["12.5%", "7", "50 %", "99 percent", "1,000"],
    "size": ["2.3k", "1.1 M", "5", "kk", "700000"],
    "diagnosis": ["i21.4", "E119", "Z00", "250.01", "E 11"],
    "zip": ["02139-4307", "2139", "10001", "00000", "SW1A", "2139.0"],
    "smokes": ["Y", "no", "TRUE", "1", "0", "1.0", "maybe", "False"],
    "grade": ["none", "mild", "severe", "Mild", "?"],
    "drug": ["C07AB02", "c07aa", "N02B"],
}
NAMES = list(SCHEMA.columns)


def messy(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)

    def text(name: str) -> str | None:
        if rng.random() < 0.1:
            return [None, "", "NA", " nan "][rng.integers(4)]
        if rng.random() < 0.3:
            return "".join(rng.choice(list(LETTERS[name]), rng.integers(1, 9)))
        return str(rng.choice(np.array(USUAL[name], object)))

    columns = {name: [text(name) for _ in range(n)] for name in LETTERS}
    ages = rng.choice([3.0, -999, -99.9, 50, np.nan, 120], n)
    frame = pd.DataFrame(columns, dtype=object).assign(age=ages)
    label = np.where(rng.random(n) < 0.5, "yes", "no")
    return frame[NAMES].assign(y=label, record_id=range(n))


def expected_codes(frame: pd.DataFrame, schema: Schema = SCHEMA) -> list[list[int]]:
    return [[code_of_value(v, grid) for v in frame[grid.source]] for grid in schema.grids]


def as_file(frame: pd.DataFrame, path: Path) -> Path:
    if path.suffix == ".parquet":
        pa.parquet.write_table(pa.Table.from_pandas(frame), path)
    else:
        frame.to_csv(path, index=False)
    return path


def cells_of(rows: InDatabase) -> Any:
    every = range(len(rows.schema.grids))
    parts = rows._blocks(every, rows._cells)
    return np.concatenate([part.codes for part, _, _ in parts], axis=1)


def pushed_down(connection: Any, query: str, frame: pd.DataFrame) -> None:
    """Cells that the database holds, in no order of their own."""
    rows = InDatabase(Selected(connection, query), SCHEMA, "y")
    codes = cells_of(rows).T.tolist()
    read = encode(frame, SCHEMA, target="y")
    assert sorted(codes) == sorted(read.codes.T.tolist())
    for kind in ("unknown", "missing", "clamped"):
        counts = {name: n for name, n in getattr(rows.read_counts, kind).items() if n}
        assert counts == getattr(read, kind)


@pytest.mark.parametrize("seed", range(4))
def test_a_text_has_one_code_in_every_container(seed, tmp_path) -> None:
    frame = messy(300, seed)
    expected = expected_codes(frame)
    sources = [
        frame,
        frame[NAMES].to_numpy(object),
        frame[NAMES].to_numpy(object).tolist(),
        pa.Table.from_pandas(frame),
        as_file(frame, tmp_path / "rows.csv"),
        as_file(frame, tmp_path / "rows.parquet"),
    ]
    for source in sources:
        assert encode(source, SCHEMA).codes.tolist() == expected


def test_duckdb_and_postgresql_hold_the_same_cells(tmp_path) -> None:
    duckdb = pytest.importorskip("duckdb")
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")
    frame = messy(300, 7)
    with duckdb.connect() as database:
        database.register("given", pa.Table.from_pandas(frame))
        database.execute("CREATE TABLE records AS SELECT * FROM given")
        pushed_down(database, "SELECT * FROM records", frame)
        selected = Selected(database, "SELECT * FROM records ORDER BY record_id")
        assert encode(selected, SCHEMA).codes.tolist() == expected_codes(frame)
    with postgres_server() as place, dbapi.connect(place, autocommit=True) as connection:
        with connection.cursor() as cursor:
            cursor.adbc_ingest("records", pa.Table.from_pandas(frame))
        pushed_down(connection, "SELECT * FROM records", frame)
        selected = Selected(connection, "SELECT * FROM records ORDER BY record_id")
        assert encode(selected, SCHEMA).codes.tolist() == expected_codes(frame)


def german(day: Any) -> Any:
    return f"{day[8:]}.{day[5:7]}.{day[:4]}" if isinstance(day, str) else day


def test_dates_of_every_type_have_the_codes_of_their_texts(tmp_path) -> None:
    duckdb = pytest.importorskip("duckdb")
    days = [datetime.date(2020, 1, 31), datetime.date(2015, 1, 1), None, datetime.date(2016, 2, 29)]
    schema = hr.Schema(SCHEMA.features[:5], classes=("no", "yes"))
    texts = pd.DataFrame({"visit": [None if d is None else str(d) for d in days]})
    expected = encode(texts, schema).codes.tolist()
    stamps = pd.DataFrame({"visit": pd.to_datetime(texts["visit"])})
    tables = [
        pd.DataFrame({"visit": np.array(days, object)}),
        stamps,
        pa.table({"visit": pa.array(days, pa.date32())}),
        pa.table({"visit": pa.array(days, pa.date32()).cast(pa.timestamp("ns"))}),
        as_file(stamps, tmp_path / "stamps.parquet"),
        pd.DataFrame({"visit": texts["visit"].map(german)}),
    ]
    for table in tables:
        assert encode(table, schema).codes.tolist() == expected
    with duckdb.connect() as database:
        database.register("given", tables[2].append_column("y", pa.array(["no"] * 4)))
        for kind in ("DATE", "TIMESTAMP"):
            selected = Selected(database, f"SELECT visit::{kind} AS visit, y FROM given")
            assert encode(selected, schema).codes.tolist() == expected
            codes = cells_of(InDatabase(selected, schema, "y"))
            assert sorted(codes.T.tolist()) == sorted(np.transpose(expected).tolist())


# ---- labels --------------------------------------------------------------------------------------

MONEY = {"kind": "money", "decimal": ","}
OUTCOMES: dict[str, dict[str, Any]] = {
    "income": {"target": hr.Target(0, 5e4, parse=MONEY, missing=("unknown", -999))},
    "part": {"target": hr.Target(0, 100, parse="percent", missing=("?",))},
    "visit": {"target": hr.Target(2010, 2030, parse={**DATE, "part": "year"}, missing=("?",))},
    "smokes": {"classes": (False, True), "classes_parse": "boolean", "classes_missing": ("maybe",)},
    "diagnosis": {"classes": ("I21", "E11"), "classes_parse": "icd"},
    "grade": {
        "survival": hr.Survival(
            "size",
            "smokes",
            2e6,
            parse={"kind": "number", "units": {"k": 1000, "M": 1e6}},
            event_parse="boolean",
        )
    },
}


def expected_labels(frame: pd.DataFrame, schema: Schema, name: str) -> list[float]:
    """By the parser of one value; rows without a label are left out."""
    columns = schema.label_columns(name)
    pairs = list(zip(columns, schema.label_grids, strict=True))
    read = [[grid.read(v) for v in frame[column]] for column, grid in pairs]
    if schema.target is None:
        codes = [schema.class_code(token_of(value)) for value in read[0]]
        return [code for code in codes if code is not None]
    numbers = np.array([[number_of(v) if v != () else np.nan for v in own] for own in read], float)
    if schema.survival is not None:
        values = signed_times(*numbers)
        values = np.where(np.abs(values) > 2e6, -2e6, values)
    else:
        values = np.clip(numbers[0], schema.target.low, schema.target.high)
    return values[~np.isnan(values)].tolist()


def labels_in(rows: InDatabase) -> list[float]:
    parts = rows._blocks(range(len(rows.schema.grids)), rows._cells)
    return sorted(np.concatenate([part.y for part, _, _ in parts]).tolist())


@pytest.mark.parametrize("name", OUTCOMES)
def test_a_label_is_read_alike_in_every_container(name, tmp_path) -> None:
    duckdb = pytest.importorskip("duckdb")
    frame, schema = messy(400, 11), hr.Schema({"age": (0, 100)}, **OUTCOMES[name])
    expected = expected_labels(frame, schema, name)
    assert len(expected) > 100
    sources = [
        frame,
        pa.Table.from_pandas(frame),
        as_file(frame, tmp_path / "rows.csv"),
        as_file(frame, tmp_path / "rows.parquet"),
    ]
    for source in sources:
        assert encode(source, schema, target=name).y.tolist() == expected
    assert Schema.from_toml(schema.to_toml()).label_grids == schema.label_grids
    with duckdb.connect() as database:
        database.register("given", pa.Table.from_pandas(frame))
        selected = Selected(database, "SELECT * FROM given")
        assert labels_in(InDatabase(selected, schema, name)) == sorted(expected)


def test_labels_are_read_alike_in_postgresql() -> None:
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")
    frame = messy(400, 12)
    with postgres_server() as place, dbapi.connect(place, autocommit=True) as connection:
        with connection.cursor() as cursor:
            cursor.adbc_ingest("records", pa.Table.from_pandas(frame))
        for name, outcome in OUTCOMES.items():
            schema = hr.Schema({"age": (0, 100)}, **outcome)
            expected = sorted(expected_labels(frame, schema, name))
            selected = Selected(connection, "SELECT * FROM records")
            assert labels_in(InDatabase(selected, schema, name)) == expected


def test_rows_without_a_label_are_skipped_only_where_a_word_for_it_is_declared() -> None:
    frame = pd.DataFrame({"age": [1, 2, 3], "y": ["7 EUR", "unknown", "8 EUR"]})
    declared = hr.Schema(
        {"age": (0, 9)}, target=hr.Target(0, 9, parse="money", missing=("unknown",))
    )
    read = encode(frame, declared, target="y", check=True)
    assert (read.y.tolist(), read.skipped) == ([7.0, 8.0], 1)
    with pytest.raises(DataError, match=r"1 label.s. are missing"):
        encode(frame[["age"]], declared, y=frame["y"], check=True)
    plain = hr.Schema({"age": (0, 9)}, target=hr.Target(0, 9, parse="money"))
    with pytest.raises(DataError, match=r"'unknown' cannot be read .kind money"):
        encode(frame, plain, target="y", check=True)


# ---- exports ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def model() -> Any:
    """A forest on readable rows; all others are for predicting."""
    rows = messy(4000, 1)
    for grid in SCHEMA.grids:
        strange = [grid.read(value) == () for value in rows[grid.source]]
        rows.loc[strange, grid.source] = None
    income = rows["income"].map(SCHEMA.grids[5].read)
    is_yes = (income == 7) | (rows["grade"] == "mild") | (rows["zip"] == "2139")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        forest = hr.ForestClassifier(
            epsilon=1e4, schema=SCHEMA, n_estimators=12, max_depth=6, random_state=0
        )
        return forest.fit(rows[NAMES], np.where(is_yes, "yes", "no"))


def answers(model: Any, frame: pd.DataFrame) -> Any:
    return score_codes(model.model_, encode(frame, model.schema_).codes)


def records_of(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return frame.astype(object).where(frame.notna(), None).to_dict("records")


READ_ROWS = """
import json, runpy, sys
model = runpy.run_path(sys.argv[1])
print(json.dumps([model["predict_proba"](row) for row in json.load(sys.stdin)]))
"""


@pytest.fixture(scope="module")
def strange() -> pd.DataFrame:
    return messy(1500, 99)


def test_a_model_file_reads_raw_rows_by_itself(model, strange, tmp_path) -> None:
    model.save(tmp_path / "model.json")
    again = hr.load(tmp_path / "model.json")
    readable = strange[[grid_reads_all(row) for _, row in strange.iterrows()]]
    assert len(readable) > 30
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read = again.predict_proba(readable[NAMES])
        singly = np.concatenate([again.predict_proba(readable[NAMES].iloc[[k]]) for k in range(30)])
    np.testing.assert_array_equal(read, answers(model, readable))
    np.testing.assert_array_equal(read[:30], singly)


def grid_reads_all(row: Any) -> bool:
    return all(grid.read(row[grid.source]) != () for grid in SCHEMA.grids)


def test_the_python_file_reads_raw_rows(model, strange, tmp_path) -> None:
    path = model.export(tmp_path / "model.py", to="python")
    command = [sys.executable, "-I", "-S", "-c", READ_ROWS, str(path)]
    text = json.dumps(records_of(strange[NAMES]))
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=True)
    np.testing.assert_allclose(json.loads(done.stdout), answers(model, strange), atol=1e-12)


def inputs_of(model: Any, frame: pd.DataFrame, folder: Path) -> pd.DataFrame:
    python = runpy.run_path(str(model.export(folder / "model.py", to="python")))
    return pd.DataFrame([python["inputs"](row) for row in records_of(frame[NAMES])])


def with_buckets(model: Any, frame: pd.DataFrame, folder: Path) -> pd.DataFrame:
    return frame.drop(columns="y").assign(
        drug_bucket=inputs_of(model, frame, folder)["drug_bucket"]
    )


def test_duckdb_reads_raw_rows(model, strange, tmp_path) -> None:
    duckdb = pytest.importorskip("duckdb")
    query = model.export(tmp_path / "model.sql", to="sql").read_text()
    with duckdb.connect() as database:
        database.register("given", pa.Table.from_pandas(with_buckets(model, strange, tmp_path)))
        database.execute("CREATE TABLE records AS SELECT * FROM given")
        rows = sorted(database.execute(query).fetchall())
    np.testing.assert_allclose(np.array(rows)[:, 1:], answers(model, strange), atol=1e-12)


def test_postgresql_reads_raw_rows(model, strange, tmp_path) -> None:
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi")
    query = model.export(tmp_path / "model.sql", to="sql").read_text()
    with (
        postgres_server() as place,
        dbapi.connect(place, autocommit=True) as connection,
        connection.cursor() as cursor,
    ):
        table = pa.Table.from_pandas(with_buckets(model, strange, tmp_path))
        cursor.adbc_ingest("records", table)
        cursor.execute(query.rstrip().removesuffix(";"))
        rows = sorted(cursor.fetchall())
    np.testing.assert_allclose(np.array(rows, float)[:, 1:], answers(model, strange), atol=1e-12)


def test_onnx_takes_what_its_properties_say(model, strange, tmp_path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(model.export(tmp_path / "m.onnx", to="onnx")))
    documented = json.loads(session.get_modelmeta().custom_metadata_map["preprocessing"])
    assert documented["month"]["column"] == "visit"
    assert documented["income"]["missing"] == ["unknown", "-999"]
    parsed = inputs_of(model, strange, tmp_path).assign(age=strange["age"])  # sentinels stay
    given = {
        column.name: (
            parsed[column.name].fillna("").to_numpy(object)
            if column.type == "tensor(string)"
            else parsed[column.name].to_numpy(np.float64)
        )[:, None]
        for column in session.get_inputs()
    }
    probabilities = session.run(None, given)[-1]
    np.testing.assert_allclose(probabilities, answers(model, strange), atol=1e-12)


def test_a_parser_that_is_changed_in_one_place_would_be_seen(model, strange, tmp_path) -> None:
    """Negative control: with a decimal point the same file says something else."""
    path = model.export(tmp_path / "model.py", to="python")
    other = path.read_text().replace("\\\\,([0-9]{0,40})", "\\\\.([0-9]{0,40})")
    other = other.replace(",([0-9]{0,40})", "[.]([0-9]{0,40})")
    assert other != path.read_text()
    path.write_text(other)
    python = runpy.run_path(str(path))
    rows = [python["predict_proba"](row) for row in records_of(strange[NAMES])]
    assert np.abs(np.array(rows) - answers(model, strange)).max() > 1e-6
