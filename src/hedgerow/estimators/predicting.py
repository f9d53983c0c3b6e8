"""From a user's rows to a model's outputs, by the fast loops; the bits are those of the model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.kernels.trees import add_values
from hedgerow.site.reading import encoding
from hedgerow.values.models import Model
from hedgerow.values.schema import Schema


def outputs(model: Model, X: Any, schema: Schema) -> NDArray[np.float64]:
    """(n, classes) probabilities, or (n, 1) values."""
    codes = encoding.encode_features(X, schema)
    score = model.score
    raw = score.start(codes)
    if score.trees:
        raw = add_values(score.packed, codes, raw, score.clip)
    return model.read(raw)
