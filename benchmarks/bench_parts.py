"""What parts of a fit cost: noise draws, a secure sum at one site, a site's guards."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

import hedgerow as hr
from benchmarks.timing import Row, race, sized
from hedgerow.data import sums
from hedgerow.data.prepared import StudyRows
from hedgerow.data.rows import Rows
from hedgerow.federation.client import Client
from hedgerow.federation.site_store import SiteStore
from hedgerow.federation.transports import in_process
from hedgerow.privacy import admission
from hedgerow.privacy.accounting.budget import Measure
from hedgerow.privacy.ledger.sqlite import Table
from hedgerow.privacy.mechanisms.coins import SecretRandomness
from hedgerow.privacy.mechanisms.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseLaw,
    PolyaDifference,
)
from hedgerow.privacy.mechanisms.sampling import draw
from hedgerow.privacy.study import Study
from hedgerow.secagg import masks
from hedgerow.secagg.client import Fresh, Site
from hedgerow.secagg.envelope import EMPTY_LEDGER
from hedgerow.secagg.keys import Identity, Roster
from hedgerow.secagg.memory import MemoryInRam
from hedgerow.secagg.parameters import Parameters, Sparse
from hedgerow.secagg.server import Coordinator

# --------------------------------------------------------------------------------------------------
# A million noise draws against the random words that one draw each would need.
N_DRAWS = sized(1_000_000, 1_000)
LAWS: dict[str, NoiseLaw] = {
    "discrete Laplace, scale 10": DiscreteLaplace(Fraction(1, 10)),
    "discrete Laplace, scale 10,000": DiscreteLaplace(Fraction(1, 10_000)),
    "one of 100 shares of discrete Laplace, scale 100": PolyaDifference(Fraction(1, 100), 100),
    "discrete Gaussian, sigma 100": DiscreteGaussian(Fraction(100**2)),
    "discrete Gaussian, sigma 1e6": DiscreteGaussian(Fraction(10**12)),
}


def noise_rows() -> list[Row]:
    secret = SecretRandomness()
    work = {name: partial(draw, law, N_DRAWS, secret) for name, law in LAWS.items()}
    best = race({**work, "words": lambda: secret.words(N_DRAWS)})
    return [
        Row(
            work=f"1e6 draws of {name}",
            seconds=best[name],
            reference="AES-256-CTR, 1e6 words",
            reference_seconds=best["words"],
            most_ratio=10.0,
        )
        for name in LAWS
    ]


# --------------------------------------------------------------------------------------------------
# What a secure sum costs one site, against the bare streams that its masks are made of.
LENGTH = sized(100_000, 100)
ROUNDS = 5
STUDY = bytes(32)
ME = 0


def mask_rows() -> list[Row]:
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


# --------------------------------------------------------------------------------------------------
# What a site's guards cost in a default fit whose sites keep stores: admission, clamp, codes.
#
# Each guard's own CPU time is counted while the whole fit runs, and set against the fit. The clamp
# is counted with the truncation that it is one pass with, so its line is an upper bound.
SITES, COLUMNS, TURNS = 3, 20, sized(3, 1)
RECORDS = (sized(20_000, 500), sized(200_000, 1_000))
TARGET = 0.05
PLACES = {
    "admission": (admission, "reason_against"),
    "clamp, with truncation": (sums, "bounded_units"),
    "codes on rows of the store": (Table, "_code"),
}


def guard_rows() -> Iterator[Row]:
    for records in RECORDS:
        whole, parts = best_of_fits(records)
        fit = f"a default boosted fit, {records:,} x {COLUMNS}, {SITES} sites with stores"
        for name, seconds in parts.items():
            yield Row(
                work=f"{name}, {records:,} records",
                seconds=seconds,
                reference=fit,
                reference_seconds=whole,
            )
        yield Row(
            work=f"all guards, {records:,} records",
            seconds=sum(parts.values()),
            reference=fit,
            reference_seconds=whole,
            most_ratio=TARGET,
        )


def best_of_fits(records: int) -> tuple[float, dict[str, float]]:
    """Least CPU seconds of the fit and of each guard, after a turn that does not count."""
    fit, turns = fit_of(records), []
    for _ in range(TURNS + 1):
        with counted() as parts:
            began = time.process_time()
            fit()
            turns.append({"whole": time.process_time() - began, **parts()})
    least = {name: min(turn[name] for turn in turns[1:]) for name in turns[0]}
    return least.pop("whole"), least


def fit_of(records: int) -> Callable[[], object]:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(records, COLUMNS))
    score = X[:, :5].sum(axis=1) + rng.normal(0.0, 0.3, records)
    y = np.where(score > 2.5, "yes", "no").astype(object)
    names = [f"x{j}" for j in range(COLUMNS)]
    schema = hr.Schema(tuple(hr.Numeric(n, 0.0, 1.0) for n in names), classes=("no", "yes"))
    frame, site = pd.DataFrame(X, columns=names), rng.integers(SITES, size=records)

    def fit() -> None:
        with with_vaults():
            hr.BoostedTreesClassifier(schema, 1.0, 1e-6).fit(frame, y, site=site)

    return fit


# ------------------------------------------------------------------------------------- counting
@dataclass
class Count:
    """A function that keeps how long it ran."""

    plain: Callable[..., Any]
    seconds: float = 0.0

    def __call__(self, *given: Any) -> Any:
        began = time.thread_time()
        try:
            return self.plain(*given)
        finally:
            self.seconds += time.thread_time() - began

    def as_method(self) -> Callable[..., Any]:
        return lambda *given: self(*given)


@contextmanager
def counted() -> Iterator[Callable[[], dict[str, float]]]:
    counts = {name: Count(getattr(*place)) for name, place in PLACES.items()}
    with ExitStack() as patched:
        for name, (where, what) in PLACES.items():
            timed = counts[name].as_method() if where is Table else counts[name]
            patched.enter_context(patch.object(where, what, timed))
        yield lambda: {name: count.seconds for name, count in counts.items()}


# --------------------------------------------------------------------------- sites with stores
@contextmanager
def with_vaults() -> Iterator[None]:
    """Sites of one process that keep stores on disk, as those of a network do."""
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory()))

        def vault_of(study: Study, identity: Identity, me: int) -> SiteStore:
            place = folder / str(me) / "store.sqlite"
            site_store = SiteStore.open(place, identity, folder / f"anchor{me}")
            opened.enter_context(closing(site_store))
            site_store.ledger.set_lifetime(Measure.ZCDP, Fraction(10))
            site_store.ledger.approve(study.account, study.measure, study.total)
            return site_store

        def served(study: Study, rows: Rows, identity: Identity, roster: Roster, me: int) -> Client:
            site_store = vault_of(study, identity, me)
            memory, numbers = site_store.memory(study.account), study.parameters
            pins = roster.fingerprints
            site = Site(identity, roster, me, numbers, study.hash, memory, pins=pins)
            return Client(StudyRows(study, rows), site, memory)

        opened.enter_context(patch.object(in_process, "_client", served))
        yield
