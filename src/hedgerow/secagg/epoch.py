"""An epoch: fresh keys of everybody who takes part, agreed once and used for many rounds.

A masked vector is only ever made with an ephemeral key that the running process generated.
A process that restarts, a restored disk or a copied directory has no such key, so the same
mask cannot be used for two vectors. (A copied running machine is not covered.)
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeAlias

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.encoding import digest, u16, u64
from hedgerow.secagg.envelope import (
    NO_EPOCH,
    MessageKind,
    Position,
    SignedHead,
    SignedHeader,
    open_envelope,
)
from hedgerow.secagg.graph import Graph, Parameters
from hedgerow.secagg.keys import EVERYBODY, Roster, pair_seed, root, share_key, shared_secret
from hedgerow.secagg.messages import Keys

Invitation: TypeAlias = tuple[bytes, int]
"""Run and attempt of a JOIN."""


@dataclass(frozen=True, slots=True)
class Joining:
    """One site's KEYS, its signature checked; the heads in it are not."""

    receipt: SignedHeader
    attempt: int
    ephemeral: bytes
    heads: Mapping[int, SignedHead]
    message: bytes

    @property
    def sender(self) -> int:
        return self.receipt.header.sender

    @property
    def head(self) -> Position:
        return self.receipt.header.ledger.position

    @property
    def invitation(self) -> Invitation:
        """The JOIN that it answers."""
        return self.receipt.header.run_id, self.attempt


def read_keys(message: bytes, roster: Roster, study_hash: bytes) -> Joining:
    return _read_keys(bytes(message), roster, study_hash)


@lru_cache(maxsize=2048)
def _read_keys(message: bytes, roster: Roster, study_hash: bytes) -> Joining:
    """Kept: the sites of one process read each other's, and a thousand make a million."""
    envelope = open_envelope(message, MessageKind.KEYS, study_hash, roster)
    header = envelope.header
    require(header.sender < len(roster.sites), Code.UNKNOWN_KEY)
    to_all = (header.epoch_id, header.round, header.receiver) == (NO_EPOCH, 0, EVERYBODY)
    require(to_all, Code.BAD_MESSAGE)
    keys = Keys.read(envelope.body)
    return Joining(envelope.receipt, keys.attempt, keys.ephemeral, keys.heads, message)


@dataclass(frozen=True, slots=True)
class Epoch:
    """What everybody knows of an epoch."""

    run_id: bytes
    id: bytes
    ephemerals: Mapping[int, bytes]
    graph: Graph

    def context(self, round: int, request: bytes, participants: Iterable[int]) -> bytes:
        """What the round's keys are bound to.

        Sites that were told different rounds, bundles or participants get different keys:
        their masks do not cancel and their shares do not open.
        """
        who = b"".join(u16(site) + self.ephemerals[site] for site in participants)
        return digest("ctx", self.id, u64(round), request, who)


def form_epoch(
    joining: Iterable[Joining], invitation: Invitation, study_hash: bytes, parameters: Parameters
) -> Epoch:
    """The epoch these sites make, in whatever order their KEYS arrived."""
    everyone = sorted(joining, key=lambda one: one.sender)
    require(len(everyone) >= parameters.threshold, Code.TOO_FEW)
    require({one.invitation for one in everyone} == {invitation}, Code.BAD_MESSAGE)
    ephemerals = {one.sender: one.ephemeral for one in everyone}
    different = len(set(ephemerals.values()))  # less if a sender or a key comes twice
    require(different == len(everyone), Code.DUPLICATE_KEY)
    epoch_id = digest("epoch", study_hash, invitation[0], *(one.message for one in everyone))
    return Epoch(invitation[0], epoch_id, ephemerals, parameters.graph(epoch_id))


@dataclass(slots=True)
class Joined:
    """An epoch as one of its sites holds it, with the secrets it shares with its neighbours."""

    epoch: Epoch
    me: int
    roots: Mapping[int, bytes] = field(repr=False)
    process: int
    last_round: int = 0
    """Highest round masked in this epoch, whether or not it was ever stored or sent."""
    lock: AbstractContextManager[Any] = field(default_factory=threading.Lock, repr=False)

    @classmethod
    def agree(cls, epoch: Epoch, me: int, private: X25519PrivateKey, process: int) -> Joined:
        peers = epoch.graph.neighbours(me) & set(epoch.ephemerals)
        roots = {peer: _root_with(epoch, me, peer, private) for peer in sorted(peers)}
        return cls(epoch, me, roots, process)

    def use(self, round: int) -> None:
        """Takes the masks of one round, once and in the process that made the key.

        A second vector under one mask would show the difference of the two.
        """
        require(self.process == os.getpid(), Code.UNKNOWN_KEY)  # a forked copy has the same keys
        with self.lock:
            require(round > self.last_round, Code.OLD_ROUND)
            self.last_round = round

    def peers_in(self, participants: Iterable[int]) -> list[int]:
        return [site for site in participants if site in self.roots]

    def seed(self, context: bytes, peer: int) -> bytes:
        return pair_seed(self.roots[peer], context, self.me, peer)

    def key_to(self, context: bytes, peer: int) -> bytes:
        return share_key(self.roots[peer], context, self.me, peer)

    def key_from(self, context: bytes, peer: int) -> bytes:
        return share_key(self.roots[peer], context, peer, self.me)


def _root_with(epoch: Epoch, me: int, peer: int, private: X25519PrivateKey) -> bytes:
    low, high = ((site, epoch.ephemerals[site]) for site in sorted((me, peer)))
    return root(shared_secret(private, epoch.ephemerals[peer]), epoch.id, low, high)
