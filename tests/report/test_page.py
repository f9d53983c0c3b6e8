"""The report page in a real browser: it asks no network, and says what the model says."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from typer.testing import CliRunner

import hedgerow as hr
from hedgerow.cli.main import app
from hedgerow.errors import ParameterError
from hedgerow.models.survival import RiskTable, SurvivalCurve, concordance
from hedgerow.privacy.queries import GROUPINGS, STATISTICS
from hedgerow.report.importances import contributions
from hedgerow.report.measures import (
    calibration_at,
    curve_with_band,
    evaluation_grid,
    survival_measures,
)
from hedgerow.report.page.over_time import survival_section, typical_deviation
from hedgerow.report.page.pictures import (
    LEAST_PART,
    MOST_BARS,
    MOST_SURFACES,
    SHADES,
    effect_figures,
)
from hedgerow.report.text import MOST_REASONS, _towards
from hedgerow.report.view import leaf_of
from hedgerow.report.weighing import surfaces_of
from methods.test_survival import SCHEMA, X, Y
from studies.tests.answers import fixed_noise
from support.browser import Watched, chromium, keep_picture
from support.handed_on import CASES, NAMES, SCHEMAS, SURFACES, answers, fitted, labeled, rows

QUICK = {
    ("TreeClassifier", "two classes"),
    ("TreeRegressor", "number"),
    ("BoostedTreesClassifier", "three classes"),
    ("BoostedTreesRegressor", "number"),
    ("ForestClassifier", "two classes"),
    ("MedianForestClassifier", "three classes"),
    SURFACES,
}
"""One of each kind of sum, link and leaf; the others are asked with the slow tests."""
EACH = pytest.mark.parametrize(
    ("name", "task"),
    [pytest.param(*c, marks=[] if c in QUICK else pytest.mark.slow) for c in CASES],
    ids=lambda value: value.replace(" ", "-"),
)
IMAGES = Path(__file__).parents[2] / "docs" / "images"
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def browser() -> Iterator[object]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def hospital_tree():
    """The tree of the pictures: real records, five sites, a guarantee that is kept."""
    data = load_breast_cancer(as_frame=True)
    columns = [c for c in data.data.columns if c.startswith(("mean", "worst"))]
    tops = {c: float(np.ceil(data.data[c].max() * 1.2)) for c in columns}
    schema = hr.Schema(
        tuple(hr.Numeric(c, 0.0, tops[c]) for c in columns), classes=("benign", "malignant")
    )
    y = np.array(["malignant", "benign"])[data.target]
    model = hr.TreeClassifier(schema, epsilon=4.0, delta=1e-6, random_state=1)
    with fixed_noise():  # so that no number is rounded one way here and the other on the page
        return model.fit(data.data[columns], y, site=np.arange(len(y)) % 5, sites=list(range(5)))


def opened(browser, model, folder, **how) -> Watched:
    path = model.report(folder / "report.html")
    return Watched(browser, path.as_uri(), **{"viewport": WIDE} | how)


def ask(watched: Watched, model, row) -> None:
    """Types a record as a person would: texts into fields, categories from lists."""
    for j, grid in enumerate(model.schema_.grids):
        value, field = row[grid.feature], watched.page.locator(f"#field-{j}")
        if grid.kind.value == "numeric":
            field.fill("" if pd.isna(value) else repr(float(value)).replace("inf", "Infinity"))
            continue
        known = {"7": None}.get(value, value) if grid.feature == NAMES[3] else value
        code = grid.category_code(None if known is None or pd.isna(known) else _token(known))
        field.select_option(index=0 if code == grid.missing else code + 1)  # the first is missing
    watched.page.locator("#why-form button[type=submit]").click()


def _token(value):
    from hedgerow.schema.tokens import token_of

    return token_of(value)


def shown(watched: Watched, attribute: str) -> list[float]:
    places = watched.page.locator(f"#why-answer [{attribute}]")
    return [float(places.nth(k).get_attribute(attribute)) for k in range(places.count())]


@pytest.mark.browser
@EACH
def test_the_page_answers_as_the_model_does_and_asks_no_network(name, task, tmp_path, browser):
    model, X = fitted(name, task), rows(4, seed=11)
    watched = opened(browser, model, tmp_path)
    admitted = X.assign(**{NAMES[3]: X[NAMES[3]].replace({"7": None})})
    reasons = hr.explain(model, admitted)
    found = contributions(model, model.cells(admitted))
    for i in range(len(X)):
        ask(watched, model, X.iloc[i])
        np.testing.assert_allclose(
            shown(watched, "data-probability"), answers(model, X)[i], atol=1e-6
        )
        sentence = watched.page.locator("#why-sentence").inner_text()
        if len(model.model_.score.trees) == 1 and model.leaf_statistics_:
            assert sentence == reasons[i]
            continue
        assert reasons[i].startswith(sentence.removesuffix("."))
        told = [float(n) for n in re.findall(r"\(([+-][\d.e+-]+)\)", reasons[i])][:MOST_REASONS]
        moves = shown(watched, "data-move")
        np.testing.assert_allclose(moves[: len(told)], told[: len(moves)], rtol=0.06)
        wanted = _towards(model.model_, found.values[i], int(answers(model, X)[i].argmax()))
        by_size = wanted[np.argsort(-np.abs(wanted), kind="stable")]
        np.testing.assert_allclose(moves, by_size[: len(moves)], rtol=0, atol=1e-6)
        assert np.abs(by_size[len(moves) :]).sum() == 0.0
    assert watched.complaints == []
    assert watched.requests == [(tmp_path / "report.html").as_uri()]


@pytest.mark.browser
def test_a_tree_opens_and_closes_by_mouse_and_by_keyboard(hospital_tree, tmp_path, browser):
    page = opened(browser, hospital_tree, tmp_path).page
    root = page.locator("#tree-view > details")
    assert root.get_attribute("open") is not None
    root.locator("> summary").click()
    assert root.get_attribute("open") is None
    root.locator("> summary").focus()
    page.keyboard.press("Enter")
    assert root.get_attribute("open") is not None
    page.locator("#close-all").click()
    assert page.locator("#tree-view details[open]").count() == 0
    page.locator("#open-all").click()
    leaves = page.locator("#tree-view .leaf")
    assert leaves.count() == hospital_tree.model_.score.trees[0].n_leaves
    leaves.first.focus()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('#tree-view') !== null")


@pytest.mark.browser
def test_numbers_of_the_tree_are_the_model_s(hospital_tree, tmp_path, browser):
    page = opened(browser, hospital_tree, tmp_path).page
    page.locator("#open-all").click()
    texts = page.locator("#tree-view .leaf").all_inner_texts()
    leaves = [
        leaf_of(hospital_tree.schema_, leaf) for leaf in hospital_tree.leaf_statistics_[0].leaves
    ]
    for leaf, text in zip(leaves, texts, strict=True):
        assert f"{leaf.name} {leaf.probability:.0%}{'' if leaf.is_sure else ' ?'}" in text
        assert f"{leaf.rows:.0f} ± {leaf.rows_spread:.0f} records".replace("-0 ", "0 ") in text
    bars = page.locator("#importances").inner_text()
    for name, part in list(hr.importances(hospital_tree).items())[:MOST_BARS]:
        assert (name in bars) == (part > 0.0)
        assert part == 0.0 or f"{part:.1%}" in bars
    assert hospital_tree.privacy_.unit in page.locator(".guarantee-card").inner_text()


@pytest.mark.browser
def test_surfaces_are_drawn_named_and_opened_by_keyboard(tmp_path, browser):
    model = fitted(*SURFACES)
    page = opened(browser, model, tmp_path).page
    pairs = [pair for pair, part in hr.pair_importances(model).items() if part[0] > LEAST_PART]
    bars = page.locator("#pair-importances").inner_text()
    assert all(" with ".join(pair) in bars for pair in pairs[:MOST_SURFACES])
    drawn = page.locator("figure:has(.heat)")
    assert drawn.locator("figcaption").first.inner_text() == " with ".join(pairs[0])
    strongest = hr.pair_effect(model, *pairs[0])
    top = strongest.values.flat[np.abs(strongest.values).argmax()]
    assert f"{top:+.2g} ± " in drawn.locator("svg[role=img]").first.get_attribute("aria-label")
    values = drawn.first.locator("details")
    values.locator("summary").focus()
    page.keyboard.press("Enter")
    assert f": {top:+.2g} ± " in values.locator("li").first.inner_text()
    assert page.locator("#columns .legend").last.locator(".heat").count() == 2 * SHADES + 2
    others = surfaces_of(model).count(None)
    assert page.locator("#tree-number").get_attribute("max") == str(others)
    assert (
        f"{len(model.model_.score.trees) - others} surfaces" in page.locator(".facts").inner_text()
    )


@pytest.mark.browser
def test_any_tree_of_many_can_be_chosen(tmp_path, browser):
    model = fitted("ForestClassifier", "three classes")
    page = opened(browser, model, tmp_path).page
    for number in (1, 3):
        page.locator("#tree-number").fill(str(number))
        page.keyboard.press("Enter")
        page.locator("#open-all").click()
        leaves = model.model_.score.trees[number - 1].n_leaves
        assert page.locator("#tree-view .leaf").count() == leaves


@pytest.mark.browser
def test_a_text_that_is_no_number_is_told(hospital_tree, tmp_path, browser):
    watched = opened(browser, hospital_tree, tmp_path)
    watched.page.locator("#field-0").fill("tall")
    watched.page.locator("#why-form button[type=submit]").click()
    assert "mean radius: not a number" in watched.page.locator("#why-answer").inner_text()


@pytest.mark.browser
@pytest.mark.parametrize(
    ("kind", "scheme"),
    [
        ("tree", "light"),
        ("boosted", "dark"),
        ("surfaces", "light"),
        pytest.param("tree", "dark", marks=pytest.mark.slow),
        pytest.param("boosted", "light", marks=pytest.mark.slow),
    ],
)
def test_contrast_labels_and_roles_pass_axe(kind, scheme, hospital_tree, tmp_path, browser):
    pytest.importorskip("axe_core_python")
    script = files("axe_core_python").joinpath("axe.min.js").read_text("utf-8")
    task = "surfaces" if kind == "surfaces" else "three classes"
    model = hospital_tree if kind == "tree" else fitted("BoostedTreesClassifier", task)
    size = {"viewport": PHONE} if kind == "surfaces" else {}
    watched = opened(browser, model, tmp_path, color_scheme=scheme, **size)
    watched.page.locator("#why-form button[type=submit]").click()
    watched.page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    watched.page.evaluate(script)
    found = watched.page.evaluate("axe.run()")["violations"]
    assert [(v["id"], [n["html"][:200] for n in v["nodes"][:3]]) for v in found] == []


@pytest.mark.browser
def test_a_page_with_a_pale_text_would_be_seen_by_axe(hospital_tree, tmp_path, browser):
    """Twin: one color changed."""
    pytest.importorskip("axe_core_python")
    script = files("axe_core_python").joinpath("axe.min.js").read_text("utf-8")
    page = opened(browser, hospital_tree, tmp_path).page
    page.add_style_tag(content=".count { color: #cfcfcf !important; }")
    page.evaluate(script)
    assert "color-contrast" in [v["id"] for v in page.evaluate("axe.run()")["violations"]]


@pytest.mark.browser
def test_nothing_sticks_out_on_a_phone(hospital_tree, tmp_path, browser):
    page = opened(browser, hospital_tree, tmp_path, viewport=PHONE).page
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.browser
def test_words_of_a_schema_cannot_become_part_of_the_page(tmp_path, browser):
    evil = '</script><img src=x onerror="document.title=1">'
    features = (hr.Numeric(evil, 0, 1), hr.Categorical("b", (evil, "<b>")))
    schema = hr.Schema(features, classes=(evil, "no"))
    X = pd.DataFrame({evil: [0.1, 0.9] * 20, "b": [evil, "<b>"] * 20})
    model = hr.TreeClassifier(schema, epsilon=50.0).fit(X, [evil, "no"] * 20)
    watched = opened(browser, model, tmp_path)
    assert watched.page.locator("img").count() == 0
    assert watched.complaints == []
    assert len(watched.requests) == 1


INNER_NAMES = sorted(
    {*STATISTICS, *GROUPINGS, "SumQuery", "SelectQuery", "LocalSelection", "BoundQuery"}
)


@pytest.mark.parametrize(("name", "task"), sorted(QUICK), ids=lambda v: v.replace(" ", "-"))
def test_no_release_is_named_by_a_class_of_the_package(name, task, tmp_path):
    """People read the page, the statement and the registry's entry."""
    model = fitted(name, task)
    model.export(tmp_path / "entry.yaml", to="registry")
    page = model.report(tmp_path / "page.html").read_text("utf-8").partition("<script")[0]
    texts = [page.partition("</style>")[2], str(model.privacy_)]
    texts += [(tmp_path / "entry.yaml").read_text("utf-8"), *_manifests(model)]
    spelled = [n for n in INNER_NAMES if len(re.findall("[A-Z]", n)) > 1 or n == "Gradients"]
    found = {n for n in spelled for text in texts if re.search(rf"\b{n}\b", text)}
    assert found == set()


