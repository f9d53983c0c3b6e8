"""Exact integer scores of candidate splits on a site's own rows, for private selection.

Only the selected index leaves, never a score. Scores are integers in units of 1 / LATTICE, so that
the selection can be drawn with exact coins. The query defines the candidates; none is filtered by
counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.data.sums import half_gini_units, is_of_target
from hedgerow.kernels.sums import Cuts, score_cuts
from hedgerow.privacy.queries import LATTICE, MultiwaySplit, Score, Scoring, Selecting, Thresholds
from hedgerow.privacy.queries.choices import Candidate
from hedgerow.schema.arrays import N_CODES, IntArray, freeze
from hedgerow.schema.regions import Split
from hedgerow.schema.schema import Schema

Chained = tuple[Split, ...]


Counting = Callable[[Selecting, Sequence[int]], IntArray]
"""Makes the tables of some features for a query, as `sums.tables_of` does from rows."""


def scores_by(query: Selecting, count: Counting, schema: Schema) -> IntArray:
    """One score per candidate in the query's region.

    Many cuts of many columns are scored by a loop where one is compiled; the sums of all children
    are its definition.
    """
    families = _families(query.splits)
    tables = count(query, [schema.index(feature) for feature in families.features])
    kind = LOOPS.get(query.scoring.score)
    if kind is not None and families.cuts is not None and not families.tests:
        scores = score_cuts(tables, families.cuts, kind, LATTICE, query.scoring.balance)
        if scores is not None:
            return scores
    children = _children(families, tables, query.n_candidates)
    child_counts = children[..., 0] if is_of_target(query) else children.sum(axis=2)
    largest = child_counts.max(axis=1)
    match query.scoring.score:
        case Score.GINI:
            loss = 2 * half_gini_units(children).sum(axis=1)
        case Score.ENTROPY:
            loss = entropy_units(children, query.scoring).sum(axis=1)
        case Score.BALANCE:
            loss = LATTICE * (2 * largest - child_counts.sum(axis=1))
        case Score.SQUARED_ERROR:
            loss = _squared_error_units(children).sum(axis=1)
    return np.asarray(-(loss + query.scoring.balance * largest))


LOOPS = {Score.GINI: 0, Score.BALANCE: 1, Score.SQUARED_ERROR: 2}
"""The scores that `score_cuts` knows, by its numbers."""


def _children(families: _Families, tables: IntArray, n_candidates: int) -> IntArray:
    """(k, m, C) sums of each candidate's children, from one histogram per feature.

    Candidates with fewer than m children get empty ones.
    """
    m, cells = max((part.sets.shape[1] for part in families.tests), default=1), tables.shape[1]
    # candidates are contiguous, for fast sums over a few children or classes
    children = np.zeros((m + 1, tables.shape[2], n_candidates), np.int64).transpose(2, 0, 1)
    for part in families.tests:
        sets = part.sets[:, :, :cells]
        children[part.members, : sets.shape[1]] = sets @ tables[part.table]
    if families.cuts is not None:
        first = families.cuts.first
        shift = np.repeat(families.places - first[:-1], np.diff(first))
        children[np.arange(first[-1]) + shift, 0] = _left_sums(families.cuts, tables)
    children[:, m] = tables[0].sum(axis=0) - children.sum(axis=1)
    return children


class _Tests(NamedTuple):
    """Splits of one feature: (k, m, 256) the cells of every child but the last."""

    table: int  # index of the feature's table
    members: NDArray[np.intp]  # (k,) their places among the candidates
    sets: IntArray  # (k, m, 256)


def _left_sums(cuts: Cuts, tables: IntArray) -> IntArray:
    """(k, C) the sums of the cells on each split's left side."""
    sizes = np.diff(cuts.first)
    table, also = np.repeat(cuts.table, sizes), np.repeat(cuts.also, sizes)
    below = np.cumsum(tables, axis=1)[table, cuts.at - 1]
    return below + np.where((cuts.at <= also)[:, None], tables[table, also], 0)


