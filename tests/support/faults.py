"""What goes wrong with messages and with processes: lost, late, killed, frozen, cut off."""

from __future__ import annotations

import datetime as dt
import json
import random
import shutil
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import hedgerow as hr
from hedgerow.deployment.approve import ledger_of
from hedgerow.deployment.run_folder import RunFolder
from hedgerow.deployment.verify import verify_model
from hedgerow.federation.audit_log import lines_of
from hedgerow.federation.exchange import RetryPolicy, Timing
from hedgerow.privacy.ledger.events import Charged
from hedgerow.privacy.ledger.store import write_private
from support.effort import LONG
from support.network import Processes, World, namespace, processes, tree_of
from support.worlds import ByName

PATIENT = Timing(answer_seconds=1, asks=10_000, patience_seconds=1e9, return_seconds=1e9)


class Lossy(ByName):
    """Loses a message or its answer, delivers it twice, or gives an answer to a later question."""

    def __init__(
        self, sites: Mapping[str, Callable[[bytes], bytes]], seed: int, chance: float = 0.15
    ) -> None:
        self._sites, self._random, self._chance = dict(sites), random.Random(seed), chance
        self.names = list(sites)
        self._late: dict[str, list[bytes]] = {name: [] for name in sites}
        self._old: dict[str, bytes] = {}
        self.lost = self.repeated = self.delayed = 0

    def ask(self, messages: Mapping[str, bytes], timeout: float) -> dict[str, bytes]:
        order = list(messages)
        self._random.shuffle(order)
        answers = {name: self._one(name, messages[name]) for name in order}
        return {name: answer for name, answer in answers.items() if answer is not None}

    def _one(self, name: str, message: bytes) -> bytes | None:
        if self._happens():
            self.lost += 1
            return None
        if self._happens():
            self.repeated += 1
            self._late[name].append(self._sites[name](self._old.get(name, message)))
        answer = self._sites[name](message)
        self._old[name] = message
        if self._happens():
            self.lost += 1
            return None
        if self._happens():
            self.delayed += 1
            self._late[name].append(answer)
            return None
        if self._late[name] and self._happens():
            return self._late[name].pop(0)
        return answer

    def _happens(self) -> bool:
        return self._random.random() < self._chance


class Clock:
    """Time that passes when somebody waits, and a little with every look."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds


def do_not_wait(names: Sequence[str], timing: Timing = PATIENT) -> RetryPolicy:
    """By a clock of its own, so that a slow machine changes nothing."""
    clock = Clock()
    return RetryPolicy(names, timing, clock=clock, wait=clock.wait)


# --------------------------------------------------------------------------------------------------
# Real processes over HTTPS on the loopback, one of them killed: what becomes of the run.
DYING = Path(__file__).with_name("dying.py")
ANOTHER_DAY = Path(__file__).with_name("another_day.py")
VICTIM = 1
"""The second site."""
TIMING = "[timing]\nanswer_seconds = 4\nasks = 2\npatience_seconds = 90\nreturn_seconds = 1\n"


@dataclass(frozen=True)
class Fault:
    """Who is hurt, in which exchange of which number, and when or how.

    `before`, `after` it was done: killed by SIGKILL. `full`: no file can grow during it. `frozen`:
    stopped by SIGSTOP at the first sign of the exchange, until the others have waited in vain.
    `clock`, `ahead`: killed after it was done, and its clock is a day behind, or ahead, when it is
    started again. `cut`: a rule in the site's own network namespace drops all that comes and goes,
    until the others have waited.
    """

    who: str
    kind: str
    number: int
    when: str

    @property
    def name(self) -> str:
        return f"{self.who}-{self.kind.lower()}-{self.number}-{self.when}"


CLOCKS = {"clock": -1, "ahead": 1}
"""By how many days the clock of a process that is started again is wrong."""
FAULTS = [
    Fault(who, kind, number, when)
    for who in ("site", "coordinator")
    for kind, number in (("JOIN", 1), ("OPEN", 1), ("ROUND", 2), ("UNMASK", 2), ("CLOSE", 1))
    for when in ("before", "after")
] + [
    Fault("site", "ROUND", 2, "full"),
    Fault("site", "ROUND", 2, "frozen"),
    Fault("site", "ROUND", 2, "cut"),
    *(Fault(who, "ROUND", 2, when) for who in ("site", "coordinator") for when in CLOCKS),
]
MAY_BE_VOID = {("OPEN", "after"), ("ROUND", "before"), ("ROUND", "full")}
"""When a site dies here, a round that the others have paid for may lack its answer."""
FROZEN_SECONDS = 10.0
DAY = 86_400.0


@dataclass(frozen=True)
class Outcome:
    """What the run did and cost; `charged` are the rounds of each site's own ledger."""

    same_model: bool
    rounds: int
    void: int
    charged: tuple[int, ...]
    charged_once: bool
    seconds: float


