"""All parties in one process: the real steps of both halves, without a network between them.

One holder answers directly. Several holders run the whole secure sum, masks and all. One process
then draws all shares of the noise, so the statement says "simulated".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hedgerow.errors import UnsupportedQuery
from hedgerow.federation.client import Endpoint
from hedgerow.federation.exchange import Collected, Direct, Post
from hedgerow.federation.link import SecureLink
from hedgerow.federation.member import Held, Member
from hedgerow.federation.policy import Policy
from hedgerow.federation.server import Federation
from hedgerow.kernels.threads import using
from hedgerow.privacy.accounting.budget import Cost
from hedgerow.privacy.admission import why_not
from hedgerow.privacy.ledger.charges import ENTRY_ID, Charge, MemoryLedger
from hedgerow.privacy.ledger.events import short_text
from hedgerow.privacy.mechanisms.randomness import SecretRandomness
from hedgerow.privacy.pricing import entry_charges
from hedgerow.privacy.queries import Query
from hedgerow.privacy.statement.record import Listener, silent
from hedgerow.privacy.study import Study
from hedgerow.secagg.client import Site
from hedgerow.secagg.envelope import EMPTY_LEDGER, LedgerHead
from hedgerow.secagg.graph import Parameters
from hedgerow.secagg.keys import Identity, Roster
from hedgerow.secagg.memory import MemoryInRam, StoredRound
from hedgerow.secagg.server import Coordinator


def open_federation(
    study: Study,
    holders: Sequence[Held],
    listener: Listener = silent,
) -> Federation:
    """A federation over the holders' rows."""
    link = OneHolder(study, holders[0]) if len(holders) == 1 else InProcess(study, holders)
    return Federation(study, link, MemoryLedger(study.limit), listener)


class OneHolder:
    """One site that holds all rows: it charges, draws all the noise and answers."""

    def __init__(self, study: Study, rows: Held) -> None:
        self.study = study
        self.member = Member(study, rows, Policy.open())
        self.ledger = MemoryLedger(study.limit)
        if entry := entry_charges(study):
            self.ledger.reserve_once(entry, ENTRY_ID)

    def round(self, number: int, bundle: Sequence[Query]) -> Collected:
        """The same order as over a wire: admitted, charged, computed. Nothing is serialised."""
        self.member.require_open()
        reason = why_not(self.study, bundle)
        if reason is not None:
            raise UnsupportedQuery(f"{reason}; a recipe may ask what it says that it asks.")
        self.ledger.reserve(self.member.charges(bundle), f"round {number}")
        response = self.member.respond(bundle, SecretRandomness())
        sent = 8 * len(response.vector)
        return Collected(response.vector, (response.picks,), sent, 0, (0,))

    def spent(self) -> Cost:
        return self.ledger.spent(self.study.account)


class RamSafe(MemoryInRam):
    """What a simulated site keeps, for as long as the process lives."""

    def __init__(self, limit: Cost) -> None:
        super().__init__()
        self.ledger = MemoryLedger(limit)
        self._last = EMPTY_LEDGER

    def head(self) -> LedgerHead:
        """Where the ledger ended with the last round."""
        return self._last

    def release(
        self,
        charges: Sequence[Charge],
        run_id: bytes,
        round: int,
        mask: Callable[[LedgerHead], StoredRound],
    ) -> bytes:
        receipt = self.ledger.reserve(charges, f"round {round}")
        record = mask(LedgerHead(receipt.seq, receipt.head, short_text(receipt.spent)))
        self.store(record)
        self._last = record.ledger
        return record.message

    def enter(self, charges: Sequence[Charge]) -> None:
        self.ledger.reserve_once(charges, ENTRY_ID)


class InProcess(SecureLink):
    """Several sites in one process, each behind its own end of the wire."""

    def __init__(self, study: Study, holders: Sequence[Held]) -> None:
        identities = [Identity.generate() for _ in holders]
        own = Identity.generate()
        roster = Roster(tuple(i.public for i in identities), own.public)
        parameters = Parameters.of(study.parameters)
        with using(1):  # sites are on threads of their own, so their rows are not in blocks
            self.endpoints = [
                _endpoint(study, rows, identity, roster, place)
                for place, (rows, identity) in enumerate(zip(holders, identities, strict=True))
            ]
        names = [str(place) for place in range(len(holders))]
        carrier = Direct(dict(zip(names, (end.handle for end in self.endpoints), strict=True)))
        coordinator = Coordinator(own, roster, parameters, study.hash)
        super().__init__(study, coordinator, Post(carrier, names))
        self.enter()


def _endpoint(study: Study, rows: Held, identity: Identity, roster: Roster, me: int) -> Endpoint:
    safe = RamSafe(study.limit)
    parameters, pins = Parameters.of(study.parameters), roster.fingerprints
    site = Site(identity, roster, me, parameters, study.hash, safe, pins=pins)
    member = Member(study, rows, Policy.open())
    return Endpoint(member, site, safe, safe.head)
