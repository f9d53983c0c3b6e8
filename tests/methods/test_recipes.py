"""What every recipe must keep; a new one is covered the day it is listed in the catalog.

Recipes run on the grid they ask for, which is the one the product uses.
"""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest

from hedgerow.errors import BudgetExceeded, HedgerowError
from hedgerow.federation.wire import Sender
from hedgerow.methods import catalog
from hedgerow.methods.blocks import fallback, goal
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.method import Task, check_needs
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.bundles import Size, length_of, weight_of
from hedgerow.privacy.ledger.charges import MemoryLedger, worst_total
from hedgerow.privacy.queries import LocalChoice, kind_of
from hedgerow.schema.schema import Numeric
from support.worlds import THREE, TWO, VALUE, federation, holders, sample, study

SCHEMAS = {Task.CLASSES: TWO, Task.NUMBER: VALUE}
CASES = [
    (recipe, SCHEMAS[task])
    for recipe in catalog.ALL
    for task in sorted(recipe.needs.tasks, key=lambda t: t.name)
]
IDS = [f"{k}-{r.name}-{Task.of(s).name.lower()}" for k, (r, s) in enumerate(CASES)]
RECIPES = pytest.mark.parametrize(("recipe", "schema"), CASES, ids=IDS)


class Heard:
    """A federation that remembers what it was asked."""

    def __init__(self, inner):
        self.inner, self.kinds, self.bundles = inner, set(), []

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def ask(self, queries):
        self.kinds |= {kind_of(query) for query in queries}
        self.bundles.append([self.inner.study.as_asked(query) for query in queries])
        return self.inner.ask(queries)


def opened(recipe, schema, parties, owner=None, rows=300, same=False, **options):
    """A federation over sample rows, on the recipe's own grid; or over rows that are the same."""
    grid = recipe.grid(schema)
    X, y = sample(rows, schema)
    X = np.zeros((rows, 1)) if same else X
    owner = np.arange(rows) % parties if owner is None else owner
    return federation(study(grid, parties, **options), holders(X, y, owner, parties, grid))


def trained(recipe, schema, parties, owner=None, **options):
    fed = opened(recipe, schema, parties, owner, **options)
    return run(recipe.flow(fed.study.schema, fed, np.random.default_rng(7)), fed), fed


@cache
def without_noise(recipe, schema):
    """What one holder of all rows learns, and how; any number of holders must learn the same."""
    return trained(recipe, schema, 1, placement=Placement.NOWHERE)


def also_slow(wanted, others):
    """Some values in every run of the tests, others in the long one alone."""
    return [*wanted, *(pytest.param(*other, marks=pytest.mark.slow) for other in others)]


def sites_decide(recipe, schema):
    """Whether a site's own choice or draw takes part: then the model depends on who holds what."""
    chosen = any(kind.query == LocalChoice.__name__ for kind in recipe.asks(schema))
    drawn = getattr(recipe, "folds", None) is True or getattr(recipe, "subsample", None)
    return chosen or bool(drawn) or getattr(recipe, "save_budget", False)


@RECIPES
@pytest.mark.parametrize("parties", also_slow([5], [(2,), (20,)]))
def test_without_noise_the_federated_model_is_the_pooled_model(recipe, schema, parties):
    if recipe.needs.one_holder or sites_decide(recipe, recipe.grid(schema)):
        pytest.skip("this recipe is for one holder, or lets each site decide on its own rows")
    rng = np.random.default_rng(parties)
    uneven = rng.choice(parties, 300, p=rng.dirichlet(np.full(parties, 0.3)))
    uneven[uneven == 1] = 0  # party 1 is empty
    split, _ = trained(recipe, schema, parties, uneven, placement=Placement.NOWHERE)
    assert split.model.to_dict() == without_noise(recipe, schema)[0].model.to_dict()


PARTIES_AND_DELTA = pytest.mark.parametrize(
    ("parties", "delta"), also_slow([(1, "0"), (3, "1e-6")], [(1, "1e-6"), (3, "0")])
)


@cache
def heard(recipe, schema, parties, delta):
    """A noisy run, with a budget that lets trees grow, and all that was asked in it."""
    if recipe.needs.one_holder and parties > 1:
        pytest.skip("this recipe is for one holder")
    fed = Heard(opened(recipe, schema, parties, delta=delta, epsilon="20"))
    run(recipe.flow(fed.study.schema, fed, np.random.default_rng(7)), fed)
    return fed


@RECIPES
@PARTIES_AND_DELTA
def test_a_run_spends_what_it_reserved_and_never_more(recipe, schema, parties, delta):
    fed = heard(recipe, schema, parties, delta)
    spent = fed.ledger.spent(fed.study.account)
    assert 0 < spent <= fed.study.total
    charges = [c for _, entry in fed.ledger.entries for c in entry]
    assert worst_total(charges) == spent
    sites = [fed.sites] if parties == 1 else [client.store for client in fed.sites.clients]
    assert {site.ledger.spent(fed.study.account) for site in sites} == {spent}


@RECIPES
@PARTIES_AND_DELTA
def test_a_recipe_asks_nothing_but_what_it_says(recipe, schema, parties, delta):
    assert heard(recipe, schema, parties, delta).kinds <= recipe.asks(schema)


