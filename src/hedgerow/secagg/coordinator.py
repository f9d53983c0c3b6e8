"""The coordinator's half of a secure sum, as steps: bytes in, bytes out.

Nothing here is trusted by a site. The coordinator relays keys, adds up masked vectors, asks
for what takes the masks off, and checks what it is given.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

import numpy as np

from hedgerow.errors import RoundFailed, SpecError, TooFewParties
from hedgerow.secagg import masks
from hedgerow.secagg.certificate import set_digest
from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.encoding import digest
from hedgerow.secagg.envelope import (
    EMPTY_LEDGER,
    RUN_ID,
    Envelope,
    Header,
    LedgerHead,
    MessageKind,
    follows,
    open_envelope,
    seal_message,
)
from hedgerow.secagg.epoch import Epoch, form_epoch, read_keys
from hedgerow.secagg.keys import COORDINATOR, Identity, Roster, verify
from hedgerow.secagg.masks import MASK_WORD
from hedgerow.secagg.messages import (
    LONGEST_VECTOR,
    Masked,
    Open,
    Round,
    Shares,
    SignedSet,
    Survivors,
    Unmask,
)
from hedgerow.secagg.opening import Opened, check_commitments, givers, rebuild, take_masks_off
from hedgerow.secagg.parameters import Parameters
from hedgerow.secagg.shamir import Entropy


class Coordinator:
    """One run of one study. A coordinator that restarts opens a new run.

    `heads` is the last ledger head held from each site. Give a new run those of the last, so
    that a site whose ledger went back meets them; the largest `spent` among them is what the
    study cost, rounds without an answer included.
    """

    def __init__(
        self,
        identity: Identity,
        roster: Roster,
        parameters: Parameters,
        study_hash: bytes,
        heads: Mapping[int, LedgerHead] | None = None,
        entropy: Entropy = os.urandom,
    ) -> None:
        if len(roster.sites) != parameters.parties or roster.coordinator != identity.public:
            raise SpecError(
                f"the roster names {len(roster.sites)} sites for a study of "
                f"{parameters.parties}, or another coordinator; compare roster and study."
            )
        self.run_id = entropy(RUN_ID)
        self.heads = dict(heads or {})
        self.parameters, self.roster = parameters, roster
        self._identity, self._study_hash = identity, study_hash
        self._epoch: Epoch | None = None
        self._round = 0

    def open(self, keys: Iterable[bytes]) -> dict[int, bytes]:
        """From everybody's KEYS, the OPEN for each of them; a new epoch needs new KEYS of all."""
        joining = [read_keys(one, self.roster, self._study_hash) for one in keys]
        for one in joining:
            held = self.heads.get(one.sender, EMPTY_LEDGER)
            fits = follows(one.ledger.position, held.position)
            require(fits, Code.LEDGER_ROLLED_BACK, one.sender)
            self.heads[one.sender] = one.ledger
        self._epoch = form_epoch(joining, self.run_id, self._study_hash, self.parameters)
        body = Open(tuple(one.message for one in joining)).to_bytes()
        return {
            site: self.letter(MessageKind.OPEN, site, 0, body) for site in self.epoch.ephemerals
        }

    @property
    def epoch(self) -> Epoch:
        if self._epoch is None:
            raise SpecError("no epoch is open; collect KEYS from the sites and call open first.")
        return self._epoch

    def start(
        self, bundle: bytes, dim: int, participants: Iterable[int] | None = None
    ) -> SecureSum:
        """A new round over `participants`, by default the whole epoch."""
        who = tuple(sorted(self.epoch.ephemerals if participants is None else participants))
        if not 1 <= dim <= LONGEST_VECTOR or not set(who) <= set(self.epoch.ephemerals):
            raise SpecError(
                f"{dim} numbers from sites {list(who)} cannot be summed; "
                "use 1 to 2^32 numbers and sites of this epoch."
            )
        self._round += 1
        return SecureSum(self, self._round, bundle, dim, who)

    def letter(self, kind: MessageKind, site: int, round: int, body: bytes) -> bytes:
        """A message to one site; its header returns the last head held from it."""
        header = Header(
            kind=kind,
            study_hash=self._study_hash,
            run_id=self.run_id,
            epoch_id=self.epoch.id,
            round=round,
            sender=COORDINATOR,
            ledger=self.heads.get(site, EMPTY_LEDGER),
        )
        return seal_message(self._identity, header, body)

    def read(self, message: bytes, kind: MessageKind, round: int) -> Envelope:
        """A site's message of this epoch, verified; keeps its head if it is news."""
        envelope = open_envelope(message, kind, self._study_hash, self.roster)
        header, sender = envelope.header, envelope.header.sender
        here = (self.run_id, self.epoch.id, round)
        require((header.run_id, header.epoch_id, header.round) == here, Code.BAD_MESSAGE, sender)
        require(sender in self.epoch.ephemerals, Code.UNKNOWN_KEY, sender)
        held = self.heads[sender]
        if header.ledger.seq >= held.seq:  # an answer sent again shows an older head
            fits = follows(header.ledger.position, held.position)
            require(fits, Code.LEDGER_ROLLED_BACK, sender)
            self.heads[sender] = header.ledger
        return envelope


