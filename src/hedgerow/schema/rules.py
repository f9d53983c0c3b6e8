"""Rules of parameters: check users' values and convert them to internal types.

A rule has four forms: `kind` for the documentation, `expectation` for error messages, `parse` as
code, `json` for the JSON Schema of a file. NumPy's numbers are numbers; a bool is not.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from numbers import Rational, Real
from typing import Any, Literal, TypeVar, cast, get_args, get_origin

import numpy as np

from hedgerow.errors import ParameterError

MOST_SHOWN = 200
"""Characters of a value that an error shows."""


def shown_value(number: object) -> str:
    """A user's value in an error, as short text; Python refuses to print very long ints."""
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

    Computed in Python's integers for any type: NumPy's would overflow silently.
    """
    try:
        if isinstance(number, Rational):
            return Fraction(int(number.numerator), int(number.denominator))
        return Fraction(str(number) if isinstance(number, Real) else number)
    except (ValueError, OverflowError, TypeError):
        raise ParameterError(f"{name} is {number!r}; use a finite number.") from None


@dataclass(frozen=True)
class Rule:
    """A rule; `parse` returns the value in its internal type, or raises ValueError or TypeError."""

    kind: str
    expectation: str
    parse: Callable[[Any], Any]
    json: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def check(self, name: str, value: Any) -> Any:
        try:
            return self.parse(value)
        except (TypeError, ValueError, OverflowError):
            raise ParameterError(
                f"{name} is {shown_value(value)}; use {self.expectation}."
            ) from None


def whole(least: int, most: float = math.inf) -> Rule:
    def parse(value: Any) -> int:
        number = operator.index(_no_bool(value))
        return number if least <= number <= most else _refuse()

    ends = f"of {least} or more" if most == math.inf else f"from {least} to {most}"
    shape = {"type": "integer", "minimum": least, "maximum": most}
    return Rule("int", f"a whole number {ends}", parse, shape)


THREADS = Rule(
    "int",
    "a whole number: how many, or -1 for all processors",
    lambda value: operator.index(_no_bool(value)) or _refuse(),
)


def number(*, least: float = -math.inf, above: float = -math.inf, below: float = math.inf) -> Rule:

    def parse(value: Any) -> float:
        parsed_number = float(_real(value))
        is_allowed = parsed_number >= least and above < parsed_number < below
        return parsed_number if is_allowed else _refuse()

    ends = [("of {} or more", least), ("above {}", above)]
    where = "".join(f" {words.format(end)}" for words, end in ends if end > -math.inf)
    limits = {"minimum": least, "exclusiveMinimum": above, "exclusiveMaximum": below}
    finite = {name: end for name, end in limits.items() if math.isfinite(end)}
    return Rule("float", f"a finite number{where}", parse, {"type": "number", **finite})


def fraction(words: str, fits: Callable[[Fraction], bool]) -> Rule:
    """An exact number: 0.1 is 1/10."""

    def parse(value: Any) -> Fraction:
        parsed_number = exact(_real(value))
        return parsed_number if fits(parsed_number) else _refuse()

    return Rule("float", words, parse)


FRACTION = fraction("a number between 0 and 1, both excluded", lambda share: 0 < share < 1)
"""A fraction of the budget."""


def _flag(value: Any) -> bool:
    return bool(value) if isinstance(value, bool | np.bool_) else _refuse()


FLAG = Rule("bool", "True or False", _flag)


def one_of(choices: Mapping[str, Any] | type[Enum]) -> Rule:
    """One of several words, each with an internal value."""
    table = choices if isinstance(choices, Mapping) else {c.value: c for c in choices}
    words = ", ".join(repr(word) for word in table)

    def parse(value: Any) -> Any:
        return table[value] if isinstance(value, str) and value in table else _refuse()

    return Rule(f"{{{words}}}", f"one of {words}", parse, {"enum": list(table)})


def a(kind: type) -> Rule:
    """An instance of a hedgerow class."""
    return Rule(
        kind.__name__,
        f"a hedgerow.{kind.__name__}",
        lambda v: v if isinstance(v, kind) else _refuse(),
    )


def either(*rules: Rule) -> Rule:
    """The first of several rules that accepts the value."""

    def parse(value: Any) -> Any:
        for rule in rules:
            try:
                return rule.parse(value)
            except (TypeError, ValueError, OverflowError):
                continue
        return _refuse()

    kinds, words = ([getattr(rule, name) for rule in rules] for name in ("kind", "expectation"))
    return Rule(" or ".join(kinds), ", or ".join(words), parse)


def or_none(rule: Rule) -> Rule:
    """None, or a value that the rule accepts."""

    def parse(value: Any) -> Any:
        return None if value is None else rule.parse(value)

    return Rule(f"{rule.kind} or None", f"{rule.expectation}, or None", parse)


def rule_of(hint: Any) -> Rule:
    """The rule of a type: bool, or a Literal of words."""
    if hint is bool:
        return FLAG
    if get_origin(hint) is Literal:
        return one_of({word: word for word in get_args(hint)})
    raise TypeError(f"{hint} does not say what is allowed; declare a rule")


def anything(kind: str) -> Rule:
    """Any value; the code that uses it checks it."""
    return Rule(kind, kind, lambda value: value)


def _real(value: Any) -> Any:
    return value if isinstance(_no_bool(value), Real) else _refuse()


def _no_bool(value: Any) -> Any:
    return value if not isinstance(value, bool | np.bool_) else _refuse()


def _refuse() -> Any:
    raise ValueError


# All problems of a schema in one error, so that they can be fixed together.
_T = TypeVar("_T")


class Problems:
    """Collects problems: checks continue after one, and `tell` raises all of them."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def past(self, make: Callable[[], _T]) -> _T:
        """The result of `make`; if it raises, the message is collected for `tell`."""
        try:
            return make()
        except ParameterError as error:
            self.messages += getattr(error, "problems", [str(error)])
            return cast(_T, None)

    def tell(self) -> None:
        """Raises one error with all messages, if there are any."""
        if len(self.messages) == 1:
            raise ParameterError(self.messages[0])
        if self.messages:
            lines = "".join(f"\n  {k}. {problem}" for k, problem in enumerate(self.messages, 1))
            error = ParameterError(f"the schema has {len(self.messages)} problems:{lines}")
            error.problems = self.messages
            raise error


def all_of(makers: Iterable[Callable[[], _T]]) -> list[_T]:
    """The results of all makers; one error with the messages of all that fail."""
    problems = Problems()
    results = [problems.past(make) for make in makers]
    problems.tell()
    return results
