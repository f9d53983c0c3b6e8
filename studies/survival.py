"""`python -m studies survival`: time to an event under privacy, beside methods without it.

The twelve sets of SurvSet on which the method was designed and three made ones; beside them all
other sets of SurvSet with 1,500 records or more and one row a person. 70 % of the records are
trained on. Constants of the method were chosen on other splits.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

import hedgerow as hr
from hedgerow.models.survival import concordance
from studies.harness import Cell, Computation, Grid
from studies.pages import markdown_table, write_page

Numbers = NDArray[np.float64]

FIRST_SPLIT = 1000
EPSILONS, N_SITES = ("0.5", "1", "3", "8", "none"), (1, 5)
OTHERS = ("kaplan-meier", "cox", "boosting", "forest")
MOST_TRAINED, MOST_TESTED = 2000, 1500
"""Records of other ensembles, which take long; so they are a floor for what these can do."""
TRAINED, GRID = 0.7, 20
MEASURES = ("c", "brier", "calibration")
SHIPPED = {
    "flchain": "fac_chapter",
    "support2": "fac_sfdm2 fac_dnr",
    "rhc": "",
    "Dialysis": "",
    "Framingham": "",
    "prostateSurvival": "",
    "smarto": "",
    "dataDIVAT1": "",
    "rott2": "",
    "GBSG2": "",
    "whas500": "",
    "hdfail": "",
}
"""By name in SurvSet: columns that are no features, since the outcome or later care wrote them."""
MADE = ("hazards", "interactions", "crossing")
FURTHER = (
    *("Aids2", "TRACE", "UnempDur", "acath", "dataDIVAT2"),
    *("dataDIVAT3", "divorce", "nwtco", "scania"),
)
GROUPS = {"design": (*SHIPPED, *MADE), "further": FURTHER}


def run(computation: Computation, splits: int, quick: bool) -> None:
    names = ("whas500", "hazards") if quick else (*SHIPPED, *MADE, *FURTHER)
    grids: dict[str, Grid] = {
        "private": (private, cells(splits, names, product(N_SITES, EPSILONS), "n_sites epsilon")),
        "others": (other, cells(splits, names, ((name,) for name in OTHERS), "method")),
    }
    tables = computation.tables(grids)
    command = f"python -m studies survival --splits {splits}"
    title = "Time to an event, with and without privacy"
    write_page(computation, "README.md", title, command, page(tables["private"], tables["others"]))


def cells(splits: int, names: tuple[str, ...], settings: Any, words: str) -> list[Cell]:
    """Split by split, so that a run cut short has whole tables."""
    keys = ("split", "dataset", *words.split())
    seeds, ways = range(FIRST_SPLIT, FIRST_SPLIT + splits), list(settings)
    return [dict(zip(keys, (s, d, *w), strict=True)) for s, d, w in product(seeds, names, ways)]


# ------------------------------------------------------------------------------------------- data
@cache
def loaded(dataset: str) -> tuple[pd.DataFrame, Numbers, Numbers]:
    """Features, times, events."""
    if dataset in MADE:
        return made(dataset)
    from SurvSet.data import SurvLoader

    rows = SurvLoader().load_dataset(ds_name=dataset)["df"]
    times, events = rows.pop("time").to_numpy(float), rows.pop("event").to_numpy(float)
    return rows.drop(columns=["pid", *SHIPPED.get(dataset, "").split()]), times, events


def made(dataset: str, n: int = 20_000) -> tuple[pd.DataFrame, Numbers, Numbers]:
    """Eight columns; hazards that are proportional, depend on pairs, or cross over time."""
    rng = np.random.default_rng(len(dataset))
    X = rng.normal(size=(n, 8))
    score = 0.7 * X[:, 0] + 0.3 * X[:, 1] ** 2 + 0.4 * (X[:, 2] > 0)
    if dataset == "interactions":
        score = 0.9 * np.sign(X[:, 0] * X[:, 1]) + 0.5 * X[:, 2] * (X[:, 3] > 0)
    shape = np.where(X[:, 4] > 0, 1.8, 0.7) if dataset == "crossing" else np.ones(n)
    times = 5.0 * (rng.exponential(size=n) * np.exp(-score)) ** (1.0 / shape)
    last = rng.uniform(1.0, 20.0, n)
    rows = pd.DataFrame(X, columns=[f"x{j}" for j in range(8)])
    return rows, np.minimum(times, last), (times <= last).astype(float)


def schema_of(rows: pd.DataFrame, times: Numbers) -> hr.Schema:
    """Ranges to two digits outwards, which stand for what people would declare."""
    features: dict[str, Any] = {}
    for name in rows:
        numeric = pd.api.types.is_numeric_dtype(rows[name]) and rows[name].nunique() > 2
        if numeric:
            features[str(name)] = (_round(rows[name].min(), -1), _round(rows[name].max(), 1))
        else:
            features[str(name)] = sorted(rows[name].dropna().astype(str).unique())
    return hr.Schema(features, survival=hr.Survival("time", "event", _round(times.max(), 1)))


def _round(value: float, up: int) -> float:
    unit = 10.0 ** (np.floor(np.log10(max(abs(value), 1e-9))) - 1)
    return float((np.ceil if up > 0 else np.floor)(value / unit) * unit) + up * 1e-9


def parted(dataset: str, split: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    order = np.random.default_rng(split).permutation(len(loaded(dataset)[1]))
    cut = int(TRAINED * len(order))
    return order[:cut], order[cut:]


# --------------------------------------------------------------------------------------- measured
def private(split: int, dataset: str, n_sites: int, epsilon: str) -> dict[str, float]:
    return private_with(split, dataset, n_sites, epsilon)


def private_with(
    split: int, dataset: str, n_sites: int, epsilon: str, **options: Any
) -> dict[str, float]:
    rows, times, events = loaded(dataset)
    train, test = parted(dataset, split)
    schema = schema_of(rows, times)
    table = rows.astype({n: object for n in rows if isinstance(_kind(schema, n), hr.Categorical)})
    y = np.empty(len(times), [("event", bool), ("time", float)])
    y["event"], y["time"] = events, times
    noise = {"dp_model": "none"} if epsilon == "none" else {"epsilon": float(epsilon)}
    model = hr.SurvivalBoostedTrees(schema, random_state=split, **noise, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        site = None if n_sites == 1 else np.arange(len(train)) % n_sites
        sites = None if n_sites == 1 else range(n_sites)
        model.fit(table.iloc[train], y[train], site=site, sites=sites)
        risk = model.predict(table.iloc[test])
    found = measures(risk, lambda t: model.curve_.survival(risk, t), times, events, train, test)
    return {**found, "rounds": float(len(model.run_.rounds))}


def _kind(schema: hr.Schema, name: Any) -> Any:
    return schema.features[schema.index(str(name))]


def other(split: int, dataset: str, method: str) -> dict[str, float]:
    """A method of scikit-survival, without any privacy."""
    from sksurv.ensemble import GradientBoostingSurvivalAnalysis, RandomSurvivalForest
    from sksurv.linear_model import CoxPHSurvivalAnalysis

    rows, times, events = loaded(dataset)
    train, test = parted(dataset, split)
    if method == "kaplan-meier":
        curve = kaplan_meier(times[train], events[train])
        zero, many = np.zeros(len(test)), (len(test), 1)
        return measures(zero, lambda t: np.tile(curve(t), many), times, events, train, test)
    X = _numbers_of(rows, train)
    made_by: dict[str, Callable[[], Any]] = {
        "cox": lambda: CoxPHSurvivalAnalysis(alpha=1e-2),
        "boosting": lambda: GradientBoostingSurvivalAnalysis(n_estimators=80, random_state=0),
        "forest": lambda: RandomSurvivalForest(50, min_samples_leaf=15, random_state=0),
    }
    some = train
    if method != "cox":
        some, test = train[:MOST_TRAINED], test[:MOST_TESTED]
    y = np.empty(len(times), [("event", bool), ("time", float)])
    y["event"], y["time"] = events, np.maximum(times, 1e-3)
    model = made_by[method]().fit(X[some], y[some])
    parts = np.array_split(test, max(len(test) // 500, 1))

    def survival(t: Numbers) -> Numbers:
        functions = [f for part in parts for f in model.predict_survival_function(X[part])]
        return np.array([f(np.clip(t, *f.domain)) for f in functions])

    risk = np.concatenate([model.predict(X[part]) for part in parts])
    return measures(risk, survival, times, events, train, test)


def _numbers_of(rows: pd.DataFrame, train: Any) -> Numbers:
    """Categories one by one, missing numbers as the median, all on one scale."""
    texts = [c for c in rows if not pd.api.types.is_numeric_dtype(rows[c])]
    X = pd.get_dummies(rows, columns=texts, drop_first=True).astype(float)
    X = X.fillna(X.iloc[train].median()).to_numpy()
    spread = X[train].std(axis=0)
    kept = spread > 0
    return np.asarray((X[:, kept] - X[train][:, kept].mean(axis=0)) / spread[kept])


def kaplan_meier(times: Numbers, events: Numbers) -> Callable[[Numbers], Numbers]:
    order = np.unique(times)
    risk = len(times) - np.searchsorted(np.sort(times), order, side="left")
    died = np.array([((times == t) & (events == 1)).sum() for t in order])
    steps = np.concatenate([[1.0], np.cumprod(1.0 - died / risk)])
    return lambda t: steps[np.searchsorted(order, t, side="right")]


def measures(
    risk: Numbers,
    survival: Callable[[Numbers], Numbers],
    times: Numbers,
    events: Numbers,
    train: Any,
    test: Any,
) -> dict[str, float]:
    """Harrell's C; the integrated Brier score, weighed against censoring; the calibration error."""
    t, e = times[test], events[test]
    first = np.quantile(times[train][events[train] == 1], 0.05)
    grid = np.linspace(first, np.quantile(times[train], 0.9), GRID)
    said = survival(grid)
    free = kaplan_meier(t, 1.0 - e)
    at_event = np.maximum(free(np.nextafter(t, 0.0)), 0.05)
    errors = [
        np.mean(
            np.where((t <= g) & (e == 1), s**2 / at_event, 0.0)
            + np.where(t > g, (1.0 - s) ** 2 / max(float(free(g)), 0.05), 0.0)
        )
        for g, s in zip(grid, said.T, strict=True)
    ]
    return {
        "c": concordance(risk, np.where(e == 1, t, -t)),
        "brier": float(np.mean(errors)),
        "calibration": _calibration_error(said, grid, t, e),
    }


