"""Validation of values from the wire against a schema. Total: no input makes it raise.

A site calls these before it reads a row. Each returns why a value does not fit, or None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from fractions import Fraction
from functools import lru_cache, partial
from itertools import chain
from types import NoneType, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import ArrayLike

from hedgerow.models.layers import NO_TEST, Layer, NodeTests
from hedgerow.models.model import Additive, Curve
from hedgerow.models.tree import Tree
from hedgerow.schema.candidates import Binning
from hedgerow.schema.regions import Fold, HeldOut, Region, Split, Test
from hedgerow.schema.schema import Schema

# Whether a value has exactly the types that its class declares: an integer is an int and no bool.
# Python builds a dataclass from anything. A site must not compute with a float in a sensitivity, a
# bool for a count or a NaN in a threshold.

LONGEST_TEXT = 4096
MARK = "_has_its_types"
"""Marks checked frozen values, so that a model of a hundred trees is checked once."""

Kinds = Mapping[Any, tuple[type, ...]]
"""The classes that are allowed for each protocol."""


Check = Callable[[Any], str | None]
"""Why a value is not of a type; None if it is."""


class Strict:
    """Checks values against the annotations of their classes, which are read once."""

    def __init__(self, kinds: Kinds, opaque: Iterable[type]) -> None:
        self._kinds, self._opaque = kinds, tuple(opaque)
        self._of_fields: dict[type, tuple[tuple[str, Check], ...]] = {}

    def fields(self, value: Any) -> str | None:
        """Checks every field of a dataclass recursively; a valid value is not checked again."""
        cache = getattr(value, "__dict__", {})
        if MARK in cache:
            return None
        for name, check in self._checks(type(value)):
            reason = check(getattr(value, name))
            if reason is not None:
                return reason
        cache[MARK] = True
        return None

    def incompatibility(self, value: Any, hint: Any) -> str | None:
        """Why the value is not of this type; None if it is."""
        return self._check(hint)(value)

    def _checks(self, kind: type) -> tuple[tuple[str, Check], ...]:
        """The checks of a class, cached."""
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
        """Checks the parts of a tuple, except opaque ones and those that were valid before."""
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
    """Whether all values are finite numbers of this type; in C loops, since tables are large."""
    return set(map(type, value)) <= {kind} and (kind is int or all(map(math.isfinite, value)))


def _not(value: Any, expectation: str) -> str:
    return f"a {type(value).__name__} came for {expectation}"


MOST_FOLDS = 1 << 16
MOST_STEPS = 1024
"""The most tests on the path to a region."""
LONGEST_NAME = 256
MOST_IN_A_LEAF = 1e100
"""Sums of such numbers over all trees are finite, and so are their squares."""


@lru_cache(maxsize=1 << 12)
def region_incompatibility(region: Region, schema: Schema) -> str | None:
    """Why a region does not fit; cached, since simulated sites get the same regions."""
    if len(region) > MOST_STEPS:
        return f"a region of {len(region)} steps is too deep"
    return _first(test_incompatibility(step.test, schema) for step in region)


def test_incompatibility(test: Test, schema: Schema) -> str | None:
    if isinstance(test, Fold):
        if not 1 <= test.n <= MOST_FOLDS or not 0 < len(test.draw) <= LONGEST_NAME:
            return f"a draw of {test.n} folds is not allowed"
        return None
    if isinstance(test, HeldOut):
        return None if 2 <= test.one_in <= MOST_FOLDS else f"one in {test.one_in} is no draw"
    return split_incompatibility(test, schema)


def split_incompatibility(split: Split, schema: Schema) -> str | None:
    if split.feature not in schema.places:
        return f"there is no column {split.feature!r}"
    grid = schema.grids[schema.places[split.feature]]
    if split.grid != grid.digest:
        return f"a test of {split.feature!r} speaks of another grid"
    if not 0 < split.left < 1 << grid.n_cells:
        return f"a test of {split.feature!r} names no cell, or cells that do not exist"
    return None


def trees_incompatibility(trees: Iterable[Tree], schema: Schema) -> str | None:
    """All trees at once, which share most tests; each tree is checked once per schema."""
    new = [tree for tree in trees if tree.__dict__.get(FITS) != schema.digest]
    if any(tree.features != schema.names for tree in new):
        return "a tree reads other columns"
    tests = set(chain.from_iterable(tree.tests for tree in new)) - {None}
    reason = _first(split_incompatibility(test, schema) for test in tests if test is not None)
    if reason is None:
        for tree in new:
            tree.__dict__[FITS] = schema.digest
    return reason


def curve_incompatibility(curve: Curve, outputs: int, schema: Schema) -> str | None:
    if not curve.values or len(curve.values[0]) != outputs:
        return f"a curve of column {curve.feature} has another number of outputs"
    if not 0 <= curve.feature < len(schema.grids):
        return f"there is no column {curve.feature}"
    if len(curve.values) != schema.grids[curve.feature].n_cells:
        return f"a curve of column {curve.feature} has another number of cells"
    if len({*map(len, curve.values)}) > 1:
        return f"a curve of column {curve.feature} has cells of different outputs"
    return _out_of_bounds([*chain.from_iterable(curve.values)])


def model_incompatibility(model: Additive, schema: Schema) -> str | None:
    if model.clip is not None and not (
        all(map(math.isfinite, model.clip)) and model.clip[0] < model.clip[1]
    ):
        return "a model's clip is no range"
    sought = (schema.digest, model.outputs)
    curves = [curve for curve in model.curves if curve.__dict__.get(FITS_A_MODEL) != sought]
    trees = [tree for tree in model.trees if tree.__dict__.get(FITS_A_MODEL) != sought]
    if any(tree.n_outputs != model.outputs for tree in trees):
        return "a tree has another number of outputs"
    leaf_values = np.concatenate([np.zeros(0), *(tree.value.ravel() for tree in trees)])
    reason = (
        _out_of_bounds(model.base)
        or _first(curve_incompatibility(curve, model.outputs, schema) for curve in curves)
        or _out_of_bounds(leaf_values)
        or trees_incompatibility(trees, schema)
    )
    if reason is None:
        for part in chain[Curve | Tree](curves, trees):
            part.__dict__[FITS_A_MODEL] = sought
    return reason


def binning_incompatibility(binning: Binning, schema: Schema) -> str | None:
    """Requires one bin for each cell of each column, numbered from 0."""
    return fits_once(binning, schema, _binning_incompatibility)


def _binning_incompatibility(binning: Binning, schema: Schema) -> str | None:
    if len(binning.bins) != len(schema.grids):
        return f"a binning of {len(binning.bins)} columns; there are {len(schema.grids)}"
    for grid, bins in zip(schema.grids, binning.bins, strict=True):
        if len(bins) != grid.n_cells or not 0 <= min(bins) <= max(bins) < grid.n_cells:
            return f"a binning of {grid.feature!r} does not fit its cells"
    return None


def columns_incompatibility(columns: Iterable[int], schema: Schema) -> str | None:
    numbers = list(columns)
    if not numbers or len(set(numbers)) != len(numbers):
        return "no column was named, or one twice"
    if not all(0 <= column < len(schema.grids) for column in numbers):
        return "a column was named that does not exist"
    return None


def tests_incompatibility(tests: NodeTests, schema: Schema) -> str | None:
    """Cells beyond a grid hold no row, so only the columns can be wrong."""
    columns = tests.feature
    if columns.size and not NO_TEST <= int(columns.min()) <= int(columns.max()) < len(schema.grids):
        return "a test names a column that does not exist"
    return None


def layer_incompatibility(layer: Layer, schema: Schema) -> str | None:
    below: Layer | None = layer
    while below is not None and below.node_tests is not None:
        why = tests_incompatibility(below.node_tests, schema)
        if why is not None:
            return why
        below = below.above
    return None


_Value = TypeVar("_Value")
FITS = "_fits"
"""Attribute of a frozen value: the digest of the schema that it fits."""
FITS_A_MODEL = "_fits_a_model"
"""Attribute of a part of a model: that digest and the number of outputs."""


def fits_once(
    value: _Value, schema: Schema, incompatibility: Callable[[_Value, Schema], str | None]
) -> str | None:
    """Checks a value once per schema: large values are sent again round after round."""
    cache = value.__dict__
    if cache.get(FITS) == schema.digest:
        return None
    reason = incompatibility(value, schema)
    if reason is None:
        cache[FITS] = schema.digest
    return reason


def _out_of_bounds(values: ArrayLike) -> str | None:
    is_bounded = (np.abs(np.asarray(values, np.float64)) <= MOST_IN_A_LEAF).all()
    return None if is_bounded else f"a number is not finite, or beyond {MOST_IN_A_LEAF:g}"


def _first(reasons: Iterable[str | None]) -> str | None:
    return next((reason for reason in reasons if reason is not None), None)
