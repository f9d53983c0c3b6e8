"""Sums that honest sites do not send are noticed; those that they send are not, in 2^40 runs."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from hedgerow.deployment.run import run_study
from hedgerow.deployment.verify import verify_model
from hedgerow.federation import client
from hedgerow.federation.client import Response
from hedgerow.federation.plausibility import CLEVER, Implausible, Plausibility, noise_reach
from hedgerow.privacy.mechanisms.coins import SecretRandomness
from hedgerow.privacy.mechanisms.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoNoise,
    PolyaDifference,
)
from hedgerow.privacy.mechanisms.sampling import draw
from hedgerow.privacy.pricing import priced
from hedgerow.privacy.queries import ClassCounts, Count, SumQuery, Whole
from hedgerow.schema.regions import EVERYONE
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
STUDY = study(TWO, 3, epsilon="1")


def checked(values, statistic=None, rows=None):
    query = SumQuery(EVERYONE, statistic or ClassCounts(2), Whole(), Fraction(1, 2))
    noise = priced(STUDY, query).noise
    found = Plausibility(STUDY, rows, goes_on=True)
    found.check(1, [(noise, np.array(values, np.int64) * noise.scale)], 3)
    return found


def test_honest_counts_pass_and_each_impossible_one_has_a_name():
    assert not checked([40, 60], rows=200).findings
    assert not checked([-10, 60], rows=200).findings  # noise alone does that
    (negative,) = checked([-4000, 60]).findings
    assert negative == "round 1: a count is negative beyond its noise"
    inflated = checked([40, 90_000], rows=200).findings
    assert any("larger than 200 records" in words for words in inflated)
    assert any("counts more than 200 records" in words for words in inflated)
    assert not checked([40, 90_000]).findings  # without a public bound nobody knows


def test_a_run_stops_unless_it_is_told_to_go_on():
    query = SumQuery(EVERYONE, Count(), Whole(), Fraction(1, 2))
    noise = priced(STUDY, query).noise
    sums = [(noise, np.array([-(10**6)]))]
    with pytest.raises(Implausible, match="--anyway"):
        Plausibility(STUDY).check(1, sums, 3)
    going = Plausibility(STUDY, goes_on=True)
    going.check(1, sums, 3)
    assert going.words == f"round 1: a count is negative beyond its noise; {CLEVER}"


def test_later_rounds_use_less_of_the_false_alarms():
    """The bound widens with the round, so that all of them together use 2^-40."""
    query = SumQuery(EVERYONE, Count(), Whole(), Fraction(1, 2))
    noise = priced(STUDY, query).noise
    edge = noise_reach(noise.of_site, 3, 2.0**-40 / (1 * 2 * 4))
    value = np.array([-math.ceil(edge) - 1])
    early, late = (Plausibility(STUDY, goes_on=True) for _ in range(2))
    early.check(1, [(noise, value)], 3)
    late.check(1000, [(noise, value)], 3)
    assert early.findings
    assert not late.findings


# --------------------------------------------------------------------------------- liars in a run
def lying(monkeypatch, world, site, change):
    plain = client.respond

    def tapped(rows, asked, *rest):
        answer = plain(rows, asked, *rest)
        if rows is world.clients[site].rows:
            return Response(change(answer.vector, asked), answer.selections)
        return answer

    monkeypatch.setattr(client, "respond", tapped)


def garbage(vector, asked):
    return vector - 10**7


def one_table_only(vector, asked):
    """Counts moved from one column's table: its total is not that of the others."""
    changed = vector.copy()
    changed[: len(changed) // 6] += 10**6
    return changed


def turned(vector, asked):
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
