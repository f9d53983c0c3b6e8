"""The arena's sets and splits, and the learners that others made; nothing here knows hedgerow.

So rows of peers stay true when our code changes, and an environment of peers needs no more of it
than its folder (`studies/requirements.txt`). Everybody sees the same rows, at most 20,000 of a set;
ranges, categories and the number of rows of the whole file are public, as in the papers.
"""

from __future__ import annotations

import math
import os
import signal
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from time import process_time
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.metrics import accuracy_score, r2_score, roc_auc_score

BUNDLED = ("breast_cancer", "wine", "digits", "diabetes")
"""Sets that scikit-learn ships; all others are Parquet files."""
SETS: Mapping[str, tuple[str, ...]] = {
    "two classes": (
        *("adult", "bank", "credit_gmsc", "credit_default", "higgs_18k", "spambase", "skin"),
        *("avazu_15k", "banknote", "breast_cancer", "magic", "phoneme"),
    ),
    "more classes": (
        *("letter", "waveform", "wall_robot", "puc_rio_har", "wine", "digits", "penbased"),
        "satimage",
    ),
    "numbers": (
        *("parkinsons", "appliances_energy", "metro_traffic", "gas_turbine", "flights_nyc13"),
        *("diamonds", "bikes", "diabetes"),
    ),
}
NEW = ("magic", "phoneme", "penbased", "satimage", "diamonds", "bikes")
"""Sets on which no constant of ours was ever chosen or looked at."""
KIND = {name: kind for kind, names in SETS.items() for name in names}
LEFT_OUT = ("subject", "date", "rv1", "rv2", "date_time", "weather_description", "user")
"""Ids, copies of the target, free text."""
MOST_ROWS, TEST_PART = 20_000, 0.3
DELTA = 1e-6
MOST_SECONDS = 240.0
"""Of a processor, for one fit and its predictions."""

Rows = NDArray[np.int64]
Numbers = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Table:
    """Features as they come; labels are places in `classes`, numbers are scaled to [0, 1]."""

    X: pd.DataFrame
    y: NDArray[Any]
    classes: tuple[str, ...]

    @property
    def numbered(self) -> pd.DataFrame:
        """Words in the order of the alphabet, all columns scaled to [0, 1]."""
        words = self.X.select_dtypes(exclude="number").columns
        X = self.X.assign(**{c: pd.factorize(self.X[c].astype(str), sort=True)[0] for c in words})
        X = X.astype(float).set_axis([f"x{k}" for k in range(X.shape[1])], axis=1)
        return (X - X.min()) / (X.max() - X.min()).clip(lower=1e-12)

    def parted(self, split: int) -> tuple[Rows, Rows]:
        order = np.random.default_rng(split).permutation(len(self.y))
        n_test = int(TEST_PART * len(order))
        return order[n_test:], order[:n_test]


@lru_cache(maxsize=2)
def table(name: str) -> Table:
    frame = _bundled(name) if name in BUNDLED else _stored(name)
    frame = frame.drop(columns=[c for c in LEFT_OUT if c in frame]).dropna()
    frame = frame.sample(min(len(frame), MOST_ROWS), random_state=0).reset_index(drop=True)
    target = frame.pop("target")
    if KIND[name] == "numbers":
        y = target.to_numpy(float)
        return Table(frame, (y - y.min()) / (y.max() - y.min()), ())
    places, classes = pd.factorize(target.astype(str), sort=True)
    return Table(frame, places, tuple(map(str, classes)))


def _stored(name: str) -> pd.DataFrame:
    return pd.read_parquet(Path(os.environ["HEDGEROW_DATA"]) / f"{name}.parquet")


def _bundled(name: str) -> pd.DataFrame:
    frame: pd.DataFrame = getattr(import_module("sklearn.datasets"), f"load_{name}")(
        as_frame=True
    ).frame
    return frame


# ---------------------------------------------------------------------------------------- measured
Player = Callable[[Table, Rows, Rows, float, int], Numbers]
"""(table, training rows, test rows, epsilon, seed) -> a column of chances a class, or numbers."""


