"""A site's half of a secure sum, as steps: bytes in, bytes out, no socket and no clock.

    keys -> open -> (begin -> mask -> [sign_set] -> unmask) for every round

After Bonawitz et al. 2017, "Practical secure aggregation for privacy-preserving machine
learning": pairwise masks that cancel in the sum, and a self-mask that only a threshold of
sites can take off. Departures, all of them so that neither a lost site nor a lying
coordinator costs anybody a vector:

* keys are agreed once an epoch; recovery reveals the pair seeds of one round, never a key;
* every key is bound to study, epoch, round, bundle and participants;
* a set smaller than the participants is opened only with `threshold` signatures on it, and a
  site signs or opens one set a round.

Then whatever the coordinator and at most `colluders` sites do, each sum they learn has at
least `honest` honest summands, and no two of them overlap. Sketch: a pair's mask is unknown
unless one end was told that the other is lost. Honest sites that open a certified set list
each other, and there are at least `honest` of them, since a certificate has that many honest
signers. Nobody's self-mask comes off without that many honest sites who list it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from hedgerow.errors import PartyRefused, SpecError
from hedgerow.secagg.certificate import check_certificate, set_digest
from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.encoding import DIGEST, SEED, digest
from hedgerow.secagg.envelope import (
    NO_EPOCH,
    NO_RUN,
    Envelope,
    Head,
    Header,
    LedgerHead,
    MessageKind,
    follows,
    open_envelope,
    seal_message,
)
from hedgerow.secagg.epoch import Joined, Joining, form_epoch, read_keys
from hedgerow.secagg.hiding import check_vector, hide
from hedgerow.secagg.keys import COORDINATOR, Identity, Roster, open_share
from hedgerow.secagg.masks import Int64
from hedgerow.secagg.memory import Memory, MemoryInRam, StoredRound
from hedgerow.secagg.messages import (
    Keys,
    Open,
    Round,
    Shares,
    SignedSet,
    Survivors,
    Unmask,
)
from hedgerow.secagg.parameters import Parameters
from hedgerow.secagg.shamir import Entropy

__all__ = ["Begun", "Fresh", "Memory", "MemoryInRam", "Resend", "Site", "StoredRound"]


@dataclass(frozen=True, slots=True)
class Resend:
    """The request was answered before: send these bytes again, charge nothing, draw nothing."""

    run_id: bytes
    round: int
    message: bytes


@dataclass(frozen=True, slots=True)
class Fresh:
    """A new request that may be answered, once."""

    run_id: bytes
    epoch_id: bytes
    round: int
    bundle: bytes
    participants: tuple[int, ...]
    context: bytes


Begun = Resend | Fresh


class Site:
    """One site in one study. `me` is its place in the roster.

    Refuses with a constant code; see codes.py. `memory` must be durable, see memory.py.
    """

    def __init__(
        self,
        identity: Identity,
        roster: Roster,
        me: int,
        parameters: Parameters,
        study_hash: bytes,
        memory: Memory,
        entropy: Entropy = os.urandom,
    ) -> None:
        if len(roster.sites) != parameters.parties or roster.sites[me] != identity.public:
            raise SpecError(
                f"place {me} of a roster of {len(roster.sites)} does not hold this site's key, "
                f"or the study is not for {parameters.parties} sites; compare roster and study."
            )
        self._identity, self._roster, self._me = identity, roster, me
        self._parameters, self._study_hash = parameters, study_hash
        self._memory, self._entropy = memory, entropy
        self._private: X25519PrivateKey | None = None
        self._process = 0
        self._own_keys = b""
        self._joined: Joined | None = None

    def keys(self, ledger: LedgerHead) -> bytes:
        """KEYS with a new ephemeral key; the epoch before it makes no more vectors."""
        self._private = X25519PrivateKey.from_private_bytes(self._entropy(SEED))
        self._process = os.getpid()
        self._joined = None
        body = Keys(
            self._private.public_key().public_bytes_raw(), self._entropy(SEED), self._seen_heads()
        )
        header = self._header(MessageKind.KEYS, NO_RUN, NO_EPOCH, 0, ledger)
        self._own_keys = seal_message(self._identity, header, body.to_bytes())
        return self._own_keys

    def open(self, message: bytes) -> None:
        """OPEN: joins the epoch that this process' KEYS are part of."""
        envelope = self._received(message, MessageKind.OPEN)
        header = envelope.header
        if self._joined is not None:  # one key, one epoch; the same OPEN again changes nothing
            joined = self._joined.epoch
            require(
                (header.run_id, header.epoch_id) == (joined.run_id, joined.id), Code.UNKNOWN_KEY
            )
            return
        keys = Open.read(envelope.body).keys
        if self._private is None or self._own_keys not in keys:
            raise PartyRefused(Code.UNKNOWN_KEY.value)
        joining = [read_keys(one, self._roster, self._study_hash) for one in keys]
        epoch = form_epoch(joining, header.run_id, self._study_hash, self._parameters)
        require((header.epoch_id, header.round) == (epoch.id, 0), Code.BAD_MESSAGE)
        self._check_heads(joining)
        fresh = Joined.agree(epoch, self._me, self._private, self._process)
        self._memory.open_run(header.run_id)
        for one in joining:
            self._memory.see_head(self._roster.sites[one.sender], one.ledger.position)
        self._joined = fresh

    def begin(self, message: bytes) -> Begun:
        """ROUND: all checks that need neither policy, nor data, nor budget."""
        envelope = self._received(message, MessageKind.ROUND)
        header, asked = envelope.header, Round.read(envelope.body)
        self._require_open_run(header)
        request = digest("bundle", asked.bundle)
        stored = self._memory.outbox(header.run_id, header.round)
        if stored is not None:
            same = (stored.epoch_id, stored.request, stored.participants)
            require(same == (header.epoch_id, request, asked.participants), Code.ROUND_ID_USED)
            return Resend(header.run_id, header.round, stored.message)
        require(header.round > self._memory.high_water(header.run_id), Code.OLD_ROUND)
        joined = self._current(header.epoch_id)
        require(header.round > joined.last_round, Code.OLD_ROUND)
        epoch = joined.epoch
        require(len(asked.participants) >= self._parameters.threshold, Code.TOO_FEW)
        require(self._me in asked.participants, Code.BAD_SET)
        require(set(asked.participants) <= set(epoch.ephemerals), Code.BAD_SET)
        context = epoch.context(header.round, request, asked.participants)
        return Fresh(
            header.run_id, epoch.id, header.round, asked.bundle, asked.participants, context
        )

    def mask(self, fresh: Fresh, vector: Int64, ledger: LedgerHead) -> StoredRound:
        """The MASKED message and all that must be stored with the charge before it is sent.

        `ledger` is the ledger's end after that charge. Stores nothing and sends nothing. The
        round is used up by the call: a second one for it is refused.
        """
        check_vector(vector)
        joined = self._current(fresh.epoch_id)
        joined.use(fresh.round)
        threshold = self._parameters.neighbourhood.threshold
        hidden = hide(vector, joined, fresh.context, fresh.participants, threshold, self._entropy)
        header = self._header(MessageKind.MASKED, fresh.run_id, fresh.epoch_id, fresh.round, ledger)
        return StoredRound(
            run_id=fresh.run_id,
            epoch_id=fresh.epoch_id,
            round=fresh.round,
            request=digest("bundle", fresh.bundle),
            participants=fresh.participants,
            context=fresh.context,
            ledger=ledger,
            message=seal_message(self._identity, header, hidden.masked.to_bytes()),
            own_share=hidden.own_share,
            seeds=hidden.seeds,
            share_keys=hidden.share_keys,
        )

    def sign_set(self, message: bytes) -> bytes:
        """SURVIVORS: binds this site to one set of members and signs it."""
        envelope = self._received(message, MessageKind.SURVIVORS)
        record = self._record_of(envelope.header)
        members = Survivors.read(envelope.body).members
        self._check_members(members, record)
        self._memory.open_set(record.run_id, record.round, members)
        body = SignedSet(self._identity.sign(set_digest(record.context, members)))
        return self._reply(MessageKind.SIGNED_SET, record, body.to_bytes())

    def unmask(self, message: bytes) -> bytes:
        """UNMASK: shares of the members' self-masks, and this round's seeds towards the lost."""
        envelope = self._received(message, MessageKind.UNMASK)
        record = self._record_of(envelope.header)
        asked = Unmask.read(envelope.body)
        self._check_members(asked.members, record)
        self._check_opening(asked, record)
        shares = self._open_shares(asked, record)
        self._memory.open_set(record.run_id, record.round, asked.members)
        lost = set(record.participants) - set(asked.members)
        seeds = {peer: seed for peer, seed in record.seeds.items() if peer in lost}
        return self._reply(MessageKind.SHARES, record, Shares(shares, seeds).to_bytes())

    def _received(self, message: bytes, kind: MessageKind) -> Envelope:
        envelope = open_envelope(message, kind, self._study_hash, self._roster)
        header = envelope.header
        require(header.sender == COORDINATOR, Code.UNKNOWN_KEY)
        self._check_own_head(header.ledger.seq, header.ledger.head)
        return envelope

    def _check_own_head(self, seq: int, head: bytes) -> None:
        """Somebody holds a head of mine: it must be on my chain, else my file went back."""
        mine = bytes(DIGEST) if seq == 0 else self._memory.head_at(seq)
        require(mine == head, Code.LEDGER_ROLLED_BACK)

    def _check_heads(self, joining: list[Joining]) -> None:
        for one in joining:
            if self._me in one.heads:
                self._check_own_head(*one.heads[self._me])
            seen = self._memory.highest_head(self._roster.sites[one.sender])
            if seen is not None:
                require(follows(one.ledger.position, seen), Code.LEDGER_ROLLED_BACK)

    def _seen_heads(self) -> dict[int, Head]:
        seen = {
            peer: self._memory.highest_head(key)
            for peer, key in enumerate(self._roster.sites)
            if peer != self._me
        }
        return {peer: head for peer, head in seen.items() if head is not None}

    def _require_open_run(self, header: Header) -> None:
        require(header.run_id == self._memory.current_run(), Code.RUN_SUPERSEDED)

    def _current(self, epoch_id: bytes) -> Joined:
        joined = self._joined
        if joined is None or joined.epoch.id != epoch_id:
            raise PartyRefused(Code.UNKNOWN_KEY.value)
        return joined

    def _record_of(self, header: Header) -> StoredRound:
        self._require_open_run(header)
        record = self._memory.outbox(header.run_id, header.round)
        if record is None:
            raise PartyRefused(Code.OLD_ROUND.value)
        require(record.epoch_id == header.epoch_id, Code.BAD_MESSAGE)
        return record

    def _check_members(self, members: tuple[int, ...], record: StoredRound) -> None:
        require(len(members) >= self._parameters.threshold, Code.TOO_FEW)
        require(self._me in members, Code.BAD_SET)
        require(set(members) <= set(record.participants), Code.BAD_SET)

    def _check_opening(self, asked: Unmask, record: StoredRound) -> None:
        """Everybody may be opened at once; fewer only with a certificate."""
        if asked.members == record.participants:
            require(not asked.certificate, Code.BAD_CERTIFICATE)
            return
        threshold = self._parameters.threshold
        check_certificate(asked.certificate, asked.members, record.context, self._roster, threshold)

    def _open_shares(self, asked: Unmask, record: StoredRound) -> dict[int, bytes]:
        """My share of every member's self-mask: those sealed for me, and my own."""
        wanted = set(asked.members) & set(record.share_keys)
        require(set(asked.sealed) == wanted, Code.BAD_SHARE)
        shares = {self._me: record.own_share}
        for peer in wanted:
            key, sealed = record.share_keys[peer], asked.sealed[peer]
            shares[peer] = open_share(key, record.context, peer, self._me, sealed)
        return shares

    def _reply(self, kind: MessageKind, record: StoredRound, body: bytes) -> bytes:
        """An answer about a stored round, the same bytes whenever it is asked for."""
        header = self._header(kind, record.run_id, record.epoch_id, record.round, record.ledger)
        return seal_message(self._identity, header, body)

    def _header(
        self, kind: MessageKind, run_id: bytes, epoch_id: bytes, round: int, ledger: LedgerHead
    ) -> Header:
        return Header(
            kind=kind,
            study_hash=self._study_hash,
            run_id=run_id,
            epoch_id=epoch_id,
            round=round,
            sender=self._me,
            ledger=ledger,
        )
