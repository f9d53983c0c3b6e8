"""What fitted models tell about records, measured from outside: fit, look, guess.

Some records, the canaries, are put in by fair coins, each of a class of its own, so that a guess
about one is not disturbed by the others. Many models are fitted with fresh coins. A canary is
guessed to be in where the model thinks its class likelier than it mostly does; only the plainest
cases are guessed. More right guesses than epsilon and delta allow refute them (Steinke, Nasr and
Jagielski 2023, Theorem 5.2: a coin touches one fit only, so all fits together are one run).

`python -m support.black_box` (with tests and src on the path) writes black_box.csv to
studies/work/audit; `python -m studies keep audit` puts it into the archive of which
`python -m docs.make_pages tables` makes the table of docs/audit.md.
"""

from __future__ import annotations

import csv
import time
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np

import hedgerow as hr
from hedgerow.audit.choices import epsilon_at_least
from hedgerow.errors import PrivacyWarning
from studies.kept import WORK

EPSILON: Final = 2.0
ERROR: Final = 1e-6
"""Of the whole audit: so rarely may a sound claim be called broken."""

SHOWN_ERROR: Final = 0.05
GUESSED: Final = 0.6
"""Of all canaries: the rest are too near the middle to say."""

CLASSES: Final = tuple(f"class {k:02}" for k in range(16))
SCHEMA: Final = hr.Schema(
    (
        hr.Numeric("age", 0.0, 100.0, bins=4),
        hr.Numeric("dose", 0.0, 1.0, bins=3),
        hr.Categorical("ward", ("north", "south")),
    ),
    classes=CLASSES,
)
RESULTS: Final = WORK / "audit" / "black_box.csv"


@dataclass(frozen=True, slots=True)
class Canary:
    """What all records of a fit look like. Splits tell them apart nowhere, so one leaf has all."""

    features: list[Any]
    company: int = 20  # records of each canary's class that are there in any case
    delta: float = 0.0


ORDINARY: Final = [20.0, 0.2, "north"]
CANARIES: Final = {
    "out of range": Canary([1e9, -5.0, "north"]),
    "all missing": Canary([np.nan, np.nan, None]),
    "unknown category": Canary([20.0, 0.2, "elsewhere"]),
    "rare class": Canary(ORDINARY, company=0),
    "usual delta": Canary(ORDINARY, delta=1e-6),
}
CROWD: Final = 40  # records of the first class, which is no canary's

ESTIMATORS: Final[dict[type, dict[str, Any]]] = {
    hr.HistogramTreeClassifier: {"max_depth": 1, "leaf_fraction": 0.95},
    hr.TopDownTreeClassifier: {"max_splits": 1, "leaf_fraction": 0.95},
    hr.ForestClassifier: {"n_estimators": 1, "max_depth": 1},
    hr.TreeClassifier: {"max_depth": 1},
    hr.BoostedTreesClassifier: {},
    hr.MedianForestClassifier: {"n_estimators": 1, "max_depth": 1, "leaf_fraction": 0.95},
    hr.ExtraTreesClassifier: {"n_estimators": 1, "max_depth": 1, "leaf_fraction": 0.95},
}
"""Small trees with nearly all of the budget in the leaves, which a stranger sees best."""

SITE_ROWS: Final = {"central": 1, "distributed": 3, "per_site": 2, "label": 2}
NEVER_BY_LABEL: Final = (hr.BoostedTreesClassifier, hr.MedianForestClassifier)
"""They need sums that randomized labels do not answer, and refuse."""

PAIRS: Final = [
    (kind, dp_model)
    for kind in ESTIMATORS
    for dp_model in SITE_ROWS
    if dp_model != "label" or kind not in NEVER_BY_LABEL
]
FITS: Final = 80
CELLS: Final = len(PAIRS) * len(CANARIES)


@dataclass(frozen=True, slots=True)
class Cell:
    """One estimator, DP model and canary, and how much was measured."""

    estimator: str
    dp_model: str
    canary: str
    fits: int
    guessed: int
    right: int
    shown: float  # epsilon is at least this, at 95 %
    at_least: float  # and this, but for an accident of ERROR / CELLS


