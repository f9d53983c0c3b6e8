"""A site's client: `handle(bytes) -> bytes` answers every message of a coordinator.

The order of a round: check who asks and that it fits the run; check what is asked and that the
study admits it; reserve the charge; read rows and draw noise; write charge, masks and message in
one transaction; only then send bytes. No row is read before the charge is reserved, and no row can
cause a failure afterwards. If an answer cannot be computed all the same, the charge stays and the
study is closed for good. Outside, a refusal is a constant code; the reason is in the site's own
log. Every reply leaves at the site's fixed intervals, so that its time does not depend on the rows,
not even by waiting for a round of the same study or for the store.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, groupby
from operator import itemgetter
from typing import Protocol, TypeVar

import numpy as np

from hedgerow.data.prepared import StudyRows
from hedgerow.data.scoring import scores_by
from hedgerow.errors import (
    BudgetExceeded,
    ComputationFailed,
    LedgerError,
    LedgerRolledBack,
    LedgerUnavailable,
    ParameterError,
    SiteRefused,
    UnsupportedQuery,
)
from hedgerow.federation.audit_log import LOG
from hedgerow.federation.policy import Policy
from hedgerow.federation.wire import Bundle, Receiver
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.admission import admit
from hedgerow.privacy.ledger.charges import Charge
from hedgerow.privacy.mechanisms import sampling, selection
from hedgerow.privacy.mechanisms.coins import SecretRandomness
from hedgerow.privacy.pricing import Noise, Priced, entry_charges
from hedgerow.privacy.queries import LabelReports, Mechanism, Selecting, Summed, SumQuery
from hedgerow.privacy.study import Study
from hedgerow.schema.arrays import IntArray
from hedgerow.secagg.client import Fresh, Site
from hedgerow.secagg.codes import Code
from hedgerow.secagg.encoding import Reader
from hedgerow.secagg.envelope import NO_SESSION, Header, LedgerHead, MessageKind
from hedgerow.secagg.keys import Identity, Roster
from hedgerow.secagg.memory import Memory, StoredRound

# The response of a site in one round: sums with its noise, and its selections. A round message
# names queries only; noise and charge follow from the approved study (pricing.py).


@dataclass(frozen=True)
class Response:
    """One integer vector, and one index per private selection."""

    vector: IntArray
    selections: tuple[int, ...]

    @property
    def totals(self) -> IntArray:
        """The vector to sum; one zero in a round of selections alone, which is opened too."""
        return self.vector if len(self.vector) else np.zeros(1, np.int64)


Choose = Callable[[IntArray, Fraction, SecretRandomness], int]
"""Draws an index by scores and a coefficient."""
Draw = Callable[..., IntArray]
"""Draws this many numbers of a law."""


@dataclass(frozen=True)
class Samplers:
    """The samplers of a response. An audit replaces them to record their arguments."""

    draw: Draw
    choose: Mapping[Mechanism, Choose]


def respond(
    rows: StudyRows,
    bundle: Sequence[Priced],
    secret: SecretRandomness,
    samplers: Samplers | None = None,
) -> Response:
    """The whole answer after the charge, or a failure that closes the study.

    Admission leaves no way to fail that depends on a row, and kernels leave out a record that they
    cannot place. Should one fail all the same, it must not be asked for twice. All noise is drawn
    before rows are read, for every coordinate of every site.
    """
    rows.require_open()
    sums = [item.noise for item in bundle if item.noise is not None]
    try:
        samplers = samplers or Samplers(sampling.draw, MECHANISMS)
        noise = draw_noise(sums, secret, samplers.draw)
        if rows.permanent is None:
            exact = rows.sums.integers_of_all([item.query for item in sums], rows.study.unit)
        else:  # labels are randomized bits: every query gets new reports
            exact = [_randomize(rows, item, secret) for item in sums]
        parts = [x * item.refinement + z for item, x, z in zip(sums, exact, noise, strict=True)]
        queries = (item.query for item in bundle)
        selections = tuple(
            _select(rows, q, secret, samplers.choose) for q in queries if not isinstance(q, Summed)
        )
    except Exception as error:
        raise rows.close_after(error) from error
    return Response(np.concatenate(parts) if parts else np.zeros(0, np.int64), selections)


def draw_noise(sums: Sequence[Noise], secret: SecretRandomness, draw: Draw) -> list[IntArray]:
    """The noise of each query; consecutive queries with the same law draw together."""
    laws = [(item.of_site, item.size) for item in sums]
    result = list[IntArray]()
    for law, alike in groupby(laws, key=itemgetter(0)):
        ends = list(accumulate(size for _, size in alike))
        together = draw(law, ends[-1], secret)
        result += np.split(together, ends[:-1])
    return result


def _randomize(rows: StudyRows, noise: Noise, secret: SecretRandomness) -> IntArray:
    """Label reports: instant reports of each record's permanent bits, and 1 for the record."""
    query = noise.query
    if not isinstance(query, SumQuery) or not isinstance(query.statistic, LabelReports):
        return rows.sums.integers(query, noise.unit)
    if rows.permanent is None or rows.study.label_reports is None:
        raise UnsupportedQuery("label reports were asked where labels are not randomized bits.")
    bits = rows.study.label_reports.instant(rows.permanent, secret).astype(np.int64)
    reports = np.concatenate([bits, np.ones((len(bits), 1), np.int64)], axis=1)
    return rows.sums.integers_of(query, reports)


