"""The docs name no command, module, target or name that does not exist."""

from __future__ import annotations

import ast
import inspect
import re
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import numpydoc.xref
import pytest
import sphobjinv
import typer.main
from numpydoc.docscrape import NumpyDocString

import hedgerow
import hedgerow as hr
from docs import make_cards, make_pictures
from docs.make_cards import KINDS, Card, cards, registered
from docs.make_methods import NOT_RUN, checks_page, kept
from docs.make_pages import SITE as MADE
from docs.make_pictures import FOLDER as PICTURE_FOLDER
from docs.make_pictures import PICTURES
from docs.make_reference import (
    ALIASES,
    LINES,
    SITES,
    WORDS,
    differences,
    inventory_of,
    mapping,
    own_methods,
    used_in,
    with_links,
)
from docs.make_tables import PAGES as TABLED_PAGES
from docs.make_tables import TABLES, renewed
from hedgerow.cli import console
from hedgerow.cli.main import app
from hedgerow.methods.base import expected_failed_checks
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.queries import STATISTICS
from hedgerow.privacy.statement import wording
from hedgerow.privacy.statement.record import About, Curator
from hedgerow.privacy.statement.spending import Part, Spending, Total
from hedgerow.privacy.statement.statement import ACCOUNTANTS, PrivacyStatement
from proofs import check, replay
from support.effort import syntax_of

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


HOUSE_WORDS = {
    "shrinkage",
    "screening",
    "flow",
    "region",
    "logarithmic grid",
    "failed round",
    "secure aggregation",
    "local",
    "anchor",
    "store",
    "method",
}


def test_the_glossary_has_every_word_of_the_house():
    text = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    terms = set(re.findall(r"^(\S.*)\n  \S", text, re.M))
    assert {one.name.lower() for one in DPModel} <= terms
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
    fit = hedgerow.TreeClassifier(schema, max_depth=1).fit(X, y, site=y, sites=["a", "b"])
    found = labels(fit.privacy_)
    assert {"guarantee", "accountant", "against", "round", "intended use", "masks"} <= found
    assert without_entry(found) == []


def test_the_glossary_has_the_hard_words_that_statements_print():
    words = {"coalition", "advantage", "false positive", "average record", "rho"}
    filters = {name.partition(" (")[0] for name in ACCOUNTANTS.values()}
    assert without_entry(words | filters) == []


def test_a_label_without_an_entry_would_be_seen():
    assert without_entry({"guarantee", "promice"}) == ["promice"]


def sentences(text: str) -> int:
    return len(re.findall(r"[.;](?:\s|$)", text))


def errors() -> list[str]:
    kinds = {name: getattr(hedgerow, name) for name in hedgerow.__all__}
    return [n for n, k in kinds.items() if inspect.isclass(k) and issubclass(k, Exception)]


@pytest.mark.parametrize("name", errors())
def test_an_error_s_entry_says_what_happened_and_what_to_do(name):
    assert sentences(inspect.getdoc(getattr(hedgerow, name)) or "") >= 2


# --------------------------------------------------------------------------------------------------
# Pages of what is decided are short, say for whom they are, and name files that exist.
DECIDED = sorted(path for path in (ROOT / "docs/design").glob("*.md") if path.stem != "index")
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


@pytest.mark.parametrize("page", DECIDED, ids=lambda page: page.stem)
def test_a_page_of_what_is_decided_is_short_and_says_why(page):
    text = _text(page)
    assert len(text.split()) <= MOST_WORDS
    assert re.match(r"# [^\n]+\n\nFor ", text)
    assert page.stem in _text(ROOT / "docs/design/index.md").split()


def test_there_is_a_page_for_each_of_fifteen_subjects():
    assert len(DECIDED) == 15


def test_notes_have_their_numbers_and_no_number_stands_twice():
    numbers = [n for note in NOTES for n in re.findall(r'<a id="(\d{4})"></a>', _text(note))]
    assert len(numbers) == len(set(numbers)) == 37


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
    made = {"cards.md", "constants.md", "mutants.md"}  # tables, by the build
    long = {path.name for path in pages if len(_text(path).split()) > MOST_OF_A_PAGE}
    assert long <= made


