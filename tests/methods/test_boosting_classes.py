"""Bounds that only boosting uses, with negative controls that break them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.kernels.units import quantize
from hedgerow.models.losses import FirstOrder, LogLoss, PlainLogLoss, SoftmaxLoss
from hedgerow.models.model import Additive
from hedgerow.privacy.queries import LATTICE, Gradients, Hessians

pytestmark = pytest.mark.property

GOLDEN = (1 + np.sqrt(5)) / 2


def test_a_hessian_scale_above_the_golden_bound_breaks_the_norm():
    """Twin of 3.33: the bound is golden ** 2.5 = 3.3302, reached at p = 1 / golden ** 2."""
    p = 1 / GOLDEN**2
    g, h = p - 1.0, p * (1.0 - p)
    assert g**2 + (3.34 * h) ** 2 > 1.0
    assert np.isclose(g**2 + (GOLDEN**2.5 * h) ** 2, 1.0)
    assert g**2 + (3.33 * h) ** 2 <= 1.0


@pytest.mark.parametrize(
    "loss", [FirstOrder(LogLoss()), FirstOrder(SoftmaxLoss(3)), PlainLogLoss()], ids=str
)
@given(z=st.lists(st.floats(-40, 40), min_size=3, max_size=3), y=st.integers(0, 2))
def test_gradients_with_a_count_or_a_plain_hessian_keep_their_norms(loss, z, y):
    raw = np.array([z[: loss.outputs]])
    label = np.array([float(min(y, max(loss.outputs - 1, 1)))])
    statistic = Gradients(loss, Additive((0.0,) * loss.outputs))
    units = quantize(loss.contributions(raw, label), LATTICE)[0].astype(object)
    assert sum(u * u for u in units) <= statistic.bound(LATTICE).l2_squared
    assert sum(abs(u) for u in units) <= statistic.bound(LATTICE).l1


@pytest.mark.parametrize(
    "loss", [LogLoss(), PlainLogLoss(), SoftmaxLoss(3), SoftmaxLoss(5)], ids=str
)
@given(z=st.lists(st.floats(-40, 40), min_size=5, max_size=5))
def test_hessians_alone_keep_their_own_norms(loss, z):
    raw = np.array([z[: loss.outputs]])
    bound = Hessians(loss, Additive((0.0,) * loss.outputs)).bound(LATTICE)
    units = quantize(loss.hessians(raw, np.zeros(1)), LATTICE)[0].astype(object)
    assert sum(u * u for u in units) <= bound.l2_squared
    assert sum(abs(u) for u in units) <= bound.l1


def test_the_binary_hessian_bound_would_not_hold_for_three_classes():
    """Twin: 1/4 reused for softmax."""
    h = SoftmaxLoss(3).hessians(np.zeros((1, 3)), np.zeros(1))
    assert np.square(h).sum() > LogLoss().hessian_norms.l2_squared
