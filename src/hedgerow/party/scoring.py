"""Exact integer scores of splits on a site's own rows, for selections. Index out, never a score.

Scores are integers in units of 1 / LATTICE, so selection can be drawn with exact coins. The
candidate set is the query's; nothing is filtered by counts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import UnsupportedQuery
from hedgerow.party.answer import half_gini_units
from hedgerow.party.rows import Rows
from hedgerow.queries import LATTICE, Score, Selecting
from hedgerow.regions import Split
from hedgerow.schema import Schema

IntArray = NDArray[np.int64]


def scores(query: Selecting, rows: Rows, schema: Schema) -> list[int]:
    """One score per candidate split of the query's region."""
    index = rows.select(query.region)
    left, whole = _sides(query.splits, rows, schema, index, query.scoring.score)
    right = whole[None, :] - left
    match query.scoring.score:
        case Score.GINI:
            loss = 2 * (half_gini_units(left) + half_gini_units(right))
        case Score.ENTROPY:
            loss = _entropy_units(left) + _entropy_units(right)
        case Score.BALANCE:
            loss = LATTICE * np.abs(left.sum(axis=1) - right.sum(axis=1))
        case Score.SQUARED_ERROR:
            loss = _squared_error_units(left) + _squared_error_units(right)
    return [-int(v) for v in loss]


def _sides(
    splits: Sequence[Split], rows: Rows, schema: Schema, index: NDArray[np.int32], score: Score
) -> tuple[IntArray, IntArray]:
    """(k, C) sums of each candidate's left side and (C,) of the region."""
    values = _values(rows, index, score)
    left = np.zeros((len(splits), values.shape[1]), np.int64)
    by_feature: dict[int, list[int]] = {}
    for k, split in enumerate(splits):
        by_feature.setdefault(schema.index(split.feature), []).append(k)
    for feature, members in by_feature.items():
        cells = np.zeros((256, values.shape[1]), np.int64)
        np.add.at(cells, rows.codes[feature][index], values)
        sets = np.array([[splits[k].left >> c & 1 for c in range(256)] for k in members], np.int64)
        left[members] = sets @ cells
    return left, values.sum(axis=0)


def _values(rows: Rows, index: NDArray[np.int32], score: Score) -> IntArray:
    if score is Score.SQUARED_ERROR:
        u = np.rint(np.clip(np.nan_to_num(rows.unit_target[index]), 0.0, 1.0) * LATTICE)
        y = u.astype(np.int64)
        return np.stack([np.ones_like(y), y, y * y], axis=1)
    if rows.labels is None:
        raise UnsupportedQuery("class scores were asked of rows without classes.")
    return np.eye(rows.n_classes, dtype=np.int64)[rows.labels[index]]


def _entropy_units(counts: IntArray) -> IntArray:
    """N entropy in nats, rounded down; float error is far below the unit the reach allows for."""
    c = counts.astype(np.float64)
    n = c.sum(axis=-1)

    def xlogx(x: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.asarray(x * np.log(np.maximum(x, 1.0)))

    units = np.floor(LATTICE * np.maximum(xlogx(n) - xlogx(c).sum(axis=-1), 0.0))
    return np.asarray(units, np.int64)


def _squared_error_units(sums: IntArray) -> IntArray:
    """(k, 3) of n, sum y, sum y^2 in units -> floor((n sum y^2 - (sum y)^2) / (n LATTICE))."""
    n, y, yy = (sums[:, i].astype(object) for i in range(3))
    return np.asarray((n * yy - y * y) // np.maximum(n * LATTICE, 1), np.int64)
