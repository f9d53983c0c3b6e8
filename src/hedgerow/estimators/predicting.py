"""From a user's rows to a model's outputs, by the fast loops; the bits are those of the model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow import kernels
from hedgerow.models import Model
from hedgerow.party import reading
from hedgerow.schema import Schema


def outputs(model: Model, X: Any, schema: Schema) -> NDArray[np.float64]:
    """(n, classes) probabilities, or (n, 1) values."""
    codes = reading.encode_features(X, schema)
    score = model.score
    raw = score.start(codes)
    if score.trees:
        raw = kernels.add_values(score.trees, codes, raw, score.clip)
    return model.read(raw)
