"""What coordinator and site processes of `bench_network` both know."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from hedgerow.data.reading.encoding import Encoded
from hedgerow.data.rows import Rows, public_draws
from hedgerow.methods.boosting_classes import BoostedTreesClassifier
from hedgerow.methods.method import Method
from hedgerow.methods.training import agree
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.queries import Binning, Cells, ClassCounts, QueryKind, SumQuery
from hedgerow.privacy.study import Study
from hedgerow.schema.regions import EVERYONE
from hedgerow.schema.schema import Numeric, Schema
from hedgerow.secagg.graph import Parameters
from hedgerow.secagg.keys import Identity

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


def boosted_study(n_sites: int, trees_per_round: int | None = None) -> tuple[Study, Method]:
    *sites, own = identities(n_sites)
    keys = {"sites": tuple(one.public for one in sites), "coordinator": own.public}
    name = f"boosted, {trees_per_round or 'default'}"
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
