"""Bodies of the nine messages of a secure sum, to bytes and back.

JOIN        coordinator -> site number of the attempt to form an epoch
KEYS        site -> all         attempt, ephemeral key, nonce, highest signed head of each peer
OPEN        coordinator -> site the KEYS of everybody who takes part in the epoch
ROUND       coordinator -> site questions, definitions of what they name, participants
MASKED      site -> coordinator masked vector, picks, commitment, sealed shares
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
    u32,
    u64,
)
from hedgerow.secagg.envelope import SignedHead
from hedgerow.secagg.keys import PUBLIC_KEY
from hedgerow.secagg.masks import MASK_WORD, UInt64
from hedgerow.secagg.shamir import WIDTH

LONGEST_VECTOR = 2**32
PICK = np.dtype(">u4")
MOST_ATTEMPTS = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Join:
    attempt: int

    def to_bytes(self) -> bytes:
        return u32(self.attempt)

    @classmethod
    def read(cls, body: Buffer) -> Join:
        reader = Reader(body)
        attempt = reader.u32()
        reader.finish()
        return cls(attempt)


@dataclass(frozen=True, slots=True)
class Keys:
    attempt: int
    ephemeral: bytes
    nonce: bytes
    heads: dict[int, SignedHead]

    def to_bytes(self) -> bytes:
        heads = {peer: head.to_bytes() for peer, head in self.heads.items()}
        return u32(self.attempt) + self.ephemeral + self.nonce + table_field(heads)

    @classmethod
    def read(cls, body: Buffer) -> Keys:
        reader = Reader(body)
        attempt, ephemeral, nonce = reader.u32(), reader.take(PUBLIC_KEY), reader.take(SEED)
        heads = reader.table(SignedHead.WIDTH)
        reader.finish()
        return cls(attempt, ephemeral, nonce, {p: SignedHead.read(h) for p, h in heads.items()})


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
    """`bundle` is the questions, the same for all; `definitions` is what this site may lack."""

    bundle: bytes
    participants: tuple[int, ...]
    definitions: bytes = b""

    def to_bytes(self) -> bytes:
        asked = bytes_field(self.bundle) + bytes_field(self.definitions)
        return asked + members_field(self.participants)

    @classmethod
    def read(cls, body: Buffer) -> Round:
        reader = Reader(body)
        bundle, definitions = reader.bytes_field(), reader.bytes_field()
        participants = reader.members()
        reader.finish()
        return cls(bundle, participants, definitions)


@dataclass(frozen=True, slots=True, eq=False)
class Masked:
    """`picks` is an index for each selection that was asked, in the clear."""

    vector: UInt64
    commitment: bytes
    sealed: dict[int, bytes]
    picks: tuple[int, ...] = ()

    def to_bytes(self) -> bytes:
        vector = np.ascontiguousarray(self.vector, dtype=MASK_WORD)
        picks = np.array(self.picks, dtype=PICK).tobytes()
        return b"".join(
            (
                u64(len(vector)),
                vector.data,
                u32(len(self.picks)),
                picks,
                self.commitment,
                table_field(self.sealed),
            )
        )

    @classmethod
    def read(cls, body: Buffer, dim: int, picks: int = 0) -> Masked:
        """`dim` and `picks` are what was asked; other lengths are refused before they are read."""
        reader = Reader(body)
        require(reader.u64() == dim, Code.BAD_MESSAGE)
        vector = np.frombuffer(reader.view(dim * MASK_WORD.itemsize), dtype=MASK_WORD)
        require(reader.u32() == picks, Code.BAD_MESSAGE)
        picked = np.frombuffer(reader.view(picks * PICK.itemsize), dtype=PICK)
        commitment, sealed = reader.take(DIGEST), reader.table(SEALED_SHARE)
        reader.finish()
        return cls(vector, commitment, sealed, tuple(picked.tolist()))


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
