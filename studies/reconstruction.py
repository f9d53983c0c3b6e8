"""`python -m studies reconstruction`: can one site rebuild the records of the others?

The attack is in the manner of TimberStrike (Di Gennaro et al. 2025, arXiv 2506.07605): one site
knows the trees, and sums of gradients and Hessians over the others' records. It takes its own sums
off, starts from records like its own, and changes them until their sums are those released.
Boosting by plain sums stands for what federated boosting shows without noise. Of hedgerow the
attacker sees more than a site does: every noisy sum that the coordinator gets.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numba
import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

import hedgerow as hr
from hedgerow.federation.server import Server
from hedgerow.models.tree import Tree
from hedgerow.privacy.queries.groups import Cells
from hedgerow.privacy.queries.statistics import Gradients
from studies.datasets import Dataset, folder, load
from studies.harness import Cell, Computation
from studies.pages import markdown_table, write_page

DATA = ("adult", "bank")
OWN_ROWS, OTHER_ROWS = 200, 50
"""Records of the attacker's site, and of the others together."""
TREES, DEPTH, RATE = 10, 6, 0.3
BINS = 64
MOVES, HOT, COLD = 600_000, 5.0, 0.05
"""Changes that the attack tries, and its first and last temperature."""
TOLERANCE = 0.319
"""Of a number's standard deviation, within which it counts as recovered: the paper's."""
NOTHING = "nothing seen"
LEAF_SUMS, HISTOGRAMS = "leaf sums in the clear", "histograms in the clear"
METHODS = {"histograms": "histogram", "leaf sums": "totally_random"}
"""How trees of hedgerow's Newton boosting are split, by what they ask for."""
EPSILONS = ("no noise", "epsilon 8", "epsilon 1", "epsilon 0.5")
VIEWS: tuple[str, ...] = (NOTHING, LEAF_SUMS, HISTOGRAMS)
VIEWS += tuple(f"hedgerow {name}, {e}" for name, e in product(METHODS, EPSILONS))

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Released:
    """Trees, and what somebody knows of sums over the records that reach their nodes.

    Nodes of T trees in arrays (T, M): the column that a test asks about, or -1 in a leaf; children;
    which cells go left (T, M, cells); what a leaf adds to a score. `sums` are of leaves
    (T, M, 1, 1, 2), or of nodes with a test by column and cell (T, M, F, cells, 2). Hessians are
    multiplied by `scale`; `variance` is that of the noise.
    """

    column: Ints
    left: Ints
    right: Ints
    goes_left: Bools
    step: Floats
    sums: Floats
    scale: float = 1.0
    variance: float = 0.0

    @property
    def shape(self) -> tuple[Any, ...]:
        return (self.column, self.left, self.right, self.goes_left, self.step, self.scale)


@dataclass(frozen=True)
class Known:
    """What the attacker has: records of its own as cells and as values, and their labels."""

    codes: Ints
    values: NDArray[Any]
    labels: Floats


# ------------------------------------------------------------------------------------------ attack
@numba.njit(cache=True)
def put(
    sums: Any,
    sign: float,
    codes: Any,
    label: float,
    column: Any,
    left: Any,
    right: Any,
    goes_left: Any,
    step: Any,
    scale: float,
) -> float:
    """Adds one record to sums, in place; gives by how much the sum of their squares grows."""
    by_cell, score, grown = sums.shape[3] > 1, 0.0, 0.0
    for t in range(column.shape[0]):
        p = 1.0 / (1.0 + np.exp(-score))
        first, second = sign * (p - label), sign * scale * p * (1.0 - p)
        q = 0
        while True:
            is_leaf = column[t, q] < 0
            if is_leaf != by_cell:
                for j in range(sums.shape[2]):
                    cell = sums[t, q, j, codes[j] if by_cell else 0]
                    grown += first * (2.0 * cell[0] + first) + second * (2.0 * cell[1] + second)
                    cell[0] += first
                    cell[1] += second
            if is_leaf:
                break
            q = left[t, q] if goes_left[t, q, codes[column[t, q]]] else right[t, q]
        score += step[t, q]
    return grown


