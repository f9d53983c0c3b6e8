"""One site's encoded rows: selection by region, and secret draws per record."""

from __future__ import annotations

import hashlib
import hmac
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from hedgerow.data.reading.encoding import Encoded
from hedgerow.errors import DataError, ParameterError
from hedgerow.kernels.codes import split_rows
from hedgerow.schema.arrays import BoolArray, Codes, FloatArray, Int32, Words
from hedgerow.schema.regions import EVERYONE, Fold, HeldOut, Region, Split, Step, Test
from hedgerow.schema.schema import Schema

Index = Int32
Bytes = Codes

CACHED_ROWS = 2
"""The cache holds this many times n row numbers: a level of a tree and its parents."""
CACHED_AT_LEAST = 1 << 20
"""Row numbers the cache may always hold (4 MB): best-first trees revisit old nodes."""
CACHED_REGIONS = 4_096
"""Most regions in the cache, since empty ones take space too."""
ROWS_A_PART = 65_536
LEAST_SECRET_BYTES = 16


@dataclass(frozen=True, slots=True)
class Draws:
    """Secret draws per record, repeatable after a restart.

    A draw is PRF(site secret, study, draw id, record id): HMAC-SHA256 derives the key of a draw,
    and AES-256 under that key is applied to the 16 bytes of the record id. The caller stores the
    secret durably before its first use. The guarantee is computational.
    """

    secret: bytes = field(repr=False)
    study: str

    def __post_init__(self) -> None:
        if len(self.secret) < LEAST_SECRET_BYTES:
            raise ParameterError(
                f"the site's secret has {len(self.secret)} bytes; use {LEAST_SECRET_BYTES} or more."
            )

    def key(self, purpose: str, name: str = "") -> bytes:
        """A 32-byte key. Each part is preceded by its length, so that encodings are unambiguous."""
        parts = [part.encode() for part in (purpose, self.study, name)]
        message = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
        return hmac.digest(self.secret, message, "sha256")

    def words(self, purpose: str, draw: str, record_ids: Words) -> Words:
        """One uniform 64-bit word per record id."""
        encryptor = Cipher(algorithms.AES(self.key(purpose, draw)), modes.ECB()).encryptor()
        stream = encryptor.update(np.ascontiguousarray(record_ids).tobytes())
        return np.frombuffer(stream, "<u8").reshape(-1, 2)[:, 0]


