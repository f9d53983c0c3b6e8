"""How a site joins a key session: JOIN -> KEYS, OPEN -> ENCAPS, BIND.

JOIN invites it and it replies with KEYS, OPEN names the members, and BIND brings the other half of
the secrets that it shares with them. A key belongs to the process that made it and to one
invitation. A repeated invitation gets the same KEYS, so that a lost answer costs nothing; a new one
ends the previous key session.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from hedgerow.errors import ParameterError, SiteRefused
from hedgerow.secagg import masks, shamir
from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.encoding import DIGEST, SEED, Reader, read_body, table_field
from hedgerow.secagg.envelope import (
    EMPTY_LEDGER,
    NO_SESSION,
    Author,
    Envelope,
    LedgerHead,
    MessageKind,
    Position,
    SignedHead,
    SignedHeader,
    follows,
    fork_heads,
    is_fork,
)
from hedgerow.secagg.keys import COORDINATOR, EVERYBODY, EphemeralKeys, Roster, seal_share
from hedgerow.secagg.masks import Int64, UInt64
from hedgerow.secagg.memory import Memory
from hedgerow.secagg.messages import LANES, LONGEST_VECTOR, Keys, Masked
from hedgerow.secagg.parameters import Parameters
from hedgerow.secagg.session import Joining, RunAttempt, SiteSession, form_session, read_keys
from hedgerow.secagg.shamir import Entropy


@dataclass(frozen=True, slots=True)
class Heads:
    """What site `me` knows about the ends of its own and its peers' ledgers, which only grow.

    A file restored from an earlier day looks valid from inside. Other sites remember how far it had
    come, and tell it. A head counts only with the signature of the site it is about, so that nobody
    can stop a site with a false head.
    """

    memory: Memory
    roster: Roster
    me: int

    def meet(self, head: Position) -> None:
        """Refuses if a head of mine that somebody holds is not on my chain: my file is older."""
        seq, result = head
        mine = bytes(DIGEST) if seq == 0 else self.memory.head_at(seq)
        require(mine == result, Code.LEDGER_ROLLED_BACK)

    def check(self, joining: Sequence[Joining]) -> None:
        """Refuses a key session in which my ledger, or that of a peer, was rolled back."""
        for item in joining:
            own_head = item.keys.heads.get(self.me)
            if own_head is not None and own_head.is_by(self.roster.sites[self.me]):
                self.meet(own_head.head)
            for peer, evidence in item.keys.forks.items():
                self._end(peer, *fork_heads(evidence))
            for peer, head in (*item.keys.heads.items(), (item.sender, item.receipt.signed_head)):
                self._watch(peer, head)
        for item in joining:
            key = self.roster.sites[item.sender]
            require(self.memory.fork(key) is None, Code.LEDGER_FORKED)
            last = self.memory.receipt(key)
            fits = last is None or follows(item.head, last.header.ledger.position)
            require(fits, Code.LEDGER_ROLLED_BACK)

    def keep(self, joining: Iterable[Joining]) -> None:
        for item in joining:
            self.memory.see_head(self.roster.sites[item.sender], item.receipt)

    def hear(self, receipt: SignedHeader) -> None:
        """Checks a header of a peer in a round, after its signature was verified."""
        self._watch(receipt.header.sender, receipt.signed_head)
        key = self.roster.key_of(receipt.header.sender)
        require(self.memory.fork(key) is None, Code.LEDGER_FORKED)
        self.memory.see_head(key, receipt)

    def _watch(self, peer: int, head: SignedHead) -> None:
        """Compares two heads of a peer: two of one length mean that a copy of its machine runs."""
        own = None if peer == self.me else self.memory.receipt(self.roster.key_of(peer))
        if own is not None:
            self._end(peer, own.signed_head, head)

    def _end(self, peer: int, first: SignedHead, second: SignedHead) -> None:
        """Records for good that the ledger forked, if these two heads prove it."""
        if is_fork(self.roster.key_of(peer), first, second):
            self.memory.see_fork(self.roster.key_of(peer), first.to_bytes() + second.to_bytes())

    def forks(self) -> dict[int, bytes]:
        """Evidence, for anybody, that the ledger of a peer forked."""
        table = {site: self.memory.fork(key) for site, key in enumerate(self.roster.sites)}
        return {site: evidence for site, evidence in table.items() if evidence is not None}

    def signed_heads(self) -> dict[int, SignedHead]:
        """The highest head of each peer, signed by that peer."""
        receipts = {site: self.memory.receipt(key) for site, key in enumerate(self.roster.sites)}
        return {s: r.signed_head for s, r in receipts.items() if r is not None and s != self.me}


class Membership:
    """A site's place in the present key session, for as long as its process lives."""

    def __init__(
        self, author: Author, heads: Heads, parameters: Parameters, entropy: Entropy
    ) -> None:
        self._author, self._heads = author, heads
        self._parameters, self._entropy = parameters, entropy
        self._invitation: RunAttempt = (b"", 0)
        self._keys: EphemeralKeys | None = None
        self._process = 0
        self._own_keys, self._encaps, self._ledger = b"", b"", EMPTY_LEDGER
        self.site_session: SiteSession | None = None
        self.sessions: set[bytes] = set()
        """Key sessions of this process, which has made all vectors under their keys."""

    def keys(self, request: Envelope, ledger: Callable[[], LedgerHead]) -> bytes:
        """KEYS with a new ephemeral key; the previous key session makes no more vectors."""
        header = request.header
        require((header.session_id, header.round) == (NO_SESSION, 0), Code.BAD_MESSAGE)
        invitation = header.run_id, read_body(request.body, Reader.u32)
        if invitation != self._invitation:
            self._check(invitation)
            self._own_keys = self._new_keys(invitation, ledger())
        return self._own_keys

    def open(self, opening: Envelope) -> bytes:
        """Joins the key session of this process' KEYS; ENCAPS is the same each time."""
        header = opening.header
        if self.site_session is not None:  # one key, one session; a repeated OPEN changes nothing
            session = self.site_session.session
            require(
                (header.run_id, header.session_id) == (session.run_id, session.id), Code.UNKNOWN_KEY
            )
            return self._encaps
        keys = read_body(opening.body, Reader.messages)
        if self._keys is None or self._own_keys not in keys:
            raise SiteRefused(Code.UNKNOWN_KEY.value)
        joining = [read_keys(item, self._heads.roster, self._author.study_hash) for item in keys]
        session = form_session(joining, self._invitation, self._author.study_hash, self._parameters)
        place = (session.run_id, session.id, 0)
        require((header.run_id, header.session_id, header.round) == place, Code.BAD_MESSAGE)
        self._heads.check(joining)
        fresh = SiteSession(session, self._author.me, self._keys, self._process)
        body = table_field(fresh.encapsulate_all())
        self._heads.memory.open_run(header.run_id)
        self._heads.keep(joining)
        self.site_session = fresh
        self.sessions.add(session.id)
        self._encaps = self._author.seal(
            MessageKind.ENCAPS, body, header.run_id, session.id, 0, COORDINATOR, self._ledger
        )
        return self._encaps

    def bind(self, binding: Envelope) -> None:
        """Takes the secrets of peers that encapsulated to this site; without any it only checks.

        One wrong secret refuses all of them, and the site's own log says whose it was.
        """
        header = binding.header
        site_session = self.current(header.session_id)
        require((header.run_id, header.round) == (site_session.session.run_id, 0), Code.BAD_MESSAGE)
        site_session.bind(read_body(binding.body, Reader.capsules))

    def current(self, session_id: bytes) -> SiteSession:
        if self.site_session is None or self.site_session.session.id != session_id:
            raise SiteRefused(Code.UNKNOWN_KEY.value)
        return self.site_session

    def _check(self, invitation: RunAttempt) -> None:
        """Attempts only increase; otherwise an old message could end the present key session."""
        (run_id, attempt), (last_run, last) = invitation, self._invitation
        require(attempt > last, Code.OLD_ROUND if run_id == last_run else Code.RUN_SUPERSEDED)

    def _new_keys(self, invitation: RunAttempt, ledger: LedgerHead) -> bytes:
        keys = EphemeralKeys.draw(self._entropy)
        nonce, heads = self._entropy(SEED), self._heads.signed_heads()
        body = Keys(invitation[1], *keys.public, nonce, heads, self._heads.forks()).to_bytes()
        self._keys, self._process, self._ledger = keys, os.getpid(), ledger
        self.site_session, self._invitation = None, invitation
        return self._author.seal(
            MessageKind.KEYS, body, invitation[0], NO_SESSION, 0, EVERYBODY, ledger
        )


