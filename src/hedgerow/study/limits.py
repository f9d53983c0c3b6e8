"""What one bundle may hold: numbers that sites, the coordinator and recipes go by."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from hedgerow.queries import BoundQuery, Query, SumQuery

MOST_QUERIES = 4096
MOST_INTEGERS = 1 << 26
"""Of the answer."""
MOST_BYTES = 1 << 26
"""Of questions and definitions."""
MOST_CANDIDATES = 1 << 20
"""Of one private choice."""


def length_of(bundle: Sequence[Query]) -> int:
    """Integers that leave each site."""
    return sum(prod(q.shape) for q in bundle if isinstance(q, SumQuery | BoundQuery))
