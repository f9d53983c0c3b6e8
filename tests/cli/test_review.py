"""The page on which a person confirms a schema: nothing by default, everything by name and day."""

from __future__ import annotations

import datetime
import json
import threading
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.resources import files
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

import hedgerow as hr
from hedgerow.cli.main import app
from hedgerow.cli.review import OUTCOME, Review, ReviewServer, mark_reviewed
from hedgerow.data.schema_draft import diagnose
from support.browser import Watched, chromium, keep_shot

ROWS = "record,Age,paid,ward,y\n" + "".join(
    f'R{k:04d},{-999 if k % 9 == 0 else 20 + k % 60},"€{k},5",{"ns"[k % 2]},{["no", "yes"][k % 2]}'
    "\n"
    for k in range(90)
)
TODAY = "2026-01-31"


@pytest.fixture
def review(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Review:
    clock = SimpleNamespace(today=lambda: datetime.date.fromisoformat(TODAY))
    monkeypatch.setattr("hedgerow.cli.review.datetime", SimpleNamespace(date=clock))
    (tmp_path / "rows.csv").write_text(ROWS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        diagnosis = diagnose(tmp_path / "rows.csv", "y")
    (tmp_path / "schema.toml").write_text(diagnosis.to_toml())
    return Review(tmp_path / "schema.toml", diagnosis.findings)


@contextmanager
def served(review: Review) -> Iterator[tuple[str, list[list[str]]]]:
    told: list[list[str]] = []
    server = ReviewServer(review, told.append)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.address, told
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def sent(address: str, content: Any) -> tuple[int, Any]:
    request = urllib.request.Request(address, json.dumps(content).encode(), method="POST")
    try:
        with urllib.request.urlopen(request) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_an_empty_answer_confirms_nothing(review) -> None:
    everything = review.schema.unconfirmed
    empty = {name: {"value": " ", "source": ""} for name in [*review.schema.names, OUTCOME]}
    assert mark_reviewed(review.schema, empty, "A. Huber", TODAY).unconfirmed == everything
    assert mark_reviewed(review.schema, {}, "A. Huber", TODAY).unconfirmed == everything
    assert review.confirm(empty, "A. Huber") == everything


def confirm_typing(path: Path, typed: str, *more: str) -> list[str]:
    """What is still open after these keys at the terminal."""
    line = ["schema", "confirm", str(path), "--by", "A. Huber", *more]
    done = CliRunner().invoke(app, line, input=typed, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return hr.Schema.from_toml(path).unconfirmed


def test_a_terminal_has_the_rule_of_the_page(review) -> None:
    """Enter alone confirms nothing; it names a source that stands on the command line."""
    everything = review.schema.unconfirmed
    assert confirm_typing(review.path, "\n" * 40) == everything
    assert confirm_typing(review.path, "-\n" * 40, "--source", "codebook") == everything
    assert confirm_typing(review.path, "source: WHO\n" + "\n" * 40) == everything[1:]
    assert confirm_typing(review.path, "\n" * 40, "--source", "codebook") == []
    sources = [mark.source for mark in hr.Schema.from_toml(review.path).marks.values()]
    assert (sources[0], set(sources[1:])) == ("WHO", {"codebook"})


def test_a_typed_value_and_a_named_source_confirm_their_own_column_alone(review) -> None:
    answers = {"Age": {"source": "WHO"}, "paid": {"value": "0 1000"}, OUTCOME: {"value": "no, yes"}}
    assert review.confirm(answers, "A. Huber") == ["column 'ward'"]
    schema = hr.Schema.from_toml(review.path)
    age, paid, _ = schema.features
    assert age.mark == hr.Mark("A. Huber", TODAY, "WHO")
    assert (age.low, age.high) == (0.0, 120.0)
    assert (paid.low, paid.high) == (0.0, 1000.0)
    assert paid.mark == schema.classes_mark == hr.Mark("A. Huber", TODAY)
    assert 'source = "WHO"' in review.path.read_text()


def test_what_was_confirmed_before_is_not_confirmed_again(review) -> None:
    review.confirm({"Age": {"value": "0 110"}}, "A. Huber")
    review.confirm({"Age": {"value": "0 99"}, OUTCOME: {"value": "no, yes"}}, "B. Maier")
    review.confirm({OUTCOME: {"value": "yes, no"}}, "C. Mayr")
    assert review.schema.features[0].high == 110.0
    assert review.schema.classes == ("no", "yes")


def test_the_server_refuses_strangers_mistakes_and_a_changed_file(review) -> None:
    with served(review) as (address, told):
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(address.rsplit("/", 2)[0] + "/")
        assert sent(address, {"answers": {}, "by": " "})[0] == 400
        assert sent(address, ["no answer"]) == (400, {"error": "this is no answer"})
        code, said = sent(address, {"answers": {"Age": {"value": "wide"}}, "by": "me"})
        assert code == 400
        assert "is no range" in said["error"]
        review.path.write_text(review.path.read_text() + "\n")
        code, said = sent(address, {"answers": {"Age": {"value": "0 9"}}, "by": "me"})
        assert "was changed meanwhile" in said["error"]
        assert told == []


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_person_reviews_in_a_browser_and_enter_confirms_nothing(review, scheme, tmp_path) -> None:
    pytest.importorskip("axe_core_python")
    script = files("axe_core_python").joinpath("axe.min.js").read_text("utf-8")
    with served(review) as (address, told), chromium() as browser:
        watched = Watched(browser, address, color_scheme=scheme)
        page = watched.page
        page.goto(address)
        assert _axe(browser, address, script, scheme) == []
        keep_shot(page, f"review-{scheme}")
        assert "another value in every row" in page.inner_text("main")
        for field in page.locator("input").all():
            field.press("Enter")
        page.fill("#by", "A. Huber")
        with page.expect_event("load"):  # or what is filled in next would be lost with the page
            page.click("#confirm")
        assert len(review.schema.unconfirmed) == 4
        page.click("section[data-key=Age] button")
        page.fill("section[data-key=paid] [name=value]", "0 1000")
        page.fill("section[data-key=ward] [name=value]", "n, s")
        page.fill("section[data-key=''] [name=source]", "the study's protocol")
        page.fill("#by", "A. Huber")
        page.click("#confirm")
        page.locator("#result", has_text="All").wait_for()
        assert told[-1] == []
        assert watched.complaints == []
    schema = hr.Schema.from_toml(review.path)
    assert schema.unconfirmed == []
    assert {mark.confirmed_by for mark in schema.marks.values()} == {"A. Huber"}


def _axe(browser: Any, address: str, script: str, scheme: str) -> list[Any]:
    """In a context that may run another script than the page's own."""
    context = browser.new_context(bypass_csp=True, color_scheme=scheme)
    page = context.new_page()
    page.goto(address)
    page.evaluate(script)
    found = page.evaluate("axe.run()")["violations"]
    context.close()
    return [(v["id"], [n["html"][:200] for n in v["nodes"][:3]]) for v in found]
