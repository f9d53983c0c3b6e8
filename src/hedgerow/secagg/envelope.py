"""The part that all messages have in common: header, body, signature.

    header    version u8, kind u8, study hash 32, run 16, key session 32, round u64, sender u16,
              receiver u16, spent in this study (u16 length and text), ledger seq u64,
              ledger head 32
    body      by kind, see messages.py
    signature Ed25519 over digest(role, digest("ledger", ledger seq and head),
                                  digest("rest", rest of the header, digest("body", body)))

In a site's message the ledger fields are its own, after the charge for this message. In the
coordinator's they are the latest it has from the receiving site, and `spent` is empty: a site whose
file was rolled back sees a later head of its own there.

The signature is over hashes of parts, so that a part can be shown without the others. A header
without its body is a receipt. A ledger head without its header is what sites send each other,
without telling from which study it comes. A transcript shows a message with a hash in place of the
ledger's end, which would reveal how much else a site has answered.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache
from typing import TypeAlias

from hedgerow.errors import ParameterError
from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.encoding import (
    DIGEST,
    SIGNATURE,
    Buffer,
    Reader,
    checked_count,
    digest,
    digest_joined,
)
from hedgerow.secagg.keys import COORDINATOR, Identity, Roster, is_signed, verify_signature
from hedgerow.secagg.parameters import PROTOCOL

RUN_ID = 16
NO_SESSION = bytes(DIGEST)
_HEAD = 8 + DIGEST
_RATIONAL = re.compile(r"[0-9]{1,64}/[1-9][0-9]{0,63}|inf")

Position: TypeAlias = tuple[int, bytes]
"""The number of entries of a ledger, and the hash of the last."""


class MessageKind(IntEnum):
    KEYS = 1
    OPEN = 2
    ROUND = 3
    MASKED = 4
    SURVIVORS = 5
    SIGNED_SET = 6
    UNMASK = 7
    SHARES = 8
    JOIN = 9
    ENCAPS = 10
    BIND = 11
    CLOSE = 12
    CLOSED = 13
    DOUBT = 14
    WITNESS = 15
    WITNESSED = 16
    PROVE = 17


_KINDS = {int(kind): kind for kind in MessageKind}
_BEGIN = struct.Struct(f">BB{DIGEST}s{RUN_ID}s{DIGEST}sQHHH")
"""The header up to the length of `spent`."""
_END = struct.Struct(f">Q{DIGEST}s")


def is_rational(text: str) -> bool:
    return _RATIONAL.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class LedgerHead:
    """The end of a site's chain of charges, opaque to this package.

    `seq` counts entries and `head` is the hash of the last one; both are zero if there is none.
    `spent` is the cost of this study so far: "n/d", at most 64 digits each, or "inf".
    """

    seq: int
    head: bytes
    spent: str

    def __post_init__(self) -> None:
        if len(self.head) != DIGEST or (self.seq == 0) != (self.head == bytes(DIGEST)):
            raise ParameterError("a ledger head is 32 bytes, all zero only for an empty ledger.")
        if self.spent and not is_rational(self.spent):
            raise ParameterError(f"spent is {self.spent!r}; write a rational as 'n/d', or 'inf'.")

    @property
    def position(self) -> Position:
        return self.seq, self.head


EMPTY_LEDGER = LedgerHead(0, bytes(DIGEST), "0/1")


def follows(later: Position, earlier: Position) -> bool:
    """Whether an append-only chain can have had these two heads in this order."""
    return later[0] > earlier[0] or later == earlier


@dataclass(frozen=True, slots=True)
class Header:
    kind: MessageKind
    study_hash: bytes
    run_id: bytes
    session_id: bytes
    round: int
    sender: int
    receiver: int
    ledger: LedgerHead

    def to_bytes(self) -> bytes:
        spent = b"" if self.sender == COORDINATOR else self.ledger.spent.encode("ascii")
        names = (self.study_hash, self.run_id, self.session_id)
        ends = (self.round, self.sender, self.receiver, len(spent))
        begin = _BEGIN.pack(PROTOCOL, self.kind, *names, *ends)
        return begin + spent + _END.pack(*self.ledger.position)

    @classmethod
    def read(cls, reader: Reader) -> Header:
        begin, spent = _begin(reader)
        return _header(begin, spent, reader.take(_HEAD))


def _begin(reader: Reader) -> tuple[bytes, bytes]:
    """The header up to the ledger's end: fields of fixed width, and `spent`."""
    begin = reader.take(_BEGIN.size)
    return begin, reader.take(int.from_bytes(begin[-2:], "big"))


