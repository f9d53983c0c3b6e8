"""Models of rows that stay in a database or on a cluster; what cannot be is refused in time."""

from __future__ import annotations

import os
import pickle
import signal
from contextlib import closing

import dask
import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import hedgerow as hr
from hedgerow.data.engines import clusters, database
from hedgerow.data.engines.clusters import OnDask, OnSpark
from hedgerow.data.engines.database import InDatabase
from hedgerow.data.engines.engine import AnsweringElsewhere, EngineMessages, Keeper, Work
from hedgerow.data.prepared import StudyRows
from hedgerow.data.reading import encoding
from hedgerow.data.reading.databases import DuckDb, Selected
from hedgerow.data.reading.encoding import encode
from hedgerow.data.rows import Rows
from hedgerow.data.sums import Answering
from hedgerow.errors import ComputationFailed, DataError, ParameterError, UnsupportedQuery
from hedgerow.federation.client import respond
from hedgerow.privacy.mechanisms.coins import SecretRandomness
from hedgerow.privacy.pricing import priced
from hedgerow.privacy.queries import Cells, ClassCounts, Count, SumQuery, Whole
from hedgerow.schema.candidates import Binning
from hedgerow.schema.regions import EVERYONE, Fold, Step
from support.examples import SHARE
from support.rows import DRAWS, FrameOfSpark, address, postgres_server

SCHEMA = hr.Schema({"age": (0, 100), "kind": ["a", "b"]}, classes=("no", "yes"))
rng = np.random.default_rng(5)
AGE = np.where(rng.random(500) < 0.1, np.nan, rng.integers(18, 95, 500))
FRAME = pd.DataFrame(
    {
        "age": AGE,
        "kind": rng.choice(["a", "b", "c"], 500),
        "y": np.where(np.nan_to_num(AGE) > 60, "yes", "no"),
    }
)
SPARK_FRAME = FrameOfSpark.of(pa.Table.from_pandas(FRAME))
SELECT = "SELECT age, kind, y FROM records"
NOWHERE = {"dp_model": "none", "random_state": 0}
MODELS = [
    hr.TreeClassifier(SCHEMA, max_depth=3, **NOWHERE),
    hr.BoostedTreesClassifier(SCHEMA, n_estimators=2, **NOWHERE),
    hr.ExtraTreesClassifier(SCHEMA, n_estimators=2, max_depth=2, subsample=2, **NOWHERE),
]


@pytest.fixture
def connection():
    with duckdb.connect() as opened:
        opened.register("given", FRAME)
        opened.execute("CREATE TABLE records AS SELECT * FROM given")
        yield opened


def known(schema):
    kind = hr.Categorical("kind", ("a", "b"), other=True)
    return schema.__class__((schema.features[0], kind), classes=schema.labels)


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_model_is_the_same_wherever_its_rows_are(model, connection):
    model.set_params(schema=known(SCHEMA))
    here = model.fit(FRAME, target="y").model_
    assert model.fit(connection, sql=SELECT, target="y").model_ == here
    assert model.fit(connection, sql=SELECT, push_down=True, target="y").model_ == here
    assert connection.execute("SELECT COUNT(*) FROM records").fetchall() == [(500,)]


@pytest.mark.parametrize(
    ("words", "limits"),
    [
        ("are few: streamed once", {}),
        ("raw scores are kept in this process", {"MOST_CELL_BYTES": 0}),
        ("in a table of the session", {"MOST_CELL_BYTES": 0, "MOST_SCORE_BYTES": 0}),
    ],
)
def test_scores_are_kept_between_rounds_wherever_they_are(words, limits, connection, monkeypatch):
    """As many trees are walked as were new; a model that starts anew is scored anew."""
    model = hr.BoostedTreesClassifier(known(SCHEMA), n_estimators=5, **NOWHERE)
    here = model.fit(FRAME, target="y").model_
    for name, limit in limits.items():
        monkeypatch.setattr(database, name, limit)
    monkeypatch.setattr(database, "ROWS_A_BATCH", 200)
    walked, add, engines = [], Answering._add_trees, []

    def tap(self, asked, raw, n_scored):
        walked.append(len(asked.trees) - n_scored)
        return add(self, asked, raw, n_scored)

    opened = InDatabase.__init__
    monkeypatch.setattr(Answering, "_add_trees", tap)
    monkeypatch.setattr(InDatabase, "__init__", lambda *on: engines.append(on[0]) or opened(*on))
    for _ in range(2):
        assert model.fit(connection, sql=SELECT, push_down=True, target="y").model_ == here
    assert words in engines[0].manner
    assert max(walked, default=0) <= 1
    assert "session" not in words or not any(walked)  # the database adds trees by itself


