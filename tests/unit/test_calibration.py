"""A line through scores: right where the table is exact, and no change where it is noise."""

from __future__ import annotations

import numpy as np
import pytest

from contract.worlds import TWO, federation, holders, sample, study
from hedgerow.learning.flow import run
from hedgerow.learning.leaves import calibration
from hedgerow.learning.leaves.calibration import EDGES, Line, fitted
from hedgerow.queries import Answer
from hedgerow.recipes.ours.forest import GuidedForest
from hedgerow.values.losses import sigmoid
from hedgerow.values.models import Output


def table(shift, slope, n=200_000, noise=0.0, seed=0):
    rng = np.random.default_rng(seed)
    score = rng.normal(0.0, 1.2, n)
    hit = rng.random(n) < sigmoid(shift + slope * score)
    cells = np.searchsorted(EDGES, score, side="right")
    counts = [np.bincount(cells[hit == k], minlength=len(EDGES) + 1) for k in (False, True)]
    values = np.stack(counts, axis=1) + rng.normal(0.0, noise, (len(EDGES) + 1, 2))
    return Answer(values[None], noise**2)


@pytest.mark.parametrize(("shift", "slope"), [(-2.0, 0.6), (0.3, 1.0), (-0.5, 2.2)])
@pytest.mark.parametrize("noise", [0.0, 60.0])
def test_the_line_behind_a_table_is_found(shift, slope, noise):
    found = fitted(table(shift, slope, noise=noise), Line(0.0, 1.5))
    assert found.shift == pytest.approx(shift, abs=0.1)
    assert found.slope == pytest.approx(slope, abs=0.1)


def test_a_table_of_noise_alone_changes_nothing_but_once_in_a_while():
    """An empty interval stands out by chance once in 700; there are 30 of them."""
    expected = Line(-1.0, 1.5)
    lines = [fitted(table(0.0, 0.0, n=50, noise=1e4, seed=seed), expected) for seed in range(20)]
    assert sum(line == expected for line in lines) >= 17


def test_a_score_that_points_the_wrong_way_is_not_turned_round():
    assert fitted(table(0.0, -1.0), Line(0.0, 1.0)).slope == 0.0


def test_a_forest_of_two_classes_says_probabilities_that_come_true():
    schema = GuidedForest().grid(TWO)
    X, y = sample(6000, TWO)
    rows = holders(X, y, np.zeros(6000, int), 1, schema)
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
