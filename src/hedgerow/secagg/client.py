"""A site's half of a secure sum, as steps: bytes in, bytes out, no socket and no clock.

    join -> open -> bind -> (begin -> mask [-> [sign_set] -> unmask])
    for every round, and close; after a restart inside a round [witness ->] prove

After Bonawitz et al. 2017, "Practical secure aggregation for privacy-preserving machine learning":
pairwise masks that cancel in the sum, and a self-mask that only a threshold of sites can remove.
Departures, so that neither a lost site nor a lying coordinator exposes anybody's vector:

* keys are agreed once per key session; recovery reveals the pair seeds of one round, never a key;
* every key is bound to study, key session, round, bundle and participants;
* a set smaller than the participants is opened only with `threshold` signatures on it, and a
  site signs or opens one set per round;
* a process that was started in the middle of a round signs or opens a set of it only with enough
  witnesses: its file may be an older copy that lacks another set;
* a round that is opened at once has pairwise masks alone: its sum is known when all participants
  have answered, and a site keeps nothing that could open it for fewer.

Whatever the coordinator and at most `colluders` sites do, each sum they learn then has at least
`honest` honest summands, and no two such sums overlap. Sketch: a pair's mask is unknown unless one
end learned that the other is lost. Honest sites that open a certified set list each other, and
there are at least `honest` of them, since a certificate has that many honest signers. Nobody's
self-mask is removed without that many honest sites who list it. For rounds opened at once: while an
honest participant has not answered under the same context, every other vector contains a mask that
only these two know; once all have answered, the masks of honest sites cancel in their sum.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial, wraps
from typing import Concatenate, ParamSpec, TypeVar

from hedgerow.errors import ParameterError, SiteRefused
from hedgerow.secagg.closing import UNASKED, LastWord, Release, read_close
from hedgerow.secagg.codes import Code, require
from hedgerow.secagg.encoding import SEED, SIGNATURE, Reader, read_body
from hedgerow.secagg.envelope import (
    NO_SESSION,
    RUN_ID,
    Author,
    Envelope,
    Header,
    LedgerHead,
    MessageKind,
    SignedHeader,
    open_envelope,
    seal_message,
)
from hedgerow.secagg.keys import (
    COORDINATOR,
    Identity,
    Roster,
    check_pins,
    open_share,
    verify_signature,
)
from hedgerow.secagg.masks import Int64
from hedgerow.secagg.membership import (
    Heads,
    Membership,
    check_selections,
    check_vector,
    hide,
    hide_at_once,
)
from hedgerow.secagg.memory import Memory, StoredRound
from hedgerow.secagg.messages import MemberTable, Mode, Round, Shares, Unmask
from hedgerow.secagg.opening import check_certificate, least_witnesses, set_digest, witness_digest
from hedgerow.secagg.parameters import Parameters
from hedgerow.secagg.session import SiteSession
from hedgerow.secagg.shamir import Entropy


@dataclass(frozen=True, slots=True)
class Fresh:
    """A new request that may be answered once."""

    run_id: bytes
    session_id: bytes
    round: int
    mode: Mode
    bundle: bytes
    definitions: bytes
    participants: tuple[int, ...]
    request: bytes
    context: bytes


_Params = ParamSpec("_Params")
_Result = TypeVar("_Result")


def one_at_a_time(
    step: Callable[Concatenate[Site, _Params], _Result],
) -> Callable[Concatenate[Site, _Params], _Result]:
    """Runs a step under the lock: two threads must not both find a round new or a key unused."""

    @wraps(step)
    def alone(site: Site, /, *args: _Params.args, **kwargs: _Params.kwargs) -> _Result:
        with site.lock:
            return step(site, *args, **kwargs)

    return alone


class Site:
    """One site in one study. `me` is its place in the roster.

    `pins` are the fingerprints of peers that this site's own people have compared; a study in which
    too few peers are pinned is refused. Refusals have a constant code (codes.py). `memory` must be
    durable (memory.py).
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
        *,
        pins: Collection[str],
    ) -> None:
        if len(roster.sites) != parameters.n_sites or roster.sites[me] != identity.public:
            raise ParameterError(
                f"place {me} of a roster of {len(roster.sites)} does not hold this site's key, "
                f"or the study is not for {parameters.n_sites} sites; compare roster and study."
            )
        check_pins(roster, me, pins, parameters.threshold)
        self.roster, self.study_hash, self.lock = roster, study_hash, threading.RLock()
        self._parameters, self._memory, self._entropy = parameters, memory, entropy
        self._author = Author(identity, me, study_hash)
        self._heads = Heads(memory, roster, me)
        self._membership = Membership(self._author, self._heads, parameters, entropy)
        self._nonce = b""
        self._proofs: dict[tuple[bytes, int], tuple[int, ...]] = {}
        """By run and round, the set that enough others have witnessed to this process."""

    @one_at_a_time
    def join(self, message: bytes, ledger: Callable[[], LedgerHead]) -> bytes:
        """JOIN -> KEYS. The same JOIN gets the same KEYS while the process lives.

        `ledger` returns the end of the ledger; it is called once the invitation is accepted.
        """
        return self._membership.keys(self._receive(message, MessageKind.JOIN), ledger)

    @one_at_a_time
    def open(self, message: bytes) -> bytes:
        """OPEN -> ENCAPS: joins the key session that this process' KEYS are part of."""
        return self._membership.open(self._receive(message, MessageKind.OPEN))

    @one_at_a_time
    def bind(self, message: bytes) -> bytes:
        """BIND: the rest of the secrets that this site shares with its peers; answers nothing."""
        self._membership.bind(self._receive(message, MessageKind.BIND))
        return b""

    @one_at_a_time
    def begin(self, message: bytes) -> Fresh | bytes:
        """ROUND: all checks that need neither policy, nor data, nor budget.

        A request that was answered before gets these bytes again: charge and draw nothing.
        """
        envelope = self._receive(message, MessageKind.ROUND)
        header, body = envelope.header, Round.read(envelope.body)
        self._require_open_run(header)
        request = body.request
        record = self._memory.outbox(header.run_id, header.round)
        if record is not None:
            same = (record.header.session_id, record.request, record.participants)
            require(same == (header.session_id, request, body.participants), Code.ROUND_ID_USED)
            return record.message
        require(header.round > self._memory.high_water(header.run_id), Code.OLD_ROUND)
        sparse = self._parameters.sparse  # paid for out of delta for a fixed number of rounds
        require(sparse is None or self._memory.rounds() < sparse.rounds, Code.BUDGET_REFUSED)
        site_session = self._membership.current(header.session_id)
        require(header.round > site_session.last_round, Code.OLD_ROUND)
        session = site_session.session
        require(len(body.participants) >= self._parameters.threshold, Code.TOO_FEW)
        require(self._author.me in body.participants, Code.BAD_SET)
        require(set(body.participants) <= set(session.ephemerals), Code.BAD_SET)
        site_session.peers_in(body.participants)
        self._hear(body, header, site_session)
        context = session.context(header.round, request, body.participants)
        content = body.mode, body.bundle, body.definitions, body.participants
        return Fresh(header.run_id, session.id, header.round, *content, request, context)

    def _hear(self, body: Round, header: Header, site_session: SiteSession) -> None:
        """Checks the signed headers of peers, so that each site remembers the others' ledgers.

        A machine that was restored from an older copy is then detected. The coordinator must show
        recent ledger ends of all participants.
        """
        for data in body.receipts:
            receipt = SignedHeader.read(data)
            item, here = receipt.header, (self.study_hash, header.run_id, header.session_id)
            require((item.study_hash, item.run_id, item.session_id) == here, Code.BAD_MESSAGE)
            require(item.sender in site_session.session.ephemerals, Code.BAD_SET)
            if item.sender != self._author.me:
                receipt.verify(self.roster.key_of(item.sender))
                self._heads.hear(receipt)
                last = site_session.heard_rounds.get(item.sender, 0)
                site_session.heard_rounds[item.sender] = max(last, item.round)
        reach = self._parameters.reach
        require(site_session.is_fresh(header.round, body.participants, reach), Code.STALE)

    def mask(
        self, fresh: Fresh, vector: Int64, ledger: LedgerHead, selections: tuple[int, ...] = ()
    ) -> StoredRound:
        """The MASKED message, and everything that must be stored with the charge before it is sent.

        `ledger` is the ledger's end after that charge. It stores and sends nothing. The call uses
        the round up: a second call for it is refused. It runs inside the memory's transaction, so
        it must not wait for a step that waits for the memory: only the use of the round is locked.
        """
        check_vector(vector)
        check_selections(selections)
        site_session = self._membership.current(fresh.session_id)
        site_session.use(fresh.round)
        place = vector, site_session, fresh.context, fresh.participants
        if fresh.mode is Mode.AT_ONCE:
            hidden = hide_at_once(*place)
        else:
            hidden = hide(*place, self._parameters.neighborhood.threshold, self._entropy)
        body = replace(hidden.body, selections=selections).to_bytes()
        header = fresh.run_id, fresh.session_id, fresh.round, COORDINATOR, ledger
        message = self._author.seal(MessageKind.MASKED, body, *header)
        return StoredRound(
            mode=fresh.mode,
            request=fresh.request,
            participants=fresh.participants,
            context=fresh.context,
            message=message,
            own_share=hidden.own_share,
            seeds=hidden.seeds,
            share_keys=hidden.share_keys,
        )

    @one_at_a_time
    def sign_set(self, message: bytes) -> bytes:
        """SURVIVORS: binds this site to one set of members and signs it, or replies DOUBT."""
        envelope = self._receive(message, MessageKind.SURVIVORS)
        record = self._record_of(envelope.header)
        members = read_body(envelope.body, Reader.members)
        self._check_members(members, record)
        if self._is_in_doubt(record, members):
            return self._doubt(record)
        signature = self._author.identity.sign(set_digest(record.context, members))
        return self._reply(MessageKind.SIGNED_SET, record, members, signature)

    @one_at_a_time
    def unmask(self, message: bytes) -> bytes:
        """UNMASK: shares of the members' self-masks, and this round's seeds towards lost sites; or
        DOUBT.
        """
        envelope = self._receive(message, MessageKind.UNMASK)
        record = self._record_of(envelope.header)
        request = Unmask.read(envelope.body)
        self._check_members(request.members, record)
        self._check_opening(request, record)
        if self._is_in_doubt(record, request.members):
            return self._doubt(record)
        shares, complaints = self._open_shares(request, record)
        lost = set(record.participants) - set(request.members)
        seeds = {peer: seed for peer, seed in record.seeds.items() if peer in lost}
        body = Shares(shares, seeds, complaints).to_bytes()
        return self._reply(MessageKind.SHARES, record, request.members, body)

    @one_at_a_time
    def witness(self, message: bytes) -> bytes:
        """WITNESS: binds this site to one set of members, and confirms it to sites in doubt."""
        envelope = self._receive(message, MessageKind.WITNESS)
        record, request = self._record_of(envelope.header), MemberTable.read(envelope.body, SEED)
        self._check_members(request.members, record)
        require(self._is_own(record), Code.STALE)
        require(self._author.me not in request.table, Code.BAD_SET)
        sign, place = self._author.identity.sign, (record.context, request.members)
        signatures = {s: sign(witness_digest(*place, s, n)) for s, n in request.table.items()}
        body = MemberTable(request.members, signatures).to_bytes()
        return self._reply(MessageKind.WITNESSED, record, request.members, body)

    @one_at_a_time
    def prove(self, message: bytes) -> bytes:
        """PROVE: a set with enough witnesses for this process may be signed and opened."""
        envelope = self._receive(message, MessageKind.PROVE)
        record = self._record_of(envelope.header)
        request = MemberTable.read(envelope.body, SIGNATURE)
        self._check_members(request.members, record)
        self._check_witnesses(request, record)
        self._proofs[record.header.run_id, record.header.round] = request.members
        return b""

    def _check_witnesses(self, request: MemberTable, record: StoredRound) -> None:
        parameters, others = self._parameters, set(record.participants) - {self._author.me}
        sizes = len(record.participants), parameters.threshold, parameters.colluders
        require(len(request.table) >= least_witnesses(*sizes), Code.BAD_CERTIFICATE)
        require(set(request.table) <= others, Code.BAD_CERTIFICATE)
        place = record.context, request.members, self._author.me, self._nonce
        for site, signature in request.table.items():
            key = self.roster.sites[site]
            verify_signature(key, signature, witness_digest(*place), Code.BAD_CERTIFICATE)

    def _is_own(self, record: StoredRound) -> bool:
        """Whether this process made the vector, and so knows everything it said about the round."""
        return record.header.session_id in self._membership.sessions

    def _is_in_doubt(self, record: StoredRound, members: tuple[int, ...]) -> bool:
        """Whether this site may have forgotten another set of the round.

        Not if this process made the vector, the file has a set, or others witnessed this set.
        """
        place = record.header.run_id, record.header.round
        if self._is_own(record) or self._memory.bound_set(*place) is not None:
            return False
        return self._proofs.get(place) != members

    def _doubt(self, record: StoredRound) -> bytes:
        self._nonce = self._nonce or self._entropy(SEED)
        header = record.header
        place = header.run_id, header.session_id, header.round, COORDINATOR, header.ledger
        return self._author.seal(MessageKind.DOUBT, self._nonce, *place)

    @one_at_a_time
    def close(self, message: bytes) -> bytes:
        """CLOSE -> CLOSED: this site's last message in the study, the same when repeated."""
        envelope = self._receive(message, MessageKind.CLOSE)
        header, root = envelope.header, read_close(envelope.body)
        require((header.session_id, header.round) == (NO_SESSION, 0), Code.BAD_MESSAGE)
        last_word = self._memory.last_word()
        if last_word is None:
            self._require_open_run(header)
            return self._memory.close(header.run_id, partial(self._word, header.run_id, root))
        last = Envelope.parse(last_word)
        is_same_root = LastWord.read(last.body).root in (root, UNASKED)
        require(last.header.run_id == header.run_id and is_same_root, Code.STUDY_CLOSED)
        return last_word

    @one_at_a_time
    def close_unasked(self) -> bytes:
        """CLOSED without a CLOSE, with a root of zeros: the site's own people end the study."""
        run_id = self._memory.current_run() or bytes(RUN_ID)
        word = partial(self._word, run_id, UNASKED)
        return self._memory.last_word() or self._memory.close(run_id, word)

    def _word(
        self,
        run_id: bytes,
        root: bytes,
        ledger: LedgerHead,
        rounds: int,
        releases: Sequence[Release],
    ) -> bytes:
        header = self._author.header(MessageKind.CLOSED, run_id, NO_SESSION, 0, COORDINATOR, ledger)
        body = LastWord(root, rounds, tuple(releases)).by(self._author.identity, header)
        return seal_message(self._author.identity, header, body.to_bytes())

    def _receive(self, message: bytes, kind: MessageKind) -> Envelope:
        envelope = open_envelope(message, kind, self.study_hash, self.roster)
        header = envelope.header
        require(header.sender == COORDINATOR, Code.UNKNOWN_KEY)
        require(header.receiver == self._author.me, Code.BAD_MESSAGE)
        still = kind is MessageKind.CLOSE or self._memory.last_word() is None
        require(still, Code.STUDY_CLOSED)
        self._heads.meet(header.ledger.position)
        return envelope

    def _require_open_run(self, header: Header) -> None:
        require(header.run_id == self._memory.current_run(), Code.RUN_SUPERSEDED)

    def _record_of(self, header: Header) -> StoredRound:
        self._require_open_run(header)
        record = self._memory.outbox(header.run_id, header.round)
        if record is None:
            raise SiteRefused(Code.OLD_ROUND.value)
        require(record.header.session_id == header.session_id, Code.BAD_MESSAGE)
        return record

    def _check_members(self, members: tuple[int, ...], record: StoredRound) -> None:
        """Checks a set of members. A round that is opened at once is never opened for fewer."""
        require(record.mode is Mode.IN_TWO, Code.BAD_SET)
        require(len(members) >= self._parameters.threshold, Code.TOO_FEW)
        require(self._author.me in members, Code.BAD_SET)
        require(set(members) <= set(record.participants), Code.BAD_SET)

    def _check_opening(self, request: Unmask, record: StoredRound) -> None:
        """Allows all participants without a certificate, and fewer only with one."""
        if request.members == record.participants:
            require(not request.certificate, Code.BAD_CERTIFICATE)
            return
        threshold, members = self._parameters.threshold, request.members
        check_certificate(request.certificate, members, record.context, self.roster, threshold)

    def _open_shares(
        self, request: Unmask, record: StoredRound
    ) -> tuple[dict[int, bytes], dict[int, bytes]]:
        """The own share of every member's self-mask, and complaints: the keys of bad shares.

        A key opens only the one share that would have been given anyway.
        """
        target = set(request.members) & set(record.share_keys)
        require(set(request.sealed_shares) == target, Code.BAD_SHARE)
        shares, complaints = {self._author.me: record.own_share}, dict[int, bytes]()
        for peer in target:
            key, sealed_share = record.share_keys[peer], request.sealed_shares[peer]
            try:
                shares[peer] = open_share(key, record.context, peer, self._author.me, sealed_share)
            except SiteRefused:
                complaints[peer] = key
        return shares, complaints

    def _reply(
        self, kind: MessageKind, record: StoredRound, members: tuple[int, ...], body: bytes
    ) -> bytes:
        """An answer about a stored round: the same bytes whenever it is requested."""
        run_id, round = record.header.run_id, record.header.round
        place = run_id, record.header.session_id, round, COORDINATOR

        def reply(ledger: LedgerHead) -> bytes:
            return self._author.seal(kind, body, *place, ledger)

        return self._memory.open_set(run_id, round, members, (kind, reply))
