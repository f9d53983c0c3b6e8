"""What `import hedgerow` offers: all that a user needs, nothing heavy before it is used."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import hedgerow
from hedgerow import errors

NEEDED = {"Hashed", "Spacing", "BloomReports", "Policy", "PrivacyWarning", "SignalWarning", "load"}


def test_every_name_is_there_and_sorted_once():
    assert sorted(set(hedgerow.__all__)) == sorted(hedgerow.__all__)
    assert set(hedgerow.__all__) >= NEEDED
    assert set(dir(hedgerow)) >= set(hedgerow.__all__)
    for name in hedgerow.__all__:
        assert getattr(hedgerow, name).__name__ == name


def test_every_error_is_among_them():
    ours = [
        name
        for name, kind in vars(errors).items()
        if inspect.isclass(kind) and issubclass(kind, Exception)
    ]
    assert len(ours) > 10
    assert set(ours) <= set(hedgerow.__all__)


def test_type_checkers_are_told_of_the_same_names():
    tree = ast.parse(Path(hedgerow.__file__).read_text(encoding="utf-8"))
    (block,) = (node for node in tree.body if isinstance(node, ast.If))
    lines = [line for line in block.body if isinstance(line, ast.ImportFrom)]
    told = {alias.name for line in lines for alias in line.names} - {"SimpleNamespace"}
    assert told == set(hedgerow.__all__)


def modules_after(line):
    shown = subprocess.run(
        [sys.executable, "-c", f"import sys; {line}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(shown.stdout.split())


def test_importing_hedgerow_loads_nothing_heavy():
    heavy = {"numpy", "numba", "sklearn", "pandas", "pyarrow", "cryptography"}
    assert not modules_after("import hedgerow") & heavy
    assert not modules_after("import hedgerow; hedgerow.DataError") & heavy
    assert "numpy" in modules_after("import hedgerow; hedgerow.TreeClassifier")


def test_an_unknown_name_is_an_attribute_error():
    assert not hasattr(hedgerow, "TreeClasifier")
