"""The product's sites and coordinator on the spec's studies, rows and randomness, for tests."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

from hedgerow.data.prepared import StudyRows
from hedgerow.data.reading.encoding import encode
from hedgerow.data.rows import Rows
from hedgerow.errors import SiteRefused
from hedgerow.federation.client import STEPS, Client, code_of
from hedgerow.federation.site_store import SiteStore
from hedgerow.privacy.accounting.budget import Measure
from hedgerow.privacy.mechanisms import coins
from hedgerow.privacy.study import Study
from hedgerow.secagg import session
from hedgerow.secagg.client import Site
from hedgerow.secagg.envelope import MessageKind
from hedgerow.secagg.keys import Identity, Roster
from hedgerow.secagg.messages import Mode
from hedgerow.secagg.secure_sum import SecureSum
from hedgerow.secagg.server import Coordinator
from spec import make_vectors
from spec import one_round as spec

GOOD = ("three_sites", "five_sites", "one_lost", "private_choice")


def load(name: str) -> dict[str, Any]:
    stored = make_vectors.read(name)
    assert stored["messages"]
    assert stored["rounds"]
    return stored


def rows_of(rows: Sequence[tuple[Sequence[float | None], str]], study: Study) -> Rows:
    """Rows as a site reads them: floats, NaN where nothing is known, and labels as texts."""
    schema = study.schema
    values = [[math.nan if value is None else value for value in row] for row, _ in rows]
    numbers = np.array(values, np.float64).reshape(len(rows), len(schema.features))
    labels = np.array([label for _, label in rows], dtype=object)
    return Rows(encode(numbers, schema, y=labels), schema)


class NoiseKeys:
    """Stands in for the operating system under `SecretRandomness`: keys as told, then none."""

    def __init__(self) -> None:
        self.keys: list[bytes] = []

    def stream(self) -> CipherContext:
        return Cipher(algorithms.AES256(self.keys.pop(0)), modes.CTR(bytes(16))).encryptor()


def noise_keys(monkeypatch: Any) -> NoiseKeys:
    keys = NoiseKeys()
    monkeypatch.setattr(coins, "_fresh_stream", keys.stream)
    return keys


class Replay:
    """Real endpoints on real stores, and a real coordinator, in the run of a stored vector."""

    def __init__(self, folder: Path, stored: dict[str, Any], noise: NoiseKeys) -> None:
        self.stored, self.noise = stored, noise
        self.study = Study.from_dict(stored["study"])
        self.identities = [Identity.from_bytes(bytes.fromhex(i)) for i in stored["identities"]]
        publics = [identity.public for identity in self.identities]
        self.roster = Roster(tuple(publics[:-1]), publics[-1])
        self.parameters = self.study.parameters
        self.site_stores = [self._site_store(folder, me) for me in range(self.study.n_sites)]
        self.clients = [self._endpoint(me) for me in range(self.study.n_sites)]
        run_id = bytes.fromhex(stored["run_id"])
        self.coordinator = Coordinator(
            self.identities[-1],
            self.roster,
            self.parameters,
            self.study.hash,
            entropy=lambda _: run_id,
        )
        self.round = 0
        self.sums: list[SecureSum] = []
        self.keys: list[bytes] = []
        self._messages: dict[int, bytes] = {}
        self._last = ""

    def _site_store(self, folder: Path, me: int) -> SiteStore:
        place = folder / f"site {me}"
        place.mkdir(parents=True)
        site_store = SiteStore.open(
            place / "state" / "site.db", self.identities[me], place / "anchor"
        )
        site_store.ledger.set_lifetime(Measure.PURE, Fraction(10))
        site_store.ledger.approve(
            self.study.account, self.study.measure, self.study.limit, self.study.name
        )
        return site_store

    def _endpoint(self, me: int) -> Client:
        """Entropy of the secure sum: that of the key session.

        Then what rounds leave after the noise.
        """
        rounds = [bytes.fromhex(told["rand"][me])[32:] for told in self.stored["rounds"]]
        whole = b"".join([bytes.fromhex(self.stored["session_rand"][me]), *rounds])
        draws = BytesIO(whole)
        store = self.site_stores[me].memory(self.study.account)
        site = Site(
            self.identities[me],
            self.roster,
            me,
            self.parameters,
            self.study.hash,
            store,
            draws.read,
            pins=self.roster.fingerprints,
        )
        rows = rows_of(self.stored["rows"][me], self.study)
        return Client(StudyRows(self.study, rows), site, store)

    # -------------------------------------------------------------------------------- the run
    def play(self) -> Iterator[int]:
        """All messages in order, made anew; before each of them, its number."""
        replies: dict[tuple[str, int], bytes] = {}
        for number, (kind, site, text) in enumerate(self.stored["messages"]):
            yield number
            message = bytes.fromhex(text)
            if kind in spec.FROM_COORDINATOR:
                assert self._message(kind, site) == message, (kind, site, number)
                replies[kind, site] = self.answer(site, kind, message)
            else:
                assert replies.pop((ANSWER_TO[kind], site)) == message, (kind, site, number)
                if kind != "MASKED" or site not in self.told["lost"]:
                    self.accept(kind, message)
        yield len(self.stored["messages"])

    @property
    def told(self) -> dict[str, Any]:
        told: dict[str, Any] = self.stored["rounds"][self.round - 1]
        return told

    def answer(self, site: int, kind: str, message: bytes) -> bytes:
        if kind == "ROUND":
            self.noise.keys = [bytes.fromhex(self.told["rand"][site])[:32]]
        with self.capsules_of(site):
            reply = STEPS[MessageKind[kind]](self.clients[site], message)
        self.noise.keys = []
        return reply

    def refusal(self, site: int, kind: str, message: bytes) -> str | None:
        """The code with which a site, or the coordinator, refuses; None if it does not."""
        try:
            if kind in spec.FROM_COORDINATOR:
                with self.capsules_of(site):
                    STEPS[MessageKind[kind]](self.clients[site], message)
            else:
                self.accept(kind, message)
        except SiteRefused as error:
            return error.code
        except Exception as error:
            return code_of(error).value
        return None

    def accept(self, kind: str, message: bytes) -> None:
        hub = self.coordinator
        steps: dict[str, Callable[[bytes], Any]] = {"KEYS": self.keys.append}
        steps["ENCAPS"] = hub.accept_capsules
        if self.sums:
            summed = self.sums[-1]
            steps |= {"MASKED": summed.accept_masked, "SIGNED_SET": summed.accept_signature}
            steps |= {"SHARES": summed.accept_shares}
        steps[kind](message)

    def _message(self, kind: str, site: int) -> bytes:
        """Letters of one kind are written together, as soon as the first is wanted."""
        if kind != self._last or site not in self._messages:
            self._last, self._messages = kind, self._write(kind)
        return self._messages.pop(site)

    def _write(self, kind: str) -> dict[int, bytes]:
        match kind:
            case "JOIN":
                return self.coordinator.join()
            case "OPEN":
                return self.coordinator.open(self.keys)
            case "BIND":
                return self.coordinator.bind(range(self.study.n_sites))
            case "ROUND":
                self.round += 1
                questions, definitions = (
                    bytes.fromhex(self.told[key]) for key in ("questions", "definitions")
                )
                selections = len(self.told["selections"][0])
                started = self.coordinator.start(
                    questions,
                    len(self.told["sum"]),
                    selections=selections,
                    mode=Mode(self.told["mode"]),
                )
                self.sums.append(started)
                return started.requests(dict.fromkeys(range(self.study.n_sites), definitions))
            case "SURVIVORS":
                return self.sums[-1].close()
        if self.sums[-1].members is None:
            assert self.sums[-1].close() == {}
        return self.sums[-1].unmask()

    @contextmanager
    def capsules_of(self, giver: int) -> Iterator[None]:
        """Stands in for the library's own randomness: a site gives the stored ciphertexts."""
        seeds = [bytes.fromhex(rand)[32:96] for rand in self.stored["session_rand"]]
        pairs = [MLKEM768PrivateKey.from_seed_bytes(seed) for seed in seeds]
        places = {pair.public_key().public_bytes_raw(): k for k, pair in enumerate(pairs)}
        stored = {(u, v): bytes.fromhex(text) for u, v, text in self.stored["ciphertexts"]}
        real = session.encapsulate

        def encapsulate(key: bytes) -> tuple[bytes, bytes]:
            if key not in places or (giver, places[key]) not in stored:
                return real(key)
            taker = places[key]
            return pairs[taker].decapsulate(stored[giver, taker]), stored[giver, taker]

        session.encapsulate = encapsulate
        try:
            yield
        finally:
            session.encapsulate = real

    def close(self) -> None:
        for site_store in self.site_stores:
            site_store.close()


ANSWER_TO = {
    "KEYS": "JOIN",
    "ENCAPS": "OPEN",
    "MASKED": "ROUND",
    "SIGNED_SET": "SURVIVORS",
    "SHARES": "UNMASK",
}
