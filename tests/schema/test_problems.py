"""In a notebook: tables of released numbers, every text escaped, long ones counted."""

from __future__ import annotations

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.errors import SpecError
from hedgerow.schema.problems import MOST_LINES, html_table
from support.worlds import TWO, sample

X, Y = sample(300, TWO)


@pytest.fixture(scope="module")
def model():
    return hr.HistogramTreeClassifier(TWO, epsilon=5.0, max_depth=2).fit(X, Y)


def test_results_of_a_fit_are_tables_in_a_notebook(model):
    evaluated = hr.evaluate(model, X, Y, epsilon=5.0)
    for shown in (model.privacy_, model.run_, model.ledger_, model.data_report_, evaluated):
        html = shown._repr_html_()
        assert html.startswith("<details")
        assert html.count("<tr>") > 0
        assert "\n" not in repr(shown) or shown is model.data_report_


def test_texts_are_escaped_and_long_tables_count_the_rest():
    html = html_table("<b>", [("<script>", "x")] * (MOST_LINES + 3))
    assert "<script>" not in html
    assert "... 3 more" in html


# ---- manners of scikit-learn ---------------------------------------------------------------------


def test_weights_of_classes_are_refused_with_a_reason():
    with pytest.raises(SpecError, match=r"influence beyond the bound.*multiply predict_proba"):
        hr.TreeClassifier(TWO, class_weight="balanced")
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        hr.TreeClassifier(TWO, clas_weight=None)


def test_log_probabilities_are_those_of_the_probabilities(model):
    logs = model.predict_log_proba(X)
    assert np.exp(logs) == pytest.approx(model.predict_proba(X))
