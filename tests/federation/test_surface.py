"""What can be seen from outside: no exact count, no length and no error that rows decide."""

from __future__ import annotations

import io
import json
import math
import re
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

import hedgerow as hr
from hedgerow.cli.demo import ALL_TOGETHER, EACH_ALONE, WITHOUT_PRIVACY, run_demo
from hedgerow.errors import HedgerowError, ParameterError, SiteRefused
from hedgerow.federation.client import REFUSED, STEPS, refusal_code
from hedgerow.federation.daemon import Daemon
from hedgerow.federation.policy import Policy
from hedgerow.federation.session_state import CoordinatorSession
from hedgerow.federation.transports.in_process import InProcess, RamStore
from hedgerow.federation.wire import Sender
from hedgerow.methods import base
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.gubler import HistogramTree
from hedgerow.privacy.ledger.charges import MemoryLedger
from hedgerow.privacy.queries import ClassCounts, LocalSelection, Score, Scoring, SumQuery, Whole
from hedgerow.privacy.statement.record import Progress
from hedgerow.privacy.statement.statement import statement
from hedgerow.report.text import show_tree
from hedgerow.schema.regions import EVERYONE
from hedgerow.secagg.codes import Code
from hedgerow.secagg.envelope import Envelope, MessageKind
from hedgerow.secagg.messages import Masked, Mode
from support.secagg_dry_run import STUDY, consortium
from support.worlds import THREE, TWO, federation, round_of, sample, site_rows, study, tap

FAINT = 1e-8
"""As epsilon and delta: noise so wide that it hits a given number once in 10^8 draws."""
ROWS = {0: 20011, 1: 40009, 2: 60013}  # primes, larger than any number of bytes that is shown


def planted():
    """Rows whose every count is a number nobody would write by chance."""
    n = sum(ROWS.values())
    X, y = sample(n, TWO, seed=5)
    owner = np.repeat(list(ROWS), list(ROWS.values()))
    counts = {n, *ROWS.values(), int((y == "yes").sum()), int((y == "no").sum())}
    counts |= {int((y[owner == k] == c).sum()) for k in ROWS for c in ("yes", "no")}
    missing = np.array([isinstance(v, float) and np.isnan(v) for v in X[:, 0]])
    counts |= {int(missing.sum())}
    return X, y, owner, {c for c in counts if c > 200}


def numbers_in(text: str) -> set[str]:
    return set(re.findall(r"(?<![\d.])\d+(?![\d.])", text))


def everything_shown(tmp_path, monkeypatch, guarantee, dp_model=None):
    X, y, owner, counts = planted()
    events: list[Progress] = []
    monkeypatch.setattr(base, "bar", lambda show, expected, **how: nullcontext(events.append))
    model = hr.HistogramTreeClassifier(TWO, *guarantee, max_depth=3, dp_model=dp_model)
    model.fit(X, y, site=owner)
    assert len(events) == 2 * len(model.run_.rounds)  # opened and answered
    model.save(tmp_path / "model.json")
    shown = [
        (tmp_path / "model.json").read_text(),
        json.dumps(model.run_.to_dict()),
        str(model.privacy_),
        json.dumps(model.privacy_.to_dict()),
        show_tree(model),
        repr(events),
    ]
    return "\n".join(shown), counts


def test_no_exact_count_of_a_planted_data_set_is_shown_anywhere(tmp_path, monkeypatch):
    """Noise this wide hits none of them: less than once in 10^6 runs."""
    text, counts = everything_shown(tmp_path, monkeypatch, (FAINT, FAINT))
    assert not numbers_in(text) & {str(c) for c in counts}


def test_no_exact_count_is_shown_of_a_tree_that_has_grown(tmp_path, monkeypatch):
    """Usual noise hits one in a fit of some thousand; a leak is in every fit."""
    shown = [everything_shown(tmp_path, monkeypatch, (1.0,)) for _ in range(3)]
    found = [numbers_in(text) & {str(c) for c in counts} for text, counts in shown]
    assert not set.intersection(*found)


def test_without_noise_the_search_for_counts_would_find_them(tmp_path, monkeypatch):
    """Twin: the same search finds counts in the text of a tree that was grown without noise."""
    text, _ = everything_shown(tmp_path, monkeypatch, (1.0,), dp_model="none")
    sizes = [int(n) for n in re.findall(r"(\d+) \+- 0 rows", text)]
    assert sum(sizes) == sum(ROWS.values())


