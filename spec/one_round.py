"""One round of a private federated tree, whole: Gubler 2023, Algorithm 5, at the root.

K sites hold rows of the same columns. Each counts classes by bin, adds its share of discrete
Laplace noise (Goryczka and Xiong 2017), masks the vector (Bonawitz et al. 2017) and sends it. The
coordinator learns the sum over those who arrived, or at once that over all; the best split of the
noisy histograms is post-processing. The product is held against this file byte for byte, so it
imports nothing of it. Secrets come in as `rand: bytes`. For pure epsilon and numeric columns;
never for real rows.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import struct
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from math import ceil, prod
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.mldsa import MLDSA65PrivateKey
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

Tape: TypeAlias = Callable[[int], bytes]
Row: TypeAlias = tuple[Sequence[float | None], str]
Counts: TypeAlias = list[list[list[int]]]  # by feature, cell and class


def require(condition: bool, code: str) -> None:
    """A refusal is one constant code: words could carry a count or a value."""
    if not condition:
        raise ValueError(code)


# ------------------------------------------------------------------------------ 1 bytes and hashes
def uint(number: int, width: int) -> bytes:
    return number.to_bytes(width, "big")


def H(tag: str | bytes, *parts: bytes) -> bytes:  # noqa: N802
    """SHA-256 of a tag and of each part behind its length: no two lists hash the same bytes."""
    domain = tag if isinstance(tag, bytes) else b"hedgerow/secsum/3/" + tag.encode()
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
    n_sites: int  # K
    colluders: int  # c >= 1: sites that may pool what they know with the coordinator
    threshold: int  # t: fewest survivors = Shamir's threshold = size of a certificate
    records_per_person: int
    retry_budget: Fraction  # the part of epsilon that pays for rounds that fail
    max_depth: int
    n_bins: int
    leaf_fraction: Fraction
    min_samples_split: int
    public_seed: int
    name: str
    features: tuple[tuple[str, float, float], ...]  # name and public range
    classes: tuple[str, ...]
    sites: tuple[bytes, ...]  # public identities, by id
    coordinator: bytes
    asks: tuple[str, ...] = ("SumQuery ClassCounts Cells", "SumQuery ClassCounts Whole")


def content(study: Study) -> dict[str, Any]:
    """All that is approved, in plain values."""
    method = {
        "kind": "HistogramTree", "max_depth": study.max_depth, "n_bins": study.n_bins,
        "min_samples_split": str(study.min_samples_split), "min_samples_leaf": "5",
        "leaf_fraction": str(study.leaf_fraction), "budget_saving": False, "bounds_fraction": "1/4",
        "accounting": "corrected", "chunk": 1, "leaf_budget": "fraction", "consistency": False,
        "known_zeros": False, "shrinkage": False, "screening": None,
    }  # fmt: skip
    columns = [
        {"name": n, "low": repr(a), "high": repr(b), "bins": study.n_bins, "spacing": "uniform"}
        for n, a, b in study.features
    ]
    return {
        "name": study.name, "schema": {"classes": list(study.classes), "feature": columns},
        "method": "HistogramTreeClassifier", "method_parameters": canonical(method).decode(),
        "asks": [(k + " ").split(" ")[:3] for k in study.asks], "public_seed": study.public_seed,
        "epsilon": str(study.epsilon), "delta": str(study.delta), "dp_model": "DISTRIBUTED",
        "n_sites": study.n_sites, "colluders": study.colluders, "threshold": study.threshold,
        "graph": "complete", "hold_out": 0, "asks_held_out": [], "reply_interval": 0,
        "max_rounds": 0,
        "sites": [key.hex() for key in study.sites], "names": [],
        "coordinator": study.coordinator.hex(), "records_per_person": study.records_per_person,
        "by_person": False, "retry_budget": str(study.retry_budget), "label_reports": None,
        "lattice": 64, "protocol": 3, "noise_law": 1,
    }  # fmt: skip


def study_hash(study: Study) -> bytes:
    return hashlib.sha256(b"hedgerow/study/2/" + canonical(content(study))).digest()


# -------------------------------------------------------- 3 query, sensitivity, price, law of noise
Answer: TypeAlias = tuple[list[int], list[int]]  # a vector to be summed, and picks in the clear
Respond: TypeAlias = Callable[[Sequence[Row], Tape], Answer]
Question: TypeAlias = tuple[bytes, bytes, str, Respond]  # questions, what they name, words


def share(study: Study) -> Fraction:
    """Of the budget, for one node: levels divide equally what the leaves do not keep."""
    return (1 - study.leaf_fraction) / study.max_depth


def cost(study: Study) -> Fraction:
    """What every record pays for the root's query, in epsilon."""
    return share(study) * study.epsilon * (1 - study.retry_budget)


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
        "!": "SumQuery", "region": [], "fraction": {"%": str(share(study))},
        "statistic": {"!": "ClassCounts", "n_classes": classes},
        "by": {"!": "Cells", "features": list(range(p)), "binning": named},
    }  # fmt: skip
    words = f"class counts of all {p} columns in {cells} ranges, for all records"

    def respond(rows: Sequence[Row], read: Tape) -> Answer:
        """Noise is drawn whole, for every coordinate, before a row is looked at."""
        honest = study.threshold - study.colluders
        noise = noise_share(noise_rate(study), honest, p * cells * classes, read)
        exact = [n for counts in histograms(study, rows) for cell in counts for n in cell]
        return [x + z for x, z in zip(exact, noise, strict=True)], []

    return canonical([query]), blob(binning), words, respond


