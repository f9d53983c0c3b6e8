"""Rounds over a carrier: who is there, what was asked, what came, and what to do when it did not.

    first        JOIN -> KEYS, OPEN: an epoch of all who are there (attendance.py)
    every round  ROUND -> MASKED, [SURVIVORS -> SIGNED_SET], UNMASK -> SHARES

In trouble, the cheapest first: the same round is asked again, which costs nothing; with enough
others it goes on without the silent; a site whose process was started anew is back with a new
epoch of the same run. Only a round that can never be opened is void, and then its charge stays.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hedgerow.errors import RoundFailed, SpecError
from hedgerow.federation.attendance import Attendance
from hedgerow.federation.exchange import Collected, Gathering, Note, Post
from hedgerow.federation.journal import NO_JOURNAL, Answered, AskedRound, Journal, Void
from hedgerow.federation.wire import Bundle, Sender
from hedgerow.privacy.bundles import length_of
from hedgerow.privacy.queries import LocalChoice, Query, SelectQuery
from hedgerow.privacy.study import Study
from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.encoding import Reader
from hedgerow.secagg.envelope import Header
from hedgerow.secagg.opening import BadShares, Opened
from hedgerow.secagg.server import Coordinator, SecureSum


@dataclass(frozen=True)
class UnderWay:
    """A round that was asked and not yet answered: to be asked again in the same words."""

    asked: AskedRound
    encoded: Bundle


class SecureLink(Attendance):
    """Several sites and a coordinator that sees only masked vectors."""

    def __init__(
        self,
        study: Study,
        coordinator: Coordinator,
        post: Post,
        journal: Journal = NO_JOURNAL,
    ) -> None:
        super().__init__(study, coordinator, post, journal)
        self.sender = Sender()
        self._under_way: UnderWay | None = None
        self._replayed_attempt: int | None = None

    def on_new_epoch(self) -> None:
        self.sender = Sender()

    # ---------------------------------------------------------------------------------- rounds
    def round(self, number: int, bundle: Sequence[Query]) -> Collected:
        kept = self.journal.recorded(number)
        if kept is not None:
            return self._replayed(kept, bundle)
        under_way = self._begin(number, bundle)
        try:
            return self._asked(number, bundle, under_way)
        except RoundFailed as error:
            if isinstance(error, BadShares):
                self._excluded |= set(error.parties)
            self._needs_epoch, self._under_way = True, None
            attempt, digest = self.coordinator.attempt, _digest(under_way.encoded)
            self.journal.void(Void(number, attempt, digest, str(error)), self.coordinator.heads)
            raise

    def _begin(self, number: int, bundle: Sequence[Query]) -> UnderWay:
        """What to ask, and of whom; as before if it was asked before."""
        if self._under_way is not None and self._under_way.asked.round == number:
            return self._under_way
        asked = self.journal.under_way()
        if asked is None or asked.round != number:
            self._needs_epoch |= self.sender.is_full  # names are forgotten with their epoch
            self._renew(bundle)
            encoded = self.sender.encode(bundle)
            everyone = tuple(sorted(self.present))
            asked = AskedRound(number, self.coordinator.attempt, _digest(encoded), everyone)
            self.journal.asked(asked, self.coordinator.heads)
        else:
            encoded = self._encoded_again(asked.attempt, asked.digest, number, bundle)
            self.present = frozenset(asked.participants)
        self._under_way = UnderWay(asked, encoded)
        return self._under_way

    def _asked(self, number: int, bundle: Sequence[Query], under_way: UnderWay) -> Collected:
        asked, encoded = under_way.asked, under_way.encoded
        picks = sum(isinstance(query, SelectQuery | LocalChoice) for query in bundle)
        size = max(length_of(bundle), 1)
        secure = self.coordinator.start(
            encoded.questions, size, asked.participants, picks, round=number
        )
        sent = _Exchange()
        self._collect(secure, under_way, sent)
        opened = self._uncover(secure, sent)
        self.present = frozenset(opened.members)
        self._heard = self.post.clock()
        collected = Collected(
            opened.values,
            tuple(opened.picks[place] for place in opened.members),
            sent.bytes_out,
            sent.bytes_in,
            opened.members,
        )
        self.journal.answered(
            Answered(number, asked.attempt, asked.digest, collected),
            self.coordinator.heads,
            secure.receipts,
        )
        self._under_way, self._opened = None, True
        return collected

    def _collect(self, secure: SecureSum, under_way: UnderWay, sent: _Exchange) -> None:
        """MASKED of all participants, or of those that were settled on before."""
        asked, encoded = under_way.asked, under_way.encoded
        wanted = asked.members or asked.participants
        plain = secure.requests(dict.fromkeys(asked.participants, encoded.definitions))

        def whole(site: int) -> bytes:
            return secure.requests({site: self.sender.everything()})[site]

        def keep(site: int, answer: bytes) -> None:
            secure.accept_masked(_from(site, answer))
            sent.got(answer)

        needed = len(wanted) if asked.members else self.threshold
        gathering = self._gather(
            {site: sent.put(plain[site]) for site in wanted},
            keep,
            lambda: len(secure.arrived),
            self.post.timing.asks,
            needed,
            whole,
        )
        if gathering.gone:
            self._needs_epoch = True
            self.post.tell(Note("started anew", self.post.named(gathering.gone)))
        if len(secure.arrived) < needed <= len(secure.arrived) + len(gathering.waiting):
            self._end(gathering.waiting, f"round {secure.round}", len(secure.arrived))
        if asked.members and secure.arrived != set(asked.members):
            raise RoundFailed(
                f"round {secure.round}: sites that it was to be opened for were started anew. "
                "Nothing was opened; the charge stays."
            )
        if gathering.waiting:
            self.post.tell(Note("goes on without", self.post.named(gathering.waiting)))
        sent.next()

    def _uncover(self, secure: SecureSum, sent: _Exchange) -> Opened:
        letters = secure.close()
        self._settle(secure)

        def keep_signature(site: int, answer: bytes) -> None:
            secure.accept_signature(_from(site, answer))
            sent.got(answer)

        def keep_shares(site: int, answer: bytes) -> None:
            secure.accept_shares(_from(site, answer))
            sent.got(answer)

        if letters:
            posted = {site: sent.put(letter) for site, letter in letters.items()}
            signed = self._gather(posted, keep_signature, lambda: len(secure.signed), 1)
            self._require_answers(secure, signed, len(secure.signed) >= self.threshold)
            sent.next()
        posted = {site: sent.put(letter) for site, letter in secure.unmask().items()}
        shared = self._gather(posted, keep_shares, lambda: secure.missing() is None, 1, 1)
        self._require_answers(secure, shared, secure.missing() is None)
        sent.next()
        return secure.opened()

    def _settle(self, secure: SecureSum) -> None:
        """From here on it is opened for these or for nobody: sites sign one set a round."""
        members = tuple(sorted(secure.arrived))
        if self._under_way is not None:
            asked = replace(self._under_way.asked, members=members)
            self._under_way = replace(self._under_way, asked=asked)
        self.journal.closed(secure.round, members)

    def _require_answers(self, secure: SecureSum, gathering: Gathering, enough: bool) -> None:
        """Those who were started anew answer for stored rounds; who has none stored never will."""
        if enough:
            return
        if gathering.gone:
            names = ", ".join(self.post.named(gathering.gone))
            raise RoundFailed(
                f"round {secure.round}: {names} cannot answer for it any more. Nothing was "
                "opened; the charge stays."
            )
        there = len(secure.arrived) - len(gathering.waiting)
        self._end(gathering.waiting, f"round {secure.round}", there)

    # ---------------------------------------------------------------------------------- replay
    def _replayed(self, kept: Answered | Void, bundle: Sequence[Query]) -> Collected:
        """The answer of the record, if it is one to this question; nobody is asked."""
        self._encoded_again(kept.attempt, kept.digest, kept.round, bundle)
        if isinstance(kept, Void):
            raise RoundFailed(kept.reason)
        self.present = frozenset(kept.collected.members)
        return kept.collected

    def _encoded_again(
        self, attempt: int, digest: str, number: int, bundle: Sequence[Query]
    ) -> Bundle:
        """The bundle in the words in which it was sent: they depend on what the epoch had heard."""
        if attempt != self._replayed_attempt:
            self.sender, self._replayed_attempt = Sender(), attempt
        encoded = self.sender.encode(bundle)
        if _digest(encoded) != digest:
            raise SpecError(
                f"round {number} asks something else than the record says that was asked: this is "
                "not the same study, or not the same release of hedgerow. Nothing was sent; resume "
                "with the files and the release that the run was begun with, or begin a new run."
            )
        return encoded


class _Exchange:
    """Bytes of the site that sends and gets most: all have about the same length."""

    def __init__(self) -> None:
        self.bytes_out = self.bytes_in = 0
        self._out = self._in = 0

    def put(self, letter: bytes) -> bytes:
        self._in = max(self._in, len(letter))
        return letter

    def got(self, answer: bytes) -> None:
        self._out = max(self._out, len(answer))

    def next(self) -> None:
        self.bytes_out += self._out
        self.bytes_in += self._in
        self._out = self._in = 0


def _from(site: int, answer: bytes) -> bytes:
    """The answer, if that site wrote it: a carrier may mix letters up."""
    require(Header.read(Reader(answer)).sender == site, Code.BAD_MESSAGE, site)
    return answer


def _digest(encoded: Bundle) -> str:
    return hashlib.sha256(encoded.questions).hexdigest()
