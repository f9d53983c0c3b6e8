"""The claims of Gubler's report, judged on paired runs: same rows, same setting, same epsilon."""

from __future__ import annotations

import pandas as pd

from studies.claims import NOTHING, OPEN, Claim, Lead, lead, listed, where_it_holds
from studies.gubler.methods import AS_PRINTED, AS_RELEASED
from studies.gubler.paper import (
    AUTHORS,
    DEEP,
    ENOUGH,
    LOW_RHO,
    REACHES_LOCAL_BY,
    REACHES_LOCAL_WITH_FEW_ROWS,
    SHALLOW,
)

SETTING = ["seed", "n", "p", "rho", "depth"]
POINTS = 100.0
"""Accuracies are told in per cent."""
SAVINGS = {
    "as released": AS_RELEASED,
    "as printed": AS_PRINTED,
    "made sound": "saving",
}


def claims(mixture: pd.DataFrame) -> list[Claim]:
    shallow = mixture[mixture["depth"] == SHALLOW]
    return [
        *(_saving(shallow, words) for words in SAVINGS),
        *(_with_features(shallow, words) for words in SAVINGS),
        *(_with_depth(mixture, words) for words in SAVINGS),
        *(_above_local(shallow, words) for words in SAVINGS),
        *(_correlation(shallow, words) for words in SAVINGS),
    ]


def gains(mixture: pd.DataFrame, method: str, against: str = "plain") -> pd.Series:
    """Method less another, pair by pair, in per cent of accuracy."""
    kept = mixture[mixture["method"].isin([method, against])]
    wide = kept.pivot_table(index=[*SETTING, "epsilon"], columns="method", values="accuracy")
    if method not in wide or against not in wide:
        return pd.Series(dtype=float)
    return POINTS * (wide[method] - wide[against]).dropna()


def _by(values: pd.Series, level: str, name: str) -> dict[str, Lead]:
    if values.empty:
        return {}
    return {f"{name} = {key:g}": lead(part) for key, part in values.groupby(level)}


# ----------------------------------------------------------------------------------------- claims
def _saving(shallow: pd.DataFrame, words: str) -> Claim:
    found = _by(gains(shallow, SAVINGS[words]), "p", "p")
    return Claim(
        f"Saving budget is consistently more accurate than plain: {words}",
        "section 4.2, Figures 3 to 5",
        where_it_holds(found),
        listed(found, 1),
        _authors(words),
        leads=found,
    )


def _authors(words: str) -> str:
    column = {"as released": "as released", "as printed": "with the report's bound"}.get(words)
    if column is None:
        return NOTHING
    return "; ".join(
        f"p = {p}, epsilon {epsilon:g}: {POINTS * (found[column] - found['plain']):+.1f}"
        for (p, epsilon), found in AUTHORS.items()
    )


def _with_features(shallow: pd.DataFrame, words: str) -> Claim:
    each = gains(shallow, SAVINGS[words])
    wide = each.unstack("p") if not each.empty else pd.DataFrame()
    many, few = (max(wide.columns), min(wide.columns)) if len(wide.columns) > 1 else (0, 0)
    found = lead(wide[many] - wide[few]) if many != few else lead([])
    return Claim(
        f"The gain grows with the number of features: {words}",
        "section 4.2, Figure 3",
        found.verdict,
        f"gain at p = {many} less gain at p = {few}: {found.shown(1)}",
        leads={"": found},
    )


def _with_depth(mixture: pd.DataFrame, words: str) -> Claim:
    each = gains(mixture, SAVINGS[words])
    wide = each.unstack("depth") if not each.empty else pd.DataFrame()
    both = DEEP in wide and SHALLOW in wide
    found = lead(wide[DEEP] - wide[SHALLOW]) if both else lead([])
    return Claim(
        f"The gain grows with the depth: {words}",
        "section 4.2, Figure 3",
        _of_enough(found),
        f"gain at depth {DEEP} less gain at depth {SHALLOW}: {found.shown(1)}",
        leads={"": found},
    )


def _of_enough(found: Lead) -> str:
    """A verdict that a rerun could reverse is none, however clear so few pairs look."""
    if found.n >= ENOUGH or not found.is_clear:
        return found.verdict
    return f"{OPEN}: {found.n} of the {ENOUGH} pairs that a verdict on depth needs"


def _above_local(shallow: pd.DataFrame, words: str) -> Claim:
    """At all epsilons beyond the report's own, for it names a range and not a point."""
    rows = {}
    for n, part in shallow.groupby("n"):
        limit = REACHES_LOCAL_WITH_FEW_ROWS if n == shallow["n"].min() else REACHES_LOCAL_BY
        mine = part[(part["epsilon"] >= limit) & (part["method"] == SAVINGS[words])]
        beyond = " and ".join(f"{e:g}" for e in sorted(mine["epsilon"].unique()))
        local = part[part["method"] == "local"].set_index(["seed", "p", "rho"])["accuracy"]
        keys = mine.set_index(["seed", "p", "rho"])["accuracy"]
        rows[f"n = {n}, epsilon {beyond}"] = lead(POINTS * (keys - local.reindex(keys.index)))
    return Claim(
        f"Beyond a small epsilon it passes one party's own tree: {words}",
        "section 4.2, Figures 3 to 5",
        where_it_holds(rows),
        listed(rows, 1),
        leads=rows,
    )


def _correlation(shallow: pd.DataFrame, words: str) -> Claim:
    """Gap to the pooled tree: smaller where columns are strongly correlated?"""
    mine = shallow[shallow["method"] == SAVINGS[words]]
    pooled = shallow[shallow["method"] == "centralised"].set_index(SETTING)["accuracy"]
    keys = pd.MultiIndex.from_frame(mine[SETTING])
    gap = mine.assign(gap=POINTS * (mine["accuracy"] - pooled.reindex(keys).to_numpy()))
    wide = gap.pivot_table(index=["seed", "n", "p", "epsilon"], columns="rho", values="gap")
    if len(wide.columns) < 2:
        found = lead([])
    else:
        found = lead((wide.drop(columns=LOW_RHO).mean(axis=1) - wide[LOW_RHO]).dropna())
    return Claim(
        f"Beside the trees without privacy it does better at high correlation: {words}",
        "section 4.2, Figures 3 to 5",
        found.verdict,
        f"gap to the pooled tree at high less at low correlation: {found.shown(1)}",
        leads={"": found},
    )
