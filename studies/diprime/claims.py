"""The claims of Consul and Williamson 2020, judged split by split at the honest epsilon."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from studies.claims import (
    FAILS,
    HOLDS,
    NOT_RUN,
    NOTHING,
    Claim,
    Lead,
    lead,
    listed,
    where_it_holds,
)
from studies.diprime.data import CLASSIFICATION, REGRESSION
from studies.diprime.fits import LEFT_EDGES, OCCUPANCY_EDGES
from studies.diprime.paper import PRINTED, RELEASED_CODE, SETS
from studies.diprime.verdicts import scores

Tables = Mapping[str, pd.DataFrame]

PAID = ("DiPriMeExp, paid", "DiPriMeFlip, paid")
ALL = ("DiPriMe", *PAID)
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
        *_all_rows(tables.get("figure1_depth"), tables.get("figure5_depth")),
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
            f"{method.split(',')[0]} is clearly ahead of {rival}",
            where,
            where_it_holds(found),
            listed(found, 2 if names is REGRESSION else 3),
            _released(rival, names),
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


def _released(rival: str, names: Sequence[str]) -> str:
    """What the released code gives for the rival, where it was run, beside what is printed."""
    said = [
        f"{rival} on {name}: {given:.3f}, printed {PRINTED[rival, name][0]:.3f}"
        for name in names
        if (given := RELEASED_CODE.get((rival, name))) is not None
    ]
    return "; ".join(said) or NOTHING


def _little_to_choose(table: pd.DataFrame | None) -> Claim:
    found = {}
    for name in CLASSIFICATION:
        for one, two in ((ALL[0], ALL[1]), (ALL[1], ALL[2])):
            if table is not None and (gap := ahead(table, name, one, two)).n > 1:
                found[f"{name}, {one.split(',')[0]} less {two.split(',')[0]}"] = gap
    apart = [name for name, gap in found.items() if gap.is_clear]
    verdict = NOT_RUN if not found else f"holds but for {'; '.join(apart)}" if apart else HOLDS
    return Claim(
        "There is little to choose between the variants", "Table 2", verdict, listed(found)
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
        )
    ]


def _best(table: pd.DataFrame, method: str, column: str) -> tuple[float, float]:
    """The value with the smallest mean error, and the largest value that was tried."""
    means = table[table["method"] == method].groupby(column)["score"].mean()
    return float(means.idxmin()), float(means.index.max())


def _worse_at_most(
    table: pd.DataFrame | None, column: str, says: str, where: str, noun: str
) -> Claim:
    """Is the largest value that was tried clearly worse than the best one?"""
    if table is None or table.empty:
        return Claim(says, where, NOT_RUN, NOTHING)
    found, best_at = {}, []
    for method in ALL:
        best, most = _best(table, method, column)
        gap = _at(table, method, **{column: most}) - _at(table, method, **{column: best})
        found[method] = lead(1e3 * gap) if best < most else lead([])
        best_at.append(f"{method}: best {noun} {best:g}")
    verdict = where_it_holds(found)
    verdict = FAILS if verdict == NOT_RUN else verdict
    return Claim(
        says,
        where,
        verdict,
        f"{'; '.join(best_at)}; error at most less best, {UNITS}: {listed(found, 2)}",
    )


UNITS = "in units of Table 1"


def _deeper(table: pd.DataFrame | None, says: str, where: str) -> Claim:
    return _worse_at_most(table, "depth", says, where, "depth")


def _more_trees(table: pd.DataFrame | None) -> Claim:
    return _worse_at_most(
        table, "n_trees", "More trees help only up to a limit", "Figure 1 (b)", "number of trees"
    )


def _flip_at_small_epsilon(table: pd.DataFrame | None) -> Claim:
    says, where = "At small epsilon DiPriMeFlip falls behind DiPriMeExp", "Figure 1 (c)"
    if table is None or table.empty:
        return Claim(says, where, NOT_RUN, NOTHING)
    least = float(table["epsilon"].min())
    gap = lead(1e3 * (_at(table, PAID[1], epsilon=least) - _at(table, PAID[0], epsilon=least)))
    return Claim(
        says, where, gap.verdict, f"error of Flip less Exp at epsilon {least:g}: {gap.shown(2)}"
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
            )
        )
    return made


def _all_rows(folds: pd.DataFrame | None, every: pd.DataFrame | None) -> list[Claim]:
    if folds is None or every is None or folds.empty or every.empty:
        return []
    best = {m: (_best(folds, m, "depth")[0], _best(every, m, "depth")[0]) for m in ALL}
    deeper = [m for m, (part, full) in best.items() if full > part]
    verdict = HOLDS if len(deeper) == len(best) else FAILS
    if 0 < len(deeper) < len(best):
        verdict = f"holds only for {', '.join(deeper)}"
    said = "; ".join(
        f"{m}: {full:g} on all rows, {part:g} on folds" for m, (part, full) in best.items()
    )
    return [Claim("The best depth is larger if trees share all rows", "Figure 5", verdict, said)]


def _balance(table: pd.DataFrame | None) -> list[Claim]:
    if table is None or table.empty:
        return []
    leaves = table[table["data"] == "wall_robot"].set_index("method")[NEARLY_EMPTY]
    nodes = table[table["data"] == "banknote"].set_index("method")[list(EVEN)].sum(axis=1)
    others = leaves.drop(["DiPriMe", "DiPriMeExp, paid", "ours"], errors="ignore")
    edge = NEARLY_EMPTY.rsplit(" ", 1)[1]
    return [
        Claim(
            "Median splits leave fewer leaves nearly empty than DP-ERT, DP-RF and DP-DF",
            "Figure 3",
            HOLDS if leaves["DiPriMe"] < others.min() else FAILS,
            f"part of the leaves with at most {edge} of the rows: " + _shares(leaves),
        ),
        Claim(
            "Median splits are more even than random ones",
            "Figure 4",
            HOLDS if nodes["DiPriMe"] > nodes["DP-ERT"] else FAILS,
            "part of the nodes that send a quarter to three quarters left: "
            + _shares(nodes[["DiPriMe", "DP-ERT"]]),
        ),
    ]


def _shares(values: pd.Series) -> str:
    return ", ".join(f"{name} {value:.2f}" for name, value in values.items())
