"""Names of variables, parameters and fields are nouns: few are bare participles or pronouns."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "hedgerow"
CEILING = 0.032
"""Largest allowed part of all names; the goal is 0.01."""
LISTED = """
    found said told known given asked held kept one what who each other made done sent put taken
    drawn seen meant heard begun opened closed counted paid saved joined grown pulled stacked agreed
    named allowed moved wanted read written called met used needed missed listed turned gone
"""
BARE_WORDS = frozenset(LISTED.split())
PARTICIPLE = re.compile(r"[a-z]{2,}ed")
NOUNS = frozenset({"seed", "need", "speed", "feed", "shed"})


def stored_names(tree: ast.AST) -> Iterator[str]:
    """Every name that is assigned to, as a variable, an attribute or a parameter."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr


def is_bare(name: str) -> bool:
    """Whether a name is a participle or a pronoun without its noun."""
    word = name.strip("_")
    return word in BARE_WORDS or (bool(PARTICIPLE.fullmatch(word)) and word not in NOUNS)


def test_few_names_are_bare_participles_or_pronouns():
    total, bare = 0, dict[str, list[str]]()
    for file in sorted(SOURCE.rglob("*.py")):
        names = list(stored_names(ast.parse(file.read_text("utf-8"))))
        total += len(names)
        bare[str(file.relative_to(SOURCE))] = [name for name in names if is_bare(name)]
    count = sum(map(len, bare.values()))
    worst = sorted(bare.items(), key=lambda entry: -len(entry[1]))[:5]
    assert total > 10_000
    assert count <= CEILING * total, f"{count} of {total} names are bare words, most in {worst}"


def test_bare_words_are_seen_wherever_a_name_is_stored():
    source = "def f(told, seed):\n    found, x = told, seed\n    x.kept = [one for one in x]\n"
    names = list(stored_names(ast.parse(source)))
    assert sorted(filter(is_bare, names)) == ["found", "kept", "one", "told"]
    assert len(names) == 6


def test_names_with_a_head_noun_pass():
    assert is_bare("_saved")
    assert is_bare("clipped")
    assert not any(map(is_bare, ("noisy_counts", "kept_rows", "split_gains", "seed")))
