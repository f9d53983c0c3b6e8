"""Commands that read rows from where they are: files by pattern, a database that sums."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from functools import partial
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import hedgerow as hr
from deployment.test_serve import Served
from hedgerow.cli import fit as fit_command
from hedgerow.cli.console import run_guarded
from hedgerow.cli.main import app
from hedgerow.deployment.approve import approve
from hedgerow.deployment.site_state import DataPlace
from hedgerow.deployment.study_file import StudyFile
from hedgerow.errors import ParameterError
from hedgerow.federation.audit_log import Audit
from hedgerow.privacy.accounting.budget import DPModel
from support.network import World, tree_of

SELECT = "SELECT * FROM records"


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def database_of(world, site):
    path = world.folder / f"{site.name}.duckdb"
    with duckdb.connect(path) as connection:
        connection.register("given", pd.read_csv(world.data_of(site)))
        connection.execute("CREATE TABLE records AS SELECT * FROM given")
    return path


def called(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.parametrize("push_down", [False, True], ids=["streamed", "pushed down"])
def test_sites_with_databases_grow_the_tree_that_files_grow(world, push_down):
    for site in world.sites:
        place = DataPlace(str(database_of(world, site)), "target", sql=SELECT, push_down=push_down)
        assert place == DataPlace.read(written(site.root / "place.toml", place))
        approve(site, StudyFile.read(world.study_file), place, Audit(site.audit_file))
    with Served(world) as served:
        model = world.train(served.transport)
    assert tree_of(model) == tree_of(world.in_one_process())


def written(path, place):
    path.write_text(place.to_toml(), encoding="utf-8")
    return path


def test_site_check_reads_files_by_pattern_and_databases(world):
    site, study = world.sites[0], world.study_file
    many = called("site", "check", study, "--data", world.folder / "site-*.csv")
    assert f"rows that can be used: {len(world.y)}" in many.output
    asked = ("--data", database_of(world, site), "--sql", SELECT)
    for flags in ((), ("--push-down",)):
        said = called("site", "check", study, *asked, *flags)
        assert "rows that can be used: 40" in said.output


@pytest.mark.parametrize(
    ("words", "flags"),
    [("give --sql", ()), ("knows no persons", ("--sql", SELECT, "--person", "target"))],
)
def test_push_down_that_cannot_be_is_refused_before_approval(world, words, flags):
    place = ("--data", database_of(world, world.sites[0]), "--push-down")
    said = called("site", "check", world.study_file, *place, *flags)
    assert said.exit_code != 0
    assert isinstance(said.exception, ParameterError)
    assert words in str(said.exception)


@pytest.mark.parametrize("flags", [(), ("--push-down",)], ids=["streamed", "pushed down"])
def test_hedgerow_fit_asks_a_database(world, tmp_path, flags):
    from support.worlds import TWO

    schema, out = tmp_path / "schema.toml", tmp_path / "model.json"
    schema.write_text(TWO.to_toml(), encoding="utf-8")
    asked = ("--data", database_of(world, world.sites[0]), "--sql", SELECT, "--target", "target")
    line = ("fit", "--schema", schema, "--estimator", "TreeClassifier", "-q", "-o", out)
    said = called(*line, *asked, *flags)
    assert said.exit_code == 0, said.output
    assert json.loads(out.read_text())


# --------------------------------------------------------------------------------------------------
# The page docs/first_model.md, run line by line; and what the command line does with mistakes.
PAGE = Path(__file__).parents[2] / "docs" / "first_model.md"
COMMANDS = re.findall(r"^\$ hedgerow (.*)$", PAGE.read_text(encoding="utf-8"), re.M)
SCHEMA_STEPS = ("schema draft", "schema confirm", "schema check")
MOST_KEYSTROKES = 200
JOBS = ("clerk", "nurse", "?", "farmer")


def people(n: int, seed: int = 0) -> pd.DataFrame:
    """As Adult's file is: texts with a question mark, skewed numbers, a column to be predicted."""
    rng = np.random.default_rng(seed)
    age, hours = rng.integers(17, 91, n), rng.integers(1, 100, n)
    gain = np.where(rng.random(n) < 0.92, 0, rng.integers(100, 99_999, n))
    rich = rng.random(n) < 1 / (1 + np.exp(4 - 0.05 * age - 0.02 * hours - (gain > 5000) * 3))
    columns = {"age": age, "job": rng.choice(JOBS, n), "capital_gain": gain, "hours": hours}
    return pd.DataFrame({**columns, "income": np.where(rich, ">50K", "<=50K")})


