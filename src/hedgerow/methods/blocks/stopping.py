"""When a node is not asked, or asked and not split: from noisy numbers and public facts alone.

These wrap a chooser. What a node does not spend, its leaf may.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np

from hedgerow.errors import SpecError
from hedgerow.methods.blocks.builder import Choice, Chooser, Evidence, Node, Stop
from hedgerow.methods.blocks.flow import Flow, Quote
from hedgerow.methods.blocks.histograms import PATIENCE, above_of
from hedgerow.privacy.queries import Summed


def if_worthwhile(choose: Chooser, *, min_fraction: float, min_gain: float) -> Chooser:
    """Keeps splits of nodes that hold `min_fraction` of all rows and gain more than `min_gain`.

    Wang, Dick and Balcan 2020, Algorithm 1 line 12 (weight at least error / M) and section 4
    (J <= 0.01 is not pushed). Departures: weight and gain come from one table, not from two
    queries; the total is the root's noisy one, not the private |S|; a node that its parent's
    answer surely calls too light is not asked at all.
    """

    def chosen(node: Node, rng: np.random.Generator) -> Flow[Choice | Stop]:
        if surely_below(node, min_fraction):
            return Stop()
        found = yield from choose(node, rng)
        if isinstance(found, Stop):
            return found
        rows = sum(_rows(side) for side in found.evidence)
        whole = rows_of_all(node)
        light = whole is not None and rows < min_fraction * whole
        if rows <= 0.0 or light or found.gain <= min_gain * rows:
            return Stop(found.spent)
        return found

    return chosen


def rows_of_all(node: Node) -> float | None:
    """As many as the root was told to have; nothing is above the root itself."""
    above = above_of(node)
    return above[0].rows if above else None


def _rows(evidence: Evidence | None) -> float:
    if evidence is None:
        raise SpecError(
            "a split came without the rows of its sides, and weights were to be compared; use a "
            "chooser that reads tables or counts."
        )
    return evidence.rows


def surely_below(node: Node, min_fraction: float) -> bool:
    """Too light by more than noise can explain."""
    whole = rows_of_all(node)
    if whole is None:
        return False
    known = node.evidence
    assert known is not None  # whoever has nodes above it has evidence of itself
    deviation = math.sqrt(known.variance * len(known.masses))
    return known.rows + PATIENCE * deviation < min_fraction * whole


def if_audible(
    choose: Chooser, counts: Callable[[Node], Summed], quote: Quote, *, ask_all: bool = False
) -> Chooser:
    """Asks a node only if one cell's noise would be smaller than all its rows together.

    Budgets that halve with every level make deep answers pure noise. Not asking them costs
    nothing and leaves their budget to the leaf. With `ask_all` all nodes are asked, as the paper
    does, until noise so wide cannot be drawn.
    """
    noise: dict[Fraction, float] = {}  # depends on the share alone, and few shares differ

    def chosen(node: Node, rng: np.random.Generator) -> Flow[Choice | Stop]:
        query = counts(node)
        if query.share not in noise:
            noise[query.share] = _deviation(query, quote)
        rows = math.inf if ask_all or node.evidence is None else node.evidence.rows
        if noise[query.share] >= rows:
            return Stop()
        return (yield from choose(node, rng))

    return chosen


def _deviation(query: Summed, quote: Quote) -> float:
    """Infinite where noise that wide cannot be drawn exactly."""
    try:
        return math.sqrt(quote.variance(query))
    except SpecError:
        return math.inf
