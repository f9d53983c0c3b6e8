"""Importances, shapes and reasons: read off the released model, exact where they claim to be."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import hedgerow as hr
from hedgerow.errors import ParameterError
from hedgerow.models.uncertainty import ScoreNoise
from hedgerow.report.importances import DEVIATIONS, contributions
from hedgerow.report.weighing import MOST_OF_COLUMNS, surfaces_of
from hedgerow.schema.grids import MOST_NAMED
from support.worlds import THREE, TWO, VALUE, sample

KINDS = {
    "boosted, two classes": (hr.BoostedTreesClassifier, TWO),
    "boosted, three classes": (hr.BoostedTreesClassifier, THREE),
    "boosted, a number": (hr.BoostedTreesRegressor, VALUE),
    "forest": (hr.ForestClassifier, THREE),
    "forest, a number": (hr.ForestRegressor, VALUE),
    "extra trees": (hr.ExtraTreesClassifier, TWO),
    "one tree": (hr.TreeClassifier, TWO),
}


@pytest.fixture(scope="module", params=KINDS, ids=str)
def model(request):
    kind, schema = KINDS[request.param]
    X, y = sample(900, schema)
    return (
        kind(schema, epsilon=50.0, n_estimators=6, random_state=0).fit(X, y)
        if ("one tree" not in request.param)
        else kind(schema, epsilon=50.0).fit(X, y)
    )


def rows_for(model):
    return sample(40, model.schema_, seed=3)[0]


def test_contributions_and_base_add_up_to_the_prediction(model):
    X = rows_for(model)
    found = contributions(model, model.cells(X))
    score = found.base + found.values.sum(axis=1)
    said = model.model_.read_score(score)
    clipped = model.model_.score.clip is not None
    assert clipped or said == pytest.approx(model.model_.predict(model.cells(X)), abs=1e-9)


# ---- pairs of columns ----------------------------------------------------------------------------
@pytest.fixture(scope="module")
def crossed():
    """Age and dose count together alone, dose and weight each by itself; rows of every ward."""
    rng, n = np.random.default_rng(5), 3000
    age, dose, weight = rng.uniform(0.0, 1.0, (3, n))
    dose[rng.random(n) < 0.1] = np.nan
    ward = rng.choice(["heart", "medicine"], n)
    together = np.sign(age - 0.5) * np.sign(np.nan_to_num(dose, nan=0.5) - 0.5)
    score = 2.0 * together + 2.0 * (weight - 0.5) + (ward == "heart")
    y = np.where(rng.random(n) < 1.0 / (1.0 + np.exp(-score)), "yes", "no")
    columns = {"age": (0, 1), "dose": (0, 1), "ward": ["heart", "medicine"], "weight": (0, 1)}
    schema = hr.Schema(columns, classes=("no", "yes"))
    X = {"age": age, "dose": dose, "ward": ward, "weight": weight}
    model = hr.BoostedTreesClassifier(schema, epsilon=60.0, random_state=0).fit(pd.DataFrame(X), y)
    assert all(surfaces_of(model))
    assert len(model.model_.score.trees) == 6
    return model, pd.DataFrame(X)


def test_a_pair_that_counts_together_is_named(crossed):
    model, X = crossed
    pairs, columns = hr.pair_importances(model), hr.importances(model)
    (first, (part, deviation)), (_, (second_part, _)) = list(pairs.items())[:2]
    assert first == ("age", "dose")
    assert part > 0.4 > 10.0 * second_part
    assert part > 4.0 * deviation > 0.0
    assert sum(columns.values()) == pytest.approx(1.0)
    assert columns["age"] > 0.5 * part
    assert (model.feature_importances_std_ > 0.0).all()
    said = hr.explain(model, X.head(40))
    assert sum(" age " in words and " with " in words.split("because")[1] for words in said) > 30
    assert any("columns and pairs together" in words for words in said)


def test_a_surface_is_what_the_score_says_beyond_two_curves(crossed):
    """Differences of differences of the score are those of the surface, to the last digit."""
    model, X = crossed
    for pair in (("age", "dose"), ("ward", "dose")):
        found, row = hr.pair_effect(model, *pair), model.cells(X.head(1))[:, 0]
        first, second = (model.schema_.index(name) for name in pair)
        codes = np.tile(row[:, None, None], (1, *found.values.shape[:2]))
        codes[first], codes[second] = np.ix_(*found.cells)
        raw = model.model_.score.raw(codes.reshape(len(row), -1)).reshape(found.values.shape)
        for table in (raw, found.values):
            table -= table[:1].copy()
            table -= table[:, :1].copy()
        np.testing.assert_allclose(found.values, raw, atol=1e-9)
    grown = hr.pair_effect(model, "age", "dose")
    assert grown.values[0, 0, 0] > 1.0 > -1.0 > grown.values[-2, 0, 0]
    assert (grown.deviations > 0.0).all()
    assert [words[-1] for words in grown.words] == ["age is missing", "dose is missing"]
    turned = hr.pair_effect(model, "dose", "age").values
    np.testing.assert_array_equal(turned, grown.values.swapaxes(0, 1))


def test_a_tree_that_speaks_of_one_column_is_no_surface(crossed):
    """By brute force over all combinations of two columns, weighed by the counts of each."""
    model, _ = crossed
    parts = [np.array(p) / sum(p) for p in model.model_.parts]
    for surface in surfaces_of(model):
        (a, b), table = (parts[j] for j in surface.columns), surface.table[..., 0]
        table = table[: len(a), : len(b)]
        assert surface.variation == pytest.approx(a @ table**2 @ b)
        own = a @ (table @ b) ** 2 + (a @ table) ** 2 @ b
        assert surface.of_columns == pytest.approx(own / surface.variation)
        assert own < MOST_OF_COLUMNS / 4 * surface.variation
    tree = model.model_.score.trees[0]
    lifted = tree.with_values(tree.values + np.arange(tree.n_leaves)[:, None] / tree.n_leaves)
    score = replace(model.model_.score, trees=(lifted, *model.model_.score.trees))

    class Lifted:
        schema_, leaf_statistics_ = model.schema_, ()
        model_ = replace(model.model_, score=score, noise=ScoreNoise())

    found = surfaces_of(Lifted())
    assert found[0] is None
    assert found[1].columns == surfaces_of(model)[0].columns


def test_models_without_counts_have_no_pairs():
    X, y = sample(900, TWO)
    tree = hr.TreeClassifier(TWO, epsilon=50.0).fit(X, y)
    assert hr.pair_importances(tree) == {}
    assert not hr.pair_effect(tree, "age", "dose").values.any()


def test_importances_sum_to_one_and_come_in_order(model):
    found = hr.importances(model)
    assert set(found) == set(model.schema_.names)
    assert sum(found.values()) == pytest.approx(1.0)
    assert list(found.values()) == sorted(found.values(), reverse=True)


def test_a_column_that_nothing_depends_on_has_no_importance():
    X, y = sample(900, TWO)
    blind = hr.HistogramTreeClassifier(TWO, epsilon=50.0, max_depth=1).fit(X, y)
    used = blind.leaf_statistics_[0].tree.tests[0].feature
    assert hr.importances(blind) == {used: 1.0, **{n: 0.0 for n in TWO.names if n != used}}


def test_a_shape_has_a_value_for_each_bin_in_words(model):
    for name in model.schema_.names:
        found = hr.feature_effect(model, name)
        assert len(found.words) == len(found.values)
        assert all(name in words for words in found.words)
        assert found.words[-1] == f"{name} is missing"


def test_a_shape_rises_with_what_raises_the_target():
    """The world's score grows by 2 x dose."""
    X, y = sample(4000, VALUE)
    model = hr.BoostedTreesRegressor(VALUE, epsilon=100.0, n_estimators=12, random_state=0).fit(
        X, y
    )
    values = hr.feature_effect(model, "dose").values[:-1, 0]
    assert values[-1] - values[0] > 0.8
    assert hr.importances(model)["dose"] > 0.1


