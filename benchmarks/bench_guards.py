"""What a site's guards cost in a default fit whose sites keep stores: admission, clamp, codes.

Each guard's own CPU time is counted while the whole fit runs, and set against the fit. The clamp is
counted with the truncation that it is one pass with, so its line is an upper bound.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

import hedgerow as hr
from benchmarks.sizes import sized
from benchmarks.timing import Row
from hedgerow.data import sums
from hedgerow.data.prepared import StudyRows
from hedgerow.data.rows import Rows
from hedgerow.federation.client import Client
from hedgerow.federation.site_store import SiteStore
from hedgerow.federation.transports import in_process
from hedgerow.privacy import admission
from hedgerow.privacy.accounting.budget import Measure
from hedgerow.privacy.ledger.sqlite import Table
from hedgerow.privacy.study import Study
from hedgerow.secagg.client import Site
from hedgerow.secagg.graph import Parameters
from hedgerow.secagg.keys import Identity, Roster

SITES, COLUMNS, TURNS = 3, 20, sized(3, 1)
RECORDS = (sized(20_000, 500), sized(200_000, 1_000))
TARGET = 0.05
PLACES = {
    "admission": (admission, "reason_against"),
    "clamp, with truncation": (sums, "bounded_units"),
    "codes on rows of the store": (Table, "_code"),
}


def rows() -> Iterator[Row]:
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
            memory, numbers = site_store.memory(study.account), Parameters.of(study.parameters)
            pins = roster.fingerprints
            site = Site(identity, roster, me, numbers, study.hash, memory, pins=pins)
            return Client(StudyRows(study, rows), site, memory)

        opened.enter_context(patch.object(in_process, "_client", served))
        yield