def _calibration_error(said: Numbers, grid: Numbers, t: Numbers, e: Numbers) -> float:
    """Mean distance of said and found chances in tenths of risk, at two times."""
    errors = []
    for place in (GRID // 3, 2 * GRID // 3):
        order = np.array_split(np.argsort(said[:, place], kind="stable"), 10)
        found = [float(kaplan_meier(t[part], e[part])(grid[place])) for part in order]
        errors += [abs(f - said[part, place].mean()) for f, part in zip(found, order, strict=True)]
    return float(np.mean(errors))


# ------------------------------------------------------------------------------------------- page
def page(private_rows: pd.DataFrame, other_rows: pd.DataFrame) -> list[str]:
    alone = private_rows[private_rows["n_sites"] == 1]
    parts = [HEAD.format(splits=private_rows["split"].nunique())]
    for measure in MEASURES:
        mine = alone.pivot_table(index="dataset", columns="epsilon", values=measure)
        others = other_rows.pivot_table(index="dataset", columns="method", values=measure)
        table = mine[[e for e in EPSILONS if e in mine]].join(others)
        for group, names in GROUPS.items():
            table.loc[f"mean, {group}"] = table[table.index.isin(names)].mean()
        parts += [f"## {measure}", markdown_table(table.round(4).reset_index())]
    sites = private_rows.pivot_table(index="epsilon", columns="n_sites", values=list(MEASURES))
    sites.columns = [f"{measure}, {sites} site(s)" for measure, sites in sites.columns]
    return [*parts, "## One site and five", markdown_table(sites.round(4).reset_index())]


HEAD = """`SurvivalBoostedTrees` (delta = 1e-6), mean of {splits} split(s), by epsilon; *none* is
without noise. Beside it methods without privacy: Kaplan-Meier is one curve for all, Cox,
boosting and forest are scikit-survival's, the latter two trained on at most 2,000 records.
Design: the twelve sets on which the method was designed, and three made ones. Further: the others
of SurvSet with 1,500 records or more.
"""
