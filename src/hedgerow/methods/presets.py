"""Methods of the papers by their names there: what makes each of them, and the paper's numbers.

A preset is a function that returns an ordinary estimator. What makes the method cannot be changed
under its name; every other parameter can be, by its own name, and what the estimator would ignore
it refuses. So a repair of ours is on only where somebody typed it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Generic, TypeVar

from hedgerow.errors import SpecError
from hedgerow.methods.base import PrivateEstimator
from hedgerow.methods.method import Values
from hedgerow.methods.parameters import declared
from hedgerow.schema.rules import exact
from hedgerow.schema.schema import Schema

E = TypeVar("E", bound=PrivateEstimator)
Factor = Callable[[Schema, Values], Fraction]
"""What a paper's epsilon really costs, in units of that epsilon."""
Derive = Callable[[Any, Values], Values]
"""More that makes the method, by schema and parameters, beside what always does."""


@dataclass(frozen=True, kw_only=True)
class Preset(Generic[E]):
    """A method of a paper: `fixed` makes it what it is, `usual` are the paper's numbers.

    `own` are parameters that the estimator does not have, or that mean another thing there, with
    their usual values, for `derive`.
    `rows` are its lines in the table of methods: the paper's name of each, and what to type.
    """

    paper: str
    call: str
    title: str
    kinds: tuple[type[E], ...]
    fixed: Values
    usual: Values
    rows: Values
    own: Values
    factor: Factor | None
    derive: Derive | None

    @property
    def claim(self) -> str:
        """What its epsilon is called: a number that the method does not keep is the paper's own."""
        return "epsilon" if self.factor is None else "printed_epsilon"

    def estimator(self, schema: Any, given: Values) -> E:
        kind = self._kind(schema)
        self._check(kind, given)
        values = {**self.usual, **self.own, **given}
        honest = self._honest(schema, values, given)
        fixed = {**self.fixed, **(self.derive(schema, values) if self.derive else {})}
        self._check_fixed(kind, given, fixed)
        typed = {name: value for name, value in given.items() if name in self._known(kind)}
        return kind(**{**self.usual, "schema": schema, **typed, **honest, **fixed})

    def _kind(self, schema: Any) -> type[E]:
        """The regressor where the schema has a target, else the classifier."""
        is_number = isinstance(schema, Schema) and schema.target is not None
        return next((kind for kind in self.kinds if kind._regression == is_number), self.kinds[0])

    def _known(self, kind: type[E]) -> set[str]:
        return {p.name for p in declared(kind)}

    def _check(self, kind: type[E], given: Values) -> None:
        known = self._known(kind) | self.own.keys() | {self.claim}
        for name in sorted(given.keys() - known):
            raise SpecError(f"{name} is no parameter of {self.title}; use some of {sorted(known)}.")

    def _check_fixed(self, kind: type[E], given: Values, fixed: Values) -> None:
        for name, value in fixed.items():
            if name in given and name not in self.own and given[name] != value:
                raise SpecError(
                    f"{name} is {given[name]!r}, but {self.title} is what it is by "
                    f"{name}={value!r}; leave it out, or take hedgerow.{kind.__name__}."
                )

    def _honest(self, schema: Any, values: Values, given: Values) -> dict[str, float]:
        """The true epsilon of a method whose paper counts less; nobody may claim the paper's."""
        if self.factor is None:
            return {}
        if not isinstance(schema, Schema):
            raise SpecError(
                f"schema is {schema!r}, but what {self.title} costs depends on the number of "
                "features; pass a hedgerow.Schema."
            )
        factor = self.factor(schema, values)
        if "epsilon" in given:
            raise SpecError(
                f"epsilon is {given['epsilon']!r}, which {self.title} would not keep; give the "
                f"paper's own number as printed_epsilon, and the statement says {float(factor):.4g}"
                " times that."
            )
        printed = exact(given.get("printed_epsilon", 1.0), "printed_epsilon")
        return {"epsilon": float(printed * factor)}


PRESETS: dict[str, Preset[Any]] = {}
"""By the name that study files and commands use, such as papers.gubler.algorithm_5."""


def preset(
    name: str,
    title: str,
    *kinds: type[E],
    words: str,
    fixed: Values | None = None,
    usual: Values | None = None,
    rows: Mapping[str, str] | None = None,
    own: Values | None = None,
    factor: Factor | None = None,
    derive: Derive | None = None,
) -> Callable[..., E]:
    """Registers a method of a paper under the name of its file; gives the function users call."""
    frame: Any = inspect.currentframe()
    module: str = frame.f_back.f_globals["__name__"]
    paper = module.rpartition(".")[2]
    made = Preset(
        paper=paper,
        call=f"{paper}.{name}",
        title=title,
        kinds=kinds,
        fixed=fixed or {},
        usual=usual or {},
        rows=rows or {title: ""},
        own=own or {},
        factor=factor,
        derive=derive,
    )

    def build(*args: Any, **given: Any) -> E:
        typed = build.__signature__.bind(*args, **given).arguments  # type: ignore[attr-defined]
        more = typed.pop("given", {})
        return made.estimator(typed.pop("schema", None), {**typed, **more})

    build.__module__, build.__name__, build.__qualname__ = module, name, name
    build.__doc__ = f"{title}: {words}"
    build.__signature__ = _signature(made)  # type: ignore[attr-defined]
    PRESETS[f"papers.{made.call}"] = made
    return build


def _signature(made: Preset[Any]) -> inspect.Signature:
    """A schema and the paper's epsilon by place, parameters of its own and all others by name."""
    by_place = inspect.Parameter.POSITIONAL_OR_KEYWORD
    places = (
        {"schema": None}
        if made.fixed.get("placement") == "nowhere"
        else {"schema": None, made.claim: 1.0}
    )
    return inspect.Signature(
        [
            *(inspect.Parameter(n, by_place, default=v) for n, v in {**places, **made.own}.items()),
            inspect.Parameter("given", inspect.Parameter.VAR_KEYWORD),
        ]
    )
