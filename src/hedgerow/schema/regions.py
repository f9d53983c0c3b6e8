"""Regions: sets of rows that are defined by public tests.

A site selects rows by a region, *and* the ledger decides by it that two charges cannot concern the
same row. A test is therefore identified by everything that determines its outcome: the feature's
name, the digest of the grid its cells come from and the set of cells sent left (`missing` and
`other` are cells like any other), or the id of a secret draw and its odds.

Tests and steps are interned: equal ones are the same object. A region of a hundred steps is then
hashed and compared without running Python code, which a deep tree does for every node at every
site.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from dataclasses import dataclass, fields
from threading import Lock
from typing import Any, ClassVar
from weakref import WeakValueDictionary

from hedgerow.errors import ParameterError


class OnePerValue(type):
    """Metaclass of interned classes: equal objects are one object, as long as it is referenced."""

    _instances: ClassVar[MutableMapping[tuple[Any, ...], Any]] = WeakValueDictionary()
    _making = Lock()

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        new = None
        if kwargs:
            new = super().__call__(*args, **kwargs)
            args = values_of(new)
        # 1, 1.0 and True are equal, but differ in type and in the checks that they pass
        key = (cls, *args, *map(type, args))
        instance = cls._instances.get(key)
        if instance is None:
            new = new or super().__call__(*args)
            with cls._making:
                instance = cls._instances.setdefault(key, new)
        return instance


def values_of(value: Any) -> tuple[Any, ...]:
    return tuple(getattr(value, f.name) for f in fields(value))


class _Value(metaclass=OnePerValue):
    """Compared and hashed by identity; copied as the arguments that make it."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), values_of(self)


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Split(_Value):
    """Outcome 0: the row's cell is in `left`. Outcome 1: it is in any other cell of the grid.

    `left` is a bit set over cell codes: bit k says whether cell k goes left.
    """

    feature: str
    grid: str
    left: int

    def __post_init__(self) -> None:
        _check_types((self.feature, str), (self.grid, str), (self.left, int))
        if self.left <= 0:
            raise ParameterError(
                f"split on {self.feature!r} sends no cell left; name at least one."
            )

    @property
    def outcomes(self) -> int:
        return 2


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Fold(_Value):
    """Outcome i: the row's own secret draw `draw` fell on i of `n`. Same id, same draw."""

    draw: str
    n: int

    def __post_init__(self) -> None:
        _check_types((self.draw, str), (self.n, int))

    @property
    def outcomes(self) -> int:
        return self.n


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class HeldOut(_Value):
    """Outcome 0: the row's own secret draw holds it out of training, one row in `one_in`.

    Outcome 1: all others.
    """

    one_in: int

    def __post_init__(self) -> None:
        _check_types((self.one_in, int))

    @property
    def outcomes(self) -> int:
        return 2


Test = Split | Fold | HeldOut


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Step(_Value):
    test: Test
    outcome: int

    def __post_init__(self) -> None:
        _check_types((self.outcome, int))
        if type(self.test) not in (Split, Fold, HeldOut):
            raise ParameterError(
                f"a step tests a {type(self.test).__name__}; use a Split, a Fold or a HeldOut."
            )
        if not 0 <= self.outcome < self.test.outcomes:
            raise ParameterError(
                f"outcome {self.outcome} does not exist; the test has {self.test.outcomes} of them."
            )


def _check_types(*parts: tuple[object, type]) -> None:
    """Regions decide who is charged, so their fields have exactly these types."""
    for value, kind in parts:
        if type(value) is not kind:
            raise ParameterError(f"a test holds a {type(value).__name__}; use a {kind.__name__}.")


Region = tuple[Step, ...]
EVERYONE: Region = ()


def cells(codes: range | list[int] | tuple[int, ...]) -> int:
    """The bit set of cell codes for `Split.left`."""
    bits = 0
    for code in codes:
        bits |= 1 << code
    return bits
