"""The page of `python -m studies diprime`: tables beside the paper's numbers, and figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path

import pandas as pd

from hedgerow.methods.multiway import KARY_BINS
from studies.claims import section
from studies.diprime_claims import (
    PEER,
    ROWS,
    SHARED_DEPTHS,
    SHARED_SIZES,
    TIMES,
    claims,
    printed,
    scaled,
    scores,
)
from studies.diprime_fits import (
    ALONE,
    AMONG_SUMS,
    CLASSIFICATION,
    EPSILON,
    FIRST_SPLIT,
    METHOD_EXAMPLES,
    MOST_ROWS,
    NO_MORE,
    NOT_PRIVATE,
    OVER_SITES,
    PARTIES,
    REGRESSION,
    RHO,
    TREES,
    K,
    fit,
    fit_on_all_rows,
    fit_over_sites,
    fit_selecting,
    parts,
)
from studies.harness import Cell, Computation, Grid
from studies.pages import Line, curves, evenly, level, markdown_table, repeats, write_page
from studies.pages import line as drawn

Lines = dict[str, Line]

ORDER = (*NOT_PRIVATE, *METHOD_EXAMPLES, PEER)
LEVELS = ("RF", "ERT", "Median, no noise")
PEER_TREES = 10


INTRO = f"""
Median forests (DiPriMe: Consul and Williamson 2020) split near the median, so that no leaf is left
with few rows and below its noise. Their accounting is corrected here: K medians are paid K times
(*paid*), folds are drawn record by record, leaf means come from integer sums; delta is zero.
**DiPriMeExp as printed** is the paper's own budget, run at the epsilon that it really costs
(docs/proofs/medians.md). **ours** is `MedianForestRegressor` / `MedianForestClassifier` as they
come; *ours, {PARTIES} sites* has medians of noisy tables (`split="table"`). Constants were chosen
on other splits of the same sets (studies/notes/trees.md#0050); these are {FIRST_SPLIT} and on.

DP-RF (Patil and Singh 2014) and DP-DF (Fletcher and Islam 2015) are k-ary trees on {KARY_BINS}
bins, with sound accounting; DP-ERT (Bojarski et al. 2014) has random splits. *constant* is the
training mean or the larger class, without privacy. flights_nyc13 is a **proxy**:
{MOST_ROWS["flights_nyc13"]:,} rows, not {ROWS["flights_nyc13"]:,}; higgs_18k is a part of
{ROWS["higgs_18k"]:,} rows (studies/data/files.csv). diffprivlib is its forest of {PEER_TREES} trees
with the better of two depths by these test rows.
"""


def write(computation: Computation, tables: Mapping[str, pd.DataFrame], quick: bool) -> None:
    peer = computation.kept.frame("diffprivlib")
    parts = [
        INTRO,
        section(claims(tables)),
        *_table(1, "mean squared error", tables["table1"], REGRESSION),
        *_table(2, "accuracy", _with_peer(tables["table2"], peer), CLASSIFICATION),
        *([] if quick else _figures(computation.out, tables)),
    ]
    command = "python -m studies diprime --data DIR" + (" --quick" if quick else "")
    write_page(computation, "README.md", "Median forests", command, parts)


# -------------------------------------------------------------------------------------- tables
def _with_peer(table: pd.DataFrame, peer: pd.DataFrame | None) -> pd.DataFrame:
    """With the scores that benchmarks/peers/diffprivlib_trees.py made, if it did."""
    if peer is None or table.empty:
        return table
    best = peer.groupby(["data", "depth"]).score.mean().unstack().idxmax(axis=1)
    peer = peer[[best[d] == depth for d, depth in zip(peer.data, peer.depth, strict=True)]]
    return pd.concat([table, peer.assign(method=PEER)], ignore_index=True)


def _table(number: int, what: str, table: pd.DataFrame, names: tuple[str, ...]) -> list[str]:
    title = f"## Table {number}: {what} at epsilon = {EPSILON[names is REGRESSION]:g}\n"
    if table.empty:
        return [title, "Not run.\n"]
    there = [n for n in names if n in set(table.data)]
    methods = [m for m in ORDER if m in set(table.method)]
    lines = [[m, *(_shown(table, n, m) for n in there)] for m in methods]
    heads = [f"{n} (x {1 / TIMES[n]:.0e})" if n in TIMES else n for n in there]
    words = "Mean ± sample deviation (splits), [the paper's]; a number alone is one split.\n"
    return [title, words, markdown_table(pd.DataFrame(lines, columns=["method", *heads]))]


def _shown(table: pd.DataFrame, name: str, method: str) -> str:
    mine, paper = scores(table, name, method), printed(method, name)
    beside = "" if paper is None else f" [{scaled(name, *paper)}]"
    if len(mine) < 2:
        return (scaled(name, mine.mean()) if len(mine) else "") + beside
    return f"{scaled(name, mine.mean(), mine.std(ddof=1))} ({len(mine)}){beside}"


# ------------------------------------------------------------------------------------- figures
def _figures(out: Path, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    made = ["## Figures\n"]
    for number, words in ((1, "folds"), (5, "all rows")):
        made += _energy(out, tables, number, words)
    for number, words in ((2, "folds"), (6, "all rows")):
        made += _banknote(out, tables, number, words)
    made += _balanced(out, tables["balance"])
    return made + _figures7_8(out, tables)


def _even(table: pd.DataFrame) -> pd.DataFrame:
    if table.empty:
        return table
    points = ["data", "method", "epsilon", "n_estimators", "depth", "rho", "k"]
    return evenly(table, points, "seed")


def _with(tables: Mapping[str, pd.DataFrame], name: str, number: int, first: int) -> pd.DataFrame:
    """The cells of a figure; on all rows, the rivals are those of the figure on folds."""
    suffix = name.removeprefix(f"figure{number}")
    table = tables[f"figure{number}{suffix}"]
    if number == first or table.empty:
        return table
    folds = tables[f"figure{first}{suffix}"]
    return pd.concat([folds[~folds.method.isin(table.method.unique())], table])


def _energy(out: Path, tables: Mapping[str, pd.DataFrame], number: int, words: str) -> list[str]:
    y, name = "mean squared error", f"figure{number}"
    axes = {"epsilon": "epsilon", "depth": "depth", "trees": "n_estimators"}
    found = {x: _even(_with(tables, f"{name}_{x}", number, 1)) for x in axes}
    if any(table.empty for table in found.values()):
        return [f"Figure {number}: its cells were not run.\n"]
    panels = {
        x: _with_levels(_lines(found[x], column), tables["table1"], "appliances_energy")
        for x, column in axes.items()
    }
    curves(out / f"{name}_epsilon", {"epsilon": panels["epsilon"]}, "", y)
    sizes = {"levels": panels["depth"], "trees": panels["trees"]}
    curves(out / f"{name}_sizes", sizes, "", y, log_x=False)
    return [
        f"Figure {number}: appliances_energy, mean squared error by epsilon, depth and number of "
        f"trees, trees on {words} ({_told(found)}; ours keeps its own depth and "
        f"trees; level lines have no privacy).\n\n![Figure {number}, epsilon]({name}_epsilon.png)"
        f"\n\n![Figure {number}, levels and trees]({name}_sizes.png)\n"
    ]


def _told(tables: Mapping[str, pd.DataFrame]) -> str:
    """How many splits a figure has, panel by panel where they differ."""
    each = {panel: repeats(table, "seed") for panel, table in tables.items()}
    if len(set(each.values())) == 1:
        return next(iter(each.values()))
    return "; ".join(f"by {panel} {words}" for panel, words in each.items())


def _banknote(out: Path, tables: Mapping[str, pd.DataFrame], number: int, words: str) -> list[str]:
    name = f"figure{number}"
    table = _even(_with(tables, name, number, 2))
    if table.empty:
        return [f"Figure {number}: its cells were not run.\n"]
    lines = _with_levels(_lines(table, "epsilon"), tables["table2"], "banknote")
    curves(out / name, {"banknote": lines}, "epsilon", "accuracy")
    return [
        f"Figure {number}: banknote, accuracy by epsilon, {table.depth.max()} levels as in the "
        f"paper, trees on {words} ({repeats(table, 'seed')}; ours, DP-RF and DP-DF at their own "
        f"depths).\n\n![Figure {number}]({name}.png)\n"
    ]


def _balanced(out: Path, table: pd.DataFrame) -> list[str]:
    if table.empty:
        return ["Figures 3 and 4: their cells were not run.\n"]
    table = evenly(table, ["data", "method"], "seed")
    _balance(out, table)
    told = repeats(table, "seed")
    return [
        "Figure 3: part of the leaves (wall_robot, levels as in the paper; ours, DP-RF and DP-DF "
        "at "
        "their own depths) that hold up to so much of all rows. Counted on the experimenter's own "
        f"rows ({told}).\n\n![Figure 3](figure3.png)\n",
        _balance_table(table, "wall_robot", "leaf"),
        "Figure 4: part of the inner nodes (banknote; ours at its own depth) that send up to so "
        f"much of their rows left ({told}).\n\n![Figure 4](figure4.png)\n",
        _balance_table(table, "banknote", "left"),
        "Ours gives balance up where the target says more.\n",
    ]


def _of_figure(table: pd.DataFrame, name: str, kind: str) -> pd.DataFrame:
    """Rows of Figure 3 or 4; in a chain of tests, left is one bin and no half."""
    mine = table[table.data == name]
    return mine[~mine.method.isin(("DP-RF", "DP-DF"))] if kind == "left" else mine


def _lines(table: pd.DataFrame, x: str, label: str = "method") -> Lines:
    return {
        str(name): drawn(table[table[label] == name], x, "score")
        for name in dict.fromkeys(table[label])
    }


def _with_levels(lines: Lines, table: pd.DataFrame, name: str) -> Lines:
    """And what methods without privacy reach, which depends on nothing here."""
    xs = [x for points, *_ in lines.values() for x in points]
    found = {m: scores(table, name, m) for m in LEVELS if not table.empty}
    return lines | {m: level(xs, values) for m, values in found.items() if len(values)}


def _figures7_8(out: Path, tables: Mapping[str, pd.DataFrame]) -> list[str]:
    rho, trees = _even(tables["figure7_8_rho"]), _even(tables["figure7_8_trees"])
    if rho.empty or trees.empty:
        return ["Figures 7 and 8: their cells were not run.\n"]
    rho = rho.assign(line=[f"epsilon = {e:g}" for e in rho.epsilon])
    trees = trees.assign(line=[f"K = {k:g}" for k in trees.k])
    for figure, table, x in (("rho", rho, "rho"), ("trees", trees, "n_estimators")):
        panels = {m: _lines(table[table.method == m], x, "line") for m in table.method.unique()}
        label = "rho" if x == "rho" else "trees"
        curves(out / f"figure7_8_{figure}", panels, label, "mean squared error", log_x=False)
    told = _told({"rho": rho, "trees": trees})
    return [
        "Figures 7 and 8: appliances_energy, mean squared error of the paid DiPriMeExp and "
        f"DiPriMeFlip by rho and epsilon, and by trees and K ({told}).\n\n"
        "![Figures 7 and 8, rho](figure7_8_rho.png)\n\n"
        "![Figures 7 and 8, trees and K](figure7_8_trees.png)\n"
    ]


def _balance(out: Path, table: pd.DataFrame) -> None:
    for figure, name, kind in (("figure3", "wall_robot", "leaf"), ("figure4", "banknote", "left")):
        mine = _of_figure(table, name, kind)
        columns = [c for c in table if c.startswith(f"{kind} to ")]
        long = mine.melt(["seed", "method"], columns, "up to", "part")
        long = long.assign(end=[float(c.rsplit(" ", 1)[1]) for c in long["up to"]])
        lines = {
            str(method): drawn(long[long["method"] == method], "end", "part")
            for method in dict.fromkeys(mine["method"])
        }
        curves(out / figure, {name: lines}, "part of the rows, up to", "part of the nodes",
               log_x=kind == "leaf")  # fmt: skip


def _balance_table(table: pd.DataFrame, name: str, kind: str) -> str:
    columns = [c for c in table if c.startswith(f"{kind} to ")]
    means = _of_figure(table, name, kind).groupby("method", sort=False)[columns].mean()
    return markdown_table(means.reset_index(), 2)


# --------------------------------------------------------------------------------------------------
# The experiments of Consul and Williamson 2020: Tables 1 and 2, Figures 1 to 8.
SPLITS, SPLITS_OF_SMALL = 10, {"banknote": 20}
"""Banknote tests on 138 rows."""
SPLITS_BESIDE, SPLITS_OF_CURVES = 3, 5
VERY_SLOW = ("gas_turbine", "flights_nyc13", "credit_default", "higgs_18k", "puc_rio_har")
"""Median forests on all rows without noise are left out here."""
DIPRIME = ("DiPriMe", "DiPriMeExp, paid", "DiPriMeFlip, paid")
CURVES = ("DP-ERT", *DIPRIME)
BALANCED = ("DP-ERT", "DP-RF", "DP-DF", "DiPriMe", "DiPriMeExp, paid", "ours")
BESIDE = (
    "Median, no noise",
    "ours, no noise",
    "joint choice, paper's sizes",
)
"""In no verdict."""
GRID_DEPTHS, GRID_SIZES = tuple(range(2, 11)), (1, 4, 7, 10, 13, 16, 19, 22, 25, 28)
GRID_EPSILONS, GRID_RHOS = (3.0, 10.0, 30.0, 100.0), (0.2, 0.5, 0.8)
"""The paper's, of Figures 1, 7 and 8; of rho its ends and its middle."""
QUICK_SETS = ("parkinsons", "banknote", "wall_robot")
OF_SITES = ("banknote", "wall_robot", "higgs_18k")
SELECTION_SPLITS = {
    "MedianForest": 40,
    "MultiwayForest": 34,
    "TopDown by choice": 20,
    "SingleMachine RNM": 10,
    "DiPriMeFlip": 5,
}
"""Splits by method: cheap fits have more."""
SELECTION_SETS = ("credit_default", "higgs_18k", "wall_robot")
SELECTION_EPSILONS = (0.5, 2.0)


def files(quick: bool) -> tuple[str, ...]:
    return QUICK_SETS if quick else (*REGRESSION, *CLASSIFICATION)


def run(computation: Computation, quick: bool) -> None:
    write(computation, collected(computation, quick), quick)


def collected(computation: Computation, quick: bool = False) -> dict[str, pd.DataFrame]:
    return computation.tables(quick_grids() if quick else full_grids())


# --------------------------------------------------------------------------------------- grids
def quick_grids() -> dict[str, Grid]:
    few = ("DP-RF", "DP-ERT", "DiPriMe", "ours", OVER_SITES)
    return {
        "table1": (fit, cells(QUICK_SETS[:1], few, splits(1))),
        "table2": (fit, cells(QUICK_SETS[1:], few, splits(1))),
    }


def full_grids() -> dict[str, Grid]:
    every = (*NOT_PRIVATE, *METHOD_EXAMPLES)
    balance: list[Cell] = [
        {"seed": seed, "data": name, "method": method}
        for seed, name, method in product(
            splits(SPLITS_OF_CURVES), ("wall_robot", "banknote"), BALANCED
        )
    ]
    return {
        "selections": (fit_selecting, selection_cells(ALONE, AMONG_SUMS)),
        "certified": (fit_selecting, selection_cells(NO_MORE)),
        "sites": (fit_over_sites, site_cells()),
        "balance": (parts, balance),
        **curve_grids(),
        "table2": (fit, tabled(CLASSIFICATION, every)),
        "table1": (fit, tabled(REGRESSION, [m for m in every if m != "DP-DF"])),
    }


def site_cells() -> list[Cell]:
    """Of docs/proofs/selection.md: medians by selections of each site, and by noisy tables."""
    names = "seed", "data", "delta", "sites", "split"
    ways = ((1, "grid"), (PARTIES, "grid"), (PARTIES, "table"))
    return [
        dict(zip(names, (seed, data, delta, *way), strict=True))
        for data, delta, seed, way in product(OF_SITES, (0.0, 1e-6), splits(SPLITS), ways)
    ]


def selection_cells(*prices: str) -> list[Cell]:
    names = "seed", "data", "method", "epsilon", "price"
    return [
        dict(zip(names, values, strict=True))
        for method, n in SELECTION_SPLITS.items()
        for values in product(splits(n), SELECTION_SETS, (method,), SELECTION_EPSILONS, prices)
    ]


def curve_grids() -> dict[str, Grid]:
    """Figures 1, 2, 7 and 8; Figures 5 and 6 are the first two on all rows."""
    energy, few = ("appliances_energy",), splits(SPLITS_OF_CURVES)
    loud = (1.0, 10.0, 100.0)
    banknote = partial(
        cells, ("banknote",), seeds=few, epsilons=(0.5, 1.0, 2.0, 5.0, 10.0), depths=(5,)
    )
    return {
        "figure2": (
            fit,
            banknote(("DP-RF", "DP-DF", *CURVES, "ours")),
        ),
        "figure6": (fit_on_all_rows, banknote(DIPRIME)),
        "figure1_epsilon": (fit, cells(energy, (*CURVES, "ours"), few, epsilons=loud)),
        "figure1_depth": (fit, cells(energy, CURVES, few, depths=GRID_DEPTHS)),
        "figure1_trees": (fit, cells(energy, CURVES, few, trees=GRID_SIZES)),
        "figure5_epsilon": (fit_on_all_rows, cells(energy, DIPRIME, few, epsilons=loud)),
        "figure5_depth": (fit_on_all_rows, cells(energy, DIPRIME, few, depths=SHARED_DEPTHS)),
        "figure5_trees": (fit_on_all_rows, cells(energy, DIPRIME, few, trees=SHARED_SIZES)),
        "figure7_8_rho": (
            fit,
            cells(energy, DIPRIME[1:], few, epsilons=GRID_EPSILONS, rhos=GRID_RHOS),
        ),
        "figure7_8_trees": (fit, cells(energy, DIPRIME[1:], few, trees=(5, 10, 20), ks=(3, 10))),
    }


def splits(n: int) -> range:
    return range(FIRST_SPLIT, FIRST_SPLIT + n)


def tabled(names: Sequence[str], methods: Sequence[str]) -> list[Cell]:
    """The same splits of a set for ours and all rivals; fewer of what no verdict needs."""
    found: list[Cell] = []
    for name, method in product(names, methods):
        n = SPLITS_BESIDE if method in BESIDE else SPLITS_OF_SMALL.get(name, SPLITS)
        if method == "Median, no noise" and name in VERY_SLOW:
            n = 0
        found += cells((name,), (method,), splits(n))
    return found


def cells(
    names: Iterable[str],
    methods: Iterable[str],
    seeds: Iterable[int],
    *,
    epsilons: Sequence[float] = (),
    trees: Sequence[int] = (TREES,),
    depths: Sequence[int] = (0,),
    rhos: Sequence[float] = (RHO,),
    ks: Sequence[int] = (K,),
) -> list[Cell]:
    keys = ("seed", "data", "method", "epsilon", "n_estimators", "depth", "rho", "k")
    found: list[Cell] = []
    for name in names:
        chosen = epsilons or (EPSILON[name in REGRESSION],)
        found += [
            dict(zip(keys, values, strict=True))
            for values in product(seeds, (name,), methods, chosen, trees, depths, rhos, ks)
        ]
    return found
