"""The page of `python -m studies extra-trees`: the paper's cells beside ours, in plain words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path

import pandas as pd

from hedgerow.privacy.mechanisms.response import BITS_PER_CLASS, HASHES
from studies.claims import section
from studies.extra_trees_claims import (
    PAPER,
    REPEATS,
    ROWS,
    VARIED,
    best_accuracy,
    claims,
    varied,
)
from studies.extra_trees_fits import (
    AS_PRINTED,
    CLIENTS,
    DEPTH,
    KDD,
    LABELS,
    MANY_SITES,
    MOST_CLIENTS,
    NOISY,
    SHARP,
    TEST_PART,
    TREES,
    USUAL_TEST_PART,
    WHOLE,
    work,
)
from studies.harness import Cell, Computation
from studies.pages import (
    Line,
    curves,
    evenly,
    left_out,
    line,
    means,
    repeats,
    write_page,
)

FIGURE_NAMES = {"FET": "FET", "response": "labels", "silo": "silo"}
DRAWS = 100_000


INTRO = f"""
Liu et al. 2020, Table 2 and Figure 3. Random divisions, {USUAL_TEST_PART:.0%} for testing (KDD Cup
{TEST_PART[KDD]:.0%}, of which the paper used {ROWS[KDD]:,} rows), {CLIENTS} sites, all sums masked;
the paper has {REPEATS} repeats. F1 is that of the more frequent class for two classes and micro F1
for more. MIMIC is not public. The paper names neither the trees of Table 2 nor its filter's size,
hashes and odds, nor an epsilon: here {TREES} trees of depth {DEPTH} where a name says nothing else.
Settings were chosen on these data sets before this run (studies/notes/trees.md#0040).

`response` is k-ary randomized response, `bloom` the paper's filter ({BITS_PER_CLASS} bits a class,
{HASHES} hashes) with permanent and instant bits: labels only, for any number of reports. `silo`,
the paper's FET-GDP, and `shares` have noise on every sum, of trees that are few and shallow unless
a name says otherwise. *Whole numbers*: the schema says which columns hold them.
"""


def write(computation: Computation, tables: Mapping[str, pd.DataFrame], command: str) -> None:
    table, figure, printed = (tables.get(n) for n in ("table2", "figure3", "printed"))
    assert table is not None
    parts = [INTRO, section(claims(table, figure, printed)), _waveform()]
    for measure in ("accuracy", "f1"):
        paper = pd.DataFrame(
            {"data": name, "method": f"{method}, the paper", "epsilon": 0.0, measure: values[place]}
            for name, by_method in PAPER.items()
            for method, values in by_method.items()
            for place in (("accuracy", "f1").index(measure),)
        )
        both = pd.concat([table, *([] if printed is None else [printed]), paper])
        parts += [f"## {measure}\n", means(both, ["data", "method"], "epsilon", measure)]
    if figure is not None and len(figure):
        parts.append(_figure(figure, computation.out))
    write_page(computation, "README.md", "Federated extra-trees", command, parts)


def _waveform() -> str:
    return (
        "The law of waveform is known: the best possible classifier is right in "
        f"{best_accuracy(DRAWS):.3f} of all cases, and the paper prints "
        f"{PAPER['waveform']['FET'][0]:.3f} for FET.\n"
    )


def _figure(figure: pd.DataFrame, out: Path) -> str:
    points = ["data", "method", "epsilon", "clients", "trees", "depth"]
    even = evenly(figure, points, "seed")
    if even.empty:
        return "## Figure 3\n\nIts cells have no division in common.\n"
    panels: dict[str, Mapping[str, Line]] = {}
    for name, part in even.groupby("data", sort=False):
        for what in VARIED:
            panels[f"{name}: {what}"] = {
                f"{FIGURE_NAMES[str(method)]}, epsilon {p['epsilon'].iloc[0]:g}"
                if method != "FET"
                else "FET": line(varied(p, what), what, "accuracy")
                for method, p in part.groupby("method", sort=False)
            }
    curves(out / "figure3", panels, "", "accuracy", log_x=False)
    told = repeats(even, "seed", "divisions") + left_out(figure, even, points)
    return (
        f"## Figure 3\n\n{told.capitalize()}. Clients hold a part "
        f"of the "
        f"rows each, one of {MOST_CLIENTS}; k of them take part. {TREES} trees of depth {DEPTH} "
        f"unless "
        f"varied; `silo` has {NOISY['silo']['n_estimators']} of depth "
        f"{NOISY['silo']['max_depth']}.\n\n"
        "![Accuracy against clients, trees and depth](figure3.png)\n"
    )


# --------------------------------------------------------------------------------------------------
# `python -m studies extra-trees`: Liu et al. 2020, Table 2 and Figure 3, and our placements.
#
# Every cell is a real fit of the estimator: two sites or more, masked sums, noise of the real
# pipeline. The paper's MIMIC rows are not public.
SETS = ("spambase", "credit_default", "waveform", "letter", KDD)
QUICK_SETS = ("spambase", "waveform")
QUICK_EPSILONS = (2.0, 8.0)
QUICK_FIGURE = {"clients": (1, 2), "trees": (1, 5), "depth": (5, 10)}
EPSILONS = (1.0, 2.0, 4.0, 8.0)
LOUD = (8.0, 100.0, 1000.0, 10000.0)
"""Epsilons at which the paper's FET-GDP is tried, since it names none."""
PRINTED_SETS = ("letter", "waveform", "spambase", "credit_default")
KDD_REPEATS = 1  # 494,021 rows: one repeat takes as long as four of all other sets
BLOOMS = ("bloom", SHARP)