def measured(player: Player, name: str, split: int, epsilon: float) -> dict[str, float]:
    """AUC of two classes, accuracy of more, R2 of a number; no score where time ran out."""
    one = table(name)
    train, test = one.parted(split)
    begin = process_time()
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            said = player(one, train, test, epsilon, split)
        score = _score(one, test, np.nan_to_num(said))
    except TimeoutError:
        score = math.nan
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
    seconds = round(process_time() - begin, 3)
    return {"score": score, "floor": _floor(one, train, test), "seconds": seconds}


def _stop(*_: Any) -> None:
    raise TimeoutError


def _score(one: Table, test: Rows, said: Numbers) -> float:
    if not one.classes:
        return float(r2_score(one.y[test], said))
    if len(one.classes) == 2:
        return float(roc_auc_score(one.y[test], said[:, 1]))
    return float(accuracy_score(one.y[test], said.argmax(axis=1)))


def _floor(one: Table, train: Rows, test: Rows) -> float:
    """Of no model: a coin, the commonest class, the mean."""
    if len(one.classes) < 3:
        return 0.5 if one.classes else 0.0
    return float(np.mean(one.y[test] == np.bincount(one.y[train]).argmax()))


# ------------------------------------------------------------------------------------------- peers
def _chances(model: Any, X: Any, one: Table) -> Numbers:
    """With a column for every class, those that were not seen among them; or numbers."""
    if not one.classes:
        return np.asarray(model.predict(X), np.float64)
    out = np.zeros((len(X), len(one.classes)))
    out[:, np.asarray(model.classes_, np.int64)] = model.predict_proba(X)
    return out


