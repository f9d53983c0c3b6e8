"""A small world without missing values, and what the tests of papers compute by hand."""

from __future__ import annotations

import numpy as np

from hedgerow.schema.schema import Numeric, Schema, Target

P = 3
COLUMNS = tuple(Numeric(f"x{j}", 0.0, 1.0, bins=10) for j in range(P))
CLASSES = Schema(COLUMNS, classes=("no", "yes"))
NUMBERS = Schema(COLUMNS, target=Target(0.0, 2.0))
RNG = np.random.default_rng(11)
X = RNG.uniform(0.0, 1.0, (240, P)) ** np.array([1.0, 1.5, 2.0])
SIGNAL = X[:, 0] + X[:, 1] + 0.2 * RNG.normal(size=len(X))
Y01 = (SIGNAL > 0.9).astype(int)
Y = np.where(Y01 == 1, "yes", "no")
VALUE = np.clip(SIGNAL, 0.0, 2.0)
SITE = np.arange(len(X)) % 3


def thresholds(bins):
    """Inner edges of so many equal bins of [0, 1]; x < t goes left, as a cell holds its low end."""
    return np.arange(1, bins) / bins


def leaf_of(tree, model):
    """Which leaf each row of X reaches, by the tree's own tests on the model's cells."""
    return tree.apply(model.cells(X))


def proportions(rows):
    return np.array([np.mean(Y01[rows] == 0), np.mean(Y01[rows] == 1)])


# impurities of the papers, of a share q of ones, scaled as Wang et al. scale them
def entropy(q):
    inside = (q > 0.0) & (q < 1.0)
    safe = np.where(inside, q, 0.5)
    return np.where(inside, -safe * np.log2(safe) - (1 - safe) * np.log2(1 - safe), 0.0)


IMPURITY = {
    "entropy": entropy,
    "gini": lambda q: 4.0 * q * (1.0 - q),
    "root_gini": lambda q: 2.0 * np.sqrt(q * (1.0 - q)),
}


def mass(rows, impurity):
    """n G(q) of some rows."""
    return len(rows) * float(impurity(np.mean(Y01[rows]))) if len(rows) else 0.0


def sides(rows, feature, cut):
    left = X[rows, feature] < cut
    return rows[left], rows[~left]
