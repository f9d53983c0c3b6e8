"""Fragments of the changelog have names and kinds that towncrier will find."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
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
