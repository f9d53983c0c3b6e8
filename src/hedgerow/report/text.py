"""A tree and single decisions in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from hedgerow.report.view import Fitted, Leaf, Mean, Question, View, leaf_of, path_words, view_of
from hedgerow.values.regions import Region

INDENT = "  "
NOTE = "Numbers carry noise (+- is two deviations)."
UNSURE = " ? marks a class that noise alone could change."


class Deciding(Fitted, Protocol):
    """A fitted tree that can say which way a record goes."""

    def decision_path(self, X: Any) -> list[Region]: ...


def show_tree(model: Fitted) -> str:
    """The tree as text: a line per test; at each leaf class and probability, or mean; rows."""
    lines = list(_lines(view_of(model), "all records", ""))
    width = max(len(words) for words, said in lines if said) + 2
    shown = [f"{words:<{width}}{leaf_words(said)}" if said else words for words, said in lines]
    note = NOTE if model.schema_.classes is None else NOTE + UNSURE
    return "\n".join([*shown, "", note])


def _lines(view: View, words: str, indent: str) -> Iterator[tuple[str, Leaf | None]]:
    if not isinstance(view, Question):
        yield indent + words, view
        return
    yield indent + words, None
    for side, child in zip(view.sides, view.children, strict=True):
        yield from _lines(child, side, indent + INDENT)


def leaf_words(said: Leaf) -> str:
    """'benign 96%   237 +- 11 rows', or '3.42 +- 0.1   237 +- 11 rows'."""
    rows = f"{said.rows:>6.0f} +- {said.rows_spread:.0f} rows"
    if isinstance(said, Mean):
        return f"{said.value:>9.4g} +- {said.value_spread:<8.2g} {rows}"
    width = max(map(len, said.classes))
    mark = " " if said.is_sure else "?"
    return f"{said.name:<{width}} {said.probability:>4.0%}{mark} {rows}"


def explain(model: Deciding, X: Any) -> list[str]:
    """Why each record is called what it is called, or given its number."""
    view_of(model)  # refuses what is not one tree
    schema, grown = model.schema_, model.grown_[0]
    leaves = dict(zip(grown.tree.regions(), grown.leaves, strict=True))
    return [
        _explained(leaf_of(schema, leaves[region]), path_words(schema, region))
        for region in model.decision_path(X)
    ]


def _explained(said: Leaf, reasons: Sequence[str]) -> str:
    because = " and ".join(reasons) or "the tree asks nothing"
    return f"{_head(said)}, because {because}. {_tail(said)}"


def _head(said: Leaf) -> str:
    if isinstance(said, Mean):
        return f"{said.value:.4g} (+- {said.value_spread:.2g} by noise)"
    return f"{said.name}, with probability {said.probability:.0%}"


def _tail(said: Leaf) -> str:
    rows = f"About {said.rows:.0f} records (+- {said.rows_spread:.0f} by noise) went this way."
    if isinstance(said, Mean) or said.is_sure:
        return rows
    chance = f"{max(said.confidence, 0.5):.0%}"
    return f"{rows} That is few against the noise: the class is right with a chance of {chance}."
