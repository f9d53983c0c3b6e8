"""Tokens: one text per value, by which categories are matched, whatever type they arrive in.

The type of a column depends on all of its rows. One missing value turns integers into floats and
booleans into objects, one text turns numbers into text. The code of a record must not change
because another record came or went, so all forms of a value have the same token:

    1, 1.0, True, numpy.int8(1), Decimal("1.00"), "1", "1.0", " 1 ", "True", b"1"    ->  "1"

Fractions are compared as float32, so that 0.1 is the same in columns of both widths. A number of
2^53 or more has no token, since a float cannot tell it from its neighbors: write such codes as
text. Text that no number prints itself as ("01", "2.50", "1e3") is its own token.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal
from enum import Enum
from numbers import Integral, Rational
from typing import Any, Final

import numpy as np

FIRST_AMBIGUOUS: Final = 2**53
"""From here on two integers may have the same float."""


class Unusable(Enum):
    """Why a value has no token. Such a value is unknown, whatever the schema lists."""

    TOO_LARGE = "a number of 2^53 or more"
    NO_VALUE = "neither a number, a text nor a boolean"


Token = str | Unusable | None
"""None: the value is missing."""

MISSING_TEXTS: Final = frozenset(
    {"", "NA", "N/A", "n/a", "NaN", "nan", "NaT", "NULL", "null", "None", "<NA>"}
)
"""Text that means "no value", unless the schema lists it as a category."""

TRUTHS: Final = {"True": "1", "true": "1", "False": "0", "false": "0"}
"""Booleans as Python and NumPy write them in texts, and as Arrow and Polars do."""

_WORDS: Final[dict[str, Token]] = {**TRUTHS, "nan": None}
_MISSING_TYPES: Final = frozenset({"NoneType", "NAType", "NaTType", "MaskedConstant"})
_DIGITS: Final = frozenset("0123456789")
_FRACTION: Final = re.compile(r"-?\d+(?:\.\d+(?:e[+-]\d+)?|e[+-]\d+)", re.ASCII)
"""Has a point or an exponent; integers are their own tokens."""


def token_of(value: object) -> Token:
    """The token of one value, which depends on no other value."""
    plain = plain_of(value)
    if isinstance(plain, str):
        return _token_of_text(plain)
    return plain if isinstance(plain, Unusable) else _token_of_number(plain)


def spell(value: object) -> Token:
    """The value as text: text unchanged, booleans in words."""
    token = token_of(value)
    if isinstance(token, str) and isinstance(value, str | bytes):
        return _text(value)
    return str(bool(value)) if isinstance(value, bool | np.bool_) else token


def is_whole(text: str) -> bool:
    """Whether an integer prints itself as this text: '01' is a text."""
    digits = text.removeprefix("-")
    return digits.isascii() and digits.isdigit() and (digits[0] != "0" or text == "0")


def plain_of(value: object) -> str | int | float | Unusable:
    """The text or the number that a value represents; NaN if it is missing."""
    if type(value) is float or type(value) is int:  # the common case
        return value
    try:
        return _plain_of(value)
    except Exception:  # an object may raise anything; only its own record is affected
        return Unusable.NO_VALUE


def _plain_of(value: Any) -> str | int | float | Unusable:
    if isinstance(value, str | bytes):
        return _text(value).replace("\0", " ").strip()  # NumPy drops NUL from the end of a text
    if isinstance(value, np.ndarray) and value.ndim == 0 and value is not np.ma.masked:
        return _plain_of(value[()])
    return _plain_of(value.as_py()) if hasattr(value, "as_py") else _real_of(value)


def _text(value: str | bytes) -> str:
    if isinstance(value, bytes):
        return bytes.decode(value, "utf-8", "replace")
    return str.__str__(value)


def _real_of(value: object) -> int | float | Unusable:
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    if type(value).__name__ in _MISSING_TYPES:
        return math.nan
    if isinstance(value, np.datetime64 | np.timedelta64):  # a timedelta64 passes for an integer
        return math.nan if np.isnat(value) else Unusable.NO_VALUE
    if isinstance(value, Integral | np.bool_):
        return int(value)
    if isinstance(value, np.floating | Decimal | Rational):
        return nearest_float(value)
    if isinstance(value, complex | np.complexfloating) and value.imag == 0:
        return float(value.real)
    return Unusable.NO_VALUE


def nearest_float(value: Any) -> float:
    """The nearest float; infinite for numbers beyond all floats."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    except ValueError:  # a signaling NaN
        return math.nan


def _token_of_number(number: float) -> Token:
    if number != number:
        return None
    if abs(number) == math.inf:
        return str(number)
    if abs(number) >= FIRST_AMBIGUOUS:
        return Unusable.TOO_LARGE
    return str(int(number)) if number == int(number) else _token_of_fraction(number)


def _token_of_fraction(number: float) -> str:
    """The number as float32 prints it, unless float32 rounds it to an integer."""
    narrow = np.float32(number)
    return repr(number) if narrow == int(narrow) else repr(float(str(narrow)))


def _token_of_text(text: str) -> Token:
    """Text that a number prints itself as has the token of that number."""
    if text in _WORDS:
        return _WORDS[text]
    if text[-1:] in _DIGITS and _FRACTION.fullmatch(text):
        number = float(text)
        # NumPy prints a float32 of 0.0001 as 1e-04, and one of a million as 1e+06
        is_narrow = abs(number) < FIRST_AMBIGUOUS and text == str(np.float32(number))
        if is_narrow or text == repr(number):
            return _token_of_number(number)
    return text
