"""What people type wrong, over all commands: a sentence and a code each, never a traceback."""

from __future__ import annotations

import re
import shlex
import warnings
from fractions import Fraction
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import hedgerow as hr
from hedgerow.cli.console import run_guarded
from hedgerow.cli.main import app
from hedgerow.privacy.accounting import conversions
from support.effort import IS_LONG

CODES = (1, 2, 3, 4, 5)
EVERY = 1 if IS_LONG else 5
"""`make test` tries every fifth of them."""

FIT = "fit --schema schema.toml --data a.csv"
EVALUATE = "evaluate model.json --data a.csv --epsilon"
CHOOSE = "select TreeClassifier ForestClassifier --schema schema.toml --data a.csv -o x.json"
PLAN = "plan schema.toml --rows 100 --repeats 1"
FILES = """nowhere.csv empty.csv norows.csv twice.csv text.parquet folder 'z*.csv' ''
    http://a.org/b.csv bytes.csv renamed.csv"""
READABLE = ("bytes.csv", "renamed.csv")
"""Files from which a schema can be drafted, if a strange one."""
MODELS = """nowhere.json broken.json other.json list.json cut.json changed.json folder a.csv"""
SCHEMAS = "nowhere.toml broken.toml empty.toml other.toml range.toml columns.toml folder"
PLACES = "nowhere folder a.csv"


def each(template: str, *fillings: str) -> list[str]:
    """The line with every word of each filling in its place."""
    return [template.format(*words) for words in product(*(f.split() for f in fillings))]