@numba.njit(cache=True)
def searched(
    sums: Any,
    shape: Any,
    codes: Any,
    labels: Any,
    pool: Any,
    own_codes: Any,
    own_labels: Any,
    whole: bool,
    moves: int,
    hot: float,
    cold: float,
    seed: int,
) -> None:
    """Simulated annealing: changes records, in place, until they add up to the sums.

    `whole` records are exchanged for own ones, or else cells are changed too.
    """
    np.random.seed(seed)
    n, columns = codes.shape
    for i in range(n):
        put(sums, -1.0, codes[i], labels[i], *shape)
    old = np.empty((2, columns), np.int64)
    for move in range(moves):
        heat = hot * (cold / hot) ** (move / moves)
        i, k = np.random.randint(n), np.random.randint(n)
        j, u = np.random.randint(columns), 1.0 if whole else np.random.random()
        old[0], old[1] = codes[i], codes[k]
        old_label = labels[i]
        pair = u < 0.4 and i != k
        grown = put(sums, 1.0, codes[i], labels[i], *shape)
        if pair:
            grown += put(sums, 1.0, codes[k], labels[k], *shape)
            codes[i, j], codes[k, j] = codes[k, j], codes[i, j]
            grown += put(sums, -1.0, codes[k], labels[k], *shape)
        elif u < 0.8:
            codes[i, j] = pool[np.random.randint(pool.shape[0]), j]
        elif u < 0.9:
            labels[i] = 1.0 - labels[i]
        else:
            other = np.random.randint(own_codes.shape[0])
            codes[i], labels[i] = own_codes[other], own_labels[other]
        grown += put(sums, -1.0, codes[i], labels[i], *shape)
        if grown > 0.0 and np.random.random() >= np.exp(-grown / heat):
            put(sums, 1.0, codes[i], labels[i], *shape)
            if pair:
                put(sums, 1.0, codes[k], labels[k], *shape)
                codes[k] = old[1]
                put(sums, -1.0, codes[k], labels[k], *shape)
            codes[i], labels[i] = old[0], old_label
            put(sums, -1.0, codes[i], labels[i], *shape)


def rebuilt(
    released: Released | None, own: Known, n: int, rng: np.random.Generator, moves: int = MOVES
) -> Iterator[NDArray[Any]]:
    """(n, F) values of the others' records: guesses, of which the best will count."""
    start = rng.integers(len(own.codes), size=n)
    if released is None:
        yield own.values[start]
        return
    seed, noise = int(rng.integers(2**31)), 2.0 * released.variance
    ways = [(False, HOT, COLD), *([(True, HOT + noise, COLD + noise)] if noise else [])]
    for whole, hot, cold in ways:
        codes, labels = own.codes[start].copy(), own.labels[start].copy()
        known = (seen_cells(released, own, n), own.codes, own.labels)
        searched(
            *(released.sums.copy(), released.shape, codes, labels, *known),
            *(whole, moves, hot, cold, seed),
        )
        yield values_of(codes, own)


def seen_cells(released: Released, own: Known, n: int) -> Ints:
    """(rows, F) cells to try: those that the first node's histograms show, else one's own."""
    if released.sums.shape[3] == 1 or released.variance:
        return own.codes
    counts = np.rint(4.0 / released.scale * released.sums[0, 0, :, :, 1])  # h is 1/4 there
    each = [np.repeat(np.arange(len(c)), c) for c in np.maximum(counts, 0).astype(int)]
    return np.stack([np.resize(c if len(c) else own.codes[:, j], n) for j, c in enumerate(each)], 1)


def values_of(codes: Ints, own: Known) -> NDArray[Any]:
    """For each cell the value of the own record whose cell is nearest."""
    values = np.empty(codes.shape, object)
    for j in range(codes.shape[1]):
        nearest = np.abs(codes[:, j][:, None] - own.codes[:, j][None, :]).argmin(axis=1)
        values[:, j] = own.values[nearest, j]
    return values


def without_own(released: Released, own: Known) -> Released:
    """The sums less what the attacker's own records added."""
    sums = released.sums.copy()
    for codes, label in zip(own.codes, own.labels, strict=True):
        put(sums, -1.0, codes, label, *released.shape)
    return replace(released, sums=sums)


def recovered(found: NDArray[Any], truth: NDArray[Any], is_number: Bools) -> tuple[float, float]:
    """Share of cells and of whole records that are right, records matched as well as possible."""
    hits = np.zeros((len(truth), len(found)))
    for j, number in enumerate(is_number):
        ours, theirs = found[:, j][None, :], truth[:, j][:, None]
        if number:
            near = TOLERANCE * float(np.std(truth[:, j].astype(float)))
            hits += np.abs(ours.astype(float) - theirs.astype(float)) <= near
        else:
            hits += ours == theirs
    matched = hits[linear_sum_assignment(-hits)]
    return float(matched.mean() / len(is_number)), float((matched == len(is_number)).mean())