def test_a_count_told_by_an_event_would_be_found(tmp_path, monkeypatch):
    """Twin: progress that speaks of rows instead of rounds."""
    monkeypatch.setattr(
        "hedgerow.federation.server.Progress",
        lambda _, *told, **more: Progress(ROWS[0], *told, **more),
    )
    text, counts = everything_shown(tmp_path, monkeypatch, (FAINT, FAINT))
    assert str(ROWS[0]) in numbers_in(text) & {str(c) for c in counts}


def wire_lengths(seed: int, n: int) -> list[tuple[int, int]]:
    """Bytes out and in of every round; the tree is forced to one shape by its own transcript."""
    X, y = sample(n, TWO, seed=seed)
    the_study = study(TWO, 3)
    fed = federation(the_study, site_rows(X, y, np.arange(n) % 3, 3, TWO))
    run(HistogramTree(max_depth=1).flow(TWO, fed, np.random.default_rng(0)), fed)
    return [(r.bytes_out, r.integers) for r in fed.record.rounds[:1]]


def test_the_length_of_a_message_depends_on_study_and_query_only():
    assert wire_lengths(1, 30) == wire_lengths(2, 3000) == wire_lengths(3, 0)


def test_a_choice_leaves_a_site_as_an_index_and_nothing_else(monkeypatch):
    X, y = sample(90, TWO)
    fed = federation(study(TWO, 3), site_rows(X, y, np.arange(90) % 3, 3, TWO))
    replies, transact = [], RamStore.transact
    monkeypatch.setattr(
        RamStore, "transact", lambda *a: replies.append(transact(*a)) or replies[-1]
    )
    splits = tuple(TWO.grids[0].split_values(range(k)) for k in (2, 4, 6))
    (chosen,) = fed.ask([LocalSelection(EVERYONE, splits, Scoring(Score.GINI), Fraction(1, 4))])
    # One masked zero and one index each; a byte more would not be read.
    bodies = [Envelope.parse(reply).body for reply in replies]
    masked = [Masked.read(body, dim=1, selections=1, mode=Mode.AT_ONCE) for body in bodies]
    assert len(masked) == 3
    assert chosen.indices == tuple(one.selections[0] for one in masked)
    assert all(one.selections[0] in range(3) for one in masked)
    assert fed.record.rounds[0].integers == 1  # one zero, so that the round opens like any other


def test_an_empty_site_answers_with_noise(monkeypatch):
    X, y = sample(100, TWO)
    owner = np.zeros(100, int)
    wide = study(TWO, 3, epsilon=str(FAINT), delta=str(FAINT))  # no draw of it is zero by chance
    fed = federation(wide, site_rows(X, y, owner, 3, TWO))
    kept = []
    tap(monkeypatch, fed.sites.clients[2].rows, lambda make: kept.append(make()) or kept[-1])
    run(HistogramTree(max_depth=1).flow(TWO, fed, np.random.default_rng(0)), fed)
    assert len(kept) == len(fed.record.rounds) > 0
    assert all(response.vector.any() for response in kept)


def test_a_site_without_budget_refuses_with_a_constant_code():
    X, y = sample(100, TWO)
    fed = federation(study(TWO, 3), site_rows(X, y, np.arange(100) % 3, 3, TWO))
    poor = MemoryLedger(fed.study.total / 100)
    fed.sites.clients[1].store.ledger = poor
    with pytest.raises(SiteRefused, match="BudgetRefused") as refused:
        run(HistogramTree(max_depth=2).flow(TWO, fed, np.random.default_rng(0)), fed)
    assert refused.value.code == "BudgetRefused"
    assert poor.entries == []
    assert isinstance(refused.value, HedgerowError)


def test_two_fits_with_one_random_state_have_different_noise():
    """`random_state` is public randomness; it never reaches the noise."""
    X, y = sample(200, TWO)
    one, two = (
        hr.HistogramTreeClassifier(TWO, epsilon=1.0, random_state=0).fit(X, y) for _ in range(2)
    )
    assert one.model_.to_dict() != two.model_.to_dict()


def test_a_round_message_names_queries_and_never_its_own_noise():
    """What decides the noise is in the approved study; a message that said it could lie."""
    X, y = sample(60, TWO)
    fed = federation(study(TWO, 3), site_rows(X, y, np.arange(60) % 3, 3, TWO))
    sent = []
    encode = fed.sites.sender.encode
    fed.sites.sender.encode = lambda bundle: sent.append(encode(bundle)) or sent[-1]
    run(HistogramTree(max_depth=2).flow(TWO, fed, np.random.default_rng(0)), fed)
    assert sent
    names = set(
        re.findall(
            r'"([a-z_]+)":', b"".join(b.questions + b.definitions for b in sent).decode("latin-1")
        )
    )
    allowed = {"region", "statistic", "by", "fraction", "features", "binning", "bins"}
    allowed |= {"test", "outcome", "feature", "grid", "left", "n_classes", "above", "step"}
    assert names <= allowed