def _manifests(model) -> list[str]:
    return [line for one in model.run_.rounds for line in one.manifest]


def test_sizes(hospital_tree, tmp_path):
    """Under 300 kB for a tree and under 1 MB for a hundred."""
    assert hospital_tree.report(tmp_path / "tree.html").stat().st_size < 300_000
    X, y = labeled(300, SCHEMAS["three classes"])
    boosted = hr.BoostedTreesClassifier(SCHEMAS["three classes"], epsilon=50.0, n_estimators=100)
    assert boosted.fit(X, y).report(tmp_path / "hundred.html").stat().st_size < 1_000_000


@pytest.mark.browser
def test_a_model_that_is_too_large_shows_its_first_trees(tmp_path, browser, monkeypatch):
    monkeypatch.setattr("hedgerow.report.page.data.MOST_NUMBERS", 60)
    watched = opened(browser, fitted("ForestClassifier", "three classes"), tmp_path)
    page = watched.page
    assert "The page holds the first 2" in page.locator("#tree").inner_text()
    assert page.locator("#tree-number").get_attribute("max") == "2"
    assert "hedgerow.explain" in page.locator("#why").inner_text()
    assert watched.complaints == []


def test_the_command_writes_the_page_and_a_notebook_shows_a_card(hospital_tree, tmp_path):
    hospital_tree.save(tmp_path / "model.json")
    command = ["report", str(tmp_path / "model.json"), "-o", str(tmp_path / "again.html")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    first = hospital_tree.report(tmp_path / "first.html").read_text()
    assert (tmp_path / "again.html").read_text() == first
    html = hospital_tree._repr_mimebundle_()["text/html"]
    assert hospital_tree.privacy_.summary in html
    assert (
        "epsilon"
        not in hr.TreeClassifier()._repr_mimebundle_()["text/html"].split("<body>")[0][:200]
    )


@pytest.mark.browser
@pytest.mark.skipif("HEDGEROW_PICTURES" not in os.environ, reason="pictures are made on request")
def test_pictures_of_the_documentation(hospital_tree, tmp_path, browser):
    """HEDGEROW_PICTURES=1 makes them again; noise differs from fit to fit."""
    shots = {
        "report_wide": {"viewport": WIDE | {"height": 1150}},
        "report_dark": {"viewport": WIDE | {"height": 1150}, "color_scheme": "dark"},
        "report_phone": {"viewport": PHONE | {"height": 1500}},
    }
    for name, how in shots.items():
        page = opened(browser, hospital_tree, tmp_path, **how).page
        keep_picture(page, IMAGES / f"{name}.png")
    page = opened(browser, hospital_tree, tmp_path).page
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 794, "height": 1123})
    keep_picture(page, IMAGES / "report_print.png")


