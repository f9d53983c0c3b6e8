"""Upper bounds on the size of a method's steps, from the schema and its parameters alone.

Bounds, not counts: a tree is taken to be as full as its depth allows, a path as long as it can be.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from heapq import nlargest
from math import prod

from hedgerow.methods.blocks.target import WIDTHS, initial_rounds
from hedgerow.models.tree import MOST_LEAVES
from hedgerow.privacy.bundles import (
    CELL,
    DEFINITION,
    NAME,
    NUMBER,
    Size,
    of_leaves,
    of_tests,
    of_text,
)
from hedgerow.schema.schema import ColumnKind, Schema

QUERY = 8 * DEFINITION
"""Bytes of a query beside the values that it names: its kind, its fraction, its loss."""
DRAWS = 2
"""Steps of a region that are no nodes: the draw of a fold, and that of records held out."""


SPARE_BINS = 4
"""That an even grid may have beside those asked for: powers of ten, and `missing`."""


@dataclass(frozen=True)
class Scale:
    """Public sizes of a schema. `channels` are those of a sum of the target: classes, or two."""

    schema: Schema

    @cached_property
    def columns(self) -> int:
        return len(self.schema.grids)

    @cached_property
    def cells(self) -> int:
        """Of the widest column; bins are never more."""
        return max(grid.n_cells for grid in self.schema.grids)

    @cached_property
    def channels(self) -> int:
        return len(self.schema.classes or (0, 1))

    # ------------------------------------------------------------------------------------- trees
    def leaves(self, depth: int) -> int:
        """Of a tree that may be split wherever a column has two cells left."""
        if depth >= MOST_LEAVES.bit_length():  # more than any tree has, if there are cells for it
            return min(2 * MOST_LEAVES, prod(grid.n_cells for grid in self.schema.grids))
        return min(1 << depth, prod(grid.n_cells for grid in self.schema.grids))

    @staticmethod
    def complete(depth: int) -> int:
        """Leaves of a tree that tests on every level, whether a cell is left or not."""
        return 1 << min(depth, MOST_LEAVES.bit_length())

    def nodes(self, level: int) -> int:
        """Open nodes of a tree that stops at the most leaves a tree may have."""
        return min(self.leaves(level), MOST_LEAVES)

    def deepest(self, depth: int) -> int:
        """Of so many levels, those that a tree with the most leaves a tree may have can reach.

        A path needs a cell for each of its tests.
        """
        return min(depth, MOST_LEAVES - 1, sum(grid.n_cells - 1 for grid in self.schema.grids))

    def tests(self, bins: int) -> int:
        """Different ones on columns in so many bins: each with `missing` left and right."""
        numeric = (g.kind is ColumnKind.NUMERIC for g in self.schema.grids)
        pairs = zip(self.schema.grids, numeric, strict=True)
        return sum(
            2 * (min(g.n_cells, bins + SPARE_BINS) if is_n else g.n_cells) for g, is_n in pairs
        )

    # ------------------------------------------------------------------------------------- bytes
    @cached_property
    def _longest(self) -> int:
        return max(of_text(name) for name in self.schema.names)

    @cached_property
    def step_bytes(self) -> int:
        """A step of a region, and the test that it takes."""
        return 4 * DEFINITION + self._longest

    def path_bytes(self, depth: int) -> int:
        return (depth + DRAWS) * self.step_bytes

    @cached_property
    def bins_bytes(self) -> int:
        """Any binning, and the columns of a table."""
        cells = sum(2 * NUMBER + CELL * grid.n_cells for grid in self.schema.grids)
        return 2 * DEFINITION + cells

    def tree_bytes(self, leaves: int, outputs: int = 0, tests: int | None = None) -> int:
        """`tests` are different ones; None is one of its own for every node."""
        names = sum(of_text(name) for name in self.schema.names)
        different = leaves if tests is None else min(leaves, tests + 1)
        of_tests = different * (DEFINITION // 2 + self._longest)
        return NAME + 2 * DEFINITION + names + of_tests + of_leaves(leaves, outputs)

    def model_bytes(
        self, n_estimators: int, leaves: int, outputs: int, tests: int | None = None
    ) -> int:
        """Trees and a curve of every column."""
        curve = NAME + DEFINITION + NUMBER * (2 + self.cells * outputs)
        trees = n_estimators * self.tree_bytes(leaves, outputs, tests)
        return 2 * DEFINITION + self.columns * curve + trees

    # ------------------------------------------------------------------------------------- steps
    def total(self, channels: int = 1) -> Size:
        """One sum of everybody."""
        return Size.of_step(integers=channels, bytes=QUERY)

    def tables(
        self,
        queries: int = 1,
        *,
        channels: int,
        depth: int = 0,
        columns: int | None = None,
        cells: int | None = None,
        shared_bytes: int = 0,
    ) -> Size:
        """Tables of some columns at nodes of some depth; by default of all columns and cells."""
        of = self.columns if columns is None else min(columns, self.columns)
        return Size.of_step(
            queries,
            integers=of * (cells or self.cells) * channels,
            bytes=QUERY + self.bins_bytes + self.path_bytes(depth),
            shared_bytes=shared_bytes,
            steps=depth + DRAWS,
        )

    def sums(self, queries: int, *, channels: int, depth: int) -> Size:
        """A sum of each of some nodes."""
        size = QUERY + self.path_bytes(depth)
        return Size.of_step(queries, integers=channels, bytes=size, steps=depth + DRAWS)

    def trees(
        self,
        n_estimators: int,
        leaves: int,
        *,
        channels: int,
        tests: int | None = None,
        queries: int = 1,
        shared_bytes: int = 0,
    ) -> Size:
        """The leaves of some trees as one sum; so many of these."""
        return Size.of_step(
            queries,
            integers=n_estimators * leaves * channels,
            bytes=QUERY + self.path_bytes(0) + n_estimators * self.tree_bytes(leaves, tests=tests),
            shared_bytes=shared_bytes,
            steps=DRAWS,
            leaves=leaves,
        )

    def sides(self, queries: int, *, level: int, tests: int, channels: int) -> Size:
        """Both sides of the tests of all open nodes of a tree, and all layers above these."""
        nodes = 2 * self.nodes(level)
        above = 2 * DEFINITION * (level + 1) + of_tests(nodes) + 2 * nodes
        return Size.of_step(
            queries,
            integers=2 * tests * channels,
            bytes=QUERY + self.path_bytes(0) + of_tests(tests) + above,
            steps=DRAWS,
        )

    def choices(self, queries: int, *, runs: int, candidates: int, depth: int) -> Size:
        """Private selections: `runs` are the tests that are named, or the runs of cuts."""
        cuts = NUMBER + CELL * self.cells
        return Size.of_step(
            queries,
            bytes=QUERY + self.path_bytes(depth) + runs * (self.step_bytes + cuts),
            candidates=candidates,
            steps=depth + DRAWS,
        )

    def initial_round(self) -> Size:
        """The number of rows and the range of a target, each once more if below the noise."""
        first = self.total()
        if self.schema.target is not None:
            cells = WIDTHS[-1]
            size = QUERY + NUMBER * cells
            first = Size.of_step(1 + len(WIDTHS), integers=cells, bytes=size)
        return first * initial_rounds(self.schema)

    def widest(self, depth: int, bins: tuple[int, ...]) -> int:
        """Nodes of a tree that has a branch for every bin and takes a column once on a path."""
        return prod(nlargest(depth, bins))
