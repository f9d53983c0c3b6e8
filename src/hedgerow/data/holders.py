"""Who holds which rows of a fit, and each holder's own secret."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.data.reading.columns import Distinct, distinct
from hedgerow.data.reading.containers import as_column, objects_of, unmasked
from hedgerow.data.reading.encoding import refuse_unusable
from hedgerow.data.rows import Draws, public_draws
from hedgerow.errors import DataError, DataWarning, SpecError, warn
from hedgerow.privacy.accounting.budget import Placement
from hedgerow.privacy.accounting.guarantee import Drawn
from hedgerow.privacy.study import Study
from hedgerow.schema.grids import canonical
from hedgerow.schema.tokens import Token, Unusable, token_of

FULL_GRAPH = 200
"""Up to so many sites share masks each with each (docs/privacy.md)."""
MANY_SITES = 50
"""More of them in one process take so long that a person should know."""
PAIR_SECONDS = 1e-4
"""Of one round, for each pair of sites of a process: measured with 100 and 200 of them."""
FEW, ROWS_A_HOLDER = 20, 5
"""More holders than that, with fewer rows each, are hardly sites."""
HELD_OUT, TRAINED_ON = 0, 1
"""The parts of the records that a draw makes: outcomes of its test."""
UNNAMED = ""
"""Of the one holder of all rows, where nobody names sites: no site can be called so."""


def declared_parties(party: Any, parties: Any) -> list[Any] | None:
    """The names of all sites, those without rows too; None if only the rows name them."""
    if parties is None:
        categories = getattr(getattr(party, "dtype", None), "categories", None)
        return None if categories is None else list(categories)
    if party is None:
        raise SpecError(
            "parties names the sites, but party does not say which of them holds each row; "
            "give both."
        )
    return _checked_names(parties)


def _checked_names(parties: Any) -> list[Any]:
    if isinstance(parties, str) or not isinstance(parties, Iterable):
        raise SpecError(f"parties is {parties!r}; give the names of all sites, as a list.")
    names = list(parties)
    if not names or not all(isinstance(token_of(name), str) for name in names):
        raise SpecError(f"parties is {names}; give at least one name, each a text or a number.")
    if len(set(map(token_of, names))) < len(names):
        raise SpecError(f"parties is {names}; name every site once.")
    return names


def split_by_party(
    X: Any, y: NDArray[Any], party: Any, names: list[Any] | None
) -> list[tuple[Any, NDArray[Any]]]:
    """The rows of each holder, in the order of `names`; without names, of those met, sorted."""
    if party is None:
        return [(X, y)]
    parts = _rows_of_each(y, party, names)
    warn_of_crowds(len(parts), len(y))
    return [(taken(X, rows), y[rows]) for rows in parts]


def _rows_of_each(y: NDArray[Any], party: Any, names: list[Any] | None) -> list[NDArray[np.intp]]:
    if isinstance(party, str | bytes):
        raise SpecError(
            f"party is {party!r}; give who holds each row, one name per row. If that is a column, "
            f"pass it: party=frame[{party!r}]."
        )
    who = as_column(party)
    if len(who) != len(y):
        raise DataError(f"party names {len(who)} rows, y has {len(y)}; give one party per row.")
    found = distinct(who)
    met = _parties_in(found)
    names = _in_order(list(met.values())) if names is None else names
    place = {token_of(name): k for k, name in enumerate(names)}
    _refuse_strangers(met, place, names)
    numbers = [place.get(token, -1) for token in found.tokens()]  # -1: of no row
    holder = np.array(numbers, np.intp)[found.index]
    order = np.argsort(holder, kind="stable")
    ends = np.searchsorted(holder[order], np.arange(1, len(names)))
    return np.split(order, ends)


def names_of_holders(party: Any, names: Iterable[Any] | None) -> tuple[str, ...]:
    """What the holders are called, as files spell it; in the order of `split_by_party`."""
    if party is None:
        return (UNNAMED,)
    if names is None:
        names = _in_order(list(_parties_in(distinct(as_column(party))).values()))
    return tuple(str(token_of(name)) for name in names)


def split_persons(
    person: Any, y: NDArray[Any], party: Any, names: list[Any] | None
) -> list[NDArray[np.object_] | None]:
    """Whose record each row of each holder is; None for each holder if nobody said."""
    ids = None if person is None else _ids(person, len(y))
    if party is None:
        return [ids]
    return [None if ids is None else ids[rows] for rows in _rows_of_each(y, party, names)]


def _ids(person: Any, n: int) -> NDArray[np.object_]:
    if getattr(person, "ndim", 1) != 1:
        raise DataError(f"person has shape {np.shape(person)}; give one id per row.")
    ids = objects_of(unmasked(person))
    if len(ids) != n:
        raise DataError(f"person names {len(ids)} rows, y has {n}; give one id per row.")
    return ids


def _parties_in(found: Distinct) -> dict[Token, Any]:
    """Each name once, by its token: 1 and "1" are one site, as in a file."""
    met: dict[Token, Any] = {}
    for name, _ in found.met([True] * len(found.values)):
        token = token_of(name)
        if token is Unusable.NO_VALUE:
            raise DataError(
                "party holds lists, dates or others that name nobody; name parties by text or "
                "numbers."
            )
        refuse_unusable("party", name)
        if not isinstance(token, str):
            raise DataError(f"party is {name!r} in some row; say for each row who holds it.")
        met.setdefault(token, name)
    return met


def warn_of_time(sites: int, rounds: int) -> None:
    """Before the first of many sites' masks is made: one process makes those of all of them."""
    if sites > MANY_SITES:
        minutes = (rounds + 1) * sites**2 * PAIR_SECONDS / 60.0
        warn(
            f"{sites} sites run in one process, each of which shares masks with every other: "
            f"{rounds} rounds at most, up to about {minutes:.2g} minutes. Name fewer sites, or "
            "run them on machines of their own, which share this work.",
            DataWarning,
        )


