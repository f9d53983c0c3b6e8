"""What methods really ask keeps the bound that it declares: by one record more or less.

Every method of the catalog runs on small data; each kind of query that it puts, on grids, trees and
regions that only a run brings forth, is asked again of rows with and without one record.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from hedgerow.data.reading.encoding import Encoded
from hedgerow.data.rows import Draws, Rows
from hedgerow.data.sums import Answering
from hedgerow.kernels.units import quantize
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.gubler import HistogramTree
from hedgerow.models.losses import Sensitivity
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.queries import (
    LATTICE,
    Binning,
    Cells,
    ClassCounts,
    CurveNewton,
    Fractions,
    LocalSelection,
    SelectQuery,
    SumQuery,
    SurfaceGradients,
    Whole,
    kind_of,
)
from hedgerow.schema.regions import EVERYONE
from hedgerow.schema.schema import Schema
from methods.test_method_contract import CASES, IDS, opened
from support.examples import scores
from support.worlds import TWO, VALUE

RECORDS, CHANGED = 60, 4
"""How many there are, and how many of a query's region are taken away, one at a time."""


class Asked:
    """A federation that keeps one query of each kind and shape, with the unit it is counted in."""

    def __init__(self, inner):
        self.inner, self.queries = inner, {}

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def ask(self, queries):
        for query in queries:
            is_choice = isinstance(query, SelectQuery | LocalSelection)
            shape = query.n_candidates if is_choice else query.shape
            unit = 1 if is_choice else self.inner.study.unit(query)
            self.queries.setdefault((kind_of(query), shape), (query, unit))
        return self.inner.ask(queries)


def asked_by(method, schema: Schema):
    """The queries of a run without noise and of a noisy one, by several sites where it can."""
    several = 1 if method.needs.single_site else 3
    for n_sites, how in ((1, {"dp_model": DPModel.NONE}), (several, {"delta": "1e-6"})):
        asked = Asked(opened(method, schema, n_sites, rows=RECORDS, epsilon="20", **how))
        run(method.flow(asked.study.schema, asked, np.random.default_rng(7)), asked)
        yield from asked.queries.values()


@cache
def kept_by(method, schema: Schema):
    return tuple(asked_by(method, schema))


def adversaries(schema: Schema) -> tuple[np.ndarray, np.ndarray]:
    """Codes and labels or targets: first and last cells, missing ones, ends of the range."""
    rng, last = np.random.default_rng(11), [grid.n_cells - 1 for grid in schema.grids]
    codes = np.stack([rng.integers(0, n + 1, RECORDS) for n in last]).astype(np.uint8)
    codes[:, :2], codes[:, 2:4] = 0, np.array(last)[:, None]
    if schema.classes is not None:
        return codes, (np.arange(RECORDS) % len(schema.classes)).astype(np.uint8)
    low, high = schema.target.low, schema.target.high
    return codes, np.resize([low, high, 0.9 * low + 0.1 * high], RECORDS)


def site(schema: Schema, without: int | None = None) -> Answering:
    codes, y = adversaries(schema)
    kept = np.arange(RECORDS) != without
    encoded = Encoded(
        codes=codes[:, kept].copy(), y=y[kept], persons=None, clamped={}, unknown={}, skipped=0
    )
    return Answering(Rows(encoded, schema, Draws(bytes(32), "test")), schema)


def holds(moved: np.ndarray, bound: Sensitivity) -> bool:
    sizes = [abs(int(v)) for v in moved]
    squares = sum(v * v for v in sizes)
    return sum(sizes) <= bound.l1 and squares <= bound.l2_squared and max(sizes) <= bound.linf


def keeps_its_bound(query, unit: int, whole: Answering, less: Answering) -> bool:
    if isinstance(query, SelectQuery | LocalSelection):
        pairs = zip(*(scores(query, s.rows, s.schema) for s in (whole, less)), strict=True)
        moved = [a - b for a, b in pairs]
        return max(moved) - min(moved) <= query.scoring.reach
    moved = whole.integers(query, unit) - less.integers(query, unit)
    return holds(moved, query.sensitivity(unit))


def meets_the_clamp(query, unit: int, whole: Answering) -> bool:
    """Whether some honest record adds nothing, its own numbers being larger than was declared."""
    if not isinstance(query, SumQuery) or isinstance(
        query.statistic, CurveNewton | SurfaceGradients
    ):
        return False
    if not query.statistic.is_fractional:
        return False
    told = quantize(query.statistic.fractions(whole, unit), unit)
    return not np.array_equal(told, whole.contributions(query.statistic, unit))


def faults(queries, schema: Schema) -> set[str]:
    """What is wrong with some queries, by the name of what they sum."""
    found, whole = set(), site(schema)
    for query, unit in queries:
        kind = kind_of(query)
        name = " ".join(filter(None, (kind.query, kind.what, kind.by)))
        if meets_the_clamp(query, unit, whole):
            found.add(f"{name}: an honest record exceeds what it declares")
        for record in whole.rows.select(query.region)[:CHANGED]:
            if not keeps_its_bound(query, unit, whole, site(schema, record)):
                found.add(f"{name}: one record moves it by more than it declares")
    return found


@pytest.mark.parametrize(("method", "schema"), CASES, ids=IDS)
def test_what_a_recipe_asks_keeps_the_bound_that_it_declares(method, schema):
    queries = kept_by(method, schema)
    assert queries
    assert faults(queries, method.grid(schema)) == set()


@dataclass(frozen=True)
class Tripled(Fractions):
    """Three times what it declares."""

    def fractions(self, records, unit):
        return 3 * super().fractions(records, unit)


def test_a_statistic_that_adds_more_than_it_declares_is_named():
    """Twin: the clamp keeps the guarantee, so it is the lost records that are seen."""
    query = SumQuery(EVERYONE, Tripled(-2.0, 6.0), Whole(), Fraction(1))
    said = faults([(query, LATTICE)], VALUE)
    assert said == {"SumQuery Tripled Whole: an honest record exceeds what it declares"}


def test_a_sum_that_declares_too_little_is_named(monkeypatch):
    """Twin: features treated as parallel."""
    schema = HistogramTree().grid(TWO)
    query = SumQuery(EVERYONE, ClassCounts(2), Cells((0, 1), Binning.of_cells(schema)), Fraction(1))
    monkeypatch.setattr(SumQuery, "sensitivity", lambda self, unit: self.statistic.bound(unit))
    said = faults([(query, LATTICE)], schema)
    assert said == {"SumQuery ClassCounts Cells: one record moves it by more than it declares"}
