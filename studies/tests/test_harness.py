"""Studies compute by default, reuse only what the same code has made, and say how much."""

from __future__ import annotations

import csv
import hashlib
import importlib
import io
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from textwrap import dedent

import pandas as pd
import psutil
import pytest
from typer.testing import CliRunner

from hedgerow.errors import DataError, ParameterError
from hedgerow.methods.liu import ExtraTreesClassifier
from hedgerow.methods.parameters import check_parameters
from hedgerow.schema.schema import Numeric, Schema
from studies import __main__ as command
from studies import boosted, boosted_fits, data_files, gubler_fits, harness, ours_fits
from studies import extra_trees_fits as extra_trees
from studies.__main__ import app
from studies.code_version import SAME_ANSWERS, code_version, reached
from studies.datasets import FOLDER_VARIABLE, Dataset
from studies.harness import CODE, Computation, Progress
from studies.kept import ARCHIVES, WORK, Tables, overlaid
from studies.tests.answers import ANSWERS, MODULES, fixed_noise

CELLS = [{"seed": seed, "name": name} for seed in (0, 1) for name in ("a", "b")]


@pytest.fixture
def toy(tmp_path, monkeypatch):
    """A module that can be written anew: `work` leaves a line for every call."""
    monkeypatch.syspath_prepend(str(tmp_path))
    # What was compiled of a file is taken for a file of the same length and second.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    names = count()

    def written(factor, words="a cell", name=None):
        name = name or f"toy_work_{tmp_path.name}_{next(names)}".replace("-", "_")
        (tmp_path / f"{name}.py").write_text(
            dedent(f'''
            """{words}"""
            FACTOR = {factor}
            def work(seed, name):
                """{words}"""
                with open({str(tmp_path / "calls")!r}, "a") as calls:
                    calls.write(f"{{seed}} {{name}}\\n")
                return {{"value": FACTOR * seed}}
            '''),
            encoding="utf-8",
        )
        importlib.invalidate_caches()
        sys.modules.pop(name, None)
        return importlib.import_module(name).work

    return written


@pytest.fixture
def in_threads(monkeypatch):
    """Tables are the same whoever computes them; other tests are about processes."""
    monkeypatch.setattr(
        harness, "ProcessPoolExecutor", lambda workers, *how: ThreadPoolExecutor(workers)
    )


def calls(tmp_path):
    path = tmp_path / "calls"
    return len(path.read_text(encoding="utf-8").splitlines()) if path.exists() else 0


def computed(out, work, cells=CELLS, **options):
    computation = Computation(out, workers=1, **options)
    return computation, computation.tables({"grid": (work, cells)})["grid"]


def test_everything_is_computed_and_rows_carry_their_code(toy, tmp_path):
    work = toy(2)
    first, table = computed(tmp_path / "out", work)
    again, _ = computed(tmp_path / "out", work)
    assert first.summary() == again.summary() == "4 computed, 0 reused"
    assert calls(tmp_path) == 8
    assert list(table["value"]) == [0, 0, 2, 2]
    assert set(table[CODE]) == {code_version(work)}
    assert again.words().startswith(f"4 of 4 fits: 4 by code `{code_version(work)}`")


@pytest.mark.usefixtures("in_threads")
def test_resume_reuses_rows_of_the_same_code_and_of_no_other(toy, tmp_path):
    out, work = tmp_path / "out", toy(2)
    computed(out, work, CELLS[:3])
    resumed, table = computed(out, work, resume=True)
    assert resumed.summary() == "1 computed, 3 reused"
    assert len(table) == 4
    changed = toy(3, name=work.__module__)
    other, table = computed(out, changed, resume=True)
    assert other.summary() == "4 computed, 0 reused"
    assert list(table["value"]) == [0, 0, 3, 3]


