"""Rounds between real processes, against an echo of the same bytes.

python -m benchmarks.bench_network [CARRIER:SITES ...] [boosting] [memory] [latency:MS ...]
python -m benchmarks.bench_network soak:5000 transcript:3 transcript:30
.venv-flower/bin/python -m benchmarks.bench_network Flower:3 "Flower, stock nodes:3"

Sites are processes on this machine with 1,000 rows and a store on disk; the coordinator keeps a
journal. A round is ROUND and MASKED, then UNMASK and SHARES. Its echo is two exchanges in which as
many bytes go out and come back through the same transport and the same processes. Rounds and echoes
take turns. Every part is measured and kept by itself (results.json); `make docs` makes the page of
all parts that are there.
"""

from __future__ import annotations

import os
import platform
import statistics
import sys
import tempfile
import time
import warnings
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks import results
from benchmarks.bench_site import of_a_service
from benchmarks.network_site import (
    IN_TWO,
    MARK,
    boosted_study,
    boosting,
    bundle_of,
    rows_of,
    study_of,
)
from benchmarks.network_transports import TRANSPORTS, Consortium, over_https
from hedgerow.federation.exchange import Accept, Exchange, Messages, Misses, Quorum, Timing, pace_of
from hedgerow.federation.secure_sites import SecureSites
from hedgerow.federation.server import Server
from hedgerow.federation.transcript import Transcript
from hedgerow.federation.transports.in_process import open_federation
from hedgerow.methods.training import Circumstances, train
from hedgerow.privacy.ledger.charges import MemoryLedger
from hedgerow.privacy.pricing import priced
from hedgerow.privacy.study import Study

PART = "network"
USUAL = (
    *("HTTPS:3", "HTTPS:10", "HTTPS:30", "FLARE:3", "FLARE:10", "FLARE:30"),
    *("boosting", "memory", "latency:0", "latency:40", "latency:200"),
    *("soak:5000", "transcript:3", "transcript:30"),
)
SOAK_SITES, SOAK_LOOKS = 3, 10
REPEATS = {1_000: 40, 1_000_000: 7}
"""By number of integers: the CPU of other processes is counted in hundredths of a second."""
FEW = 5
"""Where an exchange takes seconds."""
BOOSTING_SITES = 3
WAYS: dict[str, tuple[Any, ...]] = {"default": (), "in_two": (None, IN_TWO), "single": (1,)}
"""Trees of a round; and as it was before rounds were opened at once."""