class Rows:
    """Codes with labels or targets, and the selection of rows by region.

    The rows of a child are its parent's, filtered by one test. Selections are cached; query regions
    in prefix order, so that each test is evaluated once.
    """

    def __init__(
        self,
        encoded_rows: Encoded,
        schema: Schema,
        draws: Draws | None = None,
        names: Callable[[], Words] | None = None,
        copies: Words | None = None,
    ) -> None:
        """`names` returns record ids for draws; by default ids are derived from content.

        `copies` numbers equal records, where these rows are part of a larger set.
        """
        if encoded_rows.n >= 2**31:
            raise DataError(
                f"{encoded_rows.n} rows are too many for one site; at most {2**31 - 1}."
            )
        self.schema = schema
        self.codes = encoded_rows.codes  # (F, n)
        self.n = encoded_rows.n
        self._y = encoded_rows.y
        self._persons = encoded_rows.persons
        self._draws, self._names, self._copies = draws, names, copies
        self._cached_rows: OrderedDict[Region, Index] = OrderedDict()
        self._n_cached = 0

    @property
    def labels(self) -> Codes | None:
        """(n,) class codes; None if the rows have no classes."""
        if self._y is None or self.schema.classes is None:
            return None
        return self._y.astype(np.uint8, copy=False)

    def with_labels(self, labels: Codes) -> Rows:
        """The same records and draws under other labels."""
        names = self._record_ids  # before labels change: ids depend on content
        encoded_rows = Encoded(codes=self.codes, y=labels, persons=self._persons)
        return Rows(encoded_rows, self.schema, self._draws, lambda: names)

    def part(self, test: HeldOut, outcome: int) -> Rows:
        """The records whose own draw has this outcome, with unchanged record ids."""
        return self.block(np.flatnonzero(self.fold(test) == outcome))

    def block(self, at: slice | NDArray[np.intp]) -> Rows:
        """Some of the rows, with their draws unchanged."""
        y = None if self._y is None else self._y[at]
        persons = None if self._persons is None else self._persons[at]
        codes = np.ascontiguousarray(self.codes[:, at])
        some = Encoded(codes=codes, y=y, persons=persons)
        return Rows(some, self.schema, self._draws, lambda: self._record_ids[at])

    def of_each_person(self, most: int) -> Rows:
        """Keeps at most `most` records per person, chosen by the records' secret draws.

        The choice depends only on records of the same person, and on labels only between records
        with equal features, because `dp_model` "label" does not protect features. Without persons
        all rows are kept.
        """
        if self._persons is None:
            return self
        names = self._hash_records(self._features_and_person, "record of a person")
        names[:, 1] += places_among(names, self._y)
        words = self._secret.words("person", "", names)
        keep = np.flatnonzero(places_among(self._persons, names[:, 1], names[:, 0], words) < most)
        y = None if self._y is None else self._y[keep]
        encoded_rows = Encoded(codes=self.codes[:, keep], y=y, persons=self._persons[keep])
        return Rows(encoded_rows, self.schema, self._draws)

    @property
    def n_classes(self) -> int:
        return len(self.schema.classes or ())

    @property
    def target(self) -> FloatArray:
        """(n,) targets within their public range."""
        if self._y is None or self.schema.target is None:
            raise ParameterError("these rows have no target; the schema must declare one.")
        return self._y.astype(np.float64, copy=False)

    @cached_property
    def unit_target(self) -> FloatArray:
        """(n,) targets scaled to [0, 1] over their range."""
        bound = self.schema.target
        if bound is None:
            raise ParameterError("these rows have no target; the schema must declare one.")
        return np.clip((self.target - bound.low) / (bound.high - bound.low), 0.0, 1.0)

    def target_codes(self, edges: Sequence[float]) -> Codes | NDArray[np.uint16]:
        """(n,) the cell of each target: cell k holds edges[k-1] <= y < edges[k]."""
        cuts, target = np.asarray(edges, np.float64), self.target
        codes: NDArray[Any] = np.empty(self.n, np.uint8 if len(cuts) < 256 else np.uint16)
        for start in range(0, self.n, ROWS_A_PART):  # searchsorted needs 8 bytes per row
            part = slice(start, start + ROWS_A_PART)
            codes[part] = np.searchsorted(cuts, target[part], side="right")
        return codes

    @cached_property
    def _everyone(self) -> Index:
        return np.arange(self.n, dtype=np.int32)

    def select(self, region: Region) -> Index:
        """The row numbers of the region, ascending. Read-only."""
        if region == EVERYONE:
            return self._everyone
        if region in self._cached_rows:
            self._cached_rows.move_to_end(region)
            return self._cached_rows[region]
        parent, last = region[:-1], region[-1]
        parts = self._split_rows(self.select(parent), last.test)
        for outcome, rows in enumerate(parts):
            self._keep((*parent, Step(last.test, outcome)), rows)
        return parts[last.outcome]

    def _split_rows(self, rows: Index, test: Test) -> list[Index]:
        """The rows of each outcome: a partition."""
        if isinstance(test, Split):
            return list(split_rows(self._cells_of(test), rows, test.left))
        outcome = self.fold(test)[rows]
        order = np.argsort(outcome, kind="stable")
        ends = np.searchsorted(outcome[order], np.arange(1, test.outcomes))
        return np.split(rows[order], ends)

    def _cells_of(self, test: Split) -> Codes:
        feature = self.schema.index(test.feature)
        grid = self.schema.grids[feature]
        if test.grid != grid.digest or test.left >> grid.n_cells:
            raise ParameterError(
                f"a test on {test.feature!r} was made on grid {test.grid}, these rows are on grid "
                f"{grid.digest}; use one schema for both."
            )
        cells: Codes = self.codes[feature]
        return cells

    def _keep(self, region: Region, rows: Index) -> None:
        """Caches a selection and drops the least recently used ones."""
        self._n_cached += len(rows) - len(self._cached_rows.pop(region, ()))
        self._cached_rows[region] = rows
        most = max(CACHED_ROWS * self.n, CACHED_AT_LEAST)
        while self._n_cached > most or len(self._cached_rows) > CACHED_REGIONS:
            self._n_cached -= len(self._cached_rows.popitem(last=False)[1])

    def fold(self, test: Fold | HeldOut) -> Int32:
        """(n,) the outcome of each record's own draw.

        The modulo bias is less than n / 2^64.
        """
        ids = self._record_ids if self._persons is None else self._persons
        if isinstance(test, HeldOut):
            words = self._secret.words("held out", "", ids)
            is_kept: BoolArray = words % np.uint64(test.one_in) != 0
            return is_kept.astype(np.int32)
        words = self._secret.words("fold", test.draw, ids)
        return (words % np.uint64(test.n)).astype(np.int32)

    def draw(self, name: str) -> Words:
        """(n,) a secret uniform word per record, the same at every call.

        Rows of one person share a fold but not a draw: the draw may randomize labels, and one known
        label would reveal it.
        """
        return self._secret.words("draw", name, self._record_ids)

    @property
    def _secret(self) -> Draws:
        if self._draws is None:
            raise ParameterError(
                "a draw needs the site's secret; give Rows the Draws of this study."
            )
        return self._draws

    @cached_property
    def _record_ids(self) -> Words:
        """(n, 2) record ids: content hash plus the number among equal records.

        Row numbers of the file would not do: one added record would change the draws of all later
        ones. Copies are numbered 0, 1, ... among rows equal in codes, label and person. They are
        interchangeable in every sum, so adding a record to m equal ones adds the id (content, m)
        and leaves all other draws unchanged.
        """
        if self._names is not None:
            return self._names()
        ids = self.content_names()
        ids[:, 1] += places_among(ids) if self._copies is None else self._copies
        return ids

    def content_names(self) -> Words:
        """(n, 2) hashes of record contents; equal records share one."""
        return self._hash_records(self._content, "record id")

    def _hash_records(self, content: Callable[[slice], Bytes], purpose: str) -> Words:
        key, hashes = self._secret.key(purpose), np.empty((self.n, 2), np.uint64)
        for start in range(0, self.n, ROWS_A_PART):
            part = slice(start, start + ROWS_A_PART)
            hashes[part] = _keyed_hashes(content(part), key)
        return hashes

    def _content(self, part: slice) -> Bytes:
        """(m, bytes per row) codes, label or target, person: everything a query can read."""
        return _join_columns(
            self.codes[:, part].T, _bytes(self._y, part), _bytes(self._persons, part)
        )

    def _features_and_person(self, part: slice) -> Bytes:
        return _join_columns(self.codes[:, part].T, _bytes(self._persons, part))


