"""Sends messages and collects replies; retries until enough sites answered or time is up.

All that a transport offers is an `Exchange`. To ask again is free: a site that has answered sends
the same bytes. A transport may lose, repeat and reorder, so a reply that does not
fit counts as none, and a refusal counts when it came twice: the first may be an old one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from hedgerow.errors import EngineLost, SiteRefused
from hedgerow.federation.client import refusal_code
from hedgerow.privacy.bundles import MOST_BYTES, MOST_INTEGERS
from hedgerow.privacy.statement.record import Listener, Progress, silent
from hedgerow.secagg.codes import Code

# --------------------------------------------------------------------------------------------------
# How long a message may be, whoever carries it: checked before anything is allocated.

_BESIDE = 1 << 20
"""Room for headers, signatures, and a sealed share from every site."""

MAX_MESSAGE_BYTES = 2 * MOST_BYTES + _BESIDE
"""To a site: questions and definitions."""
LONGEST_ANSWER = 8 * MOST_INTEGERS + _BESIDE
"""From a site: a masked vector."""
SHORT_ANSWER = 1 << 18
"""From a site, where no vector is asked for: keys, signatures, and a little from every peer."""


def longest_answer(integers: int, selections: int, n_sites: int) -> int:
    """Bytes of a masked vector, of selections, and of what each peer is given beside them."""
    return SHORT_ANSWER + 8 * integers + 4 * selections + BESIDE_A_PEER * n_sites


BESIDE_A_PEER = 4096
"""Bytes of keys, ciphertexts, shares and heads for one peer, in any message."""


# --------------------------------------------------------------------------------------------------
# What a round brought.

LeftOut = Collection[int]
"""Sites that are not asked in one round."""


@dataclass(frozen=True)
class RoundSum:
    """What a round brought: the opened sum, each member's selections, and the bytes of one site.

    `members` are the places of the sites that the sum is over.
    """

    total: NDArray[np.int64]
    selections: tuple[tuple[int, ...], ...]
    bytes_out: int
    bytes_in: int
    members: tuple[int, ...]


# --------------------------------------------------------------------------------------------------
# How long a run waits for whom. Known to the coordinator alone; no site's guarantee rests on it.


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Seconds, and how often the same thing is asked."""

    answer_seconds: float = 60.0
    """One exchange: how long all sites together may take to answer a message."""
    asks: int = 3
    """How often silent sites are asked the same before the round goes on without them."""
    patience_seconds: float = 3600.0
    """How long a run waits while fewer sites are there than a sum needs; then it ends."""
    return_seconds: float = 60.0
    """How often a site that was lost is asked whether it is back."""
    at_once: bool = True
    """Whether a round may be opened with its first answers. In two exchanges it survives a loss."""


NEEDS_NEW_KEYS = frozenset(
    code.value for code in (Code.UNKNOWN_KEY, Code.OLD_ROUND, Code.STALE, Code.LEDGER_UNAVAILABLE)
)
"""A site's own process was started anew, or its disk failed: it is back in the next key session."""
NOT_YET = frozenset((Code.NOT_APPROVED.value,))
"""The study is not approved there yet."""
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 1.0
"""Seconds between two tries, doubled each time; for transports that know at once who is away."""
STALE_SECONDS = 1.0
"""In less time no process ends and another takes its place, unless a transport says so."""
RETURN_SECONDS = 2.0
"""How long a lost site may take to say that it is back, while all others wait."""
PACES = 2.0
"""A slow transport gets so many times its pace before either of these is over."""


# --------------------------------------------------------------------------------------------------
# One exchange: a message to each site, by its place in the roster, and its reply.

Messages = Mapping[int, bytes]
Accept = Callable[[int, bytes], None]
"""Keeps a reply; raises SiteRefused if it does not fit."""


@dataclass(frozen=True, slots=True)
class Quorum:
    """Which replies suffice, and how long silent sites are waited for once these are there."""

    is_met: Callable[[int], bool]
    """Whether what was accepted suffices, with so many replies more."""
    asks: float = math.inf
    """How often silent sites are asked then."""
    seconds: float = math.inf
    """For how long one try waits at most."""
    longest: int = LONGEST_ANSWER
    """Bytes that an answer can have, by what was asked; a transport takes no more."""


@dataclass(frozen=True, slots=True)
class Misses:
    """Sites whose reply was not accepted, by the reason, and all who did not reply at once."""

    silent: frozenset[int] = frozenset()
    restarts: frozenset[int] = frozenset()
    """Cannot answer in this key session."""
    lacking: frozenset[int] = frozenset()
    """Do not know a name in their message."""
    slow: frozenset[int] = frozenset()
    refusals: frozenset[int] = frozenset()
    """Said no, twice, where the others suffice: one site cannot end a run by its word."""


Exchange = Callable[[Messages, Accept, Quorum], Misses]
"""Messages to sites and their replies: all that a transport offers, and what `patient` makes.

A message is a signed message of the secure sum, and so is its answer; a transport reads neither. It
hands every answer to `accept`, refusals and empty ones too, returns once all have answered or after
the quorum's seconds, and never raises for one site: EngineLost says that no site can be reached.
A transport whose exchanges take seconds says so by a `pace`.
"""


def pace_of(exchange: Exchange) -> float:
    """Seconds that an exchange takes when nothing is wrong; 0 where that is less than one."""
    return float(getattr(exchange, "pace", 0.0))


def hand_over(messages: Messages, answers: Mapping[int, bytes], accept: Accept) -> Misses:
    """What one try of a transport brought; those without an answer were silent."""
    for site, answer in answers.items():
        accept(site, answer)
    return Misses(silent=frozenset(messages) - frozenset(answers))


