"""Histograms, random trees and prediction, one thread, against LightGBM and XGBoost."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import lightgbm
import numpy as np
import xgboost
from numpy.typing import NDArray

from benchmarks.timing import Row, named, race, sized
from hedgerow.kernels.codes import encode_edges, split_rows
from hedgerow.kernels.sums import count_cells, sum_cells
from hedgerow.kernels.trees import add_values, leaf_sums
from hedgerow.models.packing import PackedTrees, pack
from hedgerow.models.tree import Tree
from hedgerow.schema.regions import EVERYONE, Region, Split, Step, cells

N_ROWS, N_FEATURES, N_BINS = sized(1_000_000, 2_000), 30, 32
N_TREES = 20  # of a batch of random trees
PART = 16_384
ROUNDS = 3
MORE_TREES = 5  # the libraries' cost of a tree is (time of 5 - time of 1) / 4: no set-up in it
NAMES = tuple(f"x{j}" for j in range(N_FEATURES))
LIGHTGBM = {
    "objective": "binary",
    "max_bin": N_BINS,
    "num_threads": 1,
    "min_data_in_leaf": 1,
    "min_sum_hessian_in_leaf": 0,
    "verbose": -1,
}
XGBOOST = {
    "objective": "binary:logistic",
    "tree_method": "hist",
    "nthread": 1,
    "min_child_weight": 0,
    "verbosity": 0,
}


def rows() -> list[Row]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(N_ROWS, N_FEATURES)).astype(np.float32)
    y = (X[:, 0] * X[:, 1] + X[:, 2] + rng.normal(size=N_ROWS) > 0).astype(np.uint8)
    codes = encoded(X, [np.linspace(-4, 4, N_BINS + 1)[1:-1]] * N_FEATURES)
    return [*prediction_rows(rng), *level_rows(X, y, codes), *random_tree_rows(X, y, codes, rng)]


def encoded(X: NDArray[np.float32], edges: list[NDArray[np.float64]]) -> NDArray[np.uint8]:
    """Cell codes, in parts that stay in the cache while their columns are picked out."""
    codes = np.empty(X.shape[::-1], dtype=np.uint8)
    for lo in range(0, len(X), PART):
        for j, cuts in enumerate(edges):
            encode_edges(X[lo : lo + PART, j], cuts, codes[j, lo : lo + PART])
    return codes


# ------------------------------------------------------------------------------------- one level
def level_rows(X: NDArray[np.float32], y: NDArray[np.uint8], codes: NDArray[np.uint8]) -> list[Row]:
    """A whole tree, level by level: all nodes' histograms, the best splits, the rows routed."""
    stats = gradients(y)
    data = lightgbm.Dataset(X, label=y, params=LIGHTGBM).construct()
    found = []
    for depth in (4, 6):
        train = partial(train_lightgbm, data, depth)
        best = race(
            {
                "counts": partial(grow, depth, codes, partial(level_of_counts, codes, y)),
                "sums": partial(grow, depth, codes, partial(level_of_sums, codes, stats)),
                "one": partial(train, 1),
                "more": partial(train, MORE_TREES),
            },
            ROUNDS,
        )
        for name, what in (("counts", "class counts"), ("sums", "gradients and Hessians")):
            found.append(
                Row(
                    work=f"histogram tree, 1e6 x 30 x 32 bins, depth {depth}, {what}",
                    seconds=best[name],
                    reference=named("lightgbm", f"a tree of depth {depth}"),
                    reference_seconds=per_tree(best),
                    most_ratio=1.0,
                )
            )
    return found


def gradients(y: NDArray[np.uint8]) -> NDArray[np.int64]:
    """(n, 2) of a first log-loss tree, 2^14 units per 1."""
    return np.stack([2**13 - 2**14 * y.astype(np.int64), np.full(len(y), 13_640)], axis=1)


def train_lightgbm(data: lightgbm.Dataset, depth: int, trees: int) -> None:
    lightgbm.train({**LIGHTGBM, "num_leaves": 2**depth, "max_depth": depth}, data, trees)


def per_tree(best: dict[str, float]) -> float:
    return (best["more"] - best["one"]) / (MORE_TREES - 1)


Nodes = list[NDArray[np.int32]]
Level = Callable[[Nodes | None], NDArray[np.int64]]


def level_of_counts(
    codes: NDArray[np.uint8], y: NDArray[np.uint8], nodes: Nodes | None
) -> NDArray[np.int64]:
    return count_cells(codes, nodes, range(N_FEATURES), y, N_BINS, 2)


def level_of_sums(
    codes: NDArray[np.uint8], stats: NDArray[np.int64], nodes: Nodes | None
) -> NDArray[np.int64]:
    return sum_cells(codes, nodes, range(N_FEATURES), stats, N_BINS)


def grow(depth: int, codes: NDArray[np.uint8], level: Level) -> Nodes:
    nodes: Nodes | None = None
    for _ in range(depth):
        histograms = level(nodes)
        before: list[NDArray[np.int32] | None] = [None] if nodes is None else [*nodes]
        nodes = []
        for rows, histogram in zip(before, histograms, strict=True):
            feature, cut = best_cut(histogram)
            nodes += split_rows(codes[feature], rows, cells(range(cut)))
    assert nodes is not None
    return nodes


