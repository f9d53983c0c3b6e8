"""The region ledger: what counts once, what adds, and how it says no."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from fractions import Fraction as Q
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.errors import BudgetExceeded, ParameterError
from hedgerow.federation import client
from hedgerow.federation.wire import Receiver
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.gubler import HistogramTree
from hedgerow.models.losses import Sensitivity
from hedgerow.privacy.accounting.budget import Measure, checked_cost
from hedgerow.privacy.accounting.conversions import noise_law
from hedgerow.privacy.ledger.charges import (
    Charge,
    MemoryLedger,
    Tally,
    require_within,
)
from hedgerow.privacy.queries import BoundQuery, Cells, ClassCounts, SumQuery, Whole
from hedgerow.privacy.study import Study
from hedgerow.schema.regions import EVERYONE, Fold, Split, Step, cells
from support.worlds import TWO, federation, round_of, sample, site_rows, study, worst_total

UNIFORM = "digest of the uniform grid"
QUANTILES = "digest of the private quantiles"


def charge(*steps: Step, cost=Q(1), study: str = "a study") -> Charge:
    return Charge(tuple(steps), cost, "a count", study, Measure.PURE)


def below(cell: int, outcome: int, grid: str = UNIFORM) -> Step:
    return Step(Split("age", grid, cells(range(cell + 1))), outcome)


# ------------------------------------------------------------------------------ what adds up
def test_outcomes_of_one_test_count_once():
    assert worst_total([charge(below(5, 0)), charge(below(5, 1))]) == 1


def test_different_tests_add():
    assert worst_total([charge(below(5, 0)), charge(below(6, 1))]) == 2


def test_a_charge_of_everyone_adds_to_all():
    assert worst_total([charge(), charge(below(5, 0)), charge(below(5, 1), cost=Q(3))]) == 4


def test_the_same_cut_on_two_grids_is_two_tests():
    # Cut 5 is 50.0 on one grid and 12.5 on the other: a record of 30 pays both charges.
    assert worst_total([charge(below(5, 0)), charge(below(5, 1, grid=QUANTILES))]) == 2


def test_two_draws_of_the_same_number_of_folds_are_two_tests():
    # A record can be in fold 0 of one draw and in fold 1 of the other.
    one, other = Fold("draw 1", 4), Fold("draw 2", 4)
    assert worst_total([charge(Step(one, 0)), charge(Step(other, 1))]) == 2
    assert worst_total([charge(Step(one, 0)), charge(Step(one, 1))]) == 1


def test_where_missing_values_go_is_part_of_a_test():
    missing = 255
    left = Split("age", UNIFORM, cells([0, 1, missing]))
    right = Split("age", UNIFORM, cells([0, 1]))
    assert worst_total([charge(Step(left, 0)), charge(Step(right, 1))]) == 2


def test_studies_add_even_where_their_regions_are_disjoint():
    assert worst_total([charge(below(5, 0), study="one"), charge(below(5, 1), study="other")]) == 2


def test_a_release_without_noise_is_infinitely_dear():
    assert worst_total([charge(below(5, 0), cost=math.inf), charge(below(5, 1))]) == math.inf


def test_a_very_long_region_is_counted_like_any_other():
    steps = [Step(Fold(f"draw {i}", 2), 0) for i in range(5000)]
    assert worst_total([charge(*steps), charge(*steps[:10])]) == 2


# ------------------------------------------------------------------------------ failing closed
@pytest.mark.parametrize("cost", [float("nan"), 0.5, 1, Q(-1), -math.inf, "1", None])
def test_a_charge_that_is_no_exact_cost_cannot_be_made(cost):
    with pytest.raises(ParameterError):
        charge(cost=cost)


def test_not_a_number_is_never_within_a_limit():
    with pytest.raises(BudgetExceeded):
        require_within(float("nan"), Q(1), "a study", "1")


@pytest.mark.parametrize("limit", [float("nan"), 1.0, Q(-1)])
def test_a_limit_that_is_no_exact_cost_is_refused(limit):
    with pytest.raises(ParameterError):
        MemoryLedger(limit)


def test_the_limit_itself_is_allowed_and_the_least_above_it_is_not():
    ledger = MemoryLedger(Q(1))
    ledger.reserve([charge()], "1")
    with pytest.raises(BudgetExceeded):
        ledger.reserve([charge(cost=Q(1, 10**40))], "2")
    assert ledger.total == 1


def test_a_float_would_have_forgotten_the_charge_that_the_ledger_keeps():
    assert 1.0 + 1e-17 == 1.0
    assert worst_total([charge(), charge(cost=Q(1, 10**17))]) > 1


def test_a_refused_round_leaves_no_trace():
    ledger = MemoryLedger(Q(2))
    ledger.reserve([charge(below(5, 0))], "1")
    with pytest.raises(BudgetExceeded):
        ledger.reserve([charge(below(5, 1)), charge(below(7, 0)), charge(cost=Q(1))], "2")
    assert ledger.total == 1
    assert [name for name, _ in ledger.entries] == ["1"]
    ledger.reserve([charge(cost=Q(1))], "2")
    assert ledger.total == 2


def test_the_refusal_says_what_was_asked_what_is_allowed_and_what_to_do():
    with pytest.raises(
        BudgetExceeded, match=r"'7' would bring study 'a study' to 3/2; 1 is allowed"
    ) as refusal:
        MemoryLedger(Q(1)).reserve([charge(cost=Q(3, 2))], "7")
    assert "Nothing was charged" in str(refusal.value)
    assert "approve a new study" in str(refusal.value)


def test_no_noise_needs_a_limit_that_allows_it():
    with pytest.raises(BudgetExceeded):
        MemoryLedger(Q(10**9)).reserve([charge(cost=math.inf)], "1")
    ledger = MemoryLedger(math.inf)
    ledger.reserve([charge(cost=math.inf)], "1")
    ledger.reserve([charge(cost=math.inf)], "2")
    assert ledger.total == math.inf


def test_a_round_is_charged_once_and_is_of_one_study():
    ledger = MemoryLedger(Q(9))
    ledger.reserve([charge()], "1")
    with pytest.raises(ParameterError, match="charged before"):
        ledger.reserve([charge()], "1")
    for charges in ([], [charge(study="one"), charge(study="other")]):
        with pytest.raises(ParameterError, match="one round of one study"):
            ledger.reserve(charges, "2")
    assert ledger.total == 1


def test_a_receipt_tells_the_study_s_spending_so_far():
    ledger = MemoryLedger(Q(9))
    ledger.reserve([charge(study="other")], "1")
    receipt = ledger.reserve([charge(cost=Q(1, 3))], "1")
    assert (receipt.study, receipt.round_id, receipt.seq) == ("a study", "1", 2)
    assert receipt.spent == ledger.spent("a study") == Q(1, 3)


def selection(*steps: Step, cost=Q(1, 4), left=Q(1, 2)) -> Charge:
    return replace(charge(*steps, cost=cost), measure=Measure.GDP, remainder=left)


def test_a_selection_leaves_what_it_was_priced_by_or_is_refused():
    ledger, last = MemoryLedger(Q(1)), replace(selection(), cost=Q(1, 2), remainder=Q(0))
    ledger.reserve([selection()], "1")
    assert ledger.total == ledger.spent("a study") == Q(3, 4)  # used or not
    ledger.reserve([selection()], "2")
    with pytest.raises(BudgetExceeded, match="would bring"):
        ledger.reserve([selection(cost=Q(1, 100))], "3")
    ledger.reserve([last], "3")  # a sum may have all that is left
    assert ledger.total == 1
    with pytest.raises(BudgetExceeded):
        ledger.reserve([replace(last, cost=Q(1, 100))], "4")


def test_a_round_of_many_selections_leaves_the_largest_of_what_they_were_priced_by():
    both = [selection(below(5, 0)), selection(below(5, 1), left=Q(3, 4))]
    assert MemoryLedger(Q(1)).reserve(both, "1").spent == 1
    with pytest.raises(BudgetExceeded):
        MemoryLedger(Q(99, 100)).reserve(both, "1")
    ledger = MemoryLedger(Q(1))
    with pytest.raises(BudgetExceeded):
        ledger.reserve([selection(), selection(left=Q(3, 5))], "1")
    assert ledger.total == 0
    with pytest.raises(ParameterError, match="not a rational"):
        selection(left=Q(-1))


def test_a_ledger_has_no_way_to_pay_afterwards():
    public = {name for name in dir(MemoryLedger(Q(1))) if not name.startswith("_")}
    assert public == {"entries", "limit", "reserve", "reserve_once", "spent", "total"}


def test_checking_a_cost_gives_it_back():
    assert checked_cost(Q(1, 3)) == Q(1, 3)
    assert Tally().of("nobody") == 0
    assert worst_total([Charge(EVERYONE, Q(0), "labels are public", "a study", Measure.PURE)]) == 0


# --------------------------------------------------------------------------------------------------
# The ledger's total against the worst record of a small world, found by trying all of them.
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
rounds_of_selections = st.lists(
    st.lists(st.builds(replace, charges, remainder=costs), min_size=1, max_size=3), max_size=5
)
do_not_wait = settings(deadline=None)


@pytest.mark.property
@do_not_wait
@given(charge_lists)
def test_the_total_is_never_below_the_worst_record(charges):
    assert worst_total(charges) >= worst_record(charges)


@pytest.mark.property
@do_not_wait
@given(charge_lists, charge_lists)
def test_charges_that_arrive_one_by_one_give_the_total_of_all_at_once(first, second):
    tally = Tally()
    tally.add(first)
    for charge in second:
        tally.add([charge])
    assert tally.total == worst_total(first + second) == worst_total(second + first)


@pytest.mark.property
@do_not_wait
@given(charge_lists, charge_lists, charge_lists)
def test_charges_taken_back_were_never_there(kept, refused, later):
    tally = Tally()
    tally.add(kept)
    tally.undo(tally.add(refused))
    assert tally.total == worst_total(kept)
    tally.add(later)
    assert tally.total == worst_total(kept + later)


@pytest.mark.property
@do_not_wait
@given(rounds_of_selections, charge_lists, charge_lists)
def test_what_remains_after_every_round_is_what_its_selections_were_priced_by(rounds, no, later):
    """By the formula: the largest, over rounds, of the worst total and the largest remainder."""
    tally, before, spent = Tally(), list[Charge](), Q(0)
    for charges in rounds:
        tally.undo(tally.add([replace(charge, remainder=Q(7)) for charge in no]))
        tally.add(charges)
        before += [replace(charge, remainder=Q(0)) for charge in charges]
        spent = max(spent, worst_total(before) + max(charge.remainder for charge in charges))
    tally.add(later)
    assert tally.total == max(spent, worst_total(before + later))


@pytest.mark.property
@do_not_wait
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


@pytest.mark.property
@settings(do_not_wait, max_examples=50)
@given(st.lists(full_tree(), min_size=1, max_size=3))
def test_trees_with_full_paths_are_charged_exactly(forest):
    charges = [charge for tree in forest for charge in tree]
    assert worst_total(charges) == worst_record(charges)


@pytest.mark.property
@do_not_wait
@given(charge_lists)
def test_studies_add_whatever_their_regions(charges):
    other = [Charge(c.region, c.cost, c.what, "b", Measure.PURE) for c in charges]
    assert worst_total(charges + other) == 2 * worst_total(charges)


def test_a_ledger_that_compared_names_only_would_be_below_the_worst_record():
    # The negative control: the same charges with folds named by their number alone, not by their
    # draw.
    real = [
        Charge((Step(DRAWS[0], 0),), Q(1), "", "a", Measure.PURE),
        Charge((Step(DRAWS[1], 1),), Q(1), "", "a", Measure.PURE),
    ]
    named = [
        Charge((Step(Fold("some draw", 3), c.region[0].outcome),), c.cost, "", "a", Measure.PURE)
        for c in real
    ]
    assert worst_total(named) < worst_record(real) <= worst_total(real)


# --------------------------------------------------------------------------------------------------
# Gate 4: from the wire alone, everything that was released is found in the ledger, at its price.
#
# The auditor below knows no code of the product but the decoder: it reads the bundles a site was
# sent, derives charges from first principles, and compares. Mutations must be caught.
class Tap:
    """Keeps what went over the wire to and from site 0."""

    def __init__(self, link):
        self.bundles, self.lengths = [], []
        encode, respond = link.sender.encode, client.respond

        def kept_encode(bundle):
            self.bundles.append(encode(bundle))
            return self.bundles[-1]

        def kept_respond(rows, asked, secret):
            made = respond(rows, asked, secret)
            if rows is link.clients[0].rows:
                self.lengths.append(len(made.vector))
            return made

        link.sender.encode = kept_encode
        self.respond = kept_respond


def taped_run(delta="0", budget_saving=False, records_per_person=1):
    X, y = sample(200, TWO)
    the_study = study(TWO, 3, delta=delta, records_per_person=records_per_person)
    fed = federation(the_study, site_rows(X, y, np.arange(200) % 3, 3, TWO))
    tap = Tap(fed.sites)
    method = HistogramTree(max_depth=2, budget_saving=budget_saving)
    with patch.object(client, "respond", tap.respond):
        run(method.flow(TWO, fed, np.random.default_rng(0)), fed)
    assert len(tap.bundles) == len(tap.lengths) > 0
    return the_study, tap, fed.sites.clients[0].store.ledger


def independent_sensitivity(query, unit: int, m: int) -> Sensitivity:
    """Of class counts and bounds, written down again: one row is in one bin of every feature.

    m rows of one person may be in the same bins.
    """
    if isinstance(query, BoundQuery):
        p, step = len(query.features), m * unit
    else:
        p, step = len(query.by.features) if isinstance(query.by, Cells) else 1, m
    return Sensitivity(p * step, p * step**2, step)


def audit(the_study, bundles, entries, lengths) -> list[str]:
    """What does not add up; empty if all is well."""
    receiver, faults = Receiver(), []
    if len(bundles) != len(entries):
        faults.append(f"{len(bundles)} bundles, {len(entries)} entries")
    total = Fraction(1) if the_study.delta == 0 else the_study.total
    for bundle, (_, charges), length in zip(bundles, entries, lengths, strict=False):
        queries, learned = receiver.decode(bundle)
        receiver.keep(learned)
        if len(queries) != len(charges):
            faults.append("a query without a charge")
        if sum(math.prod(q.shape) for q in queries) != length:
            faults.append("more numbers left than were asked")
        for query, charge in zip(queries, charges, strict=False):
            if (charge.region, charge.cost) != (query.region, query.fraction * total):
                faults.append("a charge that is not the query's")
            moved = independent_sensitivity(
                query, the_study.unit(query), the_study.records_per_person
            )
            law = noise_law(the_study.measure, charge.cost, moved)
            declared = the_study.sum_law(query)
            scale = the_study.refinement(query)
            if abs(declared.variance / scale**2 / law.variance - 1) > 1e-2:
                faults.append("noise that is not the charge's")
    return faults


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("budget_saving", [False, True])
@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_what_left_a_site_is_in_its_ledger(delta, budget_saving, m):
    the_study, tap, ledger = taped_run(delta, budget_saving, m)
    assert audit(the_study, tap.bundles, ledger.entries, tap.lengths) == []


@pytest.mark.parametrize("delta", ["0", "1e-6"])
def test_records_per_person_ignored_in_sums_is_seen(delta, monkeypatch):
    monkeypatch.setattr(
        Study, "_sensitivity", lambda self, query: query.sensitivity(self.unit(query))
    )
    the_study, tap, ledger = taped_run(delta, records_per_person=3)
    assert audit(the_study, tap.bundles, ledger.entries, tap.lengths)


def test_a_dropped_charge_is_seen():
    the_study, tap, ledger = taped_run()
    assert audit(the_study, tap.bundles, ledger.entries[:-1], tap.lengths)
    name, _ = ledger.entries[0]
    assert audit(the_study, tap.bundles, [(name, ()), *ledger.entries[1:]], tap.lengths)


def test_a_halved_charge_is_seen():
    the_study, tap, ledger = taped_run()
    name, charges = ledger.entries[0]
    cheap = (name, tuple(replace(c, cost=c.cost / 2) for c in charges))
    assert audit(the_study, tap.bundles, [cheap, *ledger.entries[1:]], tap.lengths)


def test_features_treated_as_parallel_are_seen(monkeypatch):
    the_study, tap, ledger = taped_run()
    from hedgerow.privacy.queries import SumQuery

    monkeypatch.setattr(SumQuery, "sensitivity", lambda q, unit: q.statistic.bound(unit))
    assert audit(the_study, tap.bundles, ledger.entries, tap.lengths)


def test_a_number_more_than_was_asked_is_seen():
    the_study, tap, ledger = taped_run()
    assert audit(the_study, tap.bundles, ledger.entries, [n + 1 for n in tap.lengths])


def test_a_holder_without_budget_touches_no_row(monkeypatch):
    """Charged first: whether a refused question would have met any row cannot be told."""
    X, y = sample(50, TWO)
    fed = federation(study(TWO, 1), site_rows(X, y, np.zeros(50), 1, TWO))
    touched, plain = [], client.respond
    monkeypatch.setattr(client, "respond", lambda *a: touched.append(a) or plain(*a))
    greedy = SumQuery(EVERYONE, ClassCounts(2), Whole(), Fraction(1))
    with pytest.raises(BudgetExceeded):
        round_of(fed.sites, 1, [greedy, greedy])
    assert not touched
    round_of(fed.sites, 2, [greedy])
    assert touched  # negative control: with budget it does
