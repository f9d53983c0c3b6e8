"""A process that has just started: importing hedgerow, and a first fit on 1,000 rows.

CPU seconds. Nothing is warm but the files on disk. The estimators are scikit-learn's kind, so their
first use imports scikit-learn: that import is the reference, and is not part of our time in the
line on a first fit.
"""

from __future__ import annotations

import subprocess
import sys

from benchmarks.timing import Row, named, sized

ROUNDS = sized(3, 1)
CLOCK = "import time; print(time.process_time())\n"
DATA = """
import numpy as np
rng = np.random.default_rng(0)
X = rng.normal(size=(1000, 30))
y = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")
"""
OURS = """
import hedgerow as hr
columns = tuple(hr.Numeric(f"x{j}", low=-4, high=4) for j in range(30))
schema = hr.Schema(features=columns, classes=("no", "yes"))
hr.HistogramTreeClassifier(schema=schema, epsilon=1.0).fit(X, y)
"""
THEIRS = """
from sklearn.tree import DecisionTreeClassifier
DecisionTreeClassifier(max_depth=5).fit(X, y)
"""
PROGRAMS = {
    "import": (CLOCK, "import hedgerow\n", CLOCK),
    "numpy": (CLOCK, "import numpy\n", CLOCK),
    "fit": (DATA, "import sklearn.base\n", CLOCK, OURS, CLOCK),
    "sklearn": (DATA, CLOCK, "import sklearn.base\n", CLOCK),
    "first estimator": (CLOCK, "import hedgerow; hedgerow.BoostedTreesClassifier()\n", CLOCK),
    "xgboost": (CLOCK, "import xgboost; xgboost.XGBClassifier()\n", CLOCK),
    "our process": ("print(0)\n", DATA, OURS, CLOCK),
    "their process": ("print(0)\n", DATA, THEIRS, CLOCK),
}


def rows() -> list[Row]:
    best = {name: float("inf") for name in PROGRAMS}
    for _ in range(ROUNDS):
        for name, parts in PROGRAMS.items():
            best[name] = min(best[name], cpu_seconds("".join(parts)))
    sklearn = named("scikit-learn", "import")
    return [
        Row(
            work="import hedgerow, cold process",
            seconds=best["import"],
            reference=named("numpy", "import"),
            reference_seconds=best["numpy"],
            most_seconds=0.3,
        ),
        Row(
            work="import to first estimator, cold process",
            seconds=best["first estimator"],
            reference=named("xgboost-cpu", "import to first estimator"),
            reference_seconds=best["xgboost"],
            most_seconds=1.5,
        ),
        Row(
            work="import and first fit, 1,000 x 30, scikit-learn already imported",
            seconds=best["fit"],
            reference=sklearn,
            reference_seconds=best["sklearn"],
            most_seconds=1.0,
        ),
        Row(
            work="the same, whole process",
            seconds=best["our process"],
            reference=named("scikit-learn", "whole process with DecisionTreeClassifier"),
            reference_seconds=best["their process"],
        ),
    ]


def cpu_seconds(program: str) -> float:
    """Between the two numbers that a fresh process prints."""
    command = [sys.executable, "-W", "ignore", "-c", program]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    return float(told[-1]) - float(told[0])
