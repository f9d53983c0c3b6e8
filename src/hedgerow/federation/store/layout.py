"""How a vault's file is laid out, and how an older layout becomes the present one.

`PRAGMA user_version` counts the steps that were taken; a file made before they were counted
says 0. All steps that a file lacks are taken in one transaction, when it is opened to serve.
"""

from __future__ import annotations

from collections.abc import Callable

from hedgerow.errors import LedgerBroken
from hedgerow.privacy.ledger import stored_chain
from hedgerow.privacy.ledger.columns import Table
from hedgerow.privacy.ledger.store import Store, layout_version

_FIRST = (
    "CREATE TABLE runs (study TEXT, run BLOB, open INTEGER, high_water INTEGER, "
    "PRIMARY KEY (study, run))",
    "CREATE TABLE outbox (study TEXT, run BLOB, round INTEGER, record BLOB, "
    "beside BLOB, PRIMARY KEY (study, run, round))",
    "CREATE TABLE opened (study TEXT, run BLOB, round INTEGER, members TEXT, "
    "PRIMARY KEY (study, run, round))",
    "CREATE TABLE peers (key BLOB PRIMARY KEY, seq INTEGER, head BLOB)",
    "CREATE TABLE secrets (name TEXT PRIMARY KEY, value BLOB)",
)
_SECOND = (
    "CREATE TABLE runs (study TEXT, run BLOB, open INTEGER, high_water INTEGER, code BLOB, "
    "PRIMARY KEY (study, run))",
    "CREATE TABLE outbox (study TEXT, run BLOB, round INTEGER, record BLOB, code BLOB, "
    "PRIMARY KEY (study, run, round))",
    "CREATE TABLE peers (peer BLOB PRIMARY KEY, seq INTEGER, head BLOB, receipt BLOB, code BLOB)",
    "CREATE TABLE secrets (study TEXT PRIMARY KEY, value BLOB, code BLOB)",
)
_THIRD = (
    *_SECOND,
    "CREATE TABLE volumes (study TEXT PRIMARY KEY, rounds INTEGER, sent INTEGER, "
    "written INTEGER, code BLOB)",
)


class VaultTables:
    """The tables beside the ledger."""

    def __init__(self, store: Store, secret: bytes) -> None:
        def table(name: str, columns: str, keys: int) -> Table:
            return Table(store, name, tuple(columns.split()), keys, secret)

        self.runs = table("runs", "study run open high_water", 2)
        self.outbox = table("outbox", "study run round record", 3)
        self.peers = table("peers", "peer seq head receipt", 1)
        self.secrets = table("secrets", "study value", 1)
        self.volumes = table("volumes", "study rounds sent written", 1)

    def check(self) -> None:
        for table in (self.runs, self.outbox, self.peers, self.secrets, self.volumes):
            table.check()


def _first_layout(store: Store, tables: VaultTables) -> None:
    for statement in _FIRST:
        store.create(statement)


def _second_layout(store: Store, tables: VaultTables) -> None:
    """Codes on rows; sets are entries of the ledger; accounts go by hash instead of by name.

    Rounds of version 1 can be neither sent nor opened in version 2, and its studies have other
    hashes now: their runs, stored answers and secrets are erased. Charges, budgets and heads of
    peers stay.
    """
    _require_layout(store, _FIRST)
    peers = store.execute("SELECT key, seq, head FROM peers")
    for table in ("runs", "outbox", "opened", "peers", "secrets"):
        store.execute(f"DROP TABLE {table}")
    for statement in _SECOND:
        store.create(statement)
    for key, seq, head in peers:
        tables.peers.put(key, seq, head, b"")


def _third_layout(store: Store, tables: VaultTables) -> None:
    """What each study has taken is counted; of rounds before, nothing is."""
    _require_layout(store, _SECOND)
    store.create(_THIRD[-1])


LAYOUT_STEPS: tuple[Callable[[Store, VaultTables], None], ...] = (
    *(_first_layout, _second_layout),
    _third_layout,
)


def bring_up_to_date(store: Store, tables: VaultTables) -> None:
    """Takes the steps that the file lacks, all or none, and checks what is then there."""
    with store.transaction():
        missing = LAYOUT_STEPS[layout_version(store) :]
        for step in missing:
            step(store, tables)
        if missing:
            store.execute(f"PRAGMA user_version = {len(LAYOUT_STEPS)}")
        _require_layout(store, _THIRD)


def _require_layout(store: Store, statements: tuple[str, ...]) -> None:
    if store.layout() != {*stored_chain.LAYOUT, *statements}:
        raise LedgerBroken(
            "the tables of the site's file are not those of its version; nothing was changed. "
            "Restore the last good copy, then reconcile it."
        )