def test_a_lying_coordinator_pays_for_a_larger_share():
    """It may ask for any share; noise and charge follow together, and the cap holds."""
    X, y = sample(60, TWO)
    the_study = study(TWO, 3)
    fed = federation(the_study, site_rows(X, y, np.arange(60) % 3, 3, TWO))
    greedy = SumQuery(EVERYONE, ClassCounts(2), Whole(), Fraction(1))
    round_of(fed.sites, 1, [greedy])
    assert fed.sites.spent() == the_study.total
    with pytest.raises(SiteRefused, match="BudgetRefused"):
        round_of(fed.sites, 2, [greedy])


# --------------------------------------------------------------------------------------------------
# docs/communication.md: what a run costs on the wire, by formula and by count.
HEADER, SIGNATURE, DIGEST, LENGTH, SITE = 136, 64, 32, 2, 2
SEALED, SHARE, COMMITMENT, CONTEXT, MODE, LANES = 112, 32, 32, 32, 1, 2


def bytes_of_a_round(integers: int, bundle: int, spent: int, sites: int, before: int) -> int:
    """The formula of docs/communication.md, message by message; nobody is lost.

    Of three sites nobody may be lost, so their rounds are opened at once. `before` is the length
    of what was spent in the round before; 0 in the first.
    """
    envelope = HEADER + SIGNATURE
    ask = envelope + MODE + 4 + bundle + 4 + LENGTH + SITE * sites
    ask += sites * (4 + HEADER + before + DIGEST + SIGNATURE) if before else 0
    masked = envelope + spent + 8 + 8 * integers + 4 + CONTEXT
    if sites <= 3:
        return ask + masked + 8 * LANES
    masked += COMMITMENT + LENGTH + (SITE + SEALED) * (sites - 1)
    unmask = envelope + LENGTH + SITE * sites + LENGTH + LENGTH + (SITE + SEALED) * (sites - 1)
    shares = envelope + spent + LENGTH + (SITE + SHARE) * sites + LENGTH
    return ask + masked + unmask + shares


class Watched:
    """A federation that keeps what was asked of it, and what had been spent by then."""

    def __init__(self, inner):
        self.inner, self.sender, self.rounds = inner, Sender(), []

    def ask(self, queries):
        replies = self.inner.ask(queries)
        integers = sum(math.prod(q.shape) for q in queries)
        spent = self.inner.ledger.spent(self.inner.study.account)
        text = f"{spent.numerator}/{spent.denominator}"
        self.rounds.append((integers, self.sender.encode(queries).size, len(text)))
        return replies


def watched_run(method, schema, delta, sites=5):
    X, y = sample(400, schema, seed=3)
    parts = site_rows(X, y, np.arange(400) % sites, sites, schema)
    inner = federation(study(schema, sites, delta=delta), parts)
    watched = Watched(inner)
    run(method.flow(schema, inner, np.random.default_rng(0)), watched)
    return watched, inner.record


@pytest.mark.parametrize("sites", [3, 5])
@pytest.mark.parametrize("delta", ["0", "1e-6"])
@pytest.mark.parametrize("schema", [TWO, THREE], ids=["two classes", "three classes"])
def test_the_bytes_of_a_run_are_those_of_the_formula(schema, delta, sites):
    watched, record = watched_run(HistogramTree(max_depth=3), schema, delta, sites)
    before = [0, *(asked[2] for asked in watched.rounds)]
    rounds = zip(watched.rounds, before, strict=False)
    expected = [bytes_of_a_round(*asked, sites, last) for asked, last in rounds]
    assert [r.bytes_out + r.bytes_in for r in record.rounds] == expected
    assert record.bytes_per_site == sum(expected)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_a_tree_of_depth_d_costs_d_plus_one_rounds(depth):
    method = HistogramTree(max_depth=depth)
    _, record = watched_run(method, TWO, "0")
    assert len(record.rounds) <= depth + 1 == method.largest(TWO).rounds


