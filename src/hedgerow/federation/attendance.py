"""Who takes part in a run: epochs, sites that are away, and sites that are back.

A site whose process was started anew lacks the key of the epoch; it answers for rounds that it
has stored, and for new ones it needs a new epoch. To find that out costs nothing: the OPEN of the
present epoch again changes nothing at a site that is in it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction

from hedgerow.errors import RunEnded
from hedgerow.federation.client import refused_with
from hedgerow.federation.exchange import NEEDS_NEW_KEYS, STALE_SECONDS, Gathering, Note, Post, Take
from hedgerow.federation.journal import NO_JOURNAL, Journal
from hedgerow.privacy.accounting.budget import Cost
from hedgerow.privacy.queries import Query
from hedgerow.privacy.statement.spending import price
from hedgerow.privacy.study import Study
from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.server import Coordinator

RETURN_SECONDS = 2.0
"""How long a lost site may take to say that it is back, while all others wait."""
EPOCH_TRIES = 5
"""How often an epoch is begun again because a site was started anew while it formed."""


class Attendance:
    """The sites of a study, as the coordinator of a run sees them."""

    def __init__(
        self,
        study: Study,
        coordinator: Coordinator,
        post: Post,
        journal: Journal = NO_JOURNAL,
    ) -> None:
        self.study, self.coordinator, self.post, self.journal = study, coordinator, post, journal
        self.present: frozenset[int] = frozenset()
        self._excluded: frozenset[int] = frozenset()
        self._doubted: frozenset[int] = frozenset()
        """Who did not answer at once: a process that was started anew answers for stored rounds."""
        self._needs_epoch, self._opened = True, False
        self._heard = self._asked_back = -math.inf

    @property
    def threshold(self) -> int:
        return self.coordinator.parameters.threshold

    def spent(self) -> Cost:
        receipts = [head.spent for head in self.coordinator.heads.values()]
        if "inf" in receipts:
            return math.inf
        return max(map(Fraction, receipts), default=Fraction(0))

    def on_new_epoch(self) -> None:
        """Nothing has a name in it yet."""

    # ---------------------------------------------------------------------------------- epochs
    def enter(self) -> None:
        """A new epoch of all who are there; again if somebody is started anew while it forms."""
        lost: set[int] = set()
        for _ in range(EPOCH_TRIES):
            lost = self._entered()
            if not lost:
                return
        self._require_enough(len(self.present), lost, "to begin an epoch")

    def _entered(self) -> set[int]:
        """Tries once; gives those who lost their keys before the epoch was there."""
        everyone = set(range(self.study.parties)) - self._excluded
        letters = {site: m for site, m in self.coordinator.join().items() if site in everyone}
        self.journal.joining(self.coordinator)
        keys: dict[int, bytes] = {}

        def keep(site: int, answer: bytes) -> None:
            require(self.coordinator.sender_of_keys(answer) == site, Code.BAD_MESSAGE, site)
            keys[site] = answer

        asks = self.post.timing.asks if self._opened else math.inf
        silent = self._gather(letters, keep, keys.__len__, asks).waiting
        self._require_enough(len(keys), silent, "to begin an epoch")
        opening = self.coordinator.open(keys.values())
        self.journal.epoch(self.coordinator)
        return self._open(opening)

    def _open(self, letters: Mapping[int, bytes]) -> set[int]:
        there: set[int] = set()

        def note(site: int, answer: bytes) -> None:
            require(not answer, Code.BAD_MESSAGE, site)
            there.add(site)

        gathering = self._gather(letters, note, there.__len__, self.post.timing.asks)
        if not gathering.gone:
            self._require_enough(len(there), gathering.waiting, "to begin an epoch")
        self.present = frozenset(there)
        self.on_new_epoch()
        self._needs_epoch, self._opened, self._doubted = False, True, frozenset()
        self._heard = self._asked_back = self.post.clock()
        self.post.tell(Note(f"epoch {self.coordinator.attempt} with", self.post.named(there)))
        return gathering.gone

    def _renew(self, bundle: Sequence[Query]) -> None:
        """Before a new round: whoever is back takes part, and a new epoch is made if need be."""
        now = self.post.clock()
        absent = set(range(self.study.parties)) - self.present - self._excluded
        if self._opened and not self._needs_epoch:
            if absent and now - self._asked_back >= self.post.timing.return_seconds:
                self._ask_back(absent)
            if self._doubted & self.present:
                self._ask_back(self._doubted & self.present)
            elif now - self._heard >= STALE_SECONDS and self._cannot_be_repeated(bundle):
                self._ask_back(self.present)
        if self._needs_epoch:
            self.enter()

    def _ask_back(self, sites: Iterable[int]) -> None:
        """Asks at no charge whether these are in the epoch, out of it, or away."""
        self._asked_back, self._doubted = self.post.clock(), frozenset()
        for site, answer in self.post.once(self.coordinator.opening(sites), RETURN_SECONDS).items():
            if not answer:
                self.present |= {site}
            elif refused_with(answer) in NEEDS_NEW_KEYS:
                self._needs_epoch = True

    def _cannot_be_repeated(self, bundle: Sequence[Query]) -> bool:
        """Whether the study's reserve could not pay for this round if it failed."""
        return not price(bundle, self.study) <= self.study.reserve

    # --------------------------------------------------------------------------------- waiting
    def _gather(
        self,
        letters: Mapping[int, bytes],
        take: Take,
        got: Callable[[], int],
        asks: float,
        needed: int | None = None,
        fuller: Callable[[int], bytes] | None = None,
    ) -> Gathering:
        least = self.threshold if needed is None else needed
        done = Gathering(self.post, dict(letters), take, got, least, asks, fuller).run()
        self._doubted |= done.slow
        return done

    def _require_enough(self, there: int, silent: Iterable[int], what: str) -> None:
        if there < self.threshold:
            self._end(silent, what, there)

    def _end(self, silent: Iterable[int], what: str, there: int) -> None:
        names = ", ".join(self.post.named(silent)) or "nobody"
        seconds = self.post.timing.patience_seconds
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
