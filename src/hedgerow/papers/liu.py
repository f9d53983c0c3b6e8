"""Liu et al. 2020: Federated Extra-Trees, for classes and, without labels told at random, a number.

The defaults are the paper's: 20 trees of depth 20. Cuts are drawn between the public bounds of a
feature, never between a client's own extremes, which would tell them; `spare` tests make up for it.
"""

from __future__ import annotations

from typing import Any

from hedgerow.methods.extra_trees import ExtraTreesClassifier, ExtraTreesRegressor
from hedgerow.papers.presets import of_task, preset

_USUAL = {"n_trees": 20, "max_depth": 20}
_LOOKING = {"split": "best"}


def fet(schema: Any = None, **given: Any) -> ExtraTreesClassifier | ExtraTreesRegressor:
    """FET: exact sums over all clients, no promise; a number where the schema has a target."""
    kind = of_task(schema, ExtraTreesClassifier, ExtraTreesRegressor)
    return preset(
        "FET", kind, {**_LOOKING, "placement": "nowhere"}, _USUAL, {"schema": schema, **given}
    )


def fet_ldp(schema: Any = None, epsilon: float = 1.0, **given: Any) -> ExtraTreesClassifier:
    """FET-LDP: labels told once and for all as noisy bits of a Bloom filter; features are open."""
    makes = {**_LOOKING, "placement": "label"}
    usual = {**_USUAL, "label_mechanism": "bloom"}
    typed = {"schema": schema, "epsilon": epsilon, **given}
    return preset("FET-LDP", ExtraTreesClassifier, makes, usual, typed)


def fet_gdp(schema: Any = None, epsilon: float = 1.0, **given: Any) -> ExtraTreesClassifier:
    """FET-GDP: every client adds Laplace noise to each of its sums, and all of them are counted."""
    makes = {**_LOOKING, "placement": "silo"}
    usual = {**_USUAL, "delta": 0.0, "lean": False}
    typed = {"schema": schema, "epsilon": epsilon, **given}
    return preset("FET-GDP", ExtraTreesClassifier, makes, usual, typed)
