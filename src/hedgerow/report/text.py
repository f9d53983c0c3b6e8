"""A tree and single decisions in words."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from hedgerow.models.model import Model, Output
from hedgerow.report.importances import contributions, words_at
from hedgerow.report.view import (
    Leaf,
    Mean,
    Question,
    View,
    is_one_tree,
    leaf_of,
    path_words,
    view_of,
)
from hedgerow.report.weighing import Readable
from hedgerow.schema.arrays import Codes, FloatArray
from hedgerow.schema.regions import Region

INDENT = "  "
NOTE = "Numbers carry noise (+- is two deviations)."
UNSURE = " ? marks a class that noise alone could change."


FOLDED_BELOW = 6
MOST_REASONS = 5


class Deciding(Readable, Protocol):
    """A fitted model that can say which way a record goes."""

    def decision_path(self, X: Any) -> list[Region]: ...
    def cells(self, X: Any) -> Codes: ...


def show_tree(model: Readable, max_depth: int | None = FOLDED_BELOW) -> str:
    """The tree as text: a line per test; at each leaf class and probability, or mean; rows.

    What is deeper than `max_depth` is folded into a line that says how many leaves it holds; None
    shows all.
    """
    lines = list(_lines(view_of(model), "all records", "", max_depth))
    width = max((len(words) for words, said in lines if said), default=0) + 2
    shown = [f"{words:<{width}}{leaf_words(said)}" if said else words for words, said in lines]
    note = NOTE if model.schema_.classes is None else NOTE + UNSURE
    return "\n".join([*shown, "", note])


def _lines(
    view: View, words: str, indent: str, levels: int | None
) -> Iterator[tuple[str, Leaf | None]]:
    if not isinstance(view, Question):
        yield indent + words, view
        return
    if levels == 0:
        yield f"{indent}{words} ... {_n_leaves(view)} leaves, folded", None
        return
    yield indent + words, None
    for side, child in zip(view.sides, view.children, strict=True):
        yield from _lines(child, side, indent + INDENT, None if levels is None else levels - 1)


def _n_leaves(view: View) -> int:
    return sum(map(_n_leaves, view.children)) if isinstance(view, Question) else 1


def leaf_words(said: Leaf) -> str:
    """'benign 96%   237 +- 11 rows', or '3.42 +- 0.1   237 +- 11 rows'."""
    rows = f"{said.rows:>6.0f} +- {said.rows_spread:.0f} rows"
    if isinstance(said, Mean):
        return f"{said.value:>9.4g} +- {said.value_spread:<8.2g} {rows}"
    width = max(map(len, said.classes))
    mark = " " if said.is_sure else "?"
    return f"{said.name:<{width}} {said.probability:>4.0%}{mark} {rows}"


def explain(model: Deciding, X: Any) -> list[str]:
    """Why each record is called what it is called, or given its number.

    A single tree names its path. Of a sum of curves and trees, or of trees that vote, the columns
    are named that moved the score most.
    """
    if not is_one_tree(model):
        return _moved(model, X)
    said = dict(zip(model.grown_[0].tree.regions(), leaf_sentences(model), strict=True))
    return [said[region] for region in model.decision_path(X)]


def leaf_sentences(model: Readable) -> list[str]:
    """What `explain` says of a record in each leaf of a single tree, leaves from the left."""
    schema, grown = model.schema_, model.grown_[0]
    return [
        _explained(leaf_of(schema, leaf), path_words(schema, region))
        for region, leaf in zip(grown.tree.regions(), grown.leaves, strict=True)
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


def _moved(model: Deciding, X: Any) -> list[str]:
    codes = model.cells(X)
    found = contributions(model, codes)
    said = model.model_.predict(codes)
    usual = model.model_.read_score(found.base[None, :])[0]
    return [
        _decision(model, codes[:, i], found.values[i], said[i], usual) for i in range(len(said))
    ]


def _decision(
    model: Deciding, codes: Codes, values: FloatArray, said: FloatArray, usual: FloatArray
) -> str:
    """`values` is (F, O): what each column added to the score of one record."""
    moves = _towards(model.model_, values, int(np.argmax(said)))
    order = [int(j) for j in np.argsort(-np.abs(moves), kind="stable") if moves[j] != 0.0]
    named = [f"{words_at(model, j, int(codes[j]))} ({moves[j]:+.2g})" for j in order[:MOST_REASONS]]
    rest = order[MOST_REASONS:]
    if rest:
        named.append(f"{len(rest)} other columns together ({float(moves[rest].sum()):+.2g})")
    because = ", ".join(named) or "no column moved the score"
    return f"{_said(model, said, usual)}, because of {because}. {_unit(model, said)}"


def _towards(model: Model, values: FloatArray, winner: int) -> FloatArray:
    """(F,) what each column added in favour of the class that is named, or to the number."""
    if model.output is Output.SIGMOID:
        return values[:, 0] if winner == 1 else -values[:, 0]
    if model.output is Output.VALUE or values.shape[1] == 1:
        return values[:, 0]
    others = [k for k in range(values.shape[1]) if k != winner]
    return np.asarray(values[:, winner] - values[:, others].mean(axis=1))


def _said(model: Deciding, said: FloatArray, usual: FloatArray) -> str:
    classes = model.schema_.classes
    if classes is None:
        return f"{said[0]:.4g} (a middling record: {usual[0]:.4g})"
    best = int(np.argmax(said))
    return (
        f"{classes[best]}, with probability {said[best]:.0%} (a middling record: {usual[best]:.0%})"
    )


def _unit(model: Deciding, said: FloatArray) -> str:
    classes = model.schema_.classes
    if classes is None:
        return "Numbers in brackets are in units of the target."
    name = classes[int(np.argmax(said))]
    if model.model_.output is Output.MEAN:
        return f"Numbers in brackets are added to the probability of {name}."
    return f"Numbers in brackets are added to the log-odds of {name}."


# --------------------------------------------------------------------------------------------------
# Statements on a narrow terminal.

_TITLE = re.compile(r"\s*\S.*?\s{2,}(?=\S)|\s+")
"""A line's title and the gap behind it, or the gap alone where the title stands above."""


def hanging(text: str, width: int) -> str:
    """Lines within a width; what does not fit goes on under where its words began."""
    return "\n".join(_within(line, width) for line in text.splitlines())


def _within(line: str, width: int) -> str:
    title = _TITLE.match(line)
    indent = min(len(title[0]) if title else 0, width // 2)
    return textwrap.fill(line, width, subsequent_indent=" " * indent, break_on_hyphens=False)