def test_scores_that_an_error_left_half_way_are_computed_anew(connection, monkeypatch):
    monkeypatch.setattr(database, "MOST_CELL_BYTES", 0)
    monkeypatch.setattr(database, "ROWS_A_BATCH", 200)
    schema = TREE._method(TREE.schema).grid(TREE.schema)
    held, here = InDatabase(Selected(connection, SELECT), schema, "y", DRAWS), keeper_of_rows()
    works = works_of_a_fit()
    for work in works[:-1]:
        held.total(work)
    stream, batches = DuckDb.batches, []

    def broken(self, query, rows):
        for batch in stream(self, query, rows):
            batches.append(batch)
            if len(batches) == 2:
                raise OSError
            yield batch

    monkeypatch.setattr(DuckDb, "batches", broken)
    with pytest.raises(OSError):
        held.total(works[-1])
    monkeypatch.setattr(DuckDb, "batches", stream)
    for one, two in zip(held.total(works[-1]), here.run(works[-1]), strict=True):
        assert np.array_equal(one, two)


def test_a_private_model_of_a_file_s_rows(tmp_path):
    path = tmp_path / "rows.duckdb"
    with duckdb.connect(path) as opened:
        opened.register("given", FRAME)
        opened.execute("CREATE TABLE records AS SELECT * FROM given")
    model = hr.TreeClassifier(SCHEMA, epsilon=2.0).fit(
        str(path), sql=SELECT, push_down=True, target="y"
    )
    assert model.privacy_.epsilon <= 2.0
    assert model.data_report_.skipped == 0


# ------------------------------------------------------------------------------------- refusals
@pytest.mark.parametrize(
    ("words", "given"),
    [
        ("dp_model 'label' tells labels at random", {"dp_model": "label"}),
        ("a person's records are chosen", {"records_per_person": 2}),
    ],
)
def test_what_an_engine_cannot_answer_is_refused_before_any_charge(
    words, given, connection, tmp_path
):
    ledger = tmp_path / "ledger.sqlite"
    model = hr.ExtraTreesClassifier(SCHEMA, ledger=ledger, **given)
    with pytest.raises(ParameterError, match=words):
        model.fit(connection, sql=SELECT, push_down=True, target="y")
    assert not ledger.exists()


@pytest.mark.parametrize(
    ("words", "error", "given"),
    [
        ("site was given", ParameterError, {"site": "kind"}),
        ("person was given", ParameterError, {"person": "kind"}),
        ("CAST", DataError, {"sql": "SELECT age::text AS age, kind, y FROM records"}),
        ("has no column 'kind'", DataError, {"sql": "SELECT age, y FROM records"}),
        ("cannot be read", DataError, {"sql": "SELECT nothing FROM nowhere"}),
    ],
)
def test_what_does_not_fit_is_said(words, error, given, connection):
    asked = {"sql": SELECT, "target": "y", "push_down": True, **given}
    with pytest.raises(error, match=words):
        hr.TreeClassifier(SCHEMA).fit(connection, **asked)


@pytest.mark.parametrize(
    ("words", "change"),
    [
        (r"3 label\(s\) are missing", "UPDATE records SET y = NULL WHERE rowid < 3"),
        (r"2 label\(s\) are .* not a class", "UPDATE records SET y = 'perhaps' WHERE rowid < 2"),
        (r"4 value\(s\) are not among .*a, b", "UPDATE records SET kind = 'd' WHERE rowid < 4"),
        ("holds no rows", "DELETE FROM records"),
    ],
)
def test_rows_that_a_reader_refuses_are_refused_by_an_engine_too(
    words, change, connection, tmp_path
):
    connection.execute("UPDATE records SET kind = 'a'")
    connection.execute(change)
    ledger = tmp_path / "ledger.sqlite"
    strict = hr.Categorical("kind", ("a", "b"), other=False)
    schema = hr.Schema((SCHEMA.features[0], strict), classes=SCHEMA.classes)
    model = hr.TreeClassifier(schema, ledger=ledger)
    with pytest.raises(DataError):
        model.fit(connection, sql=SELECT, target="y")
    with pytest.raises(DataError, match=words):
        model.fit(connection, sql=SELECT, target="y", push_down=True)
    assert not ledger.exists()


