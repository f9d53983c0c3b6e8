"""Boosted trees: our default recipe, or any combination of the paper's components."""

from __future__ import annotations

from typing import Any

from hedgerow.estimators.private import PrivateClassifier
from hedgerow.recipes.plan import Recipe
from hedgerow.recipes.smoothed_boost import SmoothedBoost
from hedgerow.schema import Schema, Spacing


class BoostedTreesClassifier(PrivateClassifier):
    def __init__(
        self,
        schema: Schema | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        placement: str | None = None,
        colluders: int | None = None,
        threshold: int | None = None,
        records_per_person: int = 1,
        random_state: Any = None,
        progress: bool = False,
    ) -> None:
        self.schema = schema
        self.epsilon = epsilon
        self.delta = delta
        self.placement = placement
        self.colluders = colluders
        self.threshold = threshold
        self.records_per_person = records_per_person
        self.random_state = random_state
        self.progress = progress

    def _schema_of(self, schema: Schema) -> Schema:
        return schema.with_grid(spacing=Spacing.FINE)

    def _recipe(self, schema: Schema) -> Recipe:
        return SmoothedBoost()
