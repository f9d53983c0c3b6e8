"""The product's sites and coordinator on the spec's study, keys, rows and randomness."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes

from hedgerow.privacy.accounting.budget import Measure
from hedgerow.privacy.noise import randomness
from hedgerow.secagg.coordinator import Coordinator
from hedgerow.secagg.envelope import MessageKind
from hedgerow.secagg.keys import Identity, Roster
from hedgerow.secagg.parameters import Parameters
from hedgerow.secagg.site import Site
from hedgerow.site.member import Member
from hedgerow.site.policy import Policy
from hedgerow.site.reading.encoding import encode
from hedgerow.site.rows import Rows
from hedgerow.site.vault import Vault
from hedgerow.study.terms import Study
from hedgerow.transport.endpoint import Endpoint, code_of
from spec import one_round as spec

TO_SITES = tuple(spec.FROM_COORDINATOR)


def study_of(study: spec.Study) -> Study:
    return Study.from_dict(spec.content(study))


def rows_of(study: spec.Study, rows: Sequence[spec.Row]) -> Rows:
    """Rows as a site reads them: a frame of floats, NaN where nothing is known, and labels."""
    schema = study_of(study).schema
    values = [[math.nan if v is None else v for v in row] for row, _ in rows]
    frame = np.array(values, np.float64).reshape(len(rows), len(study.features))
    labels = np.array([label for _, label in rows], dtype=object)
    return Rows(encode(frame, schema, y=labels), schema)


class Replay:
    """Real endpoints on real vaults; randomness is what the spec was given."""

    def __init__(
        self,
        folder: Path,
        study: spec.Study,
        secrets: Sequence[bytes],
        run_id: bytes,
        rows: Sequence[Sequence[spec.Row]],
        entropy: Mapping[int, bytes],
    ) -> None:
        self.study = study_of(study)
        identities = [Identity.from_bytes(secret) for secret in secrets]
        publics = [identity.public for identity in identities]
        roster = Roster(tuple(publics[:-1]), publics[-1])
        parameters = Parameters.of(self.study.parameters)
        self.vaults, self.endpoints = list[Vault](), list[Endpoint]()
        for me, identity in enumerate(identities[:-1]):
            place = folder / f"site {me}"
            place.mkdir()
            vault = Vault.open(place / "state" / "site.db", identity, place / "anchor")
            vault.ledger.set_lifetime(Measure.PURE, Fraction(10))
            vault.ledger.approve(
                self.study.account, self.study.measure, self.study.limit, self.study.name
            )
            draws = iter([entropy[me][i : i + 32] for i in range(0, len(entropy[me]), 32)])
            site = Site(
                identity,
                roster,
                me,
                parameters,
                self.study.hash,
                vault.memory(self.study.account),
                lambda length, draws=draws: next(draws),
                pins=roster.fingerprints,
            )
            member = Member(self.study, rows_of(study, rows[me]), Policy.open())
            head = lambda vault=vault: vault.head(self.study.account)  # noqa: E731
            self.vaults.append(vault)
            self.endpoints.append(Endpoint(member, site, vault, head))
        self.coordinator = Coordinator(
            identities[-1], roster, parameters, self.study.hash, entropy=lambda _: run_id
        )

    def step(self, site: int, kind: str, message: bytes) -> bytes:
        return self.endpoints[site].step(MessageKind[kind], message)

    def refusal(self, site: int, kind: str, message: bytes) -> str | None:
        """The code with which the site refuses; None if it answers."""
        try:
            self.step(site, kind, message)
        except Exception as error:
            return code_of(error).value
        return None

    def close(self) -> None:
        for vault in self.vaults:
            vault.close()


class NoiseKeys:
    """Stands in for the operating system under `SecretRandomness`: keys as told, then none."""

    def __init__(self) -> None:
        self.keys: list[bytes] = []

    def stream(self) -> CipherContext:
        return Cipher(algorithms.AES256(self.keys.pop(0)), modes.CTR(bytes(16))).encryptor()


def patched_noise(monkeypatch) -> NoiseKeys:
    keys = NoiseKeys()
    monkeypatch.setattr(randomness, "_fresh_stream", keys.stream)
    return keys
