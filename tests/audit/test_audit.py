"""The audit that ships: it passes sound pipelines, and sees planted mutants."""

from __future__ import annotations

import json
import math
import time
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as pld
from scipy.stats import binom
from typer.testing import CliRunner

import hedgerow as hr
from federation.test_member_choices import CASES, RECORDS, SCHEMA, SHARE, SPLITS
from hedgerow.audit import choices
from hedgerow.audit.choices import (
    NoiseSeen,
    chance_of,
    chosen_in,
    epsilon_at_least,
    evidence,
    gaussian_loss,
    log_chances,
    loss_of_labels,
    losses,
    reports_of,
    sharpness,
)
from hedgerow.audit.measuring import ERROR, ROUNDING, _ratio
from hedgerow.audit.running import audit_estimator, estimators_named, lines
from hedgerow.cli.main import app
from hedgerow.data.rows import Draws
from hedgerow.errors import ParameterError, UnsupportedQuery
from hedgerow.federation import client
from hedgerow.privacy.accounting import conversions
from hedgerow.privacy.accounting.budget import DPModel, Measure
from hedgerow.privacy.mechanisms import sampling
from hedgerow.privacy.mechanisms.response import BloomRandomizedResponse, RandomizedResponse
from hedgerow.privacy.queries import Mechanism, Score, Scoring, Selections, SelectQuery, SumQuery
from hedgerow.privacy.study import Study
from hedgerow.schema.regions import EVERYONE
from support.audited_methods import CANARIES, audit_network, methods
from support.choices import exponential_pmf, permute_and_flip_pmf, report_noisy_max_pmf
from support.worlds import TWO, sample, site_rows, study

TREE = hr.HistogramTreeClassifier


@pytest.mark.parametrize("dp_model", ["central", "distributed", "per_site"])
@pytest.mark.parametrize("delta", [0.0, 1e-6])
@pytest.mark.filterwarnings("ignore::hedgerow.errors.QualityWarning")
def test_a_sound_tree_is_below_its_claim_and_not_far_below(dp_model, delta):
    found = audit_estimator(TREE, dp_model, delta=delta)
    assert found.is_sound
    assert 0.8 * found.claimed < found.white_box <= found.claimed
    assert found.one_run <= found.claimed


# ------------------------------------------------------------------------------------------ mutants
def a_tenth_less_noise(monkeypatch):
    draw = sampling.draw
    less = lambda law, size, *rest, **how: np.rint(0.9 * draw(law, size, *rest, **how)).astype(int)  # noqa: E731
    monkeypatch.setattr("hedgerow.federation.client.sampling.draw", less)


def columns_not_counted(monkeypatch):
    monkeypatch.setattr(SumQuery, "sensitivity", lambda query, unit: query.statistic.bound(unit))


def one_site_is_silent(monkeypatch):
    respond, first = client.respond, []

    def some(rows, asked, secret):
        first.append(rows)
        if rows is not first[0]:
            return respond(rows, asked, secret)
        with pytest.MonkeyPatch.context() as silent:
            drawn = client.draw_noise
            silent.setattr(client, "draw_noise", lambda *a: [0 * part for part in drawn(*a)])
            return respond(rows, asked, secret)

    monkeypatch.setattr(client, "respond", some)


def colluders_not_subtracted(monkeypatch):
    monkeypatch.setattr(Study, "honest", property(lambda study: study.threshold))


def tails_cut_off(monkeypatch):
    draw = sampling.draw

    def cut(law, size, *rest, **how):
        width = max(int(math.sqrt(law.variance)), 1)
        return np.clip(draw(law, size, *rest, **how), -width, width)

    monkeypatch.setattr("hedgerow.federation.client.sampling.draw", cut)


MUTANTS = [
    (a_tenth_less_noise, "central"),
    (columns_not_counted, "central"),
    (one_site_is_silent, "distributed"),
    (colluders_not_subtracted, "distributed"),
    (tails_cut_off, "per_site"),
]


