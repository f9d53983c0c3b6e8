"""Pages of what is decided are short, say for whom they are, and name files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(path for path in (ROOT / "docs/design").glob("*.md") if path.stem != "index")
NOTES = sorted((ROOT / "studies/notes").glob("*.md"))
MOST_WORDS, MOST_OF_A_PAGE = 400, 2_500
NOTE = re.compile(r"studies/notes/(\w+)\.md#(\d{4})")
TEXTS = [
    *(ROOT / "docs").rglob("*.md"),
    *(
        path
        for folder in ("src", "studies", "tests", "benchmarks")
        for path in (ROOT / folder).rglob("*.py")
    ),
]


def dangling(text: str) -> list[str]:
    """Notes that a text names and that nobody has written."""
    return [
        f"{name}#{number}"
        for name, number in NOTE.findall(text)
        if f'<a id="{number}"></a>' not in _text(ROOT / f"studies/notes/{name}.md")
    ]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_of_what_is_decided_is_short_and_says_why(page):
    text = _text(page)
    assert len(text.split()) <= MOST_WORDS
    assert re.match(r"# [^\n]+\n\nFor ", text)
    assert page.stem in _text(ROOT / "docs/design/index.md").split()


def test_there_is_a_page_for_each_of_fifteen_subjects():
    assert len(PAGES) == 15


def test_notes_have_their_numbers_and_no_number_stands_twice():
    numbers = [n for note in NOTES for n in re.findall(r'<a id="(\d{4})"></a>', _text(note))]
    assert len(numbers) == len(set(numbers)) == 31


def test_a_note_that_is_named_is_there():
    assert [
        name for path in TEXTS if "_build" not in path.parts for name in dangling(_text(path))
    ] == []


def test_a_note_that_is_not_there_would_be_seen():
    """Twin."""
    named = "studies/notes/gates.md#0036 and studies/notes/gates.md#" + "9999"
    assert dangling(named) == ["gates#9999"]


def test_no_page_is_longer_than_a_reader_s_patience():
    pages = [
        path
        for path in (ROOT / "docs").rglob("*.md")
        if not {"_build", "reference"} & set(path.parts)
    ]
    made = {"mutants.md"}  # by the build, from verdicts
    long = {path.name for path in pages if len(_text(path).split()) > MOST_OF_A_PAGE}
    assert long <= made
