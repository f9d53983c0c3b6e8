"""A site's durable state in secure aggregation, and in which order it is written.

| before this leaves the site | this is durable |
|---|---|
| KEYS | nothing: the key lives in the process alone |
| the first answer in a new run | the old run is closed |
| MASKED | charge, high water and the round's record, in one transaction |
| a signature on a set, a witness of it, or SHARES | the set, as an entry of the ledger |
| MASKED, SIGNED_SET, SHARES, for the first time | its digest, in the same transaction |
| CLOSED | itself; the account and the run are closed |

Durable means that it survives power loss, not only the end of the process.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hedgerow.secagg.closing import RELEASED, Release
from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.encoding import (
    DIGEST,
    SEED,
    Reader,
    bytes_field,
    digest,
    ids,
    members_field,
    table_field,
    u32,
)
from hedgerow.secagg.envelope import (
    EMPTY_LEDGER,
    Header,
    LedgerHead,
    MessageKind,
    Position,
    SignedHeader,
    message_digest,
)
from hedgerow.secagg.messages import Mode


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRound:
    """One round as a site stores it: the bytes it sent and the secrets to answer for them.

    It holds keys of this round only, and none if it is opened at once. Neither the ephemeral key
    nor a root is ever written, so no record, stolen or restored, can make or open another round's
    mask.
    """

    mode: Mode
    request: bytes
    """Hash of the mode and of the bundle that was answered."""
    participants: tuple[int, ...]
    context: bytes
    message: bytes = field(repr=False)
    """The whole MASKED message, to be sent again unchanged."""
    own_share: bytes = field(default=b"", repr=False)
    seeds: dict[int, bytes] = field(default_factory=dict, repr=False)
    """Pair seed with each neighbor."""
    share_keys: dict[int, bytes] = field(default_factory=dict, repr=False)
    """Key that opens the share each neighbor sealed for this site."""

    @property
    def header(self) -> Header:
        """Run, key session, round, and the ledger's end after the charge."""
        return Header.read(Reader(self.message))

    @property
    def size(self) -> int:
        """The length in bytes."""
        return sum(map(len, self._fields()))

    def to_bytes(self) -> bytes:
        return b"".join(self._fields())

    def _fields(self) -> tuple[bytes, ...]:
        return (
            bytes((self.mode,)),
            self.request,
            members_field(self.participants),
            self.context,
            bytes_field(self.own_share),
            table_field(self.seeds),
            table_field(self.share_keys),
            u32(len(self.message)),
            self.message,
        )

    @classmethod
    def from_bytes(cls, data: bytes) -> StoredRound:
        with Reader(data) as reader:
            return cls(
                mode=Mode.read(reader),
                request=reader.take(DIGEST),
                participants=reader.members(),
                context=reader.take(DIGEST),
                own_share=reader.bytes_field(),
                seeds=reader.table(SEED),
                share_keys=reader.table(SEED),
                message=reader.bytes_field(),
            )


Writer = tuple[MessageKind, Callable[[LedgerHead], bytes]]
"""The kind of a message, and the function that makes it."""
LastWordWriter = Callable[[LedgerHead, int, Sequence[Release]], bytes]


def set_hash(members: tuple[int, ...]) -> bytes:
    """The hash of a set of members, as it is stored."""
    return digest("members", ids(members))


class Memory(Protocol):
    """A site's durable state for one study."""

    def current_run(self) -> bytes | None:
        """The one open run, or None before the first."""

    def open_run(self, run_id: bytes) -> None:
        """Makes `run_id` the open run. Durable on return.

        Closes the run that was open, for good, and may erase its records (`outbox` may then return
        None for it). Does nothing if `run_id` is open already. Refuses with `RunSuperseded` a run
        that was closed before, even after a restart.
        """

    def high_water(self, run_id: bytes) -> int:
        """The highest round stored in the run; 0 when there is none."""

    def rounds(self) -> int:
        """The number of rounds stored in all runs together, or more."""

    def outbox(self, run_id: bytes, round: int) -> StoredRound | None:
        """The record of that round, byte for byte as it was stored."""

    def store(self, record: StoredRound) -> None:
        """Stores `record` and raises the high water to its round.

        Called by the guard, never by `Site`, in the transaction that writes the charge whose
        position is in the message's header. That transaction is durable before one byte of the
        message is sent. If it fails, nothing is sent and the round id is not used again. Refuses
        with `OldRound` a round that is not above the high water.
        """

    def bound_set(self, run_id: bytes, round: int) -> bytes | None:
        """`set_hash` of the set that was signed, opened or witnessed in the round, or None."""

    def open_set(self, run_id: bytes, round: int, members: tuple[int, ...], reply: Writer) -> bytes:
        """Writes the only set this site will ever sign or open in the round. Durable on return.

        Returns what `reply` makes of the ledger's end after that entry, and stores its digest. The
        same set again writes nothing and has the same end. Refuses with `SecondSet` any other set.
        Test and write are one step: two callers at once cannot both succeed with different sets.
        """

    def close(self, run_id: bytes, last_word: LastWordWriter) -> bytes:
        """Closes the run and the study's account for good. Durable on return.

        Returns what `last_word` makes of the ledger's end, the number of rounds charged in all runs
        of the study, and the releases of this run; later the same bytes.
        """

    def last_word(self) -> bytes | None:
        """The CLOSED of this study, once it is closed."""

    def head_at(self, seq: int) -> bytes | None:
        """The head of this site's own ledger after `seq` entries; None if it has fewer."""

    def receipt(self, peer: bytes) -> SignedHeader | None:
        """The header with the highest head ever seen of this public key, in any study."""

    def fork(self, peer: bytes) -> bytes | None:
        """Two signed heads that prove that the peer's ledger forked, or None."""

    def see_fork(self, peer: bytes, evidence: bytes) -> None:
        """Stores the first such evidence for good, for all studies. Durable on return."""

    def see_head(self, peer: bytes, receipt: SignedHeader) -> None:
        """Stores `receipt` unless a higher head of the peer is known.

        Need not be durable on return: losing it loses evidence against the peer, not privacy.
        """


