"""The page of all parameters, from the estimators' declarations; made when the site is built."""

from __future__ import annotations

import re
from typing import Any

from hedgerow.methods.parameters import DeclaredParameter, declared_parameters
from hedgerow.methods.plan import OWN_METHODS
from hedgerow.methods.registry import estimators

HEAD = """# Parameters

For data scientists. Made from the declarations in `src/hedgerow/methods`.

A cell holds the default of the parameter in that family, and nothing where the family has no such
parameter. A *c* marks what only the classifier has, an *r* what only the regressor has. One word
means one thing in all of them. What each value does: `help(hedgerow.TreeClassifier)` and so on. A
parameter that the chosen method would not use raises.
"""


def page() -> str:
    stems = [name.removesuffix("Classifier").removesuffix("Regressor") for name in estimators()]
    known = {family: _parameters(family) for family in dict.fromkeys([*OWN_METHODS, *stems])}
    rows = [_row(name, known) for name in _names(known)]
    lines = [_line("parameter", *known, "what it is"), _line(*["---"] * (len(known) + 2))]
    return "\n".join([HEAD, *lines, *rows]) + "\n"


def _parameters(family: str) -> dict[str, tuple[DeclaredParameter, str]]:
    """By name: the declaration, and the mark of what only one of two estimators has."""
    classifier, regressor = (
        {p.name: p for p in declared_parameters(kind)}
        if (kind := estimators().get(family + task))
        else {}
        for task in ("" if family in estimators() else "Classifier", "Regressor")
    )
    if not (classifier and regressor):
        return {name: (p, "") for name, p in (classifier | regressor).items()}
    of_classes = {n: (p, _mark(p, regressor.get(n))) for n, p in classifier.items()}
    return of_classes | {n: (p, " *r*") for n, p in regressor.items() if n not in classifier}


def _mark(ours: DeclaredParameter, other: DeclaredParameter | None) -> str:
    if other is None:
        return " *c*"
    return "" if other.default == ours.default else f" *c*, {other.default!r} *r*"


def _names(known: dict[str, dict[str, Any]]) -> list[str]:
    """Those of most families first, in the order of their first declaration."""
    names = dict.fromkeys(name for family in known.values() for name in family)
    return sorted(names, key=lambda name: -sum(name in family for family in known.values()))


def _row(name: str, known: dict[str, dict[str, tuple[DeclaredParameter, str]]]) -> str:
    cells, words = [], ""
    for family in known.values():
        found, mark = family.get(name, (None, ""))
        cells.append(f"{found.default!r}{mark}" if found else "")
        words = words or (_first_words(found.text) if found else "")
    return _line(f"`{name}`", *cells, words)


def _first_words(text: str) -> str:
    return re.split(r"[.;] ", text, maxsplit=1)[0].rstrip(".").replace("|", "\\|")


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"
