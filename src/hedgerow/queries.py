"""What may be asked of rows: values that carry their own sensitivity. No rows, no noise.

A query is asked of a region. It sums an integer statistic over groups of rows. One record
falls into exactly one cell of every group, so groups add up and cells do not: the features of
a histogram are groups, the bins of one feature are cells, the trees of a forest are groups,
the leaves of one tree are cells.

Shapes: G groups, B cells per group, C channels of the statistic. An answer is (G, B, C).
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from functools import cached_property
from math import ceil
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import SpecError
from hedgerow.layers import Cuts, Layer
from hedgerow.losses import Loss, Norms
from hedgerow.models import Additive, Curve
from hedgerow.privacy.sensitivity import Sensitivity
from hedgerow.regions import Region, Split, Step, cells
from hedgerow.schema import Grid, Schema
from hedgerow.trees import Tree

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

LATTICE = 1 << 14
"""Integer units per 1.0 of a fractional statistic: truncation costs at most 2^-14 a record.

A statistic may ask for fewer: shares of Laplace noise are exact only up to a certain width.
"""


# ------------------------------------------------------------------------------------ binning
@dataclass(frozen=True)
class Binning:
    """How the cells of each feature merge into bins: a public value, once it was released.

    `bins[j][cell]` is the bin of a cell of feature j. Bins of a numeric feature are runs of
    cells; categories may be gathered in any order.
    """

    bins: tuple[tuple[int, ...], ...]

    @staticmethod
    def of_cells(schema: Schema) -> Binning:
        """Every cell its own bin."""
        return Binning(tuple(tuple(range(g.n_cells)) for g in schema.grids))

    @cached_property
    def n_bins(self) -> tuple[int, ...]:
        return tuple(max(b) + 1 for b in self.bins)

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(repr(self.bins).encode()).hexdigest()[:16]

    @cached_property
    def luts(self) -> NDArray[np.uint8]:
        """(F, 256) cell -> bin."""
        out = np.zeros((len(self.bins), 256), np.uint8)
        for j, bins in enumerate(self.bins):
            out[j, : len(bins)] = bins
        return out

    def split(self, grid: Grid, feature: int, left_bins: frozenset[int]) -> Split:
        """The test that sends the cells of `left_bins` left."""
        left = [c for c, b in enumerate(self.bins[feature]) if b in left_bins]
        return Split(grid.feature, grid.digest, cells(left))


def on_lattice(norms: Norms, unit: int) -> Sensitivity:
    """Norms in integer units, rounded up; truncation of each record keeps them."""
    return Sensitivity(
        ceil(norms.l1 * unit), ceil(norms.l2_squared * unit**2), ceil(norms.linf * unit)
    )


# --------------------------------------------------------------------------------- statistics
class Statistic(Protocol):
    """What each record contributes to its cell: integers in units of 1 / `unit`."""

    @property
    def channels(self) -> int: ...
    @property
    def unit(self) -> int: ...
    @property
    def bound(self) -> Sensitivity:
        """Of one record in one cell, in units."""
        ...


@dataclass(frozen=True, slots=True)
class Count:
    """1 for every record."""

    @property
    def channels(self) -> int:
        return 1

    @property
    def unit(self) -> int:
        return 1

    @property
    def bound(self) -> Sensitivity:
        return Sensitivity(1, 1, 1)


@dataclass(frozen=True, slots=True)
class ClassCounts:
    """1 in the channel of the record's class: classes are disjoint, so the bound stays 1."""

    n_classes: int

    @property
    def channels(self) -> int:
        return self.n_classes

    @property
    def unit(self) -> int:
        return 1

    @property
    def bound(self) -> Sensitivity:
        return Sensitivity(1, 1, 1)


@dataclass(frozen=True, slots=True)
class LabelReports:
    """Ones in each bit of the records' randomised reports of their labels, and the records.

    Stands for class counts where labels are told as noisy bits. The report protects the label
    whatever is summed, and features are not protected, so no noise rests on this bound.
    """

    bits: int

    @property
    def channels(self) -> int:
        return self.bits + 1

    @property
    def unit(self) -> int:
        return 1

    @property
    def bound(self) -> Sensitivity:
        return Sensitivity(self.channels, self.channels, 1)


