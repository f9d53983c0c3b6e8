"""The statement, word by word: what is guaranteed, of what, to whom, and what it was spent on."""

from __future__ import annotations

import json
import math
import warnings
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.errors import PrivacyWarning
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.mechanisms.response import BloomRandomizedResponse
from hedgerow.privacy.queries import (
    Binning,
    Cells,
    ClassCounts,
    LocalSelection,
    Mechanism,
    Score,
    Scoring,
    SelectQuery,
    SumQuery,
    Whole,
)
from hedgerow.privacy.statement.record import RoundRecord, RunRecord
from hedgerow.privacy.statement.statement import PrivacyStatement, statement
from hedgerow.schema.regions import EVERYONE, Step
from hedgerow.schema.schema import Mark
from support.worlds import THREE, TWO, federation, sample, site_rows, study

PINNED = Path(__file__).parents[1] / "vectors" / "statements.txt"
SPLITS = tuple(THREE.grids[0].split_values(range(k)) for k in (2, 4, 6))
QUARTER = Fraction(1, 4)
REPORTS = BloomRandomizedResponse(classes=3, bits=9, hashes=2, keep=Fraction(1, 4))


def histogram() -> SumQuery:
    cells = Cells((0, 1, 2), Binning.of_cells(THREE))
    return SumQuery(EVERYONE, ClassCounts(3), cells, QUARTER)


def sides() -> list[SumQuery]:
    regions = [(Step(SPLITS[0], side),) for side in (0, 1)]
    return [SumQuery(region, ClassCounts(3), Whole(), QUARTER) for region in regions]


def bundles(the_study):
    """Counts of everybody, a choice where one is possible, counts by node."""
    if the_study.dp_model is DPModel.LABEL:
        return [[histogram()], sides()]
    kind = SelectQuery if the_study.n_sites == 1 else LocalSelection
    mechanism = Mechanism.EXPONENTIAL if the_study.delta else Mechanism.PERMUTE_AND_FLIP
    choice = kind(EVERYONE, SPLITS, Scoring(Score.GINI), QUARTER, mechanism)
    return [[histogram()], [choice], sides()]


def read_from_rows(the_study):
    """The same study with a schema that nobody has confirmed."""
    return replace(the_study, schema=the_study.schema.with_mark(Mark()))


def stated(the_study) -> PrivacyStatement:
    X, y = sample(60, THREE)
    owner = np.arange(60) % the_study.n_sites
    fed = federation(the_study, site_rows(X, y, owner, the_study.n_sites, THREE))
    for bundle in bundles(the_study):
        fed.ask(bundle)
    return statement(the_study, fed.sites.spent(), fed.asked, is_simulation=True, slack=fed.slack)


STUDIES = {
    "central": study(THREE, 1),
    "central, delta": study(THREE, 1, delta="1e-6"),
    "distributed": study(THREE, 5),
    "shares, delta, persons": study(THREE, 5, delta="1e-6", records_per_person=3),
    "per_site": study(THREE, 3, DPModel.PER_SITE),
    "silo, persons": study(THREE, 3, DPModel.PER_SITE, records_per_person=3),
    "label": study(THREE, 3, DPModel.LABEL),
    "label, persons": study(THREE, 1, DPModel.LABEL, records_per_person=2),
    "label, bits": study(THREE, 1, DPModel.LABEL, epsilon="3", label_reports=REPORTS),
    "none": study(THREE, 3, DPModel.NONE),
}
EACH = pytest.mark.parametrize("the_study", STUDIES.values(), ids=STUDIES)


def worded(the_study) -> str:
    """The statement's text; the digest of the source changes with every line of code."""
    said = stated(the_study)
    return str(said).replace(said.source[:16], "0" * 16)


def pinned() -> dict[str, str]:
    parts = PINNED.read_text(encoding="utf-8").split("\n=== ")
    return dict(part.removeprefix("=== ").strip("\n").split("\n", 1) for part in parts)


@pytest.mark.parametrize("name", STUDIES)
def test_the_statement_of_every_placement_is_this_one(name):
    """Word by word. A change here is a change of what people are guaranteed."""
    assert worded(STUDIES[name]) == pinned()[name]


# ---------------------------------------------------------------------------- what was it spent on
@EACH
def test_rounds_and_mechanisms_add_up_to_what_was_spent(the_study):
    said = stated(the_study)
    if the_study.dp_model is DPModel.NONE:
        assert (said.spending, said.mechanisms, said.spent_fraction) == ((), (), None)
        return
    assert sum(line.part for line in said.spending) == pytest.approx(said.spent_fraction)
    assert sum(part.part for part in said.mechanisms) == pytest.approx(said.spent_fraction)
    left = sum(part.part for part in said.unspent)
    assert said.spent_fraction + left == pytest.approx(1.0)


def test_private_choices_are_named_with_their_part_of_the_budget():
    """Seven tenths of a median forest go to choices; noise on sums is the smaller part."""
    X, y = sample(300, TWO)
    said = hr.MedianForestClassifier(TWO, epsilon=1.0, delta=0.0).fit(X, y).privacy_
    first, second = said.mechanisms
    assert "permute-and-flip" in first.what
    assert first.part > 0.6
    assert "Laplace" in second.what
    assert first.part + second.part == pytest.approx(said.spent_fraction)


