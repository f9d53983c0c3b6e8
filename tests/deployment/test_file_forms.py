"""The published JSON Schemas say of files what the product itself says of them."""

from __future__ import annotations

import copy
import json
import tomllib
from pathlib import Path

import jsonschema
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import hedgerow as hr
from docs.make_formats import FOLDER, FORMATS, text_of
from hedgerow.cli.main import app
from hedgerow.deployment import verify

SCHEMA = {
    "classes": ["no", "yes"],
    "feature": [
        {"name": "a", "low": 0, "high": 1, "bins": 8},
        {"name": "b", "values": ["x", "y"], "other": True},
        {"name": "c", "buckets": 8},
    ],
}
ESTIMATORS = [n for n in hr.__all__ if n.endswith(("Classifier", "Regressor"))]


def fits(name: str, content: object) -> bool:
    published = json.loads((FOLDER / f"{name}.schema.json").read_text(encoding="utf-8"))
    return jsonschema.Draft202012Validator(published).is_valid(content)


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_published_is_what_the_code_says(name):
    published = (FOLDER / f"{name}.schema.json").read_text(encoding="utf-8")
    assert published == text_of(name), "run `python -m docs.make_pages formats`"
    jsonschema.Draft202012Validator.check_schema(json.loads(published))


# ---- schema ---------------------------------------------------------------------------------


def without(content: dict, *path: object) -> dict:
    changed = copy.deepcopy(content)
    inner = changed
    for step in path[:-1]:
        inner = inner[step]
    del inner[path[-1]]
    return changed


WRONG_SCHEMAS = {
    "no columns": without(SCHEMA, "feature"),
    "a column without a name": without(SCHEMA, "feature", 0, "name"),
    "a range without an end": without(SCHEMA, "feature", 0, "high"),
    "an unknown entry": SCHEMA | {"color": "red"},
    "classes and a target": SCHEMA | {"target": {"low": 0, "high": 1}},
    "a bad spacing": SCHEMA | {"feature": [{"name": "a", "low": 0, "high": 1, "spacing": "wild"}]},
    "too many bins": SCHEMA | {"feature": [{"name": "a", "low": 0, "high": 1, "bins": 400}]},
}


def test_schemas_that_the_product_reads_and_writes_fit():
    schema = hr.Schema.from_dict(SCHEMA)
    assert fits("schema", SCHEMA)
    assert fits("schema", schema.to_dict())
    assert fits("schema", tomllib.loads(schema.to_toml()))


@pytest.mark.parametrize("name", WRONG_SCHEMAS)
def test_a_schema_that_is_wrong_is_refused_by_both(name):
    assert not fits("schema", WRONG_SCHEMAS[name])
    with pytest.raises(hr.ParameterError):
        hr.Schema.from_dict(WRONG_SCHEMAS[name])


MANY_PROBLEMS = """
classes = ["no"]
color = "red"
[[feature]]
name = "age"
low = 0
[[feature]]
name = "dose"
low = false
high = 9
bins = 400
spacing = "wild"
[[feature]]
name = "ward"
values = ["a", "b", "a"]
[[feature]]
name = "pay"
low = 9
high = 1
[[feature]]
name = "age"
buckets = 4
"""


def test_a_check_names_every_problem_of_a_schema_and_what_is_allowed(tmp_path):
    (tmp_path / "x.toml").write_text(MANY_PROBLEMS)
    done = CliRunner().invoke(app, ["schema", "check", f"{tmp_path}/x.toml", "--json"])
    assert done.exit_code == 1
    found = json.loads(done.stdout)["problems"]
    assert [problem.split(";")[0] for problem in found] == [
        "the schema has unknown entries ['color']",
        "column 'age' lacks ['high']",
        "column 'dose': low is False",
        "column 'dose': spacing is 'wild'",
        "column 'dose': bins is 400",
        "column 'ward': values names 'a' and 'a', which no site can tell apart",
        "column 'pay': low is 9.0 and high is 1.0",
        "column 'age' is declared 2 times",
        "the schema has 1 class(es), ['no']",
    ]
    assert all("; " in problem for problem in found)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ([], "the file: [] is not of type 'object'"),
        ({"feature": [{"name": "a", "low": 0, "high": 1, "bins": 400}]}, "feature[0].bins: 400 is"),
        (WRONG_SCHEMAS["classes and a target"], "the file: {'classes': ['no', 'yes'], 'feature'"),
    ],
)
def test_a_problem_is_told_once_with_its_place(content, words):
    (said,) = verify.problems_of("schema", content)
    assert words in said


