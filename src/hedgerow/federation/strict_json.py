"""JSON that comes from outside, parsed without surprises; and blobs laid end to end."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from hedgerow.errors import SpecError

MOST_DEPTH = 32
MOST_INTEGER_DIGITS = 80
"""Of an integer: a set of 256 cells has 78."""
RATIONAL = re.compile(r"-?[0-9]{1,64}(/[0-9]{1,64})?")


def pack_blobs(blobs: Sequence[bytes]) -> bytes:
    return b"".join(struct.pack(">I", len(blob)) + blob for blob in blobs)


def parse(text: bytes) -> Any:
    """JSON without surprises: no NaN, no key twice, no endless digits, no deep nesting."""
    content = (_CAREFUL if _MANY_DIGITS.search(text) else _QUICK).decode(text.decode())
    _check_depth(content)
    return content


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise SpecError("a key stands twice.")
    return found


def _integer(digits: str) -> int:
    if len(digits) > MOST_INTEGER_DIGITS:
        raise SpecError("a number has too many digits.")
    return int(digits)


def _no_constant(name: str) -> Any:
    raise SpecError(f"{name} is no number.")


_MANY_DIGITS = re.compile(rb"[0-9]{%d}" % MOST_INTEGER_DIGITS)
_QUICK = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_constant)
"""Where no number can have too many digits, none is looked at one by one."""
_CAREFUL = json.JSONDecoder(
    object_pairs_hook=_once, parse_int=_integer, parse_constant=_no_constant
)
_NESTED = (dict, list)


def _check_depth(content: Any, left: int = MOST_DEPTH) -> None:
    """Part by part: a list of all parts of a level would take as much room as they do."""
    if left == 0:
        raise SpecError("values are nested too deeply.")
    if type(content) in _NESTED:
        for part in content.values() if type(content) is dict else content:
            if type(part) in _NESTED:
                _check_depth(part, left - 1)


def parse_rational(text: Any) -> Fraction:
    if not isinstance(text, str) or RATIONAL.fullmatch(text) is None:
        raise SpecError("not a rational of at most 64 digits.")
    return Fraction(text)


def unpack_blobs(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from(">I", data, at)
        if at + 4 + size > len(data):
            raise SpecError("a definition ends too soon.")
        yield data[at + 4 : at + 4 + size]
        at += 4 + size
