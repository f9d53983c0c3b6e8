"""A hash chain of entries: a changed, moved or missing entry is detected.

Each entry holds the hash of all entries before it, their signatures included, and is signed. The
signature of the last entry thus covers all: reading a ledger takes one pass of hashing and one
signature check. Whoever holds the signing key and the file can still write another history; only
those who remember a head (the anchor, the coordinator, other sites) notice it.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hedgerow.errors import LedgerBroken, LedgerUnavailable
from hedgerow.privacy.ledger.charges import NO_HEAD
from hedgerow.privacy.ledger.events import Event, Head, to_json
from hedgerow.privacy.ledger.store import sync_directory

Sign = Callable[[bytes], bytes]
Verify = Callable[[bytes, bytes], bool]
"""(signature, message) -> whether this site signed it."""

_ENTRY = b"hedgerow/ledger/2/entry"
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
    head = _digest(_ENTRY, str(seq), end.everything, body)
    return Entry(seq, body, head, sign(head))


def check_link(entry: Entry, end: ChainLink) -> None:
    """Raises unless the entry covers everything before it, signatures included."""
    if entry.head != _digest(_ENTRY, str(entry.seq), end.everything, entry.body):
        raise LedgerBroken(_describe_break(entry.seq, "does not follow from the entry before it"))


def check_signature(entry: Entry, verify: Verify) -> None:
    if not verify(entry.signature, entry.head):
        raise LedgerBroken(_describe_break(entry.seq, "is not signed by this site"))


def check_seq(entry: Entry, next_seq: int) -> None:
    if entry.seq != next_seq:
        raise LedgerBroken(
            _describe_break(next_seq, f"is missing; {entry.seq} stands in its place")
        )


def _digest(tag: bytes, *parts: str | bytes) -> bytes:
    """SHA-256 of the parts, each after its length, so that no two lists hash the same bytes."""
    pieces = [tag]
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        pieces += (len(data).to_bytes(8, "big"), data)
    return hashlib.sha256(b"".join(pieces)).digest()


def _describe_break(seq: int, defect: str) -> str:
    return (
        f"entry {seq} of the ledger {defect}. Nothing may be charged to this file; "
        "restore the last good copy, then reconcile it."
    )


# The anchor: a second record of the ledger's end, outside the file that backups restore. Each entry
# appends one line, which is synced after the entry is durable and before anything is sent. A line
# cut short by a power loss is ignored; the next one starts on its own line.

_TAIL = 512
"""Bytes read from the end: the last few heads suffice, since each covers all before it."""


class Anchor:
    def __init__(self, path: Path) -> None:
        self._path = path

    def heads(self) -> dict[int, bytes]:
        """Every head the anchor has recorded; empty if the file is missing."""
        return self._read(whole=True)

    def latest(self) -> dict[int, bytes]:
        """The last few heads, for the check before every charge."""
        return self._read(whole=False)

    def append(self, head: Head) -> None:
        """Appends a head; durable on return."""
        try:
            new = not self._path.exists()
            descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
            try:
                if new:
                    os.fchmod(descriptor, 0o600)
                _write_all(descriptor, f"\n{head[0]} {head[1].hex()}\n".encode("ascii"))
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
            if new:
                sync_directory(self._path.parent)
        except OSError as error:
            raise self._unavailable(error) from error

    def _read(self, whole: bool) -> dict[int, bytes]:
        try:
            with self._path.open("rb") as file:
                start = 0 if whole else max(0, os.fstat(file.fileno()).st_size - _TAIL)
                file.seek(start)
                lines = file.read().decode("ascii", errors="replace").splitlines()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise self._unavailable(error) from error
        whole_lines = filter(None, lines[1:] if start else lines)
        return dict(head for line in whole_lines if (head := _parse_head(line)) is not None)

    def _unavailable(self, error: OSError) -> LedgerUnavailable:
        return LedgerUnavailable(
            f"the anchor {self._path} cannot be used ({error.strerror}); nothing was sent. "
            "Make room or correct the file's permissions, then try again."
        )


def _parse_head(line: str) -> Head | None:
    try:
        seq, head = line.split(" ")
        digest = bytes.fromhex(head)
        return (int(seq), digest) if len(digest) == 32 else None
    except ValueError:
        return None


def _write_all(descriptor: int, data: bytes) -> None:
    if os.write(descriptor, data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
