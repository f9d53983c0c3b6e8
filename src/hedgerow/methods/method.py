"""A training method is one class in one file: parameters, queries, and the flow that trains.

    @method("histogram_tree", test_settings=({"max_depth": 3},))
    class HistogramTree(Method):
        max_depth: int = parameter(default=5, rule=whole(1), text="Levels of splits ...")
        def flow(self, schema, noise_model, rng): ...

    @estimator
    class HistogramTreeClassifier(PrivateClassifier, HistogramTree):
        '''Documentation and examples for users.'''

A method has no access to rows, noise sources or ledgers. Contract tests, documentation tables,
study files and commands read the registry, so nothing is listed twice.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import FrozenInstanceError, dataclass, fields, is_dataclass, replace
from enum import Enum
from fractions import Fraction
from typing import Any, ClassVar, TypeVar, dataclass_transform

from sklearn.base import BaseEstimator

from hedgerow.errors import ParameterError, UnsupportedQuery
from hedgerow.methods.blocks.flow import Flow, NoiseModel
from hedgerow.methods.parameters import check_parameters, parameter
from hedgerow.models.model import Additive, Model, Output
from hedgerow.models.tree import Tree
from hedgerow.models.uncertainty import LeafStatistics, ScoreNoise
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.bundles import Size
from hedgerow.privacy.queries import ClassCounts, Count, QueryKinds
from hedgerow.privacy.study import Study
from hedgerow.schema.arrays import Rng
from hedgerow.schema.rules import exact
from hedgerow.schema.schema import Schema

M = TypeVar("M")
Values = Mapping[str, Any]
"""Parameters by name."""


class Task(Enum):
    """What a model predicts."""

    CLASSES = "classes"
    NUMBER = "a number"
    SURVIVAL = "the time to an event"

    @staticmethod
    def of(schema: Schema) -> Task:
        if schema.survival is not None:
            return Task.SURVIVAL
        return Task.CLASSES if schema.target is None else Task.NUMBER


OUTCOMES = {
    Task.CLASSES: "classes",
    Task.NUMBER: "a target range",
    Task.SURVIVAL: "survival=Survival(time, event, horizon)",
}
"""What a schema says for each task."""


@dataclass(frozen=True, kw_only=True)
class Needs:
    """Requirements of a method on the study.

    `single_site`: its selections use exact scores of all rows, which only a single site has.
    """

    tasks: frozenset[Task] = frozenset({Task.CLASSES, Task.NUMBER})
    dp_models: frozenset[DPModel] = frozenset(DPModel)
    single_site: bool = False


@dataclass(frozen=True)
class TrainingResult:
    """The result of a method: the model, and statistics of its trees' leaves where available."""

    model: Model
    leaf_statistics: tuple[LeafStatistics, ...] = ()
    instead: str | None = None
    """Why a fallback was trained instead of the requested model, if so."""

    @property
    def unspent_fraction(self) -> float:
        """Mean fraction of their budgets that nodes left unspent."""
        parts = [
            part
            for tree_statistics in self.leaf_statistics
            for part in tree_statistics.unspent_fractions
        ]
        return sum(parts) / len(parts) if parts else 0.0


class Method:
    """A training method with declared parameters.

    On its own it is immutable and compares by content: that is what sites approve. As part of an
    estimator it follows scikit-learn, and nothing is checked before `fit`.
    """

    name: ClassVar[str]
    """Its name in policies and reports."""
    test_settings: ClassVar[tuple[Values, ...]]
    """One set of parameters per mode of operation, for the contract tests."""

    @property
    def needs(self) -> Needs:
        """Requirements on the study."""
        return Needs()

    def asks(self, schema: Schema) -> QueryKinds:
        """All kinds of query that its flow may ask under this schema; a site admits no other."""
        raise NotImplementedError

    def grid(self, schema: Schema) -> Schema:
        """The schema on the public grid that its flow works with."""
        return schema

    def largest(self, schema: Schema) -> Size:
        """Upper bounds on its queries, for any rows: per round, per query, in total."""
        raise NotImplementedError

    def flow(self, schema: Schema, noise_model: NoiseModel, rng: Rng) -> Flow[TrainingResult]:
        """Trains the model; `schema` is on the method's own grid, `rng` is public."""
        raise NotImplementedError

    def check(self) -> None:
        """Refuses invalid combinations of parameters."""

    def __post_init__(self) -> None:
        if not isinstance(self, BaseEstimator):
            self.check()

    def __setattr__(self, name: str, value: Any) -> None:
        if name in vars(self):
            raise FrozenInstanceError(f"{type(self).__name__} never changes; make another one")
        object.__setattr__(self, name, value)

    def _method(self, schema: Schema) -> Method:
        """The method with the estimator's parameters, after checking them."""
        kind: Any = next(c for c in type(self).__mro__ if c in METHODS.values())
        parameters = check_parameters(self)
        values = {f.name: getattr(parameters, f.name) for f in fields(kind)}
        method: Method = kind(**values)
        return method


