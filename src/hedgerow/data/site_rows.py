"""Divides the rows of a fit among sites, each with its own secret."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.data.reading.columns import Distinct, distinct
from hedgerow.data.reading.containers import as_column, fill_masked, objects_of
from hedgerow.data.reading.encoding import refuse_unusable
from hedgerow.data.rows import Draws, public_draws
from hedgerow.errors import DataError, DataWarning, ParameterError, warn
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.accounting.guarantee import Drawn
from hedgerow.privacy.study import Study
from hedgerow.schema.grids import canonical_bytes
from hedgerow.schema.tokens import Token, Unusable, token_of

FULL_GRAPH = 200
"""Up to so many sites share masks each with each (docs/privacy.md)."""
MANY_SITES = 50
"""More of them in one process take so long that a person should know."""
PAIR_SECONDS = 1e-4
"""Of one round, for each pair of sites of a process: measured with 100 and 200 of them."""
FEW, ROWS_PER_SITE = 20, 5
"""More sites than that, with fewer rows each, are hardly sites."""
HELD_OUT, TRAINED_ON = 0, 1
"""The parts of the records that a draw makes: outcomes of its test."""
UNNAMED = ""
"""Name of the only site, which has all rows, where nobody names sites: no site can be called so."""


def declared_sites(site: Any, sites: Any) -> list[Any] | None:
    """The names of all sites, including those without rows; None if not declared."""
    if sites is None:
        categories = getattr(getattr(site, "dtype", None), "categories", None)
        return None if categories is None else list(categories)
    if site is None:
        raise ParameterError(
            "sites names the sites, but site does not say which of them holds each row; give both."
        )
    return _checked_names(sites)


def _checked_names(sites: Any) -> list[Any]:
    if isinstance(sites, str) or not isinstance(sites, Iterable):
        raise ParameterError(f"sites is {sites!r}; give the names of all sites, as a list.")
    names = list(sites)
    if not names or not all(isinstance(token_of(name), str) for name in names):
        raise ParameterError(f"sites is {names}; give at least one name, each a text or a number.")
    if len(set(map(token_of, names))) < len(names):
        raise ParameterError(f"sites is {names}; name every site once.")
    return names


def split_by_site(
    X: Any, y: NDArray[Any], site: Any, names: list[Any] | None
) -> list[tuple[Any, NDArray[Any]]]:
    """The rows of each site, in the order of `names` or, without names, sorted."""
    if site is None:
        return [(X, y)]
    parts = _rows_of_each(y, site, names)
    warn_of_crowds(len(parts), len(y))
    return [(take_rows(X, rows), y[rows]) for rows in parts]


def _rows_of_each(y: NDArray[Any], site: Any, names: list[Any] | None) -> list[NDArray[np.intp]]:
    if isinstance(site, str | bytes):
        raise ParameterError(
            f"site is {site!r}; give the site of each row, one name per row. If that is a column, "
            f"pass it: site=frame[{site!r}]."
        )
    site_column = as_column(site)
    if len(site_column) != len(y):
        raise DataError(
            f"site names {len(site_column)} rows, y has {len(y)}; give one site per row."
        )
    distinct_sites = distinct(site_column)
    site_names = _sites_in(distinct_sites)
    names = _in_order(list(site_names.values())) if names is None else names
    place = {token_of(name): k for k, name in enumerate(names)}
    _refuse_strangers(site_names, place, names)
    numbers = [place.get(token, -1) for token in distinct_sites.tokens()]  # -1: of no row
    row_site = np.array(numbers, np.intp)[distinct_sites.index]
    order = np.argsort(row_site, kind="stable")
    ends = np.searchsorted(row_site[order], np.arange(1, len(names)))
    return np.split(order, ends)


def names_of_sites(site: Any, names: Iterable[Any] | None) -> tuple[str, ...]:
    """The site names as written in files, in the order of `split_by_site`."""
    if site is None:
        return (UNNAMED,)
    if names is None:
        names = _in_order(list(_sites_in(distinct(as_column(site))).values()))
    return tuple(str(token_of(name)) for name in names)


def split_persons(
    person: Any, y: NDArray[Any], site: Any, names: list[Any] | None
) -> list[NDArray[np.object_] | None]:
    """The person of each row, per site; None per site if persons are not declared."""
    ids = None if person is None else _ids(person, len(y))
    if site is None:
        return [ids]
    return [None if ids is None else ids[rows] for rows in _rows_of_each(y, site, names)]


def _ids(person: Any, n: int) -> NDArray[np.object_]:
    if getattr(person, "ndim", 1) != 1:
        raise DataError(f"person has shape {np.shape(person)}; give one id per row.")
    ids = objects_of(fill_masked(person))
    if len(ids) != n:
        raise DataError(f"person names {len(ids)} rows, y has {n}; give one id per row.")
    return ids


def _sites_in(distinct_names: Distinct) -> dict[Token, Any]:
    """Each name once, by its token: 1 and "1" are one site, as in a file."""
    site_names: dict[Token, Any] = {}
    for name, _ in distinct_names.met():
        token = token_of(name)
        if token is Unusable.NO_VALUE:
            raise DataError(
                "site holds lists, dates or others that name nobody; name sites by text or numbers."
            )
        refuse_unusable("site", name)
        if not isinstance(token, str):
            raise DataError(f"site is {name!r} in some row; say for each row who holds it.")
        site_names.setdefault(token, name)
    return site_names


def warn_of_time(sites: int, rounds: int) -> None:
    """Warns of long simulations: one process computes the masks of all sites."""
    if sites > MANY_SITES:
        minutes = (rounds + 1) * sites**2 * PAIR_SECONDS / 60.0
        warn(
            f"{sites} sites run in one process, each of which shares masks with every other: "
            f"{rounds} rounds at most, up to about {minutes:.2g} minutes. Name fewer sites, or "
            "run them on machines of their own, which share this work.",
            DataWarning,
        )


def warn_of_crowds(sites: int, rows: int) -> None:
    """Warns if `site` has so many values that they are probably persons."""
    if sites > FULL_GRAPH or (sites > FEW and rows < sites * ROWS_PER_SITE):
        warn(
            f"site names {sites} sites of {rows} rows. A site is a site with rows of its "
            "own, which shares masks with every other; if each of these is a person, leave site "
            "out and name persons with `person`.",
            DataWarning,
        )


def _in_order(site_names: list[Any]) -> list[Any]:
    try:
        return sorted(site_names)
    except TypeError:  # numbers and texts side by side
        return sorted(site_names, key=str)


def _refuse_strangers(
    site_names: dict[Token, Any], place: dict[Token, int], names: Sequence[Any]
) -> None:
    for token, name in site_names.items():
        if token not in place:
            raise DataError(
                f"site is {name!r} in some row, which is not among the sites {list(names)}; "
                "name it there or correct the row."
            )


def take_rows(X: Any, rows: NDArray[np.intp]) -> Any:
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    return X.take(rows) if hasattr(X, "column_names") else X[rows]


def secret_draws(study: str, n_sites: int) -> list[Draws]:
    """One secret per site, never shared.

    A draw is a function of secret and record content: under a common secret, equal records of two
    sites would get the same randomized labels and folds.
    """
    return [Draws(os.urandom(32), study) for _ in range(n_sites)]


@dataclass(frozen=True, kw_only=True)
class HeldOutDraws:
    """The draws by which a fit held out records: each site's secret, by site name.

    They live in memory only, never in a file. Another secret, record id or grid would select other
    records, which the fit was trained on.
    """

    secrets: Mapping[str, Draws] = field(repr=False)
    one_in: int
    by_person: bool
    schema: str
    """The digest of the schema on whose grid records are told apart."""
    records_per_person: int

    def part(self, outcome: int) -> Drawn:
        """One part of the records, named by a digest of the draws that reveals no secret."""
        keys = [(name, own.key("name of the draws").hex()) for name, own in self.secrets.items()]
        meaning = canonical_bytes(["held out", self.one_in, self.schema, sorted(keys)])
        name = hashlib.sha256(meaning).hexdigest()
        return Drawn(name=name, parts=frozenset({outcome}), by_person=self.by_person)

    def of(
        self, names: Sequence[str], *, by_person: bool, schema: str, records_per_person: int
    ) -> list[Draws]:
        """The secrets of these sites, in any order; raises unless all is as in the fit."""
        if sorted(names) != sorted(self.secrets):
            raise ParameterError(
                f"records were held out of training by {_names_in_words(self.secrets)}; here rows "
                f"are those of {_names_in_words(names)}. Give the same rows with the same sites."
            )
        if by_person != self.by_person:
            state, todo = ("were not named", "leave out") if by_person else ("were named", "give")
            raise ParameterError(
                f"persons {state} when records were held out of training, so that other records "
                f"would be drawn now; {todo} `person`, as for `fit`."
            )
        if schema != self.schema:
            raise ParameterError(
                f"records were held out of training on a schema with digest {self.schema[:16]}, "
                f"and the model's is now {schema[:16]}; fit the model again."
            )
        if records_per_person != self.records_per_person:
            raise ParameterError(
                f"records_per_person is {records_per_person}, and {self.records_per_person} when "
                "records were held out of training; leave it out, or name the same."
            )
        return [self.secrets[name] for name in names]


def held_out_draws(
    study: Study, names: Sequence[str], draws: Sequence[Draws], by_person: bool
) -> HeldOutDraws | None:
    """The draws that `evaluate` needs to find held-out records; None if there are none."""
    if study.held_out_test is None:
        return None
    return HeldOutDraws(
        secrets=dict(zip(names, draws, strict=True)),
        one_in=study.held_out_test.one_in,
        by_person=by_person,
        schema=study.schema.digest,
        records_per_person=study.records_per_person,
    )


def _names_in_words(names: Iterable[str]) -> str:
    return ", ".join(sorted(repr(name) for name in names if name)) or "one site without a name"


def draws_of_sites(study: Study) -> list[Draws]:
    """Secret draws; public ones under `dp_model` "none", so that folds repeat."""
    if study.dp_model is DPModel.NONE:
        return [public_draws(study.public_seed, place) for place in range(study.n_sites)]
    return secret_draws(study.name, study.n_sites)
