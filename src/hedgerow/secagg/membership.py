"""How a site comes into a key session: invited by JOIN it shows KEYS, OPEN says who is there, and
BIND brings the other half of the secrets that it shares with them.

A key belongs to the process that made it and to one invitation. The same invitation again gets
the same KEYS, so that a lost answer costs nothing; a new one ends the key session before it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from hedgerow.errors import ParameterError, SiteRefused
from hedgerow.secagg import masks, shamir
from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.encoding import DIGEST, SEED
from hedgerow.secagg.envelope import (
    EMPTY_LEDGER,
    NO_SESSION,
    Author,
    Envelope,
    LedgerHead,
    MessageKind,
    Position,
    SignedHead,
    follows,
)
from hedgerow.secagg.graph import Parameters
from hedgerow.secagg.keys import COORDINATOR, EVERYBODY, EphemeralKeys, Roster, seal_share
from hedgerow.secagg.masks import Int64, UInt64
from hedgerow.secagg.memory import Memory
from hedgerow.secagg.messages import LANES, LONGEST_VECTOR, Capsules, Join, Keys, Masked, Open
from hedgerow.secagg.session import Invitation, Joined, Joining, form_session, read_keys
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
        seq, result = head
        mine = bytes(DIGEST) if seq == 0 else self.memory.head_at(seq)
        require(mine == result, Code.LEDGER_ROLLED_BACK)

    def check(self, joining: Iterable[Joining]) -> None:
        """Refuses a key session in which my ledger, or that of a peer, has gone back."""
        for item in joining:
            told = item.heads.get(self.me)
            if told is not None and told.is_by(self.roster.sites[self.me]):
                self.meet(told.head)
            seen = self.memory.highest_head(self.roster.sites[item.sender])
            require(seen is None or follows(item.head, seen), Code.LEDGER_ROLLED_BACK)

    def keep(self, joining: Iterable[Joining]) -> None:
        for item in joining:
            self.memory.see_head(self.roster.sites[item.sender], item.receipt)

    def told(self) -> dict[int, SignedHead]:
        """The highest head of each peer, in its own words, to be told to all."""
        peers = (site for site in range(len(self.roster.sites)) if site != self.me)
        seen = {peer: self.memory.signed_head(self.roster.sites[peer]) for peer in peers}
        return {peer: head for peer, head in seen.items() if head is not None}


class Membership:
    """A site's place in the present key session, for as long as its process lives."""

    def __init__(
        self, author: Author, heads: Heads, parameters: Parameters, entropy: Entropy
    ) -> None:
        self._author, self._heads = author, heads
        self._parameters, self._entropy = parameters, entropy
        self._invited: Invitation = (b"", 0)
        self._keys: EphemeralKeys | None = None
        self._process = 0
        self._own_keys, self._encaps, self._ledger = b"", b"", EMPTY_LEDGER
        self.joined: Joined | None = None

    def keys(self, invitation: Envelope, ledger: Callable[[], LedgerHead]) -> bytes:
        """KEYS with a new ephemeral key; the key session before it makes no more vectors."""
        header = invitation.header
        require((header.session_id, header.round) == (NO_SESSION, 0), Code.BAD_MESSAGE)
        invited = header.run_id, Join.read(invitation.body).attempt
        if invited != self._invited:
            self._check(invited)
            self._own_keys = self._new_keys(invited, ledger())
        return self._own_keys

    def open(self, opening: Envelope) -> bytes:
        """Joins the key session that this process' KEYS are part of; ENCAPS, the same each time."""
        header = opening.header
        if self.joined is not None:  # one key, one key session; the same OPEN again changes nothing
            session = self.joined.session
            require(
                (header.run_id, header.session_id) == (session.run_id, session.id), Code.UNKNOWN_KEY
            )
            return self._encaps
        keys = Open.read(opening.body).keys
        if self._keys is None or self._own_keys not in keys:
            raise SiteRefused(Code.UNKNOWN_KEY.value)
        joining = [read_keys(item, self._heads.roster, self._author.study_hash) for item in keys]
        session = form_session(joining, self._invited, self._author.study_hash, self._parameters)
        expected = (session.run_id, session.id, 0)
        require((header.run_id, header.session_id, header.round) == expected, Code.BAD_MESSAGE)
        self._heads.check(joining)
        fresh = Joined(session, self._author.me, self._keys, self._process)
        body = Capsules(fresh.encapsulated()).to_bytes()
        self._heads.memory.open_run(header.run_id)
        self._heads.keep(joining)
        self.joined = fresh
        self._encaps = self._author.seal(
            MessageKind.ENCAPS, body, header.run_id, session.id, 0, COORDINATOR, self._ledger
        )
        return self._encaps

    def bind(self, binding: Envelope) -> None:
        """Takes the secrets of those who encapsulated to this site; none is asked whether it is in.

        A wrong one refuses all of them, and the site's own log says whose it was.
        """
        header = binding.header
        joined = self.current(header.session_id)
        require((header.run_id, header.round) == (joined.session.run_id, 0), Code.BAD_MESSAGE)
        joined.bind(Capsules.read(binding.body).table)

    def current(self, session_id: bytes) -> Joined:
        if self.joined is None or self.joined.session.id != session_id:
            raise SiteRefused(Code.UNKNOWN_KEY.value)
        return self.joined

    def _check(self, invited: Invitation) -> None:
        """Attempts only count up, or a message from the past could end the present key session."""
        (run_id, attempt), (known, last) = invited, self._invited
        require(attempt > last, Code.OLD_ROUND if run_id == known else Code.RUN_SUPERSEDED)

    def _new_keys(self, invited: Invitation, ledger: LedgerHead) -> bytes:
        keys = EphemeralKeys.draw(self._entropy)
        body = Keys(invited[1], *keys.public, self._entropy(SEED), self._heads.told()).to_bytes()
        self._keys, self._process, self._ledger = keys, os.getpid(), ledger
        self.joined, self._invited = None, invited
        return self._author.seal(
            MessageKind.KEYS, body, invited[0], NO_SESSION, 0, EVERYBODY, ledger
        )


