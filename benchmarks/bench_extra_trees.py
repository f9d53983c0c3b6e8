"""20 extra-trees of depth 20 on message and credit_default: 2 and 9 sites in one process.

Needs the data folder: HEDGEROW_DATA=DIR python -m benchmarks.run extra_trees
Nothing is left out: encoding rows, masked sums, all trees fully grown. Rounds and bytes of one
site are part of a line's name.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pandas as pd

import hedgerow as hr
from benchmarks.timing import Row, named, race
from studies import datasets

TREES, DEPTH = 20, 20
SITES = (2, 9)
ROUNDS = 1


def rows() -> list[Row]:
    return [row for name in ("message", "credit_default") for row in _rows(name)]


def _rows(name: str) -> list[Row]:
    from sklearn.ensemble import ExtraTreesClassifier

    data = datasets.load(name, datasets.folder(None))
    numbers = pd.get_dummies(data.X).to_numpy(np.float64)
    pooled = ExtraTreesClassifier(TREES, max_depth=DEPTH, random_state=0)
    fits = {sites: partial(fit, data, sites) for sites in SITES}
    sizes = {sites: work().run_ for sites, work in fits.items()}
    best = race(
        {**{str(k): v for k, v in fits.items()}, "sklearn": lambda: pooled.fit(numbers, data.y)},
        ROUNDS,
    )
    return [
        Row(
            work=f"{TREES} extra-trees of depth {DEPTH}, {name}, {sites} sites: "
            f"{len(run.rounds)} rounds, {run.bytes_per_site / 1e6:.0f} MB a site",
            seconds=best[str(sites)],
            reference=named("scikit-learn", "ExtraTreesClassifier, pooled rows"),
            reference_seconds=best["sklearn"],
        )
        for sites, run in sizes.items()
    ]


def fit(data: datasets.Dataset, sites: int) -> hr.ExtraTreesClassifier:
    model = hr.ExtraTreesClassifier(
        data.schema, n_estimators=TREES, max_depth=DEPTH, dp_model="none", random_state=0
    )
    return model.fit(data.X, data.y, site=np.arange(len(data.y)) % sites)
