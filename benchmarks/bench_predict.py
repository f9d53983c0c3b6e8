"""One row through `predict_proba`, beside XGBoost's, and through HTTP, beside FastAPI + LightGBM's.

The default boosted classifier with 100 trees, its surfaces and 30 curves. Checks of the input,
reading and output included. A call is timed as a part of many, since one is shorter than the
clock's step. Servers are processes of their own on one core, asked over loopback by as many
connections as a service would keep open; what counts is their own CPU time for a request.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lightgbm
import numpy as np
import pandas as pd
import psutil
import xgboost

import hedgerow as hr
from benchmarks.timing import Row, named, race, sized
from hedgerow.deployment.rehearsal import free_port
from hedgerow.methods.blocks.surfaces import PAIRED

ROWS, FEATURES, TREES = sized(100_000, 10_000), 30, sized(100, 5)
SURFACES = math.comb(PAIRED, 2)
CALLS = sized(200, 2)
REQUESTS, CONNECTIONS = sized(4_000, 40), 8
NAMES = [f"x{j}" for j in range(FEATURES)]


def rows() -> list[Row]:
    X, y = data()
    ours, theirs = private_model(X, y), xgboost_model(X, y)
    return [
        *one_row(ours, theirs, X[:1], "NumPy"),
        *one_row(ours, theirs, frame(X[:1]), "pandas"),
        served(ours, X, y),
    ]


def data() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, FEATURES))
    score = X[:, 0] + X[:, 1] * X[:, 2] + 0.5 * (X[:, 3] > 0.3) + rng.normal(size=ROWS)
    return X, (score > 0).astype(int)


def frame(X: Any) -> pd.DataFrame:
    return pd.DataFrame(X, columns=NAMES)


def private_model(X: Any, y: Any) -> hr.BoostedTreesClassifier:
    """With a budget that pays for all trees on top of surfaces, each of which is a tree too."""
    schema = hr.Schema(tuple(hr.Numeric(name, -6.0, 6.0) for name in NAMES), classes=("0", "1"))
    model = hr.BoostedTreesClassifier(schema, 16.0, 1e-6, n_estimators=TREES, random_state=0).fit(
        X, y
    )
    assert len(model.model_.score.trees) == TREES + SURFACES
    return model


def xgboost_model(X: Any, y: Any) -> xgboost.XGBClassifier:
    return xgboost.XGBClassifier(n_estimators=TREES, max_depth=6, n_jobs=1, tree_method="hist").fit(
        frame(X), y
    )


def one_row(ours: Any, theirs: Any, row: Any, kind: str) -> list[Row]:
    best = race({"ours": lambda: repeated(ours, row), "theirs": lambda: repeated(theirs, row)})
    return [
        Row(
            work=f"one row predicted, default boosted classifier, {TREES} trees, {kind}",
            seconds=best["ours"] / CALLS,
            reference=named("xgboost-cpu", f"predict_proba, {TREES} trees, {kind}"),
            reference_seconds=best["theirs"] / CALLS,
            most_ratio=3.0,
        )
    ]


def repeated(model: Any, row: Any) -> None:
    for _ in range(CALLS):
        model.predict_proba(row)


# --------------------------------------------------------------------------------------- over HTTP
PEER = """
import os, sys
import lightgbm, numpy, pydantic, uvicorn
from fastapi import FastAPI

model = lightgbm.Booster(model_file=sys.argv[1])
names, app = model.feature_name(), FastAPI()
Row = pydantic.create_model(
    "Row", __config__={"extra": "forbid"}, **{name: (float | None, None) for name in names}
)
Asked = pydantic.create_model("Asked", row=(Row, ...))

@app.post("/v1/predict")
async def predict(asked: Asked):
    row = numpy.array([[getattr(asked.row, name) for name in names]], dtype=float)
    chance = float(model.predict(row, num_threads=1)[0])
    prediction = "1" if chance > 0.5 else "0"
    return {"prediction": prediction, "probabilities": {"0": 1.0 - chance, "1": chance}}

@app.get("/health")
async def health():
    return {"status": "ok"}

uvicorn.run(app, port=int(sys.argv[2]), access_log=False, log_level="error")
"""
"""The service that many would write: pydantic checks the row, uvloop and httptools speak HTTP."""


def served(ours: Any, X: Any, y: Any) -> Row:
    """CPU seconds of a server's process for one row."""
    trees = len(ours.model_.score.trees)
    body = json.dumps({"row": dict(zip(NAMES, X[0].tolist(), strict=True))}).encode()
    with tempfile.TemporaryDirectory() as folder:
        ours.save(Path(folder) / "model.json")
        settings = {"n_estimators": trees, "max_depth": 6, "num_leaves": 63, "n_jobs": 1}
        booster = lightgbm.LGBMClassifier(**settings, verbosity=-1).fit(frame(X), y).booster_
        booster.save_model(Path(folder) / "model.txt")
        entry = "from hedgerow.cli.main import entry; entry()"
        listen, here, there = (
            ["serve", f"{folder}/model.json", "--listen"],
            free_port(),
            free_port(),
        )
        with (
            process([entry, *listen, f"127.0.0.1:{here}"], here) as mine,
            process([PEER, f"{folder}/model.txt", str(there)], there) as other,
        ):
            best = {here: float("inf"), there: float("inf")}
            for _ in range(sized(5, 1) + 1):
                for port, server in ((here, mine), (there, other)):
                    best[port] = min(best[port], cpu_of_requests(server, port, body))
    return Row(
        work=f"one row over HTTP, `hedgerow serve`, {trees} trees, {FEATURES} columns",
        seconds=best[here],
        reference=named("fastapi", named("lightgbm", f"{trees} trees")),
        reference_seconds=best[there],
        most_seconds=1e-3,
    )


@contextmanager
def process(words: list[str], port: int) -> Iterator[psutil.Process]:
    """A server on one core, once it answers."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    started = subprocess.Popen([sys.executable, "-c", *words], env=environment)
    try:
        server = psutil.Process(started.pid)
        server.cpu_affinity([max(os.sched_getaffinity(0))])
        while not answers(port):
            assert started.poll() is None, "the server ended"
            time.sleep(0.1)
        yield server
    finally:
        started.terminate()
        started.wait()


def answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as reply:
            return bool(reply.status == 200)
    except OSError:
        return False


def cpu_of_requests(server: psutil.Process, port: int, body: bytes) -> float:
    before = server.cpu_times()
    asyncio.run(ask_all(port, body))
    after = server.cpu_times()
    return float(after.user + after.system - before.user - before.system) / REQUESTS


async def ask_all(port: int, body: bytes) -> None:
    share = REQUESTS // CONNECTIONS
    await asyncio.gather(*(ask_in_turn(port, body, share) for _ in range(CONNECTIONS)))


async def ask_in_turn(port: int, body: bytes, requests: int) -> None:
    """One connection that stays open, as a program that calls a service keeps it."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"POST /v1/predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
    message = f"{head}Content-Type: application/json\r\n\r\n".encode() + body
    for _ in range(requests):
        writer.write(message)
        lines = (await reader.readuntil(b"\r\n\r\n")).lower().split(b"\r\n")
        assert lines[0].endswith(b"200 ok"), lines[0]
        length = next(int(line[15:]) for line in lines if line.startswith(b"content-length:"))
        await reader.readexactly(length)
    writer.close()
    await writer.wait_closed()
