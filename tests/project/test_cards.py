"""Every registered mechanism, statistic and conversion has a card, and cards name what exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import make_cards
from docs.make_cards import KINDS, Card, cards, registered
from hedgerow.privacy.queries import STATISTICS
from proofs import check, replay

ROOT = Path(__file__).parents[2]
CARDS = cards()
NAMED = re.compile(r"^\s*(?:Theorem|Definition)\s+([\w']+)", re.MULTILINE)


def proved() -> set[str]:
    """FILE.NAME of all theorems and definitions."""
    return {
        f"{path.stem}.{name}"
        for path in check.FOLDER.glob("*.v")
        for name in NAMED.findall(check.without_comments(path.read_text(encoding="utf-8")))
    }


def missing() -> dict[str, set[str]]:
    """By kind, registered names without a card, and cards of what is not registered."""
    shown = {kind: {card.name for card in CARDS if card.kind == kind} for kind in KINDS}
    found = {kind: names ^ shown[kind] for kind, names in registered().items()}
    return {kind: names for kind, names in found.items() if names}


def unknown(card: Card) -> list[str]:
    """What a card names and is not there."""
    found = [name for name in card.theorems if name not in proved()]
    found += [p for p in card.pages if not (ROOT / "docs" / "proofs" / f"{p}.md").exists()]
    for name in card.tests:
        file, _, test = name.partition("::")
        path = ROOT / "tests" / file
        if not path.exists() or f"def {test}(" not in path.read_text(encoding="utf-8"):
            found.append(name)
    return found


def test_everything_registered_has_a_card_and_nothing_else_has():
    assert missing() == {}
    assert all(registered().values())


def test_a_new_statistic_without_a_card_is_seen(monkeypatch):
    monkeypatch.setitem(STATISTICS, "Forgotten", object)
    assert missing() == {"statistic": {"Forgotten"}}


@pytest.mark.parametrize("card", CARDS, ids=lambda card: f"{card.kind}-{card.name}")
def test_a_card_names_what_exists(card):
    assert unknown(card) == []
    assert card.tests
    assert card.kind in KINDS


def test_a_card_that_names_what_is_not_there_is_seen():
    card = Card("noise", "x", "y", ("Laplace.nothing",), ("nothing",), ("privacy/nothing.py::t",))
    assert len(unknown(card)) == 3


def test_what_has_no_theorem_has_a_page():
    bare = {card.name for card in CARDS if not card.theorems and not card.pages}
    assert bare == {"NoNoise"}  # which guarantees nothing


def test_cards_and_replay_agree_on_what_is_held_to_its_proof():
    for card in CARDS:
        if card.kind in ("statistic", "grouping"):
            assert card.replayed == (card.name not in replay.ON_PAPER), card.name
        if card.kind == "score":
            assert card.replayed == (card.name not in replay.SCORES_ON_PAPER), card.name


def test_the_page_shows_every_card():
    text = make_cards.page()
    assert all(f"### {card.name}\n" in text for card in CARDS)
    assert "verified software" not in text
