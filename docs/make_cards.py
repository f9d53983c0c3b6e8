"""The page of cards: for each part of a guarantee, its statement and who checked it how.

Made of docs/cards.toml when the site is built. `registered` says what must have a card.
"""

from __future__ import annotations

import inspect
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from hedgerow.models import losses
from hedgerow.privacy.accounting import conversions
from hedgerow.privacy.mechanisms.mechanisms import NoiseLaw
from hedgerow.privacy.mechanisms.response import BloomRandomizedResponse, RandomizedResponse
from hedgerow.privacy.queries import GROUPINGS, STATISTICS, Mechanism, Query, Score

FILE = Path(__file__).with_name("cards.toml")
KINDS = {
    "system": "What holds it together",
    "query": "Queries",
    "statistic": "Statistics",
    "grouping": "Groupings",
    "loss": "Losses",
    "score": "Scores of splits",
    "selection mechanism": "Selection mechanisms",
    "noise": "Noise",
    "label mechanism": "Mechanisms for labels",
    "conversion": "Conversions",
}
UNPRICED = ("check_", "is_", "warn_")
"""Functions of conversions.py that convert nothing."""
HEAD = """# Cards: what was checked, and how

For reviewers. Each part that a guarantee rests on has a card: its statement, where it is proved,
how the code is tested, and who has checked it. *By machine* names theorems of `proofs/`, which
`make proofs` checks; *code held to the proof* says that the code's own numbers are compared with
the proved functions. [What is proved how](proofs/evidence.md) sums
it up.

No outside reader has checked any card yet. If you have, tell us: your name goes on the card.

{table}
"""


@dataclass(frozen=True)
class Card:
    """One part of the privacy argument."""

    kind: str
    name: str
    statement: str
    theorems: tuple[str, ...] = ()
    pages: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()
    replayed: bool = False
    remark: str = ""
    reader: str = "none yet"
    since: str = "0.1.0"

    @property
    def proof(self) -> str:
        """How it is proved, in two words."""
        parts = [word for word, here in (("machine", self.theorems), ("paper", self.pages)) if here]
        return " and ".join(parts) or "none needed"


def cards(path: Path = FILE) -> list[Card]:
    entries: list[dict[str, Any]] = tomllib.loads(path.read_text(encoding="utf-8"))["card"]
    return [Card(**{key: _value(value) for key, value in entry.items()}) for entry in entries]


def _value(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def registered() -> dict[str, set[str]]:
    """By kind, the names that must have a card."""
    here = conversions.__name__
    own = {n for n, made in vars(conversions).items() if getattr(made, "__module__", "") == here}
    classes = dict(inspect.getmembers(losses, inspect.isclass))
    return {
        "query": {kind.__name__ for kind in get_args(Query)},
        "statistic": set(STATISTICS),
        "grouping": set(GROUPINGS),
        "loss": {n for n, c in classes.items() if hasattr(c, "contributions") and n != "Loss"},
        "score": {score.name for score in Score},
        "selection mechanism": {one.name for one in Mechanism},
        "noise": {law.__name__ for law in get_args(NoiseLaw)},
        "label mechanism": {RandomizedResponse.__name__, BloomRandomizedResponse.__name__},
        "conversion": {n for n in own if not n.startswith(("_", *UNPRICED))},
    }


def page() -> str:
    every = cards()
    parts = [HEAD.format(table=_table(every))]
    for kind, title in KINDS.items():
        parts.append(f"## {title}\n")
        parts += [_shown(card) for card in every if card.kind == kind]
    return "\n".join(parts)


def _table(every: list[Card]) -> str:
    lines = ["| kind | cards | proved by machine | on paper | code held to the proof |"]
    lines += ["|---|---|---|---|---|"]
    for kind, title in KINDS.items():
        some = [card for card in every if card.kind == kind]
        counts = (
            len(some),
            sum(bool(card.theorems) for card in some),
            sum(bool(card.pages) and not card.theorems for card in some),
            sum(card.replayed for card in some),
        )
        lines.append(f"| {title} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines)


def _shown(card: Card) -> str:
    machine = ", ".join(f"`{name}`" for name in card.theorems) or "no"
    paper = ", ".join(f"[{name}](proofs/{name}.md)" for name in card.pages) or "no"
    tests = ", ".join(f"`{name}`" for name in card.tests)
    remark = f" {card.remark}" if card.remark else ""
    held = "yes" if card.replayed else "no"
    return (
        f"### {card.name}\n\n{card.statement}{remark}\n\n"
        f"* by machine: {machine}\n* on paper: {paper}\n* by test: {tests}\n"
        f"* code held to the proof: {held}; outside reader: {card.reader}; since {card.since}\n"
    )
