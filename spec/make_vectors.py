"""Writes the vectors of the spec, `python -m spec`: the same bytes whenever it is run.

Good ones hold every secret, row and message of a run. `bad.json` holds a run of two rounds, and
letters that somebody must refuse: `at` says instead of which message of the run it comes, `code`
with what it is refused. All bytes are in hexadecimal.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from spec import one_choice as choice
from spec import one_round as spec

HERE = Path(__file__).parent / "vectors"
COLUMNS = (("age", 0.0, 110.0), ("bmi", 10.0, 60.0))
LIFETIME = Fraction(10)


def drawn(label: str, length: int) -> bytes:
    """Public, and thus no secret at all."""
    return hashlib.shake_256(label.encode()).digest(length)


class Play(NamedTuple):
    """One run: its parties, what they were given, and what the rounds gave."""

    world: spec.World
    epoch_rand: list[bytes]
    rows: list[list[spec.Row]]
    rounds: list[dict[str, Any]]


def begin(name: str, rows: list[list[spec.Row]], **changed: Any) -> Play:
    """Three sites that have approved a study and opened an epoch."""
    secrets = [drawn(f"{name} identity {k}", 32) for k in range(4)]
    pairs = [Ed25519PrivateKey.from_private_bytes(secret) for secret in secrets]
    keys = tuple(pair.public_key().public_bytes_raw() for pair in pairs)
    numbers = (Fraction(1), Fraction(0), 3, 1, 3, 1, Fraction(1, 20), 5, 10, Fraction(1, 2), 10, 7)
    study = spec.Study(*numbers, name, COLUMNS, ("no", "yes"), keys[:3], keys[3])
    study = study._replace(**changed)
    ledgers = [approved(study, secret) for secret in secrets[:3]]
    world = spec.World(study, secrets, drawn(f"{name} run", 16), ledgers, [()] * 3, [])
    epoch_rand = [drawn(f"{name} epoch {k}", 64) for k in range(3)]
    return Play(spec.open_epoch(world, epoch_rand), epoch_rand, rows, [])


def approved(study: spec.Study, secret: bytes) -> spec.Ledger:
    """A site's people set a limit for all studies, then let this one spend its epsilon."""
    limits = {"limit": spec.ratio(LIFETIME), "delta": "0/1", "unit": ""}
    ledger = spec.append((), secret, "LifetimeSet", measure="PURE", **limits)
    named = {"study": spec.study_hash(study).hex(), "name": study.name, "measure": "PURE"}
    cap = spec.ratio(study.epsilon)
    return spec.append(ledger, secret, "Approved", **named, cap=cap, delta="0/1")


def ask(play: Play, query: str = "histogram", lost: Sequence[int] = ()) -> None:
    """One more round."""
    study, number = play.world.study, len(play.rounds) + 1
    make = spec.histogram_question if query == "histogram" else choice.choice_question
    question = make(study)
    rand = [drawn(f"{study.name} round {number} {k}", 32 * (1 + study.threshold)) for k in range(3)]
    total, members, picks = spec.secure_round(play.world, number, question, play.rows, rand, lost)
    answers = [question[3](r, spec.tape(x[:32]))[0] for r, x in zip(play.rows, rand, strict=True)]
    play.rounds.append(
        {
            "query": query,
            "questions": question[0].hex(),
            "definitions": question[1].hex(),
            "words": question[2],
            "lost": list(lost),
            "rand": [r.hex() for r in rand],
            "counts": [spec.histograms(study, rows) for rows in play.rows],
            "noisy": answers,
            "members": list(members),
            "sum": total,
            "picks": [picks[k] for k in members],
            "split": spec.best_split(study, total) if query == "histogram" else None,
        }
    )


def some_rows(name: str, sizes: Sequence[int]) -> list[list[spec.Row]]:
    """Values within and beyond their ranges, on edges and missing; some labels nobody knows."""

    def row(site: int, i: int) -> spec.Row:
        a, b, c = drawn(f"{name} row {site} {i}", 3)
        age, bmi = (a - 10) / 2, None if b < 20 else 10.0 + 5.0 * (b % 11)
        label = "unknown" if c < 8 else "yes" if (age > 55) != (c < 30) else "no"
        return (age, bmi), label

    return [[row(site, i) for i in range(size)] for site, size in enumerate(sizes)]


