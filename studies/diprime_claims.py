"""The numbers that Consul and Williamson 2020 print, and what their released code gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pandas as pd

from studies import authors
from studies.claims import (
    ABSTRACT,
    NOTHING,
    OURS,
    Claim,
    Lead,
    lead,
    listed,
)
from studies.diprime_fits import (
    CLASSIFICATION,
    LEFT_EDGES,
    OCCUPANCY_EDGES,
    REGRESSION,
)

SETS = {
    "parkinsons": 1e2,
    "appliances_energy": 1e3,
    "metro_traffic": 1e3,
    "gas_turbine": 1e4,
    "flights_nyc13": 1e4,
    "banknote": 1.0,
    "credit_default": 1.0,
    "wall_robot": 1.0,
    "higgs_18k": 1.0,
    "puc_rio_har": 1.0,
}
"""In the order of Tables 1 and 2, with the units in which an error is printed."""

_TABLE_1 = """
RF 1.59 .07 6.27 .48 4.64 .20 1.22 .04 1.98 .06
ERT 2.56 .16 7.17 .50 6.31 .35 2.25 .11 2.05 .06
Median 1.88 .09 6.17 .43 6.66 .41 1.08 .04 2.09 .07
DP-RF 5.61 1.26 40.7 6.2 33.1 5.6 241 56 407 26
DP-ERT 3.46 .14 8.72 .62 43.2 3.3 41.9 9.9 2.72 .08
DiPriMe 3.36 .13 8.58 .63 50.6 5.5 15.7 .9 2.38 .07
DiPriMeExp 3.32 .10 8.53 .60 31.8 2.3 9.60 1.11 2.38 .07
DiPriMeFlip 3.30 .12 8.46 .60 24.7 2.9 8.12 .66 2.32 .06
"""
_TABLE_2 = """
RF .989 .007 .819 .005 .987 .004 .702 .003 1.000 .000
ERT .983 .009 .814 .006 .878 .008 .648 .003 1.000 .000
Median .985 .009 .789 .005 .953 .004 .695 .003 1.000 .000
DP-DF .557 .029 .781 .005 .600 .014 .530 .003 .515 .004
DP-RF .853 .024 .792 .005 .728 .021 .540 .003 .985 .009
DP-ERT .684 .022 .674 .004 .594 .008 .506 .001 .787 .022
DiPriMe .910 .011 .783 .006 .759 .015 .599 .007 .999 .001
DiPriMeExp .907 .021 .784 .005 .762 .016 .606 .005 1.000 .000
DiPriMeFlip .903 .012 .781 .005 .784 .019 .608 .005 1.000 .000
"""
NAMES = {
    "Median, no noise": "Median",
    "DiPriMeExp, paid": "DiPriMeExp",
    "DiPriMeFlip, paid": "DiPriMeFlip",
    "DiPriMeExp as printed": "DiPriMeExp",
}
"""Our rows that stand for one of the paper's under another name."""
VARIANTS = ("DiPriMe", "DiPriMeExp", "DiPriMeFlip")


def _read(text: str, sets: list[str]) -> dict[tuple[str, str], tuple[float, float]]:
    found = {}
    for row in text.strip().splitlines():
        method, *numbers = row.split()
        for i, name in enumerate(sets):
            mean, deviation = float(numbers[2 * i]), float(numbers[2 * i + 1])
            found[method, name] = (mean / SETS[name], deviation / SETS[name])
    return found


PRINTED = _read(_TABLE_1, list(SETS)[:5]) | _read(_TABLE_2, list(SETS)[5:])
"""(method, set) -> mean and standard deviation, an error in its own units."""


def printed(method: str, name: str) -> tuple[float, float] | None:
    return PRINTED.get((NAMES.get(method, method), name))


ROWS = {"higgs_18k": 100_000, "puc_rio_har": 122_244, "flights_nyc13": 800_000}
"""Rows that the paper names for sets of which we have others."""


# --------------------------------------------------------------------------------------------------
# What the tables of the median forests say: ours beside the paper's numbers and beside rivals.
TIMES = {name: times for name, times in SETS.items() if times > 1.0}
"""The paper's units of the mean squared error."""
PEER = "diffprivlib forest"


def scaled(name: str, mean: float, deviation: float | None = None) -> str:
    """In the paper's units."""
    times = TIMES.get(name, 1.0)
    digits = 2 if name in TIMES else 3
    shown = f"{times * mean:.{digits}f}"
    return shown if deviation is None else f"{shown} ± {times * deviation:.{digits}f}"


def scores(table: pd.DataFrame, name: str, method: str) -> pd.Series[float]:
    """By split."""
    mine = table[(table.data == name) & (table.method == method)]
    return mine.set_index("seed").score


# ------------------------------------------------------------------------------ against the paper


