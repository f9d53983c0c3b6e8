"""Rounds of secure aggregation over an exchange, with retries after dropouts.

    first        JOIN -> KEYS, OPEN -> ENCAPS, BIND: a key session of all present (session_state.py)
    every round  ROUND -> MASKED, and if it is not opened at once
                 [SURVIVORS -> SIGNED_SET], UNMASK -> SHARES

Recovery, the cheapest first: the same round is asked again, which costs nothing; with enough other
sites it continues without the silent ones; a restarted site returns with a new key session of the
same run. Only a round that can never be opened is void, and its charge stays. A round that is
opened at once is void if a site is lost: it is asked anew without that site, under a new number and
for a new charge. Opening the same vectors for fewer sites would expose the vector of a site whose
answer was only delayed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hedgerow.errors import ParameterError, RoundFailed, SiteRefused
from hedgerow.federation.exchange import (
    Accept,
    Exchange,
    LeftOut,
    Messages,
    Misses,
    Quorum,
    RetryPolicy,
    RoundSum,
    longest_answer,
)
from hedgerow.federation.journal import AskedRound, Journal, RoundOutcome
from hedgerow.federation.session_state import CoordinatorSession
from hedgerow.federation.transcript import TranscriptRound, shown_messages
from hedgerow.federation.wire import Bundle, Sender
from hedgerow.privacy.accounting.budget import Cost
from hedgerow.privacy.pricing import Priced
from hedgerow.privacy.study import Study
from hedgerow.secagg.closing import RELEASED, Release
from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.encoding import Reader
from hedgerow.secagg.envelope import Header, MessageKind
from hedgerow.secagg.messages import Mode
from hedgerow.secagg.opening import BadShares, MissingVectors, OpenedSum
from hedgerow.secagg.secure_sum import SecureSum
from hedgerow.secagg.server import Coordinator


@dataclass
class OpenRound:
    """A round that was asked and not yet answered; until then it is asked again unchanged."""

    request: AskedRound
    encoding: Bundle
    secure: SecureSum
    bytes_out: int = 0
    bytes_in: int = 0
    """Those of the site that sends, or receives, most in each exchange."""

    def put(self, messages: Messages) -> Messages:
        self.bytes_in += max(map(len, messages.values()), default=0)
        return messages

    def count(self, accept: Callable[[bytes], None]) -> Accept:
        """Accepts an answer if that site wrote it: a transport may mix messages up."""
        longest = 0

        def keep(site: int, answer: bytes) -> None:
            nonlocal longest
            require(Header.read(Reader(answer)).sender == site, Code.BAD_MESSAGE, site)
            accept(answer)
            self.bytes_out += max(len(answer) - longest, 0)
            longest = max(len(answer), longest)

        return keep


class SecureSites:
    """Several sites and a coordinator that sees only masked vectors."""

    def __init__(
        self,
        study: Study,
        coordinator: Coordinator,
        exchange: Exchange,
        retry_policy: RetryPolicy,
        journal: Journal | None = None,
    ) -> None:
        self.study, self.coordinator, self.exchange = study, coordinator, exchange
        self.retry_policy, self.journal = retry_policy, journal or Journal()
        self.session_state = CoordinatorSession(
            study, coordinator, exchange, retry_policy, self.journal
        )
        self._begin_names(coordinator.attempt)
        self._last_bundle: tuple[int, Bundle] | None = None
        """Number and bytes of the round that this process asked last."""

    def enter(self) -> None:
        self.session_state.enter()
        self._begin_names(self.coordinator.attempt)

    def spent(self) -> Cost:
        return self.session_state.spent()

    # ---------------------------------------------------------------------------------- rounds
    def round(self, number: int, bundle: Sequence[Priced], without: LeftOut = ()) -> RoundSum:
        record = self.journal.recorded_round(number)
        if record is not None:
            return self._replay(record, bundle, without)
        request, encoding = self._begin(number, bundle, without)
        left_out = self.session_state.present & frozenset(without)
        secure = self._start(request, encoding, bundle)
        current = OpenRound(request, encoding, secure)
        messages, quorum = self._requests(current)
        try:
            keep = current.count(secure.accept_masked)
            missing = self.exchange(current.put(messages), keep, quorum)
            if missing.lacking:
                again, keep = self._again(current, missing), current.count(secure.accept_masked)
                missing = missing.then(self.exchange(current.put(again), keep, quorum))
            self._settle(current, missing)
            opened = self._uncover(current)
        except RoundFailed as error:
            self._transcribe(current, is_void=True)
            self._fail(current, bundle, error)
            raise
        self._transcribe(current, is_void=False)
        self._name_liars(secure)
        result = self._finish(current, opened)
        self.session_state.present |= left_out
        return result

    def _transcribe(self, current: OpenRound, *, is_void: bool) -> None:
        request, encoding = current.request, current.encoding
        place = request.round, request.attempt, is_void, request.mode
        content = encoding.questions, encoding.definitions, request.participants
        messages = shown_messages(current.secure.messages)
        self.journal.transcribe(TranscriptRound(*place, *content, messages))

    def _name_liars(self, secure: SecureSum) -> None:
        """Excludes sites proved to have sent a bad share from later rounds, but not suspects."""
        if secure.liars:
            words = f"round {secure.round}: a bad share, proved by what it signed; goes on without"
            self.retry_policy.note(words, secure.liars)
        if suspects := secure.suspects - secure.liars:
            words = f"round {secure.round}: a bad share by one of two, nobody can tell which:"
            self.retry_policy.note(words, suspects)
        self.session_state.exclude(secure.liars)

    def close(self, root: bytes, rounds: int) -> dict[int, bytes]:
        """CLOSED of all sites that answer, by site: their last message in this study."""
        last_words: dict[int, bytes] = {}

        def keep(site: int, answer: bytes) -> None:
            require(self.coordinator.accept_closed(answer, root) == site, Code.BAD_MESSAGE, site)
            last_words[site] = answer

        releases = rounds * len(RELEASED) * Release.WIDTH
        longest = longest_answer(0, 0, self.study.n_sites) + releases
        asks = self.retry_policy.timing.asks
        enough = Quorum(lambda more: True, asks=asks, longest=longest)
        try:
            self.exchange(self.coordinator.close(root, rounds), keep, enough)
        except SiteRefused as error:  # a site that refuses counts at the study's whole budget
            self.retry_policy.note(f"did not close ({error.code}): {error.site}")
        return last_words

    def _begin(
        self, number: int, bundle: Sequence[Priced], without: LeftOut
    ) -> tuple[AskedRound, Bundle]:
        """Makes the request of a round, or repeats the one that is under way."""
        request = self.journal.under_way()
        is_new = request is None or request.round != number
        if request is not None and not is_new and self._last_bundle is not None:
            return request, self._last_bundle[1]
        if request is None or is_new:
            self.session_state.needs_session |= self.sender.is_full  # names go with their session
            self.session_state.renew(number, bundle)
            encoding = self._encode(self.coordinator.attempt, bundle)
            sites = self.session_state.participants(without)
            attempt, mode = self.coordinator.attempt, self.session_state.mode(bundle, len(sites))
            request = AskedRound(number, attempt, _digest(encoding), sites, mode)
            self.journal.add_request(request, self.coordinator.heads)
        else:
            encoding = self._encode_again(request.attempt, request.digest, number, bundle)
            self.session_state.resumed(request.participants)
        self._last_bundle = number, encoding
        return request, encoding

    def _start(self, request: AskedRound, encoding: Bundle, bundle: Sequence[Priced]) -> SecureSum:
        selections = sum(item.noise is None for item in bundle)
        size = max(sum(item.size for item in bundle), 1)
        place = request.participants, selections, request.round, request.mode
        return self.coordinator.start(encoding.questions, size, *place)

    def _requests(self, current: OpenRound) -> tuple[Messages, Quorum]:
        """ROUND for all participants, or for the members that were settled on before."""
        secure, request, least = current.secure, current.request, self._least(current.request)
        longest = longest_answer(*secure.size, self.study.n_sites)
        asks = self.retry_policy.timing.asks
        quorum = Quorum(lambda more: len(secure.arrived) + more >= least, asks, longest=longest)
        definitions = current.encoding.definitions
        plain = secure.requests(dict.fromkeys(request.participants, definitions))
        return {site: plain[site] for site in request.members or request.participants}, quorum

    def _again(self, current: OpenRound, missing: Misses) -> Messages:
        """The same for silent sites; sites that lack a definition are sent all of them."""
        known = dict.fromkeys(missing.silent, current.encoding.definitions)
        whole = dict.fromkeys(missing.lacking, self.sender.everything())
        messages = current.secure.requests(known | whole)
        return {site: messages[site] for site in missing.silent | missing.lacking}

    def _least(self, request: AskedRound) -> int:
        return len(request.members) or self.session_state.threshold

    def _settle(self, current: OpenRound, missing: Misses) -> None:
        """Fixes the members: the round is opened for these or for nobody."""
        secure, members = current.secure, current.request.members
        waiting, n_arrived = missing.silent | missing.lacking, len(secure.arrived)
        self.session_state.doubt(missing.slow)
        self.session_state.exclude(missing.refusals)
        if missing.restarts:
            self.session_state.needs_session = True
            self.retry_policy.note("started anew", missing.restarts)
        if n_arrived < self._least(current.request) <= n_arrived + len(waiting):
            self.session_state.end(waiting, f"round {secure.round}", n_arrived)
        if members and secure.arrived != set(members):
            raise RoundFailed(
                f"round {secure.round}: sites that it was to be opened for were started anew. "
                "Nothing was opened; the charge stays."
            )
        if waiting:
            self.retry_policy.note("goes on without", waiting)
        if secure.mode is Mode.AT_ONCE:
            self.session_state.leave_out(waiting | missing.restarts | missing.refusals)

    def _uncover(self, current: OpenRound) -> OpenedSum:
        secure = current.secure
        messages, members = secure.close(), tuple(sorted(secure.arrived))
        if secure.mode is Mode.AT_ONCE:
            return secure.opened()
        self.journal.add_members(secure.round, members)

        def has_signatures(more: int) -> bool:
            return len(secure.signed) + more >= self.session_state.threshold

        def has_shares(more: int) -> bool:
            return secure.missing() is None or more > 0

        if messages:
            self._ask(current, messages, secure.accept_signature, has_signatures)
        self._ask(current, secure.unmask(), secure.accept_shares, has_shares)
        return secure.opened()

    def _ask(
        self,
        current: OpenRound,
        messages: Messages,
        accept: Callable[[bytes], None],
        is_met: Callable[[int], bool],
    ) -> None:
        """Asks members for signatures or shares.

        Restarted sites answer for rounds that they have stored, once enough others have witnessed
        the set that they may open. A site that has not stored the round will never answer.
        """
        secure = current.secure

        def accept_or_doubt(answer: bytes) -> None:
            doubts = Header.read(Reader(answer)).kind is MessageKind.DOUBT
            (secure.accept_doubt if doubts else accept)(answer)

        secure.nonces.clear()
        short = longest_answer(0, 0, self.study.n_sites)
        quorum = Quorum(lambda more: is_met(more + len(secure.nonces)), 1, longest=short)
        missing = self.exchange(current.put(messages), current.count(accept_or_doubt), quorum)
        doubtful = frozenset(secure.nonces)
        if doubtful and not is_met(0):
            proven = self._prove(current)
            secure.nonces.clear()
            again = {site: messages[site] for site in proven}
            keep = current.count(accept)
            missing = missing.then(self.exchange(current.put(again), keep, quorum))
        self.session_state.doubt(missing.slow | doubtful)
        if is_met(0):
            return
        self.session_state.exclude(missing.refusals | secure.liars)
        unable = missing.restarts | missing.refusals | doubtful | secure.liars | secure.suspects
        if unable:
            names = ", ".join(self.retry_policy.names_of(unable))
            raise RoundFailed(
                f"round {secure.round}: {names} cannot answer for it any more. Nothing was "
                "opened; the charge stays."
            )
        there = len(secure.arrived) - len(missing.silent)
        self.session_state.end(missing.silent, f"round {secure.round}", there)

    def _prove(self, current: OpenRound) -> frozenset[int]:
        """The restarted sites for which enough others have witnessed the set."""
        secure = current.secure
        self.retry_policy.note("asks for witnesses:", secure.nonces)
        asks, short = self.retry_policy.timing.asks, longest_answer(0, 0, self.study.n_sites)
        everybody = Quorum(lambda more: True, asks, longest=short)
        take = current.count(secure.accept_witness)
        self.exchange(current.put(secure.ask_witnesses()), take, everybody)
        proven = set[int]()

        def keep(site: int, answer: bytes) -> None:
            require(not answer, Code.BAD_MESSAGE, site)
            proven.add(site)

        self.exchange(current.put(secure.proofs()), keep, everybody)
        return frozenset(proven)

    def _finish(self, current: OpenRound, opened: OpenedSum) -> RoundSum:
        request, size = current.request, (current.bytes_out, current.bytes_in)
        selections = tuple(opened.selections[place] for place in opened.members)
        result = RoundSum(opened.values, selections, *size, opened.members)
        outcome = RoundOutcome(request.round, request.attempt, request.digest, result)
        self.session_state.opened(opened.members)
        self.journal.add_outcome(outcome, self.coordinator.heads, current.secure.receipts)
        return result

    def _fail(self, current: OpenRound, bundle: Sequence[Priced], error: RoundFailed) -> None:
        if isinstance(error, BadShares):
            self.session_state.exclude(error.sites)
            self.retry_policy.note("dealt shares of another mask, proved; left out:", error.sites)
        self.session_state.failed(bundle)
        self.session_state.needs_session |= not isinstance(error, MissingVectors)
        place = current.request.round, self.coordinator.attempt, _digest(current.encoding)
        outcome = RoundOutcome(*place, reason=str(error))
        self.journal.add_outcome(outcome, self.coordinator.heads, {})

    # ---------------------------------------------------------------------------------- replay
    def _replay(self, record: RoundOutcome, bundle: Sequence[Priced], without: LeftOut) -> RoundSum:
        """Returns the recorded answer to this bundle without asking any site."""
        self._encode_again(record.attempt, record.digest, record.round, bundle)
        if record.result is None:
            self.session_state.failed(bundle)
            raise RoundFailed(record.reason)
        self.session_state.present = frozenset(record.result.members) | frozenset(without)
        return record.result

    def _begin_names(self, attempt: int) -> None:
        """Clears the names of sent definitions for the key session of that attempt."""
        self.sender, self._names_of = Sender(), attempt

    def _encode(self, attempt: int, bundle: Sequence[Priced]) -> Bundle:
        """Encodes a bundle with the names of the key session, which depend on what it has sent."""
        if attempt != self._names_of:
            self._begin_names(attempt)
        return self.sender.encode([item.query for item in bundle])

    def _encode_again(
        self, attempt: int, digest: str, number: int, bundle: Sequence[Priced]
    ) -> Bundle:
        encoding = self._encode(attempt, bundle)
        if _digest(encoding) != digest:
            raise ParameterError(
                f"round {number} asks something else than the record says that was asked: this is "
                "not the same study, or not the same release of hedgerow. Nothing was sent; resume "
                "with the files and the release that the run was begun with, or begin a new run."
            )
        return encoding


def _digest(encoding: Bundle) -> str:
    return hashlib.sha256(encoding.questions).hexdigest()
