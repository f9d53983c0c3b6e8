"""SIGKILL of a site and of the coordinator, in every phase, with real processes over HTTPS.

The page docs/faults.md is made from the same plays: python tests/support/play_faults.py.
"""

from __future__ import annotations

import pytest

from benchmarks.network_page import faults_page
from support.engine_world import FLARE_FAULTS, FLOWER_FAULTS
from support.faults import FAULTS, MAY_BE_VOID, network
from support.network import PROCESSORS, processors, why_no_namespace

QUICK = {"site-round-2-after"}
"""In every run of the tests; all others in the long one. A coordinator that dies in any phase and
goes on is played within one process in every run, by tests/deployment/test_run.py.
"""
PLAYS = [
    pytest.param(fault, id=fault.name, marks=[] if fault.name in QUICK else [pytest.mark.slow])
    for fault in FAULTS
]


def test_the_page_shows_every_play():
    text = faults_page()
    for fault in (*FAULTS, *FLARE_FAULTS, *FLOWER_FAULTS):
        assert f"`{fault.name}`" in text


@pytest.fixture(scope="module")
def consortium(tmp_path_factory):
    with network(tmp_path_factory.mktemp("network")) as started:
        yield started


@pytest.mark.network
@pytest.mark.parametrize("fault", PLAYS)
def test_a_killed_process_costs_time_and_no_more_than_a_round(consortium, fault):
    if fault.when == "cut" and (reason := why_no_namespace()):
        pytest.skip(reason)
    outcome = consortium.play(fault)
    assert outcome.same_model
    assert outcome.charged_once
    assert max(outcome.charged) == outcome.rounds
    may_be_void = fault.who == "site" and (fault.kind, fault.when) in MAY_BE_VOID
    assert outcome.void <= may_be_void


BOOSTED = {
    "HistogramTreeClassifier": "BoostedTreesClassifier",
    "max_depth = 2": "n_estimators = 8",
}


@pytest.mark.slow
@pytest.mark.network
def test_a_run_on_three_processors_goes_on_on_a_fourth(tmp_path):
    """Their libraries round otherwise; nobody's questions, answers or models show it."""
    features = [PROCESSORS[name] for name in processors()]
    with network(tmp_path) as mixed:
        for k in range(3):
            mixed.move(k, features[k % len(features)])
        folder = mixed.study("processors", **BOOSTED)
        mixed.wait_until_served(folder)
        first = mixed.coordinator(folder, "run", "ROUND", "4", "after", **features[0])
        assert first.wait(300) == -9
        assert mixed.coordinator(folder, "resume", **features[-1]).wait(400) == 0
        outcome = mixed.outcome(folder, 0.0)
    assert outcome.same_model
    assert outcome.charged_once
    assert outcome.void == 0
    assert outcome.charged == (outcome.rounds,) * 3
    assert outcome.rounds > 6
