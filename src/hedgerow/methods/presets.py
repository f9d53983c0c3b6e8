"""Methods of papers by their names there: the parameters that define each, and the paper's values.

A preset is a function that returns an ordinary estimator. The parameters that define the method are
fixed under its name; all others can be changed, and one that the estimator would ignore is refused.
So our corrections are on only if the user sets them.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Generic, TypeVar

from hedgerow.errors import ParameterError
from hedgerow.methods.base import PrivateEstimator
from hedgerow.methods.method import Values
from hedgerow.methods.parameters import declared_parameters
from hedgerow.schema.rules import exact
from hedgerow.schema.schema import Schema

_E = TypeVar("_E", bound=PrivateEstimator)
Factor = Callable[[Schema, Values], Fraction]
"""True cost of a paper's epsilon, in units of that epsilon."""
Derive = Callable[[Any, Values], Values]
"""Further fixed parameters, from schema and parameters."""


@dataclass(frozen=True)
class Departure:
    """A difference between the code of a paper's methods and the paper, for help, pages and tests.

    `published` are the parameters that turn it off, set by every name of the paper. Without them,
    `published_as` are names that run what is published at its true cost; `unsound` says why no
    epsilon covers it; `reason` says what else stands against a switch. The names in `corrected`
    themselves say that they do not follow the paper.
    """

    words: str
    published: Values | None = None
    published_as: tuple[str, ...] = ()
    unsound: str = ""
    reason: str = ""
    corrected: tuple[str, ...] = ()

    def __str__(self) -> str:
        switches = ", ".join(f"{name}={value!r}" for name, value in (self.published or {}).items())
        reasons = {
            "off here: ": switches,
            "as published: ": ", ".join(self.published_as),
            "unsound: ": self.unsound,
            "": self.reason,
        }
        return f"{self.words} ({next(kind + text for kind, text in reasons.items() if text)})"


@dataclass(frozen=True, kw_only=True)
class Preset(Generic[_E]):
    """A method of a paper: `fixed_parameters` define it, `usual` are the paper's values.

    `own` are parameters that the estimator does not have, or that mean something else there, with
    their usual values, for `derive`. `rows` are its lines in the table of methods: the paper's name
    of each, and the call.
    """

    paper: str
    call: str
    title: str
    kinds: tuple[type[_E], ...]
    fixed_parameters: Values
    usual: Values
    rows: Values
    own: Values
    factor: Factor | None
    derive: Derive | None

    @property
    def claim(self) -> str:
        """The name of its epsilon: `published_epsilon` if the method does not satisfy it."""
        return "epsilon" if self.factor is None else "published_epsilon"

    def estimator(self, schema: Any, arguments: Values) -> _E:
        """The regressor if the schema has a target, else the classifier."""
        is_number = isinstance(schema, Schema) and schema.target is not None
        kind = next((kind for kind in self.kinds if kind._regression == is_number), self.kinds[0])
        parameter_names = {p.name for p in declared_parameters(kind)}
        names = parameter_names | self.own.keys() | {self.claim}
        for name in sorted(arguments.keys() - names):
            raise ParameterError(
                f"{name} is no parameter of {self.title}; use some of {sorted(names)}."
            )
        values = {**self.usual, **self.own, **arguments}
        honest = self._honest(schema, values, arguments)
        derived_values = self.derive(schema, values) if self.derive else {}
        fixed_values = {**self.fixed_parameters, **derived_values}
        for name, value in fixed_values.items():
            if name in arguments and name not in self.own and arguments[name] != value:
                raise ParameterError(
                    f"{name} is {arguments[name]!r}, but {self.title} is what it is by "
                    f"{name}={value!r}; this method sets it itself. Leave it out, or take "
                    f"hedgerow.{kind.__name__}."
                )
        own_arguments = {n: value for n, value in arguments.items() if n in parameter_names}
        typed = {"schema": schema, **own_arguments, **honest, **fixed_values}
        return kind(**{**self._used_values(kind, typed), **typed})

    def _used_values(self, kind: type[_E], typed: Values) -> Values:
        """The paper's values of the parameters that are used together with those given."""
        declarations = {p.name: p for p in declared_parameters(kind)}
        defaults = {name: p.default for name, p in declarations.items()}
        values = {**defaults, **self.usual, **typed}
        return {name: v for name, v in self.usual.items() if declarations[name].is_used(values)}

    def _honest(self, schema: Any, values: Values, arguments: Values) -> dict[str, float]:
        """The true epsilon of a method whose paper undercounts; the paper's cannot be claimed."""
        if self.factor is None:
            return {}
        if not isinstance(schema, Schema):
            raise ParameterError(
                f"schema is {schema!r}, but what {self.title} costs depends on the number of "
                "features; pass a hedgerow.Schema."
            )
        factor = self.factor(schema, values)
        if "epsilon" in arguments:
            raise ParameterError(
                f"epsilon is {arguments['epsilon']!r}, which {self.title} would not keep; give the "
                f"paper's own number as published_epsilon, and the statement says "
                f"{float(factor):.4g} times that."
            )
        published_epsilon = exact(arguments.get("published_epsilon", 1.0), "published_epsilon")
        return {"epsilon": float(published_epsilon * factor)}


PRESETS: dict[str, Preset[Any]] = {}
"""Presets by the name in study files and commands, such as papers.gubler.algorithm_5."""


def preset(
    name: str,
    title: str,
    *kinds: type[_E],
    words: str,
    fixed_parameters: Values | None = None,
    usual: Values | None = None,
    rows: Mapping[str, str] | None = None,
    own: Values | None = None,
    factor: Factor | None = None,
    derive: Derive | None = None,
    file: str | None = None,
) -> Callable[..., _E]:
    """Registers a method of a paper under the name of its file; returns the public function."""
    frame: Any = inspect.currentframe()
    module: str = file or frame.f_back.f_globals["__name__"]
    paper = module.rpartition(".")[2]
    new_preset = Preset(
        paper=paper,
        call=f"{paper}.{name}",
        title=title,
        kinds=kinds,
        fixed_parameters=fixed_parameters or {},
        usual=usual or {},
        rows=rows or {title: ""},
        own=own or {},
        factor=factor,
        derive=derive,
    )

    def build(*args: Any, **parameters: Any) -> _E:
        arguments = build.__signature__.bind(*args, **parameters).arguments  # type: ignore[attr-defined]
        more = arguments.pop("parameters", {})
        return new_preset.estimator(arguments.pop("schema", None), {**arguments, **more})

    build.__module__, build.__name__, build.__qualname__ = module, name, name
    departures = vars(sys.modules[module]).get("DEPARTURES", ())
    ours = "\n".join(f"* {departure}" for departure in departures)
    build.__doc__ = f"{title}: {words}\n\nDepartures from the paper:\n\n{ours}\n"
    build.__signature__ = _signature(new_preset)  # type: ignore[attr-defined]
    PRESETS[f"papers.{new_preset.call}"] = new_preset
    return build


def _signature(preset: Preset[Any]) -> inspect.Signature:
    """The signature: schema and epsilon by position, all others by name."""
    is_private = preset.fixed_parameters.get("dp_model") != "none"
    places = {"schema": None} | ({preset.claim: 1.0} if is_private else {}) | {**preset.own}
    by_place = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(n, by_place, default=v) for n, v in places.items()]
    parameters.append(inspect.Parameter("parameters", inspect.Parameter.VAR_KEYWORD))
    return inspect.Signature(parameters)
