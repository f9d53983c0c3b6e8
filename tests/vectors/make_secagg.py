"""Writes the test vectors of the secure sum beside this file: python tests/vectors/make_secagg.py

Good ones hold every draw of randomness and every message of a round, in order, so that
another implementation can be compared byte for byte. Bad ones hold a message, where in a good
round it arrives, and the code it is refused with. All numbers of bytes are in hexadecimal.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from hedgerow.secagg.envelope import EMPTY_LEDGER, NO_EPOCH, Envelope, MessageKind, seal_message
from hedgerow.secagg.graph import Parameters
from hedgerow.secagg.keys import COORDINATOR
from hedgerow.secagg.messages import Join, Keys, Masked, Open, Round, Survivors, Unmask
from hedgerow.secagg.opening import set_digest
from support.secagg_rehearsal import (
    STUDY,
    Consortium,
    answer,
    consortium,
    head,
    ring_sum,
    some_vectors,
)

HERE = Path(__file__).parent
LOST = 2
POINT = bytes([9]) * 32


class Recorded:
    """Fixed randomness that remembers what it gave. Never use such a thing for real sums."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.draws: list[bytes] = []

    def __call__(self, length: int) -> bytes:
        seed = f"{self.name} {len(self.draws)}".encode()
        self.draws.append(hashlib.shake_256(seed).digest(length))
        return self.draws[-1]


class Play:
    """One epoch and one round, every message noted."""

    def __init__(self, name: str, parameters: Parameters, lost: tuple[int, ...]) -> None:
        self.lost, self.log = lost, list[dict[str, Any]]()
        self.group = consortium(
            parameters.parties, parameters, entropy=Recorded(f"{name} all"), opened=False
        )
        self.sources = [Recorded(f"{name} site {me}") for me in range(parameters.parties)]
        for site, source in zip(self.group.sites, self.sources, strict=True):
            site._entropy = site._membership._entropy = source
        self.vectors = some_vectors(parameters.parties, dim=4)
        self.keys: list[bytes] = []

    def note(self, sender: int, receiver: int, message: bytes) -> bytes:
        kind = Envelope.parse(message).header.kind.name
        self.log.append({"kind": kind, "from": sender, "to": receiver, "message": message.hex()})
        return message

    def exchange(
        self, letters: dict[int, bytes], step: Callable[[int, bytes], bytes]
    ) -> list[bytes]:
        replies = []
        for me, letter in letters.items():
            self.note(-1, me, letter)
            replies.append(self.note(me, -1, step(me, letter)))
        return replies

    def join(self) -> None:
        letters = self.group.coordinator.join()
        self.keys = self.exchange(
            letters, lambda me, m: self.group.sites[me].join(m, lambda: EMPTY_LEDGER)
        )

    def open(self) -> None:
        for me, message in self.group.coordinator.open(self.keys).items():
            self.group.sites[me].open(self.note(-1, me, message))

    def mask(self) -> None:
        self.secure = self.group.coordinator.start(b"bundle", 4, picks=2)
        requests = self.secure.requests({0: b"a definition"})
        self.masked = self.exchange(
            requests, lambda me, m: answer(self.group, me, m, self.vectors[me], picks_of(me))
        )
        for me, message in enumerate(self.masked):
            if me not in self.lost:
                self.secure.accept_masked(message)

    def sign(self) -> None:
        letters = self.secure.close()
        for reply in self.exchange(letters, lambda me, m: self.group.sites[me].sign_set(m)):
            self.secure.accept_signature(reply)

    def unmask(self) -> None:
        letters = self.secure.unmask()
        for reply in self.exchange(letters, lambda me, m: self.group.sites[me].unmask(m)):
            self.secure.accept_shares(reply)


def picks_of(me: int) -> tuple[int, ...]:
    return (me, 2**32 - 1 - me)


def good(name: str, parties: int, colluders: int, threshold: int, lost: tuple[int, ...]) -> dict:
    parameters = Parameters(parties=parties, colluders=colluders, threshold=threshold)
    play = Play(name, parameters, lost)
    for step in (play.join, play.open, play.mask, play.sign, play.unmask):
        step()
    opened = play.secure.opened()
    assert opened.values.tolist() == ring_sum(play.vectors, opened.members).tolist()
    return {
        "parties": parties,
        "colluders": colluders,
        "threshold": threshold,
        "study_hash": STUDY.hex(),
        "identities": [identity.to_bytes().hex() for identity in play.group.identities],
        "run_id": play.group.coordinator.run_id.hex(),
        "bundle": b"bundle".hex(),
        "definitions": {"0": b"a definition".hex()},
        "picks": [list(picks_of(me)) for me in range(parties)],
        "lost": list(lost),
        "randomness": [[draw.hex() for draw in source.draws] for source in play.sources],
        "vectors": [vector.tolist() for vector in play.vectors],
        "messages": play.log,
        "members": list(opened.members),
        "sum": opened.values.tolist(),
    }


