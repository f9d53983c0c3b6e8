"""Letters out, answers in: asked again until enough came, or until patience is over.

To ask again is free: a site that has answered sends the same bytes. A carrier may lose, repeat
and reorder, so what does not fit is as good as silence, and a refusal counts when it was given
twice: the first may be an old one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import EngineLost, PartyRefused
from hedgerow.federation.client import refused_with
from hedgerow.privacy.bundles import MOST_BYTES, MOST_INTEGERS
from hedgerow.privacy.statement.record import Listener, Progress, silent
from hedgerow.secagg.codes import Code

# --------------------------------------------------------------------------------------------------
# What carries letters to sites and answers back: all that an engine must offer.
#
# A letter is a signed message of the secure sum, and so is its answer. A carrier understands
# neither; it may lose, repeat, delay and reorder them, and who asks again asks for nothing new.


class Carrier(Protocol):
    """The way to the sites of one study; sites go by their names in the roster."""

    def ask(self, letters: Mapping[str, bytes], timeout: float) -> Mapping[str, bytes]:
        """Answers that came within `timeout` seconds; silence is absence.

        Returns as soon as everybody has answered. Never raises for one site. May deliver a letter
        twice. Raises EngineLost only if no site can be reached. A refusal is an answer (a constant
        code), and an empty answer is one too.
        """
        ...


@dataclass(frozen=True)
class Collected:
    """What a round brought: the opened sum, each member's picks, and the bytes of one site.

    `members` are the places of the sites that the sum is over.
    """

    total: NDArray[np.int64]
    picks: tuple[tuple[int, ...], ...]
    bytes_out: int
    bytes_in: int
    members: tuple[int, ...]


# --------------------------------------------------------------------------------------------------
# How long a run waits for whom. Known to the coordinator alone; no site's promise rests on it.


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Seconds, and how often the same thing is asked."""

    answer_seconds: float = 60.0
    """One exchange: how long all sites together may take to answer a letter."""
    asks: int = 3
    """How often silent sites are asked the same before the round goes on without them."""
    patience_seconds: float = 3600.0
    """How long a run waits while fewer sites are there than a sum needs; then it ends."""
    return_seconds: float = 60.0
    """How often a site that was lost is asked whether it is back."""


NEEDS_NEW_KEYS = frozenset(
    code.value for code in (Code.UNKNOWN_KEY, Code.OLD_ROUND, Code.LEDGER_UNAVAILABLE)
)
"""A site's own process was started anew, or its disk failed: it is back in the next epoch."""
NOT_YET = frozenset((Code.NOT_APPROVED.value,))
"""Nobody has said yes there yet; somebody may."""
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 1.0
"""Seconds between two tries, doubled each time; for carriers that know at once who is away."""
STALE_SECONDS = 1.0
"""In less time no process ends and another takes its place."""


# --------------------------------------------------------------------------------------------------
# One exchange: a letter to each site, by its place in the roster, and its reply.

Letters = Mapping[int, bytes]
Accept = Callable[[int, bytes], None]
"""Keeps a reply; raises PartyRefused if it does not fit."""


@dataclass(frozen=True, slots=True)
class Quorum:
    """Which replies suffice, and how long silent sites are waited for once these are there."""

    is_met: Callable[[int], bool]
    """Whether what was accepted suffices, with so many replies more."""
    asks: float = math.inf
    """How often silent sites are asked then."""
    seconds: float = math.inf
    """For how long one try waits at most."""


@dataclass(frozen=True, slots=True)
class Missed:
    """Sites whose reply was not accepted, by the reason, and all who did not reply at once."""

    silent: frozenset[int] = frozenset()
    restarted: frozenset[int] = frozenset()
    """Cannot answer in this epoch."""
    lacking: frozenset[int] = frozenset()
    """Do not know a name in their letter."""
    slow: frozenset[int] = frozenset()


Exchange = Callable[[Letters, Accept, Quorum], Missed]


@dataclass(frozen=True)
class Patience:
    """The sites of a roster by their places in it, how long they are waited for, and who hears."""

    names: Sequence[str]
    timing: Timing = field(default_factory=Timing)
    listener: Listener = silent
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep

    def named(self, sites: Iterable[int]) -> tuple[str, ...]:
        return tuple(self.names[site] for site in sorted(sites))

    def note(self, what: str, sites: Iterable[int] = ()) -> None:
        self.listener(Progress(note=what, sites=self.named(sites)))