def test_reasons_start_with_the_prediction_and_name_columns(model):
    X = rows_for(model)
    said = model.predict(X)
    for words, found in zip(hr.explain(model, X), said, strict=True):
        assert words.startswith(f"{found:.4g}" if model._regression else str(found))
        assert ", because" in words
        assert any(name in words for name in model.schema_.names) or "no column" in words


def test_a_loaded_model_reads_the_same(model, tmp_path):
    X = rows_for(model)
    model.save(tmp_path / "model.json")
    loaded = hr.load(tmp_path / "model.json")
    assert hr.explain(loaded, X) == hr.explain(model, X)
    assert hr.importances(loaded) == hr.importances(model)


def test_reading_before_fitting_is_refused():
    for read in (hr.importances, lambda m: hr.feature_effect(m, "age")):
        with pytest.raises(ParameterError, match="not fitted yet"):
            read(hr.BoostedTreesClassifier(TWO))


# ---- words ---------------------------------------------------------------------------------------


def test_columns_of_truths_are_read_as_yes_and_no():
    for values in (("0", "1"), ("False", "True")):
        grid = hr.Categorical("smoker", values, other=False).grid
        assert grid.describe(0b010) == "smoker = yes"
        assert grid.describe(0b101) == "smoker = no or missing"


def test_a_long_set_ends_with_an_ellipsis_that_counts():
    grid = hr.Categorical("ward", tuple(f"w{i}" for i in range(40)), other=False).grid
    words = grid.describe((1 << 15) - 1)
    assert f"... {15 - MOST_NAMED} more}}" in words
    assert "..." not in grid.describe((1 << MOST_NAMED) - 1)