class MemoryInRam:
    """An in-memory implementation, for tests and for sites simulated in one process.

    Records contain whole vectors, so only those of the last `rounds_kept` rounds are stored.
    """

    def __init__(self, rounds_kept: int = 1) -> None:
        self._rounds_kept = rounds_kept
        self._current: bytes | None = None
        self._closed_runs: set[bytes] = set()
        self._records: dict[tuple[bytes, int], StoredRound] = {}
        self._high_water: dict[bytes, int] = {}
        self._sets: dict[tuple[bytes, int], bytes] = {}
        self._releases: dict[bytes, dict[tuple[int, MessageKind], bytes]] = {}
        self._last_word: bytes | None = None
        self._ledger_end = EMPTY_LEDGER
        self._own: dict[int, bytes] = {}
        self._peers: dict[bytes, SignedHeader] = {}
        self._forks: dict[bytes, bytes] = {}

    def current_run(self) -> bytes | None:
        return self._current

    def open_run(self, run_id: bytes) -> None:
        require(run_id not in self._closed_runs, Code.RUN_SUPERSEDED)
        if self._current is not None and self._current != run_id:
            self._closed_runs.add(self._current)
            self._records.clear()
        self._current = run_id

    def high_water(self, run_id: bytes) -> int:
        return self._high_water.get(run_id, 0)

    def rounds(self) -> int:
        return sum(self._high_water.values())

    def outbox(self, run_id: bytes, round: int) -> StoredRound | None:
        return self._records.get((run_id, round))

    def store(self, record: StoredRound) -> None:
        header = record.header
        require(header.round > self.high_water(header.run_id), Code.OLD_ROUND)
        self.note_own_head(header.ledger.position)
        self._records[header.run_id, header.round] = record
        while len(self._records) > self._rounds_kept:
            self._records.pop(next(iter(self._records)))
        self._high_water[header.run_id] = header.round
        self._ledger_end = header.ledger
        self._release(header.run_id, header.round, MessageKind.MASKED, record.message)

    def _release(self, run_id: bytes, round: int, kind: MessageKind, message: bytes) -> None:
        if kind in RELEASED:
            digests = self._releases.setdefault(run_id, {})
            digests.setdefault((round, kind), message_digest(message))

    def bound_set(self, run_id: bytes, round: int) -> bytes | None:
        return self._sets.get((run_id, round))

    def open_set(self, run_id: bytes, round: int, members: tuple[int, ...], reply: Writer) -> bytes:
        target = set_hash(members)
        first = self._sets.setdefault((run_id, round), target)
        require(first == target, Code.SECOND_SET)
        message = reply[1](self._records[run_id, round].header.ledger)
        self._release(run_id, round, reply[0], message)
        return message

    def close(self, run_id: bytes, last_word: LastWordWriter) -> bytes:
        if self._last_word is None:
            keys = [key for run in self._releases.values() for key in run]
            n_rounds = sum(kind is MessageKind.MASKED for _, kind in keys)
            listing = self._releases.get(run_id, {}).items()
            releases = [Release(*key, digest) for key, digest in listing]
            self._last_word = last_word(self._ledger_end, n_rounds, releases)
        return self._last_word

    def last_word(self) -> bytes | None:
        return self._last_word

    def head_at(self, seq: int) -> bytes | None:
        return self._own.get(seq)

    def note_own_head(self, head: Position) -> None:
        """Replaces a ledger: records one position of the site's own chain."""
        self._own[head[0]] = head[1]

    def receipt(self, peer: bytes) -> SignedHeader | None:
        return self._peers.get(peer)

    def fork(self, peer: bytes) -> bytes | None:
        return self._forks.get(peer)

    def see_fork(self, peer: bytes, evidence: bytes) -> None:
        self._forks.setdefault(peer, evidence)

    def see_head(self, peer: bytes, receipt: SignedHeader) -> None:
        if receipt.is_above(self.receipt(peer)):
            self._peers[peer] = receipt
