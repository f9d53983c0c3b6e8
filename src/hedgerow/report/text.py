"""A tree and single decisions in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from hedgerow.regions import Region
from hedgerow.report.view import Fitted, Question, Verdict, View, path_words, verdict, view_of

INDENT = "  "
NOTE = "Numbers carry noise (+- is two deviations). ? marks a class that noise alone could change."


class Deciding(Fitted, Protocol):
    """A fitted tree that can say which way a record goes."""

    def decision_path(self, X: Any) -> list[Region]: ...


def show_tree(model: Fitted) -> str:
    """The tree as text: a line per test, and at each leaf class, probability, rows."""
    lines = list(_lines(view_of(model), "all records", ""))
    width = max(len(words) for words, said in lines if said) + 2
    shown = [f"{words:<{width}}{leaf_words(said)}" if said else words for words, said in lines]
    return "\n".join([*shown, "", NOTE])


def _lines(view: View, words: str, indent: str) -> Iterator[tuple[str, Verdict | None]]:
    if isinstance(view, Verdict):
        yield indent + words, view
        return
    assert isinstance(view, Question)
    yield indent + words, None
    for side, child in zip(view.sides, view.children, strict=True):
        yield from _lines(child, side, indent + INDENT)


def leaf_words(said: Verdict) -> str:
    """'benign 96%   237 +- 11 rows'."""
    width = max(map(len, said.classes))
    mark = " " if said.is_sure else "?"
    return (
        f"{said.name:<{width}} {said.probability:>4.0%}{mark} "
        f"{said.rows:>6.0f} +- {said.rows_spread:.0f} rows"
    )


def explain(model: Deciding, X: Any) -> list[str]:
    """Why each record is called what it is called."""
    schema, grown = model.schema_, model.grown_[0]
    view_of(model)
    leaves = dict(zip(grown.tree.regions(), grown.leaves, strict=True))
    return [
        _explained(verdict(schema, leaves[region]), path_words(schema, region))
        for region in model.decision_path(X)
    ]


def _explained(said: Verdict, reasons: Sequence[str]) -> str:
    head = f"{said.name}, with probability {said.probability:.0%}"
    because = " and ".join(reasons) or "the tree asks nothing"
    tail = f"About {said.rows:.0f} records (+- {said.rows_spread:.0f} by noise) went this way."
    if not said.is_sure:
        chance = f"{max(said.confidence, 0.5):.0%}"
        tail += f" That is few against the noise: the class is right with a chance of {chance}."
    return f"{head}, because {because}. {tail}"
