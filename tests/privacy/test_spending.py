"""What the most charged record paid for: by round, by mechanism, along its path."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hedgerow.privacy.accounting.budget import Measure
from hedgerow.privacy.ledger.charges import Charge, worst_total
from hedgerow.privacy.queries.words import Phrase
from hedgerow.privacy.statement.spending import (
    ENTRY,
    Asked,
    by_mechanism,
    by_rounds,
    paid,
    worst_path,
)
from hedgerow.schema.regions import EVERYONE, Fold, Split, Step

SPLIT = Split("age", "grid", 1)
OTHER = Split("dose", "grid", 1)
FOLD = Fold("draw", 3)
COUNTS = Phrase("class counts of {column}", (("column", 3, 3),))
STEPS = [Step(test, k) for test in (SPLIT, OTHER, FOLD) for k in range(test.outcomes)]


def asked(number, share, phrase=COUNTS, region=EVERYONE, mechanism="noise", **more) -> Asked:
    return Asked(
        round=number,
        region=region,
        cost=Fraction(share),
        phrase=phrase,
        mechanism=mechanism,
        **more,
    )


queries = st.builds(
    asked,
    st.just(1),
    st.integers(0, 12).map(lambda twelfths: Fraction(twelfths, 12)),
    region=st.lists(st.sampled_from(STEPS), max_size=3).map(tuple),
)


@pytest.mark.property
@given(st.lists(queries, max_size=8))
def test_the_worst_path_costs_what_the_ledger_says(run):
    charges = [Charge(q.region, q.cost, "", "study", Measure.PURE) for q in run]
    assert paid(worst_path(run)) == worst_total(charges)


def test_the_rounds_and_the_mechanisms_both_add_up_to_what_was_spent():
    sides = [asked(2, s, region=(Step(SPLIT, k),)) for k, s in enumerate(("1/5", "1/4"))]
    run = [asked(1, "1/10", mechanism="choice"), *sides, asked(3, "1/2", Phrase("record counts"))]
    path = worst_path(run)
    lines, parts = by_rounds(run, path, Fraction(1)), by_mechanism(path, Fraction(1))
    assert [line.part for line in lines] == [0.1, 0.25, 0.5]
    assert [(part.what, part.part) for part in parts] == [("noise", 0.75), ("choice", 0.1)]


def test_rounds_in_a_row_that_ask_alike_are_one_line_with_the_span_of_their_counts():
    fewer = replace(COUNTS, counts=(("column", 1, 2),))
    run = [asked(1, "1/10", Phrase("record counts")), asked(2, "1/5"), asked(3, "1/5", fewer)]
    first, second = by_rounds(run, worst_path(run), Fraction(1))
    assert (first.rounds, first.what, first.part) == ("1", "record counts", 0.1)
    assert (second.rounds, second.what) == ("2-3", "class counts of 1 to 3 columns")
    assert second.part == pytest.approx(0.4)


@pytest.mark.parametrize(
    ("test", "words"), [(SPLIT, ", node by node"), (FOLD, ", fold by fold")], ids=["split", "fold"]
)
def test_siblings_of_a_round_do_not_add(test, words):
    sides = [asked(1, "1/5", region=(Step(test, side),)) for side in (0, 1)]
    (line,) = by_rounds(sides, worst_path(sides), Fraction(2))
    assert line.part == 0.1
    assert line.what == f"class counts of 3 columns{words}"


def test_a_round_of_two_kinds_names_both():
    run = [asked(1, "1/100", Phrase("record counts")), asked(1, "1/50", Phrase("target sums"))]
    (line,) = by_rounds(run, worst_path(run), Fraction(1))
    assert line.what == "record counts and target sums"


def test_what_is_paid_on_entering_comes_first_and_what_follows_is_free():
    run = [asked(ENTRY, "1", Phrase("labels")), asked(1, "0"), asked(2, "0")]
    entry, rounds = by_rounds(run, worst_path(run), Fraction(1))
    assert (entry.rounds, entry.what, entry.part) == ("entry", "labels", 1.0)
    assert (rounds.rounds, rounds.part) == ("1-2", 0.0)
    assert rounds.what.endswith("(from the randomized labels)")
    assert by_mechanism(worst_path(run), Fraction(1))[0].part == 1.0


def test_a_failed_round_has_a_line_of_its_own():
    run = [asked(1, "1/10"), asked(2, "1/10", void=True), asked(3, "1/10")]
    lines = by_rounds(run, worst_path(run), Fraction(1))
    assert [line.rounds for line in lines] == ["1", "2", "3"]
    assert lines[1].what.endswith("(failed: charged, not answered)")