# --------------------------------------------------------------------------------------------------
# What stands under the pictures of a report: names of categories, numbers that people can read.
WARDS = ["heart", "medicine", "a very long name of a ward"]


def ticks(columns) -> dict[str, list[str]]:
    rng = np.random.default_rng(0)
    X = np.stack([_drawn(kind, rng) for kind in columns.values()], axis=1)
    schema = hr.Schema(columns, classes=("no", "yes"))
    y = np.where(np.sum(X[0] == X, axis=1) > 1, "yes", "no")  # every column matters
    model = hr.BoostedTreesClassifier(schema, dp_model="none", random_state=0).fit(X, y)
    figures = [str(one) for one in effect_figures(model)]
    found = {re.search("<figcaption>(.*?)<", one)[1]: one for one in figures}
    return {name: re.findall(r'text-anchor="\w+">(.*?)</text>', one) for name, one in found.items()}


def _drawn(kind, rng):
    drawn = rng.choice(kind, 400) if isinstance(kind, list) else rng.integers(0, 2, 400)
    return np.asarray(drawn, dtype=object)


def test_categories_have_their_names_and_numbers_no_powers_of_ten():
    found = ticks({"ward": WARDS, "flag": (0, 1), "many": [f"c{k:02}" for k in range(9)]})
    assert found["ward"] == ["heart", "medicine", "a very lon…", "any other …"]
    assert found["many"] == ["c00", "any other value"]
    assert found["flag"][0] == "0"
    assert found["flag"][-1] == "1"
    assert len(set(found["flag"])) == len(found["flag"])
    assert not any("e-" in words for words in found["flag"])


