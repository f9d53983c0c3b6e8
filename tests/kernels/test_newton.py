"""Newton sums: a record adds what it adds alone, never more than declared, in little memory."""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.data import sums as site_newton
from hedgerow.data.sums import newton_sum
from hedgerow.errors import ParameterError
from hedgerow.kernels import newton
from hedgerow.models.losses import LogLoss
from hedgerow.models.model import Curve
from hedgerow.privacy.queries import LATTICE, CurveNewton
from kernels.test_loops import in_both_forms

pytestmark = pytest.mark.property

SEEDS = st.integers(0, 2**32 - 1)


def statistic_of(rng: np.random.Generator, n_curves: int, size: float = 1.0) -> CurveNewton:
    values = rng.normal(size=(n_curves, 8)) * size
    curves = tuple(Curve(j, tuple((float(v),) for v in row)) for j, row in enumerate(values))
    weights = tuple(rng.normal(size=n_curves + 1).tolist())
    return CurveNewton(curves, 0.5, float(np.sqrt(n_curves)), weights, 0.1)


def some_rows(rng: np.random.Generator, n: int, n_curves: int) -> tuple[np.ndarray, np.ndarray]:
    codes = rng.integers(0, 8, (n_curves, n)).astype(np.uint8)
    return codes, rng.integers(0, 2, n).astype(np.float64)


def each_alone(statistic: CurveNewton, codes: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(n, C) the vector of every record, summed without company."""
    alone = [
        newton_sum(statistic, codes[:, i : i + 1], y[i : i + 1], None, LATTICE)
        for i in range(len(y))
    ]
    return np.array(alone)


def by_definition(statistic: CurveNewton, cells: list[int], y: float) -> list[int]:
    """One record in Python's own arithmetic, entry after entry."""
    z = [c.values[cell][0] for c, cell in zip(statistic.curves, cells, strict=True)]
    z.append(statistic.constant)
    norm, score = 0.0, 0.0
    for value in z:
        norm += value * value
    scale = 1.0 / max(math.sqrt(norm), statistic.radius)
    z = [value * scale for value in z]
    for value, weight in zip(z, statistic.weights, strict=True):
        score += value * weight
    raw = np.array([[statistic.base + statistic.radius * score]])
    g, h = (LogLoss().contributions(raw, np.array([y]))[0] * LATTICE).tolist()
    pairs = [(i, j) for i in range(len(z)) for j in range(i, len(z))]
    return [math.trunc(g * v) for v in z] + [math.trunc(h * z[i] * z[j]) for i, j in pairs]


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, n=st.sampled_from([0, 1, 63, 64, 65, 300]), n_curves=st.integers(1, 6))
def test_the_sum_is_the_sum_of_the_records(seed: int, n: int, n_curves: int) -> None:
    rng = np.random.default_rng(seed)
    statistic, (codes, y) = statistic_of(rng, n_curves), some_rows(rng, n, n_curves)
    got = in_both_forms(lambda: newton_sum(statistic, codes, y, None, LATTICE))
    records = [by_definition(statistic, codes[:, i].tolist(), y[i]) for i in range(n)]
    np.testing.assert_array_equal(got, np.sum(records, axis=0) if n else 0)
    chosen = np.flatnonzero(rng.random(n) < 0.5).astype(np.int32)
    some = in_both_forms(lambda: newton_sum(statistic, codes, y, chosen, LATTICE))
    np.testing.assert_array_equal(some, np.sum([records[i] for i in chosen], axis=0, initial=0))


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS)
def test_chunks_of_any_size_give_one_sum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    statistic, (codes, y) = statistic_of(rng, 4), some_rows(rng, 200, 4)
    whole = newton_sum(statistic, codes, y, None, LATTICE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site_newton, "NEWTON_ENTRIES", 5 * int(rng.integers(1, 50)))
        np.testing.assert_array_equal(newton_sum(statistic, codes, y, None, LATTICE), whole)


# ------------------------------------------------------------------ a record depends on itself
class LastBits(LogLoss):
    """A gradient that is made of the last bits of the score: what rounds otherwise is seen."""

    def contributions(self, raw: np.ndarray, target: np.ndarray) -> np.ndarray:
        last = np.modf(raw[:, 0] * 2.0**40)[0]
        return np.stack([last, np.zeros(len(last))], axis=1)


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS, n_curves=st.integers(2, 40), loss=st.sampled_from([LogLoss(), LastBits()]))
def test_a_records_vector_is_the_same_alone_and_among_others(
    seed: int, n_curves: int, loss: LogLoss
) -> None:
    rng = np.random.default_rng(seed)
    statistic = replace(statistic_of(rng, n_curves), loss=loss)
    codes, y = some_rows(rng, 9, n_curves)
    together = in_both_forms(lambda: newton_sum(statistic, codes, y, None, LATTICE))
    np.testing.assert_array_equal(together, each_alone(statistic, codes, y).sum(axis=0))


