"""Five hospitals in one process, on data that scikit-learn bundles."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from hedgerow.estimators.histogram_tree import HistogramTreeClassifier
from hedgerow.report.text import show_tree
from hedgerow.schema import Numeric, Schema

PARTIES = 5
EPSILON = 2.0
DELTA = 1e-6

# Ranges a clinician would state beforehand; no row was read for them.
RANGES = {
    "mean radius": (5.0, 30.0),
    "mean texture": (5.0, 40.0),
    "mean smoothness": (0.05, 0.17),
    "mean concave points": (0.0, 0.21),
    "worst radius": (5.0, 40.0),
    "worst concave points": (0.0, 0.3),
}


def demo_schema() -> Schema:
    features = tuple(Numeric(name, low, high, bins=10) for name, (low, high) in RANGES.items())
    return Schema(features, classes=("malignant", "benign"))


def rows() -> tuple[Any, Any, Any, Any, Any]:
    """Training rows with the party that holds each, and test rows."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    data = load_breast_cancer(as_frame=True)
    X = data.data[list(RANGES)]
    y = np.asarray(data.target_names)[data.target]
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.3, random_state=0, stratify=y
    )
    hospital = np.random.default_rng(0).choice(PARTIES, len(X_train), p=[0.4, 0.2, 0.2, 0.1, 0.1])
    return X_train, y_train, hospital, X_test, y_test


def run_demo(console: Console, show_progress: bool = True) -> HistogramTreeClassifier:
    from sklearn.tree import DecisionTreeClassifier

    X, y, hospital, X_test, y_test = rows()
    console.print(f"[bold]hedgerow[/bold]: {PARTIES} hospitals, one tree, no pooled rows\n")
    model = _estimator(progress=show_progress).fit(X, y, party=hospital)
    local = [
        _estimator().fit(X[hospital == k], y[hospital == k]).score(X_test, y_test)
        for k in range(PARTIES)
    ]
    pooled = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y)

    table = Table("who trains", "privacy", "test accuracy")
    table.add_row(
        "all hospitals together, rows stay", _promise(), f"{model.score(X_test, y_test):.3f}"
    )
    table.add_row("each hospital alone (mean)", _promise(), f"{np.mean(local):.3f}")
    table.add_row("all rows pooled", "none", f"{pooled.score(X_test, y_test):.3f}")
    console.print(table)
    console.print("\n[bold]The tree[/bold] (all numbers carry noise)\n")
    console.print(show_tree(model), highlight=False)
    console.print()
    console.print(str(model.privacy_), highlight=False)
    _print_manifest(console, model)
    return model


def _estimator(progress: bool = False) -> HistogramTreeClassifier:
    return HistogramTreeClassifier(
        demo_schema(), epsilon=EPSILON, delta=DELTA, max_depth=3, progress=progress
    )


def _promise() -> str:
    return f"epsilon {EPSILON:g}, delta {DELTA:g}"


def _print_manifest(console: Console, model: HistogramTreeClassifier) -> None:
    first = model.run_.rounds[0]
    console.print(f"\n[bold]What left each hospital in round {first.number}[/bold]\n")
    for line in first.manifest:
        console.print(f"  {line}", highlight=False)
    console.print(
        f"  {first.integers} integers, noised and masked: {first.bytes_out} bytes out, "
        f"{first.bytes_in} bytes in",
        highlight=False,
    )
    console.print(
        f"\n{len(model.run_.rounds)} rounds, {model.run_.bytes_per_party} bytes per hospital.",
        highlight=False,
    )