def _status(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (found,) = (line.split()[1] for line in lines if line.startswith(f"{name}:"))
    return int(found) * 1024


class Laps:
    """Wall and CPU seconds of some work that several processes do together."""

    def __init__(self, pids: list[int]) -> None:
        self._pids = pids
        self._walls: list[float] = []
        self._cpu = 0.0

    def lap(self, work: Callable[[], object]) -> None:
        cpu, start = self._spent(), time.perf_counter()
        work()
        self._walls.append(time.perf_counter() - start)
        self._cpu += self._spent() - cpu

    @property
    def median(self) -> float:
        return statistics.median(self._walls)

    @property
    def cpu(self) -> float:
        return self._cpu / len(self._walls)

    def _spent(self) -> float:
        return time.process_time() + sum(map(cpu_of, self._pids))


def cpu_of(pid: int) -> float:
    """Processes that it has started and that have ended count too; so one that is gone is 0."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except FileNotFoundError:
        return 0.0
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


# ------------------------------------------------------------------------------------------ rounds
def rounds(transport: str, n_sites: int) -> list[dict[str, Any]]:
    """One line for each number of integers; over Flower in an environment that has it."""
    with (
        tempfile.TemporaryDirectory() as folder,
        TRANSPORTS[transport](n_sites, Path(folder)) as consortium,
        consortium.link(study_of(n_sites)) as link,
    ):
        return [{"transport": transport, **measured(link, consortium, n)} for n in REPEATS]


def measured(link: SecureSites, consortium: Consortium, integers: int) -> dict[str, Any]:
    bundle = [priced(link.study, query) for query in bundle_of(integers)]
    first = integers  # larger than any number of a round before
    link.round(first, bundle)  # pays for names and for pages of memory
    got = link.round(first + 1, bundle)
    turns, echoes = Laps(consortium.pids()), Laps(consortium.pids())
    repeats = min(REPEATS[integers], FEW if pace_of(consortium.transport) else 99)
    for turn in range(repeats):
        turns.lap(partial(link.round, first + 2 + turn, bundle))
        echoes.lap(partial(echo, link, got.bytes_out, got.bytes_in))
    return {
        "sites": consortium.n_sites,
        "integers": sum(one.size for one in bundle),
        "bytes_out": got.bytes_out,
        "bytes_in": got.bytes_in,
        "round": turns.median,
        "echo": echoes.median,
        "round_cpu": turns.cpu,
        "echo_cpu": echoes.cpu,
        "repeats": repeats,
    }


def echo(link: SecureSites, bytes_out: int, bytes_in: int) -> None:
    """Two exchanges, of which the first carries nearly all that a site sends."""
    for answer, question in ((bytes_out - 500, bytes_in // 2), (500, bytes_in // 2)):
        message = MARK + answer.to_bytes(8, "big") + bytes(max(question - 12, 0))
        arrived, n_sites = set[int](), link.study.n_sites
        everybody = Quorum(lambda more, a=arrived, n=n_sites: len(a) + more >= n, asks=1)
        link.exchange(
            dict.fromkeys(range(n_sites), message),
            lambda site, _, a=arrived: a.add(site),
            everybody,
        )
        assert len(arrived) == n_sites


# ---------------------------------------------------------------------------------------- boosting
def whole_model() -> dict[str, Any]:
    """The default boosted trees over three sites, beside one process and as many echoes."""
    with (
        tempfile.TemporaryDirectory() as folder,
        over_https(BOOSTING_SITES, Path(folder)) as consortium,
        consortium.link(boosted_study(BOOSTING_SITES)[0]) as link,
    ):
        study, method = boosted_study(BOOSTING_SITES)
        alone, together = Laps([]), Laps(consortium.pids())
        alone.lap(lambda: trained(open_federation(_of_nobody(study), _rows(study)), method))
        federation = Server(study, link, MemoryLedger(study.limit))
        together.lap(lambda: trained(federation, method))
        record = federation.record.rounds
        echoes = Laps(consortium.pids())
        for done in record:
            echoes.lap(partial(echo, link, max(done.bytes_out, 501), max(done.bytes_in, 24)))
    return {
        "rounds": len(record),
        "alone": alone.median,
        "alone_cpu": alone.cpu,
        "together": together.median,
        "together_cpu": together.cpu,
        "echoes": echoes.median * len(record),
        "echoes_cpu": echoes.cpu * len(record),
    }


def at_a_distance(latency: float) -> dict[str, Any]:
    """A whole model behind a proxy that delays: the default, all rounds in two exchanges, and with
    one tree a round. CPU is of all processes, exchanges are those of rounds.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        over_https(BOOSTING_SITES, Path(folder), latency) as consortium,
    ):
        found: dict[str, Any] = {"latency": latency}
        for name, terms in WAYS.items():
            study, method = boosted_study(BOOSTING_SITES, *terms)
            with consortium.link(study, Timing(at_once=name != "in_two")) as link:
                link.exchange, calls = counted(link.exchange)
                federation = Server(study, link, MemoryLedger(study.limit))
                laps = Laps(consortium.pids())
                laps.lap(partial(trained, federation, method))
                sizes = {"rounds": len(federation.record.rounds), "exchanges": len(calls)}
                found |= {f"{name}_{what}": n for what, n in (sizes | {"cpu": laps.cpu}).items()}
                found[name] = laps.median
        return found


