"""Array types of all packages."""

from __future__ import annotations

from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

N_CODES = 256
"""A cell code is one byte, so no grid has more cells."""

Codes = NDArray[np.uint8]
"""Cell codes, feature-major (F, n), or one byte per record."""
GroupCodes = NDArray[np.uint8] | NDArray[np.uint16]
"""Cell or leaf numbers of records, one row per group."""
BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
Int16 = NDArray[np.int16]
Int32 = NDArray[np.int32]
IntArray = NDArray[np.int64]
Words = NDArray[np.uint64]
Rng: TypeAlias = "np.random.Generator"
"""Public randomness: feature draws and random cuts, never noise."""

_Array = TypeVar("_Array", bound=NDArray[Any])


def freeze(array: _Array) -> _Array:
    """The same array, read-only."""
    array.flags.writeable = False
    return array


SIGNIFICANT_BITS = 24


def canonical(values: ArrayLike) -> FloatArray:
    """The values rounded to 24 significant bits: the last bits differ between processors.

    Every number that a learner releases is rounded where it is computed, so that a run asks the
    same queries and gives the same model on every machine.
    """
    mantissa, exponent = np.frexp(np.asarray(values, np.float64))
    return np.asarray(
        np.ldexp(np.rint(np.ldexp(mantissa, SIGNIFICANT_BITS)), exponent - SIGNIFICANT_BITS)
    )


def int32(values: ArrayLike, at: IntArray | slice = slice(None)) -> Int32:
    """A read-only array of the values, or of those at these positions."""
    return freeze(np.asarray(values).astype(np.int32)[at])
