"""Sites that fall silent inside a federation, and a coordinator that stops: what it costs."""

from __future__ import annotations

import threading
from contextlib import closing, nullcontext, suppress
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from hedgerow.data.prepared import StudyRows
from hedgerow.errors import (
    ComputationFailed,
    HedgerowError,
    LedgerUnavailable,
    ParameterError,
    RoundFailed,
    RunEnded,
    SiteRefused,
)
from hedgerow.federation.client import Client, refusal_code
from hedgerow.federation.exchange import Misses, RetryPolicy, Timing, patient
from hedgerow.federation.secure_sites import SecureSites
from hedgerow.federation.server import Server
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.ledger.charges import MemoryLedger
from hedgerow.privacy.pricing import priced
from hedgerow.privacy.queries import Count, LocalSelection, Score, Scoring, SumQuery, Whole
from hedgerow.schema.regions import EVERYONE, Split, cells
from hedgerow.secagg.client import Site, one_at_a_time
from hedgerow.secagg.envelope import Envelope, MessageKind
from hedgerow.secagg.keys import Identity
from hedgerow.secagg.messages import Mode
from hedgerow.secagg.server import Coordinator
from support.effort import LONG
from support.faults import Clock
from support.site_stores import IMPATIENT, DurableLink
from support.worlds import TWO, round_of, sample, site_rows, study, tap

PARTIES, THRESHOLD = 5, 4
OWNERS = np.arange(150) % PARTIES
SHARE = Fraction(1, 10)
COUNT = SumQuery(EVERYONE, Count(), Whole(), SHARE)
SPLITS = tuple(Split("age", TWO.grids[0].digest, cells(range(c))) for c in (2, 4))
CHOICE = LocalSelection(EVERYONE, SPLITS, Scoring(Score.GINI), SHARE)


def linked(folder, dp_model):
    X, y = sample(150, TWO)
    the_study = study(TWO, PARTIES, dp_model)
    return DurableLink(the_study, site_rows(X, y, OWNERS, PARTIES, TWO), folder)


@pytest.fixture
def link(tmp_path):
    """Without noise, so that sums can be compared."""
    link = linked(tmp_path, DPModel.NONE)
    assert link.parameters.threshold == THRESHOLD
    yield link
    link.close()


@pytest.fixture
def noisy(tmp_path):
    link = linked(tmp_path, DPModel.DISTRIBUTED)
    yield link
    link.close()


def rows_of(sites):
    return int(np.isin(OWNERS, sites).sum())


# --------------------------------------------------------------------------------- the slow path
def test_sites_that_lack_a_definition_get_all_of_them_in_a_second_exchange(link, monkeypatch):
    """Two of five: without them there are too few, and nobody is asked to wait for them."""
    asked, plain = [], link.ask
    monkeypatch.setattr(
        link, "ask", lambda messages, s: asked.append(set(messages)) or plain(messages, s)
    )
    round_of(link, 1, [CHOICE])
    for client in link.clients[:2]:
        client.receiver.forget()
    before = len(asked)
    got = round_of(link, 2, [CHOICE])
    assert got.members == tuple(range(PARTIES))
    assert {"0", "1"} in asked[before + 1 :]
    assert all(client.receiver.definitions for client in link.clients)


def test_a_site_that_never_gets_the_question_is_left_out_of_the_sum(link):
    link.deaf[MessageKind.ROUND] = [4]
    assert round_of(link, 1, [COUNT]).total.tolist() == [rows_of([0, 1, 2, 3])]


def test_a_vector_that_is_lost_on_its_way_is_left_out_and_stays_charged(link):
    link.mute[MessageKind.ROUND] = [2]
    assert round_of(link, 1, [COUNT]).total.tolist() == [rows_of([0, 1, 3, 4])]
    assert link.site_stores[2].ledger.spent(link.study.account) == float("inf")


def test_a_site_that_falls_silent_after_its_vector_arrived_counts(link):
    link.deaf[MessageKind.UNMASK] = [1]
    assert round_of(link, 1, [COUNT]).total.tolist() == [rows_of(range(PARTIES))]


def test_a_site_that_was_lost_in_one_round_is_there_in_the_next(link):
    link.deaf[MessageKind.ROUND] = [4]
    round_of(link, 1, [COUNT])
    link.deaf.clear()
    assert round_of(link, 2, [COUNT]).total.tolist() == [rows_of(range(PARTIES))]