# ---------------------------------------------------------------------------- boosting in the clear
def plain_boosting(codes: Ints, labels: Floats, cells: int, by_cell: bool) -> Released:
    """Newton boosting by histograms; every tree goes round with exact sums of its nodes."""
    nodes = 2 ** (DEPTH + 1) - 1
    found = Released(
        **_arrays(TREES, nodes, cells),
        sums=np.zeros((TREES, nodes, *((codes.shape[1], cells) if by_cell else (1, 1)), 2)),
    )
    scores = np.zeros(len(labels))
    for t in range(TREES):
        p = 1.0 / (1.0 + np.exp(-scores))
        added = np.stack([p - labels, p * (1.0 - p)], axis=1)
        waiting, free = [(0, np.arange(len(codes)), 0)], 1
        while waiting:
            q, rows, depth = waiting.pop()
            split = best_split(codes[rows], added[rows], cells) if depth < DEPTH else None
            if split is None:
                total = added[rows].sum(axis=0)
                found.step[t, q] = -RATE * total[0] / (total[1] + 1.0)
                scores[rows] += found.step[t, q]
                continue
            found.column[t, q], found.goes_left[t, q] = split[0], np.arange(cells) <= split[1]
            found.left[t, q], found.right[t, q], free = free, free + 1, free + 2
            side = found.goes_left[t, q, codes[rows, split[0]]]
            waiting.append((int(found.left[t, q]), rows[side], depth + 1))
            waiting.append((int(found.right[t, q]), rows[~side], depth + 1))
    for row, label in zip(codes, labels, strict=True):
        put(found.sums, 1.0, row, label, *found.shape)
    return found


def best_split(codes: Ints, added: Floats, cells: int) -> tuple[int, int] | None:
    total, best, found = added.sum(axis=0), 1e-9, None
    for column in range(codes.shape[1]):
        table = np.zeros((cells, 2))
        np.add.at(table, codes[:, column], added)
        left = np.cumsum(table, axis=0)[:-1]
        gains = worth(left) + worth(total - left) - worth(total)
        if gains.max(initial=0.0) > best:
            best, found = float(gains.max()), (column, int(gains.argmax()))
    return found


def worth(sums: Floats) -> Floats:
    return np.asarray(sums[..., 0] ** 2 / (sums[..., 1] + 1.0))


def quantile_codes(values: NDArray[Any], is_number: Bools) -> Ints:
    """Cells by the records' own quantiles, as boosting in the clear makes them."""
    codes = np.zeros(values.shape, np.int64)
    for j, number in enumerate(is_number):
        if number:
            column = values[:, j].astype(float)
            cuts = np.unique(np.quantile(column, np.arange(1, BINS) / BINS))
            codes[:, j] = np.searchsorted(cuts, column, side="right")
        else:
            codes[:, j] = np.unique(values[:, j], return_inverse=True)[1]
    return codes


# ---------------------------------------------------------------------------------------- hedgerow
@contextmanager
def listening() -> Iterator[list[tuple[Any, Any]]]:
    """Every sum that the coordinator gets, with its query."""
    pairs: list[tuple[Any, Any]] = []
    ask = Server.ask

    def ask_and_keep(self: Server, queries: Any) -> Any:
        replies = ask(self, queries)
        pairs.extend(zip(queries, replies, strict=True))
        return replies

    Server.ask = ask_and_keep  # type: ignore[method-assign]
    try:
        yield pairs
    finally:
        Server.ask = ask  # type: ignore[method-assign]


def of_queries(heard: Sequence[tuple[Any, Any]], model: Any) -> Released:
    """Sums of gradients and Hessians: over leaves, or over the cells of nodes."""
    schema, trees = model.schema_, model.model_.score.trees
    cells, nodes = max(grid.n_cells for grid in schema.grids), max(len(t.tests) for t in trees)
    asked = [(q, a) for q, a in heard if isinstance(getattr(q, "statistic", None), Gradients)]
    by_cell = isinstance(asked[0][0].by, Cells)
    table = (len(schema.grids), cells) if by_cell else (1, 1)
    found = Released(
        **_arrays(len(trees), nodes, cells),
        sums=np.zeros((len(trees), nodes, *table, 2)),
        scale=asked[0][0].statistic.loss.hessian_scale,
        variance=asked[0][1].variance,
    )
    for t, tree in enumerate(trees):
        _lay_out(found, t, tree, schema)
    for query, answer in asked:
        t = len(query.statistic.at.trees)
        if by_cell:
            q = _node_at(trees[t], query.region)
            for k, column in enumerate(query.by.features):
                size = len(query.by.binning.bins[column])
                found.sums[t, q, column, :size] = answer.values[k, query.by.binning.bins[column]]
        else:
            leaves = [q for q, test in enumerate(trees[t].tests) if test is None]
            found.sums[t, leaves, 0, 0] = answer.values[0]
    return found


