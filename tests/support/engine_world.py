"""Our services behind a network engine on the loopback, and faults in it: FLARE, or Flower."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from subprocess import Popen

import hedgerow as hr
from hedgerow.deployment.approve import ledger_of
from hedgerow.deployment.run_folder import RunFolder
from hedgerow.deployment.serve import Service
from hedgerow.deployment.study_file import StudyFile
from hedgerow.federation.audit_log import AuditLine, lines_of
from hedgerow.federation.exchange import Accept, Exchange, Messages, Misses, Quorum, pace_of
from hedgerow.federation.transports.pipe import PipeExchange
from hedgerow.methods.base import PrivateEstimator
from hedgerow.privacy.ledger.events import Charged, Head
from support.faults import DYING, TIMING, Outcome, check_transcript, run_folder, said_by, wait_until
from support.network import QUICK, World, processes, tree_of

EXCHANGES = {"join-1": 1, "open-1": 2, "round-2": 6, "unmask-2": 7, "unmask-3": 9}
"""Numbers of exchanges in a run of three rounds; the last is the last of all."""
EACH = ("join-1", "open-1", "round-2", "unmask-2")
DURING, LAST = "round-2", "unmask-3"
"""The exchange in the middle of which somebody may be killed, too; and the one nothing follows."""
OURS = ("site", "coordinator")
ENGINE_TIMING = TIMING.replace("answer_seconds = 4", "answer_seconds = 15") + "at_once = false\n"


@dataclass(frozen=True)
class EngineFault:
    """SIGKILL of one process: of the engine, or of ours on one side of it.

    The engine's die `before` or `after` an exchange, or `during` it: when the first site has
    stored its answer. Of ours die the service of the first `site` or the `coordinator`, `before`
    or `after` their part of an exchange; `full`: no file of the site can grow during it.
    """

    engine: str
    who: str
    exchange: str
    when: str = "before"

    @property
    def name(self) -> str:
        return f"{self.engine}-{self.who}-{self.exchange}-{self.when}"

    @property
    def kind(self) -> str:
        return self.exchange.split("-")[0].upper()

    @property
    def number(self) -> str:
        return self.exchange.split("-")[1]


@dataclass(frozen=True)
class FlareFault(EngineFault):
    """`server` is FLARE's, with its job; `job` the first site's job process."""

    @property
    def jobs(self) -> int:
        """That the run takes at least: a dead process of ours at a site ends none."""
        begun = (self.exchange, self.when) != ("join-1", "before")
        over = self.exchange == LAST
        return 1 + (begun and not over and self.who != "site")


FLARE_FAULTS = [
    FlareFault("flare", who, exchange, when)
    for who in ("job", "server")
    for exchange, when in (
        *((one, "before") for one in EACH),
        (DURING, "during"),
        *((one, "after") for one in (*EACH, LAST)),
    )
] + [
    FlareFault("flare", who, one, when)
    for who in OURS
    for one in (*EACH, "close-1")
    for when in ("before", "after")
]
FLARE_FAULTS.append(FlareFault("flare", "site", DURING, "full"))

PLAYS = {
    "job": [
        ("join-1", "after"),
        ("round-2", "before"),
        ("round-2", "during"),
        ("unmask-2", "after"),
    ],
    "server": [("round-2", "during"), ("unmask-2", "before")],
    "executor": [("round-2", "before"), ("round-2", "during")],
    "node": [("round-2", "during")],
    "site": [("round-2", "before"), ("round-2", "after")],
    "coordinator": [("open-1", "after"), ("round-2", "before"), ("round-2", "after")],
}
"""`job` is the ServerApp, `server` the SuperLink; `node` and `executor` are the first site's."""
FLOWER_FAULTS = [
    EngineFault("flower", who, exchange, when)
    for who, plays in PLAYS.items()
    for exchange, when in plays
]
NEW_RUN = ("job", "server", "coordinator")
"""Whose death ends the run: another one is submitted."""