@pytest.mark.usefixtures("in_threads")
def test_a_run_that_was_cut_short_leaves_the_table_and_is_taken_up(toy, tmp_path):
    """What a killed run leaves: the old table, and a part file whose last line is torn."""
    out, work = tmp_path / "out", toy(2)
    computed(out, work)
    old = (out / "grid.csv").read_text(encoding="utf-8")
    lines = old.splitlines()
    (out / "grid.csv").write_text(old.replace(code_version(work), "other"), encoding="utf-8")
    torn = "\n".join([*lines[:3], lines[3][:1]])
    (out / "grid.part.csv").write_text(torn, encoding="utf-8")
    resumed, _ = computed(out, work, resume=True)
    assert resumed.summary() == "2 computed, 2 reused"
    assert not (out / "grid.part.csv").exists()
    assert (out / "grid.csv").read_text(encoding="utf-8") == old


def test_time_that_is_over_leaves_a_table_that_says_so(toy, tmp_path):
    partial, table = computed(tmp_path / "out", toy(2), minutes=0.0)
    # What was begun when time was over is kept, so how much there is hangs on the pool.
    assert 1 <= len(table) == partial.computed <= 4
    assert partial.words().startswith(f"{len(table)} of 4 fits")
    if len(table) < 4:
        assert partial.summary().endswith(f"{4 - len(table)} left")


@pytest.mark.usefixtures("in_threads")
def test_cells_that_time_did_not_reach_keep_the_rows_they_had(toy, tmp_path):
    """Of a grid of four, three have rows of earlier code; one of them is computed anew."""
    out, work = tmp_path / "out", toy(2)
    computed(out, work, CELLS[:3])
    text = (out / "grid.csv").read_text(encoding="utf-8").replace(code_version(work), "earlier")
    (out / "grid.csv").write_text(text, encoding="utf-8")
    run = Computation(out, workers=1)
    table = harness._Table(Tables(out), "grid", work, CELLS)
    table.add({**CELLS[0], "value": 7, CODE: table.code})
    table.keep_what_was_not_reached()
    table.keep()
    frame = Computation(out, page_only=True).tables({"grid": (work, CELLS)})["grid"]
    assert list(frame["value"]) == [7, 0, 2]
    assert list(frame[CODE]) == [table.code, "earlier", "earlier"]
    # A run that reaches every cell leaves no row of earlier code.
    assert set(run.tables({"grid": (work, CELLS)})["grid"][CODE]) == {table.code}


@pytest.mark.usefixtures("in_threads")
def test_rows_that_measured_other_things_are_not_kept_beside_new_ones(toy, tmp_path):
    out, work = tmp_path / "out", toy(2)
    computed(out, work, CELLS[:2])
    text = (out / "grid.csv").read_text(encoding="utf-8").replace("value", "other")
    (out / "grid.csv").write_text(text, encoding="utf-8")
    table = harness._Table(Tables(out), "grid", work, CELLS)
    table.add({**CELLS[0], "value": 7, CODE: table.code})
    table.keep_what_was_not_reached()
    assert len(table.rows) == 1


@pytest.mark.usefixtures("in_threads")
def test_one_table_can_be_computed_alone(toy, tmp_path):
    out, work = tmp_path / "out", toy(2)
    grids = {"first": (work, CELLS[:2]), "second": (work, CELLS[2:])}
    alone = Computation(out, workers=1, only=("second",))
    tables = alone.tables(grids)
    assert alone.summary() == "2 computed, 0 reused, 2 left"
    assert (len(tables["first"]), len(tables["second"])) == (0, 2)
    assert not (out / "first.csv").exists()
    with pytest.raises(ParameterError, match="--only third is no table of this study"):
        Computation(out, only=("third",)).tables(grids)


@pytest.mark.usefixtures("in_threads")
def test_resume_takes_rows_of_earlier_code_that_gives_the_same_answers(toy, tmp_path, monkeypatch):
    out, work = tmp_path / "out", toy(2)
    computed(out, work)
    earlier, changed = code_version(work), toy(3, name=work.__module__)
    monkeypatch.setitem(SAME_ANSWERS, work.__module__, {earlier: ()})
    resumed, table = computed(out, changed, resume=True)
    assert resumed.summary() == "0 computed, 4 reused"
    assert set(table[CODE]) == {earlier}
    assert "which gives the answers of today" in resumed.words()


