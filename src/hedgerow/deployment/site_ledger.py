"""A site's ledger for people: read from its state folder, also while a service writes it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from hedgerow.deployment.approve import ledger_of, printed_cost
from hedgerow.deployment.site_state import StateFolder
from hedgerow.methods.ledger import Ledger
from hedgerow.privacy.accounting import conversions
from hedgerow.privacy.accounting.budget import Measure
from hedgerow.privacy.accounting.rounding import float_above, format_above
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
    """First the key, then everything needed to verify each link and signature with it."""
    state = StateFolder.open(root)
    yield json.dumps({"site": state.name, "key": state.identity().public.hex()})
    with ledger_of(state) as ledger:
        ledger.verify()
        for entry, _ in ledger.entries():
            signed = {"head": entry.head.hex(), "signature": entry.signature.hex()}
            yield json.dumps({"seq": entry.seq, "body": entry.body, **signed})


def lifetime_lines(path: Path) -> list[tuple[str, str]]:
    """All studies of the same records together, of a site's state folder or of a fits' ledger."""
    if not path.is_dir():
        total = Ledger(path).verify()
        return [("together", total.summary), ("fits", str(total.fits))]
    state = StateFolder.open(path)
    with ledger_of(state) as ledger:
        ledger.verify()
        with ledger.current() as books:
            spent, accounts = books.committed, list(books.accounts.values())
    rules = state.policy()
    measure, _ = rules.lifetime
    together = f"{measure.value} {printed_cost(spent)}"
    if measure is not Measure.PURE and isinstance(spent, Fraction):
        epsilon = format_above(conversions.epsilon_of(measure, spent, rules.lifetime_delta))
        together = f"epsilon {epsilon} at delta {format_above(float_above(rules.lifetime_delta))}"
    limit = f"epsilon {printed_cost(rules.lifetime_epsilon)}"
    lines = [("together", f"{together}, of {limit} allowed at {state.name}")]
    for account in accounts:
        words = f"at most {printed_cost(account.cap)} ({account.measure.value})"
        lines.append((account.name or "a study", words))
    return lines


def _words(event: Event) -> str:
    match event:
        case LifetimeSet(measure, limit):
            return f"lifetime limit {printed_cost(limit)} ({measure.value})"
        case Approved(study, measure, cap, name):
            return f"approved {name or study[:16]}: up to {printed_cost(cap)} ({measure.value})"
        case Charged(study, round_id, charges):
            more = f"; and {len(charges) - 1} more" if len(charges) > 1 else ""
            return f"charged {study[:8]} round {_round(round_id)}: {charges[0].what}{more}"
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