# --------------------------------------------------------------------------------------------------
# Types in public docstrings lead somewhere: to our own pages, or to another project's.
SECTIONS = ("Parameters", "Returns", "Attributes", "Raises")
KNOWN = {**numpydoc.xref.DEFAULT_LINKS, **ALIASES}
TARGET = re.compile(r":(\w+):`(?:[^`<]*<)?(?:[\w-]+:)?([^`>]+)>?`")


def documented() -> list[object]:
    things = [getattr(hr, name) for name in hr.__all__]
    methods = [getattr(getattr(hr, c), m) for c, names in own_methods().items() for m in names]
    return [*things, *methods]


def types() -> set[str]:
    texts = [NumpyDocString(inspect.getdoc(one) or "") for one in documented()]
    return {entry.type for text in texts for section in SECTIONS for entry in text[section]}


def targets(kind: str) -> set[tuple[str, str]]:
    """What Sphinx will look up for a type: roles and names."""
    return set(TARGET.findall(numpydoc.xref.make_xref(kind, KNOWN, set(WORDS))))


def known() -> set[str]:
    ours = {*hr.__all__, "/files", "/statement", "/communication"}
    kept = (inventory_of(name).objects for name in SITES)
    return ours | {one.name for objects in kept for one in objects}


def test_every_type_of_a_public_docstring_leads_somewhere():
    named = {name for kind in types() for _, name in targets(kind)}
    assert {"int", "numpy.ndarray", "pandas.DataFrame", "estimator", "Schema"} <= named
    assert named - known() == set()


def test_a_type_that_nobody_knows_would_be_seen():
    assert targets("Wreath or None") == {("obj", "Wreath"), ("data", "None")}
    assert "Wreath" not in known()


def test_no_name_is_kept_that_nothing_links_to():
    named = {name for kind in types() for _, name in targets(kind)}
    kept = {one.name for s in SITES for one in inventory_of(s).objects}
    assert kept <= named


def test_every_public_thing_has_words():
    assert [one for one in documented() if not inspect.getdoc(one)] == []


def test_packed_inventories_are_whole_and_a_moved_page_is_told(tmp_path):
    for name, (_, packed) in mapping(tmp_path / "packed").items():
        whole = sphobjinv.Inventory(packed)
        assert whole.objects == inventory_of(name).objects
        moved = inventory_of(name).data_file().replace(b"library/functions", b"library/elsewhere")
        (tmp_path / f"{name}.inv").write_bytes(sphobjinv.compress(moved))
    assert list(differences(tmp_path)) == [
        "python: callable py:function library/functions.html#callable",
        "python: float py:class library/functions.html#float",
        "python: int py:class library/functions.html#int",
    ]
    assert LINES.read_text(encoding="utf-8").count("[") == len(SITES)


# --------------------------------------------------------------------------------------------------
# docs/privacy.md and the list of attacks name a test for every line, and each of them exists.
TESTS = Path(__file__).parents[1]
DOCS = TESTS.parent / "docs"
MAPPED_PAGES = {
    path.name: path.read_text(encoding="utf-8")
    for path in (DOCS / "privacy.md", DOCS / "attacks.md")
}
HEAD = re.compile(r"(shown|seen) by \|$")
NAMED = re.compile(r"`([\w/]+\.py)::(\w+)`")


def missing(page: str) -> list[str]:
    """Named tests that do not exist."""
    return [f"{file}::{name}" for file, name in NAMED.findall(page) if name not in defined_in(file)]


@cache
def defined_in(file: str) -> set[str]:
    path = TESTS / file
    if not path.exists():
        return set()
    return {node.name for node in syntax_of(path).body if isinstance(node, ast.FunctionDef)}