def _select(
    rows: StudyRows, query: Selecting, secret: SecretRandomness, choose: Mapping[Mechanism, Choose]
) -> int:
    study = rows.study
    exact = scores_by(query, rows.sums.tables, study.schema)
    if study.dp_model is DPModel.NONE:
        return int(np.argmax(exact))
    coefficient = study.selection_epsilon(query) / (query.scoring.reach * study.records_per_person)
    return choose[query.mechanism](exact, coefficient, secret)


MECHANISMS: dict[Mechanism, Choose] = {
    Mechanism.EXPONENTIAL: selection.exponential,
    Mechanism.PERMUTE_AND_FLIP: selection.permute_and_flip,
    Mechanism.REPORT_NOISY_MAX: selection.report_noisy_max,
}


REFUSED = b"hedgerow/refused/"
REFUSAL_BYTES = 48
"""All refusals have the same length."""


Computation = TypeVar("Computation")


class Store(Memory, Protocol):
    """The durable state of a site for one study: a store's file, or RAM for a simulation."""

    def head(self) -> LedgerHead:
        """The end of the ledger, and the cost of the study."""
        ...

    def enter(self, charges: Sequence[Charge]) -> None:
        """Charges the cost of entering the study, unless it was charged before."""
        ...

    def transact(
        self,
        charges: Sequence[Charge],
        request: Fresh,
        compute: Callable[[], Computation],
        mask: Callable[[LedgerHead, Computation], StoredRound],
    ) -> bytes:
        """Reserves, computes, then charges, masks and stores the round in one transaction.

        The message may then leave. If `compute` or `mask` raises ComputationFailed, the charge
        stays and the study is closed.
        """
        ...


MessageListener = Callable[[MessageKind | None, bytes, Exception | None], None]
"""Called for every message once it is answered or refused: its kind, its bytes, the error."""


def ignore_message(kind: MessageKind | None, message: bytes, error: Exception | None) -> None:
    """A listener that ignores all messages."""