def warn_of_crowds(parties: int, rows: int) -> None:
    """Before masks between all of them are made, which takes minutes."""
    if parties > FULL_GRAPH or (parties > FEW and rows < parties * ROWS_A_HOLDER):
        warn(
            f"party names {parties} holders of {rows} rows. A party is a site with rows of its "
            "own, which shares masks with every other; if each of these is a person, leave party "
            "out and name persons with `person`.",
            DataWarning,
        )


def _in_order(met: list[Any]) -> list[Any]:
    try:
        return sorted(met)
    except TypeError:  # numbers and texts side by side
        return sorted(met, key=str)


def _refuse_strangers(met: dict[Token, Any], place: dict[Token, int], names: Sequence[Any]) -> None:
    for token, name in met.items():
        if token not in place:
            raise DataError(
                f"party is {name!r} in some row, which is not among the parties {list(names)}; "
                "name it there or correct the row."
            )


def taken(X: Any, rows: NDArray[np.intp]) -> Any:
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X.take(rows) if hasattr(X, "column_names") else X[rows]


def secret_draws(study: str, holders: int) -> list[Draws]:
    """One secret per holder, never shared.

    A draw is a function of the secret and the record's content: with one secret for two holders
    their equal records would tell the truth together, lie together and fall in one fold.
    """
    return [Draws(os.urandom(32), study) for _ in range(holders)]


@dataclass(frozen=True, kw_only=True)
class HeldOutDraws:
    """How a fit drew the records that it left out: each holder's secret by the holder's name.

    Kept in memory, with whoever has the rows; no file has it. Another secret, another way to tell
    records apart or another grid would draw other records, which the fit was trained on.
    """

    secrets: Mapping[str, Draws] = field(repr=False)
    one_in: int
    by_person: bool
    schema: str
    """The digest of the schema on whose grid records are told apart."""
    records_per_person: int

    @staticmethod
    def over(names: Sequence[str], draws: Sequence[Draws], **how: Any) -> HeldOutDraws:
        """Of these holders, each with its own secret."""
        return HeldOutDraws(secrets=dict(zip(names, draws, strict=True)), **how)

    def part(self, outcome: int) -> Drawn:
        """One part of the records, by the name of these draws: it tells nothing of the secrets."""
        keys = [(name, own.key("name of the draws").hex()) for name, own in self.secrets.items()]
        meaning = canonical(["held out", self.one_in, self.schema, sorted(keys)])
        name = hashlib.sha256(meaning).hexdigest()
        return Drawn(name=name, parts=frozenset({outcome}), by_person=self.by_person)

    def of(
        self, names: Sequence[str], *, by_person: bool, schema: str, records_per_person: int
    ) -> list[Draws]:
        """The secret of each of these holders, in any order; refused unless all is as it was."""
        self._check_names(names)
        self._check_persons(by_person)
        if schema != self.schema:
            raise SpecError(
                f"records were held out of training on a schema with digest {self.schema[:16]}, "
                f"and the model's is now {schema[:16]}; fit the model again."
            )
        if records_per_person != self.records_per_person:
            raise SpecError(
                f"records_per_person is {records_per_person}, and {self.records_per_person} when "
                "records were held out of training; leave it out, or name the same."
            )
        return [self.secrets[name] for name in names]

    def _check_names(self, names: Sequence[str]) -> None:
        if sorted(names) != sorted(self.secrets):
            raise SpecError(
                f"records were held out of training by {_called(self.secrets)}; here rows are "
                f"those of {_called(names)}. Give the same rows with the same parties."
            )

    def _check_persons(self, by_person: bool) -> None:
        if by_person != self.by_person:
            told, todo = ("were not told", "leave out") if by_person else ("were told", "give")
            raise SpecError(
                f"persons {told} when records were held out of training, so that other records "
                f"would be drawn now; {todo} `person`, as for `fit`."
            )


def held_out_draws(
    study: Study, names: Sequence[str], draws: Sequence[Draws], by_person: bool
) -> HeldOutDraws | None:
    """What `evaluate` needs to find the held-out records of a fit again; None if there are none."""
    if not study.hold_out:
        return None
    return HeldOutDraws.over(
        names,
        draws,
        one_in=study.hold_out,
        by_person=by_person,
        schema=study.schema.digest,
        records_per_person=study.records_per_person,
    )


def _called(names: Iterable[str]) -> str:
    return ", ".join(sorted(repr(name) for name in names if name)) or "one holder without a name"


def draws_of_holders(study: Study) -> list[Draws]:
    """Secret ones, unless nothing is protected: then folds repeat with the public seed."""
    if study.placement is Placement.NOWHERE:
        return [public_draws(study.public_seed, place) for place in range(study.parties)]
    return secret_draws(study.name, study.parties)
