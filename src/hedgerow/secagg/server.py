"""The coordinator's half of a secure sum, as steps: bytes in, bytes out.

Sites trust nothing here. The coordinator relays keys, adds masked vectors, asks for what removes
the masks, and checks what it receives.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

from hedgerow.errors import ParameterError
from hedgerow.secagg.closing import UNASKED, LastWord
from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.encoding import Reader, messages_field, read_body, table_field, u32, u64
from hedgerow.secagg.envelope import (
    EMPTY_LEDGER,
    NO_SESSION,
    RUN_ID,
    Author,
    Envelope,
    LedgerHead,
    MessageKind,
    follows,
    fork_heads,
    is_fork,
    open_envelope,
)
from hedgerow.secagg.keys import COORDINATOR, Identity, Roster
from hedgerow.secagg.messages import LONGEST_VECTOR, MOST_ATTEMPTS, Mode
from hedgerow.secagg.parameters import MOST_RECEIPTS, Parameters
from hedgerow.secagg.secure_sum import SecureSum
from hedgerow.secagg.session import Joining, KeySession, form_session, read_keys
from hedgerow.secagg.shamir import Entropy


class Coordinator:
    """One run of one study: join -> open -> bind -> start, and start again, for every round.

    `heads` is the latest ledger head of each site. Pass those of the previous run to a new one, so
    that a site whose ledger was rolled back sees them. The largest `spent` among them is the cost
    of the study, rounds without an answer included. `attempt` is the number of the last JOIN of
    this study, in any run; sites refuse a lower one.
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
        if len(roster.sites) != parameters.n_sites or roster.coordinator != identity.public:
            raise ParameterError(
                f"the roster names {len(roster.sites)} sites for a study of "
                f"{parameters.n_sites}, or another coordinator; compare roster and study."
            )
        self.run_id, self.attempt = entropy(RUN_ID), attempt
        self.heads = dict(heads or {})
        self.parameters, self.roster = parameters, roster
        self.keys: tuple[bytes, ...] = ()
        self._author = Author(identity, COORDINATOR, study_hash)
        self._session: KeySession | None = None
        self._capsules: dict[int, dict[int, bytes]] = {}
        self.receipts: dict[int, tuple[int, bytes]] = {}
        """By site, the last round of this key session that it answered, and its signed header."""
        self._first_round, self._round = 0, 0

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
        """Resumes a run whose coordinator stopped; the next `start` asks `round` again.

        All four arguments are what the run had when that round was first asked, and were durable
        before it was sent. The same query then makes the same messages, and sites that have
        answered send their stored bytes and charge nothing.
        """
        run = cls(identity, roster, parameters, study_hash, heads, entropy=lambda _: run_id)
        joining = run._joining(keys)
        run.attempt = max((item.keys.attempt for item in joining), default=0)
        run._form(joining)
        run._round = round - 1
        return run

    def join(self) -> dict[int, bytes]:
        """JOIN for every site, which answers with KEYS; to ask again, send the same messages."""
        if self.attempt >= MOST_ATTEMPTS:
            raise ParameterError(
                f"{self.attempt} key sessions were tried; a study has no more. Start a new one."
            )
        self.attempt += 1
        return self._to_all(MessageKind.JOIN, u32(self.attempt))

    def open(self, keys: Iterable[bytes]) -> dict[int, bytes]:
        """From all KEYS, the OPEN for each site.

        A new key session needs new KEYS of all.
        """
        joining = self._joining(keys)
        for item in joining:
            for site, evidence in item.keys.forks.items():
                has_forked = is_fork(self.roster.key_of(site), *fork_heads(evidence))
                require(not has_forked, Code.LEDGER_FORKED, site)
            last_head = self.heads.get(item.sender, EMPTY_LEDGER)
            require(follows(item.head, last_head.position), Code.LEDGER_ROLLED_BACK, item.sender)
            self.heads[item.sender] = item.receipt.header.ledger
        self._form(joining)
        body, sites = messages_field(self.keys), self.session.ephemerals
        return {site: self.message(MessageKind.OPEN, site, 0, body) for site in sites}

    def accept_capsules(self, message: bytes) -> int:
        """The sender of an ENCAPS; refuses one that lacks a capsule for one of its takers."""
        envelope = self.read(message, MessageKind.ENCAPS, 0)
        sender, table = envelope.header.sender, read_body(envelope.body, Reader.capsules)
        require(set(table) == self.session.takers(sender), Code.BAD_MESSAGE, sender)
        self._capsules[sender] = table
        return sender

    def bind(self, sites: Iterable[int]) -> dict[int, bytes]:
        """BIND for each site: the capsules that the others' ENCAPS have for it."""

        def body(site: int) -> bytes:
            tables = self._capsules.items()
            return table_field({peer: table[site] for peer, table in tables if site in table})

        return {site: self.message(MessageKind.BIND, site, 0, body(site)) for site in sites}

    def asking(self, sites: Iterable[int]) -> dict[int, bytes]:
        """BIND without a capsule, which changes nothing at a site that is in the key session.

        A restarted site replies that it lacks the key, so this checks for restarts at no charge.
        """
        return {site: self.message(MessageKind.BIND, site, 0, table_field({})) for site in sites}

    def sender_of_keys(self, message: bytes) -> int:
        """The sender of KEYS for the last invitation; refuses any other message."""
        item = read_keys(message, self.roster, self._author.study_hash)
        require(item.invitation == (self.run_id, self.attempt), Code.BAD_MESSAGE, item.sender)
        return item.sender

    @property
    def session(self) -> KeySession:
        if self._session is None:
            raise ParameterError(
                "no key session is open; collect KEYS from the sites and call open first."
            )
        return self._session

    def start(
        self,
        bundle: bytes,
        dim: int,
        participants: Iterable[int] | None = None,
        selections: int = 0,
        round: int | None = None,
        mode: Mode = Mode.IN_TWO,
    ) -> SecureSum:
        """A round over `participants`, by default the whole key session; by default the next one.

        The last round may be asked again. Each site is asked for `dim` numbers, which are summed,
        and for one index per selection, which are not.
        """
        sites = tuple(sorted(self.session.ephemerals if participants is None else participants))
        if not 1 <= dim <= LONGEST_VECTOR or not set(sites) <= set(self.session.ephemerals):
            raise ParameterError(
                f"{dim} numbers from sites {list(sites)} cannot be summed; "
                "use 1 to 2^32 numbers and sites of this key session."
            )
        self._round = self._round + 1 if round is None else round
        self._first_round = self._first_round or self._round
        content = bundle, dim, selections, sites, mode
        return SecureSum(self, self._round, *content, self._recent_headers(sites))

    def _recent_headers(self, sites: Sequence[int]) -> tuple[bytes, ...]:
        """Headers to show in the present round: those of a few sites, in rotation."""
        start = self._round * MOST_RECEIPTS % max(len(sites), 1)
        turn = sorted((*sites[start:], *sites[:start])[:MOST_RECEIPTS])
        return tuple(self.receipts[site][1] for site in turn if site in self.receipts)

    def is_fresh(self, round: int, sites: Iterable[int]) -> bool:
        """Whether sites will answer that round in this key session: see `SiteSession.is_fresh`."""
        start, lag = (self._first_round or round) - 1, self.parameters.reach // 2 + 1
        return all(self.receipts.get(site, (start,))[0] >= round - lag for site in sites)

    def close(self, root: bytes, rounds: int) -> dict[int, bytes]:
        """CLOSE for every site of the roster: nothing more is asked in this study."""
        return self._to_all(MessageKind.CLOSE, root + u64(rounds))

    def accept_closed(self, message: bytes, root: bytes) -> int:
        """The sender of a CLOSED with both signatures verified; refuses one with another root.

        A site that closed unasked has signed a root of zeros.
        """
        envelope = open_envelope(message, MessageKind.CLOSED, self._author.study_hash, self.roster)
        header, body = envelope.header, LastWord.read(envelope.body)
        place = header.run_id, header.session_id, header.round, header.receiver
        require(place == (self.run_id, NO_SESSION, 0, COORDINATOR), Code.BAD_MESSAGE, header.sender)
        require(body.root in (root, UNASKED), Code.BAD_MESSAGE, header.sender)
        body.verify(self.roster.key_of(header.sender), header)
        self.heads[header.sender] = header.ledger
        return header.sender

    def message(self, kind: MessageKind, site: int, round: int, body: bytes) -> bytes:
        """A message of this key session to one site; its header returns that site's last head."""
        return self._message(kind, site, self.session.id, round, body)

    def read(self, message: bytes, kind: MessageKind, round: int) -> Envelope:
        """Verifies a site's message of this key session; stores its ledger head if it is new."""
        envelope = open_envelope(message, kind, self._author.study_hash, self.roster)
        header, sender = envelope.header, envelope.header.sender
        here = (self.run_id, self.session.id, round, COORDINATOR)
        there = (header.run_id, header.session_id, header.round, header.receiver)
        require(there == here, Code.BAD_MESSAGE, sender)
        require(sender in self.session.ephemerals, Code.UNKNOWN_KEY, sender)
        last_head = self.heads[sender]
        if header.ledger.seq >= last_head.seq:  # a repeated answer shows an older head
            fits = follows(header.ledger.position, last_head.position)
            require(fits, Code.LEDGER_ROLLED_BACK, sender)
            self.heads[sender] = header.ledger
        if kind is MessageKind.MASKED:
            self.receipts[sender] = header.round, envelope.receipt.to_bytes()
        return envelope

    def _joining(self, keys: Iterable[bytes]) -> list[Joining]:
        return [read_keys(item, self.roster, self._author.study_hash) for item in keys]

    def _form(self, joining: Iterable[Joining]) -> None:
        everyone = tuple(joining)
        invitation = self.run_id, self.attempt
        self._session = form_session(everyone, invitation, self._author.study_hash, self.parameters)
        self.keys, self._capsules = tuple(item.message for item in everyone), {}
        self.receipts, self._first_round = {}, 0

    def _to_all(self, kind: MessageKind, body: bytes) -> dict[int, bytes]:
        """A message outside of key sessions, for every site of the roster."""
        sites = range(self.parameters.n_sites)
        return {site: self._message(kind, site, NO_SESSION, 0, body) for site in sites}

    def _message(
        self, kind: MessageKind, site: int, session_id: bytes, round: int, body: bytes
    ) -> bytes:
        last_head = self.heads.get(site, EMPTY_LEDGER)
        return self._author.seal(kind, body, self.run_id, session_id, round, site, last_head)
