"""A coordinator that stops wherever it may, and goes on: the same model, nothing charged twice."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pandas as pd
import pytest

import hedgerow as hr
from hedgerow.deployment.progress import SITES_EVENT
from hedgerow.deployment.run import run_study
from hedgerow.deployment.run_folder import RunFolder
from hedgerow.errors import ParameterError, RunEnded, SiteRefused
from hedgerow.federation import exchange as posts
from hedgerow.federation import journal as journals
from hedgerow.federation.client import refusal
from hedgerow.federation.journal import FileJournal
from hedgerow.secagg.codes import Code
from hedgerow.secagg.envelope import Envelope, MessageKind
from support.worlds import ROWS, TWO, World, sample

EXCHANGES = (
    MessageKind.JOIN,
    MessageKind.OPEN,
    MessageKind.BIND,
    MessageKind.ROUND,
    MessageKind.UNMASK,
)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Nobody sleeps: silence lasts until patience is over, at once."""
    now = [0.0]

    def clock():
        now[0] += 0.2
        return now[0]

    patched = partial(posts.RetryPolicy, clock=clock, wait=lambda seconds: clock())
    monkeypatch.setattr("hedgerow.deployment.run.RetryPolicy", patched)


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.close()


@pytest.fixture
def noisy(tmp_path):
    """With so little noise that it stops no tree."""
    made = World(tmp_path, dp_model="distributed", epsilon="80")
    yield made
    made.close()


def in_process():
    """What `fit` grows from the same rows and the same public seed."""
    X, y = sample(ROWS, TWO)
    model = hr.HistogramTreeClassifier(
        TWO, epsilon=1, delta=1e-6, max_depth=2, dp_model="none", random_state=7
    )
    return model.fit(X, y, site=np.arange(ROWS) % 3).model_.to_dict()


def test_a_study_over_its_sites_gives_the_model_of_fit(world):
    events = []
    model = run_study(world.folder, world, listen=events.append)
    assert model.model_.to_dict() == in_process()
    assert hr.load(world.folder.model_file).model_.to_dict() == in_process()
    assert "simulated" not in world.folder.statement_file.read_text()
    events = [event for event in events if event["event"] != SITES_EVENT]  # in a file of their own
    kinds = [event["event"] for event in events]
    assert kinds == ["begun", "note", "round", "round", "round", "finished"]
    assert [e["sites"] for e in events if e["event"] == "round"] == [3, 3, 3]
    written = [json.loads(line) for line in world.folder.events_file.read_text().splitlines()]
    assert written == events


def test_a_statement_counts_what_the_sites_receipts_say(noisy):
    model = run_study(noisy.folder, noisy)
    spent = {site_store.ledger.spent(noisy.study.account) for site_store in noisy.site_stores}
    assert model.privacy_.spent_fraction == float(max(spent) / noisy.study.total)
    assert "simulated" not in str(model.privacy_)
    assert list(model.classes_) == ["no", "yes"]
    frame = pd.DataFrame(sample(5, TWO)[0], columns=TWO.names)
    assert set(model.predict(frame)) <= {"no", "yes"}


# ------------------------------------------------------------------------- a coordinator that dies
class Died(BaseException):
    """No handler of ours catches it: as if the process had ended."""


def dies_at(world, kind, number, after):
    """The transport, until the messages of one exchange are to leave, or have been answered."""
    met = [0]

    def ask(messages, timeout):
        (here,) = {Envelope.parse(message).header.kind for message in messages.values()}
        met[0] += here is kind
        if met[0] == number and here is kind and not after:
            raise Died
        answers = World.ask(world, messages, timeout)
        if met[0] == number and here is kind:
            raise Died
        return answers

    world.ask = ask
    return world


