"""`hedgerow serve`: a model over HTTP, for programs that send rows and read predictions.

    POST /v1/predict     {"row": {...}} or {"rows": [{...}, ...]}: predictions, the model's digest
    GET  /health         the digest, while the process serves
    GET  /metrics        Prometheus text
    GET  /openapi.json   all of this for programs, with the columns of the model's schema

A column that a row leaves out is missing, like an empty cell. An unknown column, and a text in a
numeric column, are refused with the column's name; numbers outside their range and unknown
categories are read as `predict` reads them, and the answer names their columns. Memory and time are
bounded: numbers of connections and requests, bytes and rows per request, and seconds. Predicting
spends nothing: the model file has noisy numbers only.
"""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from hedgerow.deployment.live import metrics_text
from hedgerow.errors import EngineLost, HedgerowError, ParameterError
from hedgerow.methods.base import PrivateEstimator
from hedgerow.methods.predicting import outputs
from hedgerow.schema.grids import ColumnKind, Grid
from hedgerow.schema.tokens import token_of
from hedgerow.version import __version__

if TYPE_CHECKING:
    from aiohttp import web

MOST_BODY_BYTES = 1 << 22
MOST_BODY_ROWS = 10_000
MOST_CONNECTIONS = 512
MOST_WAITING = 256
"""Requests at a time; more are refused, to be repeated."""
BODY_SECONDS, ANSWER_SECONDS = 10.0, 30.0
AT_ONCE = 32
"""Rows of a request that are answered in the event loop; more go to a thread."""


