"""One round of a private federated tree, whole: Gubler 2023, Algorithm 5, at the root.

K sites hold rows of the same columns. Each counts classes by bin, adds its share of discrete
Laplace noise (Goryczka and Xiong 2017), masks the vector (Bonawitz et al. 2017) and sends it. The
coordinator learns the sum over those who arrived; the best split of the noisy histograms is
post-processing. Every step is a function of its arguments: secrets come in as `rand: bytes`, what
is kept goes out as a new value. Nothing of `hedgerow` is imported: the product is held against
this file, byte for byte. It is for pure epsilon and numeric columns, slow, checks no stranger's
bytes, and its secrets are whatever the caller passes. Never use it for real rows.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Context, Decimal
from fractions import Fraction
from math import ceil, prod
from typing import Any, NamedTuple, TypeAlias

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

Tape: TypeAlias = Callable[[int], bytes]
Row: TypeAlias = tuple[Sequence[float | None], str]
Counts: TypeAlias = list[list[list[int]]]  # by feature, cell and class


class Refused(Exception):
    """What a site says when it says no: one constant code, and nothing else."""


def require(condition: bool, code: str) -> None:
    if not condition:
        raise Refused(code)


# ------------------------------------------------------------------------------ 1 bytes and hashes
def uint(number: int, width: int) -> bytes:
    return number.to_bytes(width, "big")


def H(tag: str | bytes, *parts: bytes) -> bytes:  # noqa: N802
    """SHA-256 of a tag and of each part behind its length: no two lists give the same bytes."""
    domain = tag if isinstance(tag, bytes) else b"hedgerow/secsum/2/" + tag.encode()
    return hashlib.sha256(domain + b"".join(uint(len(p), 8) + p for p in parts)).digest()


def canonical(value: object) -> bytes:
    """One spelling of a value in JSON: rationals are texts "n/d", floats do not occur."""
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def ids(sites: Iterable[int]) -> bytes:
    return b"".join(uint(site, 2) for site in sites)


def table(entries: Mapping[int, bytes]) -> bytes:
    """Site -> bytes of one width, in increasing order of sites."""
    return uint(len(entries), 2) + b"".join(uint(k, 2) + entries[k] for k in sorted(entries))


def blob(data: bytes) -> bytes:
    return uint(len(data), 4) + data


def tape(rand: bytes) -> Tape:
    """AES-256-CTR from a zero counter, under a key used once; `read(n)` gives the next n bytes."""
    stream = Cipher(algorithms.AES256(rand), modes.CTR(bytes(16))).encryptor()
    return lambda n: stream.update(bytes(n))


# ---------------------------------------------------------------------------------------- 2 study
class Study(NamedTuple):
    """Twelve numbers, public facts and keys that all sites approved; no message can change them."""

    epsilon: Fraction
    delta: Fraction  # 0: pure differential privacy
    parties: int  # K
    colluders: int  # c >= 1: sites that may pool what they know with the coordinator
    threshold: int  # t: fewest survivors = Shamir's threshold = size of a certificate
    records_per_person: int
    retry_reserve: Fraction  # the part of epsilon that pays for rounds that fail
    max_depth: int
    n_bins: int
    leaf_share: Fraction
    min_samples_split: int
    public_seed: int
    name: str
    features: tuple[tuple[str, float, float], ...]  # name and public range
    classes: tuple[str, ...]
    sites: tuple[bytes, ...]  # Ed25519 keys, by id
    coordinator: bytes
    asks: tuple[str, ...] = ("SumQuery ClassCounts Cells", "SumQuery ClassCounts Whole")


def content(study: Study) -> dict[str, Any]:
    """All that is approved, in plain values."""
    method = {
        "kind": "HistogramTree", "max_depth": study.max_depth, "n_bins": study.n_bins,
        "min_samples_split": str(study.min_samples_split), "min_samples_leaf": "5",
        "leaf_share": str(study.leaf_share), "save_budget": False, "bounds_share": "1/4",
        "accounting": "SOUND", "chunk": 1, "leaf_budget": "SHARE", "consistency": False,
        "known_zeros": False, "lean": False, "refine": None,
    }  # fmt: skip
    columns = [
        {"name": n, "low": repr(a), "high": repr(b), "bins": study.n_bins, "spacing": "uniform"}
        for n, a, b in study.features
    ]
    return {
        "name": study.name, "schema": {"classes": list(study.classes), "feature": columns},
        "recipe": "histogram_tree", "recipe_parameters": canonical(method).decode(),
        "asks": [(k + " ").split(" ")[:3] for k in study.asks], "public_seed": study.public_seed,
        "epsilon": str(study.epsilon), "delta": str(study.delta), "placement": "SHARES",
        "parties": study.parties, "colluders": study.colluders, "threshold": study.threshold,
        "graph": "complete", "hold_out": 0, "asks_held_out": [], "slot": 0,
        "sites": [key.hex() for key in study.sites], "names": [],
        "coordinator": study.coordinator.hex(), "records_per_person": study.records_per_person,
        "by_person": False, "retry_reserve": str(study.retry_reserve), "label_reports": None,
        "lattice": 64, "protocol": 2, "noise_law": 1,
    }  # fmt: skip


def study_hash(study: Study) -> bytes:
    return hashlib.sha256(b"hedgerow/study/2/" + canonical(content(study))).digest()


# --------------------------------------------------------- 3 query, sensitivity, price, law of noise
class Question(NamedTuple):
    """What is asked of every site, and how a site answers: a vector to be summed, and picks."""

    questions: bytes
    definitions: bytes  # what the questions name by its SHA-256
    words: str  # for people who read the ledger
    respond: Callable[[Sequence[Row], Tape], tuple[list[int], list[int]]]


def share(study: Study) -> Fraction:
    """Of the budget, for one node: levels divide equally what the leaves do not keep."""
    return (1 - study.leaf_share) / study.max_depth


def cost(study: Study) -> Fraction:
    """What every record pays for the root's query, in epsilon."""
    return share(study) * study.epsilon * (1 - study.retry_reserve)


