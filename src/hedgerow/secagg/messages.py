"""Bodies of the eight messages of a secure sum, to bytes and back.

KEYS        site -> all         ephemeral key, nonce, highest head seen of each peer
OPEN        coordinator -> site the KEYS of everybody who takes part in the epoch
ROUND       coordinator -> site bundle and participants
MASKED      site -> coordinator masked vector, commitment, sealed shares
SURVIVORS   coordinator -> site members whose vectors arrived (only if somebody is lost)
SIGNED_SET  site -> coordinator its signature on those members
UNMASK      coordinator -> site members, certificate, the shares sealed for this site
SHARES      site -> coordinator its shares of members' self-masks, seeds towards the lost
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.encoding import (
    DIGEST,
    SEALED_SHARE,
    SEED,
    SIGNATURE,
    Buffer,
    Reader,
    bytes_field,
    members_field,
    table_field,
    u16,
    u64,
)
from hedgerow.secagg.envelope import Head
from hedgerow.secagg.keys import PUBLIC_KEY
from hedgerow.secagg.masks import MASK_WORD, UInt64
from hedgerow.secagg.shamir import WIDTH

LONGEST_VECTOR = 2**32
_HEAD = 8 + DIGEST


@dataclass(frozen=True, slots=True)
class Keys:
    ephemeral: bytes
    nonce: bytes
    heads: dict[int, Head]

    def to_bytes(self) -> bytes:
        heads = {peer: u64(seq) + head for peer, (seq, head) in self.heads.items()}
        return self.ephemeral + self.nonce + table_field(heads)

    @classmethod
    def read(cls, body: Buffer) -> Keys:
        reader = Reader(body)
        ephemeral, nonce = reader.take(PUBLIC_KEY), reader.take(SEED)
        heads = reader.table(_HEAD)
        reader.finish()
        return cls(ephemeral, nonce, {p: _head(raw) for p, raw in heads.items()})


def _head(raw: bytes) -> Head:
    return int.from_bytes(raw[:8], "big"), raw[8:]


@dataclass(frozen=True, slots=True)
class Open:
    keys: tuple[bytes, ...]

    def to_bytes(self) -> bytes:
        return u16(len(self.keys)) + b"".join(map(bytes_field, self.keys))

    @classmethod
    def read(cls, body: Buffer) -> Open:
        reader = Reader(body)
        keys = tuple(reader.bytes_field() for _ in range(reader.u16()))
        reader.finish()
        return cls(keys)


@dataclass(frozen=True, slots=True)
class Round:
    bundle: bytes
    participants: tuple[int, ...]

    def to_bytes(self) -> bytes:
        return bytes_field(self.bundle) + members_field(self.participants)

    @classmethod
    def read(cls, body: Buffer) -> Round:
        reader = Reader(body)
        bundle, participants = reader.bytes_field(), reader.members()
        reader.finish()
        return cls(bundle, participants)


@dataclass(frozen=True, slots=True, eq=False)
class Masked:
    vector: UInt64
    commitment: bytes
    sealed: dict[int, bytes]

    def to_bytes(self) -> bytes:
        vector = np.ascontiguousarray(self.vector, dtype=MASK_WORD)
        return b"".join((u64(len(vector)), vector.data, self.commitment, table_field(self.sealed)))

    @classmethod
    def read(cls, body: Buffer, dim: int) -> Masked:
        """`dim` is what the bundle asked for; another length is refused before it is read."""
        reader = Reader(body)
        require(reader.u64() == dim, Code.BAD_MESSAGE)
        vector = np.frombuffer(reader.view(dim * MASK_WORD.itemsize), dtype=MASK_WORD)
        commitment, sealed = reader.take(DIGEST), reader.table(SEALED_SHARE)
        reader.finish()
        return cls(vector, commitment, sealed)


@dataclass(frozen=True, slots=True)
class Survivors:
    members: tuple[int, ...]

    def to_bytes(self) -> bytes:
        return members_field(self.members)

    @classmethod
    def read(cls, body: Buffer) -> Survivors:
        reader = Reader(body)
        members = reader.members()
        reader.finish()
        return cls(members)


@dataclass(frozen=True, slots=True)
class SignedSet:
    signature: bytes

    def to_bytes(self) -> bytes:
        return self.signature

    @classmethod
    def read(cls, body: Buffer) -> SignedSet:
        reader = Reader(body)
        signature = reader.take(SIGNATURE)
        reader.finish()
        return cls(signature)


@dataclass(frozen=True, slots=True)
class Unmask:
    """`certificate` is empty exactly when nobody is lost."""

    members: tuple[int, ...]
    certificate: dict[int, bytes]
    sealed: dict[int, bytes]

    def to_bytes(self) -> bytes:
        certificate, sealed = table_field(self.certificate), table_field(self.sealed)
        return members_field(self.members) + certificate + sealed

    @classmethod
    def read(cls, body: Buffer) -> Unmask:
        reader = Reader(body)
        members = reader.members()
        certificate, sealed = reader.table(SIGNATURE), reader.table(SEALED_SHARE)
        reader.finish()
        return cls(members, certificate, sealed)


@dataclass(frozen=True, slots=True)
class Shares:
    shares: dict[int, bytes] = field(repr=False)
    seeds: dict[int, bytes] = field(repr=False)

    def to_bytes(self) -> bytes:
        return table_field(self.shares) + table_field(self.seeds)

    @classmethod
    def read(cls, body: Buffer) -> Shares:
        reader = Reader(body)
        shares, seeds = reader.table(WIDTH), reader.table(SEED)
        reader.finish()
        return cls(shares, seeds)