@pytest.mark.usefixtures("in_threads")
def test_cells_that_a_change_has_met_are_computed_again(toy, tmp_path, monkeypatch):
    out, work = tmp_path / "out", toy(2)
    computed(out, work)
    earlier, changed = code_version(work), toy(3, name=work.__module__)
    monkeypatch.setitem(SAME_ANSWERS, work.__module__, {earlier: ("a",)})
    resumed, _ = computed(out, changed, resume=True)
    assert resumed.summary() == "2 computed, 2 reused"


@pytest.mark.usefixtures("in_threads")
def test_what_one_study_declares_says_nothing_of_another(toy, tmp_path, monkeypatch):
    out, work = tmp_path / "out", toy(2)
    computed(out, work)
    earlier, changed = code_version(work), toy(3, name=work.__module__)
    monkeypatch.setitem(SAME_ANSWERS, "studies.another.fits", {earlier: ()})
    page, _ = computed(out, changed, page_only=True)
    assert f"4 by code `{earlier}` (" in page.words()


ENDLESS = """
import os, sys, time
from pathlib import Path

def work(seed):
    print(os.getpid(), flush=True)
    time.sleep(3600)

if __name__ == "__main__":
    from endless import work
    from studies.harness import Computation
    Computation(Path(sys.argv[1]), workers=1).tables({"grid": (work, [{"seed": 0}])})
"""


