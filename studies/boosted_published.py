"""Tables 3 and 9 to 12 by the paper's methods as published, beside the authors' own program.

Columns as its loader reads them: of Adult and Bank every column is the rank of its value. Noise as
the paper adds it at an epsilon, which has the smaller epsilon of `accountant.py` here.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

from hedgerow.methods.maddock import (
    PUBLISHED,
    PUBLISHED_SPLITS,
    ComponentBoostingClassifier,
)
from studies import authors, datasets
from studies.boosted_fits import (
    BATCHES,
    CANDIDATES,
    CLOSE,
    DATASETS,
    FIGURE_SET,
    FIRST_SPLIT,
    NAMED,
    RANKED_SETS,
    RANKS,
    RUNS,
    SPLITS,
    TEST_PART,
    WEIGHT_TABLES,
    at_the_papers_noise,
    batched,
    components,
    in_turns,
    measures,
    named,
    options,
    placed,
    weight_updates,
)
from studies.claims import HOLDS, NOT_RUN, Claim, Lead
from studies.harness import Cell
from studies.pages import markdown_table

IntArray = NDArray[np.int64]
NEWTON, SMALL, USUAL = 1, 0.1, 1.0
"""A batch of one tree; the paper's epsilons of Table 5, and of most figures."""
RANKED_COLUMNS = ("adult", "bank")
"""Sets that the authors' loader reads as ranks of values."""
ERRORS = 2.0
"""Standard errors within which two programs are taken to agree."""
LEAST = 3
"""Splits of each below which a cell is not compared."""


@lru_cache(maxsize=4)
def loaded(name: str) -> datasets.Dataset:
    known = datasets.load(name, datasets.folder(None))
    if name not in RANKED_COLUMNS:
        return known
    ranks = known.X.apply(lambda c: c.fillna("?").rank(method="dense").astype(int) - 1)
    return datasets.of_frame(name, ranks, known.y, regression=False)


def work(dataset: str, learner: str, epsilon: float, split: int) -> dict[str, float]:
    """One fit on 70 % of the rows, at the noise that the paper has for its epsilon."""
    known, train, test = divided(dataset, split)
    run = at_the_papers_noise(epsilon, len(train))
    model = estimator(known, learner, epsilon=run, delta=1.0 / len(train), random_state=split)
    began = time.process_time()
    model.fit(known.X.iloc[train], known.y[train])
    seconds = time.process_time() - began
    positive = model.predict_proba(known.X.iloc[test])[:, 1]
    hit = known.y[test] == (known.schema.classes or ())[1]
    auc = measures(hit.astype(float), positive)["auc"]
    return {"auc": round(auc, 6), "seconds": round(seconds, 3)}


def estimator(known: datasets.Dataset, learner: str, **more: float) -> ComponentBoostingClassifier:
    """What a text of `boosted_fits` spells, with every repair of ours off."""
    given = {**options(learner), **more}
    name = given.pop("method")
    if name in NAMED:
        return NAMED[name](known.schema, **given)
    given |= PUBLISHED if given.get("update", "newton") == "newton" else LEAVES_ALONE
    given |= {} if given.get("split", "totally_random") == "totally_random" else PUBLISHED_SPLITS
    given |= PUBLISHED_COST if given.get("candidates") == "iterative_hessian" else {}
    return ComponentBoostingClassifier(known.schema, **given)


LEAVES_ALONE = {"leaf_values": "published"}
PUBLISHED_COST = {"hessian_cost": "published"}

MADE, MADE_FEATURES, MADE_TEST = "made, ", 30, 10_000
"""Figure 20 (b): so many records that scikit-learn makes, the columns that the paper names, and
records to test on."""


@lru_cache(maxsize=1)
def made() -> datasets.Dataset:
    """One draw of `make_classification`; without privacy a thousand records reach .95, as there."""
    from sklearn.datasets import make_classification

    X, y = make_classification(max(MADE_ROWS) + MADE_TEST, MADE_FEATURES, random_state=0)
    frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(MADE_FEATURES)])
    return datasets.of_frame(MADE, frame, y.astype(str), regression=False)


def divided(dataset: str, split: int) -> tuple[datasets.Dataset, IntArray, IntArray]:
    """Records, those to train on and those to test on."""
    if dataset.startswith(MADE):
        rows = np.random.default_rng(split).permutation(max(MADE_ROWS) + MADE_TEST)
        n = int(dataset.removeprefix(MADE))
        return made(), rows[MADE_TEST : MADE_TEST + n], rows[:MADE_TEST]
    known = loaded(dataset)
    train, test = train_test_split(
        np.arange(len(known.y)), test_size=TEST_PART, random_state=split, stratify=known.y
    )
    return known, train, test


