"""By what records are told apart: groups add up, the cells of one group do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from hedgerow.errors import SpecError
from hedgerow.values.binning import Binning
from hedgerow.values.layers import Layer, NodeTests
from hedgerow.values.models import Additive
from hedgerow.values.trees import Tree


class Groups(Protocol):
    """How rows fall into cells; a record is in one cell of each of `groups`."""

    @property
    def groups(self) -> int: ...
    @property
    def n_cells(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Whole:
    """The region itself: one group of one cell."""

    @property
    def groups(self) -> int:
        return 1

    @property
    def n_cells(self) -> int:
        return 1


@dataclass(frozen=True)
class Cells:
    """The bins of some features."""

    features: tuple[int, ...]
    binning: Binning

    def __post_init__(self) -> None:
        if not self.features:
            raise SpecError("a histogram was asked of no feature; name at least one.")

    @property
    def groups(self) -> int:
        return len(self.features)

    @property
    def n_cells(self) -> int:
        return max(self.binning.n_bins[f] for f in self.features)


@dataclass(frozen=True)
class Leaves:
    """The leaves of some trees, in the order of `Tree.leaves`."""

    trees: tuple[Tree, ...]

    @property
    def groups(self) -> int:
        return len(self.trees)

    @property
    def n_cells(self) -> int:
        return max(t.n_leaves for t in self.trees)


@dataclass(frozen=True)
class Sides:
    """Both sides of m tests of every open node of a tree: 2 x C tables of random candidates.

    A record stands at one open node, or has left the tree, so nodes are cells and the m tests of
    a node are groups. Cell 2 q + s is side s of the test of node q.
    """

    layer: Layer
    tests: NodeTests

    def __post_init__(self) -> None:
        shape = self.tests.feature.shape
        if len(shape) != 2 or shape[0] != self.layer.n_nodes or not shape[1]:
            raise SpecError(
                f"tests of shape {shape} were asked of {self.layer.n_nodes} nodes; give every "
                "node the same number of tests, at least one."
            )

    @property
    def groups(self) -> int:
        return int(self.tests.feature.shape[1])

    @property
    def n_cells(self) -> int:
        return 2 * self.layer.n_nodes


@dataclass(frozen=True, slots=True)
class TargetCells:
    """Intervals of the numeric target between public edges."""

    edges: tuple[float, ...]

    @property
    def groups(self) -> int:
        return 1

    @property
    def n_cells(self) -> int:
        return len(self.edges) + 1


@dataclass(frozen=True)
class ResidualCells:
    """Intervals of |y - prediction| between public edges."""

    at: Additive
    edges: tuple[float, ...]

    @property
    def groups(self) -> int:
        return 1

    @property
    def n_cells(self) -> int:
        return len(self.edges) + 1
