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
from hedgerow.kernels.threads import each
from hedgerow.privacy.bundles import MOST_BYTES, MOST_INTEGERS
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


class Direct:
    """Sites in this process, on threads if there are several: each maps a letter to its answer."""

    def __init__(self, sites: Mapping[str, Callable[[bytes], bytes]]) -> None:
        self._sites = dict(sites)

    def ask(self, letters: Mapping[str, bytes], timeout: float) -> Mapping[str, bytes]:
        answers = each(lambda name: self._sites[name](letters[name]), letters)
        return dict(zip(letters, answers, strict=True))


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

Take = Callable[[int, bytes], None]


@dataclass(frozen=True, slots=True)
class Note:
    """Something that people who watch a run want to know; public."""

    what: str
    sites: tuple[str, ...] = ()


Tell = Callable[[Note], None]


def tell_nobody(note: Note) -> None:
    """Nobody listens."""


@dataclass
class Post:
    """The way to the sites of a roster, by their places in it, and how long it waits."""

    carrier: Carrier
    names: Sequence[str]
    timing: Timing = field(default_factory=Timing)
    tell: Tell = tell_nobody
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep

    def once(self, letters: Mapping[int, bytes], seconds: float = math.inf) -> dict[int, bytes]:
        """The answers of those who are there, refusals too."""
        places = {self.names[site]: site for site in letters}
        named = {self.names[site]: letter for site, letter in letters.items()}
        try:
            answers = self.carrier.ask(named, min(seconds, self.timing.answer_seconds))
        except EngineLost as error:
            self.tell(Note(f"no site can be reached ({error})"))
            return {}
        return {places[name]: answer for name, answer in answers.items() if name in places}

    def named(self, sites: Iterable[int]) -> tuple[str, ...]:
        return tuple(self.names[site] for site in sorted(sites))


@dataclass
class Gathering:
    """One exchange with all sites that `waiting` holds letters for.

    `take` keeps an answer, and raises PartyRefused if it does not fit. `got` counts those kept;
    fewer than `needed` are of no use. `fuller` writes the letter for a site that lacks a
    definition. Afterwards `waiting` holds those who stayed silent, `gone` those who cannot answer
    in this epoch, and `slow` all who did not answer at once.
    """

    post: Post
    waiting: dict[int, bytes]
    take: Take
    got: Callable[[], int]
    needed: int
    asks: float = math.inf
    fuller: Callable[[int], bytes] | None = None
    gone: set[int] = field(default_factory=set)
    slow: set[int] = field(default_factory=set)
    _said: dict[int, str] = field(default_factory=dict)

    def run(self) -> Gathering:
        """Asks until all have answered, or it is of no use to ask any more.

        Silent ones are given up after `asks` tries once `needed` are there, or when patience is
        over. Where `needed` cannot be reached, since too many are gone, nobody is waited for.
        """
        started, tries, pause = self.post.clock(), 0, FIRST_PAUSE
        while self.waiting and self.got() + len(self.waiting) >= self.needed:
            asked, began = set(self.waiting), self.post.clock()
            arrived = self.post.once(self.waiting)
            tries += 1
            in_doubt = [self._hear(site, answer) for site, answer in arrived.items()]
            self.slow |= asked if self.post.clock() - began >= STALE_SECONDS else set(self.waiting)
            if not any(in_doubt) and self._is_over(tries, self.post.clock() - started):
                break
            if not arrived:
                self.post.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        return self

    def _is_over(self, tries: int, seconds: float) -> bool:
        if not self.waiting:
            return True
        if tries == self.post.timing.asks:
            self.post.tell(Note("waiting for", self.post.named(self.waiting)))
        enough = self.got() >= self.needed
        return (enough and tries >= self.asks) or seconds >= self.post.timing.patience_seconds

    def _hear(self, site: int, answer: bytes) -> bool:
        """Whether it is worth asking this one again, however long it took."""
        code = refused_with(answer)
        if code is None:
            if self._fits(site, answer):
                del self.waiting[site]
            return False
        known, self._said[site] = self._said.get(site), code
        if code == Code.UNKNOWN_NAME.value and self.fuller is not None:
            self.waiting[site] = self.fuller(site)
        elif code in NOT_YET and known != code:
            self.post.tell(Note("not yet approved by", self.post.named({site})))
        elif known == code:
            self._believe(site, code)
        return known != code and code not in NOT_YET

    def _believe(self, site: int, code: str) -> None:
        """A refusal that was given twice."""
        if code in NEEDS_NEW_KEYS:
            del self.waiting[site]
            self.gone.add(site)
        elif code not in NOT_YET:
            raise PartyRefused(code, self.post.names[site])

    def _fits(self, site: int, answer: bytes) -> bool:
        """What does not is an old answer or a damaged one; the right one is asked for again."""
        try:
            self.take(site, answer)
        except PartyRefused as error:
            if error.code == Code.LEDGER_ROLLED_BACK.value:
                raise PartyRefused(error.code, self.post.names[site]) from None
            self.post.tell(Note("an answer that does not fit came from", self.post.named({site})))
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