def deep_tree(depth):
    X, y = sample(900, TWO)
    tree = hr.HistogramTreeClassifier(TWO, epsilon=200.0, max_depth=depth, min_samples_split=2)
    return tree.fit(X, y)


def test_a_deep_tree_folds_and_says_how_much():
    tree = deep_tree(5)
    whole, folded = hr.show_tree(tree, max_depth=None), hr.show_tree(tree, max_depth=2)
    hidden = sum(int(n) for n in re.findall(r"\.\.\. (\d+) leaves, folded", folded))
    shown = len(re.findall(r" rows$", folded, flags=re.M))
    assert hidden + shown == len(re.findall(r" rows$", whole, flags=re.M))
    assert hidden > 0


def test_sides_that_nobody_can_reach_are_not_shown():
    from hedgerow.models.tree import Tree
    from hedgerow.models.uncertainty import LeafStatistics, LeafValue
    from hedgerow.report.view import Question, view_of
    from hedgerow.schema.regions import Step

    age = TWO.grids[0]
    young, younger = age.split_values(range(2)), age.split_values(range(4))
    leaves = {
        (Step(young, 0), Step(younger, 0)): (0.9, 0.1),
        (Step(young, 0), Step(younger, 1)): (0.5, 0.5),  # below 25, and not below 50
        (Step(young, 1),): (0.2, 0.8),
    }
    tree = Tree.build(TWO.names, leaves)
    values = tuple(LeafValue(np.array(v), 100 * np.array(v), 1.0) for v in leaves.values())

    class Model:
        schema_, leaf_statistics_ = TWO, (LeafStatistics(tree, values),)

    view = view_of(Model())
    assert isinstance(view, Question)
    assert not any(isinstance(child, Question) for child in view.children)
    assert "no age" not in hr.show_tree(Model())


# ---------------------------------------------------------------------------------- in a notebook
def test_importances_and_effects_show_their_noise_inline_and_escape_names():
    X, y = sample(600, TWO)
    names = dict(zip(TWO.names, ("a<b>", "dose", "ward"), strict=True))
    features = tuple(replace(one, name=names[one.name]) for one in TWO.features)
    model = hr.TreeClassifier(replace(TWO, features=features), epsilon=20.0, max_depth=3)
    model.fit(X, y)
    found = hr.importances(model)
    assert list(found.deviations.values()) == model.feature_importances_std_.tolist()
    html = found._repr_html_()
    assert html.count("<tr>") == sum(part > 0.0 for part in found.values())
    name, part = next(iter(found.items()))
    band = f"<td>{part:.3g}</td><td>± {DEVIATIONS * found.deviations[name]:.2g}</td>"
    assert band in html
    effect = hr.feature_effect(model, "a<b>")
    html = effect._repr_html_()
    assert html.count("<tr>") == effect.values.size
    assert "a&lt;b&gt;" in html
    assert "<b>" not in html


def test_effects_on_several_classes_have_a_table_each(model):
    effect = model.feature_effect("dose")
    assert effect._repr_html_().count("<table>") == effect.values.shape[1]


def test_a_tree_without_a_path_is_shown_inline_as_it_is_written(tmp_path):
    X, y = sample(300, TWO)
    model = hr.TreeClassifier(TWO, epsilon=20.0, max_depth=2).fit(X, y)
    picture = hr.draw_tree(model)
    assert "draw_tree(path)" in repr(picture)
    written = hr.draw_tree(model, tmp_path / "tree.svg").read_text(encoding="utf-8")
    without_date = [re.sub("<dc:date>.*?</dc:date>", "", one) for one in (picture.svg, written)]
    assert without_date[0] == without_date[1]
    assert picture._repr_svg_() == picture.svg
