"""Who takes part in a run: epochs, sites that are away, and sites that are back.

A site whose process was started anew lacks the key of the epoch; it answers for rounds that it
has stored, and for new ones it needs a new epoch. To find that out costs nothing: the OPEN of the
present epoch again changes nothing at a site that is in it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NoReturn

from hedgerow.errors import PartyRefused, RunEnded
from hedgerow.federation.exchange import (
    STALE_SECONDS,
    Accept,
    Exchange,
    Letters,
    Missed,
    Patience,
    Quorum,
)
from hedgerow.federation.journal import NO_JOURNAL, Journal
from hedgerow.privacy.accounting.budget import Cost
from hedgerow.privacy.pricing import Priced
from hedgerow.privacy.statement.spending import price
from hedgerow.privacy.study import Study
from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.server import Coordinator

RETURN_SECONDS = 2.0
"""How long a lost site may take to say that it is back, while all others wait."""
EPOCH_TRIES = 5
"""How often an epoch is begun again because a site was started anew while it formed."""


@dataclass
class Attendance:
    """The sites of a study, as the coordinator of a run sees them."""

    study: Study
    coordinator: Coordinator
    exchange: Exchange
    patience: Patience
    journal: Journal = NO_JOURNAL
    present: frozenset[int] = frozenset()
    needs_epoch: bool = True
    _opened: bool = False
    _excluded: frozenset[int] = frozenset()
    _doubted: frozenset[int] = frozenset()
    """Who did not answer at once: a process that was started anew answers for stored rounds."""
    _heard: float = field(default=-math.inf)
    _asked_back: float = field(default=-math.inf)

    @property
    def threshold(self) -> int:
        return self.coordinator.parameters.threshold

    def spent(self) -> Cost:
        receipts = [head.spent for head in self.coordinator.heads.values()]
        if "inf" in receipts:
            return math.inf
        return max(map(Fraction, receipts), default=Fraction(0))

    # ---------------------------------------------------------------------------------- epochs
    def enter(self) -> None:
        """A new epoch of all who are there; again if somebody is started anew while it forms."""
        lost: frozenset[int] = frozenset()
        for _ in range(EPOCH_TRIES):
            lost = self._entered()
            if not lost:
                return
        self._require_enough(len(self.present), lost, "to begin an epoch")

    def _entered(self) -> frozenset[int]:
        """Tries once; gives those who lost their keys before the epoch was there."""
        everyone = set(range(self.study.parties)) - self._excluded
        letters = {site: m for site, m in self.coordinator.join().items() if site in everyone}
        self.journal.joining(self.coordinator)
        keys: dict[int, bytes] = {}

        def keep(site: int, answer: bytes) -> None:
            require(self.coordinator.sender_of_keys(answer) == site, Code.BAD_MESSAGE, site)
            keys[site] = answer

        asks = self.patience.timing.asks if self._opened else math.inf
        silent = self._asked(letters, keep, keys, asks).silent
        self._require_enough(len(keys), silent, "to begin an epoch")
        opening = self.coordinator.open(keys.values())
        self.journal.epoch(self.coordinator)
        return self._open(opening)

    def _open(self, letters: Letters) -> frozenset[int]:
        there: dict[int, bytes] = {}

        def keep(site: int, answer: bytes) -> None:
            require(not answer, Code.BAD_MESSAGE, site)
            there[site] = answer

        missed = self._asked(letters, keep, there, self.patience.timing.asks)
        if not missed.restarted:
            self._require_enough(len(there), missed.silent, "to begin an epoch")
        self.present = frozenset(there)
        self.needs_epoch, self._opened, self._doubted = False, True, frozenset()
        self._heard = self._asked_back = self.patience.clock()
        self.patience.note(f"epoch {self.coordinator.attempt} with", there)
        return missed.restarted

    def _asked(
        self, letters: Letters, accept: Accept, kept: dict[int, bytes], asks: float
    ) -> Missed:
        quorum = Quorum(lambda more: len(kept) + more >= self.threshold, asks)
        missed = self.exchange(letters, accept, quorum)
        self.doubt(missed.slow)
        return missed

    # ---------------------------------------------------------------------------------- rounds
    def renew(self, bundle: Sequence[Priced]) -> None:
        """Before a new round: whoever is back takes part, and a new epoch is made if need be."""
        now = self.patience.clock()
        absent = set(range(self.study.parties)) - self.present - self._excluded
        if self._opened and not self.needs_epoch:
            if absent and now - self._asked_back >= self.patience.timing.return_seconds:
                self._ask_back(absent)
            if self._doubted & self.present:
                self._ask_back(self._doubted & self.present)
            elif now - self._heard >= STALE_SECONDS and self._cannot_be_repeated(bundle):
                self._ask_back(self.present)
        if self.needs_epoch:
            self.enter()

    def _ask_back(self, sites: Iterable[int]) -> None:
        """Asks at no charge whether these are in the epoch, out of it, or away."""

        def keep(site: int, answer: bytes) -> None:
            require(not answer, Code.BAD_MESSAGE, site)
            self.present |= {site}

        self._asked_back, self._doubted = self.patience.clock(), frozenset()
        now = Quorum(lambda more: True, asks=1, seconds=RETURN_SECONDS)
        try:
            missed = self.exchange(self.coordinator.opening(sites), keep, now)
        except PartyRefused:  # whoever refuses for good is told of in the next round that asks it
            return
        self.needs_epoch |= bool(missed.restarted)

    def _cannot_be_repeated(self, bundle: Sequence[Priced]) -> bool:
        """Whether the study's reserve could not pay for this round if it failed."""
        return not price(bundle) <= self.study.reserve

    def opened(self, members: Iterable[int]) -> None:
        """A round was opened for these."""
        self.present, self._opened = frozenset(members), True
        self._heard = self.patience.clock()

    def doubt(self, sites: Iterable[int]) -> None:
        self._doubted |= frozenset(sites)

    def exclude(self, sites: Iterable[int]) -> None:
        """For the rest of the run."""
        self._excluded |= frozenset(sites)

    # ------------------------------------------------------------------------------- the end
    def _require_enough(self, there: int, silent: Iterable[int], what: str) -> None:
        if there < self.threshold:
            self.end(silent, what, there)

    def end(self, silent: Iterable[int], what: str, there: int) -> NoReturn:
        names = ", ".join(self.patience.named(silent)) or "nobody"
        seconds = self.patience.timing.patience_seconds
        raise RunEnded(
            f"{what}: {names} did not answer within {seconds:g} s; {there} of "
            f"{self.study.parties} sites are there and {self.threshold} are needed. "
            f"{self._charged()} Wait until they are back and resume the run: the same round is "
            "then asked again, at no charge."
        )

    def _charged(self) -> str:
        if self.study.limit == math.inf:
            return "Nothing is promised, so nothing was charged."
        part = float(self.spent() / self.study.total)
        return f"By the sites' own receipts {part:.1%} of the budget is charged, at most."
