"""How much is tried, and how long is waited: the long suite tries more than `make test`."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

from hypothesis import settings

VARIABLE: Final = "HEDGEROW_TESTS"
"""Set by conftest.py, before any test is read."""
IS_LONG: Final = os.environ.get(VARIABLE) == "long"
LONG: Final = 120.0
"""Seconds that no test waits for, unless something is wrong: machines of tests are shared."""


def either(few: int, many: int) -> int:
    return many if IS_LONG else few


def examples(few: int, many: int) -> settings:
    """So many examples of a property, however long one takes."""
    return settings(max_examples=either(few, many), deadline=None)


@cache
def syntax_of(path: Path) -> ast.Module:
    """A file of the repository, parsed once for all tests that read it."""
    return ast.parse(path.read_text(encoding="utf-8"))


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """All statements of a file, in functions and classes too, without their expressions."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            waiting += getattr(node, part, ())
