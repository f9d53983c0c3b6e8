"""The end of a run: CLOSE -> CLOSED, a site's list of its releases, and the root over rounds.

CLOSED names every message that the site has released in the run, by its digest and in order, the
number of rounds that all runs of the study were charged for, and their cost. It is the last message
of the site, whose account is closed with it. Whoever has the messages can then verify that none is
missing and that nothing else was charged. It is signed with Ed25519 and, for the long term, with
ML-DSA-65.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.encoding import DIGEST, Buffer, Reader, bytes_field, digest, ids, u16, u32, u64
from hedgerow.secagg.envelope import Header, MessageKind
from hedgerow.secagg.keys import Identity, is_signed_lasting
from hedgerow.secagg.messages import Mode

RELEASED = (MessageKind.MASKED, MessageKind.SIGNED_SET, MessageKind.SHARES)
"""Messages that depend on rows, or help to open those that do."""

UNASKED = bytes(DIGEST)
"""The root of a CLOSED that no coordinator requested."""


@dataclass(frozen=True, slots=True)
class Release:
    """One message that left a site, for the first time."""

    round: int
    kind: MessageKind
    digest: bytes

    WIDTH = 8 + 1 + DIGEST

    def to_bytes(self) -> bytes:
        return u64(self.round) + bytes((self.kind,)) + self.digest

    @classmethod
    def read(cls, reader: Reader) -> Release:
        round, kind = reader.count(), reader.take(1)[0]
        require(kind in RELEASED, Code.BAD_MESSAGE)
        return cls(round, MessageKind(kind), reader.take(DIGEST))


def read_close(body: Buffer) -> bytes:
    """The root in a CLOSE; behind it stands the number of rounds under it."""
    with Reader(body) as reader:
        root, _ = reader.take(DIGEST), reader.count()
        return root


@dataclass(frozen=True, slots=True)
class LastWord:
    """`rounds` counts the rounds charged in all runs of the study; `spent` is in the header."""

    root: bytes
    rounds: int
    releases: tuple[Release, ...]
    key: bytes = b""
    signature: bytes = b""

    def signed(self, header: Header) -> bytes:
        """What ML-DSA-65 signs: the content, and its study, run and site."""
        place = header.study_hash, header.run_id, u16(header.sender), header.ledger.spent.encode()
        return digest("closed", *place, self._content())

    def to_bytes(self) -> bytes:
        return self._content() + bytes_field(self.key) + bytes_field(self.signature)

    def _content(self) -> bytes:
        listing = b"".join(item.to_bytes() for item in self.releases)
        return self.root + u64(self.rounds) + u32(len(self.releases)) + listing

    def by(self, identity: Identity, header: Header) -> LastWord:
        signature = identity.sign_lasting(self.signed(header))
        return LastWord(self.root, self.rounds, self.releases, identity.lasting, signature)

    @classmethod
    def read(cls, body: Buffer) -> LastWord:
        with Reader(body) as reader:
            root, rounds, count = reader.take(DIGEST), reader.count(), reader.u32()
            releases = tuple(Release.read(reader) for _ in range(count))
            return cls(root, rounds, releases, reader.bytes_field(), reader.bytes_field())

    def verify(self, public: bytes, header: Header) -> None:
        right = is_signed_lasting(public, self.key, self.signature, self.signed(header))
        require(right, Code.BAD_SIGNATURE, header.sender)


# A hash tree over the rounds of a run (Merkle 1987): each leaf is a request and its answers.


def round_leaf(
    round: int,
    outcome: tuple[bool, Mode],
    request: tuple[bytes, bytes],
    participants: Sequence[int],
    messages: Iterable[tuple[int, MessageKind, bytes]],
) -> bytes:
    """Hash of one round; `messages` are (site, kind, digest), in any order.

    `outcome` is (void, mode) and `request` (questions, definitions).
    """
    listing = b"".join(u16(site) + bytes((kind,)) + item for site, kind, item in sorted(messages))
    place = u64(round), bytes(outcome), digest("questions", *request), ids(participants)
    return digest("leaf", *place, listing)


def tree_root(leaves: Sequence[bytes]) -> bytes:
    """The root of the tree; zeros without leaves. An odd last node moves up unchanged."""
    level = list(leaves) or [bytes(DIGEST)]
    while len(level) > 1:
        pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
        level = [digest("node", *pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return level[0]
