"""Boosted trees against XGBoost: the limit of no noise, and the cost of a fit. One thread.

    python benchmarks/bench_boosted.py limit --data DIR     AUC without noise, equal T, depth, bins
    python benchmarks/bench_boosted.py adult --data DIR     seconds of a fit on Adult, T = 100
    python benchmarks/bench_boosted.py million              1e6 x 30, random trees, five sites
    python benchmarks/bench_boosted.py all --data DIR       all three

Numbers are compared within one run; the machine's own speed cancels. Set OMP_NUM_THREADS=1.
`--out studies/work/boosted/benchmarks.csv` keeps them for the results page.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import xgboost
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import train_test_split

import hedgerow as hr
from hedgerow.methods.maddock import NAMED
from studies import datasets

LIMIT_SETS = ("adult", "bank", "credit_default")
TREES, DEPTH, BINS = 100, 4, 200
SPLITS = range(200, 203)
Row = dict[str, str]


def row(work: str, ours: float, theirs: float, asked: str, met: bool | None) -> Row:
    verdict = "" if met is None else ("yes" if met else "NO")
    return {
        "what": work,
        "ours": f"{ours:.4f}" if ours < 1 else f"{ours:.2f}",
        "XGBoost": f"{theirs:.4f}" if theirs < 1 else f"{theirs:.2f}",
        "asked": asked,
        "met": verdict,
    }


def coded(X: pd.DataFrame) -> pd.DataFrame:
    """Text columns as pandas categories, which XGBoost splits one against the rest."""
    return X.apply(lambda c: c if c.dtype.kind in "if" else c.astype("category"))


def reference(depth: int, trees: int, bins: int) -> xgboost.XGBClassifier:
    return xgboost.XGBClassifier(
        n_estimators=trees,
        max_depth=depth,
        max_bin=bins,
        learning_rate=0.3,
        tree_method="hist",
        enable_categorical=True,
        max_cat_to_onehot=1000,
        n_jobs=1,
    )


def at_quantiles(schema: hr.Schema, X: pd.DataFrame) -> hr.Schema:
    """Numeric columns cut at the quantiles of these rows: the bins that XGBoost makes."""

    def cut(feature):
        if not isinstance(feature, hr.Numeric):
            return feature
        values = np.unique(X[feature.name])
        edges = values[1:] if len(values) <= BINS else quantiles(X[feature.name])
        inside = edges[(edges > feature.low) & (edges <= feature.high)]
        return replace(feature, edges=tuple(float(e) for e in inside)) if len(inside) else feature

    return replace(schema, features=tuple(cut(f) for f in schema.features))


def quantiles(column: pd.Series) -> np.ndarray:
    return np.unique(np.quantile(column, np.arange(1, BINS) / BINS, method="inverted_cdf"))


def limit(data: Path) -> Iterator[Row]:
    """Without noise, histogram splits must reach XGBoost's AUC to 0.003, mean of three splits."""
    for name in LIMIT_SETS:
        known = datasets.load(name, data)
        ours, theirs = np.mean([both_aucs(known, split) for split in SPLITS], axis=0)
        work = f"AUC without noise, {name}, T = {TREES}, depth {DEPTH}, {BINS} bins"
        yield row(work, ours, theirs, "within .003", abs(ours - theirs) <= 0.003)


def both_aucs(known: datasets.Dataset, split: int) -> tuple[float, float]:
    train, test = train_test_split(
        np.arange(len(known.y)), test_size=0.3, random_state=split, stratify=known.y
    )
    hit = known.y == known.schema.classes[1]
    X = coded(known.X)
    theirs = reference(DEPTH, TREES, BINS).fit(X.iloc[train], hit[train])
    ours = hr.ComponentBoostingClassifier(
        at_quantiles(known.schema, known.X.iloc[train]),
        dp_model="none",
        split="histogram",
        n_estimators=TREES,
        max_depth=DEPTH,
        leaf_clip=100.0,
    ).fit(known.X.iloc[train], known.y[train])
    return (
        roc_auc_score(hit[test], ours.predict_proba(known.X.iloc[test])[:, 1]),
        roc_auc_score(hit[test], theirs.predict_proba(X.iloc[test])[:, 1]),
    )


def adult(data: Path) -> Iterator[Row]:
    """What a fit costs beside XGBoost's; DP-EBM and diffprivlib: benchmarks/peers."""
    known = datasets.load("adult", data)
    X = coded(known.X)
    hit = known.y == known.schema.classes[1]
    theirs = _seconds(lambda: reference(DEPTH, TREES, 32).fit(X, hit))
    named = ("DP-TR Newton", "DP-TR Newton IH EBM", "DP-TR Batch IH EBM p=0.25")
    makes = {"default": hr.BoostedTreesClassifier, **{name: NAMED[name] for name in named}}
    for method, make in makes.items():
        model = make(known.schema, 1.0, delta=1e-6)
        ours = _seconds(lambda model=model: model.fit(known.X, known.y))
        yield row(f"seconds, Adult, T = {TREES}, {method}", ours, theirs, "", None)


def million(rows: int, features: int = 30, n_sites: int = 5) -> Iterator[Row]:
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(rows, features))
    score = (X[:, :5] - 0.5) @ np.array([3.0, -2.0, 2.0, 1.0, -1.0]) + rng.normal(size=rows)
    y = np.where(score > 0, "yes", "no").astype(object)
    names = [f"x{j}" for j in range(features)]
    schema = hr.Schema(tuple(hr.Numeric(n, 0.0, 1.0) for n in names), classes=("no", "yes"))
    frame, site = pd.DataFrame(X, columns=names), rng.integers(n_sites, size=rows)
    theirs = _seconds(lambda: reference(DEPTH, TREES, 32).fit(frame, y == "yes"))
    model = hr.papers.maddock.dp_tr_newton(schema, 1.0, delta=1e-8, n_estimators=TREES)
    ours = _seconds(lambda: model.fit(frame, y, site=site))
    work = f"seconds, {rows:,} x {features}, T = {TREES} random trees, all {n_sites} sites together"
    yield row(work, ours, theirs, "at most 2 x", ours <= 2 * theirs)


def _seconds(work) -> float:
    """Processor time of the second call: imports are paid once a process."""
    work()
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["limit", "adult", "million", "all"])
    parser.add_argument("--data", type=Path, default=os.environ.get("HEDGEROW_DATA"))
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    works = {
        "limit": lambda: limit(Path(given.data)),
        "adult": lambda: adult(Path(given.data)),
        "million": lambda: million(given.rows),
    }
    wanted = list(works) if given.what == "all" else [given.what]
    found = []
    for name in wanted:
        for line in works[name]():
            print(*line.values(), sep=" | ", flush=True)
            found.append(line)
    if given.out:
        pd.DataFrame(found).to_csv(given.out, index=False)


if __name__ == "__main__":
    main()