class _Families(NamedTuple):
    """Candidates by feature."""

    features: dict[str, int]  # with the index of its table
    tests: list[_Tests]
    cuts: Cuts | None
    places: list[int]  # of each run of cuts among the candidates


def _families(candidates: Sequence[Candidate]) -> _Families:
    features, place = dict[str, int](), 0
    chains, runs, places = dict[int, dict[int, Chained]](), list[Thresholds](), list[int]()
    for some in candidates:
        if isinstance(some, Thresholds):
            features.setdefault(some.feature, len(features))
            runs.append(some)
            places.append(place)
            place += len(some.at)
        else:
            chain = some.tests if isinstance(some, MultiwaySplit) else (some,)
            table = features.setdefault(chain[0].feature, len(features))
            chains.setdefault(table, {})[place] = chain
            place += 1
    tests = [
        _Tests(table, np.array(list(own)), _cell_sets(tuple(own.values())))
        for table, own in chains.items()
    ]
    if not runs:
        return _Families(features, tests, None, [])
    cuts = Cuts(
        table=np.array([features[run.feature] for run in runs]),
        also=np.array([-1 if run.also is None else run.also for run in runs]),
        first=np.array([0, *accumulate([len(run.at) for run in runs])]),
        at=np.concatenate([run.cells for run in runs]),
    )
    return _Families(features, tests, cuts, places)


@lru_cache(maxsize=64)
def _cell_sets(chains: tuple[Chained, ...]) -> IntArray:
    """(k, m, 256) the cells that each test sends left, out of those left by earlier tests.

    Cached, since nodes of a round share their candidates.
    """
    m, lefts = max(map(len, chains)), list[int]()
    for tests in chains:
        taken_cells = 0
        for test in tests:
            lefts.append(test.left & ~taken_cells)
            taken_cells |= test.left
        lefts += [0] * (m - len(tests))
    octets = b"".join(left.to_bytes(N_CODES // 8, "little") for left in lefts)
    bits = np.unpackbits(np.frombuffer(octets, np.uint8), bitorder="little")
    return freeze(bits.reshape(len(chains), m, N_CODES).astype(np.int64))


def entropy_units(counts: IntArray, scoring: Scoring) -> IntArray:
    """(..., C) counts -> n times their entropy in nats, phi(n) - sum phi(c) with phi = x log x.

    Each phi is rounded separately, so that rounding affects only the four terms that one record can
    change. Beyond `rows_at_most` phi continues linearly: the sensitivity bound then holds for any
    data, and larger sets are scored less sharply.
    """
    n = counts.sum(axis=-1)
    most = scoring.rows_at_most
    return np.asarray(_phi_units(n, most) - _phi_units(counts, most).sum(axis=-1))


def _phi_units(count: IntArray, most: int) -> IntArray:
    bent = _x_log_x(np.minimum(count, most))
    slope = int(_x_log_x(np.int64(most + 1)) - _x_log_x(np.int64(most)))
    return np.asarray(bent + np.maximum(count - most, 0) * slope)


def _x_log_x(count: IntArray | np.int64) -> IntArray:
    """Units of x log x, with error at most 2 up to x = 2^32: see docs/proofs/selection.md."""
    x = np.asarray(count, np.float64)
    return np.asarray(np.rint(LATTICE * x * np.log(np.maximum(x, 1.0))), np.int64)


def _squared_error_units(sums: IntArray) -> IntArray:
    """(..., 3) of n, sum y, sum y^2 in units -> floor((n sum y^2 - (sum y)^2) / (n LATTICE))."""
    fits = int(sums[..., 0].max(initial=0)) < 1 << 17  # n sum y^2 <= n^2 LATTICE^2 < 2^62
    n, y, yy = (sums[..., i] if fits else sums[..., i].astype(object) for i in range(3))
    return np.asarray((n * yy - y * y) // np.maximum(n * LATTICE, 1), np.int64)
