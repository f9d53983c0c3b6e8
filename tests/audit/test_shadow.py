"""The second accountant: its own arithmetic, and whether it agrees with the first one."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from hedgerow.audit import shadow
from hedgerow.audit.shadow import Claim, Law, NoisySum, Selection, Terms, Transcript, judge
from hedgerow.privacy.accounting import conversions, gaussian
from hedgerow.privacy.accounting.budget import Measure
from hedgerow.privacy.ledger.charges import Charge, worst_total
from hedgerow.schema.regions import Fold, Step
from support.shadow_cases import case_of, listed

pytestmark = [pytest.mark.property, pytest.mark.filterwarnings("ignore")]

EXAMPLES, BLOCKS, BLOCK = 400, 20, 1000
FEWEST = 0.9
"""Of the combinations are run and not refused."""


# ------------------------------------------------------------------------- generated combinations
def checked(examples: int, first: int = 0, **how: object) -> Counter[str]:
    """How many combinations of each kind were run; the second accountant must agree with all."""
    told: Counter[str] = Counter()

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=(Phase.generate,),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        **how,
    )
    @given(number=st.integers(first, first + 2**40))
    def check(number):
        case = case_of(number)
        found = case.problems()
        told["refused" if found is None else case.act] += 1
        assert not found, (number, case, found)

    check()
    return told


def test_whatever_is_asked_no_record_loses_more_than_it_was_charged_for():
    told = checked(EXAMPLES, derandomize=True)
    assert told["refused"] <= (1.0 - FEWEST) * told.total()
    assert min(told[act] for act in ("fit", "study", "evaluate", "held out")) > EXAMPLES / 20
    assert min(told["choose"], told["database"]) > 0


@pytest.mark.slow
@pytest.mark.parametrize("block", range(BLOCKS))
def test_nor_does_any_record_of_twenty_thousand_other_combinations(block):
    told = checked(BLOCK, first=(block + 1) << 41)
    assert told["refused"] <= (1.0 - FEWEST) * told.total()


def test_every_method_is_among_the_combinations():
    """Of the papers' methods all that claim a guarantee; choices and randomized labels too."""
    names = " ".join(method.name for method in listed())
    assert len(listed()) >= 85
    for words in (
        "Multiway",
        "split='choice'",
        "report_noisy_max",
        "bloom",
        "papers.wang.local_rnm",
    ):
        assert words in names


# ---------------------------------------------------------------------------- laws, by themselves
@pytest.mark.parametrize("variance", [Fraction(1, 9), 1, Fraction(7, 3), 16, 10**4, 2**50])
def test_mu_of_a_discrete_gaussian_is_what_the_first_accountant_charges_at_most(variance):
    own, charged = (
        shadow.unit_mu_squared(Fraction(variance)),
        gaussian.unit_mu_squared(Fraction(variance)),
    )
    assert own <= charged <= own * (1 + Fraction(1, 1000 if variance < 16 else 10**6))


@pytest.mark.parametrize("epsilon", ["1/100", "1/2", "3", "20", "90"])
def test_what_a_pure_guarantee_costs_among_gaussian_ones_is_charged_in_full(epsilon):
    own = shadow.pure_mu_squared(Fraction(epsilon))
    charged = conversions._mu_squared_of_pure(Fraction(epsilon))
    assert own <= charged <= own * (1 + Fraction(1, 10**9))


@pytest.mark.parametrize("epsilon", ["1/10", "1", "8"])
@pytest.mark.parametrize("delta", ["1/1000000", "1/1000000000"])
def test_budgets_and_epsilons_of_both_accountants_meet(epsilon, delta):
    terms = Fraction(epsilon), Fraction(delta)
    first = conversions.whole_budget(Measure.GDP, *terms)
    second = shadow.budget_of("gaussian", *terms)
    assert second * (1 - Fraction(1, 10**9)) <= first <= second
    assert shadow.epsilon_of("gaussian", first, terms[1]) == pytest.approx(float(terms[0]))
    assert shadow.budget_of("pure", *terms) == terms[0]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=3),
            st.integers(0, 9),
        ),
        max_size=8,
    )
)
def test_both_accountants_add_the_same_charges_along_the_worst_path(drawn):
    plain = [(tuple((f"fold {t}", o) for t, o in steps), Fraction(cost)) for steps, cost in drawn]
    charges = [
        Charge(tuple(Step(Fold(str(t), 3), o) for t, o in steps), Fraction(c), "", "", Measure.PURE)
        for steps, c in drawn
    ]
    assert shadow.worst_path(plain) == worst_total(charges)


