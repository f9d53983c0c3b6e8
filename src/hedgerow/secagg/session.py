"""A key session: fresh keys of all members, agreed once and used for many rounds.

A masked vector is only ever made with an ephemeral key that the running process generated. A
restarted process, a restored disk or a copied directory has no such key, so no mask can be used for
two vectors. (A copied running machine is not covered.)
"""

from __future__ import annotations

import hmac
import os
import threading
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, TypeAlias

from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.encoding import CIPHERTEXT, digest, u16, u64
from hedgerow.secagg.envelope import (
    NO_SESSION,
    MessageKind,
    Position,
    SignedHeader,
    open_envelope,
)
from hedgerow.secagg.keys import (
    EVERYBODY,
    EphemeralKeys,
    Roster,
    confirmation,
    decapsulate,
    encapsulate,
    gives,
    pair_seed,
    root,
    share_key,
    shared_secret,
)
from hedgerow.secagg.messages import Keys
from hedgerow.secagg.parameters import Parameters

RunAttempt: TypeAlias = tuple[bytes, int]
"""Run and attempt of a JOIN."""


@dataclass(frozen=True, slots=True)
class Joining:
    """One site's KEYS with a verified signature; the heads in it are not verified."""

    receipt: SignedHeader
    keys: Keys
    message: bytes

    @property
    def sender(self) -> int:
        return self.receipt.header.sender

    @property
    def head(self) -> Position:
        return self.receipt.header.ledger.position

    @property
    def invitation(self) -> RunAttempt:
        """The JOIN that it answers."""
        return self.receipt.header.run_id, self.keys.attempt


@lru_cache(maxsize=2048)
def read_keys(message: bytes, roster: Roster, study_hash: bytes) -> Joining:
    """Cached: sites of one process read each other's keys, a thousand sites a million times."""
    envelope = open_envelope(message, MessageKind.KEYS, study_hash, roster)
    header = envelope.header
    require(header.sender < len(roster.sites), Code.UNKNOWN_KEY)
    to_all = (header.session_id, header.round, header.receiver) == (NO_SESSION, 0, EVERYBODY)
    require(to_all, Code.BAD_MESSAGE)
    return Joining(envelope.receipt, Keys.read(envelope.body), message)


