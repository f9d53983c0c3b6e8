"""All sites in one process: the real steps of both halves, without a network between them.

One site answers directly. Several sites run the whole secure sum, masks and all. One process
then draws all shares of the noise, so the statement says "simulated".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from hedgerow.data.prepared import Held, StudyRows
from hedgerow.errors import SiteRefused
from hedgerow.federation import client
from hedgerow.federation.client import Client, refusal_code
from hedgerow.federation.exchange import (
    Accept,
    LeftOut,
    Messages,
    Misses,
    Quorum,
    RetryPolicy,
    RoundSum,
)
from hedgerow.federation.secure_sites import SecureSites
from hedgerow.federation.server import Server, Sites
from hedgerow.kernels.threads import count, map_parts, using
from hedgerow.privacy.accounting.budget import Cost
from hedgerow.privacy.admission import admit
from hedgerow.privacy.ledger.charges import ENTRY_ID, Charge, MemoryLedger
from hedgerow.privacy.ledger.events import short_text
from hedgerow.privacy.mechanisms.coins import SecretRandomness
from hedgerow.privacy.pricing import Priced, entry_charges
from hedgerow.privacy.statement.record import Listener, silent
from hedgerow.privacy.study import Study
from hedgerow.secagg.client import Fresh, Site
from hedgerow.secagg.envelope import EMPTY_LEDGER, LedgerHead
from hedgerow.secagg.keys import Identity, Roster
from hedgerow.secagg.memory import MemoryInRam, StoredRound
from hedgerow.secagg.server import Coordinator


def open_federation(
    study: Study, site_rows: Sequence[Held], listener: Listener = silent, *more: Any
) -> Server:
    """A server over the sites' rows; `more` are the checks that it makes."""
    sites: Sites = (
        OneSite(study, *site_rows) if len(site_rows) == 1 else InProcess(study, site_rows)
    )
    return Server(study, sites, MemoryLedger(study.limit), listener, *more)


class OneSite:
    """One site that holds all rows: it charges, draws all the noise and answers."""

    def __init__(self, study: Study, rows: Held) -> None:
        self.study, self.rows = study, StudyRows(study, rows)
        self.ledger = MemoryLedger(study.limit)
        if entry := entry_charges(study):
            self.ledger.reserve_once(entry, ENTRY_ID)

    def round(self, number: int, bundle: Sequence[Priced], without: LeftOut = ()) -> RoundSum:
        """The same order as over a wire: admitted, charged, computed. Nothing is serialized."""
        self.rows.require_open()
        bundle = admit(self.study, [item.query for item in bundle])
        self.ledger.reserve([item.charge for item in bundle], f"round {number}")
        response = client.respond(self.rows, bundle, SecretRandomness())
        return RoundSum(response.vector, (response.selections,), 8 * len(response.vector), 0, (0,))

    def spent(self) -> Cost:
        return self.ledger.spent(self.study.account)


class RamStore(MemoryInRam):
    """The state of a simulated site, for as long as the process lives."""

    def __init__(self, limit: Cost) -> None:
        super().__init__()
        self.ledger = MemoryLedger(limit)
        self._last = EMPTY_LEDGER

    def head(self) -> LedgerHead:
        """The end of the ledger after the last round."""
        return self._last

    def enter(self, charges: Sequence[Charge]) -> None:
        self.ledger.reserve_once(charges, ENTRY_ID)

    def transact(
        self,
        charges: Sequence[Charge],
        request: Fresh,
        compute: Callable[[], client.Computation],
        mask: Callable[[LedgerHead, client.Computation], StoredRound],
    ) -> bytes:
        receipt = self.ledger.reserve(charges, f"round {request.round}")
        head = LedgerHead(receipt.seq, receipt.head, short_text(receipt.spent))
        record = mask(head, compute())
        self.store(record)
        self._last = record.header.ledger
        return record.message


class InProcess(SecureSites):
    """Several sites in one process, each behind its own end of the wire."""

    def __init__(self, study: Study, site_rows: Sequence[Held]) -> None:
        self.exchanges = 0
        """Exchanges with all sites at once; over a network each takes one round trip."""
        identities = [Identity.generate() for _ in site_rows]
        own = Identity.generate()
        roster = Roster(tuple(i.public for i in identities), own.public)
        with using(1):  # sites have their own threads, so their rows are not in blocks
            self.clients = [
                _client(study, rows, identity, roster, place)
                for place, (rows, identity) in enumerate(zip(site_rows, identities, strict=True))
            ]
        coordinator = Coordinator(own, roster, study.parameters, study.hash)
        names = [str(place) for place in range(len(site_rows))]
        super().__init__(study, coordinator, self._call, RetryPolicy(names))
        self.enter()

    def _call(self, messages: Messages, accept: Accept, quorum: Quorum) -> Misses:
        """The exchange: all sites answer, on threads if there are several."""
        replies = dict[int, bytes]()
        self.exchanges += 1
        if count() > 1:
            answers = map_parts(lambda site: self.clients[site].handle(messages[site]), messages)
            replies.update(zip(messages, answers, strict=True))
        else:
            for site, message in messages.items():
                replies[site] = self.clients[site].handle(message)
        for site, reply in replies.items():
            code = refusal_code(reply)
            if code is not None:
                raise SiteRefused(code, str(site))
            accept(site, reply)
        return Misses()


def _client(study: Study, rows: Held, identity: Identity, roster: Roster, me: int) -> Client:
    store = RamStore(study.limit)
    parameters, pins = study.parameters, roster.fingerprints
    site = Site(identity, roster, me, parameters, study.hash, store, pins=pins)
    # In one process nobody observes the time of replies.
    return Client(StudyRows(study, rows), site, store, wait=lambda seconds: None)
