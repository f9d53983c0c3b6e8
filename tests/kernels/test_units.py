"""What a record adds keeps its declared bound, and honest records are never touched."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import isfinite, trunc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.data import sums
from hedgerow.data.sums import Answering, half_gini_units
from hedgerow.errors import ParameterError, UnsupportedQuery
from hedgerow.kernels.units import bounded_units, quantize, zero_exceeding
from hedgerow.models.losses import (
    FirstOrder,
    LogLoss,
    Loss,
    Norms,
    PlainLogLoss,
    Sensitivity,
    SoftmaxLoss,
    SquaredLoss,
)
from hedgerow.models.model import Additive
from hedgerow.privacy.queries import LATTICE, Gradients, Hessians, LabelReports, SumQuery, Whole
from hedgerow.schema.regions import EVERYONE
from kernels.test_loops import in_both_forms
from support.examples import (
    BY_CLASS,
    BY_TIME,
    BY_TWO,
    BY_VALUE,
    CLASS_STATISTICS,
    TIME_STATISTICS,
    TWO_CLASS_STATISTICS,
    VALUE_STATISTICS,
    pairs_of_sites,
    rows_of,
)

pytestmark = pytest.mark.property

SEEDS = st.integers(0, 2**32 - 1)


def keeps(vector: list[int], bound: Sensitivity) -> bool:
    """In Python's integers, which have no largest one."""
    sizes = [abs(v) for v in vector]
    return (
        sum(sizes) <= bound.l1
        and sum(v * v for v in sizes) <= bound.l2_squared
        and max(sizes) <= bound.linf
    )


def some_values(rng: np.random.Generator, n: int, channels: int) -> np.ndarray:
    """Small numbers, and now and then one of any size or of none."""
    values = rng.uniform(-1.2, 1.2, (n, channels))
    strange = [np.nan, np.inf, -np.inf, 1e300, -1e300, 1e18, 2.0**49, -1.0, 1.0, 1 - 2.0**-53]
    return np.where(rng.random(values.shape) < 0.1, rng.choice(strange, values.shape), values)


@settings(max_examples=60, deadline=None)
@given(
    seed=SEEDS,
    n=st.sampled_from([0, 1, 7, 512, 513, 1536]),
    channels=st.integers(1, 5),
    unit=st.sampled_from([1, 3, 2**14]),
)
def test_a_record_that_exceeds_its_bound_adds_nothing_and_others_all_they_have(
    seed: int, n: int, channels: int, unit: int
) -> None:
    rng = np.random.default_rng(seed)
    values = some_values(rng, n, channels)
    l1, l2, linf = rng.uniform(0.3, 2.0, 3) * unit + 1
    bound = Sensitivity(int(l1), int(l2 * l2), int(linf))
    got = in_both_forms(lambda: bounded_units(values, unit, bound))
    for row, mine in zip(values.tolist(), got.tolist(), strict=True):
        whole = [trunc(v * unit) if isfinite(v * unit) else 0 for v in row]
        assert mine == (whole if keeps(whole, bound) else [0] * channels)


def test_vectors_at_their_bound_are_kept() -> None:
    at = np.array([[3, 4], [-4, 3], [-3, -4], [0, 4]])
    bound = Sensitivity(7, 25, 4)
    np.testing.assert_array_equal(in_both_forms(lambda: bounded_units(at * 1.0, 1, bound)), at)


@pytest.mark.parametrize(
    "bound", [(6, 99, 99), (99, 24, 99), (99, 99, 3)], ids=["l1", "l2", "linf"]
)
def test_one_unit_beyond_any_norm_is_too_much(bound: tuple[int, int, int]) -> None:
    vector = np.array([[3.0, 4.0]])
    assert not in_both_forms(lambda: bounded_units(vector, 1, Sensitivity(*bound))).any()


def test_integers_beyond_all_sums_are_seen() -> None:
    huge = np.array([[2**63 - 1, 1], [-(2**63), 0], [2**62, 2**62], [1, 1]])
    np.testing.assert_array_equal(
        zero_exceeding(huge, Sensitivity(2, 2, 1)), [[0, 0], [0, 0], [0, 0], [1, 1]]
    )


def test_a_bound_too_large_to_be_checked_exactly_is_refused() -> None:
    with pytest.raises(ParameterError, match="lower the unit"):
        bounded_units(np.zeros((1, 2)), 1, Sensitivity(1, 1, 2**26))


# ------------------------------------------------------------------------------- honest records
EXAMPLES = {
    BY_CLASS: CLASS_STATISTICS,
    BY_TWO: TWO_CLASS_STATISTICS,
    BY_VALUE: VALUE_STATISTICS,
    BY_TIME: TIME_STATISTICS,
}
HONEST = [(schema, s) for schema, some in EXAMPLES.items() for s in some if s.is_fractional]


@pytest.mark.parametrize(("schema", "statistic"), HONEST, ids=lambda x: type(x).__name__)
def test_no_honest_record_meets_the_clamp(schema: Any, statistic: Any) -> None:
    """Else a bound declared too small would pass for one that holds."""
    for data, (site, _) in pairs_of_sites(schema, 60):
        unclamped = quantize(statistic.fractions(site, LATTICE), LATTICE)
        np.testing.assert_array_equal(site.contributions(statistic, LATTICE), unclamped, str(data))


