"""No command writes over what it reads, nor over what was paid for or confirmed without --force."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

import hedgerow as hr
from hedgerow.cli.console import exit_code_of
from hedgerow.cli.main import app
from hedgerow.deployment.run import run_study
from hedgerow.errors import ParameterError
from support.worlds import TWO, World, sample

RUN = CliRunner()


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Rows, a confirmed schema, a ledger, and two models with their reports."""
    folder = tmp_path_factory.mktemp("made")
    X, y = sample(120, TWO)
    lines = [",".join(map(str, row)) for row in zip(*X.T, y, strict=True)]
    (folder / "rows.csv").write_text("\n".join([",".join((*TWO.names, "target")), *lines]) + "\n")
    (folder / "schema.toml").write_text(TWO.to_toml())
    for name in ("model", "other"):
        ledger = hr.Ledger(folder / "ledger.sqlite")
        fitted = hr.TreeClassifier(TWO, epsilon=1.0, ledger=ledger).fit(X, y)
        fitted.save(folder / f"{name}.json")
        fitted.report(folder / f"{name}.html")
    return folder


@pytest.fixture
def place(made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(made, tmp_path / "here")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def refused(words: str) -> str:
    """The sentence of a command that must end as a user's mistake, with every file as it was."""
    before = {path: path.read_bytes() for path in Path().iterdir()}
    done = RUN.invoke(app, words.split())
    assert isinstance(done.exception, ParameterError), (words, done.output)
    assert exit_code_of(done.exception) == 2
    assert {path: path.read_bytes() for path in Path().iterdir()} == before
    return str(done.exception)


FIT = "fit --data rows.csv --schema schema.toml --estimator TreeClassifier --epsilon 1 -q"
CHOOSE = "select TreeClassifier ForestClassifier --data rows.csv --schema schema.toml"
READ = [
    "predict model.json rows.csv -o {rows}",
    "predict model.json rows.csv -o {model}",
    "predict model.json r*.csv -o {rows}",
    "export model.json --to text -o {model}",
    "report model.json -o {model}",
    "schema draft rows.csv -o {rows}",
    f"{FIT} -o {{rows}}",
    f"{FIT} -o {{schema}}",
    f"{FIT} --ledger ledger.sqlite -o {{ledger}}",
    f"{CHOOSE} -o {{rows}}",
    f"{CHOOSE} --ledger ledger.sqlite -o {{ledger}}",
]
FILES = {"rows": "rows.csv", "model": "model.json", "schema": "schema.toml"}
FILES["ledger"] = "ledger.sqlite"


@pytest.mark.parametrize("way", ["the path", "another path", "a hard link", "a symbolic link"])
def test_no_command_writes_over_what_it_reads_not_even_by_force(place, way):
    named = dict(FILES)
    for what, name in FILES.items():
        match way:
            case "another path":
                named[what] = f"../here/{name}"
            case "a hard link":
                os.link(name, f"hard-{name}")
                named[what] = f"hard-{name}"
            case "a symbolic link":
                os.symlink(name, f"soft-{name}")
                named[what] = f"soft-{name}"
    for words in READ:
        assert "is read by this command" in refused(f"{words.format(**named)} --force"), words


LOST = [
    (f"{FIT} -o model.json", "a model"),
    (f"{CHOOSE} -o model.json", "a model"),
    ("demo -q -o model.json", "a model"),
    ("predict other.json rows.csv -o model.json", "a model"),
    ("predict other.json rows.csv -o ledger.sqlite", "a ledger"),
    ("export model.json --to text -o other.json", "a model"),
    ("export model.json --to text -o schema.toml", "a schema"),
    ("schema draft rows.csv -o schema.toml", "a schema"),
    ("report model.json -o other.html", "a report of another model"),
    ("demo -q --page model.html", "a report of another model"),
]


@pytest.mark.parametrize(("words", "what"), LOST, ids=lambda value: value)
def test_what_was_paid_for_or_confirmed_is_kept_without_force(place, words, what):
    assert f"holds {what}" in refused(words)


@pytest.mark.parametrize(
    "words", ["schema draft rows.csv -o schema.toml", "report model.json -o other.html"]
)
def test_force_writes_over_it(place, words):
    name = words.split()[-1]
    before = Path(name).read_bytes()
    done = RUN.invoke(app, [*words.split(), "--force"], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert Path(name).read_bytes() != before


def test_a_model_spelled_anew_and_a_broken_schema_are_kept_too(place):
    import json

    model = json.loads(Path("model.json").read_text())
    Path("model.json").write_text(json.dumps(model, indent=2, sort_keys=True))
    assert "holds a model" in refused(f"{FIT} -o model.json")
    Path("schema.toml").write_text(TWO.to_toml() + "\n[oops\n")
    assert "holds a schema" in refused("schema draft rows.csv -o schema.toml")


def test_what_can_be_made_again_is_written_over(place):
    """Predictions, the report of the same model, an export, a draft that nobody touched."""
    for words in (
        "predict model.json rows.csv -o out.csv",
        "report model.json -o model.html",
        "export model.json --to text -o tree.txt",
        "schema draft rows.csv -o draft.toml",
    ):
        for _ in range(2):
            done = RUN.invoke(app, words.split(), catch_exceptions=False)
            assert done.exit_code == 0, (words, done.output)


def test_a_run_does_not_begin_where_another_model_lies(tmp_path):
    world = World(tmp_path)
    try:
        world.folder.model_file.write_text("a model of before")
        with pytest.raises(ParameterError, match="which this run would replace"):
            run_study(world.folder, world)
        assert world.folder.model_file.read_text() == "a model of before"
        assert not world.folder.is_begun
    finally:
        world.close()
