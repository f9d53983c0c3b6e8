"""Every tuned number of a method says its unit and where it was measured."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from docs.make_methods import METHODS, ROOT, constants, constants_page
from hedgerow.methods.constants import CHOSEN, constant

STRUCTURAL = {
    "NOWHERE": "no node",
    "NO_SPLIT": "no feature",
    "TINY": "keeps a division from zero",
    "LEAST_GAIN": "a gain that is not zero",
    "EDGES": "follow from one side of them",
    "MOST_BOUGHT_DEPTH": "follows from the leaves of a tree",
    "QUERY": "follows from the bytes of a definition",
    "DRAWS": "a fact of regions",
    "SPARE_BINS": "a fact of even grids",
    "PUBLISHED_SENSITIVITY": "a fact of the paper",
    "FORMAT_VERSION": "a name",
    "OLDEST_VERSION": "a name",
    "HEAD": "a fact of the file",
    "CERTAIN": "log-odds whose chance is 0 to the last bit that counts",
    "PART_BY_PART": "a norm of the paper",
    "LINE_WIDTH": "of docstrings",
    "HALF_A_DIGEST": "a fact of older files",
    "GRID_LETTERS": "a fact of older files",
}
"""Numbers that nobody could tune."""


def is_number(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=value):
            return type(value) in (int, float)
        case ast.UnaryOp(operand=inner):
            return is_number(inner)
        case ast.BinOp(left=left, right=right):
            return is_number(left) or is_number(right)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return any(map(is_number, parts))
        case ast.Call(func=ast.Name(id="Fraction" | "float" | "int")):
            return True
    return False


def bare_numbers(text: str) -> list[str]:
    """Names that a file binds to a number without saying what it is."""
    bound: list[str] = []
    for node in ast.parse(text).body:
        match node:
            case ast.Assign(targets=targets, value=value) if is_number(value):
                bound += [n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name)]
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                bound += [name] * is_number(value)
    return bound


def test_no_number_of_a_method_stands_bare():
    files = sorted(METHODS.rglob("*.py"))
    bound = [name for path in files for name in bare_numbers(path.read_text(encoding="utf-8"))]
    assert sorted(bound) == sorted(STRUCTURAL)


@pytest.mark.parametrize(
    "line", ["GATE = 3.0", "A, B = 1, 2", "PART = Fraction(1, 2)", "N: int = -(2**4)", "G = (1, 2)"]
)
def test_a_bare_number_is_seen(line):
    """Twin."""
    assert bare_numbers(line)
    assert not bare_numbers(f"X = constant({line.partition('= ')[2]}, unit='rows')")


@cache
def anchors(source: str) -> set[str]:
    text = (ROOT / source).read_text(encoding="utf-8")
    return {"", *re.findall(r'<a id="(\w+)">', text)}


def test_evidence_is_there_or_is_said_to_be_missing():
    known = list(constants())
    assert len(known) > 100
    for one in known:
        assert one.unit
        if one.evidence != CHOSEN:
            assert one.evidence.partition("#")[2] in anchors(one.source), one
    assert "#0156" not in anchors("studies/notes/trees.md")


def test_the_page_names_every_constant_and_a_constant_is_its_value():
    made = constants_page()
    assert all(f"| `{one.name}` | {one.value} |" in made for one in constants())
    assert constant((1, 2), unit="rows") == (1, 2)
