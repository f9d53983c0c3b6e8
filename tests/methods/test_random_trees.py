"""Where noise hides every table: nothing is spent on splits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.blocks.random_trees import draw_trees
from hedgerow.methods.blocks.target import declared_target
from hedgerow.privacy.queries import Leaves
from hedgerow.schema.schema import Numeric, Schema, Target
from support.worlds import TWO, federation, sample, site_rows, study

FEW = 40
WIDE = tuple(Numeric(f"x{j}", 0.0, 1.0, bins=4) for j in range(200))
"""So many features that the noisy signal is small for sure (chance of error below 1e-8)."""
WIDE_TWO = Schema(WIDE, classes=("no", "yes"))
WIDE_VALUE = Schema(WIDE, target=Target(0.0, 1.0))


def wide(schema):
    rng = np.random.default_rng(0)
    X = rng.random((FEW, len(WIDE)))
    return X, X[:, 0] if schema.classes is None else np.where(X[:, 0] > 0.5, "yes", "no")


@pytest.mark.parametrize("kind", [hr.TreeClassifier, hr.ForestClassifier])
@pytest.mark.parametrize("schema", [WIDE_TWO, TWO], ids=["hopeless", "clear"])
def test_only_a_hopeless_signal_is_done_in_three_rounds(kind, schema):
    """The records are counted, again where noise hides their number, and then the shares."""
    hopeless = schema is WIDE_TWO
    X, y = wide(schema) if hopeless else sample(2000, TWO)
    model = kind(schema, epsilon=0.1 if hopeless else 10.0, random_state=0).fit(X, y)
    assert (len(model.run_.rounds) <= 3) is hopeless


@pytest.mark.parametrize("kind", [hr.TreeRegressor, hr.ForestRegressor])
def test_numbers_of_a_hopeless_signal_stay_in_the_public_range(kind):
    X, y = wide(WIDE_VALUE)
    said = kind(WIDE_VALUE, epsilon=0.1, random_state=0).fit(X, y).predict(X)
    assert (said >= 0.0).all()
    assert (said <= 1.0).all()


def test_all_that_is_left_goes_to_the_leaves_of_all_trees_at_once():
    rng = np.random.default_rng(0)
    flow = draw_trees(TWO, declared_target(TWO), 3, 2, Fraction(99, 100), rng)
    (query,) = next(flow)
    assert isinstance(query.by, Leaves)
    assert len(query.by.trees) == 3
    assert query.fraction == Fraction(99, 100)


def test_leaves_of_blind_trees_say_proportions_that_lean_on_all_rows():
    X, y = sample(FEW, TWO)
    fed = federation(study(TWO, 1, epsilon="0.1"), site_rows(X, y, np.zeros(FEW), 1, TWO))
    flow = draw_trees(TWO, declared_target(TWO), 2, 3, Fraction(1), np.random.default_rng(0))
    for grown in run(flow, fed):
        p = np.array([leaf.value for leaf in grown.leaves])
        assert (p >= 0.0).all()
        assert np.allclose(p.sum(axis=1), 1.0)


def test_a_blind_tree_can_be_shown():
    model = hr.TreeClassifier(WIDE_TWO, epsilon=0.1, max_depth=2).fit(*wide(WIDE_TWO))
    assert "rows" in hr.show_tree(model)