FIGURE_REPEATS = 3
FIGURE_SETS = ("credit_default", "letter")
FIGURE_METHODS = {"FET": 0.0, "response": 4.0, "silo": 8.0}
FIGURE = {
    "clients": tuple(range(1, MOST_CLIENTS + 1)),
    "trees": (1, 5, 10, 20, 40),
    "depth": (5, 10, 15, 20),
}


def files(quick: bool) -> tuple[str, ...]:
    return QUICK_SETS if quick else SETS


def run(computation: Computation, quick: bool, repeats: int) -> None:
    options = "--quick" if quick else f"--repeats {repeats}"
    command = f"python -m studies extra-trees {options} --data DIR"
    write(computation, collected(computation, quick, repeats), command)


def collected(
    computation: Computation, quick: bool = False, repeats: int = REPEATS
) -> dict[str, pd.DataFrame]:
    if quick:
        cells = table_cells(1, QUICK_SETS, QUICK_EPSILONS)
        figure_3 = figure_cells(1, QUICK_SETS[:1], QUICK_FIGURE)
    else:
        cells = table_cells(repeats, SETS, EPSILONS)
        figure_3 = figure_cells(min(repeats, FIGURE_REPEATS), FIGURE_SETS, FIGURE)
    printed = [] if quick else list(printed_cells(min(repeats, 3), PRINTED_SETS, LOUD))
    return computation.tables(
        {
            "table2": (work, list(cells)),
            "figure3": (work, _once(figure_3)),
            "printed": (work, printed),
        }
    )


def _once(cells: Iterable[Cell]) -> list[Cell]:
    """A cell may be on several axes of a figure."""
    return list({tuple(cell.values()): cell for cell in cells}.values())


def table_cells(repeats: int, sets: Sequence[str], epsilons: Sequence[float]) -> Iterator[Cell]:
    """Repeat by repeat; the largest set last and once, and of it Bloom filters, minutes each."""
    methods = [("ET", 0.0), ("FET", 0.0), (WHOLE, 0.0)]
    methods += [(m, e) for m in LABELS for e in epsilons]
    methods += [(m, e) for m in NOISY for e in epsilons]
    others = [name for name in sets if name != KDD]
    for seed, name, (method, epsilon) in product(range(repeats), others, methods):
        yield _cell(name, method, epsilon, seed)
    if KDD in sets:
        slow_last = sorted(methods, key=lambda known: known[0] in BLOOMS)
        for seed, (method, epsilon) in product(range(KDD_REPEATS), slow_last):
            if method != WHOLE:
                yield _cell(KDD, method, epsilon, seed)


def printed_cells(repeats: int, sets: Sequence[str], epsilons: Sequence[float]) -> Iterator[Cell]:
    """FET-GDP with the paper's sizes, and the epsilon it would take."""
    for seed, name, epsilon in product(range(repeats), sets, epsilons):
        yield _cell(name, AS_PRINTED, epsilon, seed)


def figure_cells(
    repeats: int, sets: Sequence[str], figure: Mapping[str, Sequence[int]]
) -> Iterator[Cell]:
    """One of clients, trees and depth varies; the other two are the method's own."""
    for seed, name in product(range(repeats), sets):
        for method, epsilon in FIGURE_METHODS.items():
            for what, values in figure.items():
                for value in values:
                    yield _cell(name, method, epsilon, seed, **{what: value})


def _cell(
    name: str,
    method: str,
    epsilon: float,
    seed: int,
    clients: int | None = None,
    trees: int | None = None,
    depth: int | None = None,
) -> Cell:
    """`clients` 0 is the table's division; k of Figure 3 are k ninths of the rows.

    Numbers of trees and levels are those that are fitted: noisy forests have few of both.
    """
    many = MOST_CLIENTS if method.endswith(MANY_SITES) else 0
    return {
        "data": name,
        "method": method,
        "epsilon": epsilon,
        "seed": seed,
        "clients": many if clients is None else clients,
        "trees": NOISY.get(method, {}).get("n_estimators", TREES) if trees is None else trees,
        "depth": NOISY.get(method, {}).get("max_depth", DEPTH) if depth is None else depth,
    }
