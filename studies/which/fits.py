"""What gradient boosting without privacy reaches on the same splits."""

from __future__ import annotations

import numpy as np

from studies.boosted.fits import TEST_PART, loaded, measures


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
