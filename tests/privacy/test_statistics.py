"""Words that a privacy officer reads, never the name of a class."""

from __future__ import annotations

import re
from fractions import Fraction

import numpy as np
import pytest

from hedgerow.models.layers import ROOT_LAYER, NodeTests
from hedgerow.models.losses import FirstOrder, LogLoss, OddsLoss, SoftmaxLoss, SquaredLoss
from hedgerow.models.model import Additive, Curve, Output
from hedgerow.models.surfaces import Basis
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
    EventCounts,
    Fractions,
    Gradients,
    Hessians,
    LabelReports,
    Leaves,
    LocalSelection,
    PredictionCells,
    ResidualCells,
    Score,
    ScoreCells,
    Scoring,
    SelectQuery,
    Sides,
    SumQuery,
    SurfaceGradients,
    TargetCells,
    TargetClassCounts,
    Whole,
)
from hedgerow.privacy.queries.statistics import Phrase, condense
from hedgerow.schema.regions import EVERYONE, Fold, Step
from hedgerow.schema.schema import Numeric, Schema
from privacy.test_sensitivity import BY_CLASS, BY_TIME, BY_TWO, BY_VALUE
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
    LabelReports(8): "sums of randomized label bits",
    TargetClassCounts((0.0, 1.0)): "record counts by 3 intervals of the target",
    EventCounts((1.0, 2.0)): "counts of events and censored records by 3 intervals of time",
    Fractions(0.0, 1.0): "target sums",
    Gradients(LogLoss(), MODEL): "prediction-error sums",
    Hessians(LogLoss(), MODEL): "prediction-uncertainty sums",
    CurveNewton(
        (Curve(0, ((0.0,),)),), 1.0, 1.0, (0.0, 0.0), 0.0
    ): "sums for one Newton step on the weights of 1 curve",
    SurfaceGradients(
        Basis((Curve(0, ((0.0,),)),), ((0, -1),), (1.0,), 1), MODEL, (0.0, 0.0), 1
    ): "sums for one gradient step on 2 numbers of curves and surfaces",
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
        (SelectQuery, "private selection among 2 splits"),
        (LocalSelection, "each site's private selection among 2 splits"),
    ],
)
def test_a_choice_is_said_as_a_choice(kind, words):
    query = kind(EVERYONE, (SPLIT, TWO.grids[1].split_values(range(1))), Scoring(Score.GINI), SHARE)
    assert str(phrase_of(query)) == words


def test_phrases_of_one_pattern_are_said_as_one():
    one, two = (Phrase("in {range}", (("range", n, n),)) for n in (1, 4))
    other = Phrase("in total")
    assert [str(p) for p in condense([one, other, two, one])] == ["in 1 to 4 ranges", "in total"]


def test_a_number_predicted_is_described_without_a_schema_of_classes():
    query = SumQuery(EVERYONE, Fractions(-2.0, 6.0), Whole(), SHARE)
    assert describe(query, study(VALUE, 1)) == "target sums in total, for all records"


# --------------------------------------------------------------------------------------------------
# Questions whose bound would be false for these rows: each statistic says so itself.
KINDS = {
    "two classes": (LogLoss(), BY_TWO),
    "three classes": (SoftmaxLoss(3), BY_CLASS),
    "gradients of three": (FirstOrder(SoftmaxLoss(3)), BY_CLASS),
    "a number": (SquaredLoss(low=-1.0, high=3.0, clip=1.5), BY_VALUE),
    "a time": (OddsLoss((1.0, 2.0), (0.5, 1.0)), BY_TIME),
}


def zero(loss):
    return Additive((0.0,) * loss.outputs)


@pytest.mark.parametrize(("loss", "own"), KINDS.values(), ids=KINDS)
def test_a_loss_is_asked_of_its_own_kind_of_target_only(loss, own):
    asked = Gradients(loss, zero(loss))
    fits = {
        schema
        for schema in (BY_TWO, BY_CLASS, BY_VALUE, BY_TIME)
        if asked.incompatibility(schema) is None
    }
    assert fits == {own}


def test_a_softmax_of_more_classes_than_there_are_is_refused():
    loss = SoftmaxLoss(20_000)
    assert "classes were named" in str(Gradients(loss, zero(loss)).incompatibility(BY_CLASS))


@pytest.mark.parametrize(
    "wrong",
    [
        {"weight": -0.9999999},
        {"weight": 0.0},
        {"weight": 1e6},
        {"weight": float("nan")},
        {"clip": 0.0},
        {"clip": 4.1},
        {"low": -1.5},
        {"high": 3.5},
        {"low": 3.0, "high": -1.0},
    ],
    ids=str,
)
def test_a_squared_loss_keeps_to_the_target_s_own_range(wrong):
    right = {"low": -1.0, "high": 3.0, "clip": 1.5, "weight": 0.25}
    assert Gradients(SquaredLoss(**right), Additive((0.0,))).incompatibility(BY_VALUE) is None
    assert Gradients(SquaredLoss(**right | wrong), Additive((0.0,))).incompatibility(BY_VALUE)


def test_a_model_has_as_many_outputs_as_the_loss():
    """One output would be stretched over all classes, and its Hessians over all noises."""
    for outputs in (1, 2, 4):
        asked = Gradients(SoftmaxLoss(3), Additive((0.0,) * outputs))
        assert "the loss needs 3" in str(asked.incompatibility(BY_CLASS))


@pytest.mark.parametrize(("low", "high"), [(-2.0, 3.0), (-1.0, 4.0), (1.0, 1.0), (2.0, 0.0)])
def test_fractions_are_of_a_part_of_the_target_s_range(low, high):
    assert Fractions(0.0, 2.0).incompatibility(BY_VALUE) is None
    assert "no part of the target's range" in str(Fractions(low, high).incompatibility(BY_VALUE))


@pytest.mark.parametrize("radius", [5e-324, 1e-7, 0.0, -1.0, 1e300, float("inf"), float("nan")])
def test_a_radius_that_cannot_be_divided_by_is_refused(radius):
    assert newton(1.0).incompatibility(BY_TWO) is None
    assert "too small or too large" in str(newton(radius).incompatibility(BY_TWO))


def newton(radius):
    return CurveNewton(curves=(), constant=1.0, radius=radius, weights=(0.0,), base=0.0)