def test_a_product_of_matrices_would_make_records_depend_on_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twin: scores by BLAS, which adds up in another order if a row stands elsewhere."""
    rng = np.random.default_rng(0)
    statistic = replace(statistic_of(rng, 31), loss=LastBits())
    codes, y = some_rows(rng, 99, 31)

    def by_blas(*args: Any) -> tuple[np.ndarray, np.ndarray]:
        z, _ = newton.scaled_rows(*args)
        return z, z @ args[-1]

    monkeypatch.setattr(site_newton, "scaled_rows", by_blas)
    together = newton_sum(statistic, codes, y, None, LATTICE)
    assert (together != each_alone(statistic, codes, y).sum(axis=0)).any()


# ------------------------------------------------------------------------------ the second lock
LIES: dict[str, dict[str, Any]] = {
    "a gradient of ten": {},  # of a target that is no class
    "a radius without room": {"radius": 5e-324},
    "a radius near zero": {"radius": 1e-300, "constant": 0.0},
    "curves of infinity": {"curves": (Curve(0, ((math.inf,),) * 8), Curve(1, ((1.0,),) * 8))},
    "curves of nothing": {"curves": (Curve(0, ((math.nan,),) * 8), Curve(1, ((1.0,),) * 8))},
    "weights without end": {"weights": (1e308, 1e308, 1e308)},
}


@pytest.mark.parametrize("lie", LIES)
def test_no_record_adds_more_than_declared_whatever_the_query_says(lie: str) -> None:
    rng = np.random.default_rng(1)
    statistic = replace(statistic_of(rng, 2, size=3.0), **LIES[lie])
    codes, y = some_rows(rng, 20, 2)
    for vector in each_alone(statistic, codes, 11.0 * y).astype(object):
        assert (vector * vector).sum() <= statistic.bound(LATTICE).l2_squared
        assert np.abs(vector).max() <= statistic.bound(LATTICE).linf
        assert np.abs(vector).sum() <= statistic.bound(LATTICE).l1


def test_without_the_lock_a_lie_goes_through(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twin: the same query, with a limit that stops nobody."""
    rng = np.random.default_rng(1)
    statistic, (codes, _) = statistic_of(rng, 2), some_rows(rng, 1, 2)
    monkeypatch.setattr(site_newton, "most_squared", lambda statistic, unit: 2**46)
    vector = newton_sum(statistic, codes, np.array([1e6]), None, 4).astype(object)
    assert (vector * vector).sum() > 4**2


def test_curve_values_that_are_not_scaled_to_the_radius_would_be_seen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Twin: a record with |z| = 4 R leaves the unit ball once scaling is switched off."""
    curves = tuple(Curve(j, ((3.0,), (-2.0,))) for j in range(2))
    statistic = CurveNewton(curves, 0.5, 1.0, (0.1, 0.2, 0.0), 0.0)
    codes, y = np.zeros((2, 1), np.uint8), np.zeros(1)
    kept = newton_sum(statistic, codes, y, None, LATTICE)
    assert 0 < (kept * kept).sum() <= LATTICE**2

    def unscaled(*args: Any) -> tuple[np.ndarray, np.ndarray]:
        return np.array([[3.0, 3.0, 0.5]]), np.array([0.9])

    monkeypatch.setattr(site_newton, "scaled_rows", unscaled)
    assert not newton_sum(statistic, codes, y, None, LATTICE).any()  # the lock holds
    monkeypatch.setattr(site_newton, "most_squared", lambda statistic, unit: 2**44)
    broken = newton_sum(statistic, codes, y, None, LATTICE)
    assert (broken * broken).sum() > LATTICE**2


@settings(max_examples=200, deadline=None)
@given(
    z=st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40),
    score=st.one_of(st.floats(-40.0, 40.0), st.sampled_from([-30.0, 30.0, 0.0])),
    y=st.sampled_from([0.0, 1.0]),
    unit=st.sampled_from([1, 2**10, 2**14, 2**18]),
)
def test_honest_records_never_meet_the_lock(
    z: list[float], score: float, y: float, unit: int
) -> None:
    """Of norm 1 exactly as often as not, at scores where the gradient is as large as it gets."""
    row = np.array([z])
    row /= max(float(np.sqrt((row * row).sum())), 1.0)
    gh = LogLoss().contributions(np.array([[score]]), np.array([y])) * unit
    total = np.zeros(len(z) + len(z) * (len(z) + 1) // 2, np.int64)
    newton.add_newton_vectors(row, gh[:, 0], gh[:, 1], unit**2, total)
    np.testing.assert_array_equal(total[: len(z)], np.trunc(gh[0, 0] * row[0]))
    exact = total.astype(object)
    assert (exact * exact).sum() <= unit**2


def test_a_bound_beyond_what_rounding_allows_is_refused() -> None:
    one = np.ones((1, 1))
    with pytest.raises(ParameterError, match="use a smaller unit"):
        newton.add_newton_vectors(one, one[0], one[0], 2**50, np.zeros(2, np.int64))


# ---------------------------------------------------------------------------------------- memory
@pytest.mark.parametrize(("n", "n_curves"), [(2_000, 300), (100, 1_000)])
def test_memory_is_the_sums_and_one_chunk_of_records(n: int, n_curves: int) -> None:
    rng = np.random.default_rng(0)
    statistic, (codes, y) = statistic_of(rng, n_curves), some_rows(rng, n, n_curves)
    newton_sum(statistic, codes[:, :1], y[:1], None, LATTICE)  # the curves keep their tables
    tracemalloc.start()
    try:
        newton_sum(statistic, codes, y, None, LATTICE)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    in_whole = 8 * n * statistic.channels
    assert peak < 4 * 8 * statistic.channels + 2**24 < in_whole / 4
