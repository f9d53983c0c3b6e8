"""What other programs compute from an export is what the model says: real consumers, every kind."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import hedgerow as hr
from hedgerow.cli.main import app
from hedgerow.errors import ParameterError
from hedgerow.models.model import Additive, Curve, Model, Output
from hedgerow.models.tree import Tree
from hedgerow.report.exports.export import export_model
from hedgerow.report.exports.plain_text import question_words, to_dot, to_text
from hedgerow.report.plain import PlainBranch, nodes_of, plain
from hedgerow.schema.regions import Split, Step
from hedgerow.schema.tokens import Unusable, token_of
from support.handed_on import CASES, NAMES, answers, fitted, rows
from support.rows import postgres_server

EACH = pytest.mark.parametrize(("name", "task"), CASES, ids=lambda value: value.replace(" ", "-"))
BINDS = (-1.0, 1.5)
"""A clip that odd models reach."""
X = rows(160)
NEAR = 1e-6


def bucket_of(value: object) -> float:
    """As a user of ONNX or SQL would have computed it beforehand."""
    grid = fitted(*CASES[0]).schema_.grids[4]
    code = grid.category_code(None if value is None else str(value))
    return np.nan if code == grid.missing else float(code)


def with_buckets(frame: pd.DataFrame) -> pd.DataFrame:
    buckets = frame[NAMES[4]].map(bucket_of, na_action=None)
    return frame.drop(columns=NAMES[4]).assign(**{f"{NAMES[4]}_bucket": buckets})


def assert_near(found: np.ndarray, model: object, frame: pd.DataFrame = X) -> None:
    np.testing.assert_allclose(np.asarray(found, float), answers(model, frame), rtol=0, atol=NEAR)


# ------------------------------------------------------------------------------------------ python
READ_ROWS = """
import json, runpy, sys
model = runpy.run_path(sys.argv[1])
print(json.dumps([model["predict_proba"](row) for row in json.load(sys.stdin)]))
print(json.dumps([model["predict"](row) for row in [{}]]))
"""


def by_the_python_file(path, frame):
    """In an interpreter that sees no installed package."""
    records = json.dumps(frame.astype(object).where(frame.notna(), None).to_dict("records"))
    command = [sys.executable, "-I", "-S", "-c", READ_ROWS, str(path)]
    done = subprocess.run(command, input=records, capture_output=True, text=True, check=True)
    return np.array(json.loads(done.stdout.splitlines()[0]))


@EACH
def test_the_python_file_says_what_the_model_says(name, task, tmp_path):
    model = fitted(name, task)
    path = model.export(tmp_path / "model.py", to="python")
    assert_near(by_the_python_file(path, X), model)


# -------------------------------------------------------------------------------------------- onnx
def by_onnxruntime(path, frame):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(path))
    given = {}
    for column in session.get_inputs():
        values = frame[column.name]
        if column.type == "tensor(string)":
            # ONNX has no way to trim a text; its strings come without spaces around them.
            values = values.fillna("").str.strip()
            given[column.name] = values.to_numpy(object)[:, None]
        else:
            given[column.name] = values.to_numpy(np.float64)[:, None]
    return session.run(None, given)


@EACH
def test_onnxruntime_says_what_the_model_says(name, task, tmp_path):
    model = fitted(name, task)
    found = by_onnxruntime(model.export(tmp_path / "m.onnx", to="onnx"), with_buckets(X))
    assert_near(found[-1], model)
    if task != "number":
        assert list(found[0]) == list(np.array(model.schema_.classes)[answers(model, X).argmax(1)])


# --------------------------------------------------------------------------------------------- sql
def numbered(frame: pd.DataFrame) -> pd.DataFrame:
    return with_buckets(frame).assign(record_id=range(len(frame)))


@EACH
def test_duckdb_says_what_the_model_says(name, task, tmp_path):
    duckdb = pytest.importorskip("duckdb")
    model = fitted(name, task)
    query = model.export(tmp_path / "model.sql", to="sql").read_text()
    with duckdb.connect() as database:
        database.register("given", numbered(X))
        database.execute("CREATE TABLE records AS SELECT * FROM given")
        found = sorted(database.execute(query).fetchall())
    assert [row[0] for row in found] == list(range(len(X)))
    assert_near(np.array(found)[:, 1:], model)


@pytest.fixture(scope="module")
def postgres() -> Iterator[object]:
    psycopg = pytest.importorskip("psycopg")
    with postgres_server() as place, psycopg.connect(place, autocommit=True) as connection:
        records = numbered(X)
        columns = ", ".join(
            '"'
            + name.replace('"', '""')
            + '" '
            + ("text" if kind is np.dtype(object) else "float8")
            for name, kind in records.astype({NAMES[2]: object, NAMES[3]: object}).dtypes.items()
        )
        connection.execute(f"CREATE TABLE records ({columns})")
        with connection.cursor().copy("COPY records FROM STDIN") as copy:
            for row in records.itertuples(index=False):
                copy.write_row(row)
        yield connection


@EACH
def test_postgresql_says_what_the_model_says(name, task, tmp_path, postgres):
    model = fitted(name, task)
    query = model.export(tmp_path / "model.sql", to="sql").read_text()
    found = sorted(postgres.execute(query).fetchall())
    assert_near(np.array(found, float)[:, 1:], model)


def test_postgresql_gives_the_model_s_chances_over_time(tmp_path, postgres):
    features = fitted(*CASES[0]).schema_.features
    schema = hr.Schema(features, survival=hr.Survival("t", "e", 9.0))
    y = np.array([(k % 3 > 0, 1.0 + k % 7) for k in range(len(X))], [("e", "?"), ("t", "f8")])
    known = X.assign(**{NAMES[3]: X[NAMES[3]].where(X[NAMES[3]] != "7", None)})
    model = hr.SurvivalBoostedTrees(schema, dp_model="none", n_estimators=3).fit(known, y)
    query = model.export(tmp_path / "model.sql", "sql", [0.5, 4.2]).read_text()
    found = sorted(postgres.execute(query).fetchall())
    expected = [model.predict(known), *(1.0 - model.predict_proba_by(known, [0.5, 4.2])).T]
    np.testing.assert_allclose(np.array(found, float)[:, 1:].T, expected, rtol=0, atol=NEAR)


# ----------------------------------------------------------------------------------------- xgboost
def in_single_precision(frame: pd.DataFrame) -> pd.DataFrame:
    """XGBoost computes with 32 bits and refuses infinite numbers."""
    finite = frame.replace([np.inf, -np.inf], [1e9, -1e9])
    return finite.astype({NAMES[0]: np.float32, NAMES[1]: np.float32})


def as_matrix(model, frame):
    from hedgerow.data.reading.encoding import encode_features

    xgboost = pytest.importorskip("xgboost")
    admitted = frame.assign(**{NAMES[3]: frame[NAMES[3]].replace({"7": None})})
    codes = encode_features(admitted, model.schema_).astype(float)
    columns = []
    for grid, name, code in zip(model.schema_.grids, NAMES, codes, strict=True):
        numeric = grid.kind.value == "numeric"
        columns.append(frame[name] if numeric else np.where(code == grid.missing, np.nan, code))
    return xgboost.DMatrix(
        np.stack(columns, axis=1).astype(np.float32),
        feature_names=list(NAMES),
        feature_types=["float" if g.kind.value == "numeric" else "c" for g in model.schema_.grids],
        enable_categorical=True,
    )


def leaves_its_range(score) -> bool:
    """Whether smallest or largest leaves of all terms so far ever add up beyond the clip."""
    if score.clip is None:
        return False
    start = [np.asarray(curve.values)[:, 0] for curve in score.curves]
    trees = [tree.values[~np.isnan(tree.values[:, 0]), 0] for tree in score.trees]
    ends = []
    for end in (np.min, np.max):
        begin = score.base[0] + sum(map(end, start))
        ends.append(begin + np.cumsum([0.0, *map(end, trees)])[1:])
    return bool((ends[0] < score.clip[0]).any() or (ends[1] > score.clip[1]).any())


@EACH
def test_xgboost_says_what_the_model_says_and_shap_explains_it(name, task, tmp_path):
    xgboost, shap = pytest.importorskip("xgboost"), pytest.importorskip("shap")
    model, single = fitted(name, task), in_single_precision(X)
    if leaves_its_range(model.model_.score):
        with pytest.raises(ParameterError, match="clipped"):
            model.export(tmp_path / "model.json", to="xgboost")
        return
    booster = xgboost.Booster(model_file=model.export(tmp_path / "m.json", to="xgboost"))
    matrix = as_matrix(model, single)
    found = booster.predict(matrix)
    if found.ndim == 1 and task != "number":
        found = np.stack([1.0 - found, found], axis=1)
    assert_near(found.reshape(len(X), -1), model, single)
    explainer = shap.TreeExplainer(booster)
    parts = np.asarray(explainer.shap_values(matrix)).reshape(len(X), len(NAMES), -1)
    sums = parts.sum(axis=1) + np.atleast_1d(explainer.expected_value)
    raw = booster.predict(matrix, output_margin=True).reshape(len(X), -1)
    np.testing.assert_allclose(sums, raw, atol=1e-4)


# ------------------------------------------------------------------------------------ dot and text
@EACH
def test_graphviz_reads_the_dot_file(name, task, tmp_path):
    if shutil.which("dot") is None:
        pytest.skip("Graphviz is not installed: no dot on the path")
    model = fitted(name, task)
    path = model.export(tmp_path / "model.dot", to="dot")
    done = subprocess.run(["dot", "-Tplain", path], capture_output=True, text=True, check=True)
    leaves = sum(tree.n_leaves for tree in model.model_.score.trees)
    nodes = [line for line in done.stdout.splitlines() if line.startswith("node ")]
    assert len(nodes) >= 2 * leaves - len(model.model_.score.trees)


@EACH
def test_the_text_names_every_leaf_of_every_tree(name, task, tmp_path):
    model = fitted(name, task)
    text = model.export(tmp_path / "model.txt", to="text").read_text()
    plain_model = plain(model)
    assert text.count("\ntree ") == len(plain_model.trees)
    lines = text.splitlines()
    questions = [line for line in lines if line.lstrip().startswith("if ")]
    terms = sum(1 for root in plain_model.terms for node in nodes_of(root))
    assert len(lines) == 2 + 2 * len(plain_model.terms) + terms + len(questions)


@EACH
def test_text_and_graph_ask_every_question_in_the_same_words(name, task):
    model = plain(fitted(name, task))
    branches = [n for root in model.terms for n in nodes_of(root) if isinstance(n, PlainBranch)]
    asked = {question_words(model, branch) for branch in branches}
    text, graph = to_text(model), to_dot(model)
    assert asked
    assert all(f"if {words}" in text and json.dumps(words)[1:-1] in graph for words in asked)


def test_a_format_that_is_unknown_or_a_folder_that_is_not_there_is_told(tmp_path):
    model = fitted("TreeClassifier", "two classes")
    with pytest.raises(ParameterError, match="to is 'pmml'; use one of"):
        model.export(tmp_path / "model.pmml", to="pmml")
    with pytest.raises(ParameterError, match="cannot be written: No such file"):
        model.export(tmp_path / "nowhere" / "model.sql", to="sql")


# ------------------------------------------------------------------- what few models happen to have
class Bare:
    """A model put together by hand."""

    def __init__(self, schema, score, output):
        self.schema_, self.model_ = schema, Model(score, output)


def odd_models():
    """Sets with holes, sets of the missing cell, curves under a clip, no tree at all."""
    schema = fitted("TreeRegressor", "number").schema_
    rng = np.random.default_rng(3)
    leaves = []
    for grid in schema.grids:
        for _ in range(3):
            cells = int.from_bytes(rng.bytes(32), "little") & ((1 << grid.n_cells) - 1) | 1
            split = Split(grid.feature, grid.digest, cells & ~2)
            leaves.append({(Step(split, 0),): (rng.normal(),), (Step(split, 1),): (rng.normal(),)})
        only = Split(grid.feature, grid.digest, 1 << grid.missing)
        leaves.append({(Step(only, 0),): (rng.normal(),), (Step(only, 1),): (rng.normal(),)})
    trees = tuple(Tree.build(schema.names, one) for one in leaves)
    curves = tuple(
        Curve(j, tuple((v,) for v in rng.normal(size=grid.n_cells)))
        for j, grid in enumerate(schema.grids)
    )
    stump = Tree.build(schema.names, {(): (0.25,)})
    yield "clipped", Bare(schema, Additive((0.3,), curves, trees, clip=BINDS), Output.VALUE)
    yield (
        "clipped in vain",
        Bare(schema, Additive((0.3,), curves, trees, clip=(-900.0, 900.0)), Output.VALUE),
    )
    yield "holes", Bare(schema, Additive((0.3,), curves, trees), Output.VALUE)
    yield "stump", Bare(schema, Additive((0.3,), (), (stump,)), Output.VALUE)
    yield "constant", Bare(schema, Additive((0.3,)), Output.VALUE)


ODD = dict(odd_models())
ODD_ONES = pytest.mark.parametrize("odd", ODD.values(), ids=ODD)


def said_by(odd, frame):
    from hedgerow.methods.predicting import outputs

    admitted = frame.assign(**{NAMES[3]: frame[NAMES[3]].replace({"7": None})})
    return outputs(odd.model_, admitted, odd.schema_)


@ODD_ONES
def test_odd_models_are_exported_too(odd, tmp_path):
    duckdb, xgboost = pytest.importorskip("duckdb"), pytest.importorskip("xgboost")
    expected = said_by(odd, X)
    by_python = by_the_python_file(export_model(odd, tmp_path / "m.py", "python"), X)
    (by_onnx,) = by_onnxruntime(export_model(odd, tmp_path / "m.onnx", "onnx"), with_buckets(X))
    with duckdb.connect() as database:
        database.register("records", numbered(X))
        query = export_model(odd, tmp_path / "m.sql", "sql").read_text()
        by_sql = np.array(sorted(database.execute(query).fetchall()))[:, 1:]
    for found in (by_python, by_onnx, by_sql):
        np.testing.assert_allclose(found, expected, rtol=0, atol=NEAR)
    if odd.model_.score.clip == BINDS:
        with pytest.raises(ParameterError, match="clipped"):
            export_model(odd, tmp_path / "x.json", "xgboost")
    else:
        single = in_single_precision(X)
        booster = xgboost.Booster(model_file=export_model(odd, tmp_path / "x.json", "xgboost"))
        found = booster.predict(as_matrix(odd, single))
        np.testing.assert_allclose(found, said_by(odd, single)[:, 0], rtol=0, atol=5e-6)


@cache
def template():
    source = files("hedgerow.report.exports").joinpath("python_template.txt").read_text()
    names: dict[str, object] = {}
    exec(source, names)
    return names


@pytest.mark.property
@given(st.one_of(st.text(), st.integers(), st.booleans(), st.floats(), st.floats(width=32)))
def test_the_python_file_knows_a_category_by_the_same_token(value):
    is_narrow = type(value) is float and abs(value) < 1e38
    for given_value in (value, str(value), str(np.float32(value)) if is_narrow else ""):
        theirs = template()["token_of"](given_value)
        ours = token_of(given_value)
        assert theirs == ours or (isinstance(ours, Unusable) and not isinstance(theirs, str))


def test_the_command_writes_what_the_method_writes(tmp_path):
    model = fitted("TreeClassifier", "two classes")
    model.save(tmp_path / "model.json")
    arguments = ["export", str(tmp_path / "model.json"), "--to", "sql", "-o", str(tmp_path / "a")]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "a").read_bytes() == model.export(tmp_path / "b", to="sql").read_bytes()


def test_a_leaf_that_is_changed_in_a_file_would_be_seen(tmp_path):
    """Twin: one leaf off by one part in a thousand."""
    model = fitted("TreeClassifier", "two classes")
    path = model.export(tmp_path / "model.py", to="python")
    value = float(model.model_.score.trees[0].values[0, 0])
    path.write_text(path.read_text().replace(repr(value), repr(value * 1.001)))
    assert np.abs(by_the_python_file(path, X) - answers(model, X)).max() > NEAR