# -------------------------------------------------------------------------------- 4 rows to counts
def edges(study: Study, feature: int) -> list[float]:
    """Cuts of equal width between public ends, in exact rationals and rounded once."""
    low, high = (Fraction(repr(end)) for end in study.features[feature][1:])
    return [float(low + (high - low) * k / study.n_bins) for k in range(1, study.n_bins)]


def histograms(study: Study, rows: Iterable[Row]) -> Counts:
    """A row of no known class adds nothing. Cell k has cuts[k-1] <= value < cuts[k], the last
    one is for missing values: what becomes of a record depends on that record alone.
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

    P(0) = (1-a)^(1/h), P(k) = P(k-1) a (k-1 + 1/h) / k, here with 120 decimal digits. (The product
    uses integers of 320 bits: another way to the same 192 bits.)
    """
    found, total = [0], Decimal(0)
    with localcontext(prec=120):
        a = (-Decimal(rate.numerator) / rate.denominator).exp()
        p = ((1 - a).ln() / h).exp()
        while found[-1] < 2**BITS - 1:
            total, k = total + p, len(found)
            found.append(min(int(total * 2**BITS), 2**BITS - 1))
            p = p * a * (h * (k - 1) + 1) / (h * k)
    return found[1:]


def invert(thresholds: Sequence[int], size: int, read: Tape) -> list[int]:
    """By inversion: a uniform word falls in the first k whose threshold is above it. One that
    equals the first 64 bits of a threshold is undecided, and gets 128 bits more.
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


def identity(secret: bytes) -> bytes:
    """Public: an Ed25519 key and the hash of an ML-DSA-65 key whose seed follows by HKDF."""
    extracted = hmac.digest(bytes(32), secret, "sha256")
    seed = hmac.digest(extracted, H("derive", b"ML-DSA-65") + b"\x01", "sha256")
    lasting = MLDSA65PrivateKey.from_seed_bytes(seed).public_key().public_bytes_raw()
    key = Ed25519PrivateKey.from_private_bytes(secret).public_key()
    return key.public_bytes_raw() + H("mldsa", lasting)


def gives(u: int, v: int) -> bool:
    """Of two sites exactly one encapsulates to the other."""
    return (u < v) == ((u + v) % 2 == 1)


def root(w: World, me: int, peer: int) -> bytes:
    """What two sites share for a key session: ML-KEM-768 and X25519, then HKDF (RFC 5869)."""
    (low, high), taker = sorted((me, peer)), peer if gives(me, peer) else me
    point = X25519PublicKey.from_public_bytes(w.publics[peer])
    shared = X25519PrivateKey.from_private_bytes(w.privates[me][:32]).exchange(point)
    ct = w.ciphertexts[me + peer - taker, taker]
    secret = MLKEM768PrivateKey.from_seed_bytes(w.privates[taker][32:]).decapsulate(ct)
    extracted = hmac.digest(w.session_id, secret + shared, "sha256")
    who = ids((low, high)) + w.publics[low] + w.publics[high]
    return expand(extracted, b"root", who + H("cipher", ct))


def context(session_id: bytes, number: int, mode: int, asks: bytes, keys: Sequence[bytes]) -> bytes:
    """Enters every key of a round: of sites that were told different things no mask cancels."""
    who = b"".join(uint(site, 2) + key for site, key in enumerate(keys))
    return H("ctx", session_id, uint(number, 8), H("bundle", bytes((mode,)), asks), who)


def expand(key: bytes, use: bytes, info: bytes) -> bytes:
    """HKDF-Expand to one block: a root, the seed of a pair's mask, the key of a sealed share."""
    return hmac.digest(key, use + info + b"\x01", "sha256")