class EngineWorld:
    """One network for many studies; each has a transport of its own."""

    def __init__(self, world: World, folder: Path) -> None:
        self.world, self.folder, self.studies = world, folder, 0
        self.heard: Callable[[AuditLine], None] = lambda line: None
        self.serving = [
            Service(site, tell=self._first if k == 0 else lambda line: None)
            for k, site in enumerate(world.sites)
        ]

    def _first(self, line: AuditLine) -> None:
        """What the first site writes down is told to whoever waits for it."""
        self.heard(line)

    def study(self, **change: str) -> Path:
        """A new one, approved by all."""
        self.studies += 1
        path = self.world.write_study(f"study-{self.studies}", **change)
        self.world.approve(path)
        for one in self.serving:
            one.look()
        return path

    def transport(self, folder: Path) -> PipeExchange:
        raise NotImplementedError

    def words(self) -> tuple[str | Path, ...]:
        """By which the command line reaches the engine."""
        raise NotImplementedError

    def jobs(self) -> int:
        """That the engine has ever taken."""
        raise NotImplementedError

    def kill(self, who: str) -> None:
        """One of the engine's processes."""
        raise NotImplementedError

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

    def heard_and_charged(self) -> list[tuple[int, Head]]:
        """For each site: to how many invitations it answered, and where its ledger ends."""
        found = []
        for k, site in enumerate(self.world.sites):
            with ledger_of(site) as ledger:
                found.append((len(self.world.lines(k, "joined")), ledger.head()))
        return found

    # -------------------------------------------------------------------------------------- faults
    def play(self, fault: EngineFault, folder: Path) -> tuple[Outcome, int]:
        """What became of a run, and how many jobs it took."""
        study = self.study()
        if fault.who == "site":
            return self._play_site(fault, study, folder)
        if fault.who == "coordinator":
            return self._play_coordinator(fault, study, folder)
        return self._play_engine(fault, study, folder)

    def _play_engine(self, fault: EngineFault, study: Path, folder: Path) -> tuple[Outcome, int]:
        began = time.monotonic()
        with closing(self.transport(folder)) as transport:
            kill = partial(self.kill, fault.who)
            interrupted = Interrupted(transport, EXCHANGES[fault.exchange], fault.when, kill)
            if fault.when == "during":
                self.heard = _once(lambda line: line.get("round") == 2, kill)
            try:
                model = self.world.train(interrupted, study, replace(QUICK, at_once=False))
            finally:
                self.heard = lambda line: None
            jobs = transport.jobs
        return self._outcome(model, study, time.monotonic() - began), jobs

    def _play_coordinator(
        self, fault: EngineFault, study: Path, folder: Path
    ) -> tuple[Outcome, int]:
        """The command that runs the study kills itself; another one takes the run up."""
        run, before, began = self._run_folder(study, folder), self.jobs(), time.monotonic()
        dying = (DYING, fault.kind, fault.number, fault.when)
        with processes(folder) as started:
            assert started.start(*dying, "study", "run", *self._of(run)).wait(300) == -9
            step = "resume" if run.is_begun else "run"
            again = started.hedgerow("study", step, *self._of(run))
            assert again.wait(300) == 0, said_by(run)
        check_transcript(run)
        model, seconds = hr.load(run.model_file), time.monotonic() - began
        return self._outcome(model, study, seconds), self.jobs() - before

    def _play_site(self, fault: EngineFault, study: Path, folder: Path) -> tuple[Outcome, int]:
        """The first site's service is a process of its own, kills itself and is started again."""
        run, before = self._run_folder(study, folder), self.jobs()
        dying = (DYING, fault.kind, fault.number, fault.when)
        self.serving[0].close()
        try:
            with processes(folder) as started:
                victim = self._first_site(study, started.start, *dying)
                began = time.monotonic()
                running = started.hedgerow("study", "run", *self._of(run))
                if fault.when != "full":
                    assert victim.wait(300) == -9, said_by(run)
                    self._first_site(study, started.hedgerow)
                assert running.wait(300) == 0, said_by(run)
                seconds = time.monotonic() - began
                if fault.kind == "CLOSE":  # whoever was away says its last word now
                    again = started.hedgerow("study", "resume", *self._of(run))
                    assert again.wait(300) == 0, said_by(run)
        finally:
            self.serving[0] = Service(self.world.sites[0], tell=self._first)
        if fault.when == "full":
            assert "LedgerUnavailable" in self.world.sites[0].audit_file.read_text()
        check_transcript(run)
        model = hr.load(run.model_file)
        return self._outcome(model, study, seconds), self.jobs() - before

    def _run_folder(self, study: Path, folder: Path) -> RunFolder:
        run = run_folder(self.world, study, folder)
        run.study_file.write_text(run.study_file.read_text(encoding="utf-8") + ENGINE_TIMING)
        return run

    def _of(self, run: RunFolder) -> tuple[str | Path, ...]:
        return (run.path, *self.words())

    def _first_site(
        self, study: Path, start: Callable[..., Popen[bytes]], *words: str | Path
    ) -> Popen[bytes]:
        """Its service as a process of its own, once that serves the study."""
        site, account = self.world.sites[0], StudyFile.read(study).study.account
        known = len(list(lines_of(site.audit_file)))
        service = start(*words, "site", "serve", site.root)

        def serves() -> bool:
            lines = list(lines_of(site.audit_file))[known:]
            is_finished = any("is finished" in x.get("what", "") for x in lines)
            return is_finished or any(
                (x["event"], x.get("study")) == ("serves", account) for x in lines
            )

        wait_until(serves, service)
        return service

    def _outcome(self, model: PrivateEstimator, study: Path, seconds: float) -> Outcome:
        charged = self.charges(study)
        return Outcome(
            same_model=tree_of(model) == tree_of(self.world.in_one_process(study)),
            rounds=len(model.run_.rounds),
            void=sum(record.void for record in model.run_.rounds),
            charged=tuple(map(len, charged)),
            charged_once=all(len(set(rounds)) == len(rounds) for rounds in charged),
            seconds=seconds,
        )


class Interrupted:
    """A transport that lets something happen before or after its n-th exchange."""

    def __init__(self, inner: Exchange, at: int, when: str, event: Callable[[], None]) -> None:
        self.inner, self.at, self.when, self.event, self.asked = inner, at, when, event, 0
        self.pace = pace_of(inner)

    def __call__(self, messages: Messages, accept: Accept, quorum: Quorum) -> Misses:
        self.asked += 1
        if (self.asked, self.when) == (self.at, "before"):
            self.event()
        missed = self.inner(messages, accept, quorum)
        if (self.asked, self.when) == (self.at, "after"):
            self.event()
        return missed


def _once(is_it: Callable[[AuditLine], bool], act: Callable[[], None]):
    done: list[AuditLine] = []

    def heard(line: AuditLine) -> None:
        if not done and is_it(line):
            done.append(line)
            act()

    return heard


def close(world: EngineWorld) -> None:
    for one in world.serving:
        one.close()
