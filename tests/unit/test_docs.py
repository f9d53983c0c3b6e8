"""The docs name no command, module, target or name that does not exist."""

from __future__ import annotations

import inspect
import re
from importlib.util import find_spec
from pathlib import Path

import pytest
import typer.main

import hedgerow
from hedgerow.cli.main import app
from hedgerow.privacy.accounting.budget import Placement

ROOT = Path(__file__).parents[2]
PAGES = [
    *ROOT.glob("*.md"),
    *(ROOT / "docs").rglob("*.md"),
    *(ROOT / "benchmarks").glob("*.md"),
]
COMMANDS = set(typer.main.get_group(app).commands)
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))


def unknown(text: str) -> list[str]:
    """All that a page names as if it existed."""
    named = [f"hedgerow {c}" for c in re.findall(r"`hedgerow ([a-z]+)", text) if c not in COMMANDS]
    named += [f"make {t}" for t in re.findall(r"`make ([a-z-]+)", text) if t not in TARGETS]
    named += [m for m in re.findall(r"python -m ([a-z_.]+)", text) if find_spec(m) is None]
    used = re.findall(r"\b(?:hr|hedgerow)\.([A-Za-z_]\w*)", text)
    rooms = {path.stem for path in (ROOT / "src/hedgerow").iterdir()}
    return named + [name for name in used if name not in {*hedgerow.__all__, *rooms}]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_only_what_exists(page):
    assert unknown(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "words",
    ["run `hedgerow coffee`", "`make coffee`", "python -m studiez", "hr.TreeClasifier(schema)"],
)
def test_a_page_that_names_what_does_not_exist_would_be_found(words):
    assert len(unknown(words)) == 1


# ---- links and words -----------------------------------------------------------------------------


def broken_links(page: Path, text: str) -> list[str]:
    """Files that a page outside the site points to and that are not there."""
    named = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", text)
    return [name for name in named if not (page.parent / name).exists()]


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")), ids=lambda page: page.name)
def test_links_of_the_repository_lead_somewhere(page):
    """Sphinx checks those inside the site."""
    assert broken_links(page, page.read_text(encoding="utf-8")) == []


def test_a_broken_link_would_be_seen():
    assert broken_links(ROOT / "README.md", "[a](docs/no.md) [b](LICENSE)") == ["docs/no.md"]


HOUSE_WORDS = {"lean", "refine", "flow", "region", "ladder", "void", "anchor", "vault", "recipe"}


def test_the_glossary_has_every_word_of_the_house():
    text = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    terms = set(re.findall(r"^(\S.*)\n  \S", text, re.M))
    assert {one.name.lower() for one in Placement} <= terms
    assert terms >= HOUSE_WORDS
    assert len(terms) > 80


def sentences(text: str) -> int:
    return len(re.findall(r"[.;](?:\s|$)", text))


def errors() -> list[str]:
    kinds = {name: getattr(hedgerow, name) for name in hedgerow.__all__}
    return [n for n, k in kinds.items() if inspect.isclass(k) and issubclass(k, Exception)]


@pytest.mark.parametrize("name", errors())
def test_an_error_s_entry_says_what_happened_and_what_to_do(name):
    assert sentences(inspect.getdoc(getattr(hedgerow, name)) or "") >= 2
