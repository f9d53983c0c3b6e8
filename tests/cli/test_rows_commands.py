"""Commands that read rows from where they are: files by pattern, a database that sums."""

from __future__ import annotations

import json

import duckdb
import pandas as pd
import pytest
from typer.testing import CliRunner

from deployment.test_serve import Served
from hedgerow.cli.main import app
from hedgerow.deployment.approve import approve
from hedgerow.deployment.site_state import DataPlace
from hedgerow.deployment.study_file import StudyFile
from hedgerow.errors import SpecError
from hedgerow.federation.audit_log import Audit
from support.network import World, tree_of

SELECT = "SELECT * FROM records"


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def database_of(world, site):
    path = world.folder / f"{site.name}.duckdb"
    with duckdb.connect(path) as connection:
        connection.register("given", pd.read_csv(world.data_of(site)))
        connection.execute("CREATE TABLE records AS SELECT * FROM given")
    return path


def called(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


@pytest.mark.parametrize("push_down", [False, True], ids=["streamed", "pushed down"])
def test_sites_with_databases_grow_the_tree_that_files_grow(world, push_down):
    for site in world.sites:
        place = DataPlace(str(database_of(world, site)), "target", sql=SELECT, push_down=push_down)
        assert place == DataPlace.read(written(site.root / "place.toml", place))
        approve(site, StudyFile.read(world.study_file), place, Audit(site.audit_file))
    with Served(world) as served:
        model = world.train(served.carrier)
    assert tree_of(model) == tree_of(world.in_one_process())


def written(path, place):
    path.write_text(place.to_toml(), encoding="utf-8")
    return path


def test_site_check_reads_files_by_pattern_and_databases(world):
    site, study = world.sites[0], world.study_file
    many = called("site", "check", study, "--data", world.folder / "site-*.csv")
    assert f"rows that can be used: {len(world.y)}" in many.output
    asked = ("--data", database_of(world, site), "--sql", SELECT)
    for flags in ((), ("--push-down",)):
        said = called("site", "check", study, *asked, *flags)
        assert "rows that can be used: 40" in said.output


@pytest.mark.parametrize(
    ("words", "flags"),
    [("give --sql", ()), ("knows no persons", ("--sql", SELECT, "--person", "target"))],
)
def test_push_down_that_cannot_be_is_refused_before_approval(world, words, flags):
    place = ("--data", database_of(world, world.sites[0]), "--push-down")
    said = called("site", "check", world.study_file, *place, *flags)
    assert said.exit_code != 0
    assert isinstance(said.exception, SpecError)
    assert words in str(said.exception)


@pytest.mark.parametrize("flags", [(), ("--push-down",)], ids=["streamed", "pushed down"])
def test_hedgerow_fit_asks_a_database(world, tmp_path, flags):
    from support.worlds import TWO

    schema, out = tmp_path / "schema.toml", tmp_path / "model.json"
    schema.write_text(TWO.to_toml(), encoding="utf-8")
    asked = ("--data", database_of(world, world.sites[0]), "--sql", SELECT, "--target", "target")
    line = ("fit", "--schema", schema, "--estimator", "TreeClassifier", "-q", "-o", out)
    said = called(*line, *asked, *flags)
    assert said.exit_code == 0, said.output
    assert json.loads(out.read_text())
