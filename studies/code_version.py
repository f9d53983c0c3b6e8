"""Which code computed a row: a digest of every module that the work can reach.

From the module of a function, imports are followed through this repository's own packages. What
counts is the syntax tree without docstrings: a comment, a docstring or a page's words change no
digest, a changed constant does. Other packages are pinned in `constraints.txt` and not followed.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

OWN = ("hedgerow", "studies")
"""Packages whose code is followed."""
NEVER_MEETS_A_ROW = "hedgerow.report"
"""Pages about models, which estimators offer: no measured number comes from there."""
LETTERS = 12
"""Of the digest that a row carries."""
ENTRANCE = "hedgerow"
"""Names every estimator: followed where its own names are imported, not for being a parent."""


def code_version(work: Callable[..., Any]) -> str:
    """Twelve letters that change whenever the code behind `work` does."""
    total = hashlib.sha256()
    for name in sorted(reached(work.__module__)):
        total.update(f"{name}:{_read(name).digest}\n".encode())
    return total.hexdigest()[:LETTERS]


def reached(start: str) -> set[str]:
    """The module itself and all modules of our own packages that it imports, near or far."""
    found, waiting = {start}, [start]
    while waiting:
        for name in _imports(waiting.pop()) - found:
            found.add(name)
            waiting.append(name)
    return found


def _imports(name: str) -> set[str]:
    """Modules of our own that a module names, wherever in it, with the packages they are in."""
    return {part for part in _read(name).named if not _is_report(part) and _path(part)}


def _is_report(name: str) -> bool:
    return name == NEVER_MEETS_A_ROW or name.startswith(NEVER_MEETS_A_ROW + ".")


def _targets(node: ast.AST) -> Iterator[str]:
    """What an import names; imports here are absolute, which the linter sees to."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module:
        yield node.module
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _packages(name: str) -> Iterator[str]:
    parts = name.split(".")
    inside = (".".join(parts[:k]) for k in range(1, len(parts)))
    yield from (package for package in inside if package != ENTRANCE)


def _path(name: str) -> Path | None:
    """The file of a module, found without importing it; None if there is no such module."""
    top, *inner = name.split(".")
    spec = find_spec(top)
    if spec is None or spec.origin is None:
        return None
    place = Path(spec.origin).parent.joinpath(*inner) if inner else Path(spec.origin)
    files = [place] if not inner else [place.with_suffix(".py"), place / "__init__.py"]
    return next((file for file in files if file.is_file()), None)


@dataclass(frozen=True)
class _Source:
    """A module's digest, and what it imports of our own."""

    digest: str
    named: frozenset[str]


def _read(name: str) -> _Source:
    path = _path(name)
    assert path is not None, f"{name} has no source"
    return _parsed(path, path.stat().st_mtime_ns)


@cache
def _parsed(path: Path, changed: int) -> _Source:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [part for part in body if not _is_words(part)]  # type: ignore[attr-defined]
    targets = {t for node in ast.walk(tree) for t in _targets(node) if t.split(".")[0] in OWN}
    named = {part for target in targets for part in (target, *_packages(target))}
    return _Source(hashlib.sha256(ast.dump(tree).encode()).hexdigest(), frozenset(named))


def _is_words(node: ast.stmt) -> bool:
    """A string that stands alone: a docstring, or words below a constant."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
