"""A consortium whose sites serve from vaults in folders, for tests: nothing here is hedgerow's."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable
from fractions import Fraction as Q
from functools import partial
from pathlib import Path

from hedgerow.federation.store.vault import Vault
from hedgerow.privacy.accounting.budget import Measure
from hedgerow.privacy.ledger.charges import Charge
from hedgerow.secagg.client import Resend
from hedgerow.secagg.graph import Parameters
from hedgerow.secagg.masks import Int64
from support import secagg_rehearsal

ACCOUNT = secagg_rehearsal.STUDY.hex()
COST = Q(1, 100)


class VaultConsortium:
    """`group` is the consortium of the secure sum; its sites' memories are vaults here."""

    def __init__(
        self, folder: Path, parties: int, parameters: Parameters | None = None, cap: Q = Q(1)
    ) -> None:
        self.folder = folder
        self.group = secagg_rehearsal.consortium(parties, parameters, opened=False)
        self.vaults: list[Vault] = [self._opened(me) for me in range(parties)]
        for me, vault in enumerate(self.vaults):
            vault.ledger.set_lifetime(Measure.PURE, Q(10))
            vault.ledger.approve(ACCOUNT, Measure.PURE, cap, "a study")
            secagg_rehearsal.restarted(self.group, me, vault.memory(ACCOUNT))
        self.open_epoch()

    def place(self, me: int) -> Path:
        return self.folder / f"site {me}" / "state" / "site.db"

    def anchor(self, me: int) -> Path:
        return self.folder / f"site {me}" / "anchor"

    def _opened(self, me: int) -> Vault:
        self.place(me).parent.parent.mkdir(exist_ok=True)
        return Vault.open(self.place(me), self.group.identities[me], self.anchor(me))

    def open_epoch(self) -> None:
        letters = self.group.coordinator.join()
        keys = [
            self.group.sites[me].join(letters[me], partial(vault.head, ACCOUNT))
            for me, vault in enumerate(self.vaults)
        ]
        for me, message in self.group.coordinator.open(keys).items():
            self.group.sites[me].open(message)

    def answer(self, me: int, message: bytes, vector: Int64) -> bytes:
        """ROUND -> MASKED, charged and stored as a guard does."""
        site = self.group.sites[me]
        begun = site.begin(message)
        if isinstance(begun, Resend):
            return begun.message
        charges = [Charge((), COST, "Count of all rows", ACCOUNT, Measure.PURE)]
        return self.vaults[me].release(
            charges, begun.run_id, begun.round, lambda end: site.mask(begun, vector, end)
        )

    def answers(self, requests: dict[int, bytes], vectors: list[Int64]) -> dict[int, bytes]:
        return {me: self.answer(me, message, vectors[me]) for me, message in requests.items()}

    def spent(self) -> set[Q]:
        return {vault.ledger.spent(ACCOUNT) for vault in self.vaults}

    # ------------------------------------------------------------------ what happens to files
    def restart(self, me: int) -> None:
        """The site's process ends and another one starts."""
        self.vaults[me].close()
        self.vaults[me] = self._opened(me)
        secagg_rehearsal.restarted(self.group, me, self.vaults[me].memory(ACCOUNT))

    def copy(self, sites: Iterable[int]) -> None:
        """Copies state folders while sites serve, between two of their transactions."""
        for me in sites:
            shutil.copytree(self.place(me).parent, self._copied(me))

    def bring_back(self, me: int) -> None:
        """The copy takes the place of the folder; the anchor stays where it was."""
        self.vaults[me].close()
        shutil.rmtree(self.place(me).parent)
        shutil.copytree(self._copied(me), self.place(me).parent)

    def _copied(self, me: int) -> Path:
        return self.folder / f"site {me}" / "copy"

    def close(self) -> None:
        for vault in self.vaults:
            vault.close()
