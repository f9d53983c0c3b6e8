"""What is kept of studies: archives, numbers that are quoted, and pages that quote no others."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import asdict, replace
from pathlib import Path
from zipfile import ZipFile

import pytest

from studies import evidence, kept
from studies.__main__ import STUDIES, Order
from studies.data_files import LISTED, SOURCES
from studies.evidence import FILE, Entry, stored
from studies.evidence_pages import PAGES, RESULTS, SECTIONS, draw, write_full_pages
from studies.harness import Computation
from studies.planned import measured

MOST_WORDS, MOST_BYTES, MOST_OF_A_FIGURE = 350, 130_000, 20_000
SLOW = {"consul", "maddock", "wang"}
"""Pages whose numbers take seconds."""
PAPERS = ("gubler", "topdown", "boosted", "extra-trees", "diprime")
ARCHIVES = sorted(path.stem for path in kept.ARCHIVES.glob("*.zip"))


def sections():
    return [
        pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [], id=name)
        for name in SECTIONS
    ]


# ------------------------------------------------------------------------------------- the numbers
@pytest.mark.parametrize("name", sections())
def test_the_numbers_of_a_page_are_what_the_archives_say(name):
    quoted = [entry for entry in stored() if entry.parts[0] == name]
    assert quoted
    computed = [Entry(**json.loads(json.dumps(asdict(one)))) for one in SECTIONS[name]()]
    assert computed == quoted, "run `python -m studies evidence`"


def test_a_number_is_quoted_once_with_all_that_says_where_it_is_from():
    entries = stored()
    assert len(entries) > 700
    assert len({entry.id for entry in entries}) == len(entries)
    assert all(entry.n > 0 and entry.unit and entry.command for entry in entries)
    assert {entry.study for entry in entries} <= {*ARCHIVES, "benchmarks"}
    assert FILE.stat().st_size <= MOST_BYTES


# --------------------------------------------------------------------------------------- the pages
@pytest.mark.parametrize("name", PAGES)
def test_a_page_of_results_is_one_screen_and_quotes_the_numbers_alone(name):
    text = (RESULTS / f"{name}.md").read_text(encoding="utf-8")
    assert text == PAGES[name](stored()), "run `python -m studies evidence`"
    assert len(text.split()) <= MOST_WORDS
    assert f"(figures/{name}.svg)" in text
    assert text.rstrip().splitlines()[-1].startswith("Numbers: `docs/evidence.json`")


@pytest.mark.parametrize("name", PAGES)
def test_the_leading_figure_is_drawn_from_the_numbers_and_small(name, tmp_path):
    draw(name, stored(), tmp_path / "again.svg")
    drawn = RESULTS / "figures" / f"{name}.svg"
    assert drawn.read_bytes() == (tmp_path / "again.svg").read_bytes()
    assert drawn.stat().st_size <= MOST_OF_A_FIGURE


def test_no_other_page_of_results_is_kept():
    assert {path.stem for path in RESULTS.rglob("*.md")} == {*PAGES, "index"}
    assert {path.stem for path in RESULTS.rglob("*.svg")} == {*PAGES}


def test_a_number_that_was_changed_by_hand_would_be_seen():
    """Twin."""
    entries = stored()
    place = next(k for k, one in enumerate(entries) if one.parts[-1] == "hedgerow, one site")
    changed = [*entries[:place], replace(entries[place], value=0.999), *entries[place + 1 :]]
    assert PAGES["ours"](changed) != (RESULTS / "ours.md").read_text(encoding="utf-8")


def test_the_commands_of_the_index_name_files_and_tables():
    lines = (RESULTS / "index.md").read_text(encoding="utf-8").splitlines()
    rows = [line.split("|")[1:4] for line in lines if line.startswith("|") and "test_" in line]
    assert len(rows) > 10
    for _, held, command in rows:
        for file in re.findall(r"`(test_\w+\.py)`", held):
            assert (kept.ROOT / "tests/methods" / file).is_file()
        name, *tables = re.split(r" --only ", command.strip("`"))
        archive = kept.archived(name if name in STUDIES else name.replace("-", "_"))
        assert {f"{table}.csv" for table in tables} <= set(archive.names())
        assert name in STUDIES


def test_a_stored_id_leaves_out_what_the_line_above_has(tmp_path, monkeypatch):
    monkeypatch.setattr(evidence, "FILE", tmp_path / "evidence.json")
    origin = ("verdict", "study", "table", "code", "command")
    ids = ("a / b / c", "a / b / d", "a / e / d", "a / b / d / f", "b / b")
    entries = [Entry(name, 1.0, None, None, 1, *origin) for name in ids]
    evidence.store(entries)
    assert '"== / d"' in evidence.FILE.read_text()
    assert stored(evidence.FILE) == entries


# ------------------------------------------------------------------------------------ the archives
@pytest.mark.parametrize("name", ARCHIVES)
def test_an_archive_is_what_keeping_its_tables_would_write(name, tmp_path):
    """Sorted, of one date; whoever keeps the same tables again changes nothing."""
    tables = kept.archived(name)
    kept.pack(tmp_path / "again.zip", {file: tables.text(file) or "" for file in tables.names()})
    with ZipFile(kept.ARCHIVES / f"{name}.zip") as one, ZipFile(tmp_path / "again.zip") as two:
        told = [[(i.filename, i.CRC, i.date_time) for i in z.infolist()] for z in (one, two)]
    assert told[0] == told[1]


def test_a_run_lies_over_the_archive_until_it_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "ARCHIVES", tmp_path / "data")
    monkeypatch.setattr(kept, "WORK", tmp_path / "work")
    kept.pack(tmp_path / "data/x.zip", {"a.csv": "n\n1\n", "b.csv": "n\n2\n"})
    (tmp_path / "work/x").mkdir(parents=True)
    (tmp_path / "work/x/a.csv").write_text("n\n3\n")
    (tmp_path / "work/x/c.part.csv").write_text("n\n")
    assert kept.overlaid("x").frame("a")["n"].tolist() == [3]
    assert kept.archived("x").frame("a")["n"].tolist() == [1]
    assert kept.overlaid("x").frame("none") is None
    before = (tmp_path / "data/x.zip").read_bytes()
    assert kept.keep("x") == 2
    assert (tmp_path / "data/x.zip").read_bytes() != before
    assert kept.archived("x").frame("a")["n"].tolist() == [3]
    assert kept.archived("x").frame("b")["n"].tolist() == [2]
    assert [path.name for path in (tmp_path / "work/x").iterdir()] == ["c.part.csv"]
    again = (tmp_path / "data/x.zip").read_bytes()
    kept.keep("x")
    assert (tmp_path / "data/x.zip").read_bytes() == again


def test_an_archive_rounds_what_was_measured_and_nothing_else(tmp_path):
    table = 'split,alpha,words,auc\n1,0.001953125,"a, b",0.8712345678901\n'
    other = "epsilon,noise\n0.8712345678901,1\n"
    kept.pack(tmp_path / "x.zip", {"a.csv": table, "b.csv": other, "c.md": "0.8712345678901"})
    tables = kept.Tables(None, tmp_path / "x.zip")
    assert tables.text("a.csv") == table.replace("0.8712345678901", "0.87123")
    assert (tables.text("b.csv"), tables.text("c.md")) == (other, "0.8712345678901")


def test_an_archive_alone_is_never_written(tmp_path):
    computation = Computation(tmp_path, kept.archived("gubler"))
    with pytest.raises(AssertionError, match="read, not computed"):
        computation.tables({"new": (measured, [{"split": 0}])})


# -------------------------------------------------------------------------------------- full pages
@pytest.mark.slow
@pytest.mark.parametrize("name", [*STUDIES])
def test_a_full_page_is_made_of_its_archive_without_data_or_a_run(name, tmp_path):
    STUDIES[name](Order(name, page_only=True, tables=kept.archived(name), out=tmp_path))
    text = (tmp_path / "README.md").read_text(encoding="utf-8")
    rows = {row for row in re.findall(r"from (\d+) of \d+ fits", text)}
    assert rows
    assert "0" not in rows
    shown = set(re.findall(r"\]\((\w+\.png)\)", text))
    assert shown == {path.name for path in tmp_path.glob("*.png")}
    if name in PAPERS:
        first = re.search(r"^## (.*)$", text, re.MULTILINE)
        assert first is not None
        assert first[1] == "What holds of the paper's claims"


@pytest.mark.slow
def test_a_full_page_is_made_once_for_the_same_tables_and_code(tmp_path):
    assert write_full_pages(tmp_path, ["first_model"]) == 1
    made = (tmp_path / "first_model/README.md").stat().st_mtime_ns
    assert write_full_pages(tmp_path, ["first_model"]) == 0
    assert (tmp_path / "first_model/README.md").stat().st_mtime_ns == made


def test_the_list_of_files_has_every_source():
    with Path(LISTED).open(newline="", encoding="utf-8") as lines:
        listed = list(csv.DictReader(lines))
    assert [row["name"] for row in listed] == list(SOURCES)
    assert all(re.fullmatch(r"[0-9a-f]{64}", row["sha256"]) for row in listed)