def l1_sensitivity(study: Study) -> int:
    """A record is in one cell of *every* feature: bins and classes are parallel, features add."""
    return len(study.features) * study.records_per_person


def noise_rate(study: Study) -> Fraction:
    """P(k) ~ exp(-rate |k|) on each integer: a vector of L1 sensitivity D costs D x rate."""
    return cost(study) / l1_sensitivity(study)


def histogram_question(study: Study) -> Question:
    """Class counts by the bins of all features (Algorithm 5, lines 8 to 12)."""
    p, cells, classes = len(study.features), study.n_bins + 1, len(study.classes)
    binning = canonical({"!": "Binning", "bins": [list(range(cells))] * p})
    named = {"@": hashlib.sha256(binning).hexdigest()}
    query = {
        "!": "SumQuery", "region": [], "share": {"%": str(share(study))},
        "statistic": {"!": "ClassCounts", "n_classes": classes},
        "by": {"!": "Cells", "features": list(range(p)), "binning": named},
    }  # fmt: skip
    words = f"class counts of all {p} columns in {cells} ranges, for all records"

    def respond(rows: Sequence[Row], read: Tape) -> tuple[list[int], list[int]]:
        """Noise is drawn whole, for every coordinate, before a row is looked at."""
        honest = study.threshold - study.colluders
        noise = noise_share(noise_rate(study), honest, p * cells * classes, read)
        exact = [n for counts in histograms(study, rows) for cell in counts for n in cell]
        return [x + z for x, z in zip(exact, noise, strict=True)], []

    return Question(canonical([query]), blob(binning), words, respond)


# -------------------------------------------------------------------------------- 4 rows to counts
def edges(study: Study, feature: int) -> list[float]:
    """Cuts of equal width between public ends, in exact rationals and rounded once."""
    low, high = (Fraction(repr(end)) for end in study.features[feature][1:])
    return [float(low + (high - low) * k / study.n_bins) for k in range(1, study.n_bins)]


def histograms(study: Study, rows: Iterable[Row]) -> Counts:
    """Counts by feature, cell and class; a row of no known class adds nothing.

    Cell k has cuts[k-1] <= value < cuts[k], the last one is for missing values: what becomes of a
    record depends on that record alone.
    """
    cuts = [edges(study, j) for j in range(len(study.features))]
    counts = [[[0] * len(study.classes) for _ in range(study.n_bins + 1)] for _ in cuts]
    for values, label in rows:
        if label in study.classes:
            for j, value in enumerate(values):
                cell = study.n_bins if value is None else bisect_right(cuts[j], value)
                counts[j][cell][study.classes.index(label)] += 1
    return counts