def test_workers_end_with_a_command_that_is_killed(tmp_path):
    """The worker tells its number and would then work for an hour."""
    (tmp_path / "endless.py").write_text(ENDLESS, encoding="utf-8")
    command = subprocess.Popen(
        [sys.executable, str(tmp_path / "endless.py"), str(tmp_path / "out")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with command:
        worker = psutil.Process(int(command.stdout.readline()))
        command.kill()
        _, left = psutil.wait_procs([worker], timeout=60)
        for process in left:
            process.kill()
    assert not left


@pytest.mark.usefixtures("in_threads")
def test_a_page_alone_computes_nothing_and_owns_up_to_earlier_code(toy, tmp_path):
    out, work = tmp_path / "out", toy(2)
    computed(out, work, CELLS[:2])
    before, n, earlier = (out / "grid.csv").read_bytes(), calls(tmp_path), code_version(work)
    changed = toy(3, name=work.__module__)
    page, table = computed(out, changed, page_only=True)
    assert calls(tmp_path) == n
    assert (out / "grid.csv").read_bytes() == before
    assert page.words().startswith(f"2 of 4 fits: 2 by code `{earlier}`")
    assert page.summary() == "0 computed, 0 reused, 2 left"
    assert len(table) == 2


def test_an_error_in_a_fit_ends_the_command(toy, tmp_path):
    with pytest.raises(TypeError):
        computed(tmp_path / "out", toy(2), [{"seed": 0, "unknown": 1}])


@pytest.mark.usefixtures("in_threads")
def test_what_is_no_number_comes_back_as_it_was(toy, tmp_path):
    work = toy('float("nan") if __name__ else 1')
    _, table = computed(tmp_path / "out", work, CELLS[:1])
    again = Computation(tmp_path / "out", page_only=True).tables({"grid": (work, CELLS[:1])})
    assert table["value"].isna().all()
    assert again["grid"]["value"].isna().all()


# ------------------------------------------------------------------------------------ the digest
def test_words_change_no_digest_and_a_constant_does(toy):
    work = toy(2)
    plain = code_version(work)
    assert code_version(toy(2, words="another", name=work.__module__)) == plain
    assert code_version(toy(3, name=work.__module__)) != plain


def test_the_digest_covers_the_package_and_no_page():
    from studies.boosted_fits import fit_lightgbm as which
    from studies.boosted_fits import work as boosted
    from studies.diprime_fits import fit as diprime
    from studies.extra_trees_fits import work as extra_trees
    from studies.gubler_fits import on_data as gubler
    from studies.ours_fits import fit_classes as ours
    from studies.topdown_fits import fit as topdown

    for work in (boosted, diprime, extra_trees, gubler, ours, topdown, which):
        modules = reached(work.__module__)
        assert not [m for m in modules if m.endswith((".page", ".figures", ".claims", ".run"))]
        assert {"hedgerow.schema.schema", "studies.datasets"} <= modules
        assert "hedgerow.methods.blocks.builder" in modules or work is which
    assert "hedgerow.methods.maddock" in reached(boosted.__module__)


# ------------------------------------------------------------------------------------ progress
def test_progress_has_a_total_and_an_estimate():
    now, out = iter([0.0, 1.0, 30.0, 31.0, 120.0]), io.StringIO()
    progress = Progress("toy", 4, out, lambda: next(now))
    for _ in range(4):
        progress.advance()
    assert out.getvalue().splitlines() == [
        "toy: 4 to compute",
        "toy: 2 of 4, 30 s gone, about 30 s left",
        "toy: 4 of 4, 2 min gone, about 0 s left",
    ]


# ------------------------------------------------------------------------- before work begins
def test_what_is_missing_is_named_before_any_work(tmp_path):
    (tmp_path / "adult.parquet").touch()
    with pytest.raises(DataError, match=r"lacks bank\.parquet, skin\.parquet"):
        data_files.check_needs((), ("adult", "bank", "skin"), tmp_path)
    with pytest.raises(ParameterError, match="no_such_package"):
        data_files.check_needs(("no_such_package",), (), None)


def test_a_command_without_its_files_computes_nothing(tmp_path, monkeypatch):
    monkeypatch.delenv("HEDGEROW_DATA", raising=False)
    out = tmp_path / "out"
    result = CliRunner().invoke(
        command.app, ["topdown", "--data", str(tmp_path), "--out", str(out)]
    )
    assert isinstance(result.exception, DataError)
    assert not out.exists()


def test_other_bytes_are_noticed(tmp_path, monkeypatch):
    (tmp_path / "adult.parquet").write_bytes(b"rows")
    listed = tmp_path / "files.csv"
    monkeypatch.setattr(data_files, "LISTED", listed)
    with listed.open("w", newline="", encoding="utf-8") as out:
        csv.writer(out).writerows(
            [["name", "sha256"], ["adult", data_files.digest(tmp_path / "adult.parquet")]]
        )
    assert data_files.other_files(("adult",), tmp_path) == []
    (tmp_path / "adult.parquet").write_bytes(b"other rows")
    assert data_files.other_files(("adult",), tmp_path) == ["adult"]


@pytest.mark.parametrize("kept", [command.ARCHIVES, command.WORK, command.EVIDENCE])
def test_a_small_grid_never_writes_over_what_is_kept(kept, tmp_path):
    with pytest.raises(ParameterError, match="where the whole study is"):
        command.places("gubler", kept / "gubler", quick=True)
    quick = command.QUICK_RESULTS / "gubler"
    assert command.places("gubler", None, quick=True) == (quick, Tables(quick))
    assert command.places("gubler", tmp_path, quick=False) == (tmp_path, Tables(tmp_path))
    whole = (command.EVIDENCE / "gubler", overlaid("gubler"))
    assert command.places("gubler", None, quick=False) == whole


# --------------------------------------------------------------------------------------------------
# `--quick` of every study runs from files to page, and touches nothing that is kept.
#
# Needs the data folder (HEDGEROW_DATA); some rows of each file are enough to see that it runs.
ROWS = 600
NAMES = sorted(
    command.name or ""
    for command in app.registered_commands
    if command.callback is not None and "quick" in command.callback.__annotations__
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = os.environ.get(FOLDER_VARIABLE)
    if not place:
        pytest.skip(f"{FOLDER_VARIABLE} names no folder of data files")
    few = tmp_path_factory.mktemp("data")
    for path in Path(place).glob("*.parquet"):
        rows = pd.read_parquet(path)
        rows.sample(min(ROWS, len(rows)), random_state=0).to_parquet(few / path.name, index=False)
    return few


def kept_files():
    files = (path for kept in (ARCHIVES, WORK) for path in kept.rglob("*") if path.is_file())
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_names_are_all_studies_that_can_be_quick():
    assert {"boosted", "diprime", "extra-trees", "gubler", "ours", "topdown"} <= set(NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_quick_study_makes_its_page_and_touches_nothing_that_is_kept(name, folder, tmp_path):
    before = kept_files()
    command = [sys.executable, "-m", "studies", name, "--quick", "--workers", "2"]
    where = ["--data", str(folder), "--out", str(tmp_path / "out")]
    done = subprocess.run([*command, *where], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert list(tmp_path.rglob("*.md"))
    assert kept_files() == before


# --------------------------------------------------------------------------------------------------
# Today's code gives the answers that were kept, so rows of the code that gave them still stand.
TO_DO = (
    "fits of a study answer otherwise than they did. If that is meant, take the digests of this "
    "module out of studies/code_version.py, whose rows are then old, and run "
    "python -m studies.tests.answers."
)
KEPT = json.loads(ANSWERS.read_text(encoding="utf-8"))


@pytest.mark.parametrize("module", MODULES)
def test_with_the_noise_held_fixed_the_answers_are_those_that_were_kept(module):
    found = MODULES[module]()
    assert set(found) == set(KEPT[module])
    for name, answer in found.items():
        assert answer == pytest.approx(KEPT[module][name], rel=1e-9), TO_DO


def test_rows_are_taken_over_only_where_answers_are_kept():
    assert set(SAME_ANSWERS) <= set(KEPT) == set(MODULES)


def test_other_noise_gives_other_answers():
    """Twin: the cells would notice."""

    def answer(first):
        gubler_fits.mixture.cache_clear()
        with fixed_noise(first):
            return gubler_fits.on_mixture(1, 100, 5, 0.3, 4, 1.0, "saving")

    assert answer(0) == answer(0) == KEPT["studies.gubler_fits"]["depth 4, epsilon 1, saving"]
    assert answer(0) != answer(1)


# --------------------------------------------------------------------------------------------------
# Every method of the studies is one that the estimators accept: no parameter of it is idle.
SCHEMA = Schema((Numeric("x", 0.0, 1.0), Numeric("y", 0.0, 1.0)), classes=("no", "yes"))
BOOSTED = sorted({str(cell["learner"]) for cell in boosted.cells(1)})
OURS = {**ours_fits.FOR_CLASSES, **ours_fits.WITH_PIECES}


@pytest.mark.parametrize("learner", BOOSTED)
def test_the_cells_of_boosting_spell_parameters_that_are_used(learner):
    assert boosted_fits.estimator(SCHEMA, learner)._method(SCHEMA).n_estimators > 0


@pytest.mark.parametrize(
    "method", [*extra_trees.LABELS, *extra_trees.NOISY, extra_trees.AS_PRINTED, "FET"]
)
def test_the_methods_of_extra_trees_use_all_they_name(method):
    given = Dataset("none", None, None, SCHEMA)
    model = extra_trees._federated(given, method, 4.0, 0, 2, 3)
    assert isinstance(model, ExtraTreesClassifier)
    assert check_parameters(model).n_estimators == 2


@pytest.mark.parametrize("name", OURS)
def test_the_methods_of_our_own_study_use_all_they_name(name):
    assert check_parameters(OURS[name](SCHEMA, 1.0, 0.0, random_state=0)).epsilon == 1