def fold(vector: Sequence[int], keys: Iterable[tuple[bytes, int]]) -> list[int]:
    """Adds, modulo 2^64, the stream of each key times its sign."""
    total = list(vector)
    for key, sign in keys:
        stream = struct.unpack(f"<{len(total)}Q", tape(key)(8 * len(total)))
        total = [x + sign * m for x, m in zip(total, stream, strict=True)]
    return [x % 2**64 for x in total]


def split_secret(b: int, t: int, sites: Iterable[int], rand: bytes) -> dict[int, int]:
    """Shamir 1979: values at site + 1 of a polynomial of degree t - 1 that is b at 0. The first
    t - 1 values are drawn (past the prime again; here not: a chance of 2^-250), others follow.
    """
    points = [site + 1 for site in sorted(sites)]
    known = {0: b}
    for i, x in enumerate(points[: t - 1]):
        known[x] = int.from_bytes(rand[32 * i :][:32], "big") >> 1
    return {x - 1: interpolate(known, x) for x in points}


def interpolate(values: Mapping[int, int], x: int) -> int:
    """Lagrange: the polynomial through these points, at x."""
    found = 0
    for i, y in values.items():
        others = [j for j in values if j != i]
        found += y * prod(x - j for j in others) * pow(prod(i - j for j in others), -1, PRIME)
    return found % PRIME


# --------------------------------------------------------------------------------------- 7 ledger
Ledger: TypeAlias = tuple[tuple[dict[str, Any], bytes, bytes], ...]  # event, head, signature
ratio = "{0.numerator}/{0.denominator}".format


def sign(secret: bytes, message: bytes) -> bytes:
    return Ed25519PrivateKey.from_private_bytes(secret).sign(message)


def append(ledger: Ledger, secret: bytes, kind: str, **more: Any) -> Ledger:
    """A head is the hash of its event and of all before it, signatures too; the site signs it."""
    event, everything = {"kind": kind} | more, bytes(32)
    for _, head, signature in ledger:
        everything = H(b"hedgerow/ledger/2/link", everything, head, signature)
    seq, text = str(len(ledger) + 1).encode(), json.dumps(event, separators=(",", ":")).encode()
    new = H(b"hedgerow/ledger/2/entry", seq, everything, text)
    return (*ledger, (event, new, sign(secret, new)))


def spent(ledger: Ledger) -> Fraction:
    """Every charge here is of all records, so they add up (basic composition)."""
    lines = [line for event, _, _ in ledger for line in event.get("charges", ())]
    return sum((Fraction(line["cost"]) for line in lines), Fraction(0))


