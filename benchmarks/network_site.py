"""python -m benchmarks.network_site K PLACE FOLDER WHERE: one site of `bench_network`.

It answers messages of the secure sum from a store on disk, and echoes whatever else comes: as many
bytes as the first eight say. WHERE is the port of a coordinator that it calls over HTTPS, or the
path of a Unix socket at which a network engine knocks.
"""

from __future__ import annotations

import math
import signal
import sys
import threading
from contextlib import closing
from pathlib import Path

from benchmarks.network_world import MARK, boosted_study, identities, rows_of, study_of
from hedgerow.data.prepared import StudyRows
from hedgerow.federation.client import Client
from hedgerow.federation.site_store import SiteStore
from hedgerow.federation.transports.certificates import client_context
from hedgerow.federation.transports.https import Caller
from hedgerow.federation.transports.socket import SocketListener
from hedgerow.privacy.accounting.budget import Measure
from hedgerow.privacy.study import Study
from hedgerow.secagg.client import Site
from hedgerow.secagg.encoding import Reader
from hedgerow.secagg.envelope import Header
from hedgerow.secagg.graph import Parameters
from hedgerow.secagg.keys import Roster


def opened_vault(n_sites: int, place: int, folder: Path) -> SiteStore:
    identity = identities(n_sites)[place]
    own = folder / f"site-{place + 1}"
    site_store = SiteStore.open(own / "store.sqlite", identity, folder / f"anchor-{place}")
    site_store.ledger.set_lifetime(Measure.ZCDP, math.inf)
    return site_store


def endpoint(site_store: SiteStore, study: Study, place: int) -> Client:
    *sites, coordinator = identities(study.n_sites)
    roster = Roster(tuple(one.public for one in sites), coordinator.public)
    site_store.ledger.approve(study.account, study.measure, study.limit, study.name)
    memory = site_store.memory(study.account)
    parameters = Parameters.of(study.parameters)
    pins = roster.fingerprints
    site = Site(sites[place], roster, place, parameters, study.hash, memory, pins=pins)
    return Client(StudyRows(study, rows_of(study, place)), site, memory)


def main(n_sites: int, place: int, folder: Path, where: str) -> None:
    site_store = opened_vault(n_sites, place, folder)
    studies = (study_of(n_sites), boosted_study(n_sites)[0], boosted_study(n_sites, 1)[0])
    endpoints = {study.hash: endpoint(site_store, study, place) for study in studies}

    def handle(message: bytes) -> bytes:
        if message.startswith(MARK):
            return bytes(int.from_bytes(message[len(MARK) : len(MARK) + 8], "big"))
        return endpoints[Header.read(Reader(message)).study_hash].handle(message)

    name = f"site-{place + 1}"
    if not where.isdigit():
        stopped = threading.Event()
        signal.signal(signal.SIGTERM, lambda *unused: stopped.set())
        with closing(SocketListener(Path(where), handle)):
            stopped.wait()
        return
    files = (folder / f"{name}{end}" for end in (".key", ".crt", ".authority.crt"))
    Caller(f"https://127.0.0.1:{where}", client_context(*files), handle, note=print).run()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]), Path(sys.argv[3]), sys.argv[4])
