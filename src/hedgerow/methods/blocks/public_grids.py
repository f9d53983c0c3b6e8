"""Public grids: a fine one to start from, and coarser ones with fewer empty cells."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hedgerow.methods.constants import constant
from hedgerow.schema.candidates import Binning
from hedgerow.schema.grids import ColumnKind, Grid, fine_edges, uniform_edges, wide_edges
from hedgerow.schema.schema import Feature, Numeric, Schema, Spacing

DECADES = constant(6, unit="powers of ten", evidence="trees.md#0061")
"""Powers of ten below a hundredth of the range that a coarse grid separates."""


def fine_schema(schema: Schema) -> Schema:
    """Uniform and logarithmic cells for every numeric column, unless its edges are declared."""
    return _space_cuts(schema, Spacing.FINE)


def finer_schema(schema: Schema) -> Schema:
    """Divides the fine cells further where a byte has room; `fine_cells` undoes it."""
    return _space_cuts(schema, Spacing.FINER)


def _space_cuts(schema: Schema, spacing: Spacing) -> Schema:
    def of(feature: Feature) -> Feature:
        if isinstance(feature, Numeric) and feature.edges is None:
            return replace(feature, spacing=spacing)
        return feature

    return replace(schema, features=tuple(of(feature) for feature in schema.features))


def fine_cells(schema: Schema) -> Binning:
    """Groups the cells of a finer schema into those of the fine one; declared edges stay."""
    bins = list[tuple[int, ...]]()
    for feature, grid in zip(schema.features, schema.grids, strict=True):
        if not isinstance(feature, Numeric) or feature.edges is not None:
            bins.append(tuple(range(grid.n_cells)))
        else:
            is_fine = np.isin(grid.edges, fine_edges(grid.low, grid.high))
            bins.append(_runs(grid, np.flatnonzero(is_fine)))
    return Binning(tuple(bins))


def thin_cells(schema: Schema, cells: int) -> Binning:
    """`cells` even cells per numeric feature, and some powers of ten below them.

    `cells` should divide the fine grid's number of even cells, a power of two.
    """
    return Binning(tuple(_thin_column(grid, cells) for grid in schema.grids))


def _thin_column(grid: Grid, cells: int) -> tuple[int, ...]:
    if grid.kind is not ColumnKind.NUMERIC or grid.missing <= cells:
        return tuple(range(grid.n_cells))
    if grid.edges == wide_edges():  # no range: evenly spaced levels, and zero
        steps = np.linspace(0, len(grid.edges) - 1, cells).round().astype(np.intp)
        return _runs(grid, np.unique([*steps, grid.edges.index(0.0)]))
    edges, powers = np.array(grid.edges), _powers_of_ten(grid.low, grid.high, cells // 10)
    even_edges = [*uniform_edges(grid.low, grid.high, cells), *powers]
    edge_places = np.unique([np.argmin(np.abs(edges - edge)) for edge in even_edges])
    return _runs(grid, edge_places)


def _runs(grid: Grid, edge_places: NDArray[np.intp]) -> tuple[int, ...]:
    """The bin of each cell if only some edges are kept; `missing` has its own bin."""
    # Cell k lies above edge k - 1: its run is the number of kept edges at or below that.
    runs = np.searchsorted(edge_places, np.arange(grid.missing), side="left")
    return (*(int(r) for r in runs), int(runs[-1]) + 1)


def _powers_of_ten(low: float, high: float, n_steps: int) -> list[float]:
    """Edges at powers of ten from where values may pile up: zero inside the range, else its low
    end.

    Zero inside the range needs two series of half as many steps. Without these edges a range far
    too wide would put all values into one cell; the coarsest grid has no room for them.
    """
    steps = 10.0 ** -np.arange(2.0, 2.0 + min(n_steps, DECADES))
    if not low < 0.0 < high:
        return [float(low + (high - low) * step) for step in steps]
    if n_steps < DECADES // 2:
        return []
    return [0.0, *(low * steps[: DECADES // 2]), *(high * steps[: DECADES // 2])]
