"""A site's end of a round: bytes in, charge first, then rows, then masks, then bytes out.

The order is the promise. Checks that need no data come first; the charge and the whole masked
message are stored together before a byte may leave.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import BudgetExceeded, PartyRefused
from hedgerow.party.guard import Member
from hedgerow.privacy.budget import Cost
from hedgerow.privacy.ledger import NO_HEAD, Ledger, Receipt
from hedgerow.privacy.randomness import SecretRandomness
from hedgerow.secagg.codes import Code
from hedgerow.secagg.envelope import EMPTY_LEDGER, LedgerHead
from hedgerow.secagg.memory import Memory
from hedgerow.secagg.site import Resend, Site
from hedgerow.transport.wire import Receiver


@dataclass(frozen=True)
class SiteReply:
    """What leaves a site for one ROUND: the masked vector, and an index per selection."""

    masked: bytes
    picks: tuple[int, ...]


class Endpoint:
    """Joins a member, its ledger and its half of the secure sum."""

    def __init__(self, member: Member, site: Site, memory: Memory, ledger: Ledger) -> None:
        self.member, self.site, self.memory, self.ledger = member, site, memory, ledger
        self.receiver = Receiver()
        self._last_picks: tuple[int, ...] = ()

    def keys(self) -> bytes:
        return self.site.keys(EMPTY_LEDGER)

    def open(self, message: bytes) -> None:
        self.site.open(message)

    def answer(self, message: bytes) -> SiteReply:
        """ROUND -> MASKED. The same request again gets the same bytes, at no charge."""
        begun = self.site.begin(message)
        if isinstance(begun, Resend):
            return SiteReply(begun.message, self._last_picks)
        bundle = self.receiver.decode(begun.bundle)
        try:
            receipt = self.ledger.reserve(self.member.charges(bundle), f"round {begun.round}")
        except BudgetExceeded:
            raise PartyRefused(Code.BUDGET_REFUSED.value) from None
        response = self.member.respond(bundle, SecretRandomness())
        record = self.site.mask(begun, at_least_one(response.vector), head_of(receipt))
        self.memory.store(record)
        self._last_picks = response.picks
        return SiteReply(record.message, response.picks)

    def sign_set(self, message: bytes) -> bytes:
        return self.site.sign_set(message)

    def unmask(self, message: bytes) -> bytes:
        return self.site.unmask(message)


def at_least_one(vector: NDArray[np.int64]) -> NDArray[np.int64]:
    """A round of selections alone still sums one zero, so that it is opened like any other."""
    return vector if len(vector) else np.zeros(1, np.int64)


def head_of(receipt: Receipt) -> LedgerHead:
    """The end of the ledger, as message headers carry it."""
    head = receipt.head if receipt.head != NO_HEAD else hashlib.sha256(b"%d" % receipt.seq).digest()
    return LedgerHead(receipt.seq, head, rational(receipt.spent))


def rational(cost: Cost) -> str:
    return f"{cost.numerator}/{cost.denominator}" if isinstance(cost, Fraction) else "inf"
