"""What can be seen from outside: no exact count, no length and no error that rows decide."""

from __future__ import annotations

import json
import re
from contextlib import nullcontext
from fractions import Fraction

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.errors import HedgerowError, PartyRefused
from hedgerow.federation.transports.in_process import RamStore
from hedgerow.methods import base
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.gubler import HistogramTree
from hedgerow.privacy.ledger.charges import MemoryLedger
from hedgerow.privacy.queries import ClassCounts, LocalChoice, Score, Scoring, SumQuery, Whole
from hedgerow.privacy.statement.record import Progress
from hedgerow.report.text import show_tree
from hedgerow.schema.regions import EVERYONE
from hedgerow.secagg.envelope import Envelope
from hedgerow.secagg.messages import Masked
from support.worlds import TWO, federation, holders, round_of, sample, study, tap

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
