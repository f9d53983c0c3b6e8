"""Bodies of the messages of a secure sum, to bytes and back.

A body of one field is written and read by its field (encoding.py) and has no class here.

JOIN        coordinator -> site number of the attempt to form a key session
KEYS        site -> all         attempt, X25519 key, ML-KEM-768 key, nonce, highest signed head of
                                each peer; for each forked ledger, two heads of one length
OPEN        coordinator -> site the KEYS of all members of the key session
ENCAPS      site -> coordinator for half of its peers, a ciphertext and the tag of their root
BIND        coordinator -> site the ciphertexts and tags for this site; the answer is empty
ROUND       coordinator -> site mode, questions, definitions of their names, participants;
                                signed headers of some participants, in rotation
MASKED      site -> coordinator masked vector, selections, context; IN_TWO: commitment, shares
SURVIVORS   coordinator -> site members whose vectors arrived (only if somebody is lost)
SIGNED_SET  site -> coordinator its signature on those members
UNMASK      coordinator -> site members, certificate, the shares sealed for this site
SHARES      site -> coordinator its shares of members' self-masks, seeds towards the lost, and
                                keys of shares that are bad: complaints

After a restart inside a round in two exchanges, before SIGNED_SET or SHARES:
DOUBT       site -> coordinator a nonce: this process did not make the vector of the round
WITNESS     coordinator -> site members, and the nonce of each restarted site
WITNESSED   site -> coordinator for each of them, a signature that these are the members
PROVE       coordinator -> site members, and enough of these signatures; the answer is empty
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.encoding import (
    DIGEST,
    ENCAPSULATION_KEY,
    SEALED_SHARE,
    SEED,
    SIGNATURE,
    Buffer,
    Reader,
    bytes_field,
    digest,
    members_field,
    table_field,
    u32,
    u64,
)
from hedgerow.secagg.envelope import SignedHead
from hedgerow.secagg.keys import PUBLIC_KEY
from hedgerow.secagg.masks import MASK_WORD, UInt64
from hedgerow.secagg.parameters import MOST_RECEIPTS
from hedgerow.secagg.shamir import WIDTH

LONGEST_VECTOR = 2**32
SELECTION = np.dtype(">u4")
MOST_ATTEMPTS = 2**32 - 1
LANES = 2
"""Zeros at the end of a vector that is opened at once: zero in the sum if all masks cancel."""


class Mode(IntEnum):
    """How a round is opened; part of its context, so all sites see the same mode."""

    IN_TWO = 0
    """Self-masks and shares of them: a second exchange opens the sum, even if sites are lost."""
    AT_ONCE = 1
    """Pairwise masks alone: the sum is known once all have answered, and only then."""

    @classmethod
    def read(cls, reader: Reader) -> Mode:
        number = reader.take(1)[0]
        require(number in (cls.IN_TWO, cls.AT_ONCE), Code.BAD_MESSAGE)
        return cls(number)


@dataclass(frozen=True, slots=True)
class Keys:
    attempt: int
    ephemeral: bytes
    encapsulation: bytes
    nonce: bytes
    heads: dict[int, SignedHead]
    forks: dict[int, bytes] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        heads = {peer: head.to_bytes() for peer, head in self.heads.items()}
        keys = self.ephemeral + self.encapsulation
        forks = table_field(self.forks) if self.forks else b""
        return u32(self.attempt) + keys + self.nonce + table_field(heads) + forks

    @classmethod
    def read(cls, body: Buffer) -> Keys:
        reader = Reader(body)
        attempt, ephemeral = reader.u32(), reader.take(PUBLIC_KEY)
        encapsulation, nonce = reader.take(ENCAPSULATION_KEY), reader.take(SEED)
        heads = reader.table(SignedHead.WIDTH)
        forks = reader.table(2 * SignedHead.WIDTH) if reader.remaining else dict[int, bytes]()
        reader.finish()
        signed_heads = {peer: SignedHead.read(head) for peer, head in heads.items()}
        return cls(attempt, ephemeral, encapsulation, nonce, signed_heads, forks)


@dataclass(frozen=True, slots=True)
class Round:
    """`bundle` has the queries, the same for all; `definitions` has what this site may lack."""

    bundle: bytes
    participants: tuple[int, ...]
    definitions: bytes = b""
    mode: Mode = Mode.IN_TWO
    receipts: tuple[bytes, ...] = ()

    def to_bytes(self) -> bytes:
        questions = bytes_field(self.bundle) + bytes_field(self.definitions)
        members, receipts = members_field(self.participants), map(bytes_field, self.receipts)
        return b"".join((bytes((self.mode,)), questions, members, *receipts))

    @classmethod
    def read(cls, body: Buffer) -> Round:
        reader = Reader(body)
        mode = Mode.read(reader)
        bundle, definitions = reader.bytes_field(), reader.bytes_field()
        participants, receipts = reader.members(), list[bytes]()
        while reader.remaining:
            require(len(receipts) < MOST_RECEIPTS, Code.BAD_MESSAGE)
            receipts.append(reader.bytes_field())
        return cls(bundle, participants, definitions, mode, tuple(receipts))

    @property
    def request(self) -> bytes:
        """Hash of queries and mode; definitions are left out, since names are hashes."""
        return digest("bundle", bytes((self.mode,)), self.bundle)


@dataclass(frozen=True, slots=True, eq=False)
class Masked:
    """`selections` has an index for each requested selection, in the clear.

    A vector that is opened at once has neither a commitment nor shares.
    """

    vector: UInt64
    context: bytes
    commitment: bytes = b""
    sealed_shares: dict[int, bytes] = field(default_factory=dict)
    selections: tuple[int, ...] = ()

    def to_bytes(self) -> bytes:
        vector = np.ascontiguousarray(self.vector, dtype=MASK_WORD)
        selections = np.array(self.selections, dtype=SELECTION).tobytes()
        shares = self.commitment + table_field(self.sealed_shares) if self.commitment else b""
        count = u32(len(self.selections))
        return b"".join((u64(len(vector)), vector.data, count, selections, self.context, shares))

    @classmethod
    def read(cls, body: Buffer, dim: int, selections: int = 0, mode: Mode = Mode.IN_TWO) -> Masked:
        """Refuses lengths other than the requested `dim` and `selections` before reading them."""
        reader = Reader(body)
        dim += LANES if mode is Mode.AT_ONCE else 0
        require(reader.u64() == dim, Code.BAD_MESSAGE)
        vector = np.frombuffer(reader.view(dim * MASK_WORD.itemsize), dtype=MASK_WORD)
        require(reader.u32() == selections, Code.BAD_MESSAGE)
        indices = np.frombuffer(reader.view(selections * SELECTION.itemsize), dtype=SELECTION)
        context, commitment, sealed_shares = reader.take(DIGEST), b"", dict[int, bytes]()
        if mode is Mode.IN_TWO:
            commitment, sealed_shares = reader.take(DIGEST), reader.table(SEALED_SHARE)
        reader.finish()
        return cls(vector, context, commitment, sealed_shares, tuple(indices.tolist()))


@dataclass(frozen=True, slots=True)
class MemberTable:
    """Body of WITNESS, with nonces by site, and of PROVE, with signatures by site."""

    members: tuple[int, ...]
    table: dict[int, bytes]

    def to_bytes(self) -> bytes:
        return members_field(self.members) + table_field(self.table)

    @classmethod
    def read(cls, body: Buffer, width: int) -> MemberTable:
        with Reader(body) as reader:
            return cls(reader.members(), reader.table(width))


@dataclass(frozen=True, slots=True)
class Unmask:
    """`certificate` is empty exactly if nobody is lost."""

    members: tuple[int, ...]
    certificate: dict[int, bytes]
    sealed_shares: dict[int, bytes]

    def to_bytes(self) -> bytes:
        certificate, sealed_shares = table_field(self.certificate), table_field(self.sealed_shares)
        return members_field(self.members) + certificate + sealed_shares

    @classmethod
    def read(cls, body: Buffer) -> Unmask:
        with Reader(body) as reader:
            return cls(reader.members(), reader.table(SIGNATURE), reader.table(SEALED_SHARE))


@dataclass(frozen=True, slots=True)
class Shares:
    """`complaints` has the keys of shares that could not be opened, or were not as committed."""

    shares: dict[int, bytes] = field(repr=False)
    seeds: dict[int, bytes] = field(repr=False)
    complaints: dict[int, bytes] = field(default_factory=dict, repr=False)

    def to_bytes(self) -> bytes:
        complaints = table_field(self.complaints) if self.complaints else b""
        return table_field(self.shares) + table_field(self.seeds) + complaints

    @classmethod
    def read(cls, body: Buffer) -> Shares:
        with Reader(body) as reader:
            shares, seeds = reader.table(WIDTH), reader.table(SEED)
            return cls(shares, seeds, reader.table(SEED) if reader.remaining else {})
