"""Words that a privacy officer reads, never the name of a class."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest

from hedgerow.models.layers import ROOT_LAYER, NodeTests
from hedgerow.models.losses import LogLoss
from hedgerow.models.model import Additive, Curve, Output
from hedgerow.models.tree import Tree
from hedgerow.privacy import queries
from hedgerow.privacy.pricing import describe, phrase_of
from hedgerow.privacy.queries import (
    Binning,
    BoundQuery,
    Cells,
    ClassCounts,
    Count,
    CurveNewton,
    Fractions,
    Gradients,
    Hessians,
    LabelReports,
    Leaves,
    LocalChoice,
    PredictionCells,
    ResidualCells,
    Score,
    ScoreCells,
    Scoring,
    SelectQuery,
    Sides,
    SumQuery,
    TargetCells,
    TargetClassCounts,
    Whole,
)
from hedgerow.privacy.queries.words import Phrase, condensed
from hedgerow.schema.regions import EVERYONE, Fold, Step
from hedgerow.schema.schema import Numeric, Schema
from support.worlds import TWO, VALUE, study

SHARE = Fraction(1, 10)
SPLIT = TWO.grids[0].split_values(range(4))
STUMP = Tree.build(TWO.names, {(Step(SPLIT, 0),): (0.0,), (Step(SPLIT, 1),): (1.0,)})
MODEL = Additive((0.0,))
TESTS = NodeTests(np.zeros((1, 3), np.int16), np.ones((1, 3, 4), np.uint64))
FOURTEEN = Schema(tuple(Numeric(f"x{j}", 0, 1, bins=31) for j in range(14)), classes=("a", "b"))

SUMMED = {
    Count(): "record counts",
    ClassCounts(2): "class counts",
    LabelReports(8): "sums of randomised label bits",
    TargetClassCounts((0.0, 1.0)): "record counts by 3 intervals of the target",
    Fractions(0.0, 1.0): "target sums",
    Gradients(LogLoss(), MODEL): "prediction-error sums",
    Hessians(LogLoss(), MODEL): "prediction-uncertainty sums",
    CurveNewton(
        (Curve(0, ((0.0,),)),), 1.0, 1.0, (0.0, 0.0), 0.0
    ): "sums for one step on the weights of 1 curve",
}
PIECES = {
    Whole(): "in total",
    Cells((0, 1, 2), Binning.of_cells(TWO)): "of 3 columns in 5 to 9 ranges",
    Leaves((STUMP, STUMP)): "in the leaves of 2 trees",
    Sides(ROOT_LAYER, TESTS): "on both sides of 3 tests at each of 1 node",
    TargetCells((0.0, 1.0)): "in 3 ranges of the target",
    ScoreCells(
        (MODEL,), (Output.SIGMOID,), (1.0,), 2, (0.5,)
    ): "in 2 ranges of the predicted probability",
    ResidualCells(MODEL, (0.5,)): "in 2 ranges of the size of the prediction error",
    PredictionCells(MODEL, (0.0, 0.5)): "in 3 ranges of the prediction",
}


@pytest.mark.parametrize(("statistic", "words"), SUMMED.items(), ids=SUMMED.values())
def test_a_statistic_is_said_in_words(statistic, words):
    query = SumQuery(EVERYONE, statistic, Whole(), SHARE)
    assert str(phrase_of(query)) == f"{words} in total"


@pytest.mark.parametrize(("by", "words"), PIECES.items(), ids=PIECES.values())
def test_a_grouping_is_said_in_words(by, words):
    assert str(phrase_of(SumQuery(EVERYONE, Count(), by, SHARE))) == f"record counts {words}"


def test_every_statistic_and_every_grouping_has_words():
    assert {type(s) for s in SUMMED} == set(queries.STATISTICS.values())
    assert {type(by) for by in PIECES} == set(queries.GROUPINGS.values())


def test_no_words_are_those_of_the_program():
    for words in [*SUMMED.values(), *PIECES.values()]:
        assert not re.search(r"[a-z][A-Z]|_|\(", words)


def test_an_officer_reads_columns_and_ranges():
    query = SumQuery(
        EVERYONE, ClassCounts(2), Cells(tuple(range(14)), Binning.of_cells(FOURTEEN)), SHARE
    )
    assert str(phrase_of(query)) == "class counts of 14 columns in 32 ranges"
    said = describe(query, study(FOURTEEN, 1))
    assert said == "class counts of all 14 columns in 32 ranges, for all records"


def test_a_line_of_the_manifest_names_columns_and_records():
    query = BoundQuery((Step(SPLIT, 0),), (0, 2), Binning.of_cells(TWO), SHARE)
    assert describe(query, study(TWO, 3)) == (
        "best impurity that each site could reach on age, ward (2 of 3 columns), "
        "for records with age < 50"
    )
    folded = SumQuery((Step(Fold("tree 1", 4), 2), Step(SPLIT, 0)), Count(), Whole(), SHARE)
    assert describe(folded, study(TWO, 3)) == (
        "record counts in total, for records in fold 2 of 4 with age < 50"
    )


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (SelectQuery, "private choice among 2 splits"),
        (LocalChoice, "each site's private choice among 2 splits"),
    ],
)
def test_a_choice_is_said_as_a_choice(kind, words):
    query = kind(EVERYONE, (SPLIT, TWO.grids[1].split_values(range(1))), Scoring(Score.GINI), SHARE)
    assert str(phrase_of(query)) == words


def test_phrases_of_one_pattern_are_said_as_one():
    one, two = (Phrase("in {range}", (("range", n, n),)) for n in (1, 4))
    other = Phrase("in total")
    assert [str(p) for p in condensed([one, other, two, one])] == ["in 1 to 4 ranges", "in total"]


def test_a_number_predicted_is_described_without_a_schema_of_classes():
    query = SumQuery(EVERYONE, Fractions(-2.0, 6.0), Whole(), SHARE)
    assert describe(query, study(VALUE, 1)) == "target sums in total, for all records"