def test_the_promise_is_the_cap_and_what_was_released_stands_beside_it():
    """What a run happened to spend depends on its answers; the guarantee does not."""
    said = stated(STUDIES["distributed"])
    assert (said.epsilon, said.spent_epsilon, said.spent_fraction) == (1.0, 0.75, 0.75)
    (left,) = said.unspent
    assert left.part == 0.25
    assert "ended before" in left.what


def test_labels_are_paid_for_on_entering_and_every_round_after_that_is_free():
    for name in ("label", "label, persons", "label, bits"):
        said = stated(STUDIES[name])
        entry, *rounds = said.spending
        assert entry.rounds == "entry"
        assert entry.part == said.spent_fraction
        assert [line.part for line in rounds] == [0.0] * len(rounds)


def test_several_labels_of_one_person_share_the_promise():
    one, two = STUDIES["label"], STUDIES["label, persons"]
    assert one.response.epsilon == pytest.approx(1.0)
    assert 2 * two.response.epsilon <= 1.0 + 1e-15
    assert one.entry_cost == two.entry_cost == 1
    costly = replace(STUDIES["label, bits"], epsilon=Fraction(100), records_per_person=2)
    assert costly.entry_cost == 2 * Fraction(REPORTS.epsilon_forever)


def test_choices_of_single_sites_are_said_to_be_seen():
    seen = "sees the selection of each site"
    assert seen in str(stated(STUDIES["distributed"]))
    assert seen not in str(stated(STUDIES["central"]))


# ------------------------------------------------------------------------------ numbers round up
@pytest.mark.parametrize("delta", ["1e-6", "123456789e-16", "1/3000000", "2/1234567"])
def test_delta_is_never_printed_smaller_than_it_is(delta):
    the_study = study(THREE, 1, delta=delta)
    said = stated(the_study)
    assert Fraction(repr(said.delta)) >= the_study.delta
    shown = said.summary.split("delta = ")[1]
    assert Fraction(shown) >= the_study.delta
    assert float(Fraction(shown)) == pytest.approx(float(Fraction(delta)), rel=1e-3)


def test_the_slack_of_the_sampler_is_printed_rounded_up():
    said = replace(stated(STUDIES["distributed"]), delta_slack=1.0100001e-50)
    assert "inexact sampling adds at most 1.1e-50 to delta" in str(said)


# --------------------------------------------------------------------------------- weak guarantees
@pytest.mark.parametrize("n", [20, 400])
def test_a_delta_above_a_ten_thousandth_warns_whatever_the_rows(n):
    X, y = sample(n, TWO)
    weak = hr.HistogramTreeClassifier(TWO, epsilon=1.0, delta=2e-4, max_depth=1)
    with pytest.warns(PrivacyWarning, match="above 1e-4"):
        weak.fit(X, y)
    assert "above 1e-4" in str(weak.privacy_)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrivacyWarning)
        fine = hr.HistogramTreeClassifier(TWO, epsilon=1.0, delta=1e-4, max_depth=1).fit(X, y)
    assert "above 1e-4" not in str(fine.privacy_)


# ----------------------------------------------------------------------------------- round trips
@EACH
def test_a_statement_comes_back_from_json_as_the_equal_object(the_study):
    for one in (the_study, read_from_rows(the_study)):
        said = stated(one)
        text = json.dumps(said.to_dict(), allow_nan=False)
        assert PrivacyStatement.from_dict(json.loads(text)) == said


def test_a_run_comes_back_from_json_as_the_equal_object():
    run = RunRecord([RoundRecord(1, ("counts", "choice"), 9, 80, 70), RoundRecord(2, (), 1, 8, 7)])
    assert RunRecord.from_dict(json.loads(json.dumps(run.to_dict()))) == run


def test_a_loaded_model_has_the_statement_and_the_run_of_the_fitted_one(tmp_path):
    X, y = sample(100, TWO)
    model = hr.HistogramTreeClassifier(TWO, epsilon=1.0, max_depth=2).fit(X, y)
    model.save(tmp_path / "model.json")
    loaded = hr.load(tmp_path / "model.json")
    assert loaded.privacy_ == model.privacy_
    assert loaded.run_ == model.run_


def test_a_statement_and_a_run_show_themselves_in_one_line():
    said = stated(STUDIES["shares, delta, persons"])
    expected = "PrivacyStatement(epsilon = 1, delta = 1e-6, unit = one person with up to 3 records)"
    assert repr(said) == expected
    assert repr(RunRecord([RoundRecord(1, (), 9, 80, 70)])) == (
        "RunRecord(1 round, 150 bytes per site)"
    )


def test_a_schema_read_from_rows_makes_epsilon_infinite_in_every_face():
    said = stated(read_from_rows(STUDIES["central"]))
    assert said.epsilon == math.inf
    assert "epsilon = infinity" in str(said)
    assert said.to_dict()["epsilon"] == "infinity"


INFINITE = "no guarantee: ranges were read from the data (requested: epsilon 1)"


@pytest.mark.parametrize("name", ["central", "distributed"])
def test_nobody_is_promised_less_than_infinity_where_ranges_were_read_from_rows(name):
    for one, begins in ((STUDIES[name], "epsilon 1"), (read_from_rows(STUDIES[name]), INFINITE)):
        assert {what[: len(begins)] for _, what in stated(one).trust} == {begins}
