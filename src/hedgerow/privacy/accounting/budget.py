"""What a run may spend and where its noise is added. Values only; no noise, no ledger."""

from __future__ import annotations

import math
import re
import reprlib
from enum import Enum
from fractions import Fraction

from hedgerow.errors import SpecError

Cost = Fraction | float
"""An exact rational >= 0 in the units of a measure, or `math.inf` for a release without noise."""


DECIMAL = r"[0-9]{1,12}(\.[0-9]{1,40})?"
WRITTEN = rf"{DECIMAL}|[0-9]{{1,20}}/[0-9]{{1,20}}"
"""A number as a file has it in quotes: a plain decimal or a fraction, in digits of ASCII and of
bounded length. Python's own readers take 1e100000000, and minutes for it."""
_WRITTEN = re.compile(rf"{WRITTEN}|{DECIMAL}e-?[0-9]{{1,2}}")


class Measure(Enum):
    """What adds up along a record's path."""

    PURE = "epsilon"
    ZCDP = "rho"
    GDP = "mu squared"


class Placement(Enum):
    """Where noise is added: a fact of the run, never of a learner."""

    CURATOR = "one holder adds all the noise"
    SHARES = "each site adds a part; only the sum is private, and only the sum is seen"
    SILO = "each site adds enough for itself"
    LABEL = "labels are randomised once per record; features are not protected"
    NOWHERE = "no noise; every charge is infinite"


def written_number(text: object, name: str) -> Fraction:
    """What a person wrote into a file of their own: a small exponent may follow, as in 1e-5."""
    try:
        if isinstance(text, str) and _WRITTEN.fullmatch(text):
            return Fraction(text)
    except ZeroDivisionError:
        pass
    found = reprlib.repr(text)
    raise SpecError(f'{name} is {found}; write a number in quotes, such as "1.5"; use 0 or more.')


def checked_cost(cost: Cost) -> Cost:
    """Refuses what would make a ledger fail open: NaN, floats, negative charges."""
    if isinstance(cost, Fraction):
        if cost >= 0:
            return cost
    elif cost == math.inf:
        return math.inf
    raise SpecError(
        f"a charge of {cost!r} is not a rational >= 0 (or infinity); nothing was charged."
    )
