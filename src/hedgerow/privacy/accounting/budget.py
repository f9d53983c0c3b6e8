"""Budget, unit of cost and DP model of a run, as values."""

from __future__ import annotations

import math
import re
import reprlib
from enum import Enum
from fractions import Fraction

from hedgerow.errors import ParameterError

Cost = Fraction | float
"""An exact rational >= 0 in the units of a measure, or `math.inf` for a release without noise."""


DECIMAL = r"[0-9]{1,12}(\.[0-9]{1,40})?"
WRITTEN = rf"{DECIMAL}|[0-9]{{1,20}}/[0-9]{{1,20}}"
"""A number in quotes in a file: a plain decimal or a fraction, in ASCII digits of bounded length.
Python also accepts 1e100000000, and takes minutes to read it.
"""
_WRITTEN = re.compile(rf"{WRITTEN}|{DECIMAL}e-?[0-9]{{1,2}}")


class Measure(Enum):
    """The privacy measure whose costs add up along a record's path."""

    PURE = "epsilon"
    ZCDP = "rho"
    GDP = "mu squared"


class DPModel(Enum):
    """Where noise is added: a property of the run, never of a method."""

    CENTRAL = "one site adds all the noise"
    DISTRIBUTED = "each site adds a part; only the sum is private, and only the sum is seen"
    PER_SITE = "each site adds enough for itself"
    LABEL = "labels are randomized once per record; features are not protected"
    NONE = "no noise; every charge is infinite"


def written_number(text: object, name: str) -> Fraction:
    """Parses a number of a user's file; a small exponent may follow, as in 1e-5."""
    try:
        if isinstance(text, str) and _WRITTEN.fullmatch(text):
            return Fraction(text)
    except ZeroDivisionError:
        pass
    value_repr = reprlib.repr(text)
    raise ParameterError(
        f'{name} is {value_repr}; write a number in quotes, such as "1.5"; use 0 or more.'
    )


def checked_cost(cost: Cost) -> Cost:
    """Raises for NaN, floats and negative charges, which would make a ledger fail open."""
    if isinstance(cost, Fraction):
        if cost >= 0:
            return cost
    elif cost == math.inf:
        return math.inf
    raise ParameterError(
        f"a charge of {cost!r} is not a rational >= 0 (or infinity); nothing was charged."
    )
