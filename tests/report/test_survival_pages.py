"""Measures of survival from one table, what the page draws, and exports of chances over time."""

from __future__ import annotations

from dataclasses import replace

import duckdb
import numpy as np
import pytest

import hedgerow as hr
from hedgerow.models.survival import RiskTable, concordance
from hedgerow.report.page.over_time import survival_section, typical_deviation
from hedgerow.report.survival import (
    calibration_at,
    curve_with_band,
    evaluation_grid,
    survival_measures,
)
from methods.test_survival import SCHEMA, X, Y


@pytest.fixture(scope="module")
def fitted():
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


def test_the_table_tells_concordance_and_calibration(fitted):
    measures, bins = survival_measures(counted(fitted), fitted.curve_, 0.95)
    truth = concordance(fitted.predict(X), SIGNED)
    assert abs(measures["grouped_c_index"].value - truth) < 0.02
    assert measures["grouped_c_index"].low < measures["grouped_c_index"].high
    far = [b for b in bins if abs(b.share.value - b.low) > 0.15]
    assert len(bins) > 5
    assert len(far) <= 1


def test_a_model_that_ranks_backwards_would_be_seen(fitted):
    """Twin."""
    table = counted(fitted)
    turned = replace(table, counts=tuple(table.table[::-1].ravel().tolist()))
    measures, _ = survival_measures(turned, fitted.curve_, 0.95)
    assert measures["grouped_c_index"].value < 0.4
    right, _ = survival_measures(table, fitted.curve_, 0.95)
    assert measures["integrated_brier"].value > right["integrated_brier"].value + 0.05


def test_noise_widens_intervals_and_hides_small_groups(fitted):
    clear, noisy = (counted(fitted, deviation) for deviation in (0.001, 15.0))
    narrow, wide = (survival_measures(one, fitted.curve_, 0.95)[0] for one in (clear, noisy))
    for name in narrow:
        assert wide[name].high - wide[name].low > narrow[name].high - narrow[name].low
    hidden = survival_measures(counted(fitted, 1e6), fitted.curve_, 0.95)[0]
    assert all(np.isnan(one.value) for one in hidden.values())
    assert len(calibration_at(noisy, fitted.curve_, 1, 0.95)) < len(
        calibration_at(clear, fitted.curve_, 1, 0.95)
    )


def test_bands_hold_the_curve(fitted):
    line, low, high = curve_with_band(fitted.curve_.everyone, 0)
    assert (low <= line).all()
    assert (line <= high).all()
    said = 1.0 - np.array(fitted.curve_.marginal)
    assert (np.abs(line - said) < 0.1).all()


def test_the_page_shows_chances_over_time(fitted, tmp_path):
    page = fitted.report(tmp_path / "page.html").read_text()
    for words in ("Over time", "Numbers at risk", "Groups of risk", "Odds ratios", "years"):
        assert words in page
    assert '"survival":{"edges"' in page
    assert page.count('class="calibration"') == 2
    assert "Over time" in survival_section(fitted)
    assert typical_deviation(fitted.model_.noise) > 0.0


def test_pages_of_other_models_have_no_such_section(tmp_path):
    schema = hr.Schema({"age": (-5, 5)}, classes=("no", "yes"))
    labels = np.where(X["age"] > 0, "yes", "no")
    model = hr.BoostedTreesClassifier(schema, epsilon=5.0, n_estimators=2).fit(X[["age"]], labels)
    assert "Over time" not in model.report(tmp_path / "page.html").read_text()


# ---------------------------------------------------------------------------------------- exports
def test_python_gives_the_same_chances(fitted, tmp_path):
    made: dict = {}
    exec(fitted.export(tmp_path / "model.py", "python").read_text(), made)
    times = [0.0, 0.3, float(fitted.unique_times_[1]), 7.7, 500.0]
    expected = fitted.curve_.survival(fitted.predict(X.head(20)), np.array(times))
    for row, said in zip(X.head(20).to_dict("records"), expected, strict=True):
        np.testing.assert_allclose([made["survival"](row, t) for t in times], said, atol=1e-12)


def test_sql_gives_the_same_chances(fitted, tmp_path):
    connection = duckdb.connect()
    connection.register("records", X.head(200).assign(record_id=range(200)))
    text = fitted.export(tmp_path / "model.sql", "sql").read_text()
    found = connection.execute(text).df().sort_values("record_id")
    np.testing.assert_allclose(found["risk"], fitted.predict(X.head(200)), atol=1e-9)
    names = [f"s_{t:g}" for t in fitted.unique_times_]
    expected = fitted.predict_survival_function(X.head(200), return_array=True)
    np.testing.assert_allclose(found[names], expected, atol=1e-9)


def test_onnx_gives_the_same_chances(fitted, tmp_path):
    runtime = pytest.importorskip("onnxruntime")
    path = fitted.export(tmp_path / "model.onnx", "onnx")
    session = runtime.InferenceSession(str(path))
    feeds = {
        one.name: X.head(50)[[one.name]].to_numpy(object if "string" in one.type else np.float64)
        for one in session.get_inputs()
    }
    survival, times, risk = session.run(["survival", "times", "prediction"], feeds)
    np.testing.assert_allclose(risk[:, 0], fitted.predict(X.head(50)), atol=1e-5)
    np.testing.assert_allclose(times, fitted.unique_times_)
    expected = fitted.predict_survival_function(X.head(50), return_array=True)
    np.testing.assert_allclose(survival, expected, atol=1e-5)
