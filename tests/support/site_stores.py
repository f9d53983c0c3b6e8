"""Sites that serve from stores: over a link that may lose messages, and as a bare consortium."""

from __future__ import annotations

import math
import shutil
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from fractions import Fraction as Q
from functools import partial
from pathlib import Path

from hedgerow.data.prepared import StudyRows
from hedgerow.data.rows import Rows
from hedgerow.federation.client import Client
from hedgerow.federation.exchange import Timing, patient
from hedgerow.federation.secure_sites import SecureSites
from hedgerow.federation.site_store import SiteStore
from hedgerow.privacy.accounting.budget import Cost, Measure
from hedgerow.privacy.ledger.charges import Charge
from hedgerow.privacy.study import Study
from hedgerow.secagg.client import Site
from hedgerow.secagg.envelope import Envelope, LedgerHead, MessageKind
from hedgerow.secagg.keys import Identity, Roster
from hedgerow.secagg.masks import Int64
from hedgerow.secagg.parameters import Parameters
from hedgerow.secagg.server import Coordinator
from support import secagg_dry_run
from support.faults import do_not_wait
from support.worlds import ByName

IMPATIENT = Timing(answer_seconds=1, asks=1, patience_seconds=0, return_seconds=0, at_once=False)
"""Nobody is waited for: a silent site of these tests stays silent."""


class DurableLink(ByName, SecureSites):
    """Sites that serve from stores; `restart` stops all of them and lets them join again.

    `deaf` sites never get messages of a kind; of `mute` ones the answers to it are lost.
    """

    def __init__(
        self,
        study: Study,
        rows: Sequence[Rows],
        folder: Path,
        caps: Sequence[Cost] | None = None,
        timing: Timing = IMPATIENT,
    ) -> None:
        self.rows, self.folder, self.timing = rows, folder, timing
        self.study = study
        self.identities = [Identity.generate() for _ in rows]
        self.own_identity = Identity.generate()
        self.roster = Roster(tuple(i.public for i in self.identities), self.own_identity.public)
        self.parameters = study.parameters
        self.deaf: dict[MessageKind, Collection[int]] = {}
        self.mute: dict[MessageKind, Collection[int]] = {}
        self.site_stores = [self._site_store(k) for k in range(len(rows))]
        for site_store, cap in zip(
            self.site_stores, caps or [study.limit] * len(rows), strict=True
        ):
            site_store.ledger.set_lifetime(
                Measure.ZCDP, math.inf if cap == math.inf else Fraction(10)
            )
            site_store.ledger.approve(study.account, study.measure, cap, study.name)
        self.heads: Mapping[int, LedgerHead] = {}
        self._start_anew()

    def _site_store(self, k: int) -> SiteStore:
        place = self.folder / f"site{k}"
        return SiteStore.open(
            place / "store.sqlite", self.identities[k], self.folder / f"anchor{k}"
        )

    def _start_anew(self) -> None:
        coordinator = Coordinator(
            self.own_identity, self.roster, self.parameters, self.study.hash, self.heads
        )
        self.clients = [self._served(k) for k in range(len(self.site_stores))]
        self.link_to(coordinator)
        self.enter()

    def link_to(self, coordinator: Coordinator) -> None:
        """As a coordinator that was started now, which knows nothing but what it is given.

        Its clock is not the machine's: how long a site has been silent is for tests to say.
        """
        self.names = [str(k) for k in range(len(self.rows))]
        retry_policy = do_not_wait(self.names, self.timing)
        SecureSites.__init__(
            self, self.study, coordinator, patient(self, retry_policy), retry_policy
        )

    def _served(self, k: int) -> Client:
        memory, pins = self.site_stores[k].memory(self.study.account), self.roster.fingerprints
        site = Site(
            self.identities[k], self.roster, k, self.parameters, self.study.hash, memory, pins=pins
        )
        return Client(StudyRows(self.study, self.rows[k]), site, memory)

    def restart(self) -> None:
        self.heads = dict(self.coordinator.heads)
        for site_store in self.site_stores:
            site_store.close()
        self.site_stores = [self._site_store(k) for k in range(len(self.rows))]
        self._start_anew()

    def ask(self, messages: Mapping[str, bytes], timeout: float) -> dict[str, bytes]:
        kinds = {Envelope.parse(message).header.kind for message in messages.values()}
        deaf = {k for kind in kinds for k in self.deaf.get(kind, ())}
        mute = {k for kind in kinds for k in self.mute.get(kind, ())}
        heard = {k: m for k, m in messages.items() if int(k) not in deaf}
        answers = {k: self.clients[int(k)].handle(m) for k, m in heard.items()}
        return {k: answer for k, answer in answers.items() if int(k) not in mute}

    def send(self, messages: Mapping[int, bytes]) -> dict[int, bytes]:
        """Letters that a test wrote itself."""
        answers = self.ask({str(k): message for k, message in messages.items()}, 1.0)
        return {int(k): answer for k, answer in answers.items()}

    def spent_at_sites(self) -> list[Cost]:
        return [site_store.ledger.spent(self.study.account) for site_store in self.site_stores]

    def close(self) -> None:
        for site_store in self.site_stores:
            site_store.close()


