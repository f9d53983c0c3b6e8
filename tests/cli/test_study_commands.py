"""`hedgerow study` from the command line: files written, words said, exit codes."""

from __future__ import annotations

import json
import stat

import pytest
from typer.testing import CliRunner

from hedgerow.cli.main import app
from hedgerow.deployment.run import run_study
from hedgerow.deployment.run_folder import RunFolder
from hedgerow.deployment.study_file import StudyFile, as_text
from hedgerow.errors import HedgerowError
from hedgerow.secagg.keys import Identity
from support.worlds import THREE, TWO, VALUE, World

SITES = {
    name: Identity.from_bytes(bytes([k + 1]) * 32).public.hex()
    for k, name in enumerate(("north", "south", "west"))
}


def called(*words, code=0):
    result = CliRunner().invoke(app, [str(word) for word in words])
    if isinstance(result.exception, HedgerowError):
        raise result.exception
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture
def schema(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text(TWO.to_toml(), encoding="utf-8")
    return path


def begun(folder, schema, *more):
    sites = [word for name, key in SITES.items() for word in ("--site", f"{name}={key}")]
    words = ["--name", "income", "--estimator", "HistogramTreeClassifier", "--schema", schema]
    words += ["--epsilon", "1", "--delta", "1e-6", "--seed", "7", *sites, *more]
    return called("study", "init", folder, *words)


def test_init_writes_a_commented_file_and_a_key_that_only_its_owner_reads(tmp_path, schema):
    folder = RunFolder(tmp_path / "study")
    said = begun(folder.path, schema, "--parameter", "max_depth=2", "--threshold", "2")
    agreed = folder.read_study()
    assert agreed.study.account in said
    assert agreed.model.parameters == {"max_depth": 2}
    assert agreed.study.threshold == 2
    assert folder.identity(agreed).public == agreed.roster.coordinator
    assert stat.S_IMODE(folder.key_file.stat().st_mode) == 0o600
    assert folder.study_file.read_text().count("#") > 10


def test_init_leaves_nothing_behind_if_the_study_makes_no_sense(tmp_path, schema):
    folder = tmp_path / "study"
    with pytest.raises(HedgerowError, match="max_deep is no parameter"):
        begun(folder, schema, "--parameter", "max_deep=2")
    assert list(folder.iterdir()) == []
    begun(folder, schema)
    with pytest.raises(HedgerowError, match="already holds a study"):
        begun(folder, schema)


def test_init_says_what_is_missing(tmp_path, schema):
    said = called("study", "init", tmp_path / "study", "--name", "income", code=2)
    assert "Missing option" in said
    words = ["--name", "x", "--estimator", "TreeClassifier", "--schema", schema]
    with pytest.raises(HedgerowError, match="epsilon"):
        called("study", "init", tmp_path / "study", *words, "--site", "a", "--site", "b")


@pytest.mark.parametrize("schema", [TWO, THREE, VALUE], ids=["two", "three", "number"])
def test_a_study_that_is_written_and_read_again_has_the_same_hash(tmp_path, schema):
    kind = "TreeRegressor" if schema is VALUE else "TopDownTreeClassifier"
    content = {
        "version": 1,
        "name": "again",
        "public_seed": 3,
        "model": {"estimator": kind, "parameters": {"max_depth": 2} if schema is VALUE else {}},
        "schema": schema.to_dict(),
        "privacy": {"epsilon": "1/3", "delta": 1e-7, "records_per_person": 2, "unit": "person"},
        "sum": {"threshold": 2, "reply_interval_seconds": 1},
        "coordinator": {"key": Identity.from_bytes(bytes([9]) * 32).public.hex()},
        "site": [{"name": name, "key": key} for name, key in SITES.items()],
    }
    first = StudyFile.checked(content, tmp_path / "first.toml")
    second = StudyFile.parse(as_text(first), tmp_path / "second.toml")
    assert second.study.hash == first.study.hash
    for table, said in first.content.items():
        if table != "schema":
            assert said == second.content[table] or said.items() < second.content[table].items()
    assert second.content["sum"]["colluders"] == first.study.colluders  # what nobody said
    assert as_text(second) == as_text(first)


def test_check_says_cost_rounds_bytes_and_what_to_install(tmp_path, schema):
    begun(tmp_path / "study", schema, "--parameter", "max_depth=2")
    said = called("study", "check", tmp_path / "study", "--latency", "40")
    assert "3 in a dry run with made-up rows, 3 at most" in said
    assert "network  6 round trips to all sites: 0.2 s at a latency of 40 ms" in said
    assert "95.0% of the budget" in said
    assert "costliest round  round 3: 47.5%" in said
    assert "5.0% for rounds that fail; a failure of the costliest round would end the run" in said
    assert "pip install 'hedgerow[https]'" in said
    assert "nothing listens" in said


def test_a_study_that_allows_fewer_rounds_than_its_method_needs_is_refused(tmp_path, schema):
    options = ("--parameter", "max_depth=2")
    begun(tmp_path / "study", schema, *options, "--max-rounds", "3")
    assert StudyFile.read(tmp_path / "study" / "study.toml").study.max_rounds == 3
    with pytest.raises(HedgerowError, match="3 rounds, and the study allows 2"):
        begun(tmp_path / "other", schema, *options, "--max-rounds", "2")


def test_status_says_how_far_a_run_is(tmp_path):
    world = World(tmp_path, dp_model="distributed")
    assert "not begun" in called("study", "status", world.folder.path)

    def stop(event):
        if event["event"] == "round":
            world.folder.stop_file.touch()

    with pytest.raises(HedgerowError, match="stopped before round 2"):
        run_study(world.folder, world, listen=stop)
    said = called("study", "status", world.folder.path)
    assert "stopped; `hedgerow study resume`" in said
    assert "1 answered, 3 at most" in said
    assert "site site-2  17.5% of the budget, by its own receipt" in said
    run_study(world.folder, world, resume=True)
    said = called("study", "status", world.folder.path)
    assert "finished" in said
    lines = called("study", "receipts", world.folder.path, "site-2").split()
    assert len(lines) == len({bytes.fromhex(line) for line in lines}) >= 3
    with pytest.raises(HedgerowError, match="is no site of this study"):
        called("study", "receipts", world.folder.path, "site-9")
    world.close()


def test_stop_needs_somebody_to_stop(tmp_path):
    world = World(tmp_path)
    with pytest.raises(HedgerowError, match="nobody runs the study"):
        called("study", "stop", world.folder.path)
    with world.folder.lock():
        assert "ends after its round" in called("study", "stop", world.folder.path)
    assert world.folder.stop_file.exists()
    world.close()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "say how sites are reached"),
        (("--listen", "here"), "write an address and a port"),
        (("--listen", "127.0.0.1:1", "--flare", "kit"), "one of them"),
        (("--flower", "link", "--flare", "kit"), "one of them"),
    ],
)
def test_run_needs_one_way_to_the_sites(tmp_path, words, said):
    world = World(tmp_path)
    with pytest.raises(HedgerowError, match=said):
        called("study", "run", world.folder.path, *words)
    assert not world.folder.is_begun
    world.close()


def test_events_are_lines_of_json_that_a_page_can_read(tmp_path):
    world = World(tmp_path)
    run_study(world.folder, world)
    events = [json.loads(line) for line in world.folder.events_file.read_text().splitlines()]
    (first, *_) = [event for event in events if event["event"] == "round"]
    assert set(first) >= {"time", "round", "of", "sites", "seconds", "bytes", "spent"}
    world.close()
