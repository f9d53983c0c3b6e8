"""Statements on a narrow terminal."""

from __future__ import annotations

import pytest

from hedgerow.report.text import hanging

STATEMENT = """\
Privacy statement
  promise      epsilon = 1, delta = 1e-6
  not covered  the schema: names of columns, ranges, categories, classes
               that a model was made, and how many rounds it took
  note         a-name-that-is-longer-than-any-terminal-that-anybody-would-use"""


def test_a_line_goes_on_under_its_words():
    lines = hanging(STATEMENT, 40).splitlines()
    assert lines[:5] == [
        "Privacy statement",
        "  promise      epsilon = 1, delta = 1e-6",
        "  not covered  the schema: names of",
        "               columns, ranges,",
        "               categories, classes",
    ]


@pytest.mark.parametrize("width", [20, 60, 80])
def test_no_word_is_lost_and_no_line_is_too_long(width):
    wrapped = hanging(STATEMENT, width)
    assert "".join(wrapped.split()) == "".join(STATEMENT.split())
    assert max(map(len, wrapped.splitlines())) <= width


def test_what_fits_stays_as_it_is():
    assert hanging(STATEMENT, 100) == STATEMENT
