"""Sums of a statistic over groups of a region's rows."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hedgerow.privacy.accounting.sensitivity import Sensitivity
from hedgerow.queries.groups import Groups
from hedgerow.queries.statistics import LATTICE, Statistic
from hedgerow.values.binning import Binning
from hedgerow.values.regions import Region


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
