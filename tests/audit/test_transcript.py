"""Plain transcripts: of the records that sites keep of networked runs, for their own rows."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from hedgerow.audit.transcript import answer_without_noise, claim_of, judge_records
from hedgerow.cli.main import app
from hedgerow.data.prepared import StudyRows
from hedgerow.deployment.run import run_study
from hedgerow.deployment.verify import replay_run
from hedgerow.federation import client, exchange
from support.worlds import ROWS, TWO, World, sample

pytestmark = pytest.mark.filterwarnings("ignore")

MODELS = {
    "none": 'estimator = "HistogramTreeClassifier"\n[model.parameters]\nmax_depth = 1',
    "distributed": 'estimator = "HistogramTreeClassifier"\n[model.parameters]\nmax_depth = 2',
    "per_site": 'estimator = "TopDownTreeClassifier"\n[model.parameters]\nmax_splits = 2\n'
    'split = "local_choice"',
}


@pytest.fixture(params=["distributed", "per_site"])
def world(request, tmp_path, monkeypatch):
    yield from opened(request.param, tmp_path, monkeypatch)


@pytest.fixture
def unprotected(tmp_path, monkeypatch):
    yield from opened("none", tmp_path, monkeypatch)


def opened(dp_model, tmp_path, monkeypatch):
    now = iter(np.arange(0.0, 1e6, 0.2))
    clock = partial(next, now)
    retry_policy = partial(exchange.RetryPolicy, clock=clock, wait=lambda seconds: clock())
    monkeypatch.setattr("hedgerow.deployment.run.RetryPolicy", retry_policy)
    made = World(tmp_path, dp_model=dp_model, epsilon="6", model=MODELS[dp_model], hold_out=4)
    run_study(made.folder, made)
    yield made
    made.close()


def own_rows(world):
    X, y = sample(ROWS, TWO)
    return X[::3], y[::3]


def test_a_networked_run_is_made_again_from_its_record_and_both_accountants_agree(world):
    run = replay_run(world.folder.model_file)
    spent = max(site_store.ledger.spent(world.study.account) for site_store in world.site_stores)
    assert run.spent == spent
    claim = claim_of(run.spent, run.model.privacy_)
    found = judge_records(run.study, run.rounds, own_rows(world), claim)
    assert [one.problems for one in found.values()] == [()] * len(found)
    assert {one.worst for one in found.values()} == {spent}
    assert max(one.lost for one in found.values()) > 0


def test_a_site_sees_what_its_records_could_have_changed(world, tmp_path):
    X, y = own_rows(world)
    frame = pd.DataFrame(X, columns=list(TWO.names)).assign(outcome=y)
    frame.to_csv(tmp_path / "mine.csv", index=False)
    asked = ["verify", str(world.folder.model_file), "--against", str(tmp_path / "mine.csv")]
    done = CliRunner().invoke(app, [*asked, "--json"])
    assert done.exit_code == 0, done.output
    checks = {one["what"]: one for one in json.loads(done.output)["checks"]}
    assert checks["replay"]["outcome"] == "ok"
    assert "left out in turn" in checks["your records"]["words"]
    (world.folder.path / "answers.jsonl").unlink()
    refused = CliRunner().invoke(app, asked)
    assert refused.exit_code != 0
    assert "ask the coordinator" in str(refused.exception)


def test_an_answer_without_its_noise_is_named(world, monkeypatch):
    """Negative control: a site that draws its noise and forgets to add it."""
    run, plain = replay_run(world.folder.model_file), client.drawn
    monkeypatch.setattr(client, "drawn", lambda *given: [0 * one for one in plain(*given)])
    for one in judge_records(run.study, run.rounds, own_rows(world), most=2).values():
        assert any("carries no noise of its own" in problem for problem in one.problems)


def test_looking_at_a_response_draws_nothing_and_marks_every_number(world, monkeypatch):
    run = replay_run(world.folder.model_file)
    rows = world.clients[0].rows
    assert isinstance(rows, StudyRows)
    monkeypatch.setattr(client.sampling, "draw", None)
    one = answer_without_noise(rows, run.rounds[0])
    assert sorted(one.draws) == list(range(len(one.integers)))
    assert len(one.laws) == len(one.integers)


def test_where_nothing_is_promised_no_record_is_judged(unprotected, tmp_path):
    X, y = own_rows(unprotected)
    frame = pd.DataFrame(X, columns=list(TWO.names)).assign(outcome=y)
    frame.to_csv(tmp_path / "mine.csv", index=False)
    model = str(unprotected.folder.model_file)
    asked = ["verify", model, "--against", str(tmp_path / "mine.csv"), "--json"]
    done = CliRunner().invoke(app, asked)
    checks = {one["what"]: one["outcome"] for one in json.loads(done.output)["checks"]}
    assert (checks["replay"], checks["your records"]) == ("ok", "skipped")