def test_a_connection_without_a_query_is_asked_for_one(connection):
    with pytest.raises(DataError, match="sql='SELECT"):
        hr.TreeClassifier(SCHEMA).fit(connection, target="y")


def test_a_target_that_was_misspelled_is_to_be_corrected(connection):
    for push_down in (False, True):
        with pytest.raises(DataError, match=r"'Y', which `target` names.*Correct `target`"):
            hr.TreeClassifier(SCHEMA).fit(connection, sql=SELECT, target="Y", push_down=push_down)
    with pytest.raises(DataError, match=r"'Y', which `target` names.*Correct `target`"):
        hr.TreeClassifier(SCHEMA).fit(dask_frame(), target="Y")


def test_classes_have_the_schemas_type_wherever_rows_are(connection):
    numbers = "SELECT age, kind, CASE WHEN y = 'no' THEN 0 ELSE 1 END AS y FROM records"
    schema = known(hr.Schema(SCHEMA.features, classes=(0, 1)))
    model = hr.TreeClassifier(schema, **NOWHERE)
    for push_down in (False, True):
        model.fit(connection, sql=numbers, target="y", push_down=push_down)
        assert model.classes_.dtype == np.int64
    frame = dask_frame().assign(y=lambda rows: (rows["y"] == "yes").astype("int8"))
    with dask.config.set(scheduler="synchronous"):
        assert model.fit(frame, target="y").classes_.dtype == np.int64


def test_a_server_that_lets_nobody_in_is_said():
    nobody = "postgresql://nobody@127.0.0.1:1/nothing"
    with pytest.raises(DataError, match="Check the address, and that the server runs"):
        hr.TreeClassifier(SCHEMA).fit(nobody, sql=SELECT, target="y")


def test_push_down_without_a_query_is_refused(connection):
    with pytest.raises(ParameterError, match="push_down is for rows in a database"):
        hr.TreeClassifier(SCHEMA).fit(connection, push_down=True, target="y")


def test_any_driver_of_pythons_db_api_streams_and_another_object_is_named():
    import sqlite3

    with closing(sqlite3.connect(":memory:")) as opened:
        FRAME.to_sql("records", opened, index=False)
        streamed = encode(Selected(opened, f"{SELECT};"), SCHEMA, target="y", chunk_rows=3)
        with pytest.raises(DataError, match="the query by sqlite3 cannot be read: no such table"):
            Selected(opened, "SELECT * FROM nowhere")
    here = encode(FRAME, SCHEMA, target="y")
    assert np.array_equal(streamed.codes, here.codes)
    assert np.array_equal(streamed.y, here.y)
    with pytest.raises(ParameterError, match="sql was given with a DataFrame"):
        hr.TreeClassifier(SCHEMA).fit(FRAME, sql=SELECT, target="y")


# ------------------------------------------------------------------------------ traps of engines
def test_rows_that_change_after_the_start_change_no_answer(connection):
    """A record that moved would be charged in one of two regions that it was counted in."""
    held = InDatabase(Selected(connection, SELECT), SCHEMA, "y", DRAWS)
    query = SumQuery(EVERYONE, ClassCounts(2), Cells((0,), Binning.of_cells(SCHEMA)), SHARE)
    before = AnsweringElsewhere(held).integers(query, 1)
    connection.execute("UPDATE records SET age = 1, y = 'no'")
    assert np.array_equal(AnsweringElsewhere(held).integers(query, 1), before)