class ModelServer:
    """One model, and counts of its requests."""

    def __init__(self, model: PrivateEstimator) -> None:
        self.model, self.digest = model, model.model_.score.digest
        self._names = frozenset(model.schema_.columns)
        self._order = model.schema_.columns
        self._grids = model.schema_.grids
        self.classes = None if model.schema_.classes is None else [str(c) for c in model.classes_]
        self.counts = dict.fromkeys(("requests", "rows", "refused", "busy"), 0)
        self.seconds = 0.0
        self._waiting = 0
        self._one_batch = asyncio.Lock()

    def predict(self, rows: list[Any]) -> list[dict[str, Any]]:
        """An answer for each row; raises for the first row that is invalid."""
        table = np.array([self._values(row, k) for k, row in enumerate(rows)], dtype=object)
        table = table.reshape(len(rows), len(self._order))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # clamped values are part of the answer
            return self._answers(table, rows)

    def _values(self, row: Any, number: int) -> list[Any]:
        if not isinstance(row, dict):
            raise ParameterError(f"row {number} is {type(row).__name__}; send an object by names.")
        if not self._names.issuperset(row):
            strange = sorted(set(row) - self._names)
            raise ParameterError(
                f"row {number} has the columns {strange}, which the model does not know; it reads "
                f"{list(self._order)}."
            )
        for name, value in row.items():
            if isinstance(value, dict | list):
                raise ParameterError(
                    f"row {number}, column {name!r} holds {type(value).__name__}; send a number, "
                    "a text or null."
                )
        return [row.get(name) for name in self._order]

    def _answers(self, table: Any, rows: list[Any]) -> list[dict[str, Any]]:
        chances = outputs(self.model.model_, table, self.model.schema_)
        answers = []
        for row, chance in zip(rows, chances.tolist(), strict=True):
            answer: dict[str, Any] = {"prediction": chance[0]}
            if self.classes is not None:
                name = self.classes[int(np.argmax(chance))]
                probabilities = dict(zip(self.classes, chance, strict=True))
                answer = {"prediction": name, "probabilities": probabilities}
            outside = [g.feature for g in self._grids if is_outside(row.get(g.source), g)]
            answers.append(answer | ({"outside_schema": outside} if outside else {}))
        return answers

    async def answer(self, request: web.Request) -> web.Response:
        """POST /v1/predict."""
        from aiohttp.web import HTTPRequestEntityTooLarge

        self.counts["requests"] += 1
        if self._waiting >= MOST_WAITING:
            self.counts["busy"] += 1
            return self._refusal(503, f"{MOST_WAITING} requests wait; come again", retry=True)
        self._waiting += 1
        start = time.perf_counter()
        try:
            return await self._answer(request)
        except (HedgerowError, ValueError, RecursionError) as error:
            return self._refusal(422, str(error))
        except HTTPRequestEntityTooLarge:
            return self._refusal(413, f"send at most {MOST_BODY_BYTES} bytes at a time")
        except TimeoutError:
            return self._refusal(503, "it took too long; send fewer rows", retry=True)
        finally:
            self._waiting -= 1
            self.seconds += time.perf_counter() - start

    async def _answer(self, request: web.Request) -> web.Response:
        async with asyncio.timeout(BODY_SECONDS):
            content = json.loads(await request.read())
        kinds = set(content) if isinstance(content, dict) else set()
        if kinds not in ({"row"}, {"rows"}) or not isinstance(content.get("rows", []), list):
            raise ParameterError('send {"row": {...}} or {"rows": [{...}, ...]}.')
        rows = content["rows"] if "rows" in content else [content["row"]]
        if len(rows) > MOST_BODY_ROWS:
            raise ParameterError(f"{len(rows)} rows are too many; send at most {MOST_BODY_ROWS}.")
        if len(rows) > AT_ONCE:
            async with asyncio.timeout(ANSWER_SECONDS), self._one_batch:
                answers = await asyncio.to_thread(self.predict, rows)
        else:
            answers = self.predict(rows) if rows else []
        self.counts["rows"] += len(rows)
        body = {"predictions": answers} if "rows" in content else answers[0]
        return self._response(200, {"model": self.digest, **body})

    def _refusal(self, status: int, words: str, retry: bool = False) -> web.Response:
        self.counts["refused"] += status == 422
        response = self._response(status, {"model": self.digest, "error": words[:2000]})
        if retry:
            response.headers["Retry-After"] = "1"
        return response

    def _response(self, status: int, content: dict[str, Any]) -> web.Response:
        from aiohttp import web

        body = json.dumps(content, allow_nan=False).encode()
        return web.Response(status=status, body=body, content_type="application/json")

    async def health(self, request: web.Request) -> web.Response:
        return self._response(200, {"status": "ok", "model": self.digest, "release": __version__})

    async def metrics(self, request: web.Request) -> web.Response:
        from aiohttp import web

        values = {f"model_{name}_total": float(n) for name, n in self.counts.items()}
        values |= {"model_seconds_total": self.seconds, "model_waiting": float(self._waiting)}
        return web.Response(text=metrics_text(("", values)))

    async def describe(self, request: web.Request) -> web.Response:
        return self._response(200, openapi(self))

    def application(self) -> web.Application:
        from aiohttp import web

        app = web.Application(client_max_size=MOST_BODY_BYTES)
        app.router.add_post("/v1/predict", self.answer)
        app.router.add_get("/health", self.health)
        app.router.add_get("/metrics", self.metrics)
        app.router.add_get("/openapi.json", self.describe)
        return app


def is_outside(value: Any, grid: Grid) -> bool:
    """Whether a number is clamped, or a category is not in the schema."""
    if value is None or value == "":
        return False
    value = grid.read(value)
    if grid.kind is ColumnKind.NUMERIC:
        return isinstance(value, int | float) and (value < grid.low or value > grid.high)
    return not grid.knows(token_of(value))


