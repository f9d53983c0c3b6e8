"""What the grids of Gubler's study say, in tables and in sentences that are computed."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pandas as pd

from studies.gubler.methods import honest_factor

SETTING = ["seed", "n", "p", "rho", "depth"]
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
    error = differences.std() / np.sqrt(max(len(differences), 1))
    return f"{differences.mean():+.1f} ± {error:.1f} points"


def verdict(differences: pd.Series) -> str:
    """Whether a difference is clear: more than two standard errors from zero."""
    error = float(differences.std() / np.sqrt(max(len(differences), 1)))
    if abs(differences.mean()) <= 2.0 * error:
        return "no clear difference"
    return "better" if differences.mean() > 0.0 else "worse"


# -------------------------------------------------------------------------------------- mixtures
def honest_epsilons(mixture: pd.DataFrame) -> pd.DataFrame:
    """What Algorithm 6 as printed spends for each claimed epsilon."""
    printed = mixture[mixture["method"] == "saving as printed"]
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


METHOD_ORDER = ["plain", "saving", "saving as printed", "defaults", "local", "centralised"]


def claims(mixture: pd.DataFrame) -> list[str]:
    """One line for each claim of the report."""
    private = mixture[mixture["epsilon"] > 0.0]
    return [
        *_saving_claims(private),
        *_local_claims(mixture),
        *_correlation_claims(mixture),
    ]


def in_short(mixture: pd.DataFrame) -> str:
    """The two questions that the report answers with yes, answered by these runs."""
    saving = paired(mixture[mixture["epsilon"] > 0.0], "saving", "plain")
    by_p = ", ".join(f"{verdict(part)} at p = {p}" for p, part in saving.groupby("p"))
    gaps = ahead_table(mixture).set_index("n")
    passes = []
    for n, row in gaps.iterrows():
        ahead = [e for e in row.dropna().index if (row.dropna().loc[e:] > 0.0).all()]
        when = f"from epsilon {ahead[0]:g} on" if ahead else "at no epsilon"
        passes.append(f"{when} with n = {n}")
    return (
        "**Does saving still beat plain at the honest epsilon?** The report finds it ahead "
        f"everywhere. Here it is: {by_p}. **Where does the federated tree beat one party's own "
        "tree?** With the default extras, in the mean over settings: " + ", ".join(passes) + "."
    )


def _saving_claims(private: pd.DataFrame) -> list[str]:
    saving, printed = (
        paired(private, "saving", "plain"),
        paired(private, "saving as printed", "plain"),
    )
    by_p = saving.groupby("p").apply(with_error).to_dict()
    return [
        f"**Saving against plain, both at the same honest epsilon:** {with_error(saving)} "
        f"({verdict(saving)}); by number of features "
        + ", ".join(f"p = {p}: {words}" for p, words in by_p.items())
        + ".",
        "**Saving as printed against plain at the claimed epsilon**, for which it spends the "
        f"larger epsilon above: {with_error(printed)} ({verdict(printed)}).",
    ]


def _local_claims(mixture: pd.DataFrame) -> list[str]:
    lines = []
    for method in ("plain", "saving", "defaults"):
        ahead, total = _ahead_of_local(mixture, method)
        lines.append(
            f"**{method} against one party's own tree without privacy:** ahead in {ahead} of "
            f"{total} settings (n, p, rho, depth, epsilon)."
        )
    lines.append(f"The extras against plain: {with_error(paired(mixture, 'defaults', 'plain'))}.")
    return lines


def _ahead_of_local(mixture: pd.DataFrame, method: str) -> tuple[int, int]:
    """Settings in which the mean over runs is above the local tree's."""
    keys = ["n", "p", "rho", "depth"]
    mine = mixture[mixture["method"] == method].groupby([*keys, "epsilon"])["accuracy"].mean()
    local = mixture[mixture["method"] == "local"].groupby(keys)["accuracy"].mean()
    base = local.reindex(mine.index.droplevel("epsilon")).to_numpy()
    return int((mine.to_numpy() > base).sum()), len(mine)


def ahead_table(mixture: pd.DataFrame) -> pd.DataFrame:
    """By rows and epsilon, how far the defaults are from one party's own tree, in points."""
    keys = ["n", "p", "rho", "depth"]
    mine = mixture[mixture["method"] == "defaults"].groupby([*keys, "epsilon"])["accuracy"].mean()
    local = mixture[mixture["method"] == "local"].groupby(keys)["accuracy"].mean()
    gap = 100.0 * (mine - local.reindex(mine.index.droplevel("epsilon")).to_numpy())
    return gap.groupby(["n", "epsilon"]).mean().unstack().reset_index()


def _correlation_claims(mixture: pd.DataFrame) -> list[str]:
    means = mixture.groupby(["method", "rho"])["accuracy"].mean().unstack()
    gaps = means.loc["defaults"] - means.loc["centralised"]
    words = ", ".join(f"{100 * gap:+.1f} points at rho = {rho}" for rho, gap in gaps.items())
    return [f"**Defaults against the pooled tree without privacy:** {words}."]


# -------------------------------------------------------------------------------------- the rest
def share_table(shares: pd.DataFrame) -> pd.DataFrame:
    table = shares.pivot_table(index="leaf_share", columns="bounds_share", values="accuracy")
    table.columns = ["no saving" if c == 0.0 else f"bounds {c:g}" for c in table.columns]
    return table.reset_index().rename(columns={"leaf_share": "leaf share"})


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


MAIN = ["plain", "saving", "saving as printed", "defaults", "defaults + saving"]


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
        "accuracy, delta 0",
        "accuracy, delta 1e-6",
        "AUC, both",
        "verdict",
    ]
    return pd.DataFrame(rows, columns=names)
