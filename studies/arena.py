"""`python -m studies arena`: private learners against each other on 21 public sets.

Our default, forest and tree at one site and at five; diffprivlib's forest and logistic regression
and InterpretML's DP-EBM at one; LightGBM and scikit-learn's HistGB without privacy, their defaults.
All see the same rows, at most 15,000 of a set; delta is 1e-6 (diffprivlib: 0). AUC of two classes,
accuracy of more, R2 of a number. Splits from 1100 on, on which nothing was decided.

A *game* is a set, an epsilon and a split; the better score wins it. Ratings are those of Elo, by
the likeliest strengths of Bradley and Terry, 1,500 on average; errors are deviations over drawn
sets. *Gap closed*: the part of the way from no model to the better learner without privacy.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from time import process_time
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score

from studies.harness import Cell, Computation
from studies.ours_fits import (
    CLASSES,
    DELTA,
    FOR_CLASSES,
    FOR_NUMBERS,
    LARGE_UNSEEN,
    NUMBERS,
    SMALL_UNSEEN,
    Task,
    task,
)
from studies.pages import curves, markdown_table, write_page

SETS = (*SMALL_UNSEEN, *(name for name in CLASSES if name != "wall_bin"), *LARGE_UNSEEN, *NUMBERS)
EPSILONS = (1.0, 8.0, 0.1, 3.0, 0.5)
OURS = ("boosted", "forest", "tree")
PLAIN = ("LightGBM", "HistGB")
FIRST_SPLIT, N_SITES, MOST_ROWS = 1100, 5, 15_000
DRAWS, STEPS, AVERAGE, LOGISTIC = 200, 60, 1500.0, 400.0 / math.log(10.0)

Rows = NDArray[np.int64]
Learner = Callable[[Task, Rows, float, int, int], Any]
"""(task, training rows, epsilon, sites, seed) -> something fitted that predicts frames."""


# ---------------------------------------------------------------------------------------- players
def _ours(name: str, one: Task, train: Rows, epsilon: float, n_sites: int, seed: int) -> Any:
    kinds: Mapping[str, Any] = FOR_CLASSES if one.schema.target is None else FOR_NUMBERS
    site = None if n_sites == 1 else np.arange(len(train)) % n_sites
    model = kinds[name](one.schema, epsilon, DELTA, random_state=seed)
    return model.fit(one.X.iloc[train], one.y[train], site=site)


def _plain(name: str, one: Task, train: Rows, seed: int) -> Any:
    """Defaults; categories are numbered, as for diffprivlib."""
    from lightgbm import LGBMClassifier, LGBMRegressor
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    is_number = one.schema.target is not None
    if name == "LightGBM":
        kind: Any = LGBMRegressor if is_number else LGBMClassifier
        model = kind(random_state=seed, n_jobs=1, verbose=-1)
    else:
        kind = HistGradientBoostingRegressor if is_number else HistGradientBoostingClassifier
        model = kind(random_state=seed)
    return model.fit(_numbered(one.X).iloc[train], one.y[train])


def _dp_ebm(one: Task, train: Rows, epsilon: float, seed: int) -> Any:
    """Ranges and classes of the whole file are public, as for all."""
    privacy = import_module("interpret.privacy")

    numeric = one.X.select_dtypes("number").columns
    options: dict[str, Any] = {
        "privacy_bounds": {c: (float(one.X[c].min()), float(one.X[c].max())) for c in numeric},
        "feature_types": ["continuous" if c in numeric else "nominal" for c in one.X],
    }
    kind: Any = privacy.DPExplainableBoostingClassifier
    if one.schema.target is not None:
        kind = privacy.DPExplainableBoostingRegressor
        options |= {"privacy_target_min": 0.0, "privacy_target_max": 1.0}
    model = kind(epsilon=epsilon, delta=DELTA, random_state=seed, n_jobs=1, **options)
    return model.fit(one.X.iloc[train], one.y[train])


def _diffprivlib(name: str, one: Task, train: Rows, epsilon: float, seed: int) -> Any:
    """The forest: 20 trees of depth 6; the regression: columns scaled to [0, 1] by their ranges."""
    models = import_module("diffprivlib.models")

    X, classes = _numbered(one.X), list(one.schema.classes or ())
    if name == "diffprivlib forest":
        options: dict[str, Any] = {"n_estimators": 20, "max_depth": 6, "classes": classes}
        low, high = X.min().to_numpy(float), X.max().to_numpy(float)
        model = models.RandomForestClassifier(
            epsilon=epsilon, bounds=(low, high), random_state=seed, **options
        )
    else:
        norm = math.sqrt(X.shape[1])
        model = models.LogisticRegression(epsilon=epsilon, data_norm=norm, random_state=seed)
    return model.fit(X.iloc[train].to_numpy(float), one.y[train])


def _numbered(X: pd.DataFrame) -> pd.DataFrame:
    """Words as numbers in the order of the alphabet, all columns scaled to [0, 1]."""
    words = X.select_dtypes(exclude="number").columns
    numbers = X.assign(**{c: pd.factorize(X[c].astype(str), sort=True)[0] for c in words})
    numbers = numbers.astype(float)
    numbers.columns = [f"x{k}" for k in range(numbers.shape[1])]
    return (numbers - numbers.min()) / (numbers.max() - numbers.min()).clip(lower=1e-12)


PEERS = {"DP-EBM": "interpret", "diffprivlib forest": "diffprivlib", "DP regression": "diffprivlib"}
"""Others, and the package that each needs."""


def can_play(player: str, one: Task) -> bool:
    """DP-EBM has no third class, diffprivlib's learners no numbers."""
    n_classes = len(one.schema.classes or ())
    if player == "DP-EBM":
        return n_classes in (0, 2)
    return player not in PEERS or n_classes > 0