def measured(kind: type, dp_model: str, name: str, fits: int = FITS) -> Cell:
    """So many fits, each with fresh coins."""
    canary, rng = CANARIES[name], np.random.default_rng()
    coins = rng.integers(0, 2, (fits, canaries_of(dp_model))).astype(bool)
    scores = np.array([_scores(kind, dp_model, canary, tossed) for tossed in coins])
    guessed, right = guesses(scores, coins)
    bounds = (
        epsilon_at_least(guessed, right, coins.size, canary.delta, error)
        for error in (SHOWN_ERROR, ERROR / CELLS)
    )
    return Cell(kind.__name__, dp_model, name, fits, guessed, right, *bounds)


def guesses(scores: np.ndarray, coins: np.ndarray) -> tuple[int, int]:
    """How many coins (fits, canaries) are guessed by their scores, and how many rightly.

    A canary's score is held against its mean over all fits: what is usual for its class.
    """
    beyond = (scores - scores.mean(axis=0)).ravel()
    plainest = np.argsort(-np.abs(beyond), kind="stable")[: int(GUESSED * beyond.size)]
    is_right = (beyond > 0) == coins.ravel()
    return len(plainest), int(is_right[plainest].sum())


# ------------------------------------------------------------------------------------------- fits
def canaries_of(dp_model: str) -> int:
    return len(CLASSES) // 2 if dp_model == "label" else len(CLASSES) - 1


def _scores(kind: type, dp_model: str, canary: Canary, coins: np.ndarray) -> np.ndarray:
    """(canaries,) how likely one fitted model thinks what each coin decides."""
    labels = _labels(dp_model, canary, coins)
    model = _fitted(kind, dp_model, canary, labels)
    (told,) = model.predict_proba(_rows(canary, 1))
    return np.asarray(told[1::2] - told[::2] if dp_model == "label" else told[1:])


def _labels(dp_model: str, canary: Canary, coins: np.ndarray) -> list[str]:
    """Labels of all records. A coin puts a canary in, or, by label, gives it one of two labels."""
    if dp_model == "label":
        return [CLASSES[2 * k + int(coin)] for k, coin in enumerate(coins)]
    own = CLASSES[1:]
    company = [CLASSES[0]] * CROWD + [*own] * canary.company
    return company + [label for label, is_in in zip(own, coins, strict=True) if is_in]


def _rows(canary: Canary, n: int) -> np.ndarray:
    return np.array([canary.features] * n, dtype=object)


def _fitted(kind: type, dp_model: str, canary: Canary, labels: list[str]) -> Any:
    """Public draws are the same in every fit, so that all that differs is secret."""
    guarantee = {"epsilon": EPSILON, "delta": canary.delta, "dp_model": dp_model}
    model = kind(SCHEMA, **guarantee, random_state=0, **ESTIMATORS[kind])
    X, y, site_rows = (
        _rows(canary, len(labels)),
        np.array(labels, dtype=object),
        SITE_ROWS[dp_model],
    )
    if site_rows == 1:
        return model.fit(X, y)
    return model.fit(X, y, site=np.arange(len(y)) % site_rows, sites=list(range(site_rows)))


# ------------------------------------------------------------------------------------------ table
def cells() -> Iterator[Cell]:
    for kind, dp_model in PAIRS:
        for name in CANARIES:
            yield measured(kind, dp_model, name)


def main() -> None:
    warnings.simplefilter("ignore", PrivacyWarning)
    start = time.process_time()
    found = []
    for cell in cells():
        found.append(
            asdict(cell) | {"shown": f"{cell.shown:.2f}", "at_least": f"{cell.at_least:.2f}"}
        )
        print(*found[-1].values(), flush=True)
    RESULTS.parent.mkdir(parents=True, exist_ok=True)
    with RESULTS.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, found[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(found)
    print(f"{time.process_time() - start:.0f} CPU seconds")


if __name__ == "__main__":
    main()
