"""Schemas without pain: short forms, other people's forms, drafts that guarantee nothing."""

from __future__ import annotations

import math
import re
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import hedgerow as hr
from hedgerow.cli.main import app
from hedgerow.data.reading.encoding import encode
from hedgerow.data.schema_draft import diagnose, known_ranges, round_range
from hedgerow.errors import DataError, DataWarning, ParameterError, PrivacyWarning
from hedgerow.schema.schema import Mark
from support.worlds import TWO, sample

SIGNED = Mark("A. Huber", "2026-01-31")


# ---- short forms ---------------------------------------------------------------------------------


def test_features_may_be_a_mapping_and_a_target_a_pair():
    short = hr.Schema(features={"age": (0, 110), "ward": ["north", "south"]}, target=(0, 9))
    long = (hr.Numeric("age", 0, 110), hr.Categorical("ward", ("north", "south")))
    assert short == hr.Schema(long, target=hr.Target(0, 9))
    assert hr.Schema({"zip": hr.Hashed("x", 8)}).features == (hr.Hashed("zip", 8),)


def test_all_problems_of_a_mapping_are_named_at_once():
    with pytest.raises(ParameterError) as error:
        hr.Schema({"age": (110, 0), "ward": ("north", "south"), "job": [], "sex": ["f", "f"]})
    said = str(error.value)
    assert "the schema has 4 problems" in said
    assert "column 'job' lists no values" in said
    assert "column 'age': low is 110.0" in said
    assert "column 'ward' is ('north', 'south'); give a pair (low, high), a list" in said
    assert "column 'sex': values names 'f' and 'f'" in said


def test_columns_and_classes_are_looked_at_together():
    twice = (hr.Numeric("age", 0, 9), hr.Numeric("age", 0, 9), "x")
    with pytest.raises(ParameterError) as error:
        hr.Schema(twice, classes=("a",), target=(3, 1))
    assert [problem.split(";")[0] for problem in error.value.problems] == [
        "a feature of the schema is 'x'",
        "column 'age' is declared 2 times",
        "the target: low is 3.0 and high is 1.0",
        "the schema has 1 class(es), ['a']",
    ]


def test_all_problems_of_a_file_are_named_at_once():
    text = """
        [[feature]]
        name = "age"
        low = 9
        high = 1
        [[feature]]
        name = "job"
        valus = ["a"]
        [target]
        low = 3
    """
    with pytest.raises(ParameterError, match="4 problems") as error:
        hr.Schema.from_toml(text)
    assert [problem.split("; ")[0].split(" [")[0] for problem in error.value.problems] == [
        "column 'age': low is 9.0 and high is 1.0",
        "column 'job' has unknown entries",
        "column 'job' lacks",
        "the target lacks",
    ]


def test_one_problem_is_said_plainly():
    with pytest.raises(ParameterError, match=r"^column 'age': low is 9"):
        hr.Schema({"age": (9, 1), "job": ["a"]})


# ---- other people's forms ------------------------------------------------------------------------

EXPECTED = hr.Schema(
    (
        hr.Numeric("age", 0, 110),
        hr.Categorical("ward", ("north", "south")),
        hr.Categorical("smoker", ("False", "True")),
    ),
    classes=("no", "yes"),
)
TABLE_SCHEMA = {
    "fields": [
        {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 110}},
        {"name": "ward", "type": "string", "constraints": {"enum": ["north", "south"]}},
        {"name": "smoker", "type": "boolean"},
        {"name": "died", "type": "string", "constraints": {"enum": ["no", "yes"]}},
    ]
}
JSON_SCHEMA = {
    "type": "object",
    "properties": {
        "age": {"type": ["integer", "null"], "minimum": 0, "maximum": 110},
        "ward": {"enum": ["north", "south", None]},
        "smoker": {"type": "boolean"},
        "died": {"enum": ["no", "yes"]},
    },
}
ARROW = pa.schema(
    [
        pa.field("age", pa.int32(), metadata={"minimum": "0", "maximum": "110"}),
        pa.field("ward", pa.string(), metadata={"enum": '["north", "south"]'}),
        pa.field("smoker", pa.bool_()),
        pa.field("died", pa.string(), metadata={"enum": '["no", "yes"]'}),
    ]
)


def test_other_schemas_are_read_as_they_declare():
    assert hr.Schema.from_table_schema(TABLE_SCHEMA, "died") == EXPECTED
    assert hr.Schema.from_json_schema(JSON_SCHEMA, "died") == EXPECTED
    assert hr.Schema.from_json_schema({"items": JSON_SCHEMA}, "died") == EXPECTED
    assert hr.Schema.from_arrow(ARROW, "died") == EXPECTED
    assert hr.Schema.from_table_schema(TABLE_SCHEMA, "age").target == hr.Target(0, 110)
    assert hr.Schema.from_dict(EXPECTED.to_dict()) == EXPECTED


