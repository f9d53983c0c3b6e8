"""The part that all messages have in common: header, body, signature.

    header    version u8, kind u8, study hash 32, run 16, epoch 32, round u64, sender u16,
              ledger seq u64, ledger head 32, spent in this study (u16 length and text)
    body      by kind, see messages.py
    signature Ed25519 over digest(kind, header, body)

In a site's message the ledger fields are its own, after the charge for what it sends. In the
coordinator's they are the last ones it holds from the site it writes to, and `spent` is empty:
a site whose file was rolled back meets its own future there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from hedgerow.errors import SpecError
from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.encoding import (
    DIGEST,
    PROTOCOL,
    SIGNATURE,
    Buffer,
    Reader,
    digest,
    u8,
    u16,
    u64,
)
from hedgerow.secagg.keys import COORDINATOR, Identity, Roster, verify

RUN_ID = 16
NO_RUN = bytes(RUN_ID)
NO_EPOCH = bytes(DIGEST)
_RATIONAL = re.compile(r"[0-9]+/[1-9][0-9]*|inf")
_LONGEST_RATIONAL = 4096

Head: TypeAlias = tuple[int, bytes]
"""How many entries a ledger has, and the hash of the last."""


class MessageKind(IntEnum):
    KEYS = 1
    OPEN = 2
    ROUND = 3
    MASKED = 4
    SURVIVORS = 5
    SIGNED_SET = 6
    UNMASK = 7
    SHARES = 8


def is_rational(text: str) -> bool:
    return len(text) <= _LONGEST_RATIONAL and _RATIONAL.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class LedgerHead:
    """The end of a site's chain of charges, opaque to this room.

    `seq` counts entries and `head` is the hash of the last one; zero and zeros when there is
    none. `spent` is what this study has cost so far: "n/d", or "inf".
    """

    seq: int
    head: bytes
    spent: str

    def __post_init__(self) -> None:
        if len(self.head) != DIGEST or (self.seq == 0) != (self.head == bytes(DIGEST)):
            raise SpecError("a ledger head is 32 bytes, all zero only for an empty ledger.")
        if self.spent and not is_rational(self.spent):
            raise SpecError(f"spent is {self.spent!r}; write a rational as 'n/d', or 'inf'.")

    @property
    def position(self) -> Head:
        return self.seq, self.head


EMPTY_LEDGER = LedgerHead(0, bytes(DIGEST), "0/1")


def follows(later: Head, earlier: Head) -> bool:
    """False when an append-only chain cannot have shown these two, in this order."""
    return later[0] > earlier[0] or later == earlier


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    kind: MessageKind
    study_hash: bytes
    run_id: bytes
    epoch_id: bytes
    round: int
    sender: int
    ledger: LedgerHead

    def to_bytes(self) -> bytes:
        spent = b"" if self.sender == COORDINATOR else self.ledger.spent.encode("ascii")
        return b"".join(
            (
                u8(PROTOCOL),
                u8(self.kind),
                self.study_hash,
                self.run_id,
                self.epoch_id,
                u64(self.round),
                u16(self.sender),
                u64(self.ledger.seq),
                self.ledger.head,
                u16(len(spent)),
                spent,
            )
        )

    @classmethod
    def read(cls, reader: Reader) -> Header:
        require(reader.u8() == PROTOCOL, Code.BAD_MESSAGE)
        kind = reader.u8()
        require(kind in MessageKind.__members__.values(), Code.BAD_MESSAGE)
        return cls(
            kind=MessageKind(kind),
            study_hash=reader.take(DIGEST),
            run_id=reader.take(RUN_ID),
            epoch_id=reader.take(DIGEST),
            round=reader.u64(),
            sender=(sender := reader.u16()),
            ledger=_read_ledger(reader, sender),
        )


def _read_ledger(reader: Reader, sender: int) -> LedgerHead:
    seq, head = reader.u64(), reader.take(DIGEST)
    spent = reader.take(reader.u16()).decode("ascii", errors="replace")
    require((seq == 0) == (head == bytes(DIGEST)), Code.BAD_MESSAGE)
    require(spent == "" if sender == COORDINATOR else is_rational(spent), Code.BAD_MESSAGE)
    return LedgerHead(seq, head, spent)


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message taken apart; nothing in it is believed before `verify`."""

    header: Header
    header_bytes: memoryview
    body: memoryview
    signature: bytes

    @classmethod
    def parse(cls, message: Buffer) -> Envelope:
        reader = Reader(message)
        header = Header.read(reader)
        start, data = len(message) - reader.remaining, memoryview(message)
        body = reader.view(reader.remaining - SIGNATURE)
        return cls(header, data[:start], body, reader.take(SIGNATURE))

    def verify(self, roster: Roster) -> None:
        signed = digest(self.header.kind.name, self.header_bytes, self.body)
        key = roster.key_of(self.header.sender)
        verify(key, self.signature, signed, Code.BAD_SIGNATURE)


def seal_message(identity: Identity, header: Header, body: bytes) -> bytes:
    """The finished message."""
    head = header.to_bytes()
    return b"".join((head, body, identity.sign(digest(header.kind.name, head, body))))


def open_envelope(
    message: Buffer, kind: MessageKind, study_hash: bytes, roster: Roster
) -> Envelope:
    """Parses and verifies a message of one kind in one study; the caller checks the rest."""
    envelope = Envelope.parse(message)
    require(envelope.header.kind == kind, Code.BAD_MESSAGE)
    require(envelope.header.study_hash == study_hash, Code.BAD_MESSAGE)
    envelope.verify(roster)
    return envelope