def charge(study: Study, ledger: Ledger, secret: bytes, round_id: str, words: str) -> Ledger:
    """Before anything is computed: exact, no tolerance; it stays, whatever becomes of the round."""
    require(spent(ledger) + cost(study) <= study.epsilon, "BudgetRefused")
    lines = [{"what": words, "cost": ratio(cost(study)), "region": 0}]
    place = {"study": study_hash(study).hex(), "round": round_id, "measure": "PURE"}
    return append(ledger, secret, "Charged", **place, steps=[], charges=lines)


def open_set(ledger: Ledger, secret: bytes, round_id: str, members: Sequence[int]) -> Ledger:
    """One set a round: who helped to open two of them would show their difference."""
    wanted, paid = H("members", ids(members)).hex(), ratio(spent(ledger))
    events = [event for event, _, _ in ledger if event.get("round") == round_id]
    opened = [event["members"] for event in events if event["kind"] == "SetOpened"]
    require(opened in ([], [wanted]), "SecondSet")
    place = {"study": events[0]["study"], "round": round_id, "members": wanted, "spent": paid}
    return ledger if opened else append(ledger, secret, "SetOpened", **place)


# ------------------------------------------------------------------------------- 8 signed messages
FROM_SITES = {"KEYS": 1, "MASKED": 4, "SIGNED_SET": 6, "SHARES": 8, "ENCAPS": 10}
FROM_COORDINATOR = {"OPEN": 2, "ROUND": 3, "SURVIVORS": 5, "UNMASK": 7, "JOIN": 9, "BIND": 11}
COORDINATOR, EVERYBODY = 2**16 - 1, 2**16 - 2


class World(NamedTuple):
    """All sites; the last secret is the coordinator's. Steps add to ledgers and messages."""

    study: Study
    secrets: Sequence[bytes]  # Ed25519
    run_id: bytes
    ledgers: list[Ledger]
    held: list[Ledger]  # as far as the coordinator has heard of them
    messages: list[tuple[str, int, bytes]]  # kind, site
    session_id: bytes = bytes(32)
    privates: Sequence[bytes] = ()  # of this key session: X25519, then the seed of ML-KEM-768
    publics: Sequence[bytes] = ()  # X25519
    ciphertexts: Mapping[tuple[int, int], bytes] = MappingProxyType({})  # by giver and taker
    recent: list[bytes] = []  # noqa: RUF012  (its last MASKED that came, without a body)


def post(w: World, kind: str, number: int, site: int, body: bytes, lost: bool = False) -> bytes:
    """A message to a site, or from it; both show the end of its ledger, as far as they know it."""
    if kind in FROM_SITES:
        code, ends = FROM_SITES[kind], (site, EVERYBODY if kind == "KEYS" else COORDINATOR)
        ledger, secret, role = w.ledgers[site], w.secrets[site], "site"
        w.held[site] = w.held[site] if lost else ledger
    else:
        code, ends = FROM_COORDINATOR[kind], (COORDINATOR, site)
        ledger, secret, role = w.held[site], w.secrets[-1], "coordinator"
    paid = ratio(spent(ledger)).encode() if role == "site" else b""
    header = bytes((3, code)) + study_hash(w.study) + w.run_id + w.session_id + uint(number, 8)
    header += ids(ends) + uint(len(paid), 2) + paid
    header += uint(len(ledger), 8) + (ledger[-1][1] if ledger else bytes(32))
    message = seal(secret, header, body, role)
    w.messages.append((kind, site, message))
    if kind == "MASKED" and not lost:
        w.recent[site] = header + H("body", body) + message[-64:]
    return message


def seal(secret: bytes, header: bytes, body: bytes, role: str) -> bytes:
    """Signs hashes of parts: a ledger's end can be shown without the message it stood in."""
    rest = H("rest", header[:-40], H("body", body))
    return header + body + sign(secret, H(role, H("ledger", header[-40:]), rest))


# ------------------------------------------------------------------- 9 sum, one site lost, opening
Ciphertexts: TypeAlias = Mapping[tuple[int, int], bytes]


