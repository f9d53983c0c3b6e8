"""A whole site, asked twice with the same secret randomness: with a record and without it.

Real messages, real stores, real masks. What is compared is all that the outside gets: the opened
sum, the codes, the lengths of the replies, and how often the site wrote to its disk.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from hedgerow.data.rows import Rows
from hedgerow.errors import HedgerowError
from hedgerow.federation import client
from hedgerow.federation.site_store import SiteStore
from hedgerow.federation.transports import in_process
from hedgerow.federation.transports.in_process import OneSite
from hedgerow.models.losses import Sensitivity
from hedgerow.privacy.mechanisms.coins import SecretRandomness
from hedgerow.privacy.queries import BoundQuery, Query, Summed, SumQuery
from hedgerow.privacy.study import Study
from support.site_stores import DurableLink
from support.worlds import round_of

SHARE = Fraction(1, 400)
"""Of the budget: so little that a bundle may hold every query there is."""


class SameEveryTime(SecretRandomness):
    """Words that are secret to nobody: two sites that hold nearly the same draw the same noise."""

    def __init__(self) -> None:
        super().__init__()
        self._stream = Cipher(algorithms.AES256(bytes(32)), modes.CTR(bytes(16))).encryptor()


class WatchedLink(DurableLink):
    """Two sites with stores, of which the first is watched."""

    def __init__(self, study: Study, rows: Sequence[Rows], folder: Path) -> None:
        self.writes = 0
        self.lengths: list[int] = []
        super().__init__(study, rows, folder)

    def _site_store(self, k: int) -> SiteStore:
        place = self.folder / f"site{k}"
        anchor, own = self.folder / f"anchor{k}", self.identities[k]
        return SiteStore.open(
            place / "store.sqlite", own, anchor, hook=self._count if k == 0 else _no
        )

    def _count(self, step: str) -> None:
        self.writes += step == "committed"

    def ask(self, messages: Mapping[str, bytes], timeout: float) -> dict[str, bytes]:
        answers = super().ask(messages, timeout)
        self.lengths.append(len(answers.get("0", b"")))
        return answers


def _no(step: str) -> None:
    pass


@dataclass(frozen=True)
class Seen:
    """What one round of a site shows to the outside."""

    code: str
    lengths: tuple[int, ...] = ()
    writes: int = 0
    selections: int = 0
    total: Any = None

    @property
    def form(self) -> tuple[object, ...]:
        """All of it but the numbers, which noise protects."""
        return self.code, self.lengths, self.writes, self.selections


def answered(study: Study, rows: Rows, nobody: Rows, bundle: Sequence[Query]) -> Seen:
    """One round over this site and, where there are several, others without rows."""
    with pytest.MonkeyPatch.context() as patched, tempfile.TemporaryDirectory() as folder:
        patched.setattr(client, "SecretRandomness", SameEveryTime)
        patched.setattr(in_process, "SecretRandomness", SameEveryTime)
        if study.n_sites == 1:
            return _seen(OneSite(study, rows), bundle)
        link = WatchedLink(study, [rows, *[nobody] * (study.n_sites - 1)], Path(folder))
        try:
            seen = _seen(link, bundle)
            return replace(seen, lengths=tuple(link.lengths), writes=link.writes)
        finally:
            link.close()


def _seen(link: Any, bundle: Sequence[Query]) -> Seen:
    try:
        got = round_of(link, 1, bundle)
    except HedgerowError as error:
        return Seen(f"{type(error).__name__} {error}")
    return Seen("answered", selections=sum(map(len, got.selections)), total=got.total)


def cheap(query: Query) -> Query:
    return replace(query, fraction=SHARE)


# ---------------------------------------------------------------------------------- comparing
def differences(study: Study, bundle: Sequence[Query], one: Seen, other: Seen) -> list[str]:
    """In what two neighbors differ by more than the noise was made for: nothing, it is hoped."""
    if one.form != other.form:
        return [f"what is seen of the site: {one.form} and {other.form}"]
    if one.total is None:
        return []
    moved = (one.total.view(np.uint64) - other.total.view(np.uint64)).view(np.int64)
    found, start = [], 0
    for query in bundle:
        if isinstance(query, SumQuery | BoundQuery):
            size = int(np.prod(query.shape))
            if not keeps(moved[start : start + size], allowed(study, query)):
                found.append(f"one record moves {query}")
            start += size
    return found


def allowed(study: Study, query: Summed) -> Sensitivity:
    """What one record may move: the query's own bound, in the units that leave the site."""
    return query.sensitivity(study.unit(query)).of_person(study.refinement(query))


def keeps(moved: np.ndarray, bound: Sensitivity) -> bool:
    sizes = [abs(int(v)) for v in moved[np.flatnonzero(moved)]]
    squares = sum(v * v for v in sizes)
    return sum(sizes) <= bound.l1 and squares <= bound.l2_squared and max([0, *sizes]) <= bound.linf
