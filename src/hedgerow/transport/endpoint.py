"""A site's end of a round: bytes in, checks, rows, then charge and masks together, bytes out.

Checks that need no data come first. The answer is computed inside the site; the charge, the round
id and the complete masked message then become durable in one transaction. If the ledger says no,
nothing was kept and nothing leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import BudgetExceeded, PartyRefused
from hedgerow.privacy.ledger.charges import Charge
from hedgerow.privacy.noise.randomness import SecretRandomness
from hedgerow.secagg.codes import Code
from hedgerow.secagg.envelope import LedgerHead
from hedgerow.secagg.memory import Memory, StoredRound
from hedgerow.secagg.site import Resend, Site
from hedgerow.site.member import Member, Response
from hedgerow.transport.wire import Receiver

PICK = np.dtype("<u4")


class Safe(Protocol):
    """Where a site keeps what it must not forget: a vault on disk, or RAM for a simulation."""

    def release(
        self,
        charges: Sequence[Charge],
        run_id: bytes,
        round: int,
        mask: Callable[[LedgerHead], StoredRound],
        beside: bytes = b"",
    ) -> bytes:
        """Charges, masks and keeps a round in one transaction; the message may then leave."""
        ...


class Kept(Memory, Protocol):
    def beside(self, run_id: bytes, round: int) -> bytes | None:
        """What left together with the round's message."""
        ...


@dataclass(frozen=True)
class SiteReply:
    """What leaves a site for one ROUND: the masked vector, and an index per selection."""

    masked: bytes
    picks: tuple[int, ...]


class Endpoint:
    """Joins a member, what it keeps, and its half of the secure sum."""

    def __init__(self, member: Member, site: Site, memory: Kept, safe: Safe) -> None:
        self.member, self.site, self.memory, self.safe = member, site, memory, safe
        self.receiver = Receiver()

    def answer(self, message: bytes) -> SiteReply:
        """ROUND -> MASKED. The same request again gets the same bytes, at no charge."""
        begun = self.site.begin(message)
        if isinstance(begun, Resend):
            beside = self.memory.beside(begun.run_id, begun.round) or b""
            return SiteReply(begun.message, _picks(beside))
        bundle = self.receiver.decode(begun.bundle)
        charges = self.member.charges(bundle)
        response = self.member.respond(bundle, SecretRandomness())
        beside = np.asarray(response.picks, PICK).tobytes()

        def mask(head: LedgerHead) -> StoredRound:
            return self.site.mask(begun, _vector(response), head)

        try:
            masked = self.safe.release(charges, begun.run_id, begun.round, mask, beside)
        except BudgetExceeded:
            raise PartyRefused(Code.BUDGET_REFUSED.value) from None
        return SiteReply(masked, response.picks)


def _vector(response: Response) -> NDArray[np.int64]:
    """A round of selections alone still sums one zero, so that it is opened like any other."""
    return response.vector if len(response.vector) else np.zeros(1, np.int64)


def _picks(beside: bytes) -> tuple[int, ...]:
    return tuple(np.frombuffer(beside, PICK).tolist())