def good() -> dict[str, Play]:
    three = begin("three_sites", some_rows("three_sites", (60, 80, 70)))
    ask(three)
    lost = begin("one_lost", some_rows("one_lost", (90, 80, 70)), threshold=2)
    ask(lost, lost=(2,))
    empty = begin("one_empty", some_rows("one_empty", (90, 0, 120)))
    ask(empty)
    asks = (choice.ASKS, *spec.Study._field_defaults["asks"])
    chosen = begin("private_choice", some_rows("private_choice", (50, 60, 70)), asks=asks)
    ask(chosen, "choice")
    return {play.world.study.name: play for play in (three, lost, empty, chosen)}


# ------------------------------------------------------------------------------------ bad letters
HEADER = (
    ("version", 1), ("kind", 1), ("study", 32), ("run", 16), ("epoch", 32), ("round", 8),
    ("sender", 2), ("receiver", 2), ("length of spent", 2), ("spent", -1), ("seq", 8), ("head", 32),
)  # fmt: skip


def layout(message: bytes) -> dict[str, tuple[int, int]]:
    """Where each field of a message begins and ends."""
    found, at = dict[str, tuple[int, int]](), 0
    for name, width in HEADER:
        end = at + (width if width >= 0 else int.from_bytes(message[94:96], "big"))
        found[name], at = (at, end), end
    return found | {"body": (at, len(message) - 64), "signature": (len(message) - 64, len(message))}


def flipped(message: bytes, bit_of: int) -> bytes:
    """The last bit of one byte is another."""
    return message[:bit_of] + bytes([message[bit_of] ^ 1]) + message[bit_of + 1 :]


def parts(message: bytes) -> tuple[bytes, bytes]:
    start, end = layout(message)["body"]
    return message[:start], message[start:end]


class Bad(NamedTuple):
    name: str
    at: int
    kind: str
    site: int
    message: bytes
    code: str


class Letters(NamedTuple):
    """A run, and how to write letters that its parties could really send."""

    play: Play

    def place(self, kind: str, site: int, number: int = 1) -> int:
        """Of a message among all of the run."""
        places = [i for i, m in enumerate(self.play.world.messages) if m[:2] == (kind, site)]
        return places[number - 1]

    def sent(self, kind: str, site: int, number: int = 1) -> bytes:
        return self.play.world.messages[self.place(kind, site, number)][2]

    def signed(self, header: bytes, body: bytes, signer: int = -1) -> bytes:
        role = "coordinator" if signer == -1 else "site"
        return spec.seal(self.play.world.secrets[signer], header, body, role)

    def with_body(self, kind: str, site: int, body: bytes, number: int = 1) -> bytes:
        signer = site if kind in spec.FROM_SITES else -1
        return self.signed(parts(self.sent(kind, site, number))[0], body, signer)


def flips(letters: Letters) -> Iterator[Bad]:
    """One bit of each field of each kind of letter, as a stranger on the way could do it."""
    for kind in (*spec.FROM_COORDINATOR, *spec.FROM_SITES):
        if kind == "KEYS":  # travels inside OPEN, see `bad_epochs`
            continue
        by_site, message = kind in spec.FROM_SITES, letters.sent(kind, 0)
        first = {"version", "kind", "study", "length of spent", "" if by_site else "sender"}
        if kind == "JOIN":  # no entry, no head: one without the other is no ledger
            first |= {"seq", "head"}
        for name, (start, end) in layout(message).items():
            if start < end:
                code = "BadMessage" if name in first else "BadSignature"
                bad = flipped(message, end - 1)
                yield Bad(
                    f"{kind}: a flipped bit of {name}", letters.place(kind, 0), kind, 0, bad, code
                )


