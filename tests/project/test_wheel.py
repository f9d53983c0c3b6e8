"""What is shipped: the package alone, and it works where nothing else is installed."""

from __future__ import annotations

import re
import subprocess
import sys
import venv
from pathlib import Path
from zipfile import ZipFile

import pytest
import yaml

from docs.release_check import PROJECT, lock_lines, placeholders
from hedgerow.kernels.build import build
from hedgerow.version import __version__

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
        compiled = {f"hedgerow/kernels/{path.name}" for path in build()}
        assert compiled <= set(shipped.namelist())
    assert "-py3-none-" in wheel.name  # of one platform, and every version of Python
    assert not wheel.name.endswith("-any.whl")


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


# --------------------------------------------------------------------------------------------------
# What a release needs and no other test reads: workflows, recipe, metadata, lock.
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
PINNED = re.compile(r"[\w./-]+@[0-9a-f]{40}")


def unpinned(text: str) -> list[str]:
    """Actions that are named by a tag, which somebody may move."""
    named = re.findall(r"uses: (\S+)", text)
    return [name for name in named if not PINNED.fullmatch(name)]


def too_powerful(workflow: dict) -> list[str]:
    """Jobs that do not say what they may do, in a workflow that may do nothing by itself."""
    jobs = [name for name, job in workflow["jobs"].items() if "permissions" not in job]
    return jobs if workflow.get("permissions") == {} else ["workflow", *jobs]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_names_actions_by_their_hash_and_says_what_it_may_do(path):
    text = path.read_text(encoding="utf-8")
    assert unpinned(text) == []
    assert too_powerful(yaml.safe_load(text)) == []


def test_a_moving_tag_or_a_job_that_may_do_everything_would_be_seen():
    assert unpinned("- uses: actions/checkout@v4") == ["actions/checkout@v4"]
    assert too_powerful({"jobs": {"a": {}}}) == ["workflow", "a"]


def test_recipe_and_citation_are_of_this_release_and_ask_for_the_same():
    recipe = (ROOT / ".github/recipe.yaml").read_text(encoding="utf-8")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert f'version: "{__version__}"' in recipe
    assert citation["version"] == __version__
    needed = {line.replace(">=", " >=") for line in PROJECT["project"]["dependencies"]}
    run = yaml.safe_load(recipe)["requirements"]["run"]
    assert set(run) - {"python >=3.11"} == needed


def test_wheels_are_built_for_every_system_that_is_named_and_conda_has_a_compiler():
    names = {line for line in PROJECT["project"]["classifiers"] if "Operating System" in line}
    release = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"))
    systems = release["jobs"]["wheels"]["strategy"]["matrix"]["system"]
    assert {name.split("-")[0] for name in systems} == {"ubuntu", "macos", "windows"}
    assert {name.split(" :: ")[-1] for name in names} == {"Linux", "MacOS", "Windows"}
    assert set(release["jobs"]["publish"]["needs"]) == {"check", "wheels"}
    recipe = yaml.safe_load((ROOT / ".github/recipe.yaml").read_text(encoding="utf-8"))
    assert "noarch" not in recipe["build"]
    assert "compiler(" in str(recipe["requirements"]["build"])


def test_every_supported_python_is_tested():
    said = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))
    ci = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    assert ci["jobs"]["test"]["strategy"]["matrix"]["python"] == said


def test_the_license_is_one_text():
    assert (ROOT / "LICENSES/Apache-2.0.txt").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_addresses_stand_in_one_place():
    names = placeholders()
    (author,) = PROJECT["project"]["authors"]
    assert author["email"] in (ROOT / "r/DESCRIPTION").read_text(encoding="utf-8"), "R has its own"
    assert len(names) in (0, len(PROJECT["project"]["urls"]) + 1)
    tracked = [*ROOT.glob("*.md"), *(ROOT / ".github").rglob("*"), *(ROOT / "docs").glob("*.md")]
    texts = {p.name: p.read_text(encoding="utf-8") for p in tracked if p.is_file()}
    assert [name for name, text in texts.items() if "hedgerow.invalid" in text] == []


def test_a_lock_has_a_hash_for_every_distribution():
    report = {
        "install": [
            {
                "metadata": {"name": name, "version": "1"},
                "download_info": {"archive_info": {"hashes": {"sha256": "ab"}}},
            }
            for name in ("Rich", "numpy")
        ]
    }
    assert lock_lines(report) == ["numpy==1 --hash=sha256:ab", "rich==1 --hash=sha256:ab"]
    del report["install"][0]["download_info"]["archive_info"]["hashes"]["sha256"]
    with pytest.raises(KeyError):
        lock_lines(report)