def encapsulations(rand: Sequence[bytes]) -> Ciphertexts:
    """By giver and taker. The library draws their randomness, so they differ each time."""
    keys = [MLKEM768PrivateKey.from_seed_bytes(r[32:96]).public_key() for r in rand]
    pairs = [(u, v) for u in range(len(rand)) for v in range(len(rand)) if u != v and gives(u, v)]
    return {(u, v): keys[v].encapsulate()[1] for u, v in pairs}


def open_session(w: World, rand: Sequence[bytes], cts: Ciphertexts, attempt: int = 1) -> World:
    """JOIN, KEYS, OPEN, ENCAPS, BIND; 128 bytes of `rand` each: X25519, ML-KEM-768 and nonce."""
    sites, privates = range(len(rand)), [r[:96] for r in rand]
    pairs = [X25519PrivateKey.from_private_bytes(r[:32]) for r in rand]
    publics, shown = [key.public_key().public_bytes_raw() for key in pairs], list[bytes]()
    for k in sites:
        post(w, "JOIN", 0, k, uint(attempt, 4))
        key = MLKEM768PrivateKey.from_seed_bytes(rand[k][32:96]).public_key().public_bytes_raw()
        body = uint(attempt, 4) + publics[k] + key + rand[k][96:] + table({})
        shown.append(post(w, "KEYS", 0, k, body))
    session_id = H("epoch", study_hash(w.study), w.run_id, *shown)
    w = w._replace(session_id=session_id, privates=privates, publics=publics, ciphertexts=cts)
    w = w._replace(recent=[b""] * len(rand))
    capsules = dict[tuple[int, int], bytes]()
    for u, v in cts:  # the tag shows the taker that the giver has the same root
        capsules[u, v] = cts[u, v] + expand(root(w, u, v), b"confirm", session_id + ids((u, v)))
    for k in sites:
        post(w, "OPEN", 0, k, uint(len(shown), 2) + b"".join(map(blob, shown)))
        post(w, "ENCAPS", 0, k, table({v: c for (u, v), c in capsules.items() if u == k}))
    for k in sites:
        post(w, "BIND", 0, k, table({u: c for (u, v), c in capsules.items() if v == k}))
    return w


class Hidden(NamedTuple):
    """What a site's masked answer is made of; shares and seeds stay until the sum is opened.
    At once there is nothing of these: pairwise masks alone, over the vector and two zeros.
    """

    vector: list[int]
    commitment: bytes
    sealed: dict[int, bytes]
    shares: dict[int, int]
    seeds: dict[int, bytes]


IN_TWO, AT_ONCE = 0, 1


def hide(w: World, me: int, ctx: bytes, mode: int, vector: Sequence[int], rand: bytes) -> Hidden:
    """A self-mask b, and a mask for each peer that the lower id adds and the higher takes away."""
    sites = range(w.study.n_sites)
    roots = {v: root(w, me, v) for v in sites if v != me}
    seeds = {v: expand(r, b"pair", ctx + ids(sorted((me, v)))) for v, r in roots.items()}
    signed = [(seed, 1 if me < v else -1) for v, seed in seeds.items()]
    if mode == AT_ONCE:
        return Hidden(fold([*vector, 0, 0], signed), b"", {}, {}, {})
    b = int.from_bytes(rand[:32], "big") >> 1
    shares = split_secret(b, w.study.threshold, sites, rand[32:])
    masked = fold(vector, [(H("self", ctx, uint(b, 32)), 1), *signed])
    sealed = dict[int, bytes]()
    for v, r in roots.items():  # the key seals one share, so its nonce may be zero
        about = ctx + ids((me, v))
        key = AESGCM(expand(r, b"share", about))
        sealed[v] = key.encrypt(bytes(12), uint(shares[v], 32), about)
    return Hidden(masked, H("commit", ctx, uint(b, 32)), sealed, shares, seeds)