def patient(carrier: Carrier, patience: Patience) -> Exchange:
    """Asks again until all have replied, or until it is of no use to ask any more."""

    def exchange(letters: Letters, accept: Accept, quorum: Quorum) -> Missed:
        return _Gathering(carrier, patience, dict(letters), accept, quorum).run()

    return exchange


@dataclass
class _Gathering:
    """One exchange with all sites that `waiting` holds letters for.

    Silent ones are given up after as many tries as the quorum says once it is met, or when
    patience is over. Where it cannot be met, since too many are gone, nobody is waited for.
    """

    carrier: Carrier
    patience: Patience
    waiting: dict[int, bytes]
    accept: Accept
    quorum: Quorum
    gone: set[int] = field(default_factory=set)
    lacking: set[int] = field(default_factory=set)
    slow: set[int] = field(default_factory=set)
    _refused: dict[int, str] = field(default_factory=dict)

    def run(self) -> Missed:
        started, tries, pause = self.patience.clock(), 0, FIRST_PAUSE
        while self.waiting and self.quorum.is_met(len(self.waiting) + len(self.lacking)):
            asked, began = set(self.waiting), self.patience.clock()
            arrived = self._once()
            tries += 1
            in_doubt = [self._hear(site, answer) for site, answer in arrived.items()]
            self.slow |= (
                asked if self.patience.clock() - began >= STALE_SECONDS else set(self.waiting)
            )
            if not any(in_doubt) and self._is_over(tries, self.patience.clock() - started):
                break
            if not arrived:
                self.patience.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        found = (self.waiting, self.gone, self.lacking, self.slow)
        return Missed(*map(frozenset, found))

    def _once(self) -> dict[int, bytes]:
        """The answers of those who are there, refusals too."""
        names = self.patience.names
        places = {names[site]: site for site in self.waiting}
        letters = {names[site]: letter for site, letter in self.waiting.items()}
        seconds = min(self.quorum.seconds, self.patience.timing.answer_seconds)
        try:
            answers = self.carrier.ask(letters, seconds)
        except EngineLost as error:
            self.patience.note(f"no site can be reached ({error})")
            return {}
        return {places[name]: answer for name, answer in answers.items() if name in places}

    def _is_over(self, tries: int, seconds: float) -> bool:
        if not self.waiting:
            return True
        if tries == self.patience.timing.asks:
            self.patience.note("waiting for", self.waiting)
        is_met = self.quorum.is_met(len(self.lacking))
        over = seconds >= self.patience.timing.patience_seconds
        return (is_met and tries >= self.quorum.asks) or over

    def _hear(self, site: int, answer: bytes) -> bool:
        """Whether it is worth asking this one again, however long it took."""
        code = refused_with(answer)
        if code is None:
            if self._fits(site, answer):
                del self.waiting[site]
            return False
        known, self._refused[site] = self._refused.get(site), code
        if code in NOT_YET and known != code:
            self.patience.note("not yet approved by", {site})
        elif known == code:
            self._believe(site, code)
        return known != code and code not in NOT_YET

    def _believe(self, site: int, code: str) -> None:
        """A refusal that was given twice."""
        if code in NEEDS_NEW_KEYS or code == Code.UNKNOWN_NAME.value:
            del self.waiting[site]
            (self.gone if code in NEEDS_NEW_KEYS else self.lacking).add(site)
        elif code not in NOT_YET:
            raise PartyRefused(code, self.patience.names[site])

    def _fits(self, site: int, answer: bytes) -> bool:
        """What does not is an old answer or a damaged one; the right one is asked for again."""
        try:
            self.accept(site, answer)
        except PartyRefused as error:
            if error.code == Code.LEDGER_ROLLED_BACK.value:
                raise PartyRefused(error.code, self.patience.names[site]) from None
            self.patience.note("an answer that does not fit came from", {site})
            return False
        return True


# --------------------------------------------------------------------------------------------------
# How long a message may be, whoever carries it: checked before anything is allocated.

_BESIDE = 1 << 20
"""Room for headers, signatures, and a sealed share from every site."""

LONGEST_LETTER = 2 * MOST_BYTES + _BESIDE
"""To a site: questions and definitions."""
LONGEST_ANSWER = 8 * MOST_INTEGERS + _BESIDE
"""From a site: a masked vector."""
