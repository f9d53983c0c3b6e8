"""Sends messages and collects replies; retries until enough sites answered or time is up.

A transport offers one function, an `Exchange`. Asking again is free: a site that has answered sends
the same bytes. A transport may lose, repeat and reorder messages, so a reply that does not fit
counts as none, and a refusal counts once it was repeated: the first may be an old one.
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

# Limits on the length of messages, for all transports: checked before anything is allocated.

_BESIDE = 1 << 20
"""Room for headers, signatures, and a sealed share from every site."""

MAX_MESSAGE_BYTES = 2 * MOST_BYTES + _BESIDE
"""To a site: queries and definitions."""
LONGEST_ANSWER = 8 * MOST_INTEGERS + _BESIDE
"""From a site: a masked vector."""
SHORT_ANSWER = 1 << 18
"""From a site, without a vector: keys, signatures, and a few bytes from every peer."""


def longest_answer(integers: int, selections: int, n_sites: int) -> int:
    """Bytes of a masked vector, of selections, and of the fields for each peer."""
    return SHORT_ANSWER + 8 * integers + 4 * selections + BESIDE_A_PEER * n_sites


BESIDE_A_PEER = 4096
"""Bytes of keys, ciphertexts, shares and heads for one peer, in any message."""


# What a round brought.

LeftOut = Collection[int]
"""Sites that are not asked in one round."""


@dataclass(frozen=True)
class RoundSum:
    """The result of a round: the opened sum, each member's selections, and the bytes of one site.

    `members` are the places of the sites that the sum is over.
    """

    total: NDArray[np.int64]
    selections: tuple[tuple[int, ...], ...]
    bytes_out: int
    bytes_in: int
    members: tuple[int, ...]


# Waiting times of a run. Only the coordinator uses them; no site's guarantee depends on them.


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Seconds, and numbers of attempts."""

    answer_seconds: float = 60.0
    """Time for all sites together to answer a message, in one exchange."""
    asks: int = 3
    """How often silent sites are asked before the round continues without them."""
    patience_seconds: float = 3600.0
    """How long a run waits while too few sites are present for a sum; then it ends."""
    return_seconds: float = 60.0
    """How often a lost site is asked whether it is back."""
    at_once: bool = True
    """Whether a round may be opened with its first answers. In two exchanges it survives a loss."""


NEEDS_NEW_KEYS = frozenset(
    code.value for code in (Code.UNKNOWN_KEY, Code.OLD_ROUND, Code.STALE, Code.LEDGER_UNAVAILABLE)
)
"""The site's process was restarted, or its disk failed: it returns in the next key session."""
NOT_YET = frozenset((Code.NOT_APPROVED.value,))
"""The study is not approved there yet."""
FIRST_PAUSE, LONGEST_PAUSE = 0.02, 1.0
"""Seconds between two attempts, doubled each time; for transports that detect absence at once."""
STALE_SECONDS = 1.0
"""In less time no process is replaced by another, unless a transport says so."""
RETURN_SECONDS = 2.0
"""How long a lost site may take to report that it is back, while all others wait."""
PACES = 2.0
"""A slow transport gets this many times its pace before either of these ends."""


# One exchange: a message to each site, by its place in the roster, and its reply.

Messages = Mapping[int, bytes]
Accept = Callable[[int, bytes], None]
"""Stores a reply; raises SiteRefused if it does not fit."""


@dataclass(frozen=True, slots=True)
class Quorum:
    """Which replies suffice, and how long silent sites are waited for once these arrived."""

    is_met: Callable[[int], bool]
    """Whether the accepted replies suffice, with this many more."""
    asks: float = math.inf
    """How often silent sites are asked then."""
    seconds: float = math.inf
    """The longest wait of one attempt."""
    longest: int = LONGEST_ANSWER
    """The largest answer in bytes, by what was asked; a transport accepts no more."""


@dataclass(frozen=True, slots=True)
class Misses:
    """Sites whose reply was not accepted, by reason, and all that did not reply at once."""

    silent: frozenset[int] = frozenset()
    restarts: frozenset[int] = frozenset()
    """Sites that cannot answer in this key session."""
    lacking: frozenset[int] = frozenset()
    """Sites that do not know a name in their message."""
    slow: frozenset[int] = frozenset()
    refusals: frozenset[int] = frozenset()
    """Sites that refused twice, where the others suffice: one site cannot end a run by refusing."""

    def then(self, later: Misses) -> Misses:
        """Both exchanges: who is silent, or lacks a name, after the later one."""
        restarts, slow = self.restarts | later.restarts, self.slow | later.slow
        return replace(later, restarts=restarts, slow=slow, refusals=self.refusals | later.refusals)


Exchange = Callable[[Messages, Accept, Quorum], Misses]
"""Messages to sites and their replies: the interface of a transport, and of `patient`.

A message is a signed message of the secure sum, and so is its answer; a transport reads neither. It
passes every answer to `accept`, including refusals and empty ones, and returns once all have
answered or after the quorum's seconds. It never raises because of one site; EngineLost means that
no site can be reached. A transport whose exchanges take seconds has a `pace`.
"""


def pace_of(exchange: Exchange) -> float:
    """Seconds that an exchange takes normally; 0 if less than one."""
    return float(getattr(exchange, "pace", 0.0))


def hand_over(messages: Messages, answers: Mapping[int, bytes], accept: Accept) -> Misses:
    """Passes on the answers of one attempt; sites without an answer were silent."""
    for site, answer in answers.items():
        accept(site, answer)
    return Misses(silent=frozenset(messages) - frozenset(answers))


@dataclass(frozen=True)
class NamedExchange:
    """An `Exchange` over a function that asks sites by name, with a time limit in seconds."""

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
    """The sites of a roster by their places, the waiting times, and a listener."""

    names: Sequence[str]
    timing: Timing = field(default_factory=Timing)
    listener: Listener = silent
    clock: Callable[[], float] = time.monotonic
    wait: Callable[[float], None] = time.sleep
    pace: float = 0.0
    """The pace of the transport."""

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
    """Asks again until all have replied, or until asking again is of no use."""

    def asking(messages: Messages, accept: Accept, quorum: Quorum) -> Misses:
        return _ReplyCollector(exchange, retry_policy, dict(messages), accept, quorum).run()

    return asking


@dataclass
class _ReplyCollector:
    """One exchange with all sites that `waiting` has messages for.

    Once the quorum is met, silent sites are given up after its number of attempts; otherwise when
    patience is over. If it cannot be met, since too many are gone, nobody is waited for.
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
    """The code of each site's last refusal."""

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
        """The answers of the sites that are present, including refusals."""
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
        """Takes an answer; whether the site should be asked again, however long it took."""
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
        """Acts on a refusal that was repeated."""
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
        """Accepts an answer; one that does not fit is old or damaged and is requested again."""
        try:
            self.accept(site, answer)
        except SiteRefused as error:
            if error.code == Code.LEDGER_ROLLED_BACK.value:
                raise SiteRefused(error.code, self.retry_policy.names[site]) from None
            self.retry_policy.note("an answer that does not fit came from", {site})
            return False
        return True
