"""The R package: its own tests, its vignette and its page, by a real R."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "r"
NEEDED = ("reticulate", "testthat", "knitr")
RUN_TESTS = """
library(hedgerow)
testthat::test_dir(commandArgs(TRUE)[1], package = "hedgerow", load_package = "installed",
                   stop_on_failure = TRUE, reporter = "summary")
"""
RUN_VIGNETTE = """
knitr::opts_chunk$set(error = FALSE)
cat(readLines(knitr::knit(commandArgs(TRUE)[1], output = tempfile(), quiet = TRUE)), sep = "\\n")
"""


def test_the_two_packages_have_one_version():
    said = re.search(r"^Version: (.*)$", (PACKAGE / "DESCRIPTION").read_text("utf-8"), re.M)
    version = (ROOT / "src/hedgerow/version.py").read_text(encoding="utf-8")
    assert said is not None
    assert f'"{said[1]}"' in version
    assert tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["dynamic"]


def test_every_exported_name_is_documented():
    exported = re.findall(r"^export\((.*)\)$", (PACKAGE / "NAMESPACE").read_text("utf-8"), re.M)
    manual = (PACKAGE / "man/hedgerow.Rd").read_text(encoding="utf-8")
    assert len(exported) >= 8
    assert [name for name in exported if f"\\alias{{{name}}}" not in manual] == []


@pytest.fixture(scope="module")
def library(tmp_path_factory) -> Path:
    """A library of R with the package in it."""
    if shutil.which("R") is None:
        pytest.skip("R is not installed: apt-get install r-base-core")
    asked = f"cat(all(sapply(c{NEEDED!r}, requireNamespace, quietly = TRUE)))"
    if subprocess.run(["Rscript", "-e", asked], capture_output=True, text=True).stdout != "TRUE":
        pytest.skip(f"R lacks one of {NEEDED}: apt-get install r-cran-reticulate and the others")
    folder = tmp_path_factory.mktemp("library")
    command = ["R", "CMD", "INSTALL", "--no-test-load", f"--library={folder}", str(PACKAGE)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def rscript(library: Path, code: str, *words: Path) -> subprocess.CompletedProcess[str]:
    """What R says, with this very Python behind it."""
    more = {
        "R_LIBS": str(library),
        "RETICULATE_PYTHON": sys.executable,
        "PYTHONPATH": str(ROOT / "src"),
    }
    command = ["Rscript", "-e", code, *map(str, words)]
    return subprocess.run(command, env=os.environ | more, capture_output=True, text=True)


@pytest.mark.slow
def test_the_tests_of_the_package_pass(library):
    done = rscript(library, RUN_TESTS, PACKAGE / "tests")
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
def test_a_test_that_fails_is_seen(library, tmp_path):
    source = 'test_that("it", expect_error(schema(a = c(0, 1), classes = c("a", "b"))))'
    (tmp_path / "test-wrong.R").write_text(source, encoding="utf-8")
    done = rscript(library, RUN_TESTS, tmp_path)
    assert done.returncode != 0


@pytest.mark.slow
def test_the_vignette_runs_and_shows_the_statement(library):
    done = rscript(library, RUN_VIGNETTE, PACKAGE / "vignettes/hedgerow.Rmd")
    assert done.returncode == 0, done.stderr
    assert "Privacy statement" in done.stdout


@pytest.mark.slow
def test_the_page_runs(library):
    page = (ROOT / "docs/howto/r.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```r\n(.*?)```", page, re.S)
    assert len(blocks) == 2
    done = rscript(library, "\n".join([*blocks, "cat(names(prediction))"]))
    assert done.returncode == 0, done.stderr
    assert "rowId value evaluationType outcomeCount" in done.stdout