# --------------------------------------------------------------------------------------------------
# Measures of survival from one table, what the page draws, and exports of chances over time.
@pytest.fixture(scope="module")
def survival_model():
    return hr.SurvivalBoostedTrees(SCHEMA, epsilon=20.0, random_state=0, n_estimators=12).fit(X, Y)


SIGNED = np.where(Y["death"] == 1, Y["years"], -Y["years"])


def counted(model, deviation=0.001):
    """The table of all records, without noise."""
    cuts, times = evaluation_grid(model.curve_)
    group = np.searchsorted(cuts, model.predict(X), side="right")
    interval = np.searchsorted(times, np.abs(SIGNED), side="left")
    counts = np.zeros((len(cuts) + 1, 2, len(times) + 1))
    np.add.at(counts, (group, (SIGNED > 0).astype(int), interval), 1.0)
    return RiskTable(cuts, times, tuple(counts.ravel().tolist()), deviation)


def test_the_table_tells_concordance_and_calibration(survival_model):
    measures, bins = survival_measures(counted(survival_model), survival_model.curve_, 0.95)
    truth = concordance(survival_model.predict(X), SIGNED)
    assert truth - 0.015 < measures["grouped_c_index"].value < truth + 0.002
    assert measures["grouped_c_index"].low < measures["grouped_c_index"].high
    far = [b for b in bins if abs(b.share.value - b.low) > 0.15]
    assert len(bins) > 5
    assert len(far) <= 1


