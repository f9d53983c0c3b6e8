"""All five DP models answer, each with its own guarantee."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.data.prepared import randomize_labels_once
from hedgerow.errors import ParameterError, UnsupportedQuery
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.queries import Binning, BoundQuery, Cells, ClassCounts, Count, SumQuery, Whole
from hedgerow.schema.regions import EVERYONE, Fold
from support.worlds import THREE, TWO, federation, sample, site_rows, study

COUNTS = SumQuery(EVERYONE, ClassCounts(3), Whole(), Fraction(1, 4))


def opened(dp_model, n_sites, n=3000, **options):
    X, y = sample(n, THREE)
    owner = np.arange(n) % n_sites
    return federation(
        study(THREE, n_sites, dp_model, **options), site_rows(X, y, owner, n_sites, THREE)
    ), y


@pytest.mark.parametrize(
    ("dp_model", "n_sites"),
    [
        (DPModel.CENTRAL, 1),
        (DPModel.DISTRIBUTED, 4),
        (DPModel.PER_SITE, 4),
        (DPModel.LABEL, 1),
        (DPModel.LABEL, 4),
        (DPModel.NONE, 4),
    ],
)
def test_class_counts_come_back_within_twelve_deviations(dp_model, n_sites):
    """Laplace noise is beyond them with a chance of exp(-12 sqrt(2)) < 1e-7; beyond 8, of 1e-5."""
    fed, y = opened(dp_model, n_sites, epsilon="4")
    (answer,) = fed.ask([COUNTS])
    truth = np.array([(y == c).sum() for c in THREE.classes])
    # Randomized labels also vary where labels differ; bound by the largest cell.
    spread = 12.0 * np.sqrt(answer.variance * (3 if dp_model is DPModel.LABEL else 1)) + 1e-9
    assert np.abs(answer.values[0, 0] - truth).max() <= spread


@pytest.mark.parametrize(("dp_model", "n_sites"), [(DPModel.CENTRAL, 1), (DPModel.DISTRIBUTED, 4)])
def test_counts_of_a_gaussian_study_come_back_from_its_finer_units(dp_model, n_sites):
    fed, y = opened(dp_model, n_sites, epsilon="20", delta="1/1000000")
    assert fed.study.refinement(COUNTS) > 1
    (answer,) = fed.ask([COUNTS])
    truth = np.array([(y == c).sum() for c in THREE.classes])
    assert np.abs(answer.values[0, 0] - truth).max() <= 8.0 * np.sqrt(answer.variance)


def test_as_many_labels_are_told_wrong_as_the_response_says():
    X, y = sample(3000, TWO)
    the_study = study(TWO, 1, DPModel.LABEL, epsilon="1")
    (rows,) = site_rows(X, y, np.zeros(3000), 1, TWO)
    lies = (randomize_labels_once(rows, the_study).labels != rows.labels).mean()
    lie = float(the_study.response.each_other)
    assert abs(lies - lie) <= 6.0 * np.sqrt(lie * (1.0 - lie) / 3000)


def test_a_silo_adds_as_many_noises_as_there_are_sites():
    silo, _ = opened(DPModel.PER_SITE, 4)
    curator, _ = opened(DPModel.CENTRAL, 1)
    assert silo.variance(COUNTS) == pytest.approx(4 * curator.variance(COUNTS))


def test_shares_add_one_noise_for_every_h_sites():
    shares, _ = opened(DPModel.DISTRIBUTED, 4)
    curator, _ = opened(DPModel.CENTRAL, 1)
    expected = 4 / shares.study.honest * curator.variance(COUNTS)
    assert shares.variance(COUNTS) == pytest.approx(expected)


def test_labels_are_paid_for_once_on_entering():
    fed, _ = opened(DPModel.LABEL, 4, epsilon="2")
    assert fed.ledger.spent(fed.study.account) == 2
    fed.ask([COUNTS])
    fed.ask([COUNTS])
    assert fed.ledger.spent(fed.study.account) == 2
    assert {e.store.ledger.spent(fed.study.account) for e in fed.sites.clients} == {Fraction(2)}


def test_told_labels_stay_the_same_for_the_whole_run():
    fed, _ = opened(DPModel.LABEL, 1, epsilon="1")
    one, two = (fed.ask([COUNTS])[0].values for _ in range(2))
    assert np.array_equal(one, two)


def test_a_site_that_starts_again_tells_the_same_labels():
    """Another coin would be a second release of the same label."""
    one, two = (opened(DPModel.LABEL, 1, epsilon="1")[0].sites.rows for _ in range(2))
    assert np.array_equal(one.sums.rows.labels, two.sums.rows.labels)


def test_the_coin_of_a_label_is_no_other_coin_and_told_labels_move_no_fold():
    """Folds are seen, record by record, by whoever knows the records: a shared coin would tell."""
    X, y = sample(400, TWO)
    (rows,) = site_rows(X, y, np.zeros(400, int), 1, TWO)
    folds = rows.fold(Fold("label", 2))
    assert 100 < (folds == rows.draw("label") % 2).sum() < 300
    told = rows.with_labels(1 - rows.labels)
    assert np.array_equal(told.fold(Fold("label", 2)), folds)
    assert np.array_equal(told.draw("label"), rows.draw("label"))


def test_a_label_private_run_refuses_what_needs_true_labels():
    fed, _ = opened(DPModel.LABEL, 1)
    bounds = BoundQuery(EVERYONE, (0, 1), Binning.of_cells(THREE), Fraction(1, 2))
    with pytest.raises(UnsupportedQuery, match="true labels"):
        fed.ask([bounds])
    with pytest.raises(ParameterError, match="delta = 0"):
        study(THREE, 1, DPModel.LABEL, delta="1e-6")


def test_features_are_not_protected_under_label_and_the_statement_says_so():
    fed, _ = opened(DPModel.LABEL, 1)
    whole = SumQuery(EVERYONE, Count(), Cells((0,), Binning.of_cells(THREE)), Fraction(1, 2))
    assert fed.ask([whole])[0].values.sum() == 3000
    X, y = sample(100, TWO)
    model = hr.HistogramTreeClassifier(TWO, delta=0, dp_model="label").fit(X, y)
    assert "features are not protected" in str(model.privacy_)


def test_nowhere_is_infinite():
    fed, _ = opened(DPModel.NONE, 4)
    fed.ask([COUNTS])
    assert fed.ledger.spent(fed.study.account) == float("inf")
