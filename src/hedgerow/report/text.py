"""A tree and single decisions in words."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
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
    """A fitted model that can return the path of a record."""

    def decision_path(self, X: Any) -> list[Region]: ...
    def cells(self, X: Any) -> Codes: ...


def show_tree(model: Readable, max_depth: int | None = FOLDED_BELOW) -> str:
    """The tree as text: one line per test; at each leaf its class and probability, or mean, and its
    rows.

    Anything deeper than `max_depth` is folded into a line with its number of leaves; None shows
    all.
    """
    lines = list(_lines(view_of(model), "all records", "", max_depth))
    width = max((len(words) for words, leaf in lines if leaf), default=0) + 2
    shown = [f"{words:<{width}}{leaf_words(leaf)}" if leaf else words for words, leaf in lines]
    note = NOTE if model.schema_.classes is None else NOTE + UNSURE
    return "\n".join([*shown, "", note])


def _lines(
    view: View, words: str, indent: str, levels: int | None
) -> Iterator[tuple[str, Leaf | None]]:
    if not isinstance(view, Question):
        yield indent + words, view
    elif levels == 0:
        yield f"{indent}{words} ... {_n_leaves(view)} leaves, folded", None
    else:
        yield indent + words, None
        for side, child in zip(view.sides, view.children, strict=True):
            yield from _lines(child, side, indent + INDENT, None if levels is None else levels - 1)


def _n_leaves(view: View) -> int:
    return sum(map(_n_leaves, view.children)) if isinstance(view, Question) else 1


def leaf_words(leaf: Leaf) -> str:
    """'benign 96%   237 +- 11 rows', or '3.42 +- 0.1   237 +- 11 rows'."""
    rows = f"{leaf.rows:>6.0f} +- {leaf.rows_spread:.0f} rows"
    if isinstance(leaf, Mean):
        return f"{leaf.value:>9.4g} +- {leaf.value_spread:<8.2g} {rows}"
    width = max(map(len, leaf.classes))
    mark = " " if leaf.is_sure else "?"
    return f"{leaf.name:<{width}} {leaf.probability:>4.0%}{mark} {rows}"


def explain(model: Deciding, X: Any) -> list[str]:
    """Explain the prediction of each record.

    For a single tree, gives the path. For a sum of curves and trees, or trees that vote, names the
    columns, and pairs of columns, that changed the score most.
    """
    if not is_one_tree(model):
        return _explain_scores(model, X)
    sentences = dict(
        zip(model.leaf_statistics_[0].tree.regions(), leaf_sentences(model), strict=True)
    )
    return [sentences[region] for region in model.decision_path(X)]


def leaf_sentences(model: Readable) -> list[str]:
    """The sentence of `explain` for a record in each leaf of a single tree, from the left."""
    schema, statistics, out = model.schema_, model.leaf_statistics_[0], list[str]()
    for region, value in zip(statistics.tree.regions(), statistics.leaves, strict=True):
        leaf = leaf_of(schema, value)
        because = " and ".join(path_words(schema, region)) or "the tree has no split"
        records = f"{leaf.rows:.0f} records (+- {leaf.rows_spread:.0f} by noise)"
        if isinstance(leaf, Mean):
            head = f"{leaf.value:.4g} (+- {leaf.value_spread:.2g} by noise)"
        else:
            head = f"{leaf.name}, with probability {leaf.probability:.0%}"
        sentence = f"{head}, because {because}. About {records} went this way."
        if not (isinstance(leaf, Mean) or leaf.is_sure):
            chance = f"{max(leaf.confidence, 0.5):.0%}"
            sentence += f" {TOO_FEW.format(chance)}"
        out.append(sentence)
    return out


TOO_FEW = "That is few against the noise: the class is right with a chance of {}."


def _explain_scores(model: Deciding, X: Any) -> list[str]:
    codes = model.cells(X)
    contribution = contributions(model, codes)
    predictions = model.model_.predict(codes)
    usual = model.model_.read_score(contribution.base[None, :])[0]
    terms = [*((j,) for j in range(len(contribution.features))), *contribution.pairs]
    kinds = "columns and pairs" if contribution.pairs else "columns"
    sentences = []
    for i, (values, prediction) in enumerate(zip(contribution.values, predictions, strict=True)):
        moves = _towards(model.model_, values, int(np.argmax(prediction)))
        order = [int(j) for j in np.argsort(-np.abs(moves), kind="stable") if moves[j] != 0.0]
        reasons = []
        for term in order[:MOST_REASONS]:
            words = (words_at(model, j, int(codes[j, i])) for j in terms[term])
            reasons.append(f"{' with '.join(words)} ({moves[term]:+.2g})")
        if rest := order[MOST_REASONS:]:
            reasons.append(f"{len(rest)} other {kinds} together ({float(moves[rest].sum()):+.2g})")
        because = ", ".join(reasons) or "no column moved the score"
        head = _prediction_words(model, prediction, usual)
        name = (model.schema_.classes or ("",) * len(prediction))[int(np.argmax(prediction))]
        unit = number_words(model, "Numbers in brackets", name)
        sentences.append(f"{head}, because of {because}. {unit}")
    return sentences


def _towards(model: Model, values: FloatArray, winner: int) -> FloatArray:
    """(F,) each column's contribution to the predicted class, or to the number."""
    if model.output is Output.SIGMOID:
        return values[:, 0] if winner == 1 else -values[:, 0]
    if model.output is Output.VALUE or values.shape[1] == 1:
        return values[:, 0]
    others = [k for k in range(values.shape[1]) if k != winner]
    return np.asarray(values[:, winner] - values[:, others].mean(axis=1))


def _prediction_words(model: Deciding, prediction: FloatArray, usual: FloatArray) -> str:
    classes = model.schema_.classes
    if model.model_.survival is not None:
        curve, outcome = model.model_.survival, model.schema_.survival
        assert outcome is not None
        when = outcome.words(curve.edges[-1])
        own, average = 1.0 - curve.chances(np.array([prediction[0], usual[0]]))[:, -1]
        return f"no event until {when} with probability {own:.0%} (average: {average:.0%})"
    if classes is None:
        return f"{prediction[0]:.4g} (an average record: {usual[0]:.4g})"
    best = int(np.argmax(prediction))
    probability = f"{classes[best]}, with probability {prediction[best]:.0%}"
    return f"{probability} (an average record: {usual[best]:.0%})"


def number_words(model: Readable, subject: str, name: str) -> str:
    """What the numbers of an explanation are added to; `name` is that of the class."""
    if model.model_.survival is not None:
        return f"{subject} are added to the log-odds of an event by any time."
    if model.schema_.classes is None:
        return f"{subject} are in units of the target."
    scale = "probability" if model.model_.output is Output.MEAN else "log-odds"
    return f"{subject} are added to the {scale} of {name}."


# Statements on a narrow terminal.

_TITLE = re.compile(r"\s*\S.*?\s{2,}(?=\S)|\s+")
"""A line's title and the gap after it, or the gap alone if the title is above."""


def hanging(text: str, width: int) -> str:
    """Wraps lines to a width; continuation lines are indented to their text."""
    lines = []
    for line in text.splitlines():
        title = _TITLE.match(line)
        indent = " " * min(len(title[0]) if title else 0, width // 2)
        lines.append(textwrap.fill(line, width, subsequent_indent=indent, break_on_hyphens=False))
    return "\n".join(lines)