def test_an_engine_that_fails_after_the_charge_closes_the_study(connection):
    from hedgerow.methods.training import agree

    model = hr.TreeClassifier(SCHEMA, epsilon=1.0)
    study, _ = agree(model, SCHEMA, 1)
    held = InDatabase(Selected(connection, SELECT), study.schema, "y", DRAWS)
    rows = StudyRows(study, held)
    query = SumQuery(EVERYONE, Count(), Whole(), SHARE)
    asked = [priced(study, query)]
    assert len(respond(rows, asked, SecretRandomness()).vector) == 1
    connection.close()
    with pytest.raises(ComputationFailed, match="Nothing was released and the charge stays"):
        respond(rows, asked, SecretRandomness())
    with pytest.raises(ComputationFailed, match="is closed at this site"):
        rows.require_open()


def test_wide_sums_do_not_overflow(connection):
    """Two sums of 2^62 are beyond BIGINT; the engine's answer is as wide as it must be."""
    opened = Selected(connection, SELECT).database
    two = "SELECT CAST(SUM(v) AS TEXT) AS s FROM (SELECT 4611686018427387904::bigint AS v FROM "
    assert opened.table(two + "range(4)) AS t")["s"].to_pylist() == [str(2**64)]


# --------------------------------------------------------------------------------- real engines
def test_postgres_streams_and_sums():
    import pyarrow as pa
    from adbc_driver_postgresql import dbapi

    model = hr.TreeClassifier(known(SCHEMA), max_depth=3, **NOWHERE)
    here = model.fit(FRAME, target="y").model_
    with postgres_server() as words:
        with dbapi.connect(address(words), autocommit=True) as opened:
            with opened.cursor() as cursor:
                table = pa.Table.from_pandas(FRAME, preserve_index=False)
                cursor.adbc_ingest("records", table, mode="create")
            numeric = "SELECT age::numeric AS age, kind, y FROM records"
            assert model.fit(opened, sql=numeric, target="y").model_ == here
            assert model.fit(opened, sql=SELECT, push_down=True, target="y").model_ == here
        assert model.fit(address(words), sql=SELECT, push_down=True, target="y").model_ == here


def test_any_adbc_connection_streams_and_none_but_those_tested_sums(tmp_path):
    sqlite = pytest.importorskip("adbc_driver_sqlite.dbapi", reason="adbc-driver-sqlite is missing")
    import pyarrow as pa

    model = hr.TreeClassifier(known(SCHEMA), max_depth=3, **NOWHERE)
    here = model.fit(FRAME, target="y").model_
    with sqlite.connect(str(tmp_path / "rows.sqlite")) as opened:
        with opened.cursor() as cursor:
            table = pa.Table.from_pandas(FRAME, preserve_index=False)
            cursor.adbc_ingest("records", table, mode="create")
        assert model.fit(opened, sql=SELECT, target="y").model_ == here
        with pytest.raises(ParameterError, match="SQLite query; only the SQL of DuckDB and Postgr"):
            model.fit(opened, sql=SELECT, push_down=True, target="y")


@pytest.fixture(scope="module")
def cluster():
    from distributed import Client, LocalCluster

    started = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
    with LocalCluster(host="127.0.0.1", **started) as local, Client(local) as client:
        yield client


@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_model_of_a_spark_frame_is_the_same(model):
    model.set_params(schema=known(SCHEMA))
    here = model.fit(FRAME, target="y").model_
    assert model.fit(SPARK_FRAME, target="y").model_ == here


def test_a_process_of_an_executor_walks_new_trees_alone(monkeypatch):
    """One that knows nothing, as after a loss, walks all of them and answers alike."""
    schema = TREE._method(TREE.schema).grid(TREE.schema)
    held, here = OnSpark(SPARK_FRAME, schema, "y", DRAWS), keeper_of_rows()
    walked, add = [], Answering._add_trees

    def tap(self, asked, raw, n_scored):
        walked.append(len(asked.trees) - n_scored)
        return add(self, asked, raw, n_scored)

    for k, work in enumerate(works_of_a_fit()):
        expected = here.run(work)
        monkeypatch.setattr(Answering, "_add_trees", tap)
        if k % 2:
            clusters._KEEPERS.clear()
        for one, two in zip(held.total(work), expected, strict=True):
            assert np.array_equal(one, two)
        monkeypatch.undo()
    assert len(clusters._KEEPERS) == 3
    assert set(walked) > {1}


