"""Private choices among splits, and the scores they go by."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

import numpy as np

from hedgerow.errors import SpecError
from hedgerow.queries.statistics import LATTICE
from hedgerow.values.fitting import misfit_of_region, misfit_of_split
from hedgerow.values.regions import Region, Split, Step
from hedgerow.values.schema import Schema

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

    def misfit(self, schema: Schema) -> str | None:
        """Why rows under this schema have no such score; None if they have."""
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
class _Choice:
    """One of some candidates, by exact integer scores; only the index leaves."""

    region: Region
    splits: tuple[Split | Chain, ...]
    scoring: Scoring
    share: Fraction
    mechanism: Mechanism = Mechanism.PERMUTE_AND_FLIP

    def misfit(self, schema: Schema) -> str | None:
        """Why rows under this schema cannot be asked; None if they can."""
        if not self.splits:
            return "no candidate was named"
        tests = {t for s in self.splits for t in (s.tests if isinstance(s, Chain) else (s,))}
        reasons = (misfit_of_split(test, schema) for test in tests)
        return (
            self.scoring.misfit(schema)
            or misfit_of_region(self.region, schema)
            or next(filter(None, reasons), None)
        )


@dataclass(frozen=True)
class SelectQuery(_Choice):
    """One holder picks one of some candidates by its exact scores."""


@dataclass(frozen=True)
class LocalChoice(_Choice):
    """Each site picks one of some splits on its own rows (LocalRNM, Wang et al. 2020).

    A record has one owner, so the sites' choices are parallel.
    """
