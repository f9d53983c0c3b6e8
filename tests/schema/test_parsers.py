"""Declared parsers: what each kind reads, what it refuses, and that nothing stops it."""

from __future__ import annotations

import datetime
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import hedgerow as hr
from hedgerow.data.reading.columns import code_of_value
from hedgerow.schema.parsers import OPTIONS, Parser
from support.value_pairs import KINDS

pytestmark = pytest.mark.property

UNREADABLE: Any = ()
COMMA = {"decimal": ","}
DAYS = {"since": "2020-01-01"}
GERMAN = {"format": "%d.%m.%Y", **DAYS}
READINGS = [
    ("number", {}, "1,250.5", 1250.5),
    ("number", {}, "-1e3", -1000.0),
    ("number", {}, "1,25", UNREADABLE),  # a decimal comma where none is declared is no 125
    ("number", {}, "12 apples", UNREADABLE),
    ("number", {}, ".", UNREADABLE),
    ("number", {}, 1.5, 1.5),
    ("number", {}, Decimal("2.5"), 2.5),
    ("number", COMMA, "1.250,5", 1250.5),
    ("number", COMMA, "0,1", 0.1),
    ("number", COMMA, "1.5", UNREADABLE),
    ("number", COMMA, 1.5, 1.5),
    ("number", {"grouping": " "}, "12\u202f345", 12345.0),
    ("number", {"units": {"k": 1000, "M": 1e6}}, "2.3k", 2300.0),
    ("number", {"units": {"k": 1000, "M": 1e6}}, "1.1 M", 1.1e6),
    ("number", {"units": {"m": 0.001}}, "7m", 0.007),
    ("number", {"units": {"k": 1000}}, "7G", UNREADABLE),
    ("money", {}, "$1,234.50", 1234.5),
    ("money", {}, "(1,000)", -1000.0),
    ("money", {}, "(1,000", UNREADABLE),
    ("money", {}, "EUR -7", -7.0),
    ("money", {}, "−3 €", -3.0),
    ("money", {"currency": ["€", "EUR"]}, "$5", UNREADABLE),
    ("money", {"currency": ["€", "EUR"], **COMMA}, "5,25 EUR", 5.25),
    ("percent", {}, "12.5 %", 12.5),
    ("percent", {}, "12.5", 12.5),
    ("date", DAYS, "2020-01-31", 30.0),
    ("date", DAYS, "2019-12-31", -1.0),
    ("date", DAYS, "2020-02-30", UNREADABLE),
    ("date", DAYS, datetime.date(2020, 1, 31), 30.0),
    ("date", DAYS, pd.Timestamp("2020-01-31 23:00"), 30.0),
    ("date", DAYS, np.datetime64("2020-01-31"), 30.0),
    ("date", DAYS, pa.scalar(datetime.date(2020, 1, 31)), 30.0),
    ("date", DAYS, "2020-01-31T01:00:00+02:00", 29.0),
    ("date", GERMAN, "31.01.2020", 30.0),
    ("date", GERMAN, "31.1.2020 14:05", 30.0),
    ("date", GERMAN, "01/31/2020", UNREADABLE),
    ("date", {"format": ["%d%b%Y", "%Y%m%d"], **DAYS}, "31JAN2020", 30.0),
    ("date", {"format": ["%d%b%Y", "%Y%m%d"], **DAYS}, 20200131, 30.0),
    ("date", {"format": ["%d%b%Y", "%Y%m%d"], **DAYS}, "20200131.0", 30.0),
    ("date", {"format": "%d.%m.%y", "part": "year"}, "31.01.69", 1969.0),
    ("date", {"format": "%d.%m.%y", "part": "year"}, "31.01.68", 2068.0),
    ("date", {"part": "month"}, "2020-03-31", 3.0),
    ("date", {"part": "day"}, "2020-03-31", 31.0),
    ("date", {"part": "weekday"}, "2020-03-31", 2.0),
    ("date", {"part": "hour"}, "2020-03-31 14:59", 14.0),
    ("date", {"part": "hour"}, "2020-03-31", 0.0),
    ("boolean", {}, "Yes", 1.0),
    ("boolean", {}, False, 0.0),
    ("boolean", {"true": "ja", "false": "nein"}, "JA", 1.0),
    ("boolean", {"true": "ja", "false": "nein"}, "yes", UNREADABLE),
    ("ordinal", {"order": ["none", "mild", "severe"]}, "severe", 2.0),
    ("ordinal", {"order": ["none", "mild", "severe"]}, "worse", UNREADABLE),
    ("ordinal", {"order": [1, 2, 5]}, 5.0, 2.0),
    ("icd", {}, "i21.4", "I21"),
    ("icd", {"length": 1}, "I21.4", "I"),
    ("atc", {}, "c07ab02", "C07A"),
    ("zip", {}, 2139, "021"),
    ("zip", {}, "02139-4307", "021"),
    ("zip", {}, 2139.0, "021"),
    ("prefix", {"length": 2}, "xy-12", "xy"),
]


@pytest.mark.parametrize(("kind", "options", "value", "expected"), READINGS)
def test_a_value_is_read_as_its_column_is_written(kind, options, value, expected) -> None:
    assert Parser(kind=kind, **options).read(value) == expected


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize(
    "value", [None, math.nan, "", " NA ", pd.NaT, np.datetime64("NaT"), b"null"]
)
def test_a_missing_value_is_missing_in_every_kind(kind, value) -> None:
    options = {"order": ["a", "b"]} if kind == "ordinal" else {}
    parse = {"kind": kind, **options}
    number = kind not in ("prefix", "icd", "atc", "zip")
    column = hr.Numeric("x", 0, 1, parse=parse) if number else hr.Hashed("x", parse=parse)
    assert code_of_value(value, column.grid) == column.grid.missing


