"""What every recipe is: a value that says all that others need to know, and grows its model.

Nothing in this room touches a row, a noise source or a ledger.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from hedgerow.errors import SpecError, UnsupportedQuery
from hedgerow.methods.blocks.flow import Flow, Quote
from hedgerow.models.model import Additive, Model, Output
from hedgerow.models.tree import Tree
from hedgerow.models.uncertainty import Grown, ScoreNoise
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.bundles import Size
from hedgerow.privacy.queries import ClassCounts, Count, QueryKinds
from hedgerow.privacy.study import Study
from hedgerow.schema.schema import Schema


class Task(Enum):
    """What a model predicts."""

    CLASSES = "classes"
    NUMBER = "a number"

    @staticmethod
    def of(schema: Schema) -> Task:
        return Task.CLASSES if schema.target is None else Task.NUMBER


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a recipe needs of a study, and what others must know of it.

    `one_holder`: its choices look at exact scores of all rows, which nobody but a single holder
    has.
    """

    tasks: frozenset[Task] = frozenset(Task)
    placements: frozenset[Placement] = frozenset(Placement)
    one_holder: bool = False


@dataclass(frozen=True)
class Trained:
    """What a recipe gives: the model, and what is known of its trees' leaves where that helps."""

    model: Model
    grown: tuple[Grown, ...] = ()
    instead: str | None = None
    """What was trained instead of what was asked for, and why, where noise left no choice."""

    @property
    def saved(self) -> float:
        """Mean part of their budgets that nodes left unspent."""
        parts = [part for grown in self.grown for part in grown.saved]
        return sum(parts) / len(parts) if parts else 0.0


class Recipe(Protocol):
    """The whole contract of a method.

    A recipe is frozen: sites approve it, and two of equal content are one.
    """

    @property
    def name(self) -> str:
        """What policies and reports call it."""
        ...

    @property
    def needs(self) -> Needs: ...

    def asks(self, schema: Schema) -> QueryKinds:
        """All kinds of query its flow may put under this schema; a site admits no other."""
        ...

    def grid(self, schema: Schema) -> Schema:
        """The schema on the public grid that its flow works with."""
        ...

    def largest(self, schema: Schema) -> Size:
        """The most that its flow asks, whatever the rows are: of a round, of a query, in all."""
        ...

    def flow(self, schema: Schema, quote: Quote, rng: np.random.Generator) -> Flow[Trained]:
        """Grows the model; `schema` is on the recipe's own grid, `rng` is public."""
        ...


def spelled_out(recipe: Recipe) -> str:
    """The recipe's content in one text: what sites approve, and what the study's hash covers."""
    return json.dumps(_spelled(recipe), sort_keys=True, separators=(",", ":"))


def _spelled(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: _spelled(getattr(value, f.name)) for f in fields(value)}
        return {"kind": type(value).__name__, **parts}
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, tuple):
        return [_spelled(part) for part in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float | Fraction):
        return str(Fraction(value))
    raise SpecError(f"a recipe holds a {type(value).__name__}, which nobody could approve.")


def check_needs(recipe: Recipe, schema: Schema, placement: Placement, parties: int) -> None:
    """Refuses a study that the recipe could not finish, before anything is asked."""
    needs, task = recipe.needs, Task.of(schema)
    if task not in needs.tasks:
        able = " and ".join(sorted(t.value for t in needs.tasks))
        raise SpecError(
            f"the schema asks for {task.value}, and {recipe.name!r} predicts {able}; take another "
            "estimator, or a schema with "
            + ("classes." if task is Task.NUMBER else "a target range.")
        )
    if needs.one_holder and parties > 1:
        raise UnsupportedQuery(
            f"{recipe.name!r} chooses on exact scores, which needs one holder of all rows, and "
            f"{parties} parties hold rows; with several parties ask noisy tables or local choices."
        )
    allowed = needs.placements - (set() if _told(recipe, schema) else {Placement.LABEL})
    if placement not in allowed:
        names = sorted(p.name.lower() for p in allowed)
        raise UnsupportedQuery(
            f"{recipe.name!r} cannot run under placement {placement.name.lower()!r}; use one of "
            f"{names}."
        )


def check_size(recipe: Recipe, study: Study) -> None:
    """Refuses a study whose flow could ask what no site answers, before anything is charged."""
    excess = _excess(recipe, study)
    if excess is not None:
        raise SpecError(
            f"{recipe.name!r} may ask for {excess}. Nothing was charged; {_way_out(recipe, study)}."
        )


def _excess(recipe: Recipe, study: Study) -> str | None:
    rounds = None if study.graph is None else study.graph.rounds - bool(study.asks_held_out)
    return recipe.largest(study.schema).excess(travels=study.parties > 1, rounds=rounds)


def _way_out(recipe: Recipe, study: Study) -> str:
    """The parameters of which one lower value is enough, each with its largest such value."""
    numbers = {f.name: getattr(recipe, f.name) for f in fields(recipe)}  # type: ignore[arg-type]
    found = [
        f"{name} to {most} (it is {given})"
        for name, given in numbers.items()
        if type(given) is int and (most := _largest_that_fits(recipe, study, name, given))
    ]
    return f"lower {' or '.join(found)}" if found else "use fewer columns, bins or classes"


def _largest_that_fits(recipe: Recipe, study: Study, name: str, given: int) -> int:
    """0 if none does; sizes do not shrink when a number grows."""
    low, high = 0, given
    while high - low > 1:
        middle = (low + high) // 2
        if _fits(recipe, study, {name: middle}):
            low = middle
        else:
            high = middle
    return low


def _fits(recipe: Recipe, study: Study, change: dict[str, Any]) -> bool:
    try:
        return _excess(replace(recipe, **change), study) is None  # type: ignore[type-var]
    except SpecError:
        return False  # the recipe has other needs of this number


def _told(recipe: Recipe, schema: Schema) -> bool:
    """Whether all it asks can be answered from labels that were told at random."""
    told = {ClassCounts.__name__, Count.__name__}
    return all(kind.what in told and kind.by for kind in recipe.asks(schema))


def mean_of(trees: Sequence[Tree], noise: ScoreNoise = ScoreNoise()) -> Model:  # noqa: B008
    """Trees that vote with their probabilities or means."""
    score = Additive((0.0,) * trees[0].n_outputs, trees=tuple(trees))
    return Model(score, Output.MEAN, noise=noise)