# --------------------------------------------------------------------------------------------------
# A consortium whose sites serve from stores in folders, for tests: nothing here is hedgerow's.
ACCOUNT = secagg_dry_run.STUDY.hex()
COST = Q(1, 100)


class StoreConsortium:
    """`group` is the consortium of the secure sum; its sites' memories are stores here."""

    def __init__(
        self, folder: Path, n_sites: int, parameters: Parameters | None = None, cap: Q = Q(1)
    ) -> None:
        self.folder = folder
        self.group = secagg_dry_run.consortium(n_sites, parameters, opened=False)
        self.site_stores: list[SiteStore] = [self._opened(me) for me in range(n_sites)]
        for me, site_store in enumerate(self.site_stores):
            site_store.ledger.set_lifetime(Measure.PURE, Q(10))
            site_store.ledger.approve(ACCOUNT, Measure.PURE, cap, "a study")
            secagg_dry_run.restarted(self.group, me, site_store.memory(ACCOUNT))
        self.open_session()

    def place(self, me: int) -> Path:
        return self.folder / f"site {me}" / "state" / "site.db"

    def anchor(self, me: int) -> Path:
        return self.folder / f"site {me}" / "anchor"

    def _opened(self, me: int) -> SiteStore:
        self.place(me).parent.parent.mkdir(exist_ok=True)
        return SiteStore.open(self.place(me), self.group.identities[me], self.anchor(me))

    def open_session(self) -> None:
        messages = self.group.coordinator.join()
        keys = [
            self.group.sites[me].join(messages[me], partial(site_store.head, ACCOUNT))
            for me, site_store in enumerate(self.site_stores)
        ]
        secagg_dry_run.bind(self.group, self.group.coordinator.open(keys))

    def answer(self, me: int, message: bytes, vector: Int64) -> bytes:
        """ROUND -> MASKED, charged and stored as a guard does."""
        site = self.group.sites[me]
        begun = site.begin(message)
        if isinstance(begun, bytes):
            return begun
        charges = [Charge((), COST, "Count of all rows", ACCOUNT, Measure.PURE)]
        return self.site_stores[me].release(
            charges, begun.run_id, begun.round, lambda end: site.mask(begun, vector, end)
        )

    def answers(self, requests: dict[int, bytes], vectors: list[Int64]) -> dict[int, bytes]:
        return {me: self.answer(me, message, vectors[me]) for me, message in requests.items()}

    def spent(self) -> set[Q]:
        return {site_store.ledger.spent(ACCOUNT) for site_store in self.site_stores}

    # ------------------------------------------------------------------ what happens to files
    def restart(self, me: int) -> None:
        """The site's process ends and another one starts."""
        self.site_stores[me].close()
        self.site_stores[me] = self._opened(me)
        secagg_dry_run.restarted(self.group, me, self.site_stores[me].memory(ACCOUNT))

    def copy(self, sites: Iterable[int]) -> None:
        """Copies state folders while sites serve, between two of their transactions."""
        for me in sites:
            shutil.copytree(self.place(me).parent, self._copied(me))
            shutil.copy(self.anchor(me), self._copied_anchor(me))

    def bring_back(self, me: int, *, anchor: bool = False) -> None:
        """The copy takes the place of the folder; the anchor stays where it was.

        Unless the whole machine is brought back.
        """
        self.site_stores[me].close()
        if anchor:
            shutil.copy(self._copied_anchor(me), self.anchor(me))
        shutil.rmtree(self.place(me).parent)
        shutil.copytree(self._copied(me), self.place(me).parent)

    def _copied(self, me: int) -> Path:
        return self.folder / f"site {me}" / "copy"

    def _copied_anchor(self, me: int) -> Path:
        return self.folder / f"site {me}" / "copied anchor"

    def close(self) -> None:
        for site_store in self.site_stores:
            site_store.close()
