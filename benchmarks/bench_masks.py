"""What a secure sum costs one site, against the bare streams that its masks are made of."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.sizes import sized
from benchmarks.timing import Row, race
from hedgerow.secagg import masks
from hedgerow.secagg.client import Fresh, MemoryInRam, Site
from hedgerow.secagg.envelope import EMPTY_LEDGER
from hedgerow.secagg.graph import Parameters
from hedgerow.secagg.keys import Identity, Roster
from hedgerow.secagg.parameters import Sparse
from hedgerow.secagg.server import Coordinator

LENGTH = sized(100_000, 100)
ROUNDS = 5
STUDY = bytes(32)
ME = 0


def rows() -> list[Row]:
    full = Parameters.default(100)
    sparse = Parameters(n_sites=1000, colluders=100, threshold=900, sparse=Sparse())
    neighbors = sparse.neighborhood.degree
    return [
        *site_rows("100 sites, full graph", full, most_seconds=0.030),
        *site_rows(f"1,000 sites, {neighbors} neighbors", sparse, most_seconds=0.015),
    ]


def site_rows(who: str, parameters: Parameters, most_seconds: float) -> list[Row]:
    coordinator, site, opening = consortium(parameters)
    join = partial(site.open, opening)
    join()
    requests = iter([request(coordinator) for _ in range(ROUNDS + 1)])
    vector = np.arange(LENGTH, dtype=np.int64)
    keys = [bytes([k % 256]) * 32 for k in range(parameters.neighborhood.degree + 1)]
    best = race(
        {
            "round": lambda: answer(site, next(requests), vector),
            "streams": lambda: masks.fold(np.zeros(LENGTH, masks.MASK_WORD), keys, ()),
        },
        ROUNDS,
    )
    return [
        Row(
            work=f"one site's masked sum of 1e5 numbers, {who}",
            seconds=best["round"],
            reference=f"{len(keys)} AES-256-CTR streams added up",
            reference_seconds=best["streams"],
            most_seconds=most_seconds,
        )
    ]


def consortium(parameters: Parameters) -> tuple[Coordinator, Site, bytes]:
    """A coordinator, the site under test and the message of their key session; it is bound."""
    identities = [Identity.generate() for _ in range(parameters.n_sites + 1)]
    public = [identity.public for identity in identities]
    roster = Roster(tuple(public[:-1]), public[-1])
    pins = roster.fingerprints
    sites = [
        Site(identity, roster, me, parameters, STUDY, MemoryInRam(), pins=pins)
        for me, identity in enumerate(identities[:-1])
    ]
    coordinator = Coordinator(identities[-1], roster, parameters, STUDY)
    joins = coordinator.join()
    messages = coordinator.open(
        site.join(joins[me], lambda: EMPTY_LEDGER) for me, site in enumerate(sites)
    )
    for me, message in messages.items():
        coordinator.accept_capsules(sites[me].open(message))
    sites[ME].bind(coordinator.bind([ME])[ME])
    return coordinator, sites[ME], messages[ME]


def request(coordinator: Coordinator) -> bytes:
    return coordinator.start(b"bundle", LENGTH).requests()[ME]


def answer(site: Site, message: bytes, vector: masks.Int64) -> None:
    """From the request to the message that would leave, without the store's disk."""
    begun = site.begin(message)
    assert isinstance(begun, Fresh)
    site.mask(begun, vector, EMPTY_LEDGER)
