"""All halves of a secure sum in one process, for tests: nothing here is part of hedgerow."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest

from hedgerow.errors import SiteRefused
from hedgerow.secagg.client import Fresh, Site
from hedgerow.secagg.envelope import (
    EMPTY_LEDGER,
    NO_SESSION,
    Envelope,
    Header,
    LedgerHead,
    MessageKind,
    seal_message,
)
from hedgerow.secagg.keys import COORDINATOR, Identity, Roster
from hedgerow.secagg.masks import Int64
from hedgerow.secagg.memory import MemoryInRam
from hedgerow.secagg.opening import OpenedSum
from hedgerow.secagg.parameters import Parameters
from hedgerow.secagg.secure_sum import SecureSum
from hedgerow.secagg.server import Coordinator

STUDY = hashlib.sha256(b"a study").digest()
NOBODY: frozenset[int] = frozenset()


@dataclass
class Consortium:
    """Everybody: `identities` are the sites' and, last, the coordinator's."""

    parameters: Parameters
    identities: list[Identity]
    roster: Roster
    coordinator: Coordinator
    sites: list[Site]
    memories: list[MemoryInRam]

    def forge(self, kind: MessageKind, body: bytes, signer: int = -1, **changed: object) -> bytes:
        """A message the coordinator (or another signer) could really sign, however untrue.

        The coordinator writes to site 0 unless another receiver is named.
        """
        if "session_id" not in changed:
            changed["session_id"] = self.coordinator.session.id
        by_site = changed.get("sender", COORDINATOR) != COORDINATOR
        header = Header(
            kind=kind,
            study_hash=STUDY,
            run_id=self.coordinator.run_id,
            session_id=NO_SESSION,
            round=1,
            sender=COORDINATOR,
            receiver=COORDINATOR if by_site else 0,
            ledger=EMPTY_LEDGER,
        )
        return seal_message(self.identities[signer], replace(header, **changed), body)


def consortium(
    n_sites: int,
    parameters: Parameters | None = None,
    site_class: type[Site] = Site,
    entropy: Callable[[int], bytes] = os.urandom,
    opened: bool = True,
    memory_class: type[MemoryInRam] = MemoryInRam,
) -> Consortium:
    parameters = parameters or Parameters.default(n_sites)
    identities = [Identity.from_bytes(entropy(32)) for _ in range(n_sites + 1)]
    keys = [identity.public for identity in identities]
    roster = Roster(tuple(keys[:-1]), keys[-1])
    memories = [memory_class(rounds_kept=10_000) for _ in range(n_sites)]
    pins = roster.fingerprints
    sites = [
        site_class(identities[me], roster, me, parameters, STUDY, memories[me], entropy, pins=pins)
        for me in range(n_sites)
    ]
    coordinator = Coordinator(identities[-1], roster, parameters, STUDY, entropy=entropy)
    group = Consortium(parameters, identities, roster, coordinator, sites, memories)
    if opened:
        open_session(group)
    return group


def open_session(group: Consortium, who: Collection[int] | None = None) -> None:
    who = range(len(group.sites)) if who is None else who
    keys = keys_of(group, {me: ledger_of(group, me) for me in who})
    bind(group, group.coordinator.open(keys))


def bind(
    group: Consortium, opening: Mapping[int, bytes], coordinator: Coordinator | None = None
) -> None:
    """OPEN and BIND at those for whom there is an OPEN."""
    hub = coordinator or group.coordinator
    for me, message in opening.items():
        hub.accept_capsules(group.sites[me].open(message))
    for me, message in hub.bind(opening).items():
        group.sites[me].bind(message)


def keys_of(
    group: Consortium,
    ledgers: Mapping[int, LedgerHead] | None = None,
    coordinator: Coordinator | None = None,
) -> list[bytes]:
    """KEYS of all sites with empty ledgers, or of those named with theirs."""
    messages = (coordinator or group.coordinator).join()
    if ledgers is None:
        ledgers = dict.fromkeys(messages, EMPTY_LEDGER)
    return [group.sites[me].join(messages[me], partial(ledgers.__getitem__, me)) for me in ledgers]


def next_coordinator(group: Consortium, heads: Mapping[int, LedgerHead]) -> Coordinator:
    """Another run of the same coordinator, which remembers its attempts and these heads."""
    last = group.coordinator.attempt
    return Coordinator(
        group.identities[-1], group.roster, group.parameters, STUDY, heads, attempt=last
    )


def ledger_of(group: Consortium, me: int) -> LedgerHead:
    """The site's last head; the dry run charges one entry a round."""
    seq = 0
    while group.memories[me].head_at(seq + 1) is not None:
        seq += 1
    return EMPTY_LEDGER if seq == 0 else head(me, seq)


