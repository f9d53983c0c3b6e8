"""The coordinator's half of a secure sum, as steps: bytes in, bytes out.

Nothing here is trusted by a site. The coordinator relays keys, adds up masked vectors, asks
for what takes the masks off, and checks what it is given.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from hedgerow.errors import SpecError
from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.envelope import (
    EMPTY_LEDGER,
    NO_EPOCH,
    RUN_ID,
    Author,
    Envelope,
    LedgerHead,
    MessageKind,
    follows,
    open_envelope,
)
from hedgerow.secagg.epoch import Epoch, Joining, form_epoch, read_keys
from hedgerow.secagg.graph import Parameters
from hedgerow.secagg.keys import COORDINATOR, Identity, Roster
from hedgerow.secagg.messages import LONGEST_VECTOR, MOST_ATTEMPTS, Join, Open
from hedgerow.secagg.secure_sum import SecureSum
from hedgerow.secagg.shamir import Entropy

__all__ = ["Coordinator", "SecureSum"]


class Coordinator:
    """One run of one study: join -> open -> start, and start again, for every round.

    `heads` is the last ledger head held from each site. Give a new run those of the last, so
    that a site whose ledger went back meets them; the largest `spent` among them is what the
    study cost, rounds without an answer included. `attempt` is the number of the last JOIN of
    this study, in whatever run; sites refuse a lower one.
    """

    def __init__(
        self,
        identity: Identity,
        roster: Roster,
        parameters: Parameters,
        study_hash: bytes,
        heads: Mapping[int, LedgerHead] | None = None,
        attempt: int = 0,
        entropy: Entropy = os.urandom,
    ) -> None:
        if len(roster.sites) != parameters.parties or roster.coordinator != identity.public:
            raise SpecError(
                f"the roster names {len(roster.sites)} sites for a study of "
                f"{parameters.parties}, or another coordinator; compare roster and study."
            )
        self.run_id, self.attempt = entropy(RUN_ID), attempt
        self.heads = dict(heads or {})
        self.parameters, self.roster = parameters, roster
        self.keys: tuple[bytes, ...] = ()
        self._author = Author(identity, COORDINATOR, study_hash)
        self._epoch: Epoch | None = None
        self._round = 0

    @classmethod
    def resume(
        cls,
        identity: Identity,
        roster: Roster,
        parameters: Parameters,
        study_hash: bytes,
        *,
        run_id: bytes,
        keys: Iterable[bytes],
        round: int,
        heads: Mapping[int, LedgerHead],
    ) -> Coordinator:
        """Takes up a run whose coordinator stopped; the next `start` asks `round` again.

        All four are what the run had when that round was first asked, and were durable before
        it left. Then the same question makes the same letters, and sites that have answered
        send their stored bytes and charge nothing.
        """
        run = cls(identity, roster, parameters, study_hash, heads, entropy=lambda _: run_id)
        joining = run._joining(keys)
        run.attempt = max((one.attempt for one in joining), default=0)
        run._form(joining)
        run._round = round - 1
        return run

    def join(self) -> dict[int, bytes]:
        """JOIN for every site, which answers with KEYS; to ask again, send the same letters."""
        if self.attempt >= MOST_ATTEMPTS:
            raise SpecError(
                f"{self.attempt} epochs were tried; a study has no more. Start a new one."
            )
        self.attempt += 1
        body = Join(self.attempt).to_bytes()
        sites = range(self.parameters.parties)
        return {site: self._letter(MessageKind.JOIN, site, NO_EPOCH, 0, body) for site in sites}

    def open(self, keys: Iterable[bytes]) -> dict[int, bytes]:
        """From everybody's KEYS, the OPEN for each of them; a new epoch needs new KEYS of all."""
        joining = self._joining(keys)
        for one in joining:
            held = self.heads.get(one.sender, EMPTY_LEDGER)
            require(follows(one.head, held.position), Code.LEDGER_ROLLED_BACK, one.sender)
            self.heads[one.sender] = one.receipt.header.ledger
        self._form(joining)
        return self.opening(self.epoch.ephemerals)

    def opening(self, sites: Iterable[int]) -> dict[int, bytes]:
        """OPEN of the present epoch; to one that has joined it changes nothing.

        One that was started anew says that it lacks the key: so it can be asked at no charge.
        """
        body = Open(self.keys).to_bytes()
        return {site: self.letter(MessageKind.OPEN, site, 0, body) for site in sites}

    def sender_of_keys(self, message: bytes) -> int:
        """Whose KEYS these are, for the last invitation; refuses any other message."""
        one = read_keys(message, self.roster, self._author.study_hash)
        require(one.invitation == (self.run_id, self.attempt), Code.BAD_MESSAGE, one.sender)
        return one.sender

    @property
    def epoch(self) -> Epoch:
        if self._epoch is None:
            raise SpecError("no epoch is open; collect KEYS from the sites and call open first.")
        return self._epoch

    def start(
        self,
        bundle: bytes,
        dim: int,
        participants: Iterable[int] | None = None,
        picks: int = 0,
        round: int | None = None,
    ) -> SecureSum:
        """A round over `participants`, by default the whole epoch; by default the next one.

        The last one may be asked again. Each site is asked for `dim` numbers, which are summed,
        and for `picks` indices, which are not.
        """
        who = tuple(sorted(self.epoch.ephemerals if participants is None else participants))
        if not 1 <= dim <= LONGEST_VECTOR or not set(who) <= set(self.epoch.ephemerals):
            raise SpecError(
                f"{dim} numbers from sites {list(who)} cannot be summed; "
                "use 1 to 2^32 numbers and sites of this epoch."
            )
        self._round = self._round + 1 if round is None else round
        return SecureSum(self, self._round, bundle, dim, picks, who)

    def letter(self, kind: MessageKind, site: int, round: int, body: bytes) -> bytes:
        """A message of this epoch to one site; its header returns the last head held from it."""
        return self._letter(kind, site, self.epoch.id, round, body)

    def read(self, message: bytes, kind: MessageKind, round: int) -> Envelope:
        """A site's message of this epoch, verified; keeps its head if it is news."""
        envelope = open_envelope(message, kind, self._author.study_hash, self.roster)
        header, sender = envelope.header, envelope.header.sender
        here = (self.run_id, self.epoch.id, round, COORDINATOR)
        there = (header.run_id, header.epoch_id, header.round, header.receiver)
        require(there == here, Code.BAD_MESSAGE, sender)
        require(sender in self.epoch.ephemerals, Code.UNKNOWN_KEY, sender)
        held = self.heads[sender]
        if header.ledger.seq >= held.seq:  # an answer sent again shows an older head
            fits = follows(header.ledger.position, held.position)
            require(fits, Code.LEDGER_ROLLED_BACK, sender)
            self.heads[sender] = header.ledger
        return envelope

    def _joining(self, keys: Iterable[bytes]) -> list[Joining]:
        return [read_keys(one, self.roster, self._author.study_hash) for one in keys]

    def _form(self, joining: Iterable[Joining]) -> None:
        everyone = tuple(joining)
        invitation = self.run_id, self.attempt
        self._epoch = form_epoch(everyone, invitation, self._author.study_hash, self.parameters)
        self.keys = tuple(one.message for one in everyone)

    def _letter(
        self, kind: MessageKind, site: int, epoch_id: bytes, round: int, body: bytes
    ) -> bytes:
        held = self.heads.get(site, EMPTY_LEDGER)
        return self._author.seal(kind, body, self.run_id, epoch_id, round, site, held)
