"""What Gubler's released code gives, and what the report says of its own study, as numbers."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from studies import authors
from studies.claims import (
    NOTHING,
    OPEN,
    OURS,
    PUBLISHED,
    RELEASED,
    Claim,
    Lead,
    clustered,
    lead,
)
from studies.gubler_fits import AS_PRINTED, AS_RELEASED

RUNS = 50
"""Of the report, for every point."""
SHALLOW, DEEP = 5, 10
"""Its two depths."""
LOW_RHO, HIGH_RHO = 0.3, 0.9
AUTHORS: dict[tuple[int, float], dict[str, float]] = {
    (10, 1.0): {"plain": 0.686, "as released": 0.677, "with the report's bound": 0.601},
    (10, 5.0): {"plain": 0.716, "as released": 0.732, "with the report's bound": 0.684},
    (50, 1.0): {"plain": 0.665, "as released": 0.702, "with the report's bound": 0.635},
    (50, 5.0): {"plain": 0.716, "as released": 0.716, "with the report's bound": 0.571},
}
"""(features, epsilon) -> accuracy of hgubler/federated-private-trees, fc89ef9, run as it is and
with the local bound of the report's text put in."""
REACHES_LOCAL_BY = 2.0
"""The largest epsilon at which the report usually sees saving pass one site's own tree."""
REACHES_LOCAL_WITH_FEW_ROWS = 5.0
"""The same with 100 rows (appendix A.2)."""
ENOUGH = 200
"""Draws, of two epsilons each, below which no verdict is given: a rerun could reverse it."""


# --------------------------------------------------------------------------------------------------
# The claims of Gubler's report, judged on paired runs: same rows, same setting, same epsilon.
SETTING = ["seed", "n", "p", "rho", "depth"]
DRAW = ["seed", "n", "p", "rho"]
POINTS = 100.0
"""Accuracies are in per cent."""
SAVINGS = {RELEASED: AS_RELEASED, PUBLISHED: AS_PRINTED, OURS: "saving"}
"""By column: with the released code's bounds, which are zero, with the report's, and repaired."""


def claims(mixture: pd.DataFrame, shares: pd.DataFrame | None = None) -> list[Claim]:
    """On both depths; the pairs of one draw of rows are one cluster."""
    judged = (_saving, _with_features, _with_depth, _above_local, _correlation, _regularizes)
    return [
        *(judge(mixture, words) for judge in judged[:4] for words in SAVINGS),
        _plain_below_local(mixture),
        *(judge(mixture, words) for judge in judged[4:] for words in SAVINGS),
        *(_of_shares(shares) if shares is not None and len(shares) else ()),
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
        "Saving budget is consistently more accurate than plain",
        "section 4.2, Figures 3 to 5",
        found,
        authors=_authors(words),
        program={f"p = {p:g}": clustered(part, authors.DRAW) for p, part in program.groupby("p")}
        if len(program)
        else {},
        decimals=1,
        column=words,
    )


def _authors(words: str) -> str:
    column = {RELEASED: "as released", PUBLISHED: "with the report's bound"}.get(words)
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
        "The gain grows with the number of features",
        "section 4.2, Figure 3",
        {"": found},
        f"gain at p = {many} less gain at p = {few}",
        program=_of_program(program, ["split", "rho"]),
        decimals=1,
        column=words,
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
        "The gain grows with the depth",
        "section 4.2, Figure 3",
        {"": found},
        f"gain at depth {DEEP} less gain at depth {SHALLOW}",
        judged={"": _of_enough(found)},
        program=_of_program(program, authors.DRAW),
        decimals=1,
        column=words,
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
        "Beyond a small epsilon it passes one site's own tree",
        "section 4.2, Figures 3 to 5",
        rows,
        program=_of_program(program, authors.DRAW),
        decimals=1,
        column=words,
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
        "Beside the trees without privacy it does better at high correlation",
        "section 4.2, Figures 3 to 5",
        {"": found},
        "gap to the pooled tree at high less at low correlation",
        program=_of_program(program, ["split", "p"]),
        decimals=1,
        column=words,
    )


def _plain_below_local(mixture: pd.DataFrame) -> Claim:
    keys = ["seed", "n", "p", "rho", "depth"]
    local = mixture[mixture["method"] == "local"].set_index(keys)["accuracy"]
    plain = mixture[mixture["method"] == "plain"].set_index([*keys, "epsilon"])["accuracy"]
    known = local.reindex(plain.index.droplevel("epsilon")).to_numpy()
    found = _by(POINTS * (known - plain), "n", "n")
    theirs = authors.gubler()
    return Claim(
        "Without saving it is often below one site's own tree",
        "section 4.2, Figures 3 to 5",
        found,
        "local less plain",
        program=_of_program((theirs[authors.LOCAL] - theirs[authors.PLAIN]).dropna(), authors.DRAW)
        if len(theirs)
        else {},
        decimals=1,
        column=PUBLISHED,
    )


def _regularizes(mixture: pd.DataFrame, words: str) -> Claim:
    """In some cases above the pooled tree: noise against overfitting."""
    mine = gains_over_pooled(mixture[mixture["rho"] == HIGH_RHO], SAVINGS[words])
    found = _by(mine[mine.index.get_level_values("epsilon") >= REACHES_LOCAL_BY], "n", "n")
    return Claim(
        f"Noise regularizes: above the pooled tree at correlation {HIGH_RHO:g}",
        "section 4.2, Figures 3 to 5",
        found,
        f"at epsilon {REACHES_LOCAL_BY:g} and above",
        decimals=1,
        column=words,
    )


def gains_over_pooled(mixture: pd.DataFrame, method: str) -> pd.Series:
    keys = ["seed", "n", "p", "rho", "depth"]
    pooled = mixture[mixture["method"] == "centralised"].set_index(keys)["accuracy"]
    mine = mixture[mixture["method"] == method].set_index([*keys, "epsilon"])["accuracy"]
    return POINTS * (mine - pooled.reindex(mine.index.droplevel("epsilon")).to_numpy()).dropna()


INSIDE, LARGE_SHARE = (0.3, 0.8), 0.7
"""The report's range of good leaf shares; from where a share is large."""


def _of_shares(shares: pd.DataFrame) -> Iterator[Claim]:
    """The two sentences on Figure 2, run by run."""
    leaf, bounds = shares["leaf_fraction"], shares["bounds_fraction"]
    for says, column, mine, good in (
        (
            f"Leaf shares of {INSIDE[0]:g} to {INSIDE[1]:g} are better than others (plain)",
            PUBLISHED,
            bounds == 0.0,
            leaf.between(*INSIDE),
        ),
        (
            "With saving, a large share of leaves or bounds is worse",
            OURS,
            bounds > 0.0,
            (leaf < LARGE_SHARE) & (bounds < LARGE_SHARE),
        ),
    ):
        by_run = [shares[mine & part].groupby("seed")["accuracy"].mean() for part in (good, ~good)]
        found = lead(POINTS * (by_run[0] - by_run[1]))
        numbers = f"mean of the better shares less that of the others: {found.shown(1)}"
        yield Claim(says, "section 3.6, Figure 2", {"": found}, told=numbers, column=column)


METHOD_ORDER = ["plain", "saving", AS_PRINTED, AS_RELEASED, "defaults", "local", "centralised"]