def _arrays(trees: int, nodes: int, cells: int) -> dict[str, Any]:
    """Of trees that are single leaves."""
    whole = np.zeros((trees, nodes), np.int64)
    return {
        "column": whole - 1,
        "left": whole.copy(),
        "right": whole.copy(),
        "goes_left": np.zeros((trees, nodes, cells), bool),
        "step": np.zeros((trees, nodes)),
    }


def _lay_out(found: Released, t: int, tree: Tree, schema: Any) -> None:
    cells, leaf = found.goes_left.shape[2], 0
    for q, test in enumerate(tree.tests):
        if test is None:
            found.step[t, q], leaf = tree.values[leaf, 0], leaf + 1
            continue
        found.column[t, q] = schema.index(test.feature)
        found.left[t, q], found.right[t, q] = tree.left[q], tree.right[q]
        found.goes_left[t, q] = [test.left >> k & 1 for k in range(cells)]


def _node_at(tree: Tree, region: Sequence[Any]) -> int:
    q = 0
    for step in region:
        q = int(tree.right[q] if step.outcome else tree.left[q])
    return q


# ------------------------------------------------------------------------------------------- cells
def files(quick: bool) -> tuple[str, ...]:
    return DATA[:1] if quick else DATA


def cells(repeats: int, quick: bool) -> list[Cell]:
    grid = product(range(repeats), files(quick), VIEWS)
    return [{"seed": seed, "dataset": name, "view": view} for seed, name, view in grid]


def attacked(seed: int, dataset: str, view: str) -> dict[str, float]:
    """One attack on records drawn by a seed."""
    return attack_on(load(dataset, folder(None)), view, seed)


def attack_on(
    data: Dataset, view: str, seed: int, others: int = OTHER_ROWS, moves: int = MOVES
) -> dict[str, float]:
    rng = np.random.default_rng(seed)
    rows = data.X.dropna().sample(OWN_ROWS + others, random_state=seed)
    assert data.schema.classes is not None
    labels = (data.y[rows.index] == data.schema.classes[1]).astype(float)
    is_number = np.array([pd.api.types.is_numeric_dtype(rows[c]) for c in rows])
    values, is_other = rows.to_numpy(object), np.arange(len(rows)) >= OWN_ROWS
    released = None
    if view.startswith("hedgerow"):
        codes, released = by_hedgerow(data, rows, labels, view, is_other)
    else:
        codes = quantile_codes(values, is_number)
        if view != NOTHING:
            by_cell = view == HISTOGRAMS
            released = plain_boosting(codes, labels, int(codes.max()) + 1, by_cell)
    own = Known(codes[~is_other], values[~is_other], labels[~is_other])
    if released is not None:
        released = without_own(released, own)
    guesses = rebuilt(released, own, others, rng, moves)
    part, records = max(recovered(found, values[is_other], is_number) for found in guesses)
    return {"cells": part, "records": records}


def by_hedgerow(
    data: Dataset, rows: pd.DataFrame, labels: Floats, view: str, is_other: Bools
) -> tuple[Ints, Released]:
    """Three sites; the attacker's is the first."""
    name, words = view.removeprefix("hedgerow ").split(", ")
    has_noise = words != EPSILONS[0]
    privacy: dict[str, Any] = {"epsilon": float(words.split()[1])} if has_noise else {}
    site = np.where(is_other, 1 + np.arange(len(is_other)) % 2, 0)
    model = hr.ComponentBoostingClassifier(
        data.schema,
        n_estimators=TREES,
        max_depth=DEPTH if name == "histograms" else 4,
        split=METHODS[name],  # type: ignore[arg-type]
        random_state=0,
        **(privacy or {"dp_model": "none"}),
    )
    with warnings.catch_warnings(), listening() as heard:
        warnings.simplefilter("ignore")
        model.fit(rows, np.asarray(data.schema.classes)[labels.astype(int)], site=site)
    return model.cells(rows).T.astype(np.int64), of_queries(heard, model)


# -------------------------------------------------------------------------------------------- page
def run(computation: Computation, repeats: int, quick: bool) -> None:
    tables = computation.tables({"attacks": (attacked, cells(repeats, quick))})
    command = f"python -m studies reconstruction --repeats {repeats} --data DIR"
    title = "Can one site rebuild the records of the others?"
    write_page(computation, "README.md", title, command, page(tables["attacks"]))


def page(table: pd.DataFrame) -> list[str]:
    means = table.groupby(["dataset", "view"], sort=False)[["cells", "records"]].mean()
    return [HEAD, markdown_table(means.reset_index())]


HEAD = f"""Share of cells recovered (a number within {TOLERANCE} of its standard deviation, a
category exactly) and of records of which every cell is, when records are matched as well as
possible. The attacker has {OWN_ROWS} records of its own and knows that the others have
{OTHER_ROWS}.
"""