@pytest.mark.parametrize("kind", OPTIONS)
@pytest.mark.parametrize("value", KINDS)
def test_any_value_is_read_without_an_error(kind, value) -> None:
    options = {"order": ["a", "b"]} if kind == "ordinal" else {}
    read = Parser(kind=kind, **options).read(KINDS[value])
    assert read == UNREADABLE or isinstance(read, str | int | float)


@given(st.text() | st.from_regex(r"[-+(]?\$?[0-9.,' ]{1,12}(e[0-9]{1,4})?[%k€)]?", fullmatch=True))
def test_any_text_is_a_finite_number_or_none(text) -> None:
    for kind in ("number", "money", "percent", "date"):
        read = Parser(kind=kind).read(text)
        assert isinstance(read, str) or read == UNREADABLE or math.isnan(read) or abs(read) < 1e200


@given(st.dates(datetime.date(1000, 1, 1), datetime.date(2999, 12, 31)), st.times())
def test_dates_are_those_of_the_calendar(day, time) -> None:
    moment = datetime.datetime.combine(day, time)
    german = f"{day.day}.{day.month}.{day.year:04d} {time.hour}:{time.minute:02d}"
    expected = {
        "days": (day - datetime.date(1970, 1, 1)).days,
        "year": day.year,
        "month": day.month,
        "day": day.day,
        "weekday": day.isoweekday(),
        "hour": time.hour,
    }
    for part, number in expected.items():
        parser = Parser(kind="date", part=part, format="%d.%m.%Y")
        assert parser.read(moment) == parser.read(german) == parser.read(str(moment)) == number


WRONG = [
    ("moneys", "use one of"),
    ({"decimal": ","}, "a table with `kind`"),
    ({"kind": "money", "part": "month"}, "allowed are"),
    ({"kind": "number", "decimal": ";"}, "use '.' or ','"),
    ({"kind": "number", "decimal": ",", "grouping": ","}, "not the decimal"),
    ({"kind": "number", "units": {"h": 60}}, "powers of ten"),
    ({"kind": "date", "part": "century"}, "use one of"),
    ({"kind": "date", "since": "yesterday"}, "give a day"),
    ({"kind": "date", "format": "%d.%m"}, "a year"),
    ({"kind": "date", "format": "%A %Y"}, "format is"),
    ({"kind": "date", "format": "%Y-%d-%m"}, "unlike the standard"),
    ({"kind": "boolean", "true": "ja", "false": "JA"}, "share a word"),
    ({"kind": "ordinal", "order": ["a"]}, "at least two"),
    ({"kind": "icd", "length": 0.5}, "length is"),
    (7, "parse is 7"),
]


@pytest.mark.parametrize(("parse", "says"), WRONG)
def test_a_parser_that_cannot_be_is_refused_with_its_column(parse, says) -> None:
    with pytest.raises(hr.ParameterError, match="column 'x': .*" + says):
        hr.Numeric("x", 0, 1, parse=parse)


def test_a_prefix_is_no_number_and_an_amount_no_category() -> None:
    with pytest.raises(hr.ParameterError, match="cannot be a number"):
        hr.Numeric("x", 0, 1, parse="icd")
    with pytest.raises(hr.ParameterError, match="cannot be a text"):
        hr.Categorical("x", ("a", "b"), parse="money")
    with pytest.raises(hr.ParameterError, match="values and missing"):
        hr.Categorical("x", ("1", "b"), missing=[1.0])


SCHEMA = hr.Schema(
    (
        hr.Numeric("visit month", 1, 13, column="visit", parse={"kind": "date", "part": "month"}),
        hr.Numeric("wage", 0, 9, parse={"kind": "number", "units": {"k": 1e3, "%": 0.01}}),
        hr.Numeric("paid", 0, 9, parse={"kind": "money", "decimal": ","}, missing=["?", -999]),
        hr.Categorical("code", ("I21", "E11"), parse="icd"),
        hr.Hashed("zip", parse={"kind": "zip", "length": 2}, missing=("00000",)),
    ),
    classes=("no", "yes"),
)


def test_a_schema_with_parsers_is_the_same_from_its_file_and_its_dict() -> None:
    again = hr.Schema.from_toml(SCHEMA.to_toml())
    assert again == hr.Schema.from_dict(SCHEMA.to_dict()) == SCHEMA
    assert again.digest == SCHEMA.digest
    assert again.to_toml() == SCHEMA.to_toml()
    assert SCHEMA.columns == ("visit", "wage", "paid", "code", "zip")


def test_a_parser_a_sentinel_and_a_column_are_part_of_what_sites_agree_on() -> None:
    plain = hr.Numeric("x", 0, 1)
    others = [
        hr.Numeric("x", 0, 1, parse="percent"),
        hr.Numeric("x", 0, 1, parse={"kind": "percent", "decimal": ","}),
        hr.Numeric("x", 0, 1, missing=[-9]),
        hr.Numeric("x", 0, 1, column="z"),
    ]
    features = [plain, *others]
    assert len({feature.grid.digest for feature in features}) == 5
    assert len({hr.Schema((feature,)).digest for feature in features}) == 5
    same = hr.Numeric("x", 0, 1, column="x")
    assert same.grid.digest == plain.grid.digest
    assert "column" not in hr.Schema((same,)).to_toml()


def test_without_parsers_every_feature_has_a_column_of_its_own() -> None:
    assert SCHEMA.without_parsers.columns == SCHEMA.names
    assert not any(grid.is_parsed for grid in SCHEMA.without_parsers.grids)