MISTAKES = [
    *("--nope", "frobnicate", "schema frobnicate", "demo --nope"),
    *("fit", "fit --data a.csv", f"{FIT} --data a.csv --data nowhere.csv", f"{FIT} --target age"),
    *each("fit --schema schema.toml --data {}", FILES + " nolabel.csv"),
    *each("fit --schema {} --data a.csv", SCHEMAS + " wider.toml number.toml"),
    *each("fit {} --data a.csv", SCHEMAS + " schema.toml"),
    *each(FIT + " --epsilon {}", "0 -1 nan inf two"),
    *each(FIT + " --delta {}", "1 -1 nan"),
    *each(FIT + " --estimator {}", "Nope TreeRegressor Schema"),
    *each(FIT + " {} nope", "--target --person --sql --push-down"),
    *each(FIT + " --estimator 'TreeClassifier {}'", "nope=1 max_depth=x max_depth epsilon=2"),
    *each(FIT + " --hold-out {}", "0 1 half"),
    f"{FIT} --hold-out 2 --push-down --sql nope",
    *each(FIT + " --ledger {}", "folder a.csv"),
    *each(FIT + " -o {}", "no/x.json folder"),
    *each("predict model.json {}", FILES),
    *each("predict {} a.csv", MODELS),
    *each("predict model.json a.csv -o {}", "no/x.csv folder"),
    *("show", *each("show {}", MODELS), *each("show model.json --depth {}", "-1 x")),
    "compare model.json",
    "study watch nowhere",
    *each("compare model.json {}", FILES),
    *each("explain model.json {}", FILES),
    *each("explain model.json a.csv --first {}", "0 -1 x"),
    *each("evaluate model.json --epsilon 1 --data {}", FILES + " nolabel.csv"),
    *each(EVALUATE + " 1 {}", "--by=nope --target=nope --target=age --ledger=folder --delta=2"),
    *each(EVALUATE + " {}", "0 -3 nan inf x"),
    *("select", "select TreeClassifier --schema schema.toml --data a.csv -o x.json"),
    *each("select TreeClassifier ForestClassifier --schema {} -d a.csv -o x.json", SCHEMAS),
    *each("select TreeClassifier ForestClassifier --schema schema.toml -o x.json -d {}", FILES),
    *each(CHOOSE + " {}", "--epsilon=0 --epsilon=nan --delta=1 --hold-out=1 --stage=0 --stage=3"),
    *each(CHOOSE + " {}", "--target=nope --person=nope --ledger=folder Nope TreeRegressor ''"),
    *each(CHOOSE + " 'TreeClassifier {}'", "nope=1 max_depth=x max_depth epsilon=2 hold_out=3"),
    *each(CHOOSE.replace("x.json", "{}"), "no/x.json folder"),
    *each("plan {} --rows 100", SCHEMAS),
    *each("plan schema.toml --rows {}", "0 -5 7 1e4 many"),
    *each(PLAN + " --sites {}", "0 -1 5000"),
    *each(PLAN + " --epsilon {}", "0 nan"),
    *each(PLAN + " --proxy {}", FILES + " nolabel.csv"),
    *each(PLAN + " --proxy a.csv --target {}", "nope age"),
    *(line for line in each("schema draft {}", FILES) if not line.endswith(READABLE)),
    *each("schema draft a.csv {}", "--target=nope --output=no/x --output=folder"),
    *each("schema check {}", SCHEMAS),
    *each("schema check schema.toml {}", FILES),
    *each("schema confirm {} --by me", SCHEMAS),
    *("schema confirm schema.toml", "schema confirm schema.toml --by ''"),
    *each("ledger {} {}", "show verify export", PLACES),
    *each("export {} --to sql -o x.sql", MODELS),
    *each("export model.json {}", "--to=sql --to=nope", "-o=x"),
    *each("export model.json --to sql -o {}", "no/x folder"),
    *each("report {}", MODELS),
    *each("report model.json -o {}", "no/x.html folder"),
    *each("verify {}", MODELS),
    *each("serve {}", MODELS),
    *each("serve model.json --listen {}", "nowhere 127.0.0.1 127.0.0.1:x"),
    *("new", "new .", "new a.csv"),
    *each("rehearse {} --no-browser", "nowhere folder a.csv"),
    "rehearse --data a.csv --data nowhere.csv --no-browser",
    *each("sign {} --key nowhere --new-key", MODELS),
    *each("sign model.json --key {}", "nokey folder a.csv"),
    *each("audit {}", "--nope --estimator=Nope --epsilon=-1 --fits=0 --canaries=0 --dp_model=x"),
    *each("study {} {}", "check run status resume stop", "nowhere folder schema.toml"),
    *("study init", "study receipts folder"),
    *each("site {} {}", "serve status rotate-key lock-flare check", PLACES),
    *("site flower", "site flower --site x --socket y --secret nowhere"),
    *("site init", *each("site {} folder x", "backup restore revoke")),
]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder of files that are no good, each in its own way, and a few that are."""
    here: Path = tmp_path_factory.mktemp("mistakes")
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age": rng.integers(17, 91, 60), "job": rng.choice(["a", "b"], 60)})
    schema = hr.Schema({"age": (0, 110), "job": ["a", "b"]}, classes=("no", "yes"))
    y = rng.choice(["no", "yes"], 60)
    whole = rows.assign(y=y)
    model = hr.HistogramTreeClassifier(schema, epsilon=5.0, max_depth=1).fit(rows, y)
    model.save(here / "model.json")
    saved = (here / "model.json").read_text("utf-8")
    texts = {
        "a.csv": whole.to_csv(index=False),
        "nolabel.csv": rows.to_csv(index=False),
        "norows.csv": "age,job,y\n",
        "empty.csv": "",
        "twice.csv": "age,age,job,y\n1,2,a,no\n",
        "renamed.csv": whole.rename(columns={"age": "Age"}).to_csv(index=False),
        "text.parquet": "hello",
        "schema.toml": schema.to_toml(),
        "range.toml": schema.to_toml().replace("110", "-5"),
        "columns.toml": hr.draft_schema(whole).to_toml(),
        "wider.toml": hr.Schema({"age": (0, 110), "zip": (0, 9)}, classes=("no", "yes")).to_toml(),
        "number.toml": hr.Schema({"age": (0, 110), "job": ["a", "b"]}, target=(0, 1)).to_toml(),
        "broken.toml": "[[[",
        "empty.toml": "",
        "other.toml": "a = 1\n",
        "broken.json": "{",
        "other.json": "{}",
        "list.json": "[]",
        "cut.json": saved[: len(saved) // 2],
        "changed.json": saved.replace('"age"', '"agf"'),
    }
    for name, text in texts.items():
        (here / name).write_text(text, encoding="utf-8")
    (here / "bytes.csv").write_bytes(bytes(range(256)) * 20)
    (here / "folder").mkdir()
    return here


@pytest.mark.parametrize("line", MISTAKES[::EVERY])
def test_a_mistake_is_told_in_words_and_by_a_code(line, place, monkeypatch, capsys):
    monkeypatch.chdir(place)
    with pytest.raises(SystemExit) as ended:
        run_guarded(partial(app, shlex.split(line)))
    said = capsys.readouterr()
    assert ended.value.code in CODES
    assert 0 < len(said.err or said.out) < 3000
    assert "Traceback" not in said.err + said.out
    assert not list(place.glob("x*"))
    assert not list(place.glob("report.html"))


def test_a_warning_of_a_command_is_a_line_without_our_source(monkeypatch, capsys):
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # brought back afterwards
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        run_guarded(partial(conversions.warn_if_weak, Fraction(1, 2)))
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("hedgerow: warning: delta is above 1e-4")


def test_there_are_mistakes_for_every_command():
    groups = {line.split()[0] for line in MISTAKES}
    commands = {c.name or c.callback.__name__ for c in app.registered_commands}
    assert commands | {g.name for g in app.registered_groups} <= groups
    assert len(MISTAKES) > 200


def test_every_variable_of_the_environment_stands_in_the_table():
    root = Path(__file__).parents[2]
    sources = (root / "src").rglob("*.py")
    used = {v for f in sources for v in re.findall(r"HEDGEROW_[A-Z_]+", f.read_text("utf-8"))}
    page = (root / "docs/network.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^\| `(HEDGEROW_[A-Z_]+)`", page, re.M)) == used
    assert len(used) >= 4
