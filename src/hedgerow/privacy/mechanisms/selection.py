"""Private selection: of the scores, only the index of the winner is released.

Scores are integers (rounded down on a public lattice) and candidates are public. For scores that
one record moves by amounts within [low, high], the range is high - low, and a coefficient epsilon /
range makes each mechanism here epsilon-DP. Proofs: docs/proofs/samplers.md, section 7.

| mechanism        | why                                                                          |
|------------------|------------------------------------------------------------------------------|
| permute_and_flip | never worse than the exponential mechanism; for pure epsilon                 |
| exponential      | epsilon^2 / 8 of zCDP; permute_and_flip costs more there                     |
| report_noisy_max | as published; never better than permute_and_flip                             |
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import ParameterError
from hedgerow.privacy.mechanisms.coins import (
    Randomness,
    bernoulli_exp,
    exp_bounds,
    falls_below_exp,
    laplace,
    uniform_below,
)

Scores = Sequence[int] | NDArray[np.int64]
_WEIGHT_BITS: Final = 31  # a product of two stays below 2^63
_SHORT: Final = 17  # a product of eight factors is too small by less than this
_FACTOR_BITS: Final = 128
_LARGEST_SCORE: Final = 2**61


def exponential(scores: Scores, coefficient: Fraction, secret: Randomness) -> int:
    """Index r with probability proportional to exp(coefficient * scores[r]), exactly.

    McSherry and Talwar 2007. Each candidate owns `high` of the integers below the sum, where low <=
    2^31 weight <= high. A uniform integer selects a candidate, which is accepted if the integer is
    among its first `low`; otherwise a lazily refined coin decides, and a rejection starts over.
    """
    gaps = _gaps(scores, coefficient)
    low, high = _weight_bounds(gaps, coefficient)
    ends = high.cumsum()
    while True:
        point = uniform_below(int(ends[-1]), secret)
        chosen = int(ends.searchsorted(point, side="right"))
        offset = point - int(ends[chosen] - high[chosen])
        if offset < low[chosen] or falls_below_exp(
            offset, _WEIGHT_BITS, coefficient * int(gaps[chosen]), secret
        ):
            return chosen


def permute_and_flip(scores: Scores, coefficient: Fraction, secret: Randomness) -> int:
    """McKenna and Sheldon 2020, Algorithm 1: in random order, keep r with exp(-coefficient gap)."""
    gaps = _gaps(scores, coefficient).tolist()
    waiting = list(range(len(gaps)))
    while True:
        place = uniform_below(len(waiting), secret)
        candidate = waiting[place]
        if bernoulli_exp(coefficient * gaps[candidate], secret):
            return candidate
        waiting[place] = waiting[-1]  # the best candidate is never rejected, so one stays
        waiting.pop()


def report_noisy_max(scores: Scores, coefficient: Fraction, secret: Randomness) -> int:
    """The largest of scores[r] + Z_r, P(Z_r = z) proportional to exp(-coefficient |z|), exactly.

    Dwork and Roth 2014, with integer noise; ties go to the lowest index.
    """
    gaps = _gaps(scores, coefficient).tolist()
    noisy = [laplace(coefficient, secret) - gap for gap in gaps]
    return max(range(len(noisy)), key=noisy.__getitem__)


def _gaps(scores: Scores, coefficient: Fraction) -> NDArray[np.int64]:
    """The distance of each score from the best; raises if a score is not an exact integer."""
    if not (isinstance(coefficient, Fraction) and coefficient > 0):
        raise ParameterError(f"the coefficient is {coefficient!r}; use a Fraction above 0.")
    whole = np.asarray(scores)
    if not whole.size:
        raise ParameterError("there is no candidate to choose from; the candidate set is public.")
    if whole.dtype.kind not in "iu" and not all(isinstance(score, int) for score in scores):
        raise ParameterError("a score is not an integer; floor scores on a public lattice.")
    best, worst = int(np.maximum.reduce(whole)), int(np.minimum.reduce(whole))
    if max(best, -worst) > _LARGEST_SCORE:
        raise ParameterError("a score is beyond 2^61; use a coarser lattice.")
    return np.asarray(best - whole.astype(np.int64))


def _weight_bounds(
    gaps: NDArray[np.int64], coefficient: Fraction
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Bounds low <= 2^31 exp(-coefficient gap) <= high: one factor per byte of a gap."""
    product = np.full(len(gaps), 1 << _WEIGHT_BITS)
    for place in range(0, int(np.maximum.reduce(gaps)).bit_length(), 8):
        factors = _factors(coefficient, place)
        product = product * factors[gaps >> place & 255] >> _WEIGHT_BITS
    return product, product + _SHORT * (gaps > 0)


@lru_cache(maxsize=256)
def _factors(coefficient: Fraction, place: int) -> NDArray[np.int64]:
    """(256,) 2^31 exp(-coefficient 2^place byte), rounded down, from two halves of the byte."""
    halves = [
        [exp_bounds(coefficient * (half << at), _FACTOR_BITS)[0] for half in range(16)]
        for at in (place + 4, place)
    ]
    drop = 2 * _FACTOR_BITS - _WEIGHT_BITS
    return np.array([high * low >> drop for high in halves[0] for low in halves[1]], np.int64)