@dataclass(frozen=True, slots=True)
class TargetClassCounts:
    """Counts by interval of a numeric target; a class is a run between public or released cuts."""

    cuts: tuple[float, ...]

    @property
    def channels(self) -> int:
        return len(self.cuts) + 1

    @property
    def unit(self) -> int:
        return 1

    @property
    def bound(self) -> Sensitivity:
        return Sensitivity(1, 1, 1)


@dataclass(frozen=True, slots=True)
class Fractions:
    """Complementary fractional counts (1 - u, u) of a target u = (y - low) / (high - low).

    a = round(s u) and s - a: together exactly s units, so L1 = s and L2 <= s. Under Laplace
    noise this is the best way to ask for a mean (Consul and Williamson's leaves, repaired).
    """

    low: float
    high: float
    unit: int = LATTICE

    @property
    def channels(self) -> int:
        return 2

    @property
    def bound(self) -> Sensitivity:
        return Sensitivity(self.unit, self.unit**2, self.unit)


@dataclass(frozen=True)
class Gradients:
    """The loss's own vector (gradient and scaled Hessian) at a model: a value, not a state.

    A site may cache the raw predictions of the model; the wire sends only the trees that are
    new. Each record's vector is truncated toward zero, so no norm grows.
    """

    loss: Loss
    at: Additive
    unit: int = LATTICE

    @property
    def channels(self) -> int:
        return self.loss.channels

    @property
    def bound(self) -> Sensitivity:
        return on_lattice(self.loss.norms, self.unit)


@dataclass(frozen=True)
class Hessians:
    """The Hessian alone, for placing candidates: its own, smaller sensitivity."""

    loss: Loss
    at: Additive
    unit: int = LATTICE

    @property
    def channels(self) -> int:
        return self.loss.outputs

    @property
    def bound(self) -> Sensitivity:
        return on_lattice(self.loss.hessian_norms, self.unit)


@dataclass(frozen=True)
class CurveNewton:
    """One Newton step on the weights of feature curves: (g z, (c / R) upper(h z z^T)), |z| <= R.

    z are the values of the curves at the record and one constant column. With (g, c h) of norm
    at most 1 (binary log-loss, c = 3.33) the whole vector has norm at most R:
    |z|^2 (g^2 + c^2 h^2 |z|^2 / R^2) <= R^2. Divided by R it is at most 1.
    """

    curves: tuple[Curve, ...]
    constant: float
    radius: float
    weights: tuple[float, ...]
    base: float
    loss: Loss
    unit: int = LATTICE

    @property
    def dimension(self) -> int:
        return len(self.curves) + 1

    @property
    def channels(self) -> int:
        return self.dimension + self.dimension * (self.dimension + 1) // 2

    @property
    def bound(self) -> Sensitivity:
        # L1 <= sqrt(channels) L2, rounded up.
        l1 = int(np.ceil(np.sqrt(self.channels) * self.unit)) + 1
        return Sensitivity(l1, self.unit**2, self.unit)


# ------------------------------------------------------------------------------------- groups
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
    tests: Cuts

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


# ------------------------------------------------------------------------------------ queries
@dataclass(frozen=True)
class SumQuery:
    """Sum of a statistic over the cells of some groups of a region.

    One row falls in one cell of *every* group asked, so groups add up (Gubler 2023, 3.3.4).
    """

    region: Region
    statistic: Statistic
    by: Groups
    share: Fraction

    @property
    def shape(self) -> tuple[int, int, int]:
        return (self.by.groups, self.by.n_cells, self.statistic.channels)

    @property
    def unit(self) -> int:
        return self.statistic.unit

    @property
    def sensitivity(self) -> Sensitivity:
        return self.statistic.bound.repeated(self.by.groups)


@dataclass(frozen=True)
class BoundQuery:
    """Per feature, the sum over sites of the best impurity a site could reach on its own rows.

    Gubler 2023, Theorem 7, with sensitivity 1 instead of 5/4 and charged for all features.
    A site's part is n (1 - sum p^2) / 2 over the two children, in units rounded down: adding a
    record moves it by at most one `unit`. Proof: docs/proofs/bound_query.md.
    """

    region: Region
    features: tuple[int, ...]
    binning: Binning
    share: Fraction
    unit: int = LATTICE

    @property
    def shape(self) -> tuple[int]:
        return (len(self.features),)

    @property
    def sensitivity(self) -> Sensitivity:
        return Sensitivity(self.unit, self.unit**2, self.unit).repeated(len(self.features))


