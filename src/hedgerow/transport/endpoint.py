"""A site's end of a round: bytes in, checks, rows, then charge and masks together, bytes out.

Checks that need no data come first. The answer is computed inside the site; the charge, the round
id and the complete masked message then become durable in one transaction. If the ledger says no,
nothing was kept and nothing leaves.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import BudgetExceeded, PartyRefused, SpecError
from hedgerow.privacy.ledger.charges import Charge
from hedgerow.privacy.noise.randomness import SecretRandomness
from hedgerow.secagg.codes import Code
from hedgerow.secagg.envelope import LedgerHead
from hedgerow.secagg.memory import StoredRound
from hedgerow.secagg.site import Resend, Site
from hedgerow.site.member import Member, Response
from hedgerow.study.terms import Study
from hedgerow.transport.wire import Receiver


class Safe(Protocol):
    """Where a site keeps what it must not forget: a vault on disk, or RAM for a simulation."""

    def release(
        self,
        charges: Sequence[Charge],
        run_id: bytes,
        round: int,
        mask: Callable[[LedgerHead], StoredRound],
    ) -> bytes:
        """Charges, masks and keeps a round in one transaction; the message may then leave."""
        ...


class Endpoint:
    """Joins a member, its half of the secure sum, and where it keeps its answers."""

    def __init__(self, member: Member, site: Site, safe: Safe) -> None:
        check_same_study(member.study, site)
        self.member, self.site, self.safe = member, site, safe
        self.receiver = Receiver()
        self._lock = threading.Lock()

    def answer(self, message: bytes) -> bytes:
        """ROUND -> MASKED. The same request again gets the same bytes, at no charge.

        One request at a time: a second one for the same round then finds the stored answer.
        """
        with self._lock:
            return self._answer(message)

    def _answer(self, message: bytes) -> bytes:
        begun = self.site.begin(message)
        if isinstance(begun, Resend):
            return begun.message
        bundle = self.receiver.decode(begun.bundle)
        charges = self.member.charges(bundle)
        response = self.member.respond(bundle, SecretRandomness())

        def mask(head: LedgerHead) -> StoredRound:
            return self.site.mask(begun, _vector(response), head, response.picks)

        try:
            return self.safe.release(charges, begun.run_id, begun.round, mask)
        except BudgetExceeded:
            raise PartyRefused(Code.BUDGET_REFUSED.value) from None


def check_same_study(study: Study, site: Site) -> None:
    """What the site speaks for is what was approved: content, sites and coordinator."""
    roster = site.roster.sites, site.roster.coordinator
    named = (study.sites, study.coordinator) if study.sites else roster
    if study.hash != site.study_hash or named != roster:
        raise SpecError(
            f"the site speaks for another study, or other sites, than {study.name!r} names; "
            "give both the same."
        )


def _vector(response: Response) -> NDArray[np.int64]:
    """A round of selections alone still sums one zero, so that it is opened like any other."""
    return response.vector if len(response.vector) else np.zeros(1, np.int64)
