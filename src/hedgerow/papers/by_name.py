"""Our estimators and the papers' methods by the names that study files and commands use."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter

import hedgerow
from hedgerow import papers
from hedgerow.errors import SpecError
from hedgerow.methods.base import PrivateEstimator

Maker = Callable[..., PrivateEstimator]
"""An estimator's class, or a method of a paper: takes a schema and parameters."""


def estimator_named(name: str) -> Maker:
    """One of ours, by name, never anything else."""
    kinds: dict[str, Maker] = {**estimators(), **paper_methods()}
    if name not in kinds:
        raise SpecError(f"estimator is {name!r}; use one of {sorted(kinds)}.")
    return kinds[name]


def estimators() -> dict[str, type[PrivateEstimator]]:
    found = {name: getattr(hedgerow, name) for name in hedgerow.__all__}
    return {
        name: kind
        for name, kind in found.items()
        if isinstance(kind, type) and issubclass(kind, PrivateEstimator)
    }


def paper_methods() -> dict[str, Maker]:
    """`papers.wang.local_rnm` and so on."""
    names = {method.call.split("(")[0] for method in papers.METHODS}
    return {f"papers.{name}": attrgetter(name)(papers) for name in sorted(names)}
