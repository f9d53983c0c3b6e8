"""Sums that honest sites do not send are noticed; those that they send are not, in 2^40 runs."""

from __future__ import annotations

import math
import re
from fractions import Fraction

import numpy as np
import pytest

from hedgerow.deployment.run import run_study
from hedgerow.deployment.verify import verify_model
from hedgerow.errors import ParameterError
from hedgerow.federation import client
from hedgerow.federation.client import Response
from hedgerow.federation.plausibility import (
    CLEVER,
    Implausible,
    Plausibility,
    evidence_below_zero,
    is_below_zero,
    noise_reach,
)
from hedgerow.federation.transcript import Transcript
from hedgerow.models.losses import FirstOrder, LogLoss
from hedgerow.models.model import Additive
from hedgerow.privacy.mechanisms.coins import SecretRandomness
from hedgerow.privacy.mechanisms.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoNoise,
    PolyaDifference,
)
from hedgerow.privacy.mechanisms.sampling import draw
from hedgerow.privacy.pricing import priced
from hedgerow.privacy.queries import Cells, ClassCounts, Count, Gradients, SumQuery, Whole
from hedgerow.schema.candidates import Binning
from hedgerow.schema.regions import EVERYONE, Split, Step
from support.worlds import TWO, World, study

LAWS = [DiscreteLaplace(Fraction(1, 3)), PolyaDifference(Fraction(1, 3), 4),
        DiscreteGaussian(Fraction(30))]  # fmt: skip
N = 200_000


# ------------------------------------------------------------------------------------------ bounds
@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
@pytest.mark.parametrize("alarm", [1e-2, 1e-3])
def test_noise_goes_further_as_rarely_as_the_bound_says(law, alarm):
    """An upper bound, and within a factor: half of it is exceeded far more often."""
    sums = sum(draw(law, N, SecretRandomness()).astype(np.int64) for _ in range(5))
    reach = noise_reach(law, 5, alarm)
    expected = alarm * N
    assert (sums > reach).sum() < expected + 6 * math.sqrt(expected)
    assert (sums > reach / 2).sum() > expected


def test_no_noise_reaches_nowhere_and_a_gaussian_eight_deviations():
    assert noise_reach(NoNoise(), 3, 1e-9) == 0.0
    alarm = 2.0**-40 / (2 * 16_000)
    assert 8.3 < noise_reach(DiscreteGaussian(Fraction(1)), 1, alarm) < 8.8
    exact = -math.log(2 * alarm) / (1 / 3)  # of one Laplace draw, continuous
    assert exact < noise_reach(DiscreteLaplace(Fraction(1, 3)), 1, alarm) < 1.2 * exact


# ------------------------------------------------------------------------------------------ checks
STUDY, SITES = study(TWO, 3, epsilon="1"), (0, 1, 2)


def checked(values, statistic=None, rows=None):
    query = SumQuery(EVERYONE, statistic or ClassCounts(2), Whole(), Fraction(1, 2))
    noise = priced(STUDY, query).noise
    found = Plausibility(STUDY, rows, goes_on=True)
    found.check(1, [(noise, np.array(values, np.int64) * noise.scale, SITES)])
    return found


def test_honest_counts_pass_and_each_impossible_one_has_a_name():
    assert not checked([40, 60], rows=200).findings
    assert not checked([-10, 60], rows=200).findings  # noise alone does that
    (negative,) = checked([-4000, 60]).findings
    assert negative == "round 1: a count is negative beyond its noise"
    inflated = checked([40, 90_000], rows=200).findings
    assert any("larger than 200 records" in words for words in inflated)
    assert any("adds up to more than 200 records" in words for words in inflated)
    assert not checked([40, 90_000]).findings  # without a public bound nobody knows


LOSS = LogLoss()
SIDE = Split("age", "0" * 64, 1)