PLACES = [(kind, 1) for kind in EXCHANGES] + [
    *((kind, number) for kind in (MessageKind.ROUND, MessageKind.UNMASK) for number in (2, 3)),
    (MessageKind.CLOSE, 1),
]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(("kind", "number"), PLACES, ids=lambda v: getattr(v, "name", str(v)))
def test_a_coordinator_killed_anywhere_goes_on_in_the_same_run(tmp_path, kind, number, after):
    world = World(tmp_path, at_once=kind is not MessageKind.UNMASK)
    with pytest.raises(Died):
        run_study(world.folder, dies_at(world, kind, number, after))
    del world.ask
    model = run_study(world.folder, world, resume=True)
    assert model.model_.to_dict() == in_process()
    each = world.charged()
    assert [len(rounds) for rounds in each] == [3, 3, 3]
    assert all(len(set(rounds)) == 3 for rounds in each)
    assert len({rounds[0].split("/")[0] for rounds in each}) == 1  # one run
    world.verify()
    world.close()


@pytest.mark.parametrize("kind", [MessageKind.SURVIVORS, MessageKind.UNMASK])
def test_a_round_is_opened_for_those_it_was_closed_with(tmp_path, kind):
    """Sites sign one set a round: one that comes back meanwhile is not taken in."""
    world = World(tmp_path, n_sites=4, threshold=3, at_once=False)

    def leave(event):
        if event.get("what", "").startswith("all sites connected"):
            world.away.add("site-4")

    with pytest.raises(Died):
        run_study(world.folder, dies_at(world, kind, 1, after=True), listen=leave)
    del world.ask
    world.away.clear()
    seen = []
    run_study(world.folder, world, resume=True, listen=seen.append)
    assert [e["sites"] for e in seen if e["event"] == "round"] == [3, 4, 4]
    assert [len(rounds) for rounds in world.charged()] == [3, 3, 3, 2]
    world.close()


def test_without_that_line_of_the_journal_sites_would_refuse(tmp_path, monkeypatch):
    """Twin."""
    monkeypatch.setattr(FileJournal, "add_members", lambda *given: None)
    with pytest.raises(SiteRefused, match="SecondSet"):
        test_a_round_is_opened_for_those_it_was_closed_with(tmp_path, MessageKind.SURVIVORS)


STEPS = ["joining", "session", "add_request", "add_members", "add_outcome"]


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_a_coordinator_killed_while_it_writes_its_journal(tmp_path, step, after, monkeypatch):
    world = World(tmp_path, at_once=step != "add_members")
    real = getattr(FileJournal, step)

    def dying(self, *given):
        if after:
            real(self, *given)
        raise Died

    monkeypatch.setattr(FileJournal, step, dying)
    with pytest.raises(Died):
        run_study(world.folder, world)
    monkeypatch.setattr(FileJournal, step, real)
    resumed = world.folder.is_begun
    model = run_study(world.folder, world, resume=resumed)
    assert model.model_.to_dict() == in_process()
    assert [len(rounds) for rounds in world.charged()] == [3, 3, 3]
    world.close()


def test_a_torn_last_line_is_a_step_that_was_never_taken(world):
    with pytest.raises(Died):
        run_study(world.folder, dies_at(world, MessageKind.ROUND, 2, after=True))
    del world.ask
    answers = world.folder.path / "answers.jsonl"
    answers.write_bytes(answers.read_bytes() + b'{"what":"answered","round":2,"tot')
    assert run_study(world.folder, world, resume=True).model_.to_dict() == in_process()
    assert [len(rounds) for rounds in world.charged()] == [3, 3, 3]


def test_a_new_round_number_after_a_restart_would_be_charged_twice(world, monkeypatch):
    """Twin: a coordinator that forgets which round was under way."""
    with pytest.raises(Died):
        run_study(world.folder, dies_at(world, MessageKind.ROUND, 2, after=True))
    del world.ask
    lines = (world.folder.path / "answers.jsonl").read_text().splitlines()
    assert json.loads(lines[-1])["what"] == "asked"
    kept = "\n".join(lines[:-1]) + "\n"
    (world.folder.path / "answers.jsonl").write_text(kept)
    monkeypatch.setattr("hedgerow.federation.server.MOST_TRIES", 1)
    with pytest.raises(hr.HedgerowError):
        run_study(world.folder, world, resume=True)


