"""A method is one class in one file: parameters, what it asks, how it grows a model.

    @method("histogram_tree", tried=({"max_depth": 3},))
    class HistogramTree(Method):
        max_depth: int = parameter(default=5, rule=whole(1), text="Levels of splits ...")
        def flow(self, schema, quote, rng): ...

    @estimator
    class HistogramTreeClassifier(PrivateClassifier, HistogramTree):
        '''Words and examples for users.'''

A method touches no row, no noise source and no ledger. What is registered here is read by the
contract tests, the tables of the documentation, study files and commands; nothing is listed twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import FrozenInstanceError, dataclass, fields, is_dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import Any, ClassVar, Protocol, TypeVar, dataclass_transform

import numpy as np
from sklearn.base import BaseEstimator

from hedgerow.errors import SpecError, UnsupportedQuery
from hedgerow.methods.blocks.flow import Flow, Quote
from hedgerow.methods.parameters import checked, parameter
from hedgerow.models.model import Additive, Model, Output
from hedgerow.models.tree import Tree
from hedgerow.models.uncertainty import Grown, ScoreNoise
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.bundles import Size
from hedgerow.privacy.queries import ClassCounts, Count, QueryKinds
from hedgerow.privacy.study import Study
from hedgerow.schema.rules import exact
from hedgerow.schema.schema import Schema

M = TypeVar("M")
Values = Mapping[str, Any]
"""Parameters by name."""


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


class Method:
    """A recipe with declared parameters.

    As a value of its own it never changes and equals any other of the same content: that is what
    sites approve. As part of an estimator it is scikit-learn's, and nothing is checked before fit.
    """

    name: ClassVar[str]
    tried: ClassVar[tuple[Values, ...]]

    @property
    def needs(self) -> Needs:
        """What a study must be for it."""
        return Needs()

    def asks(self, schema: Schema) -> QueryKinds:
        """All kinds of query its flow may put under this schema."""
        raise NotImplementedError

    def grid(self, schema: Schema) -> Schema:
        """The schema on the public grid that its flow works with."""
        return schema

    def largest(self, schema: Schema) -> Size:
        """The most that its flow asks, whatever the rows are."""
        raise NotImplementedError

    def flow(self, schema: Schema, quote: Quote, rng: np.random.Generator) -> Flow[Trained]:
        """Grows the model; `schema` is on its own grid, `rng` is public."""
        raise NotImplementedError

    def check(self) -> None:
        """Raises for settings that no rule of one parameter shows."""

    def __post_init__(self) -> None:
        if not isinstance(self, BaseEstimator):
            self.check()

    def __setattr__(self, name: str, value: Any) -> None:
        if name in vars(self):
            raise FrozenInstanceError(f"{type(self).__name__} never changes; make another one")
        object.__setattr__(self, name, value)

    def _recipe(self, schema: Schema) -> Recipe:
        """The method that an estimator's parameters mean, once they keep their rules."""
        kind, read = method_of(type(self)), checked(self)
        values = {f.name: getattr(read, f.name) for f in fields(kind)}  # type: ignore[arg-type]
        return kind(**values)


METHODS: dict[str, type[Method]] = {}
"""By class: two may have one name for policies and reports, if one of them has more parameters."""


@dataclass_transform(kw_only_default=True, field_specifiers=(parameter,))
def method(name: str, *, tried: tuple[Values, ...]) -> Callable[[type[M]], type[M]]:
    """Registers a method; `tried` is one setting for each way to run it, for the contract tests."""

    def register(cls: type[M]) -> type[M]:
        made: Any = dataclass(kw_only=True, eq=True, unsafe_hash=True)(cls)
        made.name, made.tried = name, tried
        METHODS[cls.__name__] = made
        return cls

    return register


def method_of(kind: type) -> type[Method]:
    """The method that an estimator is of."""
    return next(c for c in kind.__mro__ if c in METHODS.values())


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
        return str(exact(value))
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
