"""Upper bounds on the size of a method's steps, from the schema and its parameters alone.

They assume full trees of the given depth and paths of the largest length.
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
"""Bytes of a query besides the values it names: kind, fraction, loss."""
DRAWS = 2
"""Steps of a region that are not nodes: a fold, and held-out records."""


SPARE_BINS = 4
"""Bins of an even grid besides those asked for: powers of ten, and `missing`."""


@dataclass(frozen=True)
class Scale:
    """Public sizes of a schema. `channels` are those of a sum of the target: classes, or two."""

    schema: Schema

    @cached_property
    def columns(self) -> int:
        return len(self.schema.grids)

    @cached_property
    def cells(self) -> int:
        """Cells of the widest column; bins are never more."""
        return max(grid.n_cells for grid in self.schema.grids)

    @cached_property
    def channels(self) -> int:
        return len(self.schema.classes or (0, 1))

    def leaves(self, depth: int) -> int:
        """Leaves of a tree that may be split wherever a column has two cells left.

        Beyond the limit for leaves, if the cells allow it.
        """
        most = 2 * MOST_LEAVES if depth >= MOST_LEAVES.bit_length() else 1 << depth
        return min(most, prod(grid.n_cells for grid in self.schema.grids))

    @staticmethod
    def complete(depth: int) -> int:
        """Leaves of a tree with a test on every level, even if one cell is left."""
        return 1 << min(depth, MOST_LEAVES.bit_length())

    def nodes(self, level: int) -> int:
        """Open nodes of a tree that stops at the largest number of leaves."""
        return min(self.leaves(level), MOST_LEAVES)

    def deepest(self, depth: int) -> int:
        """The levels that a tree with the largest number of leaves can reach, at most `depth`.

        A path needs a cell for each of its tests.
        """
        return min(depth, MOST_LEAVES - 1, sum(grid.n_cells - 1 for grid in self.schema.grids))

    def tests(self, bins: int) -> int:
        """Distinct tests on columns with this many bins, each with `missing` left and right."""
        cuts = (
            min(g.n_cells, bins + SPARE_BINS) if g.kind is ColumnKind.NUMERIC else g.n_cells
            for g in self.schema.grids
        )
        return 2 * sum(cuts)

    @cached_property
    def _longest(self) -> int:
        return max(of_text(name) for name in self.schema.names)

    @cached_property
    def step_bytes(self) -> int:
        """Bytes of a region's step and its test."""
        return 4 * DEFINITION + self._longest

    def path_bytes(self, depth: int) -> int:
        return (depth + DRAWS) * self.step_bytes

    @cached_property
    def bins_bytes(self) -> int:
        """Bytes of any binning and the columns of a table."""
        cells = sum(2 * NUMBER + CELL * grid.n_cells for grid in self.schema.grids)
        return 2 * DEFINITION + cells

    def tree_bytes(self, leaves: int, outputs: int = 0, tests: int | None = None) -> int:
        """Bytes of a tree with `tests` distinct tests; None is one for every node."""
        names = sum(of_text(name) for name in self.schema.names)
        different = leaves if tests is None else min(leaves, tests + 1)
        of_tests = different * (DEFINITION // 2 + self._longest)
        return NAME + 2 * DEFINITION + names + of_tests + of_leaves(leaves, outputs)

    def model_bytes(
        self, n_estimators: int, leaves: int, outputs: int, tests: int | None = None
    ) -> int:
        """Bytes of a model: trees, and a curve for every column."""
        curve = NAME + DEFINITION + NUMBER * (2 + self.cells * outputs)
        trees = n_estimators * self.tree_bytes(leaves, outputs, tests)
        return 2 * DEFINITION + self.columns * curve + trees

    def total(self, channels: int = 1) -> Size:
        """One sum over all records."""
        return Size.of_step(integers=channels, bytes=QUERY)

    def tables(
        self,
        queries: int = 1,
        *,
        channels: int,
        depth: int = 0,
        columns: int | None = None,
        shared_bytes: int = 0,
    ) -> Size:
        """Tables of some columns at nodes of some depth; by default of all columns."""
        of = self.columns if columns is None else min(columns, self.columns)
        return Size.of_step(
            queries,
            integers=of * self.cells * channels,
            bytes=QUERY + self.bins_bytes + self.path_bytes(depth),
            shared_bytes=shared_bytes,
            steps=depth + DRAWS,
        )

    def sums(self, queries: int, *, channels: int, depth: int) -> Size:
        """A sum for each of some nodes."""
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
        depth: int = 0,
        shared_bytes: int = 0,
    ) -> Size:
        """The leaves of some trees as one sum; `queries` of these, at nodes of some depth."""
        return Size.of_step(
            queries,
            integers=n_estimators * leaves * channels,
            bytes=QUERY
            + self.path_bytes(depth)
            + n_estimators * self.tree_bytes(leaves, tests=tests),
            shared_bytes=shared_bytes,
            steps=depth + DRAWS,
            leaves=leaves,
        )

    def sides(self, queries: int, *, level: int, tests: int, channels: int) -> Size:
        """Both sides of the tests of all open nodes of a tree, and all layers above."""
        nodes = 2 * self.nodes(level)
        above = 2 * DEFINITION * (level + 1) + of_tests(nodes) + 2 * nodes
        return Size.of_step(
            queries,
            integers=2 * tests * channels,
            bytes=QUERY + self.path_bytes(0) + of_tests(tests) + above,
            steps=DRAWS,
        )

    def choices(self, queries: int, *, runs: int, candidates: int, depth: int) -> Size:
        """Private selections; `runs` are the named tests, or runs of cuts."""
        cuts = NUMBER + CELL * self.cells
        return Size.of_step(
            queries,
            bytes=QUERY + self.path_bytes(depth) + runs * (self.step_bytes + cuts),
            candidates=candidates,
            steps=depth + DRAWS,
        )

    def initial_round(self) -> Size:
        """The number of rows and the range of a target, each asked again if below the noise."""
        if self.schema.target is None:
            return self.total() * initial_rounds(self.schema)
        cells, queries = WIDTHS[-1], 1 + len(WIDTHS)
        first = Size.of_step(queries, integers=cells, bytes=QUERY + NUMBER * cells)
        return first * initial_rounds(self.schema)

    def widest(self, depth: int, bins: tuple[int, ...]) -> int:
        """Nodes of a tree with a branch for every bin that uses a column once per path."""
        return prod(nlargest(depth, bins))
