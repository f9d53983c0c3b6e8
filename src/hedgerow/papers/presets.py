"""How a method of a paper becomes an estimator: what makes it the method, and the paper's numbers.

A preset is a function that returns an ordinary estimator. What makes the method cannot be changed
under its name; every other parameter can be, by its own name, and what the estimator would ignore
it refuses. So a repair of ours is on only where somebody typed it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from hedgerow.errors import SpecError
from hedgerow.methods.base import PrivateEstimator
from hedgerow.methods.parameters import declared
from hedgerow.schema.schema import Schema

_E = TypeVar("_E", bound=PrivateEstimator)
C = TypeVar("C", bound=PrivateEstimator)
_R = TypeVar("_R", bound=PrivateEstimator)


def preset(
    method: str, kind: type[_E], makes: Mapping[str, Any], usual: Mapping[str, Any], given: Any
) -> _E:
    """`makes` is the method itself, `usual` the paper's numbers, `given` what the user typed."""
    known = {p.name for p in declared(kind)}
    for name in sorted(given.keys() - known):
        raise SpecError(f"{name} is no parameter of {method}; use some of {sorted(known)}.")
    for name, value in makes.items():
        if name in given and given[name] != value:
            raise SpecError(
                f"{name} is {given[name]!r}, but {method} is what it is by {name}={value!r}; leave "
                f"it out, or take hedgerow.{kind.__name__}."
            )
    return kind(**{**usual, **given, **makes})


def of_task(schema: Any, classifier: type[C], regressor: type[_R]) -> type[C] | type[_R]:
    """The regressor where the schema has a target, else the classifier."""
    numeric = isinstance(schema, Schema) and schema.target is not None
    return regressor if numeric else classifier
