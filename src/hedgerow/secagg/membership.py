"""How a site comes into an epoch: invited by JOIN, it shows KEYS, and OPEN says who is there.

A key belongs to the process that made it and to one invitation. The same invitation again gets
the same KEYS, so that a lost answer costs nothing; a new one ends the epoch before it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from hedgerow.errors import PartyRefused
from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.encoding import DIGEST, SEED
from hedgerow.secagg.envelope import (
    NO_EPOCH,
    Author,
    Envelope,
    LedgerHead,
    MessageKind,
    Position,
    SignedHead,
    follows,
)
from hedgerow.secagg.epoch import Invitation, Joined, Joining, form_epoch, read_keys
from hedgerow.secagg.graph import Parameters
from hedgerow.secagg.keys import EVERYBODY, Roster
from hedgerow.secagg.memory import Memory
from hedgerow.secagg.messages import Join, Keys, Open
from hedgerow.secagg.shamir import Entropy


@dataclass(frozen=True, slots=True)
class Heads:
    """Ledgers only grow: what site `me` of a roster knows of the end of its own and its peers'.

    A file that was brought back to an earlier day is a good file, seen from inside. Others
    remember how far it had come, and tell; a head counts only with the signature of the site it is
    of, so that nobody can stop a site with a head that it never had.
    """

    memory: Memory
    roster: Roster
    me: int

    def meet(self, head: Position) -> None:
        """Somebody holds a head of mine: it must be on my chain, else my file went back."""
        seq, found = head
        mine = bytes(DIGEST) if seq == 0 else self.memory.head_at(seq)
        require(mine == found, Code.LEDGER_ROLLED_BACK)

    def check(self, joining: Iterable[Joining]) -> None:
        """Refuses an epoch in which my ledger, or that of a peer, has gone back."""
        for one in joining:
            told = one.heads.get(self.me)
            if told is not None and told.is_by(self.roster.sites[self.me]):
                self.meet(told.head)
            seen = self.memory.highest_head(self.roster.sites[one.sender])
            require(seen is None or follows(one.head, seen), Code.LEDGER_ROLLED_BACK)

    def keep(self, joining: Iterable[Joining]) -> None:
        for one in joining:
            self.memory.see_head(self.roster.sites[one.sender], one.receipt)

    def told(self) -> dict[int, SignedHead]:
        """The highest head of each peer, in its own words, to be told to all."""
        peers = (site for site in range(len(self.roster.sites)) if site != self.me)
        seen = {peer: self.memory.signed_head(self.roster.sites[peer]) for peer in peers}
        return {peer: head for peer, head in seen.items() if head is not None}


class Membership:
    """A site's place in the present epoch, for as long as its process lives."""

    def __init__(
        self, author: Author, heads: Heads, parameters: Parameters, entropy: Entropy
    ) -> None:
        self._author, self._heads = author, heads
        self._parameters, self._entropy = parameters, entropy
        self._invited: Invitation = (b"", 0)
        self._private: X25519PrivateKey | None = None
        self._process = 0
        self._own_keys = b""
        self.joined: Joined | None = None

    def keys(self, invitation: Envelope, ledger: Callable[[], LedgerHead]) -> bytes:
        """KEYS with a new ephemeral key; the epoch before it makes no more vectors."""
        header = invitation.header
        require((header.epoch_id, header.round) == (NO_EPOCH, 0), Code.BAD_MESSAGE)
        invited = header.run_id, Join.read(invitation.body).attempt
        if invited != self._invited:
            self._check(invited)
            self._own_keys = self._new_keys(invited, ledger())
        return self._own_keys

    def open(self, opening: Envelope) -> bool:
        """Joins the epoch that this process' KEYS are part of; False if it has already."""
        header = opening.header
        if self.joined is not None:  # one key, one epoch; the same OPEN again changes nothing
            epoch = self.joined.epoch
            require((header.run_id, header.epoch_id) == (epoch.run_id, epoch.id), Code.UNKNOWN_KEY)
            return False
        keys = Open.read(opening.body).keys
        if self._private is None or self._own_keys not in keys:
            raise PartyRefused(Code.UNKNOWN_KEY.value)
        joining = [read_keys(one, self._heads.roster, self._author.study_hash) for one in keys]
        epoch = form_epoch(joining, self._invited, self._author.study_hash, self._parameters)
        expected = (epoch.run_id, epoch.id, 0)
        require((header.run_id, header.epoch_id, header.round) == expected, Code.BAD_MESSAGE)
        self._heads.check(joining)
        fresh = Joined.agree(epoch, self._author.me, self._private, self._process)
        self._heads.memory.open_run(header.run_id)
        self._heads.keep(joining)
        self.joined = fresh
        return True

    def current(self, epoch_id: bytes) -> Joined:
        if self.joined is None or self.joined.epoch.id != epoch_id:
            raise PartyRefused(Code.UNKNOWN_KEY.value)
        return self.joined

    def _check(self, invited: Invitation) -> None:
        """Attempts only count up, or a letter from the past could end the present epoch."""
        (run_id, attempt), (known, last) = invited, self._invited
        require(attempt > last, Code.OLD_ROUND if run_id == known else Code.RUN_SUPERSEDED)

    def _new_keys(self, invited: Invitation, ledger: LedgerHead) -> bytes:
        private = X25519PrivateKey.from_private_bytes(self._entropy(SEED))
        public, nonce = private.public_key().public_bytes_raw(), self._entropy(SEED)
        body = Keys(invited[1], public, nonce, self._heads.told()).to_bytes()
        self._private, self._process = private, os.getpid()
        self.joined, self._invited = None, invited
        return self._author.seal(MessageKind.KEYS, body, invited[0], NO_EPOCH, 0, EVERYBODY, ledger)
