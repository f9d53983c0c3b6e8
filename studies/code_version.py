"""Which code computed a row: a digest of every module that the work can reach.

From the module of a function, imports are followed through this repository's own packages. What
counts is the syntax tree without docstrings: a comment, a docstring or a page's words change no
digest, a changed constant does. Other packages are pinned in `constraints.txt` and not followed.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Iterator, Sequence
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


# --------------------------------------------------------------------------------------------------
# Earlier code that answers as the code of today does, so that its rows are still true.
#
# A digest changes with every renamed helper; what is measured does not. For each module of fits
# here are the digests of earlier code whose answers were compared with today's, to the last digit
# and with the noise held fixed, on the cells of `studies/tests/answers.json`. `--resume` takes
# their rows over. Where a sampler draws the same law from other words, the comparison was made with
# the sampler of before in its place (docs/design/noise.md); since learners round what they release
# to 24 bits, answers were compared to six digits (bytes aside: digests are whole), and best-first
# trees on one kind of processor, because equal gains fell otherwise on another. Bytes of all rows
# before rounds were opened at once are those of two exchanges, which is more. The test of these
# answers (`studies/tests/test_harness.py`) turns red when today's code gives other ones: then
# the digests here must go, or the change is a fault. A change that some cells cannot meet leaves
# the rows of those: beside a digest are texts, and a cell that has one is old.
STEPS = ("newton", "gradient")

SCORED_BY_UNCLIPPED_STEPS = ("split=histogram", "split=partially_random", "DP-GBM", "FEVERLESS")
"""Boosted trees that look before they split; see studies/notes/boosting.md#0142."""

FORESTS = ("forest",)
"""Of classes, whose probabilities did not add up; see studies/notes/forests.md#0153."""

WITHOUT_WEIGHTS = ("SingleMachine RNM", "LocalRNM", "NoisyCounts")
"""Published trees of before, whose nodes had no weight query."""

REPAIRED = (
    *(f"split={kind};update={u}" for kind in ("histogram", "partially_random") for u in STEPS),
    *(f"method={name}" for name in ("DP-RF", "DP-GBM", "DP-EBM Newton", "DP-TR", "FEVERLESS")),
)
"""Published boosting of before, with repairs that had no switch."""

BEFORE_SURFACES = ("method=default", "boosted")
"""Our default before it learned surfaces; see studies/notes/boosting.md#0161."""

SAME_ANSWERS: dict[str, dict[str, tuple[str, ...]]] = {
    "studies.gubler_fits": {
        "c6b3aeb7e15f": (),
        "1caf7633d945": (),
        "608b9979a372": (),
        "39f63303ab6b": (),
        "39321e068fc1": (),
        "d59c48e6acc4": (),
    },
    "studies.topdown_fits": {
        "6f04bf66ed28": WITHOUT_WEIGHTS,
        "137006685a9d": WITHOUT_WEIGHTS,
        "94e0440bef43": WITHOUT_WEIGHTS,
        "8d740e9f47b6": WITHOUT_WEIGHTS,
        "5c9c4d6bc0f6": WITHOUT_WEIGHTS,
        "df0efe175f1a": WITHOUT_WEIGHTS,
    },
    "studies.boosted_fits": {
        "140c01e8e63c": (*SCORED_BY_UNCLIPPED_STEPS, *REPAIRED, *BEFORE_SURFACES),
        "c6e9f781d5d9": (*SCORED_BY_UNCLIPPED_STEPS, *REPAIRED, *BEFORE_SURFACES),
        "fd0acdd39217": (*SCORED_BY_UNCLIPPED_STEPS, *REPAIRED, *BEFORE_SURFACES),
        "0375a903b131": (*REPAIRED, *BEFORE_SURFACES),
        "c2759830c63d": (*REPAIRED, *BEFORE_SURFACES),
        "b50625cbfde3": (*REPAIRED, *BEFORE_SURFACES),
        "fe881693640d": (*REPAIRED, *BEFORE_SURFACES),
        "3f05dad7edde": (*REPAIRED, *BEFORE_SURFACES),
        "5341f905a90e": (*REPAIRED, *BEFORE_SURFACES),
        "543de08c37ff": FORESTS,
    },
    "studies.diprime_fits": {
        "78e53eb81a5f": (),
        "6747b761eebd": (),
        "bf025dd8efea": (),
        "70657c9ed5e6": (),
    },
}
"""Module -> digest -> texts of the cells that are old nevertheless."""


def gives_the_same(module: str, code: str, cell: Sequence[str]) -> bool:
    """Whether earlier code gives today's answer to a cell of a module's fits."""
    old = SAME_ANSWERS.get(module, {}).get(code)
    return old is not None and not any(text in value for text in old for value in cell)
