"""Rounds that fail: charged, counted, paid from the reserve, and asked again under a new number."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import hedgerow as hr
from deployment.test_serve import Served, charged
from hedgerow.data.sums import Answering
from hedgerow.deployment.serve import Service
from hedgerow.deployment.study_file import StudyFile
from hedgerow.errors import ComputationFailed, ParameterError, SiteRefused, TooFewSites
from hedgerow.federation.client import refusal, refusal_code
from hedgerow.federation.server import MOST_TRIES
from hedgerow.federation.site_store import SiteStore
from hedgerow.models import layers, tree
from hedgerow.models import model as models
from hedgerow.models.layers import ROOT_LAYER, Layer, NodeTests
from hedgerow.models.model import Additive
from hedgerow.models.tree import Tree
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.pricing import priced
from hedgerow.privacy.queries import (
    Binning,
    Cells,
    ClassCounts,
    Count,
    LocalSelection,
    SelectQuery,
    SumQuery,
    Whole,
)
from hedgerow.privacy.queries.choices import Score, Scoring
from hedgerow.privacy.statement.record import RunRecord
from hedgerow.privacy.statement.statement import statement
from hedgerow.schema import candidates, grids
from hedgerow.schema.regions import EVERYONE
from hedgerow.secagg.codes import Code
from support.network import World
from support.site_stores import DurableLink
from support.worlds import TWO, federation, round_of, sample, site_rows, study

TENTH = Fraction(1, 10)
COUNTS = SumQuery(EVERYONE, ClassCounts(2), Whole(), TENTH)


def opened(failing=(), **terms):
    """A federation whose rounds of these numbers reach the sites and bring no answer."""
    X, y = sample(90, TWO)
    the_study = study(TWO, 3, **terms)
    fed = federation(the_study, site_rows(X, y, np.arange(90) % 3, 3, TWO))
    plain = fed.sites.round

    def round(number, bundle):
        collected = plain(number, bundle)
        if number in failing:
            raise TooFewSites(f"round {number}: nobody came.")
        return collected

    fed.sites.round = round
    return fed


def said_of(fed):
    return statement(fed.study, fed.sites.spent(), fed.queries, is_simulation=True)


def test_a_failed_round_is_asked_again_under_a_new_number_and_paid_twice():
    fed = opened(failing={1}, retry_budget=TENTH)
    fed.ask([COUNTS])
    price = TENTH * Fraction(9, 10)
    assert fed.sites.spent() == fed.ledger.spent(fed.study.account) == 2 * price
    assert [(r.number, r.void) for r in fed.record.rounds] == [(1, True), (2, False)]


def test_the_reserve_is_no_query_s_and_a_plan_still_ends_after_rounds_have_failed():
    """Ten tenths of what may be spent, and one of them asked twice."""
    fed = opened(failing={4}, retry_budget=TENTH)
    for _ in range(10):
        fed.ask([COUNTS])
    assert fed.sites.spent() == Fraction(9, 10) * Fraction(11, 10)
    assert fed.sites.spent() <= fed.study.total


def test_a_failure_beyond_the_reserve_ends_the_run_before_later_rounds_lack_their_budget():
    fed = opened(failing={1, 2}, retry_budget=TENTH)
    with pytest.raises(TooFewSites, match="round 2"):
        fed.ask([COUNTS])
    assert fed.sites.spent() == 2 * TENTH * Fraction(9, 10)
    without = opened(failing={1})
    with pytest.raises(TooFewSites, match="round 1"):
        without.ask([COUNTS])


def test_a_round_that_never_succeeds_is_given_up_also_where_it_is_free():
    fed = opened(failing=range(100), dp_model=DPModel.LABEL)
    with pytest.raises(TooFewSites):
        fed.ask([COUNTS])
    assert len(fed.record.rounds) == MOST_TRIES


def test_the_statement_counts_failed_rounds_and_what_was_kept_for_them():
    fed = opened(failing={2}, retry_budget=Fraction(1, 5))
    fed.ask([COUNTS])
    fed.ask([COUNTS])
    said = said_of(fed)
    failed = said.spending[1]
    assert (failed.rounds, failed.part) == ("2", pytest.approx(0.08))
    assert "failed" in failed.what
    kept, rest = said.unspent
    assert kept.part == pytest.approx(0.2 - 0.08)
    assert kept.what == "reserved for failed rounds (1 failed)"
    assert said.spent_fraction == pytest.approx(0.24)
    assert said.spent_fraction + kept.part + rest.part == pytest.approx(1.0)


SELECTION = LocalSelection(
    EVERYONE, (TWO.grids[0].split_values(range(2)),), Scoring(Score.GINI), TENTH
)


def remainders(fed, *bundles):
    """What selections were asked to leave, round by round, failed ones too."""
    asked, plain = [], fed.sites.round

    def round(number, bundle):
        asked.append([item.query.remainder for item in bundle if item.noise is None])
        return plain(number, bundle)

    fed.sites.round = round
    for bundle in bundles:
        fed.ask(bundle)
    return [float(part) for found in asked for part in found]


PLAN = ([SELECTION, COUNTS], [SELECTION], [COUNTS] * 6, [SELECTION])


@pytest.mark.parametrize("failing", [(), (2,)])
def test_selections_among_sums_leave_what_is_left_whether_or_not_a_round_fails(failing):
    """And a run that is resumed, which knows nothing of failed rounds, asks the same."""
    fed = opened(failing, delta="1e-6", retry_budget=TENTH)
    found = remainders(fed, *PLAN)
    assert found == pytest.approx([0.8, *[0.7] * (1 + len(failing)), 0.0], abs=1e-6)
    assert fed.sites.spent() == fed.study.spendable * Fraction(10 + len(failing), 10)
    assert "priced by the budget that is left" in said_of(fed).accountant


def test_small_selections_leave_a_little_and_pure_ones_nothing():
    small = replace(SELECTION, fraction=Fraction(1, 100))
    assert remainders(opened(delta="1e-6"), [small]) == pytest.approx([0.32], abs=1e-6)
    assert remainders(opened(), [small], [SELECTION]) == [0, 0]


def test_a_run_that_ends_early_has_spent_what_its_selections_were_priced_by():
    fed = opened(delta="1e-6")
    remainders(fed, [replace(SELECTION, fraction=Fraction(1, 100))])
    said = said_of(fed)
    assert said.spent_fraction == pytest.approx(0.33, abs=1e-5)
    assert [line.rounds for line in said.spending] == ["1", "end"]
    for lines in (said.spending, said.mechanisms):
        assert sum(line.part for line in lines) == pytest.approx(said.spent_fraction)
    assert said.unspent[0].part == pytest.approx(0.67, abs=1e-5)


def test_failed_rounds_left_out_of_the_sum_would_be_seen():
    """Twin: a coordinator that forgets what failed prints less than the sites paid."""
    fed = opened(failing={1}, retry_budget=TENTH)
    fed.ask([COUNTS])
    fed.queries = [query for query in fed.queries if not query.void]
    said = said_of(fed)
    assert sum(line.part for line in said.spending) < said.spent_fraction - 0.05


def test_a_record_with_failed_rounds_comes_back_from_json():
    fed = opened(failing={1}, retry_budget=TENTH)
    fed.ask([COUNTS])
    assert RunRecord.from_dict(json.loads(json.dumps(fed.record.to_dict()))) == fed.record


@pytest.mark.parametrize("reserve", [Fraction(-1, 10), Fraction(1)])
def test_a_reserve_that_is_no_part_of_the_budget_is_refused(reserve):
    with pytest.raises(ParameterError, match="retry_budget"):
        study(TWO, 3, retry_budget=reserve)


# --------------------------------------------------------------------------------------------------
# After the charge nothing depends on a row; what fails all the same is charged, and the last.
SHARE = Fraction(1, 10_000)
CELLS = Binning.of_cells(TWO)
HALVES = Binning(tuple(tuple(int(2 * c >= len(b)) for c in range(len(b))) for b in CELLS.bins))
COUNTED = SumQuery(EVERYONE, ClassCounts(2), Whole(), SHARE)
CHOSEN = SelectQuery(
    EVERYONE, tuple(TWO.grids[0].split_values(range(k)) for k in (1, 2)), Scoring(Score.GINI), SHARE
)
ERRORS = (MemoryError(), ValueError("row 7 is strange"))


# ------------------------------------------------------------------------------- names of values
class Colliding:
    """SHA-256 as somebody sees it who has looked for two values with one half of a digest."""

    def __init__(self, data: bytes = b"") -> None:
        self._real = hashlib.new("sha256", data)

    def update(self, data: bytes) -> None:
        self._real.update(data)

    def hexdigest(self) -> str:
        return "0" * 32 + self._real.hexdigest()[32:]


@pytest.fixture
def colliding(monkeypatch):
    for module in (candidates, grids, layers, models, tree):
        monkeypatch.setattr(module.hashlib, "sha256", Colliding)


def counted_by(bins: Binning) -> SumQuery:
    return SumQuery(EVERYONE, ClassCounts(2), Cells((0, 1, 2), bins), SHARE)


def test_two_binnings_with_one_half_of_a_digest_are_counted_each_by_its_own(colliding):
    X, y = sample(60, TWO)
    (rows,) = site_rows(X, y, np.zeros(60, int), 1, TWO)
    one, other = (Binning(bins) for bins in (CELLS.bins, HALVES.bins))
    both = Answering(rows, TWO)
    found = [both.integers(counted_by(bins), 1) for bins in (one, other, one)]
    alone = [Answering(rows, TWO).integers(counted_by(bins), 1) for bins in (one, other, one)]
    assert [part.tolist() for part in found] == [part.tolist() for part in alone]


def test_values_that_differ_differ_however_alike_their_digests_begin(colliding):
    edges = [hr.Numeric("x", 0, 1, edges=(cut,)).grid for cut in (0.25, 0.5)]
    leaves = [Tree.of_preorder(("x",), [(value,)]) for value in (0.0, 1.0)]
    tests = [NodeTests(np.array([k], np.int16), np.ones((1, 4), np.uint64)) for k in (0, 1)]
    opened = [Layer(ROOT_LAYER, tests[0], np.array([True, k])) for k in (False, True)]
    scores = [Additive((float(k),)) for k in (0, 1)]
    for one, other in (edges, leaves, tests, opened, scores):
        assert one != other
        assert one.digest != other.digest
        assert len(one.digest) == 64


# --------------------------------------------------------------------------- failing and closing
def broken_by(error):
    def broken(*given):
        raise error

    return broken


def rows_of(n_sites: int, n: int = 90):
    X, y = sample(n, TWO)
    return site_rows(X, y, np.arange(n) % n_sites, n_sites, TWO)


def fails(monkeypatch, rows, error, query=COUNTED):
    name = "tables" if query is CHOSEN else "integers_of_all"
    monkeypatch.setattr(rows.sums, name, broken_by(error))


@pytest.mark.parametrize("query", [COUNTED, CHOSEN], ids=["a sum", "a choice"])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_one_holder_whose_computation_fails_ends_charged_and_closed(query, error, monkeypatch):
    fed = federation(study(TWO, 1), rows_of(1))
    fails(monkeypatch, fed.sites.rows, error, query)
    with pytest.raises(ComputationFailed, match=type(error).__name__) as caught:
        fed.ask([query])
    assert caught.value.__cause__ is error
    assert fed.sites.spent() == SHARE * fed.study.total
    monkeypatch.undo()
    with pytest.raises(ComputationFailed, match="is closed at this site"):
        round_of(fed.sites, 2, [COUNTED])
    assert fed.sites.spent() == SHARE * fed.study.total
    assert not fed.record.rounds


def test_a_fit_whose_computation_fails_is_no_model(monkeypatch):
    X, y = sample(90, TWO)
    model = hr.TreeClassifier(TWO, epsilon=1.0, random_state=0)
    monkeypatch.setattr(Answering, "integers_of_all", broken_by(MemoryError()))
    with pytest.raises(ComputationFailed, match="Nothing was released and the charge stays"):
        model.fit(X, y)
    assert not hasattr(model, "model_")


@pytest.mark.parametrize("part", ["rows", "masks"])
@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_site_in_one_process_that_fails_refuses_everything_from_then_on(part, error, monkeypatch):
    fed = federation(study(TWO, 3), rows_of(3))
    first = fed.sites.clients[0]
    if part == "rows":
        fails(monkeypatch, first.rows, error)
    else:
        monkeypatch.setattr(first.site, "mask", broken_by(error))
    with pytest.raises(SiteRefused, match="StudyClosed"):
        fed.ask([COUNTED])
    spent = [end.store.ledger.spent(fed.study.account) for end in fed.sites.clients]
    assert spent == [SHARE * fed.study.total] * 3
    assert not first.store._records
    monkeypatch.undo()
    assert first.handle(fed.sites.coordinator.join()[0]) == refusal(Code.STUDY_CLOSED)
    assert first.handle(b"") == refusal(Code.STUDY_CLOSED)


def site_stores(tmp_path, n_sites=3) -> DurableLink:
    return DurableLink(study(TWO, n_sites), rows_of(n_sites), tmp_path)


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_a_vault_keeps_the_charge_of_a_failure_and_closes_the_study_for_good(
    error, tmp_path, monkeypatch
):
    link = site_stores(tmp_path)
    account = link.study.account
    round_of(link, 1, [COUNTED])
    fails(monkeypatch, link.clients[0].rows, error)
    with pytest.raises(SiteRefused, match="site 0 refused with code StudyClosed"):
        round_of(link, 2, [COUNTED])
    assert link.site_stores[0].ledger.spent(account) == 2 * SHARE * link.study.total
    assert [site_store.ledger.is_open(account) for site_store in link.site_stores] == [
        False,
        True,
        True,
    ]
    assert not link.site_stores[0]._tables.outbox.rows(study=account)
    for site_store in link.site_stores:
        site_store.close()
    with vaults_again(link) as site_store:
        assert not site_store.ledger.is_open(account)
        with pytest.raises(ParameterError, match="is closed"):
            site_store.release([priced(link.study, COUNTED).charge], bytes(16), 3, lambda _: None)
        assert site_store.ledger.spent(account) == 2 * SHARE * link.study.total


class vaults_again:  # noqa: N801
    """The first site's store, as the next process opens it."""

    def __init__(self, link: DurableLink) -> None:
        self.link = link

    def __enter__(self) -> SiteStore:
        self.site_store = self.link._site_store(0)
        return self.site_store

    def __exit__(self, *unused: object) -> None:
        self.site_store.close()