class SecureSum:
    """One round.

    requests -> accept_masked ... -> close -> accept_signature ... -> unmask ->
    accept_shares ... -> opened. `close` returns no messages when nobody was lost.
    """

    def __init__(
        self,
        run: Coordinator,
        round: int,
        bundle: bytes,
        dim: int,
        participants: tuple[int, ...],
    ) -> None:
        self.round, self.participants = round, participants
        self.members: tuple[int, ...] | None = None
        self._run, self._bundle, self._dim = run, bundle, dim
        epoch = run.epoch
        self._context = epoch.context(round, digest("bundle", bundle), participants)
        self._peers = {
            site: epoch.graph.neighbours(site) & set(participants) for site in participants
        }
        self._total = np.zeros(dim, MASK_WORD)
        self._commitments: dict[int, bytes] = {}
        self._sealed: dict[int, dict[int, bytes]] = {}
        self._certificate: dict[int, bytes] = {}
        self._answers: dict[int, Shares] = {}

    def requests(self) -> dict[int, bytes]:
        """ROUND for every participant."""
        body = Round(self._bundle, self.participants).to_bytes()
        return self._letters(MessageKind.ROUND, self.participants, lambda _: body)

    def accept_masked(self, message: bytes) -> None:
        """Adds up one MASKED; a late one, after `close`, is refused and stays closed for ever."""
        envelope = self._run.read(message, MessageKind.MASKED, self.round)
        sender = envelope.header.sender
        require(self.members is None, Code.OLD_ROUND, sender)
        require(sender in self.participants, Code.BAD_SET, sender)
        if sender in self._commitments:
            return
        masked = Masked.read(envelope.body, self._dim)
        require(set(masked.sealed) == self._peers[sender], Code.BAD_MESSAGE, sender)
        np.add(self._total, masked.vector, out=self._total)
        self._commitments[sender], self._sealed[sender] = masked.commitment, masked.sealed

    def close(self) -> dict[int, bytes]:
        """Those who arrived are the members; SURVIVORS for each of them if somebody is lost."""
        members, needed = tuple(sorted(self._commitments)), self._run.parameters.threshold
        if len(members) < needed:
            raise TooFewParties(
                f"round {self.round}: {len(members)} of {len(self.participants)} sites sent a "
                f"vector, {needed} are needed. Nothing was opened; the charge stays. Ask again "
                "in a new round."
            )
        self.members = members
        if members == self.participants:
            return {}
        body = Survivors(members).to_bytes()
        return self._letters(MessageKind.SURVIVORS, members, lambda _: body)

    def accept_signature(self, message: bytes) -> None:
        envelope = self._run.read(message, MessageKind.SIGNED_SET, self.round)
        sender, members = envelope.header.sender, self._settled()
        require(sender in members, Code.BAD_SET, sender)
        signature = SignedSet.read(envelope.body).signature
        signed = set_digest(self._context, members)
        verify(self._run.roster.sites[sender], signature, signed, Code.BAD_CERTIFICATE)
        self._certificate[sender] = signature

    def unmask(self) -> dict[int, bytes]:
        """UNMASK for every member, each with the shares that were sealed for it."""
        members, needed = self._settled(), self._run.parameters.threshold
        if self._lost() and len(self._certificate) < needed:
            raise RoundFailed(
                f"round {self.round}: {len(self._certificate)} sites signed the set of "
                f"survivors, {needed} are needed. Nothing was opened; the charge stays. Wait "
                "for more signatures, or ask again in a new round."
            )
        return self._letters(MessageKind.UNMASK, members, self._unmask_body)

    def accept_shares(self, message: bytes) -> None:
        envelope = self._run.read(message, MessageKind.SHARES, self.round)
        sender, members = envelope.header.sender, set(self._settled())
        require(sender in members, Code.BAD_SET, sender)
        answer, peers = Shares.read(envelope.body), self._peers[sender]
        require(set(answer.shares) == (peers & members) | {sender}, Code.BAD_MESSAGE, sender)
        require(set(answer.seeds) == peers - members, Code.BAD_MESSAGE, sender)
        self._answers[sender] = answer

    def missing(self) -> str | None:
        """Why the sum cannot be opened yet, or None when it can."""
        needed = self._run.parameters.neighbourhood.threshold
        for member in self._settled():
            if len(self._givers(member)) < needed:
                return f"fewer than {needed} sites gave their share for site {member}"
            if self._peers[member] & self._lost() and member not in self._answers:
                return f"site {member} has not told its seeds towards the lost"
        return None

    def opened(self) -> Opened:
        """The sum without its masks, once the answers suffice."""
        reason = self.missing()
        if reason is not None:
            raise RoundFailed(
                f"round {self.round}: {reason}. Nothing was opened; the charge stays. Wait for "
                "its answer, or ask again in a new round."
            )
        secrets = {member: self._self_secret(member) for member in self._settled()}
        check_commitments(self.round, secrets, self._context, self._commitments)
        self_keys = (masks.self_key(self._context, secret) for secret in secrets.values())
        total = self._total.copy()
        take_masks_off(total, self_keys, self._answers)
        return Opened(masks.centred(total), self._settled(), dict(self._certificate))

    def _self_secret(self, member: int) -> int:
        enough = self._run.parameters.neighbourhood.threshold
        return rebuild(member, self._givers(member)[:enough], self._answers)

    def _givers(self, member: int) -> tuple[int, ...]:
        return givers(member, self._peers[member], self._answers)

    def _unmask_body(self, site: int) -> bytes:
        members = self._settled()
        sealed = {peer: self._sealed[peer][site] for peer in members if peer in self._peers[site]}
        certificate = self._certificate if self._lost() else {}
        return Unmask(members, certificate, sealed).to_bytes()

    def _settled(self) -> tuple[int, ...]:
        if self.members is None:
            raise SpecError(f"round {self.round} is still open; call close first.")
        return self.members

    def _lost(self) -> frozenset[int]:
        return frozenset(self.participants) - set(self._settled())

    def _letters(
        self, kind: MessageKind, sites: Iterable[int], body: Callable[[int], bytes]
    ) -> dict[int, bytes]:
        return {site: self._run.letter(kind, site, self.round, body(site)) for site in sites}
