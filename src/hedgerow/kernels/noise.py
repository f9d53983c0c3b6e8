"""Noise from random words: the loop that looks them up in a cumulative table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import ParameterError
from hedgerow.kernels.dispatch import Kernel, as_input
from hedgerow.schema.arrays import Int32, IntArray, Words


def search(
    words: Words,
    thresholds: Words,
    guide: NDArray[np.int32],
    shift: int,
    out: IntArray,
    ties: IntArray,
) -> int:
    """The definition of `Invert`, in NumPy; it does not use the guide."""
    out[:] = np.searchsorted(thresholds, words, side="right")
    is_tie = (out == len(thresholds)) | (thresholds[out - 1] == words) & (out > 0)
    tie_places = np.flatnonzero(is_tie)
    ties[: len(tie_places)] = tie_places
    return len(tie_places)


def invert(
    words: Words, thresholds: Words, guide: Int32, shift: int, out: IntArray, ties: IntArray
) -> int:
    """Looks words up in a cumulative table, as `privacy.mechanisms.sampling.Invert` says."""
    if not len(words) == len(out) == len(ties):
        raise ParameterError(
            f"{len(words)} words for {len(out)} results and {len(ties)} ties; give one each."
        )
    table = as_input(thresholds, np.uint64), as_input(guide, np.int32)
    return int(INVERT.run(as_input(words, np.uint64), *table, np.uint64(shift), out, ties))


def _invert_loop(
    words: Words, thresholds: Words, guide: Int32, shift: np.uint64, out: IntArray, ties: IntArray
) -> int:
    """One step is taken without a branch: most words have one threshold to compare with."""
    n_ties = 0
    last = np.uint64(thresholds.size)
    for i in range(words.size):
        word = words[i]
        k = np.uint64(guide[word >> shift])
        if k < last:
            k += np.uint64(thresholds[k] <= word)
            while k < last and thresholds[k] <= word:
                k += np.uint64(1)
        out[i] = k
        if k == last or (k > 0 and thresholds[k - np.uint64(1)] == word):
            ties[n_ties] = i
            n_ties += 1
    return n_ties


INVERT = Kernel(_invert_loop, search)
