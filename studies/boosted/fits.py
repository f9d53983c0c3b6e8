"""One fit of the study of boosted trees, on integers, with the noise of the real pipeline."""

from __future__ import annotations

import math
import time
import warnings
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import PrivacyWarning
from hedgerow.methods.base import PrivateClassifier
from hedgerow.methods.boosting_classes import BoostedTreesClassifier
from hedgerow.methods.maddock import NAMED, ComponentBoostingClassifier
from hedgerow.privacy.accounting import gaussian
from hedgerow.schema.schema import Schema
from studies import datasets

TEST_PART = 0.3
SHARES_PARTIES = 5
EVERY_RECORD = 0  # as a number of parties: each record is a site and adds noise of its own


def options(learner: str) -> dict[str, Any]:
    """The estimator parameters that a text like `a=1;b=x` spells."""
    pairs = [part.split("=", 1) for part in learner.split(";")]
    return {key: int(value) if value.isdigit() else value for key, value in pairs}


def estimator(schema: Schema, learner: str, **more: Any) -> PrivateClassifier:
    """By `method`: our own, free components, or a method of the paper by its name there."""
    given = {**options(learner), **more}
    method = given.pop("method")
    ours = {"default": BoostedTreesClassifier, "components": ComponentBoostingClassifier}
    return {**NAMED, **ours}[method](schema, **given)


@lru_cache(maxsize=8)
def loaded(dataset: str) -> datasets.Dataset:
    return datasets.load(dataset, datasets.folder(None))


def work(dataset: str, learner: str, epsilon: float, n_sites: int, split: int) -> dict[str, float]:
    """One fit on 70 % of the rows, measured on the rest."""
    from sklearn.model_selection import train_test_split

    known = loaded(dataset)
    train, test = train_test_split(
        np.arange(len(known.y)), test_size=TEST_PART, random_state=split, stratify=known.y
    )
    model = estimator(known.schema, learner, delta=1.0 / len(train), random_state=split).set_params(
        **guarantee(epsilon, n_sites, len(train))
    )
    sites = SHARES_PARTIES if n_sites == EVERY_RECORD else n_sites
    site = None if sites == 1 else np.random.default_rng(split).integers(sites, size=len(train))
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)  # of delta: said once, by `run`
        model.fit(known.X.iloc[train], known.y[train], site=site)
    seconds = time.process_time() - began
    positive = model.predict_proba(known.X.iloc[test])[:, 1]
    hit = known.y[test] == (known.schema.classes or ())[1]
    cost = {
        "seconds": seconds,
        "rounds": float(len(model.run_.rounds)),
        "bytes": float(model.run_.bytes_per_site),
    }
    return {**measures(hit.astype(float), positive), **cost}


def guarantee(epsilon: float, n_sites: int, records: int) -> dict[str, Any]:
    """Epsilon and where noise is added: an epsilon without end is no noise at all.

    If every record adds noise of its own, a few sites stand for all of them: variances of Gaussian
    noise add up, so a site's mu^2 is divided by the number of its records.
    """
    if math.isinf(epsilon):
        return {"dp_model": "none"}
    if n_sites != EVERY_RECORD:
        return {"epsilon": epsilon}
    delta = Fraction(1, records)
    mu_squared = gaussian.mu_squared_within(Fraction(epsilon), delta) * SHARES_PARTIES / records
    return {"epsilon": float(gaussian.epsilon_at(mu_squared, delta)), "dp_model": "per_site"}


def measures(hit: NDArray[np.float64], positive: NDArray[np.float64]) -> dict[str, float]:
    from sklearn.metrics import log_loss, roc_auc_score

    return {
        "auc": float(roc_auc_score(hit, positive)),
        "log_loss": float(log_loss(hit, positive, labels=[0, 1])),
        "accuracy": float(((positive > 0.5) == hit).mean()),
        "calibration_error": calibration_error(hit, positive),
    }


def calibration_error(hit: NDArray[np.float64], positive: NDArray[np.float64]) -> float:
    """Expected calibration error over ten bins of equal width."""
    bins = np.minimum((positive * 10).astype(int), 9)
    gaps = [abs(float((hit - positive)[bins == b].sum())) for b in range(10)]
    return sum(gaps) / len(hit)
