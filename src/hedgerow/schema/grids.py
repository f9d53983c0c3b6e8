"""The public cells of one column: from a value to one byte, and from cells back to words.

The cells of a grid are disjoint and exhaustive: every value, missing ones included, has exactly one
code. The code depends on the value and the grid alone, never on another row.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Context, Decimal
from enum import Enum
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from typing import Any

import numpy as np

from hedgerow.errors import ParameterError
from hedgerow.schema.parsers import Parser, reader, rules_of
from hedgerow.schema.regions import Split, cells
from hedgerow.schema.tokens import MISSING_TEXTS, Token, Unusable, token_of

FINE_UNIFORM_CELLS = 64
LOG_DECADES = 7
FINE_STEPS = (8, 8)
"""Cells per decade of a logarithmic grid: in its first two decades, and in the others."""
FINER_STEPS = (48, 16)
NEAR_DECADES = 2
SPIKE_BELOW_HIGH = Fraction(1, 10**6)
SPIKE_ABOVE_ZERO = Fraction(1, 10**9)


MOST_NAMED = 12
"""The most values that a description lists; an ellipsis counts the others."""
TRUTH_WORDS = {"0": "no", "1": "yes"}


class ColumnKind(Enum):
    NUMERIC = "numeric"
    CATEGORICAL = "categorical"
    HASHED = "hashed"


@dataclass(frozen=True, kw_only=True)
class Grid:
    """The cells of one feature. The last code, `n_cells - 1`, is always the missing cell.

    Numeric: cell k holds edges[k-1] <= x < edges[k], after x is clamped to [low, high]. All edges
    lie in (low, high], so the range affects no code; it only determines how many values count as
    clamped. Categorical: one cell per value, then `other` if there is one. Hashed: one cell per
    bucket. `parser` and `sentinels`, if any, are applied to a value first.
    """

    feature: str
    kind: ColumnKind
    edges: tuple[float, ...] = ()
    values: tuple[str, ...] = ()
    other: bool = False
    low: float = -math.inf
    high: float = math.inf
    column: str = ""
    parser: Parser | None = None
    sentinels: tuple[str, ...] = ()

    @cached_property
    def n_cells(self) -> int:
        if self.kind is ColumnKind.NUMERIC:
            return len(self.edges) + 2
        return len(self.values) + self.other + 1

    @property
    def missing(self) -> int:
        return self.n_cells - 1

    def __hash__(self) -> int:
        """By the digest, not by hundreds of edges: descriptions of tests are cached by grid."""
        return hash(self.digest)

    @cached_property
    def digest(self) -> str:
        """Hash of everything that determines a code: tests are equal only if it agrees."""
        edges = np.array(self.edges, np.float64).tobytes()
        decides = [self.feature, self.kind.value, _texts_of(edges), self.values, self.other]
        meaning: list[Any] = ["grid 1", *decides]
        if self.is_parsed or self.source != self.feature:
            meaning += [self.source, self.rules]
        return hashlib.sha256(canonical_bytes(meaning)).hexdigest()

    @property
    def source(self) -> str:
        """The column that the feature is read from."""
        return self.column or self.feature

    @property
    def is_parsed(self) -> bool:
        return self.parser is not None or bool(self.sentinels)

    @property
    def rules(self) -> dict[str, Any]:
        return rules_of(self.parser, self.sentinels)

    def read(self, value: object) -> Any:
        """The meaning of a value by the declared parser; without one, the value itself."""
        return reader(self.parser, self.sentinels)(value) if self.is_parsed else value

    @cached_property
    def _code_of(self) -> dict[Token, int]:
        return codes_of(self.values) if self.kind is ColumnKind.CATEGORICAL else {}

    def category_code(self, token: Token) -> int:
        if token is None:
            return self.missing
        if isinstance(token, Unusable):
            return self._unknown
        code = self._code_of.get(token)
        if code is not None:
            return code
        if token in MISSING_TEXTS:
            return self.missing
        return _bucket(token, len(self.values)) if self.kind is ColumnKind.HASHED else self._unknown

    @property
    def _unknown(self) -> int:
        return len(self.values) if self.other else self.missing

    def knows(self, token: Token) -> bool:
        """Whether the token is missing, a listed value or anything that is hashed."""
        if isinstance(token, Unusable):
            return False
        if token is None or self.kind is ColumnKind.HASHED or token in MISSING_TEXTS:
            return True
        return token in self._code_of

    def split_values(self, codes: Iterable[int]) -> Split:
        """The test that sends exactly these cells left."""
        left = set(codes)
        if not left or len(left) >= self.n_cells or not left <= set(range(self.n_cells)):
            raise ParameterError(
                f"column {self.feature!r}: cells {sorted(left)} cannot be one side of a split; "
                f"name some, not all, of 0 to {self.missing}."
            )
        return Split(self.feature, self.digest, cells(sorted(left)))

    def describe(self, left_bits: int) -> str:
        """A set of cells in words: "age < 35", "job in {a, b} or missing"."""
        if not 0 <= left_bits < 1 << self.n_cells:
            raise ParameterError(
                f"column {self.feature!r}: the set {left_bits:#x} names cells beyond the "
                f"{self.n_cells} of this grid."
            )
        chosen = [code for code in range(self.n_cells) if left_bits >> code & 1]
        if not chosen:
            return f"no {self.feature}"
        if len(chosen) == self.n_cells:
            return f"any {self.feature}"
        return self._ranges(chosen) if self.kind is ColumnKind.NUMERIC else self._membership(chosen)

    def _ranges(self, chosen: list[int]) -> str:
        missing = self.missing
        number_codes = [code for code in chosen if code != missing]
        words = [self._range(first, last) for first, last in runs(number_codes)]
        if missing in chosen:
            words.append("missing" if words else f"{self.feature} is missing")
        return " or ".join(words)

    def _range(self, first: int, last: int) -> str:
        above = short_number(self.edges[first - 1]) if first > 0 else None
        below = short_number(self.edges[last]) if last < len(self.edges) else None
        if above and below:
            return f"{above} <= {self.feature} < {below}"
        if above:
            return f"{self.feature} >= {above}"
        return f"{self.feature} < {below}" if below else f"{self.feature} is known"

    def _membership(self, chosen: list[int]) -> str:
        """The shorter of "in" and "not in"; by "in" if all values can be named."""
        rest = [code for code in range(self.n_cells) if code not in set(chosen)]
        if rest == [self.missing]:
            return f"{self.feature} is known"
        is_named = not any(code < len(self.values) for code in rest) and len(chosen) <= MOST_NAMED
        if self.is_truth or is_named or len(chosen) <= len(rest):
            return self._list_cells(chosen)
        words = self._list_cells(rest)
        return f"not ({words})" if words.endswith(" or missing") else f"not {words}"

    def _list_cells(self, chosen: list[int]) -> str:
        names = [self._cell_name(code) for code in chosen if code != self.missing]
        if not names:
            return f"{self.feature} is missing"
        if len(names) > MOST_NAMED:
            names = [*names[:MOST_NAMED], f"... {len(names) - MOST_NAMED} more"]
        several = f"{self.feature} in {{{', '.join(names)}}}"
        words = several if len(names) > 1 else f"{self.feature} = {names[0]}"
        return f"{words} or missing" if self.missing in chosen else words

    def _cell_name(self, code: int) -> str:
        if code >= len(self.values):
            return "any other value"
        return TRUTH_WORDS[str(token_of(self.values[code]))] if self.is_truth else self.values[code]

    @cached_property
    def is_truth(self) -> bool:
        """Whether the column is Boolean: 0 and 1, or False and True."""
        tokens = {token_of(value) for value in self.values}
        return self.kind is ColumnKind.CATEGORICAL and tokens == set(TRUTH_WORDS)


# Edges are computed in exact rationals and rounded once, so that every site gets the same grid, and
# thus the same digest, whatever its processor and math library. A fine grid takes a millisecond, so
# edges are cached.


@lru_cache(maxsize=1024)
def uniform_edges(low: float, high: float, bins: int) -> tuple[float, ...]:
    """`bins` cells of equal width."""
    start, width = _span(low, high)
    return _inside(low, high, (start + width * Fraction(k, bins) for k in range(1, bins)))


@lru_cache(maxsize=1024)
def log_edges(low: float, high: float, bins: int) -> tuple[float, ...]:
    """`bins` cells of equal ratio, counted from zero; 7 decades if it is in the range.

    With zero inside, the cells are divided between its two sides by width, at least one for each.
    """
    start, width = _span(low, high)
    end = start + width
    if low >= 0:
        return _inside(low, high, _log_cuts(start, end, bins))
    if high <= 0:
        return _inside(low, high, (-cut for cut in _log_cuts(-end, -start, bins)))
    under = min(max(round(bins * -start / width), 1), bins - 1)
    below = [-cut for cut in _log_cuts(Fraction(0), -start, under)]
    return _inside(low, high, [*below, Fraction(0), *_log_cuts(Fraction(0), end, bins - under)])


def _log_cuts(near: Fraction, far: Fraction, bins: int) -> list[Fraction]:
    """Cuts between two distances from zero."""
    ratio = far / near if near else Fraction(10) ** LOG_DECADES
    return [far * _power(ratio, Fraction(-k, bins)) for k in range(1, bins)]


@lru_cache(maxsize=1024)
def fine_edges(low: float, high: float) -> tuple[float, ...]:
    """Uniform and logarithmic cells together: 121 cells, or 235 if the range contains zero inside.

    For skewed columns of which only the range is known: a method merges the cells by private
    counts. The values low, zero and high get a cell each, since values often pile up there.
    """
    start, width = _span(low, high)
    end, steps = start + width, _steps(FINE_STEPS)
    cuts = [start + width * Fraction(i, FINE_UNIFORM_CELLS) for i in range(1, FINE_UNIFORM_CELLS)]
    cuts += [start + width * step for step in steps] + [end - width * SPIKE_BELOW_HIGH]
    if low < 0 < high:
        cuts += [side * step for side in (start, end) for step in steps]
        cuts += [Fraction(0), end * SPIKE_ABOVE_ZERO]
    return _inside(low, high, cuts)


@lru_cache(maxsize=1024)
def finer_edges(low: float, high: float) -> tuple[float, ...]:
    """The fine grid's edges and more logarithmic ones from `low`: 241 cells.

    A range with zero inside already has two more logarithmic parts and is not refined: a code is
    one byte.
    """
    edges = fine_edges(low, high)
    if low < 0 < high:
        return edges
    start, width = _span(low, high)
    more = _inside(low, high, (start + width * step for step in _steps(FINER_STEPS)))
    return tuple(sorted({*edges, *more}))


WIDEST = 1e10
WIDE_DECADES = (
    ((-3, -1), (6, 2)),
    ((-1, 0), (20, 4)),
    ((0, 3), (24, 8)),
    ((3, 5), (16, 8)),
    ((5, 10), (6, 4)),
)
"""First and last decade, and the number of cells per decade above and below zero."""


@cache
def wide_edges() -> tuple[float, ...]:
    """Logarithmic cells in both directions, for a number without a declared range.

    Dense between .1 and 100,000, where most measurements lie; from .001 toward zero there is one
    cell on either side.
    """
    cuts = [Fraction(0), Fraction(1, 10**6)]  # zero has its own cell
    for (first, last), a_decade in WIDE_DECADES:
        for sign, rungs in zip((1, -1), a_decade, strict=True):
            exponents = (first + Fraction(k, rungs) for k in range((last - first) * rungs))
            cuts += [sign * _power(Fraction(10), exponent) for exponent in exponents]
    return _inside(-WIDEST, WIDEST, cuts)


def _span(low: float, high: float) -> tuple[Fraction, Fraction]:
    """Low and width as the decimals a person wrote: 0.7 is 7/10, not a binary fraction near it."""
    start = Fraction(repr(low))
    return start, Fraction(repr(high)) - start


def _inside(low: float, high: float, cuts: Iterable[Fraction]) -> tuple[float, ...]:
    """Rounded, sorted, without repeats. A cut at or below `low` would open an empty cell."""
    return tuple(sorted({edge for edge in map(float, cuts) if low < edge <= high}))


@cache
def _steps(a_decade: tuple[int, int]) -> tuple[Fraction, ...]:
    near, far = a_decade
    exponents = [Fraction(-k, near) for k in range(1, NEAR_DECADES * near + 1)]
    exponents += [Fraction(-k, far) for k in range(NEAR_DECADES * far + 1, LOG_DECADES * far + 1)]
    return tuple(_power(Fraction(10), exponent) for exponent in exponents)


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    """A power to 40 digits, in software: a C library's `pow` may differ in the last bit."""
    digits = Context(prec=40)
    b, e = (digits.divide(Decimal(x.numerator), Decimal(x.denominator)) for x in (base, exponent))
    return Fraction(digits.power(b, e))


def codes_of(values: Iterable[str]) -> dict[Token, int]:
    """The code of each listed value, by its token."""
    return {token_of(value): place for place, value in enumerate(values)}


def _bucket(token: str, buckets: int) -> int:
    """The bucket of a token, by a public hash that is the same everywhere."""
    digest = hashlib.blake2b(token.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little") % buckets


@lru_cache(maxsize=64)
def _texts_of(numbers: bytes) -> list[str]:
    """The exact texts of numbers; cached, since many columns have the same edges."""
    return [*map(repr, np.frombuffer(numbers).tolist())]


def short_number(number: float) -> str:
    """The shortest text that is still exactly this number: 35, not 35.0."""
    short = f"{number:g}"
    return short if float(short) == number else repr(number)


def canonical_bytes(meaning: Any) -> bytes:
    """One byte string per value, for digests."""
    return json.dumps(meaning, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def runs(codes: list[int]) -> Iterator[tuple[int, int]]:
    """First and last of each run of consecutive numbers in a sorted list."""
    present = set(codes)
    firsts = [code for code in codes if code - 1 not in present]
    lasts = [code for code in codes if code + 1 not in present]
    return zip(firsts, lasts, strict=True)
