"""`hedgerow site` as it is typed, in this process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from contract.network_world import World
from hedgerow.cli.main import app

RUN = CliRunner()


def typed(*words: str | Path, answer: str = "") -> str:
    done = RUN.invoke(app, [str(word) for word in words], input=answer, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, placement="shares", lifetime="3")


def rows_of(world: World) -> list[str]:
    return ["--data", str(world.data_of(world.sites[0])), "--target", "target"]


def test_check_tells_what_does_not_fit_and_writes_nothing(world):
    done = RUN.invoke(app, ["site", "check", str(world.study_file), *rows_of(world)])
    assert done.exit_code == 1  # the rows of this world are out of range on purpose
    assert "clamped" in done.output
    assert "look at this: column 'age'" in done.output
    assert not world.sites[0].vault_file.exists()


def test_rows_of_which_none_can_be_used_are_told_of(world, tmp_path):
    text = world.data_of(world.sites[0]).read_text().replace(",yes", ",ja").replace(",no", ",nein")
    (tmp_path / "rows.csv").write_text(text)
    words = ["site", "check", str(world.study_file), "--data", str(tmp_path / "rows.csv")]
    done = RUN.invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 1
    assert "no row can be used" in done.output


def test_a_person_is_asked_and_no_is_no(world):
    site = world.sites[0]
    words = ["site", "approve", str(site.root), str(world.study_file), *rows_of(world)]
    asked = RUN.invoke(app, words, input="n\n")
    assert asked.exit_code != 0
    assert "never leaves" in asked.output
    assert "of this site's lifetime" in asked.output
    assert not list(site.study_folders())
    assert "approved: study" in typed(*words, answer="y\n")
    said = typed("site", "status", site.root)
    assert "study" in said
    assert "open" in said
    assert "approved study" in typed("ledger", "show", site.root)
    assert "all links, signatures and sums are right" in typed("ledger", "verify", site.root)
    lines = [json.loads(line) for line in typed("ledger", "export", site.root).splitlines()]
    assert lines[0]["key"] == site.identity().public.hex()
    assert {"seq", "body", "head", "signature"} == set(lines[1])
    assert "revoked" in typed("site", "revoke", site.root, "study")


def test_a_coordinator_is_called_with_a_certificate_or_not_at_all(world):
    site = world.sites[0]
    words = ["site", "approve", str(site.root), str(world.study_file), *rows_of(world), "--yes"]
    done = RUN.invoke(app, [*words, "--coordinator", "https://localhost:8443"])
    assert done.exit_code != 0


def test_a_backup_is_made_and_brought_back_by_hand(world, tmp_path):
    site = world.sites[0]
    world.approve_at(site, world.study_file)
    typed("site", "backup", site.root, tmp_path / "copy")
    said = typed("site", "restore", tmp_path / "copy", tmp_path / "back", "--anchor", site.anchor)
    assert said.startswith("restored")
    assert "study" in typed("site", "status", tmp_path / "back")


def test_rows_are_selected_from_a_database(world, tmp_path):
    import duckdb

    database = tmp_path / "rows.duckdb"
    with duckdb.connect(str(database)) as connection:
        connection.execute(
            "CREATE TABLE rows AS SELECT * FROM "
            f"read_csv('{world.data_of(world.sites[0])}', all_varchar = true)"
        )
    words = ["site", "check", str(world.study_file), "--data", str(database)]
    done = RUN.invoke(app, [*words, "--sql", "SELECT * FROM rows"])
    assert "rows that can be used: 40" in done.output