# --------------------------------------------------------------------------------------------------
# Turns a vector into what may leave: masked, with shares of the self-mask for the peers.


@dataclass(frozen=True, slots=True)
class Hidden:
    """What leaves, and the secrets of the round that stay; the self-mask is in neither.

    Of a round that is opened at once nothing stays: no later message can ask for any of it.
    """

    masked: Masked
    own_share: bytes = field(default=b"", repr=False)
    seeds: dict[int, bytes] = field(default_factory=dict, repr=False)
    share_keys: dict[int, bytes] = field(default_factory=dict, repr=False)


def hide_at_once(
    vector: Int64, joined: Joined, context: bytes, participants: tuple[int, ...]
) -> Hidden:
    """`vector` and two zeros, plus or minus one mask for each peer among `participants`.

    Without a self-mask the sum is open as soon as the last vector is there; until then each is
    covered by the mask it shares with whoever is missing.
    """
    lanes = np.concatenate([vector, np.zeros(LANES, np.int64)])
    seeds = {peer: joined.seed(context, peer) for peer in joined.peers_in(participants)}
    return Hidden(Masked(_masked(lanes, (), seeds, joined.me), context))


def hide(
    vector: Int64,
    joined: Joined,
    context: bytes,
    participants: tuple[int, ...],
    threshold: int,
    entropy: Entropy,
) -> Hidden:
    """`vector` plus one self-mask, plus or minus one mask for each peer among `participants`.

    Of two sites the one with the lower id adds their common mask and the other takes it away.
    """
    me, peers = joined.me, joined.peers_in(participants)
    secret = shamir.random_element(entropy)
    shares = shamir.split(secret, threshold, [*peers, me], entropy)
    seeds = {peer: joined.seed(context, peer) for peer in peers}
    total = _masked(vector, (masks.self_key(context, secret),), seeds, me)
    sealed = {peer: _sealed(joined, context, peer, shares[peer]) for peer in peers}
    return Hidden(
        Masked(total, context, masks.commitment(context, secret), sealed),
        own_share=shamir.to_bytes(shares[me]),
        seeds=seeds,
        share_keys={peer: joined.key_from(context, peer) for peer in peers},
    )


def check_vector(vector: Int64) -> None:
    if vector.dtype != np.int64 or vector.ndim != 1 or not 1 <= len(vector) <= LONGEST_VECTOR:
        raise ParameterError(
            f"a {vector.dtype} array of shape {vector.shape} cannot be masked; "
            "use int64, one axis, 1 to 2^32 numbers."
        )


def check_selections(selections: Iterable[int]) -> None:
    wrong = [selection for selection in selections if not 0 <= selection < 2**32]
    if wrong:
        raise ParameterError(f"{wrong[0]} is no index of a selection; use 0 to 2^32 - 1.")


def _masked(
    vector: Int64, self_keys: Iterable[bytes], seeds: Mapping[int, bytes], me: int
) -> UInt64:
    total = masks.to_ring(vector)
    above = [seed for peer, seed in seeds.items() if me < peer]
    below = [seed for peer, seed in seeds.items() if peer < me]
    masks.fold(total, plus=[*self_keys, *above], minus=below)
    return total


def _sealed(joined: Joined, context: bytes, peer: int, share: int) -> bytes:
    key = joined.key_to(context, peer)
    return seal_share(key, context, joined.me, peer, shamir.to_bytes(share))
