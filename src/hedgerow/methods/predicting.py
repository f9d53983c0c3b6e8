"""From a user's rows to a model's outputs by compiled loops; bit for bit those of the model.

Many rows are read column by column. A single row, which a service may send a thousand times a
second, is read value by value, because for one row column handling costs more than all trees. Only
plain values take this path; everything else, including errors, is left to the column reader. Both
give the same codes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.data.reading import encoding
from hedgerow.data.reading.columns import code_of_value, number_of
from hedgerow.data.reading.report import report_of, warn_of
from hedgerow.kernels.threads import blocks, map_parts
from hedgerow.kernels.trees import add_values
from hedgerow.methods.constants import constant
from hedgerow.models.model import Model
from hedgerow.schema.arrays import Codes
from hedgerow.schema.grids import ColumnKind, Grid
from hedgerow.schema.schema import Schema
from hedgerow.schema.tokens import Unusable, token_of

ENOUGH_TO_JUDGE = constant(100, unit="rows below which strange values are chance")

PLAIN_TYPES = frozenset({float, int, bool, str, type(None)})
LISTED_AS_THEY_ARE = "biufOU"
"""NumPy kinds that survive `tolist`; a date in nanoseconds would become a number."""


def outputs(model: Model, X: Any, schema: Schema) -> NDArray[np.float64]:
    """(n, classes) probabilities, or (n, 1) values."""
    codes = one_row(X, schema)
    if codes is None:
        codes = encode_with_warnings(X, schema)
    parts = map_parts(lambda part: score_codes(model, codes[:, part]), blocks(codes.shape[1]))
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def score_codes(model: Model, codes: Codes) -> NDArray[np.float64]:
    score = model.score
    raw = score.start(codes)
    if score.trees:
        raw = add_values(score.packed, codes, raw, score.clip)
    return model.read(raw)


def encode_with_warnings(X: Any, schema: Schema) -> Codes:
    """Encodes rows as `fit` does, and warns of values that the schema does not allow."""
    encoded_rows = encoding.encode(X, schema, check=True)
    if encoded_rows.n >= ENOUGH_TO_JUDGE:
        warn_of(report_of([encoded_rows], schema).complaints)
    return encoded_rows.codes


def one_row(X: Any, schema: Schema) -> Codes | None:
    """(F, 1) codes of a single row of plain values; None if it has to be read by columns."""
    if len(X) != 1:
        return None
    values: list[Any] = []
    if hasattr(X, "iloc"):
        place = {str(name): at for at, name in enumerate(X.columns)}
        if len(place) == len(X.columns) and all(name in place for name in schema.columns):
            row = X.to_numpy(dtype=object)[0].tolist()
            values = [row[place[name]] for name in schema.columns]
    elif isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in LISTED_AS_THEY_ARE:
        values = X[0].tolist()
    if len(values) != len(schema.columns):
        return None
    row = [values[place] for place in schema.sources]
    codes = [_code(grid, value) for grid, value in zip(schema.grids, row, strict=True)]
    return None if None in codes else np.array(codes, np.uint8)[:, None]


def _code(grid: Grid, value: Any) -> int | None:
    """The cell of a plain value; None if it is not plain or the schema refuses it."""
    if type(value) not in PLAIN_TYPES:
        return None
    read_value = grid.read(value)
    if grid.kind is ColumnKind.NUMERIC:
        is_number = type(read_value) in (float, int, bool) or number_of(read_value) is not None
        return code_of_value(value, grid) if is_number else None
    token = token_of(read_value)
    is_read = grid.knows(token) or (grid.other and not isinstance(token, Unusable))
    return grid.category_code(token) if is_read else None
