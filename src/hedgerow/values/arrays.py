"""The array types that all rooms speak of, each spelled once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

N_CODES = 256
"""A cell code is one byte, so no grid has more cells."""

Codes = NDArray[np.uint8]
"""Cell codes, feature-major (F, n), or one byte of something for each record."""
GroupCodes = NDArray[np.uint8] | NDArray[np.uint16]
"""Cell or leaf numbers of records, one row a group."""
BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]
Int16 = NDArray[np.int16]
Int32 = NDArray[np.int32]
IntArray = NDArray[np.int64]
Words = NDArray[np.uint64]
