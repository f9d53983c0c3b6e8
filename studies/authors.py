"""What the authors' own released programs gave on the studies' splits: facts that are quoted.

`studies/data/authors.zip` has one row a fit, numbers only. Liu et al. have released no program.
Where a program differs from its own paper: `DIFFERS`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import pandas as pd

from studies.claims import Lead, clustered, lead
from studies.kept import archived

STUDY = "authors"
PROGRAMS = {
    "maddock": "Samuel-Maddock/federated-boosted-dp-trees @ d3d9a5e",
    "consul": "shoryaconsul/DiPriMeFlip_Forest @ 9f51f0e",
    "wang": "kaiwenw/DPDDT @ 23234b5",
    "gubler": "hgubler/federated-private-trees @ 8a30843",
}
"""Public repositories and commits."""
DIFFERS = {
    "maddock": "Table 4, Figure 3 and all methods with the Iterative Hessian and one feature a "
    "tree have noise for gradient and Hessian apart (scalar), not together; partially random trees "
    "ask the total of the root by a query of its own, T more than Table 1 counts, and a cut is "
    "drawn now and then that no candidate has",
    "consul": "DP-ERT of Table 2 is one less a mean absolute error and no accuracy, DP-DF has half "
    "of epsilon, DP-RF of Table 1 alone does not clamp its means",
    "wang": "thresholds leave out the lower end of a range; noise of the noisy maximum is 4.6 "
    "times smaller than in the text",
    "gubler": "the script trains on twice the rows that the report names; bounds are always zero",
}
"""Where a program differs from its paper, by reading and running it."""


@cache
def rows(paper: str) -> pd.DataFrame:
    found = archived(STUDY).frame(paper)
    return pd.DataFrame() if found is None else found


@cache
def values(paper: str, **where: Any) -> pd.Series:
    """By split; the mean where a split has several."""
    table = rows(paper)
    for name, value in where.items():
        table = table[table[name].isna() if value is None else table[name] == value]
    return table.groupby("split")["value"].mean() if len(table) else pd.Series(dtype=float)


def leads(pairs: Mapping[str, tuple[pd.Series, pd.Series]], least: int = 4) -> dict[str, Lead]:
    """First less second by place, on the splits that both have; few pairs say nothing."""
    found = {place: lead(first - second) for place, (first, second) in pairs.items()}
    return {place: gap for place, gap in found.items() if gap.n >= least}


# --------------------------------------------------------------------------------------- Maddock
def aucs(data: str, kind: str, update: str, epsilon: float) -> pd.Series:
    """Of the tables of weight updates."""
    split = {"histogram": "hist_based"}.get(kind, kind)
    method = "weight updates"
    return values(
        "maddock", dataset=data, method=method, split_method=split, update=update, epsilon=epsilon
    )


def over_epsilons(
    sets: Mapping[str, str],
    first: tuple[str, str],
    second: tuple[str, str],
    epsilons: Iterable[float],
) -> dict[str, Lead]:
    """Leads of one kind and update over another, all epsilons of a split being one cluster."""
    found = {}
    for data, title in sets.items():
        gaps = [aucs(data, *first, e) - aucs(data, *second, e) for e in epsilons]
        gap = clustered(pd.concat(gaps), ["split"], "splits")
        if gap.n >= 3:
            found[title] = gap
    return found


def of_column(
    sets: Mapping[str, str], method: str, column: str, first: object, second: object
) -> dict[str, Lead]:
    """Rows of one experiment that differ in one column."""
    return leads(
        {
            title: (
                values("maddock", dataset=data, method=method, **{column: first}),
                values("maddock", dataset=data, method=method, **{column: second}),
            )
            for data, title in sets.items()
        }
    )


# ---------------------------------------------------------------------------------------- Consul
def ahead(
    names: Iterable[str], method: str, rival: str, units: Mapping[str, float]
) -> dict[str, Lead]:
    """Leads in the tables, all scored alike; an error less is a lead."""
    pairs = {}
    for name in names:
        is_error = units[name] > 1.0
        sign, metric = (-units[name], "mse") if is_error else (1.0, "accuracy")
        one, two = (
            sign * values("consul", dataset=name, method=m, metric=metric, depth=0)
            for m in (method, rival)
        )
        pairs[name] = one, two
    return leads(pairs)


def deeper(method: str, deep: int, shallow: int, epsilon: float = 10.0) -> Lead:
    """Error of Figure 1 (a) at one depth less that at another."""
    one, two = (
        values("consul", method=method, metric="mse", depth=d, epsilon=epsilon)
        for d in (deep, shallow)
    )
    return lead(1e3 * (one - two))


# ------------------------------------------------------------------------------------------ Wang
def wang(column: str, first: str, second: str, names: Iterable[str]) -> dict[str, Lead]:
    """Of two methods, pairs of one run at one epsilon; the epsilons of a run are one cluster."""
    table = rows("wang")
    found = {}
    for name in names:
        mine = table[table["dataset"] == name] if len(table) else table
        wide = (
            mine.pivot_table(index=["split", "epsilon"], columns="method", values=column)
            if len(mine)
            else pd.DataFrame()
        )
        if first in wide and second in wide:
            found[name] = clustered((wide[first] - wide[second]).dropna(), ["split"], "runs")
    return found


# ---------------------------------------------------------------------------------------- Gubler
SAVING, PLAIN, LOCAL, POOLED = "saving as released", "plain", "local", "centralised"
DRAW = ["split", "p", "rho"]


def gubler() -> pd.DataFrame:
    """Accuracies in per cent, (draw, depth, epsilon) by method, on the study's own draws."""
    table = rows("gubler")
    if table.empty:
        return table
    mine = table[table["draw"] == "study"].assign(value=100.0 * table["value"])
    keys = [*DRAW, "depth"]
    wide = mine[mine["epsilon"] > 0].pivot_table(
        index=[*keys, "epsilon"], columns="method", values="value"
    )
    for method in (LOCAL, POOLED):
        alone = mine[mine["method"] == method].set_index(keys)["value"]
        wide[method] = alone.reindex(wide.index.droplevel("epsilon")).to_numpy()
    return wide
