"""What is shipped: the package alone, and it works where nothing else is installed."""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
QUIET = ("--quiet", "--disable-pip-version-check")

FIT = """
from importlib.util import find_spec
import numpy as np
import hedgerow as hr

X = np.linspace(0.0, 1.0, 40).reshape(20, 2)
schema = hr.Schema((hr.Numeric("a", 0.0, 1.0), hr.Numeric("b", 0.0, 1.0)), classes=(0, 1))
model = hr.TreeClassifier(schema, epsilon=1.0).fit(X, (X[:, 0] > 0.5).astype(int))
assert model.predict(X).shape == (20,)
strange = ("pandas", "matplotlib", "jinja2", "studies", "tests")
print([name for name in strange if find_spec(name)])
"""


def pip(python: Path | str, *words: str | Path) -> None:
    subprocess.run([str(python), "-m", "pip", *map(str, words), *QUIET], check=True)


def strangers(wheel: Path) -> list[str]:
    """Files of a wheel that are no part of the package, and no description of it."""
    source = ROOT / "src"
    with ZipFile(wheel) as shipped:
        files = [name for name in shipped.namelist() if ".dist-info/" not in name]
    return [name for name in files if not (source / name).is_file()]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    pip(sys.executable, "wheel", ROOT, "--no-deps", "--wheel-dir", out)
    return next(out.glob("hedgerow-*.whl"))


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    assert strangers(wheel) == []
    with ZipFile(wheel) as shipped:
        needed = {"__init__.py", "py.typed", "deployment/json_schemas/model.schema.json"}
        assert {f"hedgerow/{name}" for name in needed} <= set(shipped.namelist())


def test_an_experiment_in_a_wheel_would_be_seen(tmp_path):
    """Twin."""
    with ZipFile(tmp_path / "some.whl", "w") as shipped:
        for name in ("hedgerow/__init__.py", "studies/pages.py", "hedgerow-0.dist-info/RECORD"):
            shipped.writestr(name, "")
    assert strangers(tmp_path / "some.whl") == ["studies/pages.py"]


@pytest.mark.slow
def test_the_wheel_fits_a_model_in_an_empty_environment(wheel, tmp_path):
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty/bin/python"
    pip(python, "install", wheel, "-c", ROOT / "constraints.txt")
    # -I: nothing of this folder or of the caller's environment is seen.
    done = subprocess.run([python, "-I", "-c", FIT], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
    command = [tmp_path / "empty/bin/hedgerow", "demo"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Privacy statement" in done.stdout
