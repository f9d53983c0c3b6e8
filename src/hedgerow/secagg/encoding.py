"""Unambiguous encoding: hashing with tags, and strict reading.

Integers are big-endian and of fixed width, vectors are little-endian uint64. A reader checks every
length against the remaining bytes before it takes them, and refuses leftovers.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, Self, TypeAlias, TypeVar

from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.parameters import PROTOCOL

Buffer: TypeAlias = bytes | bytearray | memoryview

_DOMAIN = f"hedgerow/secsum/{PROTOCOL}/".encode()
_LONGEST_COUNT = 2**63
"""Bound of rounds and ledger positions, so that every database can store them."""

DIGEST = 32
SEED = 32
SIGNATURE = 64
SEALED = 48  # 32 bytes and the 16-byte tag of AES-GCM
SEALED_SHARE = SEALED + 2 * DIGEST  # with hashes of the share and of its key
ENCAPSULATION_KEY, CIPHERTEXT = 1184, 1088  # of ML-KEM-768
CAPSULE = CIPHERTEXT + DIGEST  # a ciphertext and the tag that confirms its root


def digest(tag: str, *parts: Buffer) -> bytes:
    """SHA-256 of the domain, the tag and each part behind its own length.

    Lengths make the encoding injective: no two lists of parts hash the same bytes.
    """
    state = hashlib.sha256(_DOMAIN + tag.encode())
    for part in parts:  # one after the other: a vector of megabytes is not copied
        state.update(u64(memoryview(part).nbytes))
        state.update(part)
    return state.digest()


def digest_joined(tag: str, pieces: Sequence[Buffer]) -> bytes:
    """The digest of one part that is given in pieces, without a copy."""
    state = hashlib.sha256(_DOMAIN + tag.encode() + u64(sum(map(len, pieces))))
    for piece in pieces:
        state.update(piece)
    return state.digest()


def u16(number: int) -> bytes:
    return number.to_bytes(2, "big")


def u32(number: int) -> bytes:
    return number.to_bytes(4, "big")


def u64(number: int) -> bytes:
    return number.to_bytes(8, "big")


def ids(members: Sequence[int]) -> bytes:
    """Sites without their number, for hashing; a set is passed in increasing order."""
    return struct.pack(f">{len(members)}H", *members)


def members_field(members: Sequence[int]) -> bytes:
    return u16(len(members)) + ids(members)


def table_field(table: Mapping[int, bytes]) -> bytes:
    """Site -> bytes of one fixed width, in increasing order of sites."""
    return u16(len(table)) + b"".join(u16(site) + table[site] for site in sorted(table))


def bytes_field(data: bytes) -> bytes:
    return u32(len(data)) + data


def messages_field(messages: Sequence[bytes]) -> bytes:
    return u16(len(messages)) + b"".join(map(bytes_field, messages))


class Reader:
    """A cursor over received bytes. Anything unexpected is `BadMessage`."""

    def __init__(self, data: Buffer) -> None:
        self._data = memoryview(data)
        self._at = 0

    def __enter__(self) -> Self:
        """Used in `with`, it requires that the body ends with the last field."""
        return self

    def __exit__(self, kind: object, *details: object) -> None:
        if kind is None:
            self.finish()

    @property
    def remaining(self) -> int:
        return len(self._data) - self._at

    def view(self, length: int) -> memoryview:
        require(0 <= length <= self.remaining, Code.BAD_MESSAGE)
        start, self._at = self._at, self._at + length
        return self._data[start : self._at]

    def fields(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Several fields of fixed width at once."""
        return layout.unpack(self.view(layout.size))

    def take(self, length: int) -> bytes:
        return bytes(self.view(length))

    def messages(self) -> tuple[bytes, ...]:
        return tuple(self.bytes_field() for _ in range(self.u16()))

    def all_fields(self) -> Iterator[bytes]:
        """Fields with their lengths, to the end."""
        while self.remaining:
            yield self.bytes_field()

    def capsules(self) -> dict[int, bytes]:
        return self.table(CAPSULE)

    def signature(self) -> bytes:
        return self.take(SIGNATURE)

    def u16(self) -> int:
        return int.from_bytes(self.view(2), "big")

    def u32(self) -> int:
        return int.from_bytes(self.view(4), "big")

    def u64(self) -> int:
        return int.from_bytes(self.view(8), "big")

    def count(self) -> int:
        return checked_count(self.u64())

    def bytes_field(self) -> bytes:
        return self.take(self.u32())

    def members(self) -> tuple[int, ...]:
        count = self.u16()
        result = struct.unpack(f">{count}H", self.view(2 * count))
        _require_increasing(result)
        return result

    def table(self, width: int) -> dict[int, bytes]:
        rows = self.view((2 + width) * self.u16())
        pairs = list(struct.iter_unpack(f">H{width}s", rows))
        _require_increasing([site for site, _ in pairs])
        return dict(pairs)

    def finish(self) -> None:
        require(self.remaining == 0, Code.BAD_MESSAGE)


Field = TypeVar("Field")


def read_body(body: Buffer, read: Callable[[Reader], Field]) -> Field:
    """The one field of a body."""
    with Reader(body) as reader:
        return read(reader)


def checked_count(number: int) -> int:
    """Checks a round or a position: 64 bits wide, the highest of them zero."""
    require(number < _LONGEST_COUNT, Code.BAD_MESSAGE)
    return number


def _require_increasing(sites: Iterable[int]) -> None:
    """Refuses a repeated or misplaced site, so that a set has one encoding."""
    require(all(a < b for a, b in pairwise(sites)), Code.BAD_MESSAGE)