def test_what_other_schemas_leave_open_is_named_at_once():
    loose = {"fields": [{"name": "age", "type": "integer"}, {"name": "ward", "type": "string"}]}
    with pytest.raises(ParameterError, match="3 problems") as error:
        hr.Schema.from_table_schema(loose, "died")
    for part in ("'age' has no minimum and no maximum", "'ward' is string without", "no column"):
        assert part in str(error.value)
    with pytest.raises(ParameterError, match="no list of `fields`"):
        hr.Schema.from_table_schema({})
    with pytest.raises(ParameterError, match="no `properties`"):
        hr.Schema.from_json_schema({})


# ---- drafts --------------------------------------------------------------------------------------


def people(n=300):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.integers(17, 91, n),
            "gain": np.where(rng.random(n) < 0.9, 0.0, 7298.0),
            "temperature": rng.uniform(35.2, 41.7, n),
            "smoker": rng.integers(0, 2, n),
            "job": rng.choice(["nurse", "clerk"], n),
            "income": rng.choice(["<=50K", ">50K"], n),
        }
    )


@pytest.mark.parametrize("suffix", ["frame", "csv", "parquet"])
def test_a_draft_has_round_ranges_and_values_whatever_the_source(tmp_path, suffix):
    source = people()
    if suffix == "csv":
        source.to_csv(tmp_path / "rows.csv", index=False)
    if suffix == "parquet":
        source.to_parquet(tmp_path / "rows.parquet")
    drafted = hr.draft_schema(
        source if suffix == "frame" else tmp_path / f"rows.{suffix}", "income"
    )
    age, gain, temperature, smoker, job = drafted.features
    assert (age.low, age.high) == (0.0, 120.0)
    assert (gain.low, gain.high) == (0.0, 8000.0)
    assert (temperature.low, temperature.high) == (35.0, 42.0)
    assert (smoker.values, smoker.other) == (("0", "1"), False)
    assert job.values == ("clerk", "nurse")
    assert drafted.classes == ("<=50K", ">50K")
    assert len(drafted.unconfirmed) == 6


def test_a_draft_tells_numbers_from_classes():
    frame = people()
    assert hr.draft_schema(frame, "temperature").target == hr.Target(35.0, 42.0)
    assert hr.draft_schema(frame, "smoker").classes == ("0", "1")
    assert hr.draft_schema(frame, "age").target == hr.Target(0.0, 100.0)
    assert hr.draft_schema(frame).classes is None
    assert hr.draft_schema(frame[["age"]], y=frame.income).classes == ("<=50K", ">50K")
    with pytest.raises(DataError, match="no column 'wages'"):
        hr.draft_schema(frame, "wages")


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (17, 90, (0, 100)),
        (1990, 2020, (1990, 2020)),
        (1993, 2018, (1990, 2020)),
        (-3.2, 7.9, (-4, 8)),
        (-40, -1, (-40, 0)),
        (0.00031, 0.00042, (0.0003, 0.0005)),
        (12285, 1484705, (0, 1.5e6)),
    ],
)
def test_ranges_are_rounded_outwards(low, high, expected):
    found = round_range(low, high)
    assert found == pytest.approx(expected)
    assert found[0] <= low
    assert found[1] >= high


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (
            "age,job,y\n30,caf\xe9,no\n31,b,yes\n",
            "is not UTF-8: 1 line.s. are read as Windows",
        ),
        ('age,job,y\n30,"a,no\n31,b,yes\n32,a,no\n', "1 line.s. are left out, with an open quote"),
    ],
)
def test_a_draft_of_a_file_that_cannot_be_read_whole_says_so(tmp_path, content, says):
    (tmp_path / "rows.csv").write_bytes(content.encode("latin-1"))
    with pytest.warns(DataWarning, match=says):
        hr.draft_schema(tmp_path / "rows.csv", "y")


def test_a_column_without_a_single_value_is_hashed():
    empty = pd.DataFrame({"note": pd.Series([None, None], dtype="str"), "y": ["a", "b"]})
    assert isinstance(hr.draft_schema(empty, "y").features[0], hr.Hashed)


