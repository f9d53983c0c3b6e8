"""How well anything can do on Breiman's waveforms, whose law is known.

Breiman, Friedman, Olshen and Stone 1984: a record is u a + (1 - u) b plus unit normal noise at 21
points, u uniform; a and b are two of three triangles, and the pair is the class.
"""

from __future__ import annotations

import numpy as np

POINTS = np.arange(1, 22)
TRIANGLES = {center: np.maximum(6.0 - np.abs(POINTS - center), 0.0) for center in (7, 11, 15)}
PAIRS = ((11, 15), (11, 7), (15, 7))
MIXTURES = (np.arange(100) + 0.5) / 100
"""Midpoints over which the likelihood of a class is averaged."""


def best_accuracy(draws: int, seed: int = 0) -> float:
    """Accuracy of the most likely class on fresh draws; no classifier has a higher expectation."""
    rng = np.random.default_rng(seed)
    said, truth = np.empty((draws, len(PAIRS))), rng.integers(0, len(PAIRS), draws)
    u, noise = rng.random((draws, 1)), rng.normal(size=(draws, len(POINTS)))
    first, second = (np.stack([TRIANGLES[pair[k]] for pair in PAIRS]) for k in (0, 1))
    records = u * first[truth] + (1.0 - u) * second[truth] + noise
    for k, (a, b) in enumerate(PAIRS):
        means = np.outer(MIXTURES, TRIANGLES[a]) + np.outer(1.0 - MIXTURES, TRIANGLES[b])
        said[:, k] = np.exp(records @ means.T - 0.5 * (means**2).sum(axis=1)).mean(axis=1)
    return float((said.argmax(axis=1) == truth).mean())
