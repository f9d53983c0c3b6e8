"""The statement's table of who asked for what."""

from __future__ import annotations

from fractions import Fraction

from hedgerow.coordinator.statement import spending
from hedgerow.privacy.accounting.budget import Measure
from hedgerow.privacy.ledger.charges import Charge
from hedgerow.values.regions import EVERYONE, Split, Step

SPLIT = Split("age", "grid", 1)


def charge(share, what, region=EVERYONE):
    return Charge(region, Fraction(share), f"{what}, of all rows", "study", Measure.PURE)


def test_rounds_in_a_row_that_ask_alike_are_one_line_and_add_up():
    entries = [("round 1", [charge("1/10", "Count")])]
    entries += [(f"round {k}", [charge("1/5", "ClassCounts in the bins")]) for k in (2, 3)]
    first, second = spending(entries, Fraction(1))
    assert (first.rounds, first.what, first.part) == ("1", "Count", 0.1)
    assert (second.rounds, second.part) == ("2-3", 0.4)


def test_siblings_of_a_round_do_not_add():
    sides = [charge("1/5", "ClassCounts", (Step(SPLIT, side),)) for side in (0, 1)]
    (line,) = spending([("round 1", sides)], Fraction(2))
    assert line.part == 0.1
    assert line.what.endswith("by node")


def test_a_round_of_two_kinds_names_both():
    (line,) = spending(
        [("round 1", [charge("1/100", "Count by Whole"), charge("1/50", "Count by TargetCells")])],
        Fraction(1),
    )
    assert line.what == "Count by Whole and Count by TargetCells"