def test_a_record_of_another_study_is_not_replayed(world):
    with pytest.raises(Died):
        run_study(world.folder, dies_at(world, MessageKind.ROUND, 3, after=True))
    del world.ask
    text = world.folder.study_file.read_text().replace("max_depth = 2", "max_depth = 1")
    world.folder.study_file.write_text(text)
    with pytest.raises((ParameterError, SiteRefused)):
        run_study(world.folder, world, resume=True)


# ----------------------------------------------------------------------------- sites that are away
def test_a_run_ends_with_the_names_of_the_silent_and_goes_on_when_they_are_back(noisy):
    noisy.away = {"site-2"}
    with pytest.raises(RunEnded, match="site-2 did not answer within 3 s") as ended:
        run_study(noisy.folder, noisy)
    assert "0.0% of the budget is charged" in str(ended.value)
    noisy.away = set()
    run_study(noisy.folder, noisy, resume=True)
    assert [len(rounds) for rounds in noisy.charged()] == [3, 3, 3]


@pytest.mark.parametrize(("at_once", "charged"), [(False, [3, 3, 3, 2]), (True, [4, 4, 4, 2])])
def test_with_enough_others_a_run_goes_on_without_one_and_takes_it_back(tmp_path, at_once, charged):
    """At once the round that lacked it is void; it is asked anew, for another charge."""
    world = World(tmp_path, n_sites=4, threshold=3, at_once=at_once)
    seen = []

    def leave_and_return(event):
        seen.append(event)
        if event["event"] == "round":
            world.away = {"site-4"} if event["round"] == 1 else set()

    run_study(world.folder, world, listen=leave_and_return)
    assert [e["sites"] for e in seen if e["event"] == "round"] == [4, 3, 4]
    assert any(e["event"] == "note" and "without" in e["what"] for e in seen)
    assert [len(rounds) for rounds in world.charged()] == charged
    world.close()


@pytest.mark.parametrize("dp_model", ["none", "distributed"])
def test_a_site_that_is_started_anew_costs_one_round_of_the_others_at_most(tmp_path, dp_model):
    world = World(tmp_path, dp_model=dp_model, reserve="0.6", epsilon="80")

    def restart(event):
        if event["event"] == "round" and event["round"] == 1:
            world.start_anew(1)

    model = run_study(world.folder, world, listen=restart)
    if dp_model == "none":
        assert model.model_.to_dict() == in_process()
    assert sorted(len(rounds) for rounds in world.charged()) in ([3, 3, 3], [3, 4, 4])
    world.verify()
    world.close()


@pytest.mark.parametrize(
    ("kind", "when"),
    [(kind, when) for kind in ("JOIN", "OPEN", "BIND") for when in ("before", "after")]
    + [("CLOSE", "before")],
)
def test_a_site_that_is_started_anew_while_keys_are_agreed_is_in_the_next_epoch(
    tmp_path, kind, when
):
    world = World(tmp_path)
    ask, hurt = world.ask, []

    def hurting(messages, timeout):
        (here,) = {Envelope.parse(message).header.kind.name for message in messages.values()}
        is_now = here == kind and not hurt
        hurt.extend([here] * is_now)
        if is_now and when == "before":
            world.start_anew(1)
        answers = ask(messages, timeout)
        if is_now and when == "after":
            world.start_anew(1)
            answers.pop("site-2")
        return answers

    world.ask = hurting
    assert run_study(world.folder, world).model_.to_dict() == in_process()
    assert hurt == [kind]
    assert [len(rounds) for rounds in world.charged()] == [3, 3, 3]
    world.verify()
    world.close()


# ------------------------------------------------------------------------------- the folder itself
def test_a_run_is_begun_once_and_resumed_only_if_begun(world):
    with pytest.raises(ParameterError, match="no run was begun"):
        run_study(world.folder, world, resume=True)
    run_study(world.folder, world)
    with pytest.raises(ParameterError, match="would be charged anew"):
        run_study(world.folder, world)
    again = run_study(world.folder, world, resume=True)  # all of it from the record
    assert again.model_.to_dict() == in_process()
    assert [len(rounds) for rounds in world.charged()] == [3, 3, 3]