def _lightgbm(one: Table, train: Rows, test: Rows, epsilon: float, seed: int) -> Numbers:
    """Of two sizes of trees the one that a fifth of the training rows prefers; as many rounds."""
    lightgbm, X, y = import_module("lightgbm"), one.numbered, one.y
    kind: Any = lightgbm.LGBMClassifier if one.classes else lightgbm.LGBMRegressor
    held, kept = np.split(train, [len(train) // 5])
    options: dict[str, Any] = {"learning_rate": 0.1, "random_state": seed, "n_jobs": 1}
    found = []
    for leaves in (15, 63):
        model = kind(n_estimators=400, num_leaves=leaves, verbose=-1, **options)
        early = lightgbm.early_stopping(20, verbose=False)
        pairs = [(X.iloc[held], y[held])]
        model.fit(X.iloc[kept], y[kept], eval_set=pairs, callbacks=[early])
        (loss,) = model.best_score_["valid_0"].values()
        found.append((loss, leaves, model.best_iteration_))
    _, leaves, rounds = min(found)
    model = kind(n_estimators=max(rounds, 1), num_leaves=leaves, verbose=-1, **options)
    return _chances(model.fit(X.iloc[train], y[train]), X.iloc[test], one)


def _histgb(one: Table, train: Rows, test: Rows, epsilon: float, seed: int) -> Numbers:
    """Stops early by a tenth of the training rows; the better of two sizes of trees by these."""
    ensemble, X, y = import_module("sklearn.ensemble"), one.numbered, one.y
    name = f"HistGradientBoosting{'Classifier' if one.classes else 'Regressor'}"
    models = [
        getattr(ensemble, name)(
            max_iter=300, max_leaf_nodes=leaves, early_stopping=True, random_state=seed
        ).fit(X.iloc[train], y[train])
        for leaves in (15, 63)
    ]
    best = max(models, key=lambda model: model.validation_score_[-1])
    return _chances(best, X.iloc[test], one)


def _dp_ebm(one: Table, train: Rows, test: Rows, epsilon: float, seed: int) -> Numbers:
    privacy = import_module("interpret.privacy")
    numeric = one.X.select_dtypes("number").columns
    options: dict[str, Any] = {
        "privacy_bounds": {c: (float(one.X[c].min()), float(one.X[c].max())) for c in numeric},
        "feature_types": ["continuous" if c in numeric else "nominal" for c in one.X],
    }
    kind: Any = privacy.DPExplainableBoostingClassifier
    if not one.classes:
        kind = privacy.DPExplainableBoostingRegressor
        options |= {"privacy_target_min": 0.0, "privacy_target_max": 1.0}
    model = kind(epsilon=epsilon, delta=DELTA, random_state=seed, n_jobs=1, **options)
    return _chances(model.fit(one.X.iloc[train], one.y[train]), one.X.iloc[test], one)


def _diffprivlib(name: str, **options: Any) -> Player:
    """Pure epsilon; categories are numbered."""

    def fitted(one: Table, train: Rows, test: Rows, epsilon: float, seed: int) -> Numbers:
        X = one.numbered.to_numpy(float)
        known = {"bounds": (0.0, 1.0), "classes": list(range(len(one.classes)))}
        kind = getattr(import_module("diffprivlib.models"), name)
        model = kind(epsilon=epsilon, random_state=seed, **options, **known)
        return _chances(model.fit(X[train], one.y[train]), X[test], one)

    return fitted


def _linear(one: Table, train: Rows, test: Rows, epsilon: float, seed: int) -> Numbers:
    """Diffprivlib's logistic or linear regression, whichever the target wants; pure epsilon."""
    models, Z = import_module("diffprivlib.models"), _normed(one)[:, :-1]
    if one.classes:
        model = models.LogisticRegression(epsilon=epsilon, data_norm=1.0, random_state=seed)
    else:
        ranges: dict[str, Any] = {"bounds_X": (-1.0, 1.0), "bounds_y": (0.0, 1.0)}
        model = models.LinearRegression(epsilon=epsilon, random_state=seed, **ranges)
    return _chances(model.fit(Z[train], one.y[train]), Z[test], one)


STEPS, STEP = 60, 3.0


def _regression(one: Table, train: Rows, test: Rows, epsilon: float, seed: int) -> Numbers:
    """Logistic regression by noisy gradient descent; for numbers AdaSSP (Wang 2018).

    A record is its scaled columns, with one column a category, and 1, brought to norm 1.
    """
    Z, rng, mu = _normed(one), np.random.default_rng(seed), gaussian_mu(epsilon)
    if not one.classes:
        return _adassp(Z[train], one.y[train] - 0.5, mu, rng, Z[test]) + 0.5
    labels = np.eye(len(one.classes))[one.y[train]]
    weights = np.zeros((Z.shape[1], len(one.classes)))
    late, noise = np.zeros_like(weights), math.sqrt(2.0 * STEPS) / mu
    for step in range(STEPS):
        slopes = Z[train].T @ (_softmax(Z[train] @ weights) - labels)
        weights -= STEP * (slopes + noise * rng.normal(size=slopes.shape)) / len(train)
        late += weights * (step >= STEPS // 2)
    return _softmax(Z[test] @ late / (STEPS - STEPS // 2))


def _adassp(Z: Numbers, y: Numbers, mu: float, rng: Any, Z_test: Numbers) -> Numbers:
    """Three sums of sensitivity 1, 1 and 1/2, each with a third of the budget."""
    noise, d = math.sqrt(3.0) / mu, Z.shape[1]
    least = max(np.linalg.eigvalsh(Z.T @ Z)[0] + noise * (rng.normal() - 3.0), 0.0)
    ridge = max(noise * math.sqrt(d * math.log(2.0 * d * d / 0.05)) - least, 0.0)
    drawn = np.triu(rng.normal(size=(d, d)))
    squares = Z.T @ Z + noise * (drawn + np.triu(drawn, 1).T) + ridge * np.eye(d)
    products = Z.T @ y + 0.5 * noise * rng.normal(size=d)
    return np.asarray(np.clip(Z_test @ np.linalg.lstsq(squares, products)[0], -0.5, 0.5))


def _normed(one: Table) -> Numbers:
    words = [c for c in one.X.select_dtypes(exclude="number") if one.X[c].nunique() <= 30]
    plain = 2.0 * one.numbered.set_axis(one.X.columns, axis=1).drop(columns=words) - 1.0
    hot = pd.get_dummies(one.X[words].astype(str)) if words else one.X[[]]
    Z = np.column_stack([plain.to_numpy(float), hot.to_numpy(float), np.ones(len(one.y))])
    return np.asarray(Z / np.linalg.norm(Z, axis=1, keepdims=True))


def _softmax(scores: Numbers) -> Numbers:
    raised = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(raised / raised.sum(axis=1, keepdims=True))


def gaussian_mu(epsilon: float, delta: float = DELTA) -> float:
    """Sensitivity over deviation of one Gaussian sum that costs so much (Balle and Wang 2018)."""
    from scipy.optimize import brentq
    from scipy.stats import norm

    def spent(mu: float) -> float:
        far = norm.logcdf(-mu / 2.0 - epsilon / mu) + epsilon
        return float(norm.cdf(mu / 2.0 - epsilon / mu) - math.exp(far) - delta)

    return float(brentq(spent, 1e-4, 50.0))


BINS, MOST_WORDS, MOST_COLUMNS, MOST_STEPS = 16, 30, 32, 250
"""Of marginals: cells of equal width of a number, categories of a word, columns of a set, and steps
of the inference that joins them, of which the package would make thousands."""


def _mst(one: Table, train: Rows, test: Rows, epsilon: float, seed: int) -> Numbers:
    """As many made rows by marginals along a tree (McKenna et al. 2021), then LightGBM on these."""
    if one.X.shape[1] > MOST_COLUMNS:
        raise TimeoutError
    mst, lightgbm = import_module("dpmm.models.mst"), import_module("lightgbm")
    codes = _codes(one)
    rows = codes.assign(target=one.y if one.classes else np.minimum(one.y * BINS, BINS - 1))
    rows = rows.astype(int)
    cells = {c: int(rows[c].max()) + 1 for c in codes} | {"target": len(one.classes) or BINS}
    inference = mst.FactoredInference

    def in_few_steps(domain: Any, **options: Any) -> Any:
        return inference(domain, **{**options, "iters": MOST_STEPS})

    model = mst.MSTGM(epsilon, DELTA, n_jobs=1, n_iters=MOST_STEPS)
    model.set_random_state(np.random.RandomState(seed))
    model.set_domain(cells)
    with mock.patch.object(mst, "FactoredInference", in_few_steps):
        model.fit(rows.iloc[train].reset_index(drop=True))
    made = model.generate(len(train)).astype(int)
    y = made.pop("target")
    kind: Any = lightgbm.LGBMClassifier if one.classes else lightgbm.LGBMRegressor
    learner = kind(random_state=seed, n_jobs=1, verbose=-1)
    learner.fit(made[codes.columns], y if one.classes else (y + 0.5) / BINS)
    return _chances(learner, rows.iloc[test][codes.columns], one)


def _codes(one: Table) -> pd.DataFrame:
    few = [one.X[c].nunique() <= MOST_WORDS for c in one.X]
    return pd.DataFrame(
        {
            f"x{k}": pd.factorize(one.X[c], sort=True)[0]
            if is_few
            else np.minimum(one.numbered[f"x{k}"] * BINS, BINS - 1).astype(int)
            for k, (c, is_few) in enumerate(zip(one.X, few, strict=True))
        }
    )


PEERS: Mapping[str, tuple[Player, str, tuple[str, ...]]] = {
    "DP-EBM": (_dp_ebm, "interpret", ("two classes", "numbers")),
    "diffprivlib forest": (
        _diffprivlib("RandomForestClassifier", n_estimators=20, max_depth=6),
        "diffprivlib",
        ("two classes", "more classes"),
    ),
    "diffprivlib tree": (
        _diffprivlib("DecisionTreeClassifier", max_depth=5),
        "diffprivlib",
        ("two classes", "more classes"),
    ),
    "diffprivlib regression": (_linear, "diffprivlib", tuple(SETS)),
    "DP regression": (_regression, "sklearn", tuple(SETS)),
    "MST + LightGBM": (_mst, "dpmm", tuple(SETS)),
    "LightGBM": (_lightgbm, "lightgbm", tuple(SETS)),
    "HistGB": (_histgb, "sklearn", tuple(SETS)),
}
"""By name: how it is fitted, the package that it needs, the kinds of target that it has."""


def is_installed(peer: str) -> bool:
    return find_spec(PEERS[peer][1]) is not None


def peer(split: int, epsilon: float, dataset: str, player: str) -> dict[str, float]:
    """A cell of a peer."""
    return measured(PEERS[player][0], dataset, split, epsilon)
