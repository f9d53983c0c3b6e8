"""Draws per record where nothing is protected, so that they may repeat from run to run."""

from __future__ import annotations

import numpy as np

from hedgerow.site.rows import Draws

PUBLIC = "fit"
"""The name under which public draws are made, whatever the study is called."""


def public_draws(seed: int, place: int) -> Draws:
    """Those of the site at one place of the roster, for placement `nowhere` alone.

    A child of the public seed, each site's its own: the generator that the learner draws from
    stays where it is, so that one holder and several grow one tree.
    """
    child = np.random.SeedSequence(seed, spawn_key=(place,))
    return Draws(np.random.default_rng(child).bytes(32), PUBLIC)