# ----------------------------------------------------------------------------- against the rivals


# --------------------------------------------------------------------------------------------------
# The claims of Consul and Williamson 2020, judged split by split at the honest epsilon.
Tables = Mapping[str, pd.DataFrame]

PAID = ("DiPriMeExp, paid", "DiPriMeFlip, paid")
ALL = ("DiPriMe", *PAID)
DEPTHS, SIZES = (2, 4, 6, 8, 9, 10), (4, 10, 28)
"""Levels, and numbers of trees, of Figure 1 by which its claims are judged."""
BEST_DEPTH = 8
"""Where the paper's curve has its minimum."""
SHARED_DEPTHS, SHARED_SIZES = DEPTHS[:4], (4, 10, 25)
"""Levels and numbers of trees that Figure 5, on all rows, has too."""
PLANNED = {"depth": DEPTHS, "n_estimators": SIZES}
LITTLE = 0.02
"""Of accuracy: what "little to choose" means here."""
NEARLY_EMPTY = f"leaf to {OCCUPANCY_EDGES[1]:g}"
EVEN = tuple(f"left to {edge:g}" for edge in LEFT_EDGES[3:6])
"""Columns of the table of balance: leaves with hardly a row, and nodes that split evenly."""


OURS_TITLE = "ours"
VARIANTS_OF_ROWS = {name.split(",")[0]: name for name in ALL}
NEAR_ALIKE, AS_WELL = 0.2, 0.05
"""Parts of an error: how near random forests and extra-trees are alike, and what is as well."""


def claims(tables: Tables) -> list[Claim]:
    one, two = (tables.get(f"table{k}", pd.DataFrame()) for k in (1, 2))
    return [
        *(_rivals(one, rival, REGRESSION, f"{ABSTRACT}; Table 1") for rival in ("DP-ERT", "DP-RF")),
        *(
            _rivals(two, rival, CLASSIFICATION, f"{ABSTRACT}; Table 2")
            for rival in ("DP-ERT", "DP-RF", "DP-DF")
        ),
        *(_ours(one, rival, REGRESSION, f"{ABSTRACT}; Table 1") for rival in ("DP-ERT", "DP-RF")),
        *(
            _ours(two, rival, CLASSIFICATION, f"{ABSTRACT}; Table 2")
            for rival in ("DP-ERT", "DP-RF", "DP-DF")
        ),
        *_balance(tables.get("balance")),
        _without_privacy(one, two),
        _target_matters(one),
        _little_to_choose(two),
        *_with_epsilon(tables.get("figure2"), two),
        _deeper(tables.get("figure1_depth"), "Deeper trees cost accuracy", "Figure 1 (a)"),
        _more_trees(tables.get("figure1_trees")),
        _flip_at_small_epsilon(tables.get("figure1_epsilon")),
        *_large_rho(tables.get("figure7_8_rho")),
        _all_rows(tables.get("figure1_depth"), tables.get("figure5_depth")),
    ]


def ahead(table: pd.DataFrame, name: str, first: str, second: str) -> Lead:
    """First over second on the splits of a set that both have; an error less is a lead."""
    both = pd.concat([scores(table, name, first), scores(table, name, second)], axis=1).dropna()
    sign = -SETS[name] if name in REGRESSION else 1.0
    return lead(sign * (both.iloc[:, 0] - both.iloc[:, 1]))


# ------------------------------------------------------------------------------------- the tables
def _rivals(table: pd.DataFrame, rival: str, names: Sequence[str], where: str) -> Claim:
    """Each variant against a rival on each set; base DiPriMe is not claimed for Table 1."""
    variants = ALL if names is CLASSIFICATION else PAID
    found, program = dict[str, Lead](), dict[str, Lead]()
    for method in variants:
        title = method.split(",")[0]
        theirs = authors.ahead(names, title, rival, SETS)
        program |= {f"{title} on {name}": gap for name, gap in theirs.items()}
        found |= {
            f"{title} on {name}": gap for name, gap in _by_set(table, names, method, rival).items()
        }
    decimals = 2 if names is REGRESSION else 3
    return Claim(
        f"DiPriMe and its variants lead {rival}", where, found, program=program, decimals=decimals
    )


def _ours(table: pd.DataFrame, rival: str, names: Sequence[str], where: str) -> Claim:
    found = _by_set(table, names, OURS_TITLE, rival)
    decimals = 2 if names is REGRESSION else 3
    says = f"DiPriMe and its variants lead {rival}"
    numbers = listed(found, decimals)
    return Claim(says, where, found, told=numbers, column=OURS)


def _by_set(table: pd.DataFrame, names: Sequence[str], method: str, rival: str) -> dict[str, Lead]:
    if table.empty:
        return {}
    leads = {name: ahead(table, name, method, rival) for name in names}
    return {name: found for name, found in leads.items() if found.n}