def played(split: int, dataset: str, epsilon: float, player: str, n_sites: int) -> dict[str, float]:
    """One score; not a number where a player cannot take part."""
    one = _few(task(dataset))
    train, test = one.split(split)
    if not can_play(player, one):
        return {"score": math.nan, "floor": math.nan, "seconds": math.nan}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin = process_time()
        if player in OURS:
            model = _ours(player, one, train, epsilon, n_sites, split)
        elif player in PLAIN:
            model = _plain(player, one, train, split)
        elif player == "DP-EBM":
            model = _dp_ebm(one, train, epsilon, split)
        else:
            model = _diffprivlib(player, one, train, epsilon, split)
        seconds = process_time() - begin
        X = one.X if player in (*OURS, "DP-EBM") else _numbered(one.X)
        score = _score(model, X.iloc[test], one.y[test], one)
    return {"score": score, "floor": _floor(one, train, test), "seconds": seconds}


def _few(one: Task) -> Task:
    """At most so many rows, the same for everybody."""
    order = np.sort(np.random.default_rng(0).permutation(len(one.y))[:MOST_ROWS])
    return Task(one.X.iloc[order].reset_index(drop=True), one.y[order], one.schema)


def _score(model: Any, X: pd.DataFrame, y: NDArray[Any], one: Task) -> float:
    if one.schema.target is not None:
        return float(r2_score(y, np.nan_to_num(model.predict(X))))
    if len(one.schema.classes or ()) > 2:
        return float(accuracy_score(y, model.predict(X)))
    chances = np.nan_to_num(model.predict_proba(X)[:, 1])
    return float(roc_auc_score(y == model.classes_[1], chances))


def _floor(one: Task, train: Rows, test: Rows) -> float:
    """Of no model."""
    if one.schema.target is not None:
        return 0.0
    if len(one.schema.classes or ()) == 2:
        return 0.5
    values, counts = np.unique(one.y[train], return_counts=True)
    return float((one.y[test] == values[np.argmax(counts)]).mean())


# ---------------------------------------------------------------------------------------- ratings
def ratings(scores: pd.DataFrame) -> dict[str, float]:
    """Elo of each column of (game, player): ties count half."""
    wins = _wins(scores)
    games, strength = wins + wins.T, np.ones(len(wins))
    for _ in range(STEPS):  # Hunter 2004: the likelihood rises at every step
        pairs = games / (strength[:, None] + strength[None, :])
        strength = (wins.sum(axis=1) + 0.5) / (pairs.sum(axis=1) + 1.0 / (strength + 1.0))
        strength /= np.exp(np.log(strength).mean())
    return dict(zip(scores.columns, AVERAGE + LOGISTIC * np.log(strength), strict=True))


def _wins(scores: pd.DataFrame) -> NDArray[np.float64]:
    values = scores.to_numpy()
    ahead = values[:, :, None] - values[:, None, :]
    out = (ahead > 0.0).sum(axis=0) + 0.5 * (ahead == 0.0).sum(axis=0)
    np.fill_diagonal(out, 0.0)
    return np.asarray(out, np.float64)


