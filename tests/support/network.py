"""Worlds of real processes and sockets: sites that call, transports over HTTPS, a cable to cut."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from hedgerow.deployment.approve import approve
from hedgerow.deployment.replay import replay_transcript
from hedgerow.deployment.site_state import DataPlace, StateFolder
from hedgerow.deployment.study_file import StudyFile
from hedgerow.federation.audit_log import Audit, lines_of
from hedgerow.federation.exchange import Exchange, Quorum, RetryPolicy, Timing, pace_of, patient
from hedgerow.federation.journal import TRANSCRIPT, FileJournal, Journal
from hedgerow.federation.secure_sites import SecureSites
from hedgerow.federation.server import Server
from hedgerow.federation.transcript import Transcript
from hedgerow.federation.transports.caller import Caller, client_context
from hedgerow.federation.transports.certificates import (
    Authority,
    Request,
    accept_certificate,
    authority_id,
    key_bytes,
    new_key,
)
from hedgerow.federation.transports.https import HttpsExchange
from hedgerow.methods.base import PrivateEstimator
from hedgerow.methods.training import Circumstances, train
from hedgerow.privacy.ledger.charges import MemoryLedger
from hedgerow.secagg.keys import Identity, fingerprint
from hedgerow.secagg.server import Coordinator
from support.worlds import TWO, ByName, sample

ROOT = Path(__file__).parents[2]
QUICK = Timing(answer_seconds=20, asks=3, patience_seconds=300, return_seconds=2)
OPEN_POLICY = """\
methods = "any"
features = "any"
dp_models = "any"
epsilon_per_study = "100"
delta_per_study = "1e-5"
fewest_sites = 2

[lifetime]
epsilon = "{epsilon}"
delta = "1e-5"

