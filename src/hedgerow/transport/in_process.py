"""All parties in one process: the real steps of both halves, without a network between them.

One holder answers directly. Several holders run the whole secure sum, masks and all. One process
then draws all shares of the noise, so the statement says "simulated".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

from hedgerow.coordinator.federation import Collected, Federation
from hedgerow.coordinator.record import Listener, silent
from hedgerow.privacy.accounting.budget import Cost
from hedgerow.privacy.ledger.charges import Charge, Ledger, MemoryLedger
from hedgerow.privacy.ledger.events import cost_text
from hedgerow.privacy.noise.randomness import SecretRandomness
from hedgerow.queries import BoundQuery, Query, SumQuery
from hedgerow.secagg.coordinator import Coordinator
from hedgerow.secagg.envelope import EMPTY_LEDGER, LedgerHead
from hedgerow.secagg.keys import Identity, Roster
from hedgerow.secagg.memory import MemoryInRam, StoredRound
from hedgerow.secagg.parameters import Parameters
from hedgerow.secagg.site import Site
from hedgerow.site.member import Member
from hedgerow.site.rows import Rows
from hedgerow.study.terms import Study
from hedgerow.transport.endpoint import Endpoint
from hedgerow.transport.wire import Sender


def open_federation(
    study: Study,
    holders: Sequence[Rows],
    listener: Listener = silent,
) -> Federation:
    """A federation over the holders' rows."""
    link = OneHolder(study, holders[0]) if len(holders) == 1 else SecureLink(study, holders)
    return Federation(study, link, MemoryLedger(study.limit), listener)


def enter(member: Member, ledger: Ledger) -> None:
    """Charges what a record pays on entering the run, where there is such a price."""
    if charges := member.entry_charges():
        ledger.reserve(charges, "entry")


class OneHolder:
    """One site that holds all rows: it charges, draws all the noise and answers."""

    def __init__(self, study: Study, rows: Rows) -> None:
        self.study = study
        self.member = Member(study, rows)
        self.ledger = MemoryLedger(study.limit)
        self.sender = Sender()
        enter(self.member, self.ledger)

    def round(self, number: int, bundle: Sequence[Query]) -> Collected:
        self.ledger.reserve(self.member.charges(bundle), f"round {number}")
        response = self.member.respond(bundle, SecretRandomness())
        asked = len(self.sender.encode(bundle))
        return Collected(response.vector, (response.picks,), 8 * len(response.vector), asked)

    def spent(self) -> Cost:
        return self.ledger.spent(self.study.name)


class RamSafe(MemoryInRam):
    """What a simulated site keeps, for as long as the process lives."""

    def __init__(self, limit: Cost) -> None:
        super().__init__()
        self.ledger = MemoryLedger(limit)
        self._beside: dict[tuple[bytes, int], bytes] = {}

    def release(
        self,
        charges: Sequence[Charge],
        run_id: bytes,
        round: int,
        mask: Callable[[LedgerHead], StoredRound],
        beside: bytes = b"",
    ) -> bytes:
        receipt = self.ledger.reserve(charges, f"round {round}")
        record = mask(LedgerHead(receipt.seq, receipt.head, cost_text(receipt.spent)))
        self.store(record)
        self._beside = {(run_id, round): beside}
        return record.message

    def beside(self, run_id: bytes, round: int) -> bytes | None:
        return self._beside.get((run_id, round))


class SecureLink:
    """Several sites and a coordinator that sees only masked vectors."""

    def __init__(self, study: Study, holders: Sequence[Rows]) -> None:
        self.study = study
        identities = [Identity.generate() for _ in holders]
        coordinator = Identity.generate()
        roster = Roster(tuple(i.public for i in identities), coordinator.public)
        parameters = Parameters(
            parties=study.parties, colluders=study.colluders, threshold=study.threshold
        )
        self.coordinator = Coordinator(coordinator, roster, parameters, study.hash)
        self.endpoints = [
            self._endpoint(rows, identity, roster, place, parameters)
            for place, (rows, identity) in enumerate(zip(holders, identities, strict=True))
        ]
        keys = [endpoint.site.keys(EMPTY_LEDGER) for endpoint in self.endpoints]
        for place, message in self.coordinator.open(keys).items():
            self.endpoints[place].site.open(message)
        self.sender = Sender()

    def _endpoint(
        self, rows: Rows, identity: Identity, roster: Roster, me: int, parameters: Parameters
    ) -> Endpoint:
        safe = RamSafe(self.study.limit)
        site = Site(identity, roster, me, parameters, self.study.hash, safe)
        member = Member(self.study, rows)
        enter(member, safe.ledger)
        return Endpoint(member, site, safe, safe)

    def round(self, number: int, bundle: Sequence[Query]) -> Collected:
        size = sum(int(np.prod(q.shape)) for q in bundle if isinstance(q, SumQuery | BoundQuery))
        secure = self.coordinator.start(self.sender.encode(bundle), max(size, 1))
        requests = secure.requests()
        replies = {site: self.endpoints[site].answer(ask) for site, ask in requests.items()}
        for reply in replies.values():
            secure.accept_masked(reply.masked)
        secure.close()
        letters = secure.unmask()
        shares = {k: self.endpoints[k].site.unmask(letter) for k, letter in letters.items()}
        for share in shares.values():
            secure.accept_shares(share)
        return Collected(
            secure.opened().values,
            tuple(reply.picks for reply in replies.values()),
            len(replies[0].masked) + len(shares[0]),
            len(requests[0]) + len(letters[0]),
        )

    def spent(self) -> Cost:
        receipts = [head.spent for head in self.coordinator.heads.values()]
        return math.inf if "inf" in receipts else max(Fraction(spent) for spent in receipts)
