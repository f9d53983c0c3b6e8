"""What every recipe is: a value that names itself and gives the flow which grows its model.

Nothing in this room touches a row, a noise source or a ledger.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from hedgerow.learning.builder import Grown
from hedgerow.learning.flow import Flow, Quote
from hedgerow.values.models import Additive, Model, Output
from hedgerow.values.schema import Schema


@dataclass(frozen=True)
class Trained:
    """What a recipe gives: the model, and what is known of its trees' leaves where that helps."""

    model: Model
    grown: tuple[Grown, ...] = ()

    @property
    def saved(self) -> float:
        """Mean part of their budgets that nodes left unspent."""
        parts = [part for grown in self.grown for part in grown.saved]
        return sum(parts) / len(parts) if parts else 0.0


class Recipe(Protocol):
    @property
    def name(self) -> str: ...

    def expected_rounds(self, schema: Schema) -> int | None:
        """Rounds, where the plan knows them beforehand."""
        ...

    def flow(self, schema: Schema, quote: Quote, rng: np.random.Generator) -> Flow[Trained]: ...


def mean_of(grown: Sequence[Grown], outputs: int) -> Model:
    """Trees that vote with their probabilities or means."""
    score = Additive((0.0,) * outputs, trees=tuple(g.tree for g in grown))
    return Model(score, Output.MEAN)
