"""Models on different grids as one query, records that are held out for it, and early stopping."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import hedgerow as hr
from hedgerow.cli.main import app
from hedgerow.data.reading.encoding import encode
from hedgerow.data.site_rows import UNNAMED, HeldOutDraws, secret_draws
from hedgerow.errors import ParameterError, PrivacyWarning, QualityWarning
from hedgerow.methods import model_selection
from hedgerow.models.joining import joint_schema, on_joint_grid
from hedgerow.schema.rules import exact
from methods.test_estimators import small
from methods.test_evaluate import FRESH, FRESH_Y, contents, rows_asked
from support.worlds import THREE, TWO, VALUE, sample

N = 900
X, Y = sample(N, TWO)


def tree(**more) -> hr.HistogramTreeClassifier:
    return hr.HistogramTreeClassifier(TWO, **{"epsilon": 5.0, "max_depth": 2, **more})


def boosted(**more) -> hr.ComponentBoostingClassifier:
    return hr.ComponentBoostingClassifier(TWO, n_estimators=5, **more)


def estimators(schema):
    kinds = ("Tree", "Forest", "BoostedTrees", "ExtraTrees")
    kind = "Regressor" if schema.target is not None else "Classifier"
    return [small(getattr(hr, k + kind), schema=schema, dp_model="none") for k in kinds]


@pytest.mark.parametrize("schema", [TWO, THREE, VALUE], ids=["two", "three", "number"])
def test_a_model_says_the_same_on_the_joint_grid(schema):
    """Of every value there is, missing and strange ones too."""
    rows, y = sample(400, schema)
    fitted = [one.fit(rows, y) for one in estimators(schema)]
    coarse = hr.Numeric("age", 0, 100, edges=(0.7, 33.3, 98.6))
    other = replace(fitted[0].schema_, features=(coarse, *fitted[0].schema_.features[1:]))
    joint = joint_schema([*(one.schema_ for one in fitted), other])
    assert joint.digest not in {one.schema_.digest for one in fitted}
    odd = np.array([[None, None, None], [-1e9, 1e9, "none"], ["x", float("nan"), ""]], object)
    probes = np.concatenate([sample(300, schema, seed=3)[0].astype(object), odd])
    for one in fitted:
        moved = on_joint_grid(one.model_, one.schema_, joint)
        own = one.model_.predict(encode(probes, one.schema_).codes)
        assert np.array_equal(moved.predict(encode(probes, joint).codes), own)


def test_cells_of_another_grid_would_be_seen():
    """Twin: without the move the model speaks of other cells."""
    boosted, grown = (one.fit(X, Y) for one in (estimators(TWO)[2], estimators(TWO)[0]))
    joint = joint_schema([boosted.schema_, grown.schema_])
    codes = encode(FRESH, joint).codes
    moved = on_joint_grid(grown.model_, grown.schema_, joint)
    assert not np.array_equal(moved.predict(codes), grown.model_.predict(codes))


def test_models_of_different_estimators_are_compared_on_new_rows():
    blind = tree(max_depth=1, min_samples_split=1e9, epsilon=50.0).fit(X, Y)
    good = hr.BoostedTreesClassifier(TWO, epsilon=50.0, random_state=0).fit(X, Y)
    said = hr.evaluate(blind, FRESH, FRESH_Y, epsilon=20.0, compare_with=[good])
    assert said.chosen is good
    assert len(said.privacy_.spending) == 1


@pytest.mark.parametrize("wrong", ["columns", "grids"])
def test_models_that_no_grid_joins_are_refused(wrong):
    if wrong == "columns":
        other = hr.Schema(TWO.features[1:], classes=TWO.classes)
    else:
        edges = tuple(0.31 + k * 0.37 for k in range(250))
        other = hr.Schema(
            (hr.Numeric("age", 0.0, 100.0, edges=edges), *TWO.features[1:]), classes=TWO.classes
        )
    schemas = [estimators(TWO)[2]._method(TWO).grid(TWO), other]
    with pytest.raises(ParameterError, match="no one"):
        joint_schema(schemas)


# ---- training and comparing ----------------------------------------------------------------------


@pytest.mark.parametrize("n_sites", [1, 3])
def test_no_record_is_trained_on_by_one_candidate_and_compared_by_another(n_sites):
    who = {} if n_sites == 1 else {"site": np.arange(N) % n_sites, "sites": range(n_sites)}
    both = [tree(), hr.TreeClassifier(TWO, epsilon=5.0)]
    (everybody,) = rows_asked(lambda: tree().fit(X, Y, **who))
    first, second, compared = rows_asked(lambda: hr.select_model(both, X, Y, epsilon=1.0, **who))
    counts = [[rows.n for rows in part] for part in (first, second, compared)]
    assert counts[0] == counts[1]
    for mine, all_of_them, n_compared in zip(first, everybody, counts[2], strict=True):
        assert mine.n + n_compared == all_of_them.n
        left = list(contents(all_of_them))
        for record in contents(mine):
            left.remove(record)
        assert len(left) == n_compared


def test_one_record_more_changes_nobody_elses_part():
    """Rows are equal on the coarse grid and differ on the finer one, which decides."""
    joint = joint_schema([one._method(TWO).grid(TWO) for one in (tree(), estimators(TWO)[2])])
    ages = np.linspace(40.0, 42.9, 120)
    rows = np.array([[age, 0.5, "north"] for age in ages], object)
    y = np.full(120, "yes", object)
    by = HeldOutDraws(
        secrets={UNNAMED: secret_draws("evaluation", 1)[0]},
        one_in=4,
        by_person=False,
        schema=joint.digest,
        records_per_person=1,
    )
    drawn = model_selection._held_out(rows, y, joint, by, (None, None, None))
    for place in (0, 60):
        more = np.insert(rows, place, np.array([41.0, 0.5, "north"], object), axis=0)
        again = model_selection._held_out(more, np.append(y, "yes"), joint, by, (None, None, None))
        left = np.delete(again, place)
        changed = encode(rows[left != drawn], joint).codes
        alike = encode(np.array([[41.0, 0.5, "north"]], object), joint).codes
        assert (changed == alike).all()  # only rows that no query tells from the new one
        assert abs(int(again.sum()) - int(drawn.sum())) <= 1


def test_the_statement_adds_up_what_all_candidates_paid():
    said = hr.select_model([tree(), tree(epsilon=2.5)], X, Y, epsilon=1.0)
    assert said.privacy_.epsilon == 1.0
    assert (
        "each of 2 fits, which together guarantee epsilon = 7.5, delta = 2e-6. No record paid "
        "for both, "
        "so training and evaluation together guarantee epsilon = 7.5, delta = 2e-6."
    ) in str(said.privacy_)
    free = hr.select_model([tree(dp_model="none")], X, Y, epsilon=1.0)
    assert "training and evaluation together guarantee epsilon = infinity" in str(free.privacy_)


def test_choose_keeps_the_deltas_of_its_candidates():
    """Point 4, the first wrong sum: epsilon 2 was said, and no delta at all."""
    said = hr.select_model([tree(epsilon=1.0), tree(epsilon=1.0)], X, Y, epsilon=1.0).privacy_
    assert "2 fits, which together guarantee epsilon = 2, delta = 2e-6." in said.caveats[0]
    assert said.caveats[0].endswith("together guarantee epsilon = 2, delta = 2e-6.")
    said = hr.select_model([tree(delta=0.0)], X, Y, epsilon=9.0, delta=1e-5).privacy_
    assert said.caveats[0].endswith("together guarantee epsilon = 9, delta = 1e-5.")


def test_choose_refuses_candidates_with_other_units(tmp_path):
    """Point 4, the second: epsilon 1 to a record and 1 to a person of 3 came to 2; true is 4."""
    mixed = [tree(epsilon=1.0, ledger=tmp_path / "a"), tree(epsilon=1.0, records_per_person=3)]
    with pytest.raises(
        ParameterError, match="to one record and to one person with up to 3 records do"
    ):
        hr.select_model(mixed, X, Y, epsilon=1.0)
    with pytest.raises(
        ParameterError, match=r"of whose records 1 at most .* of whose records 3 at most"
    ):
        hr.select_model(mixed, X, Y, epsilon=1.0, person=np.arange(N))
    assert not (tmp_path / "a").exists()


def label_tree(**more):
    return hr.ExtraTreesClassifier(TWO, n_estimators=2, max_depth=2, dp_model="label", **more)


def test_choose_promises_nothing_of_labels_and_whole_records_together():
    """Point 4, the third: epsilon 2 was said of features that lie open."""
    with pytest.warns(PrivacyWarning, match="some candidates protect labels alone and others"):
        said = hr.select_model([label_tree(), tree(epsilon=1.0)], X, Y, epsilon=1.0).privacy_
    assert (
        "which together guarantee epsilon = infinity, delta = 1e-6: some protect" in said.caveats[0]
    )
    assert said.caveats[0].endswith(
        "training and evaluation together guarantee epsilon = infinity, "
                                    "delta = 1e-6.")  # fmt: skip


def test_a_comparison_of_labels_alone_is_no_promise_to_whole_records():
    said = hr.select_model([label_tree(), label_tree()], X, Y, epsilon=1.0).privacy_
    assert (
        "2 fits, which together guarantee epsilon = 2, delta = 0. But a record with"
        in said.caveats[0]
    )
    assert (
        "together guarantee epsilon = infinity, delta = 0: some protect labels" in said.caveats[0]
    )


def test_persons_that_nobody_counts_may_pay_for_training_and_for_comparison():
    several = [tree(epsilon=1.0, records_per_person=3)]
    said = hr.select_model(several, X, Y, epsilon=1.0).privacy_
    assert "But a person with several records may have some of them in each" in said.caveats[0]
    assert said.caveats[0].endswith("together guarantee epsilon = 2, delta = 1e-6.")
    said = hr.select_model(several, X, Y, epsilon=1.0, person=np.arange(N) // 3).privacy_
    assert "No record paid for both" in said.caveats[0]
    assert said.caveats[0].endswith("together guarantee epsilon = 1, delta = 1e-6.")


def test_all_records_of_a_person_are_trained_on_or_compared():
    """Rows of one person differ in all but the person, so that draws by record would part them."""
    person = np.arange(N) % 150
    several = [tree(records_per_person=100)]
    for who in ({}, {"site": person % 3, "sites": range(3)}):
        trained, compared = rows_asked(
            lambda who=who: hr.select_model(several, X, Y, epsilon=1.0, person=person, **who)
        )
        for one, other in zip(trained, compared, strict=True):
            apart = [{name.tobytes() for name in rows._persons} for rows in (one, other)]
            assert apart[0].isdisjoint(apart[1])
        assert min(sum(rows.n for rows in part) for part in (trained, compared)) > 0
        assert sum(rows.n for rows in (*trained, *compared)) == N


def test_persons_are_counted_in_every_fit_and_in_the_comparison():
    several = [tree(records_per_person=2), tree(records_per_person=2)]
    person = np.arange(N) // 10
    seen = rows_asked(lambda: hr.select_model(several, X, Y, epsilon=1.0, person=person))
    first, second, compared = (part[0].n for part in seen)
    assert first == second
    assert first + compared == 2 * N / 10
    said = hr.select_model(several, X, Y, epsilon=1.0, person=person)
    units = {said.chosen.privacy_.unit, said.privacy_.unit}
    assert units == {"one person, of whose records 2 at most are kept"}


def test_early_stopping_takes_the_trees_that_helped():
    """Trees that undo what the first ones learned are told from them by one query."""
    model = hr.ComponentBoostingClassifier(
        TWO, n_estimators=6, dp_model="none", random_state=0
    ).fit(*sample(3000, TWO))
    score = model.model_.score
    undoing = [tree.with_values(-3.0 * tree.values) for tree in score.trees]
    model.model_ = replace(model.model_, score=score.plus(*undoing))
    said = hr.evaluate(model, FRESH, FRESH_Y, epsilon=10.0, compare_with=[model.staged(6)])
    assert len(said.chosen.model_.score.trees) == 6
    assert said.parts[1][0]["auc"].low > said.parts[0][0]["auc"].high
    assert len(said.privacy_.spending) == 1


def test_stages_are_compared_in_the_same_query():
    with pytest.warns(QualityWarning, match=r"has 5 trees, so stages \[5, 60\] are the whole"):
        said = hr.select_model(
            [boosted(random_state=0), tree()], X, Y, epsilon=20.0, stages=(1, 3, 5, 60)
        )
    assert [name.split(", ")[-1] for name in said.names] == [
        *("1. ComponentBoostingClassifier", "first tree", "first 3 trees"),
        "2. HistogramTreeClassifier",
    ]
    assert len(said.parts) == 4
    assert said.chosen_name in said.names
    assert said.names[3] in str(said)
    assert len(said.privacy_.spending) == 1
    assert "each of 2 fits, which together guarantee epsilon = 6, delta = 2e-6." in str(
        said.privacy_
    )


def test_stages_share_the_records_that_were_held_out():
    model = boosted(hold_out=3).fit(X, Y)
    few = model.staged(3)
    assert few.model_.score.trees == model.model_.score.trees[:3]
    said = hr.evaluate(model, X, Y, epsilon=5.0, compare_with=[few])
    assert "held out of training" in str(said.privacy_)
    with pytest.raises(ParameterError, match="the model has 0 to"):
        model.staged(10_000)
    with pytest.raises(ParameterError, match="may have been trained on them"):
        hr.evaluate(model, X, Y, epsilon=5.0, compare_with=[tree().fit(X, Y)])


REFUSED = {
    "no candidates": ([], {}, "no candidates"),
    "no schema": ([hr.TreeClassifier()], {}, "has no schema"),
    "held out already": ([tree(hold_out=3)], {}, "leave that to `select_model`"),
    "all held out": ([tree()], {"hold_out": 1}, "one record in 2 or more"),
    "sites unnamed": ([tree()], {"site": np.arange(N) % 2}, "name all sites"),
    "stages of a tree": ([tree()], {"stages": (3,)}, "no candidate is of that kind"),
    "a stage of nothing": ([boosted()], {"stages": (0,)}, "a number of trees, 1 or more"),
    "another task": ([hr.TreeRegressor(TWO)], {}, "predicts a number"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_compared_is_refused_before_anything_is_spent(name):
    candidates, more, words = REFUSED[name]
    with pytest.raises(ParameterError, match=words):
        hr.select_model(candidates, X, Y, epsilon=1.0, **more)


# ---- the command ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """Two sites' files."""
    here = tmp_path_factory.mktemp("select_model")
    (here / "schema.toml").write_text(TWO.to_toml(), encoding="utf-8")
    rows = pd.DataFrame(X, columns=list(TWO.names)).assign(said=Y)
    for k in range(2):
        rows[k::2].to_csv(here / f"{k}.csv", index=False)
    return here


