"""The experiments of Consul and Williamson 2020: Tables 1 and 2, Figures 1 to 4, 7 and 8."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path

import numpy as np

from hedgerow.party import reading
from hedgerow.reproduce.datasets import FOLDER_VARIABLE, folder
from hedgerow.reproduce.diprime_data import CLASSIFICATION, REGRESSION, halves
from hedgerow.reproduce.diprime_methods import (
    RECIPES,
    SKLEARN,
    Setting,
    fit_and_score,
    leaf_parts,
    left_parts,
    train,
)
from hedgerow.reproduce.diprime_page import write
from hedgerow.reproduce.harness import Cell, run_grid

SEEDS = {"banknote": 10, "wall_robot": 2}
"""Splits of the small sets: banknote tests on 138 rows. One of every other set."""
TREES, K, RHO = 10, 5, 0.5
EPSILON = {True: 10.0, False: 2.0}
"""The paper's, for regression and for classification."""
CURVES = ("DP-ERT", "DiPriMe", "DiPriMeExp, paid", "DiPriMeFlip, paid", "ours")
SMALL = ("parkinsons", "banknote", "wall_robot")
"""Where a deep median forest on all rows, without noise, is made in a moment."""


def run(out: Path, data: Path | None, quick: bool, workers: int | None) -> None:
    os.environ[FOLDER_VARIABLE] = str(folder(str(data) if data else None))
    tables = {
        name: run_grid(f"diprime: {name}", fit, grid, out / f"{name}.csv", workers)
        for name, grid in grids(quick).items()
    }
    balance = [{"data": name, "method": m} for name, m in product(("wall_robot", "banknote"), PAIR)]
    tables["balance"] = run_grid("diprime: balance", parts, balance, out / "balance.csv", 1)
    write(out, tables, quick)


# --------------------------------------------------------------------------------------- grids
def grids(quick: bool) -> dict[str, list[Cell]]:
    if quick:
        few = ("DP-ERT", "DiPriMe", "ours", "ours, 5 sites")
        return {
            "table1": cells(("parkinsons",), few, range(1)),
            "table2": cells(("banknote", "wall_robot"), few, range(1)),
        }
    every = (*SKLEARN, *RECIPES)
    energy = ("appliances_energy",)
    settings = ("DiPriMeExp, paid", "DiPriMeFlip, paid")
    return {
        "table1": tabled(REGRESSION, every),
        "table2": tabled(CLASSIFICATION, [m for m in every if not m.endswith("sites")]),
        "figure1_epsilon": cells(energy, CURVES, range(1), epsilons=(1.0, 10.0, 100.0)),
        "figure2": cells(("banknote",), CURVES, range(3), epsilons=(0.5, 1.0, 2.0, 5.0, 10.0)),
        "figure1_depth": cells(energy, CURVES[:-1], range(1), depths=(2, 4, 6)),
        "figure1_trees": cells(energy, CURVES[:-1], range(1), trees=(4, 20)),
        "figure7_8_rho": cells(energy, settings, range(1), epsilons=(3.0, 30.0), rhos=(0.25, 0.75)),
        "figure7_8_trees": cells(energy, settings, range(1), trees=(5, 20), ks=(3, 10)),
    }


def tabled(names: Sequence[str], methods: Sequence[str]) -> list[Cell]:
    """Some splits of every set; without noise, the median forest on small ones only."""
    return [
        cell
        for name, method in product(names, methods)
        if method != "Median, no noise" or name in SMALL
        for cell in cells(
            (name,), (method,), range(1 if "no noise" in method else SEEDS.get(name, 1))
        )
    ]


def cells(
    names: Iterable[str],
    methods: Iterable[str],
    seeds: Iterable[int],
    *,
    epsilons: Sequence[float] = (),
    trees: Sequence[int] = (TREES,),
    depths: Sequence[int] = (0,),
    rhos: Sequence[float] = (RHO,),
    ks: Sequence[int] = (K,),
) -> list[Cell]:
    keys = ("seed", "data", "method", "epsilon", "n_trees", "depth", "rho", "k")
    found: list[Cell] = []
    for name in names:
        chosen = epsilons or (EPSILON[name in REGRESSION],)
        found += [
            dict(zip(keys, values, strict=True))
            for values in product(seeds, (name,), methods, chosen, trees, depths, rhos, ks)
        ]
    return found


# ------------------------------------------------------------------------------------ one cell
def fit(
    seed: int,
    data: str,
    method: str,
    epsilon: float,
    n_trees: int,
    depth: int,
    rho: float,
    k: int,
) -> Mapping[str, float]:
    rows = halves(data, seed)
    setting = Setting(data, epsilon, n_trees, depth, Fraction(rho), k)
    start = time.process_time()
    score = fit_and_score(method, setting, rows, seed)
    return {"score": score, "seconds": time.process_time() - start}


PAIR = ("DP-ERT", "DiPriMe", "DiPriMeExp, paid", "ours")
OCCUPANCY_EDGES = (0.0, 0.005, 0.01, 0.02, 0.05, 0.1, 1.0)
LEFT_EDGES = (0.0, 0.05, 0.25, 0.4, 0.6, 0.75, 0.95, 1.0)


def parts(data: str, method: str) -> Mapping[str, float]:
    """How evenly rows fall, on the experimenter's own training rows (Figures 3 and 4)."""
    rows = halves(data, 0)
    setting = Setting(data, EPSILON[False], TREES, 5, Fraction(1, 2), K)
    trained = train(method, RECIPES[method](setting, rows), setting, rows, 0)
    codes = reading.encode_features(rows.X, rows.schema)
    trees = trained.model.score.trees
    leaves = np.concatenate([leaf_parts(tree, codes) for tree in trees])
    left = np.concatenate([left_parts(tree, codes) for tree in trees])
    return {
        "leaves": float(len(leaves)),
        **_histogram("leaf", leaves, OCCUPANCY_EDGES),
        **_histogram("left", left, LEFT_EDGES),
    }


def _histogram(
    name: str, values: np.ndarray[tuple[int], np.dtype[np.float64]], edges: Sequence[float]
) -> dict[str, float]:
    counts, _ = np.histogram(values, edges)
    return {f"{name} to {b:g}": c / len(values) for b, c in zip(edges[1:], counts, strict=True)}