class Client:
    """Connects a site's rows, its half of the secure sum, and its store."""

    def __init__(
        self,
        rows: StudyRows,
        site: Site,
        store: Store,
        listener: MessageListener = ignore_message,
        *,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], None] = time.sleep,
        reply_interval: Callable[[], int] | None = None,
        policy: Policy | None = None,
    ) -> None:
        check_same_study(rows.study, site)
        self.study, self.rows, self.site, self.store = rows.study, rows, site, store
        self.receiver, self._session = Receiver(), NO_SESSION
        self._lock = threading.Lock()
        self._has_ended = False
        self._listener, self._clock, self._wait = listener, clock, wait
        self._policy = policy or Policy.open()
        self._reply_interval = reply_interval or (lambda: rows.study.reply_interval)

    def handle(self, message: bytes) -> bytes:
        """Answers any message with a message or with a refusal; never raises, never explains."""
        arrival, kind = self._clock(), kind_named_by(message)
        with self._lock:
            try:
                if self._has_ended:
                    raise LedgerUnavailable("the site's service ends; nothing was sent.")
                self.rows.require_open()
                reply, error = STEPS.get(kind, Client._unknown)(self, message), None
                kind = MessageKind.DOUBT if kind_named_by(reply) is MessageKind.DOUBT else kind
            except Exception as problem:
                code, error = code_of(problem), problem
                LOG.warning("refused with %s", code.value, exc_info=error)
                reply = refusal(code)
            self._listener(kind, message, error)
        self._wait_for_the_interval(arrival)
        return reply

    def end(self) -> None:
        """Waits for a message that is being answered, and answers no more."""
        with self._lock:
            self._has_ended = True

    def _wait_for_the_interval(self, arrival: float) -> None:
        """Waits until a whole number of intervals has passed since arrival, in every case."""
        reply_interval, took = self._reply_interval(), self._clock() - arrival
        if not reply_interval:
            return
        if took > reply_interval:
            LOG.warning("a reply took %.1f s; the reply interval is %d s", took, reply_interval)
        self._wait(-took % reply_interval)

    # ----------------------------------------------------------------------------------- steps
    def _join(self, message: bytes) -> bytes:
        return self.site.join(message, self._pay_entry)

    def _pay_entry(self) -> LedgerHead:
        """Charges the cost of entering before anybody may ask; returns the ledger's end."""
        if entry := entry_charges(self.study):
            self.store.enter(entry)
        return self.store.head()

    def _open(self, message: bytes) -> bytes:
        reply = self.site.open(message)
        session = Header.read(Reader(message)).session_id
        if session != self._session:
            self.receiver.forget()  # names live as long as a key session
            self._session = session
        return reply

    def _round(self, message: bytes) -> bytes:
        """ROUND -> MASKED. A repeated request gets the same bytes, at no charge.

        The charge is reserved first; rows are read only if the account has room for it.
        """
        request = self.site.begin(message)
        if isinstance(request, bytes):
            return request
        queries, additions = self.receiver.decode(Bundle(request.bundle, request.definitions))
        try:
            bundle = admit(self.study, queries)
        except UnsupportedQuery as reason:
            raise SiteRefused(Code.POLICY_REFUSED.value) from reason
        fractions = [item.query.fraction for item in bundle]
        self._policy.check_request(self.study, len(message), fractions)

        def compute_response() -> Response:
            began, most = self._clock(), self._policy.seconds_per_round
            response = respond(self.rows, bundle, SecretRandomness())
            if most is not None and self._clock() - began > most:
                raise self.rows.close_after(TimeoutError(f"a round took more than {most} s"))
            return response

        def mask_response(head: LedgerHead, response: Response) -> StoredRound:
            try:
                return self.site.mask(request, response.totals, head, response.selections)
            except Exception as error:
                raise self.rows.close_after(error) from error

        charges = [item.charge for item in bundle]
        reply = self.store.transact(charges, request, compute_response, mask_response)
        self.receiver.keep(additions)
        return reply

    def _unknown(self, message: bytes) -> bytes:
        raise SiteRefused(Code.BAD_MESSAGE.value)


STEPS: Mapping[MessageKind | None, Callable[[Client, bytes], bytes]] = {
    MessageKind.JOIN: Client._join,
    MessageKind.OPEN: Client._open,
    MessageKind.BIND: lambda client, message: client.site.bind(message),
    MessageKind.ROUND: Client._round,
    MessageKind.SURVIVORS: lambda client, message: client.site.sign_set(message),
    MessageKind.UNMASK: lambda client, message: client.site.unmask(message),
    MessageKind.WITNESS: lambda client, message: client.site.witness(message),
    MessageKind.PROVE: lambda client, message: client.site.prove(message),
    MessageKind.CLOSE: lambda client, message: client.site.close(message),
}
"""What a site does with a message: returns the answer, or raises what stays at the site."""


def kind_named_by(message: bytes) -> MessageKind | None:
    """The kind that a message declares; None if it is not a message."""
    try:
        return Header.read(Reader(message)).kind
    except Exception:  # strange bytes may raise anything in a parser
        return None


def code_of(error: BaseException) -> Code:
    """One constant code for every exception."""
    match error:
        case SiteRefused():
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


def refusal_code(reply: bytes) -> str | None:
    """The code of a refusal; None for any other reply."""
    if not reply.startswith(REFUSED):
        return None
    return reply[len(REFUSED) :].decode("ascii", "replace").strip()


def site_of(study: Study, identity: Identity, memory: Memory, pins: Iterable[str]) -> Site:
    """The half of the secure sum of one of the study's sites."""
    roster, me = Roster(study.sites, study.coordinator), study.sites.index(identity.public)
    place = identity, roster, me, study.parameters
    return Site(*place, study.hash, memory, pins=frozenset(pins))


def check_same_study(study: Study, site: Site) -> None:
    """Raises unless the site has the study, sites and coordinator that were approved."""
    roster = site.roster.sites, site.roster.coordinator
    identities = (study.sites, study.coordinator) if study.sites else roster
    if study.hash != site.study_hash or identities != roster:
        raise ParameterError(
            f"the site speaks for another study, or other sites, than {study.name!r} names; "
            "give both the same."
        )