def test_one_process_at_a_time_runs_a_study(world):
    with world.folder.lock(), pytest.raises(ParameterError, match="another process runs the study"):
        run_study(world.folder, world)
    assert not world.folder.is_held()


def test_a_run_that_is_asked_to_stop_ends_between_rounds(world):
    def stop(event):
        if event["event"] == "round":
            world.folder.stop_file.touch()

    with pytest.raises(RunEnded, match="stopped before round 2"):
        run_study(world.folder, world, listen=stop)
    assert [len(rounds) for rounds in world.charged()] == [1, 1, 1]
    assert run_study(world.folder, world, resume=True).model_.to_dict() == in_process()


def test_a_key_that_the_study_does_not_name_runs_nothing(world, tmp_path):
    other, _ = RunFolder.create(tmp_path / "other")
    other.study_file.write_text(world.folder.study_file.read_text())
    with pytest.raises(ParameterError, match="not the key that the study names"):
        run_study(other, world)


def test_receipts_of_every_round_are_kept_for_sites_that_lose_their_file(noisy):
    run_study(noisy.folder, noisy)
    lines = (noisy.folder.path / "answers.jsonl").read_text().splitlines()
    answered = [json.loads(line) for line in lines if json.loads(line)["what"] == "answered"]
    assert all(set(one["receipts"]) == {"0", "1", "2"} for one in answered)
    held = [bytes.fromhex(r) for r in journals.receipts_of(noisy.folder.path, 1)]
    assert len(held) == 3  # one for each round: what opens it left with the charge


# ------------------------------------------------------------------------------ two studies at once
def test_two_studies_with_little_budget_left_do_not_both_get_it(tmp_path):
    """The lifetime budget of each site pays for one of them; the other is not approved."""
    world = World(tmp_path, dp_model="distributed")
    for site_store in world.site_stores:
        with site_store.ledger.current() as books:
            lifetime, given = books.lifetime, books.committed
        site_store.ledger.set_lifetime(lifetime.measure, given * 3 / 2)
        with pytest.raises(hr.BudgetExceeded):
            site_store.ledger.approve(
                "another study", world.study.measure, world.study.total, "other"
            )
    run_study(world.folder, world)
    spent = {site_store.ledger.spent(world.study.account) for site_store in world.site_stores}
    assert spent == {world.study.spendable}
    world.verify()
    world.close()


# ------------------------------------------------------------------------------ a site that refuses
@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "in two"])
@pytest.mark.parametrize("kind", EXCHANGES, ids=lambda kind: kind.name)
@pytest.mark.parametrize("code", [Code.STUDY_CLOSED, Code.BAD_SHARE, Code.INTERNAL])
def test_one_site_that_refuses_does_not_end_a_run_of_enough_others(tmp_path, kind, code, at_once):
    terms = {"dp_model": "distributed", "epsilon": "80", "reserve": "0.6", "at_once": at_once}
    world = World(tmp_path, n_sites=4, threshold=3, **terms)
    answer = world.clients[3].handle
    world.clients[3].handle = lambda message: (
        refusal(code) if Envelope.parse(message).header.kind is kind else answer(message)
    )
    model = run_study(world.folder, world)
    members = {record.sites for record in model.run_.rounds if not record.void}
    assert members == {3} or (kind is MessageKind.UNMASK and members <= {3, 4})
    world.verify()
    world.close()


def test_where_nobody_may_be_missing_the_site_that_refuses_is_named(tmp_path):
    world = World(tmp_path, dp_model="distributed", epsilon="80")
    world.clients[1].handle = lambda message: refusal(Code.POLICY_REFUSED)
    with pytest.raises(SiteRefused, match="site site-2 refused with code PolicyRefused"):
        run_study(world.folder, world)
    world.close()
