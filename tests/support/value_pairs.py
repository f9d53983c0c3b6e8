"""Every kind of value beside every other, in every container: read in a process that may die.

A reading takes the values of some records to what becomes of each. Run as a program, this tells
each pair before it is read and each outcome that another record changed. The one who started it
(`disagreements`) thus knows which pair a death belongs to, and goes on behind it.
"""

from __future__ import annotations

import datetime
import enum
import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Sequence
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from hedgerow.data.reading import encoding, sources
from hedgerow.data.reading.columns import code_of_value, is_plain, number_of
from hedgerow.data.reading.containers import objects_of
from hedgerow.data.reading.encoding import encode
from hedgerow.data.site_rows import split_by_site, split_persons
from hedgerow.methods.inputs import checked_rows
from hedgerow.methods.predicting import one_row
from hedgerow.schema.schema import Categorical, Hashed, Numeric, Schema, Target
from hedgerow.schema.tokens import token_of
from support.effort import LONG

LISTED = (0, 1, 2, 3, 0.5, 0.1, "a", "01", "inf", "NA", str(10**17), 2**53 - 1)
SCHEMA = Schema(
    (
        Numeric("number", -1, 4, bins=20),
        Categorical("open", LISTED),
        Categorical("closed", LISTED, other=False),
        Hashed("hashed", 50),
    )
)
NAMES = list(SCHEMA.names)
BY_CLASS = Schema((Numeric("row", 0, 2, bins=2),), classes=LISTED)
BY_VALUE = Schema((Numeric("row", 0, 2, bins=2),), target=Target(-1, 4))


class Raising:
    """Whatever is asked of it, it raises."""

    __hash__ = None  # type: ignore[assignment]

    def _raise(self, *others: object) -> Any:
        raise RuntimeError("no")

    __eq__ = __lt__ = __bool__ = __len__ = __iter__ = __float__ = __int__ = __getattr__ = _raise
    __class__ = property(_raise)  # type: ignore[assignment]


class LyingText(str):
    def strip(self, *others: object) -> str:
        raise RuntimeError("no")

    replace = __str__ = strip  # type: ignore[assignment]


class LyingNumber(int):
    def __int__(self) -> int:
        raise RuntimeError("no")


class Grade(enum.IntEnum):
    THREE = 3


DAY = "2020-01-01"
PLAIN: dict[str, Any] = {
    "int": 5,
    "int 0": 0,
    "bool": True,
    "float": 2.5,
    "None": None,
    "nan": float("nan"),
    "inf": float("inf"),
    "text": "a",
    "text of a number": "1.5",
    "text of nothing": "",
    "bytes": b"a",
    "bytes of no text": b"\xff",
    "int8": np.int8(3),
    "int64": np.int64(2),
    "uint64": np.uint64(2**63 + 1),
    "float16": np.float16(0.5),
    "float32": np.float32(0.1),
    "float64": np.float64(0.5),
    "longdouble": np.longdouble(0.5),
    "numpy bool": np.bool_(True),
    "numpy text": np.str_("a"),
    "complex": 1j,
    "real complex": complex(2, 0),
    "int of 54 bits": 2**53 + 1,
    "int of 400 digits": 10**400,
    "Decimal": Decimal("1.5"),
    "Fraction": Fraction(1, 2),
    "date": datetime.date(2020, 1, 1),
    "datetime64": np.datetime64(DAY),
    "datetime64 of nanoseconds": np.datetime64(3, "ns"),
    "timedelta64": np.timedelta64(3, "D"),
    "NaT": pd.NaT,
    "NA": pd.NA,
    "Timestamp": pd.Timestamp(DAY),
    "list": [1],
    "tuple": (1, 2),
    "dict": {"a": 1},
    "array": np.array([1.0]),
    "masked": np.ma.masked,
}
"""More than 32 of them: the short suite reads each beside each."""
RARE: dict[str, Any] = {
    "numpy bytes": np.bytes_(b"a"),
    "complex64": np.complex64(2),
    "longdouble beyond floats": np.longdouble("1e4000"),
    "signaling NaN": Decimal("sNaN"),
    "Fraction beyond floats": Fraction(10**400, 3),
    "text of half a message": "\ud800",
    "datetime": datetime.datetime(2020, 1, 1),
    "datetime of a zone": datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC),
    "time": datetime.time(3),
    "timedelta": datetime.timedelta(3),
    "datetime64 of no time": np.datetime64("NaT"),
    "timedelta64 of nanoseconds": np.timedelta64(3, "ns"),
    "timedelta64 of no unit": np.timedelta64(3),
    "timedelta64 of no time": np.timedelta64("NaT"),
    "Timedelta": pd.Timedelta("3D"),
    "Period": pd.Period(DAY, "D"),
    "set": {1},
    "array of no axis": np.array(3.0),
    "array of two axes": np.array([[1, 2]]),
    "masked number": np.ma.array(3.0, mask=True),
    "void": np.void(b"a"),
    "bytearray": bytearray(b"a"),
    "memoryview": memoryview(b"a"),
    "range": range(3),
    "type": int,
    "object": object(),
    "Arrow number": pa.scalar(3.0),
    "Arrow text": pa.scalar("a"),
    "enum": Grade.THREE,
    "uuid": uuid.UUID(int=7),
    "lying text": LyingText("a"),
    "lying number": LyingNumber(3),
    "raising": Raising(),
}
KINDS = PLAIN | RARE

