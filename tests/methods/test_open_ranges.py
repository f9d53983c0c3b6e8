"""Ranges that nobody knows in public: a wide public ladder, and bins found by private counts."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import hedgerow as hr
from hedgerow.errors import DataWarning, SpecError
from hedgerow.schema.grids import WIDEST, wide_edges
from methods.test_estimators import EACH, small

N = 1500
OPEN = hr.Schema({"income": float, "age": float, "smoker": bool, "job": str}, classes=(False, True))


def people(n: int = N, seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "income": rng.lognormal(10, 1, n),
            "age": rng.integers(18, 90, n),
            "smoker": rng.random(n) < 0.3,
            "job": pd.array(rng.choice(["nurse", "clerk"], n), dtype="string"),
        }
    )
    score = (frame.income > 22_000).astype(float) + (frame.age > 55)
    return frame, (score + rng.normal(0, 0.4, n) > 1).to_numpy()


X, Y = people()


def test_the_ladder_is_public_and_fits_a_byte():
    edges = wide_edges()
    assert len(edges) < 254
    assert list(edges) == sorted(set(edges))
    assert max(np.diff([e for e in edges if 17 < e < 100])) < 9
    assert OPEN.features[0] == hr.Numeric("income", -WIDEST, WIDEST, edges=edges)
    assert OPEN.features[3] == hr.Hashed("job")
    assert hr.Schema.from_toml(OPEN.to_toml()) == OPEN


def test_open_ranges_are_learned_from_within_the_promise(recwarn):
    for who in (None, np.arange(N) % 3):
        model = hr.TreeClassifier(OPEN, epsilon=5.0).fit(X, Y, party=who)
        fresh, truth = people(seed=1)
        assert np.mean(model.predict(fresh) == truth) > 0.7
        assert model.privacy_.epsilon == 5.0
        assert "no range is declared for income, age: private counts" in str(model.privacy_)
    assert not [w for w in recwarn if w.category is DataWarning]


@EACH
def test_every_estimator_runs_on_open_ranges(kind):
    regression = kind.__name__.endswith("Regressor")
    schema = hr.Schema(OPEN.features, target=(0, 1)) if regression else OPEN
    y = Y.astype(float) if regression else Y
    assert len(small(kind, schema=schema, epsilon=5.0).fit(X[:200], y[:200]).predict(X[:9])) == 9


def test_the_word_private_takes_types_and_looks_at_no_value():
    for table in (X, pa.table({name: pa.array(X[name].tolist()) for name in X})):
        model = hr.TreeClassifier("private", epsilon=5.0).fit(table, Y)
        assert model.privacy_.epsilon == 5.0
        assert model.schema_.names == OPEN.names
        other = hr.TreeClassifier("private", epsilon=5.0).fit(table[:7], Y[:7])
        assert other.schema_.digest == model.schema_.digest


@pytest.mark.parametrize(
    ("rows", "labels", "says"),
    [
        (X.to_numpy(), Y, "types from a typed table"),
        (X.astype(object), Y, "types from a typed table"),
        (X, np.where(Y, "yes", "no"), "classes by their type only where labels are booleans"),
        (X, Y.astype(int), "classes by their type only where labels are booleans"),
    ],
)
def test_what_only_rows_could_tell_is_refused(rows, labels, says):
    with pytest.raises(SpecError, match=says):
        hr.TreeClassifier("private").fit(rows, labels)


def test_another_word_is_no_schema():
    with pytest.raises(
        SpecError, match=r"schema is 'public'; use a hedgerow.Schema, or one of 'priv"
    ):
        hr.TreeClassifier("public").fit(X, Y)
