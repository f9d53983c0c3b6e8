"""What the grids of Gubler's study say, in tables and in sentences that are computed."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import pandas as pd

from studies.claims import lead
from studies.gubler.methods import AS_PRINTED, AS_RELEASED, honest_factor
from studies.gubler.paper import AUTHORS, REPEATED_AT

SETTING = ["seed", "n", "p", "rho", "depth"]
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
    """What Algorithm 6 as printed spends for each claimed epsilon."""
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
    """By rows and epsilon, how far the defaults are from one party's own tree, in points."""
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
