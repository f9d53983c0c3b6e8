"""A model over HTTP: what it answers, what it refuses, what it bounds, and what a kill leaves."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

import hedgerow as hr
from hedgerow.cli.demo import SCHEMA, patients
from hedgerow.deployment import model_server
from hedgerow.deployment.model_server import ModelServer, openapi, serve
from hedgerow.errors import DataError
from support.effort import LONG, either
from support.faults import free_port

pytestmark = pytest.mark.network
ROOT = Path(__file__).parents[2]
ROW = {"age": 64, "earlier stays": 2, "ward": "heart"}


@pytest.fixture(scope="module")
def rows():
    return patients(600, np.random.default_rng(0))


@pytest.fixture(scope="module")
def model(rows):
    return hr.TreeClassifier(SCHEMA, epsilon=4.0, max_depth=3, random_state=0).fit(*rows)


@pytest.fixture
def served(model):
    stop, port, ready = threading.Event(), [0], threading.Event()

    def listen(found: int) -> None:
        port[0] = found
        ready.set()

    thread = threading.Thread(target=serve, args=(model, "127.0.0.1", 0, listen, stop))
    thread.start()
    assert ready.wait(LONG)
    yield f"http://127.0.0.1:{port[0]}"
    stop.set()
    thread.join(LONG)
    assert not thread.is_alive()


def call(url: str, content: object = None) -> tuple[int, dict]:
    body = (
        content if isinstance(content, bytes) or content is None else json.dumps(content).encode()
    )
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=LONG) as reply:
            return reply.status, json.loads(reply.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read() or b"{}")


def as_row(values) -> dict:
    return dict(zip(SCHEMA.names, values, strict=True))


def test_answers_are_those_of_predict_one_by_one_and_in_a_batch_with_the_digest(
    served, model, rows
):
    X = rows[0][:100]
    sent = [as_row(values) for values in X.tolist()]
    status, batch = call(f"{served}/v1/predict", {"rows": sent})
    assert status == 200
    assert batch["model"] == model.model_.score.digest
    expected = model.predict_proba(X)
    names = [str(name) for name in model.classes_]
    found = [[one["probabilities"][name] for name in names] for one in batch["predictions"]]
    assert np.array_equal(np.array(found), expected)  # to the bit, through JSON
    assert [one["prediction"] for one in batch["predictions"]] == model.predict(X).tolist()
    for k in (0, 7):
        status, single = call(f"{served}/v1/predict", {"row": sent[k]})
        assert (status, single) == (200, {"model": batch["model"], **batch["predictions"][k]})
    assert call(f"{served}/v1/predict", {"rows": []}) == (
        200, {"model": batch["model"], "predictions": []},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"row": {"agee": 3}}, "['agee'], which the model does not know"),
        ({"row": {"age": "old"}}, "column 'age': 'old' is not a number"),
        ({"row": {"age": [3]}}, "column 'age' holds list"),
        ({"row": 3}, "row 0 is int"),
        ({"rows": [{}, None]}, "row 1 is NoneType"),
        ({"rows": {}}, "send {"),
        ({"row": {}, "rows": []}, "send {"),
        ({}, "send {"),
        (b"{", "Expecting"),
        (b"\xff", "decode"),
        (b"[" * 5000, ""),
    ],
)
def test_what_does_not_fit_is_refused_with_its_place(served, model, content, words):
    status, found = call(f"{served}/v1/predict", content)
    assert status == 422
    assert words in found["error"]
    assert found["model"] == model.model_.score.digest


def test_values_outside_the_schema_are_named(served):
    _, found = call(f"{served}/v1/predict", {"row": ROW | {"age": 200, "ward": "moon"}})
    assert found["outside_schema"] == ["age", "ward"]
    _, found = call(f"{served}/v1/predict", {"row": ROW | {"drugs": None}})
    assert "outside_schema" not in found


def test_a_batch_and_a_body_have_a_ceiling(served, monkeypatch):
    monkeypatch.setattr(model_server, "MOST_BODY_ROWS", 3)
    status, found = call(f"{served}/v1/predict", {"rows": [ROW] * 4})
    assert (status, "4 rows are too many" in found["error"]) == (422, True)
    big = b'{"row": "' + b"x" * (model_server.MOST_BODY_BYTES + 1) + b'"}'
    with suppress(urllib.error.URLError, OSError):  # cut off while it still sends
        assert call(f"{served}/v1/predict", big)[0] == 413


def test_too_many_at_a_time_are_sent_away_and_told_to_come_again(model, monkeypatch):
    monkeypatch.setattr(model_server, "MOST_WAITING", 0)

    async def ask():
        return await ModelServer(model).answer(None)

    reply = asyncio.run(ask())
    assert (reply.status, reply.headers["Retry-After"]) == (503, "1")


def test_one_connection_too_many_is_ended_and_others_go_on(served, monkeypatch):
    monkeypatch.setattr(model_server, "MOST_CONNECTIONS", 4)
    host, port = served.removeprefix("http://").split(":")
    held = [socket.create_connection((host, int(port)), 10) for _ in range(6)]
    try:
        held[-1].settimeout(30)
        with suppress(ConnectionResetError):
            assert held[-1].recv(1) == b""
        held[0].sendall(b"GET /health HTTP/1.0\r\n\r\n")
        assert b"200 OK" in held[0].recv(1000)
    finally:
        for line in held:
            line.close()


def test_health_metrics_and_description(served, model):
    assert call(f"{served}/health")[1]["model"] == model.model_.score.digest
    call(f"{served}/v1/predict", {"rows": [ROW] * 3})
    call(f"{served}/v1/predict", {"row": {"x": 1}})
    with urllib.request.urlopen(f"{served}/metrics", timeout=LONG) as reply:
        text = reply.read().decode()
    for line in ("requests_total 2", "rows_total 3", "refused_total 1", "waiting 0"):
        assert f"\nhedgerow_model_{line}\n" in f"\n{text}"
    assert "# TYPE hedgerow_model_rows_total counter" in text
    described = call(f"{served}/openapi.json")[1]
    assert described == openapi(ModelServer(model))


def test_what_is_described_is_what_is_answered(served, model):
    jsonschema = pytest.importorskip("jsonschema")
    post = openapi(ModelServer(model))["paths"]["/v1/predict"]["post"]
    asked = post["requestBody"]["content"]["application/json"]["schema"]
    told = post["responses"]["200"]["content"]["application/json"]["schema"]["oneOf"]
    jsonschema.validate({"row": ROW}, asked)
    for content, form in (({"row": ROW}, told[0]), ({"rows": [ROW]}, told[1])):
        jsonschema.validate(call(f"{served}/v1/predict", content)[1], form)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"row": {"agee": 1}}, asked)


def test_raw_cells_are_read_by_the_schema_s_parsers():
    """Two features of one column, a decimal comma, words for true: as `predict` reads them."""
    date = {"kind": "date", "since": "2020-01-01", "format": "%d.%m.%Y"}
    schema = hr.Schema(
        (
            hr.Numeric("paid", 0, 1000, parse={"kind": "money", "decimal": ","}, missing=["?"]),
            hr.Numeric("days", 0, 700, column="visit", parse=date),
            hr.Numeric("month", 1, 13, column="visit", parse={**date, "part": "month"}),
            hr.Categorical("smokes", (False, True), other=False, parse="boolean"),
        ),
        classes=("no", "yes"),
    )
    rng = np.random.default_rng(0)
    paid, day, smokes = rng.uniform(0, 999, 900), rng.integers(1, 29, 900), rng.random(900) < 0.5
    X = np.array(
        [[f"{p:.2f} EUR".replace(".", ","), f"{d:02}.0{d % 9 + 1}.2020", "Y" if s else "no"]
         for p, d, s in zip(paid, day, smokes, strict=True)], dtype=object,
    )  # fmt: skip
    model = hr.TreeClassifier(schema, epsilon=50.0, random_state=0)
    model.fit(X, np.where((paid > 500) | smokes, "yes", "no"))
    server = ModelServer(model)
    sent = [dict(zip(schema.columns, row, strict=True)) for row in X[:40].tolist()]
    answers = server.predict(sent)
    found = [[one["probabilities"][c] for c in ("no", "yes")] for one in answers]
    np.testing.assert_array_equal(found, model.predict_proba(X[:40]))
    assert [server.predict([row])[0] for row in sent[:3]] == answers[:3]
    assert server.predict([{**sent[0], "paid": "1.200,00 EUR"}])[0]["outside_schema"] == ["paid"]
    assert "outside_schema" not in server.predict([{**sent[0], "paid": "?"}])[0]
    with pytest.raises(DataError, match="cannot be read"):
        server.predict([{**sent[0], "paid": "a lot"}])
    described = openapi(server)["paths"]["/v1/predict"]["post"]["requestBody"]
    row = described["content"]["application/json"]["schema"]["oneOf"][0]["properties"]["row"]
    assert set(row["properties"]) == {"paid", "visit", "smokes"}


def test_numbers_are_served_as_predict_gives_them():
    X = np.random.default_rng(0).uniform(0, 1, (300, 2))
    schema = hr.Schema({"a": (0, 1), "b": (0, 1)}, target=(0, 2))
    model = hr.TreeRegressor(schema, epsilon=4.0, max_depth=2).fit(X, X.sum(axis=1))
    answers = ModelServer(model).predict([{"a": a, "b": b} for a, b in X[:5].tolist()])
    assert [one["prediction"] for one in answers] == model.predict(X[:5]).tolist()


# ----------------------------------------------------------------------------- killed and restarted
def start(file: Path, port: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from hedgerow.cli.main import entry; entry()", "serve"]
    process = subprocess.Popen(
        [*command, str(file), "--listen", f"127.0.0.1:{port}"],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip
    assert "serving" in process.stdout.readline()
    return process


def test_killed_under_load_and_started_again_it_answers_the_same(model, tmp_path):
    model.save(tmp_path / "model.json")
    port, stop, kills = free_port(), threading.Event(), either(1, 2)
    url, right, wrong = f"http://127.0.0.1:{port}/v1/predict", [], []
    expected = ModelServer(model).predict([ROW])[0]

    def ask() -> None:
        while not stop.is_set():
            try:
                status, found = call(url, {"row": ROW})
            except (OSError, ValueError):
                stop.wait(0.02)  # it is down: nothing, or half of an answer, is no answer
                continue
            same = status == 200 and found == {"model": model.model_.score.digest, **expected}
            (right if same else wrong).append(found)

    process = start(tmp_path / "model.json", port)
    callers = [threading.Thread(target=ask) for _ in range(3)]
    for caller in callers:
        caller.start()
    try:
        for _ in range(kills):
            before = len(right)
            while len(right) < before + 20:
                stop.wait(0.01)
            process.kill()
            process.communicate()
            process = start(tmp_path / "model.json", port)
        before = len(right)
        while len(right) < before + 20:
            stop.wait(0.01)
    finally:
        stop.set()
        for caller in callers:
            caller.join()
        process.send_signal(signal.SIGTERM)
        assert process.wait(LONG) == 0
        process.stdout.close()
    assert wrong == []
    assert len(right) >= 20 * (kills + 1)