def rows_without_a_test(page: str) -> list[str]:
    """Rows of tables, heads and rules aside, whose last cell names nothing."""
    rows = [line for line in page.splitlines() if line.startswith("|") and set(line) - set("|-")]
    return [row for row in rows if not HEAD.search(row) and not NAMED.search(row.split("|")[-2])]


@pytest.mark.parametrize("page", MAPPED_PAGES.values(), ids=MAPPED_PAGES)
def test_every_test_that_a_page_names_exists(page):
    assert len(NAMED.findall(page)) > 30
    assert missing(page) == []


@pytest.mark.parametrize("page", MAPPED_PAGES.values(), ids=MAPPED_PAGES)
def test_every_row_of_a_page_names_a_test(page):
    assert rows_without_a_test(page) == []


@pytest.mark.parametrize("name", ["project/test_docs.py::test_no", "unit/no.py::test_no"])
def test_a_name_that_no_test_has_would_be_seen(name):
    assert missing(f"| a guarantee | `{name}` |") == [name]
    assert rows_without_a_test("| a guarantee | somewhere |") == ["| a guarantee | somewhere |"]


# --------------------------------------------------------------------------------------------------
# What pages show of measurements and drawings is what their scripts make today.
@pytest.mark.parametrize("page", TABLED_PAGES, ids=lambda page: page.name)
def test_tables_of_a_page_are_what_the_measurements_say(page):
    text = page.read_text(encoding="utf-8")
    assert any(f"<!-- table: {name} -->" in text for name in TABLES)
    assert text == renewed(text), "measurements have changed: run `make pages`"


def test_a_number_typed_by_hand_would_be_seen():
    text = TABLED_PAGES[0].read_text(encoding="utf-8")
    assert renewed(text.replace("| Adult | .9", "| Adult | .8")) != text.replace(
        "| Adult | .9", "| Adult | .8"
    )


def test_the_kept_picture_is_as_its_script_draws_it():
    """The one of README; a build of the site draws all."""
    picture = next(draw() for draw in PICTURES if draw().name == "what_leaves")
    assert (PICTURE_FOLDER / f"{picture.name}.svg").read_text(encoding="utf-8") == picture.svg()


def test_every_picture_of_a_page_is_drawn():
    names = {draw().name for draw in PICTURES}
    shown = {
        name
        for page in (ROOT / "docs").glob("**/*.md")
        for name in re.findall(r"images/understand/(\w+)\.svg", _text(page))
    }
    assert shown == names
    for draw in PICTURES:
        assert ElementTree.fromstring(draw().svg()).tag.endswith("svg")


def test_no_theorem_of_the_papers_fails_where_it_is_measured():
    rates, failure = make_pictures.noisy_maxima()
    assert rates[-1][1] <= failure < rates[2][1]  # with a 64th of the rows it is missed
    for measured, bound in (make_pictures.wrong_labels(), make_pictures.uneven_medians()):
        assert all(m <= b + 1e-9 for (_, m), (_, b) in zip(measured, bound, strict=True))
    best, bound = make_pictures.purest_splits()
    assert all(0.0 < b <= m + 1e-9 for (_, m), (_, b) in zip(best, bound, strict=True))


def test_every_public_name_s_page_links_to_code_that_uses_it():
    assert [name for name, pages in used_in().items() if not pages] == []


def test_a_page_that_a_docstring_names_becomes_a_link():
    lines = ["Proof: docs/proofs/losses.md. See `docs/schema.md`, not docs of others."]
    with_links(None, "", "", None, None, lines)
    assert lines == ["Proof: :doc:`/proofs/losses`. See :doc:`/schema`, not docs of others."]


def test_every_estimator_has_its_line_of_checks_and_none_failed_unexpectedly():
    for name in (n for n in hr.__all__ if n.endswith(("Classifier", "Regressor"))):
        (line,) = (one for one in kept() if one["estimator"] == name)
        assert f"| `{name}` |" in checks_page()
        if line["failed"] == NOT_RUN:
            continue
        assert line["failed"] == "none"
        known = {"none", *expected_failed_checks(getattr(hr, name)())}
        assert set(line["expected"].split(", ")) <= known