@lru_cache(maxsize=64)
def _header(begin: bytes, spent: bytes, end: bytes) -> Header:
    """Cached: the receiver reads a header before it parses the message."""
    version, kind, study, run, session, round, sender, receiver, _ = _BEGIN.unpack(begin)
    require(version == PROTOCOL and kind in _KINDS, Code.BAD_MESSAGE)
    text, (seq, head) = spent.decode("ascii", errors="replace"), _END.unpack(end)
    require(text == "" if sender == COORDINATOR else is_rational(text), Code.BAD_MESSAGE)
    require((checked_count(seq) == 0) == (head == bytes(DIGEST)), Code.BAD_MESSAGE)
    ends = checked_count(round), sender, receiver, LedgerHead(seq, head, text)
    return Header(_KINDS[kind], study, run, session, *ends)


@dataclass(frozen=True, slots=True)
class SignedHead:
    """A site's signed statement of its ledger's end, without the message that contained it.

    `rest` is the hash of the rest of that message, which suffices to verify the signature.
    """

    head: Position
    rest: bytes
    signature: bytes

    WIDTH = _HEAD + DIGEST + SIGNATURE

    def to_bytes(self) -> bytes:
        return _END.pack(*self.head) + self.rest + self.signature

    @classmethod
    def read(cls, data: Buffer) -> SignedHead:
        with Reader(data) as reader:
            head = reader.count(), reader.take(DIGEST)
            return cls(head, reader.take(DIGEST), reader.take(SIGNATURE))

    def is_by(self, site: bytes) -> bool:
        """Whether the site with this key signed it, as a site and about its own ledger."""
        head = digest("ledger", _END.pack(*self.head))
        return is_signed(site, self.signature, _signed_bytes(0, head, self.rest))


def fork_heads(evidence: bytes) -> tuple[SignedHead, SignedHead]:
    width = SignedHead.WIDTH
    return SignedHead.read(evidence[:width]), SignedHead.read(evidence[width:])


def is_fork(site: bytes, first: SignedHead, second: SignedHead) -> bool:
    """Whether the site signed two ends of a ledger that cannot both be its own."""
    differ = first.head[0] == second.head[0] and first.head != second.head
    return differ and first.is_by(site) and second.is_by(site)


@dataclass(frozen=True, slots=True)
class SignedHeader:
    """A message without its body; its statement about the sender's ledger can still be verified.

    It is the receipt for the cost of the message.
    """

    header: Header
    body_hash: bytes
    signature: bytes

    def to_bytes(self) -> bytes:
        return self.header.to_bytes() + self.body_hash + self.signature

    @classmethod
    def read(cls, data: Buffer) -> SignedHeader:
        with Reader(data) as reader:
            return cls(Header.read(reader), reader.take(DIGEST), reader.take(SIGNATURE))

    @property
    def signed_head(self) -> SignedHead:
        rest = _rest(self.header.to_bytes(), self.body_hash)
        return SignedHead(self.header.ledger.position, rest, self.signature)

    def is_above(self, other: SignedHeader | None) -> bool:
        """Whether it shows a higher ledger head than the other; every one is above none."""
        own = self.header.ledger.position
        return other is None or own > other.header.ledger.position

    def verify(self, key: bytes) -> None:
        content = _signed_content(self.header.sender, self.header.to_bytes(), self.body_hash)
        verify_signature(key, self.signature, content, Code.BAD_SIGNATURE)


def _rest(header: bytes, body_hash: bytes) -> bytes:
    """The hash of everything except the ledger head, which ends the header."""
    return digest("rest", header[:-_HEAD], body_hash)


