"""Whether a value is exactly of the types its class declares: an integer is an int and no bool.

Python builds a dataclass from anything. A site must not: a float in a sensitivity, a bool for a
count or a NaN in a threshold would be computed with.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from functools import partial
from itertools import chain
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

LONGEST_TEXT = 4096
MARK = "_has_its_types"
"""Left on frozen values, so that a model of a hundred trees is not read a hundred times."""

Kinds = Mapping[Any, tuple[type, ...]]
"""For each protocol, the classes that may stand for it."""


Check = Callable[[Any], str | None]
"""Why a value is not of a type; None if it is."""


class Strict:
    """Checks values against the annotations of their classes, each of which is read once."""

    def __init__(self, kinds: Kinds, opaque: Iterable[type]) -> None:
        self._kinds, self._opaque = kinds, tuple(opaque)
        self._of_fields: dict[type, tuple[tuple[str, Check], ...]] = {}

    def fields(self, value: Any) -> str | None:
        """Every field of a dataclass, all the way down; a value found right is not read again."""
        kept = getattr(value, "__dict__", {})
        if MARK in kept:
            return None
        for name, check in self._checks(type(value)):
            reason = check(getattr(value, name))
            if reason is not None:
                return reason
        kept[MARK] = True
        return None

    def misfit(self, value: Any, hint: Any) -> str | None:
        """Why the value is not of this type; None if it is."""
        return self._check(hint)(value)

    def _checks(self, kind: type) -> tuple[tuple[str, Check], ...]:
        """Kept: the same few classes are checked again and again."""
        if kind not in self._of_fields:
            hints = get_type_hints(kind)
            checks = ((f.name, self._check(hints[f.name])) for f in fields(kind))
            self._of_fields[kind] = tuple(checks)
        return self._of_fields[kind]

    def _check(self, hint: Any) -> Check:
        origin = get_origin(hint)
        if origin is tuple:
            return self._tuple(get_args(hint))
        if hint in self._kinds:
            return partial(self._one_of, self._kinds[hint])
        if isinstance(hint, UnionType) or origin is Union:
            return partial(_any_of, {kind: self._check(kind) for kind in get_args(hint)})
        if hint is NoneType or hint is None:
            return lambda value: None if value is None else _not(value, "None")
        return partial(self._plain, hint)

    def _plain(self, hint: Any, value: Any) -> str | None:
        if type(value) is not hint:
            return _not(value, getattr(hint, "__name__", str(hint)))
        if hint is float:
            return None if math.isfinite(value) else "a number is not finite"
        if hint is str:
            return None if len(value) <= LONGEST_TEXT else "a text is too long"
        if hint in (int, bool, Fraction) or issubclass(hint, (Enum, *self._opaque)):
            return None
        return self.fields(value) if is_dataclass(hint) else _not(value, "a value")

    def _one_of(self, classes: tuple[type, ...], value: Any) -> str | None:
        if type(value) not in classes:
            return _not(value, " or ".join(c.__name__ for c in classes))
        return None if isinstance(value, self._opaque) else self.fields(value)

    def _tuple(self, hints: tuple[Any, ...]) -> Check:
        if len(hints) != 2 or hints[1] is not Ellipsis:
            return partial(_each_of, tuple(map(self._check, hints)))
        if hints[0] in (int, float):
            return partial(_numbers, hints[0])
        if get_origin(hints[0]) is tuple and get_args(hints[0])[1:] == (Ellipsis,):
            inner = get_args(hints[0])[0]
            if inner in (int, float):
                return partial(_rows_of_numbers, inner)
        kinds = frozenset(get_args(hints[0]) or hints[:1])
        return partial(self._all, self._check(hints[0]), kinds, kinds & set(self._opaque))

    def _all(
        self, check: Check, kinds: frozenset[Any], opaque: frozenset[Any], value: Any
    ) -> str | None:
        """Parts that check themselves, or were found right before, are not read again."""
        if type(value) is not tuple:
            return _not(value, "a tuple")
        if set(map(type, value)) <= opaque:
            return None
        new = [
            part
            for part in value
            if type(part) not in kinds or MARK not in getattr(part, "__dict__", ())
        ]
        return next(filter(None, map(check, new)), None)


def _any_of(checks: Mapping[Any, Check], value: Any) -> str | None:
    if type(value) in checks:
        return checks[type(value)](value)
    reasons = [check(value) for check in checks.values()]
    return None if None in reasons else reasons[0]


def _each_of(checks: tuple[Check, ...], value: Any) -> str | None:
    if type(value) is not tuple:
        return _not(value, "a tuple")
    if len(value) != len(checks):
        return f"{len(value)} values came for {len(checks)}"
    reasons = (check(part) for check, part in zip(checks, value, strict=True))
    return next(filter(None, reasons), None)


def _numbers(kind: type, value: Any) -> str | None:
    if type(value) is not tuple:
        return _not(value, "a tuple")
    return None if _are_numbers(kind, value) else f"a number is no finite {kind.__name__}"


def _rows_of_numbers(kind: type, value: Any) -> str | None:
    if type(value) is not tuple or not set(map(type, value)) <= {tuple}:
        return _not(value, "tuples in a tuple")
    whole = tuple(chain.from_iterable(value))
    return None if _are_numbers(kind, whole) else f"a number is no finite {kind.__name__}"


def _are_numbers(kind: type, value: tuple[Any, ...]) -> bool:
    """In loops of the interpreter's own: tables of numbers are most of what a site reads."""
    return set(map(type, value)) <= {kind} and (kind is int or all(map(math.isfinite, value)))


def _not(value: Any, wanted: str) -> str:
    return f"a {type(value).__name__} came for {wanted}"