@pytest.mark.parametrize("name", MADE)
def test_a_page_that_is_made_at_the_build_is_not_tracked_and_says_for_whom_it_is(name):
    assert f"/docs/{name}.md\n" in (ROOT / ".gitignore").read_text(encoding="utf-8")
    assert re.match(r"# [^\n]+\n\nFor ", MADE[name]())


# --------------------------------------------------------------------------------------------------
# Every registered mechanism, statistic and conversion has a card, and cards name what exists.
CARDS = cards()
CARD_NAMES = re.compile(r"^\s*(?:Theorem|Definition)\s+([\w']+)", re.MULTILINE)


def proved() -> set[str]:
    """FILE.NAME of all theorems and definitions."""
    return {
        f"{path.stem}.{name}"
        for path in check.FOLDER.glob("*.v")
        for name in CARD_NAMES.findall(check.without_comments(path.read_text(encoding="utf-8")))
    }


def missing_of_card() -> dict[str, set[str]]:
    """By kind, registered names without a card, and cards of what is not registered."""
    shown = {kind: {card.name for card in CARDS if card.kind == kind} for kind in KINDS}
    found = {kind: names ^ shown[kind] for kind, names in registered().items()}
    return {kind: names for kind, names in found.items() if names}


def unknown_cards(card: Card) -> list[str]:
    """What a card names and is not there."""
    found = [name for name in card.theorems if name not in proved()]
    found += [p for p in card.pages if not (ROOT / "docs" / "proofs" / f"{p}.md").exists()]
    for name in card.tests:
        file, _, test = name.partition("::")
        path = ROOT / "tests" / file
        if not path.exists() or f"def {test}(" not in path.read_text(encoding="utf-8"):
            found.append(name)
    return found


def test_everything_registered_has_a_card_and_nothing_else_has():
    assert missing_of_card() == {}
    assert all(registered().values())


def test_a_new_statistic_without_a_card_is_seen(monkeypatch):
    monkeypatch.setitem(STATISTICS, "Forgotten", object)
    assert missing_of_card() == {"statistic": {"Forgotten"}}


@pytest.mark.parametrize("card", CARDS, ids=lambda card: f"{card.kind}-{card.name}")
def test_a_card_names_what_exists(card):
    assert unknown_cards(card) == []
    assert card.tests
    assert card.kind in KINDS


def test_a_card_that_names_what_is_not_there_is_seen():
    card = Card("noise", "x", "y", ("Laplace.nothing",), ("nothing",), ("privacy/nothing.py::t",))
    assert len(unknown_cards(card)) == 3


def test_what_has_no_theorem_has_a_page():
    bare = {card.name for card in CARDS if not card.theorems and not card.pages}
    assert bare == {"NoNoise"}  # which guarantees nothing


def test_a_statement_names_every_part_that_is_proved_on_paper_alone():
    """Samplers are in every study: docs/proofs/evidence.md says it of them."""
    kinds = {"query", "statistic", "grouping", "loss", "score", "noise", "label mechanism"}
    kinds |= {"selection mechanism"}
    paper = {card.name for card in cards() if card.kind in kinds and not card.theorems}
    conversions = {"whole_budget", "delta_of_sparse_rounds"}
    assert conversions <= {card.name for card in cards() if not card.theorems}
    assert paper - {"NoNoise"} | conversions == set(wording.ON_PAPER)


def test_cards_and_replay_agree_on_what_is_held_to_its_proof():
    for card in CARDS:
        if card.kind in ("statistic", "grouping"):
            assert card.replayed == (card.name not in replay.ON_PAPER), card.name
        if card.kind == "score":
            assert card.replayed == (card.name not in replay.SCORES_ON_PAPER), card.name


def test_the_page_shows_every_card():
    text = make_cards.page()
    assert all(f"### {card.name}\n" in text for card in CARDS)
    assert "verified software" not in text
