"""The best possible accuracy on waveforms: a known value, and a classifier that stays below it."""

from __future__ import annotations

import numpy as np

from studies.extra_trees.waveform import PAIRS, POINTS, TRIANGLES, best_accuracy


def test_the_best_accuracy_agrees_with_fresh_draws() -> None:
    """Two runs of 50,000 draws differ by less than 6 deviations of their difference."""
    first, second = best_accuracy(50_000), best_accuracy(50_000, seed=1)
    assert abs(first - second) < 6 * np.sqrt(2 * 0.13 * 0.87 / 50_000)
    assert 0.86 < first < 0.876


def test_a_nearest_pattern_rule_is_worse() -> None:
    rng = np.random.default_rng(2)
    truth, u = rng.integers(0, 3, 50_000), rng.random((50_000, 1))
    first, second = (np.stack([TRIANGLES[pair[k]] for pair in PAIRS]) for k in (0, 1))
    records = u * first[truth] + (1 - u) * second[truth] + rng.normal(size=(50_000, len(POINTS)))
    middles = (first + second) / 2
    nearest = ((records[:, None, :] - middles) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == truth).mean() < best_accuracy(50_000) - 0.005
