"""The claims of Consul and Williamson 2020, judged split by split at the honest epsilon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from studies import authors
from studies.claims import NOT_RUN, NOTHING, Claim, Lead, joined, lead, listed, where_it_holds
from studies.diprime.data import CLASSIFICATION, REGRESSION
from studies.diprime.fits import LEFT_EDGES, OCCUPANCY_EDGES
from studies.diprime.paper import SETS
from studies.diprime.verdicts import scores

Tables = Mapping[str, pd.DataFrame]

PAID = ("DiPriMeExp, paid", "DiPriMeFlip, paid")
ALL = ("DiPriMe", *PAID)
DEPTHS, SIZES = (2, 4, 6, 8, 9, 10), (4, 10, 25)
"""Levels, and numbers of trees, of Figure 1."""
BEST_DEPTH = 8
"""Where the paper's curve has its minimum."""
SHARED_DEPTHS = DEPTHS[:4]
"""Levels that Figure 5, on all rows, has too."""
PLANNED = {"depth": DEPTHS, "n_estimators": SIZES}
LITTLE = 0.02
"""Of accuracy: what "little to choose" means here."""
PROGRAMS_NAMES = {"DiPriMeExp, paid": "DiPriMeExp", "DiPriMeFlip, paid": "DiPriMeFlip"}
NEARLY_EMPTY = f"leaf to {OCCUPANCY_EDGES[1]:g}"
EVEN = tuple(f"left to {edge:g}" for edge in LEFT_EDGES[3:6])
"""Columns of the table of balance: leaves with hardly a row, and nodes that split evenly."""


def claims(tables: Tables) -> list[Claim]:
    return [
        *_rivals(tables.get("table1"), PAID, ("DP-ERT", "DP-RF"), REGRESSION, "Table 1"),
        *_rivals(
            tables.get("table2"), ALL, ("DP-ERT", "DP-RF", "DP-DF"), CLASSIFICATION, "Table 2"
        ),
        _little_to_choose(tables.get("table2")),
        *_with_epsilon(tables.get("figure2")),
        _deeper(tables.get("figure1_depth"), "Deeper trees cost accuracy", "Figure 1 (a)"),
        _more_trees(tables.get("figure1_trees")),
        _flip_at_small_epsilon(tables.get("figure1_epsilon")),
        *_large_rho(tables.get("figure7_8_rho")),
        _all_rows(tables.get("figure1_depth"), tables.get("figure5_depth")),
        *_balance(tables.get("balance")),
    ]


def ahead(table: pd.DataFrame, name: str, first: str, second: str) -> Lead:
    """First over second on the splits of a set that both have; an error less is a lead."""
    both = pd.concat([scores(table, name, first), scores(table, name, second)], axis=1).dropna()
    sign = -SETS[name] if name in REGRESSION else 1.0
    return lead(sign * (both.iloc[:, 0] - both.iloc[:, 1]))


# ------------------------------------------------------------------------------------- the tables
def _rivals(
    table: pd.DataFrame | None,
    methods: Sequence[str],
    rivals: Sequence[str],
    names: Sequence[str],
    where: str,
) -> list[Claim]:
    return [
        Claim(
            f"{method.split(',')[0]} leads {rival}",
            where,
            where_it_holds(found),
            listed(found, 2 if names is REGRESSION else 3),
            leads=found,
            program=authors.ahead(names, PROGRAMS_NAMES.get(method, method), rival, SETS),
            decimals=2 if names is REGRESSION else 3,
        )
        for method in methods
        for rival in rivals
        if (found := _by_set(table, names, method, rival))
    ]


def _by_set(
    table: pd.DataFrame | None, names: Sequence[str], method: str, rival: str
) -> dict[str, Lead]:
    if table is None or table.empty:
        return {}
    leads = {name: ahead(table, name, method, rival) for name in names}
    return {name: found for name, found in leads.items() if found.n}


def _little_to_choose(table: pd.DataFrame | None) -> Claim:
    """Do two variants differ by more than so much?"""
    verdicts, found = {}, {}
    for name in CLASSIFICATION:
        for one, two in ((ALL[0], ALL[1]), (ALL[1], ALL[2])):
            if table is not None and not table.empty and (gap := ahead(table, name, one, two)).n:
                place = f"{one.split(',')[0]} less {two.split(',')[0]} on {name}"
                found[place], verdicts[place] = gap, gap.within(LITTLE)
    return Claim(
        f"There is little to choose between the variants (here: {LITTLE:g})",
        "Table 2",
        joined(verdicts),
        listed(found) or NOTHING,
        leads=found,
    )


# ------------------------------------------------------------------------------------ the figures
def _at(table: pd.DataFrame, method: str, **setting: float) -> pd.Series:
    """Scores by split."""
    mine = table[table["method"] == method]
    for column, value in setting.items():
        mine = mine[mine[column] == value]
    return mine.set_index("seed")["score"]


def _with_epsilon(table: pd.DataFrame | None) -> list[Claim]:
    if table is None or table.empty:
        return []
    top = float(table["epsilon"].max())
    found = {
        rival: lead(_at(table, "DiPriMe", epsilon=top) - _at(table, rival, epsilon=top))
        for rival in ("DP-ERT", "DP-DF")
    }
    return [
        Claim(
            "DP-ERT and DP-DF stay behind DiPriMe even as epsilon grows",
            "Figure 2",
            where_it_holds(found),
            f"lead of DiPriMe at epsilon {top:g}: {listed(found)}",
            leads=found,
        )
    ]


