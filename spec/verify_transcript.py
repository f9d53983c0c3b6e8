"""Opens a transcript with nothing but a study's hash and public keys: every sum, from signed bytes.

    python -m spec.verify_transcript transcript.bin STUDY_HASH THRESHOLD KEY KEY KEY

An independent reader of what `hedgerow study run` writes: it shares no line with the product. It
checks form, signatures, contexts, masks, certificates, commitments, the root over all rounds and
each site's last word, and gives the sums. It does not run a method over them. For the complete
graph of masks.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from spec.one_round import AT_ONCE, IN_TWO, H, added, fold, ids, interpolate, require, uint

MASKED, SIGNED_SET, SHARES, CLOSED, COORDINATOR = 4, 6, 8, 13, 2**16 - 1
NO_SESSION = bytes(32)
Opened = tuple[list[int], tuple[int, ...]]


class Study(NamedTuple):
    """What a reader has to know."""

    hash: bytes
    threshold: int
    keys: tuple[bytes, ...]  # by site: an Ed25519 key and the hash of an ML-DSA-65 key

    def signer(self, site: int) -> Ed25519PublicKey:
        return Ed25519PublicKey.from_public_bytes(self.keys[site][:32])


class Cursor:
    """Bytes from left to right, and not one that is not there."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def take(self, size: int) -> bytes:
        require(0 <= size <= self.left, "BadMessage")
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def blob(self) -> bytes:
        return self.take(self.number(4))

    def sites(self) -> tuple[int, ...]:
        found = tuple(self.number(2) for _ in range(self.number(2)))
        require(found == tuple(sorted(set(found))), "BadMessage")
        return found

    def table(self, width: int) -> dict[int, bytes]:
        rows = [(self.number(2), self.take(width)) for _ in range(self.number(2))]
        require([k for k, _ in rows] == sorted({k for k, _ in rows}), "BadMessage")
        return dict(rows)

    @property
    def left(self) -> int:
        return len(self.data) - self.at


class Message(NamedTuple):  # of a site, as a transcript shows it, its signature checked
    kind: int
    run: bytes
    session: bytes
    round: int
    sender: int
    spent: str
    body: bytes
    digest: bytes


def message(data: bytes, study: Study) -> Message:
    c = Cursor(data)
    version, kind, hashed, run = c.number(1), c.number(1), c.take(32), c.take(16)
    session, number, sender, receiver = c.take(32), c.number(8), c.number(2), c.number(2)
    spent = c.take(c.number(2))
    begin, ledger = data[: c.at], c.take(32)
    body, signature = c.take(c.left - 64), c.take(64)
    require((version, hashed, receiver) == (3, study.hash, COORDINATOR), "BadMessage")
    require(sender < len(study.keys), "UnknownKey")
    signed = H("site", ledger, H("rest", begin, H("body", body)))
    check(study.signer(sender), signature, signed)
    place = (kind, run, session, number, sender, spent.decode("ascii"))
    return Message(*place, body, H("message", data))


def check(key: Ed25519PublicKey | MLDSA65PublicKey, signature: bytes, signed: bytes) -> None:
    try:
        key.verify(signature, signed)
    except InvalidSignature:
        raise ValueError("BadSignature") from None


# ------------------------------------------------------------------------------------------ rounds
class Round(NamedTuple):
    number: int
    attempt: int
    is_void: bool
    mode: int
    questions: bytes
    definitions: bytes
    participants: tuple[int, ...]
    messages: tuple[Message, ...]

    def of(self, kind: int) -> dict[int, Message]:
        found = [m for m in self.messages if m.kind == kind]
        require(len({m.sender for m in found}) == len(found), "BadMessage")
        return {m.sender: m for m in found}

    @property
    def leaf(self) -> bytes:
        listed = sorted((m.sender, m.kind, m.digest) for m in self.messages)
        parts = b"".join(uint(site, 2) + bytes((kind,)) + d for site, kind, d in listed)
        asked = H("questions", self.questions, self.definitions)
        place = uint(self.number, 8), bytes((self.is_void, self.mode)), asked
        return H("leaf", *place, ids(self.participants), parts)


