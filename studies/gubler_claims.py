"""What Gubler's released code gives, and what the report says of its own study, as numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

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
    by_place,
    clustered,
    lead,
    listed,
)
from studies.gubler_fits import AS_PRINTED, AS_RELEASED, honest_factor

RUNS = 50
"""Of the report, for every point."""
SHALLOW, DEEP = 5, 10
"""Its two depths."""
LOW_RHO, HIGH_RHO = 0.3, 0.9
REPEATED_AT = {"n": 250, "rho": 0.3, "depth": 5}
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
        by_place(found),
        listed(found, 1),
        _authors(words),
        leads=found,
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
        by_place({"": found}),
        f"gain at p = {many} less gain at p = {few}: {found.shown(1)}",
        leads={"": found},
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
        {"": _of_enough(found)},
        f"gain at depth {DEEP} less gain at depth {SHALLOW}: {found.shown(1)}",
        leads={"": found},
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
        by_place(rows),
        listed(rows, 1),
        leads=rows,
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
        by_place({"": found}),
        f"gap to the pooled tree at high less at low correlation: {found.shown(1)}",
        leads={"": found},
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
        by_place(found),
        f"local less plain: {listed(found, 1)}",
        leads=found,
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
        by_place(found),
        f"at epsilon {REACHES_LOCAL_BY:g} and above: {listed(found, 1)}",
        leads=found,
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
        yield Claim(
            says,
            "section 3.6, Figure 2",
            by_place({"": found}),
            numbers,
            leads={"": found},
            column=column,
        )


# --------------------------------------------------------------------------------------------------
# What the grids of Gubler's study say, in tables and in sentences that are computed.
PURE, GAUSSIAN_DELTA = 0.0, 1e-6
HALF, QUARTER = Fraction(1, 2), Fraction(1, 4)


def paired(table: pd.DataFrame, first: str, second: str, value: str = "accuracy") -> pd.Series:
    """First less second, cell by cell, in points."""
    keys = [c for c in table.columns if c in (*SETTING, "epsilon", "delta", "data")]
    wide = table[table["method"].isin([first, second])].pivot_table(
        index=keys, columns="method", values=value
    )
    return 100.0 * (wide[first] - wide[second]).dropna()


def with_error(differences: pd.Series) -> str:
    """'+0.5 +- 0.2 points': mean and standard error over cells."""
    return f"{lead(differences).shown(1)} points"


def verdict(differences: pd.Series) -> str:
    """Whether a difference is clear, by Student's t."""
    found = lead(differences)
    if not found.is_clear:
        return "no clear difference"
    return "better" if found.mean > 0.0 else "worse"


# -------------------------------------------------------------------------------------- mixtures
def honest_epsilons(mixture: pd.DataFrame) -> pd.DataFrame:
    """What Algorithm 6 as published spends for each claimed epsilon."""
    printed = mixture[mixture["method"] == AS_PRINTED]
    ratio = (printed["spent"] / printed["epsilon"]).rename("ratio")
    rows = []
    for p, part in ratio.groupby(printed["p"]):
        factor = float(honest_factor(int(p), HALF, QUARTER))
        rows.append([p, factor, float(part.median()), float(part.max())])
    names = ["features", "by formula, nothing saved", "measured, median", "measured, largest"]
    return pd.DataFrame(rows, columns=names)