def counted(exchange: Exchange) -> tuple[Exchange, list[int]]:
    """The exchange, and a list that has one entry for each that was made."""
    calls = list[int]()

    def counting(messages: Messages, accept: Accept, quorum: Quorum) -> Misses:
        calls.append(len(messages))
        return exchange(messages, accept, quorum)

    return counting, calls


def soaked(n_rounds: int) -> dict[str, Any]:
    """Resident bytes of the coordinator and of the largest site, ten times in a run of one process.

    The sites' files too: what a round leaves there is a line of the ledger and one of the audit.
    """
    looks = list[dict[str, int]]()
    with (
        tempfile.TemporaryDirectory() as folder,
        over_https(SOAK_SITES, Path(folder)) as consortium,
        consortium.link(study_of(SOAK_SITES)) as link,
    ):
        federation = Server(link.study, link, MemoryLedger(link.study.limit))
        for number in range(1, n_rounds + 1):
            federation.ask(bundle_of(1_000))
            if number % (n_rounds // SOAK_LOOKS) == 0:
                sites = [_status(pid, "VmRSS") for pid in consortium.pids()]
                stores = [path.stat().st_size for path in Path(folder).glob("site-*/store.sqlite")]
                sizes = {"coordinator": _status(os.getpid(), "VmRSS"), "site": max(sites)}
                looks.append({"rounds": number, **sizes, "store": max(stores)})
                print(looks[-1], flush=True)
    return {"sites": SOAK_SITES, "rounds": n_rounds, "looks": looks}


def transcribed(n_sites: int) -> dict[str, Any]:
    """Bytes of the transcript of the default boosted trees, and CPU seconds to read it whole."""
    with (
        tempfile.TemporaryDirectory() as folder,
        over_https(n_sites, Path(folder)) as consortium,
        consortium.link(boosted_study(n_sites)[0]) as link,
    ):
        study, method = boosted_study(n_sites)
        federation = Server(study, link, MemoryLedger(study.limit))
        trained(federation, method)
        (path,) = Path(folder).glob("*/transcript.bin")
        start = time.process_time()
        transcript = Transcript.read(path)
        root = transcript.root
        seconds = time.process_time() - start
        questions = sum(len(r.questions) + len(r.definitions) for r in transcript.rounds.values())
        link.close(root, len(transcript.rounds))
        return {
            "sites": n_sites,
            "rounds": len(transcript.rounds),
            "bytes": path.stat().st_size,
            "questions": questions,
            "deflated": len(zlib.compress(path.read_bytes())),
            "read_cpu": seconds,
        }


def trained(federation: Server, method: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        train(boosting(), federation.study, method, federation, Circumstances())


def _of_nobody(study: Study) -> Study:
    """The same study in one process, which has keys of its own."""
    return replace(study, sites=(), coordinator=b"")


def _rows(study: Study) -> list[Any]:
    return [rows_of(study, place) for place in range(study.n_sites)]


# ------------------------------------------------------------------------------------------- parts
def part(name: str) -> Any:
    if name == "boosting":
        return whole_model()
    if name.startswith("soak:"):
        return soaked(int(name.partition(":")[2]))
    if name.startswith("transcript:"):
        return transcribed(int(name.partition(":")[2]))
    if name.startswith("latency:"):
        return at_a_distance(float(name.partition(":")[2]))
    if name == "memory":
        with tempfile.TemporaryDirectory() as folder:
            return of_a_service(Path(folder), 1_000_000)
    transport, _, n_sites = name.partition(":")
    return rounds(transport, int(n_sites))


def main(names: tuple[str, ...]) -> None:
    for name in names:
        found = part(name)
        print(name, found, flush=True)
        results.add(PART, name, found)
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    results.add(PART, "machine", machine)


if __name__ == "__main__":
    main(tuple(sys.argv[1:]) or USUAL)
