"""`python -m studies boosted`: Maddock et al. 2022, Tables 3-6 and 9-12, Figures 2-5 and 20.

Every cell is a real fit on integers, with the noise of the real pipeline. delta = 1 / n as in the
paper, for comparison only: a study should promise far less.
"""

from __future__ import annotations

import os
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import PrivacyWarning
from hedgerow.privacy.accounting import gaussian
from hedgerow.privacy.accounting.conversions import WEAK_DELTA_WORDS
from studies import datasets
from studies.boosted import page
from studies.boosted.paper import (
    BATCHES,
    CANDIDATES,
    DATASETS,
    RANKS,
    SPLITS,
    UPDATES,
    WEIGHT_TABLES,
)
from studies.boosted.recipes import (
    DEFAULT,
    DEFAULT_SETS,
    EPSILONS,
    EVERY_RECORD,
    FIGURE_SET,
    FIRST_SPLIT,
    LOCAL_BASELINE,
    NAMED,
    SHARES_PARTIES,
    batched,
    components,
    named,
    placed,
)
from studies.harness import Cell, run_grid

ALL_SPLITS = 15  # three repeats of five splits, as in the paper
QUICK_SET, QUICK_EPSILON = "bank", 1.0
TEST_PART = 0.3
SLOW = ("DP-EBM", "DP-GBM", "FEVERLESS (uniform)")  # minutes a split; after all else


def run(
    out: Path,
    data: Path | None = None,
    quick: bool = False,
    workers: int | None = None,
    splits: int = ALL_SPLITS,
) -> None:
    """Runs all cells that are not in the results yet, then writes the page and its figures."""
    os.environ[datasets.FOLDER_VARIABLE] = str(datasets.folder(None if data is None else str(data)))
    print(f"delta = 1 / n, as in the paper. {WEAK_DELTA_WORDS}", file=sys.stderr)
    wanted = quick_cells() if quick else cells(splits)
    table = run_grid("boosted", work, list(wanted), out / "cells.csv", workers)
    options = "--quick" if quick else f"--splits {splits}"
    page.write(table, out, f"python -m studies boosted {options} --data DIR")


# ---------------------------------------------------------------------------------------- cells
def cells(splits: int) -> Iterator[Cell]:
    """Each once, most wanted first; what figures need besides tables is run on the first split."""
    seen = set[tuple[Any, ...]]()
    for cell in _with_repeats(range(FIRST_SPLIT, FIRST_SPLIT + splits)):
        key = tuple(cell.values())
        if key not in seen:
            seen.add(key)
            yield cell


def quick_cells() -> Iterator[Cell]:
    """The same tables from one split of one set, and two points of two figures."""
    for cell in cells(1):
        if cell["dataset"] == QUICK_SET and cell["epsilon"] == QUICK_EPSILON:
            yield cell
    for batch in (1, 0):
        yield _cell(QUICK_SET, batched(batch), 0.1, FIRST_SPLIT)
    points = [components("totally_random", "newton", trees) for trees in (10, 25)]
    points += [named("DP-RF", trees) for trees in (25, 100)]
    for recipe in points:
        yield _cell(FIGURE_SET, recipe, 1.0, FIRST_SPLIT)


def _with_repeats(splits: range) -> Iterator[Cell]:
    for parties in (1, SHARES_PARTIES):
        for split in splits:
            yield from _everywhere(DEFAULT, split, parties)
    for split in splits:
        yield from _weights(split, (0.5, 1.0))
        yield from _candidates_and_batches(split)
        yield from _named(split, [name for name in NAMED if name not in SLOW])
    yield from figures()
    for split in splits:
        yield from _everywhere(LOCAL_BASELINE, split, EVERY_RECORD)
        yield from _weights(split, (0.1, 0.25, 0.75))
        yield from _named(split, SLOW)


def _cell(dataset: str, recipe: str, epsilon: float, split: int, parties: int = 1) -> Cell:
    return {
        "dataset": dataset,
        "recipe": recipe,
        "epsilon": epsilon,
        "parties": parties,
        "split": split,
    }


def _everywhere(recipe: str, split: int, parties: int = 1) -> Iterator[Cell]:
    for dataset in DEFAULT_SETS:
        for epsilon in EPSILONS:
            yield _cell(dataset, recipe, epsilon, split, parties)


def _named(split: int, names: Sequence[str]) -> Iterator[Cell]:
    for name in names:
        yield from _everywhere(named(name, 100), split)


def _weights(split: int, epsilons: Sequence[float]) -> Iterator[Cell]:
    for epsilon in epsilons:
        for dataset in DATASETS:
            for kind in SPLITS:
                for update in UPDATES:
                    yield _cell(dataset, components(kind, update), epsilon, split)


def _candidates_and_batches(split: int) -> Iterator[Cell]:
    for candidates, dataset in CANDIDATES:
        yield _cell(dataset, placed(candidates), 1.0, split)
    for batch, dataset in BATCHES:
        yield _cell(dataset, batched(batch), 0.1, split)