def chosen(place, *more, epsilon="1.1"):
    line = [
        "select",
        "HistogramTreeClassifier max_depth=2",
        "HistogramTreeClassifier max_depth=1",
    ]
    line += ["HistogramTreeClassifier max_depth=3", "--schema", f"{place}/schema.toml"]
    line += ["--data", f"{place}/0.csv", "-o", f"{place}/model.json", "--epsilon", epsilon, *more]
    return CliRunner().invoke(app, line, catch_exceptions=False)


def test_the_command_writes_the_best_and_all_candidates_together_keep_the_promise(place):
    done = chosen(place, "--data", f"{place}/1.csv", "--ledger", f"{place}/fits.sqlite", "--json")
    said = json.loads(done.stdout)
    names = [f"{k}. HistogramTreeClassifier" for k in (1, 2, 3)]
    assert said["comparison"]["names"] == names
    assert said["comparison"]["privacy"]["epsilon"] == 1.1
    model = hr.load(place / "model.json")
    assert model.max_depth == (2, 1, 3)[names.index(said["comparison"]["chosen"])]
    assert model.privacy_.n_sites == 2
    assert model.evaluation_.digests == (model.model_.score.digest,)
    words = "so training and evaluation together guarantee epsilon = 1.1, delta = 1e-6."
    assert words in str(model.evaluation_.privacy_)
    assert 3 * exact(model.epsilon) <= exact(1.1)
    assert 3 * exact(model.delta) <= exact(1e-6)
    total = hr.Ledger(place / "fits.sqlite").total().epsilon
    assert total == pytest.approx(2.2)


def test_the_command_says_what_was_chosen_in_words(place):
    done = chosen(place, "--hold-out", "3", "--force", epsilon="110")  # noise that hides no measure
    assert f"{place}/model.json: " in done.stdout
    assert "2. HistogramTreeClassifier\n    auc" in done.stdout
    assert "3 fits, which together guarantee epsilon = 110, delta = 1e-6." in done.stdout