def test_an_executor_keeps_the_cells_of_one_fit():
    for _ in range(2):
        OnSpark(SPARK_FRAME, SCHEMA, "y", DRAWS).total(
            Work(((SumQuery(EVERYONE, Count(), Whole(), SHARE), 1),))
        )
        assert len(clusters._KEEPERS) == 3


def test_rows_of_spark_are_refused_as_others_are():
    lost = FrameOfSpark.of(pa.Table.from_pandas(FRAME.assign(y="no such class")))
    with pytest.raises(DataError, match="missing, no number or not a class of the schema"):
        hr.TreeClassifier(SCHEMA).fit(lost, target="y")
    with pytest.raises(ParameterError, match="site was given, but these rows are summed where"):
        hr.TreeClassifier(SCHEMA).fit(SPARK_FRAME, target="y", site="kind")
    with pytest.raises(ParameterError, match="say which column is to be predicted"):
        hr.TreeClassifier(SCHEMA).fit(SPARK_FRAME)


def dask_frame():
    import dask.dataframe as dd

    return dd.from_pandas(FRAME, npartitions=4, sort=False)


def test_a_model_of_rows_on_a_cluster(cluster):
    model = hr.ExtraTreesClassifier(
        known(SCHEMA), n_estimators=2, max_depth=2, subsample=2, **NOWHERE
    )
    here = model.fit(FRAME, target="y").model_
    assert model.fit(dask_frame(), target="y").model_ == here


def test_a_worker_that_is_killed_changes_no_integer(cluster):
    rows = Rows(encode(FRAME, SCHEMA, target="y"), SCHEMA, DRAWS)
    query = SumQuery(EVERYONE, ClassCounts(2), Cells((0, 1), Binning.of_cells(SCHEMA)), SHARE)
    expected = Answering(rows, SCHEMA).integers(query, 1)
    held = AnsweringElsewhere(OnDask(dask_frame(), SCHEMA, "y", DRAWS))
    assert np.array_equal(held.integers(query, 1), expected)
    one = next(iter(cluster.run(os.getpid).values()))
    os.kill(one, signal.SIGKILL)
    assert np.array_equal(held.integers(query, 1), expected)


@pytest.mark.parametrize("model", MODELS[1:], ids=lambda model: type(model).__name__)
def test_a_worker_that_is_killed_between_rounds_changes_no_bit_of_a_model(
    model, cluster, monkeypatch
):
    """Its keeper's scores and the numbers of its records are made anew from the public model."""
    monkeypatch.setattr(clusters, "ROWS_FOR_TWO", 0)
    rounds, answers, made = [], OnDask._answers, []

    def killing(self, work):
        rounds.append(work)
        if len(rounds) == 2:
            address = self._keepers[0]._address
            os.kill(cluster.run(os.getpid, workers=[address])[address], signal.SIGKILL)
        return answers(self, work)

    keeper = OnDask._keeper
    monkeypatch.setattr(OnDask, "_answers", killing)
    monkeypatch.setattr(OnDask, "_keeper", lambda *on: made.append(on) or keeper(*on))
    cluster.wait_for_workers(2)
    here = model.set_params(schema=known(SCHEMA)).fit(FRAME, target="y").model_
    assert model.fit(dask_frame(), target="y").model_ == here
    assert len(rounds) >= 2
    assert [len(on) for on in made].count(2) >= 1  # one was made again, without cells


# --------------------------------------------------------------------------- memory-mapped cells
@pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)
def test_a_model_of_memory_mapped_cells_is_that_of_memory(model, connection, tmp_path, monkeypatch):
    monkeypatch.setattr(encoding, "BLOCK_BYTES", 200)
    here = model.set_params(schema=known(SCHEMA)).fit(FRAME, target="y").model_
    FRAME.to_parquet(tmp_path / "rows.parquet")
    for source, asked in ((tmp_path / "rows.parquet", {}), (connection, {"sql": SELECT})):
        found = model.fit(source, target="y", temp_folder=tmp_path, **asked)
        assert found.model_ == here
    assert [path.name for path in tmp_path.iterdir()] == ["rows.parquet"]  # files have no name