def figures() -> Iterator[Cell]:
    """Figures 2 to 5 on Credit 1; Figure 20 reads bytes and seconds of the same fits."""
    recipes = [(1.0, components(s, "newton", t)) for s in SPLITS for t in (10, 25, 50, 100)]
    recipes += [(1.0, components("totally_random", "newton", t)) for t in (200, 300)]
    recipes += [(1.0, components(s, "newton", depth=d)) for s in SPLITS for d in (2, 3, 4, 5, 6)]
    recipes += [(e, components(s, "newton", depth=3)) for s in SPLITS for e in WEIGHT_TABLES]
    recipes += [
        (e, placed("iterative_hessian", rounds=s)) for s in (5, 10, 20, 30) for e in EPSILONS
    ]
    kinds = ("iterative_hessian", "quantile", "log", "uniform")
    recipes += [(1.0, placed(k, trees=t)) for k in kinds for t in (100, 200, 300)]
    recipes += [(1.0, placed(k, bins=q)) for k in kinds for q in (2, 4, 8, 16, 32, 64, 128)]
    recipes += [(e, batched(b)) for b in (1, 10, 20, 50, 100, 200, 0) for e in (0.1, 0.5, 1.0)]
    recipes += [(1.0, named(n, t)) for n in RANKS if n != "DP-EBM" for t in (25, 100, 200)]
    recipes += [(1.0, named("DP-EBM", t)) for t in (25, 100)]
    for epsilon, recipe in recipes:
        yield _cell(FIGURE_SET, recipe, epsilon, FIRST_SPLIT)
    for trees in (25, 100, 200):
        yield _cell(FIGURE_SET, named("DP-TR Newton", trees), 1.0, FIRST_SPLIT, EVERY_RECORD)


# ----------------------------------------------------------------------------------------- work
def options(recipe: str) -> dict[str, Any]:
    """The estimator parameters that a text like `a=1;b=x` spells."""
    pairs = [part.split("=", 1) for part in recipe.split(";")]
    return {key: int(value) if value.isdigit() else value for key, value in pairs}


@lru_cache(maxsize=8)
def loaded(dataset: str) -> datasets.Dataset:
    return datasets.load(dataset, datasets.folder(None))


def work(dataset: str, recipe: str, epsilon: float, parties: int, split: int) -> dict[str, float]:
    """One fit on 70 % of the rows, measured on the rest."""
    from sklearn.model_selection import train_test_split

    from hedgerow.estimators.boosted_trees import BoostedTreesClassifier

    known = loaded(dataset)
    train, test = train_test_split(
        np.arange(len(known.y)), test_size=TEST_PART, random_state=split, stratify=known.y
    )
    model = BoostedTreesClassifier(
        known.schema, delta=1.0 / len(train), random_state=split, **options(recipe)
    ).set_params(**promise(epsilon, parties, len(train)))
    sites = SHARES_PARTIES if parties == EVERY_RECORD else parties
    party = None if sites == 1 else np.random.default_rng(split).integers(sites, size=len(train))
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # of delta: said once, by `run`
        model.fit(known.X.iloc[train], known.y[train], party=party)
    seconds = time.process_time() - began
    positive = model.predict_proba(known.X.iloc[test])[:, 1]
    hit = known.y[test] == (known.schema.classes or ())[1]
    cost = {
        "seconds": seconds,
        "rounds": float(len(model.run_.rounds)),
        "bytes": float(model.run_.bytes_per_party),
    }
    return {**measures(hit.astype(float), positive), **cost}


def promise(epsilon: float, parties: int, records: int) -> dict[str, Any]:
    """Epsilon and where noise is added.

    If every record adds noise of its own, a few sites stand for all of them: variances of Gaussian
    noise add up, so a site's mu^2 is divided by the number of its records.
    """
    if parties != EVERY_RECORD:
        return {"epsilon": epsilon}
    delta = Fraction(1, records)
    mu_squared = gaussian.mu_squared_within(Fraction(epsilon), delta) * SHARES_PARTIES / records
    return {"epsilon": float(gaussian.epsilon_at(mu_squared, delta)), "placement": "silo"}


def measures(hit: NDArray[np.float64], positive: NDArray[np.float64]) -> dict[str, float]:
    from sklearn.metrics import log_loss, roc_auc_score

    return {
        "auc": float(roc_auc_score(hit, positive)),
        "log_loss": float(log_loss(hit, positive, labels=[0, 1])),
        "accuracy": float(((positive > 0.5) == hit).mean()),
        "calibration_error": calibration_error(hit, positive),
    }


def calibration_error(hit: NDArray[np.float64], positive: NDArray[np.float64]) -> float:
    """Expected calibration error over ten bins of equal width."""
    bins = np.minimum((positive * 10).astype(int), 9)
    gaps = [abs(float((hit - positive)[bins == b].sum())) for b in range(10)]
    return sum(gaps) / len(hit)
