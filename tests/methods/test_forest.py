"""Structure from root tables alone: complete, within reach, and better than chance."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.methods.blocks import boosting
from hedgerow.methods.blocks.boosting import Batch, GainSampledTrees, PastGains, gains_of_tests
from hedgerow.methods.blocks.curves import FeatureEffects
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.blocks.newton_steps import Wiener
from hedgerow.methods.blocks.random_trees import DrawableFeature, draw_trees
from hedgerow.methods.blocks.surfaces import strongest
from hedgerow.methods.blocks.tables import Belief
from hedgerow.methods.blocks.target import declared_target
from hedgerow.methods.forest import (
    NO_SPLIT,
    feature_weights,
    guided_skeletons,
    on_last_level,
    root_weights,
    shapes_of,
)
from hedgerow.models.losses import LogLoss, SoftmaxLoss
from hedgerow.models.model import Additive
from hedgerow.privacy.queries import Answer, Binning, Leaves
from hedgerow.schema.candidates import Grids
from hedgerow.schema.regions import Split
from hedgerow.schema.schema import Categorical, Numeric, Schema, Target
from support.worlds import TWO, federation, sample, site_rows, study

SCHEMA = Schema(
    (Numeric("x", 0.0, 1.0, bins=7), Numeric("z", 0.0, 1.0, bins=5), Categorical("c", ("a",))),
    classes=("no", "yes"),
)
GRIDS = Grids(SCHEMA, Binning.of_cells(SCHEMA))


def belief(signal=3.0):
    """Only the first feature tells the classes apart."""
    n_bins = GRIDS.binning.n_bins
    masses = np.zeros((3, max(n_bins), 2))
    for j, n in enumerate(n_bins):
        masses[j, :n] = 1000.0 / n
    masses[0, : n_bins[0], 1] *= np.linspace(1.0 / signal, signal, n_bins[0])
    possible = np.arange(max(n_bins))[None, :] < np.asarray(n_bins)[:, None]
    return Belief((0, 1, 2), masses, np.ones_like(masses), possible, np.array([1e3, 1e3]), 1.0)


def skeletons(depth=4, n_estimators=6, seed=0, tries=4, weights=(1.0, 1.0, 1.0)):
    rng = np.random.default_rng(seed)
    return guided_skeletons(belief(), np.array(weights), n_estimators, depth, tries, rng)


def test_equal_seeds_give_equal_trees_and_others_differ():
    assert np.array_equal(skeletons(seed=1).feature, skeletons(seed=1).feature)
    assert not np.array_equal(skeletons(seed=1).cut, skeletons(seed=2).cut)


def test_the_feature_that_tells_classes_apart_is_tested_first_most_often():
    roots = skeletons(n_estimators=200).feature[:, 0]
    assert (roots == 0).mean() > 0.6


def test_no_split_leaves_a_side_without_a_possible_bin():
    """Twin of the routing: every leaf's region holds at least one cell of every feature."""
    for shape in shapes_of(skeletons(depth=6), GRIDS):
        for region in shape.tree.regions():
            for j, grid in enumerate(SCHEMA.grids):
                assert GRIDS.reachable(region, j).any(), grid.feature


def test_a_tree_ends_where_nothing_is_left_to_split():
    """7 x 5 x 3 bins and more levels than they can part: some branch must end early."""
    deep = skeletons(depth=8, n_estimators=2)
    assert (deep.feature == NO_SPLIT).any()
    for shape in shapes_of(deep, GRIDS):
        assert shape.tree.n_leaves == len(shape.leaf_at) <= 2**8


def test_a_complete_tree_has_all_its_leaves_on_the_last_level():
    (shape,) = shapes_of(skeletons(depth=2, n_estimators=1), GRIDS)
    assert list(shape.leaf_at) == [3, 4, 5, 6]
    assert all(isinstance(t, Split) for t in shape.tree.tests if t is not None)


def test_leaf_sums_land_below_their_leaf_and_none_is_lost():
    shapes = shapes_of(skeletons(depth=8, n_estimators=3), GRIDS)
    width = max(s.tree.n_leaves for s in shapes)
    sums = np.zeros((3, width, 2))
    for row, shape in zip(sums, shapes, strict=True):
        row[: shape.tree.n_leaves] = np.random.default_rng(0).random((shape.tree.n_leaves, 2))
    placed = on_last_level(shapes, sums, 8)
    assert placed.shape == (3, 256, 2)
    assert np.allclose(placed.sum(axis=1), sums.sum(axis=1))