def lies(letters: Letters) -> Iterator[Bad]:
    """One bit of each field of ROUND, as a coordinator that lies can sign it."""
    header, body = parts(letters.sent("ROUND", 0))
    at, places = letters.place("ROUND", 0), layout(letters.sent("ROUND", 0))
    codes = {
        "version": "BadMessage", "kind": "BadMessage", "study": "BadMessage",
        "run": "RunSuperseded", "epoch": "UnknownKey", "round": "OldRound",
        "sender": "BadMessage", "receiver": "BadMessage", "length of spent": "BadMessage",
        "seq": "LedgerRolledBack", "head": "LedgerRolledBack",
    }  # fmt: skip
    for name, code in codes.items():
        lie = letters.signed(flipped(header, places[name][1] - 1), body)
        yield Bad(f"ROUND: the coordinator lies about {name}", at, "ROUND", 0, lie, code)
    questions = 4 + int.from_bytes(body[:4], "big")
    spots = {
        "the length of the questions": (3, "BadMessage"),
        "the spelling of the questions": (4, "BadMessage"),
        "the length of the definitions": (questions + 3, "BadMessage"),
        "a definition": (body.index(b"[[0", questions) + 2, "UnknownName"),
        "how many take part": (len(body) - 7, "BadMessage"),
        "who takes part": (len(body) - 1, "BadSet"),
    }
    for name, (spot, code) in spots.items():
        lie = letters.signed(header, flipped(body, spot))
        yield Bad(f"ROUND: the coordinator lies about {name}", at, "ROUND", 0, lie, code)


def bad_epochs(letters: Letters) -> Iterator[Bad]:
    shown, at = [letters.sent("KEYS", k) for k in range(3)], letters.place("OPEN", 0)

    def opening(keys: Sequence[bytes]) -> bytes:
        body = spec.uint(len(keys), 2) + b"".join(map(spec.blob, keys))
        return letters.with_body("OPEN", 0, body)

    own_key = parts(shown[0])[1][4:36]
    head, body = parts(shown[1])
    twin = letters.signed(head, body[:4] + own_key + body[36:], 1)
    weak = letters.signed(head, body[:4] + bytes(32) + body[36:], 1)
    rows = {
        "a peer's key with a flipped bit": (
            [shown[0], flipped(shown[1], len(head) + 4), shown[2]],
            "BadSignature",
        ),
        "without this site's own": ([shown[1], shown[2]], "UnknownKey"),
        "a site twice": ([shown[0], shown[1], shown[1]], "DuplicateKey"),
        "a peer that echoes this site's key": ([shown[0], twin, shown[2]], "DuplicateKey"),
        "fewer than the threshold": ([shown[0]], "TooFew"),
        "keys of another epoch": ([shown[0], shown[1]], "BadMessage"),
    }
    for name, (keys, code) in rows.items():
        yield Bad(f"OPEN: {name}", at, "OPEN", 0, opening(keys), code)
    keys = [shown[0], weak, shown[2]]
    header, _ = parts(opening(keys))
    study, run = spec.study_hash(letters.play.world.study), letters.play.world.run_id
    first, last = layout(opening(keys))["epoch"]
    header = header[:first] + spec.H("epoch", study, run, *keys) + header[last:]
    body = spec.uint(3, 2) + b"".join(map(spec.blob, keys))
    yield Bad("OPEN: a weak key", at, "OPEN", 0, letters.signed(header, body), "WeakKey")


def bad_rounds(letters: Letters) -> Iterator[Bad]:
    """What a site that was asked honestly in a good round must not be asked."""
    study, at = letters.play.world.study, letters.place("ROUND", 0)
    questions, definitions, _, _ = spec.histogram_question(study)
    other = choice.choice_question(study)

    def asked(asks: bytes, names: bytes, who: Sequence[int]) -> bytes:
        body = spec.blob(asks) + spec.blob(names) + spec.uint(len(who), 2) + spec.ids(who)
        return letters.with_body("ROUND", 0, body)

    alone, others = asked(questions, definitions, [0]), asked(questions, definitions, [1, 2])
    yield Bad("ROUND: of one site", at, "ROUND", 0, alone, "TooFew")
    yield Bad("ROUND: of the others", at, "ROUND", 0, others, "BadSet")
    strange = asked(*other[:2], range(3))
    yield Bad("ROUND: a query that the method never asks", at, "ROUND", 0, strange, "PolicyRefused")
    after = letters.place("SURVIVORS", 0)
    again = asked(*other[:2], range(3))
    yield Bad("replay: another question in a used round", after, "ROUND", 0, again, "RoundIdUsed")
    fewer = asked(questions, definitions, [0, 1])
    yield Bad("replay: other participants in a used round", after, "ROUND", 0, fewer, "RoundIdUsed")
    header, _ = parts(letters.sent("ROUND", 0))
    kind = spec.uint(spec.FROM_COORDINATOR["SURVIVORS"], 1)
    early = letters.signed(header[:1] + kind + header[2:], spec.uint(2, 2) + spec.ids((0, 1)))
    yield Bad("SURVIVORS: before the round", at, "SURVIVORS", 0, early, "OldRound")
    attempt = letters.with_body("JOIN", 0, spec.uint(0, 4))
    yield Bad("replay: an invitation of the past", at, "JOIN", 0, attempt, "OldRound")
    end = len(letters.play.world.messages)
    header, body = parts(letters.sent("ROUND", 0, 2))
    first, last = layout(header + body + bytes(64))["round"]
    third = letters.signed(header[:first] + spec.uint(3, 8) + header[last:], body)
    yield Bad("ROUND: beyond the budget", end, "ROUND", 0, third, "BudgetRefused")
    yield Bad(
        "ROUND: a head that the site never had",
        end,
        "ROUND",
        0,
        _ahead(third, letters),
        "LedgerRolledBack",
    )


