"""Sites as processes of their own that call a coordinator over HTTPS, on the loopback."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from hedgerow.deployment.approve import ledger_of
from hedgerow.deployment.study_file import StudyFile
from hedgerow.federation.transports.https import HttpsCarrier
from hedgerow.kernels.warming import warm
from hedgerow.privacy.ledger.events import Charged
from support.effort import LONG
from support.network_world import Processes, World, processes, tree_of


@contextmanager
def door(world: World):
    tls = world.authority.server_context(["127.0.0.1"])
    carrier = HttpsCarrier(world.names, tls, "127.0.0.1")
    try:
        yield carrier
    finally:
        carrier.close()


class Running:
    """A world whose sites run, and the door they call."""

    def __init__(self, world: World, carrier: HttpsCarrier, started: Processes) -> None:
        self.world, self.carrier, self.started = world, carrier, started
        world.approve(world.study_file, f"https://127.0.0.1:{carrier.port}")
        self.sites = [self.start(k) for k in range(world.parties)]

    def start(self, k: int):
        return self.started.hedgerow("site", "join", self.world.sites[k].root, "--json")

    def charges(self) -> list[int]:
        account, counts = StudyFile.read(self.world.study_file).study.account, []
        for site in self.world.sites:
            with ledger_of(site) as ledger:
                ledger.verify()
                events = [event for _, event in ledger.entries()]
            counts.append(sum(isinstance(e, Charged) and e.study == account for e in events))
        return counts


@pytest.fixture(scope="module", autouse=True)
def compiled() -> None:
    """Once, before three processes would all do it: where the cache is empty it takes a while."""
    warm()


@pytest.fixture
def running(tmp_path: Path):
    world = World(tmp_path)
    with door(world) as carrier, processes(tmp_path) as started:
        yield Running(world, carrier, started)


def listening(process: psutil.Process) -> list[str]:
    """Where it can be called from another machine; a Unix socket is no such place."""
    return [str(c.laddr) for c in process.net_connections("inet") if c.status == "LISTEN"]


def test_three_processes_grow_the_tree_of_one_and_nothing_listens_at_a_site(running):
    model = running.world.train(running.carrier)
    assert tree_of(model) == tree_of(running.world.in_one_process())
    assert running.charges() == [len(model.run_.rounds)] * 3
    for process, site in zip(running.sites, running.world.sites, strict=True):
        watched = psutil.Process(process.pid)
        assert listening(watched) == []
        own = [c.laddr for c in watched.net_connections("unix") if c.laddr]
        assert str(site.socket) in own
    assert listening(psutil.Process()) != []  # twin: the door of this process is seen
    for process in running.sites:
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONG) == 0
    for k in range(3):
        assert [line["event"] for line in running.world.lines(k, "stopped")] == ["stopped"]