@pytest.mark.parametrize(("mutant", "dp_model"), MUTANTS, ids=lambda v: getattr(v, "__name__", v))
def test_a_planted_slip_is_seen(mutant, dp_model, monkeypatch):
    mutant(monkeypatch)
    found = audit_estimator(TREE, dp_model)
    assert not found.is_sound
    assert "ABOVE ITS CLAIM" in list(lines("TREE", dp_model, found))[-1]


def test_a_tenth_less_noise_is_seen_by_the_command_in_little_time(monkeypatch):
    """Five minutes are allowed; CPU seconds, so that neighbors do not count."""
    a_tenth_less_noise(monkeypatch)
    start = time.process_time()
    done = CliRunner().invoke(app, ["audit"])
    assert done.exit_code == 1, done.output
    assert "ABOVE ITS CLAIM" in done.output
    assert time.process_time() - start < 300.0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dp_model", ["distributed", "per_site"])
def test_the_noise_of_a_networked_run_is_what_it_claims(dp_model, tmp_path, monkeypatch):
    """Signed, masked messages and stores in between; held-out records are evaluated, too."""
    sound = audit_network(tmp_path / "sound", dp_model=dp_model, epsilon="8", hold_out=4)
    assert sound.is_sound
    assert 0.5 * sound.claimed < sound.white_box <= sound.claimed
    half_the_noise(monkeypatch)
    assert not audit_network(tmp_path / "half", dp_model=dp_model, epsilon="8").is_sound


def half_the_noise(monkeypatch):
    plain = sampling.draw
    monkeypatch.setattr(
        "hedgerow.federation.client.sampling.draw", lambda *args, **how: plain(*args, **how) // 2
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", estimators_named("all"))
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_recipe_is_below_its_claim(name):
    """Some refuse shares of Laplace noise this wide, some need one site; others are sound."""
    kind = estimators_named(name)[name]
    refusals: list[str] = []
    for dp_model, delta in product(("central", "distributed", "per_site"), (0.0, 1e-6)):
        try:
            found = audit_estimator(kind, dp_model, delta=delta)
        except UnsupportedQuery:
            assert dp_model != "central"
            continue
        except ParameterError as refused:
            refusals.append(str(refused))
            continue
        assert found.is_sound, "\n".join(lines(name, dp_model, found))
    assert len(refusals) <= 1
    assert all("sampler is proved" in refusal for refusal in refusals)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "method"), methods().items(), ids=methods())
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_method_of_the_papers_is_below_its_claim(name, method):
    """Where it adds its own noise; without any there is nothing to measure."""
    if method.dp_model == "none":
        with pytest.raises(ParameterError, match="measures noise in sums"):
            audit_estimator(method, method.dp_model, canaries=1)
        return
    found = audit_estimator(method, method.dp_model, canaries=CANARIES)
    assert found.is_sound, "\n".join(lines(name, method.dp_model, found))


# ------------------------------------------------------------------------------------------- bounds
def by_the_paper(canaries, guessed, right, epsilon, delta):
    """Steinke, Nasr and Jagielski 2023, Theorem 5.2, term by term with SciPy's binomial."""
    q = 1.0 / (1.0 + math.exp(-epsilon))
    tail = binom.sf(right - 1, guessed, q)
    terms = [
        (binom.cdf(right - 1, guessed, q) - binom.cdf(right - i - 1, guessed, q)) / i
        for i in range(1, right + 1)
    ]
    return min(tail + 2.0 * canaries * delta * max(terms, default=0.0), 1.0)


@pytest.mark.parametrize("right", [0, 50, 70, 99, 100])
@pytest.mark.parametrize("delta", [0.0, 1e-5, 1e-3])
def test_the_bound_of_one_run_is_the_paper_s(right, delta):
    for epsilon in (0.1, 1.0, 3.0):
        expected = by_the_paper(120, 100, right, epsilon, delta)
        assert chance_of(100, right, 120, epsilon, delta) == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