[trusted_sites]
{pins}
"""


@dataclass
class World:
    """Sites `site-1`, `site-2`, ... with 40 rows each, and one coordinator."""

    folder: Path
    n_sites: int = 3
    dp_model: str = "none"
    lifetime: str = "unlimited"
    sites: list[StateFolder] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.coordinator = Identity.generate()
        self.authority = Authority.open(self.folder / "authority")
        for k in range(self.n_sites):
            name = f"site-{k + 1}"
            anchor = self.folder / "anchors" / name
            self.sites.append(StateFolder.create(self.folder / name, name, anchor))
        self._write_policies()
        X, y = sample(40 * self.n_sites, TWO)
        self.X = pd.DataFrame(X, columns=list(TWO.names))
        self.y = y
        self.owner = np.arange(len(y)) % self.n_sites
        for k, site in enumerate(self.sites):
            rows = self.X[self.owner == k].assign(target=y[self.owner == k])
            rows.to_csv(self.data_of(site), index=False)
        self.study_file = self.write_study("study")

    @property
    def names(self) -> list[str]:
        return [site.name for site in self.sites]

    def data_of(self, site: StateFolder) -> Path:
        return self.folder / f"{site.name}.csv"

    def write_study(self, name: str, **change: object) -> Path:
        """`change` replaces words of the text."""
        roster = "".join(
            f'[[site]]\nname = "{site.name}"\nkey = "{site.identity().public.hex()}"\n\n'
            for site in self.sites
        )
        schema = TWO.to_toml().replace("[[feature]]", "[[schema.feature]]")
        text = (
            f'version = 1\nname = "{name}"\npublic_seed = 7\n\n'
            '[model]\nestimator = "HistogramTreeClassifier"\n\n'
            "[model.parameters]\nmax_depth = 2\n\n"
            f"[schema]\n{schema}\n"
            f'[privacy]\nepsilon = 1\ndelta = 1e-6\ndp_model = "{self.dp_model}"\n\n'
            f'[coordinator]\nkey = "{self.coordinator.public.hex()}"\n\n{roster}'
        )
        for old, new in change.items():
            text = text.replace(old, str(new))
        path = self.folder / f"{name}.toml"
        path.write_text(text, encoding="utf-8")
        return path

    def _write_policies(self) -> None:
        for site in self.sites:
            pins = "".join(
                f'"{peer.name}" = "{fingerprint(peer.identity().public)}"\n'
                for peer in self.sites
                if peer is not site
            )
            site.policy_file.write_text(OPEN_POLICY.format(epsilon=self.lifetime, pins=pins))

    def approve(self, study: Path, url: str | None = None) -> None:
        for site in self.sites:
            self.approve_at(site, study, url)

    def approve_at(self, site: StateFolder, study: Path, url: str | None = None) -> None:
        authority = self.certify(site) if url else None
        place = DataPlace(str(self.data_of(site)), "target", coordinator=url, authority=authority)
        approve(site, StudyFile.read(study), place, Audit(site.audit_file))

    def certify(self, site: StateFolder) -> str:
        """As `study invite` and `site enroll` do."""
        key = new_key()
        reply = self.authority.sign(Request.make(site.name, site.identity(), key))
        own, root = accept_certificate(reply, self.authority.fingerprint, key, site.name)
        place = site.tls / authority_id(root)
        place.mkdir(exist_ok=True)
        (site.tls / "site.key").write_bytes(key_bytes(key))
        (place / "site.crt").write_bytes(own)
        (place / "authority.crt").write_bytes(root)
        return place.name

    # ------------------------------------------------------------------------------------ training
    def link(
        self,
        transport: Exchange,
        study: Path | None = None,
        timing: Timing = QUICK,
        journal: Journal | None = None,
    ) -> SecureSites:
        agreed = StudyFile.read(study or self.study_file)
        parameters = agreed.study.parameters
        hub = Coordinator(self.coordinator, agreed.roster, parameters, agreed.study.hash)
        retry_policy = RetryPolicy(agreed.names, timing, pace=pace_of(transport))
        return SecureSites(
            agreed.study, hub, patient(transport, retry_policy), retry_policy, journal
        )

    def train(
        self, transport: Exchange, study: Path | None = None, timing: Timing = QUICK
    ) -> PrivateEstimator:
        """Over the transport; the transcript of the run must lead to the same model."""
        agreed = StudyFile.read(study or self.study_file)
        folder = Path(tempfile.mkdtemp(prefix="journal-", dir=self.folder))
        with closing(FileJournal(folder)) as journal:
            link = self.link(transport, study, timing, journal)
            federation = Server(agreed.study, link, MemoryLedger(agreed.study.limit))
            model = agreed.estimator()
            train(model, agreed.study, agreed.method, federation, Circumstances(simulated=False))
        check_replay(model, agreed, folder / TRANSCRIPT)
        return model

    def in_one_process(self, study: Path | None = None) -> PrivateEstimator:
        """The same study, all rows in one process."""
        model = StudyFile.read(study or self.study_file).estimator()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.fit(self.X, self.y, site=np.array(self.names)[self.owner])

    def lines(self, site: int, event: str) -> list[dict]:
        return [x for x in lines_of(self.sites[site].audit_file) if x["event"] == event]


def check_replay(model: PrivateEstimator, agreed: StudyFile, transcript: Path) -> None:
    """Whether the messages of a run lead to its model, and every round is shown."""
    run = replay_transcript(agreed, Transcript.read(transcript))
    assert tree_of(run.model) == tree_of(model)
    assert len(run.sites.transcript.rounds) == len(model.run_.rounds)
    assert run.model.privacy_.spent_fraction == model.privacy_.spent_fraction


def tree_of(model: PrivateEstimator) -> str:
    """All of a model but its statement."""
    return json.dumps(model.model_.to_dict(), sort_keys=True)


# ------------------------------------------------------------------------------- other processors
PROCESSORS = {
    "AVX-512": {"OPENBLAS_CORETYPE": "SkylakeX"},
    "AVX2": {"OPENBLAS_CORETYPE": "Haswell", "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL"},
    "SSE4.2": {
        "LOOPS": "any",
        "OPENBLAS_CORETYPE": "Nehalem",
        "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL X86_V3",
    },
}
"""The environments in which libraries take the loops of another processor."""


def processors() -> dict[str, dict[str, str]]:
    """Those that this machine can imitate."""
    flags = Path("/proc/cpuinfo")
    here = flags.read_text(encoding="utf-8") if flags.exists() else ""
    return {
        name: env for name, env in PROCESSORS.items() if name != "AVX-512" or "avx512vl" in here
    }


# -------------------------------------------------------------------------------------- processes
class Processes:
    """Those that a test started, and no others: each is stopped by its own id."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.running: list[subprocess.Popen[bytes]] = []

    @staticmethod
    def environment(**more: str) -> dict[str, str]:
        ahead = os.environ.get("HEDGEROW_TEST_PATH", "")
        path = os.pathsep.join([*filter(None, [ahead]), str(ROOT / "src"), str(ROOT / "tests")])
        return {**os.environ, "PYTHONPATH": path, **more}

    def start(
        self,
        *words: str | Path,
        folder: Path | None = None,
        within: Sequence[str] = (),
        **env: str,
    ) -> subprocess.Popen[bytes]:
        """`within`: the words of a command that runs others, in a namespace for example."""
        log = (self.folder / f"process-{len(self.running)}.log").open("wb")
        process = subprocess.Popen(
            [*within, sys.executable, *map(str, words)],
            stdout=log,
            stderr=subprocess.STDOUT,
            env=self.environment(**env),
            cwd=folder,
        )
        log.close()
        self.running.append(process)
        return process

    def hedgerow(
        self, *words: str | Path, within: Sequence[str] = (), **env: str
    ) -> subprocess.Popen[bytes]:
        run = "from hedgerow.cli.main import entry; entry()"
        return self.start("-c", run, *words, within=within, **env)

    def stop(self) -> None:
        for process in self.running:
            if process.poll() is None:
                process.terminate()
        for process in self.running:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def processes(folder: Path) -> Iterator[Processes]:
    started = Processes(folder)
    try:
        yield started
    finally:
        started.stop()


# --------------------------------------------------------------------------------------------------
# Transports with real sockets under them, for tests: each stops what it started.
Handle = Callable[[bytes], bytes]


