"""Exact integer scores of candidate splits on a site's own rows, for private selection.

Only the selected index leaves, never a score. Scores are integers in units of 1 / LATTICE, so that
the selection can be drawn with exact coins. The query defines the candidates; none is filtered by
counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hedgerow.data.rows import Rows
from hedgerow.data.sums import half_gini_units, is_of_target, tables_of
from hedgerow.privacy.queries import LATTICE, MultiwaySplit, Score, Scoring, Selecting, Thresholds
from hedgerow.privacy.queries.choices import Candidate
from hedgerow.schema.arrays import N_CODES, IntArray
from hedgerow.schema.regions import Split
from hedgerow.schema.schema import Schema

Chained = tuple[Split, ...]


Counting = Callable[[Selecting, Sequence[int]], IntArray]
"""Makes the tables of some features for a query, as `tables_of` does from rows."""


def scores(query: Selecting, rows: Rows, schema: Schema) -> IntArray:
    """The scores of candidates over rows in memory."""
    return scores_by(
        query, lambda some_query, features: tables_of(some_query, rows, features), schema
    )


def scores_by(query: Selecting, count: Counting, schema: Schema) -> IntArray:
    """One score per candidate in the query's region."""
    children = _children(query, count, schema)
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


def _children(query: Selecting, count: Counting, schema: Schema) -> IntArray:
    """(k, m, C) sums of each candidate's children, from one histogram per feature.

    Candidates with fewer than m children get empty ones.
    """
    families = _families(query.splits)
    features = list(families.features)
    tables = count(query, [schema.index(feature) for feature in features])
    m = max((part.sets.shape[1] for part in families.tests), default=1)
    # candidates are contiguous, for fast sums over a few children or classes
    children = np.zeros((m + 1, tables.shape[2], query.n_candidates), np.int64).transpose(2, 0, 1)
    for part in families.tests:
        children[part.members, : part.sets.shape[1]] = part.sets @ tables[part.table]
    if families.cuts is not None:
        children[families.cuts.members, 0] = families.cuts.left_sums(tables)
    children[:, m] = tables[0].sum(axis=0) - children.sum(axis=1)
    return children


class _Tests(NamedTuple):
    """Splits of one feature: (k, m, 256) the cells of every child but the last."""

    table: int  # index of the feature's table
    members: NDArray[np.intp]  # (k,) their places among the candidates
    sets: IntArray  # (k, m, 256)


class _AllCuts(NamedTuple):
    """Threshold splits of all features: cell and table of each, and the extra cell sent left."""

    members: NDArray[np.intp]  # (k,)
    tables: NDArray[np.intp]  # (k,)
    at: IntArray  # (k,)
    also: IntArray  # (k,) -1 for nothing

    def left_sums(self, tables: IntArray) -> IntArray:
        """(k, C) the sums of the cells on each split's left side."""
        below = np.cumsum(tables, axis=1)[self.tables, self.at - 1]
        return below + np.where((self.at <= self.also)[:, None], tables[self.tables, self.also], 0)


class _Families(NamedTuple):
    features: dict[str, int]  # with the index of its table
    tests: tuple[_Tests, ...]
    cuts: _AllCuts | None


@lru_cache(maxsize=8)
def _families(candidates: tuple[Candidate, ...]) -> _Families:
    """Groups candidates by feature; cached, since nodes of a round share their candidates."""
    features, place = dict[str, int](), 0
    tests, cuts = dict[int, list[tuple[int, Chained]]](), list[tuple[int, int, Thresholds]]()
    for some in candidates:
        first = some.tests[0] if isinstance(some, MultiwaySplit) else some
        table = features.setdefault(first.feature, len(features))
        if isinstance(some, Thresholds):
            cuts.append((place, table, some))
            place += len(some.at)
        else:
            chain = some.tests if isinstance(some, MultiwaySplit) else (some,)
            tests.setdefault(table, []).append((place, chain))
            place += 1
    return _Families(features, tuple(_tests(t, some) for t, some in tests.items()), _cuts(cuts))


def _tests(table: int, placed_chains: list[tuple[int, Chained]]) -> _Tests:
    places, chains = zip(*placed_chains, strict=True)
    return _Tests(table, np.asarray(places), _cell_sets(list(chains)))


def _cuts(runs: list[tuple[int, int, Thresholds]]) -> _AllCuts | None:
    if not runs:
        return None
    sizes = [len(run.at) for _, _, run in runs]
    starts = np.repeat([place for place, _, _ in runs], sizes)
    firsts = np.repeat(np.cumsum([0, *sizes[:-1]]), sizes)
    return _AllCuts(
        members=starts + np.arange(len(starts)) - firsts,
        tables=np.repeat([table for _, table, _ in runs], sizes),
        at=np.concatenate([run.cells for _, _, run in runs]),
        also=np.repeat([-1 if run.also is None else run.also for _, _, run in runs], sizes),
    )


def _cell_sets(chains: list[Chained]) -> IntArray:
    """(k, m, 256) the cells that each test sends left, out of those left by earlier tests."""
    m, lefts = max(map(len, chains)), list[int]()
    for tests in chains:
        taken_cells = 0
        for test in tests:
            lefts.append(test.left & ~taken_cells)
            taken_cells |= test.left
        lefts += [0] * (m - len(tests))
    octets = b"".join(left.to_bytes(N_CODES // 8, "little") for left in lefts)
    bits = np.unpackbits(np.frombuffer(octets, np.uint8), bitorder="little")
    return bits.reshape(len(chains), m, N_CODES).astype(np.int64)


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
