"""Sensitivity: how far one record can move a vector of integers."""

from __future__ import annotations

from dataclasses import dataclass

from hedgerow.errors import ParameterError


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Bounds on the change of an integer vector when one record is added or removed.

    In units of the query's lattice. The L2 norm is kept squared so that it stays an integer.
    """

    l1: int
    l2_squared: int
    linf: int

    def __post_init__(self) -> None:
        if min(self.l1, self.l2_squared, self.linf) < 1:
            raise ParameterError(
                f"{self} is not positive; a query that no record can move needs no noise."
            )

    def repeat(self, times: int) -> Sensitivity:
        """The same contribution once in each of `times` groups: groups are not parallel."""
        return Sensitivity(self.l1 * times, self.l2_squared * times, self.linf)

    def of_person(self, records: int) -> Sensitivity:
        """One person holding up to `records` records, all of which may fall in one cell."""
        return Sensitivity(self.l1 * records, self.l2_squared * records**2, self.linf * records)
