"""The methods that the DP-TopDown page compares: the paper's by name, and with our repairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

from hedgerow.methods import wang
from hedgerow.methods.method import Method
from hedgerow.methods.wang import TopDown, TopDownTreeClassifier
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.schema.schema import Schema

PARTIES = 4
DELTA = 1e-6  # of the one line with Gaussian noise
MAX_SPLITS = 512


class Sized(NamedTuple):
    """What a cell says of a tree: who sees which columns, and how the budget is divided."""

    schema: Schema
    budget: str
    leaf_fraction: Fraction
    rows_at_most: int


@dataclass(frozen=True)
class FigureLine:
    """A line of a figure: a method, how many sites hold the rows, and where noise is added."""

    learner: Callable[[Sized], Method]
    n_sites: int
    dp_model: DPModel
    delta: float = 0.0

    def without_noise(self) -> FigureLine:
        return replace(self, dp_model=DPModel.NONE)


def _repaired(**options: Any) -> Callable[[Sized], Method]:
    """With the repairs that the estimator has by default."""

    def made(size: Sized) -> Method:
        return TopDown(
            **{"criterion": "entropy", "budget": size.budget, **options},
            max_splits=MAX_SPLITS,
            leaf_fraction=float(size.leaf_fraction),
            rows_at_most=size.rows_at_most,
        )

    return made


def _printed(line: Callable[..., TopDownTreeClassifier], *, chooses: bool) -> Callable[..., Method]:
    """As `hedgerow.papers` has it, on the schema's own thresholds."""

    def made(size: Sized) -> Method:
        guess = {"rows_at_most": size.rows_at_most} if chooses else {}
        model = line(
            size.schema,
            max_splits=MAX_SPLITS,
            budget=size.budget,
            leaf_fraction=float(size.leaf_fraction),
            n_bins=None,
            **guess,
        )
        return model._method(size.schema)

    return made


_tables = _repaired(split="noisy_counts")
_plain_tables = _repaired(split="noisy_counts", consistency=False)
_tables_of_splits = _repaired(split="noisy_counts", consistency=False, tables="split")
_local, _single = _repaired(split="local_choice"), _repaired(split="choice")
_single_gini = _repaired(split="choice", criterion="gini")

METHODS: dict[str, FigureLine] = {
    "single machine": FigureLine(_single, 1, DPModel.CENTRAL),
    "single machine, Gini": FigureLine(_single_gini, 1, DPModel.CENTRAL),
    "local choice": FigureLine(_local, PARTIES, DPModel.PER_SITE),
    "noisy counts as written": FigureLine(_tables_of_splits, PARTIES, DPModel.PER_SITE),
    "noisy counts, silo": FigureLine(_plain_tables, PARTIES, DPModel.PER_SITE),
    "noisy counts, shares": FigureLine(_tables, PARTIES, DPModel.DISTRIBUTED),
    "noisy counts, shares, Gaussian": FigureLine(_tables, PARTIES, DPModel.DISTRIBUTED, DELTA),
}
PRINTED: dict[str, FigureLine] = {
    "SingleMachine RNM": FigureLine(
        _printed(wang.single_machine_rnm, chooses=True), 1, DPModel.CENTRAL
    ),
    "LocalRNM": FigureLine(_printed(wang.local_rnm, chooses=True), PARTIES, DPModel.PER_SITE),
    "NoisyCounts": FigureLine(
        _printed(wang.noisy_counts, chooses=False), PARTIES, DPModel.PER_SITE
    ),
}
"""The paper's three under its names, without a repair."""
SLOW = tuple(name for name in METHODS if name != "noisy counts as written")
"""Lines that are drawn again with a budget that falls slowly with the depth."""
BASELINES: dict[str, str] = {
    "without noise": "noisy counts, shares",
    "Gini without noise": "single machine, Gini",
    "local choice without noise": "local choice",
}


def of_name(name: str) -> FigureLine:
    every = METHODS | PRINTED
    return every[BASELINES[name]].without_noise() if name in BASELINES else every[name]
