"""`python -m studies boosted`: Maddock et al. 2022, Tables 3 to 6 and 9 to 12, Figures 1 to 20.

Every cell is a fit on integers with the noise of the real pipeline. delta = 1 / n as in the paper,
for comparison only: a study should promise far less. A cell that was not run is a dash.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, product
from typing import Any

import pandas as pd

from hedgerow.privacy.accounting.conversions import WEAK_DELTA_WORDS
from studies.boosted_claims import (
    BEST_BATCH,
    NEWTON,
    SMALL,
    USUAL,
    Cells,
    beside_section,
    claims,
    ranks,
)
from studies.boosted_figures import CANDIDATES as PLACED
from studies.boosted_figures import (
    MADE_BINS,
    NAMED_TREES,
    all_figures,
    draw_all,
    drawn,
    pulled_figures,
)
from studies.boosted_fits import (
    BATCH_TREES,
    BATCHES,
    BINS,
    CANDIDATE_TREES,
    CANDIDATES,
    DATASETS,
    DEFAULT,
    DEFAULT_SETS,
    DEPTH,
    EPSILONS,
    EVERY_RECORD,
    FIGURE_SET,
    FIRST_SPLIT,
    LEAVES,
    LOCAL_BASELINE,
    LOOKING_TREES,
    MADE,
    MADE_ROWS,
    NAMED_METHODS,
    RANDOM_TREES,
    RANKED_SETS,
    RANKED_TREES,
    RANKS,
    RUNS,
    SHRUNK,
    SPLITS,
    TEST_PART,
    UPDATES,
    WEIGHT_TABLES,
    Printed,
    batched,
    components,
    fit_cell,
    fit_published,
    in_turns,
    named,
    placed,
    weight_updates,
)
from studies.claims import section
from studies.harness import Cell, Computation
from studies.pages import markdown_table, write_page

INTRO = f"""
Maddock, Cormode, Wang, Maple and Jha, "Federated Boosted Decision Trees with Differential Privacy"
(CCS 2022). Test AUC on {TEST_PART:.0%} of the rows, stratified; ranges and categories of the whole
file count as public, as in the paper; of Credit 1 the rows that miss no value. Means over splits,
with sample deviations; the paper has {RUNS} runs. No constant was chosen on these splits (numbers
{FIRST_SPLIT} and up); what the paper leaves open was settled on earlier ones:
studies/notes/boosting.md#0031, studies/notes/boosting.md#0032.