def test_a_failure_after_the_charge_leaves_nothing_that_a_disk_or_a_stranger_could_send(tmp_path):
    """A disk that fails is no computation: nothing is charged and the study goes on."""
    link = site_stores(tmp_path)
    charges = [priced(link.study, COUNTED).charge]
    with pytest.raises(OSError, match="full"):
        link.site_stores[0].release(charges, bytes(16), 1, broken_by(OSError("the disk is full")))
    assert link.site_stores[0].ledger.is_open(link.study.account)
    assert link.site_stores[0].ledger.spent(link.study.account) == 0
    link.close()


def test_a_service_says_in_its_audit_log_why_a_study_is_closed_and_a_restart_keeps_it(
    tmp_path, monkeypatch
):
    world = World(tmp_path, dp_model="distributed", lifetime="1.2")
    world.approve(world.study_file)
    agreed = StudyFile.read(world.study_file).study
    with Served(world) as served:
        endpoint = served.all[0].daemon._clients[agreed.hash]
        fails(monkeypatch, endpoint.rows, MemoryError())
        with pytest.raises(SiteRefused, match="site site-1 refused with code StudyClosed"):
            world.train(served.transport)
        monkeypatch.undo()
        closed = world.lines(0, "closed")
        assert [line["study"] for line in closed] == [agreed.account]
        assert "could not be computed (MemoryError)" in closed[0]["what"]
        assert {line["code"] for line in world.lines(0, "refused")} == {"StudyClosed"}
        assert not world.lines(0, "round")
        join = world.link(served.transport).coordinator.join()[0]
        assert refusal_code(served.all[0].daemon.handle(join)) == "StudyClosed"
        served.all[0].close()
        served.all[0] = Service(world.sites[0])
        assert agreed.hash not in served.all[0].daemon.studies
        assert refusal_code(served.all[0].daemon.handle(join)) == "StudyClosed"
        (told,) = world.lines(0, "cannot serve")
        assert "is closed in this site's ledger" in told["what"]
        assert charged(world.sites[0], agreed.account) == 1


def test_what_is_admitted_never_closes_a_study_by_a_row():
    """The closing itself must not tell: no row is too strange for a query that was let through."""
    X, y = sample(40, TWO)
    X[3] = [np.inf, -np.inf, object()]
    X[4] = [None, "x", b"\xff"]
    fed = federation(study(TWO, 2), sites_unchecked(X, y))
    queries = [COUNTED, counted_by(CELLS), counted_by(HALVES)]
    assert len(fed.ask([*queries, SumQuery(EVERYONE, Count(), Whole(), SHARE)])) == 4


def sites_unchecked(X, y):
    from hedgerow.data.reading.encoding import encode
    from hedgerow.data.rows import Draws, Rows

    return [
        Rows(encode(X[k::2], TWO, y=y[k::2], check=False), TWO, Draws(bytes([k]) * 32, "test"))
        for k in (0, 1)
    ]