# ---- containers of rows -------------------------------------------------------------------------


def objects(values: Sequence[Any]) -> Any:
    return np.fromiter(values, object, len(values))


def as_list(values: Sequence[Any]) -> Any:
    return [[value] * len(NAMES) for value in values]


def as_objects(values: Sequence[Any]) -> Any:
    return np.stack([objects(values)] * len(NAMES), axis=1)


def as_masked(values: Sequence[Any]) -> Any:
    return np.ma.MaskedArray(as_objects(values), mask=False)


def as_frame(values: Sequence[Any]) -> Any:
    return pd.DataFrame(dict.fromkeys(NAMES, pd.Series(objects(values), dtype=object)))


def as_mixed_frame(values: Sequence[Any]) -> Any:
    """One column of objects, between typed ones."""
    return as_frame(values).assign(open=1, closed=0.5, hashed=pd.array([3] * len(values), "Int64"))


def as_guessed_frame(values: Sequence[Any]) -> Any:
    """Typed as pandas sees fit."""
    return pd.DataFrame(dict.fromkeys(NAMES, pd.Series(list(values))))


def as_categories(values: Sequence[Any]) -> Any:
    codes = range(len(values))
    column = pd.Categorical.from_codes(list(codes), pd.Index(objects(values)))
    return pd.DataFrame(dict.fromkeys(NAMES, pd.Series(column)))


def as_polars(values: Sequence[Any]) -> Any:
    return pl.DataFrame({name: pl.Series(list(values), dtype=pl.Object) for name in NAMES})


def as_mixed_polars(values: Sequence[Any]) -> Any:
    return as_polars(values).with_columns(open=pl.lit(1), closed=pl.lit(0.5), hashed=pl.lit(3))


def as_union(values: Sequence[Any]) -> Any:
    """Arrow's one column of several types; each value has its own."""
    parts = [pa.array([value]) for value in values]
    places = pa.array(range(len(values)), pa.int8()), pa.array([0] * len(values), pa.int32())
    column = pa.UnionArray.from_dense(*places, parts)
    return pa.table(dict.fromkeys(NAMES, column))


def as_arrow(values: Sequence[Any]) -> Any:
    """Arrow refuses parts of different types."""
    column = pa.chunked_array([pa.array([value]) for value in values])
    return pa.table(dict.fromkeys(NAMES, column))


# ---- readings -----------------------------------------------------------------------------------

Reading = Callable[[Sequence[Any]], list[Any]]
"""What becomes of each of some records that hold these values."""


class Unheld(Exception):
    """The library itself refuses to hold these values, so that they reach no site."""


def built(build: Callable[[Sequence[Any]], Any], values: Sequence[Any]) -> Any:
    try:
        return build(values)
    except Exception as error:
        raise Unheld from error


def codes_in(build: Callable[[Sequence[Any]], Any], values: Sequence[Any]) -> list[Any]:
    return encode(built(build, values), SCHEMA).codes.T.tolist()


def codes_by_blocks(values: Sequence[Any]) -> list[Any]:
    return encode(as_objects(values), SCHEMA, chunk_rows=1).codes.T.tolist()


def codes_of_estimators(values: Sequence[Any]) -> list[Any]:
    """As `fit` and `predict` take a list; a single row has a way of its own."""
    rows = checked_rows(as_list(values))
    alone = one_row(rows, SCHEMA)
    return (encode(rows, SCHEMA).codes if alone is None else alone).T.tolist()


def labels_in(wrap: Callable[[Sequence[Any]], Any], schema: Schema, values: Sequence[Any]) -> Any:
    """None for a record without a usable one."""
    read = encode(np.arange(len(values), dtype=float)[:, None], schema, y=wrap(values))
    assert read.y is not None
    by_row = dict(zip(read.codes[0].tolist(), read.y.tolist(), strict=True))
    return [by_row.get(row) for row in range(len(values))]


def persons_in(wrap: Callable[[Sequence[Any]], Any], values: Sequence[Any]) -> list[Any]:
    (ids,) = split_persons(wrap(values), np.zeros(len(values)), None, None)
    read = encode(np.arange(len(values), dtype=float)[:, None], BY_CLASS, person=ids)
    assert read.persons is not None
    by_row = dict(zip(read.codes[0].tolist(), read.persons.tolist(), strict=True))
    return [by_row.get(row) for row in range(len(values))]


SITES = sorted({str(token_of(value)) for value in KINDS.values()})


def sites_in(values: Sequence[Any]) -> list[Any]:
    """The site of each row, of all that there may be."""
    if not all(isinstance(token_of(value), str) for value in values):
        raise Unheld
    rows = np.arange(len(values))
    parts = split_by_site(rows, rows, objects(values), SITES)
    site_of = {row: name for name, (some, _) in zip(SITES, parts, strict=True) for row in some}
    return [site_of[row] for row in rows]


