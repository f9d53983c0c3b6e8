"""The methods that the DP-TopDown page compares: the paper's by name, and with our repairs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, NamedTuple

from hedgerow.methods import wang
from hedgerow.methods.method import Recipe
from hedgerow.methods.wang import TopDown, TopDownTreeClassifier
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.schema.schema import Schema

PARTIES = 4
DELTA = 1e-6  # of the one line with Gaussian noise
MAX_SPLITS = 512


class Sized(NamedTuple):
    """What a cell says of a tree: who sees which columns, and how the budget is divided."""

    schema: Schema
    budget: str
    leaf_share: Fraction
    rows_at_most: int


@dataclass(frozen=True)
class Method:
    """A line of a figure: a recipe, how many hold the rows, and where noise is added."""

    recipe: Callable[[Sized], Recipe]
    parties: int
    placement: Placement
    delta: float = 0.0

    def without_noise(self) -> Method:
        return replace(self, placement=Placement.NOWHERE)


def _repaired(**options: Any) -> Callable[[Sized], Recipe]:
    """With the repairs that the estimator has by default."""

    def made(size: Sized) -> Recipe:
        return TopDown(
            **{"criterion": "entropy", "budget": size.budget, **options},
            max_splits=MAX_SPLITS,
            leaf_share=float(size.leaf_share),
            rows_at_most=size.rows_at_most,
        )

    return made


def _printed(line: Callable[..., TopDownTreeClassifier], *, chooses: bool) -> Callable[..., Recipe]:
    """As `hedgerow.papers` has it, on the schema's own thresholds."""

    def made(size: Sized) -> Recipe:
        guess = {"rows_at_most": size.rows_at_most} if chooses else {}
        model = line(
            size.schema,
            max_splits=MAX_SPLITS,
            budget=size.budget,
            leaf_share=float(size.leaf_share),
            n_bins=None,
            **guess,
        )
        return model._recipe(size.schema)

    return made


_tables = _repaired(split="noisy_counts")
_plain_tables = _repaired(split="noisy_counts", consistency=False)
_tables_of_splits = _repaired(split="noisy_counts", consistency=False, tables="split")
_local, _single = _repaired(split="local_choice"), _repaired(split="choice")
_single_gini = _repaired(split="choice", criterion="gini")

METHODS: dict[str, Method] = {
    "single machine": Method(_single, 1, Placement.CURATOR),
    "single machine, Gini": Method(_single_gini, 1, Placement.CURATOR),
    "local choice": Method(_local, PARTIES, Placement.SILO),
    "noisy counts as written": Method(_tables_of_splits, PARTIES, Placement.SILO),
    "noisy counts, silo": Method(_plain_tables, PARTIES, Placement.SILO),
    "noisy counts, shares": Method(_tables, PARTIES, Placement.SHARES),
    "noisy counts, shares, Gaussian": Method(_tables, PARTIES, Placement.SHARES, DELTA),
}
PRINTED: dict[str, Method] = {
    "SingleMachine RNM": Method(
        _printed(wang.single_machine_rnm, chooses=True), 1, Placement.CURATOR
    ),
    "LocalRNM": Method(_printed(wang.local_rnm, chooses=True), PARTIES, Placement.SILO),
    "NoisyCounts": Method(_printed(wang.noisy_counts, chooses=False), PARTIES, Placement.SILO),
}
"""The paper's three under its names, without a repair."""
SLOW = tuple(name for name in METHODS if name != "noisy counts as written")
"""Lines that are drawn again with a budget that falls slowly with the depth."""
BASELINES: dict[str, str] = {
    "without noise": "noisy counts, shares",
    "Gini without noise": "single machine, Gini",
    "local choice without noise": "local choice",
}


def of_name(name: str) -> Method:
    every = METHODS | PRINTED
    return every[BASELINES[name]].without_noise() if name in BASELINES else every[name]
