"""Gate 5: no fitted model tells more of a record than its statement claims, seen from outside.

All estimators, all placements, four canaries. The gate is wrong once in a million audits. Its twins
have half the noise, which takes many fits to see, and none, which the fewest fits must show.
"""

from __future__ import annotations

import numpy as np
import pytest

import hedgerow as hr
from audit import black_box
from audit.black_box import (
    CANARIES,
    EPSILON,
    ERROR,
    PAIRS,
    ROWS,
    Cell,
    cells,
    lower,
    measured,
    outcomes,
)
from hedgerow.privacy.noise import sampling
from hedgerow.privacy.noise.mechanisms import DiscreteLaplace, NoNoise

CLAIM = 1.5
FITS = 1000
LEAVES = {"epsilon": CLAIM, "delta": 0.0, "leaf_share": 0.95}
"""Nearly all of the budget in one sum of Laplace noise, which a stranger can see best."""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "placement"), PAIRS, ids=[f"{kind.__name__}-{where}" for kind, where in PAIRS]
)
def test_no_model_tells_more_of_a_record_than_was_claimed(kind, placement):
    found = list(cells(kind, placement))
    print(*found, sep="\n")
    assert len(found) == len(CANARIES)
    assert [cell for cell in found if cell.at_least > EPSILON] == []


def rare_class(fits: int) -> Cell:
    """Many ordinary rows, so that the canary's own count is all that moves."""
    rows, kind = ROWS * 10, hr.HistogramTreeClassifier
    sides = (rows, [*rows, CANARIES["rare class"]])
    first, second = (outcomes(kind, "curator", side, fits, **LEAVES) for side in sides)
    return measured("rare class among many rows", first, second, ERROR)


@pytest.mark.slow
def test_the_noise_of_a_single_sum_keeps_its_claim():
    assert rare_class(FITS).at_least <= CLAIM


@pytest.mark.slow
def test_half_the_noise_is_seen_from_outside(monkeypatch):
    """The twin: every law is drawn at half its scale."""
    draw = sampling.draw
    monkeypatch.setattr(
        sampling,
        "draw",
        lambda law, *rest, **named: draw(DiscreteLaplace(2 * law.rate), *rest, **named),
    )
    assert rare_class(FITS).at_least > CLAIM


@pytest.mark.slow
def test_no_noise_is_seen_by_the_fewest_fits_that_the_audit_makes(monkeypatch):
    """The twin of every cell: a leak as plain as that must not hide behind the intervals."""
    draw = sampling.draw
    monkeypatch.setattr(sampling, "draw", lambda law, *rest, **named: draw(NoNoise(), *rest))
    found = cells(hr.HistogramTreeClassifier, "curator", min(black_box.FITS.values()))
    assert max(cell.at_least for cell in found) > EPSILON


def test_a_side_that_never_does_what_the_other_always_does_is_a_loss():
    assert lower(100, 0, 100, 0.05) > 3.0
    assert lower(60, 60, 100, 0.05) == 0.0
    assert lower(0, 100, 100, 0.05) == 0.0


def test_a_question_is_not_judged_by_the_fits_that_chose_it():
    """Of much pure chance the best question looks telling, and is not on the other half."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        first, second = rng.normal(size=(2, 60, 40))
        assert measured("chance", first, second).at_least == 0.0
