"""The docs name no command, module, target or name that does not exist."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import typer.main

import hedgerow
from hedgerow.cli import console
from hedgerow.cli.main import app
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.statement.about import About, Curator
from hedgerow.privacy.statement.spending import Part, Spending, Total
from hedgerow.privacy.statement.statement import ACCOUNTANTS, PrivacyStatement

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
    return named + [name for name in used if name not in {*dir(hedgerow), *rooms}]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_only_what_exists(page):
    assert unknown(page.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "words",
    ["run `hedgerow coffee`", "`make coffee`", "python -m studiez", "hr.TreeClasifier(schema)"],
)
def test_a_page_that_names_what_does_not_exist_would_be_found(words):
    assert len(unknown(words)) == 1


def test_help_names_every_exit_code():
    told = app.registered_callback.callback.__doc__
    codes = re.findall(r"^(\d+)  ", console.__doc__, re.M)
    assert len(codes) == 7
    assert [code for code in codes if not re.search(rf"\b{code} \w", told)] == []


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


def labels(said: PrivacyStatement) -> set[str]:
    """Of all lines that any statement has; a round's number and whom it is against vary."""
    full = replace(
        said,
        about=About(
            curators=(Curator("A"),),
            intended_use="B",
            region="C",
            sector="D",
            publication_date="2026-01-31",
        ),
        total=Total(guarantee=said.guarantee, fits=1, entry=1, head="00"),
        unspent=(Part(0.5, "E"),),
        held_out=(Spending("1", "F", 0.5),),
        saved_fraction=0.5,
        graph_delta=1e-9,
        delta_slack=1e-50,
    )
    return {re.sub(r"^(round|against) .*", r"\1", title) for title, _ in full._lines()} - {""}


def without_entry(words: set[str]) -> list[str]:
    text = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    return sorted(words - set(re.findall(r"^(\S.*)\n  \S", text, re.M)))


def test_the_glossary_has_every_label_of_a_statement():
    X, y = np.zeros((4, 1)), ["a", "b", "a", "b"]
    schema = hedgerow.Schema({"x": (0, 1)}, classes=("a", "b"))
    fit = hedgerow.TreeClassifier(schema, max_depth=1).fit(X, y, party=y, parties=["a", "b"])
    found = labels(fit.privacy_)
    assert {"promise", "accountant", "against", "round", "intended use", "masks"} <= found
    assert without_entry(found) == []


def test_the_glossary_has_the_hard_words_that_statements_print():
    words = {"computational", "coalition", "advantage", "false alarm", "middling record", "rho"}
    filters = {re.split(":", told)[0] for told in ACCOUNTANTS.values()}
    assert without_entry(words | filters) == []


def test_a_label_without_an_entry_would_be_seen():
    assert without_entry({"promise", "promice"}) == ["promice"]


def sentences(text: str) -> int:
    return len(re.findall(r"[.;](?:\s|$)", text))


def errors() -> list[str]:
    kinds = {name: getattr(hedgerow, name) for name in hedgerow.__all__}
    return [n for n, k in kinds.items() if inspect.isclass(k) and issubclass(k, Exception)]


@pytest.mark.parametrize("name", errors())
def test_an_error_s_entry_says_what_happened_and_what_to_do(name):
    assert sentences(inspect.getdoc(getattr(hedgerow, name)) or "") >= 2