def _without_privacy(one: pd.DataFrame, two: pd.DataFrame) -> Claim:
    found = {
        **_by_set(one, REGRESSION, "RF", "Median, no noise"),
        **_by_set(two, CLASSIFICATION, "RF", "Median, no noise"),
    }
    return Claim(
        "Without privacy median forests are below random forests",
        "Tables 1 and 2",
        found,
        "RF less median forest",
    )


def _target_matters(table: pd.DataFrame) -> Claim:
    """DiPriMe beside DiPriMeExp: as good where the target matters little, behind elsewhere."""
    found, verdicts = dict[str, Lead](), dict[str, str]()
    for name in REGRESSION:
        if table.empty or not len(scores(table, name, "RF")):
            continue
        forest, random, exp = (scores(table, name, m).mean() for m in ("RF", "ERT", PAID[0]))
        gap = ahead(table, name, PAID[0], "DiPriMe")
        if not gap.n:
            continue
        is_near = random / forest - 1.0 < NEAR_ALIKE
        place = f"{name} ({'near' if is_near else 'far'})"
        found[place] = gap
        verdicts[place] = gap.within(AS_WELL * SETS[name] * exp) if is_near else gap.verdict
    return Claim(
        "DiPriMe does as well as DiPriMeExp where RF and ERT are near, else worse",
        "Table 1",
        found,
        judged=verdicts,
        words=f"lead of DiPriMeExp; near: ERT within {NEAR_ALIKE:.0%} of RF, as well: within "
        f"{AS_WELL:.0%} of the error",
        decimals=2,
    )


def _little_to_choose(table: pd.DataFrame) -> Claim:
    """Do two variants differ by more than so much?"""
    verdicts, found = {}, {}
    for name in CLASSIFICATION:
        for one, two in ((ALL[0], ALL[1]), (ALL[1], ALL[2])):
            if not table.empty and (gap := ahead(table, name, one, two)).n:
                place = f"{one.split(',')[0]} less {two.split(',')[0]} on {name}"
                found[place], verdicts[place] = gap, gap.within(LITTLE)
    return Claim(
        f"There is little to choose between the variants (here: {LITTLE:g})",
        "Table 2",
        found,
        judged=verdicts,
    )


# ------------------------------------------------------------------------------------ the figures
def _at(table: pd.DataFrame, method: str, **setting: float) -> pd.Series:
    """Scores by split."""
    mine = table[table["method"] == method]
    for column, value in setting.items():
        mine = mine[mine[column] == value]
    return mine.set_index("seed")["score"]


def _with_epsilon(table: pd.DataFrame | None, plain: pd.DataFrame) -> list[Claim]:
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
            found,
            f"lead of DiPriMe at epsilon {top:g}",
        ),
        _meets(table, plain, top),
    ]


def _meets(table: pd.DataFrame, plain: pd.DataFrame, top: float) -> Claim:
    """At the largest epsilon, on the splits of the set that both tables have."""
    forest = scores(plain, "banknote", "RF") if len(plain) else pd.Series(dtype=float)
    found = {
        title: lead(_at(table, name, epsilon=top) - forest)
        for title, name in VARIANTS_OF_ROWS.items()
    }
    return Claim(
        f"As epsilon grows they meet forests without privacy (here: {LITTLE:g})",
        "Figure 2",
        found,
        f"less RF at epsilon {top:g}",
        judged={title: gap.within(LITTLE) for title, gap in found.items()},
    )


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
        return Claim(says, where, {})
    return Claim(
        says,
        where,
        found,
        f"{noun} {most:g} less the best of the smaller ones ({'; '.join(best_at)}), {UNITS}",
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
        return Claim(says, where, {})
    least = float(table["epsilon"].min())
    gap = lead(1e3 * (_at(table, PAID[1], epsilon=least) - _at(table, PAID[0], epsilon=least)))
    return Claim(says, where, {"": gap}, f"error of Flip less Exp at epsilon {least:g}")


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
                found,
                f"error at rho {high:g} less {low:g}",
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
        found,
        told=f"best depth on all rows less on folds, split by split: {listed(found, 1)}"
        if found
        else NOTHING,
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
            f"{ABSTRACT}; Figure 3",
            emptier,
            f"part of the leaves with at most {edge} of the rows: {_shares(leaves.mean())}; "
            "less DiPriMe's",
        ),
        Claim(
            "Median splits are more even than random ones",
            f"{ABSTRACT}; Figure 4",
            {"": lead(nodes["DiPriMe"] - nodes["DP-ERT"])},
            "part of the nodes that send a quarter to three quarters left: "
            f"{_shares(nodes.mean()[['DiPriMe', 'DP-ERT']])}; difference",
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
