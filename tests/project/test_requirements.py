"""The package asks for what it imports, and for nothing else."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import hedgerow
from docs.make_pages import STUB, stub
from hedgerow import errors
from support.effort import statements, syntax_of

ROOT = Path(__file__).parents[2]
PRODUCT = ROOT / "src/hedgerow"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
CORE = PROJECT["dependencies"]
PARTS = ("plot", "frames", "check", "onnx", "https", "flare", "flower", "sql", "dask", "excel")
OPTIONAL = [line for extra in PARTS for line in EXTRAS[extra]]
FOR_STUDIES = (ROOT / "studies/requirements.txt").read_text(encoding="utf-8").split("\n")
OWN = {
    "hedgerow",
    "studies",
    "benchmarks",
    "examples",
    "docs",
    "proofs",
    "spec",
    *(path.stem for path in (ROOT / "tests").rglob("*")),
}
SOLD_AS = {
    "adbc_driver_postgresql": "adbc-driver-postgresql",
    "axe_core_python": "axe-core-python",
    "sklearn": "scikit-learn",
    "sksurv": "scikit-survival",
    "dp_accounting": "dp-accounting",
    "xgboost": "xgboost-cpu",
    "yaml": "pyyaml",
}
"""Modules whose distribution has another name."""
ENGINES = {PRODUCT / f"federation/transports/{name}.py" for name in ("flare", "flower_app")}
"""Files that are imported by functions alone, and only where their engine is installed."""


def names(requirements: Iterable[str]) -> set[str]:
    """Distributions named by lines of requirements; comments and our own extras are none."""
    found = (re.match(r"[\w-]+", line) for line in requirements if not line.startswith("hedgerow"))
    return {match[0] for match in found if match}


def modules(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


def bought(nodes: Iterable[ast.AST]) -> set[str]:
    """Distributions that imports among these nodes need."""
    tops = {module.partition(".")[0] for module in modules(nodes)}
    return {SOLD_AS.get(top, top) for top in tops - OWN - sys.stdlib_module_names}


def parsed(folder: Path) -> Iterator[ast.Module]:
    return map(syntax_of, folder.rglob("*.py"))


def parsed_at_once(folder: Path) -> Iterator[ast.Module]:
    paths = (path for path in folder.rglob("*.py") if path not in ENGINES)
    return map(syntax_of, paths)


def imported(folder: Path) -> set[str]:
    """Anywhere, also inside functions."""
    return {name for tree in parsed(folder) for name in bought(statements(tree))}


def imported_at_once(folder: Path) -> set[str]:
    """By modules as they load, not by functions as they are called."""
    return {name for tree in parsed_at_once(folder) for name in bought(tree.body)}


def mismatch(folder: Path, core: Iterable[str], optional: Iterable[str]) -> set[str]:
    """What is imported and not asked for, asked for and not imported, or optional and not late."""
    late = names(optional)
    return (imported(folder) ^ (names(core) | late)) | (imported_at_once(folder) & late)


def test_the_package_asks_for_exactly_what_it_imports():
    assert mismatch(PRODUCT, CORE, OPTIONAL) == set()


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import numpy", {"rich"}),
        ("import numpy, rich, scipy.stats", {"scipy"}),
        ("import numpy, rich\ndef late():\n    from pandas import NA", {"pandas"}),
        ("import numpy, rich, matplotlib", {"matplotlib"}),
    ],
)
def test_a_requirement_too_many_too_few_or_too_early_is_seen(tmp_path, source, found):
    """Twin: one file that imports other things than it asks for."""
    (tmp_path / "some.py").write_text(source, encoding="utf-8")
    plot = ["matplotlib>=3.8"] if "matplotlib" in source else []
    assert mismatch(tmp_path, ["numpy>=1.26", "rich"], plot) == found


def test_what_tests_import_is_installed_for_them():
    assert imported(ROOT / "tests") <= names([*CORE, *OPTIONAL, *EXTRAS["dev"], *EXTRAS["docs"]])


def test_what_studies_import_is_in_their_own_list():
    ready = names([*CORE, *FOR_STUDIES])
    run = {name for tree in parsed_studies() for name in bought(statements(tree))}
    assert names(FOR_STUDIES) <= run <= ready
    assert imported(ROOT / "studies/tests") <= ready | names(EXTRAS["dev"])


def parsed_studies() -> Iterator[ast.Module]:
    """Without their tests, which have what all tests have."""
    paths = (
        path
        for path in (ROOT / "studies").rglob("*.py")
        if "tests" not in path.relative_to(ROOT).parts
    )
    return map(syntax_of, paths)


FIT = """
import sys
sys.modules["pandas"] = sys.modules["matplotlib"] = None
import numpy as np
import hedgerow as hr

X = np.array([[0.1, 1.0], [0.9, 2.0], [0.4, 3.0], [0.8, 4.0]] * 5)
schema = hr.Schema((hr.Numeric("a", 0.0, 1.0), hr.Numeric("b", 0.0, 5.0)), classes=(0, 1))
model = hr.TreeClassifier(schema, epsilon=1.0).fit(X, (X[:, 0] > 0.5).astype(int))
assert model.predict(X).shape == (20,)
blocked = [name for name in ("pandas", "matplotlib") if sys.modules[name] is not None]
assert blocked == []
"""


def run(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


def test_a_numpy_array_is_fitted_where_there_is_no_pandas():
    """Scikit-learn itself needs SciPy, so that one cannot be missing."""
    done = run(FIT)
    assert done.returncode == 0, done.stderr


def test_a_fit_that_needs_pandas_would_be_seen():
    """Twin."""
    done = run(FIT.replace("import numpy as np", "import numpy as np, pandas"))
    assert done.returncode != 0
    assert "pandas" in done.stderr


COMMANDS = """
import sys
import hedgerow.cli.main
print(*{"sklearn", "pyarrow", "rich.table", "hedgerow.methods"} & set(sys.modules))
"""


def test_the_command_starts_without_what_only_a_fit_needs():
    """`hedgerow --help` takes a quarter of a second; with all learners it would take several."""
    done = run(COMMANDS)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""


# --------------------------------------------------------------------------------------------------
# What `import hedgerow` offers: all that a user needs, nothing heavy before it is used.
NEEDED = {
    "Hashed",
    "Spacing",
    "BloomRandomizedResponse",
    "Policy",
    "PrivacyWarning",
    "SignalWarning",
    "load",
}


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
    told = STUB.read_text(encoding="utf-8")
    assert told == stub()
    assert {a.name for n in ast.walk(ast.parse(told)) for a in getattr(n, "names", ())} == {
        *hedgerow.__all__,
        "SimpleNamespace",
        "mlflow",
    }


def modules_after(line):
    shown = subprocess.run(
        [sys.executable, "-c", f"import sys; {line}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(shown.stdout.split())


def test_importing_hedgerow_loads_nothing_heavy():
    heavy = {"numpy", "sklearn", "pandas", "pyarrow", "cryptography"}
    assert not modules_after("import hedgerow") & heavy
    assert not modules_after("import hedgerow; hedgerow.DataError") & heavy
    assert "numpy" in modules_after("import hedgerow; hedgerow.TreeClassifier")


def test_an_unknown_name_is_an_attribute_error():
    for name in ("TreeClasifier", "ForrestRegressor", "warn", "Path"):
        assert not hasattr(hedgerow, name)