def mixture_means(mixture: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    means = mixture.pivot_table(index="method", columns=list(by), values="accuracy")
    order = [m for m in METHOD_ORDER if m in means.index]
    return means.loc[order]


METHOD_ORDER = ["plain", "saving", AS_PRINTED, AS_RELEASED, "defaults", "local", "centralised"]


def beside_the_author(mixture: pd.DataFrame) -> pd.DataFrame:
    """Accuracies where the released code was run, in the same settings."""
    at = mixture
    for name, value in REPEATED_AT.items():
        at = at[at[name] == value]
    rows = []
    for (p, epsilon), author in AUTHORS.items():
        mine = at[(at["p"] == p) & (at["epsilon"] == epsilon)]
        row: dict[str, object] = {"p": p, "epsilon": f"{epsilon:g}"}
        row |= {f"author, {name}": f"{value:.3f}" for name, value in author.items()}
        for method in ("plain", AS_RELEASED, AS_PRINTED, "saving"):
            found = mine[mine["method"] == method]["accuracy"]
            row[f"ours, {method}"] = with_deviation(found)
        rows.append(row)
    return pd.DataFrame(rows)


def with_deviation(values: pd.Series) -> str:
    if len(values) < 2:
        return "-" if values.empty else f"{values.mean():.3f}"
    return f"{values.mean():.3f} ({values.std(ddof=1):.3f})"


def ahead_table(mixture: pd.DataFrame) -> pd.DataFrame:
    """By rows and epsilon, how far the defaults are from one site's own tree, in points."""
    keys = ["n", "p", "rho", "depth"]
    mine = mixture[mixture["method"] == "defaults"].groupby([*keys, "epsilon"])["accuracy"].mean()
    local = mixture[mixture["method"] == "local"].groupby(keys)["accuracy"].mean()
    gap = 100.0 * (mine - local.reindex(mine.index.droplevel("epsilon")).to_numpy())
    return gap.groupby(["n", "epsilon"]).mean().unstack().reset_index()


# -------------------------------------------------------------------------------------- the rest
def share_table(shares: pd.DataFrame) -> pd.DataFrame:
    table = shares.pivot_table(
        index="leaf_fraction", columns="bounds_fraction", values="accuracy", aggfunc=with_deviation
    )
    table.columns = ["no saving" if c == 0.0 else f"bounds {c:g}" for c in table.columns]
    return table.reset_index().rename(columns={"leaf_fraction": "leaf share"})


def best_shares(shares: pd.DataFrame) -> str:
    """Where the mean is highest, and where the report's own shares stand."""
    means = shares.groupby(["leaf_fraction", "bounds_fraction"])["accuracy"].mean()
    saving = means[means.index.get_level_values("bounds_fraction") > 0.0]
    plain = means.xs(0.0, level="bounds_fraction")
    leaf, bound = saving.idxmax()
    return (
        f"Best without saving: leaf share {plain.idxmax():g} ({plain.max():.3f}; half: "
        f"{plain.get(float(HALF), float('nan')):.3f}). Best with saving: leaf share {leaf:g} and "
        f"bounds {bound:g} ({saving.max():.3f}; the report's half and quarter: "
        f"{saving.get((float(HALF), float(QUARTER)), float('nan')):.3f}).\n"
    )


def permuted_table(permuted: pd.DataFrame) -> pd.DataFrame:
    table = permuted.pivot_table(index=["n", "p", "epsilon"], columns="permuted", values="saved")
    table.columns = ["saved, true labels", "saved, permuted labels"]
    return table.reset_index()


def permuted_words(permuted: pd.DataFrame) -> str:
    keys = ["seed", "n", "p", "epsilon"]
    wide = permuted.pivot_table(index=keys, columns="permuted", values="saved")
    difference = 100.0 * (wide[False] - wide[True])
    return (
        f"With true labels nodes save {100 * wide[False].mean():.0f} % of their budget, with "
        f"permuted labels {100 * wide[True].mean():.0f} %: {with_error(difference)} for true "
        f"labels ({verdict(difference)} at saving)."
    )


def saving_sees_labels(permuted: pd.DataFrame) -> bool:
    """Whether true labels save clearly more than permuted ones."""
    keys = ["seed", "n", "p", "epsilon"]
    wide = permuted.pivot_table(index=keys, columns="permuted", values="saved")
    return verdict(wide[False] - wide[True]) == "better"


MAIN = ["plain", "saving", AS_PRINTED, "defaults", "defaults + saving"]


def real_table(
    real: pd.DataFrame, peers: pd.DataFrame | None, value: str, delta: float
) -> pd.DataFrame:
    """Mean over splits, by data set and method; the methods without privacy in their own rows."""
    private = real[(real["epsilon"] > 0.0) & (real["delta"] == delta)]
    private = private[private["method"].isin(MAIN)]
    if peers is not None and delta == 0.0:
        theirs = peers.assign(method="diffprivlib (trusted curator)")
        private = pd.concat([private, theirs[theirs["data"].isin(real["data"].unique())]])
    table = private.pivot_table(index=["data", "method"], columns="epsilon", values=value)
    for method in ("one site, no privacy", "no privacy"):
        bare = real[real["method"] == method].groupby("data")[value].mean()
        for name, score in bare.items():
            table.loc[(name, method), :] = score
    table.columns = [f"eps {c:g}" for c in table.columns]
    return table.sort_index(level="data", sort_remaining=False).reset_index()


EXTRAS = [
    ("known zeros", "plain + known zeros", "plain"),
    ("consistency", "plain + consistency", "plain"),
    ("both: the defaults", "defaults", "plain"),
    ("saving (Algorithm 6), no extras", "saving", "plain"),
    ("saving on top of the defaults", "defaults + saving", "defaults"),
]


def extras_table(real: pd.DataFrame) -> pd.DataFrame:
    """What each option adds, in points, with standard errors over cells."""
    private = real[real["epsilon"] > 0.0]
    rows = []
    for name, method, against in EXTRAS:
        accuracy = paired(private, method, against)
        auc = paired(private, method, against, "auc")
        pure = accuracy[accuracy.index.get_level_values("delta") == 0.0]
        gauss = accuracy[accuracy.index.get_level_values("delta") > 0.0]
        rows.append([name, against, *map(with_error, (pure, gauss, auc)), verdict(accuracy)])
    names = [
        "option",
        "against",
        f"accuracy, delta {PURE:g}",
        f"accuracy, delta {GAUSSIAN_DELTA:g}",
        "AUC, both",
        "verdict",
    ]
    return pd.DataFrame(rows, columns=names)
