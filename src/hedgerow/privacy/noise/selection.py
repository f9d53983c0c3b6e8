"""Private choice: of all that the scores say, only the index of the winner leaves.

Scores are integers (a floor on a public lattice) and candidates are public. For scores that one
record moves by amounts within [low, high], the range is high - low, and a coefficient
epsilon / range makes each mechanism here epsilon-DP. Proofs: docs/proofs/samplers.md, section 7.

| mechanism        | why                                                                          |
|------------------|------------------------------------------------------------------------------|
| permute_and_flip | never worse than the exponential mechanism; for pure epsilon                 |
| exponential      | epsilon^2 / 8 of zCDP; permute_and_flip costs more there                     |
| report_noisy_max | as papers print it; never better than permute_and_flip                       |
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from operator import index
from typing import Final

from hedgerow.errors import SpecError
from hedgerow.privacy.noise.coins import bernoulli_exp, falls_below_exp, laplace
from hedgerow.privacy.noise.fixed_point import exp_bounds
from hedgerow.privacy.noise.randomness import Randomness, uniform_below

_WEIGHT_BITS: Final = 64
_PRODUCT_BITS: Final = 128
_PRODUCT_ERROR: Final = 1 << 16  # a product of eight factors loses far less than this
_LARGEST_SCORE: Final = 2**61


def exponential(scores: Sequence[int], coefficient: Fraction, secret: Randomness) -> int:
    """Index r with probability proportional to exp(coefficient * scores[r]), exactly.

    McSherry and Talwar 2007. Each candidate owns `high` of the integers below the sum, where
    low <= 2^64 weight <= high. A uniform integer names a candidate; it stands if it is among
    the first `low`, else a lazily refined coin decides, and a lost coin starts over.
    """
    gaps = _gaps(scores, coefficient)
    factors = _factors(coefficient)
    bounds = [_weight_bounds(gap, factors) for gap in gaps]
    ends = list(accumulate(high for _, high in bounds))
    while True:
        point = uniform_below(ends[-1], secret)
        chosen = bisect_right(ends, point)
        low, high = bounds[chosen]
        offset = point - (ends[chosen] - high)
        if offset < low or falls_below_exp(
            offset, _WEIGHT_BITS, coefficient * gaps[chosen], secret
        ):
            return chosen


def permute_and_flip(scores: Sequence[int], coefficient: Fraction, secret: Randomness) -> int:
    """McKenna and Sheldon 2020, Algorithm 1: in random order, keep r with exp(-coefficient gap)."""
    gaps = _gaps(scores, coefficient)
    waiting = list(range(len(gaps)))
    while True:
        place = uniform_below(len(waiting), secret)
        candidate = waiting[place]
        if bernoulli_exp(coefficient * gaps[candidate], secret):
            return candidate
        waiting[place] = waiting[-1]  # a best candidate is never turned down, so one stays
        waiting.pop()


def report_noisy_max(scores: Sequence[int], coefficient: Fraction, secret: Randomness) -> int:
    """The largest of scores[r] + Z_r, P(Z_r = z) proportional to exp(-coefficient |z|), exactly.

    Dwork and Roth 2014, with integer noise; among equals the lowest index wins.
    """
    gaps = _gaps(scores, coefficient)
    noisy = [laplace(coefficient, secret) - gap for gap in gaps]
    return max(range(len(noisy)), key=noisy.__getitem__)


def _gaps(scores: Sequence[int], coefficient: Fraction) -> list[int]:
    """How far each score lies below the best; refuses anything that is not exact."""
    if not (isinstance(coefficient, Fraction) and coefficient > 0):
        raise SpecError(f"the coefficient is {coefficient!r}; use a Fraction above 0.")
    try:
        whole = [index(score) for score in scores]
    except TypeError:
        raise SpecError("a score is not an integer; floor scores on a public lattice.") from None
    if not whole:
        raise SpecError("there is no candidate to choose from; the candidate set is public.")
    if max(map(abs, whole)) > _LARGEST_SCORE:
        raise SpecError("a score is beyond 2^61; use a coarser lattice.")
    best = max(whole)
    return [best - score for score in whole]


def _weight_bounds(gap: int, factors: _Factors) -> tuple[int, int]:
    """Bounds low <= 2^64 exp(-coefficient gap) <= high: one factor per byte of gap."""
    if gap == 0:
        return 1 << _WEIGHT_BITS, 1 << _WEIGHT_BITS
    product = 1 << _PRODUCT_BITS
    for place in range((gap.bit_length() - 1) & ~7, -8, -8):
        part = gap >> place << place  # the largest first: it is the one that may reach 0
        if part:
            product = product * factors[part] >> _PRODUCT_BITS
            if not product:
                break
            gap -= part
    drop = _PRODUCT_BITS - _WEIGHT_BITS
    return product >> drop, (product + _PRODUCT_ERROR >> drop) + 1


class _Factors(dict[int, int]):
    """2^128 exp(-coefficient part), rounded down, for gaps of one byte that is not zero."""

    def __init__(self, coefficient: Fraction) -> None:
        super().__init__()
        self._coefficient = coefficient

    def __missing__(self, part: int) -> int:
        """Found when first met: at most 255 for each place of a byte."""
        found = self[part] = exp_bounds(self._coefficient * part, _PRODUCT_BITS)[0]
        return found


@lru_cache(maxsize=64)
def _factors(coefficient: Fraction) -> _Factors:
    return _Factors(coefficient)
