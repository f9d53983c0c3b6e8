"""`--quick` of every study runs from files to page, and touches nothing that is kept.

Needs the data folder (HEDGEROW_DATA); some rows of each file are enough to see that it runs.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from studies.__main__ import app
from studies.datasets import FOLDER_VARIABLE
from studies.kept import ARCHIVES, WORK

ROWS = 600
NAMES = sorted(
    command.name or ""
    for command in app.registered_commands
    if command.callback is not None and "quick" in command.callback.__annotations__
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = os.environ.get(FOLDER_VARIABLE)
    if not place:
        pytest.skip(f"{FOLDER_VARIABLE} names no folder of data files")
    few = tmp_path_factory.mktemp("data")
    for path in Path(place).glob("*.parquet"):
        rows = pd.read_parquet(path)
        rows.sample(min(ROWS, len(rows)), random_state=0).to_parquet(few / path.name)
    return few


def kept_files():
    files = (path for kept in (ARCHIVES, WORK) for path in kept.rglob("*") if path.is_file())
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def test_the_names_are_all_studies_that_can_be_quick():
    assert {"boosted", "diprime", "extra-trees", "gubler", "ours", "topdown"} <= set(NAMES)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_quick_study_makes_its_page_and_touches_nothing_that_is_kept(name, folder, tmp_path):
    before = kept_files()
    command = [sys.executable, "-m", "studies", name, "--quick", "--workers", "2"]
    where = ["--data", str(folder), "--out", str(tmp_path / "out")]
    done = subprocess.run([*command, *where], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert list(tmp_path.rglob("*.md"))
    assert kept_files() == before
