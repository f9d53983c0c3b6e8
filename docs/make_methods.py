"""Pages about methods, made when the site is built: all parameters and all tuned numbers."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from hedgerow.methods.constants import CHOSEN
from hedgerow.methods.parameters import DeclaredParameter, declared_parameters
from hedgerow.methods.plan import OWN_METHODS
from hedgerow.methods.registry import estimators

# --------------------------------------------------------------------------------------------------
# The page of all parameters, from the estimators' declarations; made when the site is built.
PARAMETERS_HEAD = """# Parameters

For data scientists. Made from the declarations in `src/hedgerow/methods`.

A cell holds the default of the parameter in that family, and nothing where the family has no such
parameter. A *c* marks what only the classifier has, an *r* what only the regressor has. One word
means one thing in all of them. What each value does: `help(hedgerow.TreeClassifier)` and so on. A
parameter that the chosen method would not use raises.
"""


def parameters_page() -> str:
    stems = [name.removesuffix("Classifier").removesuffix("Regressor") for name in estimators()]
    known = {family: _parameters(family) for family in dict.fromkeys([*OWN_METHODS, *stems])}
    rows = [_row(name, known) for name in _names(known)]
    lines = [_line("parameter", *known, "what it is"), _line(*["---"] * (len(known) + 2))]
    return "\n".join([PARAMETERS_HEAD, *lines, *rows]) + "\n"


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


# --------------------------------------------------------------------------------------------------
# The page of all tuned numbers, read from the calls of `constant`; made when the site is built.
ROOT = Path(__file__).parents[1]
METHODS = ROOT / "src/hedgerow/methods"
NOTES = "studies/notes/"
CONSTANTS_HEAD = """# Tuned numbers

For researchers who ask where a number comes from. Made from the calls of `constant` in
`src/hedgerow/methods`.

A note (`studies/notes`) beside a number names it or tells what it decides; whether the number was
varied, the note says. A number without a note was chosen, not measured.

| name | value | what it is | evidence |
|---|---|---|---|
"""


class Constant(NamedTuple):
    """One call of `constant`, with the sentence below it if there is one."""

    file: str
    name: str
    value: str
    unit: str
    evidence: str

    @property
    def source(self) -> str:
        """The file that the evidence stands in, from the root of the repository."""
        constants_page = self.evidence.partition("#")[0]
        return constants_page if constants_page.startswith("docs/") else NOTES + constants_page


def constants() -> Iterator[Constant]:
    for path in sorted(METHODS.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        body = ast.parse(text).body
        for node, below in zip_longest(body, body[1:]):
            match node:
                case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                    if ast.unparse(call.func) != "constant":
                        continue
                    words = {str(k.arg): ast.literal_eval(k.value) for k in call.keywords}
                    value, file = ast.unparse(call.args[0]), str(path.relative_to(METHODS))
                    unit = _sentence(below) or words["unit"]
                    unit = unit[0].upper() + unit[1:].rstrip(".")
                    yield Constant(file, name, value, unit, words.get("evidence", CHOSEN))


def _sentence(node: ast.stmt | None) -> str:
    match node:
        case ast.Expr(value=ast.Constant(value=str(text))):
            return text
    return ""


def constants_page() -> str:
    rows, file = [], ""
    for one in constants():
        if one.file != file:
            rows.append(f"| **{one.file}** | | | |")
        file = one.file
        rows.append(f"| `{one.name}` | {one.value} | {one.unit} | {one.evidence} |")
    return CONSTANTS_HEAD + "\n".join(rows) + "\n"
