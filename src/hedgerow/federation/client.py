"""A site's end of the wire: `handle(bytes) -> bytes`, whatever comes.

The order of a round: who asks and whether it fits the run; what is asked, and whether the study
admits it; the charge; then rows, noise and masks; one transaction; and only then bytes leave.
Nothing before the charge looks at a row, and no row can make anything fail after it. Should an
answer not be computed all the same, the charge stays and the study is closed here for good.
Outside, a refusal is a constant code; the reason is in the site's own log.
A reply to a round leaves at the end of the study's slot, so that its time does not tell of rows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from hedgerow.data.prepared import StudyRows
from hedgerow.errors import (
    BudgetExceeded,
    ComputationFailed,
    LedgerError,
    LedgerRolledBack,
    LedgerUnavailable,
    PartyRefused,
    SpecError,
    UnsupportedQuery,
)
from hedgerow.federation import response
from hedgerow.federation.audit_log import LOG
from hedgerow.federation.wire import Bundle, Receiver
from hedgerow.privacy.admission import admitted
from hedgerow.privacy.ledger.charges import Charge
from hedgerow.privacy.mechanisms.randomness import SecretRandomness
from hedgerow.privacy.pricing import entry_charges
from hedgerow.privacy.study import Study
from hedgerow.secagg.client import Fresh, Resend, Site
from hedgerow.secagg.codes import Code
from hedgerow.secagg.encoding import Reader
from hedgerow.secagg.envelope import Header, LedgerHead, MessageKind
from hedgerow.secagg.memory import Memory, StoredRound

REFUSED = b"hedgerow/refused/"
REFUSAL_BYTES = 48
"""All refusals are as long as each other."""


class Store(Memory, Protocol):
    """What a site must not forget of one study: a vault's file, or RAM for a simulation."""

    def head(self) -> LedgerHead:
        """Where the ledger ends, and what the study has cost."""
        ...

    def enter(self, charges: Sequence[Charge]) -> None:
        """Charges what records pay on entering the study, unless that was done before."""
        ...

    def transact(
        self, charges: Sequence[Charge], begun: Fresh, mask: Callable[[LedgerHead], StoredRound]
    ) -> bytes:
        """Charges, masks and keeps a round in one transaction; the message may then leave.

        If `mask` raises ComputationFailed the charge is kept and the study is closed.
        """
        ...


Noted = Callable[[MessageKind | None, bytes, Exception | None], None]
"""Hears of every letter once it is answered or refused: what it says that it is, and why not."""


def unnoted(kind: MessageKind | None, message: bytes, error: Exception | None) -> None:
    """Nobody listens."""


