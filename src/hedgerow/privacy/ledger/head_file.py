"""A second memory of the ledger's end, kept outside the file that backups bring back.

One line an entry, appended and synced after the entry is durable and before anything is sent.
A line that was torn by a power loss says nothing; the next one starts on a line of its own.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from hedgerow.errors import LedgerUnavailable
from hedgerow.privacy.ledger.events import Head
from hedgerow.privacy.ledger.store import sync_directory

_TAIL = 512
"""Bytes of the last few lines: each head vouches for all before it."""


class Anchor:
    def __init__(self, path: Path) -> None:
        self._path = path

    def heads(self) -> dict[int, bytes]:
        """Every head it was told of; empty if the file is missing."""
        return self._read(whole=True)

    def latest(self) -> dict[int, bytes]:
        """The last few heads, for a check that is made before every charge."""
        return self._read(whole=False)

    def append(self, head: Head) -> None:
        """Durable on return."""
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
        return dict(head for line in whole_lines if (head := _parsed(line)) is not None)

    def _unavailable(self, error: OSError) -> LedgerUnavailable:
        return LedgerUnavailable(
            f"the anchor {self._path} cannot be used ({error.strerror}); nothing was sent. "
            "Make room or mend the file's permissions, then try again."
        )


def _parsed(line: str) -> Head | None:
    try:
        seq, head = line.split(" ")
        digest = bytes.fromhex(head)
        return (int(seq), digest) if len(digest) == 32 else None
    except ValueError:
        return None


def _write_all(descriptor: int, data: bytes) -> None:
    if os.write(descriptor, data) != len(data):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