def certified(folder: Path, authority: Authority, name: str) -> tuple[Path, Path, Path]:
    """Key, certificate and authority of a new site, as files."""
    key = new_key()
    reply = authority.sign(Request.make(name, Identity.generate(), key))
    certificate, root = accept_certificate(reply, authority.fingerprint, key, name)
    files = folder / f"{name}.key", folder / f"{name}.crt", folder / f"{name}.authority.crt"
    for path, content in zip(files, (key_bytes(key), certificate, root), strict=True):
        path.write_bytes(content)
    return files


class Direct(ByName):
    """Sites in this process: each maps a message to its answer."""

    def __init__(self, sites: Mapping[str, Handle]) -> None:
        self._sites, self.names = dict(sites), list(sites)

    def ask(self, messages: Mapping[str, bytes], timeout: float) -> Mapping[str, bytes]:
        return {name: self._sites[name](message) for name, message in messages.items()}


def ask(exchange: Exchange, messages: Mapping[str, bytes], seconds: float) -> dict[str, bytes]:
    """One try, with sites by their names: the answers that came."""
    answers: dict[str, bytes] = {}
    places = {int(name.removeprefix("site-")) - 1: name for name in messages}
    exchange(
        {place: messages[name] for place, name in places.items()},
        lambda place, answer: answers.__setitem__(places[place], answer),
        Quorum(lambda more: True, asks=1, seconds=seconds),
    )
    return answers


@contextmanager
def calling(
    url: str, tls, handle: Handle, note: Callable[[str], None] = lambda text: None
) -> Iterator[Caller]:
    """A site that calls from a thread of its own."""
    caller = Caller(url, tls, handle, note=note)
    thread = threading.Thread(target=caller.run)
    thread.start()
    try:
        yield caller
    finally:
        caller.stop()
        thread.join()


@contextmanager
def https(folder: Path, sites: Mapping[str, Handle]) -> Iterator[HttpsExchange]:
    """A listener on a free port of the loopback, and all sites calling it."""
    authority = Authority.open(folder / "authority")
    listener = HttpsExchange(
        sites, authority.server_context(["localhost", "127.0.0.1"]), "127.0.0.1"
    )
    stack: list[tuple[Caller, threading.Thread]] = []
    try:
        for name, handle in sites.items():
            tls = client_context(*certified(folder, authority, name))
            caller = Caller(
                f"https://127.0.0.1:{listener.port}", tls, handle, note=lambda text: None
            )
            thread = threading.Thread(target=caller.run)
            thread.start()
            stack.append((caller, thread))
        yield listener
    finally:
        for caller, thread in stack:
            caller.stop()
            thread.join()
        listener.close()


def names(n: int) -> Sequence[str]:
    return [f"site-{k + 1}" for k in range(n)]


# --------------------------------------------------------------------------------------------------
# A network namespace of its own for one process, which a rule can cut off from everybody.
HERE, THERE = "10.213.7.1", "10.213.7.2"
"""Two addresses of a cable that ends in this machine at both ends."""


@dataclass(frozen=True)
class Namespace:
    name: str
    host: str = HERE

    @property
    def within(self) -> tuple[str, ...]:
        """What comes before a command that is to run inside."""
        return ("ip", "netns", "exec", self.name)

    def cut(self) -> None:
        """From here on what comes in is dropped without a word, and so is what goes out."""
        self._ip("rule", "add", "pref", "1", "lookup", "local")
        self._ip("rule", "del", "pref", "0")
        self._ip("rule", "add", "pref", "0", "from", HERE, "blackhole")
        self._ip("rule", "add", "pref", "0", "to", HERE, "blackhole")

    def mend(self) -> None:
        self._ip("rule", "del", "pref", "0", "from", HERE, "blackhole")
        self._ip("rule", "del", "pref", "0", "to", HERE, "blackhole")

    def _ip(self, *words: str) -> None:
        ip("-n", self.name, *words)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=20)


@contextmanager
def namespace() -> Iterator[Namespace]:
    """With a cable to this machine; both are gone afterwards."""
    made = Namespace(f"hedgerow-{os.getpid()}")
    ip("netns", "add", made.name)
    try:
        ip("link", "add", "hedgerow0", "type", "veth", "peer", "name", "hedgerow1")
        ip("link", "set", "hedgerow1", "netns", made.name)
        ip("addr", "add", f"{HERE}/30", "dev", "hedgerow0")
        ip("link", "set", "hedgerow0", "up")
        ip("-n", made.name, "addr", "add", f"{THERE}/30", "dev", "hedgerow1")
        ip("-n", made.name, "link", "set", "hedgerow1", "up")
        ip("-n", made.name, "link", "set", "lo", "up")
        yield made
    finally:
        ip("netns", "delete", made.name)
        subprocess.run(["ip", "link", "del", "hedgerow0"], check=False, capture_output=True)


def why_no_namespace() -> str | None:
    """Why this machine lets nobody make one; None if it does."""
    if os.geteuid() != 0:
        return "network namespaces are root's alone"
    if shutil.which("ip") is None:
        return "there is no `ip` command here"
    try:
        with namespace():
            return None
    except (OSError, subprocess.SubprocessError) as error:
        return f"no network namespace can be made here: {error}"
