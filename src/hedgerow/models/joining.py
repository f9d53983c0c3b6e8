"""Joint grids, on which models with different grids can be compared.

Every cell of the joint grid lies within one cell of each grid that it joins, so a model predicts
the same from a code on the joint grid as from the value's code on its own grid.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import ParameterError
from hedgerow.models.model import Additive, Curve, Model
from hedgerow.models.tree import Tree
from hedgerow.schema.features import MAX_BINS
from hedgerow.schema.grids import ColumnKind, Grid
from hedgerow.schema.regions import Split
from hedgerow.schema.schema import Feature, Numeric, Schema


def joint_schema(schemas: Sequence[Schema]) -> Schema:
    """The schema whose numeric columns have the edges of all these schemas."""
    first = schemas[0]
    if len({(schema.names, schema.classes, schema.target) for schema in schemas}) > 1:
        raise ParameterError(
            "the models have different columns, classes or targets, so that no one query compares "
            "them; evaluate them one by one."
        )
    if all(schema.digest == first.digest for schema in schemas):
        return first
    columns = zip(*(schema.features for schema in schemas), strict=True)
    return replace(first, features=tuple(_joint(column) for column in columns))


def _joint(column: Sequence[Feature]) -> Feature:
    first, grids = column[0], [feature.grid for feature in column]
    if all(grid.digest == grids[0].digest for grid in grids):
        return first
    edges = sorted({edge for grid in grids for edge in grid.edges})
    if not all(isinstance(feature, Numeric) for feature in column) or len(edges) >= MAX_BINS:
        raise ParameterError(
            f"column {first.name!r}: the models read it on grids that no one grid joins; evaluate "
            "them one by one, or fit them with estimators of one kind."
        )
    low, high = min(grid.low for grid in grids), max(grid.high for grid in grids)
    return Numeric(first.name, low, high, edges=tuple(edges), mark=first.mark)


def on_joint_grid(model: Model, schema: Schema, joint: Schema) -> Model:
    """The model on the joint grid, with the same predictions."""
    if schema.digest == joint.digest:
        return model
    cells = [_cells(old, new) for old, new in zip(schema.grids, joint.grids, strict=True)]

    @cache  # trees repeat few tests often
    def move_test(test: Split) -> Split:
        j = schema.index(test.feature)
        left = sum(1 << new for new, old in enumerate(cells[j].tolist()) if test.left >> old & 1)
        return Split(test.feature, joint.grids[j].digest, left)

    score = Additive(
        model.score.base,
        tuple(_move_curve(curve, cells[curve.feature]) for curve in model.score.curves),
        tuple(
            Tree.of_preorder(
                tree.features,
                [
                    tuple(value) if test is None else move_test(test)
                    for test, value in zip(tree.tests, tree.value.tolist(), strict=True)
                ],
            )
            for tree in model.score.trees
        ),
        model.score.clip,
    )
    return Model(score, model.output, model.sharpness)


def _cells(old: Grid, new: Grid) -> NDArray[np.intp]:
    """The old cell that contains each new one."""
    if old.kind is not ColumnKind.NUMERIC:
        return np.arange(new.n_cells)
    starts = np.array([-np.inf, *new.edges])
    return np.append(np.searchsorted(old.edges, starts, side="right"), old.missing)


def _move_curve(curve: Curve, cells: NDArray[np.intp]) -> Curve:
    nothing = (0.0,) * len(curve.values[0])  # cells beyond the grid contribute nothing
    values = (*curve.values, *(nothing for _ in range(int(cells.max()) + 1 - len(curve.values))))
    return Curve(curve.feature, tuple(values[old] for old in cells))
