"""A provisioned FLARE network on the loopback with our services behind it, and faults in it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from contract.faults import Outcome
from contract.network_world import World, tree_of
from demos.flare_network import ADMIN, FlareNetwork, flare_network
from hedgerow.agreement.approving import ledger_of
from hedgerow.agreement.serving import Serving
from hedgerow.agreement.study_file import StudyFile
from hedgerow.privacy.ledger.events import Charged
from hedgerow.site.audit import AuditLine
from hedgerow.transport.carrier import Carrier
from hedgerow.transport.flare import FlareCarrier

EXCHANGES = {"join-1": 1, "open-1": 2, "round-2": 5, "unmask-2": 6}
"""Numbers of exchanges in a run of three rounds."""
DURING = "round-2"
"""The exchange in the middle of which somebody may be killed, too."""


@dataclass(frozen=True)
class FlareFault:
    """SIGKILL of FLARE's server with its job, or of one site's job process.

    `before` an exchange, or `during` it: at the moment in which that site has stored its answer.
    """

    who: str
    exchange: str
    when: str = "before"

    @property
    def name(self) -> str:
        return f"flare-{self.who}-{self.exchange}-{self.when}"


FLARE_FAULTS = [
    FlareFault(who, exchange, when)
    for who in ("job", "server")
    for exchange, when in (*((one, "before") for one in EXCHANGES), (DURING, "during"))
]


class Flare:
    """One network for many studies; each has a carrier of its own."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.folder, self.studies = world, folder, 0
        self.heard: Callable[[AuditLine], None] = lambda line: None
        self.serving = [
            Serving(site, tell=self._first if k == 0 else lambda line: None)
            for k, site in enumerate(world.sites)
        ]
        self.network: FlareNetwork

    def _first(self, line: AuditLine) -> None:
        """What the first site writes down is told to whoever waits for it."""
        self.heard(line)

    def study(self) -> Path:
        """A new one, approved by all."""
        self.studies += 1
        path = self.world.write_study(f"study-{self.studies}")
        self.world.approve(path)
        for one in self.serving:
            one.look()
        return path

    def carrier(self, folder: Path) -> FlareCarrier:
        return FlareCarrier(self.network.admin_kit, ADMIN, self.world.names, 3, folder / "pipe")

    def charges(self, study: Path) -> list[list[str]]:
        """The rounds that each site's own ledger, which is verified, has for the study."""
        account = StudyFile.read(study).study.account
        found = []
        for site in self.world.sites:
            with ledger_of(site) as ledger:
                ledger.verify()
                events = [event for _, event in ledger.entries()]
            found.append(
                [e.round_id for e in events if isinstance(e, Charged) and e.study == account]
            )
        return found

    # -------------------------------------------------------------------------------------- faults
    def play(self, fault: FlareFault, folder: Path) -> tuple[Outcome, int]:
        """What became of a run, and how many jobs it took."""
        study, began = self.study(), time.monotonic()
        with closing(self.carrier(folder)) as carrier:
            kill = self.kill_server if fault.who == "server" else self.kill_job
            at = EXCHANGES[fault.exchange] if fault.when == "before" else 0
            if fault.when == "during":
                self.heard = _once(lambda line: line.get("round") == 2, kill)
            try:
                model = self.world.train(Interrupted(carrier, at, kill), study)
            finally:
                self.heard = lambda line: None
            jobs = carrier.jobs
        charged = self.charges(study)
        outcome = Outcome(
            same_model=tree_of(model) == tree_of(self.world.in_one_process(study)),
            rounds=len(model.run_.rounds),
            void=sum(record.void for record in model.run_.rounds),
            charged=tuple(map(len, charged)),
            charged_once=all(len(set(rounds)) == len(rounds) for rounds in charged),
            seconds=time.monotonic() - began,
        )
        return outcome, jobs

    def kill_job(self) -> None:
        """Of the first site; before the first exchange there is none yet."""
        for process in self.network.processes("site-1"):
            if "worker_process" in str(process.cmdline()):
                process.kill()

    def kill_server(self) -> None:
        """With its job, and its watchdog, which would give up after a few kills."""
        self.network.kill_and_start_again("localhost")


class Interrupted:
    """A carrier that lets something happen before its n-th exchange."""

    def __init__(self, inner: Carrier, at: int, event: Callable[[], None]) -> None:
        self.inner, self.at, self.event, self.asked = inner, at, event, 0

    def ask(self, letters: Mapping[str, bytes], timeout: float) -> Mapping[str, bytes]:
        self.asked += 1
        if self.asked == self.at:
            self.event()
        return self.inner.ask(letters, timeout)


def _once(is_it: Callable[[AuditLine], bool], act: Callable[[], None]):
    done: list[AuditLine] = []

    def heard(line: AuditLine) -> None:
        if not done and is_it(line):
            done.append(line)
            act()

    return heard


@contextmanager
def flare_world(folder: Path) -> Iterator[Flare]:
    world = World(folder)
    flare = Flare(world, folder)
    try:
        sockets = {site.name: site.socket for site in world.sites}
        with flare_network(folder / "f", sockets) as flare.network:
            yield flare
    finally:
        for one in flare.serving:
            one.close()