def _ahead(message: bytes, letters: Letters) -> bytes:
    """The coordinator holds a head of the site's future."""
    header, body = parts(message)
    return letters.signed(header[:-40] + spec.uint(99, 8) + bytes([1]) * 32, body)


def bad_sets(letters: Letters) -> Iterator[Bad]:
    """Sites 0 and 1 survive round 1; its set is signed once and opened with a certificate."""
    w, at = letters.play.world, letters.place("SURVIVORS", 0)
    ctx = spec.context(w.epoch_id, 1, bytes.fromhex(letters.play.rounds[0]["questions"]), w.publics)

    def named(*members: int) -> bytes:
        return spec.uint(len(members), 2) + spec.ids(members)

    def signature(site: int, *members: int) -> bytes:
        return spec.sign(w.secrets[site], spec.H("set", ctx, spec.ids(members)))

    def sealed(*members: int) -> bytes:
        """The shares that these sites sealed for site 0 stand last in their MASKED."""
        found = dict[int, bytes]()
        for u in members:
            body = parts(letters.sent("MASKED", u))[1]
            found[u] = body[-100:][2 : 2 + 48] if body[-100:][:2] == spec.ids([0]) else b""
        return spec.table(found)

    def survivors(*members: int) -> bytes:
        return letters.with_body("SURVIVORS", 0, named(*members))

    def unmask(members: Sequence[int], signers: dict[int, bytes], shares: bytes) -> bytes:
        return letters.with_body("UNMASK", 0, named(*members) + spec.table(signers) + shares)

    yield Bad("SURVIVORS: one", at, "SURVIVORS", 0, survivors(0), "TooFew")
    yield Bad("SURVIVORS: the others", at, "SURVIVORS", 0, survivors(1, 2), "BadSet")
    yield Bad("SURVIVORS: a stranger", at, "SURVIVORS", 0, survivors(0, 3), "BadSet")
    yield Bad("SURVIVORS: in no order", at, "SURVIVORS", 0, survivors(1, 0), "BadMessage")
    at = letters.place("UNMASK", 0)
    everyone, both = unmask((0, 1, 2), {}, sealed(1, 2)), (0, 1)
    yield Bad(
        "second set: of all, to be signed", at, "SURVIVORS", 0, survivors(0, 1, 2), "SecondSet"
    )
    yield Bad(
        "second set: of others, to be signed", at, "SURVIVORS", 0, survivors(0, 2), "SecondSet"
    )
    yield Bad("second set: of all, to be opened", at, "UNMASK", 0, everyone, "SecondSet")
    certificate = {0: signature(0, 0, 2), 2: signature(2, 0, 2)}
    other = unmask((0, 2), certificate, sealed(2))
    yield Bad("second set: with a certificate", at, "UNMASK", 0, other, "SecondSet")
    mine, yours = signature(0, *both), signature(1, *both)
    certificates = {
        "one signature": {0: mine},
        "a flipped bit": {0: mine, 1: flipped(yours, 0)},
        "a signature on another set": {0: mine, 1: signature(1, 0, 1, 2)},
        "a signature of a site that is no member": {0: mine, 2: signature(2, *both)},
        "none": {},
    }
    for name, signers in certificates.items():
        bad = unmask(both, signers, sealed(1))
        yield Bad(f"certificate: {name}", at, "UNMASK", 0, bad, "BadCertificate")
    signers, share = {0: mine, 1: yours}, sealed(1)
    shares = {
        "a flipped bit": flipped(share, len(share) - 1),
        "none": spec.table({}),
        "of a site that is no member": sealed(1, 2),
    }
    for name, some in shares.items():
        yield Bad(f"share: {name}", at, "UNMASK", 0, unmask(both, signers, some), "BadShare")
    at, past = letters.place("UNMASK", 0, 2), named(0, 1, 2) + spec.table({}) + sealed(1, 2)
    bad = letters.with_body("UNMASK", 0, past, number=2)
    yield Bad("share: of another round", at, "UNMASK", 0, bad, "BadShare")


