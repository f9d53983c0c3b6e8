"""docs/privacy.md and the list of attacks name a test for every line, and each of them exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
DOCS = TESTS.parent / "docs"
PAGES = {
    path.name: path.read_text(encoding="utf-8")
    for path in (DOCS / "privacy.md", DOCS / "attacks.md")
}
HEAD = re.compile(r"(shown|seen) by \|$")
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")


def missing(page: str) -> list[str]:
    """Named tests that do not exist."""
    return [f"{file}::{name}" for file, name in NAMED.findall(page) if name not in defined_in(file)]


def defined_in(file: str) -> set[str]:
    path = TESTS / file
    if not path.exists():
        return set()
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def rows_without_a_test(page: str) -> list[str]:
    """Rows of tables, heads and rules aside, whose last cell names nothing."""
    rows = [line for line in page.splitlines() if line.startswith("|") and set(line) - set("|-")]
    return [row for row in rows if not HEAD.search(row) and not NAMED.search(row.split("|")[-2])]


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_every_test_that_a_page_names_exists(page):
    assert len(NAMED.findall(page)) > 30
    assert missing(page) == []


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_every_row_of_a_page_names_a_test(page):
    assert rows_without_a_test(page) == []


@pytest.mark.parametrize("name", ["project/test_privacy_page.py::test_no", "unit/no.py::test_no"])
def test_a_name_that_no_test_has_would_be_seen(name):
    assert missing(f"| a guarantee | `{name}` |") == [name]
    assert rows_without_a_test("| a guarantee | somewhere |") == ["| a guarantee | somewhere |"]