@dataclass(frozen=True)
class NamedExchange:
    """An `Exchange` over what asks sites by their names, for so many seconds."""

    names: Sequence[str]
    ask: Callable[[Mapping[str, bytes], float], Mapping[str, bytes]]
    pace: float = 0.0

    def __call__(self, messages: Messages, accept: Accept, quorum: Quorum) -> Misses:
        names = {site: self.names[site] for site in messages}
        answers = self.ask({names[site]: item for site, item in messages.items()}, quorum.seconds)
        by_place = {site: answers[name] for site, name in names.items() if name in answers}
        return hand_over(messages, by_place, accept)


@dataclass(frozen=True)
class RetryPolicy:
    """The sites of a roster by their places in it, how long they are waited for, and a listener."""

    names: Sequence[str]
    timing: Timing = field(default_factory=Timing)
    listener: Listener = silent
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep
    pace: float = 0.0
    """The transport's."""

    @property
    def stale_seconds(self) -> float:
        return max(STALE_SECONDS, PACES * self.pace)

    @property
    def return_seconds(self) -> float:
        return max(RETURN_SECONDS, PACES * self.pace)

    def names_of(self, sites: Iterable[int]) -> tuple[str, ...]:
        return tuple(self.names[site] for site in sorted(sites))

    def note(self, words: str, sites: Iterable[int] = ()) -> None:
        self.listener(Progress(note=words, sites=self.names_of(sites)))


def patient(exchange: Exchange, retry_policy: RetryPolicy) -> Exchange:
    """Asks again until all have replied, or until it is of no use to ask any more."""

    def asking(messages: Messages, accept: Accept, quorum: Quorum) -> Misses:
        return _ReplyCollector(exchange, retry_policy, dict(messages), accept, quorum).run()

    return asking


@dataclass
class _ReplyCollector:
    """One exchange with all sites that `waiting` holds messages for.

    Silent ones are given up after as many tries as the quorum says once it is met, or when
    patience is over. Where it cannot be met, since too many are gone, nobody is waited for.
    """

    exchange: Exchange
    retry_policy: RetryPolicy
    waiting: dict[int, bytes]
    accept: Accept
    quorum: Quorum
    restarts: set[int] = field(default_factory=set)
    lacking: set[int] = field(default_factory=set)
    slow: set[int] = field(default_factory=set)
    refusals: set[int] = field(default_factory=set)
    _codes: dict[int, str] = field(default_factory=dict)
    """What each site refused with last."""

    def run(self) -> Misses:
        start, tries, pause = self.retry_policy.clock(), 0, FIRST_PAUSE
        while self.waiting and self.quorum.is_met(len(self.waiting) + len(self.lacking)):
            sites, began = set(self.waiting), self.retry_policy.clock()
            answers = self._once()
            tries += 1
            in_doubt = [self._hear(site, answer) for site, answer in answers.items()]
            is_stale = self.retry_policy.clock() - began >= self.retry_policy.stale_seconds
            self.slow |= sites if is_stale else set(self.waiting)
            if not any(in_doubt) and self._is_over(tries, self.retry_policy.clock() - start):
                break
            if not answers:
                self.retry_policy.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        missing_sites = (self.waiting, self.restarts, self.lacking, self.slow, self.refusals)
        return Misses(*map(frozenset, missing_sites))

    def _once(self) -> dict[int, bytes]:
        """The answers of those who are there, refusals too."""
        answers: dict[int, bytes] = {}
        seconds = min(self.quorum.seconds, self.retry_policy.timing.answer_seconds)
        once = replace(self.quorum, asks=1, seconds=seconds)
        try:
            self.slow |= self.exchange(self.waiting, answers.__setitem__, once).slow
        except EngineLost as error:
            self.retry_policy.note(f"no site can be reached ({error})")
            return {}
        return answers

    def _is_over(self, tries: int, seconds: float) -> bool:
        if not self.waiting:
            return True
        if tries == self.retry_policy.timing.asks:
            self.retry_policy.note("waiting for", self.waiting)
        is_met = self.quorum.is_met(len(self.lacking))
        over = seconds >= self.retry_policy.timing.patience_seconds
        return (is_met and tries >= self.quorum.asks) or over

    def _hear(self, site: int, answer: bytes) -> bool:
        """Whether it is worth asking this one again, however long it took."""
        code = refusal_code(answer)
        if code is None:
            if self._fits(site, answer):
                del self.waiting[site]
            return False
        last_code, self._codes[site] = self._codes.get(site), code
        if code in NOT_YET and last_code != code:
            self.retry_policy.note("not yet approved by", {site})
        elif last_code == code:
            self._believe(site, code)
        return last_code != code and code not in NOT_YET

    def _believe(self, site: int, code: str) -> None:
        """A refusal that was given twice."""
        if code in NEEDS_NEW_KEYS or code == Code.UNKNOWN_NAME.value:
            del self.waiting[site]
            (self.restarts if code in NEEDS_NEW_KEYS else self.lacking).add(site)
        elif code not in NOT_YET:
            del self.waiting[site]
            if not self.quorum.is_met(len(self.waiting) + len(self.lacking)):
                raise SiteRefused(code, self.retry_policy.names[site])
            self.retry_policy.note(f"refused with {code}; the run goes on without", {site})
            self.refusals.add(site)

    def _fits(self, site: int, answer: bytes) -> bool:
        """What does not is an old answer or a damaged one; the right one is asked for again."""
        try:
            self.accept(site, answer)
        except SiteRefused as error:
            if error.code == Code.LEDGER_ROLLED_BACK.value:
                raise SiteRefused(error.code, self.retry_policy.names[site]) from None
            self.retry_policy.note("an answer that does not fit came from", {site})
            return False
        return True