@dataclass(frozen=True, slots=True)
class Graph:
    """Who shares masks with whom: sites on a ring, joined if at most `reach` steps apart."""

    order: tuple[int, ...]
    reach: int

    @classmethod
    def of(cls, parameters: Parameters, session_id: bytes) -> Graph:
        """The graph of a key session: a new one for each."""
        if parameters.sparse is None:
            return cls.full(parameters.n_sites)
        return cls.ring(parameters.n_sites, parameters.neighborhood.degree, session_id)

    @classmethod
    def full(cls, n_sites: int) -> Graph:
        return cls(tuple(range(n_sites)), n_sites // 2)

    @classmethod
    def ring(cls, n_sites: int, degree: int, session_id: bytes) -> Graph:
        return cls(_ring_order(n_sites, session_id), degree // 2)

    def neighbors(self, site: int) -> frozenset[int]:
        n, here = len(self.order), self.order.index(site)
        steps = range(-self.reach, self.reach + 1)
        return frozenset(self.order[(here + step) % n] for step in steps) - {site}


@lru_cache(maxsize=16)
def _ring_order(n_sites: int, session_id: bytes) -> tuple[int, ...]:
    """Cached: all sites of one process draw the same ring."""
    return tuple(sorted(range(n_sites), key=lambda site: digest("ring", session_id, u16(site))))


@dataclass(frozen=True, slots=True)
class KeySession:
    """The public part of a key session."""

    run_id: bytes
    id: bytes
    ephemerals: Mapping[int, bytes]
    """X25519 keys."""
    encapsulations: Mapping[int, bytes]
    """ML-KEM-768 keys."""
    graph: Graph

    def neighbors(self, site: int) -> frozenset[int]:
        """The members with whom a site shares masks."""
        return self.graph.neighbors(site) & frozenset(self.ephemerals)

    def takers(self, site: int) -> frozenset[int]:
        """The neighbors to whom a site encapsulates."""
        return frozenset(peer for peer in self.neighbors(site) if gives(site, peer))

    def context(self, round: int, request: bytes, participants: Iterable[int]) -> bytes:
        """The value that the round's keys are bound to.

        Sites with different rounds, bundles or participants get different keys: their masks do not
        cancel and their shares do not open.
        """
        keys = b"".join(u16(site) + self.ephemerals[site] for site in participants)
        return digest("ctx", self.id, u64(round), request, keys)


def form_session(
    joining: Iterable[Joining], invitation: RunAttempt, study_hash: bytes, parameters: Parameters
) -> KeySession:
    """The key session of these sites, whatever the order of their KEYS."""
    everyone = sorted(joining, key=lambda item: item.sender)
    require(len(everyone) >= parameters.threshold, Code.TOO_FEW)
    require({item.invitation for item in everyone} == {invitation}, Code.BAD_MESSAGE)
    ephemerals = {item.sender: item.keys.ephemeral for item in everyone}
    encapsulations = {item.sender: item.keys.encapsulation for item in everyone}
    for keys in (ephemerals, encapsulations):  # fewer if a sender or a key is repeated
        require(len(set(keys.values())) == len(everyone), Code.DUPLICATE_KEY)
    session_id = digest("epoch", study_hash, invitation[0], *(item.message for item in everyone))
    graph = Graph.of(parameters, session_id)
    return KeySession(invitation[0], session_id, ephemerals, encapsulations, graph)


@dataclass(slots=True)
class SiteSession:
    """A key session at one of its sites, with the secrets it shares with its neighbors.

    It encapsulates to half of them when it joins, and has a root with the others once it is bound.
    """

    session: KeySession
    me: int
    keys: EphemeralKeys = field(repr=False)
    process: int
    roots: dict[int, bytes] = field(default_factory=dict, repr=False)
    last_round: int = 0
    """Highest round masked in this key session, whether or not it was ever stored or sent."""
    first_round: int = 0
    heard_rounds: dict[int, int] = field(default_factory=dict)
    """By peer, the latest round of which this site was shown a signed header."""
    lock: AbstractContextManager[Any] = field(default_factory=threading.Lock, repr=False)

    def encapsulate_all(self) -> dict[int, bytes]:
        """By peer, the capsule with the root it shares with this site; once per key session."""
        capsules: dict[int, bytes] = {}
        for peer in sorted(self.session.takers(self.me)):
            secret, ciphertext = encapsulate(self.session.encapsulations[peer])
            self.roots[peer] = root = self._root_with(peer, secret, ciphertext)
            capsules[peer] = ciphertext + confirmation(root, self.session.id, self.me, peer)
        return capsules

    def bind(self, capsules: Mapping[int, bytes]) -> None:
        """Roots with those who encapsulated to this site; all must match, or none is stored."""
        near = self.session.neighbors(self.me)
        require(all(p in near and gives(p, self.me) for p in capsules), Code.BAD_SET)
        roots = {peer: self._decapsulate(peer, capsule) for peer, capsule in capsules.items()}
        require(all(self.roots.get(p, r) == r for p, r in roots.items()), Code.BAD_KEY)
        self.roots |= roots

    def _decapsulate(self, peer: int, capsule: bytes) -> bytes:
        """Checks the tag: else a changed ciphertext shows only as masks that do not cancel."""
        ciphertext, tag = capsule[:CIPHERTEXT], capsule[CIPHERTEXT:]
        result = self._root_with(peer, decapsulate(self.keys.encapsulation, ciphertext), ciphertext)
        right = confirmation(result, self.session.id, peer, self.me)
        require(hmac.compare_digest(right, tag), Code.BAD_KEY, peer)
        return result

    def _root_with(self, peer: int, secret: bytes, ciphertext: bytes) -> bytes:
        keys = self.session.ephemerals
        low, high = ((site, keys[site]) for site in sorted((self.me, peer)))
        secrets = secret, shared_secret(self.keys.agreement, keys[peer])
        return root(secrets, self.session.id, low, high, ciphertext)

    def use(self, round: int) -> None:
        """Uses the masks of one round, once and in the process that made the key.

        A second vector under the same mask would reveal the difference of the two.
        """
        require(self.process == os.getpid(), Code.UNKNOWN_KEY)  # a forked copy has the same keys
        with self.lock:
            require(round > self.last_round, Code.OLD_ROUND)
            self.last_round = round
            self.first_round = self.first_round or round

    def is_fresh(self, round: int, participants: Iterable[int], reach: int) -> bool:
        """Whether a recent header of each peer is known; KEYS count as before the first round."""
        start = (self.first_round or round) - 1
        peers = (peer for peer in participants if peer != self.me)
        return all(self.heard_rounds.get(peer, start) >= round - reach for peer in peers)

    def peers_in(self, participants: Iterable[int]) -> list[int]:
        """The neighbors among them; refuses if a root is missing, since masks would not cancel."""
        near = self.session.neighbors(self.me)
        peers = [site for site in participants if site in near]
        require(all(peer in self.roots for peer in peers), Code.BAD_SET)
        return peers

    def seed(self, context: bytes, peer: int) -> bytes:
        return pair_seed(self.roots[peer], context, self.me, peer)

    def share_keys(self, context: bytes, peer: int) -> tuple[bytes, bytes]:
        """Keys of the share for the peer, and of the share from it."""
        key = partial(share_key, self.roots[peer], context)
        return key(self.me, peer), key(peer, self.me)
