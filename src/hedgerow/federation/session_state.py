"""The sites of a run: key sessions, and sites that leave and return.

A restarted site lacks the key of the session; it answers for rounds that it has stored, and needs a
new session for new ones. Detecting this is free: a BIND without secrets changes nothing at a site
that is in the key session.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NoReturn

from hedgerow.errors import RunEnded, SiteRefused
from hedgerow.federation.exchange import (
    SHORT_ANSWER,
    Exchange,
    Messages,
    Quorum,
    RetryPolicy,
    longest_answer,
)
from hedgerow.federation.journal import Journal
from hedgerow.privacy.accounting.budget import Cost
from hedgerow.privacy.pricing import Priced
from hedgerow.privacy.statement.spending import price
from hedgerow.privacy.study import Study
from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.messages import Mode
from hedgerow.secagg.server import Coordinator

SESSION_TRIES = 5
"""How often a key session is begun again because a site was restarted while it formed."""


@dataclass
class CoordinatorSession:
    """The sites of a study, as the coordinator of a run sees them."""

    study: Study
    coordinator: Coordinator
    exchange: Exchange
    retry_policy: RetryPolicy
    journal: Journal = field(default_factory=Journal)
    present: frozenset[int] = frozenset()
    needs_session: bool = True
    _has_opened: bool = False
    _exclusions: frozenset[int] = frozenset()
    _doubtful_sites: frozenset[int] = frozenset()
    """Sites that did not answer at once, and may be restarted processes."""
    _bound: frozenset[int] = frozenset()
    """Sites that share secrets with all others of the key session."""
    _left_out: frozenset[int] = frozenset()
    """Sites that made a round void: left out of the next one, whatever they say."""
    _void: Cost = Fraction(0)
    """Upper bound on the cost of failed rounds."""
    _last_answer: float = field(default=-math.inf)
    _asked_back: float = field(default=-math.inf)

    @property
    def threshold(self) -> int:
        return self.coordinator.parameters.threshold

    def spent(self) -> Cost:
        receipts = [head.spent for head in self.coordinator.heads.values()]
        if "inf" in receipts:
            return math.inf
        return max(map(Fraction, receipts), default=Fraction(0))

    # ---------------------------------------------------------------------------- key sessions
    def enter(self) -> None:
        """Begins a key session of all present sites; again if one is restarted while it forms."""
        lost: frozenset[int] = frozenset()
        for _ in range(SESSION_TRIES):
            lost = self._try_to_enter()
            if not lost:
                return
        self._require_enough(len(self.present), lost, "to begin a key session")

    def _try_to_enter(self) -> frozenset[int]:
        """Tries once; lists sites that lost their keys before the session was established."""
        everyone = set(range(self.study.n_sites)) - self._exclusions
        messages = {site: m for site, m in self.coordinator.join().items() if site in everyone}
        self.journal.joining(self.coordinator)
        asks = self.retry_policy.timing.asks if self._has_opened else math.inf
        keys, lost = self._gather(messages, self.coordinator.sender_of_keys, asks)
        self._require_enough(len(keys), lost, "to begin a key session")
        opening = self.coordinator.open(keys.values())
        self.journal.session(self.coordinator)
        capsules, lost = self._gather(opening, self.coordinator.accept_capsules)
        if len(capsules) < self.threshold:  # somebody was started anew: begin again
            self.present = frozenset(capsules)
            return lost
        return lost | self._bind(self.coordinator.bind(capsules))

    def _bind(self, messages: Messages) -> frozenset[int]:
        there, lost = self._gather(messages, None)
        self._bound = frozenset(there)
        able = frozenset(there) - self._left_out
        self.present = able if len(able) >= self.threshold else frozenset(there)
        self.needs_session, self._has_opened, self._doubtful_sites = False, True, frozenset()
        self._last_answer = self._asked_back = self.retry_policy.clock()
        self.retry_policy.note(
            "all sites connected:" if len(there) == self.study.n_sites else "connected:", there
        )
        return lost

    def _gather(
        self,
        messages: Messages,
        sender_of: Callable[[bytes], int] | None,
        asks: float | None = None,
    ) -> tuple[dict[int, bytes], frozenset[int]]:
        """The answers by site, and restarted sites; without `sender_of` answers are empty."""
        answers: dict[int, bytes] = {}

        def keep(site: int, answer: bytes) -> None:
            fits = not answer if sender_of is None else sender_of(answer) == site
            require(fits, Code.BAD_MESSAGE, site)
            answers[site] = answer

        asks = self.retry_policy.timing.asks if asks is None else asks
        longest = longest_answer(0, 0, self.study.n_sites)
        quorum = Quorum(lambda more: len(answers) + more >= self.threshold, asks, longest=longest)
        missing = self.exchange(messages, keep, quorum)
        self.doubt(missing.slow)
        self.exclude(missing.refusals)
        if not missing.restarts:
            self._require_enough(len(answers), missing.silent, "to begin a key session")
        return answers, missing.restarts

    # ---------------------------------------------------------------------------------- rounds
    def renew(self, number: int, bundle: Sequence[Priced]) -> None:
        """Before a new round: admits returning sites, and begins a key session if necessary."""
        now, stale = self.retry_policy.clock(), self.retry_policy.stale_seconds
        absent = set(range(self.study.n_sites)) - self.present - self._exclusions - self._left_out
        if self._has_opened and not self.needs_session:
            if absent and now - self._asked_back >= self.retry_policy.timing.return_seconds:
                self._ask_back(absent)
            if self._doubtful_sites & self.present:
                self._ask_back(self._doubtful_sites & self.present)
            elif now - self._last_answer >= stale and self._cannot_be_repeated(bundle):
                self._ask_back(self.present)
        if self.needs_session or not self.coordinator.is_fresh(number, self.present):
            self.enter()

    def _ask_back(self, sites: Iterable[int]) -> None:
        """Asks at no charge whether these sites are in the key session, out of it, or absent."""

        def keep(site: int, answer: bytes) -> None:
            require(not answer, Code.BAD_MESSAGE, site)
            if site in self._bound:
                self.present |= {site}
            else:  # it shares no secret with the others
                self.needs_session = True

        self._asked_back, self._doubtful_sites = self.retry_policy.clock(), frozenset()
        seconds = self.retry_policy.return_seconds
        now = Quorum(lambda more: True, asks=1, seconds=seconds, longest=SHORT_ANSWER)
        try:
            missing = self.exchange(self.coordinator.asking(sites), keep, now)
        except SiteRefused:  # a final refusal shows in the next round that asks the site
            return
        self.needs_session |= bool(missing.restarts)

    def _cannot_be_repeated(self, bundle: Sequence[Priced]) -> bool:
        """Whether the rest of the retry budget could not pay for a failure."""
        return not self._void + price(bundle) <= self.study.reserve

    def participants(self, without: Iterable[int]) -> tuple[int, ...]:
        """All who are there, but for those that are left out if a sum can do without them."""
        rest = self.present - frozenset(without)
        return tuple(sorted(rest if len(rest) >= self.threshold else self.present))

    def mode(self, bundle: Sequence[Priced], n_sites: int) -> Mode:
        """At once where nobody may be lost anyway, or where the reserve can pay for a failure."""
        survives_none = n_sites == self.threshold
        at_once = survives_none or not self._cannot_be_repeated(bundle)
        return Mode.AT_ONCE if at_once and self.retry_policy.timing.at_once else Mode.IN_TWO

    def failed(self, bundle: Sequence[Priced]) -> None:
        """Records a void round: its charge stays, and reduces the retry budget."""
        self._void += price(bundle)

    def leave_out(self, sites: Iterable[int]) -> None:
        """Leaves sites out of the next round, which would otherwise be void again."""
        self._left_out |= frozenset(sites)
        self.present -= self._left_out

    def resumed(self, participants: Iterable[int]) -> None:
        """Takes the participants of a round that an earlier process asked."""
        self.present = self._bound = frozenset(participants)

    def opened(self, members: Iterable[int]) -> None:
        """Records that a round was opened for these."""
        self.present, self._left_out = frozenset(members) - self._exclusions, frozenset()
        self._has_opened = True
        self._last_answer = self.retry_policy.clock()

    def doubt(self, sites: Iterable[int]) -> None:
        self._doubtful_sites |= frozenset(sites)

    def exclude(self, sites: Iterable[int]) -> None:
        """Excludes sites for the rest of the run."""
        self._exclusions |= frozenset(sites)
        self.present -= self._exclusions

    # ------------------------------------------------------------------------------- the end
    def _require_enough(self, there: int, silent: Iterable[int], step: str) -> None:
        if there < self.threshold:
            self.end(silent, step, there)

    def end(self, silent: Iterable[int], step: str, there: int) -> NoReturn:
        names = ", ".join(self.retry_policy.names_of(silent)) or "nobody"
        seconds = self.retry_policy.timing.patience_seconds
        charges = "There is no guarantee, so nothing was charged."
        if self.study.limit != math.inf:
            part = float(self.spent() / self.study.total)
            charges = f"By the sites' own receipts {part:.1%} of the budget is charged, at most."
        raise RunEnded(
            f"{step}: {names} did not answer within {seconds:g} s; {there} of "
            f"{self.study.n_sites} sites are there and {self.threshold} are needed. "
            f"{charges} Wait until they are back and resume the run: the same round is "
            "then asked again, at no charge."
        )