def secure_round(
    w: World, number: int, question: Question, rows: Sequence[Sequence[Row]],
    rand: Sequence[bytes], lost: Collection[int] = (), mode: int = IN_TWO,
) -> tuple[list[int], tuple[int, ...], dict[int, list[int]]]:  # fmt: skip
    """The sum, its members and the picks of all; what `lost` sites answered never arrives."""
    sites, t, round_id = range(w.study.n_sites), w.study.threshold, f"{w.run_id.hex()}/{number}"
    questions, definitions, words, respond = question
    ctx = context(w.session_id, number, mode, questions, w.publics)
    hidden, selections, certificate = (
        dict[int, Hidden](),
        dict[int, list[int]](),
        dict[int, bytes](),
    )
    asked = bytes((mode,)) + blob(questions) + blob(definitions) + uint(len(sites), 2) + ids(sites)
    asked += b"".join(blob(receipt) for receipt in w.recent if receipt)  # of up to eight sites
    for k in sites:  # each site: charge, then noise and counts, then masks
        post(w, "ROUND", number, k, asked)
        w.ledgers[k] = charge(w.study, w.ledgers[k], w.secrets[k], round_id, words)
        vector, selections[k] = respond(rows[k], tape(rand[k][:32]))
        hidden[k] = mine = hide(w, k, ctx, mode, vector, rand[k][32:])
        body = uint(len(mine.vector), 8) + struct.pack(f"<{len(mine.vector)}Q", *mine.vector)
        body += (
            uint(len(selections[k]), 4)
            + b"".join(uint(selection, 4) for selection in selections[k])
            + ctx
        )
        body += mine.commitment + table(mine.sealed) if mode == IN_TWO else b""
        post(w, "MASKED", number, k, body, k in lost)
    members = tuple(k for k in sites if k not in lost)
    require(len(members) >= t, "TooFew")
    if mode == AT_ONCE:  # for all or for nobody: fewer would show the vector of the one left out
        require(not lost, "VoidRound")
        return open_at_once([h.vector for h in hidden.values()]), members, selections
    named = uint(len(members), 2) + ids(members)
    for k in members if lost else ():  # who is lost must be the same for everybody
        post(w, "SURVIVORS", number, k, named)
        w.ledgers[k] = open_set(w.ledgers[k], w.secrets[k], round_id, members)
        certificate[k] = sign(w.secrets[k], H("set", ctx, ids(members)))
        post(w, "SIGNED_SET", number, k, certificate[k])
    for k in members:  # shares of members' self-masks and seeds towards the lost, never both
        sealed = {u: hidden[u].sealed[k] for u in members if u != k}  # what the site opens here
        post(w, "UNMASK", number, k, named + table(certificate) + table(sealed))
        w.ledgers[k] = open_set(w.ledgers[k], w.secrets[k], round_id, members)
        shares = {u: uint(hidden[u].shares[k], 32) for u in members}
        post(w, "SHARES", number, k, table(shares) + table({v: hidden[k].seeds[v] for v in lost}))
    return uncover({u: hidden[u] for u in members}, ctx, t), members, selections


def uncover(hidden: Mapping[int, Hidden], ctx: bytes, t: int) -> list[int]:
    """The coordinator: adds up, rebuilds each b from t shares, takes off what has not cancelled."""
    vectors, left = [h.vector for h in hidden.values()], list[tuple[bytes, int]]()
    for u, h in hidden.items():
        b = uint(interpolate({v + 1: h.shares[v] for v in sorted(hidden)[:t]}, 0), 32)
        require(H("commit", ctx, b) == h.commitment, "BadShares")
        left.append((H("self", ctx, b), -1))
        left += [(seed, -1 if u < v else 1) for v, seed in h.seeds.items() if v not in hidden]
    total = fold(added(vectors), left)
    return [x - 2**64 if x >= 2**63 else x for x in total]


def open_at_once(vectors: Sequence[Sequence[int]]) -> list[int]:
    """All masks have cancelled; the two zeros at the end are zero again, or nothing is opened."""
    *total, first, second = fold(added(vectors), [])
    require((first, second) == (0, 0), "MasksLeft")
    return [x - 2**64 if x >= 2**63 else x for x in total]


