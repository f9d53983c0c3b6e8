"""Whether a value is exactly of the types its class declares: an integer is an int and no bool.

Python builds a dataclass from anything. A site must not: a float in a sensitivity, a bool for a
count or a NaN in a threshold would be computed with.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

LONGEST_TEXT = 4096
MARK = "_has_its_types"
"""Left on frozen values, so that a model of a hundred trees is not read a hundred times."""

Kinds = Mapping[Any, tuple[type, ...]]
"""For each protocol, the classes that may stand for it."""


class Strict:
    """Checks values against the annotations of their classes."""

    def __init__(self, kinds: Kinds, opaque: Iterable[type]) -> None:
        self._kinds, self._opaque = kinds, tuple(opaque)

    def misfit(self, value: Any, hint: Any) -> str | None:
        """Why the value is not of this type; None if it is."""
        origin = get_origin(hint)
        if origin is tuple:
            return self._tuple(value, get_args(hint))
        if hint in self._kinds:
            return self._one_of(value, self._kinds[hint])
        if isinstance(hint, UnionType) or origin is Union:
            return self._any_of(value, get_args(hint))
        if hint is NoneType or hint is None:
            return None if value is None else _not(value, "None")
        return self._plain(value, hint)

    def _plain(self, value: Any, hint: Any) -> str | None:
        if type(value) is not hint:
            return _not(value, getattr(hint, "__name__", str(hint)))
        if hint is float:
            return None if math.isfinite(value) else "a number is not finite"
        if hint is str:
            return None if len(value) <= LONGEST_TEXT else "a text is too long"
        if hint in (int, bool, Fraction) or issubclass(hint, (Enum, *self._opaque)):
            return None
        return self.fields(value) if is_dataclass(hint) else _not(value, "a value")

    def fields(self, value: Any) -> str | None:
        """Every field of a dataclass, all the way down; a value found right is not read again."""
        kept = getattr(value, "__dict__", {})
        if MARK in kept:
            return None
        hints = _hints(type(value))
        reasons = (self.misfit(getattr(value, f.name), hints[f.name]) for f in fields(value))
        reason = next(filter(None, reasons), None)
        if reason is None:
            kept[MARK] = True
        return reason

    def _are_known(self, parts: tuple[Any, ...], kinds: tuple[Any, ...]) -> bool:
        """Whether all are of these classes, and were found right before or check themselves."""
        if not set(map(type, parts)) <= set(kinds):
            return False
        checked = {kind for kind in kinds if kind in self._opaque}
        return all(type(part) in checked or MARK in getattr(part, "__dict__", ()) for part in parts)

    def _one_of(self, value: Any, classes: tuple[type, ...]) -> str | None:
        if type(value) not in classes:
            return _not(value, " or ".join(c.__name__ for c in classes))
        return None if isinstance(value, self._opaque) else self.fields(value)

    def _any_of(self, value: Any, hints: tuple[Any, ...]) -> str | None:
        if type(value) in hints:
            return self.misfit(value, type(value))
        reasons = [self.misfit(value, hint) for hint in hints]
        return None if None in reasons else reasons[0]

    def _tuple(self, value: Any, hints: tuple[Any, ...]) -> str | None:
        if type(value) is not tuple:
            return _not(value, "a tuple")
        if len(hints) == 2 and hints[1] is Ellipsis:
            if hints[0] is float:
                fine = all(type(part) is float and math.isfinite(part) for part in value)
                return None if fine else "a number is not a finite float"
            if hints[0] is int:
                fine = all(type(part) is int for part in value)
                return None if fine else "a number is not an int"
            if self._are_known(value, get_args(hints[0]) or hints[:1]):
                return None
            hints = (hints[0],) * len(value)
        if len(value) != len(hints):
            return f"{len(value)} values came for {len(hints)}"
        reasons = (self.misfit(part, hint) for part, hint in zip(value, hints, strict=True))
        return next(filter(None, reasons), None)


def _not(value: Any, wanted: str) -> str:
    return f"a {type(value).__name__} came for {wanted}"


_HINTS: dict[type, dict[str, Any]] = {}


def _hints(kind: type) -> dict[str, Any]:
    """Kept: the same few classes are checked again and again."""
    if kind not in _HINTS:
        _HINTS[kind] = get_type_hints(kind)
    return _HINTS[kind]
