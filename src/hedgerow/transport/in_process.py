"""All parties in one process: the real steps of both halves, without a network between them.

One holder answers directly. Several holders run the whole secure sum, masks and all. One process
then draws all shares of the noise, so the statement says "simulated".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

from hedgerow.coordinator.federation import Collected, Federation
from hedgerow.coordinator.record import Listener, silent
from hedgerow.errors import UnsupportedQuery
from hedgerow.privacy.accounting.budget import Cost
from hedgerow.privacy.ledger.charges import ENTRY_ID, Charge, MemoryLedger
from hedgerow.privacy.ledger.events import short_text
from hedgerow.privacy.noise.randomness import SecretRandomness
from hedgerow.queries import LocalChoice, Query, SelectQuery
from hedgerow.secagg.coordinator import Coordinator, SecureSum
from hedgerow.secagg.envelope import EMPTY_LEDGER, LedgerHead
from hedgerow.secagg.keys import Identity, Roster
from hedgerow.secagg.memory import MemoryInRam, StoredRound
from hedgerow.secagg.parameters import Parameters
from hedgerow.secagg.site import Site
from hedgerow.site.member import Member
from hedgerow.site.policy import Policy
from hedgerow.site.rows import Rows
from hedgerow.study.admission import length_of, why_not
from hedgerow.study.describe import entry_charges
from hedgerow.study.terms import Study
from hedgerow.transport.endpoint import Endpoint, accepted
from hedgerow.transport.wire import Bundle, Sender


def open_federation(
    study: Study,
    holders: Sequence[Rows],
    listener: Listener = silent,
) -> Federation:
    """A federation over the holders' rows."""
    link = OneHolder(study, holders[0]) if len(holders) == 1 else SecureLink(study, holders)
    return Federation(study, link, MemoryLedger(study.limit), listener)


class OneHolder:
    """One site that holds all rows: it charges, draws all the noise and answers."""

    def __init__(self, study: Study, rows: Rows) -> None:
        self.study = study
        self.member = Member(study, rows, Policy.open())
        self.ledger = MemoryLedger(study.limit)
        if entry := entry_charges(study):
            self.ledger.reserve_once(entry, ENTRY_ID)

    def round(self, number: int, bundle: Sequence[Query]) -> Collected:
        """The same order as over a wire: admitted, charged, computed. Nothing is serialised."""
        reason = why_not(self.study, bundle)
        if reason is not None:
            raise UnsupportedQuery(f"{reason}; a recipe may ask what it says that it asks.")
        self.ledger.reserve(self.member.charges(bundle), f"round {number}")
        response = self.member.respond(bundle, SecretRandomness())
        return Collected(response.vector, (response.picks,), 8 * len(response.vector), 0)

    def spent(self) -> Cost:
        return self.ledger.spent(self.study.account)


class RamSafe(MemoryInRam):
    """What a simulated site keeps, for as long as the process lives."""

    def __init__(self, limit: Cost) -> None:
        super().__init__()
        self.ledger = MemoryLedger(limit)

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
        return record.message

    def enter(self, charges: Sequence[Charge]) -> None:
        self.ledger.reserve_once(charges, ENTRY_ID)


class SecureLink:
    """Several sites and a coordinator that sees only masked vectors."""

    def __init__(self, study: Study, holders: Sequence[Rows]) -> None:
        self.study = study
        identities = [Identity.generate() for _ in holders]
        coordinator = Identity.generate()
        roster = Roster(tuple(i.public for i in identities), coordinator.public)
        parameters = Parameters.of(study.parameters)
        self.coordinator = Coordinator(coordinator, roster, parameters, study.hash)
        self.endpoints = [
            self._endpoint(rows, identity, roster, place)
            for place, (rows, identity) in enumerate(zip(holders, identities, strict=True))
        ]
        self.join()

    def _endpoint(self, rows: Rows, identity: Identity, roster: Roster, me: int) -> Endpoint:
        safe = RamSafe(self.study.limit)
        parameters = Parameters.of(self.study.parameters)
        site = Site(
            identity, roster, me, parameters, self.study.hash, safe, pins=roster.fingerprints
        )
        member = Member(self.study, rows, Policy.open())
        return Endpoint(member, site, safe, self.head_of(safe))

    def head_of(self, safe: RamSafe) -> Callable[[], LedgerHead]:
        """Where the ledger of a site ends when it joins; a simulated one begins there."""
        return lambda: EMPTY_LEDGER

    def join(self) -> None:
        """A new epoch, in which nothing has a name yet."""
        self.sender = Sender()
        keys = self.ask(self.coordinator.join())
        self.ask(self.coordinator.open(keys.values()))

    def ask(self, letters: Mapping[int, bytes]) -> dict[int, bytes]:
        """The answers of the sites that were reached: here, of all."""
        return {
            place: accepted(place, self.endpoints[place].handle(letter))
            for place, letter in letters.items()
        }

    def round(self, number: int, bundle: Sequence[Query]) -> Collected:
        encoded = self.sender.encode(bundle)
        secure = self._start(bundle, encoded)
        requests = secure.requests(dict.fromkeys(range(self.study.parties), encoded.definitions))
        masked = self.ask(requests)
        for answer in masked.values():
            secure.accept_masked(answer)
        signed = self.ask(secure.close())
        for signature in signed.values():
            secure.accept_signature(signature)
        letters = secure.unmask()
        shares = self.ask(letters)
        for share in shares.values():
            secure.accept_shares(share)
        opened = secure.opened()
        return Collected(
            opened.values,
            tuple(opened.picks[place] for place in opened.members),
            _longest(masked) + _longest(signed) + _longest(shares),
            _longest(requests) + _longest(letters),
        )

    def _start(self, bundle: Sequence[Query], encoded: Bundle) -> SecureSum:
        picks = sum(isinstance(query, SelectQuery | LocalChoice) for query in bundle)
        size = max(length_of(bundle), 1)
        return self.coordinator.start(encoded.questions, size, picks=picks)

    def spent(self) -> Cost:
        receipts = [head.spent for head in self.coordinator.heads.values()]
        return math.inf if "inf" in receipts else max(Fraction(spent) for spent in receipts)


def _longest(messages: Mapping[int, bytes]) -> int:
    """What one site sends or gets: all have the same length, to a few digits of what they spent."""
    return max(map(len, messages.values()), default=0)
