"""One round, as the coordinator sees it: masked vectors in, the sum of those that arrived out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import numpy as np

from hedgerow.errors import ParameterError, RoundFailed, TooFewSites
from hedgerow.secagg import masks
from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.encoding import SEED, SIGNATURE, Reader, members_field, read_body
from hedgerow.secagg.envelope import Envelope, MessageKind
from hedgerow.secagg.keys import Roster, verify_signature
from hedgerow.secagg.masks import MASK_WORD
from hedgerow.secagg.messages import (
    LANES,
    Masked,
    MemberTable,
    Mode,
    Round,
    Shares,
    Unmask,
)
from hedgerow.secagg.opening import (
    MasksLeft,
    MissingVectors,
    OpenedSum,
    check_commitments,
    givers,
    judge_share,
    least_witnesses,
    rebuild,
    set_digest,
    take_masks_off,
    witness_digest,
)
from hedgerow.secagg.parameters import Parameters
from hedgerow.secagg.session import KeySession


class Run(Protocol):
    """The caller: a coordinator, or a verifier of a transcript, which writes no messages."""

    @property
    def session(self) -> KeySession: ...

    @property
    def parameters(self) -> Parameters: ...

    @property
    def roster(self) -> Roster: ...

    def message(self, kind: MessageKind, site: int, round: int, body: bytes) -> bytes: ...

    def read(self, message: bytes, kind: MessageKind, round: int) -> Envelope: ...


class SecureSum:
    """One round.

    requests -> accept_masked ... -> close [-> accept_signature ... -> unmask -> accept_shares ...]
    -> opened. `close` returns no messages if nobody was lost; a round that is opened at once is
    void if somebody was. `receipts` are the signed headers that arrived, by site and ledger
    position: a site needs them if its ledger is ever lost.
    """

    def __init__(
        self,
        run: Run,
        round: int,
        bundle: bytes,
        dim: int,
        selections: int,
        participants: tuple[int, ...],
        mode: Mode,
        recent_headers: tuple[bytes, ...] = (),
    ) -> None:
        self.round, self.participants, self.mode = round, participants, mode
        self.members: tuple[int, ...] | None = None
        self.receipts: dict[int, dict[int, bytes]] = {site: {} for site in participants}
        self.messages: dict[tuple[int, MessageKind], bytes] = {}
        """All accepted messages, by sender and kind."""
        self._recent_headers = recent_headers
        self._run, self._bundle, self._dim, self._selections = run, bundle, dim, selections
        session = run.session
        request = Round(bundle, participants, mode=mode).request
        self.context = session.context(round, request, participants)
        self._peers = {site: session.neighbors(site) & set(participants) for site in participants}
        self._total = np.zeros(dim + (LANES if mode is Mode.AT_ONCE else 0), MASK_WORD)
        self._commitments: dict[int, bytes] = {}
        self._indices: dict[int, tuple[int, ...]] = {}
        self._shares: dict[int, dict[int, bytes]] = {}
        self._certificate: dict[int, bytes] = {}
        self._answers: dict[int, Shares] = {}
        self.liars: set[int] = set()
        """Sites that are proved, by their signatures, to have sent a bad share."""
        self.suspects: set[int] = set()
        """Pairs of sites of which one sent a bad share, without proof of which."""
        self.nonces: dict[int, bytes] = {}
        """Nonces of sites that were restarted in the round, and ask for witnesses."""
        self._witnesses: dict[int, dict[int, bytes]] = {}

    def requests(self, definitions: Mapping[int, bytes] | None = None) -> dict[int, bytes]:
        """ROUND for every participant, with the definitions that it may lack."""
        missing = definitions or {}

        def body(site: int) -> bytes:
            own_definitions = missing.get(site, b"")
            content = self._bundle, self.participants, own_definitions, self.mode
            return Round(*content, self._recent_headers).to_bytes()

        return self._messages(MessageKind.ROUND, self.participants, body)

    def accept_masked(self, message: bytes) -> None:
        """Adds one MASKED; a late one, after `close`, is refused and never opened."""
        envelope = self._read(message, MessageKind.MASKED)
        sender = envelope.header.sender
        require(self.members is None, Code.OLD_ROUND, sender)
        require(sender in self.participants, Code.BAD_SET, sender)
        if sender in self._indices:
            return
        answer = Masked.read(envelope.body, self._dim, self._selections, self.mode)
        require(answer.context == self.context, Code.BAD_MESSAGE, sender)
        sealed_for = self._peers[sender] if self.mode is Mode.IN_TWO else set()
        require(set(answer.sealed_shares) == sealed_for, Code.BAD_MESSAGE, sender)
        self.messages[sender, MessageKind.MASKED] = message
        np.add(self._total, answer.vector, out=self._total)
        self._commitments[sender], self._shares[sender] = answer.commitment, answer.sealed_shares
        self._indices[sender] = answer.selections

    @property
    def size(self) -> tuple[int, int]:
        """Integers, lanes included, and selections that each site is asked for."""
        return len(self._total), self._selections

    @property
    def arrived(self) -> frozenset[int]:
        """Sites whose vectors are in the sum."""
        return frozenset(self._indices)

    @property
    def signed(self) -> frozenset[int]:
        """Sites that signed the set of survivors."""
        return frozenset(self._certificate)

    def close(self) -> dict[int, bytes]:
        """Makes those who arrived the members; returns SURVIVORS for them if somebody is lost."""
        members, least = tuple(sorted(self._indices)), self._run.parameters.threshold
        if len(members) < least:
            raise TooFewSites(
                f"round {self.round}: {len(members)} of {len(self.participants)} sites sent a "
                f"vector, {least} are needed. Nothing was opened; the charge stays. Ask again "
                "in a new round."
            )
        if members == self.participants:
            self.members = members
            return {}
        if self.mode is Mode.AT_ONCE:
            raise MissingVectors(self.round, tuple(sorted(set(self.participants) - set(members))))
        self.members = members
        return self._messages(MessageKind.SURVIVORS, members, lambda _: members_field(members))

    def accept_signature(self, message: bytes) -> None:
        envelope = self._read(message, MessageKind.SIGNED_SET)
        sender, members = envelope.header.sender, self._members()
        require(sender in members, Code.BAD_SET, sender)
        signature = read_body(envelope.body, Reader.signature)
        content = set_digest(self.context, members)
        verify_signature(self._run.roster.sites[sender], signature, content, Code.BAD_CERTIFICATE)
        self.messages[sender, MessageKind.SIGNED_SET] = message
        self._certificate[sender] = signature

    def accept_doubt(self, message: bytes) -> None:
        envelope = self._read(message, MessageKind.DOUBT)
        require(len(envelope.body) == SEED, Code.BAD_MESSAGE, envelope.header.sender)
        self.nonces[envelope.header.sender] = bytes(envelope.body)

    def ask_witnesses(self) -> dict[int, bytes]:
        """WITNESS for all members that were not restarted."""
        self._witnesses, members = {site: {} for site in self.nonces}, self._members()
        body = MemberTable(members, self.nonces).to_bytes()
        others = [site for site in members if site not in self.nonces]
        return self._messages(MessageKind.WITNESS, others, lambda _: body)

    def accept_witness(self, message: bytes) -> None:
        envelope = self._read(message, MessageKind.WITNESSED)
        sender, answer = envelope.header.sender, MemberTable.read(envelope.body, SIGNATURE)
        place = self._members(), set(self.nonces)
        require((answer.members, set(answer.table)) == place, Code.BAD_MESSAGE, sender)
        for site, signature in answer.table.items():
            content = witness_digest(self.context, answer.members, site, self.nonces[site])
            key = self._run.roster.sites[sender]
            verify_signature(key, signature, content, Code.BAD_CERTIFICATE)
            self._witnesses[site][sender] = signature

    def proofs(self) -> dict[int, bytes]:
        """PROVE for restarted sites with enough witnesses."""
        parameters, n = self._run.parameters, len(self.participants)
        least = least_witnesses(n, parameters.threshold, parameters.colluders)
        tables = {site: table for site, table in self._witnesses.items() if len(table) >= least}

        def body(site: int) -> bytes:
            return MemberTable(self._members(), tables[site]).to_bytes()

        return self._messages(MessageKind.PROVE, tables, body)

    def unmask(self) -> dict[int, bytes]:
        """UNMASK for every member, each with the shares that were sealed for it."""
        members, least = self._members(), self._run.parameters.threshold
        if self._lost() and len(self._certificate) < least:
            raise RoundFailed(
                f"round {self.round}: {len(self._certificate)} sites signed the set of "
                f"survivors, {least} are needed. Nothing was opened; the charge stays. Wait "
                "for more signatures, or ask again in a new round."
            )
        return self._messages(MessageKind.UNMASK, members, self._unmask_body)

    def accept_shares(self, message: bytes) -> None:
        envelope = self._read(message, MessageKind.SHARES)
        sender, members = envelope.header.sender, set(self._members())
        require(sender in members, Code.BAD_SET, sender)
        answer, peers = Shares.read(envelope.body), self._peers[sender]
        listing = sorted((*answer.shares, *answer.complaints))
        require(listing == sorted((peers & members) | {sender}), Code.BAD_MESSAGE, sender)
        require(sender in answer.shares, Code.BAD_MESSAGE, sender)
        require(set(answer.seeds) == peers - members, Code.BAD_MESSAGE, sender)
        self.messages[sender, MessageKind.SHARES] = message
        self._answers[sender] = self._judge(sender, answer)

    def _judge(self, giver: int, answer: Shares) -> Shares:
        """The good shares of an answer; records who is proved to have lied."""
        shares = {giver: answer.shares[giver]}
        for owner in (*answer.shares, *answer.complaints):
            if owner != giver:
                sealed_share = self._shares[owner][giver]
                verdict = judge_share(sealed_share, self.context, owner, giver, answer)
                self.liars |= set() if verdict.liar is None else {verdict.liar}
                self.suspects |= {owner, giver} if verdict.is_open else set()
                shares |= {} if verdict.share is None else {owner: verdict.share}
        return Shares(shares, answer.seeds)

    def missing(self) -> str | None:
        """Why the sum cannot be opened yet, or None if it can."""
        least = self._run.parameters.neighborhood.threshold
        for member in self._members() if self.mode is Mode.IN_TWO else ():
            if len(self._givers(member)) < least:
                return f"fewer than {least} sites gave their share for site {member}"
            if self._peers[member] & self._lost() and member not in self._answers:
                return f"site {member} has not sent its seeds for the lost sites"
        return None

    def opened(self) -> OpenedSum:
        """The sum without its masks, once the answers suffice."""
        if self.mode is Mode.AT_ONCE:
            members = self._members()
            if self._total[-LANES:].any():
                raise MasksLeft(self.round)
            values = masks.center(self._total[:-LANES].copy())
            return OpenedSum(values, members, {}, dict(self._indices))
        reason = self.missing()
        if reason is not None:
            raise RoundFailed(
                f"round {self.round}: {reason}. Nothing was opened; the charge stays. Wait for "
                "its answer, or ask again in a new round."
            )
        secrets = {member: self._self_secret(member) for member in self._members()}
        check_commitments(self.round, secrets, self.context, self._commitments)
        self_keys = (masks.self_key(self.context, secret) for secret in secrets.values())
        total = self._total.copy()
        take_masks_off(total, self_keys, self._answers)
        certificate, indices = dict(self._certificate), dict(self._indices)
        return OpenedSum(masks.center(total), self._members(), certificate, indices)

    def _read(self, message: bytes, kind: MessageKind) -> Envelope:
        envelope = self._run.read(message, kind, self.round)
        sender, ledger = envelope.header.sender, envelope.header.ledger
        self.receipts.setdefault(sender, {})[ledger.seq] = envelope.receipt.to_bytes()
        return envelope

    def _self_secret(self, member: int) -> int:
        """Rebuilds a self-mask's secret; tries without the member's own, unverified share."""
        enough, sites = self._run.parameters.neighborhood.threshold, self._givers(member)
        secret = rebuild(member, sites[:enough], self._answers)
        others = tuple(site for site in sites if site != member)[:enough]
        is_wrong = masks.commitment(self.context, secret) != self._commitments[member]
        if is_wrong and len(others) == enough:
            secret = rebuild(member, others, self._answers)
            self.liars.add(member)
        return secret

    def _givers(self, member: int) -> tuple[int, ...]:
        return givers(member, self._peers[member], self._answers)

    def _unmask_body(self, site: int) -> bytes:
        members = self._members()
        shares = {peer: self._shares[peer][site] for peer in members if peer in self._peers[site]}
        certificate = self._certificate if self._lost() else {}
        return Unmask(members, certificate, shares).to_bytes()

    def _members(self) -> tuple[int, ...]:
        if self.members is None:
            raise ParameterError(f"round {self.round} is still open; call close first.")
        return self.members

    def _lost(self) -> frozenset[int]:
        return frozenset(self.participants) - set(self._members())

    def _messages(
        self, kind: MessageKind, sites: Iterable[int], body: Callable[[int], bytes]
    ) -> dict[int, bytes]:
        return {site: self._run.message(kind, site, self.round, body(site)) for site in sites}