def test_the_loss_of_gaussian_sums_is_what_dp_accounting_says(mu):
    """An independent implementation: privacy loss distributions."""
    theirs = pld.from_gaussian_mechanism(1.0 / mu).get_epsilon_for_delta(1e-6)
    ours = conversions.epsilon_of(Measure.GDP, Fraction(mu) ** 2, Fraction(1, 10**6))
    assert ours == pytest.approx(theirs, rel=1e-3)


@pytest.mark.parametrize("rate", [0.05, 0.4, 1.5])
@pytest.mark.parametrize("pull", [1, 4])
def test_the_loss_of_laplace_sums_is_what_dp_accounting_says(rate, pull):
    """The audit knows the variance of the noise alone; its rate follows from the law."""
    q = math.exp(-rate)
    ours = -pull * math.log(_ratio(2.0 * q / (1.0 - q) ** 2))
    theirs = pld.from_discrete_laplace_mechanism(rate, pull).get_epsilon_for_delta(0.0)
    assert ours == pytest.approx(theirs, rel=1e-3)


def test_sums_are_named_in_words():
    """A privacy officer reads this: no name of a class of the package."""
    found = audit_estimator(TREE)
    assert [kind.what for kind in found.kinds] == ["class counts"]


def test_randomized_response_is_bounded_by_its_own_epsilon_and_almost_reached():
    rng, epsilon, m = np.random.default_rng(5), 2.0, 1000
    right = rng.binomial(m, 1.0 / (1.0 + math.exp(-epsilon)), 100)
    bounds = np.array([epsilon_at_least(m, int(r), m, 0.0, 0.05) for r in right])
    assert (bounds > epsilon).mean() < 0.2  # 0.05 is expected; 20 of 100 come once in 10^6
    assert np.median(bounds) > 0.85 * epsilon


def test_nothing_is_refuted_by_a_coin():
    assert epsilon_at_least(100, 50, 100, 0.0, 0.05) == 0.0


def test_noise_as_loud_as_it_says_is_not_called_quieter():
    rng = np.random.default_rng(7)
    for law, tail in ((rng.normal(size=9000), 2.0), (rng.laplace(0, math.sqrt(0.5), 9000), 5.0)):
        seen = NoiseSeen(9000, float((law**2).mean()), tail)
        assert seen.at_most(4.9) > 1.0
        less = NoiseSeen(9000, float(((0.9 * law) ** 2).mean()), tail)
        assert less.at_most(4.9) < 1.0
    assert NoiseSeen(1, 1.0, 2.0).at_most(4.9) == math.inf


def test_a_paper_s_method_is_audited_by_its_name_and_told_as_json():
    name = "papers.gubler.algorithm_5"
    done = CliRunner().invoke(app, ["audit", "--estimator", name, "--fits", "1", "--json"])
    found = json.loads(done.stdout)[name]
    assert found["is_sound"]
    assert found["claimed"] == 8.0
    assert 4.0 < found["white_box"] <= 8.0  # a white box of zero would be below any claim
    assert {kind["what"] for kind in found["kinds"]} == {"class counts"}


def test_what_cannot_be_audited_is_told():
    with pytest.raises(ParameterError, match="measures noise in sums"):
        audit_estimator(TREE, "none")
    with pytest.raises(ParameterError, match="there is no estimator 'Forest'"):
        estimators_named("Forest")
    with pytest.raises(ParameterError, match="canaries is 0; an audit needs 1 or more"):
        audit_estimator(TREE, canaries=0)


# --------------------------------------------------------------------------------------------------
# The audit sees private selections and randomized labels, and mutants that are planted in them.
PMFS = {
    Mechanism.EXPONENTIAL: exponential_pmf,
    Mechanism.PERMUTE_AND_FLIP: permute_and_flip_pmf,
    Mechanism.REPORT_NOISY_MAX: report_noisy_max_pmf,
}
SCORES = ([0, 0], [0, -40_000, -7], [5, -90_000, -30_000, 0, -20_000, -300_000])
RATE = Fraction(1, 10_000)