# ----------------------------------------------------------------------------- 5 exact noise share
BITS = 192  # of a threshold: the first 64 decide nearly every draw, the other 128 the rest


def polya_thresholds(rate: Fraction, h: int) -> list[int]:
    """floor(2^192 P(X <= k)) for X ~ Polya(1/h, a), a = exp(-rate); h = 1 is the geometric law.

    P(0) = (1-a)^(1/h), P(k+1) = P(k) a (k + 1/h) / (k+1), to 120 decimal digits. (The product
    computes with integers of 320 bits and differs in the last of 192 bits at most.)
    """
    d, one = Context(prec=120), Decimal(1)
    a = d.exp(d.divide(Decimal(-rate.numerator), Decimal(rate.denominator)))
    p = d.exp(d.divide(d.ln(d.subtract(one, a)), Decimal(h)))
    found, total = [0], Decimal(0)
    while found[-1] < 2**BITS - 1:
        total, k = d.add(total, p), len(found)
        found.append(min(int(d.multiply(total, Decimal(2**BITS))), 2**BITS - 1))
        p = d.divide(d.multiply(d.multiply(p, a), Decimal(h * k - h + 1)), Decimal(h * k))
    return found[1:]


def invert(thresholds: Sequence[int], size: int, read: Tape) -> list[int]:
    """`size` draws by inversion: a uniform word falls in the first k whose threshold is above it.

    A word that equals the first 64 bits of a threshold is undecided and gets 128 bits more.
    """
    heads = [t >> (BITS - 64) for t in thresholds]
    words = [int.from_bytes(read(8), "little") for _ in range(size)]
    drawn = [bisect_right(heads, word) for word in words]
    for i, (word, k) in enumerate(zip(words, drawn, strict=True)):
        if k == len(heads) or (k and heads[k - 1] == word):
            point = word << (BITS - 64) | int.from_bytes(read((BITS - 64) // 8), "little")
            drawn[i] = min(bisect_right(thresholds, point), len(heads) - 1)
    return drawn


def noise_share(rate: Fraction, h: int, size: int, read: Tape) -> list[int]:
    """What one site adds: h shares sum to discrete Laplace noise, exactly; more are more noise.

    X - Y of two Polya draws. Of one share (h = 1) it is the noise itself: a geometric number and
    a sign, and minus zero is drawn again, since zero would come twice as often.
    """
    thresholds = polya_thresholds(rate, h)
    if h > 1:
        both = invert(thresholds, 2 * size, read)
        return [x - y for x, y in zip(both[:size], both[size:], strict=True)]
    require(rate >= Fraction(1, 128), "TooFlat")  # the product draws these digit by digit
    sizes = invert(thresholds, size, read)
    signs = int.from_bytes(read(8 * ceil(size / 64)), "little")
    drawn = [-x if signs >> i & 1 else x for i, x in enumerate(sizes)]
    again = [i for i, x in enumerate(sizes) if x == 0 and signs >> i & 1]
    fresh = noise_share(rate, h, len(again), read) if again else []
    return [fresh[again.index(i)] if i in again else x for i, x in enumerate(drawn)]


# -------------------------------------------------------------------------- 6 keys, masks, Shamir
PRIME = 2**255 - 19


def root(private: bytes, epoch_id: bytes, me: int, peer: int, keys: Sequence[bytes]) -> bytes:
    """What two sites share for an epoch: X25519 of their ephemeral keys, then HKDF."""
    low, high = sorted((me, peer))
    point = X25519PublicKey.from_public_bytes(keys[peer])
    shared = X25519PrivateKey.from_private_bytes(private).exchange(point)
    info = b"root" + ids((low, high)) + keys[low] + keys[high]
    return HKDF(SHA256(), 32, salt=epoch_id, info=info).derive(shared)


def context(epoch_id: bytes, number: int, questions: bytes, keys: Sequence[bytes]) -> bytes:
    """Enters every key of a round: of sites that were told different things no mask cancels."""
    who = b"".join(uint(site, 2) + key for site, key in enumerate(keys))
    return H("ctx", epoch_id, uint(number, 8), H("bundle", questions), who)


def expand(root: bytes, use: bytes, ctx: bytes, *ends: int) -> bytes:
    """HKDF-Expand to one block: the seed of a pair's mask, or the key that seals one share."""
    return hmac.digest(root, use + ctx + ids(ends) + b"\x01", "sha256")


def fold(vector: Sequence[int], keys: Iterable[tuple[bytes, int]]) -> list[int]:
    """Adds, modulo 2^64, the stream of each key times its sign."""
    total = list(vector)
    for key, sign in keys:
        stream = struct.unpack(f"<{len(total)}Q", tape(key)(8 * len(total)))
        total = [x + sign * m for x, m in zip(total, stream, strict=True)]
    return [x % 2**64 for x in total]


def element(rand: bytes) -> int:
    """Uniform in the field; a draw past the prime (chance 2^-250) would be drawn again."""
    require((found := int.from_bytes(rand, "big") >> 1) < PRIME, "BadRandomness")
    return found


def split_secret(b: int, t: int, sites: Iterable[int], rand: bytes) -> dict[int, int]:
    """Shamir 1979: at site + 1, a polynomial of degree t - 1 whose value at 0 is the secret.

    The first t - 1 values are drawn and the others follow: the same law as drawn coefficients.
    """
    points = [site + 1 for site in sorted(sites)]
    drawn = {x: element(rand[32 * i : 32 * i + 32]) for i, x in enumerate(points[: t - 1])}
    return {x - 1: interpolate({0: b} | drawn, x) for x in points}


def interpolate(values: Mapping[int, int], x: int) -> int:
    """Lagrange: the polynomial through these points, at x."""
    found = 0
    for i, y in values.items():
        others = [j for j in values if j != i]
        found += y * prod(x - j for j in others) * pow(prod(i - j for j in others), -1, PRIME)
    return found % PRIME


# --------------------------------------------------------------------------------------- 7 ledger
class Entry(NamedTuple):
    """`head` is the hash of the event and of all entries before it; the site signs it."""

    event: dict[str, Any]
    head: bytes
    signature: bytes


Ledger: TypeAlias = tuple[Entry, ...]
ratio = "{0.numerator}/{0.denominator}".format


def sign(secret: bytes, message: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(secret).sign(message)


def append(ledger: Ledger, secret: bytes, kind: str, **event: Any) -> Ledger:
    """The chain covers signatures too, so the last one vouches for everything."""
    body, everything = {"kind": kind} | event, bytes(32)
    for entry in ledger:
        everything = H(b"hedgerow/ledger/2/link", everything, entry.head, entry.signature)
    seq, text = str(len(ledger) + 1).encode(), json.dumps(body, separators=(",", ":")).encode()
    head = H(b"hedgerow/ledger/2/entry", seq, everything, text)
    return (*ledger, Entry(body, head, sign(secret, head)))


def approve(study: Study, secret: bytes, lifetime: Fraction) -> Ledger:
    """A site's people set a limit for all studies, then let this one spend its epsilon."""
    limits = {"limit": ratio(lifetime), "delta": "0/1", "unit": ""}
    ledger = append((), secret, "LifetimeSet", measure="PURE", **limits)
    named = {"study": study_hash(study).hex(), "name": study.name, "measure": "PURE"}
    return append(ledger, secret, "Approved", **named, cap=ratio(study.epsilon), delta="0/1")


def spent(ledger: Ledger) -> Fraction:
    """Every charge here is of all records, so they add up (basic composition)."""
    lines = [line for entry in ledger for line in entry.event.get("charges", ())]
    return sum((Fraction(line["cost"]) for line in lines), Fraction(0))


def charge(study: Study, ledger: Ledger, secret: bytes, round_id: str, words: str) -> Ledger:
    """Before anything is computed: exact, no tolerance; it stays, whatever becomes of the round."""
    require(spent(ledger) + cost(study) <= study.epsilon, "BudgetRefused")
    lines = [{"what": words, "cost": ratio(cost(study)), "region": []}]
    place = {"study": study_hash(study).hex(), "round": round_id, "measure": "PURE"}
    return append(ledger, secret, "Charged", **place, charges=lines)


def open_set(ledger: Ledger, secret: bytes, round_id: str, members: Sequence[int]) -> Ledger:
    """One set a round: who helped to open two of them would show their difference."""
    wanted, paid = H("members", ids(members)).hex(), ratio(spent(ledger))
    events = [entry.event for entry in ledger if entry.event.get("round") == round_id]
    opened = [event["members"] for event in events if event["kind"] == "SetOpened"]
    require(opened in ([], [wanted]), "SecondSet")
    place = {"study": events[0]["study"], "round": round_id, "members": wanted, "spent": paid}
    return ledger if opened else append(ledger, secret, "SetOpened", **place)


# ------------------------------------------------------------------------------- 8 signed messages
FROM_SITES = {"KEYS": 1, "MASKED": 4, "SIGNED_SET": 6, "SHARES": 8}
FROM_COORDINATOR = {"OPEN": 2, "ROUND": 3, "SURVIVORS": 5, "UNMASK": 7, "JOIN": 9}
COORDINATOR, EVERYBODY = 2**16 - 1, 2**16 - 2


class World(NamedTuple):
    """All parties; the last secret is the coordinator's. Steps add to ledgers and messages."""

    study: Study
    secrets: Sequence[bytes]  # Ed25519
    run_id: bytes
    ledgers: list[Ledger]
    held: list[Ledger]  # as far as the coordinator has heard of them
    messages: list[tuple[str, int, bytes]]  # kind, site
    epoch_id: bytes = bytes(32)
    privates: Sequence[bytes] = ()  # X25519, of this epoch
    publics: Sequence[bytes] = ()


def header(w: World, kind: str, number: int, site: int) -> bytes:
    """Ends with the end of the site's ledger: as it is, or as the coordinator last heard."""
    by_site = kind in FROM_SITES
    ledger = w.ledgers[site] if by_site else w.held[site]
    to_all = EVERYBODY if kind == "KEYS" else COORDINATOR
    ends = ids((site, to_all) if by_site else (COORDINATOR, site))
    paid = ratio(spent(ledger)).encode() if by_site else b""
    code = uint((FROM_SITES | FROM_COORDINATOR)[kind], 1)
    names = uint(2, 1) + code + study_hash(w.study) + w.run_id + w.epoch_id
    told = uint(len(paid), 2) + paid + uint(len(ledger), 8)
    return names + uint(number, 8) + ends + told + (ledger[-1].head if ledger else bytes(32))


def seal(secret: bytes, header: bytes, body: bytes, role: str) -> bytes:
    """Signs hashes of parts: a ledger's end can be shown without the message it stood in."""
    rest = H("rest", header[:-40], H("body", body))
    return header + body + sign(secret, H(role, header[-40:], rest))


def post(w: World, kind: str, number: int, site: int, body: bytes, lost: bool = False) -> bytes:
    """A letter to a site, or from it; the coordinator notes the ledger's end of whom it hears."""
    secret, role = (
        (w.secrets[site], "site") if kind in FROM_SITES else (w.secrets[-1], "coordinator")
    )
    message = seal(secret, header(w, kind, number, site), body, role)
    w.messages.append((kind, site, message))
    if role == "site" and not lost:
        w.held[site] = w.ledgers[site]
    return message


# ------------------------------------------------------------------- 9 sum, one site lost, opening
def open_epoch(w: World, rand: Sequence[bytes], attempt: int = 1) -> World:
    """JOIN, KEYS, OPEN: X25519 keys of everybody; 64 bytes of `rand` each, for key and nonce."""
    privates = [X25519PrivateKey.from_private_bytes(r[:32]) for r in rand]
    publics, shown = [key.public_key().public_bytes_raw() for key in privates], []
    for k, public in enumerate(publics):
        post(w, "JOIN", 0, k, uint(attempt, 4))
        body = uint(attempt, 4) + public + rand[k][32:] + table({})
        shown.append(post(w, "KEYS", 0, k, body))
    epoch_id = H("epoch", study_hash(w.study), w.run_id, *shown)
    w = w._replace(epoch_id=epoch_id, privates=[r[:32] for r in rand], publics=publics)
    for k in range(len(rand)):
        post(w, "OPEN", 0, k, uint(len(shown), 2) + b"".join(map(blob, shown)))
    return w


class Hidden(NamedTuple):
    """What a site's masked answer is made of; shares and seeds stay until the sum is opened."""

    vector: list[int]
    commitment: bytes
    sealed: dict[int, bytes]
    shares: dict[int, int]
    seeds: dict[int, bytes]


def hide(w: World, me: int, ctx: bytes, vector: Sequence[int], rand: bytes) -> Hidden:
    """A self-mask b, and a mask for each peer that the lower id adds and the higher takes away."""
    b, sites = element(rand[:32]), range(w.study.parties)
    shares = split_secret(b, w.study.threshold, sites, rand[32:])
    roots = {v: root(w.privates[me], w.epoch_id, me, v, w.publics) for v in sites if v != me}
    seeds = {v: expand(r, b"pair", ctx, *sorted((me, v))) for v, r in roots.items()}
    signed = [(seed, 1 if me < v else -1) for v, seed in seeds.items()]
    masked = fold(vector, [(H("self", ctx, uint(b, 32)), 1), *signed])
    sealed = dict[int, bytes]()
    for v, r in roots.items():  # the key seals one share, so its nonce may be zero
        key = AESGCM(expand(r, b"share", ctx, me, v))
        sealed[v] = key.encrypt(bytes(12), uint(shares[v], 32), ctx + ids((me, v)))
    return Hidden(masked, H("commit", ctx, uint(b, 32)), sealed, shares, seeds)


class Opened(NamedTuple):
    total: list[int]
    members: tuple[int, ...]
    picks: dict[int, list[int]]


def secure_round(
    w: World, number: int, question: Question, rows: Sequence[Sequence[Row]],
    rand: Sequence[bytes], lost: Collection[int] = (),
) -> Opened:  # fmt: skip
    """ROUND, MASKED, [SURVIVORS, SIGNED_SET], UNMASK, SHARES; `lost` sites' MASKED never arrive."""
    sites, t, round_id = range(w.study.parties), w.study.threshold, f"{w.run_id.hex()}/{number}"
    ctx = context(w.epoch_id, number, question.questions, w.publics)
    hidden, picks, certificate = dict[int, Hidden](), dict[int, list[int]](), dict[int, bytes]()
    asked = blob(question.questions) + blob(question.definitions) + uint(len(sites), 2) + ids(sites)
    for k in sites:  # each site: charge, then noise and counts, then masks
        post(w, "ROUND", number, k, asked)
        w.ledgers[k] = charge(w.study, w.ledgers[k], w.secrets[k], round_id, question.words)
        vector, picks[k] = question.respond(rows[k], tape(rand[k][:32]))
        hidden[k] = mine = hide(w, k, ctx, vector, rand[k][32:])
        body = uint(len(vector), 8) + struct.pack(f"<{len(vector)}Q", *mine.vector)
        body += uint(len(picks[k]), 4) + b"".join(uint(pick, 4) for pick in picks[k])
        post(w, "MASKED", number, k, body + mine.commitment + table(mine.sealed), k in lost)
    members = tuple(k for k in sites if k not in lost)
    require(len(members) >= t, "TooFew")
    named = uint(len(members), 2) + ids(members)
    for k in members if lost else ():  # who is lost must be the same for everybody
        post(w, "SURVIVORS", number, k, named)
        w.ledgers[k] = open_set(w.ledgers[k], w.secrets[k], round_id, members)
        certificate[k] = sign(w.secrets[k], H("set", ctx, ids(members)))
        post(w, "SIGNED_SET", number, k, certificate[k])
    for k in members:  # shares of members' self-masks and seeds towards the lost, never both
        sealed = {u: hidden[u].sealed[k] for u in members if u != k}
        post(w, "UNMASK", number, k, named + table(certificate) + table(sealed))
        w.ledgers[k] = open_set(w.ledgers[k], w.secrets[k], round_id, members)
        shares = {u: uint(hidden[u].shares[k], 32) for u in members}
        post(w, "SHARES", number, k, table(shares) + table({v: hidden[k].seeds[v] for v in lost}))
    return Opened(uncover({u: hidden[u] for u in members}, ctx, t), members, picks)


def uncover(hidden: Mapping[int, Hidden], ctx: bytes, t: int) -> list[int]:
    """The coordinator: adds up, rebuilds each b from t shares, takes off what has not cancelled."""
    total, left = (
        [sum(column) for column in zip(*(h.vector for h in hidden.values()), strict=True)],
        [],
    )
    for u, h in hidden.items():
        b = uint(interpolate({v + 1: h.shares[v] for v in sorted(hidden)[:t]}, 0), 32)
        require(H("commit", ctx, b) == h.commitment, "BadShares")
        left.append((H("self", ctx, b), -1))
        left += [(seed, -1 if u < v else 1) for v, seed in h.seeds.items() if v not in hidden]
    return [x - 2**64 if x >= 2**63 else x for x in fold(total, left)]


# --------------------------------------------------------------------------- 10 split and statement
def in_tables(study: Study, total: Sequence[int]) -> Counts:
    p, cells, c = len(study.features), study.n_bins + 1, len(study.classes)
    cell = [list(total[i : i + c]) for i in range(0, len(total), c)]
    return [cell[j * cells : (j + 1) * cells] for j in range(p)]


def best_split(study: Study, noisy: Counts) -> tuple[str, int] | None:
    """Algorithm 4 on noisy counts: the column and the set of cells sent left (bit k: cell k).

    Missing values go right or left. Lowest (n_l G_l + n_r G_r) / (n_l + n_r), ties to the first;
    a side without rows is none. None if all histograms agree on too few rows, or on one class.
    """
    sums = [[sum(side) for side in zip(*counts, strict=True)] for counts in noisy]
    if all(sum(n) < study.min_samples_split for n in sums):
        return None
    if sum(any(n > 0 for n in column) for column in zip(*sums, strict=True)) < 2:
        return None
    found = list[tuple[Fraction, str, int]]()
    for (name, _, _), counts in zip(study.features, noisy, strict=True):
        for left in [
            (1 << k) - 1 | m << study.n_bins for m in (0, 1) for k in range(1, study.n_bins)
        ]:
            sides = [[n for k, n in enumerate(counts) if left >> k & 1 == bit] for bit in (1, 0)]
            masses = [[sum(column) for column in zip(*side, strict=True)] for side in sides]
            if all(sum(mass) > 0 for mass in masses):
                score = sum(sum(mass) * gini(mass) for mass in masses) / sum(map(sum, masses))
                found.append((Fraction(score), name, left))
    return min(found, key=lambda candidate: candidate[0])[1:] if found else None


def gini(masses: Sequence[int]) -> Fraction:
    """1 - sum p^2, negative counts taken as 0."""
    kept = [max(mass, 0) for mass in masses]
    return 1 - Fraction(sum(m * m for m in kept), sum(kept) ** 2) if any(kept) else Fraction(0)


def statement(study: Study, ledgers: Sequence[Ledger]) -> dict[str, str]:
    """What is promised; the largest of the sites' own receipts counts, not the coordinator's."""
    return {
        "epsilon": str(study.epsilon), "delta": str(study.delta),
        "spent": str(max(map(spent, ledgers))), "neighbours": "add or remove one record",
        "honest shares of noise": str(study.threshold - study.colluders),
        "holds against": f"the coordinator and any {study.colluders} of {study.parties} sites",
    }  # fmt: skip


def example(parties: int = 3, threshold: int = 2, **changed: Any) -> World:
    """Three sites of which one may collude and one may be lost; keys from public labels."""
    secrets = [hashlib.sha256(f"identity {k}".encode()).digest() for k in range(parties + 1)]
    keys = [Ed25519PrivateKey.from_private_bytes(s).public_key().public_bytes_raw() for s in secrets]
    numbers = (Fraction(1), Fraction(0), parties, 1, threshold, 1, Fraction(1, 20))
    tree, columns = (5, 10, Fraction(1, 2), 10, 7), (("age", 0.0, 110.0), ("bmi", 10.0, 60.0))
    study = Study(*numbers, *tree, "example", columns, ("no", "yes"), tuple(keys[:-1]), keys[-1])
    study = study._replace(**changed)
    ledgers = [approve(study, secret, Fraction(10)) for secret in secrets[:-1]]
    run_id = hashlib.sha256(b"run").digest()[:16]
    return World(study, secrets, run_id, ledgers, [()] * parties, [])


def main() -> None:
    """Prints one round in which the last site's answer is lost."""
    w, seed = example(), lambda *words: hashlib.shake_256(repr(words).encode()).digest
    rows = [[((20.0 + (7 * i + k) % 70, None if i % 9 == 0 else 18.0 + i % 25), "yes" if (7 * i + k) % 70 > 30 else "no") for i in range(150)] for k in range(3)]
    question = histogram_question(w.study)
    w = open_epoch(w, [seed("epoch", k)(64) for k in range(3)])
    total, members, _ = secure_round(w, 1, question, rows, [seed("round", k)(128) for k in range(3)], (2,))
    for kind, site, message in w.messages:
        print(kind, site, len(message), hashlib.sha256(message).hexdigest()[:16])
    print(members, total, best_split(w.study, in_tables(w.study, total)), statement(w.study, w.ledgers))


if __name__ == "__main__":
    main()
