"""The default classifier without its stage of surfaces, and boosting without privacy."""

from __future__ import annotations

import math
from unittest.mock import patch

import numpy as np

from hedgerow.methods import boosting_classes
from studies.boosted.fits import TEST_PART, loaded, measures, work
from studies.boosted.learners import DEFAULT


def fit_stage(
    dataset: str, surfaces: int, epsilon: float, n_sites: int, split: int
) -> dict[str, float]:
    """The default; without surfaces it is the default of before: no signal passes their gate."""
    if surfaces:
        return work(dataset, DEFAULT, epsilon, n_sites, split)
    with patch.object(boosting_classes, "LEAST_FOR_SURFACES", math.inf):
        return work(dataset, DEFAULT, epsilon, n_sites, split)


def fit_lightgbm(dataset: str, split: int) -> dict[str, float]:
    """No privacy: LightGBM's defaults, categories as categories, on the rows of a fresh split."""
    import lightgbm
    from sklearn.model_selection import train_test_split

    known = loaded(dataset)
    X = known.X.apply(lambda c: c if c.dtype.kind in "if" else c.astype("category"))
    hit = (known.y == (known.schema.classes or ())[1]).astype(float)
    train, test = train_test_split(
        np.arange(len(hit)), test_size=TEST_PART, random_state=split, stratify=known.y
    )
    model = lightgbm.LGBMClassifier(n_jobs=1, random_state=split, verbose=-1)
    model.fit(X.iloc[train], hit[train])
    return measures(hit[test], np.asarray(model.predict_proba(X.iloc[test]))[:, 1])
