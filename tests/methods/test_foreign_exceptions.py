"""A user's mistake is answered by hedgerow's own error, which says what to do."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import hedgerow as hr
from hedgerow.errors import DataError, SpecError
from hedgerow.methods import model_file
from methods.test_scikit_learn_users import ROWS, fitted, labels, made

HUGE_AND_TINY = [10**400, 10**5000, 1e308, 2e6, Fraction(1, 10**400), 1e-300]


@pytest.mark.parametrize("name", ["privacy_", "classes_", "model_", "schema_", "ledger_"])
def test_what_fit_sets_says_before_it_that_fit_is_missing(name):
    model = made("texts")
    with pytest.raises(NotFittedError, match=f"not fitted yet, so it has no {name}; call fit"):
        getattr(model, name)
    assert not hasattr(model, name)
    with pytest.raises(AttributeError, match="no attribute 'privacy'"):
        model.privacy  # noqa: B018


@pytest.mark.parametrize("y", ["t", 1, b"t"], ids=repr)
def test_labels_named_by_a_text_are_asked_for_by_target(y):
    rows = ROWS.assign(t=labels("texts"))
    with pytest.raises(DataError, match=r"not a label for each row.*fit\(frame, target='...'\)"):
        made("texts").fit(rows, y)
    with pytest.raises(DataError, match="not a label for each row"):
        hr.evaluate(fitted("texts")[0], rows, y, epsilon=1.0)
    assert made("texts").fit(rows, target="t").score(ROWS, labels("texts")) > 0.9


@pytest.mark.parametrize("epsilon", HUGE_AND_TINY, ids=range(6))
def test_an_epsilon_beyond_all_use_is_refused_with_what_is_allowed(epsilon):
    with pytest.raises(SpecError, match=r"epsilon is .*; use a finite number above 0, from 1e-12"):
        made("texts", placement=None, epsilon=epsilon).fit(ROWS, labels("texts"))
    with pytest.raises(SpecError, match=r"epsilon is .*; use a finite number above 0, from 1e-12"):
        hr.evaluate(fitted("texts")[0], ROWS, labels("texts"), epsilon=epsilon)


@pytest.mark.parametrize("delta", [Fraction(1, 10**400), 1e-300, 1, Fraction(10**400)])
def test_a_delta_beyond_all_use_is_refused_with_what_is_allowed(delta):
    with pytest.raises(SpecError, match=r"delta is .*; use 0 for pure epsilon, or a public number"):
        made("texts", placement=None, delta=delta).fit(ROWS, labels("texts"))


@pytest.mark.parametrize("text", ["[" * 200_000, '{"format":' + "[" * 200_000], ids=len)
def test_a_model_file_of_brackets_is_no_model(text, tmp_path):
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(DataError, match="deeper than any model; give a file written by save"):
        hr.load(tmp_path / "m.json")


def of_texts(content):
    content["parameters"]["n_jobs"] = "x"


def of_huge_leaves(content):
    for tree in content["model"]["score"]["trees"]:
        tree["leaves"] = (np.ones_like(tree["leaves"]) * 1e308).tolist()


def of_a_huge_start(content):
    content["model"]["score"]["base"] = [1e308 for _ in content["model"]["score"]["base"]]


def of_nests(content):
    for _ in range(600):
        content["parameters"]["n_jobs"] = [content["parameters"].get("n_jobs")]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (of_texts, "n_jobs is 'x'; use a whole number"),
        (of_nests, r"n_jobs is \[\[.*; use a whole number"),
        (of_huge_leaves, r"beyond 1e\+100"),
        (of_a_huge_start, r"beyond 1e\+100"),
    ],
)
def test_a_model_file_of_what_no_fit_writes_is_refused(change, words, tmp_path):
    path = tmp_path / "m.json"
    fitted("texts")[0].save(path)
    content = model_file.read(path)
    change(content)
    model_file.write(path, content)
    with pytest.raises(DataError, match=words):
        hr.load(path)