def bad() -> list[dict[str, Any]]:
    """Messages to site 0 in the round of `sum_5_sites_one_lost`, by the step they come after."""
    play = Play("sum_5_sites_one_lost", Parameters(parties=5, colluders=1, threshold=3), (LOST,))
    found = [_row("nothing", "join", *row) for row in _bad_joins(play.group)]
    play.join()
    found += [_row("join", "join", *row) for row in _old_joins(play.group)]
    found += [_row("join", "open", *row) for row in _bad_opens(play)]
    play.open()
    found += [_row("open", "begin", *row) for row in _bad_rounds(play.group)]
    play.mask()
    found += [_row("mask", "begin", *row) for row in _used_rounds(play.group)]
    found += [_row("mask", "unmask", *row) for row in _bad_unmasks(play)]
    play.sign()
    found += [_row("sign", *row) for row in _second_sets(play)]
    return found


def _row(after: str, step: str, name: str, message: bytes, code: str) -> dict[str, Any]:
    return {"name": name, "after": after, "step": step, "message": message.hex(), "code": code}


def _bad_joins(group: Consortium) -> list[tuple[str, bytes, str]]:
    body = Join(1).to_bytes()

    def letter(body: bytes = body, signer: int = -1, **changed: object) -> bytes:
        place: dict[str, object] = {"epoch_id": NO_EPOCH, "round": 0}
        return group.forge(MessageKind.JOIN, body, signer, **(place | changed))

    return [
        ("an invitation of another study", letter(study_hash=bytes(32)), "BadMessage"),
        ("an invitation to somebody else", letter(receiver=1), "BadMessage"),
        ("an invitation signed by a site", letter(signer=1), "BadSignature"),
        ("an invitation into an epoch", letter(epoch_id=STUDY), "BadMessage"),
        ("an invitation to a round", letter(round=1), "BadMessage"),
        ("an attempt of five bytes", letter(body + b"\0"), "BadMessage"),
        ("attempt zero", letter(Join(0).to_bytes()), "RunSuperseded"),
        ("an invitation with a head of the future", letter(ledger=head(0, 5)), "LedgerRolledBack"),
        (
            "an invitation with a position of 64 bits",
            letter(ledger=replace(head(0, 5), seq=2**63)),
            "BadMessage",
        ),
    ]


def _old_joins(group: Consortium) -> list[tuple[str, bytes, str]]:
    def letter(attempt: int, **changed: object) -> bytes:
        place: dict[str, object] = {"epoch_id": NO_EPOCH, "round": 0}
        return group.forge(MessageKind.JOIN, Join(attempt).to_bytes(), **(place | changed))

    return [
        ("an earlier attempt", letter(0), "OldRound"),
        ("the same attempt in another run", letter(1, run_id=bytes(16)), "RunSuperseded"),
    ]


def _bad_opens(play: Play) -> list[tuple[str, bytes, str]]:
    group, keys = play.group, play.keys
    identities = group.identities
    genuine = Envelope.parse(keys[1])
    ephemeral = Keys.read(Envelope.parse(keys[2]).body).ephemeral

    def with_key(point: bytes, signer: int = 1, attempt: int = 1, **changed: object) -> list[bytes]:
        body = Keys(attempt, point, bytes(32), {}).to_bytes()
        header = replace(genuine.header, **changed)
        return [keys[0], seal_message(identities[signer], header, body), *keys[2:]]

    def letter(listed: list[bytes]) -> bytes:
        header = replace(genuine.header, kind=MessageKind.OPEN, sender=COORDINATOR, receiver=0)
        return seal_message(identities[-1], header, Open(tuple(listed)).to_bytes())

    return [
        ("own key left out", letter(keys[1:]), "UnknownKey"),
        ("key signed by somebody else", letter(with_key(POINT, signer=2)), "BadSignature"),
        ("a key of another attempt", letter(with_key(POINT, attempt=2)), "BadMessage"),
        ("a key of another run", letter(with_key(POINT, run_id=bytes(16))), "BadMessage"),
        ("a key to one site alone", letter(with_key(POINT, receiver=0)), "BadMessage"),
        ("one key under two names", letter(with_key(ephemeral)), "DuplicateKey"),
        ("one sender twice", letter([*keys, keys[1]]), "DuplicateKey"),
        ("too few keys", letter(keys[:2]), "TooFew"),
        ("another epoch in the header", letter(keys), "BadMessage"),
    ]


