"""Sums of curves and surfaces: exact, never more than declared, and a record's own matter."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.data import sums
from hedgerow.data.sums import surface_sum
from hedgerow.errors import ParameterError
from hedgerow.kernels import surfaces
from hedgerow.kernels.build import FOR_AVX2
from hedgerow.kernels.dispatch import PLAIN
from hedgerow.models.losses import LogLoss, SoftmaxLoss, SquaredLoss
from hedgerow.models.model import Additive, Curve
from hedgerow.models.surfaces import ALONE, Basis
from hedgerow.privacy.queries import LATTICE, SurfaceGradients
from kernels.test_loops import in_both_forms, using

pytestmark = pytest.mark.property

SEEDS = st.integers(0, 2**32 - 1)
CELLS = 6
LOSSES = {0: (SquaredLoss(-2.0, 1.5, 0.7), 1.0), 2: (LogLoss(), 1.0)}
"""By the number of classes: 0 is a number."""


def statistic_of(
    rng: np.random.Generator, columns: int, radius: int = 90, classes: int = 2
) -> SurfaceGradients:
    functions = tuple(
        Curve(j, tuple(map(tuple, rng.integers(-2, 3, (CELLS, 1 + j % 3)).astype(float).tolist())))
        for j in range(columns)
    )
    pairs = [(a, b) for a in range(columns) for b in range(a)]
    terms = (*((j, ALONE) for j in range(columns)), *pairs)
    weights = tuple(rng.uniform(1.0, 30.0, len(terms)).tolist())
    basis = Basis(functions, terms, weights, 20)
    loss, clip = LOSSES.get(classes, (SoftmaxLoss(max(classes, 3)), 0.5))
    coefficients = tuple(rng.normal(0.0, 0.01, loss.outputs * basis.channels).tolist())
    at = Additive((0.0,) * loss.outputs)
    return SurfaceGradients(basis, at, coefficients, radius, loss, clip)


def some_rows(
    rng: np.random.Generator, n: int, columns: int, classes: int = 2
) -> tuple[np.ndarray, ...]:
    codes = rng.integers(0, CELLS, (columns, n)).astype(np.uint8)
    raw = rng.normal(size=(n, classes if classes > 2 else 1))
    y = rng.integers(0, classes, n).astype(np.float64) if classes else rng.normal(size=n)
    return codes, raw, y


def by_definition(
    statistic: SurfaceGradients, cells: list[int], raw: np.ndarray, y: float, unit: int = LATTICE
) -> list[int]:
    """One record in Python's own arithmetic, function after function."""
    basis = statistic.basis
    values = [c.values[cells[c.feature]] for c in basis.functions]
    vector = [basis.constant]
    for (a, b), weight in zip(basis.terms, basis.weights, strict=True):
        second = (1.0,) if b == ALONE else values[b]
        vector += [int(np.rint(weight * v * w)) for v in values[a] for w in second]
    outputs = statistic.loss.outputs
    score = []
    for own in np.reshape(statistic.coefficients, (outputs, -1)).tolist():
        terms, at = list[float](), 0
        for width in basis.widths:
            both = zip(own[at : at + width], vector[at : at + width], strict=True)
            terms.append(sum((c * f for c, f in both), 0.0))
            at += width
        # each term by itself, then those of a table, then the tables
        score.append(sum((sum(terms[k] for k in numbers) for _, numbers in basis.shared), 0.0))
    found = statistic.loss.contributions((raw + np.array(score))[None], np.array([y]))
    gradient = found[0, :outputs].tolist()
    size = math.sqrt(sum(g * g for g in gradient))
    g_scale = max((1.0 + 2.0**-40) * size, statistic.clip)
    norm = sum(f * f for f in vector)
    scale = statistic.radius / math.sqrt(max(norm, statistic.radius**2))
    multiples = [math.trunc(statistic.units(unit) * (g / g_scale * scale)) for g in gradient]
    return [multiple * f for multiple in multiples for f in vector]