def _errors(
    table: pd.DataFrame | None, method: str, column: str, planned: Sequence[int] = ()
) -> pd.DataFrame:
    """(split, value of a column), of the splits that have all values that are planned."""
    if table is None or table.empty:
        return pd.DataFrame()
    mine = table[table["method"] == method]
    wide = mine.pivot_table(index="seed", columns=column, values="score")
    return wide.reindex(columns=list(planned or PLANNED[column])).dropna()


def _worse_at_most(
    table: pd.DataFrame | None,
    column: str,
    says: str,
    where: str,
    noun: str,
    program: Mapping[str, Lead] | None = None,
) -> Claim:
    """Is the largest value that is planned clearly worse than the best of the smaller ones?"""
    found, best_at = {}, []
    for method in ALL:
        errors = _errors(table, method, column)
        if len(errors):
            *_, most = errors.columns
            best = errors.drop(columns=most).mean().idxmin()
            found[method] = lead(1e3 * (errors[most] - errors[best]))
            best_at.append(f"{method}: {best:g}")
    if not found:
        return Claim(says, where, NOT_RUN, NOTHING)
    return Claim(
        says,
        where,
        where_it_holds(found),
        f"{noun} {most:g} less the best of the smaller ones ({'; '.join(best_at)}), {UNITS}: "
        f"{listed(found, 2)}",
        leads=found,
        program=program or {},
        decimals=2,
    )


UNITS = "error in units of Table 1"


def _deeper(table: pd.DataFrame | None, says: str, where: str) -> Claim:
    program = {
        f"DiPriMe, {d} less {BEST_DEPTH}": authors.deeper("DiPriMe", d, BEST_DEPTH)
        for d in DEPTHS
        if d > BEST_DEPTH
    }
    return _worse_at_most(
        table, "depth", says, where, "depth", {k: v for k, v in program.items() if v.n}
    )


def _more_trees(table: pd.DataFrame | None) -> Claim:
    return _worse_at_most(
        table,
        "n_estimators",
        "More trees help only up to a limit",
        "Figure 1 (b)",
        "number of trees",
    )


def _flip_at_small_epsilon(table: pd.DataFrame | None) -> Claim:
    says, where = "At small epsilon DiPriMeFlip falls behind DiPriMeExp", "Figure 1 (c)"
    if table is None or table.empty:
        return Claim(says, where, NOT_RUN, NOTHING)
    least = float(table["epsilon"].min())
    gap = lead(1e3 * (_at(table, PAID[1], epsilon=least) - _at(table, PAID[0], epsilon=least)))
    return Claim(
        says,
        where,
        gap.verdict,
        f"error of Flip less Exp at epsilon {least:g}: {gap.shown(2)}",
        leads={"": gap},
    )


def _large_rho(table: pd.DataFrame | None) -> list[Claim]:
    if table is None or table.empty:
        return []
    low, high = float(table["rho"].min()), float(table["rho"].max())
    made = []
    for method, figure in zip(PAID, ("Figure 7", "Figure 8"), strict=True):
        found = {
            f"epsilon {e:g}": lead(
                1e3
                * (_at(table, method, epsilon=e, rho=high) - _at(table, method, epsilon=e, rho=low))
            )
            for e in sorted(table["epsilon"].unique())
        }
        made.append(
            Claim(
                f"A large rho leaves too little for the means: {method.split(',')[0]}",
                figure,
                where_it_holds(found),
                f"error at rho {high:g} less {low:g}: {listed(found, 2)}",
                leads=found,
            )
        )
    return made


def _all_rows(folds: pd.DataFrame | None, every: pd.DataFrame | None) -> Claim:
    """Split by split, the best depth on all rows less that on folds."""
    found = {}
    for method in ALL:
        part, full = (_errors(t, method, "depth", SHARED_DEPTHS) for t in (folds, every))
        if len(part) and len(full):
            found[method] = lead((full.idxmin(axis=1) - part.idxmin(axis=1)).dropna())
    return Claim(
        "The best depth is larger if trees share all rows",
        "Figure 5",
        where_it_holds(found),
        f"best depth on all rows less on folds, split by split: {listed(found, 1)}"
        if found
        else NOTHING,
        leads=found,
    )


def _balance(table: pd.DataFrame | None) -> list[Claim]:
    """Split by split: fewer leaves nearly empty, and more nodes that split evenly."""
    if table is None or table.empty:
        return []
    leaves = _by_method(table, "wall_robot", [NEARLY_EMPTY])
    nodes = _by_method(table, "banknote", EVEN)
    emptier = {m: lead(leaves[m] - leaves["DiPriMe"]) for m in ("DP-ERT", "DP-RF", "DP-DF")}
    edge = NEARLY_EMPTY.rsplit(" ", 1)[1]
    return [
        Claim(
            "Median splits leave fewer leaves nearly empty than DP-ERT, DP-RF and DP-DF",
            "Figure 3",
            where_it_holds(emptier),
            f"part of the leaves with at most {edge} of the rows: {_shares(leaves.mean())}; less "
            f"DiPriMe's: {listed(emptier, 2)}",
            leads=emptier,
        ),
        Claim(
            "Median splits are more even than random ones",
            "Figure 4",
            (even := lead(nodes["DiPriMe"] - nodes["DP-ERT"])).verdict,
            "part of the nodes that send a quarter to three quarters left: "
            f"{_shares(nodes.mean()[['DiPriMe', 'DP-ERT']])}; difference: {even.shown(2)}",
            leads={"": even},
        ),
    ]


def _by_method(table: pd.DataFrame, name: str, columns: Sequence[str]) -> pd.DataFrame:
    """(split, method) the sum of some columns of the table of balance."""
    mine = table[table["data"] == name]
    return mine.assign(part=mine[list(columns)].sum(axis=1)).pivot(
        index="seed", columns="method", values="part"
    )


def _shares(values: pd.Series) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in values.items())
