"""Registry of all methods, estimators and methods of papers in this folder.

A new file needs no entry elsewhere: every module of the folder is imported, and what it registers
appears in public names, contract tests, tables, study files and commands.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator
from functools import cache
from importlib import import_module
from types import ModuleType, SimpleNamespace
from typing import NamedTuple

import hedgerow.methods
from hedgerow.errors import ParameterError
from hedgerow.methods.base import PrivateEstimator
from hedgerow.methods.method import METHODS, Method
from hedgerow.methods.presets import PRESETS, Departure

EstimatorMaker = Callable[..., PrivateEstimator]
"""An estimator's class, or a method of a paper: takes a schema and parameters."""


@cache
def modules() -> tuple[ModuleType, ...]:
    """Imports every file of this folder."""
    names = [module.name for module in pkgutil.iter_modules(hedgerow.methods.__path__)]
    return tuple(import_module(f"hedgerow.methods.{name}") for name in names)


def catalog() -> Iterator[Method]:
    """Every method in every test setting, for the contract tests."""
    modules()
    for kind in METHODS.values():
        yield from (kind(**setting) for setting in kind.test_settings)


@cache
def estimators() -> dict[str, type[PrivateEstimator]]:
    """Every estimator of a registered method, by name."""
    members = (thing for module in modules() for thing in vars(module).values())
    kinds = {k for k in members if isinstance(k, type) and issubclass(k, PrivateEstimator)}
    public = (k for k in kinds if issubclass(k, Method) and k not in METHODS.values())
    return {kind.__name__: kind for kind in sorted(public, key=lambda kind: kind.__name__)}


def estimator_named(name: str) -> EstimatorMaker:
    """The estimator or method of a paper with this name."""
    kinds: dict[str, EstimatorMaker] = {**estimators(), **paper_methods()}
    if name not in kinds:
        raise ParameterError(f"estimator is {name!r}; use one of {sorted(kinds)}.")
    return kinds[name]


class PaperMethod(NamedTuple):
    """A line of the table of methods; in `call`, `schema` has classes and `numbers` a target."""

    paper: str
    name: str
    call: str

    @property
    def line(self) -> str:
        """The call after `import hedgerow as hr`."""
        return f"hr.papers.{self.call}"

    @property
    def title(self) -> str:
        return paper_titles()[self.paper]

    @property
    def page(self) -> str:
        return f"docs/results/{self.paper}.md"


def paper_titles() -> dict[str, str]:
    """The papers by the names of their files."""
    return {name: file.PAPER for name, file in _files().items() if hasattr(file, "PAPER")}


def _files() -> dict[str, ModuleType]:
    return {module.__name__.rpartition(".")[2]: module for module in modules()}


def paper_departures() -> dict[str, tuple[Departure, ...]]:
    """Each paper's documented differences."""
    files = _files()
    return {name: getattr(files[name], "DEPARTURES", ()) for name in paper_titles()}


def paper_methods() -> dict[str, EstimatorMaker]:
    """`papers.wang.local_rnm` and so on."""
    files = _files()
    return {
        name: getattr(files[preset.paper], preset.call.partition(".")[2])
        for name, preset in sorted(PRESETS.items())
    }


def paper_table() -> tuple[PaperMethod, ...]:
    """All methods of the papers: the paper's name of each, and the call that makes it."""
    return tuple(
        PaperMethod(paper, title, f"{preset.call}({arguments or 'schema'})")
        for paper in paper_titles()
        for preset in PRESETS.values()
        if preset.paper == paper
        for title, arguments in preset.rows.items()
    )


@cache
def papers() -> SimpleNamespace:
    """`hedgerow.papers`: every paper's file, and METHODS, the table of all."""
    files = {name: file for name, file in _files().items() if name in paper_titles()}
    return SimpleNamespace(**files, METHODS=paper_table())
