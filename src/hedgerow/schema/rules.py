"""What a parameter may be: the one place where users' values are checked and put in our types.

A rule names itself four times: `kind` for the documentation, `allowed` for the message of an
error, `read` as code, `json` for the JSON Schema of a file. NumPy's numbers are numbers; a bool is
not.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from numbers import Rational, Real
from typing import Any, Literal, get_args, get_origin

import numpy as np

from hedgerow.errors import SpecError

MOST_SHOWN = 200
"""Characters of a value in an error."""


def shown_value(number: object) -> str:
    """A user's number in an error: short, whatever its size; Python prints no int of any length."""
    try:
        near = (
            0.0 if isinstance(number, bool) or not isinstance(number, Rational) else float(number)
        )
        text = f"{near:g}" if near else repr(number)
    except (OverflowError, ValueError):
        return "a number beyond all floats"
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


def exact(number: Fraction | float | int | str, name: str = "number") -> Fraction:
    """The rational a person meant: 0.1 is 1/10, not the nearest binary fraction.

    In plain Python's integers, whatever the type: NumPy's would overflow in silence.
    """
    try:
        if isinstance(number, Rational):
            return Fraction(int(number.numerator), int(number.denominator))
        return Fraction(str(number) if isinstance(number, Real) else number)
    except (ValueError, OverflowError, TypeError):
        raise SpecError(f"{name} is {number!r}; use a finite number.") from None


@dataclass(frozen=True)
class Rule:
    """`read` gives the value in the type that recipes use, or raises ValueError or TypeError."""

    kind: str
    allowed: str
    read: Callable[[Any], Any]
    json: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def check(self, name: str, value: Any) -> Any:
        try:
            return self.read(value)
        except (TypeError, ValueError, OverflowError):
            raise SpecError(f"{name} is {shown_value(value)}; use {self.allowed}.") from None


def whole(least: int, most: float = math.inf) -> Rule:
    def read(value: Any) -> int:
        number = operator.index(_no_bool(value))
        return number if least <= number <= most else _refuse()

    ends = f"of {least} or more" if most == math.inf else f"from {least} to {most}"
    shape = {"type": "integer", "minimum": least, "maximum": most}
    return Rule("int", f"a whole number {ends}", read, shape)


def _threads(value: Any) -> int:
    return operator.index(_no_bool(value)) or _refuse()


THREADS = Rule("int", "a whole number: how many, or -1 for all processors", _threads)


def number(*, least: float = -math.inf, above: float = -math.inf, below: float = math.inf) -> Rule:
    """A finite number."""

    def read(value: Any) -> float:
        given = float(_real(value))
        return given if given >= least and above < given < below else _refuse()

    ends = [("of {} or more", least), ("above {}", above)]
    where = "".join(f" {words.format(end)}" for words, end in ends if end > -math.inf)
    limits = {"minimum": least, "exclusiveMinimum": above, "exclusiveMaximum": below}
    finite = {name: end for name, end in limits.items() if math.isfinite(end)}
    return Rule("float", f"a finite number{where}", read, {"type": "number", **finite})


def fraction(words: str, fits: Callable[[Fraction], bool]) -> Rule:
    """An exact number: 0.1 is 1/10."""

    def read(value: Any) -> Fraction:
        given = exact(_real(value))
        return given if fits(given) else _refuse()

    return Rule("float", words, read)


SHARE = fraction("a number between 0 and 1, both excluded", lambda share: 0 < share < 1)
"""A part of the budget."""


def _flag(value: Any) -> bool:
    return bool(value) if isinstance(value, bool | np.bool_) else _refuse()


FLAG = Rule("bool", "True or False", _flag)


def one_of(choices: Mapping[str, Any] | type[Enum]) -> Rule:
    """A word for one of our values."""
    table = choices if isinstance(choices, Mapping) else {c.value: c for c in choices}
    words = ", ".join(repr(word) for word in table)

    def read(value: Any) -> Any:
        return table[value] if isinstance(value, str) and value in table else _refuse()

    return Rule(f"{{{words}}}", f"one of {words}", read, {"enum": list(table)})


def a(kind: type) -> Rule:
    """A value of a class of ours."""
    return Rule(kind.__name__, f"a hedgerow.{kind.__name__}", lambda v: _typed(v, kind))


def either(*rules: Rule) -> Rule:
    """The first rule that the value keeps."""

    def read(value: Any) -> Any:
        for rule in rules:
            try:
                return rule.read(value)
            except (TypeError, ValueError, OverflowError):
                continue
        return _refuse()

    kinds, words = ([getattr(rule, name) for rule in rules] for name in ("kind", "allowed"))
    return Rule(" or ".join(kinds), ", or ".join(words), read)


def or_none(rule: Rule) -> Rule:
    """None, or what the rule says."""

    def read(value: Any) -> Any:
        return None if value is None else rule.read(value)

    return Rule(f"{rule.kind} or None", f"{rule.allowed}, or None", read)


def rule_of(hint: Any) -> Rule:
    """Of a type that says all: a flag, or one of some words."""
    if hint is bool:
        return FLAG
    if get_origin(hint) is Literal:
        return one_of({word: word for word in get_args(hint)})
    raise TypeError(f"{hint} does not say what is allowed; declare a rule")


def anything(kind: str) -> Rule:
    """Left to whoever uses it."""
    return Rule(kind, kind, lambda value: value)


def _real(value: Any) -> Any:
    return value if isinstance(_no_bool(value), Real) else _refuse()


def _no_bool(value: Any) -> Any:
    return value if not isinstance(value, bool | np.bool_) else _refuse()


def _typed(value: Any, kind: type) -> Any:
    return value if isinstance(value, kind) else _refuse()


def _refuse() -> Any:
    raise ValueError
