"""The tree for people: text, picture, decisions in words."""

from __future__ import annotations

import re

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.errors import ParameterError
from hedgerow.models.uncertainty import LeafValue
from hedgerow.report.text import hanging
from hedgerow.report.view import Mean, Question, leaf_of, view_of, words_on
from support.worlds import THREE, TWO, VALUE, sample


@pytest.fixture(scope="module", params=[TWO, THREE], ids=["two classes", "three classes"])
def model(request):
    X, y = sample(900, request.param)
    tree = hr.HistogramTreeClassifier(request.param, epsilon=8.0, max_depth=3)
    return tree.fit(X, y, site=np.arange(900) % 3)


def test_the_text_has_one_line_of_numbers_for_each_leaf(model):
    lines = re.findall(r"(\d+)%[ ?] +(\d+) \+- \d+ rows", hr.show_tree(model))
    assert len(lines) == model.leaf_statistics_[0].tree.n_leaves


def test_what_is_shown_is_what_the_model_predicts(model):
    X, _ = sample(50, model.schema_, seed=9)
    for words, found, p in zip(
        hr.explain(model, X), model.predict(X), model.predict_proba(X).max(axis=1), strict=True
    ):
        assert words.startswith(f"{found}, with probability {p:.0%}")


def test_reasons_name_each_feature_of_the_path_once(model):
    X, _ = sample(20, model.schema_, seed=9)
    for region, words in zip(model.decision_path(X), hr.explain(model, X), strict=True):
        reasons = words.partition(", because ")[2]
        for feature in {step.test.feature for step in region}:
            assert len(re.findall(rf"\b{feature}\b", reasons.partition(". About")[0])) == 1


def test_a_saved_model_shows_the_same_tree_and_the_same_reasons(model, tmp_path):
    X, _ = sample(20, model.schema_, seed=9)
    model.save(tmp_path / "model.json")
    loaded = hr.load(tmp_path / "model.json")
    assert hr.show_tree(loaded) == hr.show_tree(model)
    assert hr.explain(loaded, X) == hr.explain(model, X)


@pytest.mark.parametrize("kind", ["svg", "png"])
def test_the_picture_is_a_file_of_its_kind(model, tmp_path, kind):
    path = hr.draw_tree(model, tmp_path / f"tree.{kind}")
    assert path.read_bytes()[:4] in (b"<?xm", b"\x89PNG")


def leaf(masses, variance):
    masses = np.asarray(masses, float)
    return LeafValue(np.maximum(masses, 0) / np.maximum(masses, 0).sum(), masses, variance)


@pytest.mark.parametrize(
    ("masses", "variance", "sure"),
    [((60, 3), 16.0, True), ((9, 3), 16.0, False), ((60, 59), 0.0, True), ((4, -20), 16.0, False)],
)
def test_a_class_is_sure_only_if_noise_could_not_have_put_it_first(masses, variance, sure):
    assert leaf_of(TWO, leaf(masses, variance)).is_sure is sure


def test_confidence_is_the_chance_that_noise_kept_the_order():
    rng = np.random.default_rng(0)
    gap = 10.0 + rng.normal(0.0, 6.0, 200_000) - rng.normal(0.0, 6.0, 200_000)
    said = leaf_of(TWO, leaf((30, 20), 36.0)).confidence
    assert said == pytest.approx(float(np.mean(gap > 0.0)), abs=0.01)


def test_sides_are_worded_with_all_that_the_path_says():
    age = TWO.grids[0]
    from hedgerow.schema.regions import Step

    region = (Step(age.split_values(range(4)), 1), Step(age.split_values(range(6)), 0))
    assert words_on(TWO, region, "age") == "50 <= age < 75"


def test_the_view_of_a_stump_is_one_verdict():
    X, y = sample(100, TWO)
    stump = hr.HistogramTreeClassifier(TWO, epsilon=1.0, max_depth=1, min_samples_split=1e9)
    assert not isinstance(view_of(stump.fit(X, y)), Question)
    assert "all records" in hr.show_tree(stump)
    assert "the tree has no split" in hr.explain(stump, X[:1])[0]


def test_a_model_that_is_no_single_tree_is_refused_in_words():
    """Far above the signal below which all that is left of a model is the mean."""
    X, y = sample(900, VALUE)
    boosted = hr.BoostedTreesRegressor(VALUE, epsilon=100.0, delta=1e-6).fit(X, y)
    with pytest.raises(ParameterError, match="only such a tree can be shown"):
        hr.show_tree(boosted)


# ---------------------------------------------------------------------------------- numbers
@pytest.fixture(scope="module")
def numbers():
    X, y = sample(900, VALUE)
    return hr.TreeRegressor(VALUE, epsilon=8.0, max_depth=2).fit(X, y)


def test_a_tree_of_numbers_shows_a_mean_with_its_noise_at_each_leaf(numbers):
    lines = re.findall(r"(-?[\d.]+) \+- [\d.]+ +\d+ \+- \d+ rows", hr.show_tree(numbers))
    said = [float(leaf.value[0]) for leaf in numbers.leaf_statistics_[0].leaves]
    assert sorted(map(float, lines)) == pytest.approx(sorted(said), rel=1e-3)
    assert "class" not in hr.show_tree(numbers)


def test_a_decision_about_a_number_starts_with_the_prediction(numbers):
    X, _ = sample(30, VALUE, seed=9)
    for words, value in zip(hr.explain(numbers, X), numbers.predict(X), strict=True):
        assert words.startswith(f"{value:.4g} (+- ")


def test_a_saved_tree_of_numbers_is_shown_and_drawn_as_the_fitted_one(numbers, tmp_path):
    numbers.save(tmp_path / "model.json")
    loaded = hr.load(tmp_path / "model.json")
    assert hr.show_tree(loaded) == hr.show_tree(numbers)
    assert hr.draw_tree(loaded, tmp_path / "tree.svg").read_text().startswith("<?xm")


def test_the_noise_of_a_mean_is_that_of_a_ratio_of_noisy_sums():
    rng = np.random.default_rng(0)
    sums = np.array([120.0, 80.0]) + rng.normal(0.0, 5.0, (200_000, 2))
    means = 10.0 * sums[:, 1] / sums.sum(axis=1)
    said = leaf_of(VALUE, LeafValue(np.array([4.0]), np.array([120.0, 80.0]), 25.0, scale=10.0))
    assert isinstance(said, Mean)
    assert said.value_spread == pytest.approx(2.0 * means.std(), rel=0.02)


# --------------------------------------------------------------------------------------------------
# Statements on a narrow terminal.
STATEMENT = """\
Privacy statement
  guarantee    epsilon = 1, delta = 1e-6
  not covered  the schema: names of columns, ranges, categories, classes
               that a model was trained, and how many rounds it took
  note         a-name-that-is-longer-than-any-terminal-that-anybody-would-use"""


def test_a_line_goes_on_under_its_words():
    lines = hanging(STATEMENT, 40).splitlines()
    assert lines[:5] == [
        "Privacy statement",
        "  guarantee    epsilon = 1, delta = 1e-6",
        "  not covered  the schema: names of",
        "               columns, ranges,",
        "               categories, classes",
    ]


@pytest.mark.parametrize("width", [20, 60, 80])
def test_no_word_is_lost_and_no_line_is_too_long(width):
    wrapped = hanging(STATEMENT, width)
    assert "".join(wrapped.split()) == "".join(STATEMENT.split())
    assert max(map(len, wrapped.splitlines())) <= width


def test_what_fits_stays_as_it_is():
    assert hanging(STATEMENT, 100) == STATEMENT
