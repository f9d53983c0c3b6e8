"""What every recipe must keep; a new one is covered the day it is listed in the catalog."""

from __future__ import annotations

import numpy as np
import pytest

from contract.worlds import THREE, TWO, VALUE, federation, holders, sample, study
from hedgerow.errors import BudgetExceeded
from hedgerow.learning.flow import run
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.ledger.charges import MemoryLedger, worst_total
from hedgerow.recipes import catalog

IDS = [f"{k}-{recipe.name}" for k, recipe in enumerate(catalog.ALL)]
RECIPES = pytest.mark.parametrize("recipe", catalog.ALL, ids=IDS)


def schema_for(recipe):
    return VALUE if catalog.is_regression(recipe) else TWO


def trained(recipe, parties, owner=None, **options):
    schema = catalog.schema_for(recipe, schema_for(recipe))
    X, y = sample(300, schema_for(recipe))
    owner = np.arange(len(y)) % parties if owner is None else owner
    the_study = study(schema, parties, **options)
    fed = federation(the_study, holders(X, y, owner, parties, schema))
    model = run(recipe.flow(schema, fed, np.random.default_rng(7)), fed)
    return model, fed


@RECIPES
@pytest.mark.parametrize("parties", [2, 5, 20])
def test_without_noise_the_federated_model_is_the_pooled_model(recipe, parties):
    if not catalog.answers(recipe, parties, pure=True):
        pytest.skip("this recipe is for one holder")
    pooled, _ = trained(recipe, 1, placement=Placement.NOWHERE)
    rng = np.random.default_rng(parties)
    uneven = rng.choice(parties, 300, p=rng.dirichlet(np.full(parties, 0.3)))
    uneven[uneven == 1] = 0  # party 1 is empty
    split, _ = trained(recipe, parties, uneven, placement=Placement.NOWHERE)
    if catalog.depends_on_the_division(recipe):
        pytest.skip("this recipe lets each site choose on its own rows")
    assert split.model.to_dict() == pooled.model.to_dict()


@RECIPES
@pytest.mark.parametrize(("parties", "delta"), [(1, "0"), (1, "1e-6"), (4, "0"), (4, "1e-6")])
def test_a_run_spends_what_it_reserved_and_never_more(recipe, parties, delta):
    if not catalog.answers(recipe, parties, pure=delta == "0"):
        pytest.skip("this recipe needs another placement or accountant")
    _, fed = trained(recipe, parties, delta=delta)
    spent = fed.ledger.spent(fed.study.account)
    assert 0 < spent <= fed.study.total
    charges = [c for _, entry in fed.ledger.entries for c in entry]
    assert worst_total(charges) == spent
    sites = [fed.link] if parties == 1 else [e.safe for e in fed.link.endpoints]
    assert {site.ledger.spent(fed.study.account) for site in sites} == {spent}


@RECIPES
def test_a_run_stops_before_it_would_spend_too_much(recipe):
    """Twin: half the budget, the same shares; nothing is sent once the ledger says no."""
    if not catalog.answers(recipe, 1, pure=True):
        pytest.skip("this recipe needs another placement or accountant")
    schema = catalog.schema_for(recipe, schema_for(recipe))
    X, y = sample(60, schema_for(recipe))
    the_study = study(schema, 1)
    fed = federation(the_study, holders(X, y, np.zeros(60, int), 1, schema))
    fed.ledger = MemoryLedger(the_study.total / 2)
    with pytest.raises(BudgetExceeded):
        run(recipe.flow(schema, fed, np.random.default_rng(0)), fed)
    assert fed.ledger.spent(fed.study.account) <= the_study.total / 2
    assert len(fed.link.ledger.entries) == len(fed.record.rounds)


@RECIPES
def test_a_recipe_says_how_many_rounds_it_takes(recipe):
    model, fed = trained(recipe, 1, placement=Placement.NOWHERE)
    expected = recipe.expected_rounds(fed.study.schema)
    assert expected is None or len(fed.record.rounds) <= expected
    assert model.model.score.outputs >= 1


@RECIPES
def test_three_classes_are_as_good_as_two(recipe):
    if catalog.is_regression(recipe) or not catalog.is_multiclass(recipe):
        pytest.skip("this recipe is for two classes or for numbers")
    schema = catalog.schema_for(recipe, THREE)
    X, y = sample(300, THREE)
    fed = federation(
        study(schema, 1, Placement.NOWHERE), holders(X, y, np.zeros(300, int), 1, schema)
    )
    model = run(recipe.flow(schema, fed, np.random.default_rng(0)), fed).model
    codes = fed.link.member.answering.rows.codes
    p = model.predict(codes)
    assert p.shape == (300, 3)
    assert np.allclose(p.sum(axis=1), 1.0)