def test_records_are_held_out_of_memory_mapped_cells_as_in_memory(tmp_path, monkeypatch):
    """The same records by the same draws: the same trees, and an evaluation of the same run."""
    monkeypatch.setattr(encoding, "BLOCK_BYTES", 200)
    model = hr.BoostedTreesClassifier(known(SCHEMA), n_estimators=6, hold_out=4, **NOWHERE)
    here = model.fit(FRAME, target="y").model_
    whole = hr.BoostedTreesClassifier(known(SCHEMA), n_estimators=6, **NOWHERE)
    assert whole.fit(FRAME, target="y").model_ != here
    there = model.fit(FRAME, target="y", temp_folder=tmp_path)
    assert there.model_ == here
    assert there.evaluation_.privacy_ is there.privacy_
    assert "was held out of training" in str(there.privacy_)
    in_memory = hr.evaluate(
        model.fit(FRAME, target="y"), FRAME.drop(columns="y"), FRAME["y"], epsilon=1e6
    )
    assert there.evaluation_["accuracy"].value == pytest.approx(
        in_memory["accuracy"].value, abs=0.01
    )


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ("is no folder", {"target": "y", "temp_folder": "/no/such/folder"}),
        ("leave y out", {"y": FRAME["y"], "temp_folder": "/tmp"}),
        ("leave it out", {"target": "y", "sql": SELECT, "push_down": True, "temp_folder": "/tmp"}),
    ],
)
def test_a_temp_folder_that_does_not_fit_is_refused(words, asked):
    with pytest.raises(ParameterError, match=words):
        hr.TreeClassifier(SCHEMA).fit(FRAME, **asked)


# ------------------------------------------------------------------------------- state of keepers
TREE = hr.BoostedTreesClassifier(known(SCHEMA), n_estimators=6, **NOWHERE)


def works_of_a_fit():
    """What a boosted fit asks, round by round."""
    asked, ask = [], Answering.integers_of_all
    with pytest.MonkeyPatch.context() as patch:

        def tap(self, queries, unit_of):
            asked.append(Work(tuple((query, unit_of(query)) for query in queries)))
            return ask(self, queries, unit_of)

        patch.setattr(Answering, "integers_of_all", tap)
        TREE.fit(FRAME, target="y")
    assert asked
    return asked


def keeper_of_rows():
    schema = TREE._method(TREE.schema).grid(TREE.schema)
    return Keeper([encode(FRAME, schema, target="y")], schema, DRAWS)


def test_a_keeper_evaluates_new_trees_alone(monkeypatch):
    walked, add = [], Answering._add_trees

    def tap(self, model, raw, n_scored):
        walked.append(len(model.trees) - n_scored)
        return add(self, model, raw, n_scored)

    monkeypatch.setattr(Answering, "_add_trees", tap)
    keeper, messages, whole = keeper_of_rows(), EngineMessages(), keeper_of_rows()
    sizes = []
    for work in works_of_a_fit():
        walked.clear()
        message = messages.pack(work)
        sizes.append(len(message))
        answer = pickle.loads(keeper.answer(message))
        assert all(trees <= 1 for trees in walked)
        for one, two in zip(answer, whole.run(work), strict=True):
            assert np.array_equal(one, two)
    assert max(sizes[-3:]) < max(len(EngineMessages().pack(work)) for work in works_of_a_fit()[-3:])


def test_a_keeper_that_lacks_the_model_asks_for_all_of_it():
    messages, first, second = EngineMessages(), keeper_of_rows(), keeper_of_rows()
    for work in works_of_a_fit():
        message = messages.pack(work)
        expected = first.answer(message)
        if second.answer(message) is None:
            break
        second = keeper_of_rows()
    else:
        raise AssertionError("no message built on a model")
    assert second.answer(messages.pack(work, whole=True)) == expected


def test_records_that_are_not_numbered_among_all_have_no_draw():
    """Twin of folds over keepers: each numbers its own records from 0 on, equal ones alike."""
    query = SumQuery((Step(Fold("tree 1", 2), 0),), Count(), Whole(), SHARE)
    with pytest.raises(UnsupportedQuery, match="not numbered"):
        keeper_of_rows().run(Work(((query, 1),)))
