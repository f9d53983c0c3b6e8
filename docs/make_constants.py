"""The page of all tuned numbers, read from the calls of `constant`; made when the site is built."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import zip_longest
from pathlib import Path
from typing import NamedTuple

from hedgerow.methods.constants import CHOSEN

ROOT = Path(__file__).parents[1]
METHODS = ROOT / "src/hedgerow/methods"
NOTES = "studies/notes/"
HEAD = """# Tuned numbers

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
        page = self.evidence.partition("#")[0]
        return page if page.startswith("docs/") else NOTES + page


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


def page() -> str:
    rows, file = [], ""
    for one in constants():
        if one.file != file:
            rows.append(f"| **{one.file}** | | | |")
        file = one.file
        rows.append(f"| `{one.name}` | {one.value} | {one.unit} | {one.evidence} |")
    return HEAD + "\n".join(rows) + "\n"