# -------------------------------------------------------------------------------------- laws
@pytest.mark.parametrize("scores", SCORES, ids=len)
@pytest.mark.parametrize("mechanism", PMFS)
def test_the_odds_of_a_choice_are_those_of_an_independent_sum(mechanism, scores):
    ours = log_chances(mechanism, float(RATE) * np.array(scores, float))
    theirs = np.log(PMFS[mechanism](scores, RATE))
    assert ours == pytest.approx(theirs, abs=2e-3)  # sums over a grid, and noise as if it were real


def test_many_candidates_are_told_from_each_other_as_well_as_few():
    flat = np.zeros(3000)
    for mechanism in PMFS:
        assert log_chances(mechanism, flat) == pytest.approx(-math.log(3000), abs=1e-6)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_two_answers_cost_in_gaussian_terms_what_the_accountant_says(epsilon):
    p = 1.0 / (1.0 + math.exp(-epsilon))
    found = gaussian_loss(np.array([p, 1 - p]), np.array([1 - p, p]))
    assert found == pytest.approx(
        float(conversions._mu_squared_of_pure(Fraction(epsilon))), rel=1e-6
    )


# ----------------------------------------------------------------------------------- choices
def chosen(mechanism: Mechanism, delta: str):
    """One choice of a site that is drawn a thousand times, and three canaries: two in, one out."""
    the_study = study(SCHEMA, 1, epsilon="2" if delta == "0" else "5", delta=delta)
    rows = [(float(x), y) for x, y in RECORDS] + [(1.0, "no"), (7.0, "no"), (7.0, "no")]
    X, y = np.array([[x] for x, _ in rows]), np.array([y for _, y in rows], object)
    (all_rows,) = site_rows(X[:-1], y[:-1], np.zeros(len(rows) - 1, int), 1, SCHEMA)
    alone = [site_rows(X[k:][:1], y[k:][:1], np.zeros(1, int), 1, SCHEMA)[0] for k in (-3, -2, -1)]
    query = SelectQuery(EVERYONE, SPLITS, Scoring(Score.GINI), SHARE, mechanism)
    included = np.array([True, True, False])
    (one,) = chosen_in(the_study, [(query, Selections((2,)))], [all_rows], alone, included)
    return the_study, one, included


MECHANISMS = sorted({(mechanism, delta) for mechanism, delta, _ in CASES}, key=str)


def sharpened(monkeypatch, factor: float) -> None:
    for mechanism, right in list(client.MECHANISMS.items()):
        monkeypatch.setitem(
            client.MECHANISMS, mechanism, lambda s, c, z, right=right: right(s, factor * c, z)
        )


@pytest.mark.parametrize(("mechanism", "delta"), MECHANISMS)
def test_a_choice_is_as_sharp_as_it_claims_and_loses_no_more_than_its_charge(mechanism, delta):
    the_study, one, included = chosen(mechanism, delta)
    measured, at_least = sharpness([one], ERROR)
    assert 0.4 < at_least <= ROUNDING
    assert at_least < measured
    for factor in (at_least, 1.0):
        lost = losses(the_study, one, factor) / float(the_study.cost(one.query))
        assert 0.02 < lost.max() <= ROUNDING
    assert evidence(one, included).shape == (3,)


@pytest.mark.parametrize(("mechanism", "delta"), MECHANISMS)
def test_a_choice_with_half_its_noise_is_seen(mechanism, delta, monkeypatch):
    sharpened(monkeypatch, 2)
    _, one, _ = chosen(mechanism, delta)
    assert sharpness([one], ERROR)[1] > ROUNDING


def test_a_canary_that_moves_no_score_loses_nothing():
    the_study, one, included = chosen(Mechanism.EXPONENTIAL, "0")
    same = type(one)(one.query, one.scores, one.scores[None, :], one.selection, one.selections)
    assert losses(the_study, same, 1.0).tolist() == [0.0]
    assert evidence(same, included[:1]).tolist() == [0.0]


