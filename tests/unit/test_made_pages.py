"""What pages show of measurements and drawings is what their scripts make today."""

from __future__ import annotations

import pytest

from docs.make_pictures import FOLDER, PICTURES
from docs.make_tables import PAGES, TABLES, renewed


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
