"""The attack rebuilds records from exact sums, and no more than a guess from noisy ones."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from studies import reconstruction as study
from studies.datasets import of_frame
from studies.evidence import CELLS, RECORDS, stored

OTHERS, MOVES = 12, 100_000
FEW = {"OWN_ROWS": 60, "TREES": 6, "DEPTH": 6}
SEEN, GUESSED = 0.65, 0.55
"""Cells that an attack recovers at least where it works, and at most where it does not."""


def world(n=400):
    """Five numbers and three categories, of which records share little."""
    rng = np.random.default_rng(5)
    X = pd.DataFrame({f"n{j}": rng.integers(0, 24, n).astype(float) for j in range(5)})
    for j in range(3):
        X[f"c{j}"] = rng.choice(np.array(["u", "v", "w", "x"], object), n)
    y = (X["n0"] + X["n1"] + 6 * (X["c0"] == "u") > 24).astype(int)
    return of_frame("made", X, y, regression=False)


@pytest.fixture(autouse=True)
def few(monkeypatch):
    for name, value in FEW.items():
        monkeypatch.setattr(study, name, value)


def recovered(view: str) -> tuple[float, float]:
    """Mean share of cells and of whole records over three draws."""
    found = [study.attack_on(world(), view, seed, OTHERS, MOVES) for seed in range(3)]
    cells, records = ([one[name] for one in found] for name in ("cells", "records"))
    return float(np.mean(cells)), float(np.mean(records))


@pytest.mark.slow
def test_exact_histograms_give_records_away_and_a_guess_does_not():
    cells, records = recovered(study.NOTHING)
    assert cells <= GUESSED
    assert records <= 0.1
    cells, records = recovered(study.HISTOGRAMS)
    assert cells >= SEEN
    assert records >= 0.2


@pytest.mark.slow
def test_hedgerow_gives_records_away_without_noise_and_not_with_it():
    """Without noise the attack must work here too: else nothing would be shown."""
    cells, records = recovered("hedgerow histograms, no noise")
    assert cells >= SEEN
    assert records >= 0.2
    cells, records = recovered("hedgerow histograms, epsilon 1")
    assert cells <= GUESSED
    assert records <= 0.1


def test_own_records_are_taken_off_exactly():
    rng = np.random.default_rng(0)
    codes, labels = rng.integers(0, 8, (50, 3)), rng.integers(0, 2, 50).astype(float)
    released = study.plain_boosting(codes, labels, 8, by_cell=True)
    own = study.Known(codes, codes.astype(object), labels)
    assert np.abs(study.without_own(released, own).sums).max() < 1e-9


def test_records_are_matched_in_any_order_and_numbers_within_the_tolerance():
    truth = np.array([[0.0, "a"], [10.0, "b"]], object)
    found = np.array([[10.5, "b"], [0.0, "x"]], object)
    assert study.recovered(found, truth, np.array([True, False])) == (0.75, 0.5)
    far = np.array([[15.0, "b"], [0.0, "a"]], object)
    assert study.recovered(far, truth, np.array([True, False])) == (0.75, 0.5)


def test_listening_ends_with_its_block():
    before = study.Server.ask
    with study.listening():
        assert study.Server.ask is not before
    assert study.Server.ask is before


def test_what_is_kept_says_that_noise_leaves_no_more_than_a_guess():
    found = {(e.parts[1], e.parts[2]): e for e in stored() if e.parts[0] == "reconstruction"}
    guess = found[CELLS, study.NOTHING]
    assert found[RECORDS, study.HISTOGRAMS].low > 0.2
    assert found[CELLS, study.HISTOGRAMS].low > guess.high
    for way in study.METHODS:
        for epsilon in study.EPSILONS[1:]:
            view = f"hedgerow {way}, {epsilon}"
            assert found[RECORDS, view].value <= 0.05
            assert found[CELLS, view].value <= guess.value + 0.05
