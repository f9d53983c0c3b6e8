"""Who holds which rows of a fit, and each holder's own secret."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from hedgerow.errors import DataError
from hedgerow.site.rows import Draws


def split_by_party(X: Any, y: Any, party: Any) -> list[tuple[Any, Any]]:
    """Rows of each holder, holders in sorted order."""
    if party is None:
        return [(X, y)]
    who = np.asarray(party)
    if len(who) != len(y):
        raise DataError(f"party names {len(who)} rows, y has {len(y)}; give one party per row.")
    y = np.asarray(y)
    parts = []
    for name in np.unique(who):
        index = np.flatnonzero(who == name)
        parts.append((X.iloc[index] if hasattr(X, "iloc") else np.asarray(X)[index], y[index]))
    return parts


def secret_draws(study: str, holders: int) -> list[Draws]:
    """One secret per holder, never shared.

    A draw is a function of the secret and the record's content: with one secret for two holders
    their equal records would tell the truth together, lie together and fall in one fold.
    """
    return [Draws(os.urandom(32), study) for _ in range(holders)]


def public_draws(study: str, holders: int, rng: np.random.Generator) -> list[Draws]:
    """Where nothing is protected: folds that repeat with the generator, each holder's its own.

    The generator's own stream stays where it is, so that one holder and several grow one tree.
    """
    return [Draws(child.bytes(32), study) for child in rng.spawn(holders)]
