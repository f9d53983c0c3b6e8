"""Sums of a statistic over groups of a region's rows."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from hedgerow.privacy.accounting.sensitivity import Sensitivity
from hedgerow.queries.groups import Groups
from hedgerow.queries.statistics import Statistic
from hedgerow.values.binning import Binning
from hedgerow.values.fitting import misfit_of_binning, misfit_of_columns, misfit_of_region
from hedgerow.values.regions import Region
from hedgerow.values.schema import Schema


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

    def sensitivity(self, unit: int) -> Sensitivity:
        """Of one record, in units."""
        return self.statistic.bound(unit).repeated(self.by.groups)

    def misfit(self, schema: Schema) -> str | None:
        """Why rows under this schema cannot be asked; None if they can."""
        return (
            misfit_of_region(self.region, schema)
            or self.statistic.misfit(schema)
            or self.by.misfit(schema)
        )


@dataclass(frozen=True)
class BoundQuery:
    """Per feature, the sum over sites of the best impurity a site could reach on its own rows.

    Gubler 2023, Theorem 7, with sensitivity 1 instead of 5/4 and charged for all features.
    A site's part is n (1 - sum p^2) / 2 over the two children, in units rounded down: adding a
    record moves it by at most 1.0, whatever the unit. Proof: docs/proofs/bound_query.md.
    """

    region: Region
    features: tuple[int, ...]
    binning: Binning
    share: Fraction

    @property
    def shape(self) -> tuple[int]:
        return (len(self.features),)

    def sensitivity(self, unit: int) -> Sensitivity:
        """Of one record, in units."""
        return Sensitivity(unit, unit**2, unit).repeated(len(self.features))

    def misfit(self, schema: Schema) -> str | None:
        """Why rows under this schema cannot be asked; None if they can."""
        if schema.classes is None:
            return "the rows have no classes"
        return (
            misfit_of_region(self.region, schema)
            or misfit_of_columns(self.features, schema)
            or misfit_of_binning(self.binning, schema)
        )
