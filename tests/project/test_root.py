"""What stands at the root, what may not be committed, and what an sdist holds."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = {".gitignore", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md"}
FILES |= {".pre-commit-config.yaml", "REUSE.toml"}
FILES |= {"LICENSE", "Makefile", "README.md", "SECURITY.md", "constraints.txt", "pyproject.toml"}
FOLDERS = {".ci", ".github", "LICENSES", "benchmarks", "changelog.d", "docs", "examples"}
FOLDERS |= {"proofs", "r", "spec", "src"}
FOLDERS |= {"studies", "tests"}
SHIPPED = {"src", "tests", "spec", "README.md", "LICENSE", "CHANGELOG.md"}
ADDED = {"PKG-INFO", ".gitignore"}
"""By the build itself."""
SHIPPED |= {"CITATION.cff", "pyproject.toml", "constraints.txt", *ADDED}
MOST_BYTES = 1_500_000
SECRETS = ("site.key", "home/identity.key", "listener.pem", "authority.crt", "a/store.sqlite")
SECRETS += ("store.sqlite-wal", "home.anchor", "fits.sqlite", "home/audit.jsonl", ".env")


def git(*words: str) -> str:
    done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True)
    if done.returncode == 128:
        pytest.skip("no clone of the repository")
    return done.stdout


def strangers(names: list[str]) -> set[str]:
    """Entries of the root that nobody put there on purpose."""
    return {name.split("/")[0] for name in names} - FILES - FOLDERS


def test_the_root_holds_what_belongs_there_and_nothing_else():
    names = git("ls-files").split()
    assert strangers(names) == set()
    assert len({name.split("/")[0] for name in names}) <= 25


def test_a_file_that_a_command_left_at_the_root_would_be_seen():
    """Twin: names of pages of the site, and a folder that became a file."""
    assert strangers(["index.html", "decisions", "docs/index.md"]) == {"index.html", "decisions"}


@pytest.mark.parametrize("name", SECRETS)
def test_keys_vaults_and_ledgers_are_not_committed_by_mistake(name):
    assert git("check-ignore", name).strip() == name


def test_no_tracked_file_is_ignored():
    assert git("ls-files", "--cached", "--ignored", "--exclude-standard") == ""


def unlisted(names: list[str]) -> set[str]:
    """Top entries of an sdist beyond those that pyproject.toml includes."""
    return {name.split("/")[1] for name in names} - SHIPPED


def test_an_sdist_includes_what_it_must_and_nothing_else():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = settings["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert {f"/{name}" for name in SHIPPED - ADDED} == set(included)


@pytest.mark.slow
def test_an_sdist_holds_source_and_tests_and_is_small(tmp_path):
    command = [sys.executable, "-m", "build", "--sdist", "--outdir", str(tmp_path), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    (made,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(made) as sdist:
        names = [member.name for member in sdist.getmembers() if member.isfile()]
        sdist.extractall(tmp_path, filter="data")
    assert unlisted(names) == set()
    assert any(name.endswith("src/hedgerow/__init__.py") for name in names)
    assert made.stat().st_size <= MOST_BYTES
    (unpacked,) = tmp_path.glob("hedgerow-*/")
    for words in (["--collect-only"], ["tests/kernels", "tests/models", "tests/schema"]):
        command = [sys.executable, "-m", "pytest", "-n", "0", "-m", "not slow", *words]
        done = subprocess.run(command, cwd=unpacked, env=own_source(unpacked), capture_output=True)
        assert done.returncode == 0, done.stdout.decode()


def own_source(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(folder / "src")}


def test_results_in_an_sdist_would_be_seen():
    """Twin."""
    assert unlisted(["h-1/src/a.py", "h-1/docs/results/cells.csv"]) == {"docs"}


# --------------------------------------------------------------------------------------------------
# Fragments of the changelog have names and kinds that towncrier will find.
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
KINDS = [kind["directory"] for kind in PROJECT["tool"]["towncrier"]["type"]]
KEPT = {"README.md", "template.jinja"}


def is_fragment(name: str) -> bool:
    return re.fullmatch(rf"[\w-]+\.({'|'.join(KINDS)})\.md", name) is not None


def test_every_fragment_is_one():
    files = {path.name for path in (ROOT / "changelog.d").iterdir()} - KEPT
    assert [name for name in files if not is_fragment(name)] == []


@pytest.mark.parametrize("name", ["x.md", "x.features.md", "two words.fix.md", "x.fix.txt"])
def test_a_file_that_would_be_forgotten_is_seen(name):
    assert is_fragment("x.fix.md")
    assert not is_fragment(name)


def test_every_kind_is_told_to_people():
    page = (ROOT / "changelog.d/README.md").read_text(encoding="utf-8")
    assert all(f"`{kind}`" in page for kind in KINDS)