# ----------------------------------------------------------------------------------- what it names
PURE = Terms(study="s", measure="pure", epsilon=Fraction(1), delta=Fraction(0), counted=1)
SUM = NoisySum(
    round=1,
    site=0,
    what="class counts",
    region=(),
    charge=Fraction(1, 2),
    claimed=(2, 2, 1),
    moved=(0, 1, 0, -1),
    draws=(0, 1, 2, 3),
    laws=(Law("laplace", Fraction(1, 4)),),
)
CHOICE = Selection(
    round=2,
    site=0,
    what="private choice",
    region=(("a in 3 of grid", 0),),
    charge=Fraction(1, 2),
    mechanism="permute_and_flip",
    coefficient=Fraction(1, 8),
    reach=4,
    scores=(-7, -3, -9),
    scores_without=(-4, -3, -5),
)
CLAIM = Claim(spent=Fraction(1), spent_fraction=1.0, spent_epsilon=1.0, epsilon=1.0, lines=1.0)
SOUND = Transcript(terms=PURE, releases=(SUM, CHOICE), claim=CLAIM)


def test_a_transcript_in_which_all_agrees_has_no_problem():
    verdict = judge(SOUND)
    assert verdict.problems == ()
    assert (verdict.lost, verdict.paid, verdict.worst) == (1, 1, 1)


WRONG = {
    "moves its L1": ("releases", (replace(SUM, moved=(0, 2, 0, -1)), CHOICE)),
    "noise is sized": ("releases", (replace(SUM, laws=(Law("laplace", Fraction(1, 3)),)), CHOICE)),
    "carries no noise": ("releases", (replace(SUM, draws=(0, -1, 2, 3)), CHOICE)),
    "the same draw": ("releases", (replace(SUM, draws=(0, 1, 1, 3)), CHOICE)),
    "loses inf": ("releases", (replace(SUM, laws=(None,)), CHOICE)),
    "moves scores by": ("releases", (SUM, replace(CHOICE, scores=(-9, -3, -9)))),
    "choice is sized": ("releases", (SUM, replace(CHOICE, coefficient=Fraction(1, 4)))),
    "number of candidates": ("releases", (SUM, replace(CHOICE, scores=(-7, -3)))),
    "the budget": ("terms", replace(PURE, epsilon=Fraction(9, 10))),
    "the ledger says": ("claim", replace(CLAIM, spent=Fraction(1, 2))),
    "stated as spent; it is 1": ("claim", replace(CLAIM, lines=0.5)),
    "epsilon 0.9 is stated as spent": ("claim", replace(CLAIM, spent_epsilon=0.9)),
    "stated as guaranteed": ("claim", replace(CLAIM, epsilon=0.5)),
    "randomized labels": ("terms", replace(PURE, label_odds=(Fraction(3, 4), Fraction(1, 4), 1))),
}


@pytest.mark.parametrize("words", WRONG)
def test_what_does_not_agree_is_named(words):
    part, value = WRONG[words]
    assert any(words in problem for problem in judge(replace(SOUND, **{part: value})).problems)


def test_a_record_in_both_outcomes_of_one_test_is_seen():
    other = replace(CHOICE, region=(("a in 3 of grid", 1),))
    both = judge(replace(SOUND, releases=(SUM, CHOICE, other)))
    assert any("in regions charged 1.5" in problem for problem in both.problems)


def test_shares_of_noise_count_as_far_as_honest_sites_draw_them():
    shared = replace(SUM, laws=(Law("laplace", Fraction(1, 4), shares=3),))
    honest = replace(PURE, counted=3)
    assert not judge(Transcript(terms=honest, releases=(shared,))).problems
    assert judge(Transcript(terms=replace(PURE, counted=2), releases=(shared,))).lost == math.inf
