"""The officer's sheet: one A4 in a real browser, with the total of all studies and a QR code."""

from __future__ import annotations

import hashlib
import json
import math
import re
from importlib.resources import files

import numpy as np
import pytest
from typer.testing import CliRunner

import hedgerow as hr
from hedgerow.cli.main import app
from hedgerow.report.page.page import page_of
from hedgerow.report.page.sheet import LONGEST, SIDE, Context, qr_code, sheet_of
from support.browser import Watched, chromium, keep_shot

RUN = CliRunner()


def fitted(columns: int = 14, **more) -> hr.TreeClassifier:
    rng = np.random.default_rng(0)
    X = rng.uniform(0, 1, (400, columns))
    schema = hr.Schema(
        {f"a long name of column {j}": (0, 1) for j in range(columns)}, classes=(0, 1)
    )
    return hr.TreeClassifier(schema, epsilon=2.0, max_depth=2, **more).fit(X, X[:, 0] > 0.5)


def test_the_sheet_says_the_guarantee_the_ranges_the_digest_and_where_to_sign():
    model = fitted(3)
    text = sheet_of(model, Context(verdict="intact, unsigned"))
    for words in (
        "epsilon = 2", "Who confirmed which range", "0 to 1", "declared", "intact, unsigned",
        "Signature", model.model_.score.digest, "the model file names no ledger", "hold_out=5",
    ):  # fmt: skip
        assert words in text, words
    assert "<script" not in text


def test_a_range_says_who_confirmed_it_or_that_nobody_did():
    model = fitted(2)
    features = model.schema_.features
    from dataclasses import replace

    from hedgerow.schema.features import Mark

    marks = (Mark("Dr. Weber", "2026-11-18"), Mark())
    model.schema_ = replace(
        model.schema_,
        features=tuple(replace(f, mark=m) for f, m in zip(features, marks, strict=True)),
    )
    text = sheet_of(model, Context())
    assert "Dr. Weber, 2026-11-18" in text
    assert "nobody: no guarantee" in text


