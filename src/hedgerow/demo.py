"""Five hospitals in one process, on data that scikit-learn bundles."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.padding import Padding
from rich.table import Table

from hedgerow.estimators.histogram_tree import HistogramTreeClassifier
from hedgerow.report.picture import draw_tree
from hedgerow.report.text import explain, show_tree
from hedgerow.values.schema import Numeric, Schema

PARTIES = 5
DEMO_EPSILON = 2.0
DEMO_DELTA = 1e-6
DEPTH = 3
N_SPLITS = 5
"""One split of 569 patients says little: accuracies are means over this many."""

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


def rows(seed: int = 0) -> tuple[Any, Any, Any, Any, Any]:
    """Training rows with the party that holds each, and test rows."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import train_test_split

    data = load_breast_cancer()
    columns = list(data.feature_names)
    X = data.data[:, [columns.index(name) for name in RANGES]]
    y = np.asarray(data.target_names)[data.target]
    X_train, X_test, y_train, y_test = train_test_split(
        X, y, test_size=0.3, random_state=seed, stratify=y
    )
    chances = [0.4, 0.2, 0.2, 0.1, 0.1]
    hospital = np.random.default_rng(seed).choice(PARTIES, len(X_train), p=chances)
    return X_train, y_train, hospital, X_test, y_test


def run_demo(
    console: Console, show_progress: bool = True, picture: Path | None = None
) -> HistogramTreeClassifier:
    console.print(f"[bold]hedgerow[/bold]: {PARTIES} hospitals, one tree, no pooled rows\n")
    X, y, hospital, X_test, _ = rows()
    model = _estimator(progress=show_progress).fit(X, y, party=hospital, parties=range(PARTIES))
    console.print(_accuracies())
    _print_tree(console, model, X_test)
    console.print(str(model.privacy_), highlight=False)
    _print_manifest(console, model)
    if picture is not None:
        console.print(f"\nThe tree as a picture: {draw_tree(model, picture)}", highlight=False)
    return model


def _estimator(progress: bool = False) -> HistogramTreeClassifier:
    return HistogramTreeClassifier(
        demo_schema(), epsilon=DEMO_EPSILON, delta=DEMO_DELTA, max_depth=DEPTH, progress=progress
    )


def _accuracies() -> Table:
    """All ways to train, each on the same splits; noise is fresh, so numbers move a little."""
    scores = np.array([_scores(*rows(seed)) for seed in range(N_SPLITS)])
    promise = f"epsilon {DEMO_EPSILON:g}, delta {DEMO_DELTA:g}"
    ways = [
        ("all hospitals together, rows stay", promise),
        ("each hospital alone (mean)", promise),
        ("each hospital alone (mean)", "none"),
        ("all rows pooled", "none"),
    ]
    title = f"test accuracy, mean of {N_SPLITS} splits"
    table = Table("who trains", "privacy", title)
    for (who, privacy), mean, spread in zip(ways, scores.mean(0), scores.std(0), strict=True):
        table.add_row(who, privacy, f"{mean:.3f} +- {spread:.3f}")
    return table


def _scores(X: Any, y: Any, hospital: Any, X_test: Any, y_test: Any) -> list[float]:
    from sklearn.tree import DecisionTreeClassifier

    def bare(mine: Any) -> float:
        tree = DecisionTreeClassifier(max_depth=DEPTH, min_samples_leaf=5, random_state=0)
        return float(tree.fit(X[mine], y[mine]).score(X_test, y_test))

    each = [hospital == k for k in range(PARTIES)]
    alone = [_estimator().fit(X[mine], y[mine]).score(X_test, y_test) for mine in each]
    together = _estimator().fit(X, y, party=hospital, parties=range(PARTIES))
    return [
        together.score(X_test, y_test),
        float(np.mean(alone)),
        float(np.mean([bare(mine) for mine in each])),
        bare(hospital >= 0),
    ]


def _print_tree(console: Console, model: HistogramTreeClassifier, X_test: Any) -> None:
    console.print("\n[bold]The tree[/bold]\n")
    console.print(show_tree(model), highlight=False)
    console.print("\n[bold]One patient[/bold]\n")
    console.print(Padding(explain(model, X_test[:1])[0], (0, 2, 1, 2)), highlight=False)


def _print_manifest(console: Console, model: HistogramTreeClassifier) -> None:
    first, record = model.run_.rounds[0], model.run_
    console.print(f"\n[bold]What left each hospital in round {first.number}[/bold]\n")
    for line in first.manifest:
        console.print(f"  {line}", highlight=False)
    console.print(
        f"  {first.integers} integers, noised and masked: {first.bytes_out} bytes out, "
        f"{first.bytes_in} bytes in",
        highlight=False,
    )
    console.print(
        f"\n{len(record.rounds)} rounds for depth {DEPTH}, {record.bytes_per_party} bytes per "
        "hospital (by formula: docs/communication.md).",
        highlight=False,
    )