def standings(table: pd.DataFrame) -> pd.DataFrame:
    """By player and number of sites: games, rating and gap closed, with their errors."""
    names = table["player"] + np.where(table["n_sites"] > 1, ", five sites", "")
    is_plain = table["player"].isin(PLAIN)
    limit = table[is_plain].groupby(["split", "dataset"])["score"].max().rename("limit")
    private = table.assign(name=names)[~is_plain].join(limit, on=["split", "dataset"]).dropna()
    gap = (private["score"] - private["floor"]) / (private["limit"] - private["floor"])
    private = private.assign(gap=gap.clip(-1.0, 1.2))
    index = ["dataset", "epsilon", "split"]
    wide = private.pivot(index=index, columns="name", values="score")
    found, rng = ratings(wide), np.random.default_rng(0)
    sets = wide.index.get_level_values(0).unique()
    parts = {name: wide.xs(name, drop_level=False) for name in sets}
    drawn = [
        ratings(pd.concat([parts[name] for name in rng.choice(sets, len(sets))]))
        for _ in range(DRAWS)
    ]
    rows = []
    for name, own in private.groupby("name"):
        by_set = own.groupby("dataset")["gap"].mean()
        spread = float(np.std([one[name] for one in drawn]))
        row = {"player": name, "sets": len(by_set), "games": len(own), "Elo": found[name]}
        rows.append({**row, "Elo error": spread, "gap": by_set.mean(), "error": by_set.sem()})
    return pd.DataFrame(rows).sort_values("Elo", ascending=False)


# ------------------------------------------------------------------------------------------- page
def files(quick: bool) -> tuple[str, ...]:
    return () if quick else tuple(sorted(set(SETS) - {*SMALL_UNSEEN}))


def run(computation: Computation, splits: int, quick: bool) -> None:
    names = SMALL_UNSEEN[:2] if quick else SETS
    seeds, epsilons = range(FIRST_SPLIT, FIRST_SPLIT + splits), EPSILONS[: 1 if quick else None]
    is_asked = {name: computation.page_only or find_spec(p) for name, p in PEERS.items()}
    grids = {
        "limits": (played, cells(seeds, (math.inf,), names, PLAIN, (1,))),
        "arena": (played, cells(seeds, epsilons, names, OURS, (1, N_SITES))),
    }
    for name in filter(is_asked.get, PEERS):  # a table each: they may need environments
        own = cells(seeds, epsilons, names, (name,), (1,))
        grids[name.lower().replace(" ", "_").replace("-", "_")] = (played, own)
    tables = computation.tables(grids)
    whole = pd.concat([table for table in tables.values() if len(table)])
    write_page(
        computation, "README.md", "Arena", f"python -m studies arena --splits {splits}", page(whole)
    )
    if not quick:
        _draw(computation, whole)


def cells(
    seeds: Sequence[int],
    epsilons: Sequence[float],
    names: Sequence[str],
    players: Sequence[str],
    sites: Sequence[int],
) -> list[Cell]:
    """Split by split and epsilon by epsilon, so that a run cut short has whole tables."""
    keys = ("split", "epsilon", "dataset", "player", "n_sites")
    rows = product(seeds, epsilons, names, players, sites)
    return [dict(zip(keys, row, strict=True)) for row in rows]


def page(table: pd.DataFrame) -> list[str]:
    by = standings(table)
    shown = pd.DataFrame(
        {
            "player": by["player"],
            "sets": by["sets"],
            "games": by["games"],
            "Elo": [f"{a:.0f} +- {b:.0f}" for a, b in zip(by["Elo"], by["Elo error"], strict=True)],
            "gap closed": [
                f"{a:.2f} +- {b:.2f}" for a, b in zip(by["gap"], by["error"], strict=True)
            ],
        }
    )
    private = table[~table["player"].isin(PLAIN) & (table["n_sites"] == 1)].dropna()
    wide = private.pivot_table(
        index=["dataset", "epsilon"], columns="player", values="score", sort=False
    )
    limit = table[table["player"].isin(PLAIN)].pivot_table(
        index="dataset", columns="player", values="score"
    )
    scores = wide.reset_index().join(limit, on="dataset")
    lost = wide[[name for name in OURS if name in wide]]
    behind = (lost.max(axis=1) - lost["boosted"]).gt(0.01).sum() if "boosted" in lost else 0
    words = (
        f"The default is more than .01 below our tree or forest in {behind} of {len(lost)} rows "
        "(one site). A dash: a player that cannot take part, or was not run."
    )
    return [
        (__doc__ or "").split("\n\n", 1)[1],
        "## Standings\n\n" + markdown_table(shown),
        f"## Scores, one site\n\n{words}\n\n" + markdown_table(scores),
    ]


def _draw(computation: Computation, table: pd.DataFrame) -> None:
    lines: dict[str, Any] = {}
    for epsilon, own in table[np.isfinite(table["epsilon"])].groupby("epsilon"):
        with_limits = pd.concat([own, table[table["player"].isin(PLAIN)]])
        for _, row in standings(with_limits).iterrows():
            x, y, errors = lines.setdefault(row["player"], ([], [], []))
            x.append(float(epsilon))
            y.append(row["gap"])
            errors.append(row["error"])
    curves(computation.out / "arena", {"mean of the sets": lines}, "epsilon", "gap closed")
