"""Consortia of site processes on this machine, over each transport, for `bench_network`."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.network_site import identities
from hedgerow.federation.exchange import Exchange, RetryPolicy, Timing, pace_of, patient
from hedgerow.federation.journal import FileJournal
from hedgerow.federation.secure_sites import SecureSites
from hedgerow.federation.transports.certificates import (
    Authority,
    Request,
    accept_certificate,
    key_bytes,
    new_key,
)
from hedgerow.federation.transports.https import HttpsExchange
from hedgerow.privacy.study import Study
from hedgerow.secagg.keys import Identity, Roster
from hedgerow.secagg.server import Coordinator


@dataclass(frozen=True)
class Consortium:
    """A transport whose sites are there, and the ids of all processes but this one."""

    transport: Exchange
    n_sites: int
    folder: Path
    pids: Callable[[], list[int]]

    @contextmanager
    def link(self, study: Study, timing: Timing | None = None) -> Iterator[SecureSites]:
        *sites, own = identities(self.n_sites)
        roster = Roster(tuple(one.public for one in sites), own.public)
        hub = Coordinator(own, roster, study.parameters, study.hash)
        place = self.folder / study.name
        place.mkdir()
        with closing(FileJournal(place)) as journal:
            names, pace = names_of(self.n_sites), pace_of(self.transport)
            retry_policy = RetryPolicy(names, timing or Timing(), pace=pace)
            exchange = patient(self.transport, retry_policy)
            link = SecureSites(study, hub, exchange, retry_policy, journal)
            link.enter()
            yield link


def names_of(n_sites: int) -> list[str]:
    return [f"site-{k + 1}" for k in range(n_sites)]


class Pipe(asyncio.Protocol):
    """One end of a connection whose bytes arrive at the other end after a delay."""

    def __init__(self, seconds: float, target: int | None, other: Pipe | None = None) -> None:
        self.seconds, self.target, self.other = seconds, target, other
        self.line: asyncio.Transport | None = None
        self.waiting: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.line = transport
        if self.target is not None:
            self.other, loop = Pipe(self.seconds, None, self), asyncio.get_running_loop()
            other = self.other
            self.task = loop.create_task(
                loop.create_connection(lambda: other, "127.0.0.1", self.target)
            )
        for some in self.waiting:
            transport.write(some)

    def data_received(self, data: bytes) -> None:
        if self.other is not None:
            asyncio.get_running_loop().call_later(self.seconds, self.other.write, data)

    def write(self, data: bytes) -> None:
        if self.line is None:
            self.waiting.append(data)
        elif not self.line.is_closing():
            self.line.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.other is not None and self.other.line is not None:
            self.other.line.close()


@contextmanager
def delayed(port: int, milliseconds: float) -> Iterator[int]:
    """The port of a TCP proxy to another, with so many milliseconds there and back."""
    loop, ready = asyncio.new_event_loop(), threading.Event()
    ports: list[int] = []

    async def listen() -> None:
        seconds = milliseconds / 2000
        server = await loop.create_server(lambda: Pipe(seconds, port), "127.0.0.1", 0)
        ports.append(server.sockets[0].getsockname()[1])
        ready.set()

    def serve() -> None:
        loop.run_until_complete(listen())
        loop.run_forever()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    ready.wait()
    try:
        yield ports[0]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


@contextmanager
def over_https(n_sites: int, folder: Path, latency: float = 0.0) -> Iterator[Consortium]:
    """`latency` in milliseconds, there and back."""
    *sites, _ = identities(n_sites)
    authority = Authority.open(folder / "authority")
    for name, identity in zip(names_of(n_sites), sites, strict=True):
        certify(folder, authority, name, identity)
    tls = authority.server_context(["127.0.0.1"])
    with ExitStack() as stack:
        listener = stack.enter_context(closing(HttpsExchange(names_of(n_sites), tls, "127.0.0.1")))
        port = stack.enter_context(delayed(listener.port, latency)) if latency else listener.port
        places = [str(port)] * n_sites
        started = [stack.enter_context(site(n_sites, k, folder, places[k])) for k in range(n_sites)]
        while len(listener.callers) < n_sites:
            time.sleep(0.1)
        yield Consortium(listener, n_sites, folder, lambda: [process.pid for process in started])


Engine = Callable[[ExitStack, dict[str, Path], Path], tuple[Exchange, Callable[[], list[int]]]]


@contextmanager
def over_engine(engine: Engine, n_sites: int, folder: Path) -> Iterator[Consortium]:
    """The engine's own processes count too, at every site and at its server."""
    names = names_of(n_sites)
    sockets = {name: folder / f"{name}.socket" for name in names}
    with ExitStack() as stack:
        started = [
            stack.enter_context(site(n_sites, k, folder, str(sockets[name])))
            for k, name in enumerate(names)
        ]
        while not all(path.exists() for path in sockets.values()):
            time.sleep(0.1)
        transport, pids = engine(stack, sockets, folder)
        ours = [process.pid for process in started]
        yield Consortium(transport, n_sites, folder, lambda: ours + pids())


def flare(
    stack: ExitStack, sockets: dict[str, Path], folder: Path
) -> tuple[Exchange, Callable[[], list[int]]]:
    from examples.network.engine import running
    from examples.network.flare import ADMIN, FlareNetwork
    from hedgerow.federation.transports.flare import FlareExchange

    network = stack.enter_context(running(FlareNetwork(folder / "flare", sockets)))
    transport = FlareExchange(
        network.admin_kit, ADMIN, list(sockets), len(sockets), folder / "pipe"
    )
    stack.enter_context(closing(transport))
    names = (*sockets, "localhost")
    return transport, lambda: [p.pid for name in names for p in network.processes(name)]


def flower(
    stack: ExitStack, sockets: dict[str, Path], folder: Path, *, executor: bool = True
) -> tuple[Exchange, Callable[[], list[int]]]:
    """Run it with the Python of the environment that has Flower."""
    from examples.network.engine import running
    from examples.network.flower import LINK, FlowerNetwork
    from hedgerow.federation.transports.flower import FlowerExchange

    network = stack.enter_context(running(FlowerNetwork(folder / "flower", sockets, executor)))
    os.environ.update(network.environment())
    transport = stack.enter_context(closing(FlowerExchange(LINK, list(sockets), folder / "pipe")))
    return transport, lambda: [p.pid for name in network.groups for p in network.processes(name)]


TRANSPORTS = {
    "HTTPS": over_https,
    "FLARE": partial(over_engine, flare),
    "Flower": partial(over_engine, flower),
    "Flower, stock nodes": partial(over_engine, partial(flower, executor=False)),
}


def certify(folder: Path, authority: Authority, name: str, identity: Identity) -> None:
    key = new_key()
    reply = authority.sign(Request.make(name, identity, key))
    certificate, root = accept_certificate(reply, authority.fingerprint, key, name)
    for end, content in ((".key", key_bytes(key)), (".crt", certificate), (".authority.crt", root)):
        (folder / f"{name}{end}").write_bytes(content)


@contextmanager
def site(n_sites: int, place: int, folder: Path, where: str) -> Iterator[subprocess.Popen[bytes]]:
    words = [str(word) for word in (n_sites, place, folder, where)]
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.network_site", *words])
    try:
        yield process
    finally:
        process.terminate()
        process.wait(20)
