"""What becomes of a record depends on that record alone: one more row changes no other row's code.

The type of a column depends on all its rows, in every library and in its own way. So each table is
built anew with the added row, and the codes of the rows that were there before are compared.
"""

from __future__ import annotations

import datetime
import math
import tempfile
import warnings
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from hedgerow.data.reading import columns
from hedgerow.data.reading.columns import distinct, number_of, numbers
from hedgerow.data.reading.containers import as_column
from hedgerow.data.reading.encoding import Encoded, encode
from hedgerow.errors import DataError
from hedgerow.schema.schema import Categorical, Hashed, Numeric, Schema, Target
from hedgerow.schema.tokens import FIRST_AMBIGUOUS, token_of
from support.effort import either

pytestmark = pytest.mark.property

LISTED = (0, 1, 2, 3, 0.5, 0.1, "a", "01", "inf", "NA", str(10**17), 2**53 - 1)
SCHEMA = Schema(
    (
        Numeric("number", -1, 4, bins=20),
        Categorical("open", LISTED),
        Categorical("closed", LISTED, other=False),
        Hashed("hashed", 50),
    )
)
BY_CLASS = Schema((Numeric("x", 0, 1),), classes=LISTED)
BY_VALUE = Schema((Numeric("x", 0, 1),), target=Target(-1, 4))
NAMES = list(SCHEMA.names)
MOST_EXAMPLES = either(25, 50)

# ---- values -------------------------------------------------------------------------------------

MISSING = st.sampled_from([None, math.nan])
WHOLE = st.integers(0, 4) | st.integers(1 - 2**53, 2**53 - 1)
LARGE = st.sampled_from([2**53, 2**53 + 1, 10**17, 10**18, -(10**18)])
REAL = st.sampled_from([0.5, 0.1, 1.0, 2.0, -0.0, 1e-5, 1e17, 1e22, math.inf]) | st.floats(-9, 9)
NARROW = st.sampled_from([0.5, 0.1, 1.0, 3.7, 1e-4]).map(np.float32)
TRUTH = st.booleans()
NUMBER_LIKE = ["1", "1.0", " 2 ", "0.1", "01", "True", "false", "nan", "inf", "1e+22", str(10**17)]
WORDS = st.sampled_from(["a", " a ", "b", "NA", "", "a\0", *NUMBER_LIKE]) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters='\r\n"'), max_size=4
)
BYTES = st.sampled_from([b"a", b"1", b"1.0", b"\xff"])
DECIMALS = st.sampled_from(["1", "1.00", "0.5", "2.50", "NaN", "1e17"]).map(Decimal)

ADDED = [
    math.nan,
    None,
    "x",
    "1",
    0.5,
    7,
    10**17,
    10**18,
    10**20,
    True,
    np.bool_(False),
    b"x",
    np.float32(0.1),
    np.float64(0.1),
    np.int8(3),
    Decimal("1.5"),
    Decimal("NaN"),
    datetime.date(2020, 1, 1),
    pd.Timestamp("2020-01-01"),
    pd.NaT,
    pd.NA,
    1j,
    [1, 2],
    {"a": 1},
    (),
]
PLAIN_KINDS = [WHOLE, LARGE, REAL, NARROW, TRUTH, WORDS]
KINDS = [*PLAIN_KINDS, BYTES, DECIMALS]


def columns_of(kinds: Sequence[st.SearchStrategy[Any]]) -> st.SearchStrategy[list[Any]]:
    """Columns of one kind, some with missing values."""
    one = [st.lists(kind, min_size=1, max_size=4) for kind in kinds]
    some = [st.lists(kind | MISSING, min_size=1, max_size=4) for kind in kinds]
    return st.one_of(*one, *some)


# ---- tables -------------------------------------------------------------------------------------

Build = Callable[[list[Any], Path], Any]
"""From the values of one column to a source in which all columns of the schema hold them."""


def same_in_all(column: Any) -> pd.DataFrame:
    return pd.DataFrame(dict.fromkeys(NAMES, column))


def guessed(values: list[Any]) -> pd.Series:
    """As pandas would type it; objects where it cannot."""
    try:
        return pd.Series(values)
    except Exception:
        return pd.Series(np.fromiter(values, object, len(values)))


def as_list(values: list[Any], folder: Path) -> Any:
    return [[value] * len(NAMES) for value in values]


