"""A site's ledger for people: read from its state folder, also while a service writes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from hedgerow.deployment.approve import ledger_of, printed_cost
from hedgerow.deployment.site_state import StateFolder
from hedgerow.privacy.ledger.events import (
    Approved,
    Charged,
    Closed,
    Event,
    LifetimeSet,
    Reconciled,
    Restored,
    SetOpened,
)


def told_ledger(root: Path) -> Iterator[str]:
    """One line for each entry, then one line for each study."""
    with ledger_of(StateFolder.open(root)) as ledger:
        ledger.verify()
        if ledger.head()[0] == 0:
            yield "no entry yet: this site has given nothing away."
        for entry, event in ledger.entries():
            yield f"{entry.seq:>6}  {_words(event)}"
        with ledger.current() as books:
            for account in books.accounts.values():
                state = "open" if account.open else "ended"
                spent = f"spent {printed_cost(account.spent)} of {printed_cost(account.cap)}"
                yield f"{account.name or 'a study'} ({state}): {spent} ({account.measure.value})"


def verified_ledger(root: Path) -> str:
    with ledger_of(StateFolder.open(root)) as ledger:
        ledger.verify()
        seq, head = ledger.head()
    return f"{seq} entries, head {head.hex()}: all links, signatures and sums are ok."


def exported_ledger(root: Path) -> Iterator[str]:
    """First the key, then all that is needed to check every link and signature with it."""
    state = StateFolder.open(root)
    yield json.dumps({"site": state.name, "key": state.identity().public.hex()})
    with ledger_of(state) as ledger:
        ledger.verify()
        for entry, _ in ledger.entries():
            yield json.dumps(
                {
                    "seq": entry.seq,
                    "body": entry.body,
                    "head": entry.head.hex(),
                    "signature": entry.signature.hex(),
                }
            )


def _words(event: Event) -> str:
    match event:
        case LifetimeSet(measure, limit):
            return f"lifetime limit {printed_cost(limit)} ({measure.value})"
        case Approved(study, measure, cap, name):
            return f"approved {name or study[:16]}: up to {printed_cost(cap)} ({measure.value})"
        case Charged(study, round_id, charges):
            first, more = charges[0].what, len(charges) - 1
            return f"charged {study[:8]} round {_round(round_id)}: {first}" + (
                f"; and {more} more" if more else ""
            )
        case SetOpened(study, round_id):
            return f"opened {study[:8]} round {_round(round_id)}"
        case Closed(study):
            return f"ended {study[:16]}"
        case Restored(after):
            return f"restored from a copy that ended at entry {after}"
        case Reconciled():
            return "receipts showed what was lost"


def _round(round_id: str) -> str:
    run, _, number = round_id.partition("/")
    return f"{number} of run {run[:8]}" if number else round_id