def sizes_of(bundle):
    """What a recipe must have declared of the queries of one step."""
    trees = [t for q in bundle for t in getattr(getattr(q, "by", None), "trees", ())]
    return Size(
        queries=len(bundle),
        integers=length_of(bundle),
        bytes=weight_of(bundle),
        candidates=max(getattr(query, "n_candidates", 0) for query in bundle),
        steps=max(len(query.region) for query in bundle),
        leaves=max((tree.n_leaves for tree in trees), default=0),
    )


@RECIPES
@PARTIES_AND_DELTA
def test_a_recipe_never_asks_more_than_it_declares(recipe, schema, parties, delta):
    """And no letter to a site that knows nothing is longer than its weight says."""
    fed = heard(recipe, schema, parties, delta)
    declared = recipe.largest(fed.study.schema)
    for bundle in fed.bundles:
        asked = sizes_of(bundle)
        assert asked | declared == declared
        assert Sender().encode(bundle).size <= asked.bytes
    assert 0 < len(fed.record.rounds) <= declared.rounds_of(parties)
    assert declared.excess(travels=parties > 1) is None


@RECIPES
def test_a_run_stops_before_it_would_spend_too_much(recipe, schema):
    """Twin: half the budget, the same shares; nothing is sent once the ledger says no."""
    fed = opened(recipe, schema, 1, rows=60)
    fed.ledger = MemoryLedger(fed.study.total / 2)
    with pytest.raises(BudgetExceeded):
        run(recipe.flow(fed.study.schema, fed, np.random.default_rng(0)), fed)
    assert fed.ledger.spent(fed.study.account) <= fed.study.total / 2
    assert len(fed.sites.ledger.entries) == len(fed.record.rounds)


@RECIPES
def test_a_recipe_says_how_many_rounds_it_takes(recipe, schema):
    model, fed = without_noise(recipe, schema)
    assert len(fed.record.rounds) <= recipe.largest(fed.study.schema).rounds_alone
    assert model.model.score.outputs >= 1


DO_NO_HARM = (
    (fallback, "HARMFUL"),
    (fallback, "HARMFUL_OF_ONE_SUM"),
    (fallback, "HARMFUL_IF_PURE"),
    (fallback, "HARMFUL_OF_NUMBERS"),
    (goal, "COUNT_IS_SEEN"),
)
"""What must be seen of the records, or a recipe gives shares or a mean; none may be left to the
noise of a test."""


def asked_in_worlds(recipe, schema):
    """What a recipe asks in one world after another: rich and poor, large and small, of one kind.

    Few parties and loud noise bring forth what others never need.
    """
    one = replace(schema, features=(Numeric("same", 0.0, 1.0),))
    usual = [(schema, 300, "400"), (schema, 300, "8"), (schema, 300, "1/4")]
    worlds = [*usual, (schema, 3, "1/4"), (one, 300, "400")]
    for (given, rows, epsilon), parties, delta in product(worlds, (1, 3), ("0", "1e-6")):
        if recipe.needs.one_holder and parties > 1:
            continue
        options = {"rows": rows, "delta": delta, "epsilon": epsilon, "same": given is one}
        fed = Heard(opened(recipe, given, parties, **options))
        run(recipe.flow(fed.study.schema, fed, np.random.default_rng(7)), fed)
        yield {(recipe.name, Task.of(schema), kind) for kind in fed.kinds}


def test_between_them_recipes_ask_all_that_they_say(monkeypatch):
    """Twin: a list that names too much would hide what a site must be ready for."""
    said, asked = set(), set()
    usual = {place: getattr(*place) for place in DO_NO_HARM}
    for recipe, schema in CASES:
        mine = {(recipe.name, Task.of(schema), kind) for kind in recipe.asks(schema)}
        said |= mine
        for thresholds in (usual, dict.fromkeys(DO_NO_HARM, -math.inf)):
            # What is drawn blindly lies between two close thresholds, which noise would miss.
            for (room, name), least in thresholds.items():
                monkeypatch.setattr(room, name, least)
            worlds = asked_in_worlds(recipe, schema)
            while mine - asked and (found := next(worlds, None)) is not None:
                asked |= found  # no further world once all was heard
    assert said - asked == set()


RUN_ABOVE = {(Placement.NOWHERE, 1), (Placement.CURATOR, 1), (Placement.SHARES, 3)}
IMPOSSIBLE = {(Placement.SHARES, 1), (Placement.CURATOR, 3)}
"""The study says no."""


@RECIPES
def test_a_recipe_is_refused_before_anything_is_asked_where_it_cannot_run(recipe, schema):
    for placement, parties in product(Placement, (1, 3)):
        if (placement, parties) in RUN_ABOVE | IMPOSSIBLE:
            continue
        try:
            check_needs(recipe, schema, placement, parties)
        except HedgerowError:
            continue
        _, fed = trained(recipe, schema, parties, placement=placement, rows=60)
        assert fed.record.rounds


@pytest.mark.parametrize("recipe", [r for r in catalog.ALL if Task.CLASSES in r.needs.tasks])
def test_three_classes_are_as_good_as_two(recipe):
    model, fed = trained(recipe, THREE, 1, placement=Placement.NOWHERE)
    p = model.model.predict(fed.sites.rows.sums.rows.codes)
    assert p.shape == (300, 3)
    assert np.allclose(p.sum(axis=1), 1.0)
