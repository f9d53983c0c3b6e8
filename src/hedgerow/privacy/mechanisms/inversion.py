"""Cumulative tables: 64 random bits decide almost every draw, 192 bits decide the rest.

A uniform word x falls in entry k, the first with thresholds[k] > x, where thresholds[k] is
floor(2^64 P(value <= k)). Only when x equals a threshold, or lies beyond the last one, do more
bits matter: then 128 are added and compared with the 192-bit thresholds, which are computed
again from the law and reach as far into the tail as 192 bits can. So memory holds 8 bytes an
entry, and the total variation is that of 192-bit thresholds. Proofs: docs/proofs/samplers.md, 5.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hedgerow.privacy.mechanisms.laws import LAW_BITS, Law
from hedgerow.privacy.mechanisms.randomness import Randomness
from hedgerow.schema.arrays import Words

WORD_BITS: Final = 64
EXACT_BITS: Final = 192
_LAST_WORD: Final = 2**WORD_BITS - 1
_GUIDE_BITS: Final = (6, 18)
_MORE_GUIDE_BITS: Final = 2  # than entries have: then most words have one threshold to look at


@dataclass(frozen=True, eq=False)
class LawTable:
    """`lowest` is the value of entry 0; `guide[x >> shift]` is the first entry that x can have."""

    law: Law
    lowest: int
    thresholds: Words
    guide: NDArray[np.int32]
    shift: int

    def settle(self, word: int, secret: Randomness) -> int:
        """The value of a draw that begins with `word`, by 128 bits more."""
        more = int.from_bytes(secret.bytes((EXACT_BITS - WORD_BITS) // 8), "little")
        point = word << (EXACT_BITS - WORD_BITS) | more
        lowest, probabilities = self.law.probabilities()
        value = lowest - 1
        for total in accumulate(probabilities):
            value += 1
            if total >> (LAW_BITS - EXACT_BITS) > point:
                break
        return value


@lru_cache(maxsize=64)
def table_of(law: Law) -> LawTable:
    """Built once per law and process; a table holds nothing secret."""
    lowest, probabilities = law.probabilities()
    thresholds: list[int] = []
    for total in accumulate(probabilities):
        thresholds.append(min(total >> (LAW_BITS - WORD_BITS), _LAST_WORD))
        if thresholds[-1] == _LAST_WORD:
            break
    # Of the values below the first 2^-64 one entry stays: it makes the word 0 a tie.
    surplus = max(0, bisect_right(thresholds, 0) - 1)
    return _with_guide(law, lowest + surplus, np.array(thresholds[surplus:], np.uint64))


def _with_guide(law: Law, lowest: int, thresholds: Words) -> LawTable:
    low, high = _GUIDE_BITS
    bits = min(max(len(thresholds).bit_length() + _MORE_GUIDE_BITS, low), high)
    shift = WORD_BITS - bits
    first_words = np.arange(2**bits, dtype=np.uint64) << np.uint64(shift)
    guide = np.searchsorted(thresholds, first_words, side="right").astype(np.int32)
    return LawTable(law, lowest, thresholds, guide, shift)


def total_variation_of(law: Law) -> Fraction:
    """A bound per draw: each 192-bit threshold is less than 2 units below the true one."""
    return Fraction(2 * law.entries(), 2**EXACT_BITS)
