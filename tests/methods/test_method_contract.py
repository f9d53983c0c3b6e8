"""What every method must keep; a new one is covered the day its file is in the package.

Methods run on the grid they ask for, which is the one the product uses.
"""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import cache
from itertools import chain, product

import numpy as np
import pytest

from hedgerow.errors import BudgetExceeded, HedgerowError
from hedgerow.federation.wire import Sender
from hedgerow.methods import registry
from hedgerow.methods.blocks import fallback, target
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.method import Task, check_needs
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.bundles import Size, length_of
from hedgerow.privacy.ledger.charges import MemoryLedger
from hedgerow.privacy.queries import LocalSelection, kind_of
from hedgerow.schema.schema import Numeric
from support.worlds import (
    THREE,
    TIMES,
    TWO,
    VALUE,
    federation,
    sample,
    site_rows,
    study,
    weight_of,
    worst_total,
)

SCHEMAS = {Task.CLASSES: TWO, Task.NUMBER: VALUE, Task.SURVIVAL: TIMES}
CASES = [
    (method, SCHEMAS[task])
    for method in registry.catalog()
    for task in sorted(method.needs.tasks, key=lambda t: t.name)
]
NAMES = [f"{method.name}-{Task.of(schema).name.lower()}" for method, schema in CASES]
IDS = [f"{NAMES[:k].count(name)}-{name}" for k, name in enumerate(NAMES)]
"""One more file moves no other name: each method counts its own settings."""
METHOD_EXAMPLES = pytest.mark.parametrize(("method", "schema"), CASES, ids=IDS)


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


def opened(method, schema, n_sites, owner=None, rows=300, same=False, **options):
    """A federation over sample rows, on the method's own grid; or over rows that are the same."""
    grid = method.grid(schema)
    X, y = sample(rows, schema)
    X = np.zeros((rows, 1)) if same else X
    owner = np.arange(rows) % n_sites if owner is None else owner
    return federation(study(grid, n_sites, **options), site_rows(X, y, owner, n_sites, grid))


def trained(method, schema, n_sites, owner=None, **options):
    fed = opened(method, schema, n_sites, owner, **options)
    return run(method.flow(fed.study.schema, fed, np.random.default_rng(7)), fed), fed


@cache
def without_noise(method, schema):
    """What one site with all rows learns, and how; any number of sites must learn the same."""
    return trained(method, schema, 1, dp_model=DPModel.NONE)


@cache
def pooled(method, schema):
    """The same with all rows in one place; of methods whose rounds follow the number of sites, at
    one of two sites."""
    if getattr(method, "trees_per_round", 1) is None:
        return trained(method, schema, 2, np.zeros(300, np.int64), dp_model=DPModel.NONE)
    return without_noise(method, schema)


def also_slow(wanted, others):
    """Some values in every run of the tests, others in the long one alone."""
    return [*wanted, *(pytest.param(*other, marks=pytest.mark.slow) for other in others)]


def sites_decide(method, schema):
    """Whether a site's own choice or draw takes part: then the model depends on who holds what."""
    chosen = any(kind.query == LocalSelection.__name__ for kind in method.asks(schema))
    drawn = getattr(method, "folds", None) is True or getattr(method, "subsample", None)
    return chosen or bool(drawn) or getattr(method, "budget_saving", False)


@METHOD_EXAMPLES
@pytest.mark.parametrize("n_sites", also_slow([5], [(2,), (20,)]))
def test_without_noise_the_federated_model_is_the_pooled_model(method, schema, n_sites):
    if method.needs.single_site or sites_decide(method, method.grid(schema)):
        pytest.skip("this method is for one site, or lets each site decide on its own rows")
    rng = np.random.default_rng(n_sites)
    uneven = rng.choice(n_sites, 300, p=rng.dirichlet(np.full(n_sites, 0.3)))
    uneven[uneven == 1] = 0  # site 1 is empty
    split, _ = trained(method, schema, n_sites, uneven, dp_model=DPModel.NONE)
    assert split.model.to_dict() == pooled(method, schema)[0].model.to_dict()


PARTIES_AND_DELTA = pytest.mark.parametrize(
    ("n_sites", "delta"), also_slow([(1, "0"), (3, "1e-6")], [(1, "1e-6"), (3, "0")])
)


@cache
def heard(method, schema, n_sites, delta):
    """A noisy run, with a budget that lets trees grow, and all that was asked in it."""
    if method.needs.single_site and n_sites > 1:
        pytest.skip("this method is for one site")
    fed = Heard(opened(method, schema, n_sites, delta=delta, epsilon="20"))
    run(method.flow(fed.study.schema, fed, np.random.default_rng(7)), fed)
    return fed


@METHOD_EXAMPLES
@PARTIES_AND_DELTA
def test_a_run_spends_what_it_reserved_and_never_more(method, schema, n_sites, delta):
    fed = heard(method, schema, n_sites, delta)
    spent = fed.ledger.spent(fed.study.account)
    assert 0 < spent <= fed.study.total
    entries = [entry for _, entry in fed.ledger.entries]
    paid = [[replace(c, remainder=Fraction(0)) for c in entry] for entry in entries]
    left = [max(c.remainder for c in entry) for entry in entries]
    ends = {k for k, rest in enumerate(left) if rest} | {len(left) - 1}
    assert max(worst_total(chain(*paid[: k + 1])) + left[k] for k in ends) == spent
    sites = [fed.sites] if n_sites == 1 else [client.store for client in fed.sites.clients]
    assert {site.ledger.spent(fed.study.account) for site in sites} == {spent}