def test_groups_and_wide_intervals_flatter_nobody():
    """Two groups, one interval of two halves: half of the pairs of one interval are right."""
    exponential, curve = np.random.default_rng(0).exponential(size=(2, 3_000)), np.zeros((2, 2, 3))
    times = exponential * np.array([[1.0], [0.5]])
    for group in range(2):
        curve[group, 1] = np.histogram(times[group], [0.0, 0.5, 1.5, np.inf])[0]
    signed, risk = times.ravel(), np.repeat([0.0, 1.0], 3_000)
    table = RiskTable((0.5,), (0.5, 1.5), tuple(curve.ravel().tolist()), 0.001)
    said = SurvivalCurve((0.5, 1.5), (0.5, 1.5), (1.0, 1.0), 0.0, (0.3, 0.6), table)
    found = survival_measures(table, replace(said, score_cuts=(0.5,), score_parts=(0.5, 0.5)), 0.95)
    truth = concordance(risk, signed)
    assert truth - 0.02 < found[0]["grouped_c_index"].value < truth + 0.004


def test_a_model_that_ranks_backwards_would_be_seen(survival_model):
    """Twin."""
    table = counted(survival_model)
    turned = replace(table, counts=tuple(table.table[::-1].ravel().tolist()))
    measures, _ = survival_measures(turned, survival_model.curve_, 0.95)
    assert measures["grouped_c_index"].value < 0.4
    right, _ = survival_measures(table, survival_model.curve_, 0.95)
    assert measures["integrated_brier"].value > right["integrated_brier"].value + 0.05


def test_noise_widens_intervals_and_hides_small_groups(survival_model):
    clear, noisy = (counted(survival_model, deviation) for deviation in (0.001, 15.0))
    narrow, wide = (
        survival_measures(one, survival_model.curve_, 0.95)[0] for one in (clear, noisy)
    )
    for name in narrow:
        assert wide[name].high - wide[name].low > narrow[name].high - narrow[name].low
    hidden = survival_measures(counted(survival_model, 1e6), survival_model.curve_, 0.95)[0]
    assert all(np.isnan(one.value) for one in hidden.values())
    assert len(calibration_at(noisy, survival_model.curve_, 1, 0.95)) < len(
        calibration_at(clear, survival_model.curve_, 1, 0.95)
    )


def test_bands_hold_the_curve(survival_model):
    line, low, high = curve_with_band(survival_model.curve_.everyone, 0)
    assert (low <= line).all()
    assert (line <= high).all()
    said = 1.0 - np.array(survival_model.curve_.marginal)
    assert (np.abs(line - said) < 0.1).all()