def cells(splits: int) -> Iterator[Cell]:
    """Each once, the most decisive first."""
    seen = set[tuple[Any, ...]]()
    for dataset, learner, epsilon, count in _wanted():
        for split in range(FIRST_SPLIT, FIRST_SPLIT + min(count, splits)):
            key = (dataset, learner, epsilon, split)
            if key not in seen:
                seen.add(key)
                yield dict(zip(("dataset", "learner", "epsilon", "split"), key, strict=True))


Wanted = tuple[str, str, float, int]
"""Set, method, epsilon, splits."""


def _wanted() -> Iterator[Wanted]:
    for names, part in ((("newton", "averaging"), 11), (("newton", "averaging", "gradient"), RUNS)):
        for epsilon, data, kind, update in product(WEIGHT_TABLES, DATASETS, SPLITS, names):
            yield data, components(kind, update), epsilon, part
        if part != RUNS:
            yield from _of_claims()
    yield from _of_figures()


def _of_claims() -> Iterator[Wanted]:
    """Batches, the last comparison, candidates; then numbers of trees, levels, rounds and bins."""
    one = FIGURE_SET
    for batch, data in product((NEWTON, 20, 50), DATASETS):
        yield data, batched(batch), SMALL, RUNS
    for data, (name, trees) in product((one, *DATASETS), LAST_COMPARED):
        yield data, named(name, trees), USUAL, RUNS if data == one else 8
    for candidates, data in CANDIDATES:
        yield data, placed(candidates), USUAL, 10
    for depth, kind in product((2, 4, 6), SPLITS):
        yield one, components(kind, "newton", depth=depth), USUAL, 10
    for rounds, epsilon in product((5, 30), (SMALL, USUAL)):
        yield one, placed("iterative_hessian", rounds=rounds), epsilon, 10
    for bins, candidates in product((32, 128), ("uniform", "iterative_hessian")):
        yield one, placed(candidates, bins=bins), USUAL, RUNS
    for width in (1, None):
        yield one, in_turns(width, "newton", 25), USUAL, 10
    for kind in SPLITS[:2]:
        for trees in (10, 25, 50, 100, 300):
            yield one, components(kind, "newton", trees), USUAL, 5
    for trees in (25, 50, 100, 200, 300):
        yield one, components(SPLITS[2], "newton", trees), USUAL, 5
    for n, bins, candidates in product(MADE_ROWS, (32, 8), ("uniform", "iterative_hessian")):
        yield f"{MADE}{n}", placed(candidates, bins=bins), USUAL, 5


LAST_COMPARED = (
    ("DP-TR Newton IH", 200),
    ("DP-TR Batch IH EBM p=0.25", 200),
    ("DP-TR Batch IH EBM p=1", 200),
    ("DP-EBM Newton", 100),
    ("DP-EBM", 100),
    ("DP-TR Newton", 200),
    ("DP-RF", 200),
)
"""Methods of section 6.6 and Figures 5 and 15 to 18, with their trees."""
MADE_ROWS = (1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 200_000, 200, 70)


def _of_figures() -> Iterator[Wanted]:
    """What is left of whole grids: batches, bins, levels, trees, ranks."""
    for (batch, data), epsilon in product(BATCHES, (SMALL, USUAL)):
        yield data, batched(batch), epsilon, 5
    for bins, candidates, data in product((2, 4, 8, 16, 64), CANDIDATES_OF_BINS, DATASETS):
        yield data, placed(candidates, bins=bins), USUAL, 3
    for depth, kind in product((3, 5), SPLITS):
        yield FIGURE_SET, components(kind, "newton", depth=depth), USUAL, 5
    for data, name, epsilon in product(RANKED_SETS, RANKS, (SMALL, 0.5, USUAL)):
        yield data, named(name), epsilon, 3
    for n, bins, candidates in product(MADE_ROWS, MADE_BINS, ("uniform", "iterative_hessian")):
        yield f"{MADE}{n}", placed(candidates, bins=bins), USUAL, 3


CANDIDATES_OF_BINS = ("iterative_hessian", "quantile", "log", "uniform")
MADE_BINS = (2, 4, 8, 16, 32, 64, 128)


