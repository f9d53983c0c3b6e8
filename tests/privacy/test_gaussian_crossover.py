"""docs/conversions.md: where Gaussian noise becomes smaller than Laplace noise."""

from __future__ import annotations

import re
from fractions import Fraction
from pathlib import Path

import pytest

from hedgerow.models.sensitivity import Sensitivity
from hedgerow.privacy.accounting import conversions
from hedgerow.privacy.accounting.budget import Measure

PAGE = Path(__file__).parents[2] / "docs" / "accounting.md"
EPSILONS = [Fraction(e) for e in ("0.1", "0.5", "1", "2", "5", "10")]


def crossover(epsilon: Fraction, delta: Fraction) -> float:
    return float(epsilon**2 / (2 * conversions.whole_budget(Measure.GDP, epsilon, delta)))


def rows_of_the_table() -> list[tuple[Fraction, list[float]]]:
    found = re.findall(r"^\| (1e-\d+) \| ([\d. |]+) \|$", PAGE.read_text("utf-8"), re.M)
    return [(Fraction(d), [float(v) for v in values.split("|")]) for d, values in found]


@pytest.mark.parametrize(("delta", "shown"), rows_of_the_table(), ids=str)
def test_the_table_of_crossovers_is_what_the_accounting_gives(delta, shown):
    assert len(shown) == len(EPSILONS)
    for epsilon, k in zip(EPSILONS, shown, strict=True):
        assert crossover(epsilon, delta) == pytest.approx(k, abs=0.051)


def test_the_table_has_three_rows():
    assert len(rows_of_the_table()) == 3


@pytest.mark.parametrize(("k", "smaller"), [(6, Measure.PURE), (12, Measure.GDP)])
def test_the_noise_itself_changes_sides_at_the_crossover(k, smaller):
    """Epsilon 1, delta 1e-6: k* = 8.9, by the variances of the integer laws."""
    epsilon, delta = Fraction(1), Fraction(1, 10**6)
    lattice = 1 << 10  # fine units, so that the laws are not cut off by the integers
    variance = {}
    for measure in (Measure.PURE, Measure.GDP):
        cost = conversions.whole_budget(
            measure, epsilon, delta if measure is Measure.GDP else Fraction(0)
        )
        bound = Sensitivity(lattice, lattice**2, lattice)
        variance[measure] = conversions.noise_law(measure, cost / k, bound).variance
    assert min(variance, key=lambda m: variance[m]) is smaller