@METHOD_EXAMPLES
@PARTIES_AND_DELTA
def test_a_recipe_asks_nothing_but_what_it_says(method, schema, n_sites, delta):
    assert heard(method, schema, n_sites, delta).kinds <= method.asks(schema)


def sizes_of(bundle):
    """What a method must have declared of the queries of one step."""
    trees = [t for q in bundle for t in getattr(getattr(q, "by", None), "trees", ())]
    return Size(
        queries=len(bundle),
        integers=length_of(bundle),
        bytes=weight_of(bundle),
        candidates=max(getattr(query, "n_candidates", 0) for query in bundle),
        steps=max(len(query.region) for query in bundle),
        leaves=max((tree.n_leaves for tree in trees), default=0),
    )


@METHOD_EXAMPLES
@PARTIES_AND_DELTA
def test_a_recipe_never_asks_more_than_it_declares(method, schema, n_sites, delta):
    """And no letter to a site that knows nothing is longer than its weight says."""
    fed = heard(method, schema, n_sites, delta)
    declared = method.largest(fed.study.schema)
    for bundle in fed.bundles:
        asked = sizes_of(bundle)
        assert asked | declared == declared
        assert Sender().encode(bundle).size <= asked.bytes
    assert 0 < len(fed.record.rounds) <= declared.rounds_of(n_sites)
    assert declared.excess(travels=n_sites > 1) is None


@METHOD_EXAMPLES
def test_a_run_stops_before_it_would_spend_too_much(method, schema):
    """Twin: half the budget, the same shares; nothing is sent once the ledger says no."""
    fed = opened(method, schema, 1, rows=60)
    fed.ledger = MemoryLedger(fed.study.total / 2)
    with pytest.raises(BudgetExceeded):
        run(method.flow(fed.study.schema, fed, np.random.default_rng(0)), fed)
    assert fed.ledger.spent(fed.study.account) <= fed.study.total / 2
    assert len(fed.sites.ledger.entries) == len(fed.record.rounds)


@METHOD_EXAMPLES
def test_a_recipe_says_how_many_rounds_it_takes(method, schema):
    model, fed = without_noise(method, schema)
    assert len(fed.record.rounds) <= method.largest(fed.study.schema).rounds_alone
    assert model.model.score.outputs >= 1


DO_NO_HARM = (
    (fallback, "FALLBACK_BELOW"),
    (fallback, "FALLBACK_BELOW_FOR_ONE_SUM"),
    (fallback, "FALLBACK_BELOW_IF_PURE"),
    (fallback, "FALLBACK_BELOW_FOR_NUMBERS"),
    (target, "COUNT_IS_SEEN"),
)
"""What must be seen of the records, or a method gives shares or a mean; none may be left to the
noise of a test."""


def asked_in_worlds(method, schema):
    """What a method asks in one world after another: rich and poor, large and small, of one kind.

    Few sites and loud noise bring forth what others never need.
    """
    one = replace(schema, features=(Numeric("same", 0.0, 1.0),))
    usual = [(schema, 300, epsilon) for epsilon in ("400", "8", "3/2", "1/4")]
    worlds = [*usual, (schema, 3, "1/4"), (one, 300, "400")]
    for (given, rows, epsilon), n_sites, delta in product(worlds, (1, 3), ("0", "1e-6")):
        if method.needs.single_site and n_sites > 1:
            continue
        options = {"rows": rows, "delta": delta, "epsilon": epsilon, "same": given is one}
        fed = Heard(opened(method, given, n_sites, **options))
        run(method.flow(fed.study.schema, fed, np.random.default_rng(7)), fed)
        yield {(method.name, Task.of(schema), kind) for kind in fed.kinds}


def test_between_them_recipes_ask_all_that_they_say(monkeypatch):
    """Twin: a list that names too much would hide what a site must be ready for."""
    said, asked = set(), set()
    usual = {place: getattr(*place) for place in DO_NO_HARM}
    for method, schema in CASES:
        mine = {(method.name, Task.of(schema), kind) for kind in method.asks(schema)}
        said |= mine
        for thresholds in (usual, dict.fromkeys(DO_NO_HARM, -math.inf)):
            # What is drawn blindly lies between two close thresholds, which noise would miss.
            for (room, name), least in thresholds.items():
                monkeypatch.setattr(room, name, least)
            worlds = asked_in_worlds(method, schema)
            while mine - asked and (found := next(worlds, None)) is not None:
                asked |= found  # no further world once all was heard
    assert said - asked == set()


RUN_ABOVE = {(DPModel.NONE, 1), (DPModel.CENTRAL, 1), (DPModel.DISTRIBUTED, 3)}
IMPOSSIBLE = {(DPModel.DISTRIBUTED, 1), (DPModel.CENTRAL, 3)}
"""The study says no."""


@METHOD_EXAMPLES
def test_a_recipe_is_refused_before_anything_is_asked_where_it_cannot_run(method, schema):
    for dp_model, n_sites in product(DPModel, (1, 3)):
        if (dp_model, n_sites) in RUN_ABOVE | IMPOSSIBLE:
            continue
        try:
            check_needs(method, schema, dp_model, n_sites)
        except HedgerowError:
            continue
        _, fed = trained(method, schema, n_sites, dp_model=dp_model, rows=60)
        assert fed.record.rounds


@pytest.mark.parametrize("method", [method for method, schema in CASES if schema is TWO])
def test_three_classes_are_as_good_as_two(method):
    model, fed = trained(method, THREE, 1, dp_model=DPModel.NONE)
    p = model.model.predict(fed.sites.rows.sums.rows.codes)
    assert p.shape == (300, 3)
    assert np.allclose(p.sum(axis=1), 1.0)