def test_picks_are_those_of_the_members_in_their_order(link):
    every = round_of(link, 1, [CHOICE, COUNT])
    assert len(every.selections) == PARTIES
    link.deaf[MessageKind.ROUND] = [0]
    some = round_of(link, 2, [CHOICE, COUNT])
    assert some.selections == every.selections[1:]  # without noise each site picks its best split
    assert some.total.tolist() == [rows_of([1, 2, 3, 4])]


def test_a_round_of_choices_alone_is_opened_like_any_other(link):
    got = round_of(link, 1, [CHOICE])
    assert (len(got.selections), got.total.tolist()) == (PARTIES, [0])


def test_the_variance_is_that_of_the_members(noisy):
    federation = Server(noisy.study, noisy, MemoryLedger(noisy.study.limit))
    (every,) = federation.ask([COUNT])
    noisy.deaf[MessageKind.ROUND] = [4]
    (some,) = federation.ask([COUNT])
    assert every.variance == noisy.study.variance(COUNT)
    assert some.variance == pytest.approx(every.variance * 4 / 5)
    assert [r.sites for r in federation.record.rounds] == [5, 4]


# ------------------------------------------------------------- too few are there: nobody is charged
def test_a_run_with_too_few_sites_ends_and_goes_on_with_the_same_round(noisy):
    noisy.mute[MessageKind.ROUND] = [3, 4]
    with pytest.raises(RunEnded, match="3, 4 did not answer") as ended:
        round_of(noisy, 1, [COUNT])
    assert "3 of 5 sites are there and 4 are needed" in str(ended.value)
    cost = SHARE * noisy.study.total
    assert noisy.spent_at_sites() == [cost] * PARTIES
    noisy.mute.clear()
    round_of(noisy, 1, [COUNT])
    assert noisy.spent_at_sites() == [cost] * PARTIES
    round_of(noisy, 2, [COUNT])
    assert noisy.spent_at_sites() == [2 * cost] * PARTIES


def test_a_lost_site_and_a_lost_answer_are_waited_for(noisy):
    """Whoever was to open a set must open that one; the lost stay outside it."""
    noisy.deaf = {MessageKind.ROUND: [4], MessageKind.UNMASK: [0]}
    with pytest.raises(RunEnded, match="0 did not answer"):
        round_of(noisy, 1, [COUNT])
    noisy.deaf.clear()
    assert round_of(noisy, 1, [COUNT]).members == (0, 1, 2, 3)
    cost = SHARE * noisy.study.total
    assert noisy.spent_at_sites() == [cost] * 4 + [0]


def test_a_set_that_too_few_sign_is_not_opened(noisy):
    noisy.deaf = {MessageKind.ROUND: [4], MessageKind.SURVIVORS: [0]}
    with pytest.raises(RunEnded, match="0 did not answer"):
        round_of(noisy, 1, [COUNT])


# ------------------------------------------------------------------ sites that are started anew
def started_anew(link, k):
    link.site_stores[k].close()
    link.site_stores[k] = link._site_store(k)
    link.clients[k] = link._served(k)


def test_a_site_that_is_started_anew_misses_one_round_and_is_back_in_the_next(link):
    round_of(link, 1, [COUNT])
    started_anew(link, 2)
    assert round_of(link, 2, [COUNT]).members == (0, 1, 3, 4)
    assert round_of(link, 3, [COUNT]).members == (0, 1, 2, 3, 4)
    assert link.coordinator.attempt == 2


def test_sites_that_are_started_anew_make_a_round_void_and_it_is_asked_once_more(tmp_path):
    X, y = sample(150, TWO)
    the_study = study(TWO, PARTIES, retry_budget=Fraction(1, 5))
    link = DurableLink(the_study, site_rows(X, y, OWNERS, PARTIES, TWO), tmp_path)
    federation = Server(the_study, link, MemoryLedger(the_study.limit))
    started_anew(link, 2)
    started_anew(link, 3)
    federation.ask([COUNT])
    cost = SHARE * the_study.spendable
    assert [(r.void, r.sites) for r in federation.record.rounds] == [(True, None), (False, 5)]
    assert link.spent_at_sites() == [2 * cost, 2 * cost, cost, cost, 2 * cost]
    assert link.spent() == 2 * cost
    link.close()