def _bytes(column: NDArray[Any] | None, part: slice) -> Bytes | None:
    if column is None:
        return None
    values = np.ascontiguousarray(column[part])
    return values.reshape(len(values), -1).view(np.uint8)


def _join_columns(*columns: Bytes | None) -> Bytes:
    return np.concatenate([column for column in columns if column is not None], axis=1)


def _keyed_hashes(contents: Bytes, key: bytes) -> Words:
    """(m, 2) BLAKE2b of each row under a secret key, so collisions cannot be constructed."""
    fresh, digests = hashlib.blake2b(digest_size=16, key=key), []
    width, data = contents.shape[1], contents.tobytes()
    for at in range(0, len(data), width):
        state = fresh.copy()
        state.update(data[at : at + width])
        digests.append(state.digest())
    return np.frombuffer(b"".join(digests), "<u8").reshape(-1, 2)


def places_among(ids: Words, *keys: NDArray[Any] | None) -> Words:
    """0 for the first row with an id, 1 for the second, and so on.

    Ties are ordered by the last key, then the keys before it, then the order of the file.
    """
    sorted_by = [key for key in keys if key is not None]
    order = np.lexsort((*sorted_by, ids[:, 1], ids[:, 0]))
    same = (ids[order[1:]] == ids[order[:-1]]).all(axis=1)
    place = np.arange(len(ids))
    firsts = np.maximum.accumulate(np.where(np.concatenate([[False], same]), 0, place))
    numbers = np.empty(len(ids), np.uint64)
    numbers[order] = place - firsts
    return numbers


# Reproducible draws per record, for runs without protection.

PUBLIC = "fit"
"""The study name under which public draws are made."""


def public_draws(seed: int, place: int) -> Draws:
    """Reproducible draws of the site at `place`, for `dp_model` "none" only.

    Each site's seed is derived from the public seed without advancing the method's generator, so
    that one site and several grow the same tree.
    """
    child = np.random.SeedSequence(seed, spawn_key=(place,))
    return Draws(np.random.default_rng(child).bytes(32), PUBLIC)
