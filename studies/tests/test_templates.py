"""No number of a page is typed: what its words say is computed from rows and settings."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

STUDIES = Path(__file__).parents[1]
WORDS = ("page", "claims", "findings", "verdicts", "figures", "tables", "default", "words")
WORDS += ("one_screen",)
"""Modules that write sentences. Papers' numbers are data, in modules of their own."""
TEMPLATES = sorted(path for path in STUDIES.rglob("*.py") if path.stem in WORDS)

PLACES = r"(?:Figures?|Fig\.|Figs\.|Tables?|Algorithms?|Theorems?|[Ss]ections?|[Aa]ppendix|Panels?)"
ALLOWED = re.compile(
    rf"{PLACES} (?:[A-Z]\.)?\d+(?:\.\d+)*(?:(?:, | and | to |-)\d+)*"  # places in a paper
    r"|Credit [12]|KDD Cup 99"  # names of data sets
    r"|(?:docs|studies|benchmarks|tests)/\S+"  # files
    r"|\b(?:19|20)\d\d\b"  # years
    r"|^#+ \d+\."  # numbered headings
    r"|\b[A-Za-z]+\d+\w*|\b\w+_\w+"  # names: F1, R2, figure_3
    r"|\{[^{}]*\}",  # fields of templates
    re.MULTILINE,
)
DIGIT = re.compile(r"\d")


def typed_numbers(source: str) -> list[str]:
    """Sentences of a module with a digit that is in no name, place, file or field."""
    tree = ast.parse(source)
    silent = {id(node) for node in ast.walk(tree) for node in _silent(node)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in silent
        and " " in node.value.strip()
        and DIGIT.search(ALLOWED.sub("", node.value))
    ]


def _silent(node: ast.AST) -> list[ast.AST]:
    """Docstrings and format specifications, which no page shows."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return [node.value]
    if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
        return list(ast.walk(node.format_spec))
    return []


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_no_number_of_a_page_is_typed(path):
    assert typed_numbers(path.read_text(encoding="utf-8")) == []


def test_every_study_has_a_template_here():
    """Twin of the list: a page module with another name would go unread."""
    studies = {path.parent.name for path in STUDIES.glob("*/run.py")}
    assert studies <= {path.parent.name for path in TEMPLATES if path.stem == "page"}


@pytest.mark.parametrize(
    ("said", "is_typed"),
    [
        ('f"ours is {x:.3f} ahead"', False),
        ('"ours is 0.904, theirs 0.929"', True),
        ('f"ours is {x:.3f}, theirs .929"', True),
        ('"DP-ERT is ahead in 4 of 5 sets"', True),
        ('"Figure 3 and Tables 9 to 12 of the paper (2022); see docs/proofs/0050-x.md"', False),
        ('"the F1 of figure_3"', False),
        ('"epsilon {top:g} in all rows"', False),
    ],
)
def test_a_typed_number_is_seen(said, is_typed):
    """Twin: the grep finds what it is for, and lets names and places of a paper pass."""
    assert bool(typed_numbers(f"words = {said}")) is is_typed