def test_drafts_and_confirmed_schemas_fit():
    rows = {"a": [1.0, 2.0, 3.0], "b": ["x", "y", "x"], "c": ["no", "yes", "no"]}
    draft = hr.draft_schema(pd.DataFrame(rows), target="c")
    assert fits("schema", tomllib.loads(draft.to_toml()))
    confirmed = SCHEMA["feature"][0] | {"confirmed_by": "A", "confirmed_on": "2026-01-31"}
    assert fits("schema", SCHEMA | {"feature": [confirmed]})


# ---- study ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def study(tmp_path_factory) -> dict:
    folder = tmp_path_factory.mktemp("study")
    schema = folder / "schema.toml"
    schema.write_text(hr.Schema.from_dict(SCHEMA).to_toml(), encoding="utf-8")
    sites = [word for k in "123" for word in ("--site", f"s{k}={k * 128}")]
    line = ["study", "init", str(folder / "x"), "--name", "x", "--estimator", "TreeClassifier"]
    line += ["--schema", str(schema), "--epsilon", "1", *sites]
    done = CliRunner().invoke(app, line)
    assert done.exit_code == 0, done.output
    return tomllib.loads((folder / "x/study.toml").read_text(encoding="utf-8"))


def test_a_study_that_the_product_writes_fits(study):
    assert fits("study", study)


@pytest.mark.parametrize("path", [("site",), ("privacy",), ("coordinator", "key"), ("version",)])
def test_a_study_without_something_is_seen(study, path):
    assert not fits("study", without(study, *path))


def test_a_study_with_something_unknown_is_seen(study):
    assert not fits("study", study | {"color": "red"})


# ---- model ----------------------------------------------------------------------------------


def saved(name: str, folder: Path) -> dict:
    rng = np.random.default_rng(0)
    X = rng.random((120, 2))
    number = name.endswith("Regressor")
    goal = {"target": hr.Target(0, 1)} if number else {"classes": ("no", "yes")}
    schema = hr.Schema({"a": (0, 1), "b": (0, 1)}, **goal)
    y = X[:, 0] if number else np.where(X[:, 0] > 0.5, "yes", "no")
    getattr(hr, name)(schema, epsilon=5.0).fit(X, y).save(folder / "model.json")
    return json.loads((folder / "model.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_the_model_file_of_every_estimator_fits(name, tmp_path):
    assert fits("model", saved(name, tmp_path))


@pytest.mark.parametrize(
    "path",
    [("digest",), ("content", "privacy"), ("content", "model", "score", "trees"), ("version",)],
)
def test_a_model_without_something_is_seen(path, tmp_path):
    assert not fits("model", without(saved("TreeClassifier", tmp_path), *path))


def test_verify_says_what_is_wrong_with_the_form_of_a_model(tmp_path, monkeypatch):
    document = saved("TreeClassifier", tmp_path)
    document["content"]["privacy"]["delta"] = "small"
    document["content"] |= {"color": "red"}
    wrong = json.dumps(document | {"digest": verify.model_file.digest_of_file(document)})
    (tmp_path / "wrong.json").write_text(wrong)
    form = verify.verify_model(tmp_path / "wrong.json", None)[-1]
    assert (form.name, form.has_failed) == ("file format", True)
    assert "content.privacy.delta: 'small' is not of type 'number'" in form.words
    assert "content: Additional properties are not allowed ('color' was unexpected)" in form.words
    assert CliRunner().invoke(app, ["verify", f"{tmp_path}/wrong.json"]).exit_code == 1
    monkeypatch.setattr(verify, "find_spec", lambda name: None)
    checks = {one.name: one for one in verify.verify_model(tmp_path / "model.json", None)}
    assert "pip install 'hedgerow[check]'" in checks["file format"].words