MOST_ROWS = 1 << 32
"""Up to here the entropy's units are proved right."""


class Score(Enum):
    """Scores of a split, in integers of 1 / `LATTICE`; higher is better.

    `reach` is the range over candidates of the change that one record can cause. A sum of
    impurities over children moves one way for every candidate (monotone), so its range is the
    largest change itself, not twice that. A record is in one child, so any number of children
    have the reach of two. Proof: docs/proofs/selection.md.
    """

    GINI = "- n (1 - sum p^2) summed over the children"
    ENTROPY = "- n entropy in nats summed over the children"
    BALANCE = "rows - 2 rows of the largest child; of two children, - |left - right|"
    SQUARED_ERROR = "- sum of squared errors around the children's means, target scaled to [0, 1]"


@dataclass(frozen=True, slots=True)
class Scoring:
    """A score with the public fact its bound needs.

    The entropy is scored as if no set were larger than `rows_at_most`: smaller is sharper. The
    bound holds for any data; a wrong guess only makes scores of larger sets less telling.
    `balance` units are taken off for every record of the larger child: where the score tells
    little, the split then stays near the middle. One more record moves this part down or not at
    all, as it does the impurities, so the ranges add.
    """

    score: Score
    rows_at_most: int = MOST_ROWS
    balance: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.balance <= LATTICE:
            raise SpecError(f"balance is {self.balance}; use 0 to {LATTICE} units.")
        if not 1 <= self.rows_at_most <= MOST_ROWS:
            raise SpecError(f"rows_at_most is {self.rows_at_most}; use 1 to {MOST_ROWS}.")

    @property
    def reach(self) -> int:
        """Range, in units of 1 / LATTICE, rounded up."""
        return self._reach_of_score + self.balance

    @property
    def _reach_of_score(self) -> int:
        match self.score:
            case Score.GINI:
                return 2 * LATTICE
            case Score.ENTROPY:
                # (N + 1) log(N + 1) - N log N < log(N + 1) + 1; and 16 units for rounding
                return int(np.ceil((np.log(self.rows_at_most + 1.0) + 1.0) * LATTICE)) + 16
            case Score.BALANCE:
                return 2 * LATTICE
            case Score.SQUARED_ERROR:
                return LATTICE


class Chooser(Enum):
    EXPONENTIAL = "exponential"
    PERMUTE_AND_FLIP = "permute_and_flip"


@dataclass(frozen=True, slots=True)
class Chain:
    """A candidate with more than two children: tests asked one after another.

    A row's child is the first test that sends it left, or else the last child. A node with a
    branch for each of k bins is a chain of k - 1 tests, so trees stay binary.
    """

    tests: tuple[Split, ...]

    def children(self, region: Region) -> list[Region]:
        """Regions of the children of a node, the one that no test sends left being the last."""
        passed, found = region, list[Region]()
        for test in self.tests:
            found.append((*passed, Step(test, 0)))
            passed = (*passed, Step(test, 1))
        return [*found, passed]


@dataclass(frozen=True)
class SelectQuery:
    """One holder picks one of some candidates by its exact scores; only the index leaves."""

    region: Region
    splits: tuple[Split | Chain, ...]
    scoring: Scoring
    share: Fraction
    chooser: Chooser = Chooser.PERMUTE_AND_FLIP


@dataclass(frozen=True)
class LocalChoice:
    """Each site picks one of some splits on its own rows (LocalRNM, Wang et al. 2020).

    A record has one owner, so the sites' choices are parallel.
    """

    region: Region
    splits: tuple[Split, ...]
    scoring: Scoring
    share: Fraction
    chooser: Chooser = Chooser.PERMUTE_AND_FLIP


Summed = SumQuery | BoundQuery
Selecting = SelectQuery | LocalChoice
Query = SumQuery | BoundQuery | SelectQuery | LocalChoice


@dataclass(frozen=True)
class Answer:
    """Released numbers in natural units, with the variance of the noise inside each."""

    values: FloatArray
    variance: float


@dataclass(frozen=True)
class Picks:
    """Released indices: one for a holder, one per site for a local choice."""

    indices: tuple[int, ...] = field(default=())


Reply = Answer | Picks