class Network:
    """Three site processes that serve many studies, and coordinators that come and go."""

    def __init__(self, folder: Path, started: Processes) -> None:
        self.folder, self.started = folder, started
        self.world = World(folder)
        self.port = free_port()
        self.sites = [self._join(k) for k in range(self.world.n_sites)]

    def _join(self, k: int, *dying: str, within: Sequence[str] = (), **env: str):
        words = ("site", "serve", self.world.sites[k].root)
        if dying:
            return self.started.start(DYING, *dying, *words)
        return self.started.hedgerow(*words, within=within, **env)

    def move(self, k: int, env: Mapping[str, str]) -> None:
        """Serves the site by another process, in this environment."""
        self.stop_site(k)
        self.sites[k] = self._join(k, **env)

    def study(self, name: str, host: str = "localhost", **change: str) -> RunFolder:
        """A new study that all sites approve, in a folder of its own."""
        path = self.world.write_study(name, **change)
        timing = f"{TIMING}at_once = {str('unmask' not in name).lower()}\n"
        path.write_text(path.read_text(encoding="utf-8") + timing, encoding="utf-8")
        self.world.approve(path, f"https://{host}:{self.port}")
        return run_folder(self.world, path, self.folder)

    @property
    def _where(self) -> tuple[str, ...]:
        return ("--listen", f"127.0.0.1:{self.port}", "--host", "localhost")

    def coordinator(self, folder: RunFolder, step: str, *dying: str, **env: str):
        words = ("study", step, folder.path, *self._where)
        if dying:
            return self.started.start(DYING, *dying, *words, **env)
        return self.started.hedgerow(*words, **env)

    # -------------------------------------------------------------------------------------- faults
    def play(self, fault: Fault) -> Outcome:
        if fault.when == "cut":
            return self._play_cut(fault)
        folder = self.study(fault.name)
        when = "after" if fault.when in CLOCKS else fault.when
        dying = (fault.kind, str(fault.number), when)
        if fault.who == "site" and when != "frozen":
            self.stop_site(VICTIM)
            self.sites[VICTIM] = self._join(VICTIM, *dying)
        self.wait_until_served(folder)
        began = time.monotonic()
        hurt = self._hurt_site if fault.who == "site" else self._hurt_coordinator
        running = hurt(folder, fault, dying)
        assert running.wait(400) == 0, said_by(folder)
        seconds = time.monotonic() - began
        if (fault.who, fault.kind) == ("site", "CLOSE"):  # whoever was away says its last word now
            assert self.coordinator(folder, "resume").wait(400) == 0, said_by(folder)
        if fault.who == "site" and fault.when in CLOCKS:
            self._set_right(CLOCKS[fault.when])
        if fault.when == "full":
            assert "LedgerUnavailable" in self.world.sites[VICTIM].audit_file.read_text()
        return self.outcome(folder, seconds)

    def _hurt_site(self, folder: RunFolder, fault: Fault, dying: tuple[str, ...]):
        running = self.coordinator(folder, "run")
        if fault.when == "frozen":
            self._freeze(folder)
        elif fault.when != "full":
            assert self.sites[VICTIM].wait(300) == -9
            root = self.world.sites[VICTIM].root
            self.sites[VICTIM] = self._again(fault, "site", "serve", root)
        return running

    def _again(self, fault: Fault, *words: str | Path):
        """With the clock that the play asks for."""
        if fault.when not in CLOCKS:
            return self.started.hedgerow(*words)
        return self.started.start(ANOTHER_DAY, str(CLOCKS[fault.when]), *words)

    def _hurt_coordinator(self, folder: RunFolder, fault: Fault, dying: tuple[str, ...]):
        assert self.coordinator(folder, "run", *dying).wait(300) == -9
        step = "resume" if folder.is_begun else "run"
        return self._again(fault, "study", step, folder.path, *self._where)

    def _set_right(self, days: int) -> None:
        """The wrong clock was believed: lines stay in the order of what happened, with its time."""
        times = [line["time"] for line in lines_of(self.world.sites[VICTIM].audit_file)]
        jumps = [(_time(late) - _time(soon)).total_seconds() for soon, late in pairwise(times)]
        assert any(jump * days > DAY / 2 for jump in jumps), "no line is of another day"
        self.stop_site(VICTIM)
        self.sites[VICTIM] = self._join(VICTIM)

    def _play_cut(self, fault: Fault) -> Outcome:
        """The victim serves from a namespace of its own; all sites call an address of its cable."""
        with namespace() as space:
            folder = self.study(fault.name, space.host)
            self.stop_site(VICTIM)
            self.sites[VICTIM] = self._join(VICTIM, within=space.within)
            self.wait_until_served(folder)
            began = time.monotonic()
            where = ("--listen", f"{space.host}:{self.port}", "--host", space.host)
            running = self.started.hedgerow("study", "run", folder.path, *where)
            wait_until(lambda: b'"answered"' in content_of(folder.path / "answers.jsonl"), running)
            space.cut()
            wait_until(lambda: b"waiting for" in content_of(folder.events_file), running)
            space.mend()
            assert running.wait(400) == 0, said_by(folder)
            outcome = self.outcome(folder, time.monotonic() - began)
            self.stop_site(VICTIM)
        self.sites[VICTIM] = self._join(VICTIM)
        return outcome

    def _freeze(self, folder: RunFolder) -> None:
        answers = folder.path / "answers.jsonl"
        while not (answers.exists() and b"answered" in answers.read_bytes()):
            time.sleep(0.01)
        self.sites[VICTIM].send_signal(signal.SIGSTOP)
        try:
            time.sleep(FROZEN_SECONDS)
        finally:
            self.sites[VICTIM].send_signal(signal.SIGCONT)

    def stop_site(self, k: int) -> None:
        self.sites[k].terminate()
        self.sites[k].wait(LONG)

    def wait_until_served(self, folder: RunFolder) -> None:
        account = folder.read_study().study.account
        deadline = time.monotonic() + 180
        for k, site in enumerate(self.world.sites):
            while not self._serves(k, account):
                assert self.sites[k].poll() is None, f"{site.name} has ended"
                assert time.monotonic() < deadline, f"{site.name} does not serve"
                time.sleep(0.05)

    def _serves(self, k: int, account: str) -> bool:
        """Since the last start of the site's process."""
        lines = list(lines_of(self.world.sites[k].audit_file))
        begun = max((i for i, x in enumerate(lines) if x["event"] == "started"), default=0)
        return self.sites[k].poll() is None and any(
            x["event"] == "serves" and x.get("study") == account for x in lines[begun:]
        )

    def outcome(self, folder: RunFolder, seconds: float) -> Outcome:
        check_transcript(folder)
        model = hr.load(folder.model_file)
        each = [
            self.charges(k, folder.read_study().study.account) for k in range(self.world.n_sites)
        ]
        alone = self.world.in_one_process(folder.study_file)
        return Outcome(
            same_model=tree_of(model) == tree_of(alone),
            rounds=len(model.run_.rounds),
            void=sum(record.void for record in model.run_.rounds),
            charged=tuple(len(rounds) for rounds in each),
            charged_once=all(len(set(rounds)) == len(rounds) for rounds in each),
            seconds=seconds,
        )

    def charges(self, k: int, account: str) -> list[str]:
        with ledger_of(self.world.sites[k]) as ledger:
            ledger.verify()
            return [
                event.round_id
                for _, event in ledger.entries()
                if isinstance(event, Charged) and event.study == account
            ]


