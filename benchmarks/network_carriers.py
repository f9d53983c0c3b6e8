"""Consortia of site processes on this machine, over each carrier, for `bench_network`."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.network_world import identities
from hedgerow.federation.exchange import Carrier, Patience, patient
from hedgerow.federation.journal import FileJournal
from hedgerow.federation.secure_sites import SecureSites
from hedgerow.federation.transports.certificates import (
    Authority,
    Request,
    accept_certificate,
    key_bytes,
    new_key,
)
from hedgerow.federation.transports.https import HttpsCarrier
from hedgerow.privacy.study import Study
from hedgerow.secagg.graph import Parameters
from hedgerow.secagg.keys import Identity, Roster
from hedgerow.secagg.server import Coordinator


@dataclass(frozen=True)
class Consortium:
    """A carrier whose sites are there, and the ids of all processes but this one."""

    carrier: Carrier
    parties: int
    folder: Path
    pids: Callable[[], list[int]]

    @contextmanager
    def link(self, study: Study) -> Iterator[SecureSites]:
        *sites, own = identities(self.parties)
        roster = Roster(tuple(one.public for one in sites), own.public)
        hub = Coordinator(own, roster, Parameters.of(study.parameters), study.hash)
        place = self.folder / study.name
        place.mkdir()
        with closing(FileJournal(place)) as journal:
            patience = Patience(names_of(self.parties))
            exchange = patient(self.carrier, patience)
            link = SecureSites(study, hub, exchange, patience, journal)
            link.enter()
            yield link


def names_of(parties: int) -> list[str]:
    return [f"site-{k + 1}" for k in range(parties)]


@contextmanager
def over_https(parties: int, folder: Path) -> Iterator[Consortium]:
    *sites, _ = identities(parties)
    authority = Authority.open(folder / "authority")
    for name, identity in zip(names_of(parties), sites, strict=True):
        certify(folder, authority, name, identity)
    tls = authority.server_context(["127.0.0.1"])
    with ExitStack() as stack:
        door = stack.enter_context(closing(HttpsCarrier(names_of(parties), tls, "127.0.0.1")))
        places = [str(door.port)] * parties
        started = [stack.enter_context(site(parties, k, folder, places[k])) for k in range(parties)]
        while len(door.seen) < parties:
            time.sleep(0.1)
        yield Consortium(door, parties, folder, lambda: [process.pid for process in started])


@contextmanager
def over_flare(parties: int, folder: Path) -> Iterator[Consortium]:
    """FLARE's own processes count too: a client and a job at every site, a server and its job."""
    from examples.network.flare_network import ADMIN, flare_network
    from hedgerow.federation.transports.flare import FlareCarrier

    names = names_of(parties)
    sockets = {name: folder / f"{name}.socket" for name in names}
    with ExitStack() as stack:
        started = [
            stack.enter_context(site(parties, k, folder, str(sockets[name])))
            for k, name in enumerate(names)
        ]
        while not all(path.exists() for path in sockets.values()):
            time.sleep(0.1)
        network = stack.enter_context(flare_network(folder / "flare", sockets))
        carrier = FlareCarrier(network.admin_kit, ADMIN, names, parties, folder / "pipe")
        stack.enter_context(closing(carrier))

        def pids() -> list[int]:
            flare = [p.pid for name in (*names, "localhost") for p in network.processes(name)]
            return [process.pid for process in started] + flare

        yield Consortium(carrier, parties, folder, pids)


CARRIERS = {"HTTPS": over_https, "FLARE": over_flare}


def certify(folder: Path, authority: Authority, name: str, identity: Identity) -> None:
    key = new_key()
    reply = authority.sign(Request.make(name, identity, key), identity.public)
    certificate, root = accept_certificate(reply, authority.fingerprint, key, name)
    for end, content in ((".key", key_bytes(key)), (".crt", certificate), (".authority.crt", root)):
        (folder / f"{name}{end}").write_bytes(content)


@contextmanager
def site(parties: int, place: int, folder: Path, where: str) -> Iterator[subprocess.Popen[bytes]]:
    words = [str(word) for word in (parties, place, folder, where)]
    process = subprocess.Popen([sys.executable, "-m", "benchmarks.network_site", *words])
    try:
        yield process
    finally:
        process.terminate()
        process.wait(20)
