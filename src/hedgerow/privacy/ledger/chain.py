"""Entries that cannot be changed, moved or left out without it being seen.

Each entry holds the hash of all before it, their signatures included, and is signed. So the
signature of the last one vouches for all: reading a ledger takes one pass of hashing and one
signature to check. Whoever holds the signing key and the file can still write another history;
that is noticed only by those who remember a head (`anchor`, the coordinator, the peers).

Entries of version 1 held the hash of the entry before them without its signature. They are read
as they are; as long as no newer entry follows, each one's own signature is checked.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from hedgerow.errors import LedgerBroken
from hedgerow.privacy.ledger.charges import NO_HEAD
from hedgerow.privacy.ledger.events import Event, to_json

Sign = Callable[[bytes], bytes]
Verify = Callable[[bytes, bytes], bool]
"""(signature, message) -> is it this site's own?"""

_VERSION_1, _VERSION_2 = b"hedgerow/ledger/1/entry", b"hedgerow/ledger/2/entry"
_LINK = b"hedgerow/ledger/2/link"


@dataclass(frozen=True, slots=True)
class Entry:
    seq: int
    body: str
    head: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class ChainLink:
    """The end of a chain: its last number and head, and the hash of everything up to there."""

    seq: int
    head: bytes
    everything: bytes

    @property
    def position(self) -> tuple[int, bytes]:
        return self.seq, self.head

    def after(self, entry: Entry) -> ChainLink:
        whole = _digest(_LINK, self.everything, entry.head, entry.signature)
        return ChainLink(entry.seq, entry.head, whole)


START = ChainLink(0, NO_HEAD, NO_HEAD)


def seal_entry(seq: int, end: ChainLink, event: Event, sign: Sign) -> Entry:
    body = to_json(event)
    head = _digest(_VERSION_2, str(seq), end.everything, body)
    return Entry(seq, body, head, sign(head))


def vouches(entry: Entry, end: ChainLink) -> bool:
    """Refuses an entry that does not follow; says whether it covers the signatures before it."""
    if entry.head == _digest(_VERSION_2, str(entry.seq), end.everything, entry.body):
        return True
    if entry.head == _digest(_VERSION_1, str(entry.seq), end.head, entry.body):
        return False
    raise LedgerBroken(_broken(entry.seq, "does not follow from the entry before it"))


def check_signature(entry: Entry, verify: Verify) -> None:
    if not verify(entry.signature, entry.head):
        raise LedgerBroken(_broken(entry.seq, "is not signed by this site"))


def check_seq(entry: Entry, expected: int) -> None:
    if entry.seq != expected:
        raise LedgerBroken(_broken(expected, f"is missing; {entry.seq} stands in its place"))


def _digest(tag: bytes, *parts: str | bytes) -> bytes:
    """SHA-256 of each part behind its own length, so that no two lists hash the same bytes."""
    pieces = [tag]
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        pieces += (len(data).to_bytes(8, "big"), data)
    return hashlib.sha256(b"".join(pieces)).digest()


def _broken(seq: int, what: str) -> str:
    return (
        f"entry {seq} of the ledger {what}. Nothing may be charged to this file; "
        "restore the last good copy, then reconcile it."
    )
