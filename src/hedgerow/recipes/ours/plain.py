"""Do no harm: where noise hides the records, the classes' shares or the mean, and a word about it.

A model from tables that are all noise predicts worse than no model: its probabilities are made of
noise. Below the signal at which a recipe beats these, they are what it gives.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from hedgerow.learning.flow import Flow, Quote, ask
from hedgerow.learning.goal import Goal, Opening
from hedgerow.learning.leaves.levelling import Levelling
from hedgerow.learning.leaves.per_leaf import plain_proportions
from hedgerow.queries import SumQuery, Whole
from hedgerow.recipes.recipe import Trained, mean_of
from hedgerow.values.grown import Grown
from hedgerow.values.regions import EVERYONE
from hedgerow.values.schema import Schema
from hedgerow.values.trees import Tree

HARMFUL, HARMFUL_OF_NUMBERS, HARMFUL_UNSEEN = 2.0, 10.0, 30.0
"""Signal below which even trees drawn blindly say less than the shares, or than the mean. The last
is for a target that noise hides everywhere: it may lie in a small part of its public range."""
PRECISE = 0.01  # part of the records: noise of a share below which more budget buys nothing


def is_harmful(opened: Opening) -> bool:
    """Whether trees would say less than the shares or the mean."""
    shape = opened.goal.shape
    if shape is None:
        return opened.signal < HARMFUL
    return opened.signal < (HARMFUL_OF_NUMBERS if shape.is_seen else HARMFUL_UNSEEN)


def levelling_of(opened: Opening, schema: Schema, quote: Quote) -> Levelling | None:
    """What puts the mean of a number right at the end; classes need none."""
    shape = opened.goal.shape
    if schema.target is None or shape is None:
        return None
    return Levelling.of(schema.target, shape, opened.rows, quote)


def shares_alone(
    schema: Schema, goal: Goal, records: float, rest: Fraction, quote: Quote
) -> Flow[Trained]:
    """A tree of one leaf that says the classes' shares, or the mean of the target.

    Spends what makes a share precise to a hundredth, at most all that is left.
    """
    share = _enough(goal, records, rest, quote)
    answer = yield from ask(SumQuery(EVERYONE, goal.statistic, Whole(), share))
    masses = answer.values[0, 0]
    # A class may be rare, but no noise may say that it does not exist.
    leaf = goal.leaf(plain_proportions(np.maximum(masses, 1.0)), masses, answer.variance)
    tree = Tree.build(schema.names, {EVERYONE: tuple(leaf.value.tolist())})
    return Trained(mean_of([tree]), (Grown(tree, (leaf,)),), _words(goal, records))


def _enough(goal: Goal, records: float, rest: Fraction, quote: Quote) -> Fraction:
    """The share at which a count's deviation is `PRECISE` of the records.

    Variance falls with the share of a Gaussian budget, with its square if noise is Laplace.
    """
    at_rest = quote.variance(SumQuery(EVERYONE, goal.statistic, Whole(), rest))
    part = float(np.clip(at_rest / max((PRECISE * records) ** 2, 1.0), 1e-6, 1.0))
    part = part**0.5 if quote.is_pure else part
    return rest * Fraction(int(np.ceil(1000.0 * part)), 1000)


def _words(goal: Goal, records: float) -> str:
    what = "the mean of the target" if goal.shape is not None else "the shares of the classes"
    return (
        f"noise hides nearly all that these records could teach: the model is {what} and uses no "
        f"column. About {records:.0f} records were seen through the noise; ask with a larger "
        "epsilon, more records or fewer columns."
    )