def labeled(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.Series]:
    return rows.drop(columns="income"), rows.income


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder in which the page's commands were typed, and all that they printed."""
    place = tmp_path_factory.mktemp("empty")
    people(3000).to_csv(place / "adult.csv", index=False)
    before = Path.cwd()
    os.chdir(place)
    try:
        said = [CliRunner().invoke(app, shlex.split(line), input="\n" * 20) for line in COMMANDS]
    finally:
        os.chdir(before)
    return place, dict(zip(COMMANDS, said, strict=True))


def test_every_command_of_the_page_ends_well(folder):
    _, said = folder
    assert len(said) == 6
    for command, result in said.items():
        assert result.exit_code == 0, (command, result.output)


def test_the_model_has_a_finite_epsilon_and_says_who_vouches(folder):
    place, _ = folder
    model = hr.load(place / "model.json")
    assert model.privacy_.epsilon == 1.0
    assert "confirmed as public by A. Huber on" in str(model.privacy_)
    rows = people(2000, seed=1)
    assert model.score(rows.drop(columns="income"), rows.income) > 0.6


def test_a_schema_takes_fewer_than_two_hundred_keystrokes():
    """Commands about the schema, and Enter for each of its columns, the classes included."""
    typed = sum(len(f"hedgerow {line}\n") for line in COMMANDS if line.startswith(SCHEMA_STEPS))
    answers = 15  # as many as Adult has entries to confirm
    assert typed + answers < MOST_KEYSTROKES


def test_predictions_are_those_of_the_model(folder):
    place, _ = folder
    run = CliRunner().invoke(app, ["predict", str(place / "model.json"), str(place / "adult.csv")])
    lines = run.stdout.splitlines()
    assert lines[0] == "prediction,probability of <=50K,probability of >50K"
    expected = hr.load(place / "model.json").predict(pd.read_csv(place / "adult.csv"))
    assert [line.split(",")[0] for line in lines[1:]] == expected.tolist()


def test_answers_for_programs_are_one_json_value(folder):
    place, _ = folder
    model, rows, schema = (str(place / n) for n in ("model.json", "adult.csv", "schema.toml"))
    book = str(place / "json.ledger")
    hr.evaluate(hr.load(model), *labeled(people(50)), epsilon=0.5, ledger=book)
    for line in (
        ["show", model],
        ["explain", model, rows],
        ["predict", model, rows],
        ["schema", "draft", rows],
        ["schema", "check", schema, rows],
        ["export", model, "--to", "text", "-o", str(place / "model.txt")],
        ["report", model, "-o", str(place / "report.html")],
        ["evaluate", model, "--data", rows, "--epsilon", "1"],
        ["verify", model],
        ["ledger", "show", book],
        ["ledger", "verify", book],
    ):
        assert json.loads(CliRunner().invoke(app, [*line, "--json", "--quiet"]).stdout)


def test_probabilities_are_numbers_for_programs(folder):
    place, _ = folder
    line = ["predict", str(place / "model.json"), str(place / "adult.csv"), "--json"]
    first = json.loads(CliRunner().invoke(app, line).stdout)[0]
    assert sum(first[f"probability of {name}"] for name in ("<=50K", ">50K")) == pytest.approx(1.0)


