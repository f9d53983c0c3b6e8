"""Whatever carries the letters, a run without noise ends with the same model, bit for bit."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from hedgerow.errors import HedgerowError
from hedgerow.federation import exchange
from hedgerow.federation.exchange import Patience, patient
from hedgerow.federation.secure_sites import SecureSites
from hedgerow.federation.server import Server
from hedgerow.federation.transports.in_process import InProcess
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.gubler import HistogramTree
from hedgerow.methods.method import Task, check_needs
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.ledger.charges import MemoryLedger
from hedgerow.privacy.statement.statement import statement
from methods.test_recipes import CASES, IDS
from support.faults import Lossy, unhurried
from support.network import https
from support.worlds import TWO, holders, sample, study

PARTIES, ROWS = 3, 90
NAMES = [f"site-{k + 1}" for k in range(PARTIES)]
SEVERAL = [
    pytest.param(recipe, schema, id=name)
    for (recipe, schema), name in zip(CASES, IDS, strict=True)
    if not recipe.needs.one_holder
]
RECIPES = pytest.mark.parametrize(("recipe", "schema"), SEVERAL)


def world(recipe, schema, **terms):
    """Sites in this process, and the study they are of."""
    grid = recipe.grid(schema)
    X, y = sample(ROWS, schema)
    the_study = study(grid, PARTIES, **terms)
    return InProcess(the_study, holders(X, y, np.arange(ROWS) % PARTIES, PARTIES, grid))


def handles(link):
    return dict(zip(NAMES, (end.handle for end in link.clients), strict=True))


def over(carrier, inner):
    """The same sites and coordinator, with another way between them."""
    patience = unhurried(NAMES)
    return SecureSites(inner.study, inner.coordinator, patient(carrier, patience), patience)


def grown(recipe, link):
    fed = Server(link.study, link, MemoryLedger(link.study.limit))
    return run(recipe.flow(link.study.schema, fed, np.random.default_rng(7)), fed), fed


@cache
def directly(recipe, schema):
    return grown(recipe, world(recipe, schema, placement=Placement.NOWHERE))[0].model.to_dict()


@RECIPES
def test_over_a_carrier_that_loses_repeats_delays_and_reorders(recipe, schema):
    inner = world(recipe, schema, placement=Placement.NOWHERE)
    carrier = Lossy(handles(inner), seed=len(recipe.name))
    trained, fed = grown(recipe, over(carrier, inner))
    assert trained.model.to_dict() == directly(recipe, schema)
    assert not any(record.void for record in fed.record.rounds)
    assert {record.sites for record in fed.record.rounds} == {PARTIES}


@pytest.fixture(scope="module")
def door(tmp_path_factory):
    """One HTTPS door for all recipes; which sites answer behind it changes."""
    behind: dict[str, object] = {}
    sites = {name: (lambda letter, name=name: behind[name](letter)) for name in NAMES}
    with https(tmp_path_factory.mktemp("https"), sites) as carrier:
        yield carrier, behind


@pytest.mark.network
@RECIPES
def test_over_https(recipe, schema, door):
    carrier, behind = door
    inner = world(recipe, schema, placement=Placement.NOWHERE)
    behind.update(handles(inner))
    patience = Patience(NAMES)
    link = SecureSites(inner.study, inner.coordinator, patient(carrier, patience), patience)
    assert grown(recipe, link)[0].model.to_dict() == directly(recipe, schema)


def test_the_carrier_of_these_tests_does_what_it_says():
    inner = world(HistogramTree(max_depth=3), TWO, placement=Placement.NOWHERE)
    carrier = Lossy(handles(inner), seed=1)
    grown(HistogramTree(max_depth=3), over(carrier, inner))
    assert min(carrier.lost, carrier.repeated, carrier.delayed) > 2


def test_a_link_that_takes_whatever_comes_would_be_seen(monkeypatch):
    """Twin: an answer that does not fit is counted as one."""
    recipe = HistogramTree(max_depth=3)
    inner = world(recipe, TWO, placement=Placement.NOWHERE)
    monkeypatch.setattr(exchange._Gathering, "_fits", lambda self, site, answer: True)
    with pytest.raises((HedgerowError, ValueError)):
        grown(recipe, over(Lossy(handles(inner), seed=1), inner))


# ------------------------------------------------------------------------------------- with noise
@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_with_noise_the_statement_is_the_same_but_for_simulated(delta):
    recipe = HistogramTree(max_depth=2)
    said = []
    for lossy in (False, True):
        inner = world(recipe, TWO, epsilon="100", delta=delta)
        link = over(Lossy(handles(inner), seed=3), inner) if lossy else inner
        _, fed = grown(recipe, link)
        here = statement(link.study, link.spent(), fed.asked, simulated=not lossy)
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
    for (recipe, schema), name in zip(CASES, IDS, strict=True):
        if name not in {param.id for param in SEVERAL}:
            with pytest.raises(HedgerowError, match="one holder"):
                check_needs(recipe, schema, Placement.SHARES, PARTIES)
    assert {Task.of(param.values[1]) for param in SEVERAL} == set(Task)
