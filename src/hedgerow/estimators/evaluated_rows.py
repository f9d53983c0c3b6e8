"""Which rows an evaluation asks: all that are given, or those that a model's fit held out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import SpecError
from hedgerow.estimators.checking import (
    by_schema_names,
    checked_labels,
    checked_rows,
    names_of_codes,
)
from hedgerow.estimators.holders import (
    HELD_OUT,
    HeldOutDraws,
    declared_parties,
    names_of_holders,
    secret_draws,
    split_by_party,
    split_persons,
    taken,
)
from hedgerow.site.reading.encoding import encode
from hedgerow.site.rows import Draws, Rows
from hedgerow.study.terms import Study
from hedgerow.values.regions import HeldOut
from hedgerow.values.schema import Schema


@dataclass(frozen=True, kw_only=True)
class HolderRows:
    """Rows of one holder as they were given, their labels, and whose they are if somebody said."""

    name: str
    X: Any
    y: NDArray[Any]
    person: NDArray[np.object_] | None

    def taken(self, rows: NDArray[np.intp]) -> HolderRows:
        person = None if self.person is None else self.person[rows]
        return HolderRows(name=self.name, X=taken(self.X, rows), y=self.y[rows], person=person)

    def on_grid(self, schema: Schema, own: Draws) -> Rows:
        read = encode(self.X, schema, y=self.y, person=self.person, check=len(self.y) > 0)
        return Rows(read, schema, own)

    def is_held_out(self, schema: Schema, own: Draws, one_in: int) -> NDArray[np.bool_]:
        """(n,) by the holder's secret: a record is drawn by its codes on this schema's grid.

        On a finer grid, records that are equal here would no longer be alike, and one record more
        could change which of them are held out.
        """
        return np.asarray(self.on_grid(schema, own).fold(HeldOut(one_in)) == HELD_OUT)


def rows_of_holders(
    rows: tuple[Any, Any], told: Mapping[str, Any], schema: Schema
) -> list[HolderRows]:
    """`told` says who holds each row (`party`, `parties`) and whose it is (`person`)."""
    X = by_schema_names(checked_rows(rows[0]), schema)
    y, _ = names_of_codes(checked_labels(rows[1], schema.target is not None), schema)
    party, sites = told["party"], declared_parties(told["party"], told["parties"])
    parts = split_by_party(X, y, party, sites)
    persons = split_persons(told["person"], y, party, sites)
    return [
        HolderRows(name=name, X=mine, y=labels, person=who)
        for name, (mine, labels), who in zip(
            names_of_holders(party, sites), parts, persons, strict=True
        )
    ]


def common_draws(models: Sequence[Any]) -> HeldOutDraws | None:
    """The draws by which all of these models held records out: one fit's, and its stages'."""
    kept: HeldOutDraws | None = getattr(models[0], "_held_out_draws", None)
    if kept is not None and any(one._held_out_draws is not kept for one in models[1:]):
        raise SpecError(
            "the model held records out of training, and another one may have been trained on "
            "them; compare them on new rows, or let hedgerow.choose train them all."
        )
    return kept


def evaluated_rows(
    models: Sequence[Any], study: Study, parts: Sequence[HolderRows], by_person: bool
) -> list[Rows]:
    """All rows, or of a model with `hold_out` those that its holders' secrets kept from it."""
    kept, names = common_draws(models), [part.name for part in parts]
    if kept is None:
        draws = secret_draws(study.name, len(parts))
        return [part.on_grid(study.schema, own) for part, own in zip(parts, draws, strict=True)]
    grid: Schema = models[0].schema_
    most = study.records_per_person
    draws = kept.of(names, by_person=by_person, schema=grid.digest, records_per_person=most)
    left = [
        part.taken(np.flatnonzero(part.is_held_out(grid, own, kept.one_in)))
        for part, own in zip(parts, draws, strict=True)
    ]
    return [part.on_grid(study.schema, own) for part, own in zip(left, draws, strict=True)]