METHODS: dict[str, type[Method]] = {}
"""Methods by class name: two classes may share the name in policies and reports."""


@dataclass_transform(kw_only_default=True, field_specifiers=(parameter,))
def method(name: str, *, test_settings: tuple[Values, ...]) -> Callable[[type[M]], type[M]]:
    """Registers a method; `test_settings` are the settings of its contract tests."""

    def register(cls: type[M]) -> type[M]:
        registered_class: Any = dataclass(kw_only=True, eq=True, unsafe_hash=True)(cls)
        registered_class.name, registered_class.test_settings = name, test_settings
        METHODS[cls.__name__] = registered_class
        return cls

    return register


def canonical_text(method: Method) -> str:
    """Canonical JSON of a method: what sites approve, and what the study's hash covers."""
    return json.dumps(_canonical(method), sort_keys=True, separators=(",", ":"))


def _canonical(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: _canonical(getattr(value, f.name)) for f in fields(value)}
        return {"kind": type(value).__name__, **parts}
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, tuple):
        return [_canonical(part) for part in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float | Fraction):
        return str(exact(value))
    raise ParameterError(f"a method holds a {type(value).__name__}, which nobody could approve.")


def check_needs(method: Method, schema: Schema, dp_model: DPModel, n_sites: int) -> None:
    """Refuses a study that the method cannot run, before anything is asked."""
    needs, task = method.needs, Task.of(schema)
    if task not in needs.tasks:
        able = " and ".join(sorted(t.value for t in needs.tasks))
        raise ParameterError(
            f"the schema asks for {task.value}, and this method predicts {able}; take another "
            f"estimator, or a schema with {OUTCOMES[min(needs.tasks, key=lambda t: t.value)]}."
        )
    if needs.single_site and n_sites > 1:
        raise UnsupportedQuery(
            f"this method scores splits exactly, which needs all rows at one site, and {n_sites} "
            "sites hold rows; for several sites take a method with noisy counts."
        )
    count_kinds = {ClassCounts.__name__, Count.__name__}  # randomized labels answer these alone
    if all(kind.what in count_kinds and kind.by for kind in method.asks(schema)):
        dp_models = needs.dp_models
    else:
        dp_models = needs.dp_models - {DPModel.LABEL}
    if dp_model not in dp_models:
        names = sorted(p.name.lower() for p in dp_models)
        raise UnsupportedQuery(
            f"this method cannot run with dp_model {dp_model.name.lower()!r}; use one of {names}."
        )


def check_size(method: Method, study: Study) -> None:
    """Refuses a study whose queries may exceed the limits, before anything is charged."""
    excess = _excess(method, study)
    if excess is None:
        return
    numbers = {f.name: getattr(method, f.name) for f in fields(method)}  # type: ignore[arg-type]
    ways = [  # each parameter that could be lowered, with its largest sufficient value
        f"{name} to {most} (it is {value})"
        for name, value in numbers.items()
        if type(value) is int and (most := _largest_that_fits(method, study, name, value))
    ]
    advice = f"lower {' or '.join(ways)}" if ways else "use fewer columns, bins or classes"
    raise ParameterError(f"this method asks for {excess}. Nothing was charged; {advice}.")


def _excess(method: Method, study: Study) -> str | None:
    size = method.largest(study.schema)
    return size.excess(travels=study.n_sites > 1, rounds=study.training_rounds)


def _largest_that_fits(method: Method, study: Study, name: str, value: int) -> int:
    """The largest value that fits, 0 if none does; sizes grow with the number."""
    low, high = 0, value
    while high - low > 1:
        middle = (low + high) // 2
        if _fits(method, study, {name: middle}):
            low = middle
        else:
            high = middle
    return low


def _fits(method: Method, study: Study, change: dict[str, Any]) -> bool:
    try:
        return _excess(replace(method, **change), study) is None  # type: ignore[type-var]
    except ParameterError:
        return False  # the method has other requirements on this number


def mean_of(trees: Sequence[Tree], noise: ScoreNoise = ScoreNoise()) -> Model:  # noqa: B008
    """A model that averages the trees' probabilities or means."""
    score = Additive((0.0,) * trees[0].n_outputs, trees=tuple(trees))
    return Model(score, Output.MEAN, noise=noise)
