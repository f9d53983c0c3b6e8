"""What pages show of measurements and drawings is what their scripts make today."""

from __future__ import annotations

import re

import pytest

import hedgerow as hr
from docs.make_checks import NOT_RUN, kept, page
from docs.make_pages import PAGES as MADE
from docs.make_pages import ROOT
from docs.make_pictures import FOLDER, PICTURES
from docs.make_reference import used_in, with_links
from docs.make_tables import PAGES, TABLES, renewed
from hedgerow.methods.base import expected_failed_checks


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tables_of_a_page_are_what_the_measurements_say(page):
    text = page.read_text(encoding="utf-8")
    assert any(f"<!-- table: {name} -->" in text for name in TABLES)
    assert text == renewed(text), "measurements have changed: run `python -m docs.make_tables`"


def test_a_number_typed_by_hand_would_be_seen():
    text = PAGES[0].read_text(encoding="utf-8")
    assert renewed(text.replace("| Adult | .9", "| Adult | .8")) != text.replace(
        "| Adult | .9", "| Adult | .8"
    )


@pytest.mark.parametrize("draw", PICTURES, ids=lambda draw: draw.__name__)
def test_a_picture_is_as_its_script_draws_it(draw):
    picture = draw()
    assert (FOLDER / f"{picture.name}.svg").read_text(encoding="utf-8") == picture.svg()


def test_every_public_name_s_page_links_to_code_that_uses_it():
    assert [name for name, pages in used_in().items() if not pages] == []


def test_a_page_that_a_docstring_names_becomes_a_link():
    lines = ["Proof: docs/proofs/softmax.md. See `docs/schema.md`, not docs of others."]
    with_links(None, "", "", None, None, lines)
    assert lines == ["Proof: :doc:`/proofs/softmax`. See :doc:`/schema`, not docs of others."]


def test_every_estimator_has_its_line_of_checks_and_none_failed_unexpectedly():
    for name in (n for n in hr.__all__ if n.endswith(("Classifier", "Regressor"))):
        (line,) = (one for one in kept() if one["estimator"] == name)
        assert f"| `{name}` |" in page()
        if line["failed"] == NOT_RUN:
            continue
        assert line["failed"] == "none"
        known = {"none", *expected_failed_checks(getattr(hr, name)())}
        assert set(line["expected"].split(", ")) <= known


@pytest.mark.parametrize("name", MADE)
def test_a_page_that_is_made_at_the_build_is_not_tracked_and_says_for_whom_it_is(name):
    assert f"/docs/{name}.md\n" in (ROOT / ".gitignore").read_text(encoding="utf-8")
    assert re.match(r"# [^\n]+\n\nFor ", MADE[name]())
