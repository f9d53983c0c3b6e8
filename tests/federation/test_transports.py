"""Whatever carries the messages, a run without noise ends with the same model, bit for bit."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest

from hedgerow.deployment.replay import TranscriptError, TranscriptSites
from hedgerow.errors import HedgerowError
from hedgerow.federation import exchange
from hedgerow.federation.exchange import RetryPolicy, patient
from hedgerow.federation.journal import Journal
from hedgerow.federation.secure_sites import SecureSites
from hedgerow.federation.server import Server
from hedgerow.federation.transcript import Transcript, TranscriptRound
from hedgerow.federation.transports.in_process import InProcess
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.gubler import HistogramTree
from hedgerow.methods.method import Task, check_needs
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.ledger.charges import MemoryLedger
from hedgerow.privacy.statement.statement import statement
from methods.test_method_contract import CASES, IDS
from support.faults import Lossy, do_not_wait
from support.network import https
from support.worlds import TWO, sample, site_rows, study

PARTIES, ROWS = 3, 90
NAMES = [f"site-{k + 1}" for k in range(PARTIES)]
SEVERAL = [
    pytest.param(method, schema, id=name)
    for (method, schema), name in zip(CASES, IDS, strict=True)
    if not method.needs.single_site
]
METHOD_EXAMPLES = pytest.mark.parametrize(("method", "schema"), SEVERAL)


def world(method, schema, **terms):
    """Sites in this process, and the study they are of."""
    grid = method.grid(schema)
    X, y = sample(ROWS, schema)
    the_study = study(grid, PARTIES, **terms)
    return InProcess(the_study, site_rows(X, y, np.arange(ROWS) % PARTIES, PARTIES, grid))


def handles(link):
    return dict(zip(NAMES, (end.handle for end in link.clients), strict=True))


class Shown(Journal):
    """The transcript of a run, in memory."""

    def __init__(self, coordinator):
        super().__init__()
        self.coordinator, self.transcript = coordinator, Transcript()
        self.session(coordinator)

    def session(self, coordinator):
        session = coordinator.session
        shown = session.id, dict(session.ephemerals)
        self.transcript.key_sessions[coordinator.attempt] = shown

    def transcribe(self, entry):
        self.transcript.rounds[entry.number] = TranscriptRound.read(entry.to_bytes())


def over(transport, inner, retry_policy=None, journal=None):
    """The same sites and coordinator, with another way between them."""
    retry_policy = retry_policy or do_not_wait(NAMES)
    exchange = patient(transport, retry_policy)
    return SecureSites(inner.study, inner.coordinator, exchange, retry_policy, journal)


def learned(method, study, sites):
    fed = Server(study, sites, MemoryLedger(study.limit))
    return run(method.flow(study.schema, fed, np.random.default_rng(7)), fed), fed


def grown(method, link):
    """The model of a run; if its messages were recorded, they must lead to the same."""
    trained, fed = learned(method, link.study, link)
    if isinstance(link.journal, Shown):
        transcript = link.journal.transcript
        agreed = SimpleNamespace(study=link.study, roster=link.coordinator.roster)
        sites = TranscriptSites(agreed, transcript)
        assert learned(method, link.study, sites)[0].model == trained.model
        assert set(sites.bundles) == set(transcript.rounds)
    return trained, fed


@cache
def directly(method, schema):
    return grown(method, world(method, schema, dp_model=DPModel.NONE))[0].model.to_dict()


@METHOD_EXAMPLES
def test_over_a_carrier_that_loses_repeats_delays_and_reorders(method, schema):
    inner = world(method, schema, dp_model=DPModel.NONE)
    transport = Lossy(handles(inner), seed=len(method.name))
    trained, fed = grown(method, over(transport, inner))
    assert trained.model.to_dict() == directly(method, schema)
    assert not any(record.void for record in fed.record.rounds)
    assert {record.sites for record in fed.record.rounds} == {PARTIES}


@pytest.fixture(scope="module")
def listener(tmp_path_factory):
    """One HTTPS listener for all methods; which sites answer behind it changes."""
    behind: dict[str, object] = {}
    sites = {name: (lambda message, name=name: behind[name](message)) for name in NAMES}
    with https(tmp_path_factory.mktemp("https"), sites) as transport:
        yield transport, behind


@pytest.mark.network
@METHOD_EXAMPLES
def test_over_https(method, schema, listener):
    transport, behind = listener
    inner = world(method, schema, dp_model=DPModel.NONE)
    behind.update(handles(inner))
    link = over(transport, inner, RetryPolicy(NAMES), Shown(inner.coordinator))
    assert grown(method, link)[0].model.to_dict() == directly(method, schema)


def test_the_carrier_of_these_tests_does_what_it_says():
    inner = world(HistogramTree(max_depth=3), TWO, dp_model=DPModel.NONE)
    transport = Lossy(handles(inner), seed=1)
    grown(HistogramTree(max_depth=3), over(transport, inner))
    assert min(transport.lost, transport.repeated, transport.delayed) > 2


def test_a_link_that_takes_whatever_comes_would_be_seen(monkeypatch):
    """Twin: an answer that does not fit is counted as one."""
    method = HistogramTree(max_depth=3)
    inner = world(method, TWO, dp_model=DPModel.NONE)
    monkeypatch.setattr(exchange._ReplyCollector, "_fits", lambda self, site, answer: True)
    with pytest.raises((HedgerowError, ValueError)):
        grown(method, over(Lossy(handles(inner), seed=1), inner))


def test_a_transcript_that_lacks_a_vector_would_be_seen(monkeypatch):
    """A control of the replay that each of these runs ends with."""
    method = HistogramTree(max_depth=3)
    inner = world(method, TWO, dp_model=DPModel.NONE)
    shown = Shown.transcribe
    less = lambda journal, entry: shown(journal, replace(entry, messages=entry.messages[1:]))  # noqa: E731
    monkeypatch.setattr(Shown, "transcribe", less)
    with pytest.raises(TranscriptError, match="does not open"):
        grown(method, over(Lossy(handles(inner), seed=1), inner, None, Shown(inner.coordinator)))


# ------------------------------------------------------------------------------------- with noise
@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_with_noise_the_statement_is_the_same_but_for_simulated(delta):
    method = HistogramTree(max_depth=2)
    said = []
    for lossy in (False, True):
        inner = world(method, TWO, epsilon="100", delta=delta)
        link = over(Lossy(handles(inner), seed=3), inner) if lossy else inner
        _, fed = grown(method, link)
        here = statement(link.study, link.spent(), fed.queries, is_simulation=not lossy)
        said.append(here.to_dict())
        assert {e.store.ledger.spent(link.study.account) for e in inner.clients} == {link.spent()}
    assert constant(said[0]) == constant(said[1])


def constant(said):
    """All but what only one of them can say, and words that tell how the tree happened to grow."""
    of_one = ("simulated", "how long a site takes", "when sites answer")
    shared = {
        name: [note for note in said[name] if not note.startswith(of_one)]
        for name in ("caveats", "unprotected")
    }
    parts = [(line["rounds"], line["part"]) for line in said["spending"]]
    return {**said, **shared, "spending": parts}


def test_every_recipe_that_several_sites_can_run_is_here():
    for (method, schema), name in zip(CASES, IDS, strict=True):
        if name not in {param.id for param in SEVERAL}:
            with pytest.raises(HedgerowError, match="one site"):
                check_needs(method, schema, DPModel.DISTRIBUTED, PARTIES)
    assert {Task.of(param.values[1]) for param in SEVERAL} == set(Task)