def as_array(values: list[Any], folder: Path) -> Any:
    """As NumPy would type it: one text makes text of all, one float makes floats of booleans."""
    return np.array([[value] * len(NAMES) for value in values])


def as_objects(values: list[Any], folder: Path) -> Any:
    column = np.fromiter(values, object, len(values))
    return np.stack([column] * len(NAMES), axis=1)


def as_frame(values: list[Any], folder: Path) -> Any:
    return same_in_all(guessed(values))


def as_frame_of_objects(values: list[Any], folder: Path) -> Any:
    return same_in_all(pd.Series(np.fromiter(values, object, len(values))))


def as_appended_frame(values: list[Any], folder: Path) -> Any:
    """Two typed frames, one below the other."""
    parts = [same_in_all(guessed(part)) for part in (values[:-1], values[-1:]) if part]
    return pd.concat(parts, ignore_index=True)


def as_nullable(values: list[Any], folder: Path) -> Any:
    return same_in_all(guessed(values).convert_dtypes())


def as_arrow_backed(values: list[Any], folder: Path) -> Any:
    return same_in_all(guessed(values).convert_dtypes(dtype_backend="pyarrow"))


def as_categories(values: list[Any], folder: Path) -> Any:
    return same_in_all(guessed(values).astype("category"))


def as_arrow_table(values: list[Any], folder: Path) -> Any:
    return pa.table(dict.fromkeys(NAMES, pa.array(values, from_pandas=True)))


def as_polars(values: list[Any], folder: Path) -> Any:
    polars = pytest.importorskip("polars", reason="Polars is not installed")
    if any(isinstance(value, list | dict | tuple) for value in values):
        raise TypeError("Polars puts all values beside a nested one in lists or structs")
    # To Polars NaN is a number like any other, and true among booleans.
    values = [None if isinstance(value, float) and value != value else value for value in values]
    two = [dict.fromkeys(NAMES, part) for part in (values[:-1], values[-1:]) if part]
    try:
        return polars.concat([polars.DataFrame(part) for part in two], how="vertical_relaxed")
    except polars.exceptions.PanicException as error:  # which is no Exception
        raise TypeError from error


def as_parquet(values: list[Any], folder: Path) -> Any:
    as_frame(values, folder).to_parquet(folder / "rows.parquet")
    return folder / "rows.parquet"


def as_csv(values: list[Any], folder: Path) -> Any:
    if any(isinstance(value, complex) for value in values):
        raise TypeError("pandas writes all numbers beside a complex one as complex")
    as_frame(values, folder).to_csv(folder / "rows.csv", index=False)
    return folder / "rows.csv"


BUILDS: list[tuple[Build, list[st.SearchStrategy[Any]]]] = [
    (as_list, KINDS),
    (as_objects, KINDS),
    (as_frame, KINDS),
    (as_frame_of_objects, KINDS),
    (as_appended_frame, KINDS),
    (as_nullable, KINDS),
    (as_arrow_backed, PLAIN_KINDS),
    (as_categories, KINDS),
    (as_arrow_table, KINDS),
    (as_parquet, PLAIN_KINDS),
    # What these three turn into text is beyond repair where digits are many or zeros written out.
    (as_array, [WHOLE, REAL, NARROW, TRUTH, WORDS]),
    (as_polars, [WHOLE, TRUTH, WORDS]),
    (as_csv, [WHOLE, REAL, NARROW, TRUTH, WORDS]),
]
EACH = pytest.mark.parametrize(("build", "kinds"), BUILDS, ids=lambda b: getattr(b, "__name__", ""))


