"""python -m benchmarks.network_site K PLACE FOLDER WHERE: one site of `bench_network`."""

from __future__ import annotations

import math
import signal
import sys
import threading
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import numpy as np

from hedgerow.data.prepared import StudyRows
from hedgerow.data.reading.encoding import Encoded
from hedgerow.data.rows import Rows, public_draws
from hedgerow.federation.client import Client
from hedgerow.federation.site_store import SiteStore
from hedgerow.federation.transports.caller import Caller, client_context
from hedgerow.federation.transports.socket import SocketListener
from hedgerow.methods.boosting_classes import BoostedTreesClassifier
from hedgerow.methods.method import Method
from hedgerow.methods.training import agree
from hedgerow.privacy.accounting.budget import DPModel, Measure
from hedgerow.privacy.queries import Binning, Cells, ClassCounts, QueryKind, SumQuery
from hedgerow.privacy.study import Study
from hedgerow.schema.regions import EVERYONE
from hedgerow.schema.schema import Numeric, Schema
from hedgerow.secagg.client import Site
from hedgerow.secagg.encoding import Reader
from hedgerow.secagg.envelope import Header
from hedgerow.secagg.keys import Identity, Roster
from hedgerow.secagg.parameters import Parameters

# --------------------------------------------------------------------------------------------------
# What coordinator and site processes of `bench_network` both know.
MARK = b"echo"
FEATURES, BINS, ROWS = 60, 250, 1_000
SCHEMA = Schema(
    tuple(Numeric(f"x{k}", 0.0, 1.0, bins=BINS) for k in range(FEATURES)), classes=("no", "yes")
)
FEW = Schema(SCHEMA.features[:10], classes=("no", "yes"))


def identities(n_sites: int) -> list[Identity]:
    """Of all sites, and of the coordinator: known to everybody, as no real ones are."""
    return [Identity.from_bytes((k + 1).to_bytes(32, "big")) for k in range(n_sites + 1)]


def study_of(n_sites: int) -> Study:
    usual = Parameters.default(n_sites)
    return Study(
        name="bench",
        schema=SCHEMA,
        method="bench",
        asks=frozenset({QueryKind("SumQuery", ClassCounts.__name__, Cells.__name__)}),
        epsilon=Fraction(1),
        delta=Fraction(1, 10**6),
        dp_model=DPModel.NONE,
        n_sites=n_sites,
        colluders=usual.colluders,
        threshold=usual.threshold,
    )


def boosting(trees_per_round: int | None = None) -> BoostedTreesClassifier:
    """The default, with noise; the public seed makes studies of all processes one."""
    return BoostedTreesClassifier(FEW, epsilon=8.0, random_state=0, trees_per_round=trees_per_round)


IN_TWO = ", in two"


def boosted_study(
    n_sites: int, trees_per_round: int | None = None, mode: str = ""
) -> tuple[Study, Method]:
    *sites, own = identities(n_sites)
    keys = {"sites": tuple(one.public for one in sites), "coordinator": own.public}
    name = f"boosted, {trees_per_round or 'default'}{mode}"
    return agree(boosting(trees_per_round), FEW, n_sites, {"name": name, **keys})


def rows_of(study: Study, place: int) -> Rows:
    """The first column tells the class nearly always."""
    rng = np.random.default_rng(place)
    columns = [rng.integers(0, grid.n_cells - 1, ROWS, np.uint8) for grid in study.schema.grids]
    codes = np.stack(columns)
    y = (columns[0] > np.median(columns[0])) ^ (rng.random(ROWS) < 0.1)
    encoded = Encoded(
        codes=codes, y=y.astype(np.uint8), persons=None, clamped={}, unknown={}, skipped=0
    )
    return Rows(encoded, study.schema, public_draws(0, place))


def bundle_of(integers: int) -> list[SumQuery]:
    """At least so many, in as few queries as that takes."""
    columns = min(FEATURES, -(-integers // (2 * BINS)))
    cells = Cells(tuple(range(columns)), Binning.of_cells(SCHEMA))
    query = SumQuery(EVERYONE, ClassCounts(2), cells, Fraction(1, 1000))
    return [query] * -(-integers // math.prod(query.shape))


# --------------------------------------------------------------------------------------------------
# python -m benchmarks.network_site K PLACE FOLDER WHERE: one site of `bench_network`.
#
# It answers messages of the secure sum from a store on disk, and echoes whatever else comes: as
# many bytes as the first eight say. WHERE is the port of a coordinator that it calls over HTTPS, or
# the path of a Unix socket at which a network engine knocks.
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
    parameters = study.parameters
    pins = roster.fingerprints
    site = Site(sites[place], roster, place, parameters, study.hash, memory, pins=pins)
    return Client(StudyRows(study, rows_of(study, place)), site, memory)


def main(n_sites: int, place: int, folder: Path, where: str) -> None:
    site_store = opened_vault(n_sites, place, folder)
    boosted = ((), (1,), (None, IN_TWO))
    studies = (study_of(n_sites), *(boosted_study(n_sites, *terms)[0] for terms in boosted))
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
