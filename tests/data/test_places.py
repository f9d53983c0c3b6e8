"""Answers do not depend on where rows are: memory, a file, a database, a cluster."""

from __future__ import annotations

import itertools
from unittest.mock import patch

import dask
import numpy as np
import pytest
from hypothesis import given

from hedgerow.data import sums as answer
from hedgerow.data.engines import database as sql
from hedgerow.data.engines.database import InDatabase
from hedgerow.data.engines.engine import AnsweringElsewhere, Work
from hedgerow.data.reading.databases import DuckDb, Selected
from hedgerow.data.reading.encoding import encode
from hedgerow.data.reading.report import report_of
from hedgerow.data.sums import Answering
from hedgerow.errors import ParameterError
from hedgerow.models.losses import Sensitivity
from hedgerow.privacy.queries import (
    GROUPINGS,
    LATTICE,
    STATISTICS,
    Binning,
    BoundQuery,
    Cells,
    Fractions,
    LabelReports,
    Score,
    Scoring,
    SelectQuery,
    SumQuery,
    Whole,
)
from hedgerow.schema.regions import EVERYONE, Fold, Step
from support.effort import IS_LONG, examples
from support.examples import (
    BY_CLASS,
    BY_TIME,
    BY_TWO,
    BY_VALUE,
    CLASS_GROUPS,
    CLASS_STATISTICS,
    OTHER,
    SHARE,
    SPLIT,
    STEP_OF_MANY,
    STEP_OF_VALUES,
    STEP_ON_CURVES,
    STEP_ON_SURFACES,
    STEP_ON_TIMES,
    TIME_GROUPS,
    TIME_STATISTICS,
    TWO_CLASS_GROUPS,
    TWO_CLASS_STATISTICS,
    VALUE_GROUPS,
    VALUE_STATISTICS,
    records,
)
from support.rows import (
    SELECT,
    address,
    in_duckdb,
    in_file,
    in_mariadb,
    in_memory,
    in_postgres,
    mariadb,
    on_dask,
    on_disk,
    on_spark,
    postgres_server,
    table_of,
)

pytestmark = pytest.mark.property

REGIONS = (
    EVERYONE,
    (Step(SPLIT, 0),),
    (Step(SPLIT, 1), Step(OTHER, 0)),
    (Step(Fold("tree 1", 2), 1), Step(SPLIT, 0)),
)
UNITS = (LATTICE, 10_007, 3)  # such as are no power of two, so that a part is rounded


def all_of(statistics, groups):
    """Every statistic by every grouping; in one region each, or in the long suite in all."""
    pairs = list(itertools.product(statistics, groups))
    asked = [(pair, region) for pair in pairs for region in REGIONS]
    turns = [(pair, REGIONS[k % len(REGIONS)]) for k, pair in enumerate(pairs)]
    return [SumQuery(region, *pair, SHARE) for pair, region in (asked if IS_LONG else turns)]


BOUND = BoundQuery(REGIONS[1], (0, 2), Binning.of_cells(BY_CLASS), SHARE)
WORLDS = {
    "classes": (
        BY_CLASS,
        [
            *all_of(CLASS_STATISTICS, CLASS_GROUPS),
            SumQuery(EVERYONE, STEP_OF_MANY, Whole(), SHARE),
            BOUND,
        ],
    ),
    "two classes": (
        BY_TWO,
        [
            *all_of(TWO_CLASS_STATISTICS, TWO_CLASS_GROUPS),
            SumQuery(EVERYONE, STEP_ON_CURVES, Whole(), SHARE),
            SumQuery(EVERYONE, STEP_ON_SURFACES, Whole(), SHARE),
        ],
    ),
    "values": (
        BY_VALUE,
        [
            *all_of(VALUE_STATISTICS, VALUE_GROUPS),
            SumQuery(EVERYONE, STEP_OF_VALUES, Whole(), SHARE),
        ],
    ),
    "times": (
        BY_TIME,
        [
            *all_of(TIME_STATISTICS, TIME_GROUPS),
            SumQuery(EVERYONE, STEP_ON_TIMES, Whole(), SHARE),
        ],
    ),
}
CHOICES = {
    "classes": [Score.GINI, Score.ENTROPY, Score.BALANCE],
    "two classes": [],
    "values": [Score.SQUARED_ERROR, Score.BALANCE],
    "times": [Score.BALANCE],
}


