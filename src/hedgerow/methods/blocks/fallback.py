"""Do no harm: where noise hides the records, the classes' shares or the mean, and a word about it.

A model from tables that are all noise predicts worse than no model: its probabilities are made of
noise. Below the signal at which a recipe beats these, they are what it gives.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from hedgerow.methods.blocks.calibration import Levelling
from hedgerow.methods.blocks.flow import Flow, Quote, ask
from hedgerow.methods.blocks.goal import COUNT_IS_SEEN, Goal, Opening, RecordCount, looked_again
from hedgerow.methods.method import Trained, mean_of
from hedgerow.models.tree import Tree
from hedgerow.models.uncertainty import Grown
from hedgerow.privacy.queries import SumQuery, Whole
from hedgerow.schema.arrays import FloatArray
from hedgerow.schema.regions import EVERYONE
from hedgerow.schema.schema import Schema

HARMFUL, HARMFUL_OF_NUMBERS = 2.0, 10.0
"""Signal below which even trees drawn blindly say less than the shares, or than the mean."""
HARMFUL_OF_ONE_SUM, HARMFUL_IF_PURE = 8.0, 40.0
"""Rows per noise of one sum below which they say less than the shares, however few the columns
are, if noise is Gaussian or Laplace."""
PRECISE = 0.01  # part of the records: noise of a share below which more budget buys nothing
LEAST_KEPT = 0.1  # part of a difference that is always told, to name the likelier class
EVEN_UNTIL = 2.0  # deviations of their noise by which shares must differ from even ones to be told
LOOK_FOR_A_MEAN = Fraction(1, 2)  # of what is left, where no cell of a target has stood out yet
MEAN_UNSEEN = 0.5  # part of the rows that may be hidden there: a mean needs most of them, not all


def is_harmful(opened: Opening, quote: Quote) -> bool:
    """Whether trees would say less than the shares or the mean, or nobody can tell.

    A target that noise hides everywhere may lie in a small part of its public range.
    """
    if not (opened.records.is_seen and opened.goal.is_seen):
        return True
    if opened.goal.shape is not None:
        return opened.signal < HARMFUL_OF_NUMBERS
    if quote.is_pure:
        return opened.sure < HARMFUL_IF_PURE
    return opened.signal < HARMFUL or opened.sure < HARMFUL_OF_ONE_SUM


def levelling_of(opened: Opening, schema: Schema, quote: Quote) -> Levelling | None:
    """What puts the mean of a number right at the end; classes need none."""
    shape = opened.goal.shape
    if schema.target is None or shape is None:
        return None
    return Levelling.of(schema.target, shape, opened.rows, quote)


def shares_or_mean(opened: Opening, schema: Schema, quote: Quote) -> Flow[Trained]:
    """The classes' shares; or the mean, after a last look at where the target lies.

    A mean over a public range a hundred times too wide has a hundred times the noise. So if no
    cell of the target stood out, half of what is left is spent to find one that does.
    """
    goal, records, rest = opened.goal, opened.records, 1 - opened.spent
    if schema.target is not None and not goal.is_seen:
        share = LOOK_FOR_A_MEAN * rest
        goal = yield from looked_again(schema.target, records, share, quote, MEAN_UNSEEN)
        rest -= share
    return (yield from shares_alone(schema, goal, records, rest, quote))


def shares_alone(
    schema: Schema, goal: Goal, records: RecordCount, rest: Fraction, quote: Quote
) -> Flow[Trained]:
    """A tree of one leaf that says the classes' shares, or the mean of the target.

    Spends what makes a share precise to a hundredth, at most all that is left.
    """
    share = _enough(goal, records, rest, quote)
    answer = yield from ask(SumQuery(EVERYONE, goal.statistic, Whole(), share))
    masses = answer.values[0, 0]
    least = LEAST_KEPT if goal.shape is None else 0.0  # a mean names no class
    leaf = goal.leaf(believed(masses, answer.variance, least), masses, answer.variance)
    tree = Tree.build(schema.names, {EVERYONE: tuple(leaf.value.tolist())})
    return Trained(mean_of([tree]), (Grown(tree, (leaf,)),), _words(goal, records))


def _enough(goal: Goal, records: RecordCount, rest: Fraction, quote: Quote) -> Fraction:
    """The share at which a count's deviation is `PRECISE` of the records; all if they are hidden.

    Variance falls with the share of a Gaussian budget, with its square if noise is Laplace.
    """
    if not records.is_seen:
        return rest
    at_rest = quote.variance(SumQuery(EVERYONE, goal.statistic, Whole(), rest))
    part = float(np.clip(at_rest / max((PRECISE * records.number) ** 2, 1.0), 1e-6, 1.0))
    part = part**0.5 if quote.is_pure else part
    return rest * Fraction(int(np.ceil(1000.0 * part)), 1000)


def believed(masses: FloatArray, variance: float, least_kept: float) -> FloatArray:
    """(C,) shares, as far from even ones as they differ beyond their noise (James and Stein 1961).

    `least_kept` is the part of the difference that is told in any case. Of a number these are its
    two parts (1 - u, u), and even ones are the middle of its range. The total is taken to be one
    that is seen, so that no share is a ratio of two noises. A class may be rare, but no noise may
    say that it does not exist: it has one record at least.
    """
    n = len(masses)
    total = max(float(masses.sum()), COUNT_IS_SEEN * float(np.sqrt(n * variance)), float(n))
    away = masses - masses.mean()
    noise = EVEN_UNTIL**2 * (n - 1) * variance / n
    differ = float((away**2).mean())
    kept = max(1.0 - noise / differ, least_kept) if differ > 0.0 else 0.0
    shares = np.maximum(1.0 / n + kept * away / total, 1.0 / total)
    return np.asarray(shares / shares.sum())


def _words(goal: Goal, records: RecordCount) -> str:
    what = "the mean of the target" if goal.shape is not None else "the shares of the classes"
    seen = f"About {records.number:.0f} records were seen through the noise"
    hidden = f"Noise hides even their number, between 0 and about {records.at_most:.0f}"
    return (
        f"noise hides nearly all that these records could teach: the model is {what} and uses no "
        f"column. {seen if records.is_seen else hidden}; ask with a larger "
        "epsilon, more records or fewer columns."
    )
