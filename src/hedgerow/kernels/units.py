"""From what records contribute, in real numbers, to integers that keep a declared bound.

A sum is as private as its noise, and the noise is made for the bound that a statistic declares.
So the bound is enforced: a record whose integers exceed it, in any of three norms, adds
nothing. That depends on the record's own numbers alone, and honest ones are never touched, since
truncation toward zero makes no norm larger.

Shapes: n records, C channels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import ParameterError
from hedgerow.kernels.dispatch import Kernel, as_input, helper
from hedgerow.models.sensitivity import Sensitivity
from hedgerow.schema.arrays import FloatArray, IntArray

CHECKED = 512  # records at a time, so that they stay in the cache between truncation and check
LARGEST_UNITS = 2.0**62  # truncated numbers are cut here; no bound allows nearly as much
LARGEST_NORM = 2**52  # of a norm: below, sums in floating point are exact


def bounded_units(values: FloatArray, unit: int, bound: Sensitivity) -> IntArray:
    """(n, C) integers in units of 1 / `unit`: quantized, then zeroed beyond the bound."""
    if max(bound.l1, bound.l2_squared, values.shape[1] * bound.linf**2) > LARGEST_NORM:
        raise ParameterError(
            f"{bound} is too large for {values.shape[1]} channels; lower the unit."
        )
    out = np.empty(values.shape, np.int64)
    norms = float(bound.l1), float(bound.l2_squared), float(bound.linf)
    BOUNDED_UNITS.run(as_input(values, np.float64), float(unit), *norms, out)
    return out


def quantize(values: FloatArray, unit: float) -> IntArray:
    """Every number truncated toward zero; one that is not finite counts as 0."""
    with np.errstate(all="ignore"):
        multiples = values * unit
    finite = np.where(np.isfinite(multiples), multiples, 0.0)
    return np.clip(finite, -LARGEST_UNITS, LARGEST_UNITS).astype(np.int64)


def zero_exceeding(contributions: IntArray, bound: Sensitivity) -> IntArray:
    """The same integers, with zeros for every record that exceeds the bound."""
    return np.where(_keeps(contributions, bound)[:, None], contributions, 0)


def _keeps(contributions: IntArray, bound: Sensitivity) -> NDArray[np.bool_]:
    """(n,) whether a record keeps the bound; too large numbers are left out of the sums."""
    keeps = np.ones(len(contributions), np.bool_)
    l1, l2_squared = np.zeros((2, len(contributions)), np.int64)
    for channel in contributions.T:
        is_small = (-bound.linf <= channel) & (channel <= bound.linf)
        size = np.abs(np.where(is_small, channel, 0))
        keeps &= is_small
        l1 += size
        l2_squared += size * size
    return keeps & (l1 <= bound.l1) & (l2_squared <= bound.l2_squared)


def _bounded_units_plain(
    values: FloatArray, unit: float, l1: float, l2_squared: float, linf: float, out: IntArray
) -> None:
    bound = Sensitivity(int(l1), int(l2_squared), int(linf))
    out[:] = zero_exceeding(quantize(values, unit), bound)


def _bounded_units_loop(
    values: FloatArray, unit: float, l1: float, l2_squared: float, linf: float, out: IntArray
) -> None:
    channels = out.shape[1]
    sizes = np.empty(CHECKED * channels)
    for lo in range(0, len(out), CHECKED):
        rows = out[lo : lo + CHECKED]
        mine = sizes[: rows.size]
        _truncate(values[lo : lo + CHECKED].ravel(), unit, mine, rows.ravel())
        if _n_beyond(mine, channels, l1, l2_squared, linf) == 0:
            continue
        for i in range(len(rows)):
            record = mine[i * channels : (i + 1) * channels]
            if _n_beyond(record, channels, l1, l2_squared, linf):
                rows[i] = 0


@helper
def _truncate(values: FloatArray, unit: float, sizes: FloatArray, out: IntArray) -> None:
    for k in range(values.size):
        multiple = np.trunc(values[k] * unit)
        multiple = multiple if abs(multiple) < np.inf else 0.0  # not a number is not less either
        sizes[k] = abs(multiple)
        out[k] = np.int64(multiple)


@helper
def _n_beyond(sizes: FloatArray, channels: int, l1: float, l2_squared: float, linf: float) -> int:
    """How many records exceed the bound. Most losses have two channels: those go side by side."""
    n = 0
    if channels == 2:
        for i in range(sizes.size // 2):
            a, b = sizes[2 * i], sizes[2 * i + 1]
            n += (a + b > l1) | (a * a + b * b > l2_squared) | (a > linf) | (b > linf)
        return n
    for lo in range(0, sizes.size, channels):
        total, squares, largest = 0.0, 0.0, 0.0
        for c in range(lo, lo + channels):
            total += sizes[c]
            squares += sizes[c] * sizes[c]
            largest = max(largest, sizes[c])
        n += (total > l1) | (squares > l2_squared) | (largest > linf)
    return n


BOUNDED_UNITS = Kernel(_bounded_units_loop, _bounded_units_plain, effort=6)