def test_before_a_round_that_the_reserve_could_not_pay_twice_all_are_asked_who_they_are(noisy):
    """After a pause, which is when a process may have been started anew."""
    round_of(noisy, 1, [COUNT])
    for k in (1, 2, 3):
        started_anew(noisy, k)
    noisy.session_state._last_answer -= 10.0
    assert round_of(noisy, 2, [COUNT]).members == (0, 1, 2, 3, 4)
    assert noisy.spent_at_sites() == [2 * SHARE * noisy.study.total] * PARTIES


def test_without_that_question_the_round_would_be_lost(noisy):
    """Twin."""
    round_of(noisy, 1, [COUNT])
    for k in (1, 2, 3):
        started_anew(noisy, k)
    with pytest.raises(RoundFailed, match="the charge stays"):
        round_of(noisy, 2, [COUNT])


def started_anew_before(link, kind, sites):
    """Between the vectors of the round and its first message of that kind; gives kinds asked."""
    kinds, plain = list[str](), link.ask

    def ask(messages, timeout):
        (here,) = {Envelope.parse(message).header.kind for message in messages.values()}
        if here is kind and kind.name not in kinds:
            for k in sites:
                started_anew(link, k)
        kinds.append(here.name)
        return plain(messages, timeout)

    link.ask = ask
    return kinds


@pytest.mark.parametrize(
    ("lost", "restarts", "kinds"),
    [
        ([], [2], ["UNMASK"]),  # the others suffice
        ([], [2, 3], ["UNMASK", "WITNESS", "PROVE", "UNMASK"]),
        ([4], [2], ["SURVIVORS", "WITNESS", "PROVE", "SURVIVORS", "UNMASK"]),
    ],
    ids=str,
)
def test_sites_started_anew_in_a_round_are_told_by_the_others_what_to_open(
    noisy, lost, restarts, kinds
):
    noisy.deaf[MessageKind.ROUND] = lost
    asked = started_anew_before(noisy, MessageKind[kinds[0]], restarts)
    members = tuple(k for k in range(PARTIES) if k not in lost)
    assert round_of(noisy, 1, [COUNT]).members == members
    assert asked == ["ROUND", *kinds]
    cost = SHARE * noisy.study.total
    assert noisy.spent_at_sites() == [cost * (k not in lost) for k in range(PARTIES)]


@pytest.mark.parametrize(("lost", "restarts"), [([], [1, 2, 3]), ([4], [1, 2])], ids=str)
def test_with_too_few_witnesses_the_round_is_void(noisy, lost, restarts):
    noisy.deaf[MessageKind.ROUND] = lost
    kind = MessageKind.SURVIVORS if lost else MessageKind.UNMASK
    started_anew_before(noisy, kind, restarts)
    with pytest.raises(RoundFailed, match=r"cannot answer for it any more.*the charge stays"):
        round_of(noisy, 1, [COUNT])


def test_a_site_whose_disk_is_full_is_left_out_and_charged_nothing(noisy, monkeypatch):
    def full(*given):
        raise LedgerUnavailable("disk full")

    monkeypatch.setattr(noisy.site_stores[1], "release", full)
    assert round_of(noisy, 1, [COUNT]).members == (0, 2, 3, 4)
    assert noisy.spent_at_sites()[1] == 0


# ---------------------------------------------------------------------- a coordinator that stops
def stopped_after_masked(link):
    """A round whose MASKED have all arrived; gives what was durable before ROUND left."""
    before = {
        "run_id": link.coordinator.run_id,
        "keys": link.coordinator.keys,
        "round": 1,
        "heads": dict(link.coordinator.heads),
    }
    messages = first_messages(link)
    return before, messages, link.send(messages)


def first_messages(link):
    encoded = type(link.sender)().encode([COUNT])
    definitions = dict.fromkeys(range(PARTIES), encoded.definitions)
    return link.coordinator.start(encoded.questions, 1, round=1).requests(definitions)


def resumed(link, before):
    return Coordinator.resume(
        link.own_identity, link.roster, link.parameters, link.study.hash, **before
    )


def test_a_resumed_run_asks_in_the_same_bytes_and_costs_nothing_more(noisy):
    before, messages, answers = stopped_after_masked(noisy)
    charged = noisy.spent_at_sites()
    noisy.link_to(resumed(noisy, before))
    assert first_messages(noisy) == messages
    assert noisy.send(messages) == answers
    assert noisy.spent_at_sites() == charged == [SHARE * noisy.study.total] * PARTIES


