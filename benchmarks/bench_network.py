"""Rounds over HTTPS with real site processes, against an echo of the same bytes.

python -m benchmarks.bench_network [SITES ...]    writes docs/network_speed.md

Sites are processes on this machine with 1,000 rows and a vault on disk; the coordinator keeps a
journal. A round is ROUND and MASKED, then UNMASK and SHARES. Its echo is two exchanges in which as
many bytes go out and come back through the same carrier and the same processes. Rounds and echoes
take turns.
"""

from __future__ import annotations

import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.network_world import MARK, bundle_of, identities, study_of
from hedgerow.secagg.coordinator import Coordinator
from hedgerow.secagg.keys import Identity, Roster
from hedgerow.secagg.parameters import Parameters
from hedgerow.study.admission import length_of
from hedgerow.transport.certificates import (
    Authority,
    Request,
    accept_certificate,
    key_bytes,
    new_key,
)
from hedgerow.transport.https import HttpsCarrier
from hedgerow.transport.journal import FileJournal
from hedgerow.transport.link import SecureLink
from hedgerow.transport.post import Post

SITES = (3, 10, 30)
INTEGERS = (1_000, 1_000_000)
REPEATS = 7
MOST_RATIO = 2.0
PAGE = Path(__file__).parents[1] / "docs" / "network_speed.md"
HEAD = """\
# What a round costs over HTTPS

Written by `python -m benchmarks.bench_network`. All processes on one machine ({cores} cores, Python
{python}); each site has 1,000 rows and a vault on disk, the coordinator a journal. The echo sends
as many bytes through the same carrier to the same processes and back. CPU seconds are those of all
processes together, means of {repeats} turns. Wall seconds are medians, on a machine that others use
too, so the goal is held against CPU: at most {ratio:g} times the echo.

| sites | integers | sends B | gets B | round s | echo s | round CPU | echo CPU | ratio | goal |
|---|---|---|---|---|---|---|---|---|---|
"""


@dataclass(frozen=True)
class Measured:
    sites: int
    integers: int
    bytes_out: int
    bytes_in: int
    round: float
    echo: float
    round_cpu: float
    echo_cpu: float

    def line(self) -> str:
        ratio = self.round_cpu / self.echo_cpu
        cells = (
            self.sites, self.integers, self.bytes_out, self.bytes_in, f"{self.round:.3f}",
            f"{self.echo:.3f}", f"{self.round_cpu:.3f}", f"{self.echo_cpu:.3f}", f"{ratio:.1f}",
            "met" if ratio <= MOST_RATIO else "NO",
        )  # fmt: skip
        return f"| {' | '.join(map(str, cells))} |\n"


@contextmanager
def consortium(parties: int, folder: Path) -> Iterator[tuple[SecureLink, list[int]]]:
    """A link to site processes that have all called, and their process ids."""
    names = [f"site-{k + 1}" for k in range(parties)]
    *sites, own = identities(parties)
    authority = Authority.open(folder / "authority")
    for name, identity in zip(names, sites, strict=True):
        certify(folder, authority, name, identity)
    door = HttpsCarrier(names, authority.server_context(["127.0.0.1"]), "127.0.0.1")
    with ExitStack() as stack:
        stack.callback(door.close)
        started = [stack.enter_context(site(parties, k, door.port, folder)) for k in range(parties)]
        while len(door.seen) < parties:
            time.sleep(0.1)
        study = study_of(parties)
        roster = Roster(tuple(one.public for one in sites), own.public)
        hub = Coordinator(own, roster, Parameters.of(study.parameters), study.hash)
        journal = FileJournal(folder)
        stack.callback(journal.close)
        link = SecureLink(study, hub, Post(door, names), journal)
        link.enter()
        yield link, [process.pid for process in started]


def certify(folder: Path, authority: Authority, name: str, identity: Identity) -> None:
    key = new_key()
    reply = authority.sign(Request.make(name, identity, key), identity.public)
    certificate, root = accept_certificate(reply, authority.fingerprint, key, name)
    for end, content in ((".key", key_bytes(key)), (".crt", certificate), (".authority.crt", root)):
        (folder / f"{name}{end}").write_bytes(content)


@contextmanager
def site(parties: int, place: int, port: int, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    words = [str(word) for word in (parties, place, port, folder)]
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.network_site", *words])
    try:
        yield process
    finally:
        process.terminate()
        process.wait(20)


def measure(link: SecureLink, pids: list[int], integers: int, first: int) -> Measured:
    bundle = bundle_of(integers)
    link.round(first, bundle)  # pays for names and for pages of memory
    got = link.round(first + 1, bundle)
    rounds, echoes = Laps(pids), Laps(pids)
    for turn in range(REPEATS):
        rounds.lap(partial(link.round, first + 2 + turn, bundle))
        echoes.lap(partial(echo, link, got.bytes_out, got.bytes_in))
    return Measured(
        len(pids), length_of(bundle), got.bytes_out, got.bytes_in,
        rounds.median, echoes.median, rounds.cpu, echoes.cpu,
    )  # fmt: skip


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


def echo(link: SecureLink, bytes_out: int, bytes_in: int) -> None:
    """Two exchanges, of which the first carries nearly all that a site sends."""
    for answer, question in ((bytes_out - 500, bytes_in // 2), (500, bytes_in // 2)):
        letter = MARK + answer.to_bytes(8, "big") + bytes(max(question - 12, 0))
        arrived = link.post.once(dict.fromkeys(range(link.study.parties), letter))
        assert len(arrived) == link.study.parties


def cpu_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main(counts: tuple[int, ...]) -> None:
    lines = []
    for parties in counts:
        with (
            tempfile.TemporaryDirectory() as folder,
            consortium(parties, Path(folder)) as (link, pids),
        ):
            first = 1
            for integers in INTEGERS:
                lines.append(measure(link, pids, integers, first).line())
                first += REPEATS + 2
                print(lines[-1], end="", flush=True)
    head = HEAD.format(
        cores=os.cpu_count(), python=platform.python_version(), repeats=REPEATS, ratio=MOST_RATIO
    )
    PAGE.write_text(head + "".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main(tuple(map(int, sys.argv[1:])) or SITES)
