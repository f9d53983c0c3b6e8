"""Converts the real-valued contributions of records to integers within a declared bound.

Noise is sized for the bound that a statistic declares, so the bound is enforced: a record whose
integers exceed it, in any of three norms, adds nothing. That depends on the record's own numbers
alone, and never affects honest ones, since truncation toward zero increases no norm.

Shapes: n records, C channels.
"""

from __future__ import annotations

import numpy as np

from hedgerow.errors import ParameterError
from hedgerow.kernels.dispatch import Kernel, as_input
from hedgerow.models.losses import LogLoss, Loss, PlainLogLoss, Sensitivity, SquaredLoss
from hedgerow.schema.arrays import FloatArray, IntArray

LARGEST_UNITS = 2.0**62  # truncated numbers are clipped here; every bound is far smaller
LARGEST_NORM = 2**52  # below, sums of squares in floating point are exact


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


def numbers_of(loss: Loss) -> FloatArray | None:
    """The numbers by which loops know a loss of one score; None for other losses."""
    if type(loss) in (LogLoss, PlainLogLoss):
        return np.array([loss.hessian_scale, 0.0, 0.0, 0.0])
    if type(loss) is SquaredLoss:
        return np.array([loss.weight, loss.low, loss.high, loss.clip])
    return None


def loss_contributions(loss: Loss, raw: FloatArray, y: FloatArray) -> FloatArray:
    """(n, C) `loss.contributions`, compiled where there is a loop."""
    numbers, out = numbers_of(loss), np.empty((len(y), 2))
    inputs = as_input(raw, np.float64), as_input(y, np.float64)
    is_done = numbers is not None and LOSS_CONTRIBUTIONS.run(numbers, *inputs, out)
    return out if is_done else loss.contributions(raw, y)


def quantize(values: FloatArray, unit: float) -> IntArray:
    """Truncates every number toward zero; one that is not finite counts as 0."""
    with np.errstate(all="ignore"):
        multiples = values * unit
    finite = np.where(np.isfinite(multiples), multiples, 0.0)
    return np.clip(finite, -LARGEST_UNITS, LARGEST_UNITS).astype(np.int64)


def zero_exceeding(contributions: IntArray, bound: Sensitivity) -> IntArray:
    """The same integers, with zeros for every record that exceeds the bound.

    Entries above `linf` are left out of the sums, which they could overflow.
    """
    keeps = np.ones(len(contributions), np.bool_)
    l1, l2_squared = np.zeros((2, len(contributions)), np.int64)
    for channel in contributions.T:
        is_small = (-bound.linf <= channel) & (channel <= bound.linf)
        size = np.abs(np.where(is_small, channel, 0))
        keeps &= is_small
        l1 += size
        l2_squared += size * size
    keeps &= (l1 <= bound.l1) & (l2_squared <= bound.l2_squared)
    return np.where(keeps[:, None], contributions, 0)


def _bounded_units_plain(
    values: FloatArray, unit: float, l1: float, l2_squared: float, linf: float, out: IntArray
) -> None:
    bound = Sensitivity(int(l1), int(l2_squared), int(linf))
    out[:] = zero_exceeding(quantize(values, unit), bound)


BOUNDED_UNITS = Kernel("bounded_units", _bounded_units_plain, "dNNNNq")
LOSS_CONTRIBUTIONS = Kernel("loss_contributions", None, "dddd")
