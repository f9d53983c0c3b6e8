"""Sites that serve from vaults, joined to a coordinator that may lose letters: for tests."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from fractions import Fraction
from pathlib import Path

from hedgerow.data.prepared import StudyRows
from hedgerow.data.rows import Rows
from hedgerow.federation.client import Client
from hedgerow.federation.exchange import Timing, patient
from hedgerow.federation.secure_sites import SecureSites
from hedgerow.federation.store.vault import Vault
from hedgerow.privacy.accounting.budget import Cost, Measure
from hedgerow.privacy.study import Study
from hedgerow.secagg.client import Site
from hedgerow.secagg.envelope import Envelope, LedgerHead, MessageKind
from hedgerow.secagg.graph import Parameters
from hedgerow.secagg.keys import Identity, Roster
from hedgerow.secagg.server import Coordinator
from support.lossy import unhurried

IMPATIENT = Timing(answer_seconds=1, asks=1, patience_seconds=0, return_seconds=0)
"""Nobody is waited for: a silent site of these tests stays silent."""


class DurableLink(SecureSites):
    """Sites that serve from vaults; `restart` stops all of them and lets them join again.

    `deaf` sites never get letters of a kind; of `mute` ones the answers to it are lost.
    """

    def __init__(
        self, study: Study, rows: Sequence[Rows], folder: Path, caps: Sequence[Cost] | None = None
    ) -> None:
        self.rows, self.folder = rows, folder
        self.study = study
        self.identities = [Identity.generate() for _ in rows]
        self.own_identity = Identity.generate()
        self.roster = Roster(tuple(i.public for i in self.identities), self.own_identity.public)
        self.parameters = Parameters.of(study.parameters)
        self.deaf: dict[MessageKind, Collection[int]] = {}
        self.mute: dict[MessageKind, Collection[int]] = {}
        self.vaults = [self._vault(k) for k in range(len(rows))]
        for vault, cap in zip(self.vaults, caps or [study.limit] * len(rows), strict=True):
            vault.ledger.set_lifetime(Measure.ZCDP, math.inf if cap == math.inf else Fraction(10))
            vault.ledger.approve(study.account, study.measure, cap, study.name)
        self.heads: Mapping[int, LedgerHead] = {}
        self._start_anew()

    def _vault(self, k: int) -> Vault:
        place = self.folder / f"site{k}"
        return Vault.open(place / "vault.sqlite", self.identities[k], self.folder / f"anchor{k}")

    def _start_anew(self) -> None:
        coordinator = Coordinator(
            self.own_identity, self.roster, self.parameters, self.study.hash, self.heads
        )
        self.clients = [self._served(k) for k in range(len(self.vaults))]
        self.link_to(coordinator)
        self.enter()

    def link_to(self, coordinator: Coordinator) -> None:
        """As a coordinator that was started now, which knows nothing but what it is given.

        Its clock is not the machine's: how long a site has been silent is for tests to say.
        """
        names = [str(k) for k in range(len(self.rows))]
        patience = unhurried(names, IMPATIENT)
        SecureSites.__init__(self, self.study, coordinator, patient(self, patience), patience)

    def _served(self, k: int) -> Client:
        memory, pins = self.vaults[k].memory(self.study.account), self.roster.fingerprints
        site = Site(
            self.identities[k], self.roster, k, self.parameters, self.study.hash, memory, pins=pins
        )
        return Client(StudyRows(self.study, self.rows[k]), site, memory)

    def restart(self) -> None:
        self.heads = dict(self.coordinator.heads)
        for vault in self.vaults:
            vault.close()
        self.vaults = [self._vault(k) for k in range(len(self.rows))]
        self._start_anew()

    def ask(self, letters: Mapping[str, bytes], timeout: float) -> dict[str, bytes]:
        """The carrier."""
        kinds = {Envelope.parse(letter).header.kind for letter in letters.values()}
        deaf = {k for kind in kinds for k in self.deaf.get(kind, ())}
        mute = {k for kind in kinds for k in self.mute.get(kind, ())}
        heard = {k: m for k, m in letters.items() if int(k) not in deaf}
        answers = {k: self.clients[int(k)].handle(m) for k, m in heard.items()}
        return {k: answer for k, answer in answers.items() if int(k) not in mute}

    def send(self, letters: Mapping[int, bytes]) -> dict[int, bytes]:
        """Letters that a test wrote itself."""
        answers = self.ask({str(k): letter for k, letter in letters.items()}, 1.0)
        return {int(k): answer for k, answer in answers.items()}

    def spent_at_sites(self) -> list[Cost]:
        return [vault.ledger.spent(self.study.account) for vault in self.vaults]

    def close(self) -> None:
        for vault in self.vaults:
            vault.close()