def compare(world, data, held):
    schema, _ = WORLDS[world]
    table = table_of(data, schema)
    other = held(table, schema)
    assert other.report == report_of([encode(table, schema, target="y")], schema, "y")
    compare_answers(world, table, AnsweringElsewhere(other))


def compare_answers(world, table, there):
    schema, queries = WORLDS[world]
    here = Answering(in_memory(table, schema), schema)
    units = {id(query): unit for query, unit in zip(queries, itertools.cycle(UNITS), strict=False)}
    expected = here.integers_of_all(queries, lambda query: units[id(query)])
    found = there.integers_of_all(queries, lambda query: units[id(query)])
    for query, one, two in zip(queries, expected, found, strict=True):
        assert np.array_equal(one, two), query
    for score, region in zip(CHOICES[world], itertools.cycle(REGIONS), strict=False):
        chosen = SelectQuery(region, (SPLIT, OTHER), Scoring(score), SHARE)
        assert np.array_equal(here.tables(chosen, [0, 2]), there.tables(chosen, [0, 2])), chosen


@pytest.mark.parametrize("world", WORLDS)
@examples(2, 20)
@given(data=records())
def test_a_streamed_file_answers_as_memory_does(world, data):
    schema, _ = WORLDS[world]
    table = table_of(data, schema)
    compare_answers(world, table, Answering(in_file(table, schema), schema))


def test_a_stream_that_loses_a_row_would_be_seen():
    """Twin."""
    schema, data = WORLDS["classes"][0], [((code, 1, 0), 0, 0.0) for code in range(5)]
    table = table_of(data, schema)
    with pytest.raises(AssertionError):
        compare_answers("classes", table, Answering(in_file(table.slice(1), schema), schema))


@pytest.mark.parametrize("world", WORLDS)
@examples(2, 20)
@given(data=records())
def test_duckdb_answers_as_memory_does(world, data):
    compare(world, data, in_duckdb)


MANNERS = {
    "cells here": {"MOST_CELL_BYTES": 1 << 26},
    "scores here": {"MOST_CELL_BYTES": -1},
    "scores in the session": {"MOST_CELL_BYTES": -1, "MOST_SCORE_BYTES": -1},
}


@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("world", WORLDS)
@examples(1, 10)
@given(data=records())
def test_duckdb_answers_alike_in_every_manner(world, manner, data):
    with patch.multiple(sql, **MANNERS[manner]):
        compare(world, data, in_duckdb)


def test_a_column_that_is_looked_at_and_not_streamed_would_be_seen():
    """Twin."""
    data = [((code, 1, 0), 0, 0.0) for code in range(5)]
    with patch.multiple(sql, **MANNERS["scores here"]):
        compare("two classes", data, in_duckdb)
        with patch.object(Work, "features", lambda *on: set()), pytest.raises(AssertionError):
            compare("two classes", data, in_duckdb)


def test_a_database_that_cuts_on_the_other_side_of_an_edge_would_be_seen():
    """Twin."""

    def wrong(self, value, edges):
        return sql.interval(value, edges).replace(" < ", " <= ")

    data = [((code, 1, 0), 0, 0.0) for code in range(5)]
    compare("classes", data, in_duckdb)
    with patch.object(DuckDb, "interval", wrong), pytest.raises(AssertionError):
        compare("classes", data, in_duckdb)


