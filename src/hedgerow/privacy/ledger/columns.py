"""Rows beside the ledger, each with a code under a key that only the site has.

The chain vouches for charges and opened sets. What stands beside it (runs, stored answers, heads
of peers, secrets) would be believed as it is read: a flipped bit, or a row moved under another
key, must not pass for something that the site wrote.
"""

from __future__ import annotations

import hmac
from typing import Any

from hedgerow.errors import LedgerBroken
from hedgerow.privacy.ledger.store import Store

Row = tuple[Any, ...]


class Table:
    """`columns` are those of the table, in order, without the code; the first `keys` name a row."""

    def __init__(
        self, store: Store, name: str, columns: tuple[str, ...], keys: int, secret: bytes
    ) -> None:
        self._store, self._name, self._secret = store, name, secret
        self._columns, self._keys = columns, columns[:keys]

    def put(self, *values: object) -> None:
        """Writes a row, in place of the one with the same key."""
        marks = ", ".join("?" * (len(values) + 1))
        code = self._code(values)
        self._store.execute(f"INSERT OR REPLACE INTO {self._name} VALUES ({marks})", *values, code)

    def put_over(self, old: tuple[object, ...], *values: object) -> None:
        """Writes a row into the room of the one with the key `old`, of which nothing is left."""
        given = ", ".join(f"{column} = ?" for column in (*self._columns, "code"))
        where = dict(zip(self._keys, old, strict=True))
        self._store.execute(
            f"UPDATE {self._name} SET {given}{_condition(where)}",
            *values, self._code(values), *where.values(),
        )  # fmt: skip

    def get(self, *key: object) -> Row | None:
        found = self.rows(**dict(zip(self._keys, key, strict=True)))
        return found[0] if found else None

    def rows(self, **where: object) -> list[Row]:
        """Rows with these values, in order of their keys; each is checked."""
        order, columns = ", ".join(self._keys), ", ".join((*self._columns, "code"))
        found = self._store.execute(
            f"SELECT {columns} FROM {self._name}{_condition(where)} ORDER BY {order}",
            *where.values(),
        )
        return [self._checked(row) for row in found]

    def delete(self, **where: object) -> None:
        self._store.execute(f"DELETE FROM {self._name}{_condition(where)}", *where.values())

    def check(self) -> None:
        """Reads every row once."""
        self.rows()

    def _checked(self, row: Row) -> Row:
        *values, code = row
        if not isinstance(code, bytes) or not hmac.compare_digest(code, self._code(values)):
            raise LedgerBroken(
                f"a row of {self._name!r} is not as this site wrote it. Nothing was sent; "
                "restore the last good copy, then reconcile it."
            )
        return tuple(values)

    def _code(self, values: tuple[object, ...] | list[object]) -> bytes:
        state = hmac.new(self._secret, digestmod="sha256")
        for part in (self._name, *values):
            kind, data = _spelled(part)
            state.update(kind + len(data).to_bytes(8, "big"))
            state.update(data)
        return state.digest()


def _condition(where: dict[str, object]) -> str:
    return " WHERE " + " AND ".join(f"{column} = ?" for column in where) if where else ""


def _spelled(value: object) -> tuple[bytes, bytes]:
    """Kind and bytes: no two values are spelled alike."""
    match value:
        case bytes():
            return b"b", value
        case str():
            return b"s", value.encode("utf-8", errors="surrogatepass")
        case int():
            return b"i", str(value).encode()
    return b"?", repr(value).encode()
