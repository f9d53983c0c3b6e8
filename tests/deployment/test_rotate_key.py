"""A new key, or the old one: whenever the process is killed, a site has one of them, whole."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from hedgerow.deployment.approve import ledger_of, revoke
from hedgerow.deployment.backup import rotate_key
from hedgerow.deployment.site_state import StateFolder
from hedgerow.errors import LedgerError
from hedgerow.federation.audit_log import Audit
from support.network import World

STEPS = ("replace", "rename", "fsync", "unlink", "rmdir", "open")
"""Calls of the operating system before which a process may end."""


def spent_site(folder: Path) -> StateFolder:
    """A site that has given some of its lifetime budget away, for good."""
    world = World(folder, parties=2, placement="shares", lifetime="1.2")
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
        os.replace(site.next_key / "vault.sqlite", site.vault_file)

    calls_in(interrupted, None)
    with pytest.raises(LedgerError), ledger_of(site) as ledger:
        ledger.verify()