def _signed_content(sender: int, header: bytes, body_hash: bytes) -> bytes:
    return _signed_bytes(sender, digest("ledger", header[-_HEAD:]), _rest(header, body_hash))


def _signed_bytes(sender: int, ledger: bytes, rest: bytes) -> bytes:
    """The content of a signature; its role keeps a coordinator's from passing for a site's."""
    role = "coordinator" if sender == COORDINATOR else "site"
    return digest(role, ledger, rest)


def redact(message: Buffer) -> bytes:
    """A message as a transcript shows it: a hash stands in place of the ledger's end."""
    return b"".join(_redacted(message))


def message_digest(message: Buffer) -> bytes:
    """The digest of a message in the form that a transcript shows."""
    return digest_joined("message", _redacted(message))


def _redacted(message: Buffer) -> tuple[Buffer, ...]:
    reader = Reader(message)
    begin, spent = _begin(reader)
    return begin, spent, digest("ledger", reader.view(_HEAD)), reader.view(reader.remaining)


def shown_header(data: Buffer) -> Header:
    """The header of a message in a transcript; of the ledger only `spent` is known."""
    return _header(*_begin(Reader(data)), bytes(_HEAD))


def open_shown(data: Buffer, study_hash: bytes, roster: Roster) -> Envelope:
    """A verified message of a transcript; of its sender's ledger only `spent` is known."""
    reader, header = Reader(data), shown_header(data)
    begin, ledger = b"".join(_begin(reader)), reader.take(DIGEST)
    body = reader.view(reader.remaining - SIGNATURE)
    receipt = SignedHeader(header, digest("body", body), reader.take(SIGNATURE))
    require(header.study_hash == study_hash, Code.BAD_MESSAGE)
    content = _signed_bytes(header.sender, ledger, digest("rest", begin, receipt.body_hash))
    verify_signature(roster.key_of(header.sender), receipt.signature, content, Code.BAD_SIGNATURE)
    return Envelope(receipt, body)


@dataclass(frozen=True, slots=True)
class Envelope:
    """A parsed message; nothing in it is trusted before `verify`."""

    receipt: SignedHeader
    body: memoryview

    @classmethod
    def parse(cls, message: Buffer) -> Envelope:
        reader = Reader(message)
        header = Header.read(reader)
        body = reader.view(reader.remaining - SIGNATURE)
        return cls(SignedHeader(header, digest("body", body), reader.take(SIGNATURE)), body)

    @property
    def header(self) -> Header:
        return self.receipt.header

    def verify(self, roster: Roster) -> None:
        self.receipt.verify(roster.key_of(self.header.sender))


def seal_message(identity: Identity, header: Header, body: bytes) -> bytes:
    head = header.to_bytes()
    signature = identity.sign(_signed_content(header.sender, head, digest("body", body)))
    return b"".join((head, body, signature))


Place: TypeAlias = tuple[bytes, bytes, int, int, LedgerHead]
"""Run, key session, round, receiver, and the end of a ledger."""


@dataclass(frozen=True, slots=True)
class Author:
    """Writes and signs messages under one name in one study."""

    identity: Identity
    me: int
    study_hash: bytes

    def seal(self, kind: MessageKind, body: bytes, *place: *Place) -> bytes:
        return seal_message(self.identity, self.header(kind, *place), body)

    def header(self, kind: MessageKind, *place: *Place) -> Header:
        run_id, session_id, round, receiver, ledger = place
        names = kind, self.study_hash, run_id, session_id
        return Header(*names, round, self.me, receiver, ledger)


def open_envelope(
    message: Buffer, kind: MessageKind, study_hash: bytes, roster: Roster
) -> Envelope:
    """Parses and verifies a message of one kind in one study; the caller checks the rest."""
    envelope = Envelope.parse(message)
    require(envelope.header.kind == kind, Code.BAD_MESSAGE)
    require(envelope.header.study_hash == study_hash, Code.BAD_MESSAGE)
    envelope.verify(roster)
    return envelope
