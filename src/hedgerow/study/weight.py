"""How many bytes questions take at most, with all that they name, told to sites that know nothing.

A bound and no encoding: it follows from the questions alone, not from what an epoch has heard, so
a run that is resumed cuts its bundles where it cut them before. Values that travel by their digest
count once in a bundle. `tests/property/test_weights.py` holds it against the wire.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import fields
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from math import prod
from typing import Any

from hedgerow.queries import Cuts, Query
from hedgerow.values.binning import Binning
from hedgerow.values.grids import canonical
from hedgerow.values.layers import Layer, NodeTests
from hedgerow.values.models import Additive, Curve
from hedgerow.values.regions import Region, Split, Step
from hedgerow.values.trees import Tree

NAME = 96
"""A digest and its mark."""
DEFINITION = 512
"""A named value beside its content, a test of a column's cells included. So many bytes a name keep
the names of a bundle far below those that a site remembers."""
NUMBER, CELL, TEST, TEXT = 32, 5, 48, 64
"""A number; a small whole one; a packed test of an open node; a word of ours."""


class Weight:
    """Bytes of the queries that were added, at most."""

    def __init__(self) -> None:
        self.bytes = 0
        self._named: set[Hashable] = set()

    def with_query(self, query: Query) -> int:
        """Adds a query; the bytes of all of them."""
        self.bytes += self._of(query)
        return self.bytes

    def _of(self, value: Any) -> int:
        if value is None or isinstance(value, bool | int | float):
            return NUMBER + of_digits(value) if type(value) is int else NUMBER
        if isinstance(value, str):
            return of_text(value)
        if isinstance(value, Fraction):
            return TEXT + of_digits(value.numerator) + of_digits(value.denominator)
        if isinstance(value, tuple):
            return self._of_tuple(value)
        return self._of_object(value)

    def _of_tuple(self, values: tuple[Any, ...]) -> int:
        if values and isinstance(values[0], Step):
            return NAME + self._of_region(values)
        if values and isinstance(values[0], int):
            return NUMBER + len(values) * of_cell(max(values))
        return NUMBER + sum(map(self._of, values))

    def _of_object(self, value: Any) -> int:
        match value:
            case Enum():
                return 2 * TEXT
            case NodeTests():
                return of_tests(value.feature.size)
            case Layer():
                return NAME + self._of_layer(value)
            case Additive():
                return NAME + self._once(("model", id(value)), lambda: self._of_fields(value))
            case Tree():
                return NAME + self._once(("tree", id(value)), lambda: of_tree(value))
            case Curve():
                size = prod((len(value.values), len(value.values[0])))
                return NAME + self._once(("curve", id(value)), lambda: NUMBER * (2 + size))
            case Binning() | Cuts() | Split():
                return NAME + self._once(value, lambda: self._of_fields(value))
        return self._of_fields(value)

    def _of_fields(self, value: Any) -> int:
        return TEXT + sum(TEXT + self._of(getattr(value, f.name)) for f in fields(value))

    def _once(self, key: Hashable, size: Any) -> int:
        if key in self._named:
            return 0
        self._named.add(key)
        return DEFINITION + int(size())

    def _of_region(self, region: Region) -> int:
        """Each step that is not known yet, with its test; steps above one that is are known too."""
        size = 0
        while region and region not in self._named:
            self._named.add(region)
            size += DEFINITION + self._of_fields(region[-1])
            region = region[:-1]
        return size

    def _of_layer(self, layer: Layer) -> int:
        size, above = 0, layer
        while above.above is not None and ("layer", id(above)) not in self._named:
            self._named.add(("layer", id(above)))
            assert above.taken is not None
            assert above.is_open is not None
            size += DEFINITION + of_tests(above.taken.feature.size) + above.is_open.size
            above = above.above
        return size + DEFINITION


def weight_of(bundle: Sequence[Query]) -> int:
    weight = Weight()
    for query in bundle:
        weight.with_query(query)
    return weight.bytes


# ------------------------------------------------------------------------------------------ values
def of_digits(number: int) -> int:
    """Decimal digits, a few too many."""
    return 2 + abs(number).bit_length() // 3


def of_cell(number: int) -> int:
    """A small number in a list of such."""
    return CELL * (1 + number.bit_length() // 10)


@lru_cache(maxsize=4096)
def of_text(text: str) -> int:
    return NUMBER + len(canonical(text))


def of_tests(n: int) -> int:
    return DEFINITION + TEST * n


def of_tree(tree: Tree) -> int:
    names = [of_text(name) for name in tree.features]
    of_tests = len(set(tree.tests)) * (DEFINITION // 2 + max(names, default=0))
    return DEFINITION + sum(names) + of_tests + of_leaves(tree.n_leaves, tree.n_outputs)


def of_leaves(leaves: int, outputs: int) -> int:
    """The nodes of a tree and what its leaves say, without the tests that they name."""
    return leaves * (NUMBER // 2 + NUMBER * outputs)