# Description.
def openapi(server: ModelServer) -> dict[str, Any]:
    """OpenAPI 3.1; columns with the ranges and categories of the model's schema."""
    model = server.model
    columns = {grid.source: _column(grid) for grid in reversed(model.schema_.grids)}
    row = {"type": "object", "properties": columns, "additionalProperties": False}
    number = {"type": "number"}
    answer: dict[str, Any] = {"prediction": number}
    if server.classes is not None:
        chances = {"type": "object", "properties": dict.fromkeys(server.classes, number)}
        answer = {"prediction": {"enum": server.classes}, "probabilities": chances}
    features = list(model.schema_.names)
    answer["outside_schema"] = {"type": "array", "items": {"enum": features}}
    digest = {"model": {"const": server.digest}}
    single = {"type": "object", "properties": digest | answer}
    items = {"type": "array", "items": {"type": "object", "properties": answer}}
    batch = {"type": "object", "properties": digest | {"predictions": items}}
    refusal = {"type": "object", "properties": digest | {"error": {"type": "string"}}}
    rows = {"type": "array", "items": row, "maxItems": MOST_BODY_ROWS}
    body = {"oneOf": [_only("row", row), _only("rows", rows)]}
    answers = {
        "200": _content("Predictions", {"oneOf": [single, batch]}),
        "422": _content("A row does not fit the schema; nothing was predicted", refusal),
        "413": _content("Too many bytes", refusal),
        "503": _content("Too many requests at a time, or too slow: come again", refusal),
    }
    post = {"summary": "Predict", "requestBody": _content("Rows", body), "responses": answers}
    plain = {"responses": {"200": {"description": "as it says"}}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": type(model).__name__,
            "version": server.digest[:16],
            "description": model.privacy_.summary,
        },
        "paths": {"/v1/predict": {"post": post}, "/health": {"get": plain},
                  "/metrics": {"get": plain}},
    }  # fmt: skip


def _only(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {name: schema}, "required": [name],
            "additionalProperties": False}  # fmt: skip


def _content(words: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": words, "content": {"application/json": {"schema": schema}}}


def _column(grid: Grid) -> dict[str, Any]:
    if grid.parser is not None:
        words = ", ".join(f"{key} {value}" for key, value in grid.parser.entries.items())
        return {"type": ["number", "string", "boolean", "null"], "description": f"read as {words}"}
    if grid.kind is ColumnKind.NUMERIC:
        words = f"{grid.low:g} to {grid.high:g}; what is outside is clamped"
        return {"type": ["number", "string", "null"], "description": words}
    if grid.kind is ColumnKind.CATEGORICAL and not grid.other:
        return {"enum": [*grid.values, None]}
    return {"type": ["string", "number", "boolean", "null"]}


# Serving.
def serve(
    model: PrivateEstimator,
    host: str,
    port: int,
    ready: Callable[[int], None],
    stop_event: threading.Event | None = None,
) -> None:
    """Serves until SIGTERM, SIGINT or `stop_event`; requests in progress get their answers."""
    asyncio.run(_serve(model, host, port, ready, stop_event))


async def _serve(
    model: PrivateEstimator,
    host: str,
    port: int,
    ready: Callable[[int], None],
    stop_event: threading.Event | None,
) -> None:
    from aiohttp import web

    server = ModelServer(model)
    server.predict([{}])  # loads the compiled loops now
    runner = web.AppRunner(server.application(), access_log=None, shutdown_timeout=5.0)
    await runner.setup()
    _limit(runner.server)
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
    except OSError as error:
        await runner.cleanup()
        raise EngineLost(
            f"nobody can call {host} port {port} ({error}); choose an address of this machine and "
            "a port that is free."
        ) from error
    end, loop = asyncio.Event(), asyncio.get_running_loop()
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, end.set)
    ready(runner.addresses[0][1])
    while not end.is_set() and not (stop_event is not None and stop_event.is_set()):
        try:
            await asyncio.wait_for(end.wait(), None if stop_event is None else 0.05)
        except TimeoutError:
            continue
    await runner.cleanup()


def _limit(server: Any) -> None:
    """Ends each connection beyond the limit at once: every one has a descriptor and a buffer."""
    meet = server.connection_made

    def connection_made(handler: Any, transport: asyncio.Transport) -> None:
        meet(handler, transport)
        if len(server.connections) > MOST_CONNECTIONS:
            transport.abort()

    server.connection_made = connection_made
