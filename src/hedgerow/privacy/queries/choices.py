"""Private selections among splits, and the scores of splits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from functools import cached_property
from itertools import pairwise

import numpy as np

from hedgerow.errors import ParameterError
from hedgerow.models.validation import fits_once, region_incompatibility, split_incompatibility
from hedgerow.privacy.queries.statistics import LATTICE
from hedgerow.schema.arrays import N_CODES, IntArray, freeze
from hedgerow.schema.regions import Region, Split, Step
from hedgerow.schema.schema import Schema

MOST_ROWS = 1 << 32
"""The most rows for which the entropy's units are proved."""


class Score(Enum):
    """Scores of a split, in integers of 1 / `LATTICE`; higher is better.

    `reach` is the range over candidates of the change that one record can cause. A sum of
    impurities over children moves in one direction for every candidate (monotone), so its range is
    the largest change itself, not twice that. A record is in one child, so any number of children
    have the same reach as two. Proof: docs/proofs/selection.md.
    """

    GINI = "- n (1 - sum p^2) summed over the children"
    ENTROPY = "- n entropy in nats summed over the children"
    BALANCE = "rows - 2 rows of the largest child; of two children, - |left - right|"
    SQUARED_ERROR = "- sum of squared errors around the children's means, target scaled to [0, 1]"


@dataclass(frozen=True, slots=True)
class Scoring:
    """A score with the public numbers that its bound needs.

    The entropy is scored as if no set were larger than `rows_at_most`; a smaller number makes the
    selection sharper. The bound holds for any data: too small a number only makes the scores of
    larger sets less informative. `balance` units are subtracted for every record of the larger
    child, so that a split stays near the middle where the score says little. One more record moves
    this part down or not at all, as it does the impurities, so the ranges add.
    """

    score: Score
    rows_at_most: int = MOST_ROWS
    balance: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.balance <= LATTICE:
            raise ParameterError(f"balance is {self.balance}; use 0 to {LATTICE} units.")
        if not 1 <= self.rows_at_most <= MOST_ROWS:
            raise ParameterError(f"rows_at_most is {self.rows_at_most}; use 1 to {MOST_ROWS}.")

    @property
    def reach(self) -> int:
        """The range, in units of 1 / LATTICE, rounded up."""
        return self._reach_of_score + self.balance

    def incompatibility(self, schema: Schema) -> str | None:
        if self.score is Score.SQUARED_ERROR and schema.target is None:
            return "the rows have no numeric target"
        if self.score in (Score.GINI, Score.ENTROPY) and schema.classes is None:
            return "the rows have no classes"
        return None

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


class Mechanism(Enum):
    EXPONENTIAL = "exponential"
    PERMUTE_AND_FLIP = "permute_and_flip"
    REPORT_NOISY_MAX = "report_noisy_max"


@dataclass(frozen=True, slots=True)
class MultiwaySplit:
    """A candidate with more than two children: a sequence of tests.

    A row goes to the child of the first test that sends it left, or else to the last child. A node
    with a branch for each of k bins is a sequence of k - 1 tests, so trees stay binary.
    """

    tests: tuple[Split, ...]

    def children(self, region: Region) -> list[Region]:
        """The regions of a node's children; the last holds the rows that no test sends left."""
        rest, regions = region, list[Region]()
        for test in self.tests:
            regions.append((*rest, Step(test, 0)))
            rest = (*rest, Step(test, 1))
        return [*regions, rest]


@dataclass(frozen=True)
class Thresholds:
    """A block of candidates: a split at each of several positions in one feature's ordered cells.

    Split i sends the cells below `at[i]` left, and the cell `also`, where `missing` goes, unless it
    is None. A node with all thresholds of thirty features names thirty blocks instead of two
    thousand splits.
    """

    feature: str
    grid: str
    at: tuple[int, ...]
    also: int | None

    @cached_property
    def cells(self) -> IntArray:
        """(k,) `at` as an array."""
        return freeze(np.array(self.at))

    def split(self, i: int) -> Split:
        left = (1 << self.at[i]) - 1
        return Split(self.feature, self.grid, left if self.also is None else left | 1 << self.also)

    def incompatibility(self, schema: Schema) -> str | None:
        return fits_once(self, schema, _thresholds_incompatibility)


def _thresholds_incompatibility(cuts: Thresholds, schema: Schema) -> str | None:
    """Thresholds rise, so if the last one is a valid test, all are."""
    if not cuts.at or not all(a < b for a, b in pairwise(cuts.at)):
        return f"cuts of {cuts.feature!r} do not rise, or there is none"
    if cuts.at[0] < 1 or cuts.at[-1] > N_CODES or not 0 <= (cuts.also or 0) < N_CODES:
        return f"a cut of {cuts.feature!r} names cells that do not exist"
    return split_incompatibility(cuts.split(len(cuts.at) - 1), schema)


Candidate = Split | MultiwaySplit | Thresholds


def n_candidates(candidates: Iterable[Candidate]) -> int:
    """Counts the candidates; a block has one per threshold."""
    return sum(len(c.at) if isinstance(c, Thresholds) else 1 for c in candidates)


def candidate(candidates: Iterable[Candidate], k: int) -> Split | MultiwaySplit:
    """The k-th candidate, counting each threshold of a block."""
    for run in candidates:
        if not isinstance(run, Thresholds):
            if k == 0:
                return run
            k -= 1
        elif k < len(run.at):
            return run.split(k)
        else:
            k -= len(run.at)
    raise ParameterError(f"there are {k} candidates fewer than the one that was asked for.")


@dataclass(frozen=True)
class _Choice:
    """A selection among candidates by exact integer scores; only the index is released.

    `remainder` is the fraction of the budget that must remain afterwards for the worst-case record,
    which ledgers enforce. The more remains, the sharper a selection may be among Gaussian sums.
    """

    region: Region
    splits: tuple[Candidate, ...]
    scoring: Scoring
    fraction: Fraction
    mechanism: Mechanism = Mechanism.PERMUTE_AND_FLIP
    remainder: Fraction = Fraction(0)

    @cached_property
    def n_candidates(self) -> int:
        return n_candidates(self.splits)

    def incompatibility(self, schema: Schema) -> str | None:
        if not self.splits:
            return "no candidate was named"
        reasons = (_candidate_incompatibility(some, schema) for some in self.splits)
        return (
            self.scoring.incompatibility(schema)
            or region_incompatibility(self.region, schema)
            or next(filter(None, reasons), None)
        )


def _candidate_incompatibility(some: Candidate, schema: Schema) -> str | None:
    match some:
        case Thresholds():
            return some.incompatibility(schema)
        case MultiwaySplit():
            reasons = (split_incompatibility(test, schema) for test in some.tests)
            return next(filter(None, reasons), None) if some.tests else "a chain has no test"
    return split_incompatibility(some, schema)


@dataclass(frozen=True)
class SelectQuery(_Choice):
    """A selection at one site that has all rows."""


@dataclass(frozen=True)
class LocalSelection(_Choice):
    """A selection by each site on its own rows (LocalRNM, Wang et al. 2020).

    A record is at one site, so the selections of the sites compose in parallel.
    """
