"""Whether a value that came over the wire speaks of this schema. Total: no input makes it raise.

A site asks these before it touches a row. Each says why a value does not fit, or None if it does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import TypeVar

from hedgerow.values.binning import Binning
from hedgerow.values.layers import NO_TEST, Layer, NodeTests
from hedgerow.values.models import Additive, Curve
from hedgerow.values.regions import Fold, HeldOut, Region, Split, Test
from hedgerow.values.schema import Schema
from hedgerow.values.trees import Tree

MOST_FOLDS = 1 << 16
MOST_STEPS = 1024
"""Tests on the path to a region: no tree that anybody reads is as deep."""
LONGEST_NAME = 256
MOST_IN_A_LEAF = 1e100
"""Sums of such numbers over all trees are finite, and so are their squares."""


@lru_cache(maxsize=1 << 12)
def misfit_of_region(region: Region, schema: Schema) -> str | None:
    """Kept: sites of one process are asked about the same regions."""
    if len(region) > MOST_STEPS:
        return f"a region of {len(region)} steps is too deep"
    return _first(misfit_of_test(step.test, schema) for step in region)


def misfit_of_test(test: Test, schema: Schema) -> str | None:
    if isinstance(test, Fold):
        if not 1 <= test.n <= MOST_FOLDS or not 0 < len(test.draw) <= LONGEST_NAME:
            return f"a draw of {test.n} folds is not allowed"
        return None
    if isinstance(test, HeldOut):
        return None if 2 <= test.one_in <= MOST_FOLDS else f"one in {test.one_in} is no draw"
    return misfit_of_split(test, schema)


def misfit_of_split(split: Split, schema: Schema) -> str | None:
    if split.feature not in schema.places:
        return f"there is no column {split.feature!r}"
    grid = schema.grids[schema.places[split.feature]]
    if split.grid != grid.digest:
        return f"a test of {split.feature!r} speaks of another grid"
    if not 0 < split.left < 1 << grid.n_cells:
        return f"a test of {split.feature!r} names no cell, or cells that do not exist"
    return None


def misfit_of_tree(tree: Tree, schema: Schema) -> str | None:
    return fits_once(tree, schema, _misfit_of_tree)


def _misfit_of_tree(tree: Tree, schema: Schema) -> str | None:
    if tree.features != schema.names:
        return "a tree reads other columns"
    tests = {test for test in tree.tests if test is not None}
    return _first(misfit_of_split(test, schema) for test in tests)


def misfit_of_curve(curve: Curve, outputs: int, schema: Schema) -> str | None:
    if not curve.values or len(curve.values[0]) != outputs:
        return f"a curve of column {curve.feature} has another number of outputs"
    if not 0 <= curve.feature < len(schema.grids):
        return f"there is no column {curve.feature}"
    if len(curve.values) != schema.grids[curve.feature].n_cells:
        return f"a curve of column {curve.feature} has another number of cells"
    if len({len(row) for row in curve.values}) > 1:
        return f"a curve of column {curve.feature} has cells of different outputs"
    return _out_of_bounds(value for row in curve.values for value in row)


def misfit_of_model(model: Additive, schema: Schema) -> str | None:
    outputs = model.outputs
    if model.clip is not None and not (
        all(map(math.isfinite, model.clip)) and model.clip[0] < model.clip[1]
    ):
        return "a model's clip is no range"
    sought = (schema.digest, outputs)
    parts: tuple[Curve | Tree, ...] = (*model.curves, *model.trees)
    new = [part for part in parts if part.__dict__.get(FITS_A_MODEL) != sought]
    reason = _out_of_bounds(model.base) or _first(_misfit_of_part(p, outputs, schema) for p in new)
    if reason is None:
        for part in new:
            part.__dict__[FITS_A_MODEL] = sought
    return reason


def _misfit_of_part(part: Curve | Tree, outputs: int, schema: Schema) -> str | None:
    if isinstance(part, Curve):
        return misfit_of_curve(part, outputs, schema)
    if part.n_outputs != outputs:
        return "a tree has another number of outputs"
    return _out_of_bounds(part.values.ravel().tolist()) or misfit_of_tree(part, schema)


def misfit_of_binning(binning: Binning, schema: Schema) -> str | None:
    """One bin for each cell of each column, numbered from 0."""
    return fits_once(binning, schema, _misfit_of_binning)


def _misfit_of_binning(binning: Binning, schema: Schema) -> str | None:
    if len(binning.bins) != len(schema.grids):
        return f"a binning of {len(binning.bins)} columns; there are {len(schema.grids)}"
    for grid, bins in zip(schema.grids, binning.bins, strict=True):
        if len(bins) != grid.n_cells or not 0 <= min(bins) <= max(bins) < grid.n_cells:
            return f"a binning of {grid.feature!r} does not fit its cells"
    return None


def misfit_of_columns(columns: Iterable[int], schema: Schema) -> str | None:
    named = list(columns)
    if not named or len(set(named)) != len(named):
        return "no column was named, or one twice"
    if not all(0 <= column < len(schema.grids) for column in named):
        return "a column was named that does not exist"
    return None


def misfit_of_tests(tests: NodeTests, schema: Schema) -> str | None:
    """Cells beyond a grid hold no row, so only the columns can be wrong."""
    columns = tests.feature
    if columns.size and not NO_TEST <= int(columns.min()) <= int(columns.max()) < len(schema.grids):
        return "a test names a column that does not exist"
    return None


def misfit_of_layer(layer: Layer, schema: Schema) -> str | None:
    below: Layer | None = layer
    while below is not None and below.taken is not None:
        why = misfit_of_tests(below.taken, schema)
        if why is not None:
            return why
        below = below.above
    return None


_Value = TypeVar("_Value")
FITS = "_fits"
"""Where a frozen value keeps the digest of the schema that it was found to fit."""
FITS_A_MODEL = "_fits_a_model"
"""Where a part of a model keeps that, and of how many outputs: a model grows tree by tree."""


def fits_once(
    value: _Value, schema: Schema, misfit: Callable[[_Value, Schema], str | None]
) -> str | None:
    """Large values come again round after round; each is read once."""
    kept = value.__dict__
    if kept.get(FITS) == schema.digest:
        return None
    reason = misfit(value, schema)
    if reason is None:
        kept[FITS] = schema.digest
    return reason


def _out_of_bounds(values: Iterable[float]) -> str | None:
    is_bounded = all(-MOST_IN_A_LEAF <= value <= MOST_IN_A_LEAF for value in values)
    return None if is_bounded else f"a number is not finite, or beyond {MOST_IN_A_LEAF:g}"


def _first(reasons: Iterable[str | None]) -> str | None:
    return next((reason for reason in reasons if reason is not None), None)