def built(build: Build, values: list[Any], folder: str) -> Any:
    """A table that its library refuses to make cannot reach a site."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return build(values, Path(folder))
        except Exception:
            assume(False)


# ---- the gate -----------------------------------------------------------------------------------


def codes_with_and_without(build: Build, values: list[Any], added: Any) -> list[list[list[int]]]:
    """Codes of `values` alone, above the added row, and below it."""
    with tempfile.TemporaryDirectory() as folder:
        alone, above, below = (
            encode(built(build, rows, folder), SCHEMA).codes
            for rows in (values, [*values, added], [added, *values])
        )
    assert above.shape[1] == below.shape[1] == len(values) + 1
    return [alone.tolist(), above[:, :-1].tolist(), below[:, 1:].tolist()]


@EACH
def test_one_more_row_changes_no_code(build, kinds) -> None:
    @settings(max_examples=MOST_EXAMPLES, deadline=None)
    @given(columns_of(kinds), st.sampled_from(ADDED))
    @example([1, 2, 3], math.nan)
    @example([True, False], math.nan)
    @example([True, False], 2)
    @example([True, False], "x")
    @example([1, 0], "x")
    @example([0.5, 0.1], "x")
    def check(values: list[Any], added: Any) -> None:
        alone, above, below = codes_with_and_without(build, values, added)
        assert alone == above == below

    check()


def old_text(value: object) -> str | None:
    """How a category was known before: by the text of whatever its column made of it."""
    missing = value is None or (isinstance(value, float) and value != value)
    return None if missing else str(value)


@pytest.mark.parametrize(
    ("values", "added"),
    [([2, 10**17], math.nan), ([True, False], math.nan), ([np.float32(0.1)], "x")],
)
def test_the_text_of_a_value_as_its_token_turns_the_gate_red(values, added, monkeypatch) -> None:
    """Twin: 10**17 is listed, and one missing value makes it 1e+17."""
    monkeypatch.setattr(columns, "token_of", old_text)
    alone, above, below = codes_with_and_without(as_array, values, added)
    assert not alone == above == below


# ---- labels -------------------------------------------------------------------------------------


def labels_of(encoded: Encoded) -> list[float]:
    assert encoded.y is not None
    return encoded.y.tolist()


@pytest.mark.parametrize("schema", [BY_CLASS, BY_VALUE], ids=["classes", "numbers"])
@pytest.mark.parametrize("wrap", [list, guessed, lambda v: np.fromiter(v, object, len(v))])
def test_a_row_without_a_label_skips_and_changes_no_other(schema, wrap) -> None:
    @settings(max_examples=MOST_EXAMPLES, deadline=None)
    @given(columns_of(KINDS), st.sampled_from(ADDED))
    @example([0, 1, 1], None)
    @example([True, False], math.nan)
    def check(values: list[Any], added: Any) -> None:
        alone, above = (
            encode(np.zeros((len(y), 1)), schema, y=wrap(y)) for y in (values, [*values, added])
        )
        assert labels_of(above)[: alone.n] == labels_of(alone)
        assert above.n + above.skipped == alone.n + alone.skipped + 1
        assert above.n - alone.n in (0, 1)

    check()


# ---- the quick ways and the plain one -----------------------------------------------------------


@settings(max_examples=200)
@given(st.lists(st.one_of(*KINDS, MISSING, st.sampled_from(ADDED)), max_size=6))
def test_a_column_is_read_as_its_values_one_by_one(values: list[Any]) -> None:
    column = as_column(values)
    found = distinct(column)
    tokens = found.tokens()
    assert [tokens[i] for i in found.index] == [token_of(value) for value in values]
    expected = [number_of(value) for value in values]
    read, strange = numbers(column)
    assert sum(times for _, times in strange) == expected.count(None)
    np.testing.assert_array_equal(read, np.array(expected, dtype=float))


NUMERALS = st.text("0123456789+-.eE_xXnaiftyINF() \t١２", max_size=7)
ODD_NUMERALS = ["1_000", " 1", "0x10", "inf", "1e400", "-1e400", "١٢", "nan(1)", "+5", "1.", "1d5"]


@settings(max_examples=300)
@given(NUMERALS | st.floats().map(repr) | st.sampled_from(ODD_NUMERALS), st.booleans())
def test_a_text_is_the_same_number_whatever_stands_beside_it(text: str, as_bytes: bool) -> None:
    """Beside another text all are parsed one by one; alone Arrow may take them all at once."""
    kind = pa.binary() if as_bytes else pa.string()
    alone, alone_strange = numbers(pa.array([text], kind))
    beside, beside_strange = numbers(pa.array([text, "beside"], kind))
    np.testing.assert_array_equal(alone, beside[:1])
    assert len(alone_strange) == len(beside_strange) - 1


# ---- tokens -------------------------------------------------------------------------------------


@given(st.one_of(*KINDS))
def test_a_token_is_its_own_token(value: object) -> None:
    token = token_of(value)
    assert not isinstance(token, str) or token_of(token) == token


@given(st.integers(-(2**70), 2**70))
def test_a_whole_number_is_known_alike_as_integer_and_as_float(number: int) -> None:
    assert token_of(number) == token_of(float(number)) == token_of(Decimal(number))
    assert isinstance(token_of(number), str) == (abs(number) < FIRST_AMBIGUOUS)


@given(st.floats(width=32))
def test_a_float32_is_known_alike_in_both_widths_and_as_text(number: float) -> None:
    narrow, wide = np.float32(number), float(np.float32(number))
    assert token_of(narrow) == token_of(wide) == token_of(repr(wide))
    if abs(number) < 2**24 or not math.isfinite(number):
        assert token_of(str(narrow)) == token_of(narrow)


# ---- lines of a file ----------------------------------------------------------------------------

LINES = [b"1,a", b"0.5,b", b'2,"a"', b'3,"say ""a"""', b'0,a "quoted"', b",NA"]
ODD_LINES = [
    b'1,"a',
    b'1,"',
    b'"',
    b'"1,a',
    b'1,"a""',
    b'1,a"b"',
    b'x"y,"z',
    b'1,"a"b"',
    b"1",
    b"1,a,b",
    b"",
    b"1,\xff",
    b"\0",
    b"\xff",
    b'"\xff,"',
    b'1,"\xff,"',
    b'1,"' + b"a," * 400,
    b"1," + b"a" * 900,
]
TWO_COLUMNS = Schema((Numeric("n", 0, 4, bins=8), Categorical("w", ("a", "b", 'say "a"'))))


