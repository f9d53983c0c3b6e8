"""One SQLite file with durable transactions: they survive a crash and a power failure.

It has a rollback journal, not a write-ahead log: a site has one writer at a time, large messages
are written once instead of twice, a backup is one file, and no log retains erased bytes. A commit
truncates the journal and syncs it. That frees its bytes as deleting it would, with two syncs of the
directory fewer; without the sync, a power loss right after a commit could bring the journal back
and undo the commit.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import cast

from hedgerow.errors import LedgerBroken, LedgerError, LedgerUnavailable

EXTRA = 3
BUSY_SECONDS = 10.0
PAGE_BYTES = 32_768
"""Page size of a new file: halves the work for answers of megabytes, at no cost for small ones."""

Hook = Callable[[str], None]
"""Called with the name of each step, so that a test can interrupt there."""


def no_hook(step: str) -> None:
    pass


def connect(path: Path, busy_seconds: float = BUSY_SECONDS) -> sqlite3.Connection:
    """Connects to a file that only its owner can read; callers begin transactions themselves.

    Only a new file is opened by hand: closing a second descriptor of an existing one would drop the
    locks that SQLite holds on it in this process (POSIX).
    """
    try:
        with suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
            sync_directory(path.parent)
        path.chmod(0o600)
        return sqlite3.connect(
            path, timeout=busy_seconds, isolation_level=None, check_same_thread=False
        )
    except (OSError, sqlite3.Error) as error:
        raise LedgerUnavailable(
            f"{path} cannot be opened ({error}); nothing was charged and nothing sent. "
            "Check that the directory exists and belongs to this user."
        ) from error


def make_private(directory: Path) -> None:
    """Creates a folder that only its owner can read, whatever the umask."""
    try:
        directory.mkdir()
        directory.chmod(0o700)
        sync_directory(directory.parent)
    except FileExistsError:
        return
    except OSError as error:
        raise LedgerUnavailable(
            f"the folder {directory} cannot be made ({error}); nothing was charged and nothing "
            "sent. Check that the folder above it exists and belongs to this user."
        ) from error


def copy_private(source: Path, target: Path) -> None:
    """Copies a file that no process has open into a new one that only its owner can read."""
    try:
        content = source.read_bytes()
        descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as copy:
            os.fchmod(descriptor, 0o600)
            copy.write(content)
        sync_file(target)
    except OSError as error:
        raise LedgerUnavailable(
            f"{source} cannot be copied to {target} ({error}); nothing was overwritten. "
            "Move away what is there, or make room, then try again."
        ) from error


def write_private(path: Path, content: bytes) -> None:
    """Writes a file atomically and durably; only its owner can read it from the first byte on."""
    new = path.with_name(path.name + ".new")
    try:
        new.unlink(missing_ok=True)
        descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(descriptor)
        new.replace(path)
        sync_directory(path.parent)
    except OSError as error:
        raise LedgerUnavailable(
            f"{path} cannot be written ({error}); nothing was charged and nothing released. "
            "Check that the folder exists and belongs to this user."
        ) from error


def sync_file(path: Path) -> None:
    """Makes a file that no process has open, and its name, durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Makes the names of new files durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


LAYOUT_VERSION = 6
"""The layout of a site's file (`PRAGMA user_version`); 0 before a site has served from it."""