@given(
    raw=st.lists(st.floats(-800, 800), min_size=3, max_size=3),
    y=st.integers(0, 2),
    unit=st.sampled_from([1, 1000, 2**14, 2**20]),
)
def test_no_loss_needs_the_clamp_at_any_score(raw: list[float], y: int, unit: int) -> None:
    binary = np.array([float(min(y, 1))])
    for loss, scores, target in (
        (LogLoss(), raw[:1], binary),
        (PlainLogLoss(), raw[:1], binary),
        (SoftmaxLoss(3), raw, np.array([float(y)])),
        (FirstOrder(LogLoss()), raw[:1], binary),
        (FirstOrder(SoftmaxLoss(3)), raw, np.array([float(y)])),
        (SquaredLoss(-2.0, 2.0, 0.5), raw[:1], np.array([raw[1]])),
    ):
        statistic = Gradients(loss, Additive((0.0,) * len(scores)))
        vector = quantize(loss.contributions(np.array([scores]), target), unit)
        np.testing.assert_array_equal(zero_exceeding(vector, statistic.bound(unit)), vector)


LOSSES: list[Loss] = [
    LogLoss(),
    PlainLogLoss(),
    SoftmaxLoss(3),
    SoftmaxLoss(30),
    SquaredLoss(-1.0, 1.0, 1.0),
]


@pytest.mark.parametrize("loss", LOSSES, ids=repr)
def test_a_record_contributes_the_same_bits_alone_and_among_others(loss: Loss) -> None:
    rng = np.random.default_rng(0)
    raw, y = 3 * rng.normal(size=(101, loss.outputs)), rng.integers(0, 2, 101).astype(float)
    together = loss.contributions(raw, y)
    alone = [loss.contributions(raw[i : i + 1], y[i : i + 1]) for i in range(len(y))]
    assert together.tobytes() == np.concatenate(alone).tobytes()


# ------------------------------------------------------------------------------ lies are stopped
@dataclass(frozen=True)
class Boastful(LogLoss):
    """Contributes 3, declares 1."""

    def contributions(self, raw: np.ndarray, target: np.ndarray) -> np.ndarray:
        return np.full((len(raw), 2), 3.0)

    @property
    def norms(self) -> Norms:
        return Norms(1.0, 1.0, 1.0)


SCORE = Additive((0.0,))
TWO_CLASSES = [((0, 0, 0), 1, 3.0), ((1, 1, 1), 0, -1.0), ((2, 2, 1), 2, 2.5)]
LIES: dict[str, tuple[Any, Any]] = {
    "contributes 3, declares 1": (BY_CLASS, Gradients(Boastful(), SCORE)),
    "a weight below zero": (
        BY_VALUE,
        Gradients(SquaredLoss(-1.0, 3.0, 1.0, weight=-0.9999999), SCORE),
    ),
    "a log-loss of numbers": (BY_VALUE, Gradients(LogLoss(), SCORE)),
    "a log-loss of three classes": (BY_CLASS, Gradients(LogLoss(), SCORE)),
    "a thousand classes, one score": (BY_CLASS, Gradients(FirstOrder(SoftmaxLoss(1000)), SCORE)),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_statistic_that_lies_about_its_bound_is_stopped(lie: str) -> None:
    schema, statistic = LIES[lie]
    query = SumQuery(EVERYONE, statistic, Whole(), Fraction(1, 10))
    for record in TWO_CLASSES:
        answering = Answering(rows_of([record], schema), schema)
        vector = in_both_forms(partial(answering.integers, query, LATTICE))
        assert keeps(vector.tolist(), statistic.bound(LATTICE))


@pytest.mark.parametrize("lie", LIES)
def test_without_the_clamp_every_lie_goes_through(
    lie: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twin: integers are summed as they are made."""
    monkeypatch.setattr(sums, "bounded_units", lambda values, unit, bound: quantize(values, unit))
    schema, statistic = LIES[lie]
    query = SumQuery(EVERYONE, statistic, Whole(), Fraction(1, 10))
    vectors = [
        Answering(rows_of([record], schema), schema).integers(query, LATTICE).tolist()
        for record in TWO_CLASSES
    ]
    assert not all(keeps(vector, statistic.bound(LATTICE)) for vector in vectors)


class Wide(Hessians):
    """Says that it has twenty channels and gives one."""

    @property
    def channels(self) -> int:
        return 20


def test_one_sum_is_not_stretched_over_many_noises() -> None:
    site = Answering(rows_of(TWO_CLASSES, BY_CLASS), BY_CLASS)
    statistic = Wide(FirstOrder(SoftmaxLoss(20)), SCORE)
    with pytest.raises(UnsupportedQuery, match="1 sums"):
        site.integers(SumQuery(EVERYONE, statistic, Whole(), Fraction(1, 10)), LATTICE)


def test_reports_of_labels_are_held_against_their_bound_too() -> None:
    site = Answering(rows_of(TWO_CLASSES, BY_CLASS), BY_CLASS)
    query = SumQuery(EVERYONE, LabelReports(2), Whole(), Fraction(1, 10))
    told = np.array([[1, 0, 1], [0, 0, 1], [1, 5, 1]])
    assert site.integers_of(query, told).tolist() == [1, 0, 2]


def test_half_a_gini_does_not_leave_int64_at_any_unit() -> None:
    counts = np.array([[2**19, 2**19]])
    assert half_gini_units(counts, 2**24).tolist() == [2**24 * 2**19 // 2]