# --------------------------------------------------------------------------- 10 split and statement
def best_split(study: Study, total: Sequence[int]) -> tuple[str, int] | None:
    """Algorithm 4 on noisy counts: a column, and as a bit set its cells that go left.

    Lowest (n_l G_l + n_r G_r) / (n_l + n_r), ties to the first; a side without rows is none.
    Missing values go right or left. None if all histograms show too few rows, or one class.
    """
    bins, classes, found = study.n_bins, len(study.classes), list[tuple[Fraction, str, int]]()
    counts = [total[i : i + classes] for i in range(0, len(total), classes)]
    noisy = [counts[i : i + bins + 1] for i in range(0, len(counts), bins + 1)]
    sums = [added(cells) for cells in noisy]
    seen = [any(n > 0 for n in column) for column in zip(*sums, strict=True)]
    if all(sum(n) < study.min_samples_split for n in sums) or sum(seen) < 2:
        return None
    for (name, _, _), cells in zip(study.features, noisy, strict=True):
        for left in [(1 << k) - 1 | m << bins for m in (0, 1) for k in range(1, bins)]:
            sides = [added([c for k, c in enumerate(cells) if left >> k & 1 == s]) for s in (1, 0)]
            if all(sum(side) > 0 for side in sides):
                score = sum(sum(side) * gini(side) for side in sides) / sum(map(sum, sides))
                found.append((Fraction(score), name, left))
    return min(found, key=lambda split: split[0])[1:] if found else None


def added(cells: Iterable[Sequence[int]]) -> list[int]:
    return [sum(column) for column in zip(*cells, strict=True)]


def gini(side: Sequence[int]) -> Fraction:
    """1 - sum p^2; a count that noise made negative is none."""
    kept = [max(n, 0) for n in side]
    return 1 - Fraction(sum(n * n for n in kept), sum(kept) ** 2)


def statement(study: Study, ledgers: Sequence[Ledger]) -> str:
    """The largest of the sites' own receipts counts, not what a coordinator says."""
    guarantee = f"epsilon {study.epsilon}, delta {study.delta} for adding or removing one record"
    whom = f"the coordinator and any {study.colluders} of {study.n_sites} sites"
    return f"{guarantee}, of which {max(map(spent, ledgers))} is spent; against {whom}"


def main() -> None:
    """One round over three sites, one of which may collude; the answer of the last is lost."""
    rand = [hashlib.shake_256(f"site {k}".encode()).digest(288) for k in range(4)]
    keys = tuple(identity(r[:32]) for r in rand)
    numbers = (Fraction(4), Fraction(0), 3, 1, 2, 1, Fraction(1, 20), 2, 10, Fraction(1, 2), 10, 7)
    facts = (("age", 0.0, 110.0), ("bmi", 10.0, 60.0)), ("no", "yes")
    study = Study(*numbers, "example", *facts, keys[:3], keys[3])
    w = World(study, [r[:32] for r in rand], bytes(16), [()] * 3, [()] * 3, [])
    drawn = [r[32:160] for r in rand[:3]]
    w = open_session(w, drawn, encapsulations(drawn))
    ages = [[(i * 7 + k) % 90 for i in range(200)] for k in range(3)]
    rows = [[((age, None), "yes" if age > 50 else "no") for age in some] for some in ages]
    rand, question = [r[160:] for r in rand[:3]], histogram_question(study)
    total, members, _ = secure_round(w, 1, question, rows, rand, lost=(2,))
    for kind, site, message in w.messages:
        way = "->" if kind in FROM_SITES else "<-"
        print(f"site {site} {way} {kind:10} {len(message):5} bytes, {H('', message).hex()[:16]}")
    print(*(f"ledger of site 0: {event}" for event, _, _ in w.ledgers[0]), sep="\n")
    print(f"sum over sites {members}: {total}\nsplit: {best_split(study, total)}")
    print(statement(study, w.ledgers))


if __name__ == "__main__":
    main()
