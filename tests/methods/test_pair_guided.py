"""Trees that look: what a table of pairs says, and what is drawn from it."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from hedgerow.methods.blocks import pair_guided
from hedgerow.methods.blocks.boosting import Rounds
from hedgerow.methods.blocks.newton_steps import Wiener
from hedgerow.methods.blocks.pair_guided import GainSampledTrees, PastGains, gains_of_tests
from hedgerow.methods.blocks.random_trees import DrawableFeature
from hedgerow.models.losses import LogLoss, SoftmaxLoss
from hedgerow.models.model import Additive
from hedgerow.privacy.queries import Answer, Binning
from hedgerow.schema.candidates import Grids
from hedgerow.schema.schema import Categorical, Numeric, Schema

SCHEMA = Schema(
    (
        Numeric("x", 0.0, 1.0, bins=8),
        Numeric("y", 0.0, 1.0, bins=8),
        Categorical("z", ("a", "b", "c", "d")),
    ),
    classes=("no", "yes"),
)
GRIDS = Grids(SCHEMA, Binning.of_cells(SCHEMA))
LOSS, RECORDS = LogLoss(), 1000.0


def known() -> list[DrawableFeature]:
    masses = [np.append(np.full(n - 1, RECORDS), 0.0) for n in GRIDS.binning.n_bins]
    return [DrawableFeature(j, mass, 1.0) for j, mass in enumerate(masses)]


def curves() -> list[np.ndarray]:
    sizes = zip(GRIDS.binning.n_bins, (3, 2, 1), strict=True)
    return [np.linspace(-1, 1, n)[:, None] * size for n, size in sizes]


def table() -> pair_guided.PairTable:
    x, y, *_ = pair_guided.strongest(GRIDS, known(), curves())
    return pair_guided.PairTable.of(GRIDS, x, y)


def sums_of(of_record: np.ndarray) -> np.ndarray:
    """(64, 2) sums of a table whose cells hold as many records each, with this mean gradient."""
    h = np.full(of_record.size, 3.33 * 0.25 * RECORDS)
    return np.stack([of_record.ravel() * RECORDS, h], axis=1)


def xor(row: int, column: int) -> np.ndarray:
    left, up = np.arange(8)[:, None] <= row, np.arange(8)[None, :] <= column
    return np.where(left == up, 0.2, -0.2)


def test_categories_are_grouped_along_their_curve_and_numbers_in_their_order():
    values = curves()
    values[2] = np.array([[5.0], [-4.0], [0.0], [2.0], [0.0], [0.0]])
    found = {f.drawable.feature: f.groups for f in pair_guided.strongest(GRIDS, known(), values)}
    assert list(found[0]) == sorted(found[0])
    ordered = found[2][[1, 2, 3, 0]]
    assert list(ordered) == sorted(ordered)


def test_an_interaction_without_main_effects_is_found_where_it_is():
    gains = table().gains(sums_of(xor(2, 5)), 0.0, LOSS)
    assert np.unravel_index(int(np.argmax(gains)), gains.shape) == (2, 5)


def test_of_noise_alone_no_gain_is_expected():
    """The mean gain of tables full of noise is below zero, or nearly so, at every corner."""
    rng, drawn = np.random.default_rng(0), []
    for _ in range(400):
        noisy = sums_of(np.zeros((8, 8)))
        noisy[:, 0] += rng.normal(0.0, np.sqrt(400.0 + 0.25 * RECORDS), 64)
        drawn.append(table().gains(noisy, 400.0, LOSS))
    error = np.std(drawn, axis=0) / np.sqrt(len(drawn))
    assert (np.abs(np.mean(drawn, axis=0)) < 6.0 * error).all()


def test_three_classes_add_up_what_their_outputs_gain():
    loss, g = SoftmaxLoss(3), xor(3, 3).ravel() * RECORDS
    h = np.full((64, 3), 2.0 * 0.2 * RECORDS)
    one = np.concatenate([np.stack([g, 0 * g, 0 * g], axis=1), h], axis=1)
    two = np.concatenate([np.stack([g, -g, 0 * g], axis=1), h], axis=1)
    assert table().gains(two, 0.0, loss).max() > 1.5 * table().gains(one, 0.0, loss).max()


def looked(monkeypatch: pytest.MonkeyPatch) -> tuple[pair_guided.PairGuidedTrees, list[Fraction]]:
    """Trees after a look at tables of which only that of x and y says something."""
    monkeypatch.setattr(pair_guided, "RANDOM_TREES", 0.0)
    others, rounds = GainSampledTrees(GRIDS, known(), LOSS, 2), Rounds(4, 1, Fraction(1, 2))
    trees = pair_guided.pair_guided_trees(GRIDS, others, curves(), rounds)
    assert isinstance(trees, pair_guided.PairGuidedTrees)
    flow = trees.grow(
        range(1), Wiener(LOSS), Additive((0.0,)), Fraction(1, 8), np.random.default_rng(0)
    )
    (look,) = next(flow)
    values = np.zeros(look.shape)
    values[..., 1] = 3.33 * 0.25 * RECORDS
    values[0, :64] = sums_of(xor(2, 5))
    (leaves,) = flow.send([Answer(values, 1.0)])
    return trees, [look.fraction, leaves.fraction]


def test_looks_and_trees_together_spend_what_they_were_given(monkeypatch):
    _, (look, leaves) = looked(monkeypatch)
    assert 4 * (look + leaves) == Fraction(1, 2)


def test_a_drawn_tree_tests_the_pair_and_the_place_that_gained(monkeypatch):
    trees, _ = looked(monkeypatch)
    monkeypatch.setattr(pair_guided, "SHARPNESS", 60.0)  # the best cut, and no other
    x, y = (f.test(GRIDS, cut) for f, cut in zip(trees.tables[0].features, (2, 5), strict=True))
    drawn = [set(trees._tests_of_a_tree(np.random.default_rng(n))) for n in range(20)]
    assert all({x, y} <= tests for tests in drawn)


def test_with_one_feature_there_is_no_pair_and_trees_are_random():
    others = GainSampledTrees(GRIDS, known()[:1], LOSS, 2)
    found = pair_guided.pair_guided_trees(GRIDS, others, curves()[:1], Rounds(4, 1, Fraction(1)))
    assert found is others


# --------------------------------------------------------------------------------------------------
# Trees that remember: what a test gained, and how that moves the next draws.
def trees_of(depth: int) -> GainSampledTrees:
    masses = [np.append(np.full(n - 1, RECORDS), 0.0) for n in GRIDS.binning.n_bins]
    known = [DrawableFeature(j, mass, 1.0) for j, mass in enumerate(masses)]
    return GainSampledTrees(GRIDS, known, LOSS, depth)


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
    monkeypatch.setattr(pair_guided, "sampling_variance", lambda loss, h: np.zeros_like(h))
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
    assert before.min() >= pair_guided.FIRST_CHANCES / 3
    for _ in range(60):
        memory.learn([0, 1], np.array([0.0, 10.0]))
    assert memory.chances[1] > 2.0 * memory.chances[0]


def test_losses_alone_leave_the_first_chances():
    memory = PastGains(np.array([0.5, 0.3, 0.2]))
    memory.learn([0, 1, 2], np.array([-3.0, -1.0, -2.0]))
    assert np.allclose(memory.chances, memory.first)


def test_a_tree_is_one_query_of_its_share_and_what_it_gained_is_remembered():
    trees, rng = trees_of(2), np.random.default_rng(0)
    flow = trees.grow(range(1), Wiener(LOSS), Additive((0.0,)), Fraction(1, 8), rng)
    (query,) = next(flow)
    assert query.fraction == Fraction(1, 8)
    (tree,) = query.by.trees
    sums = sums_of_test(np.array([0.2, 0.2, -0.2, -0.2]))  # the first test alone tells something
    try:
        flow.send([Answer(sums[None], 1.0)])
    except StopIteration as done:
        (grown,) = done.value
    assert grown.tree.n_leaves == 4
    first = SCHEMA.names.index(tree.tests[0].feature)
    assert int(np.argmax(trees.memory.total_gains)) == first


def test_more_levels_than_features_test_some_of_them_again():
    tests = trees_of(5).tests_of_a_tree(np.random.default_rng(0))
    assert len(tests) == 5
    assert {test.feature for test in tests} == set(SCHEMA.names)
