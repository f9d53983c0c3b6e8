"""The study of Gubler's tree: its simulation is the product's run, its costs are the true ones."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hedgerow.errors import BudgetExceeded
from hedgerow.methods import gubler
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.gubler import HistogramTree
from hedgerow.privacy.accounting.budget import DPModel, Measure
from hedgerow.privacy.ledger.charges import Charge, MemoryLedger
from hedgerow.privacy.pricing import priced
from hedgerow.privacy.queries import Answer, Binning, BoundQuery, ClassCounts, SumQuery, Whole
from studies.gubler_fits import (
    AS_PRINTED,
    AS_RELEASED,
    METHODS,
    PublishedSaving,
    WithoutBounds,
    honest_factor,
    mixture,
    mixture_schema,
    published_saving,
)
from studies.simulation import InTheClear, Sites, no_limit, study_of, train
from support.worlds import TWO, federation, sample, site_rows, study, worst_total

PARTY = np.arange(400) % 5


def sites():
    X, y = sample(400, TWO)
    return Sites(X, y, PARTY, TWO)


@pytest.mark.parametrize("saving", [False, True])
def test_without_noise_the_simulation_grows_the_tree_of_the_secure_run(saving):
    learner = HistogramTree(max_depth=3, budget_saving=saving)
    X, y = sample(400, TWO)
    secure = federation(study(TWO, 5, dp_model=DPModel.NONE), site_rows(X, y, PARTY, 5, TWO))
    real = run(learner.flow(TWO, secure, np.random.default_rng(0)), secure)
    simulated, _ = train(learner, secure.study, sites(), 0)
    assert simulated.leaf_statistics[0].tree == real.leaf_statistics[0].tree


@pytest.mark.parametrize(("colluders", "threshold", "factor"), [(0, 5, 1.0), (1, 4, 5 / 3)])
def test_the_simulated_noise_has_the_variance_that_the_study_declares(colluders, threshold, factor):
    learner, world = HistogramTree(max_depth=1), sites()
    the_study = study_of(learner, world, 1.0, colluders=colluders, threshold=threshold)
    (query,) = next(learner.flow(TWO, _NoiseModel(the_study), np.random.default_rng(0)))
    link = InTheClear(the_study, world, MemoryLedger(the_study.limit))
    asked = [priced(the_study, query)]
    draws = np.concatenate([link.round(1, asked).total for _ in range(60)]).astype(float)
    spread = draws - np.tile(world.integers(query, the_study.unit(query)), 60)
    assert the_study.variance(query) == pytest.approx(
        factor * the_study.sum_law(query).variance, rel=1e-9
    )
    # 60 x 54 draws; the relative error of a Laplace variance is about sqrt(5 / 3240) = 4 %.
    assert spread.var() == pytest.approx(the_study.variance(query), rel=0.35)


class _NoiseModel:
    def __init__(self, the_study):
        self.is_pure, self.variance = True, the_study.variance


@pytest.mark.parametrize(("p", "factor"), [(10, "2.125"), (25, "4"), (50, "7.125")])
def test_algorithm_6_as_printed_costs_more_than_it_claims(p, factor):
    assert honest_factor(p, Fraction(1, 2), Fraction(1, 4)) == Fraction(factor)


class NothingSaved:
    """Answers that never let a bound rule a feature out; counts shares as a ledger would."""

    def __init__(self):
        self.charges = []

    def ask(self, queries):
        self.charges += [Charge(q.region, q.fraction, "", "test", Measure.PURE) for q in queries]
        return [Answer(np.full(q.shape, self._value(q)), 1.0) for q in queries]

    def _value(self, query):
        return -1e9 if isinstance(query, BoundQuery) else 5.0


@pytest.mark.parametrize("p", [3, 10])
def test_without_savings_the_shares_add_up_to_the_formula(p):
    learner, asked = PublishedSaving(max_depth=3, min_samples_split=1.0), NothingSaved()
    schema = mixture_schema(p)
    the_study = study(schema, 5)
    run(learner.flow(schema, _NoiseModel(the_study), np.random.default_rng(0)), asked)
    formula = honest_factor(p, Fraction(1, 2), Fraction(1, 4))
    # Shares are rounded down to six binary digits.
    assert formula * Fraction(31, 32) <= worst_total(asked.charges) <= formula


def test_the_products_ledger_would_not_let_it_run():
    """Twin: with the claimed epsilon as the limit, a round is refused."""
    drawn = mixture(100, 50, 0.3, 0)
    learner = published_saving(5, -1e9)
    with pytest.raises(BudgetExceeded):
        train(learner, study_of(learner, drawn.sites, 1.0), drawn.sites, 0)


@pytest.mark.parametrize("method", [m for m in METHODS if m not in (AS_PRINTED, AS_RELEASED)])
def test_every_other_method_keeps_to_its_epsilon(method):
    drawn = mixture(100, 10, 0.3, 0)
    learner = METHODS[method](3, 10.0)
    _, spent = train(learner, study_of(learner, drawn.sites, 1.0), drawn.sites, 0)
    assert spent <= 1


def test_as_released_every_bound_is_zero_and_every_count_is_kept():
    """The released code's local bound; with the report's own bound some are above zero."""
    drawn = mixture(100, 10, 0.3, 0)
    bound = BoundQuery((), tuple(range(10)), Binning.of_cells(drawn.schema), Fraction(1))
    count = SumQuery((), ClassCounts(2), Whole(), Fraction(1))
    released = WithoutBounds(drawn.sites)
    assert not released.integers(bound, 1).any()
    assert drawn.sites.integers(bound, 1).any()
    assert (released.integers(count, 1) == drawn.sites.integers(count, 1)).all()


def test_without_noise_the_copy_of_the_study_grows_the_named_method_s_tree():
    """What differs is the noise: the report's 5/4 for a bound, and shares rounded elsewhere."""
    drawn = mixture(250, 10, 0.3, 0)
    model = gubler.algorithm_6_as_published(drawn.schema, max_depth=4, n_bins=None)
    trees = []
    for learner in (published_saving(4, 10.0), model._method(drawn.schema)):
        plain = study_of(learner, drawn.sites, 1.0, dp_model=DPModel.NONE)
        trained, _ = train(learner, plain, drawn.sites, 0, no_limit())
        trees.append(trained.leaf_statistics[0].tree)
    assert trees[0].n_leaves > 4
    assert trees[0] == trees[1]
