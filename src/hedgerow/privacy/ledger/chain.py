"""Entries that cannot be changed, moved or left out without it being seen.

Each entry holds the hash of the one before it and is signed. Whoever holds the signing key and
the file can still write another history; that is noticed only by those who remember a head
(`anchor`, the coordinator, the peers).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass

from hedgerow.errors import LedgerBroken
from hedgerow.privacy.ledger.charges import Receipt
from hedgerow.privacy.ledger.events import Event, cost_text, to_json

Sign = Callable[[bytes], bytes]
Verify = Callable[[bytes, bytes], bool]
"""(signature, message) -> is it this site's own?"""

_DOMAIN = b"hedgerow/ledger/1/"


@dataclass(frozen=True, slots=True)
class Entry:
    seq: int
    body: str
    head: bytes
    signature: bytes


def seal_entry(seq: int, previous: bytes, event: Event, sign: Sign) -> Entry:
    body = to_json(event)
    head = _digest("entry", str(seq), previous, body)
    return Entry(seq, body, head, sign(head))


def check(entry: Entry, previous: bytes, verify: Verify) -> None:
    """Refuses an entry that does not follow `previous` or that this site did not sign."""
    if entry.head != _digest("entry", str(entry.seq), previous, entry.body):
        raise LedgerBroken(_broken(entry.seq, "does not follow from the entry before it"))
    if not verify(entry.signature, entry.head):
        raise LedgerBroken(_broken(entry.seq, "is not signed by this site"))


def check_seq(entry: Entry, expected: int) -> None:
    if entry.seq != expected:
        raise LedgerBroken(_broken(expected, f"is missing; {entry.seq} stands in its place"))


def sign_receipt(receipt: Receipt, sign: Sign) -> bytes:
    return sign(_receipt_digest(receipt))


def receipt_is_ours(receipt: Receipt, verify: Verify) -> bool:
    return verify(receipt.signature, _receipt_digest(receipt))


def _receipt_digest(receipt: Receipt) -> bytes:
    return _digest(
        "receipt",
        receipt.study,
        receipt.round_id,
        str(receipt.seq),
        receipt.head,
        cost_text(receipt.spent),
    )


def _digest(tag: str, *parts: str | bytes) -> bytes:
    """SHA-256 of each part behind its own length, so that no two lists hash the same bytes."""
    state = hashlib.sha256(_DOMAIN + tag.encode())
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "big"))
        state.update(data)
    return state.digest()


def _broken(seq: int, what: str) -> str:
    return (
        f"entry {seq} of the ledger {what}. Nothing may be charged to this file; "
        "restore the last good copy, then reconcile it."
    )
