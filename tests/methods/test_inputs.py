"""Bad input gets one clear sentence, and nothing is charged when nothing was released."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pandas as pd
import pytest

import hedgerow as hr
from hedgerow.errors import DataError, ParameterError, PrivacyWarning
from hedgerow.methods.blocks import target
from hedgerow.methods.blocks.fallback import LEAST_TO_LEVEL, MOST_TO_LEVEL, BiasCorrection
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.blocks.target import (
    MOST_UNSEEN,
    PURE_WIDTHS,
    TARGET_FRACTION,
    WIDTHS,
    target_queries,
    target_shape,
)
from hedgerow.methods.boosting_numbers import class_cuts, class_means
from hedgerow.methods.forest import forest_constants
from hedgerow.methods.tree import tree_constants, usual_depth
from hedgerow.models.model import Additive
from hedgerow.privacy.queries import Answer
from hedgerow.schema.schema import Numeric, Schema, Target
from support.worlds import TWO, VALUE, opened_by, sample

X, Y = sample(60, TWO)


def fit(X=X, y=Y, site=None, schema=TWO, **options):
    return hr.HistogramTreeClassifier(schema, **{"max_depth": 2, **options}).fit(X, y, site=site)


@pytest.mark.parametrize("epsilon", [0, -1.0, math.inf, math.nan, "much", None])
def test_an_epsilon_that_promises_nothing_is_refused(epsilon):
    with pytest.raises(ParameterError, match="epsilon"):
        fit(epsilon=epsilon)


@pytest.mark.parametrize("delta", [1.0, 2.0, -1e-9, math.nan])
def test_a_delta_outside_its_range_is_refused(delta):
    with pytest.raises(ParameterError, match="delta"):
        fit(delta=delta)


def test_shares_among_one_party_are_refused():
    with pytest.raises(ParameterError, match="use 'central'"):
        fit(dp_model="distributed")


def test_a_curator_over_several_parties_is_refused():
    with pytest.raises(ParameterError, match="use 'distributed' or 'per_site'"):
        fit(dp_model="central", site=np.arange(60) % 3)


def test_an_unknown_placement_is_refused_with_the_known_ones():
    with pytest.raises(ParameterError, match="central"):
        fit(dp_model="somewhere")


def test_three_hundred_bins_are_refused():
    with pytest.raises(ParameterError, match="300"):
        fit(n_bins=300)


@pytest.mark.parametrize(
    "options",
    [
        {"max_depth": 0},
        {"leaf_fraction": 0.0},
        {"leaf_fraction": 1.5},
        {"chunk": 0},
        {"bounds_fraction": 1},
    ],
)
def test_parameters_outside_their_range_are_named(options):
    (name,) = options
    with pytest.raises(ParameterError, match=name):
        fit(**{"budget_saving": True, **options})


def test_missing_labels_are_refused():
    y = Y.copy()
    y[3] = np.nan
    with pytest.raises(DataError, match="label"):
        fit(y=y)


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -math.inf])
def test_a_target_that_is_no_number_is_refused_by_our_own_error(wrong):
    X, y = sample(60, VALUE)
    y[3] = wrong
    with pytest.raises(DataError, match="y holds NaN or infinity"):
        hr.TreeRegressor(VALUE).fit(X, y)
    with pytest.raises(DataError, match="y holds NaN or infinity"):
        hr.TreeClassifier(TWO).fit(X, y)


def test_a_label_outside_the_schema_is_refused_with_the_classes():
    y = Y.copy()
    y[3] = "perhaps"
    with pytest.raises(DataError, match="perhaps"):
        fit(y=y)


def test_one_class_only_is_a_tree_that_says_so():
    model = fit(y=np.full(60, "yes", object), epsilon=50.0)
    assert set(model.predict(X)) == {"yes"}


def test_a_missing_column_is_named():
    frame = pd.DataFrame(X, columns=["age", "dose", "ward"]).drop(columns="dose")
    with pytest.raises(DataError, match="dose"):
        fit(X=frame)


def test_no_rows_are_refused():
    with pytest.raises(DataError, match="row"):
        fit(X=X[:0], y=Y[:0])


def test_one_row_is_enough_to_answer():
    assert fit(X=X[:1], y=Y[:1]).predict_proba(X[:2]).shape == (2, 2)


def test_constant_columns_and_infinite_values_are_answered():
    odd = X.copy()
    odd[:, 1] = np.inf
    assert fit(X=odd).predict(odd).shape == (60,)


def test_rows_and_parties_must_match():
    with pytest.raises(DataError, match="site"):
        fit(site=np.zeros(59))


@pytest.mark.parametrize("added", [None, math.nan, "x", 0.5, True])
def test_one_row_more_in_a_list_changes_no_other(added):
    """NumPy would give all of a list one type: text beside a text, floats beside a float."""
    features = (hr.Numeric("n", 0, 9), hr.Categorical("code", (1, 2, 3)))
    tree = hr.HistogramTreeClassifier(hr.Schema(features, classes=(False, True)))
    rows, labels = [[1, 1], [2, 2], [3, 3]], [True, False, True]
    _, (before,) = opened_by(tree, rows, labels)
    _, (after,) = opened_by(tree, [*rows, [None, added]], [*labels, 0])
    assert after.codes[:, :3].tolist() == before.codes.tolist()
    assert after.labels[:3].tolist() == before.labels.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("y", "classes"),
    [
        ([True, False] * 9, (0, 1)),
        ([1, 0] * 9, (False, True)),
        ([1.0, 0.0] * 9, ("0", "1")),
        (["true", "false"] * 9, ("true", "false")),
        (["1.0", "2.0"] * 9, ("1.0", "2.0")),
    ],
)
def test_predictions_are_of_the_type_of_the_labels(y, classes):
    schema = hr.Schema((hr.Numeric("n", 0, 1),), classes=classes)
    rows = [[value == y[0]] for value in y]
    model = hr.HistogramTreeClassifier(schema, epsilon=900.0, max_depth=1).fit(rows, y)
    assert model.predict(rows).tolist() == y


def test_sample_weight_is_refused_with_a_reason():
    with pytest.raises(ParameterError, match="influence"):
        hr.HistogramTreeClassifier(TWO).fit(X, Y, sample_weight=np.ones(60))


def test_a_schema_that_is_none_warns_and_the_statement_says_infinity():
    with pytest.warns(PrivacyWarning, match="no schema"):
        model = fit(schema=None)
    assert model.privacy_.epsilon == math.inf
    assert "infinity" in str(model.privacy_)


def test_a_schema_of_another_kind_is_refused():
    with pytest.raises(ParameterError, match="schema"):
        fit(schema="private please")


def test_a_schema_of_another_task_is_refused_by_every_estimator():
    for kind in (getattr(hr, name) for name in hr.__all__ if name.endswith("Regressor")):
        with pytest.raises(ParameterError, match="predicts a number, but its schema has classes"):
            kind(TWO).fit(X, np.arange(len(X), dtype=float))
    for kind in (getattr(hr, name) for name in hr.__all__ if name.endswith("Classifier")):
        with pytest.raises(ParameterError, match="predicts classes, but its schema has a target"):
            kind(VALUE).fit(X, Y)


def test_a_tree_that_was_not_grown_cannot_be_shown():
    for show in (hr.show_tree, lambda model: hr.draw_tree(model, "tree.svg")):
        with pytest.raises(ParameterError, match="not fitted"):
            show(hr.TreeClassifier(TWO))


def test_a_picture_of_another_kind_or_place_is_refused(tmp_path):
    model = fit()
    with pytest.raises(ParameterError, match=r"end its name in \.svg"):
        hr.draw_tree(model, tmp_path / "tree.txt")
    with pytest.raises(ParameterError, match="is no folder"):
        hr.draw_tree(model, tmp_path / "none" / "tree.svg")


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (None, "X is None; give rows"),
        ("rows.parquet", "X is the path 'rows.parquet'; read the file first"),
        ({"age": [41]}, "X is a dict without a table's form; make a data frame"),
        ([{"age": 41}], "X is a list of dicts without a table's form; make a data frame"),
    ],
)
def test_what_is_no_table_is_refused_in_words_that_hold_no_value(rows, says):
    with pytest.raises(DataError, match=says) as error:
        fit().predict(rows)
    assert "41" not in str(error.value)
    if rows is None:
        with pytest.raises(DataError, match=says):
            fit(X=rows)


def test_a_crowd_of_parties_is_warned_of_once():
    model = hr.HistogramTreeClassifier(TWO, max_depth=1, dp_model="none")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model.fit(X, Y, site=np.arange(len(Y)) % 30)
    assert [str(one.message)[:19] for one in told].count("site names 30 sites") == 1


def test_prediction_before_fitting_is_refused():
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        hr.HistogramTreeClassifier(TWO).predict(X)


# --------------------------------------------------------------------------------------------------
# The opening round: a signal-to-noise ratio, and the useful range of a target.
TARGET = Target(0.0, 100.0)


def answered(y, variance, seed=0, widths=WIDTHS):
    """Counts at every width, each with noise of this variance."""
    rng = np.random.default_rng(seed)
    counts = [np.histogram(y, np.linspace(0.0, 100.0, n + 1))[0].astype(float) for n in widths]
    return [
        Answer((c + rng.normal(0.0, np.sqrt(variance), len(c)))[None, :, None], variance)
        for c in counts
    ]


def drawn(n=50_000):
    return np.clip(np.random.default_rng(1).normal(30.0, 5.0, n), 0.0, 100.0)


def skewed(n=20_000):
    return np.clip(np.random.default_rng(1).lognormal(1.5, 1.0, n), 0.0, 100.0)


def lost(y, shape):
    """Part of the variance that the clip cuts away."""
    return np.mean((y - np.clip(y, shape.low, shape.high)) ** 2) / y.var()


@pytest.mark.parametrize(("is_pure", "widths"), [(False, WIDTHS), (True, PURE_WIDTHS)])
def test_all_widths_are_asked_and_share_the_budget(is_pure, widths):
    queries = target_queries(TARGET, is_pure, TARGET_FRACTION)
    assert [len(query.by.edges) + 1 for query in queries] == list(widths)
    assert sum(query.fraction for query in queries) == TARGET_FRACTION


def test_the_clip_is_close_to_the_quantiles_it_stands_for():
    y = drawn()
    shape = target_shape(TARGET, answered(y, 4.0), len(y))
    low, high = np.quantile(y, [0.001, 0.999])
    assert shape.low == pytest.approx(low, abs=2.5)
    assert shape.high == pytest.approx(high, abs=3.0)
    assert shape.spread == pytest.approx(25.0 / (shape.high - shape.low) ** 2, rel=0.1)


def test_noise_that_hides_single_cells_leaves_wider_ones():
    y = drawn(20_000)
    shape = target_shape(TARGET, answered(y, 900.0), len(y))
    assert 5.0 < shape.low < 30.0 < shape.high < 60.0


def test_a_tail_is_kept_that_a_flat_histogram_would_lose():
    """All of the budget for the finest width leaves a fifth of the noise, and loses the tail."""
    y = skewed()
    assert lost(y, target_shape(TARGET, answered(y, 1000.0), len(y))) < 0.1
    assert lost(y, target_shape(TARGET, answered(y, 200.0, widths=WIDTHS[-1:]), len(y))) > 0.3


def too_wide(draws=100):
    """How many of some clips leave the data, if the range is a hundred times as wide as they."""
    y = np.clip(np.random.default_rng(1).normal(30.0, 0.1, 20_000), 0.0, 100.0)
    shapes = [target_shape(TARGET, answered(y, 900.0, seed), len(y)) for seed in range(draws)]
    return sum(not 29.0 < shape.low < shape.high < 31.0 for shape in shapes)


def test_in_a_range_far_too_wide_cells_of_noise_hardly_ever_widen_the_clip(monkeypatch):
    assert too_wide() <= 5
    monkeypatch.setattr(target, "TARGET_STANDS_OUT", 1.0)
    assert too_wide() > 50


def test_noise_that_hides_everything_leaves_the_public_range():
    y = drawn(500)
    shape = target_shape(TARGET, answered(y, 1e6), len(y))
    assert not shape.is_seen
    assert shape.low < 0.5
    assert shape.high > 99.5


def test_a_cell_that_may_hide_many_rows_is_not_left_out():
    """Half of the rows are in each of two quarters; noise of a twelfth lets one be seen alone."""
    y = np.repeat([30.0, 60.0], 500)

    def is_cut(most_unseen):
        answers = [answered(y, 150.0**2, seed) for seed in range(50)]
        shapes = [target_shape(TARGET, told, 1000, most_unseen) for told in answers]
        return any(not shape.low <= 30.0 < 60.0 <= shape.high for shape in shapes)

    assert not is_cut(MOST_UNSEEN)
    assert is_cut(1.0)


class Missing:
    """Stands for the sites: every record is missed by so much, seen through this noise."""

    is_pure = False

    def __init__(self, missed, rows, deviation, reach):
        self.missed, self.rows, self.deviation, self.reach = missed, rows, deviation, reach

    def variance(self, query):
        return self.deviation**2 * float(MOST_TO_LEVEL / query.fraction)

    def ask(self, queries):
        total = -self.rows * self.missed / self.reach
        return [Answer(np.array([[[total, 0.0]]]), self.variance(query)) for query in queries]


def levelled(missed, deviation, rows=10_000.0):
    shape = target_shape(TARGET, answered(drawn(), 4.0), 50_000)
    reach = min(4.0 * (shape.high - shape.low), 100.0)
    sites = Missing(missed, rows, deviation, reach)
    bias_correction = BiasCorrection.of(TARGET, shape, rows, sites)
    return run(bias_correction.shift(Additive((0.0,))), sites), bias_correction


def test_what_the_clip_cut_away_is_given_back_and_noise_is_not():
    assert levelled(3.0, 1.0)[0] == pytest.approx(3.0, abs=1e-3)
    assert levelled(3.0, 1000.0)[0] == 0.0
    assert 0.0 < levelled(3.0, 200.0)[0] < 3.0


def test_levelling_spends_what_precision_needs():
    shares = [levelled(3.0, deviation)[1].fraction for deviation in (0.1, 10.0, 20.0, 1000.0)]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (LEAST_TO_LEVEL, MOST_TO_LEVEL)


def test_target_classes_hold_equal_parts_and_their_means_rise():
    y = drawn()
    shape = target_shape(TARGET, answered(y, 4.0), len(y))
    cuts = class_cuts(shape)
    parts = np.bincount(np.searchsorted(cuts, y, side="right")) / len(y)
    assert len(cuts) == 7
    assert parts.max() < 1.5 * parts.min()
    means = class_means(shape, cuts)
    assert (np.diff(means) > 0).all()
    assert means @ parts == pytest.approx(y.mean(), abs=0.3)


@pytest.mark.parametrize("is_pure", [True, False])
def test_more_signal_never_means_coarser_bins_or_shallower_trees(is_pure):
    signals = [1.0, 29.0, 31.0, 299.0, 301.0, 999.0, 1001.0, 1e9]
    trees = [tree_constants(s, is_pure) for s in signals]
    forests = [forest_constants(s, is_pure) for s in signals]
    for read in (lambda c: c.pieces.cells, lambda c: c.pieces.bins, lambda c: c.max_depth):
        assert [read(c) for c in trees] == sorted(read(c) for c in trees)
    assert [c.depth for c in forests] == sorted(c.depth for c in forests)


@pytest.mark.parametrize(("n_classes", "depth"), [(0, 6), (2, 6), (3, 6), (4, 7), (10, 8), (26, 9)])
def test_a_tree_is_one_level_deeper_whenever_the_classes_double(n_classes, depth):
    classes = tuple(str(k) for k in range(n_classes)) or None
    target = None if classes else TARGET
    schema = Schema((Numeric("x", 0.0, 1.0),), classes=classes, target=target)
    assert usual_depth(schema) == depth