def test_the_lifetime_total_is_that_of_all_fits_of_the_ledger(tmp_path):
    ledger = hr.Ledger(tmp_path / "ledger", epsilon=9.0)
    fitted(2, ledger=ledger).save(tmp_path / "model.json")
    fitted(2, ledger=ledger)
    words = ["report", str(tmp_path / "model.json"), "--sheet", "-o", str(tmp_path / "s.html")]
    done = RUN.invoke(app, [*words, "--ledger", str(tmp_path / "ledger")], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    text = (tmp_path / "s.html").read_text(encoding="utf-8")
    assert "epsilon = 4" in text  # both fits
    assert "epsilon = 2" in text  # this one
    assert "intact, unsigned" in text
    assert "is read by this command" in str(
        RUN.invoke(app, [*words[:-1], str(tmp_path / "model.json")]).exception
    )


def test_the_report_says_first_what_an_officer_asks():
    text = page_of(fitted(2))
    places = [text.index(f'<section id="{name}"') for name in
              ("guarantee", "evaluation", "columns", "tree", "why", "spent")]  # fmt: skip
    assert places == sorted(places)
    assert "hold_out=5" in text  # how to get an evaluation


@pytest.mark.browser
@pytest.mark.parametrize("columns", [2, 14])
def test_it_is_one_page_of_a4_and_accessible(tmp_path, columns):
    axe = pytest.importorskip("axe_core_python.sync_playwright").Axe()
    context = Context([(f"study {k}", "epsilon 1 at delta 1e-6") for k in range(6)], "valid " * 12)
    (tmp_path / "sheet.html").write_text(sheet_of(fitted(columns), context), encoding="utf-8")
    with chromium() as browser:
        watched = Watched(browser, (tmp_path / "sheet.html").as_uri())
        content = watched.page.pdf(prefer_css_page_size=True)
        found = axe.run(watched.page)["violations"]
        keep_shot(watched.page, f"sheet-{columns}")
    assert re.findall(rb"/Type /Page\b[^s]", content) != []
    assert len(re.findall(rb"/Type /Page\b(?!s)", content)) == 1
    assert [one["id"] for one in found] == []
    assert watched.complaints == []


# --------------------------------------------------------------------------------------------- QR
def test_a_code_is_the_one_that_a_second_program_reads():
    """Of this text a reader (zxing) was shown the code; where it is installed it reads others."""
    code = qr_code("sha256:" + "ab" * 32)
    content = bytes(cell for row in code for cell in row)
    assert hashlib.sha256(content).hexdigest() == VECTOR
    reader = pytest.importorskip("zxingcpp")
    for text in ("", "hedgerow", "x" * LONGEST, "é" * 20):
        picture = np.kron(
            np.pad(~np.array(qr_code(text)), 4, constant_values=True), np.ones((6, 6))
        )
        (found,) = reader.read_barcodes((picture * 255).astype(np.uint8))
        assert found.text == text


VECTOR = "045839ddc5cc4af2b9b3cda88ac1c14d77cd16ba3f3eb77cdbf6ac24f9669a19"


def test_a_code_has_its_marks_and_a_text_that_is_too_long_is_refused():
    code = np.array(qr_code("hedgerow"))
    assert code.shape == (SIDE, SIDE)
    assert code[0, :7].all()
    assert not code[7, :8].any()
    assert 0.4 < code.mean() < 0.6
    assert (np.array(qr_code("hedgerox")) != code).sum() > math.isqrt(SIDE)
    with pytest.raises(ValueError, match="84 bytes"):
        qr_code("x" * (LONGEST + 1))


# ---------------------------------------------------------------------------------- in a notebook
@pytest.mark.browser
def test_a_report_without_a_path_is_shown_inline_and_touches_nothing_outside(tmp_path):
    axe = pytest.importorskip("axe_core_python.sync_playwright").Axe()
    model = fitted(2)
    inline = model.report()
    assert "model.report(path)" in repr(inline)
    shown = [inline, hr.importances(model), hr.compare_models(model, model), model.privacy_]
    cells = "".join(one._repr_html_() for one in shown)
    outer = (
        '<!doctype html><html lang="en"><title>n</title><body><main><h1>Notebook</h1>'
        f"{cells}</main></body>"
    )
    (tmp_path / "notebook.html").write_text(outer, encoding="utf-8")
    with chromium() as browser:
        watched = Watched(browser, (tmp_path / "notebook.html").as_uri())
        frame = watched.page.frame_locator("iframe")
        frame.locator("#guarantee").wait_for(state="attached")
        frame.locator("#tree-view *").first.wait_for(state="attached")  # its script has run
        inner = watched.page.frames[1]
        inner.evaluate(files("axe_core_python").joinpath("axe.min.js").read_text("utf-8"))
        for tab, panel in (("How good", "#evaluation"), ("Columns", "#columns")):
            frame.get_by_role("tab", name=tab).click()
            frame.locator(panel).wait_for(state="visible")
            assert not frame.locator("#guarantee").is_visible()  # one at a time
            assert [one["id"] for one in inner.evaluate("axe.run()")["violations"]] == []
        frame.get_by_role("tab", name="Columns").press("ArrowRight")
        assert frame.get_by_role("tab", selected=True).count() == 1
        keep_shot(watched.page, "notebook")
        assert watched.page.locator("iframe").get_attribute("title")
        watched.page.evaluate("document.querySelector('iframe').remove()")  # a closed origin
        found = axe.run(watched.page)["violations"]
    assert found == []
    assert watched.complaints == []
    assert model.report(tmp_path / "page.html").read_text(encoding="utf-8") == inline.html


def test_the_budget_as_a_table_adds_up():
    statement = fitted(2).privacy_
    frame = statement.to_frame()
    assert list(frame.columns) == ["rounds", "what", "part", "records"]
    trained = frame[frame["records"] == "training"]["part"].sum()
    assert trained == pytest.approx(statement.spent_fraction)


def test_two_models_stand_side_by_side_in_a_notebook_and_on_a_terminal(tmp_path):
    first, second = fitted(2), fitted(2)
    rows = np.random.default_rng(1).uniform(0, 1, (200, 2))
    second.keep(hr.evaluate(second, rows, rows[:, 0] > 0.5, epsilon=10.0))
    comparison = hr.compare_models(first, second, names=("old", "<new>"))
    frame = comparison.to_frame()
    assert list(frame.columns) == ["old", "<new>"]
    assert frame.loc["guarantee"].tolist() == [m.privacy_.summary for m in (first, second)]
    assert "<new>" not in comparison._repr_html_()
    assert str(comparison).splitlines()[0].split() == ["old", "<new>"]
    looks = [index for index in frame.index if index.startswith("looks at")]
    assert looks
    assert frame.loc["auc", "old"] == "-"
    assert frame.loc["auc", "<new>"] == str(second.evaluation_["auc"])
    with pytest.raises(hr.ParameterError, match="give two models or more"):
        hr.compare_models(first)
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path, model in zip(paths, (first, second), strict=True):
        model.save(path)
    told = CliRunner().invoke(app, ["compare", *map(str, paths), "--json"])
    assert json.loads(told.stdout)["guarantee"] == frame.loc["guarantee"].tolist()
