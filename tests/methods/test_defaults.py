"""Estimators at their defaults run, and learn where nothing hides the signal."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.utils.estimator_checks import check_regressors_train

import hedgerow as hr
from methods.test_scikit_learn_users import FEATURES, NUMBERS, ROWS


@pytest.mark.parametrize("columns", [1, 3, 12])
def test_extra_trees_of_a_number_run_at_their_defaults_on_three_sites_with_pure_epsilon(columns):
    rng = np.random.default_rng(1)
    X = rng.random((60, columns))
    schema = hr.Schema({f"x{k}": (0, 1) for k in range(columns)}, target=(0, 1))
    model = hr.ExtraTreesRegressor(schema, delta=0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hr.QualityWarning)
        model.fit(X, X[:, 0], party=np.arange(60) % 3, parties=range(3))
    assert model.privacy_.epsilon <= 1.0
    assert len(model.model_.score.trees) == 5


def test_extra_trees_without_noise_are_the_papers():
    schema = hr.Schema(FEATURES, target=(0, 110))
    model = hr.ExtraTreesRegressor(schema, placement="nowhere").fit(ROWS, NUMBERS)
    assert len(model.model_.score.trees) == 20
    assert model.score(ROWS, NUMBERS) > 0.95


@pytest.mark.parametrize("options", [{"epsilon": 1e6}, {"placement": "nowhere"}], ids=str)
def test_a_median_forest_of_a_number_learns_at_its_defaults(options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check_regressors_train("MedianForestRegressor", hr.MedianForestRegressor(**options))