def test_a_new_run_would_pay_for_the_round_again(noisy):
    """The negative control."""
    stopped_after_masked(noisy)
    once = noisy.spent_at_sites()
    noisy.restart()
    round_of(noisy, 1, [COUNT])
    assert noisy.spent_at_sites() == [2 * spent for spent in once]


def test_a_run_is_resumed_with_its_own_keys_only(noisy):
    before, _, _ = stopped_after_masked(noisy)
    with pytest.raises(HedgerowError, match="BadMessage"):
        resumed(noisy, before | {"run_id": bytes(16)})
    with pytest.raises(HedgerowError, match="TooFew"):
        resumed(noisy, before | {"keys": ()})


# -------------------------------------------------------------------------- two threads, one site
def answered_by_two_threads(link, monkeypatch, seconds=0.3):
    """Both threads hold the same ROUND; each waits a while for the other inside the site.

    Where the lock holds the other back, all of the `seconds` pass; without it they end at once.
    """
    both, got, failed = threading.Barrier(2), [], []
    client = link.clients[0]

    def meet_and_respond(make):
        with suppress(threading.BrokenBarrierError):
            both.wait(timeout=seconds)
        return make()

    def answer(message):
        answer = client.handle(message)
        (got if refusal_code(answer) is None else failed).append(answer)

    tap(monkeypatch, client.rows, meet_and_respond)
    message = first_messages(link)[0]
    threads = [threading.Thread(target=answer, args=(message,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return got, failed


def test_two_threads_that_ask_one_site_get_the_same_bytes_for_one_charge(noisy, monkeypatch):
    got, failed = answered_by_two_threads(noisy, monkeypatch)
    assert failed == []
    assert len(got) == 2
    assert got[0] == got[1]
    assert noisy.spent_at_sites()[0] == SHARE * noisy.study.total


def test_without_the_lock_the_vault_still_decides(noisy, monkeypatch):
    """Both read rows behind the same hold; one transaction charges and sends, one finds that."""
    noisy.clients[0]._lock = nullcontext()
    got, failed = answered_by_two_threads(noisy, monkeypatch, LONG)
    assert (len(set(got)), len(failed)) == (1, 1)
    assert noisy.spent_at_sites()[0] == SHARE * noisy.study.total


class Impatient:
    """A lock that says so instead of waiting for ever."""

    def __init__(self, seconds):
        self.lock, self.seconds = threading.RLock(), seconds

    def __enter__(self):
        if not self.lock.acquire(timeout=self.seconds):
            raise TimeoutError("two threads wait for each other")

    def __exit__(self, *error):
        self.lock.release()


def opened_while_the_next_is_masked(link, monkeypatch, mask, seconds=LONG):
    """One thread masks round 2 inside the store's transaction; then another opens round 1.

    Who has waited so many `seconds` for the site's lock gives up.
    """
    questions = link.sender.encode([COUNT]).questions
    first = link.coordinator.start(questions, 1)
    for answer in link.send(first.requests()).values():
        first.accept_masked(answer)
    first.close()
    opening, asking = first.unmask()[0], link.coordinator.start(questions, 1).requests()[0]
    site, failed = link.clients[0].site, []
    masking, opening_now = threading.Event(), threading.Event()
    site.lock, received = Impatient(seconds), site._receive

    def mask_once_the_other_has_begun(*given):
        masking.set()
        opening_now.wait(LONG)
        return mask(*given)

    def receive(message, kind):
        if kind is MessageKind.UNMASK:  # this thread has the site's lock, and wants the store
            opening_now.set()
        return received(message, kind)

    def attempt(step, message):
        try:
            step(message)
        except (TimeoutError, SiteRefused) as error:
            failed.append(str(error))
        except ComputationFailed as error:  # which closes the study, so that the other is refused
            failed.append(str(error.__cause__))

    monkeypatch.setattr(Site, "mask", mask_once_the_other_has_begun)
    monkeypatch.setattr(site, "_receive", receive)
    thread = threading.Thread(target=attempt, args=(link.clients[0]._round, asking))
    thread.start()
    masking.wait(LONG)
    attempt(site.unmask, opening)
    thread.join()
    return failed


def test_a_round_is_opened_while_the_next_one_is_masked(noisy, monkeypatch):
    assert opened_while_the_next_is_masked(noisy, monkeypatch, Site.mask) == []


def test_a_mask_that_waited_for_other_steps_would_stop_both(noisy, monkeypatch):
    """The negative control."""
    waiting = one_at_a_time(Site.mask)
    failed = opened_while_the_next_is_masked(noisy, monkeypatch, waiting, seconds=1.0)
    assert "two threads wait for each other" in failed


# ----------------------------------------------------------------------------- one study for all
def test_a_site_does_not_speak_for_another_study_or_other_sites(noisy):
    endpoint = noisy.clients[0]
    other = study(TWO, PARTIES, DPModel.DISTRIBUTED, epsilon="2")
    endpoint.rows.study = other
    with pytest.raises(ParameterError, match="speaks for another study"):
        Client(endpoint.rows, endpoint.site, endpoint.store)


def test_a_site_keeps_to_the_roster_that_the_study_names(noisy):
    keys = {"sites": noisy.roster.sites, "coordinator": noisy.roster.coordinator}
    named = study(TWO, PARTIES, DPModel.DISTRIBUTED, **keys)
    site = site_of(noisy, named)
    assert Client(StudyRows(named, noisy.rows[0]), site, noisy.clients[0].store)
    others = tuple(Identity.generate().public for _ in range(PARTIES))
    strange = study(TWO, PARTIES, DPModel.DISTRIBUTED, **(keys | {"sites": others}))
    site = site_of(noisy, strange)
    with pytest.raises(ParameterError, match="other sites"):
        Client(StudyRows(strange, noisy.rows[0]), site, noisy.clients[0].store)


def site_of(link, the_study):
    """Site 0 of the link's roster, whatever the study says."""
    memory, pins = link.site_stores[0].memory(the_study.account), link.roster.fingerprints
    numbers = link.parameters
    return Site(link.identities[0], link.roster, 0, numbers, the_study.hash, memory, pins=pins)


def test_a_site_that_is_started_anew_while_an_epoch_forms_is_in_the_next_one(link, monkeypatch):
    real, done = link.coordinator.open, []

    def opened(keys):
        messages = real(keys)
        if not done:
            done.append(started_anew(link, 1))
        return messages

    monkeypatch.setattr(link.coordinator, "open", opened)
    link.enter()
    assert link.session_state.present == frozenset(range(PARTIES))
    assert round_of(link, 1, [COUNT]).members == tuple(range(PARTIES))


# ----------------------------------------------------------------------- rounds that open at once
def at_once(folder, dp_model=DPModel.DISTRIBUTED, **terms):
    X, y = sample(150, TWO)
    the_study = study(TWO, PARTIES, dp_model, **{"retry_budget": Fraction(1, 5)} | terms)
    timing = replace(IMPATIENT, at_once=True)
    return DurableLink(the_study, site_rows(X, y, OWNERS, PARTIES, TWO), folder, timing=timing)


def asked_by(link, monkeypatch):
    """The kinds of messages, one for each exchange."""
    kinds, plain = [], link.ask

    def ask(messages, seconds):
        kinds.append({Envelope.parse(message).header.kind.name for message in messages.values()})
        return plain(messages, seconds)

    monkeypatch.setattr(link, "ask", ask)
    return kinds


def test_a_round_that_the_reserve_could_pay_for_is_one_exchange(tmp_path, monkeypatch):
    with closing(at_once(tmp_path)) as link:
        kinds = asked_by(link, monkeypatch)
        assert round_of(link, 1, [COUNT]).members == tuple(range(PARTIES))
        assert kinds == [{"ROUND"}]
        dear = replace(COUNT, fraction=Fraction(1, 2))
        round_of(link, 2, [dear])
        assert kinds[1:] == [{"ROUND"}, {"UNMASK"}]


def test_where_nobody_may_be_lost_every_round_is_one_exchange(tmp_path, monkeypatch):
    with closing(at_once(tmp_path, threshold=PARTIES, retry_budget=Fraction(0))) as link:
        kinds = asked_by(link, monkeypatch)
        round_of(link, 1, [replace(COUNT, fraction=Fraction(1, 2))])
        assert kinds == [{"ROUND"}]


def test_a_round_that_lacks_one_is_void_charged_and_asked_anew_without_it(tmp_path, monkeypatch):
    with closing(at_once(tmp_path)) as link:
        federation = Server(link.study, link, MemoryLedger(link.study.limit))
        link.mute[MessageKind.ROUND] = [4]
        kinds = asked_by(link, monkeypatch)
        federation.ask([COUNT])
        cost = SHARE * link.study.spendable
        assert [(r.void, r.sites) for r in federation.record.rounds] == [(True, None), (False, 4)]
        assert link.spent_at_sites() == [2 * cost] * 4 + [cost]
        assert link.spent() == 2 * cost
        assert kinds == [{"ROUND"}] * 2
        link.mute.clear()
        federation.ask([COUNT])
        assert federation.record.rounds[-1].sites == PARTIES  # back, since it said so


def test_what_void_rounds_have_cost_is_left_of_the_reserve_no_more(tmp_path, monkeypatch):
    """A fifth of the budget pays for two such rounds and not for a third."""
    with closing(at_once(tmp_path)) as link:
        mode = link.session_state.mode
        asked = [priced(link.study, replace(COUNT, fraction=Fraction(1, 12)))]
        found = []
        for _ in range(4):
            found.append(mode(asked, PARTIES))
            link.session_state.failed(asked)
        assert found == [Mode.AT_ONCE] * 3 + [Mode.IN_TWO]


def test_with_too_few_left_the_run_ends_and_the_same_round_goes_on(tmp_path):
    with closing(at_once(tmp_path)) as link:
        link.mute[MessageKind.ROUND] = [3, 4]
        with pytest.raises(RunEnded, match="3, 4 did not answer"):
            round_of(link, 1, [COUNT])
        link.mute.clear()
        assert round_of(link, 1, [COUNT]).members == tuple(range(PARTIES))
        assert link.spent_at_sites() == [SHARE * link.study.spendable] * PARTIES


def test_masks_that_do_not_cancel_make_a_round_void_and_new_keys(tmp_path, monkeypatch):
    with closing(at_once(tmp_path)) as link:
        federation = Server(link.study, link, MemoryLedger(link.study.limit))
        joined, whole = link.clients[2].site._membership.site_session, {}
        whole.update(joined.roots)
        joined.roots[0] = bytes(32)
        federation.ask([COUNT])
        assert [r.void for r in federation.record.rounds] == [True, False]
        assert link.coordinator.attempt == 2


# ---------------------------------------------------------------------------- slow transports
class Slow:
    """Takes so many seconds of a clock for each exchange, and hands nothing over before."""

    def __init__(self, inner, clock, seconds):
        self.inner, self.clock, self.seconds, self.asked = inner, clock, seconds, 0

    def __call__(self, messages, accept, quorum):
        self.asked += 1
        self.clock.wait(min(self.seconds, quorum.seconds))
        if self.seconds < quorum.seconds:
            return self.inner(messages, accept, quorum)
        return Misses(silent=frozenset(messages))


def slow_rounds(link, pace, *, away=frozenset()):
    """How many exchanges four rounds take at 10 s each, and how many sites each is over."""
    clock = Clock()
    timing = Timing(answer_seconds=30, asks=1, return_seconds=5, at_once=False)
    names = [str(k) for k in range(PARTIES)]
    retry_policy = RetryPolicy(names, timing, clock=clock, wait=clock.wait, pace=pace)
    transport = Slow(link, clock, 10.0)
    sites = SecureSites(
        link.study, link.coordinator, patient(transport, retry_policy), retry_policy
    )
    members = []
    for number in range(1, 5):
        link.deaf[MessageKind.ROUND] = away if number == 1 else ()
        members.append(len(round_of(sites, number, [COUNT]).members))
    return transport.asked, members


def test_a_transport_that_says_how_slow_it_is_has_no_needless_exchange(link):
    """JOIN, OPEN, BIND, and two for each of four rounds."""
    assert slow_rounds(link, 10.0) == (11, [PARTIES] * 4)


def test_a_site_that_was_lost_over_a_slow_transport_comes_back(link):
    assert slow_rounds(link, 10.0, away=[4])[1] == [PARTIES - 1, PARTIES, PARTIES, PARTIES]


def test_a_slow_transport_that_does_not_say_so_would_be_seen(link):
    """Twin: every round begins with a question whether sites are there, and nobody comes back."""
    asked, members = slow_rounds(link, 0.0, away=[4])
    assert asked > 11
    assert members == [PARTIES - 1] * 4