@pytest.mark.slow
def test_the_demo_prints_the_bytes_of_its_run():
    console = Console(record=True, width=120, file=io.StringIO())
    result = run_demo(console, show_progress=False)
    text = console.export_text()
    assert f"{result.model.run_.bytes_per_site} bytes per hospital" in text
    assert result.auc[ALL_TOGETHER] > result.auc[EACH_ALONE] + 0.03
    assert result.auc[ALL_TOGETHER] > result.auc[WITHOUT_PRIVACY] - 0.05


# --------------------------------------------------------------------------------------------------
# Replies leave at public intervals, whatever the rows; the clock here is a number.
SLOT = 10
COUNTS = SumQuery(EVERYONE, ClassCounts(2), Whole(), Fraction(1, 10))


class Clock:
    """Time passes only while somebody works or waits."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.waited: list[float] = []

    def read(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.now += seconds


def opened(clock, n=60, reply_interval=SLOT):
    X, y = sample(n, TWO)
    fed = federation(
        study(TWO, 3, reply_interval=reply_interval), site_rows(X, y, np.arange(n) % 3, 3, TWO)
    )
    for end in fed.sites.clients:
        end._clock, end._wait = clock.read, clock.wait
    return fed


def asked(fed):
    """A round's message to the first site."""
    encoded = fed.sites.sender.encode([COUNTS])
    return fed.sites.coordinator.start(encoded.questions, 2).requests()[0]


def working(patched, end, clock, seconds):
    """The site's rows now take so long."""

    def slowly(make):
        clock.now += seconds
        return make()

    tap(patched, end.rows, slowly)


@pytest.mark.parametrize(
    ("seconds", "left"), [(0.0, 0), (0.25, 10), (9.75, 10), (10.0, 10), (10.25, 20), (34.5, 40)]
)
def test_a_reply_leaves_at_the_end_of_a_slot_counted_from_its_request(seconds, left, monkeypatch):
    clock = Clock()
    fed = opened(clock)
    raw_message, arrived = asked(fed), clock.now
    working(monkeypatch, fed.sites.clients[0], clock, seconds)
    reply = fed.sites.clients[0].handle(raw_message)
    assert not reply.startswith(REFUSED)
    assert clock.now - arrived == left
    assert 0 <= clock.waited[0] < SLOT


@pytest.mark.parametrize(("seconds", "is_closed"), [(9.0, False), (9.5, True)])
def test_a_round_that_takes_longer_than_the_policy_allows_ends_the_study(
    seconds, is_closed, monkeypatch
):
    """It is charged and tells so much once; the next round is not even computed."""
    clock = Clock()
    fed = opened(clock)
    end = fed.sites.clients[0]
    end._policy = replace(Policy.open(), seconds_per_round=9)
    message = asked(fed)
    working(monkeypatch, end, clock, seconds)
    replies = [refusal_code(end.handle(message)) for _ in range(2)]
    assert replies == [Code.STUDY_CLOSED.value if is_closed else None] * 2
    assert end.store.ledger.spent(end.study.account) == COUNTS.fraction * end.study.spendable


def test_the_time_of_a_reply_does_not_depend_on_how_many_rows_there_are(monkeypatch):
    def time_of(per_row, reply_interval):
        clock, rows = Clock(), 90
        fed = opened(clock, rows, reply_interval)
        raw_message, arrived = asked(fed), clock.now
        working(monkeypatch, fed.sites.clients[0], clock, per_row * rows)
        fed.sites.clients[0].handle(raw_message)
        return clock.now - arrived

    assert time_of(0.01, SLOT) == time_of(0.1, SLOT) == SLOT
    assert time_of(0.01, 0) != time_of(0.1, 0)  # negative control: without an interval it does


def test_a_refusal_and_bytes_sent_again_keep_the_slot_as_well(monkeypatch):
    clock = Clock()
    fed = opened(clock)
    end, raw_message = fed.sites.clients[0], asked(fed)
    plain = STEPS[MessageKind.ROUND]

    def slowly(client, message):
        clock.now += 3.0
        return plain(client, message)

    monkeypatch.setitem(STEPS, MessageKind.ROUND, slowly)
    forged = raw_message[:-1] + bytes([raw_message[-1] ^ 1])
    replies = [end.handle(message) for message in (raw_message, raw_message, forged)]
    assert replies[0] == replies[1] != replies[2]
    assert clock.waited == [7.0] * 3
    assert end.handle(b"no message").startswith(REFUSED)
    assert len(clock.waited) == 4