class LedgerStore:
    """A SQLite connection that writes in transactions only."""

    def __init__(self, connection: sqlite3.Connection, hook: Hook = no_hook) -> None:
        self._connection, self._hook = connection, hook
        self._lock = threading.RLock()
        self._depth = 0
        self.transactions = 0
        """The number of transactions begun; within one nobody else writes."""
        self._after: list[Callable[[], None]] = []
        self._configure()

    def execute(self, sql: str, *values: object) -> list[tuple[object, ...]]:
        with self._lock:
            try:
                return self._connection.execute(sql, values).fetchall()
            except (sqlite3.Error, UnicodeDecodeError) as error:
                raise _in_our_words(error) from error

    def create(self, statement: str) -> None:
        """Runs a CREATE statement, spelled as SQLite stores it, unless the file has it already."""
        if statement not in self.layout():
            self.execute(statement)

    def layout(self) -> set[str]:
        """The SQL statements of the tables and triggers in this file."""
        rows = self.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")
        return {str(sql) for (sql,) in rows}

    def check(self) -> None:
        """Raises if pages of the file are damaged."""
        rows = self.execute("PRAGMA integrity_check(1)")
        if rows != [("ok",)]:
            raise LedgerBroken(
                f"the site's file is damaged ({rows[0][0]}); nothing was sent. "
                "Restore the last good copy, then reconcile it."
            )

    def copy(self, path: Path) -> None:
        """Writes a consistent copy into a new file that only its owner can read."""
        connect(path).close()
        with self._lock, _translate_errors():
            self._connection.execute("VACUUM INTO ?", (str(path),))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, durable on exit. A nested transaction joins the outer one.

        BEGIN IMMEDIATE takes the lock at once, so what is read inside stays true until the commit.
        """
        with self._lock:
            if self._depth:
                yield
                return
            self._depth = 1
            try:
                with _translate_errors(), self._rolled_back_on_error():
                    self._connection.execute("BEGIN IMMEDIATE")
                    self.transactions += 1
                    self._hook("begun")
                    yield
                    self._hook("written")
                    self._connection.execute("COMMIT")
                self._hook("committed")
                self._run_after()
            finally:
                self._depth = 0
                self._after.clear()

    def after_commit(self, act: Callable[[], None]) -> None:
        """Runs `act` once the transaction is durable, before it is left; not if it fails."""
        self._after.append(act)

    def close(self) -> None:
        """Closes the connection and removes the empty journal, unless another process uses it."""
        with self._lock:
            with suppress(sqlite3.Error):
                self._connection.execute("PRAGMA journal_mode=DELETE")
            self._connection.close()

    def _run_after(self) -> None:
        for act in self._after:
            act()
        self._hook("settled")

    @contextmanager
    def _rolled_back_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            with suppress(sqlite3.Error):
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
            raise

    def _configure(self) -> None:
        for setting in (
            f"page_size={PAGE_BYTES}",
            "journal_mode=TRUNCATE",
            "synchronous=EXTRA",
            "fullfsync=ON",
            "secure_delete=ON",
            "cache_spill=OFF",  # pages of an answer are written once, at the commit
            "trusted_schema=OFF",
        ):
            self.execute(f"PRAGMA {setting}")
        rows = self.execute("PRAGMA synchronous")
        if rows != [(EXTRA,)]:
            raise LedgerUnavailable(
                f"SQLite reports synchronous={rows}; {EXTRA} is needed for charges that survive "
                "power loss. Use SQLite 3.12 or newer."
            )


@contextmanager
def _translate_errors() -> Iterator[None]:
    """Translates SQLite's errors; nothing is sent after any of them."""
    try:
        yield
    except sqlite3.Error as error:
        raise _in_our_words(error) from error


def _in_our_words(error: sqlite3.Error | UnicodeDecodeError) -> LedgerError:
    """Translates one error; a damaged file may hold invalid text in its rows and messages."""
    if isinstance(error, UnicodeDecodeError):
        return LedgerBroken(
            f"the site's file holds text that cannot be read ({error.reason}); nothing was sent. "
            "Restore the last good copy, then reconcile it."
        )
    if isinstance(error, sqlite3.OperationalError):
        return LedgerUnavailable(
            f"the site's file cannot be written ({error}); nothing was sent. "
            "Make room on the disk, or wait for the other process, then try again."
        )
    return LedgerBroken(
        f"the site's file cannot be read ({error}); nothing was sent. "
        "Restore the last good copy, then reconcile it."
    )


def layout_version(store: LedgerStore) -> int:
    """Raises if another hedgerow has laid the file out."""
    (version,) = cast(tuple[int], store.execute("PRAGMA user_version")[0])
    if version not in (0, LAYOUT_VERSION):
        raise LedgerUnavailable(
            f"the site's file has layout {version}; this hedgerow knows {LAYOUT_VERSION}. "
            "Nothing was changed. Go on with the hedgerow that wrote it."
        )
    return version