def test_a_feature_without_gain_keeps_a_small_chance():
    weights = feature_weights(np.array([100.0, 25.0, -np.inf]))
    assert weights == pytest.approx([1.1, 0.6, 0.1])
    assert feature_weights(np.array([-np.inf, -np.inf])) == pytest.approx([1.1, 1.1])


def test_a_hundred_columns_of_noise_take_few_places_where_they_are_screened():
    """Three columns tell the classes apart; the others hold the same shares in every bin."""
    rng, n = np.random.default_rng(0), 103
    masses = np.full((n, 6, 2), 500.0)
    masses[:3, :, 0] = np.linspace(100.0, 900.0, 6)
    masses[:3, :, 1] = np.linspace(900.0, 100.0, 6)
    noisy = masses + rng.normal(0.0, 10.0, masses.shape)
    belief = Belief(
        tuple(range(n)),
        noisy,
        np.full(masses.shape, 100.0),
        np.ones((n, 6), bool),
        np.array([3000.0, 3000.0]),
        1.0,
    )
    for screens, most in ((True, 0.5), (False, 1.0)):
        weights = root_weights(belief, screens)
        of_noise = float(weights[3:].sum() / weights.sum())
        assert of_noise < most
        assert screens or of_noise > 0.7  # what screening is there for


# --------------------------------------------------------------------------------------------------
# Where noise hides every table: nothing is spent on splits.
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


# --------------------------------------------------------------------------------------------------
# Tables of pairs: the groups of their columns.
PAIR_SCHEMA = Schema(
    (
        Numeric("x", 0.0, 1.0, bins=8),
        Numeric("y", 0.0, 1.0, bins=8),
        Categorical("z", ("a", "b", "c", "d")),
    ),
    classes=("no", "yes"),
)
PAIR_GRIDS = Grids(PAIR_SCHEMA, Binning.of_cells(PAIR_SCHEMA))
LOSS, RECORDS = LogLoss(), 1000.0


def curves() -> list[np.ndarray]:
    sizes = zip(PAIR_GRIDS.binning.n_bins, (3, 2, 1), strict=True)
    return [np.linspace(-1, 1, n)[:, None] * size for n, size in sizes]


def test_categories_are_grouped_along_their_curve_and_numbers_in_their_order():
    values = curves()
    values[2] = np.array([[5.0], [-4.0], [0.0], [2.0], [0.0], [0.0]])
    masses = [np.append(np.full(n - 1, RECORDS), 0.0) for n in PAIR_GRIDS.binning.n_bins]
    effects = FeatureEffects(np.zeros(1), (0, 1, 2), tuple(values), tuple(masses), tuple(values))
    found = {f.feature: f.groups for f in strongest(PAIR_GRIDS, effects, values, 8, 8)}
    assert list(found[0]) == sorted(found[0])
    ordered = found[2][[1, 2, 3, 0]]
    assert list(ordered) == sorted(ordered)


# --------------------------------------------------------------------------------------------------
# Trees that remember: what a test gained, and how that moves the next draws.
def trees_of(depth: int) -> GainSampledTrees:
    masses = [np.append(np.full(n - 1, RECORDS), 0.0) for n in PAIR_GRIDS.binning.n_bins]
    known = [DrawableFeature(j, mass, 1.0) for j, mass in enumerate(masses)]
    return GainSampledTrees(PAIR_GRIDS, known, LOSS, depth)


def sums_of_test(gradients: np.ndarray) -> np.ndarray:
    """(L, 2) sums of leaves of as many records each, with these mean gradients."""
    h = np.full(gradients.size, 3.33 * 0.25 * RECORDS)
    return np.stack([gradients.ravel() * RECORDS, h], axis=1)


def test_a_test_that_tells_nothing_gains_nothing_and_both_of_an_interaction_do():
    xor = np.array([[0.2, -0.2], [-0.2, 0.2]])
    leaves = np.broadcast_to(xor[:, None, :], (2, 2, 2))  # the test in the middle is idle
    first, idle, last = gains_of_tests(sums_of_test(leaves), 1.0, LOSS)
    assert first > 100.0
    assert last > 100.0
    assert idle < 0.01 * first


