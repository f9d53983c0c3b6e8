"""`python -m studies arena`: private learners against each other on 28 public sets."""

from __future__ import annotations

import math
from functools import lru_cache, partial
from itertools import product
from typing import Any

import numpy as np

import hedgerow as hr
from hedgerow.schema.schema import MAX_VALUES, Hashed
from studies.arena_peers import (
    BUNDLED,
    DELTA,
    KIND,
    PEERS,
    SETS,
    Numbers,
    Rows,
    Table,
    is_installed,
    measured,
    peer,
)
from studies.datasets import declared, whole
from studies.harness import Cell, Computation, Grid

OURS = ("BoostedTrees", "Forest", "Tree", "ExtraTrees")
PLAIN = ("LightGBM", "HistGB")
EPSILONS = (1.0, 8.0, 0.1, 3.0, 0.5)
FIRST_SPLIT, N_SITES = 1100, 5


def ours(split: int, epsilon: float, dataset: str, player: str, n_sites: int) -> dict[str, float]:
    """A cell of an estimator of ours, with its defaults."""
    return measured(partial(_fitted, player, n_sites), dataset, split, epsilon)


def _fitted(
    name: str, n_sites: int, one: Table, train: Rows, test: Rows, epsilon: float, seed: int
) -> Numbers:
    kind: Any = getattr(hr, f"{name}{'Classifier' if one.classes else 'Regressor'}")
    model = kind(schema_of(one), epsilon, DELTA, random_state=seed)
    y = np.array(one.classes, object)[one.y[train]] if one.classes else one.y[train]
    sites = {} if n_sites == 1 else {"site": np.arange(len(y)) % n_sites, "sites": range(n_sites)}
    model.fit(one.X.iloc[train], y, **sites)
    X = one.X.iloc[test]
    return np.asarray(model.predict_proba(X) if one.classes else model.predict(X), np.float64)


@lru_cache(maxsize=2)
def schema_of(one: Table) -> hr.Schema:
    """Ranges and categories of the whole file; texts of too many values are hashed."""
    features = [
        Hashed(str(name))
        if one.X[name].dtype.kind not in "iufb" and one.X[name].nunique() > MAX_VALUES
        else whole(declared(one.X[name]), one.X[name])
        for name in one.X
    ]
    target = None if one.classes else hr.Target(0.0, 1.0)
    return hr.Schema(tuple(features), classes=one.classes or None, target=target)


def files(quick: bool) -> tuple[str, ...]:
    return () if quick else tuple(sorted(set(KIND) - {*BUNDLED}))


def run(computation: Computation, splits: int, quick: bool) -> None:
    computation.tables(grids(splits, quick, computation.page_only))


def grids(splits: int, quick: bool, is_page: bool) -> dict[str, Grid]:
    """A table for each player: peers may need an environment of their own."""
    sets = {kind: names[-1:] if quick else names for kind, names in SETS.items()}
    if quick:
        sets = {
            "two classes": ("breast_cancer",),
            "more classes": ("wine",),
            "numbers": ("diabetes",),
        }
    seeds = range(FIRST_SPLIT, FIRST_SPLIT + splits)
    epsilons = EPSILONS[:1] if quick else EPSILONS
    names = tuple(name for kind in sets.values() for name in kind)
    own = cells(seeds, epsilons, names, OURS)
    grids: dict[str, Grid] = {
        "one_site": (ours, [{**cell, "n_sites": 1} for cell in own]),
        "five_sites": (ours, [{**cell, "n_sites": N_SITES} for cell in own]),
    }
    for name, (_, _, kinds) in PEERS.items():
        if is_page or is_installed(name):
            able = tuple(n for n in names if KIND[n] in kinds)
            asked = cells(seeds, (math.inf,) if name in PLAIN else epsilons, able, (name,))
            grids[table_of(name)] = (peer, asked)
    return grids


def table_of(peer: str) -> str:
    return peer.lower().replace(" + ", "_").replace(" ", "_").replace("-", "_")


def cells(
    seeds: range, epsilons: tuple[float, ...], names: tuple[str, ...], players: tuple[str, ...]
) -> list[Cell]:
    """Split by split and epsilon by epsilon, so that a run cut short has whole tables."""
    keys = ("split", "epsilon", "dataset", "player")
    return [dict(zip(keys, c, strict=True)) for c in product(seeds, epsilons, names, players)]
