"""A line through scores: right where the table is exact, and no change where it is noise."""

from __future__ import annotations

import numpy as np
import pytest

from hedgerow.methods.blocks import calibration
from hedgerow.methods.blocks.calibration import (
    CALIBRATION_FRACTION,
    EDGES,
    MAX_CALIBRATION_FRACTION,
    ClassTotals,
    Line,
    fit_line,
)
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.forest import GuidedForest, calibration_fraction
from hedgerow.models.losses import sigmoid
from hedgerow.models.model import Output
from hedgerow.privacy.queries import Answer
from support.worlds import TWO, federation, sample, site_rows, study


def table(shift, slope, n=200_000, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    score = rng.normal(0.0, 1.2, n)
    hit = rng.random(n) < sigmoid(shift + slope * score)
    cells = np.searchsorted(EDGES, score, side="right")
    counts = [np.bincount(cells[hit == k], minlength=len(EDGES) + 1) for k in (False, True)]
    values = np.stack(counts, axis=1) + rng.normal(0.0, noise, (len(EDGES) + 1, 2))
    return Answer(values[None], noise**2)


UNKNOWN = ClassTotals(np.array([1.0, 1.0]), 1e12)
"""Totals that say nothing."""


@pytest.mark.parametrize(("shift", "slope"), [(-2.0, 0.6), (0.3, 1.0), (-0.5, 2.2)])
@pytest.mark.parametrize("noise", [0.0, 60.0])
def test_the_line_behind_a_table_is_found(shift, slope, noise):
    found = fit_line(table(shift, slope, noise=noise), Line(0.0, 1.5), UNKNOWN)
    assert found.shift == pytest.approx(shift, abs=0.1)
    assert found.slope == pytest.approx(slope, abs=0.1)


def test_a_table_of_noise_alone_changes_nothing_but_once_in_a_while():
    """An empty interval stands out by chance once in 700; there are 30 of them."""
    expected = Line(-1.0, 1.5)
    known = ClassTotals(np.array([10.0, 40.0]), 1.0)
    tables = [table(0.0, 0.0, n=50, noise=1e4, seed=seed) for seed in range(20)]
    lines = [fit_line(answer, expected, known) for answer in tables]
    assert sum(line == expected for line in lines) >= 17


def test_a_score_that_points_the_wrong_way_is_not_turned_round():
    assert fit_line(table(0.0, -1.0), Line(0.0, 1.0), UNKNOWN).slope == 0.0


def test_probabilities_add_up_to_what_is_known_of_a_class():
    """Of a rare class the hits drown in noise that the rows of the intervals stand out of."""
    n, true, expected = 20_000, Line(-3.0, 1.0), Line(-2.0, 1.0)
    hits = table(true.shift, true.slope, n).values[0, :, 1].sum()
    known = ClassTotals(np.array([n - hits, hits]), 100.0)
    noisy = [table(true.shift, true.slope, n, noise=400.0, seed=seed) for seed in range(10)]

    score = np.random.default_rng(0).normal(0.0, 1.2, n)

    def missed(totals):
        lines = [fit_line(one, expected, totals) for one in noisy]
        means = [sigmoid(line.shift + line.slope * score).mean() for line in lines]
        return np.mean(np.abs(np.array(means) - hits / n))

    assert missed(known) < 0.5 * missed(UNKNOWN)


@pytest.mark.parametrize(
    ("signal", "masses", "variance", "fraction"),
    [
        (50.0, (500.0, 500.0), 0.0, CALIBRATION_FRACTION),
        (50.0, (950.0, 50.0), 0.0, MAX_CALIBRATION_FRACTION),
        (50.0, (50.0, 950.0), 0.0, MAX_CALIBRATION_FRACTION),
        (500.0, (950.0, 50.0), 0.0, CALIBRATION_FRACTION),
        (50.0, (950.0, 50.0), 1e12, CALIBRATION_FRACTION),
    ],
)
def test_a_rare_class_buys_more_of_a_calibration_where_noise_is_strong(
    signal, masses, variance, fraction
):
    known = ClassTotals(np.array(masses), variance)
    assert calibration_fraction(signal, known) == fraction


def test_a_forest_of_two_classes_says_probabilities_that_come_true():
    schema = GuidedForest().grid(TWO)
    X, y = sample(6000, TWO)
    rows = site_rows(X, y, np.zeros(6000, int), 1, schema)
    fed = federation(study(schema, 1, epsilon="20", delta="1e-6"), rows)
    found = run(GuidedForest().flow(schema, fed, np.random.default_rng(0)), fed)
    assert found.model.output is Output.SIGMOID
    assert len(fed.record.rounds) == 4
    assert fed.ledger.spent(fed.study.account) == fed.study.total
    p, hit = found.model.predict(rows[0].codes)[:, 1], y == "yes"
    for low, high in ((0.0, 0.2), (0.2, 0.8), (0.8, 1.0)):
        inside = (p >= low) & (p < high)
        assert abs(p[inside].mean() - hit[inside].mean()) < 0.05


def test_edges_of_scores_rise_around_zero():
    assert list(EDGES) == sorted(set(EDGES))
    assert len(calibration._middles()) == len(EDGES) + 1
