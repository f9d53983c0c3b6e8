"""What a run cost and what left the sites: round by round, site by site."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from hedgerow.privacy.accounting.rounding import printed
from hedgerow.privacy.statement.record import RoundRecord, RunRecord
from hedgerow.privacy.statement.spending import Part, Spending
from hedgerow.privacy.statement.statement import PrivacyStatement
from hedgerow.report.page.html import Html, joined, table, tag
from hedgerow.report.page.sections import in_bytes, many, section
from hedgerow.secagg.envelope import SignedHeader

MANIFEST_LINES = 3
"""Of each round; the rest is counted."""
ALIKE = (
    "Every site that answers a round sends as much as the others: lengths follow from the "
    "question, never from rows."
)


def spent(said: PrivacyStatement, signed: dict[str, Any] | None) -> Html:
    if said.spent_fraction is None:
        return section(
            "spent", "What was spent", tag("p", "No noise was added: nothing is bounded.")
        )
    rows = [
        (
            tag("span", tag("span", "", class_=f"chip c{k % 6}"), f" {_round_words(line.rounds)}"),
            line.what,
            f"{line.part:.1%}",
        )
        for k, line in enumerate(said.spending)
    ]
    rows += [
        (tag("span", tag("span", "", class_="chip left"), " left"), p.what, f"{p.part:.1%}")
        for p in said.unspent
    ]
    rows += [
        (
            tag("span", _round_words(s.rounds)),
            f"{s.what}, of records kept out of training",
            f"{s.part:.1%}",
        )
        for s in said.held_out
    ]
    words = (
        f"{said.spent_fraction:.1%} of the budget, by the most charged record; what was asked "
        f"has epsilon {printed(said.spent_epsilon)}."
    )
    return section(
        "spent",
        "What was spent",
        tag("p", words),
        _stack(said.spending, said.unspent),
        table(["Rounds", "For", "Part"], rows, "The budget, round by round"),
        *_site_by_site(said, signed),
    )


def _site_by_site(said: PrivacyStatement, signed: dict[str, Any] | None) -> list[Html]:
    """By the sites' own receipts, where there are any; in one process all paid alike."""
    if signed is None or not said.spent_fraction:
        sites = "the holder" if said.parties == 1 else f"each of the {said.parties} sites"
        words = f"The same charge stands in the ledger of {sites}: every site answers every round."
        return [tag("p", words, class_="small")]
    paid = _receipts(signed["receipts"])
    most = max(paid.values())
    rows = [
        (name, f"{float(cost / most) * said.spent_fraction:.1%}" if most else "0.0%")
        for name, cost in paid.items()
    ]
    note = (
        "By each site's own signed receipt. This page does not check signatures; `hedgerow verify` "
        "with the study's file does."
    )
    return [
        table(["Site", "Spent of the budget"], rows, "The budget, site by site"),
        tag("p", note, class_="small"),
    ]


def _receipts(told: dict[str, str]) -> dict[str, Fraction]:
    found = {name: SignedHeader.read(bytes.fromhex(text)) for name, text in sorted(told.items())}
    return {name: Fraction(one.header.ledger.spent) for name, one in found.items()}


def _round_words(rounds: str) -> str:
    return f"round {rounds}" if rounds[:1].isdigit() else rounds


def _stack(spending: Sequence[Spending], unspent: Sequence[Part]) -> Html:
    x, parts = 0.0, []
    for k, line in enumerate(spending):
        parts.append(_slice(x, line.part, f"c{k % 6}"))
        x += line.part
    for left in unspent:
        parts.append(_slice(x, left.part, "left"))
        x += left.part
    label = f"A bar of the whole budget; {sum(p.part for p in spending):.1%} of it was spent."
    return Html(
        f'<svg class="stack" viewBox="0 0 620 22" preserveAspectRatio="none" role="img" '
        f'aria-label="{label}">{"".join(parts)}</svg>'
    )


def _slice(start: float, part: float, kind: str) -> str:
    return (
        f'<rect class="{kind}" x="{620 * start:.2f}" y="0" width="{620 * part:.2f}" height="22"/>'
    )


def left(run: RunRecord, said: PrivacyStatement) -> Html:
    out, back = sum(r.bytes_out for r in run.rounds), sum(r.bytes_in for r in run.rounds)
    who = "The holder answered" if said.parties == 1 else "Each site answered"
    words = (
        f"{who} {many(len(run.rounds), 'round')} with {sum(r.integers for r in run.rounds)} whole "
        f"numbers in all: {in_bytes(out)} out, {in_bytes(back)} in. No row, and no number without "
        "noise, is among them."
    )
    if said.spent_fraction is None:
        words = words.partition(" No row")[0] + " No noise was added to them."
    rows = [
        (
            f"{r.number}{' (failed)' if r.void else ''}",
            _manifest(r),
            "" if r.sites is None else str(r.sites),
            str(r.integers),
            in_bytes(r.bytes_out),
        )
        for r in run.rounds
    ]
    rounds = table(
        ["Round", "Asked", "Sites", "Numbers", "Sent"], rows, "Every round, as a site saw it"
    )
    return section(
        "left",
        "What left each site",
        tag("p", words),
        *([tag("p", ALIKE, class_="small")] if said.parties > 1 else []),
        tag("details", tag("summary", f"All {len(rows)} rounds"), rounds),
    )


def _manifest(record: RoundRecord) -> Html:
    lines = [tag("div", line) for line in record.manifest[:MANIFEST_LINES]]
    more = len(record.manifest) - MANIFEST_LINES
    return joined([*lines, *([tag("div", f"and {more} more", class_="small")] if more > 0 else [])])
