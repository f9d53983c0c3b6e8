"""docs/omop.md, run as it stands over invented tables of the Common Data Model."""

from __future__ import annotations

import datetime as dt
import re
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pytest

import hedgerow as hr
from support.databases import address, postgres_server

PAGE = (Path(__file__).parents[2] / "docs/omop.md").read_text(encoding="utf-8")
QUERY = re.search(r"```sql\n(.*?)```", PAGE, re.S)[1]
CODE = re.search(r"```python\n(.*?)```", PAGE, re.S)[1]
PERSONS = 300


def tables():
    rng = np.random.default_rng(11)
    day = dt.date(2024, 1, 1)
    person, visits, conditions, drugs = [], [], [], []
    for k in range(PERSONS):
        person.append((k, int(rng.integers(1920, 2005)), int(rng.choice([8507, 8532, 0]))))
        starts = day + dt.timedelta(int(rng.integers(0, 300)))
        ends = starts + dt.timedelta(int(rng.integers(1, 20)))
        visits.append((len(visits), k, 9201, starts, ends))
        if rng.random() < 0.4:
            again = ends + dt.timedelta(int(rng.integers(1, 60)))
            visits.append((len(visits), k, 9202, again, again))
        if rng.random() < 0.7:
            conditions.append((len(conditions), k, 201826, day))
        for _ in range(rng.integers(0, 6)):
            drugs.append((len(drugs), k, 1503297, day))
    heads = {
        "person": ("person_id", "year_of_birth", "gender_concept_id"),
        "visit_occurrence": (
            "visit_occurrence_id",
            "person_id",
            "visit_concept_id",
            "visit_start_date",
            "visit_end_date",
        ),
        "condition_occurrence": (
            "condition_occurrence_id",
            "person_id",
            "condition_concept_id",
            "condition_start_date",
        ),
        "drug_exposure": (
            "drug_exposure_id",
            "person_id",
            "drug_concept_id",
            "drug_exposure_start_date",
        ),
    }
    rows = (person, visits, conditions, drugs)
    return {
        name: pa.table(dict(zip(head, map(list, zip(*some, strict=True)), strict=True)))
        for (name, head), some in zip(heads.items(), rows, strict=True)
    }


@pytest.fixture(scope="module")
def clinic():
    with duckdb.connect() as connection:
        for name, table in tables().items():
            connection.register("given", table)
            connection.execute(f"CREATE TABLE {name} AS SELECT * FROM given")
            connection.unregister("given")
        yield connection


def walked(connection):
    known = {"connection": connection, "query": QUERY}
    exec(CODE, known)
    return known["model"]


def test_the_page_makes_a_private_model_in_duckdb(clinic, capsys):
    model = walked(clinic)
    assert "epsilon" in capsys.readouterr().out
    assert model.classes_.tolist() == ["no", "yes"]


def test_a_person_is_one_record_of_the_cohort(clinic):
    with_ids = QUERY.replace("SELECT\n  CAST(2024", "SELECT s.person_id,\n  CAST(2024", 1)
    ids = clinic.execute(with_ids).fetchnumpy()["person_id"]
    assert 100 < len(ids) == len(set(ids.tolist()))


def test_duckdb_and_postgres_make_one_model(clinic):
    from adbc_driver_postgresql import dbapi

    model = hr.TreeClassifier(walked(clinic).schema, placement="nowhere", random_state=0)
    asked = {"sql": QUERY, "target": "back"}
    here = model.fit(clinic, push_down=True, **asked).model_
    assert model.fit(clinic, **asked).model_ == here
    with (
        postgres_server() as words,
        dbapi.connect(address(words), autocommit=True) as connection,
    ):
        with connection.cursor() as cursor:
            for name, table in tables().items():
                cursor.adbc_ingest(name, table, mode="create")
        assert model.fit(connection, push_down=True, **asked).model_ == here
