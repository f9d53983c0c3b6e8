"""`python docs/make_parameters.py` writes docs/parameters.md from the estimators' declarations."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import hedgerow as hr
from hedgerow.methods.parameters import Declared, declared

PAGE = Path(__file__).with_name("parameters.md")
FAMILIES = ("Tree", "Forest", "BoostedTrees", "HistogramTree", "TopDownTree", "ExtraTrees")
FAMILIES += ("ComponentBoosting", "MedianForest", "KaryForest")
HEAD = """# Parameters

For data scientists. Made by `python docs/make_parameters.py` from the declarations in
`src/hedgerow/methods`; a test compares.

A cell holds the default of the parameter in that family, and nothing where the family has no such
parameter. A *c* marks what only the classifier has, an *r* what only the regressor has. One word
means one thing in all of them. What each value does: `help(hedgerow.TreeClassifier)` and so on. A
parameter that the chosen method would not use raises.
"""


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")


def page() -> str:
    known = {family: _parameters(family) for family in FAMILIES}
    rows = [_row(name, known) for name in _names(known)]
    lines = [_line("parameter", *FAMILIES, "what it is"), _line(*["---"] * (len(FAMILIES) + 2))]
    return "\n".join([HEAD, *lines, *rows]) + "\n"


def _parameters(family: str) -> dict[str, tuple[Declared, str]]:
    """By name: the declaration, and the mark of what only one of two estimators has."""
    classifier, regressor = (
        {p.name: p for p in declared(kind)} if (kind := getattr(hr, family + task, None)) else {}
        for task in ("Classifier", "Regressor")
    )
    if not regressor:
        return {name: (p, "") for name, p in classifier.items()}
    of_classes = {n: (p, "" if n in regressor else " *c*") for n, p in classifier.items()}
    return of_classes | {n: (p, " *r*") for n, p in regressor.items() if n not in classifier}


def _names(known: dict[str, dict[str, Any]]) -> list[str]:
    """Those of most families first, in the order of their first declaration."""
    names = dict.fromkeys(name for family in known.values() for name in family)
    return sorted(names, key=lambda name: -sum(name in family for family in known.values()))


def _row(name: str, known: dict[str, dict[str, tuple[Declared, str]]]) -> str:
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


if __name__ == "__main__":
    main()