def test_a_draft_promises_nothing_until_each_mark_is_confirmed(tmp_path):
    frame = people()
    drafted = hr.draft_schema(frame, "income")
    assert "read_from_rows = true" in drafted.to_toml()
    assert hr.Schema.from_toml(drafted.to_toml()).unconfirmed == drafted.unconfirmed

    def fitted(schema):
        model = hr.HistogramTreeClassifier(schema, epsilon=3.0, max_depth=1)
        return model.fit(frame, frame.income).privacy_

    with pytest.warns(PrivacyWarning, match="nobody has confirmed: column 'age'"):
        said = fitted(drafted)
    assert said.epsilon == math.inf
    assert "inferred from the rows: column 'age'" in said.schema_source
    signed = drafted.with_mark(SIGNED)
    one_open = replace(signed, features=(drafted.features[0], *signed.features[1:]))
    with pytest.warns(PrivacyWarning, match="nobody has confirmed: column 'age'. "):
        assert fitted(one_open).epsilon == math.inf
    said = fitted(hr.Schema.from_toml(signed.to_toml()))
    assert said.epsilon == 3.0
    assert "confirmed as public by A. Huber on 2026-01-31" in str(said)


def test_the_statement_names_the_schema_as_its_file_has_it(tmp_path):
    """Not on the method's grid, whose digest no file has; nor does an evaluation's."""
    X, y = sample(60, TWO)
    (tmp_path / "schema.toml").write_text(TWO.to_toml())
    said = CliRunner().invoke(app, ["schema", "check", str(tmp_path / "schema.toml")]).stdout
    model = hr.BoostedTreesClassifier(TWO, n_estimators=2).fit(X, y)
    model.save(tmp_path / "model.json")
    evaluated = hr.evaluate(hr.load(tmp_path / "model.json"), X, y, epsilon=1.0)
    assert model.schema_.digest != TWO.digest
    for statement in (model.privacy_, evaluated.privacy_):
        digest = str(statement).split("(digest ")[1].split(")")[0]
        assert f"digest {digest}." in said
    assert TWO.with_mark(SIGNED).digest != TWO.digest


def test_passing_an_inferred_schema_back_in_does_not_make_it_public(tmp_path):
    X, y = sample(60, TWO)
    with pytest.warns(PrivacyWarning, match="no schema"):
        first = hr.HistogramTreeClassifier(epsilon=1.0, max_depth=1).fit(X, y)
    first.save(tmp_path / "model.json")
    for schema in (first.schema_, hr.load(tmp_path / "model.json").schema_):
        with pytest.warns(PrivacyWarning, match="nobody has confirmed"):
            again = hr.HistogramTreeClassifier(schema, epsilon=1.0, max_depth=1).fit(X, y)
        assert again.privacy_.epsilon == math.inf


@pytest.mark.parametrize(
    ("by", "on", "says"),
    [("", "2026-01-31", "a person's name"), ("A", "31.1.", "a day such as"), ("A", None, "both")],
)
def test_a_mark_is_confirmed_by_a_name_and_a_day(by, on, says):
    with pytest.raises(ParameterError, match=says):
        Mark(by, on)


# ---- what a draft tells of each column ----------------------------------------------------------