def codes_of_lines(lines: Sequence[bytes], ends: bytes, folder: Path) -> list[list[int]]:
    path = folder / "rows.csv"
    path.write_bytes(ends.join([b"n,w", *lines]))
    return encode(path, TWO_COLUMNS).codes.T.tolist()


@pytest.mark.parametrize("block_bytes", [1 << 20, 512, 64])
@pytest.mark.parametrize("ends", [b"\n", b"\r\n", b"\r"])
def test_a_line_of_a_file_changes_no_other(ends, block_bytes, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("hedgerow.data.reading.files.CSV_BLOCK_BYTES", block_bytes)

    @settings(max_examples=MOST_EXAMPLES, deadline=None)
    @given(
        st.lists(st.sampled_from(LINES), max_size=12),
        st.sampled_from(ODD_LINES) | st.binary(max_size=6).filter(lambda b: not {10, 13} & set(b)),
        st.integers(0, 12),
    )
    def check(lines: list[bytes], odd: bytes, place: int) -> None:
        place = min(place, len(lines))
        alone = codes_of_lines(lines, ends, tmp_path)
        beside = codes_of_lines([*lines[:place], odd, *lines[place:]], ends, tmp_path)
        assert beside in (alone, [*alone[:place], *beside[place : place + 1], *alone[place:]])

    check()


def test_a_line_with_an_open_quote_that_is_let_through_swallows_the_next(
    tmp_path, monkeypatch
) -> None:
    """Twin: the gate sees it."""
    lines = [b"1,a", b"2,b", b"3,a"]
    alone = codes_of_lines(lines, b"\n", tmp_path)
    let_through = lambda self, block: [(0, block)]  # noqa: E731
    monkeypatch.setattr("hedgerow.data.reading.lines.SoundLines._sound", let_through)
    beside = codes_of_lines([lines[0], b'1,"', *lines[1:]], b"\n", tmp_path)
    assert beside not in (alone, [alone[0], *beside[1:2], *alone[1:]])


def test_an_open_quote_is_an_error_to_its_owner_and_skipped_once_joined(tmp_path) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(b'n,w\n1,a\n2,"b\n3,a\n')
    with pytest.raises(DataError, match=r"line 3 opens a quote that does not close"):
        encode(path, TWO_COLUMNS, check=True)
    encoded = encode(path, TWO_COLUMNS)
    assert encoded.codes[1].tolist() == [0, 0]
    assert encoded.skipped == 1


@pytest.mark.parametrize("header", [b'n,"w', b'\xef\xbb\xbf"n,w', b"n," + b"w" * (1 << 20)])
def test_a_header_that_is_open_or_too_long_is_refused(header, tmp_path) -> None:
    (tmp_path / "rows.csv").write_bytes(header + b"\n1,a\n")
    with pytest.raises(DataError, match="header"):
        encode(tmp_path / "rows.csv", TWO_COLUMNS)
