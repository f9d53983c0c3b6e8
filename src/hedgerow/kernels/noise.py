"""Noise from random words: looks them up in a cumulative table."""

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
    """The definition of `invert`, in NumPy; it does not use the guide."""
    out[:] = np.searchsorted(thresholds, words, side="right")
    is_tie = (out == len(thresholds)) | (thresholds[out - 1] == words) & (out > 0)
    tie_places = np.flatnonzero(is_tie)
    ties[: len(tie_places)] = tie_places
    return len(tie_places)


def invert(
    words: Words, thresholds: Words, guide: Int32, shift: int, out: IntArray, ties: IntArray
) -> int:
    """Looks words up in a cumulative table.

    For every i, out[i] becomes the first k with thresholds[k] > words[i]. The positions of words
    that equal a threshold, or for which there is no such k, go to the front of `ties`, and their
    number is returned; out is not read there. `guide[words[i] >> shift]` is an entry at or before
    the right one, where a loop can start.
    """
    if not len(words) == len(out) == len(ties):
        raise ParameterError(
            f"{len(words)} words for {len(out)} results and {len(ties)} ties; give one each."
        )
    table = as_input(thresholds, np.uint64), as_input(guide, np.int32)
    return int(INVERT.run(as_input(words, np.uint64), *table, shift, out, ties))


INVERT = Kernel("invert", search, "QQiWqq")
