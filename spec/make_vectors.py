"""Writes `spec/vectors.zip`, `python -m spec.make_vectors`: the same bytes whenever it is run.

Good ones hold every secret, row and message of a run. `bad.json` holds a run of two rounds, and
messages that somebody must refuse: `at` says instead of which message of the run it comes, `code`
with what it is refused. All bytes are in hexadecimal; `read` gives them whole:

    <m4> in a message stands for message 4 of the run, <h4> for its signed header, <s402> for the
    share that it seals for site 2, <c2> for ciphertext 2, <q0> and <d0> for the questions and the
    definitions of the first round, <t0> for the hash of the study
    a bad message is message `of` with `edits`, the last one first: from where on, how many bytes
    are cut, and what is put there
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PrivateKey

from spec import one_choice as choice
from spec import one_round as spec
from spec import verify_transcript as transcripts

ARCHIVE = Path(__file__).with_name("vectors.zip")
COLUMNS = (("age", 0.0, 110.0), ("bmi", 10.0, 60.0))
LIFETIME = Fraction(10)


def drawn(label: str, length: int) -> bytes:
    """Public, and thus no secret at all."""
    return hashlib.shake_256(label.encode()).digest(length)


class Play(NamedTuple):
    """One run: its sites, what they were given, and what the rounds gave."""

    world: spec.World
    session_rand: list[bytes]
    rows: list[list[spec.Row]]
    rounds: list[dict[str, Any]]


def begin(name: str, rows: list[list[spec.Row]], **changed: Any) -> Play:
    """Sites that have approved a study and opened a key session."""
    n = len(rows)
    secrets = [drawn(f"{name} identity {k}", 32) for k in range(n + 1)]
    keys = tuple(spec.identity(secret) for secret in secrets)
    numbers = (Fraction(1), Fraction(0), n, 1, n, 1, Fraction(1, 20), 5, 10, Fraction(1, 2), 10, 7)
    study = spec.Study(*numbers, name, COLUMNS, ("no", "yes"), keys[:n], keys[n])
    study = study._replace(**changed)
    ledgers = [approved(study, secret) for secret in secrets[:n]]
    world = spec.World(study, secrets, drawn(f"{name} run", 16), ledgers, [()] * n, [])
    session_rand = [drawn(f"{name} key session {k}", 128) for k in range(n)]
    return Play(
        spec.open_session(world, session_rand, capsules(name, session_rand)), session_rand, rows, []
    )


def capsules(name: str, rand: list[bytes]) -> spec.Ciphertexts:
    """Those of the stored vector, if there are any: another draw would be other bytes."""
    known = texts()
    if name not in known:
        return spec.encapsulations(rand)
    return {(u, v): bytes.fromhex(text) for u, v, text in json.loads(known[name])["ciphertexts"]}


def approved(study: spec.Study, secret: bytes) -> spec.Ledger:
    """A site's people set a limit for all studies, then let this one spend its epsilon."""
    limits = {"limit": spec.ratio(LIFETIME), "delta": "0/1", "unit": ""}
    ledger = spec.append((), secret, "LifetimeSet", measure="PURE", **limits)
    named = {"study": spec.study_hash(study).hex(), "name": study.name, "measure": "PURE"}
    cap = spec.ratio(study.epsilon)
    return spec.append(ledger, secret, "Approved", **named, cap=cap, delta="0/1")