class Client:
    """Joins a site's rows, its half of the secure sum, and where it keeps its answers."""

    def __init__(
        self,
        rows: StudyRows,
        site: Site,
        store: Store,
        noted: Noted = unnoted,
        *,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
    ) -> None:
        check_same_study(rows.study, site)
        self.study, self.rows, self.site, self.store = rows.study, rows, site, store
        self.receiver = Receiver()
        self._lock = threading.Lock()
        self._ended = False
        self._noted, self._clock, self._wait = noted, clock, wait

    def handle(self, message: bytes) -> bytes:
        """Answers any message with a message or with a refusal; never raises, never explains."""
        arrived, kind = self._clock(), kind_named_by(message)
        with self._lock:
            try:
                if self._ended:
                    raise LedgerUnavailable("the site's service ends; nothing was sent.")
                self.rows.require_open()
                reply, error = STEPS.get(kind, Client._unknown)(self, message), None
            except Exception as refused:
                code, error = code_of(refused), refused
                LOG.warning("refused with %s", code.value, exc_info=error)
                reply = refusal(code)
            self._noted(kind, message, error)
        if kind is MessageKind.ROUND:
            self._wait_for_the_slot(arrived)
        return reply

    def end(self) -> None:
        """Returns once no letter is in the middle of being answered; none is from here on."""
        with self._lock:
            self._ended = True

    def _wait_for_the_slot(self, arrived: float) -> None:
        """Whatever became of the round: until a whole number of slots has passed."""
        slot = self.study.slot
        if not slot:
            return
        took = self._clock() - arrived
        if took > slot:
            LOG.warning("a round took %.1f s, longer than the slot of %d s", took, slot)
        self._wait(-took % slot)

    # ----------------------------------------------------------------------------------- steps
    def _join(self, message: bytes) -> bytes:
        return self.site.join(message, self._entered)

    def _entered(self) -> LedgerHead:
        """Where the ledger ends, once records have paid for entering: before anybody may ask."""
        if entry := entry_charges(self.study):
            self.store.enter(entry)
        return self.store.head()

    def _open(self, message: bytes) -> bytes:
        if self.site.open(message):
            self.receiver.forget()  # names live as long as an epoch
        return b""

    def _round(self, message: bytes) -> bytes:
        """ROUND -> MASKED. The same request again gets the same bytes, at no charge.

        The charge comes first; rows are read only once it stands.
        """
        begun = self.site.begin(message)
        if isinstance(begun, Resend):
            return begun.message
        queries, learned = self.receiver.decode(Bundle(begun.bundle, begun.definitions))
        try:
            asked = admitted(self.study, queries)
        except UnsupportedQuery as reason:
            raise PartyRefused(Code.POLICY_REFUSED.value) from reason

        def masked(head: LedgerHead) -> StoredRound:
            left = response.respond(self.rows, asked, SecretRandomness())
            try:
                return self.site.mask(begun, left.summed, head, left.picks)
            except Exception as error:
                raise self.rows.closed_by(error) from error

        reply = self.store.transact([one.charge for one in asked], begun, masked)
        self.receiver.keep(learned)
        return reply

    def _survivors(self, message: bytes) -> bytes:
        return self.site.sign_set(message)

    def _unmask(self, message: bytes) -> bytes:
        return self.site.unmask(message)

    def _unknown(self, message: bytes) -> bytes:
        raise PartyRefused(Code.BAD_MESSAGE.value)


STEPS: Mapping[MessageKind | None, Callable[[Client, bytes], bytes]] = {
    MessageKind.JOIN: Client._join,
    MessageKind.OPEN: Client._open,
    MessageKind.ROUND: Client._round,
    MessageKind.SURVIVORS: Client._survivors,
    MessageKind.UNMASK: Client._unmask,
}
"""What a site does with a letter: the answer, or an exception that stays at the site."""


def kind_named_by(message: bytes) -> MessageKind | None:
    """What a message says that it is; None if it is none."""
    try:
        return Header.read(Reader(message)).kind
    except Exception:  # whatever strange bytes do to a parser
        return None


# ------------------------------------------------------------------------------------- refusals
def code_of(error: BaseException) -> Code:
    """One constant code for every exception there is."""
    match error:
        case PartyRefused():
            return Code(error.code)
        case ComputationFailed():
            return Code.STUDY_CLOSED
        case BudgetExceeded():
            return Code.BUDGET_REFUSED
        case LedgerRolledBack():
            return Code.LEDGER_ROLLED_BACK
        case LedgerError():
            return Code.LEDGER_UNAVAILABLE
    return Code.INTERNAL


def refusal(code: Code) -> bytes:
    return (REFUSED + code.value.encode()).ljust(REFUSAL_BYTES)


def refused_with(reply: bytes) -> str | None:
    """The code of a refusal; None for any other reply."""
    if not reply.startswith(REFUSED):
        return None
    return reply[len(REFUSED) :].decode("ascii", "replace").strip()


def check_same_study(study: Study, site: Site) -> None:
    """What the site speaks for is what was approved: content, sites and coordinator."""
    roster = site.roster.sites, site.roster.coordinator
    named = (study.sites, study.coordinator) if study.sites else roster
    if study.hash != site.study_hash or named != roster:
        raise SpecError(
            f"the site speaks for another study, or other sites, than {study.name!r} names; "
            "give both the same."
        )