# ----------------------------------------------------------------------------------- comparisons
class Published:
    """The rows of the table by cell."""

    def __init__(self, table: pd.DataFrame) -> None:
        keys = ["dataset", "learner", "epsilon"]
        groups = table.groupby(keys) if len(table) else ()
        self._cells = {key: part.set_index("split")["auc"] for key, part in groups}

    def aucs(self, dataset: str, learner: str, epsilon: float) -> pd.Series:
        return self._cells.get((dataset, learner, epsilon), pd.Series(dtype=float))

    def beside_the_program(self) -> Iterator[CellBeside]:
        for epsilon, data, kind, update in product(WEIGHT_TABLES, DATASETS, SPLITS, UPDATES_RUN):
            mine = self.aucs(data, components(kind, update), epsilon)
            theirs = authors.aucs(data, kind, update, epsilon)
            if min(len(mine), len(theirs)) >= LEAST:
                yield CellBeside(data, kind, update, epsilon, mine, theirs)


UPDATES_RUN = ("newton", "averaging", "gradient")


@dataclass(frozen=True)
class CellBeside:
    """A cell of Tables 3 and 9 to 12: our splits, and those of the authors' program."""

    data: str
    kind: str
    update: str
    epsilon: float
    mine: pd.Series
    theirs: pd.Series

    @property
    def gap(self) -> Lead:
        """Ours less theirs; the deviation of both together, for theirs has few splits."""
        parts = (self.mine, self.theirs)
        squares = sum(float(((part - part.mean()) ** 2).sum()) for part in parts)
        deviation = math.sqrt(squares / (len(self.mine) + len(self.theirs) - 2))
        error = deviation * math.sqrt(sum(1.0 / len(part) for part in parts))
        return Lead(float(self.mine.mean() - self.theirs.mean()), error, len(self.mine), "splits")

    @property
    def agrees(self) -> bool:
        return abs(self.gap.mean) <= max(CLOSE, ERRORS * self.gap.error)

    @property
    def chance(self) -> float:
        """Of being further away although both programs do the same."""
        from scipy import stats

        gap = self.gap
        freedom = len(self.mine) + len(self.theirs) - 2
        return float(2.0 * stats.t.sf(max(CLOSE / gap.error, ERRORS), freedom))

    def row(self) -> dict[str, str]:
        paper = weight_updates(self.epsilon)[self.kind, self.update, self.data]
        return {
            "table": str(WEIGHT_TABLES[self.epsilon]),
            "epsilon": f"{self.epsilon:g}",
            "splits": self.kind.replace("_", " "),
            "update": self.update,
            "data": DATASETS[self.data],
            "paper": f"{paper[0]:.4f} ({paper[1]:.4f})",
            "authors' program": f"{self.theirs.mean():.4f} ({len(self.theirs)})",
            "ours as published": f"{self.mine.mean():.4f} ({len(self.mine)})",
            "ours less program": f"{self.gap.mean:+.4f} ± {self.gap.error:.4f}",
            "agrees": "yes" if self.agrees else "no",
        }


def agreement(published: Published) -> Claim:
    cells = list(published.beside_the_program())
    near = sum(cell.agrees for cell in cells)
    places = {}
    for kind, update in product(SPLITS, UPDATES_RUN):
        gaps = [c.gap.mean for c in cells if (c.kind, c.update) == (kind, update)]
        if len(gaps) > 1:
            error = float(np.std(gaps, ddof=1)) / math.sqrt(len(gaps))
            name = f"{kind.replace('_', ' ')}, {update}"
            places[name] = Lead(float(np.mean(gaps)), error, len(gaps), "cells")
    verdict = HOLDS if near == len(cells) else f"{near} of {len(cells)} cells"
    return Claim(
        f"Ours equals the authors' program ({CLOSE:g}, or {ERRORS:g} errors)",
        "Tables 3 and 9 to 12",
        {"": verdict if cells else NOT_RUN},
        f"{len(cells) - near} cells are further away; if both did the same, chance alone would put "
        f"{sum(c.chance for c in cells):.1f} there; "
        + "; ".join(f"{name}: {gap.shown(4)}" for name, gap in places.items()),
        leads=places,
    )


def section(published: Published) -> str:
    rows = [cell.row() for cell in published.beside_the_program()]
    if not rows:
        return ""
    return (
        "## Tables 3 and 9 to 12 as published, beside the authors' program\n\n"
        f"Test AUC, mean (splits). Every repair of ours is off (docs/papers.md), noise is as large "
        "as the paper's, and columns are read as its loader does. The program: "
        f"`{authors.PROGRAMS['maddock']}`; of it: {authors.DIFFERS['maddock']}.\n\n"
        + markdown_table(pd.DataFrame(rows))
    )