@pytest.mark.parametrize("delta", [0.0, 1e-6])
def test_a_forest_of_private_choices_is_measured_and_half_the_noise_in_them_is_seen(
    delta, monkeypatch
):
    found = audit_estimator(hr.MedianForestClassifier, delta=delta, canaries=10)
    assert found.is_sound
    assert found.white_box > 0.1
    (kind,) = [kind for kind in found.kinds if kind.what.startswith("choices")]
    assert 0.0 < kind.at_least <= ROUNDING
    sharpened(monkeypatch, 2)
    ill = audit_estimator(hr.MedianForestClassifier, delta=delta, canaries=4)
    assert not ill.is_sound
    assert "ABOVE ITS CLAIM" in list(lines("MedianForest", "central", ill))[-1]


def test_choices_whose_reach_is_declared_too_small_are_seen(monkeypatch):
    """The law is drawn as claimed; it is the canaries that pull too far."""
    reach = Scoring.reach.fget
    monkeypatch.setattr(Scoring, "reach", property(lambda scoring: reach(scoring) // 4))
    method = methods()["papers.consul.diprime_exp(schema)"]
    found = audit_estimator(method, method.dp_model, delta=0.0, canaries=20)
    (kind,) = [kind for kind in found.kinds if kind.what.startswith("choices")]
    assert kind.at_least > ROUNDING


# ------------------------------------------------------------------------------------ labels
def told(reports: bool, monkeypatch, epsilon: str = "8"):
    if reports or epsilon == "1":  # lies are not rare
        monkeypatch.setattr(choices, "RECORDS", 1 << 14)
    placed = (
        {"label_reports": BloomRandomizedResponse.of_labels(2, Fraction(epsilon))}
        if reports
        else {}
    )
    the_study = study(TWO, 1, DPModel.LABEL, epsilon=epsilon, **placed)
    X, y = sample(300, TWO)
    (rows,) = site_rows(X, y, np.zeros(300, int), 1, TWO)
    included = np.arange(20) % 2 == 0
    return the_study, reports_of(the_study, rows, Draws(b"s" * 32, "audit"), included)


@pytest.mark.parametrize("reports", [False, True], ids=["labels", "bits"])
@pytest.mark.parametrize("epsilon", ["1", "8"])
def test_labels_told_at_random_lose_what_was_charged_and_hardly_less(reports, epsilon, monkeypatch):
    the_study, seen = told(reports, monkeypatch, epsilon)
    lost = loss_of_labels([seen], ERROR)
    assert 0.8 * float(epsilon) < lost <= float(the_study.entry_cost) * ROUNDING
    assert 0 <= seen.canaries_right <= 10


def half_the_lies(self, labels, words):
    """As if twice the epsilon had been asked for."""
    twice = RandomizedResponse.for_epsilon(self.classes, 2 * Fraction(self.epsilon))
    return RESPOND(twice, labels, words)


RESPOND, PERMANENT = RandomizedResponse.respond, BloomRandomizedResponse.permanent


def half_the_flips(self, labels, words):
    twice = BloomRandomizedResponse.of_labels(self.classes, 2 * Fraction(self.epsilon_forever))
    return PERMANENT(twice, labels, words)


@pytest.mark.parametrize("reports", [False, True], ids=["labels", "bits"])
def test_labels_told_by_twice_the_epsilon_are_seen(reports, monkeypatch):
    monkeypatch.setattr(RandomizedResponse, "respond", half_the_lies)
    monkeypatch.setattr(BloomRandomizedResponse, "permanent", half_the_flips)
    the_study, seen = told(reports, monkeypatch)
    assert loss_of_labels([seen], ERROR) > float(the_study.entry_cost) * ROUNDING


def test_labels_that_are_told_as_they_are_are_seen_by_the_command(monkeypatch):
    asked = ["audit", "--estimator", "ExtraTreesClassifier", "--dp-model", "label", "--fits", "1"]
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 0, done.output
    assert "randomized labels" in done.output
    monkeypatch.setattr(RandomizedResponse, "respond", lambda self, labels, words: labels)
    done = CliRunner().invoke(app, asked)
    assert done.exit_code == 1, done.output
    assert "ABOVE ITS CLAIM" in done.output
