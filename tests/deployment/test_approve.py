"""What a person says yes to is what that person was shown, whatever becomes of the file meanwhile.

The answer at the prompt is given by a function that first changes the file on the disk.
"""

from __future__ import annotations

import inspect
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import hedgerow as hr
from hedgerow.cli.main import app
from hedgerow.deployment.approve import GROUP_WORDS, STATISTIC_WORDS, ledger_of, revoke
from hedgerow.deployment.site_state import StateFolder, rotate_key
from hedgerow.deployment.study_file import StudyFile
from hedgerow.errors import LedgerError
from hedgerow.federation.audit_log import Audit
from hedgerow.privacy.queries import groups, statistics
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


def kinds_of(module) -> set[str]:
    kinds = [kind for _, kind in inspect.getmembers(module, inspect.isclass)]
    return {k.__name__ for k in kinds if k.__module__ == module.__name__ and k.__name__[0] != "_"}


def test_whatever_may_be_summed_has_words_for_the_person_who_approves():
    assert kinds_of(statistics) - {"Phrase", "Records", "Statistic"} == STATISTIC_WORDS.keys()
    assert kinds_of(groups) - {"Groups"} == GROUP_WORDS.keys()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path, dp_model="distributed", lifetime="100")


def approved(world: World, monkeypatch: pytest.MonkeyPatch, change) -> StudyFile:
    """The study that the site keeps after a yes, given once `change` was made."""

    def says_yes(*_: object, **__: object) -> bool:
        change()
        return True

    monkeypatch.setattr("typer.confirm", says_yes)
    site = world.sites[0]
    words = ["site", "approve", world.study_file, "--data", world.data_of(site)]
    words += ["--state", site.root]
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
    done = RUN.invoke(
        app, ["schema", "confirm", str(path), "--by", "A. Huber"], input="source: the law\na, b\n"
    )
    assert done.exit_code == 0, done.output
    assert "age: 0 to 110.123456789" in done.output
    assert "ward: a, b, c, d, e, f, g, the last of eight" in done.output
    assert not hr.Schema.from_toml(path).unconfirmed


# --------------------------------------------------------------------------------------------------
# A new key, or the old one: whenever the process is killed, a site has one of them, whole.
STEPS = ("replace", "rename", "fsync", "unlink", "rmdir", "open")
"""Calls of the operating system before which a process may end."""


def spent_site(folder: Path) -> StateFolder:
    """A site that has given some of its lifetime budget away, for good."""
    world = World(folder, n_sites=2, dp_model="distributed", lifetime="1.2")
    site = world.sites[0]
    world.approve_at(site, world.study_file)
    revoke(site, "study", Audit(site.audit_file))
    with ledger_of(site) as ledger:
        ledger.approve("an old one", *_half_of(ledger), "an old one")
    return site


def _half_of(ledger):
    with ledger.current() as books:
        return books.lifetime.measure, books.lifetime.limit / 2


def calls_in(action: Callable[[], object], last: int | None) -> int:
    """Runs it in a process of its own, which is killed before its `last` call; 0 if it was."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            told = pipe.read()
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status) == (last is not None), (last, status, told)
        return int(told or 0)
    try:
        made = [0]

        def counted(step):
            def call(*given, **named):
                made[0] += 1
                if made[0] == last:
                    os.kill(os.getpid(), signal.SIGKILL)
                return step(*given, **named)

            return call

        for name in STEPS:
            setattr(os, name, counted(getattr(os, name)))
        action()
        os.write(writing, str(made[0]).encode())
        os._exit(0)
    finally:
        os._exit(1)


@pytest.fixture
def site(tmp_path):
    return spent_site(tmp_path)


def test_a_site_that_is_killed_at_any_step_has_one_key_and_its_ledger(site):
    with ledger_of(site) as ledger:
        given_away = ledger.committed()
    assert given_away > 0
    before, changed = site.identity().public, 0
    steps = min(calls_in(lambda: rotate_key(StateFolder.open(site.root)), None) for _ in range(2))
    assert StateFolder.open(site.root).identity().public != before
    for last in sorted({*range(1, steps, steps // 5), *range(steps - 8, steps + 1)}):
        before = site.identity().public
        calls_in(lambda: rotate_key(StateFolder.open(site.root)), last)
        again = StateFolder.open(site.root)
        changed += again.identity().public != before
        with ledger_of(again) as ledger:
            ledger.verify()
            assert ledger.committed() == given_away
        assert not again.next_key.exists()
        assert len(list((site.root / "retired").iterdir())) >= 1
    assert changed > 0
    told = [line for line in site.audit_file.read_text().splitlines() if '"new key"' in line]
    assert len(told) >= changed + 1


def test_a_change_in_three_steps_would_be_seen(site, monkeypatch):
    """Twin: nobody finishes what was begun."""
    monkeypatch.setattr(StateFolder, "take_next_key", lambda self: None)

    def interrupted() -> None:
        rotate_key(StateFolder.open(site.root))
        os.replace(site.next_key / "store.sqlite", site.store_file)

    calls_in(interrupted, None)
    with pytest.raises(LedgerError), ledger_of(site) as ledger:
        ledger.verify()