def test_the_page_shows_chances_over_time(survival_model, tmp_path):
    page = survival_model.report(tmp_path / "page.html").read_text()
    for words in ("Over time", "Numbers at risk", "Groups of risk", "Odds ratios", "years"):
        assert words in page
    assert '"survival":{"edges"' in page
    over_time = str(survival_section(survival_model))
    assert over_time.count('class="chip k') == 5  # groups of risk
    assert ": missing" not in over_time.partition("Odds ratios")[2]  # a bin without records
    assert page.count('class="calibration"') == 2
    assert "Over time" in survival_section(survival_model)
    assert "lowest risk (0-" in page
    assert all(f">{t}</text>" in page for t in ("5", "10", "15"))
    assert "up to 20 years" in survival_model.export(tmp_path / "card.md", "model-card").read_text()
    assert typical_deviation(survival_model.model_.noise) > 0.0


def test_pages_of_other_models_have_no_such_section(tmp_path):
    schema = hr.Schema({"age": (-5, 5)}, classes=("no", "yes"))
    labels = np.where(X["age"] > 0, "yes", "no")
    model = hr.BoostedTreesClassifier(schema, epsilon=5.0, n_estimators=2).fit(X[["age"]], labels)
    assert "Over time" not in model.report(tmp_path / "page.html").read_text()


# ---------------------------------------------------------------------------------------- exports
def test_python_gives_the_same_chances(survival_model, tmp_path):
    made: dict = {}
    exec(survival_model.export(tmp_path / "model.py", "python").read_text(), made)
    times = [0.0, 0.3, float(survival_model.unique_times_[1]), 7.7, 500.0]
    expected = survival_model.curve_.survival(survival_model.predict(X.head(20)), np.array(times))
    for row, said in zip(X.head(20).to_dict("records"), expected, strict=True):
        np.testing.assert_allclose([made["survival"](row, t) for t in times], said, atol=1e-12)


GIVEN_TIMES = pytest.mark.parametrize("times", [(), (0.0, 0.3, 7.7, 20.0)], ids=["own", "given"])


def expected_chances(model, times):
    """At the times that were given, or at the model's own; and these times."""
    times = times or tuple(model.unique_times_)
    return 1.0 - model.predict_proba_by(X.head(50), times), times


@GIVEN_TIMES
def test_sql_gives_the_same_chances(survival_model, tmp_path, times):
    connection = duckdb.connect()
    connection.register("records", X.head(50).assign(record_id=range(50)))
    text = survival_model.export(tmp_path / "model.sql", "sql", times).read_text()
    found = connection.execute(text).df().sort_values("record_id")
    np.testing.assert_allclose(found["risk"], survival_model.predict(X.head(50)), atol=1e-9)
    expected, times = expected_chances(survival_model, times)
    np.testing.assert_allclose(found[[f"s_{t:g}" for t in times]], expected, atol=1e-9)


def test_times_of_an_export_lie_within_the_horizon_and_are_of_survival(survival_model, tmp_path):
    with pytest.raises(ParameterError, match="the horizon"):
        survival_model.export(tmp_path / "model.sql", "sql", [21.0])
    tree = hr.TreeClassifier(hr.Schema({"x": (0, 1)}, classes=(0, 1)), epsilon=9.0, max_depth=1)
    with pytest.raises(ParameterError, match="leave them out"):
        tree.fit([[0.1], [0.9]] * 50, [0, 1] * 50).export(tmp_path / "model.sql", "sql", [0.5])


@GIVEN_TIMES
def test_onnx_gives_the_same_chances(survival_model, tmp_path, times):
    runtime = pytest.importorskip("onnxruntime")
    path = survival_model.export(tmp_path / "model.onnx", "onnx", times)
    session = runtime.InferenceSession(str(path))
    feeds = {
        one.name: X.head(50)[[one.name]].to_numpy(object if "string" in one.type else np.float64)
        for one in session.get_inputs()
    }
    survival, shown_times, risk = session.run(["survival", "times", "prediction"], feeds)
    np.testing.assert_allclose(risk[:, 0], survival_model.predict(X.head(50)), atol=1e-5)
    expected, times = expected_chances(survival_model, times)
    np.testing.assert_allclose(shown_times, times, rtol=1e-6)
    np.testing.assert_allclose(survival, expected, atol=1e-5)