def test_of_noise_alone_no_test_is_expected_to_gain():
    """Mean gains of 4,000 trees of noise and sampling lie within 6 standard errors of zero."""
    rng, drawn = np.random.default_rng(0), []
    for _ in range(4000):
        noisy = sums_of_test(np.zeros(8))
        noisy[:, 0] += rng.normal(0.0, np.sqrt(400.0 + 0.25 * RECORDS), 8)
        drawn.append(gains_of_tests(noisy, 400.0, LOSS))
    error = np.std(drawn, axis=0) / np.sqrt(len(drawn))
    assert (np.abs(np.mean(drawn, axis=0)) < 6.0 * error).all()


def test_noise_that_is_not_taken_off_would_look_like_a_gain(monkeypatch):
    monkeypatch.setattr(boosting, "sampling_variance", lambda loss, h: np.zeros_like(h))
    rng, drawn = np.random.default_rng(0), []
    for _ in range(400):
        noisy = sums_of_test(np.zeros(8))
        noisy[:, 0] += rng.normal(0.0, np.sqrt(400.0 + 0.25 * RECORDS), 8)
        drawn.append(gains_of_tests(noisy, 400.0, LOSS))
    error = np.std(drawn, axis=0) / np.sqrt(len(drawn))
    assert (np.mean(drawn, axis=0) > 6.0 * error).all()


def test_outputs_of_three_classes_add_up():
    loss, g = SoftmaxLoss(3), np.array([0.2, -0.2]) * RECORDS
    h = np.full((2, 3), 2.0 * 0.2 * RECORDS)
    one = np.concatenate([np.stack([g, 0 * g, 0 * g], axis=1), h], axis=1)
    two = np.concatenate([np.stack([g, -g, 0 * g], axis=1), h], axis=1)
    assert gains_of_tests(two, 0.0, loss)[0] > 1.5 * gains_of_tests(one, 0.0, loss)[0]


def test_chances_follow_gains_fade_and_leave_nobody_out():
    memory = PastGains(np.full(3, 1 / 3))
    assert np.allclose(memory.chances, 1 / 3)
    for _ in range(20):
        memory.learn([0, 1], np.array([10.0, 0.0]))
    before = memory.chances
    assert np.isclose(before.sum(), 1.0)
    assert before[0] > 2.0 * before[1]
    assert before.min() >= boosting.FIRST_CHANCES / 3
    for _ in range(60):
        memory.learn([0, 1], np.array([0.0, 10.0]))
    assert memory.chances[1] > 2.0 * memory.chances[0]


def test_losses_alone_leave_the_first_chances():
    memory = PastGains(np.array([0.5, 0.3, 0.2]))
    memory.learn([0, 1, 2], np.array([-3.0, -1.0, -2.0]))
    assert np.allclose(memory.chances, memory.first)


def test_a_tree_is_one_query_of_its_share_and_what_it_gained_is_remembered():
    trees, rng = trees_of(2), np.random.default_rng(0)
    flow = trees.grow(Batch(range(1), Wiener(LOSS), Additive((0.0,)), Fraction(1, 8)), rng)
    (query,) = next(flow)
    assert query.fraction == Fraction(1, 8)
    (tree,) = query.by.trees
    sums = sums_of_test(np.array([0.2, 0.2, -0.2, -0.2]))  # the first test alone tells something
    try:
        flow.send([Answer(sums[None], 1.0)])
    except StopIteration as done:
        (grown,) = done.value
    assert grown.tree.n_leaves == 4
    first = PAIR_SCHEMA.names.index(tree.tests[0].feature)
    assert int(np.argmax(trees.memory.total_gains)) == first


def test_more_levels_than_features_test_some_of_them_again():
    places, tests = trees_of(5).tests_of_a_tree(np.random.default_rng(0))
    assert len(tests) == 5
    assert {test.feature for test in tests} == set(PAIR_SCHEMA.names)
    assert [test.feature for test in tests] == [PAIR_SCHEMA.names[place] for place in places]
