"""Which code computed a row: a digest of every module that the work can reach.

From the module of a function, imports are followed through this repository's own packages. What
counts is the syntax tree without docstrings: a comment, a docstring or a page's words change no
digest, a changed constant does. Other packages are pinned in `constraints.txt` and not followed.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterator
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
        total.update(f"{name}:{_digest(_path(name))}\n".encode())
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
    named = {
        part
        for node in ast.walk(_tree(_path(name)))
        for target in _targets(node)
        if target.split(".")[0] in OWN
        for part in (target, *_packages(target))
    }
    return {part for part in named if not _is_report(part) and _is_module(part)}


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


@cache
def _is_module(name: str) -> bool:
    try:
        spec = find_spec(name)
    except ModuleNotFoundError:  # a name in a module, not a module in a package
        return False
    return spec is not None and spec.origin is not None


def _path(name: str) -> Path:
    spec = find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin)


def _tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _digest(path: Path) -> str:
    tree = _tree(path)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [part for part in body if not _is_words(part)]  # type: ignore[attr-defined]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def _is_words(node: ast.stmt) -> bool:
    """A string that stands alone: a docstring, or words below a constant."""
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
