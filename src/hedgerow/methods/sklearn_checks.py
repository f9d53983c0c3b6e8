"""Which of scikit-learn's checks an estimator may fail, and why.

`check_estimator(model, expected_failed_checks=expected_failed_checks(model))`; docs/checks.md says
which did.
"""

from __future__ import annotations

from hedgerow.methods.base import PrivateEstimator
from hedgerow.privacy.accounting.budget import Placement

NOISE = "compares the predictions of two fits, and noise is drawn anew for each"
COMPARING = (
    "check_classifier_data_not_an_array",
    "check_fit_idempotent",
    "check_pipeline_consistency",
    "check_regressor_data_not_an_array",
    "check_regressors_int",
    "check_supervised_y_2d",
)


def expected_failed_checks(estimator: PrivateEstimator) -> dict[str, str]:
    """By the name of the check: the reason. Without noise none is for noise."""
    is_noisy = estimator.placement != Placement.NOWHERE.name.lower()
    return dict.fromkeys(COMPARING, NOISE) if is_noisy else {}