def bad_answers(letters: Letters) -> Iterator[Bad]:
    """What a site can sign and the coordinator must not take."""
    at, body = letters.place("MASKED", 0), parts(letters.sent("MASKED", 0))[1]
    vector = 8 + 8 * int.from_bytes(body[:8], "big")
    spots = {
        "the length of its vector": (7, "BadMessage"),
        "the number of its picks": (vector + 3, "BadMessage"),
        "how many shares it sealed": (len(body) - 101, "BadMessage"),
        "for whom a share is": (len(body) - 49, "BadMessage"),
    }
    for name, (spot, code) in spots.items():
        lie = letters.with_body("MASKED", 0, flipped(body, spot))
        yield Bad(f"MASKED: a site lies about {name}", at, "MASKED", 0, lie, code)
    at, body = letters.place("SIGNED_SET", 0), parts(letters.sent("SIGNED_SET", 0))[1]
    lie = letters.with_body("SIGNED_SET", 0, flipped(body, 63))
    yield Bad("SIGNED_SET: not its signature", at, "SIGNED_SET", 0, lie, "BadCertificate")
    at, body = letters.place("SHARES", 0), parts(letters.sent("SHARES", 0))[1]
    for name, spot in {"for whom a share is": 3, "towards whom a seed is": len(body) - 33}.items():
        lie = letters.with_body("SHARES", 0, flipped(body, spot))
        yield Bad(f"SHARES: a site lies about {name}", at, "SHARES", 0, lie, "BadMessage")


def bad() -> tuple[Play, list[Bad]]:
    """Each round costs two fifths: the third is one too many."""
    rows = some_rows("bad", (20, 30, 25))
    few = {"max_depth": 1, "leaf_share": Fraction(3, 5), "retry_reserve": Fraction(0)}
    play = begin("bad", rows, threshold=2, n_bins=3, **few)
    ask(play, lost=(2,))
    ask(play)
    makers = (flips, lies, bad_epochs, bad_rounds, bad_sets, bad_answers)
    return play, [row for make in makers for row in make(Letters(play))]


# ---------------------------------------------------------------------------------------- to JSON
def plain(play: Play) -> dict[str, Any]:
    w = play.world
    return {
        "study": spec.content(w.study),
        "study_hash": spec.study_hash(w.study).hex(),
        "cost": str(spec.cost(w.study)),
        "l1_sensitivity": spec.l1_sensitivity(w.study),
        "noise_rate": str(spec.noise_rate(w.study)),
        "identities": [secret.hex() for secret in w.secrets],
        "run_id": w.run_id.hex(),
        "epoch_rand": [r.hex() for r in play.epoch_rand],
        "epoch_id": w.epoch_id.hex(),
        "rows": play.rows,
        "rounds": play.rounds,
        "messages": [[kind, site, message.hex()] for kind, site, message in w.messages],
        "ledgers": [
            [[event, head.hex(), signature.hex()] for event, head, signature in ledger]
            for ledger in w.ledgers
        ],
        "statement": spec.statement(w.study, w.ledgers),
    }


def all_vectors() -> dict[str, Any]:
    found: dict[str, Any] = {name: plain(play) for name, play in good().items()}
    play, rows = bad()
    letters = [row._asdict() | {"message": row.message.hex()} for row in rows]
    return found | {"bad": plain(play) | {"letters": letters}}


def spelled(content: dict[str, Any]) -> str:
    """JSON with a line for each key, and one for each entry of a list of lists or tables."""

    def value(part: Any) -> str:
        if isinstance(part, list) and part and isinstance(part[0], list | dict):
            return "[\n" + ",\n".join(json.dumps(entry) for entry in part) + "\n]"
        return json.dumps(part)

    lines = [f"{json.dumps(key)}: {value(part)}" for key, part in content.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> None:
    HERE.mkdir(exist_ok=True)
    for name, content in all_vectors().items():
        (HERE / f"{name}.json").write_text(spelled(content))


if __name__ == "__main__":
    main()
