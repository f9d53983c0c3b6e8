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
import riskcal.analysis
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

import hedgerow as hr
from hedgerow.errors import ParameterError, PrivacyWarning
from hedgerow.privacy.accounting import gaussian
from hedgerow.privacy.accounting.budget import DPModel, Measure
from hedgerow.privacy.accounting.guarantee import Meaning, advantage, found_at, meaning_of
from hedgerow.privacy.ledger.charges import Charge
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
from hedgerow.privacy.queries.statistics import Phrase
from hedgerow.privacy.statement.record import RoundRecord, RunRecord
from hedgerow.privacy.statement.spending import (
    ENTRY,
    Asked,
    by_mechanism,
    by_rounds,
    total_cost,
    worst_path,
)
from hedgerow.privacy.statement.statement import PrivacyStatement, statement
from hedgerow.schema.regions import EVERYONE, Fold, Split, Step
from hedgerow.schema.schema import Mark
from support.worlds import THREE, TWO, federation, sample, site_rows, study, worst_total

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
    return statement(the_study, fed.sites.spent(), fed.queries, is_simulation=True, slack=fed.slack)


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


# --------------------------------------------------------------------------------------------------
# What a budget means for one person, against other people's implementations.
EPSILONS = [Fraction(1, 100), Fraction(1, 2), Fraction(1), Fraction(3), Fraction(10)]
ALARMS = [Fraction(1, 1000), Fraction(1, 100), Fraction(1, 10), Fraction(1, 2)]


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_pure_epsilon_means_what_riskcal_says(epsilon):
    expected = riskcal.analysis.get_advantage_for_epsilon_delta(float(epsilon), 0.0)
    assert advantage(Measure.PURE, epsilon) == pytest.approx(expected, rel=1e-12)
    for alarms in ALARMS:
        beta = riskcal.analysis.get_beta_for_epsilon_delta(float(epsilon), 0.0, float(alarms))
        found = found_at(Measure.PURE, epsilon, alarms)
        assert found == pytest.approx(1.0 - float(np.asarray(beta)), rel=1e-9)


@pytest.mark.parametrize("epsilon", EPSILONS)
def test_gaussian_noise_means_what_riskcal_says(epsilon):
    mu_squared = gaussian.mu_squared_within(epsilon, Fraction(1, 10**6))
    mu = math.sqrt(mu_squared)
    expected = riskcal.analysis.get_advantage_for_mu(mu)
    assert advantage(Measure.GDP, mu_squared) == pytest.approx(expected, rel=1e-9)
    for alarms in ALARMS:
        beta = riskcal.analysis.get_beta_for_mu(mu, float(alarms))
        found = found_at(Measure.GDP, mu_squared, alarms)
        assert found == pytest.approx(1.0 - float(np.asarray(beta)), rel=1e-9)


def test_bounds_are_rounded_up():
    """Never below the value in double precision, which is right to a few units in 10^16."""
    for epsilon in EPSILONS:
        assert advantage(Measure.PURE, epsilon) >= math.tanh(float(epsilon) / 2) * (1 - 1e-15)
        exact = 2 * norm.cdf(math.sqrt(epsilon) / 2) - 1
        assert advantage(Measure.GDP, epsilon) >= exact * (1 - 1e-13)


def test_a_test_of_two_gaussians_reaches_the_bound_and_less_noise_would_pass_it():
    """The best test between N(0, 1) and N(mu, 1), by definition; 10 % less noise is seen."""
    mu = 0.7
    for alarms in ALARMS:
        bound = found_at(Measure.GDP, Fraction(49, 100), alarms)
        reached = norm.sf(norm.isf(float(alarms)) - mu)
        assert reached == pytest.approx(bound, rel=1e-9)
        assert norm.sf(norm.isf(float(alarms)) - mu / 0.9) > bound * 1.01


def test_without_noise_everything_can_be_found_and_delta_adds():
    said = meaning_of(Measure.GDP, math.inf)
    assert (said.guess, said.advantage) == (1.0, 1.0)
    assert {found for _, found in said.found} == {1.0}
    more = advantage(Measure.PURE, Fraction(1), Fraction(1, 100))
    assert more == pytest.approx(advantage(Measure.PURE, Fraction(1)) + 0.01)


def test_a_guess_is_the_posterior_of_one_half_under_pure_epsilon():
    said = meaning_of(Measure.PURE, Fraction(1))
    assert said.guess == pytest.approx(math.e / (1 + math.e))
    assert Meaning.from_dict({"guess": 0.5, "advantage": 0.0, "found": [[0.1, 0.1]]}) == (
        Meaning(0.5, 0.0, ((0.1, 0.1),))
    )


def test_a_measure_without_a_derivation_is_refused():
    with pytest.raises(ParameterError, match="rho"):
        advantage(Measure.ZCDP, Fraction(1))


# --------------------------------------------------------------------------------------------------
# What the most charged record paid for: by round, by mechanism, along its path.
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
    assert total_cost(worst_path(run)) == worst_total(charges)


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
    assert lines[1].what.endswith("(failed: counted, not answered)")