def read_round(data: bytes, study: Study) -> Round:
    c = Cursor(data)
    number, attempt, void, mode = c.number(8), c.number(4), c.number(1), c.number(1)
    require(void in (0, 1) and mode in (IN_TWO, AT_ONCE), "BadMessage")
    asked, who, messages = (c.blob(), c.blob()), c.sites(), list[Message]()
    while c.left:
        messages.append(message(c.blob(), study))
        require(messages[-1].round == number, "BadMessage")
    return Round(number, attempt, void == 1, mode, *asked, who, tuple(messages))


class Vector(NamedTuple):  # what a MASKED message holds
    values: list[int]
    selections: list[int]
    commitment: bytes
    sealed: dict[int, bytes]


def vector(m: Message, mode: int, ctx: bytes) -> Vector:
    c = Cursor(m.body)
    size = c.number(8)
    values = list(struct.unpack(f"<{size}Q", c.take(8 * size)))
    selections = [c.number(4) for _ in range(c.number(4))]
    require(c.take(32) == ctx, "BadMessage")  # who was told another story
    commitment, sealed = (c.take(32), c.table(112)) if mode == IN_TWO else (b"", {})
    require(c.left == 0, "BadMessage")
    return Vector(values, selections, commitment, sealed)


def good_share(u: int, w: int, sealed: bytes, given: bytes | None, key: bytes, ctx: bytes) -> bytes:
    """What w has of u's mask if it is as u announced it; nothing else counts, whoever lied."""
    about = ctx + ids((u, w))
    if given is None and sealed[80:] == H("kc", about, key):  # a complaint, with its key
        try:
            given = AESGCM(key).decrypt(bytes(12), sealed[:48], about)
        except InvalidTag:
            return b""
    return given if given is not None and sealed[48:80] == H("cs", about, given) else b""


def open_round(r: Round, session: tuple[bytes, Mapping[int, bytes]], study: Study) -> Opened:
    """The sum and its members; keys of a session need no signature, since contexts hash them."""
    session_id, keys = session
    who = b"".join(uint(site, 2) + keys[site] for site in r.participants)
    asked = H("bundle", bytes((r.mode,)), r.questions)
    ctx = H("ctx", session_id, uint(r.number, 8), asked, who)
    require(all(m.session == session_id for m in r.messages), "BadMessage")
    vectors = {site: vector(m, r.mode, ctx) for site, m in r.of(MASKED).items()}
    members = tuple(sorted(vectors))
    require(set(members) <= set(r.participants) and len(members) >= study.threshold, "TooFew")
    total = added([v.values for v in vectors.values()])
    if r.mode == AT_ONCE:
        require(members == r.participants, "VoidRound")
        *total, first, second = fold(total, [])
        require((first, second) == (0, 0), "MasksLeft")
    else:
        total = unmasked(total, r, vectors, ctx, study)
    return [x - 2**64 if x >= 2**63 else x for x in total], members


def unmasked(
    total: Sequence[int], r: Round, vectors: Mapping[int, Vector], ctx: bytes, study: Study
) -> list[int]:
    """In two: a certificate if somebody is lost, then shares of self-masks, seeds to the lost."""
    members, lost = sorted(vectors), set(r.participants) - set(vectors)
    signed = H("set", ctx, ids(members))
    if lost:
        signers = r.of(SIGNED_SET)
        require(len(signers) >= study.threshold and set(signers) <= set(members), "BadCertificate")
        for site, m in signers.items():
            check(study.signer(site), m.body, signed)
    shares, seeds = dict[int, dict[int, bytes]](), dict[int, dict[int, bytes]]()
    for site, m in r.of(SHARES).items():
        c = Cursor(m.body)
        given, seeds[site] = c.table(32), c.table(32)
        keys = c.table(32) if c.left else {}
        require({*given, *keys} == set(members) and set(seeds[site]) == lost, "BadMessage")
        shares[site] = {site: given[site]} | {
            u: good_share(u, site, vectors[u].sealed[site], given.get(u), keys.get(u, b""), ctx)
            for u in set(members) - {site}
        }
    require(not lost or set(seeds) == set(members), "TooFew")
    left = list[tuple[bytes, int]]()
    for u in members:
        b = b""
        points = {v + 1: int.from_bytes(s[u], "big") for v, s in shares.items() if s[u]}
        for some in (sorted(points), sorted(set(points) - {u + 1})):  # its own is not announced
            if len(some) >= study.threshold and H("commit", ctx, b) != vectors[u].commitment:
                b = uint(interpolate({x: points[x] for x in some[: study.threshold]}, 0), 32)
        require(H("commit", ctx, b) == vectors[u].commitment, "BadShares")
        left.append((H("self", ctx, b), -1))
        left += [(seeds[u][v], -1 if u < v else 1) for v in lost]
    return fold(total, left)


