"""Measures of probabilities, against cases that can be done by hand."""

from __future__ import annotations

import numpy as np
import pytest

from hedgerow.schema.schema import Numeric, Schema
from studies.measures import auc, calibration_error, of_classes

SCHEMA = Schema((Numeric("x", 0.0, 1.0),), classes=("no", "yes"))


def test_auc_counts_pairs_and_half_of_the_ties():
    assert auc(np.array([0.1, 0.4, 0.4, 0.8]), np.array([0, 0, 1, 1])) == pytest.approx(0.875)
    assert np.isnan(auc(np.array([0.1, 0.2]), np.array([1, 1])))


def test_a_forecast_that_is_right_as_often_as_it_says_is_calibrated():
    p = np.tile([0.75, 0.25], (4, 1))
    assert calibration_error(p, np.array([0, 0, 0, 1])) == pytest.approx(0.0)
    assert calibration_error(p, np.array([1, 1, 1, 1])) == pytest.approx(0.75)


def test_log_loss_is_finite_where_a_probability_is_zero():
    found = of_classes(np.array([[1.0, 0.0]]), np.array(["yes"], dtype=object), SCHEMA)
    assert found["accuracy"] == 0.0
    assert found["log_loss"] == pytest.approx(-np.log(1e-6), abs=1e-3)
