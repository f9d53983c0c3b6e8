"""The paper's printed methods beside its printed cells, and its batches by both rules of leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import pandas as pd

from studies.boosted.accountant import at_the_papers_noise
from studies.boosted.cells import DASH, Cells, shown
from studies.boosted.learners import LEAVES, PUBLISHED, RANDOM_TREES, batched, components
from studies.boosted.paper import (
    BATCHES,
    CLOSE,
    DATASETS,
    JUDGED_EPSILONS,
    JUDGED_SETS,
    TRAINING_ROWS,
    WEIGHT_TABLES,
    weight_updates,
)
from studies.claims import Lead, lead
from studies.measures import CONFIDENCE, student
from studies.pages import markdown_table

NEWTON, BEST_BATCH = 1, 20
"""Trees of a batch: none beside another, and the paper's best."""
SMALL = 0.1
"""Epsilon of the paper's Table 5."""


@dataclass(frozen=True)
class PrintedCell:
    """A cell of the paper and our splits of it, with printed leaves."""

    data: str
    epsilon: float
    run: float
    """Our epsilon: the paper's, or that of its noise."""
    paper: float
    deviation: float
    aucs: pd.Series

    @property
    def gap(self) -> Lead:
        return lead(self.aucs - self.paper)

    @property
    def verdict(self) -> str:
        if self.is_near:
            return "yes"
        return "off" if self.is_clearly_off else "no, within scatter"

    @property
    def is_near(self) -> bool:
        return abs(self.gap.mean) <= CLOSE

    @property
    def is_clearly_off(self) -> bool:
        """Even the near end of the interval of our mean is further away than what is allowed."""
        gap = self.gap
        return gap.n > 1 and abs(gap.mean) - student(gap.n) * gap.error > CLOSE


def printed_cells(cells: Cells, *, papers_noise: bool) -> Iterator[PrintedCell]:
    """Newton steps in totally random trees, those that were run, at its epsilon or its noise."""
    learner = components("totally_random", "newton")
    for epsilon, name in product(JUDGED_EPSILONS, JUDGED_SETS):
        run = at_the_papers_noise(epsilon, TRAINING_ROWS[name]) if papers_noise else epsilon
        aucs = cells.aucs(name, learner, run)
        if len(aucs):
            paper = weight_updates(epsilon)["totally_random", "newton", name]
            yield PrintedCell(name, epsilon, run, *paper, aucs)


def section(cells: Cells) -> str:
    tables = " and ".join(str(WEIGHT_TABLES[e]) for e in JUDGED_EPSILONS)
    same, louder = (list(printed_cells(cells, papers_noise=p)) for p in (False, True))
    if not same:
        return f"## The printed cells of Tables {tables}\n\nNot run.\n"
    return f"""## The printed cells of Tables {tables}

Newton steps in {RANDOM_TREES} totally random trees with printed leaves: our AUC, mean (sample
deviation), beside the paper's. Near is a mean within {CLOSE:g} of the paper's. Noise scatters
single fits by far more than that, so a difference has its standard error, and a cell is off where
even the near end of its interval at {CONFIDENCE:.0%} is further away.

The paper accounts by Renyi divergences, which cost more than the exact account here: at one epsilon
it adds about a tenth more noise. So each cell is judged twice: at the paper's epsilon, and at the
paper's noise (`studies/boosted/accountant.py`), which has the smaller epsilon that is named. At its
epsilon {_counted(same)}; at its noise {_counted(louder)}. Rows: {_codes(cells)}.

{markdown_table(pd.DataFrame([*map(_row, same), *map(_row, louder)]))}

Batches of {BEST_BATCH} trees against Newton steps tree by tree (Table 5, epsilon {SMALL:g}), by
both rules of leaves, on the splits that both have:

{markdown_table(pd.DataFrame(list(_batches(cells))))}
"""


def _counted(found: list[PrintedCell]) -> str:
    near, off = sum(c.is_near for c in found), sum(c.is_clearly_off for c in found)
    return f"{near} of {len(found)} are near and {off} off"


def _row(cell: PrintedCell) -> dict[str, str]:
    return {
        "data": DATASETS[cell.data],
        "epsilon of the paper": f"{cell.epsilon:g}",
        "ours has": "the paper's epsilon" if cell.run == cell.epsilon else f"its noise, {cell.run}",
        "paper": f"{shown(cell.paper)} ({shown(cell.deviation)})",
        "ours": f"{shown(float(cell.aucs.mean()))} ({shown(float(cell.aucs.std(ddof=1)))})",
        "splits": str(len(cell.aucs)),
        "ours less paper": f"{cell.gap.mean:+.4f} ± {cell.gap.error:.4f}",
        "near": cell.verdict,
    }


def _batches(cells: Cells) -> Iterator[dict[str, str]]:
    for name, leaves in product(JUDGED_SETS, LEAVES):
        many, one = batched(BEST_BATCH, leaves), batched(NEWTON, leaves)
        gap = lead(cells.aucs(name, many, SMALL) - cells.aucs(name, one, SMALL))
        papers = BATCHES[BEST_BATCH, name][0] - BATCHES[NEWTON, name][0]
        yield {
            "data": DATASETS[name],
            "leaves": leaves,
            "Newton": cells.with_deviation(name, one, SMALL),
            f"batches of {BEST_BATCH}": cells.with_deviation(name, many, SMALL),
            "batches less Newton": gap.shown(4),
            "batches beat Newton": gap.verdict,
            "paper's difference": f"{papers:+.4f}" if leaves == PUBLISHED else DASH,
        }


def _codes(cells: Cells) -> str:
    """Which code made the rows of these two tables."""
    table = cells.table[(cells.table["n_sites"] == 1) & cells.table["dataset"].isin(JUDGED_SETS)]
    batches = {batched(b, leaves) for b, leaves in product((NEWTON, BEST_BATCH), LEAVES)}
    newton = components("totally_random", "newton")
    epsilons = {*JUDGED_EPSILONS, *_louder()}
    rows = table[
        (table["learner"].isin(batches) & (table["epsilon"] == SMALL))
        | ((table["learner"] == newton) & table["epsilon"].isin(epsilons))
    ]
    if "code" not in rows:
        return f"{len(rows)}"
    counted = rows["code"].value_counts()
    return ", ".join(f"{n} by code `{code}`" for code, n in counted.items())


def _louder() -> set[float]:
    return {
        at_the_papers_noise(epsilon, rows)
        for epsilon, rows in product(JUDGED_EPSILONS, TRAINING_ROWS.values())
    }