@pytest.fixture(scope="module")
def postgres():
    from adbc_driver_postgresql import dbapi

    with postgres_server() as said, dbapi.connect(address(said), autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("world", WORLDS)
@examples(2, 10)
@given(data=records())
def test_postgres_answers_as_memory_does(world, data, postgres):
    compare(world, data, lambda table, schema: in_postgres(postgres, table, schema))


@pytest.fixture(scope="module")
def maria():
    with mariadb() as connection:
        yield connection


@pytest.mark.parametrize("world", WORLDS)
@examples(2, 10)
@given(data=records(least=1))
def test_rows_streamed_from_mariadb_answer_as_memory_does(world, data, maria):
    """By a driver of Python's DB-API: what it knows of a column's type is not used."""
    schema, _ = WORLDS[world]
    table = table_of(data, schema)
    streamed = in_mariadb(maria, table, schema)
    compare_answers(world, table, Answering(streamed, schema))
    other = Answering(in_mariadb(maria, table.slice(1), schema), schema)
    with pytest.raises(AssertionError):  # negative control: a row is lost
        compare_answers(world, table, other)


def test_mariadb_is_asked_for_no_sums(maria):
    """It reads NaN as 0: a translated model would count missing values as zeros, in silence."""
    with maria.cursor() as cursor:
        cursor.execute("SELECT CAST('NaN' AS DOUBLE)")
        assert cursor.fetchone() == (0.0,)
    table = table_of([((1, 1, 0), 0, 0.0)], BY_CLASS)
    in_mariadb(maria, table, BY_CLASS)
    with pytest.raises(ParameterError, match="the query by pymysql; only the SQL of DuckDB and"):
        InDatabase(Selected(maria, SELECT), BY_CLASS, "y")


# -------------------------------------------------------------- the second lock, in a database too
PARTS = Fractions(BY_VALUE.target.low, BY_VALUE.target.high)
EDGES = [((1, 1, 0), 0, value) for value in (*np.linspace(PARTS.low, PARTS.high, 9), np.inf)]
TOO_SMALL = {
    "L1": lambda unit: Sensitivity(unit - 1, unit**2, unit),
    "L2": lambda unit: Sensitivity(unit, unit**2 // 2, unit),
    "Linf": lambda unit: Sensitivity(unit, unit**2, 3 * unit // 4),
}
ENGINES = ("duckdb", "postgres")


@pytest.fixture(params=ENGINES)
def engine(request):
    """How a table is held by an engine."""
    if request.param == "duckdb":
        return in_duckdb
    connection = request.getfixturevalue("postgres")
    return lambda table, schema: in_postgres(connection, table, schema)


def test_parts_of_a_target_are_those_of_memory_in_any_range(engine):
    """Targets beyond the range that is asked for, and such as are rounded up or down."""
    uneven = [((1, 1, 0), 0, value) for value in np.linspace(PARTS.low, PARTS.high, 100)]
    table = table_of([*EDGES, *uneven], BY_VALUE)
    there = AnsweringElsewhere(engine(table, BY_VALUE))
    here = Answering(in_memory(table, BY_VALUE), BY_VALUE)
    for parts in (PARTS, Fractions(PARTS.low / 3, PARTS.high / 3)):
        asked = SumQuery(EVERYONE, parts, Whole(), SHARE)
        for unit in UNITS:
            assert there.integers(asked, unit).tolist() == here.integers(asked, unit).tolist()


@pytest.mark.parametrize("norm", TOO_SMALL)
def test_a_record_beyond_its_bound_adds_nothing_in_a_database_either(norm, engine, monkeypatch):
    """Admission knows no such bound: this is what stands behind it."""
    monkeypatch.setattr(Fractions, "bound", lambda self, unit: TOO_SMALL[norm](unit))
    table, asked = table_of(EDGES, BY_VALUE), SumQuery(EVERYONE, PARTS, Whole(), SHARE)
    there = AnsweringElsewhere(engine(table, BY_VALUE))
    here = Answering(in_memory(table, BY_VALUE), BY_VALUE)
    for unit in UNITS:
        found = there.integers(asked, unit)
        assert found.tolist() == here.integers(asked, unit).tolist()
        assert found.sum() < len(EDGES) * unit


def test_a_number_beyond_all_bounds_is_no_error_of_an_engine(engine, monkeypatch):
    """Its square would be one in PostgreSQL, wherever such a record is; a cast too."""
    huge = f"CASE WHEN y > {PARTS.low} THEN '1e300'::float8 ELSE '1'::float8 END"
    monkeypatch.setattr(sql, "parts_of", lambda *on: [huge, "'2'::float8"])
    there = AnsweringElsewhere(engine(table_of(EDGES, BY_VALUE), BY_VALUE))
    assert there.integers(SumQuery(EVERYONE, PARTS, Whole(), SHARE), LATTICE).tolist() == [1, 2]


def test_a_range_that_is_none_is_divided_by_in_no_place(engine):
    table, asked = table_of(EDGES, BY_VALUE), SumQuery(EVERYONE, Fractions(1, 1), Whole(), SHARE)
    found = AnsweringElsewhere(engine(table, BY_VALUE)).integers(asked, 10)
    assert found.tolist() == [10 * len(EDGES), 0]


@pytest.mark.parametrize(
    ("column", "by"), [(sql.Y, Whole()), (sql.cell(0), Cells((0,), Binning.of_cells(BY_CLASS)))]
)
def test_a_class_or_a_cell_that_no_query_knows_counts_nowhere(column, by, engine):
    data = [((1, 1, 0), 1, 0.0), ((2, 1, 0), 0, 0.0), ((0, 1, 0), 0, 0.0)]
    held = engine(table_of(data, BY_CLASS), BY_CLASS)
    held._database.run(f"UPDATE {held._cells} SET {column} = 200 WHERE {sql.cell(0)} = 1")
    asked = SumQuery(EVERYONE, CLASS_STATISTICS[1], by, SHARE)
    assert asked.statistic.channels == 3
    assert AnsweringElsewhere(held).integers(asked, 1).sum() == 2


@pytest.mark.parametrize("world", WORLDS)
@examples(2, 20)
@given(data=records(least=4))
def test_memory_mapped_cells_answer_as_memory_does(world, data):
    compare(world, data, on_disk)


def test_a_record_beyond_its_bound_adds_nothing_from_memory_mapped_cells_either(monkeypatch):
    monkeypatch.setattr(Fractions, "bound", lambda self, unit: TOO_SMALL["L1"](unit))
    asked = SumQuery(EVERYONE, PARTS, Whole(), SHARE)
    held = AnsweringElsewhere(on_disk(table_of(EDGES, BY_VALUE), BY_VALUE))
    assert held.integers(asked, LATTICE).tolist() == [0, 0]


@pytest.mark.parametrize("world", WORLDS)
@examples(1, 10)
@given(data=records(least=4))
def test_dask_and_spark_answer_as_memory_does(world, data):
    """Without a cluster here; tests/data/test_engine.py and test_spark.py start one."""
    with dask.config.set(scheduler="synchronous"):
        compare(world, data, on_dask)
    compare(world, data, on_spark)


@pytest.mark.parametrize("world", WORLDS)
@examples(3, 20)
@given(data=records())
def test_sums_that_are_merged_are_those_of_bins(world, data):
    """Many rows are not kept a second time as bins."""
    schema, queries = WORLDS[world]
    rows = in_memory(table_of(data, schema), schema)
    expected = Answering(rows, schema).integers_of_all(queries, lambda _: LATTICE)
    with patch.object(answer, "MOST_RECODED_BYTES", 0):
        found = Answering(rows, schema).integers_of_all(queries, lambda _: LATTICE)
    for query, one, two in zip(queries, expected, found, strict=True):
        assert np.array_equal(one, two), query


def test_every_statistic_and_grouping_is_among_the_examples():
    asked = [query for _, queries in WORLDS.values() for query in queries]
    sums = [query for query in asked if isinstance(query, SumQuery)]
    assert {type(query.statistic) for query in sums} | {LabelReports} == set(STATISTICS.values())
    assert {type(query.by) for query in sums} == set(GROUPINGS.values())