def _bad_rounds(group: Consortium) -> list[tuple[str, bytes, str]]:
    body = Round(b"bundle", (0, 1, 2, 3, 4)).to_bytes()

    def letter(body: bytes = body, signer: int = -1, **changed: object) -> bytes:
        return group.forge(MessageKind.ROUND, body, signer, **changed)

    swapped = body[:-4] + body[-2:] + body[-4:-2]
    return [
        ("another study", letter(study_hash=bytes(32)), "BadMessage"),
        ("another receiver", letter(receiver=1), "BadMessage"),
        ("a round of 64 bits", letter(round=2**63), "BadMessage"),
        ("a position of 64 bits", letter(ledger=replace(head(0, 5), seq=2**63)), "BadMessage"),
        ("another run", letter(run_id=bytes(16)), "RunSuperseded"),
        ("another epoch", letter(epoch_id=bytes(32)), "UnknownKey"),
        ("round zero", letter(round=0), "OldRound"),
        ("another kind", group.forge(MessageKind.UNMASK, body), "BadMessage"),
        ("another version", b"\x01" + letter()[1:], "BadMessage"),
        ("signed by a site", letter(signer=1), "BadSignature"),
        ("sent by a site", letter(signer=1, sender=1, ledger=EMPTY_LEDGER), "UnknownKey"),
        ("one byte more", letter() + b"\0", "BadSignature"),
        ("one byte less", letter()[:-1], "BadSignature"),
        ("a header alone", letter()[:100], "BadMessage"),
        ("a body with one byte more", letter(body + b"\0"), "BadMessage"),
        ("participants out of order", letter(swapped), "BadMessage"),
        ("too few participants", letter(Round(b"bundle", (0, 1)).to_bytes()), "TooFew"),
        ("not a participant", letter(Round(b"bundle", (1, 2, 3)).to_bytes()), "BadSet"),
        ("a stranger", letter(Round(b"bundle", (0, 1, 2, 9)).to_bytes()), "BadSet"),
        ("a head of the future", letter(ledger=head(0, 5)), "LedgerRolledBack"),
    ]


def _used_rounds(group: Consortium) -> list[tuple[str, bytes, str]]:
    other, fewer = Round(b"other", (0, 1, 2, 3, 4)), Round(b"bundle", (0, 1, 2, 3))
    return [
        ("another bundle", group.forge(MessageKind.ROUND, other.to_bytes()), "RoundIdUsed"),
        ("other participants", group.forge(MessageKind.ROUND, fewer.to_bytes()), "RoundIdUsed"),
    ]


def _bad_unmasks(play: Play) -> list[tuple[str, bytes, str]]:
    group, members, everyone = play.group, (0, 1, 3), (0, 1, 2, 3, 4)
    context = group.memories[0].outbox(group.coordinator.run_id, 1).context
    tables = [Masked.read(Envelope.parse(m).body, 4, 2).sealed for m in play.masked]

    def signed(signers: tuple[int, ...], on: tuple[int, ...] = members) -> dict[int, bytes]:
        return {s: group.identities[s].sign(set_digest(context, on)) for s in signers}

    def letter(who: tuple[int, ...], certificate: dict, changed: dict | None = None) -> bytes:
        sealed = {peer: tables[peer][0] for peer in who if peer != 0} | (changed or {})
        return group.forge(MessageKind.UNMASK, Unmask(who, certificate, sealed).to_bytes())

    good = signed(members)
    return [
        ("no certificate", letter(members, {}), "BadCertificate"),
        ("one signature too few", letter(members, signed((0, 1))), "BadCertificate"),
        ("a non-member signs", letter(members, signed((0, 1, 4))), "BadCertificate"),
        ("signatures on another set", letter(members, signed(members, everyone)), "BadCertificate"),
        ("one signature twice", letter(members, good | {3: good[1]}), "BadCertificate"),
        ("a needless certificate", letter(everyone, signed(everyone, everyone)), "BadCertificate"),
        ("two members", letter((0, 1), signed((0, 1), (0, 1))), "TooFew"),
        ("without this site", letter((1, 2, 3), {}), "BadSet"),
        ("a share for somebody else", letter(members, good, {1: tables[1][3]}), "BadShare"),
        ("a share of a non-member", letter(members, good, {2: tables[2][0]}), "BadShare"),
    ]


def _second_sets(play: Play) -> list[tuple[str, str, bytes, str]]:
    group = play.group
    tables = [Masked.read(Envelope.parse(m).body, 4, 2).sealed for m in play.masked]
    survivors = group.forge(MessageKind.SURVIVORS, Survivors((0, 1, 3)).to_bytes())
    everyone = Unmask((0, 1, 2, 3, 4), {}, {p: tables[p][0] for p in (1, 2, 3, 4)})
    return [
        ("sign_set", "a second set to sign", survivors, "SecondSet"),
        (
            "unmask",
            "everybody after a smaller set",
            group.forge(MessageKind.UNMASK, everyone.to_bytes()),
            "SecondSet",
        ),
    ]


def all_vectors() -> dict[str, Any]:
    return {
        "sum_3_sites": good("sum_3_sites", 3, 1, 3, ()),
        "sum_5_sites_one_lost": good("sum_5_sites_one_lost", 5, 1, 3, (LOST,)),
        "sum_bad_messages": bad(),
    }


if __name__ == "__main__":
    for name, content in all_vectors().items():
        (HERE / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")