def doctored(n: int = 300) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    days = pd.Timestamp("2019-01-01") + pd.to_timedelta(rng.integers(0, 900, n), "D")
    euros = [f"{v:,.2f} EUR".translate(str.maketrans(",.", ".,")) for v in rng.gamma(2, 2000, n)]
    return pd.DataFrame(
        {
            "record": [f"R{k:05d}" for k in range(n)],
            "row id": np.arange(n) * 7,
            "patient": rng.integers(0, n // 3, n),
            "hospital": rng.choice(["north", "south"], n),
            "empty": np.full(n, None),
            "constant": "x",
            "zip": rng.choice(["02139", "10001"], n),
            "lab code": rng.choice(["007", "012"], n),
            "Age": np.where(rng.random(n) < 0.1, -999, rng.integers(20, 90, n)),
            "admitted": days.strftime("%d.%m.%Y"),
            "paid": np.where(rng.random(n) < 0.1, "n.k.", euros),
            "share": [f"{v:.1f}%" for v in rng.uniform(0, 100, n)],
            "lab": [f"{v:.2f}".replace(".", ",") for v in rng.uniform(0, 9, n)],
            "wage": rng.choice(["1.2k", "3k", "2.5k"], n),
            "alive": rng.choice(["Yes", "No"], n),
            "diagnosis": rng.choice(["I21.4", "E11.9", "J44"], n),
            "weight": rng.integers(200, 9000, n),
            "job": rng.choice(["nurse", "clerk"], n),
            "y": rng.choice(["no", "yes"], n),
        }
    )


@pytest.mark.parametrize("kind", ["frame", "csv"])
def test_a_draft_tells_what_is_odd_about_each_column(kind, tmp_path) -> None:
    frame = doctored()
    frame.to_csv(tmp_path / "rows.csv", index=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        diagnosis = diagnose(frame if kind == "frame" else tmp_path / "rows.csv", "y")
    findings = {finding.name: finding for finding in diagnosis.findings}
    features = {feature.name: feature for feature in diagnosis.schema.features}
    assert set(findings) - set(features) == {"record", "row id", "patient"}
    said = {name: " / ".join(finding.reasons) for name, finding in findings.items()}
    assert "identifiers" in said["record"]
    assert "a person" in said["patient"]
    assert "a site" in said["hospital"]
    assert "no row has a value" in said["empty"]
    assert "one value" in said["constant"]
    kinds = {n: f.parse.kind for n, f in features.items() if isinstance(f.parse, hr.Parser)}
    assert kinds == {
        "zip": "zip",
        "admitted": "date",
        "paid": "money",
        "share": "percent",
        "lab": "number",
        "wage": "number",
        "alive": "boolean",
        "diagnosis": "icd",
    }
    assert features["lab code"].values == ("007", "012")
    assert features["Age"].missing == ("-999",)
    assert (features["Age"].low, features["Age"].high) == (0.0, 120.0)
    assert features["paid"].missing == ("n.k.",)
    assert findings["Age"].source is not None
    assert "look at its unit" in said["weight"]
    assert said["job"] == ""
    text = diagnosis.to_toml()
    assert hr.Schema.from_toml(text) == diagnosis.schema
    assert "# -999 looks like a sentinel" in text
    assert set(diagnosis.schema.unconfirmed) >= {f"column {name!r}" for name in features}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        read = encode(frame, diagnosis.schema, target="y", check=True)
    assert read.unknown == {}


def test_every_known_range_has_a_source_with_a_year_or_is_a_definition() -> None:
    rows = known_ranges()
    assert len(rows) >= 25
    for row in rows:
        assert row["low"] < row["high"]
        assert re.search(r"\b(19|20)\d\d\b|^by definition", row["source"])
        assert row["unit"]
        hr.Numeric("x", row["low"], row["high"])
    frame = pd.DataFrame({"age": [30, 40] * 20, "ferritin": [70, 110] * 20, "y": ["a", "b"] * 20})
    findings = {finding.name: finding for finding in diagnose(frame, "y").findings}
    assert findings["age"].source in " ".join(findings["age"].reasons)
    assert findings["ferritin"].source is None  # nobody offers a source that does not stand there
    assert findings["ferritin"].reasons == ()


def test_a_draft_says_how_the_outcome_is_written(tmp_path) -> None:
    rng = np.random.default_rng(0)
    amounts = [f"{v:.2f} EUR".replace(".", ",") for v in rng.uniform(100, 900, 80)]
    words = rng.choice(["Yes", "yes", "Y", "No", "n"], 80)
    frame = pd.DataFrame({"x": range(80), "cost": amounts, "ill": words})
    frame.loc[3, ["cost", "ill"]] = ["unbekannt", "unklar"]
    frame.to_csv(tmp_path / "rows.csv", index=False)
    diagnosis = diagnose(tmp_path / "rows.csv", "cost")
    target = diagnosis.schema.target
    assert (target.parse.kind, target.parse.decimal, target.missing) == (
        "money",
        ",",
        ("unbekannt",),
    )
    assert (target.low, target.high) == (0.0, 1000.0)
    assert "# The outcome: amounts of money, decimal comma" in diagnosis.to_toml()
    assert hr.Schema.from_toml(diagnosis.to_toml()).target == target
    truth = hr.draft_schema(frame[["x", "ill"]], "ill")
    assert (truth.labels, truth.classes_missing) == ((False, True), ("unklar",))
    plain = hr.draft_schema(frame.assign(ill=np.where(rng.random(80) < 0.5, "No", "Yes")), "ill")
    assert (plain.classes, plain.classes_parse) == (("No", "Yes"), None)


def test_what_a_schema_cannot_read_labels_by_is_refused() -> None:
    with pytest.raises(ParameterError, match="classes_parse and classes_missing need classes"):
        hr.Schema({"x": (0, 1)}, classes_missing=("?",))
    with pytest.raises(ParameterError, match="'money', whose column has low and high"):
        hr.Schema({"x": (0, 1)}, classes=("a", "b"), classes_parse="money")
    with pytest.raises(ParameterError, match="'icd', whose column has values or buckets"):
        hr.Target(0, 1, parse="icd")