*Published* leaves are the paper's rule: a step, and zero if the noisy Hessian is not above zero.
*Shrunk* ones, our default, are pulled towards the step of the whole tree, the more the larger their
noise. Splits are scored by the clipped steps of their sides, as by the released program
(studies/notes/boosting.md#0142).
"""


def write(computation: Computation, tables: Mapping[str, pd.DataFrame], command: str) -> None:
    cells, beside = Cells(tables["cells"]), Cells(tables["published"])
    parts = [INTRO, section(claims(cells, beside)), beside_section(beside)]
    parts += [_weights(cells, epsilon) for epsilon in sorted(WEIGHT_TABLES)]
    parts += [_candidates(cells), _batches(cells), _ranks(cells)]
    parts.append(draw_all(cells, beside, computation.out))
    write_page(computation, "README.md", "Boosted trees", command, parts)


# ---------------------------------------------------------------------------- the paper's tables
Beside = tuple[dict[str, str], Mapping[str, Printed], str, str | None]
"""Labels of a row, the paper's numbers by data set, our method, and the same with shrunk leaves."""


def _beside(cells: Cells, title: str, words: str, epsilon: float, rows: Sequence[Beside]) -> str:
    """Ours / the paper's in every cell, then ours with shrunk leaves."""
    lines = []
    for labels, printed, learner, shrunk in rows:
        line = dict(labels)
        for data, (mean, deviation) in printed.items():
            mine = cells.with_deviation(data, learner, epsilon)
            line[DATASETS[data]] = f"{mine} / {mean:.4f} ({deviation:.4f})"
            if shrunk is not None:
                line[f"{DATASETS[data]}, shrunk"] = cells.with_deviation(data, shrunk, epsilon)
        lines.append(line)
    return (
        f"## {title}, epsilon = {epsilon:g}\n\nOurs with published leaves / the paper's, mean "
        f"(sample deviation). {words}\n\n" + markdown_table(pd.DataFrame(lines))
    )


def _weights(cells: Cells, epsilon: float) -> str:
    printed = weight_updates(epsilon)
    rows: list[Beside] = [
        (
            {"splits": split.replace("_", " "), "update": update},
            {data: printed[split, update, data] for data in DATASETS},
            components(split, update),
            components(split, update, leaves=SHRUNK),
        )
        for split, update in product(SPLITS, UPDATES)
    ]
    words = f"Depth {DEPTH}; {LOOKING_TREES} trees that look, {RANDOM_TREES} random ones."
    return _beside(cells, f"Table {WEIGHT_TABLES[epsilon]}: updates", words, epsilon, rows)


def _candidates(cells: Cells) -> str:
    rows: list[Beside] = [
        (
            {"candidates": kind.replace("_", " ")},
            {data: CANDIDATES[kind, data] for data in DATASETS},
            placed(kind),
            None,
        )
        for kind in dict.fromkeys(kind for kind, _ in CANDIDATES)
    ]
    words = f"T = {CANDIDATE_TREES}, {BINS} bins. Our quantiles are private, the paper's are not."
    return _beside(cells, "Table 4: split candidates", words, USUAL, rows)


def _batches(cells: Cells) -> str:
    rows: list[Beside] = [
        (
            {"batch": "random forest" if size == 0 else str(size)},
            {data: BATCHES[size, data] for data in DATASETS},
            batched(size),
            batched(size, SHRUNK),
        )
        for size in dict.fromkeys(size for size, _ in BATCHES)
    ]
    return _beside(cells, "Table 5: batches", f"T = {BATCH_TREES}.", SMALL, rows)


def _ranks(cells: Cells) -> str:
    """Average rank of each method, over the sets and splits where all of them were run."""
    means = {epsilon: ranks(cells, epsilon).mean() for epsilon in EPSILONS}
    rows = [
        {"method": name}
        | {
            f"epsilon {epsilon}": f"{_rank(means[epsilon][name])} / {printed:.2f}"
            for epsilon, printed in zip(EPSILONS, numbers, strict=True)
        }
        for name, numbers in RANKS.items()
    ]
    return (
        f"## Table 6: average rank of the named methods\n\nOurs / the paper's; T = {RANKED_TREES}, "
        "the lowest is the best. Split by split where all methods were run; without Nomao, and "
        "with a part of Higgs.\n\n" + markdown_table(pd.DataFrame(rows))
    )


def _rank(rank: float) -> str:
    return "-" if math.isnan(rank) else f"{rank:.2f}"


# --------------------------------------------------------------------------------------- the grid
FIGURE_SPLITS = 3
QUICK_SET, QUICK_EPSILON = "bank", 1.0
SLOW = ("DP-EBM", "DP-GBM", "FEVERLESS (uniform)")  # minutes a split; after all else


def files(quick: bool) -> tuple[str, ...]:
    return (QUICK_SET, FIGURE_SET) if quick else DEFAULT_SETS


def run(computation: Computation, quick: bool, splits: int) -> None:
    print(
        f"delta is one over the number of rows, as in the paper. {WEAK_DELTA_WORDS}",
        file=sys.stderr,
    )
    tables = collected(computation, quick, splits)
    options = "--quick" if quick else f"--splits {splits}"
    write(computation, tables, f"python -m studies boosted {options} --data DIR")


def collected(
    computation: Computation, quick: bool = False, splits: int = RUNS
) -> dict[str, pd.DataFrame]:
    wanted = list(quick_cells() if quick else cells(splits))
    beside = list(published_cells(splits))
    if quick:
        beside = [c for c in beside if c["dataset"] == QUICK_SET and c["split"] == FIRST_SPLIT][:3]
    return computation.tables({"cells": (fit_cell, wanted), "published": (fit_published, beside)})


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
    fast = [name for name in NAMED_METHODS if name not in SLOW]
    for cell in chain(
        _candidate_cells(FIRST_SPLIT),
        _named(FIRST_SPLIT, fast),
        _weight_cells(FIRST_SPLIT, (QUICK_EPSILON,)),
    ):
        if cell["dataset"] == QUICK_SET and cell["epsilon"] == QUICK_EPSILON:
            yield cell
    for batch in (1, 0):
        yield _cell(QUICK_SET, batched(batch), 0.1, FIRST_SPLIT)
    points = [components("totally_random", "newton", trees) for trees in (10, 25)]
    points += [named("DP-RF", trees) for trees in (25, 100)]
    for learner in points:
        yield _cell(FIGURE_SET, learner, 1.0, FIRST_SPLIT)


def _with_repeats(splits: range) -> Iterator[Cell]:
    """Batches against Newton steps, on which a claim of ours stands, come first."""
    for split in splits:
        yield from _judged_batches(split)
    for split in splits:
        yield from _batch_cells(split)
        yield from _candidate_cells(split)
    for split in splits:
        yield from _named(split, [name for name in NAMED_METHODS if name not in SLOW])
    for split in splits:
        yield from _weight_cells(split, (0.5, 0.1))
    for split in splits[:FIGURE_SPLITS]:
        yield from figure_cells(split)
    for split in splits:
        yield from _everywhere(DEFAULT, split)  # by which a plan prefers it for many columns
    for split in splits:
        yield from _everywhere(LOCAL_BASELINE, split, EVERY_RECORD)
        yield from _weight_cells(split, (1.0, 0.25, 0.75))
        yield from _named(split, SLOW)
    for split in splits[:FIGURE_SPLITS]:
        for epsilon, dataset, learner in drawn(pulled_figures()):
            yield _cell(dataset, learner, epsilon, split)


def _judged_batches(split: int) -> Iterator[Cell]:
    """By both rules of leaves."""
    for dataset, batch, leaves in product(DATASETS, (NEWTON, BEST_BATCH), LEAVES):
        yield _cell(dataset, batched(batch, leaves), SMALL, split)


def _cell(dataset: str, learner: str, epsilon: float, split: int, n_sites: int = 1) -> Cell:
    return {
        "dataset": dataset,
        "learner": learner,
        "epsilon": epsilon,
        "n_sites": n_sites,
        "split": split,
    }


def _everywhere(learner: str, split: int, n_sites: int = 1) -> Iterator[Cell]:
    for dataset in DEFAULT_SETS:
        for epsilon in EPSILONS:
            yield _cell(dataset, learner, epsilon, split, n_sites)


def _named(split: int, names: Sequence[str]) -> Iterator[Cell]:
    for name in names:
        yield from _everywhere(named(name), split)


def _weight_cells(split: int, epsilons: Sequence[float]) -> Iterator[Cell]:
    for epsilon, dataset, kind, update in product(epsilons, DATASETS, SPLITS, UPDATES):
        yield _cell(dataset, components(kind, update), epsilon, split)
        if kind == "totally_random":
            yield _cell(dataset, components(kind, update, leaves=SHRUNK), epsilon, split)


def _candidate_cells(split: int) -> Iterator[Cell]:
    for candidates, dataset in CANDIDATES:
        yield _cell(dataset, placed(candidates), 1.0, split)


def _batch_cells(split: int) -> Iterator[Cell]:
    for (batch, dataset), leaves in product(BATCHES, LEAVES):
        yield _cell(dataset, batched(batch, leaves), 0.1, split)


def figure_cells(split: int) -> Iterator[Cell]:
    """What the figures show; Figure 20 reads bytes and seconds of the fits of Figure 5."""
    for epsilon, dataset, learner in drawn(all_figures()):
        yield _cell(dataset, learner, epsilon, split)
    for trees in NAMED_TREES:
        yield _cell(FIGURE_SET, named("DP-TR Newton", trees), 1.0, split, EVERY_RECORD)


# ------------------------------------------------------------------------- the grid as published
def published_cells(splits: int) -> Iterator[Cell]:
    """Each once, the most decisive first."""
    seen = set[tuple[Any, ...]]()
    for dataset, learner, epsilon, count in _wanted():
        n = count if count > RUNS else min(count, splits)
        for split in range(FIRST_SPLIT, FIRST_SPLIT + n):
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
    for data, kind, update, epsilon in FAR_CELLS:
        yield data, components(kind, update), epsilon, 2 * RUNS
    yield from _of_figures()


FAR_CELLS = (
    ("credit_default", "totally_random", "newton", 0.1),
    ("bank", "partially_random", "newton", 0.25),
    ("adult", "partially_random", "averaging", 0.5),
)
"""Cells that were far from the program and from print on the first splits; so they have more."""


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


def _of_figures() -> Iterator[Wanted]:
    """What is left of whole grids: batches, bins, levels, trees, ranks."""
    for (batch, data), epsilon in product(BATCHES, (SMALL, USUAL)):
        yield data, batched(batch), epsilon, 5
    for bins, candidates, data in product((2, 4, 8, 16, 64), PLACED, DATASETS):
        yield data, placed(candidates, bins=bins), USUAL, 3
    for depth, kind in product((3, 5), SPLITS):
        yield FIGURE_SET, components(kind, "newton", depth=depth), USUAL, 5
    for data, name, epsilon in product(RANKED_SETS, RANKS, (SMALL, 0.5, USUAL)):
        yield data, named(name), epsilon, 3
    for n, bins, candidates in product(MADE_ROWS, MADE_BINS, ("uniform", "iterative_hessian")):
        yield f"{MADE}{n}", placed(candidates, bins=bins), USUAL, 3