def narrowed(*sums):
    """The findings of sums, each asked in a round of its own: region, totals, statistic.

    Totals of several channels, or of several columns' tables, are a list.
    """
    found = Plausibility(STUDY, goes_on=True)
    for number, (region, totals, statistic) in enumerate(sums, 1):
        by = Cells((0, 1), BINNING) if np.ndim(totals) > 1 else Whole()
        noise = priced(STUDY, SumQuery(region, statistic, by, Fraction(1, 2))).noise
        unit = noise.scale if statistic.is_fractional else noise.refinement
        values = np.zeros(noise.query.shape)
        table = np.atleast_1d(totals)
        values[:, 0, : table.shape[-1]] = table
        found.check(number, [(noise, (values * unit).astype(np.int64).ravel(), SITES)])
    return found.findings


LEFT, RIGHT = (Step(SIDE, 0),), (Step(SIDE, 1),)
BINNING = Binning(tuple(tuple(range(f.grid.n_cells)) for f in TWO.features[:2]))
GRADIENTS = Gradients(LOSS, Additive((0.0,)))
COUNTED = Gradients(FirstOrder(LOSS), Additive((0.0,)))
CONTRADICTIONS = {
    "honest": ([(EVERYONE, 4000, Count()), (LEFT, 1000, Count()), (RIGHT, 3000, Count()),
                (LEFT, -900, GRADIENTS), (EVERYONE, 4010, ClassCounts(2))], None),
    "another total in a later round": (
        [(EVERYONE, 4000, Count()), (EVERYONE, 8000, ClassCounts(2))],
        "round 2: tables of the same records have different totals"),
    "a part is more than the whole": (
        [(EVERYONE, 4000, Count()), (LEFT, 9000, Count())],
        "round 2: a cell is larger than"),
    "parts are more than the whole": (
        [(EVERYONE, 4000, Count()), (LEFT, 3000, Count()), (RIGHT, 3000, Count())],
        "round 3: the parts of a table do not add up to the whole"),
    "parts are less than the whole": (
        [(EVERYONE, 4000, Count()), (LEFT, 500, Count()), (RIGHT, 500, Count())],
        "round 3: the parts of a table do not add up to the whole"),
    "classes whose tables agree": (
        [(EVERYONE, [[1000, 3000], [1000, 3000]], ClassCounts(2)),
         (LEFT, [400, 600], ClassCounts(2)), (RIGHT, [600, 2400], ClassCounts(2))], None),
    "classes that differ from column to column": (
        [(EVERYONE, [[1000, 3000], [3000, 1000]], ClassCounts(2))],
        "round 1: tables of the same records have different totals"),
    "classes that differ from round to round": (
        [(EVERYONE, [1000, 3000], ClassCounts(2)), (EVERYONE, [3000, 1000], ClassCounts(2))],
        "round 2: tables of the same records have different totals"),
    "classes of parts that are not those of the whole": (
        [(EVERYONE, [1000, 3000], ClassCounts(2)), (LEFT, [1000, 1000], ClassCounts(2)),
         (RIGHT, [1000, 1000], ClassCounts(2))],
        "round 3: the parts of a table do not add up to the whole"),
    "gradients whose tables agree": ([(EVERYONE, [[-900, 2000], [-900, 2000]], GRADIENTS)], None),
    "gradients that differ from column to column": (
        [(EVERYONE, [[-900, 2000], [900, 2000]], GRADIENTS)],
        "round 1: tables of the same records have different totals"),
    "a Hessian below zero": (
        [(EVERYONE, [0, -2000], GRADIENTS)], "round 1: a count is negative beyond its noise"),
    "a gradient beside its count": ([(EVERYONE, [-2000, 2000], COUNTED)], None),
    "a gradient above its count": (
        [(EVERYONE, [-3000, 2000], COUNTED)],
        "round 1: a gradient is larger than the count beside it"),
    "a gradient of more records than there are": (
        [(EVERYONE, 4000, Count()), (LEFT, 1000, Count()), (LEFT, -5000, GRADIENTS)],
        "round 3: a cell is larger than"),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_sums_of_different_rounds_do_not_contradict_each_other(name):
    sums, finding = CONTRADICTIONS[name]
    words = narrowed(*sums)
    assert any(word.startswith(finding) for word in words) if finding else not words


def test_what_is_known_of_some_sites_says_nothing_of_others():
    found = Plausibility(STUDY, goes_on=True)
    noise = priced(STUDY, SumQuery(EVERYONE, Count(), Whole(), Fraction(1, 2))).noise
    for members, total in ((SITES, 4000), ((0, 1), 1000), (SITES, 4000)):
        found.check(1, [(noise, np.array([total]) * noise.refinement, members)])
    assert not found.findings


def test_a_run_stops_unless_it_is_told_to_go_on():
    query = SumQuery(EVERYONE, Count(), Whole(), Fraction(1, 2))
    noise = priced(STUDY, query).noise
    sums = [(noise, np.array([-(10**6)]), SITES)]
    with pytest.raises(Implausible, match="--anyway"):
        Plausibility(STUDY).check(1, sums)
    going = Plausibility(STUDY, goes_on=True)
    going.check(1, sums)
    assert going.words == f"round 1: a count is negative beyond its noise; {CLEVER}"


def test_later_rounds_use_less_of_the_false_alarms():
    """The bound widens with the round, so that all of them together use 2^-40."""
    query = SumQuery(EVERYONE, Count(), Whole(), Fraction(1, 2))
    noise = priced(STUDY, query).noise
    edge = noise_reach(noise.of_site, 3, 2.0**-40 / (2 * 1 * 2 * 6))
    value = np.array([-math.ceil(edge) - 1])
    early, late = (Plausibility(STUDY, goes_on=True) for _ in range(2))
    early.check(1, [(noise, value, SITES)])
    late.check(1000, [(noise, value, SITES)])
    assert early.findings
    assert not late.findings


def test_counts_a_little_below_zero_are_seen_if_there_are_many_of_them():
    """No cell, channel or table is beyond its bound; honest noise in all cells is no finding."""
    query = SumQuery(EVERYONE, ClassCounts(2), Cells((0, 1), BINNING), Fraction(1, 2))
    noise = priced(study(TWO, 3, epsilon="1", delta="1e-6"), query).noise
    deviation = math.sqrt(3 * noise.of_site.variance)

    def findings(lie):
        found = Plausibility(STUDY, goes_on=True)
        for number in range(1, 5):
            drawn = sum(draw(noise.of_site, noise.size, SecretRandomness()) for _ in SITES)
            cells = drawn.reshape(query.shape).astype(np.int64)
            cells[:, :3, 0] -= lie  # three cells of each table, and as much more in others
            cells[:, 3:6, 0] += lie
            found.check(number, [(noise, cells.ravel(), SITES)])
        return found.findings

    assert not findings(0)
    (seen,) = findings(round(5 * deviation))
    assert seen.endswith("counts of all rounds so far are together negative beyond their noise")


# --------------------------------------------------------------------------------- liars in a run
def lying(monkeypatch, world, site, change):
    plain = client.respond

    def tapped(rows, asked, *rest):
        answer = plain(rows, asked, *rest)
        if rows is world.clients[site].rows:
            return Response(change(answer.vector, asked, rows), answer.selections)
        return answer

    monkeypatch.setattr(client, "respond", tapped)


def garbage(vector, asked, rows):
    return vector - 10**7


def one_table_only(vector, asked, rows):
    """Counts moved from one column's table: its total is not that of the others."""
    changed = vector.copy()
    changed[: len(changed) // 6] += 10**6
    return changed


def turned(vector, asked, rows):
    """The clever one: labels of all its records are turned, totals and signs are kept."""
    return vector.reshape(-1, 2)[:, ::-1].ravel()


def outcomes(world):
    path = world.folder.path
    checks = verify_model(world.folder.model_file, path / "study.toml", path / "transcript.bin")
    return {check.name: check for check in checks}


@pytest.mark.parametrize("change", [garbage, one_table_only], ids=lambda f: f.__name__)
def test_a_site_that_sends_garbage_ends_the_run_and_is_in_the_statement_if_it_goes_on(
    tmp_path, monkeypatch, change
):
    world = World(tmp_path, dp_model="distributed", epsilon="80")
    lying(monkeypatch, world, 1, change)
    with pytest.raises(Implausible, match="round 1"):
        run_study(world.folder, world)
    run_study(world.folder, world, resume=True, anyway=True)
    check = outcomes(world)["plausible"]
    assert check.has_failed
    assert "round 1" in check.words
    assert check.words in world.folder.statement_file.read_text("utf-8")
    world.close()


def test_a_clever_liar_is_not_seen_and_the_statement_says_that_he_would_not_be(
    tmp_path, monkeypatch
):
    world = World(tmp_path, dp_model="distributed", epsilon="80")
    lying(monkeypatch, world, 1, turned)
    run_study(world.folder, world)
    check = outcomes(world)["plausible"]
    assert not check.has_failed
    assert CLEVER in check.words
    assert CLEVER in world.folder.statement_file.read_text("utf-8")
    world.close()


def test_a_study_names_how_many_rows_a_site_has_at_most(tmp_path):
    world = World(tmp_path, dp_model="distributed", epsilon="80")
    assert world.agreed.rows_at_most is None
    text = world.folder.study_file.read_text("utf-8")
    hash_before = world.study.hash
    bounded = text.replace('name = "site-', 'rows_at_most = 50\nname = "site-')
    world.folder.study_file.write_text(bounded, "utf-8")
    assert world.folder.read_study().rows_at_most == 150
    assert world.folder.read_study().study.hash == hash_before
    run_study(world.folder, world)
    assert not outcomes(world)["plausible"].has_failed
    world.close()


# ----------------------------------------------------------------------------- one site left out
MODEL = 'estimator = "HistogramTreeClassifier"\n[model.parameters]\nmax_depth = 2'
FIVE = {"dp_model": "distributed", "epsilon": "80", "threshold": 4, "influence": "0.1"}
PURE = {"delta": "0", "epsilon": "99", "influence": "0.5"}


@pytest.mark.parametrize("law", LAWS, ids=lambda law: type(law).__name__)
def test_counts_below_zero_are_bounded_as_the_supermartingale_says(law):
    """Of 2,000 honest parts whose counts are zero few are called negative, at an alarm of 1 %."""
    cells, shares = 64, getattr(law, "shares", 1)
    noise = sum(draw(law, 2000 * cells, SecretRandomness()).astype(float) for _ in range(shares))
    parts = noise.reshape(2000, cells)

    def called(counts):
        evidence = evidence_below_zero(counts, [(law, shares, 1)])
        return is_below_zero(evidence, 1e-2)

    assert sum(map(called, parts)) < 20 + 6 * math.sqrt(20)
    lie = np.zeros(cells)
    lie[:8] = 8 * math.sqrt(law.variance * shares)  # eight cells, eight deviations below zero
    assert sum(map(called, parts - lie)) > 1990


def test_a_study_pays_for_each_sites_part_out_of_the_same_budget(tmp_path):
    world = World(tmp_path, 5, **FIVE)
    model = run_study(world.folder, world)
    world.verify()
    check = outcomes(world)["influence"]
    assert not check.has_failed
    assert check.words in world.folder.statement_file.read_text("utf-8")
    parts = re.findall(r"site-\d (\d+)%", check.words)
    assert all(5 < int(part) < 45 for part in parts)
    assert parts
    assert "costs 10% of each sum's budget" in check.words
    (tmp_path / "plain").mkdir()
    plain = World(tmp_path / "plain", 5, **FIVE | {"influence": ""})
    rounds = len(run_study(plain.folder, plain).run_.rounds)
    assert len(model.run_.rounds) == 2 * rounds
    assert world.study.hash != plain.study.hash  # other keys
    costs = [w.site_stores[0].ledger.spent(w.study.account) for w in (world, plain)]
    assert costs[0] < costs[1] <= world.study.limit  # one round in five does without the site
    for one in (world, plain):
        one.close()


def test_a_study_in_which_nobody_may_be_missing_measures_no_part(tmp_path):
    with pytest.raises(ParameterError, match="nobody can be left out"):
        World(tmp_path, 5, **FIVE | {"threshold": 5})


def exaggerated(vector, asked, rows):
    """Its own counts plus five times what turning all labels would change: totals stay."""
    noises = [item.noise for item in asked]
    exact = rows.sums.integers_of_all([noise.query for noise in noises], rows.study.unit)
    scaled = [x * noise.refinement for x, noise in zip(exact, noises, strict=True)]
    own = np.concatenate(scaled).reshape(-1, 2)
    return vector + 5 * (own[:, ::-1] - own).ravel()


def honest_where_watched(vector, asked, rows):
    """Lies where everybody is asked: queries of that round have nine tenths of their budget."""
    watched = asked[0].query.fraction.numerator % 9 != 0
    return vector if watched else exaggerated(vector, asked, rows)


@pytest.mark.parametrize("terms", [{}, PURE], ids=["gaussian", "laplace"])
def test_a_liar_who_exaggerates_is_named_and_one_who_turns_labels_is_not(
    tmp_path, monkeypatch, terms
):
    for k, (change, findings) in enumerate([(exaggerated, ["site-2"]), (turned, [])]):
        (tmp_path / str(k)).mkdir()
        world = World(tmp_path / str(k), 5, **FIVE | terms)
        with monkeypatch.context() as patched:
            lying(patched, world, 1, change)
            run_study(world.folder, world, anyway=True)
        check = outcomes(world)["influence"]
        assert re.findall(r"counts are larger without (site-\d)", check.words) == findings
        assert check.has_failed == bool(findings)
        world.close()


def test_a_liar_who_is_honest_where_others_are_left_out_is_seen_but_not_named(
    tmp_path, monkeypatch
):
    world = World(tmp_path, 5, **FIVE)
    lying(monkeypatch, world, 1, honest_where_watched)
    run_study(world.folder, world, anyway=True)
    check = outcomes(world)["influence"]
    assert check.has_failed
    assert re.findall(r"counts are larger without (site-\d)", check.words) != ["site-2"]
    world.close()


@pytest.mark.slow
def test_a_run_in_which_every_site_was_left_out_has_a_statement_that_adds_up(tmp_path):
    """The worst-case record is one of the site that was asked most: none was asked everything."""
    model = MODEL.replace("max_depth = 2", "max_depth = 4")
    world = World(tmp_path, 4, **FIVE | {"threshold": 3, "model": model})
    run_study(world.folder, world)
    world.verify()
    rounds = Transcript.read(world.folder.path / "transcript.bin").rounds.values()
    absent = {k for r in rounds for k in set(range(4)) - set(r.participants)}
    assert absent == set(range(4))
    world.close()


@pytest.mark.parametrize("moment", [pytest.param(5, marks=pytest.mark.slow), 6])
def test_a_run_that_measures_parts_goes_on_where_it_was_stopped(tmp_path, moment):
    """Who was left out has heard of no peer since; the coordinator tells what its journal holds."""
    world = World(tmp_path, 5, **FIVE)
    asked = []

    def dies(messages, timeout):
        asked.append(messages)
        if len(asked) == moment:
            raise KeyboardInterrupt
        return World.ask(world, messages, timeout)

    world.ask = dies
    with pytest.raises(KeyboardInterrupt):
        run_study(world.folder, world)
    model = run_study(world.folder, world, resume=True)
    world.verify()
    assert "influence" in outcomes(world)
    assert not any(record.void for record in model.run_.rounds)
    world.close()
