"""What can be seen from outside: no exact count, no length and no error that rows decide."""

from __future__ import annotations

import io
import json
import math
import re
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from rich.console import Console

import hedgerow as hr
from hedgerow.cli.demo import ALL_TOGETHER, BARE, EACH_ALONE, run_demo
from hedgerow.errors import HedgerowError, PartyRefused, SpecError
from hedgerow.federation.client import REFUSED, STEPS
from hedgerow.federation.transports.in_process import RamStore
from hedgerow.federation.wire import Sender
from hedgerow.methods import base
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.gubler import HistogramTree
from hedgerow.privacy.ledger.charges import MemoryLedger
from hedgerow.privacy.queries import ClassCounts, LocalChoice, Score, Scoring, SumQuery, Whole
from hedgerow.privacy.statement.record import Progress
from hedgerow.privacy.statement.statement import statement
from hedgerow.report.text import show_tree
from hedgerow.schema.regions import EVERYONE
from hedgerow.secagg.envelope import Envelope, MessageKind
from hedgerow.secagg.messages import Masked
from support.worlds import THREE, TWO, federation, holders, round_of, sample, study, tap

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


def everything_shown(tmp_path, monkeypatch, promise, placement=None):
    X, y, owner, counts = planted()
    events: list[Progress] = []
    monkeypatch.setattr(base, "bar", lambda show, expected, **how: nullcontext(events.append))
    model = hr.HistogramTreeClassifier(TWO, *promise, max_depth=3, placement=placement)
    model.fit(X, y, party=owner)
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
    text, _ = everything_shown(tmp_path, monkeypatch, (1.0,), placement="nowhere")
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
    fed = federation(the_study, holders(X, y, np.arange(n) % 3, 3, TWO))
    run(HistogramTree(max_depth=1).flow(TWO, fed, np.random.default_rng(0)), fed)
    return [(r.bytes_out, r.integers) for r in fed.record.rounds[:1]]


def test_the_length_of_a_message_depends_on_study_and_query_only():
    assert wire_lengths(1, 30) == wire_lengths(2, 3000) == wire_lengths(3, 0)


def test_a_choice_leaves_a_site_as_an_index_and_nothing_else(monkeypatch):
    X, y = sample(90, TWO)
    fed = federation(study(TWO, 3), holders(X, y, np.arange(90) % 3, 3, TWO))
    replies, transact = [], RamStore.transact
    monkeypatch.setattr(
        RamStore, "transact", lambda *a: replies.append(transact(*a)) or replies[-1]
    )
    splits = tuple(TWO.grids[0].split_values(range(k)) for k in (2, 4, 6))
    (chosen,) = fed.ask([LocalChoice(EVERYONE, splits, Scoring(Score.GINI), Fraction(1, 4))])
    # One masked zero and one index each; a byte more would not be read.
    masked = [Masked.read(Envelope.parse(reply).body, dim=1, picks=1) for reply in replies]
    assert len(masked) == 3
    assert chosen.indices == tuple(one.picks[0] for one in masked)
    assert all(one.picks[0] in range(3) for one in masked)
    assert fed.record.rounds[0].integers == 1  # one zero, so that the round opens like any other


def test_an_empty_site_answers_with_noise(monkeypatch):
    X, y = sample(100, TWO)
    owner = np.zeros(100, int)
    wide = study(TWO, 3, epsilon=str(FAINT), delta=str(FAINT))  # no draw of it is zero by chance
    fed = federation(wide, holders(X, y, owner, 3, TWO))
    kept = []
    tap(monkeypatch, fed.sites.clients[2].rows, lambda make: kept.append(make()) or kept[-1])
    run(HistogramTree(max_depth=1).flow(TWO, fed, np.random.default_rng(0)), fed)
    assert len(kept) == len(fed.record.rounds) > 0
    assert all(response.vector.any() for response in kept)


def test_a_site_without_budget_refuses_with_a_constant_code():
    X, y = sample(100, TWO)
    fed = federation(study(TWO, 3), holders(X, y, np.arange(100) % 3, 3, TWO))
    poor = MemoryLedger(fed.study.total / 100)
    fed.sites.clients[1].store.ledger = poor
    with pytest.raises(PartyRefused, match="BudgetRefused") as refused:
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
    fed = federation(study(TWO, 3), holders(X, y, np.arange(60) % 3, 3, TWO))
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
    allowed = {"region", "statistic", "by", "share", "features", "binning", "bins"}
    allowed |= {"test", "outcome", "feature", "grid", "left", "n_classes", "above", "step"}
    assert names <= allowed


def test_a_lying_coordinator_pays_for_a_larger_share():
    """It may ask for any share; noise and charge follow together, and the cap holds."""
    X, y = sample(60, TWO)
    the_study = study(TWO, 3)
    fed = federation(the_study, holders(X, y, np.arange(60) % 3, 3, TWO))
    greedy = SumQuery(EVERYONE, ClassCounts(2), Whole(), Fraction(1))
    round_of(fed.sites, 1, [greedy])
    assert fed.sites.spent() == the_study.total
    with pytest.raises(PartyRefused, match="BudgetRefused"):
        round_of(fed.sites, 2, [greedy])


# --------------------------------------------------------------------------------------------------
# docs/communication.md: what a run costs on the wire, by formula and by count.
HEADER, SIGNATURE, LENGTH, SITE = 136, 64, 2, 2
SEALED, SHARE, COMMITMENT = 48, 32, 32