def test_several_files_are_several_sites(folder):
    place, _ = folder
    for k in range(3):
        people(400, seed=k).to_csv(place / f"site{k}.csv", index=False)
    files = [part for k in range(3) for part in ("--data", str(place / f"site{k}.csv"))]
    line = ["fit", "--schema", str(place / "schema.toml"), "--estimator", "TreeClassifier", *files]
    run = CliRunner().invoke(app, [*line, "-q", "-o", str(place / "three.json")])
    assert (run.exit_code, run.stdout) == (0, "")
    assert hr.load(place / "three.json").privacy_.n_sites == 3


def test_cells_are_kept_in_a_file_where_a_folder_is_named(folder, tmp_path):
    place, _ = folder
    line = ["fit", "--schema", str(place / "schema.toml"), "--estimator", "TreeClassifier", "-q"]
    line += ["--data", str(place / "adult.csv"), "--target", "income", "--temp-folder"]
    run = CliRunner().invoke(app, [*line, str(tmp_path), "-o", str(tmp_path / "model.json")])
    assert run.exit_code == 0, run.output
    assert hr.load(tmp_path / "model.json").privacy_.epsilon == 1.0
    held = [*line, str(tmp_path), "-o", str(tmp_path / "held.json"), "--hold-out", "3"]
    assert CliRunner().invoke(app, held).exit_code == 0
    assert "auc" in hr.load(tmp_path / "held.json").evaluation_.parts[0][0].measures
    more = ["--data", str(place / "adult.csv")]
    refused = CliRunner().invoke(app, [*line, str(tmp_path), "--force", *more])
    assert "2 sources were given" in str(refused.exception)
    nowhere = CliRunner().invoke(app, [*line, str(tmp_path / "none"), "--force"])
    assert "is no folder" in str(nowhere.exception)


def test_records_are_proposed_to_be_held_out_where_there_are_enough(folder, monkeypatch):
    place, _ = folder
    line = ["fit", "--schema", str(place / "schema.toml"), "--estimator", "TreeClassifier"]
    line += ["--data", str(place / "adult.csv"), "--force", "-o", str(place / "proposed.json")]
    for enough, words in ((10**6, ""), (100, "With --hold-out 5 one record in five measures it")):
        monkeypatch.setattr(fit_command, "ENOUGH_TO_HOLD_OUT", enough)
        run = CliRunner().invoke(app, line, catch_exceptions=False)
        assert (run.exit_code, words in run.stderr, bool(run.stderr)) == (0, True, bool(words))
    assert "hold-out" not in CliRunner().invoke(app, [*line, "--hold-out", "4"]).stderr
    assert "hold-out" not in CliRunner().invoke(app, [*line, "-q"]).stderr


def test_flags_give_parameters_and_hold_records_out(folder, tmp_path):
    """The model comes with what its held-out records say of it, and knows its columns by name."""
    place, _ = folder
    kind = "TreeClassifier max_depth=1 dp_model=per_site"
    line = ["fit", "--schema", str(place / "schema.toml"), "--data", str(place / "adult.csv")]
    line += ["--estimator", kind, "--hold-out", "3", "--epsilon", "2", "--json"]
    run = CliRunner().invoke(app, [*line, "-o", str(tmp_path / "model.json")])
    said = json.loads(run.stdout)
    assert said["privacy"]["dp_model"] == DPModel.PER_SITE.value
    assert said["evaluation"]["privacy"]["epsilon"] == 2.0
    assert any("held out of training" in note for note in said["evaluation"]["privacy"]["caveats"])
    model = hr.load(tmp_path / "model.json")
    assert (model.max_depth, model.hold_out) == (1, 3)
    assert list(model.feature_names_in_) == list(model.schema_.names)
    assert model.evaluation_.privacy_.epsilon == 2.0