def best_cut(histogram: NDArray[np.int64]) -> tuple[int, int]:
    """(feature, cells that go left) of the largest a^2 / b summed over both sides."""
    left = histogram.cumsum(axis=1)[:, :-1].astype(np.float64)  # (F, B - 1, 2)
    right = histogram.sum(axis=1, keepdims=True) - left
    gain = sum(side[..., 0] ** 2 / (np.abs(side).sum(axis=2) + 1) for side in (left, right))
    feature, cut = np.unravel_index(np.argmax(gain), gain.shape)
    return int(feature), int(cut) + 1


# ---------------------------------------------------------------------------------- random trees
def random_tree_rows(
    X: NDArray[np.float32],
    y: NDArray[np.uint8],
    codes: NDArray[np.uint8],
    rng: np.random.Generator,
) -> list[Row]:
    """Totally random trees ask one thing of the rows: the sums in their leaves."""
    stats, depth = gradients(y), 4
    trees = pack([random_tree(rng, depth) for _ in range(N_TREES)])
    data = xgboost.QuantileDMatrix(X, label=y, max_bin=N_BINS, nthread=1)
    parameters = {**XGBOOST, "max_depth": depth, "max_bin": N_BINS}
    best = race(
        {
            "sums": lambda: leaf_sums(trees, codes, stats),
            "one": lambda: xgboost.train(parameters, data, 1),
            "more": lambda: xgboost.train(parameters, data, MORE_TREES),
        },
        ROUNDS,
    )
    return [
        Row(
            work="totally random tree with leaf sums, 1e6 rows, depth 4",
            seconds=best["sums"] / N_TREES,
            reference=named("xgboost-cpu", "training a tree of depth 4"),
            reference_seconds=per_tree(best),
            most_ratio=0.05,
        )
    ]


def random_tree(rng: np.random.Generator, depth: int) -> Tree:
    regions: list[Region] = [EVERYONE]
    for _ in range(depth):
        splits = [random_split(rng) for _ in regions]
        regions = [(*r, Step(s, o)) for r, s in zip(regions, splits, strict=True) for o in (0, 1)]
    return Tree.build(NAMES, dict.fromkeys(regions, ()))


def random_split(rng: np.random.Generator) -> Split:
    return Split(str(rng.choice(NAMES)), "grid", cells(range(int(rng.integers(10, 22)))))


# ------------------------------------------------------------------------------------ prediction
def prediction_rows(rng: np.random.Generator) -> list[Row]:
    """XGBoost's own model, predicted by XGBoost and by hedgerow."""
    X = rng.normal(size=(sized(100_000, 2_000), N_FEATURES)).astype(np.float32)
    y = (X[:, 0] * X[:, 1] + X[:, 2] + rng.normal(size=len(X)) > 0).astype(np.float32)
    data = xgboost.QuantileDMatrix(X, label=y, max_bin=64, nthread=1)
    model = xgboost.train({**XGBOOST, "max_depth": 6, "max_bin": 64}, data, sized(100, 3))
    edges, trees = translated(model)
    packed, codes = pack(trees), encoded(X, edges)
    check_same(model.inplace_predict(X, predict_type="margin"), predicted(packed, codes))
    best = race(
        {
            "codes": lambda: predicted(packed, codes),
            "values": lambda: predicted(packed, encoded(X, edges)),
            "xgboost": lambda: model.inplace_predict(X, predict_type="margin"),
        }
    )
    return [
        Row(
            work=f"prediction, 100 trees of depth 6, 1e5 rows of {what}",
            seconds=best[name],
            reference=named("xgboost-cpu", "inplace_predict"),
            reference_seconds=best["xgboost"],
            most_ratio=0.5,
        )
        for name, what in (("codes", "cell codes"), ("values", "raw numbers"))
    ]


def predicted(trees: PackedTrees, codes: NDArray[np.uint8]) -> NDArray[np.float64]:
    return add_values(trees, codes, np.zeros((codes.shape[1], 1)))


def translated(model: xgboost.Booster) -> tuple[list[NDArray[np.float64]], list[Tree]]:
    """The edges that a model's thresholds need, and its trees on the cells between them."""
    table = model.trees_to_dataframe()
    table["Split"] = table.Split.astype(np.float32)  # as XGBoost compares, not as it prints
    tests = table[table.Feature != "Leaf"]
    edges = [np.unique(tests.Split[tests.Feature == f"f{j}"]) for j in range(N_FEATURES)]
    trees = []
    for _, nodes in table.groupby("Tree"):
        by_id = {node.ID: node for node in nodes.itertuples()}
        leaves = dict(leaves_below(by_id, nodes.ID.iloc[0], edges, EVERYONE))
        trees.append(Tree.build(NAMES, leaves))
    return edges, trees


def leaves_below(by_id, name, edges, region):  # type: ignore[no-untyped-def]
    node = by_id[name]
    if node.Feature == "Leaf":
        yield region, (node.Gain,)
        return
    feature = int(node.Feature[1:])
    below = int(np.searchsorted(edges[feature], node.Split)) + 1  # cells of values < threshold
    split = Split(NAMES[feature], "grid", cells(range(below)))
    yield from leaves_below(by_id, node.Yes, edges, (*region, Step(split, 0)))
    yield from leaves_below(by_id, node.No, edges, (*region, Step(split, 1)))


def check_same(theirs: NDArray[np.float32], ours: NDArray[np.float64]) -> None:
    """Up to XGBoost's base score and its single precision."""
    difference = theirs - ours[:, 0]
    assert np.ptp(difference) < 1e-4, "not the same model"
