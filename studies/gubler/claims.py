"""The claims of Gubler's report, judged on paired runs: same rows, same setting, same epsilon."""

from __future__ import annotations

import pandas as pd

from studies import authors
from studies.claims import NOTHING, OPEN, Claim, Lead, clustered, lead, listed, where_it_holds
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
DRAW = ["seed", "n", "p", "rho"]
POINTS = 100.0
"""Accuracies are told in per cent."""
SAVINGS = {
    "as released": AS_RELEASED,
    "as printed": AS_PRINTED,
    "made sound": "saving",
}


RELEASED = "as released"
"""What the authors' program is beside: its own bounds."""


def claims(mixture: pd.DataFrame) -> list[Claim]:
    """On both depths; the pairs of one draw of rows are one cluster."""
    return [
        *(_saving(mixture, words) for words in SAVINGS),
        *(_with_features(mixture, words) for words in SAVINGS),
        *(_with_depth(mixture, words) for words in SAVINGS),
        *(_above_local(mixture, words) for words in SAVINGS),
        *(_correlation(mixture, words) for words in SAVINGS),
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
    return {f"{name} = {key:g}": clustered(part, DRAW) for key, part in values.groupby(level)}


def _program(words: str, method: str, against: str) -> pd.Series:
    """The authors' program on the study's draws, method less another."""
    wide = authors.gubler()
    if words != RELEASED or wide.empty:
        return pd.Series(dtype=float)
    return (wide[method] - wide[against]).dropna()


def _of_program(values: pd.Series, draw: list[str]) -> dict[str, Lead]:
    return {"": clustered(values, draw)} if len(values) else {}


# ----------------------------------------------------------------------------------------- claims
def _saving(mixture: pd.DataFrame, words: str) -> Claim:
    found = _by(gains(mixture, SAVINGS[words]), "p", "p")
    program = _program(words, authors.SAVING, authors.PLAIN)
    return Claim(
        f"Saving budget is consistently more accurate than plain: {words}",
        "section 4.2, Figures 3 to 5",
        where_it_holds(found),
        listed(found, 1),
        _authors(words),
        leads=found,
        program={f"p = {p:g}": clustered(part, authors.DRAW) for p, part in program.groupby("p")}
        if len(program)
        else {},
        decimals=1,
    )


def _authors(words: str) -> str:
    column = {"as released": "as released", "as printed": "with the report's bound"}.get(words)
    if column is None:
        return NOTHING
    return "; ".join(
        f"p = {p}, epsilon {epsilon:g}: {POINTS * (found[column] - found['plain']):+.1f}"
        for (p, epsilon), found in AUTHORS.items()
    )


def _with_features(mixture: pd.DataFrame, words: str) -> Claim:
    wide = _unstacked(gains(mixture, SAVINGS[words]), "p")
    many, few = (max(wide.columns), min(wide.columns)) if len(wide.columns) > 1 else (0, 0)
    found = clustered(wide[many] - wide[few], ["seed", "n", "rho"]) if many != few else lead([])
    theirs = _unstacked(_program(words, authors.SAVING, authors.PLAIN), "p")
    program = theirs[many] - theirs[few] if {many, few} <= set(theirs) else pd.Series(dtype=float)
    return Claim(
        f"The gain grows with the number of features: {words}",
        "section 4.2, Figure 3",
        found.verdict,
        f"gain at p = {many} less gain at p = {few}: {found.shown(1)}",
        leads={"": found},
        program=_of_program(program, ["split", "rho"]),
        decimals=1,
    )


def _unstacked(values: pd.Series, level: str) -> pd.DataFrame:
    return values.unstack(level) if not values.empty else pd.DataFrame()


def _with_depth(mixture: pd.DataFrame, words: str) -> Claim:
    wide = _unstacked(gains(mixture, SAVINGS[words]), "depth")
    both = DEEP in wide and SHALLOW in wide
    found = clustered(wide[DEEP] - wide[SHALLOW], DRAW) if both else lead([])
    theirs = _unstacked(_program(words, authors.SAVING, authors.PLAIN), "depth")
    program = theirs[DEEP] - theirs[SHALLOW] if DEEP in theirs else pd.Series(dtype=float)
    return Claim(
        f"The gain grows with the depth: {words}",
        "section 4.2, Figure 3",
        _of_enough(found),
        f"gain at depth {DEEP} less gain at depth {SHALLOW}: {found.shown(1)}",
        leads={"": found},
        program=_of_program(program, authors.DRAW),
        decimals=1,
    )


def _of_enough(found: Lead) -> str:
    """A verdict that a rerun could reverse is none, however clear so few pairs look."""
    if found.n >= ENOUGH or not found.is_clear:
        return found.verdict
    return f"{OPEN}: {found.n} of the {ENOUGH} draws that a verdict on depth needs"


def _above_local(mixture: pd.DataFrame, words: str) -> Claim:
    """At all epsilons beyond the report's own, for it names a range and not a point."""
    rows, keys = {}, ["seed", "p", "rho", "depth"]
    for n, part in mixture.groupby("n"):
        limit = REACHES_LOCAL_WITH_FEW_ROWS if n == mixture["n"].min() else REACHES_LOCAL_BY
        mine = part[(part["epsilon"] >= limit) & (part["method"] == SAVINGS[words])]
        beyond = " and ".join(f"{e:g}" for e in sorted(mine["epsilon"].unique()))
        local = part[part["method"] == "local"].set_index(keys)["accuracy"]
        saved = mine.set_index(keys)["accuracy"]
        gaps = POINTS * (saved - local.reindex(saved.index))
        rows[f"n = {n}, epsilon {beyond}"] = clustered(gaps, ["seed", "p", "rho"])
    program = _program(words, authors.SAVING, authors.LOCAL)
    if len(program):
        program = program[program.index.get_level_values("epsilon") >= REACHES_LOCAL_BY]
    return Claim(
        f"Beyond a small epsilon it passes one party's own tree: {words}",
        "section 4.2, Figures 3 to 5",
        where_it_holds(rows),
        listed(rows, 1),
        leads=rows,
        program=_of_program(program, authors.DRAW),
        decimals=1,
    )


def _correlation(mixture: pd.DataFrame, words: str) -> Claim:
    """Gap to the pooled tree: smaller where columns are strongly correlated?"""
    mine = mixture[mixture["method"] == SAVINGS[words]]
    pooled = mixture[mixture["method"] == "centralised"].set_index(SETTING)["accuracy"]
    keys = pd.MultiIndex.from_frame(mine[SETTING])
    gap = mine.assign(gap=POINTS * (mine["accuracy"] - pooled.reindex(keys).to_numpy()))
    index = ["seed", "n", "p", "depth", "epsilon"]
    wide = gap.pivot_table(index=index, columns="rho", values="gap")
    theirs = _unstacked(_program(words, authors.SAVING, authors.POOLED), "rho")
    program = pd.Series(dtype=float)
    if LOW_RHO in theirs:
        program = theirs.drop(columns=LOW_RHO).mean(axis=1) - theirs[LOW_RHO]
    if len(wide.columns) < 2:
        found = lead([])
    else:
        each = (wide.drop(columns=LOW_RHO).mean(axis=1) - wide[LOW_RHO]).dropna()
        found = clustered(each, ["seed", "n", "p"])
    return Claim(
        f"Beside the trees without privacy it does better at high correlation: {words}",
        "section 4.2, Figures 3 to 5",
        found.verdict,
        f"gap to the pooled tree at high less at low correlation: {found.shown(1)}",
        leads={"": found},
        program=_of_program(program, ["split", "p"]),
        decimals=1,
    )
