"""Rounds over an exchange: what was asked, what came, and what to do when it did not.

    first        JOIN -> KEYS, OPEN -> ENCAPS, BIND: a key session of all there (session_state.py)
    every round  ROUND -> MASKED, and if it is not opened at once
                 [SURVIVORS -> SIGNED_SET], UNMASK -> SHARES

In trouble, the cheapest first: the same round is asked again, which costs nothing; with enough
others it goes on without the silent; a site whose process was started anew is back with a new
key session of the same run. Only a round that can never be opened is void, and then its charge
stays.
A round that is opened at once is void if somebody is lost: it is asked anew, under a new number
and for a new charge, without them. To open the same vectors for fewer would show the vector of a
site whose answer was only kept back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from hedgerow.errors import ParameterError, RoundFailed, SiteRefused
from hedgerow.federation.exchange import (
    Accept,
    Collected,
    Exchange,
    Messages,
    Missed,
    Quorum,
    RetryPolicy,
    longest_answer,
)
from hedgerow.federation.journal import Answered, AskedRound, Journal, Void
from hedgerow.federation.session_state import CoordinatorSession
from hedgerow.federation.transcript import TranscriptRound, shown_messages
from hedgerow.federation.wire import Bundle, Sender
from hedgerow.privacy.accounting.budget import Cost
from hedgerow.privacy.pricing import Priced
from hedgerow.privacy.study import Study
from hedgerow.secagg.closing import RELEASED, Release
from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.encoding import Reader
from hedgerow.secagg.envelope import Header
from hedgerow.secagg.messages import Mode
from hedgerow.secagg.opening import BadShares, Opened, Unanswered
from hedgerow.secagg.server import Coordinator, SecureSum


@dataclass(frozen=True)
class UnderWay:
    """A round that was asked and not yet answered: to be asked again in the same words."""

    asked: AskedRound
    encoded: Bundle

    @property
    def wanted(self) -> tuple[int, ...]:
        """All participants, or those that were settled on before."""
        return self.asked.members or self.asked.participants


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
        """Number and bytes of the round that this process has asked last."""

    def enter(self) -> None:
        self.session_state.enter()
        self._begin_names(self.coordinator.attempt)

    def spent(self) -> Cost:
        return self.session_state.spent()

    # ---------------------------------------------------------------------------------- rounds
    def round(self, number: int, asked: Sequence[Priced]) -> Collected:
        kept = self.journal.recorded(number)
        if kept is not None:
            return self._replayed(kept, asked)
        under_way, sent = self._begin(number, asked), Traffic()
        secure = self._started(number, asked, under_way)
        messages, keep = self._messages(secure, under_way), sent.kept(secure.accept_masked)
        quorum = self._quorum(secure, under_way)
        try:
            missed = self.exchange(sent.put(messages), keep, quorum)
            if missed.lacking:
                messages = self._fuller(secure, messages, missed)
                missed = self._with(missed, self.exchange(sent.put(messages), keep, quorum))
            self._settle(secure, under_way, missed)
            opened = self._uncover(secure, sent)
        except RoundFailed as error:
            self._transcribe(secure, under_way, is_void=True)
            self._fail(number, under_way, asked, error)
            raise
        self._transcribe(secure, under_way, is_void=False)
        return self._answered(under_way.asked, secure, opened, sent)

    def _transcribe(self, secure: SecureSum, under_way: UnderWay, *, is_void: bool) -> None:
        asked, encoded = under_way.asked, under_way.encoded
        self.journal.transcribe(
            TranscriptRound(
                asked.round,
                asked.attempt,
                is_void,
                asked.mode,
                encoded.questions,
                encoded.definitions,
                asked.participants,
                shown_messages(secure.messages),
            )
        )

    def close(self, root: bytes, rounds: int) -> dict[int, bytes]:
        """CLOSED of all who answer, by site: their last word in this study."""
        said: dict[int, bytes] = {}

        def keep(site: int, answer: bytes) -> None:
            require(self.coordinator.accept_closed(answer, root) == site, Code.BAD_MESSAGE, site)
            said[site] = answer

        releases = rounds * len(RELEASED) * Release.WIDTH
        longest = longest_answer(0, 0, self.study.n_sites) + releases
        asks = self.retry_policy.timing.asks
        enough = Quorum(lambda more: True, asks=asks, longest=longest)
        try:
            self.exchange(self.coordinator.close(root, rounds), keep, enough)
        except SiteRefused as error:  # whoever refuses counts at the study's whole budget
            self.retry_policy.note(f"did not close ({error.code}): {error.site}")
        return said

    def _begin(self, number: int, bundle: Sequence[Priced]) -> UnderWay:
        """What to ask, and of whom; as before if it was asked before."""
        asked = self.journal.under_way()
        is_new = asked is None or asked.round != number
        if asked is not None and not is_new and self._last_bundle is not None:
            return UnderWay(asked, self._last_bundle[1])
        if asked is None or is_new:
            # Names go with their key session.
            self.session_state.needs_session |= self.sender.is_full
            self.session_state.renew(bundle)
            encoded = self._encoded(self.coordinator.attempt, bundle)
            everyone = tuple(sorted(self.session_state.present))
            attempt, mode = self.coordinator.attempt, self.session_state.mode(bundle)
            asked = AskedRound(number, attempt, _digest(encoded), everyone, mode)
            self.journal.asked(asked, self.coordinator.heads)
        else:
            encoded = self._encoded_again(asked.attempt, asked.digest, number, bundle)
            self.session_state.resumed(asked.participants)
        self._last_bundle = number, encoded
        return UnderWay(asked, encoded)

    def _started(self, number: int, bundle: Sequence[Priced], under_way: UnderWay) -> SecureSum:
        selections = sum(item.noise is None for item in bundle)
        size = max(sum(item.size for item in bundle), 1)
        questions, asked = under_way.encoded.questions, under_way.asked
        who, mode = asked.participants, asked.mode
        return self.coordinator.start(questions, size, who, selections, round=number, mode=mode)

    def _messages(self, secure: SecureSum, under_way: UnderWay) -> Messages:
        definitions = under_way.encoded.definitions
        plain = secure.requests(dict.fromkeys(under_way.asked.participants, definitions))
        return {site: plain[site] for site in under_way.wanted}

    def _fuller(self, secure: SecureSum, messages: Messages, missed: Missed) -> Messages:
        """For sites that lack a definition all of them; for those who are silent the same."""
        whole = secure.requests(dict.fromkeys(missed.lacking, self.sender.everything()))
        return {site: messages[site] for site in missed.silent} | whole

    def _with(self, first: Missed, second: Missed) -> Missed:
        restarted, slow = first.restarted | second.restarted, first.slow | second.slow
        refused = first.refused | second.refused
        return replace(second, restarted=restarted, slow=slow, refused=refused)

    def _quorum(self, secure: SecureSum, under_way: UnderWay) -> Quorum:
        least = self._needed(under_way)
        asks, longest = self.retry_policy.timing.asks, self._longest(secure)
        return Quorum(lambda more: len(secure.arrived) + more >= least, asks, longest=longest)

    def _longest(self, secure: SecureSum) -> int:
        return longest_answer(*secure.size, self.study.n_sites)

    def _needed(self, under_way: UnderWay) -> int:
        return len(under_way.asked.members) or self.session_state.threshold

    def _settle(self, secure: SecureSum, under_way: UnderWay, missed: Missed) -> None:
        """From here on it is opened for these or for nobody: sites sign one set a round."""
        waiting, arrived = missed.silent | missed.lacking, len(secure.arrived)
        self.session_state.doubt(missed.slow)
        self.session_state.exclude(missed.refused)
        if missed.restarted:
            self.session_state.needs_session = True
            self.retry_policy.note("started anew", missed.restarted)
        if arrived < self._needed(under_way) <= arrived + len(waiting):
            self.session_state.end(waiting, f"round {secure.round}", arrived)
        if under_way.asked.members and secure.arrived != set(under_way.asked.members):
            raise RoundFailed(
                f"round {secure.round}: sites that it was to be opened for were started anew. "
                "Nothing was opened; the charge stays."
            )
        if waiting:
            self.retry_policy.note("goes on without", waiting)
        if secure.mode is Mode.AT_ONCE:
            self.session_state.leave_out(waiting | missed.restarted | missed.refused)

    def _uncover(self, secure: SecureSum, sent: Traffic) -> Opened:
        messages, members = secure.close(), tuple(sorted(secure.arrived))
        if secure.mode is Mode.AT_ONCE:
            return secure.opened()
        self.journal.closed(secure.round, members)
        threshold, short = self.session_state.threshold, longest_answer(0, 0, self.study.n_sites)
        if messages:
            enough = Quorum(lambda more: len(secure.signed) + more >= threshold, 1, longest=short)
            self._ask(secure, sent.put(messages), sent.kept(secure.accept_signature), enough)
        enough = Quorum(lambda more: secure.missing() is None or more > 0, 1, longest=short)
        self._ask(secure, sent.put(secure.unmask()), sent.kept(secure.accept_shares), enough)
        return secure.opened()

    def _ask(self, secure: SecureSum, messages: Messages, keep: Accept, quorum: Quorum) -> None:
        """Those who were started anew answer for stored rounds; who has none stored never will."""
        missed = self.exchange(messages, keep, quorum)
        self.session_state.doubt(missed.slow)
        if quorum.is_met(0):
            return
        self.session_state.exclude(missed.refused)
        if unable := missed.restarted | missed.refused:
            names = ", ".join(self.retry_policy.named(unable))
            raise RoundFailed(
                f"round {secure.round}: {names} cannot answer for it any more. Nothing was "
                "opened; the charge stays."
            )
        there = len(secure.arrived) - len(missed.silent)
        self.session_state.end(missed.silent, f"round {secure.round}", there)

    def _answered(
        self, asked: AskedRound, secure: SecureSum, opened: Opened, sent: Traffic
    ) -> Collected:
        selections = tuple(opened.selections[place] for place in opened.members)
        bytes_out, bytes_in = sent.total
        collected = Collected(opened.values, selections, bytes_out, bytes_in, opened.members)
        answered = Answered(asked.round, asked.attempt, asked.digest, collected)
        self.session_state.opened(opened.members)
        self.journal.answered(answered, self.coordinator.heads, secure.receipts)
        return collected

    def _fail(
        self, number: int, under_way: UnderWay, bundle: Sequence[Priced], error: RoundFailed
    ) -> None:
        if isinstance(error, BadShares):
            self.session_state.exclude(error.sites)
        self.session_state.failed(bundle)
        self.session_state.needs_session |= not isinstance(error, Unanswered)
        attempt, digest = self.coordinator.attempt, _digest(under_way.encoded)
        self.journal.void(Void(number, attempt, digest, str(error)), self.coordinator.heads)

    # ---------------------------------------------------------------------------------- replay
    def _replayed(self, kept: Answered | Void, bundle: Sequence[Priced]) -> Collected:
        """The answer of the record, if it is one to this question; nobody is asked."""
        self._encoded_again(kept.attempt, kept.digest, kept.round, bundle)
        if isinstance(kept, Void):
            self.session_state.failed(bundle)
            raise RoundFailed(kept.reason)
        self.session_state.present = frozenset(kept.collected.members)
        return kept.collected

    def _begin_names(self, attempt: int) -> None:
        """Nothing has a name yet in the key session of that attempt."""
        self.sender, self._names_of = Sender(), attempt

    def _encoded(self, attempt: int, bundle: Sequence[Priced]) -> Bundle:
        """In the words of the key session: they depend on what it has heard."""
        if attempt != self._names_of:
            self._begin_names(attempt)
        return self.sender.encode([item.query for item in bundle])

    def _encoded_again(
        self, attempt: int, digest: str, number: int, bundle: Sequence[Priced]
    ) -> Bundle:
        encoded = self._encoded(attempt, bundle)
        if _digest(encoded) != digest:
            raise ParameterError(
                f"round {number} asks something else than the record says that was asked: this is "
                "not the same study, or not the same release of hedgerow. Nothing was sent; resume "
                "with the files and the release that the run was begun with, or begin a new run."
            )
        return encoded


class Traffic:
    """Bytes of the site that sends and gets most, exchange by exchange."""

    def __init__(self) -> None:
        self._out, self._in = list[int](), list[int]()

    @property
    def total(self) -> tuple[int, int]:
        """Sent by a site, and received by it."""
        return sum(self._out), sum(self._in)

    def put(self, messages: Messages) -> Messages:
        self._in.append(max(map(len, messages.values()), default=0))
        self._out.append(0)
        return messages

    def kept(self, accept: Callable[[bytes], None]) -> Accept:
        """Takes the answer if that site wrote it: a transport may mix messages up."""

        def keep(site: int, answer: bytes) -> None:
            require(Header.read(Reader(answer)).sender == site, Code.BAD_MESSAGE, site)
            accept(answer)
            self._out[-1] = max(self._out[-1], len(answer))

        return keep


def _digest(encoded: Bundle) -> str:
    return hashlib.sha256(encoded.questions).hexdigest()