def restarted(
    group: Consortium,
    me: int,
    memory: MemoryInRam | None = None,
    site_class: type[Site] = Site,
) -> Site:
    """The site's process dies and another one starts, on the same memory or on an older one."""
    if memory is not None:
        group.memories[me] = memory
    identity, kept = group.identities[me], group.memories[me]
    group.sites[me] = site_class(
        identity, group.roster, me, group.parameters, STUDY, kept, pins=group.roster.fingerprints
    )
    return group.sites[me]


def refuses(code: str) -> pytest.RaisesExc[SiteRefused]:
    return pytest.raises(SiteRefused, match=f"code {code};")


def head(me: int, seq: int) -> LedgerHead:
    return LedgerHead(seq, hashlib.sha256(f"{me} {seq}".encode()).digest(), f"{seq}/100")


def answer(
    group: Consortium, me: int, message: bytes, vector: Int64, selections: tuple[int, ...] = ()
) -> bytes:
    """ROUND -> MASKED, with the record stored as a guard would."""
    begun = group.sites[me].begin(message)
    if isinstance(begun, bytes):
        return begun
    assert isinstance(begun, Fresh)
    record = group.sites[me].mask(begun, vector, head(me, ledger_of(group, me).seq + 1), selections)
    group.memories[me].store(record)
    return record.message


def masked_round(
    group: Consortium,
    vectors: Sequence[Int64],
    lost: Collection[int] = NOBODY,
    bundle: bytes = b"bundle",
    participants: Sequence[int] | None = None,
) -> SecureSum:
    """A round up to the masked vectors; those of `lost` sites are made but never arrive.

    In a new key session if peers have heard too little of somebody.
    """
    hub = group.coordinator
    if not hub.is_fresh(hub._round + 1, participants or hub.session.ephemerals):
        open_session(group)
    secure = group.coordinator.start(bundle, len(vectors[0]), participants)
    for me, message in secure.requests().items():
        masked = answer(group, me, message, vectors[me])
        if me not in lost:
            secure.accept_masked(masked)
    return secure


def headers(group: Consortium, round: int) -> tuple[bytes, ...]:
    """What a coordinator can show of the sites' ledgers after that round."""
    run = group.coordinator.run_id
    records = [memory.outbox(run, round) for memory in group.memories]
    messages = [record.message for record in records if record is not None]
    return tuple(Envelope.parse(message).receipt.to_bytes() for message in messages)


def secure_sum(
    group: Consortium,
    vectors: Sequence[Int64],
    lost_before: Collection[int] = NOBODY,
    lost_signing: Collection[int] = NOBODY,
    lost_after: Collection[int] = NOBODY,
) -> OpenedSum:
    """A whole round. Sites vanish before MASKED arrives, before they sign, or before UNMASK."""
    secure = masked_round(group, vectors, lost_before)
    for me, message in secure.close().items():
        if me not in lost_signing:
            secure.accept_signature(group.sites[me].sign_set(message))
    for me, message in secure.unmask().items():
        if me not in lost_after:
            secure.accept_shares(group.sites[me].unmask(message))
    return secure.opened()


def some_vectors(n_sites: int, dim: int = 3, seed: int = 0) -> list[Int64]:
    rng = np.random.default_rng(seed)
    return list(rng.integers(-(2**40), 2**40, (n_sites, dim), dtype=np.int64))


def ring_sum(vectors: Sequence[Int64], members: Collection[int]) -> Int64:
    """The sum as 64-bit two's complement has it: the definition the secure sum must meet."""
    modulus = 2**64
    columns = zip(*(vectors[me].tolist() for me in sorted(members)), strict=True)
    wrapped = [sum(column) % modulus for column in columns]
    return np.array([w - modulus if w >= modulus // 2 else w for w in wrapped], dtype=np.int64)