@pytest.mark.parametrize("kind", ["JOIN", "BIND", "CLOSE", "garbage"])
def test_a_second_message_does_not_tell_how_long_a_round_took(kind):
    """It comes while a round is computed, and waits for it: 2 or 7 seconds, by the rows."""

    def time_of(seconds):
        clock = Clock()
        fed = opened(clock)
        end, hub = fed.sites.clients[0], fed.sites.coordinator
        messages = {"JOIN": hub.join, "BIND": lambda: hub.asking([0])}
        messages |= {"CLOSE": lambda: hub.close(bytes(32), 0), "garbage": lambda: {0: b"garbage"}}
        raw_message, arrived = messages[kind]()[0], clock.now
        busy = end._lock

        class Busy:
            def __enter__(self):
                clock.now += seconds
                return busy.__enter__()

            def __exit__(self, *given):
                return busy.__exit__(*given)

        end._lock = Busy()
        end.handle(raw_message)
        return clock.now - arrived

    assert time_of(2.0) == time_of(7.0) == SLOT


def test_a_site_that_was_started_anew_after_it_closed_says_its_last_word_again():
    group, noted = consortium(3), []
    daemon = Daemon.__new__(Daemon)
    daemon._clients, daemon._closed_studies = {}, frozenset({STUDY})
    daemon._site_store = SimpleNamespace(memory=lambda study: group.memories[0])
    daemon.audit = SimpleNamespace(note=lambda event, **fields: noted.append(event))
    close = group.coordinator.close(bytes(32), 0)[0]
    assert refusal_code(daemon.handle(close)) == "StudyClosed"  # closed by hand: it said nothing
    said = group.sites[0].close(close)
    assert daemon.handle(close) == said
    assert refusal_code(daemon.handle(group.coordinator.join()[0])) == "StudyClosed"
    assert noted == ["refused"] * 2


def test_a_site_has_one_slot_the_largest_of_its_studies():
    clients = {
        k: SimpleNamespace(study=SimpleNamespace(reply_interval=reply_interval))
        for k, reply_interval in enumerate((0, 30, 5))
    }
    assert Daemon._reply_interval(SimpleNamespace(_clients=clients)) == 30
    assert Daemon._reply_interval(SimpleNamespace(_clients={})) == 0


def test_the_lock_is_not_held_while_a_reply_waits():
    clock = Clock()
    fed = opened(clock)
    end, raw_message = fed.sites.clients[0], asked(fed)
    free: list[bool] = []
    end._wait = lambda seconds: free.append(not end._lock.locked())
    end.handle(raw_message)
    assert free == [True]


@pytest.mark.parametrize("reply_interval", [-1, 1.5, True, "10", 86_401])
def test_a_slot_is_a_whole_number_of_seconds(reply_interval):
    with pytest.raises(ParameterError, match="reply_interval is"):
        study(TWO, 3, reply_interval=reply_interval)


def test_one_holder_has_nobody_to_keep_waiting():
    with pytest.raises(ParameterError, match="replies to nobody"):
        study(TWO, 1, reply_interval=5)


def test_the_statement_of_a_real_run_says_what_time_tells():
    plain = study(TWO, 3)
    said = [
        str(statement(one, Fraction(1, 2), [], is_simulation=False))
        for one in (plain, replace(plain, reply_interval=1), replace(plain, reply_interval=30))
    ]
    assert "about how many records" in said[0]
    assert "intervals of 1 second;" in said[1]
    assert "intervals of 30 seconds;" in said[2]


def exchanges_of_boosting(monkeypatch, rounds_of=3, n_estimators=8):
    """How often all sites are asked in a run of default boosting over three sites; its rounds."""
    asked, call = [], InProcess._call

    def counted(self, messages, accept, quorum):
        asked.append({Envelope.parse(raw_message).header.kind for raw_message in messages.values()})
        return call(self, messages, accept, quorum)

    monkeypatch.setattr(InProcess, "_call", counted)
    X, y = sample(300, TWO)
    model = hr.BoostedTreesClassifier(TWO, epsilon=1.0, random_state=0, n_estimators=n_estimators)
    model.fit(X, y, site=np.arange(300) % rounds_of)
    return len(asked), len(model.run_.rounds)


def test_a_run_takes_one_exchange_a_round_and_few_to_begin_and_end(monkeypatch):
    exchanges, rounds = exchanges_of_boosting(monkeypatch)
    assert rounds > 5
    assert exchanges <= rounds + 4


def test_rounds_in_two_would_not_pass_that_gate(monkeypatch):
    """Control."""
    monkeypatch.setattr(CoordinatorSession, "mode", lambda *given: Mode.IN_TWO)
    exchanges, rounds = exchanges_of_boosting(monkeypatch)
    assert exchanges > rounds + 4