# ---------------------------------------------------------------------------------- the whole file
def tree_root(leaves: Sequence[bytes]) -> bytes:
    level = list(leaves) or [bytes(32)]
    while len(level) > 1:
        pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
        level = [H("node", *pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return level[0]


def last_word(m: Message, root: bytes, rounds: Mapping[int, Round], study: Study) -> int:
    """How many rounds the study was charged in all its runs, by a site's own word."""
    c = Cursor(m.body)
    require((m.kind, m.session, m.round, c.take(32)) == (CLOSED, NO_SESSION, 0, root), "BadMessage")
    charged, n = c.number(8), c.number(4)
    listed = {(c.number(8), c.number(1)): c.take(32) for _ in range(n)}
    content = m.body[: c.at]
    key, signature = c.blob(), c.blob()
    require(c.left == 0 and H("mldsa", key) == study.keys[m.sender][32:], "BadSignature")
    who = study.hash, m.run, uint(m.sender, 2), m.spent.encode()
    check(MLDSA65PublicKey.from_public_bytes(key), signature, H("closed", *who, content))
    for number, r in rounds.items():
        for one in r.messages:
            if one.sender == m.sender:
                require(listed.get((number, one.kind)) == one.digest, "NeverSent")
    require({number for number, _ in listed} <= set(rounds), "NotShown")
    return charged


class Whole(NamedTuple):
    root: bytes
    sums: dict[int, Opened]  # of rounds that are not void
    charged: dict[int, int]  # by site that has closed: rounds of all runs


def verify(data: bytes, study: Study) -> Whole:
    """Refuses with a constant code, as a ValueError."""
    epochs, rounds = dict[int, tuple[bytes, dict[int, bytes]]](), dict[int, Round]()
    closed = list[bytes]()
    whole = Cursor(data)
    while whole.left:
        tag, content = whole.take(1), whole.take(whole.number(8))
        c = Cursor(content)
        if tag == b"E":
            attempt, session_id = c.number(4), c.take(32)
            epochs[attempt] = session_id, c.table(32)
        elif tag == b"R":
            r = read_round(content, study)
            rounds[r.number] = r
        else:
            require(tag == b"C", "BadMessage")
            closed = []
            while c.left:
                closed.append(c.blob())
    require(sorted(rounds) == list(range(1, len(rounds) + 1)), "NotShown")
    require(len({m.run for r in rounds.values() for m in r.messages}) <= 1, "BadMessage")
    root = tree_root([rounds[number].leaf for number in sorted(rounds)])
    opened = [r for r in rounds.values() if not r.is_void]
    require(all(r.attempt in epochs for r in rounds.values()), "NotShown")
    sums = {r.number: open_round(r, epochs[r.attempt], study) for r in opened}
    words = [message(one, study) for one in closed]
    return Whole(root, sums, {m.sender: last_word(m, root, rounds, study) for m in words})


def main(path: str, study_hash: str, threshold: str, *keys: str) -> None:
    study = Study(bytes.fromhex(study_hash), int(threshold), tuple(map(bytes.fromhex, keys)))
    whole = verify(Path(path).read_bytes(), study)
    sums = [f"round {k}: {len(x)} integers over sites {who}" for k, (x, who) in whole.sums.items()]
    words = [f"site {k} has closed; charged for {n} rounds" for k, n in whole.charged.items()]
    print(f"root {whole.root.hex()}", *sums, *words, sep="\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