def test_a_check_of_other_rows_names_every_problem_and_says_so_by_its_code(folder):
    place, _ = folder
    odd = people(200).assign(age=lambda f: f.age * 1000, job="pilot")
    odd.to_csv(place / "odd.csv", index=False)
    run = CliRunner().invoke(
        app, ["schema", "check", str(place / "schema.toml"), f"{place}/odd.csv"]
    )
    assert run.exit_code == 1
    assert "column 'age': 200 of 200 values (100.0%) are outside the range 0 to 120" in run.stdout
    assert "column 'job': 200 of 200 values" in run.stdout
    people(9).drop(columns=["age", "hours"]).to_csv(place / "few.csv", index=False)
    run = CliRunner().invoke(
        app, ["schema", "check", str(place / "schema.toml"), f"{place}/few.csv"]
    )
    assert "no column 'age'" in run.stdout
    assert "no column 'hours'" in run.stdout


# ---- as a process --------------------------------------------------------------------------------


def hedgerow(*line: str, cwd: Path | None = None, **more: str) -> subprocess.CompletedProcess[str]:
    """In a narrow terminal that knows no messages but ASCII."""
    here = str(Path(hr.__file__).parents[1])
    known = {
        "COLUMNS": "60",
        "LC_ALL": "C",
        "PYTHONIOENCODING": "ascii",
        "PYTHONPATH": here,
        **more,
    }
    return subprocess.run(
        [sys.executable, "-c", "from hedgerow.cli.main import entry; entry()", *line],
        env={**os.environ, **known},
        cwd=cwd,
        capture_output=True,
        text=True,
    )


MISTAKES = {
    "no rows": (["fit"], 2, "no rows were given; name a file"),
    "rows for a study": (
        ["fit", "x.csv"],
        2,
        "x.csv is no study file (.toml); name rows by --data",
    ),
    "no schema": (["fit", "--data", "x.csv"], 2, "draft one (hedgerow schema draft x.csv)"),
    "no model": (["show", "nowhere.json"], 2, "nowhere.json cannot be read"),
    "no such command": (["frobnicate"], 2, "No such command"),
    "no ledger": (["ledger", "show", "nowhere"], 2, "there is no ledger nowhere"),
    "no file": (["schema", "draft", "nowhere.csv"], 2, "there is no file 'nowhere.csv'"),
    "no folder": (["schema", "draft", "a.csv", "-o", "no/x.toml"], 2, "no/x.toml cannot be used"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_one_sentence_and_a_code(name, tmp_path, monkeypatch, capsys):
    line, code, words = MISTAKES[name]
    people(30).to_csv(tmp_path / "a.csv", index=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as ended:
        run_guarded(partial(app, line))
    assert ended.value.code == code
    assert words in capsys.readouterr().err


def test_a_narrow_terminal_without_letters_shows_all_of_a_model(folder):
    place, _ = folder
    run = hedgerow("show", "model.json", cwd=place)
    assert run.returncode == 0, run.stderr
    assert run.stdout.isascii()
    run = hedgerow("--help")
    assert max(map(len, run.stdout.splitlines())) <= 60


def test_a_budget_that_is_used_up_has_a_code_of_its_own(folder, monkeypatch, capsys):
    place, _ = folder
    monkeypatch.chdir(place)
    schema, rows = hr.Schema.from_toml("schema.toml"), people(50)
    book = hr.Ledger("fits.ledger", epsilon=1.5)
    small = hr.HistogramTreeClassifier(schema, max_depth=1, ledger=book)
    small.fit(rows.drop(columns="income"), rows.income)
    line = ["fit", "--schema", "schema.toml", "--data", "adult.csv", "--ledger", "fits.ledger"]
    with pytest.raises(SystemExit) as ended:
        run_guarded(partial(app, [*line, "-o", "refused.json"]))
    assert ended.value.code == 3
    assert "Nothing was charged" in capsys.readouterr().err
    assert not (place / "refused.json").exists()


def test_the_version_is_said():
    assert CliRunner().invoke(app, ["--version"]).stdout == f"hedgerow {hr.__version__}\n"
