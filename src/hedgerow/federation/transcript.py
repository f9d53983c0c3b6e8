"""The transcript of a run, as bytes that anybody can verify: `transcript.bin`.

    record   tag u8, length u64, content
    E        a key session: attempt u32, id 32, table site -> X25519 key
    R        a round: number u64, attempt u32, void u8, mode u8, questions, definitions,
             participants, then each message behind its length
    C        CLOSED of the sites, each behind its length

Messages are as `secagg.envelope.redact` leaves them: signed, without the position of a site's
ledger. It is the coordinator's view of the run: masked vectors, the sums they open, who answered
when. If a round was written twice, since its coordinator was stopped, the last record counts.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from hedgerow.errors import ParameterError, SiteRefused
from hedgerow.secagg.closing import round_leaf, tree_root
from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.encoding import (
    DIGEST,
    Reader,
    bytes_field,
    digest,
    members_field,
    table_field,
    u32,
    u64,
)
from hedgerow.secagg.envelope import MessageKind, redact, shown_header
from hedgerow.secagg.keys import PUBLIC_KEY
from hedgerow.secagg.messages import Mode
from hedgerow.secagg.session import KeySession

_RECORD = struct.Struct(">cQ")


@dataclass(frozen=True)
class TranscriptRound:
    """One round: the queries, the participants, and the messages that arrived."""

    number: int
    attempt: int
    is_void: bool
    mode: Mode
    questions: bytes
    definitions: bytes
    participants: tuple[int, ...]
    messages: tuple[bytes, ...] = field(repr=False)

    def to_bytes(self) -> bytes:
        return b"".join(self.pieces())

    def pieces(self) -> Iterator[bytes]:
        yield u64(self.number) + u32(self.attempt) + bytes((self.is_void, self.mode))
        yield bytes_field(self.questions) + bytes_field(self.definitions)
        yield members_field(self.participants)
        for message in self.messages:  # not copied: a vector has megabytes
            yield u32(len(message))
            yield message

    @classmethod
    def read(cls, data: bytes) -> TranscriptRound:
        reader = Reader(data)
        number, attempt = reader.count(), reader.u32()
        void = reader.take(1)[0]
        require(void in (0, 1), Code.BAD_MESSAGE)
        mode = Mode.read(reader)
        questions, definitions, sites = reader.bytes_field(), reader.bytes_field(), reader.members()
        messages = tuple(reader.all_fields())
        return cls(number, attempt, bool(void), mode, questions, definitions, sites, messages)

    @property
    def leaf(self) -> bytes:
        headers = map(shown_header, self.messages)
        digests = [digest("message", item) for item in self.messages]
        listing = [(h.sender, h.kind, d) for h, d in zip(headers, digests, strict=True)]
        outcome, request = (self.is_void, self.mode), (self.questions, self.definitions)
        return round_leaf(self.number, outcome, request, self.participants, listing)


@dataclass
class Transcript:
    """A recorded run."""

    key_sessions: dict[int, tuple[bytes, dict[int, bytes]]] = field(default_factory=dict)
    """By attempt: id and X25519 keys."""
    rounds: dict[int, TranscriptRound] = field(default_factory=dict)
    last_words: tuple[bytes, ...] = ()

    @property
    def root(self) -> bytes:
        return tree_root([self.rounds[number].leaf for number in sorted(self.rounds)])

    @classmethod
    def read(cls, path: Path) -> Transcript:
        """Reads a whole file; raises if it was cut short, which `FileTranscript` allows."""
        result, whole, size = cls(), 0, path.stat().st_size if path.exists() else 0
        try:
            for tag, content, end in _records(path):
                result._take(tag, content)
                whole = end
        except SiteRefused:
            raise ParameterError(
                f"{path} holds bytes that are no transcript; get it anew."
            ) from None
        if whole != size:
            raise ParameterError(f"{path} ends in the middle of a record; get it anew.")
        return result

    def _take(self, tag: bytes, content: bytes) -> None:
        reader = Reader(content)
        match tag:
            case b"E":
                attempt = reader.u32()
                self.key_sessions[attempt] = reader.take(DIGEST), reader.table(PUBLIC_KEY)
            case b"R":
                item = TranscriptRound.read(content)
                self.rounds[item.number] = item
            case b"C":
                self.last_words = tuple(reader.all_fields())
            case _:
                raise SiteRefused("BadMessage")


class FileTranscript:
    """The transcript of a run in progress; what was added is durable when a call returns.

    Of the rounds only the leaves stay in memory, not the messages: a run may have thousands.
    """

    def __init__(self, path: Path) -> None:
        self.leaves: dict[int, bytes] = {}
        self.last_words: tuple[bytes, ...] = ()
        whole = 0
        for tag, content, end in _records(path):
            self._take(tag, content)
            whole = end
        self._file = path.open("ab")
        self._file.truncate(whole)

    @property
    def root(self) -> bytes:
        return tree_root([self.leaves[number] for number in sorted(self.leaves)])

    def _take(self, tag: bytes, content: bytes) -> None:
        part = Transcript()
        part._take(tag, content)
        self.leaves |= {number: item.leaf for number, item in part.rounds.items()}
        self.last_words = part.last_words or self.last_words

    def close(self) -> None:
        self._file.close()

    def add_session(self, attempt: int, session: KeySession) -> None:
        self._add(b"E", u32(attempt) + session.id + table_field(dict(session.ephemerals)))

    def add_round(self, entry: TranscriptRound) -> None:
        self._add(b"R", *entry.pieces())
        self.leaves[entry.number] = entry.leaf

    def add_closed(self, messages: Iterable[bytes]) -> None:
        self.last_words = tuple(map(redact, messages))
        self._add(b"C", *map(bytes_field, self.last_words))

    def _add(self, tag: bytes, *pieces: bytes) -> None:
        self._file.write(_RECORD.pack(tag, sum(map(len, pieces))))
        self._file.writelines(pieces)
        self._file.flush()
        os.fsync(self._file.fileno())


def shown_messages(messages: Mapping[tuple[int, MessageKind], bytes]) -> tuple[bytes, ...]:
    """Messages as a transcript stores them, by kind and site."""
    in_order = sorted(messages, key=lambda key: (key[1], key[0]))
    return tuple(redact(messages[key]) for key in in_order)


def _records(path: Path) -> Iterator[tuple[bytes, bytes, int]]:
    """Complete records, each with its end; one at a time is in memory."""
    if not path.exists():
        return
    size, end = path.stat().st_size, 0
    with path.open("rb") as file:
        while len(head := file.read(_RECORD.size)) == _RECORD.size:
            tag, length = _RECORD.unpack(head)
            end += _RECORD.size + length
            if end > size:
                return
            yield tag, file.read(length), end
