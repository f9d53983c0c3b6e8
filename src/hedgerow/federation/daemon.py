"""A site that serves: all its approved studies at once, from one vault, whoever brings letters.

A letter names its study by hash. It goes to that study's endpoint, which has a lock of its own:
studies do not wait for each other but for the moment in which the vault is written. A letter for
any other study is refused. Everything is noted in the audit log, refusals with their reasons.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Sequence
from fractions import Fraction
from typing import Any

from hedgerow.errors import ComputationFailed, PartyRefused
from hedgerow.federation.audit_log import LOG, Audit, reason_of
from hedgerow.federation.client import Endpoint, Safe, code_of, refusal
from hedgerow.federation.member import Held, Member
from hedgerow.federation.policy import Policy, SitePolicy
from hedgerow.federation.store.vault import Vault
from hedgerow.privacy.accounting.budget import Cost
from hedgerow.privacy.accounting.rounding import float_above, printed
from hedgerow.privacy.ledger.charges import Charge
from hedgerow.privacy.ledger.events import cost_of_text
from hedgerow.privacy.study import Study
from hedgerow.secagg.client import Site
from hedgerow.secagg.codes import Code
from hedgerow.secagg.encoding import Reader
from hedgerow.secagg.envelope import Envelope, Header, LedgerHead, MessageKind
from hedgerow.secagg.graph import Parameters
from hedgerow.secagg.keys import Identity, Roster
from hedgerow.secagg.memory import StoredRound
from hedgerow.secagg.messages import Survivors, Unmask

_SAID_AT_MOST = 3
"""Queries of one round that its line spells out; the ledger has them all."""


class Service:
    """Endpoints by study. `handle` takes any bytes and is safe to call from many threads."""

    def __init__(self, identity: Identity, vault: Vault, policy: SitePolicy, audit: Audit) -> None:
        self._identity, self._vault, self._policy = identity, vault, policy
        self.audit = audit
        self._endpoints: dict[bytes, Endpoint] = {}
        self._closed: frozenset[bytes] = frozenset()
        self._changing = threading.Lock()

    def open(self, study: Study, rows: Held) -> None:
        """Serves one more study. Raises if the policy, the roster or the ledger say no."""
        roster = Roster(study.sites, study.coordinator)
        if self._identity.public not in roster.sites:
            raise PartyRefused(Code.UNKNOWN_KEY.value)
        if not self._vault.ledger.is_open(study.account):
            raise PartyRefused(Code.NOT_APPROVED.value)
        member = Member(study, rows, self._policy.policy)
        site = Site(
            self._identity,
            roster,
            roster.sites.index(self._identity.public),
            Parameters.of(study.parameters),
            study.hash,
            self._vault.memory(study.account),
            pins=self._pins,
        )
        safe = AuditedSafe(self._vault, self.audit, study, self._policy.policy)
        endpoint = AuditedEndpoint(
            member, site, safe, lambda: self._vault.head(study.account), self.audit
        )
        with self._changing:
            self._endpoints = self._endpoints | {study.hash: endpoint}

    def require_open(self, study: Study) -> None:
        """Raises if a study that was approved is closed by now; its letters are told so."""
        is_open = self._vault.ledger.is_open(study.account)
        own = frozenset({study.hash})
        self._closed = self._closed - own if is_open else self._closed | own
        if not is_open:
            raise ComputationFailed(
                f"study {study.name!r} is closed in this site's ledger: an answer that was charged "
                "could not be computed, and the audit log says why. Find the cause, revoke the "
                "study, then approve a new one."
            )

    def close(self, study_hash: bytes) -> None:
        """Serves a study no more: its letters are refused, and nothing could open its rounds."""
        with self._changing:
            self._endpoints = {h: e for h, e in self._endpoints.items() if h != study_hash}
        self._vault.close_study(study_hash.hex())

    def end(self) -> None:
        """Before the vault is closed: returns once no letter is in the middle of being answered."""
        for endpoint in self._endpoints.values():
            endpoint.end()

    @property
    def studies(self) -> Collection[bytes]:
        return self._endpoints.keys()

    def handle(self, letter: bytes) -> bytes:
        """Answers any bytes with a message or a constant refusal; never raises."""
        try:
            study = Header.read(Reader(letter)).study_hash
        except Exception as error:
            return self._refused(code_of(error), reason_of(error))
        endpoint = self._endpoints.get(study)
        if endpoint is None and study in self._closed:
            return self._refused(Code.STUDY_CLOSED, f"study {study.hex()} is closed here")
        if endpoint is None:
            return self._refused(Code.NOT_APPROVED, f"study {study.hex()} is not approved here")
        return endpoint.handle(letter)

    def _refused(self, code: Code, reason: str) -> bytes:
        note_quietly(self.audit, "refused", code=code.value, reason=reason)
        return refusal(code)

    @property
    def _pins(self) -> frozenset[str]:
        return frozenset(self._policy.pins.values())


class AuditedEndpoint(Endpoint):
    """An endpoint whose site can read later what was asked and what it said."""

    def __init__(
        self,
        member: Member,
        site: Site,
        safe: Safe,
        head: Callable[[], LedgerHead],
        audit: Audit,
    ) -> None:
        super().__init__(member, site, safe, head)
        self._audit = audit

    def step(self, kind: MessageKind | None, message: bytes) -> bytes:
        try:
            answer = super().step(kind, message)
        except Exception as error:
            said = {"code": code_of(error).value, "reason": reason_of(error)}
            what = {"kind": "letter" if kind is None else kind.name}
            note_quietly(self._audit, "refused", **self._study, **what, **said)
            raise
        self._note(kind, message)
        return answer

    def _note(self, kind: MessageKind | None, message: bytes) -> None:
        """Rounds have their lines already; repeated letters get a line each time."""
        envelope = Envelope.parse(message)
        round = envelope.header.round
        match kind:
            case MessageKind.JOIN:
                run = envelope.header.run_id.hex()
                note_quietly(self._audit, "joined", **self._study, run=run, what=f"run {run[:8]}")
            case MessageKind.SURVIVORS:
                members = Survivors.read(envelope.body).members
                note_quietly(
                    self._audit, "signed", **self._study, round=round, members=len(members)
                )
            case MessageKind.UNMASK:
                members = Unmask.read(envelope.body).members
                note_quietly(
                    self._audit, "opened", **self._study, round=round, members=len(members)
                )

    @property
    def _study(self) -> dict[str, str]:
        return {"study": self.member.study.account, "name": self.member.study.name}


class AuditedSafe:
    """A vault that writes the line of a round before the round may leave, and counts what it takes.

    A round beyond a ceiling is neither charged nor kept. Its size follows from queries alone.
    """

    def __init__(self, vault: Vault, audit: Audit, study: Study, policy: Policy) -> None:
        self._vault, self._audit, self._study, self._policy = vault, audit, study, policy

    def enter(self, charges: Sequence[Charge]) -> None:
        self._vault.enter(charges)

    def release(
        self,
        charges: Sequence[Charge],
        run_id: bytes,
        round: int,
        mask: Callable[[LedgerHead], StoredRound],
    ) -> bytes:
        def noted(head: LedgerHead) -> StoredRound:
            record = mask(head)
            said = manifest(self._study, charges, run_id, round, head)
            volume = self._vault.take(self._study.account, record, len(json.dumps(said)))
            self._policy.check_volume(self._study, volume)
            self._audit.note("round", **said)
            return record

        try:
            return self._vault.release(charges, run_id, round, noted)
        except ComputationFailed as error:
            named = {"study": self._study.account, "name": self._study.name}
            note_quietly(self._audit, "closed", **named, round=round, what=reason_of(error))
            raise


def manifest(
    study: Study, charges: Sequence[Charge], run_id: bytes, round: int, head: LedgerHead
) -> dict[str, Any]:
    """What leaves in a round, for a person: every query in words, what it costs, what is spent."""
    said = [charge.what for charge in charges]
    more = len(said) - _SAID_AT_MOST
    return {
        "study": study.account,
        "name": study.name,
        "run": run_id.hex(),
        "round": round,
        "said": "; ".join(said[:_SAID_AT_MOST]) + (f"; and {more} more" if more > 0 else ""),
        "queries": [{"what": c.what, "cost": _cost(c.cost)} for c in charges],
        "spent": f"{_cost(cost_of_text(head.spent))} of {_cost(study.limit)}",
        "measure": study.measure.value,
        "ledger_entry": head.seq,
    }


def _cost(cost: Cost) -> str:
    return printed(float_above(cost) if isinstance(cost, Fraction) else cost)


def note_quietly(audit: Audit, event: str, **fields: Any) -> None:
    """A line that nothing waits for: if it cannot be written, the site's log says so."""
    try:
        audit.note(event, **fields)
    except Exception as error:
        LOG.error("the audit log lacks a line: %s", event, exc_info=error)
