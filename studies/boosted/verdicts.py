"""The paper's printed methods beside its printed cells, and its batches by both rules of leaves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import pandas as pd

from studies.boosted.cells import DASH, Cells, shown
from studies.boosted.paper import (
    BATCHES,
    CLOSE,
    DATASETS,
    JUDGED_EPSILONS,
    JUDGED_SETS,
    WEIGHT_TABLES,
    weight_updates,
)
from studies.boosted.recipes import LEAVES, PRINTED, PULLED, RANDOM_TREES, batched, components
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
    paper: float
    deviation: float
    aucs: pd.Series

    @property
    def gap(self) -> Lead:
        return lead(self.aucs - self.paper)

    @property
    def is_near(self) -> bool:
        return abs(self.gap.mean) <= CLOSE

    @property
    def is_clearly_off(self) -> bool:
        """Even the near end of the interval of our mean is further away than what is allowed."""
        gap = self.gap
        return gap.n > 1 and abs(gap.mean) - student(gap.n) * gap.error > CLOSE


def printed_cells(cells: Cells) -> Iterator[PrintedCell]:
    """Newton steps in totally random trees, those that were run."""
    recipe = components("totally_random", "newton")
    for epsilon, name in product(JUDGED_EPSILONS, JUDGED_SETS):
        aucs = cells.aucs(name, recipe, epsilon)
        if len(aucs):
            paper = weight_updates(epsilon)["totally_random", "newton", name]
            yield PrintedCell(name, epsilon, *paper, aucs)


def section(cells: Cells) -> str:
    found = list(printed_cells(cells))
    tables = " and ".join(str(WEIGHT_TABLES[e]) for e in JUDGED_EPSILONS)
    if not found:
        return f"## The printed cells of Tables {tables}\n\nNot run.\n"
    near, off = sum(cell.is_near for cell in found), sum(cell.is_clearly_off for cell in found)
    return f"""## The printed cells of Tables {tables}

Newton steps in {RANDOM_TREES} totally random trees with printed leaves: our AUC, mean (sample
deviation), beside the paper's. Near is a mean within {CLOSE:g} of the paper's: {near} of
{len(found)}. Noise scatters single fits by far more than that, so the difference has its standard
error, and a cell is off where even the near end of the interval at {CONFIDENCE:.0%} is further
away: {off} of {len(found)}. Rows: {_codes(cells)}.

{markdown_table(pd.DataFrame([_row(cells, cell) for cell in found]))}

Batches of {BEST_BATCH} trees against Newton steps tree by tree (Table 5, epsilon {SMALL:g}), by
both rules of leaves, on the splits that both have:

{markdown_table(pd.DataFrame(list(_batches(cells))))}
"""


def _row(cells: Cells, cell: PrintedCell) -> dict[str, str]:
    recipe = components("totally_random", "newton")
    pulled = components("totally_random", "newton", leaves=PULLED)
    return {
        "data": DATASETS[cell.data],
        "epsilon": f"{cell.epsilon:g}",
        "paper": f"{shown(cell.paper)} ({shown(cell.deviation)})",
        "ours, printed leaves": cells.with_deviation(cell.data, recipe, cell.epsilon),
        "splits": str(len(cell.aucs)),
        "ours less paper": f"{cell.gap.mean:+.4f} ± {cell.gap.error:.4f}",
        "near": "yes" if cell.is_near else "off" if cell.is_clearly_off else "no, within scatter",
        "ours, pulled leaves": cells.with_deviation(cell.data, pulled, cell.epsilon),
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
            "paper's difference": f"{papers:+.4f}" if leaves == PRINTED else DASH,
        }


def _codes(cells: Cells) -> str:
    """Which code made the rows of these two tables."""
    table, judged = cells.table, set[str]()
    for leaves in LEAVES:
        judged |= {batched(b, leaves) for b in (NEWTON, BEST_BATCH)}
        judged.add(components("totally_random", "newton", leaves=leaves))
    rows = table[
        table["recipe"].isin(judged)
        & table["dataset"].isin(JUDGED_SETS)
        & table["epsilon"].isin(JUDGED_EPSILONS)
        & (table["parties"] == 1)
    ]
    if "code" not in rows:
        return f"{len(rows)}"
    counted = rows["code"].value_counts()
    return ", ".join(f"{n} by code `{code}`" for code, n in counted.items())