def bytes_of_a_round(integers: int, bundle: int, spent: int, sites: int) -> int:
    """The formula of docs/communication.md, message by message; nobody is lost."""
    envelope = HEADER + SIGNATURE
    ask = envelope + 4 + bundle + 4 + LENGTH + SITE * sites
    masked = envelope + spent + 8 + 8 * integers + 4 + COMMITMENT
    masked += LENGTH + (SITE + SEALED) * (sites - 1)
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


def watched_run(recipe, schema, delta):
    X, y = sample(400, schema, seed=3)
    parts = holders(X, y, np.arange(400) % 5, 5, schema)
    inner = federation(study(schema, 5, delta=delta), parts)
    watched = Watched(inner)
    run(recipe.flow(schema, inner, np.random.default_rng(0)), watched)
    return watched, inner.record


@pytest.mark.parametrize("delta", ["0", "1e-6"])
@pytest.mark.parametrize("schema", [TWO, THREE], ids=["two classes", "three classes"])
def test_the_bytes_of_a_run_are_those_of_the_formula(schema, delta):
    watched, record = watched_run(HistogramTree(max_depth=3), schema, delta)
    expected = [bytes_of_a_round(*asked, sites=5) for asked in watched.rounds]
    assert [r.bytes_out + r.bytes_in for r in record.rounds] == expected
    assert record.bytes_per_party == sum(expected)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_a_tree_of_depth_d_costs_d_plus_one_rounds(depth):
    recipe = HistogramTree(max_depth=depth)
    _, record = watched_run(recipe, TWO, "0")
    assert len(record.rounds) <= depth + 1 == recipe.largest(TWO).rounds


@pytest.mark.slow
def test_the_demo_prints_the_bytes_of_its_run():
    console = Console(record=True, width=120, file=io.StringIO())
    result = run_demo(console, show_progress=False)
    text = console.export_text()
    assert f"{result.model.run_.bytes_per_party} bytes per hospital" in text
    assert result.auc[ALL_TOGETHER] > result.auc[EACH_ALONE] + 0.03
    assert result.auc[ALL_TOGETHER] > result.auc[BARE] - 0.05


# --------------------------------------------------------------------------------------------------
# Replies leave at the end of public slots, whatever the rows; the clock here is a number.
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


def opened(clock, n=60, slot=SLOT):
    X, y = sample(n, TWO)
    fed = federation(study(TWO, 3, slot=slot), holders(X, y, np.arange(n) % 3, 3, TWO))
    for end in fed.sites.clients:
        end._clock, end._wait = clock.read, clock.wait
    return fed


def asked(fed):
    """A round's letter to the first site."""
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
    letter, arrived = asked(fed), clock.now
    working(monkeypatch, fed.sites.clients[0], clock, seconds)
    reply = fed.sites.clients[0].handle(letter)
    assert not reply.startswith(REFUSED)
    assert clock.now - arrived == left
    assert 0 <= clock.waited[0] < SLOT


def test_the_time_of_a_reply_does_not_depend_on_how_many_rows_there_are(monkeypatch):
    def time_of(per_row, slot):
        clock, rows = Clock(), 90
        fed = opened(clock, rows, slot)
        letter, arrived = asked(fed), clock.now
        working(monkeypatch, fed.sites.clients[0], clock, per_row * rows)
        fed.sites.clients[0].handle(letter)
        return clock.now - arrived

    assert time_of(0.01, SLOT) == time_of(0.1, SLOT) == SLOT
    assert time_of(0.01, 0) != time_of(0.1, 0)  # twin: without a slot it does


def test_a_refusal_and_bytes_sent_again_keep_the_slot_as_well(monkeypatch):
    clock = Clock()
    fed = opened(clock)
    end, letter = fed.sites.clients[0], asked(fed)
    plain = STEPS[MessageKind.ROUND]

    def slowly(client, message):
        clock.now += 3.0
        return plain(client, message)

    monkeypatch.setitem(STEPS, MessageKind.ROUND, slowly)
    forged = letter[:-1] + bytes([letter[-1] ^ 1])
    replies = [end.handle(message) for message in (letter, letter, forged)]
    assert replies[0] == replies[1] != replies[2]
    assert clock.waited == [7.0] * 3
    assert end.handle(b"no message").startswith(REFUSED)
    assert len(clock.waited) == 3


def test_the_lock_is_not_held_while_a_reply_waits():
    clock = Clock()
    fed = opened(clock)
    end, letter = fed.sites.clients[0], asked(fed)
    free: list[bool] = []
    end._wait = lambda seconds: free.append(not end._lock.locked())
    end.handle(letter)
    assert free == [True]


@pytest.mark.parametrize("slot", [-1, 1.5, True, "10", 86_401])
def test_a_slot_is_a_whole_number_of_seconds(slot):
    with pytest.raises(SpecError, match="slot is"):
        study(TWO, 3, slot=slot)


def test_one_holder_has_nobody_to_keep_waiting():
    with pytest.raises(SpecError, match="replies to nobody"):
        study(TWO, 1, slot=5)


def test_the_statement_of_a_real_run_says_what_time_tells():
    plain = study(TWO, 3)
    said = [
        str(statement(one, Fraction(1, 2), [], simulated=False))
        for one in (plain, replace(plain, slot=1), replace(plain, slot=30))
    ]
    assert "about how many records" in said[0]
    assert "slots of 1 second;" in said[1]
    assert "slots of 30 seconds;" in said[2]
