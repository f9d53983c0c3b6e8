"""What a person says yes to is what that person was shown, whatever becomes of the file meanwhile.

The answer at the prompt is given by a function that first changes the file on the disk.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

import hedgerow as hr
from hedgerow.cli.main import app
from hedgerow.deployment.study_file import StudyFile
from support.network import World

RUN = CliRunner()
DRAFT = """\
classes = ["no", "yes"]

[[feature]]
name = "age"
low = 0
high = 110
read_from_rows = true

[[feature]]
name = "ward"
values = ["a", "b", "c", "d", "e", "f", "g", "the last of eight"]
read_from_rows = true
"""


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, placement="shares", lifetime="100")


def approved(world: World, monkeypatch: pytest.MonkeyPatch, change) -> StudyFile:
    """The study that the site keeps after a yes, given once `change` was made."""

    def says_yes(*_: object, **__: object) -> bool:
        change()
        return True

    monkeypatch.setattr("typer.confirm", says_yes)
    site = world.sites[0]
    words = ["site", "approve", site.root, world.study_file, "--data", world.data_of(site)]
    done = RUN.invoke(app, list(map(str, words)), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "epsilon 1, delta" in done.output
    (folder,) = site.study_folders()
    kept = StudyFile.read(folder.study_file)
    assert kept.study.account == folder.approval()["study"]
    assert kept.study.account in done.output
    return kept


def test_a_study_file_that_changes_at_the_prompt_is_approved_as_it_was_shown(world, monkeypatch):
    shown = StudyFile.read(world.study_file).study
    text = world.study_file.read_text()

    def raised() -> None:
        world.study_file.write_text(text.replace("epsilon = 1", "epsilon = 90"))

    assert approved(world, monkeypatch, raised).study == shown


def test_a_schema_file_that_changes_at_the_prompt_is_approved_as_it_was_shown(world, monkeypatch):
    agreed = StudyFile.read(world.study_file)
    schema, text = world.folder / "schema.toml", world.study_file.read_text()
    schema.write_text(agreed.schema_given.to_toml())
    inline = text[text.index("[schema]") : text.index("[privacy]")]
    world.study_file.write_text(text.replace(inline, '[schema]\nfile = "schema.toml"\n\n'))

    def widened() -> None:
        schema.write_text(schema.read_text().replace("high = 100.0", "high = 120.0"))

    before = schema.read_text()
    assert approved(world, monkeypatch, widened).study == agreed.study
    assert schema.read_text() != before


def test_a_schema_that_changes_while_it_is_confirmed_is_not_confirmed(tmp_path, monkeypatch):
    path = tmp_path / "schema.toml"
    path.write_text(DRAFT)
    changed = DRAFT.replace("high = 110", "high = 4711")
    asked = list[str]()

    def says_yes(words: str, **_: object) -> str:
        asked.append(words)
        path.write_text(changed)
        return ""

    monkeypatch.setattr("typer.prompt", says_yes)
    done = RUN.invoke(app, ["schema", "confirm", str(path), "--by", "A. Huber"])
    assert "was changed while it was being confirmed" in str(done.exception)
    assert path.read_text() == changed


def test_every_value_and_digit_is_shown_before_it_is_confirmed(tmp_path):
    path = tmp_path / "schema.toml"
    path.write_text(DRAFT.replace("high = 110", "high = 110.123456789"))
    done = RUN.invoke(app, ["schema", "confirm", str(path), "--by", "A. Huber"], input="\n\n")
    assert done.exit_code == 0, done.output
    assert "age: 0 to 110.123456789" in done.output
    assert "ward: a, b, c, d, e, f, g, the last of eight" in done.output
    assert not hr.Schema.from_toml(path).unconfirmed
