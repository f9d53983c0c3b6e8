"""A ledger in a file of its own, with key, anchor and lock: for users without a site.

    fits.ledger         the entries
    fits.ledger.key     signs them; created on first use, readable by its owner alone
    fits.ledger.anchor  records their end
    fits.ledger.lock    admits one process at a time

All four lie in one folder, so an older copy of the whole folder is not detected. That takes an
anchor elsewhere, as a site's store has.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from hedgerow.errors import LedgerBroken, LedgerUnavailable, ParameterError
from hedgerow.privacy.ledger.chain import Anchor
from hedgerow.privacy.ledger.sqlite import SqliteLedger
from hedgerow.privacy.ledger.store import LedgerStore, connect, layout_version, write_private
from hedgerow.secagg.keys import Identity, is_signed

WAIT_SECONDS = 60.0
"""Time to wait for another process, which only writes its entry."""
_MAGIC = b"SQLite format 3\0"
_KEY_BYTES = 32


@contextmanager
def open_alone(path: Path) -> Iterator[SqliteLedger]:
    """Opens a ledger exclusively, so that not even its first two users create two keys."""
    path = path.resolve()
    _require_ledger(path)
    with closing(exclusive(path, WAIT_SECONDS)):
        identity = _identity(path)
        with open_ledger(path, identity, _beside(path, ".anchor")) as ledger:
            yield ledger


def is_there(path: Path) -> bool:
    return path.is_file() and path.stat().st_size > 0


def _require_ledger(path: Path) -> None:
    """Refuses other files before anything is touched: a typing error must not lock them."""
    if path.is_dir():
        raise ParameterError(f"the ledger {path} is a folder; name a file in it.")
    if is_there(path):
        with path.open("rb") as file:
            if file.read(len(_MAGIC)) != _MAGIC:
                raise ParameterError(f"{path} is no ledger; name another file, or one that is new.")


def _identity(path: Path) -> Identity:
    key = _beside(path, ".key")
    if not key.exists() and is_there(path):
        raise LedgerBroken(
            f"the ledger {path} is there and its key {key} is not, so nobody can tell whether its "
            "entries are its own. Nothing was charged; bring the key back."
        )
    if not key.exists():
        write_private(key, Identity.generate().to_bytes())
    secret = key.read_bytes()
    if len(secret) != _KEY_BYTES:
        raise LedgerBroken(f"{key} holds {len(secret)} bytes and no key; bring the old one back.")
    return Identity.from_bytes(secret)


def _beside(path: Path, suffix: str) -> Path:
    return path.with_name(path.name + suffix)


def signed_ledger(store: LedgerStore, identity: Identity, anchor: Path) -> SqliteLedger:
    def is_ours(signature: bytes, message: bytes) -> bool:
        return is_signed(identity.public, signature, message)

    return SqliteLedger(store, sign=identity.sign, verify=is_ours, anchor=Anchor(anchor))


def exclusive(path: Path, wait_seconds: float = 0.0) -> sqlite3.Connection:
    """SQLite's lock on a separate file, held until closed or until the process ends."""
    lock = connect(path.with_name(path.name + ".lock"), busy_seconds=wait_seconds)
    try:
        lock.execute("PRAGMA journal_mode=OFF")
        lock.execute("BEGIN EXCLUSIVE")
    except sqlite3.OperationalError as error:
        lock.close()
        raise LedgerUnavailable(
            f"another process serves from {path}; one at a time may. "
            "Stop the other one, or wait for it."
        ) from error
    return lock


@contextmanager
def open_ledger(path: Path, identity: Identity, anchor: Path) -> Iterator[SqliteLedger]:
    """Opens the ledger alone, to read it or to approve a study while another process serves."""
    with closing(LedgerStore(connect(path))) as store:
        layout_version(store)
        yield signed_ledger(store, identity, anchor)
