"""The ledger's total against the worst record of a small world, found by trying all of them."""

import itertools
from fractions import Fraction as Q

from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.privacy.accounting.budget import Measure
from hedgerow.privacy.ledger.charges import Charge, Tally, worst_total
from hedgerow.schema.regions import Fold, Split, Step

FEATURES = ("age", "dose")
CELLS = 3  # the last one is `missing`
DRAWS = (Fold("draw 1", 2), Fold("draw 2", 3))
EVERY_RECORD = list(itertools.product(range(CELLS), repeat=len(FEATURES)))
EVERY_DRAW = list(itertools.product(*(range(draw.n) for draw in DRAWS)))


def outcome(test, record, drawn) -> int:
    if isinstance(test, Fold):
        return drawn[DRAWS.index(test)]
    return 1 - (test.left >> record[FEATURES.index(test.feature)] & 1)


def worst_record(charges) -> Q:
    """Nothing but the definition: what each possible record pays."""
    return max(
        sum(
            (c.cost for c in charges if all(outcome(s.test, r, d) == s.outcome for s in c.region)),
            Q(0),
        )
        for r in EVERY_RECORD
        for d in EVERY_DRAW
    )


SPLITS = [Split(f, "grid", left) for f in FEATURES for left in range(1, 2**CELLS - 1)]
STEPS = [Step(test, i) for test in (*SPLITS, *DRAWS) for i in range(test.outcomes)]

costs = st.integers(0, 36).map(lambda twelfths: Q(twelfths, 12))
regions = st.lists(st.sampled_from(STEPS), max_size=4).map(tuple)
charges = st.builds(Charge, regions, costs, st.just(""), st.just("a"), st.just(Measure.PURE))
charge_lists = st.lists(charges, max_size=7)
unhurried = settings(deadline=None)


@unhurried
@given(charge_lists)
def test_the_total_is_never_below_the_worst_record(charges):
    assert worst_total(charges) >= worst_record(charges)


@unhurried
@given(charge_lists, charge_lists)
def test_charges_that_arrive_one_by_one_give_the_total_of_all_at_once(first, second):
    tally = Tally()
    tally.add(first)
    for charge in second:
        tally.add([charge])
    assert tally.total == worst_total(first + second) == worst_total(second + first)


@unhurried
@given(charge_lists, charge_lists, charge_lists)
def test_charges_taken_back_were_never_there(kept, refused, later):
    tally = Tally()
    tally.add(kept)
    tally.undo(tally.add(refused))
    assert tally.total == worst_total(kept)
    tally.add(later)
    assert tally.total == worst_total(kept + later)


@unhurried
@given(charge_lists, charge_lists)
def test_more_charges_never_cost_less(charges, more):
    assert worst_total(charges) <= worst_total(charges + more)


@st.composite
def full_tree(draw, depth: int = 3):
    """All nodes of a tree with full paths, every level at its own cost."""
    levels = [draw(costs) for _ in range(depth + 1)]
    nodes, charged = [()], []
    for level in levels:
        charged += [Charge(region, level, "", "a", Measure.PURE) for region in nodes]
        parents, nodes = nodes, []
        for region in parents:
            test = draw(st.sampled_from(SPLITS))
            nodes += [(*region, Step(test, side)) for side in (0, 1)]
    return charged


@settings(unhurried, max_examples=50)
@given(st.lists(full_tree(), min_size=1, max_size=3))
def test_trees_with_full_paths_are_charged_exactly(forest):
    charges = [charge for tree in forest for charge in tree]
    assert worst_total(charges) == worst_record(charges)


@unhurried
@given(charge_lists)
def test_studies_add_whatever_their_regions(charges):
    other = [Charge(c.region, c.cost, c.what, "b", Measure.PURE) for c in charges]
    assert worst_total(charges + other) == 2 * worst_total(charges)


def test_a_ledger_that_compared_names_only_would_be_below_the_worst_record():
    # The twin: the same charges with folds named by their number alone, not by their draw.
    real = [
        Charge((Step(DRAWS[0], 0),), Q(1), "", "a", Measure.PURE),
        Charge((Step(DRAWS[1], 1),), Q(1), "", "a", Measure.PURE),
    ]
    named = [
        Charge((Step(Fold("some draw", 3), c.region[0].outcome),), c.cost, "", "a", Measure.PURE)
        for c in real
    ]
    assert worst_total(named) < worst_record(real) <= worst_total(real)
