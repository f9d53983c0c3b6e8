"""Where noise hides the records: the shares or the mean, little of the budget, and a word."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hedgerow as hr
from contract.worlds import THREE, TWO, VALUE, federation, holders, sample, study
from hedgerow.learning.flow import run
from hedgerow.queries import Count, Whole
from hedgerow.recipes.ours.boost_classes import SmoothedBoost
from hedgerow.recipes.ours.boost_numbers import RegressionBoost
from hedgerow.recipes.ours.forest import GuidedForest
from hedgerow.recipes.ours.tree import ScreenedTree

CASES = [
    (SmoothedBoost(), TWO),
    (SmoothedBoost(), THREE),
    (GuidedForest(), TWO),
    (GuidedForest(), VALUE),
    (ScreenedTree(), THREE),
    (ScreenedTree(), VALUE),
    (RegressionBoost(), VALUE),
]
EMPTY = tuple(hr.Numeric(f"empty{i}", 0.0, 1.0) for i in range(297))
"""So many columns hide the records, while their number is still seen."""


class TrueCount:
    """A federation that tells the number of records without noise, which would decide by luck."""

    def __init__(self, inner, n):
        self.inner, self.n = inner, n

    def __getattr__(self, name):
        return getattr(self.inner, name)

    def ask(self, queries):
        pairs = zip(queries, self.inner.ask(queries), strict=True)
        return [self._told(query, reply) for query, reply in pairs]

    def _told(self, query, reply):
        if not isinstance(query.statistic, Count) or not isinstance(query.by, Whole):
            return reply
        return replace(reply, values=np.full_like(reply.values, self.n))


def trained(recipe, schema, n=400, columns=(), **promise):
    X, y = sample(n, schema)
    X = np.concatenate([X, np.zeros((n, len(columns)), object)], axis=1)
    schema = recipe.grid(replace(schema, features=(*schema.features, *columns)))
    rows = holders(X, y, np.zeros(n, int), 1, schema)
    fed = TrueCount(federation(study(schema, 1, **promise), rows), n)
    return run(recipe.flow(schema, fed, np.random.default_rng(0)), fed), fed, rows[0].codes


@pytest.mark.parametrize(("recipe", "schema"), CASES)
@pytest.mark.parametrize(("epsilon", "delta"), [("0.75", "0"), ("0.1", "1e-6")])
def test_where_noise_hides_the_records_no_column_is_used_and_it_is_said(
    recipe, schema, epsilon, delta
):
    found, fed, codes = trained(recipe, schema, columns=EMPTY, epsilon=epsilon, delta=delta)
    said = found.model.predict(codes)
    assert np.ptp(said, axis=0).max() == 0.0
    assert found.instead is not None
    assert "no column" in found.instead
    assert fed.ledger.spent(fed.study.account) <= fed.study.total
    if schema.classes:
        assert said.min() > 0.0
        assert np.allclose(said.sum(axis=1), 1.0)


@pytest.mark.parametrize(("recipe", "schema"), CASES)
def test_where_they_are_seen_nothing_is_said(recipe, schema):
    found, _, codes = trained(recipe, schema, epsilon="500", delta="1e-6")
    assert found.instead is None
    assert np.ptp(found.model.predict(codes), axis=0).max() > 0.0


def test_no_more_is_spent_than_precise_shares_need():
    columns = tuple(hr.Numeric(f"x{i}", 0.0, 1.0) for i in range(997))
    found, fed, _ = trained(SmoothedBoost(), TWO, 3000, columns, epsilon="0.2", delta="1e-6")
    assert found.instead is not None
    assert fed.ledger.spent(fed.study.account) < 0.7 * fed.study.total


def test_a_user_is_warned_that_the_shares_are_all_there_is():
    columns = tuple(hr.Numeric(f"x{i}", 0.0, 1.0) for i in range(1000))
    schema = hr.Schema(columns, classes=("no", "yes"))
    X, y = np.zeros((300, 1000)), np.where(np.arange(300) % 4 == 0, "yes", "no")
    with pytest.warns(hr.SignalWarning, match="shares of the classes"):
        model = hr.BoostedTreesClassifier(schema, 0.2, 1e-6).fit(X, y)
    assert "shares of the classes" in str(model.privacy_)


def test_a_forest_instead_of_boosted_trees_is_said():
    X, y = sample(300, VALUE)
    with pytest.warns(hr.SignalWarning, match="a forest"):
        model = hr.BoostedTreesRegressor(VALUE, 4.0, 1e-6, random_state=0).fit(X, y)
    assert "a forest" in model.privacy_.caveats[0]
