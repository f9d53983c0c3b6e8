"""Tests mirror the package: a folder for each package, a file for each module."""

from __future__ import annotations

import ast
import re
from collections import Counter
from functools import cache
from pathlib import Path

from support.effort import statements

parsed = cache(ast.parse)
TESTS = Path(__file__).parents[1]
SOURCE = TESTS.parent / "src" / "hedgerow"
FILES = sorted(TESTS.glob("*/test_*.py"))
BESIDE = {"project", "support", "vectors", "mutants"}
"""Folders of no package: of the project as a whole, of what tests share, of stored bytes."""
FOLDER = {"": "project", "papers": "methods"}
"""Where tests of a package are that has no folder of its own."""
LONG = 60
"""Lines above which a module has a test file of its own."""
LISTED = """
    cli/demo.py cli/ledger.py cli/models.py cli/schema.py data/reading/lines.py
    data/scoring.py deployment/site_ledger.py federation/audit_log.py
    methods/common.py methods/sources.py
    models/joining.py models/validation.py privacy/ledger/file.py
    privacy/queries/groups.py privacy/queries/kinds.py report/evaluation.py
    report/exports/onnx.py report/exports/python.py report/exports/sql.py
    report/exports/xgboost.py report/page/data.py report/page/sections.py
    report/picture.py schema/candidates.py schema/features.py
    schema/formats.py schema/rules.py
"""
UNTESTED = frozenset(LISTED.split())
"""Modules that no file of their folder pins; others cover them. The list only shrinks."""
MOST_UNTESTED = 31
NEEDS_MARKER = {
    "browser": {"chromium"},
    "network": {"processes", "https", "calling", "flare_world", "flower_world", "HttpsExchange"},
}
"""Names that a test file imports only to drive a browser, or to start processes and sockets."""


def modules() -> list[Path]:
    """Long ones, below src/hedgerow."""
    paths = (path for path in SOURCE.rglob("*.py") if path.name != "__init__.py")
    long = (path for path in paths if len(path.read_text(encoding="utf-8").splitlines()) > LONG)
    return sorted(path.relative_to(SOURCE) for path in long)


def is_pinned(module: Path) -> bool:
    """By a file of its package's folder that has its name, or that imports it."""
    package = module.parts[0] if len(module.parts) > 1 else ""
    files = (TESTS / FOLDER.get(package, package)).glob("test_*.py")
    return any(f"_{module.stem}_" in f"{file.stem}_" or imports(file, module) for file in files)


def imports(file: Path, module: Path) -> bool:
    above, name = ".".join(("hedgerow", *module.parts[:-1])), module.stem
    whole = rf"^(from|import) {re.escape(above)}\.{name}\b"
    one = rf"^from {re.escape(above)} import [^\n]*\b{name}\b"
    return bool(re.search(f"{whole}|{one}", file.read_text(encoding="utf-8"), re.MULTILINE))


def marks(node: ast.AST) -> set[str]:
    """Names of markers anywhere below."""
    return set(re.findall(r"pytest\.mark\.(\w+)", ast.unparse(node)))


def marks_of_module(tree: ast.Module) -> set[str]:
    said = (node for node in tree.body if isinstance(node, ast.Assign))
    return set().union(*(marks(n) for n in said if ast.unparse(n.targets[0]) == "pytestmark"))


def unmarked_properties(source: str) -> list[str]:
    """Tests over drawn examples that do not say so."""
    tree = parsed(source)
    if "property" in marks_of_module(tree):
        return []
    tests = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    drawn = (t for t in tests if any(ast.unparse(d).startswith("given(") for d in t.decorator_list))
    return [t.name for t in drawn if "property" not in set().union(*map(marks, t.decorator_list))]


def missing_marker(source: str) -> set[str]:
    tree = parsed(source)
    nodes = (node for node in statements(tree) if isinstance(node, ast.ImportFrom))
    imported = {alias.name for node in nodes for alias in node.names}
    used = set(re.findall(r"pytest\.mark\.(\w+)", source))
    return {name for name, needs in NEEDS_MARKER.items() if imported & needs} - used


def test_every_long_module_has_a_test_file_or_is_a_known_exception():
    untested = {str(module) for module in modules() if not is_pinned(module)}
    assert sorted(untested - UNTESTED) == [], "write tests/PACKAGE/test_MODULE.py"
    assert sorted(UNTESTED - untested) == [], "it has a test file, or is gone: take it out"


def test_the_exceptions_only_shrink():
    assert len(UNTESTED) <= MOST_UNTESTED


def test_a_module_that_no_file_pins_would_be_seen():
    assert not is_pinned(Path("privacy/no_such_module.py"))
    assert is_pinned(Path("privacy/admission.py"))


def test_folders_of_tests_are_packages():
    folders = {path.name for path in TESTS.iterdir() if any(path.glob("*.py"))}
    packages = {path.parent.name for path in SOURCE.glob("*/__init__.py")} - set(FOLDER)
    assert folders - BESIDE == packages


def test_no_two_files_have_one_name():
    names = Counter(path.name for path in TESTS.rglob("*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_markers_say_what_a_test_needs():
    sources = {path.name: path.read_text(encoding="utf-8") for path in FILES}
    assert {name: said for name in sources if (said := unmarked_properties(sources[name]))} == {}
    assert {name: said for name in sources if (said := missing_marker(sources[name]))} == {}


def test_a_missing_marker_would_be_seen():
    drawn = "@given(x=st.integers())\ndef test_it(x): ...\n"
    assert unmarked_properties(drawn) == ["test_it"]
    assert unmarked_properties("@pytest.mark.property\n" + drawn) == []
    assert unmarked_properties("pytestmark = pytest.mark.property\n" + drawn) == []
    assert missing_marker("from support.browser import chromium") == {"browser"}


def repeated(paths: list[Path]) -> set[str]:
    """File names that stand more than once in one package."""
    names = Counter((path.parts[0], path.name) for path in paths if path.name != "__init__.py")
    return {name for (_, name), count in names.items() if count > 1}


def test_a_module_s_name_is_its_own_within_its_package():
    assert repeated([path.relative_to(SOURCE) for path in SOURCE.rglob("*.py")]) == set()
    assert repeated([Path("a/b.py"), Path("a/c/b.py"), Path("d/b.py")]) == {"b.py"}