def code_alone(value: Any) -> list[int]:
    return [code_of_value(value, grid) for grid in SCHEMA.grids]


def class_alone(value: Any) -> int | None:
    return BY_CLASS.class_code(token_of(value))


def target_alone(value: Any) -> float | None:
    number = number_of(value)
    return None if number is None or number != number else min(max(number, -1.0), 4.0)


Rule = Callable[[Any], Any]
ROWS = {
    as_list: code_alone,
    as_objects: code_alone,
    as_frame: code_alone,
    as_polars: code_alone,
    as_masked: code_alone,
    as_mixed_frame: None,
    as_guessed_frame: None,
    as_categories: code_alone,
    as_mixed_polars: None,
    as_union: None,
    as_arrow: None,
}
READINGS: dict[str, tuple[Reading, Rule | None]] = {
    **{build.__name__: (partial(codes_in, build), rule) for build, rule in ROWS.items()},
    "by_blocks": (codes_by_blocks, code_alone),
    "of_estimators": (codes_of_estimators, code_alone),
    "classes_in_list": (partial(labels_in, list, BY_CLASS), class_alone),
    "classes_in_objects": (partial(labels_in, objects, BY_CLASS), class_alone),
    "targets_in_list": (partial(labels_in, list, BY_VALUE), target_alone),
    "persons_in_list": (partial(persons_in, list), None),
    "persons_in_objects": (partial(persons_in, objects), None),
    "sites_in_objects": (sites_in, lambda value: token_of(value)),
}
"""By name, with the rule of one value alone where the container keeps values as they are."""
CHOOSY = {"as_guessed_frame", "as_categories", "as_union", "as_arrow", "sites_in_objects"}
"""These do not hold every pair; whatever else is a container holds any object at all."""


# ---- the process that may die -------------------------------------------------------------------


def inferring(values: Any) -> Any:
    """A reader for which the type of a column is what Arrow makes of all its values."""
    try:
        column = pa.array(values, from_pandas=True)
    except Exception:
        return objects_of(values)
    return column if is_plain(column.type) else objects_of(values)


class Alone:
    """What becomes of each kind of value by itself, read once for each reading."""

    def __init__(self) -> None:
        self._outcomes: dict[tuple[str, str], list[Any]] = {}

    def __call__(self, name: str, kind: str) -> list[Any]:
        if (name, kind) not in self._outcomes:
            self._outcomes[name, kind] = READINGS[name][0]([KINDS[kind]])
        return self._outcomes[name, kind]


def one_pair(alone: Alone, name: str, first: str, second: str) -> str | None:
    """What is wrong with it."""
    reading, rule = READINGS[name]
    try:
        apart = alone(name, first) + alone(name, second)
        beside = reading([KINDS[first], KINDS[second]])
    except Unheld:
        is_choosy = name in CHOOSY or ("polars" in name and "raising" in (first, second))
        return None if is_choosy else "cannot be built"
    except Exception as error:
        return f"raises {type(error).__name__}: {error}"
    expected = apart if rule is None else [rule(KINDS[first]), rule(KINDS[second])]
    return None if apart == beside == expected else f"{apart} {beside} {expected}"


def main(reader: str, todo: Sequence[tuple[str, str, str]]) -> None:
    if reader == "inferring":
        for module in (sources, encoding):
            module.as_column = inferring  # type: ignore[attr-defined]
    alone = Alone()
    for number, pair in enumerate(todo):
        print(number, flush=True)
        wrong = one_pair(alone, *pair)
        if wrong is not None:
            print(json.dumps(wrong), flush=True)


# ---- the one who starts it ----------------------------------------------------------------------

Pair = tuple[str, str, str]
"""A reading and two kinds of values."""


def pairs(readings: Sequence[str], kinds: Sequence[str]) -> list[Pair]:
    return [(name, one, other) for name in readings for one in kinds for other in kinds]


MOST_DEATHS = 3
"""After these nothing more is tried: each costs a process."""


def disagreements(todo: Sequence[Pair], reader: str = "ours") -> dict[Pair, str]:
    """By pair: what another record changed, or that the process died of it."""
    wrong: dict[Pair, str] = {}
    for _ in range(MOST_DEATHS):
        told, code = _one_process(todo, reader)
        at = 0
        for line in told:
            if line.isdigit():
                at = int(line)
            else:
                wrong[todo[at]] = json.loads(line)
        if code == 0:
            break
        wrong[todo[at]] = f"died with {code}"
        todo = todo[at + 1 :]
    return wrong


def _one_process(todo: Sequence[Pair], reader: str) -> tuple[list[str], int]:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(Path(__file__)), reader],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        input=json.dumps(todo),
        capture_output=True,
        text=True,
        timeout=10 * LONG,
    )
    if done.returncode > 0:
        raise AssertionError(done.stderr)
    return done.stdout.splitlines(), done.returncode


if __name__ == "__main__":
    main(sys.argv[1], [tuple(pair) for pair in json.loads(sys.stdin.read())])
