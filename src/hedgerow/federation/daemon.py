"""The service of a site: all approved studies at once, from one store, over any transport.

A message names its study by hash and goes to that study's client, which has its own lock: studies
wait for each other only while the store is written. A message for any other study is refused.
Everything is noted in the audit log, refusals with their reasons.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Collection, Sequence
from fractions import Fraction
from typing import Any

from hedgerow.data.prepared import Held, StudyRows
from hedgerow.errors import ComputationFailed, SiteRefused
from hedgerow.federation.audit_log import LOG, Audit, reason_of
from hedgerow.federation.client import Client, code_of, kind_named_by, refusal, site_of
from hedgerow.federation.policy import Policy, SitePolicy
from hedgerow.federation.site_store import SiteStore
from hedgerow.privacy.accounting.budget import Cost
from hedgerow.privacy.accounting.rounding import float_above, format_above
from hedgerow.privacy.ledger.charges import Charge
from hedgerow.privacy.ledger.events import MOST_WORDS, cost_of_text
from hedgerow.privacy.study import Study
from hedgerow.secagg.codes import Code
from hedgerow.secagg.encoding import Reader
from hedgerow.secagg.envelope import Envelope, Header, LedgerHead, MessageKind
from hedgerow.secagg.keys import Identity
from hedgerow.secagg.memory import StoredRound

_SAID_AT_MOST = 3
"""Queries of one round that its line lists; the ledger has them all."""


class Daemon:
    """Clients by study. `handle` takes any bytes and is safe to call from many threads."""

    def __init__(
        self, identity: Identity, site_store: SiteStore, policy: SitePolicy, audit: Audit
    ) -> None:
        self._identity, self._site_store, self._policy = identity, site_store, policy
        self.audit = audit
        self._clients: dict[bytes, Client] = {}
        self._closed_studies: frozenset[bytes] = frozenset()
        self._changing = threading.Lock()

    def open(self, study: Study, rows: Held) -> None:
        """Serves one more study. Raises if the policy, the roster or the ledger refuses it."""
        if self._identity.public not in study.sites:
            raise SiteRefused(Code.UNKNOWN_KEY.value)
        if not self._site_store.ledger.is_open(study.account):
            raise SiteRefused(Code.NOT_APPROVED.value)
        self._policy.policy.check(study)
        store = self._site_store.memory(study.account)
        audit = SiteAudit(self.audit, study, self._policy.policy, self._site_store)
        store.observer = audit.of_round
        site = site_of(study, self._identity, store, self._policy.pins.values())
        client = Client(
            StudyRows(study, rows),
            site,
            store,
            audit.of_message,
            reply_interval=self._reply_interval,
            policy=self._policy.policy,
        )
        with self._changing:
            self._clients = self._clients | {study.hash: client}

    def _reply_interval(self) -> int:
        """One interval for all messages, since studies share the store and wait for it."""
        return max((client.study.reply_interval for client in self._clients.values()), default=0)

    def require_open(self, study: Study) -> None:
        """Raises if an approved study is closed by now; its messages are then refused."""
        is_open = self._site_store.ledger.is_open(study.account)
        own = frozenset({study.hash})
        self._closed_studies = self._closed_studies - own if is_open else self._closed_studies | own
        if not is_open and self._site_store.memory(study.account).last_word() is not None:
            raise ComputationFailed(
                f"study {study.name!r} is finished: its run was closed, and nothing more is asked "
                "in it. To train again, approve a new study."
            )
        if not is_open:
            raise ComputationFailed(
                f"study {study.name!r} is closed in this site's ledger: an answer that was charged "
                "could not be computed, and the audit log says why. Find the cause, revoke the "
                "study, then approve a new one."
            )

    def close(self, study_hash: bytes) -> None:
        """Stops serving a study: messages are refused, and nothing is left to open its rounds."""
        with self._changing:
            self._clients = {h: c for h, c in self._clients.items() if h != study_hash}
        self._site_store.close_study(study_hash.hex())

    def end(self) -> None:
        """Returns once no message is being answered; called before the store is closed."""
        for client in self._clients.values():
            client.end()

    @property
    def studies(self) -> Collection[bytes]:
        return self._clients.keys()

    def handle(self, message: bytes) -> bytes:
        """Answers any bytes with a message or a constant refusal; never raises."""
        try:
            study = Header.read(Reader(message)).study_hash
        except Exception as error:
            return self._refuse(code_of(error), reason_of(error))
        client = self._clients.get(study)
        if client is None and study in self._closed_studies:
            last_word = self._site_store.memory(study.hex()).last_word()
            if last_word is not None and kind_named_by(message) is MessageKind.CLOSE:
                return last_word  # signed, public, and the same for everybody
            return self._refuse(Code.STUDY_CLOSED, f"study {study.hex()} is closed here")
        if client is None:
            return self._refuse(Code.NOT_APPROVED, f"study {study.hex()} is not approved here")
        return client.handle(message)

    def _refuse(self, code: Code, reason: str) -> bytes:
        note_quietly(self.audit, "refused", code=code.value, reason=reason)
        return refusal(code)


SET_EVENTS = {
    MessageKind.SURVIVORS: "signed",
    MessageKind.UNMASK: "opened",
    MessageKind.WITNESS: "witnessed",
    MessageKind.PROVE: "proved",
    MessageKind.DOUBT: "asked for witnesses",
}
"""Messages about a set of members, which is the first field of their bodies."""


class SiteAudit:
    """The audit log of one study: the queries and the answers."""

    def __init__(self, audit: Audit, study: Study, policy: Policy, site_store: SiteStore) -> None:
        self._audit, self._study, self._policy, self._site_store = audit, study, policy, site_store
        self._labels = {"study": study.account, "name": study.name}

    def of_round(self, charges: Sequence[Charge], head: LedgerHead, record: StoredRound) -> None:
        """Writes the line of a round in its transaction, and counts what it uses.

        A round beyond a limit is neither charged nor stored. Its size follows from the queries
        alone.
        """
        line = manifest(self._study, charges, record.header, head)
        volume = self._site_store.take(self._study.account, record, len(json.dumps(line)))
        self._policy.check_volume(self._study, volume)
        self._audit.note("round", **line)

    def of_message(self, kind: MessageKind | None, message: bytes, error: Exception | None) -> None:
        """Notes a message, also a repeated one; rounds have their lines already."""
        if error is not None:
            self._of_refusal(kind, message, error)
        elif kind is MessageKind.JOIN:
            run = Envelope.parse(message).header.run_id.hex()
            self._note("joined", run=run, what=f"run {run[:8]}")
        elif kind is MessageKind.CLOSE:
            self._note("finished", what="the run is closed, and so is the study's account")
        elif kind in SET_EVENTS:
            envelope = Envelope.parse(message)
            members = Reader(envelope.body).members()
            self._note(SET_EVENTS[kind], round=envelope.header.round, members=len(members))

    def _of_refusal(self, kind: MessageKind | None, message: bytes, error: Exception) -> None:
        reason = reason_of(error)
        if isinstance(error, ComputationFailed) and error.__cause__ is not None:
            self._note("closed", round=Envelope.parse(message).header.round, what=reason)
        name = "message" if kind is None else kind.name
        self._note("refused", kind=name, code=code_of(error).value, reason=reason)

    def _note(self, event: str, **fields: Any) -> None:
        note_quietly(self._audit, event, **self._labels, **fields)


def manifest(
    study: Study, charges: Sequence[Charge], header: Header, head: LedgerHead
) -> dict[str, Any]:
    """A round for the audit log: its queries, their costs, and the spending so far.

    A line stays short whatever is asked: it lists a few queries, and identifies all of them by
    their number and a digest. The ledger has each.
    """
    shown = [{"what": c.what[:MOST_WORDS], "cost": _cost(c.cost)} for c in charges[:_SAID_AT_MOST]]
    more = len(charges) - _SAID_AT_MOST
    whole = hashlib.sha256("\n".join(f"{c.what} {_cost(c.cost)}" for c in charges).encode())
    words = "; ".join(query["what"] for query in shown)
    return {
        "study": study.account,
        "name": study.name,
        "run": header.run_id.hex(),
        "round": header.round,
        "said": words + (f"; and {more} more" if more > 0 else ""),
        "queries": shown,
        "asked": len(charges),
        "digest": whole.hexdigest(),
        "spent": f"{_cost(cost_of_text(head.spent))} of {_cost(study.limit)}",
        "measure": study.measure.value,
        "ledger_entry": head.seq,
    }


def _cost(cost: Cost) -> str:
    return format_above(float_above(cost) if isinstance(cost, Fraction) else cost)


def note_quietly(audit: Audit, event: str, **fields: Any) -> None:
    """Notes an event; if the line cannot be written, the site's log says so."""
    try:
        audit.note(event, **fields)
    except Exception as error:
        LOG.error("the audit log lacks a line: %s", event, exc_info=error)
