"""What fitted models tell about one record, measured from outside: fit, look, tell apart.

Two data sets differ in one record, the canary. Many models are fitted on each. On half of the fits
the question is chosen that tells the two best apart (is this predicted probability above that?);
on the other half the answers are counted. Clopper and Pearson's intervals on the two frequencies
give a lower bound of epsilon: the loss is at least that, or the counts were a rare accident.

`python -m audit.black_box` (with tests and src on the path) prints the whole table.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np
from scipy.stats import beta

import hedgerow as hr
from hedgerow.errors import PrivacyWarning

EPSILON: Final = 0.5
ERROR: Final = 1e-6
"""Of the whole audit: so rarely may a sound claim be called broken."""

SHOWN_ERROR: Final = 0.05
THRESHOLDS: Final = 24

SCHEMA: Final = hr.Schema(
    (
        hr.Numeric("age", 0.0, 100.0, bins=4),
        hr.Numeric("dose", 0.0, 1.0, bins=3),
        hr.Categorical("ward", ("north", "south")),
    ),
    classes=("no", "yes", "rare"),
)
ROWS: Final = [([20.0, 0.2, "north"], "no"), ([80.0, 0.8, "south"], "yes")] * 4
CANARIES: Final = {
    "out of range": ([1e9, -5.0, "north"], "no"),
    "all missing": ([np.nan, np.nan, None], "yes"),
    "unknown category": ([20.0, 0.2, "elsewhere"], "no"),
    "rare class": ([80.0, 0.8, "south"], "rare"),
}
ESTIMATORS: Final[dict[type, dict[str, Any]]] = {
    hr.HistogramTreeClassifier: {"max_depth": 1},
    hr.TopDownTreeClassifier: {"max_splits": 1},
    hr.ForestClassifier: {"n_trees": 2, "max_depth": 1},
    hr.TreeClassifier: {"max_depth": 1},
    hr.BoostedTreesClassifier: {},
    hr.MedianForestClassifier: {"n_trees": 1, "max_depth": 1},
    hr.ExtraTreesClassifier: {"n_trees": 1, "max_depth": 1},
}
HOLDERS: Final = {"curator": 1, "shares": 3, "silo": 2, "label": 2}
NEVER_BY_LABEL: Final = (hr.BoostedTreesClassifier, hr.MedianForestClassifier)
"""They need sums that randomised labels do not answer, and refuse."""

PAIRS: Final = [
    (kind, placement)
    for kind in ESTIMATORS
    for placement in HOLDERS
    if placement != "label" or kind not in NEVER_BY_LABEL
]
FITS: Final = {"curator": 240, "shares": 120, "silo": 120, "label": 120}
"""On each side: fits of several holders take longer."""

CELLS: Final = len(PAIRS) * len(CANARIES)

Record = tuple[list[Any], str]


@dataclass(frozen=True, slots=True)
class Cell:
    """One estimator, placement and canary, and how much was measured."""

    what: str
    shown: float  # the bound at 95 %
    at_least: float  # the bound that fails with ERROR / CELLS only

    def __str__(self) -> str:
        return f"{self.what:58} {self.shown:5.2f} {self.at_least:5.2f}"


def cells(kind: type, placement: str, fits: int | None = None) -> Iterator[Cell]:
    """The cells of a pair. Data without a canary are fitted once for all of them."""
    runs = fits or FITS[placement]
    plain = outcomes(kind, placement, ROWS, runs)
    for name, canary in CANARIES.items():
        if placement == "label":
            plain = outcomes(kind, placement, [*ROWS, other(canary)], runs)
        second = outcomes(kind, placement, [*ROWS, canary], runs)
        yield measured(f"{kind.__name__}, {placement}, {name}", plain, second)


def other(canary: Record) -> Record:
    """Where labels alone are protected, neighbours have the same record with another label."""
    return canary[0], "yes" if canary[1] == "no" else "no"


def measured(
    what: str, first: np.ndarray, second: np.ndarray, error: float = ERROR / CELLS
) -> Cell:
    """Asks on the second half of the fits what the first half says is best asked."""
    half = len(first) // 2
    question = best_question(first[:half], second[:half])
    counts = question.counts(first[half:], second[half:])
    shown, at_least = (float(lower(*counts, len(first) - half, e)) for e in (SHOWN_ERROR, error))
    return Cell(what, shown, at_least)


# ------------------------------------------------------------------------------------------- fits
def outcomes(
    kind: type, placement: str, records: list[Record], runs: int, **options: Any
) -> np.ndarray:
    """(runs, ...) what each of so many fits says at every canary and every ordinary row."""
    X = np.array([row for row, _ in records], dtype=object)
    y = np.array([label for _, label in records], dtype=object)
    return np.array([_seen(_fitted(kind, placement, X, y, options)) for _ in range(runs)])


def _fitted(
    kind: type, placement: str, X: np.ndarray, y: np.ndarray, options: dict[str, Any]
) -> Any:
    """Public draws are the same in every fit, so that all that differs is secret."""
    usual = {"epsilon": EPSILON, "placement": placement, "random_state": 0}
    model = kind(SCHEMA, **{**usual, **ESTIMATORS[kind], **options})
    holders = HOLDERS[placement]
    if holders == 1:
        return model.fit(X, y)
    return model.fit(X, y, party=np.arange(len(y)) % holders, parties=list(range(holders)))


def _seen(model: Any) -> np.ndarray:
    """Predictions, and the tests of the first tree: all a stranger needs of a small model."""
    places = [row for row, _ in (*ROWS[:2], *CANARIES.values())]
    told = model.predict_proba(np.array(places, dtype=object)).ravel()
    trees = model.model_.score.trees
    tests = np.asarray(trees[0].feature[:1] if trees else [], np.float64)
    return np.concatenate([told, tests if len(tests) else [-1.0]])


# ------------------------------------------------------------------------------------- questions
@dataclass(frozen=True, slots=True)
class Question:
    """Is this number of a fit above that threshold (or not), and on which side more often?"""

    place: int
    threshold: float
    above: bool
    swapped: bool

    def counts(self, first: np.ndarray, second: np.ndarray) -> tuple[int, int]:
        """How often the answer is yes on the side where it should be, and on the other."""
        sides = (second, first) if self.swapped else (first, second)
        many, few = (((fits[:, self.place] > self.threshold) == self.above).sum() for fits in sides)
        return int(many), int(few)


def best_question(first: np.ndarray, second: np.ndarray) -> Question:
    """Of all thresholds of all numbers, the one with the largest bound on these fits."""
    asked = list(_questions(np.concatenate([first, second])))
    counts = np.array([question.counts(first, second) for question in asked])
    bounds = lower(counts[:, 0], counts[:, 1], len(first), SHOWN_ERROR)
    return asked[int(np.argmax(bounds))]


def _questions(fits: np.ndarray) -> Iterator[Question]:
    steps = np.linspace(0.0, 1.0, THRESHOLDS + 2)[:-1]
    for place in range(fits.shape[1]):
        for threshold in np.unique(np.quantile(fits[:, place], steps)):
            for above, swapped in product((False, True), repeat=2):
                yield Question(place, float(threshold), above, swapped)


def lower(many: Any, few: Any, n: int, error: float) -> Any:
    """A bound below epsilon from an event's counts on two sides of n fits each.

    Wrong with probability `error` at most: both frequencies have an interval of half that.
    delta is far below what so many fits could show, so it is left out.
    """
    many, few = np.asarray(many, np.float64), np.asarray(few, np.float64)
    with np.errstate(all="ignore"):
        least = np.where(many > 0, beta.ppf(error / 2, many, n - many + 1), 0.0)
        most = np.where(few < n, beta.ppf(1.0 - error / 2, few + 1, n - few), 1.0)
        return np.maximum(np.log(least / most), 0.0)


def main() -> None:
    warnings.simplefilter("ignore", PrivacyWarning)
    print(f"claimed: epsilon {EPSILON}; measured, at 95 % and at {ERROR:g} for all cells together")
    for kind, placement in PAIRS:
        for cell in cells(kind, placement):
            print(cell, flush=True)


if __name__ == "__main__":
    main()