# Masking: turns a vector into a message, with shares of the self-mask for the peers.


@dataclass(frozen=True, slots=True)
class MaskedVector:
    """The message, and the secrets of the round that stay; neither contains the self-mask.

    A round that is opened at once leaves no secrets: no later message needs them.
    """

    body: Masked
    own_share: bytes = field(default=b"", repr=False)
    seeds: dict[int, bytes] = field(default_factory=dict, repr=False)
    share_keys: dict[int, bytes] = field(default_factory=dict, repr=False)


def hide_at_once(
    vector: Int64, site_session: SiteSession, context: bytes, participants: tuple[int, ...]
) -> MaskedVector:
    """`vector` and two zeros, plus or minus one mask for each peer among `participants`.

    Without a self-mask the sum is open as soon as the last vector arrives; until then each vector
    is hidden by the masks it shares with missing sites.
    """
    lanes = np.concatenate([vector, np.zeros(LANES, np.int64)])
    seeds = {peer: site_session.seed(context, peer) for peer in site_session.peers_in(participants)}
    return MaskedVector(Masked(_add_masks(lanes, (), seeds, site_session.me), context))


def hide(
    vector: Int64,
    site_session: SiteSession,
    context: bytes,
    participants: tuple[int, ...],
    threshold: int,
    entropy: Entropy,
) -> MaskedVector:
    """`vector` plus one self-mask, plus or minus one mask for each peer among `participants`.

    Of two sites the one with the lower id adds their common mask and the other subtracts it.
    """
    me, peers = site_session.me, site_session.peers_in(participants)
    secret = shamir.random_element(entropy)
    shares = shamir.split(secret, threshold, [*peers, me], entropy)
    seeds = {peer: site_session.seed(context, peer) for peer in peers}
    total = _add_masks(vector, (masks.self_key(context, secret),), seeds, me)
    ciphertexts, share_keys = dict[int, bytes](), dict[int, bytes]()
    for peer in peers:
        key, share_keys[peer] = site_session.share_keys(context, peer)
        share = shamir.to_bytes(shares[peer])
        ciphertexts[peer] = seal_share(key, context, me, peer, share)
    body = Masked(total, context, masks.commitment(context, secret), ciphertexts)
    return MaskedVector(body, shamir.to_bytes(shares[me]), seeds, share_keys)


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


def _add_masks(
    vector: Int64, self_keys: Iterable[bytes], seeds: Mapping[int, bytes], me: int
) -> UInt64:
    total = masks.to_ring(vector)
    above = [seed for peer, seed in seeds.items() if me < peer]
    below = [seed for peer, seed in seeds.items() if peer < me]
    masks.fold(total, plus=[*self_keys, *above], minus=below)
    return total
