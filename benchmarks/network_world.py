"""What coordinator and site processes of `bench_network` both know."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from hedgerow.privacy.accounting.budget import Placement
from hedgerow.queries import Binning, Cells, ClassCounts, QueryKind, SumQuery
from hedgerow.secagg.keys import Identity
from hedgerow.secagg.parameters import Parameters
from hedgerow.site.drawing import public_draws
from hedgerow.site.reading.encoding import Encoded
from hedgerow.site.rows import Rows
from hedgerow.study.terms import Study
from hedgerow.values.regions import EVERYONE
from hedgerow.values.schema import Numeric, Schema

MARK = b"echo"
FEATURES, BINS, ROWS = 60, 250, 1_000
SCHEMA = Schema(
    tuple(Numeric(f"x{k}", 0.0, 1.0, bins=BINS) for k in range(FEATURES)), classes=("no", "yes")
)


def identities(parties: int) -> list[Identity]:
    """Of all sites, and of the coordinator: known to everybody, as no real ones are."""
    return [Identity.from_bytes((k + 1).to_bytes(32, "big")) for k in range(parties + 1)]


def study_of(parties: int) -> Study:
    usual = Parameters.default(parties)
    return Study(
        name="bench",
        schema=SCHEMA,
        recipe="bench",
        asks=frozenset({QueryKind("SumQuery", ClassCounts.__name__, Cells.__name__)}),
        epsilon=Fraction(1),
        delta=Fraction(1, 10**6),
        placement=Placement.NOWHERE,
        parties=parties,
        colluders=usual.colluders,
        threshold=usual.threshold,
    )


def rows_of(study: Study, place: int) -> Rows:
    rng = np.random.default_rng(place)
    codes = rng.integers(0, BINS, (FEATURES, ROWS), np.uint8)
    y = rng.integers(0, 2, ROWS).astype(np.uint8)
    encoded = Encoded(codes=codes, y=y, persons=None, clamped={}, unknown={}, skipped=0)
    return Rows(encoded, study.schema, public_draws(0, place))


def bundle_of(integers: int) -> list[SumQuery]:
    """At least so many, in as few queries as that takes."""
    columns = min(FEATURES, -(-integers // (2 * BINS)))
    cells = Cells(tuple(range(columns)), Binning.of_cells(SCHEMA))
    query = SumQuery(EVERYONE, ClassCounts(2), cells, Fraction(1, 1000))
    return [query] * -(-integers // math.prod(query.shape))
