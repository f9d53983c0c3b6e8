"""What a node is thought to hold before and after it is asked: tables with their variances.

A child's tables are guessed from its parent's: exactly for the split feature, and for the others
as if features were independent within a class (the naive-Bayes prior). The child's own noisy
tables then move the guess, the further the less sure the guess is (empirical Bayes).

Shapes: F features in play, B bins, C channels.
"""

from __future__ import annotations

import numpy as np

from hedgerow.learning.choosing.scores import TINY
from hedgerow.learning.choosing.tables import Tables, common_total, totals, with_total
from hedgerow.learning.evidence import Belief
from hedgerow.queries import Binning
from hedgerow.values.arrays import BoolArray, FloatArray


def root_belief(cells: Tables, thinned: Binning, bins: Binning) -> Belief:
    """Consistent root tables of all features, their cells gathered into bins."""
    n_bins = max(bins.n_bins)
    shape = (len(cells.features), n_bins, cells.values.shape[2])
    masses, variances = np.zeros(shape), np.zeros(shape)
    for j in range(len(cells.features)):
        bin_of = dict(zip(thinned.bins[j], bins.bins[j], strict=True))
        place = [bin_of[c] for c in range(cells.n_bins[j])]
        np.add.at(masses[j], place, cells.of(j))
        np.add.at(variances[j], place, cells.variance)
    common, variance = totals(cells)
    possible = np.arange(n_bins)[None, :] < np.asarray(bins.n_bins)[:, None]
    return Belief(cells.features, masses, variances, possible, np.maximum(common, 1.0), variance)


def child_prior(parent: Belief, position: int, left: BoolArray, side: int) -> Belief:
    """What to expect in a child after a split of the feature at `position`.

    `left` is the set of its bins sent left; `side` is 0 for the left child.
    """
    inside = (left if side == 0 else ~left) & parent.possible[position]
    sent = np.clip(parent.masses[position, inside].sum(axis=0), 0.0, parent.totals)
    part = sent / np.maximum(parent.totals, TINY)  # (C,) of each class
    masses, variances = parent.masses * part, parent.variances * part**2
    possible = parent.possible.copy()
    masses[position] = parent.masses[position] * inside[:, None]
    variances[position] = parent.variances[position] * inside[:, None]
    possible[position] = inside
    sent_variance = float(parent.variances[position, inside].sum(axis=0).mean())
    return Belief(
        parent.features,
        masses,
        variances,
        possible,
        sent,
        sent_variance,
        parent.features[position],
    )


def updated(prior: Belief, asked: FloatArray, variance: float, *, trusting: bool = True) -> Belief:
    """The prior moved towards the node's own noisy tables, (F, B, C), of its features.

    Per feature and class, the spread t2 of the truth around the prior is what the squared
    difference holds beyond both noises; the split feature's prior has none. A cell then moves by
    (prior variance + t2) / (prior variance + t2 + noise), or all the way if not `trusting`.
    """
    used = prior.possible
    common, total_variance = common_total(asked, used, variance)
    common = np.maximum(common, 0.0)
    own = with_total(asked, used, common)
    guess = with_total(prior.masses, used, common)
    step = _steps(prior, own - guess, variance) if trusting else np.ones_like(own)
    step = np.where(used[:, :, None], step, 0.0)
    return Belief(
        prior.features,
        guess + step * (own - guess),
        step * variance,
        used,
        common,
        total_variance,
        prior.split,
    )


def _steps(prior: Belief, difference: FloatArray, variance: float) -> FloatArray:
    spread = prior.variances + _between(prior, difference, variance)[:, None, :]
    return np.asarray(spread / np.maximum(spread + variance, TINY))


def _between(prior: Belief, difference: FloatArray, variance: float) -> FloatArray:
    """(F, C) variance of the truth around the prior, per feature and class."""
    used = prior.possible[:, :, None]
    excess = (difference**2 - variance - prior.variances) * used
    spread = np.maximum(excess.sum(axis=1) / np.maximum(used.sum(axis=1), 1), 0.0)
    if prior.split in prior.features:
        spread[prior.features.index(prior.split)] = 0.0
    return np.asarray(spread)