def ask(
    play: Play, query: str = "histogram", lost: Sequence[int] = (), mode: int = spec.IN_TWO
) -> None:
    """One more round."""
    study, number = play.world.study, len(play.rounds) + 1
    make = spec.histogram_question if query == "histogram" else choice.choice_question
    question = make(study)
    size = 32 if mode == spec.AT_ONCE else 32 * (1 + study.threshold)
    rand = [drawn(f"{study.name} round {number} {k}", size) for k in range(study.n_sites)]
    total, members, selections = spec.secure_round(
        play.world, number, question, play.rows, rand, lost, mode
    )
    answers = [question[3](r, spec.tape(x[:32]))[0] for r, x in zip(play.rows, rand, strict=True)]
    play.rounds.append(
        {
            "query": query,
            "mode": mode,
            "questions": question[0].hex(),
            "definitions": question[1].hex(),
            "words": question[2],
            "lost": list(lost),
            "rand": [r.hex() for r in rand],
            "counts": [spec.histograms(study, rows) for rows in play.rows],
            "noisy": answers,
            "members": list(members),
            "sum": total,
            "selections": [selections[k] for k in members],
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
    ask(three, mode=spec.AT_ONCE)
    five = begin("five_sites", some_rows("five_sites", (30, 20, 25, 40, 10)), threshold=4)
    ask(five, mode=spec.AT_ONCE)
    ask(five)
    lost = begin("one_lost", some_rows("one_lost", (90, 0, 70)), threshold=2)  # one has no rows
    ask(lost, lost=(2,))
    asks = (choice.ASKS, *spec.Study._field_defaults["asks"])
    chosen = begin("private_choice", some_rows("private_choice", (50, 60, 70)), asks=asks)
    ask(chosen, "choice", mode=spec.AT_ONCE)
    return {play.world.study.name: play for play in (three, five, lost, chosen)}


# ------------------------------------------------------------------------------------ bad messages
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


class Messages(NamedTuple):
    """A run, and how to write messages that its sites could really send."""

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


def flips(messages: Messages) -> Iterator[Bad]:
    """One bit of each field of each kind of message, as a stranger on the way could do it."""
    for kind in (*spec.FROM_COORDINATOR, *spec.FROM_SITES):
        if kind == "KEYS":  # travels inside OPEN, see `bad_sessions`
            continue
        by_site, message = kind in spec.FROM_SITES, messages.sent(kind, 0)
        first = {"version", "kind", "study", "length of spent", "" if by_site else "sender"}
        if kind == "ENCAPS":  # 0/1 is spent, and 0/0 is no number
            first |= {"spent"}
        if kind == "JOIN":  # no entry, no head: one without the other is no ledger
            first |= {"seq", "head"}
        for name, (start, end) in layout(message).items():
            if start < end:
                code = "BadMessage" if name in first else "BadSignature"
                bad = flipped(message, end - 1)
                yield Bad(
                    f"{kind}: a flipped bit of {name}", messages.place(kind, 0), kind, 0, bad, code
                )


def lies(messages: Messages) -> Iterator[Bad]:
    """One bit of each field of ROUND, as a coordinator that lies can sign it."""
    header, body = parts(messages.sent("ROUND", 0))
    at, places = messages.place("ROUND", 0), layout(messages.sent("ROUND", 0))
    codes = {
        "version": "BadMessage", "kind": "BadMessage", "study": "BadMessage",
        "run": "RunSuperseded", "epoch": "UnknownKey", "round": "OldRound",
        "sender": "BadMessage", "receiver": "BadMessage", "length of spent": "BadMessage",
        "seq": "LedgerRolledBack", "head": "LedgerRolledBack",
    }  # fmt: skip
    for name, code in codes.items():
        lie = messages.signed(flipped(header, places[name][1] - 1), body)
        yield Bad(f"ROUND: the coordinator lies about {name}", at, "ROUND", 0, lie, code)
    questions = 5 + int.from_bytes(body[1:5], "big")
    unknown = messages.signed(header, bytes((2,)) + body[1:])
    yield Bad("ROUND: a mode that there is not", at, "ROUND", 0, unknown, "BadMessage")
    spots = {
        "the length of the questions": (4, "BadMessage"),
        "the spelling of the questions": (5, "BadMessage"),
        "the length of the definitions": (questions + 3, "BadMessage"),
        "a definition": (body.index(b"[[0", questions) + 2, "UnknownName"),
        "how many take part": (len(body) - 7, "BadMessage"),
        "who takes part": (len(body) - 1, "BadSet"),
    }
    for name, (spot, code) in spots.items():
        lie = messages.signed(header, flipped(body, spot))
        yield Bad(f"ROUND: the coordinator lies about {name}", at, "ROUND", 0, lie, code)


def bad_sessions(messages: Messages) -> Iterator[Bad]:
    shown, at = [messages.sent("KEYS", k) for k in range(3)], messages.place("OPEN", 0)

    def opening(keys: Sequence[bytes]) -> bytes:
        body = spec.uint(len(keys), 2) + b"".join(map(spec.blob, keys))
        return messages.with_body("OPEN", 0, body)

    own_key = parts(shown[0])[1][4:36]
    head, body = parts(shown[1])
    own_capsule = parts(shown[0])[1][36 : 36 + 1184]
    twin = messages.signed(head, body[:4] + own_key + body[36:], 1)
    second = messages.signed(head, body[:36] + own_capsule + body[36 + 1184 :], 1)
    short = messages.signed(head, body[:36] + body[37:], 1)
    rows = {
        "a peer's key with a flipped bit": (
            [shown[0], flipped(shown[1], len(head) + 4), shown[2]],
            "BadSignature",
        ),
        "without this site's own": ([shown[1], shown[2]], "UnknownKey"),
        "a site twice": ([shown[0], shown[1], shown[1]], "DuplicateKey"),
        "a peer that echoes this site's key": ([shown[0], twin, shown[2]], "DuplicateKey"),
        "a peer that echoes its other key": ([shown[0], second, shown[2]], "DuplicateKey"),
        "a key that is too short": ([shown[0], short, shown[2]], "BadMessage"),
        "fewer than the threshold": ([shown[0]], "TooFew"),
        "keys of another epoch": ([shown[0], shown[1]], "BadMessage"),
    }
    for name, (keys, code) in rows.items():
        yield Bad(f"OPEN: {name}", at, "OPEN", 0, opening(keys), code)
    names = {f"a weak key, {k}": point + body[36:] for k, point in enumerate(WEAK)}
    names["a key that is none"] = body[4:36] + b"\xff" * 1184 + body[36 + 1184 :]
    for name, rest in names.items():
        keys = [shown[0], messages.signed(head, body[:4] + rest, 1), shown[2]]
        header, _ = parts(opening(keys))
        study, run = spec.study_hash(messages.play.world.study), messages.play.world.run_id
        first, last = layout(opening(keys))["epoch"]
        header = header[:first] + spec.H("epoch", study, run, *keys) + header[last:]
        message = messages.signed(header, spec.uint(3, 2) + b"".join(map(spec.blob, keys)))
        yield Bad(f"OPEN: {name}", at, "OPEN", 0, message, "WeakKey")


WEAK = tuple(
    number.to_bytes(32, "little")
    for number in (
        0, 1, 2**255 - 20, 2**255 - 19, 2**255 - 18,
        0x00B8495F16056286FDB1329CEB8D09DA6AC49FF1FAE35616AEB8413B7C7AEBE0,
        0x57119FD0DD4E22D8868E1C58C45C44045BEF839C55B1D0B1248C50A3BC959C5F,
    )
)  # fmt: skip
"""Points of small order on X25519's curve, and spellings of them: RFC 7748, section 6.1."""


def bad_bindings(messages: Messages) -> Iterator[Bad]:
    """Of three sites 0 gives to 1, 1 gives to 2, and 2 gives to 0."""
    at, width = messages.place("BIND", 0), 1120
    body = parts(messages.sent("BIND", 0))[1]
    own = parts(messages.sent("ENCAPS", 0))[1][4:]
    stored = body[4:]
    bodies = {
        "a flipped ciphertext": (flipped(body, 4), "BadKey"),
        "a wrong tag": (flipped(body, len(body) - 1), "BadKey"),
        "the site's own ciphertext": (spec.table({2: own}), "BadKey"),
        "that of another pair": (spec.table({2: parts(messages.sent("BIND", 2))[1][4:]}), "BadKey"),
        "of a site that does not give to it": (spec.table({1: stored}), "BadSet"),
        "of the site itself": (spec.table({0: stored}), "BadSet"),
        "of a stranger": (spec.table({3: stored}), "BadSet"),
        "a ciphertext too short": (body[:-1], "BadMessage"),
        "a byte more": (body + b"\0", "BadMessage"),
        "one twice": (spec.uint(2, 2) + 2 * body[2 : 4 + width], "BadMessage"),
    }
    for name, (wrong, code) in bodies.items():
        yield Bad(f"BIND: {name}", at, "BIND", 0, messages.with_body("BIND", 0, wrong), code)
    asked = messages.place("ROUND", 0)
    header, _ = parts(messages.sent("BIND", 0))
    first, last = layout(messages.sent("BIND", 0))["epoch"]
    other = messages.signed(header[:first] + bytes(32) + header[last:], spec.table({}))
    yield Bad("BIND: are you in another epoch", asked, "BIND", 0, other, "UnknownKey")
    early = messages.with_body("ROUND", 0, parts(messages.sent("ROUND", 0))[1])
    yield Bad("ROUND: before the site is bound", at, "ROUND", 0, early, "BadSet")
    tables: dict[str, dict[int, bytes]] = {"nobody": {}, "another": {2: own}}
    for name, given in tables.items():
        message = messages.with_body("ENCAPS", 0, spec.table(given))
        place = messages.place("ENCAPS", 0)
        yield Bad(f"ENCAPS: for {name}", place, "ENCAPS", 0, message, "BadMessage")


def bad_rounds(messages: Messages) -> Iterator[Bad]:
    """What a site that was asked honestly in a good round must not be asked."""
    study, at = messages.play.world.study, messages.place("ROUND", 0)
    questions, definitions, _, _ = spec.histogram_question(study)
    other = choice.choice_question(study)

    def asked(asks: bytes, names: bytes, who: Sequence[int], mode: int = spec.IN_TWO) -> bytes:
        body = spec.blob(asks) + spec.blob(names) + spec.uint(len(who), 2) + spec.ids(who)
        return messages.with_body("ROUND", 0, bytes((mode,)) + body)

    alone, others = asked(questions, definitions, [0]), asked(questions, definitions, [1, 2])
    yield Bad("ROUND: of one site", at, "ROUND", 0, alone, "TooFew")
    yield Bad("ROUND: of the others", at, "ROUND", 0, others, "BadSet")
    strange = asked(*other[:2], range(3))
    yield Bad("ROUND: a query that the method never asks", at, "ROUND", 0, strange, "PolicyRefused")
    after = messages.place("SURVIVORS", 0)
    again = asked(*other[:2], range(3))
    yield Bad("replay: another question in a used round", after, "ROUND", 0, again, "RoundIdUsed")
    fewer = asked(questions, definitions, [0, 1])
    yield Bad("replay: other participants in a used round", after, "ROUND", 0, fewer, "RoundIdUsed")
    mode = asked(questions, definitions, range(3), spec.AT_ONCE)
    yield Bad("replay: another mode in a used round", after, "ROUND", 0, mode, "RoundIdUsed")
    header, _ = parts(messages.sent("ROUND", 0))
    kind = spec.uint(spec.FROM_COORDINATOR["SURVIVORS"], 1)
    early = messages.signed(header[:1] + kind + header[2:], spec.uint(2, 2) + spec.ids((0, 1)))
    yield Bad("SURVIVORS: before the round", at, "SURVIVORS", 0, early, "OldRound")
    attempt = messages.with_body("JOIN", 0, spec.uint(0, 4))
    yield Bad("replay: an invitation of the past", at, "JOIN", 0, attempt, "OldRound")
    end = len(messages.play.world.messages)
    yield from after_the_fact(messages, end)
    header, body = parts(messages.sent("ROUND", 0, 3))
    first, last = layout(header + body + bytes(64))["round"]
    fourth = messages.signed(header[:first] + spec.uint(4, 8) + header[last:], body)
    yield Bad("ROUND: beyond the budget", end, "ROUND", 0, fourth, "BudgetRefused")
    yield Bad(
        "ROUND: a head that the site never had",
        end,
        "ROUND",
        0,
        _ahead(fourth, messages),
        "LedgerRolledBack",
    )


def long_rounds(messages: Messages) -> Iterator[tuple[str, bytes, str]]:
    """First rounds of very many queries, or of a very long one, which are charged to nobody."""
    questions, definitions, *_ = spec.histogram_question(messages.play.world.study)
    (query,) = json.loads(questions)

    def asked(queries: Sequence[Any]) -> bytes:
        text = json.dumps(queries, sort_keys=True, separators=(",", ":")).encode()
        body = bytes((spec.IN_TWO,)) + spec.blob(text) + spec.blob(definitions)
        return messages.with_body("ROUND", 0, body + spec.uint(3, 2) + spec.ids(range(3)))

    yield "4096 queries, beyond the budget", asked([query] * 4096), "BudgetRefused"
    yield "4097 queries", asked([query] * 4097), "BadMessage"
    by = query["by"] | {"features": [0] * 2**22}
    yield "a query of more than 2^22 values", asked([query | {"by": by}]), "BadMessage"


def bundles() -> dict[str, Any]:
    """Such rounds by the SHA-256 of their messages, which are too long to be kept."""
    rows = long_rounds(Messages(bad()[0]))
    return {"rounds": [[name, hashlib.sha256(text).hexdigest(), code] for name, text, code in rows]}


def after_the_fact(messages: Messages, end: int) -> Iterator[Bad]:
    """Round 3 was opened at once: no set of fewer may be signed or opened, nor that of all."""
    header, _ = parts(messages.sent("ROUND", 0, 3))
    for members in ((0, 1), (0, 1, 2)):
        named = spec.uint(len(members), 2) + spec.ids(members)
        bodies = {"SURVIVORS": named, "UNMASK": named + spec.table({}) + spec.table({})}
        for kind, body in bodies.items():
            head = header[:1] + spec.uint(spec.FROM_COORDINATOR[kind], 1) + header[2:]
            name = f"{kind}: of {len(members)} after a round at once"
            yield Bad(name, end, kind, 0, messages.signed(head, body), "BadSet")


def _ahead(message: bytes, messages: Messages) -> bytes:
    """The coordinator holds a head of the site's future."""
    header, body = parts(message)
    return messages.signed(header[:-40] + spec.uint(99, 8) + bytes([1]) * 32, body)


def bad_sets(messages: Messages) -> Iterator[Bad]:
    """Sites 0 and 1 survive round 1; its set is signed once and opened with a certificate."""
    w, at = messages.play.world, messages.place("SURVIVORS", 0)
    questions = bytes.fromhex(messages.play.rounds[0]["questions"])
    ctx = spec.context(w.session_id, 1, spec.IN_TWO, questions, w.publics)

    def named(*members: int) -> bytes:
        return spec.uint(len(members), 2) + spec.ids(members)

    def signature(site: int, *members: int) -> bytes:
        return spec.sign(w.secrets[site], spec.H("set", ctx, spec.ids(members)))

    def sealed(*members: int) -> bytes:
        """The shares that these sites sealed for site 0 stand last in their MASKED."""
        found = dict[int, bytes]()
        for u in members:
            body = parts(messages.sent("MASKED", u))[1]
            found[u] = body[-228:][2 : 2 + 112] if body[-228:][:2] == spec.ids([0]) else b""
        return spec.table(found)

    def survivors(*members: int) -> bytes:
        return messages.with_body("SURVIVORS", 0, named(*members))

    def unmask(members: Sequence[int], signers: dict[int, bytes], shares: bytes) -> bytes:
        return messages.with_body("UNMASK", 0, named(*members) + spec.table(signers) + shares)

    yield Bad("SURVIVORS: one", at, "SURVIVORS", 0, survivors(0), "TooFew")
    yield Bad("SURVIVORS: the others", at, "SURVIVORS", 0, survivors(1, 2), "BadSet")
    yield Bad("SURVIVORS: a stranger", at, "SURVIVORS", 0, survivors(0, 3), "BadSet")
    yield Bad("SURVIVORS: in no order", at, "SURVIVORS", 0, survivors(1, 0), "BadMessage")
    at = messages.place("UNMASK", 0)
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
    signers = {0: mine, 1: yours}
    shares = {
        "none": spec.table({}),
        "of a site that is no member": sealed(1, 2),
    }
    for name, some in shares.items():
        yield Bad(f"share: {name}", at, "UNMASK", 0, unmask(both, signers, some), "BadShare")


def bad_answers(messages: Messages) -> Iterator[Bad]:
    """What a site can sign and the coordinator must not take."""
    at, body = messages.place("MASKED", 0), parts(messages.sent("MASKED", 0))[1]
    vector = 8 + 8 * int.from_bytes(body[:8], "big")
    spots = {
        "the length of its vector": (7, "BadMessage"),
        "the number of its picks": (vector + 3, "BadMessage"),
        "what it was told": (vector + 4, "BadMessage"),
        "how many shares it sealed": (len(body) - 229, "BadMessage"),
        "for whom a share is": (len(body) - 113, "BadMessage"),
    }
    for name, (spot, code) in spots.items():
        lie = messages.with_body("MASKED", 0, flipped(body, spot))
        yield Bad(f"MASKED: a site lies about {name}", at, "MASKED", 0, lie, code)
    at, body = messages.place("SIGNED_SET", 0), parts(messages.sent("SIGNED_SET", 0))[1]
    lie = messages.with_body("SIGNED_SET", 0, flipped(body, 63))
    yield Bad("SIGNED_SET: not its signature", at, "SIGNED_SET", 0, lie, "BadCertificate")
    at, body = messages.place("SHARES", 0), parts(messages.sent("SHARES", 0))[1]
    for name, spot in {"for whom a share is": 3, "towards whom a seed is": len(body) - 33}.items():
        lie = messages.with_body("SHARES", 0, flipped(body, spot))
        yield Bad(f"SHARES: a site lies about {name}", at, "SHARES", 0, lie, "BadMessage")


def bad() -> tuple[Play, list[Bad]]:
    """Each round costs three tenths: the fourth is one too many."""
    rows = some_rows("bad", (20, 30, 25))
    few = {"max_depth": 1, "leaf_fraction": Fraction(7, 10), "retry_budget": Fraction(0)}
    play = begin("bad", rows, threshold=2, n_bins=3, **few)
    ask(play, lost=(2,))
    ask(play)
    ask(play, mode=spec.AT_ONCE)
    makers = (flips, lies, bad_sessions, bad_bindings, bad_rounds, bad_sets, bad_answers)
    return play, [row for make in makers for row in make(Messages(play))]


# ------------------------------------------------------------------------- a transcript to its end
def closing() -> dict[str, Any]:
    """Four rounds of three sites: at once; in two, with a bad share and the complaint about it; in
    two without the last site; at once and void. Then CLOSED of the first site.
    """
    few = {"threshold": 2, "n_bins": 2}
    play = begin("closing", some_rows("closing", (20, 0, 30)), **few)
    w, question = play.world, spec.histogram_question(play.world.study)
    ask(play, mode=spec.AT_ONCE)
    ask(play)
    ask(play, lost=(2,))
    rand = [drawn(f"closing void {k}", 32) for k in range(3)]
    with suppress(ValueError):  # VoidRound
        spec.secure_round(w, 4, question, play.rows, rand, (2,), spec.AT_ONCE)
    complain(play)
    rounds = [(spec.AT_ONCE, 0), (spec.IN_TWO, 0), (spec.IN_TWO, 0), (spec.AT_ONCE, 1)]
    contents = [
        shown_round(play, number + 1, mode, void, question)
        for number, (mode, void) in enumerate(rounds)
    ]
    publics = spec.table(dict(enumerate(w.publics)))
    records = [record(b"E", spec.uint(1, 4) + w.session_id + publics)]
    records += [record(b"R", content) for content in contents]
    study = transcripts.Study(spec.study_hash(w.study), w.study.threshold, w.study.sites)
    root = transcripts.tree_root([transcripts.read_round(c, study).leaf for c in contents])
    data = b"".join(records) + record(b"C", spec.blob(closed(play, contents, root)))
    whole = transcripts.verify(data, study)
    assert [total for total, _ in whole.sums.values()] == [one["sum"] for one in play.rounds]
    return {
        "study": spec.content(w.study),
        "study_hash": study.hash.hex(),
        "threshold": study.threshold,
        "ciphertexts": [[u, v, text.hex()] for (u, v), text in w.ciphertexts.items()],
        "transcript": data.hex(),
        "root": root.hex(),
        "sums": [[number, list(who), total] for number, (total, who) in whole.sums.items()],
        "changes": list(changes(data, study)),
    }


def complain(play: Play) -> None:
    """In round 2 site 1 seals nothing for site 2, which gives its key in place of the share."""
    w, messages = play.world, Messages(play)
    ctx = spec.context(
        w.session_id, 2, spec.IN_TWO, bytes.fromhex(play.rounds[1]["questions"]), w.publics
    )
    body = parts(messages.sent("MASKED", 1, 2))[1]
    sealed_badly = body[:-112] + bytes(48) + body[-64:]  # that for site 2 stands last
    shares = parts(messages.sent("SHARES", 2))[1]
    table = {k: shares[2 + 34 * k + 2 : 2 + 34 * k + 34] for k in (0, 2)}
    key = spec.expand(spec.root(w, 2, 1), b"share", ctx + spec.ids((1, 2)))
    complaint = spec.table(table) + spec.table({}) + spec.table({1: key})
    for kind, site, number, new in (("MASKED", 1, 2, sealed_badly), ("SHARES", 2, 1, complaint)):
        place = messages.place(kind, site, number)
        w.messages[place] = (kind, site, messages.with_body(kind, site, new, number))


def shown(message: bytes) -> bytes:
    """As a transcript has it: the ledger's end as a hash."""
    header, _ = parts(message)
    return header[:-40] + spec.H("ledger", header[-40:]) + message[len(header) :]


def shown_round(play: Play, number: int, mode: int, void: int, question: spec.Question) -> bytes:
    """One round of a transcript; what a lost site has sent never came."""
    w, lost = play.world, (2,) if number > 2 else ()
    released = [
        (spec.FROM_SITES[kind], site, shown(message))
        for kind, site, message in w.messages
        if kind in ("MASKED", "SIGNED_SET", "SHARES")
        and int.from_bytes(message[82:90], "big") == number
        and site not in lost
    ]
    head = spec.uint(number, 8) + spec.uint(1, 4) + bytes((void, mode))
    asked = spec.blob(question[0]) + spec.blob(question[1]) + spec.uint(3, 2) + spec.ids(range(3))
    return head + asked + b"".join(spec.blob(message) for _, _, message in sorted(released))


def closed(play: Play, contents: Sequence[bytes], root: bytes) -> bytes:
    """The last word of site 0, as a transcript shows it."""
    w, paid = play.world, spec.ratio(spec.spent(play.world.ledgers[0])).encode()
    hashed = spec.study_hash(w.study)
    study = transcripts.Study(hashed, w.study.threshold, w.study.sites)
    read = [transcripts.read_round(content, study) for content in contents]
    own = [(r.number, m) for r in read for m in r.messages if m.sender == 0]
    content = root + spec.uint(4, 8) + spec.uint(len(own), 4)
    content += b"".join(spec.uint(n, 8) + bytes((m.kind,)) + m.digest for n, m in own)
    extracted = hmac.digest(bytes(32), w.secrets[0], "sha256")
    seed = spec.expand(extracted, spec.H("derive", b"ML-DSA-65"), b"")
    key = MLDSA65PrivateKey.from_seed_bytes(seed)
    signed = spec.H("closed", hashed, w.run_id, spec.uint(0, 2), paid, content)
    body = content + spec.blob(key.public_key().public_bytes_raw())
    body += spec.blob(stored_signature() or key.sign(signed))
    header = bytes((3, transcripts.CLOSED)) + hashed + w.run_id + bytes(32) + spec.uint(0, 8)
    header += spec.ids((0, spec.COORDINATOR)) + spec.uint(len(paid), 2) + paid
    header += spec.uint(len(w.ledgers[0]), 8) + w.ledgers[0][-1][1]
    return shown(spec.seal(w.secrets[0], header, body, "site"))


def stored_signature() -> bytes:
    """ML-DSA-65 draws randomness: another signature would be other bytes."""
    known = texts()
    if "closing" not in known:
        return b""
    return bytes.fromhex(json.loads(known["closing"])["transcript"])[-64 - 3309 : -64]


def record(tag: bytes, content: bytes) -> bytes:
    return tag + spec.uint(len(content), 8) + content


def changes(data: bytes, study: transcripts.Study) -> Iterator[list[Any]]:
    """Name, start, bytes cut, bytes put and refusal: fields flipped, records cut and doubled."""
    wholes = list[tuple[int, int]]()
    while not wholes or wholes[-1][1] < len(data):
        start = wholes[-1][1] if wholes else 0
        wholes.append((start, start + 9 + int.from_bytes(data[start + 1 : start + 9], "big")))
    names = ("keys", "round 1", "round 2", "round 3", "round 4", "closed")
    rows = list[tuple[str, int, int, bytes]]()
    for name, (start, end) in zip(names, wholes, strict=True):
        rows += [(f"{name}: left out", start, end - start, b"")]
        rows += [(f"{name}: cut short", end - 1, 1, b"")]
        spots = range(start, end, max((end - start) // 24, 1))
        rows += [(f"{name}: byte {k - start}", k, 1, bytes((data[k] ^ 1,))) for k in spots]
    rows += [("round 2: the messages of round 1", *again(data, wholes[1:3]))]
    start, end = wholes[4]
    twice = data[start + 9 : end] + last_blob(data[start + 9 : end])
    rows += [("round 4: a message twice", start, end - start, record(b"R", twice))]
    for name, start, cut, put in rows:
        wrong = data[:start] + put + data[start + cut :]
        try:
            transcripts.verify(wrong, study)
        except ValueError as refused:
            yield [name, start, cut, put.hex(), str(refused)]
        else:  # keys or last words of a site may be missing: nothing false is said then
            assert name in ("closed: left out",), name


def last_blob(content: bytes) -> bytes:
    """The last message of a round, with its length."""
    c = transcripts.Cursor(content)
    _, _, _, _, start = c.take(14), c.blob(), c.blob(), c.sites(), c.at
    while c.left:
        start = c.at
        c.blob()
    return content[start:]


def again(data: bytes, places: Sequence[tuple[int, int]]) -> tuple[int, int, bytes]:
    """Messages of the first round in the place of those of the second."""
    (first, _), (start, end) = places
    first_content = data[first + 9 : places[0][1]]
    content = first_content[:7] + data[start + 16 : start + 17] + first_content[8:]
    return start, end - start, record(b"R", content)


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
        "session_rand": [r.hex() for r in play.session_rand],
        "ciphertexts": [[u, v, text.hex()] for (u, v), text in w.ciphertexts.items()],
        "session_id": w.session_id.hex(),
        "rows": play.rows,
        "rounds": play.rounds,
        "messages": short_messages(play),
        "ledgers": [
            [[event, head.hex(), signature.hex()] for event, head, signature in ledger]
            for ledger in w.ledgers
        ],
        "statement": spec.statement(w.study, w.ledgers),
    }


def all_vectors() -> dict[str, Any]:
    found: dict[str, Any] = {name: plain(play) for name, play in good().items()}
    play, rows = bad()
    messages = [edited(row, [message for _, _, message in play.world.messages]) for row in rows]
    found |= {"bad": plain(play) | {"bad_messages": messages}}
    return found | {"closing": closing(), "bundles": bundles()}


def short_messages(play: Play) -> list[list[Any]]:
    """Messages in which each KEYS and each ciphertext of the run stands once."""
    w, known, lines = play.world, dict[str, str](), list[list[Any]]()
    known |= {text.hex(): f"<c{k}>" for k, text in enumerate(w.ciphertexts.values())}
    known[spec.study_hash(w.study).hex()] = "<t0>"
    for k, one in enumerate(play.rounds):
        known |= {one["questions"]: f"<q{k}>", one["definitions"]: f"<d{k}>"}
    for number, (kind, site, message) in enumerate(w.messages):
        text = message.hex()
        for long, name in known.items():
            text = text.replace(long, name) if long else text
        lines.append([kind, site, text])
        if kind == "KEYS":
            known = {message.hex(): f"<m{number}>"} | known
        if kind == "MASKED":
            known = {signed_header(message).hex(): f"<h{number}>"} | known
            known |= {text.hex(): name for name, text in named_shares(number, message)}
    return lines


def named_shares(number: int, message: bytes) -> Iterator[tuple[str, bytes]]:
    """What stands in a MASKED for each peer, by the name that later messages have for it."""
    body = parts(message)[1]
    at = 8 + 8 * int.from_bytes(body[:8], "big")
    at += 4 + 4 * int.from_bytes(body[at : at + 4], "big") + 32 + 32 + 2
    for start in range(at, len(body), 114):
        yield f"<s{number * 100 + body[start + 1]}>", body[start + 2 : start + 114]


def signed_header(message: bytes) -> bytes:
    """A message without its body."""
    header, body = parts(message)
    return header + spec.H("body", body) + message[-64:]


def edited(row: Bad, messages: Sequence[bytes]) -> dict[str, Any]:
    """A bad message as a change of the good one that is most like it."""
    choices = [(edits(good, row.message), number) for number, good in enumerate(messages)]
    best, number = min(choices, key=lambda one: (len(str(one[0])), one[1]))
    fields = row._asdict() | {"of": number, "edits": best}
    del fields["message"]
    return fields


def edits(good: bytes, wrong: bytes) -> list[tuple[int, int, str]]:
    """Start, bytes cut and bytes put of each place at which they differ, the last one first."""
    if len(good) == len(wrong):
        places = [k for k in range(len(good)) if good[k] != wrong[k]]
        gaps = [k for k in range(1, len(places)) if places[k] - places[k - 1] > 16]
        ends = zip([0, *gaps], [*gaps, len(places)], strict=True)
        spans = [(places[a], places[b - 1] + 1) for a, b in ends if places]
        return [(a, b - a, wrong[a:b].hex()) for a, b in reversed(spans)]
    shorter = min(len(good), len(wrong)) - 64
    start = next((k for k in range(shorter) if good[k] != wrong[k]), shorter)
    signature = (len(good) - 64, 64, wrong[-64:].hex())
    rest = shorter - start
    end = next((k for k in range(rest) if good[-65 - k] != wrong[-65 - k]), rest) + 64
    cut = (start, len(good) - end - start, wrong[start : len(wrong) - end].hex())
    return [cut] if good[-64:] == wrong[-64:] else [signature, cut]


def texts() -> dict[str, str]:
    """Every stored vector by its name, as JSON; none where none was written yet."""
    if not ARCHIVE.exists():
        return {}
    with ZipFile(ARCHIVE) as files:
        return {Path(name).stem: files.read(name).decode() for name in files.namelist()}


def read(name: str) -> dict[str, Any]:
    """A stored vector with all its messages whole."""
    content: dict[str, Any] = json.loads(texts()[name])
    if "messages" not in content:
        return content
    names = {f"<c{k}>": text for k, (_, _, text) in enumerate(content["ciphertexts"])}
    names["<t0>"] = content["study_hash"]
    for k, one in enumerate(content["rounds"]):
        names |= {f"<q{k}>": one["questions"], f"<d{k}>": one["definitions"]}
    for number, line in enumerate(content["messages"]):
        line[2] = re.sub("<[a-z][0-9]+>", lambda match: names[match[0]], line[2])
        names[f"<m{number}>"] = line[2]
        names[f"<h{number}>"] = signed_header(bytes.fromhex(line[2])).hex()
        if line[0] == "MASKED":
            shares = named_shares(number, bytes.fromhex(line[2]))
            names.update((name, text.hex()) for name, text in shares)
    for one in content.get("bad_messages", ()):
        message = bytes.fromhex(content["messages"][one["of"]][2])
        for start, cut, put in one["edits"]:
            message = message[:start] + bytes.fromhex(put) + message[start + cut :]
        one["message"] = message.hex()
    return content


def spelled(content: dict[str, Any]) -> str:
    """JSON with a line for each key, and one for each entry of a list of lists or tables."""

    def value(part: Any) -> str:
        if isinstance(part, list) and part and isinstance(part[0], list | dict):
            return "[\n" + ",\n".join(json.dumps(entry) for entry in part) + "\n]"
        return json.dumps(part)

    lines = [f"{json.dumps(key)}: {value(part)}" for key, part in content.items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> None:
    made = all_vectors()
    with ZipFile(ARCHIVE, "w") as files:
        for name in sorted(made):
            entry = ZipInfo(f"{name}.json")
            entry.compress_type, entry.create_system = ZIP_DEFLATED, 3
            files.writestr(entry, spelled(made[name]), compresslevel=9)


if __name__ == "__main__":
    main()
