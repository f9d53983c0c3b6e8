"""The committed pages: claims first, rows that are counted, files that are listed."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import pytest

from studies.files import SOURCES
from studies.needs import LISTED

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "docs" / "results"
PAPERS = ("gubler", "topdown", "boosted", "extra-trees", "diprime")


def rows(path):
    with path.open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.parametrize("name", PAPERS)
def test_a_papers_page_begins_with_its_claims(name):
    text = (RESULTS / name / "README.md").read_text(encoding="utf-8")
    assert re.search(r"^## (.*)$", text, re.MULTILINE)[1] == "What holds of the paper's claims"


@pytest.mark.parametrize("name", PAPERS)
def test_a_page_says_how_many_rows_each_code_has_made(name):
    """As many as the tables beside it hold; rows that its command does not ask for are no part."""
    text = (RESULTS / name / "README.md").read_text(encoding="utf-8")
    said = re.findall(r"(\d+) by code `(\w+)`", text)
    tables = [rows(path) for path in (RESULTS / name).glob("*.csv")]
    for n, code in said:
        found = sum(row.get("code") == code for table in tables for row in table)
        assert found >= int(n) > 0


@pytest.mark.parametrize("name", PAPERS)
def test_every_picture_of_a_page_is_there_and_no_other(name):
    text = (RESULTS / name / "README.md").read_text(encoding="utf-8")
    shown = set(re.findall(r"\]\((\w+\.png)\)", text))
    assert shown == {path.name for path in (RESULTS / name).glob("*.png")}


def test_the_page_of_files_lists_every_source():
    listed = rows(ROOT / LISTED)
    assert [row["name"] for row in listed] == list(SOURCES)
    assert all(re.fullmatch(r"[0-9a-f]{64}", row["sha256"]) for row in listed)
