"""Rows of a real Spark session: two executors, each a process, one of which is killed."""

from __future__ import annotations

import os
import pickle
import signal
import sys

import numpy as np
import pandas as pd
import psutil
import pyarrow as pa
import pytest

import hedgerow as hr
from hedgerow.data.engines.clusters import OnSpark
from hedgerow.data.reading.encoding import encode

sql = pytest.importorskip("pyspark.sql", reason="Spark is installed by `make test-artifacts`")
pytestmark = [pytest.mark.network, pytest.mark.slow]

RNG = np.random.default_rng(5)
AGE = np.where(RNG.random(3000) < 0.1, np.nan, RNG.integers(18, 95, 3000))
FRAME = pd.DataFrame(
    {
        "age in years": AGE,
        "kind": RNG.choice(["a", "b", "c"], 3000),
        "y": np.where(np.nan_to_num(AGE) > 60, "yes", "no"),
    }
)
SCHEMA = hr.Schema(
    (hr.Numeric("age in years", 0, 100), hr.Categorical("kind", ("a", "b"), other=True)),
    classes=("no", "yes"),
)
NOWHERE = {"dp_model": "none", "random_state": 0}
MODELS = [
    hr.TreeClassifier(SCHEMA, max_depth=3, **NOWHERE),
    hr.BoostedTreesClassifier(SCHEMA, n_estimators=6, **NOWHERE),
    hr.ExtraTreesClassifier(SCHEMA, n_estimators=2, max_depth=2, subsample=2, **NOWHERE),
]


@pytest.fixture(scope="module")
def spark():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        builder = sql.SparkSession.builder.master("local-cluster[2,1,1024]")
        for name, value in {
            "spark.ui.enabled": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path),
        }.items():
            builder = builder.config(name, value)
        session = builder.getOrCreate()
        yield session
        session.stop()


@pytest.fixture(scope="module")
def frame(spark):
    return spark.createDataFrame(pa.Table.from_pandas(FRAME)).repartition(4, "kind", "age in years")


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_model_is_the_same_on_executors(model, frame):
    here = model.fit(FRAME, target="y").model_
    assert model.fit(frame, target="y").model_ == here


@pytest.mark.parametrize("model", MODELS[1:], ids=lambda model: type(model).__name__)
def test_a_model_is_the_same_although_an_executor_was_killed(model, frame, monkeypatch):
    """Its cells are made anew elsewhere; whoever makes them is told the whole model."""
    here = model.fit(FRAME, target="y").model_
    answers, rounds, killed = OnSpark._answers, [], []

    def kill_in_round_2(self, work):
        rounds.append(work)
        if len(rounds) == 2:
            killed.append(kill_an_executor())
        return answers(self, work)

    monkeypatch.setattr(OnSpark, "_answers", kill_in_round_2)
    assert model.fit(frame, target="y").model_ == here
    assert killed
    assert len(rounds) >= 2


def test_records_keep_their_numbers_in_whatever_order_a_partition_is_read_again(spark):
    """A lost partition behind a shuffle comes in the order in which its parts arrive."""
    backwards, rows = FRAME[::-1], []
    for part in (FRAME, backwards):
        frame = spark.createDataFrame(pa.Table.from_pandas(part, preserve_index=False)).coalesce(1)
        (row,) = OnSpark(frame, SCHEMA, "y")._cells.select("cells").collect()
        rows.append(pickle.loads(row[0]))
    assert len(rows[0].y) == len(FRAME)
    np.testing.assert_array_equal(rows[0].codes, rows[1].codes)
    np.testing.assert_array_equal(rows[0].y, rows[1].y)
    unsorted = [encode(part, SCHEMA, target="y").codes for part in (FRAME, backwards)]
    assert not np.array_equal(*unsorted)  # negative control


def kill_an_executor():
    executors = [
        process
        for process in psutil.Process().children(recursive=True)
        if "CoarseGrainedExecutorBackend" in " ".join(process.as_dict(["cmdline"])["cmdline"] or ())
    ]
    os.kill(executors[0].pid, signal.SIGKILL)
    return executors[0].pid


def test_a_private_model_of_a_frame(frame):
    model = hr.TreeClassifier(SCHEMA, epsilon=2.0).fit(frame, target="y")
    assert model.score(FRAME[["age in years", "kind"]], FRAME.y) > 0.9
    assert "epsilon = 2" in str(model.privacy_)