@settings(max_examples=40, deadline=None)
@given(
    seed=SEEDS,
    n=st.sampled_from([0, 1, 2, 65, 200]),
    columns=st.integers(1, 5),
    classes=st.sampled_from([0, 2, 3, 11]),
)
def test_the_sum_is_the_sum_of_the_records(seed: int, n: int, columns: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    statistic = statistic_of(rng, columns, classes=classes)
    codes, raw, y = some_rows(rng, n, columns, classes)
    got = in_both_forms(lambda: surface_sum(statistic, codes, raw, y, None, LATTICE))
    records = [by_definition(statistic, codes[:, i].tolist(), raw[i], y[i]) for i in range(n)]
    np.testing.assert_array_equal(got, np.sum(records, axis=0) if n else 0)
    chosen = np.flatnonzero(rng.random(n) < 0.5).astype(np.int32)
    some = in_both_forms(lambda: surface_sum(statistic, codes, raw, y, chosen, LATTICE))
    np.testing.assert_array_equal(some, np.sum([records[i] for i in chosen], axis=0, initial=0))


@settings(max_examples=20, deadline=None)
@given(seed=SEEDS)
def test_chunks_of_any_size_give_one_sum(seed: int) -> None:
    rng = np.random.default_rng(seed)
    statistic, (codes, raw, y) = statistic_of(rng, 4, classes=9), some_rows(rng, 200, 4, 9)
    whole = surface_sum(statistic, codes, raw, y, None, LATTICE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums, "SURFACE_ROWS", int(rng.integers(1, 90)))
        np.testing.assert_array_equal(surface_sum(statistic, codes, raw, y, None, LATTICE), whole)


class Loud(LogLoss):
    """A loss that keeps no bound."""

    def contributions(self, raw: np.ndarray, target: np.ndarray) -> np.ndarray:
        wild = np.array([1.0, -1.0, 1.5, -40.0, np.inf, np.nan, 1.0 + 2.0**-30])
        return np.stack([wild[np.abs(raw[:, 0]).astype(int) % 7], np.zeros(len(raw))], axis=1)


class LoudOfMany(SoftmaxLoss):
    """The same of three classes."""

    def contributions(self, raw: np.ndarray, target: np.ndarray) -> np.ndarray:
        return np.concatenate([Loud().contributions(raw[:, [k]], target) for k in range(3)], axis=1)


class Unclipped(SurfaceGradients):
    """A statistic that does not scale its gradients: what bounds them then is the kernel alone."""

    def gradients(self, contributions: np.ndarray) -> np.ndarray:
        return contributions[:, : self.loss.outputs]


@settings(max_examples=40, deadline=None)
@given(seed=SEEDS, radius=st.sampled_from([1, 7, 90, 5000]), unit=st.sampled_from([1, 16, LATTICE]))
def test_no_record_adds_more_than_declared_whatever_the_query_says(
    seed: int, radius: int, unit: int
) -> None:
    rng = np.random.default_rng(seed)
    for loss, kind in itertools.product(
        (LogLoss(), Loud(), SoftmaxLoss(3), LoudOfMany(3), LOSSES[0][0]),
        (SurfaceGradients, Unclipped),
    ):
        classes = 0 if isinstance(loss, SquaredLoss) else max(loss.outputs, 2)
        plain = statistic_of(rng, 4, radius, classes)
        asked = kind(plain.basis, plain.at, plain.coefficients, radius, loss, plain.clip)
        bound = asked.bound(unit)
        codes, raw, y = some_rows(rng, 7, 4, classes)
        raw *= 100.0
        for i in range(7):
            row = slice(i, i + 1)
            with using((PLAIN, FOR_AVX2)[i % 2]):
                v = surface_sum(asked, codes[:, row], raw[row], y[row], None, unit).astype(object)
            assert sum(v * v) <= bound.l2_squared
            assert sum(abs(v)) <= bound.l1
            assert max(abs(v)) <= bound.linf


@settings(max_examples=30, deadline=None)
@given(seed=SEEDS)
def test_honest_records_are_never_left_out(seed: int) -> None:
    """At the extreme gradient a record has its whole multiple, rounded down by less than one."""
    rng = np.random.default_rng(seed)
    norm = np.array([float(rng.integers(1, 2**46)), 1.0, 2.0**22])
    g = np.full(3, 1.0 - 1.0 / (1.0 + np.exp(30.0)))
    got = surfaces.bounded_multiples(g[:, None], norm, 1024, 2048)[:, 0]
    exact = 1024 * np.minimum(1.0, 2048 / np.sqrt(norm))
    assert (exact - got < 1.0 + 1e-6).all()
    raw = rng.normal(0.0, 30.0, (200, 5))  # gradients of many classes, most of them clipped
    statistic = statistic_of(rng, 1, classes=5)
    y = rng.integers(0, 5, 200).astype(np.float64)
    g = statistic.gradients(statistic.loss.contributions(raw, y))
    got = surfaces.bounded_multiples(g, np.full(200, 2.0**22), 1024, 2048)
    assert np.abs(1024 * g - got).max() < 1.0 + 1e-6
    assert 0.5 < np.linalg.norm(g, axis=1).max() < 1.0


def test_a_record_that_is_not_scaled_would_be_seen() -> None:
    """Negative control: without the scale the same record exceeds the bound and adds nothing."""
    with using(PLAIN), pytest.MonkeyPatch.context() as patch:
        patch.setattr(surfaces.np, "sqrt", lambda x: np.full_like(x, 2048.0))
        got = surfaces.bounded_multiples(np.array([[0.9]]), np.array([2.0**30]), 1024, 2048)
    assert got.tolist() == [[0]]
    assert surfaces.bounded_multiples(np.array([[0.9]]), np.array([2.0**30]), 1024, 2048)[0] > 0


def test_tables_that_are_too_short_and_bounds_that_are_too_large_are_refused() -> None:
    codes, layout = np.full((1, 3), 4, np.uint8), np.array([[0, 0, 0, 0, 5, 5]])
    with pytest.raises(ParameterError, match="places up to 124 in tables of 124"):
        surfaces.look_up(codes, layout, np.zeros(124))
    with pytest.raises(ParameterError, match="2 numbers came for 3 records"):
        surfaces.add_at_places(codes, layout, np.zeros(2, np.int64), np.zeros(125, np.int64))
    with pytest.raises(ParameterError, match="use a smaller unit"):
        surfaces.bounded_multiples(np.zeros((1, 1)), np.ones(1), 2**14, 2**14)