def _time(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text)


def check_transcript(folder: RunFolder) -> None:
    """Whatever happened: the model follows from what all sites signed, and all have closed."""
    transcript = folder.path / "transcript.bin"
    checks = verify_model(folder.model_file, folder.study_file, transcript)
    outcomes = {check.name: check.outcome.value for check in checks}
    assert "FAILED" not in outcomes.values(), checks
    assert outcomes["replay"] == outcomes["model"] == outcomes["final"] == "ok", checks


def run_folder(world: World, study: Path, folder: Path) -> RunFolder:
    """Of the world's coordinator, for a study that was written."""
    found = RunFolder(folder / "runs" / study.stem)
    found.path.mkdir(parents=True)
    shutil.copy(study, found.study_file)
    write_private(found.key_file, world.coordinator.to_bytes().hex().encode())
    shutil.copytree(world.folder / "authority", found.authority)
    return found


def wait_until(is_so: Callable[[], bool], running, seconds: float = 180.0) -> None:
    end = time.monotonic() + seconds
    while not is_so():
        assert running.poll() is None, "the run has ended before"
        assert time.monotonic() < end
        time.sleep(0.005)


def content_of(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def said_by(folder: RunFolder) -> str:
    if not folder.events_file.exists():
        return "nothing was said"
    return "\n".join(map(str, map(json.loads, folder.events_file.read_text().splitlines())))


def free_port() -> int:
    """Below those that systems give to whoever asks for any: nobody takes it until it is used."""
    while True:
        port = random.SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as some, suppress(OSError):
            some.bind(("127.0.0.1", port))
            return port


@contextmanager
def network(folder: Path):
    with processes(folder) as started:
        yield Network(folder, started)
