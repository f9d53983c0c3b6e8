"""Budgets, conversions and the noise a cost buys, against formulas written a second way."""

from __future__ import annotations

import csv
import io
import itertools
import math
import re
from collections import Counter
from fractions import Fraction
from fractions import Fraction as Q
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import binom, norm

from hedgerow.errors import ParameterError
from hedgerow.models.losses import Sensitivity
from hedgerow.privacy.accounting import conversions, gaussian, rounding
from hedgerow.privacy.accounting.budget import Measure
from hedgerow.privacy.mechanisms.mechanisms import DiscreteGaussian, DiscreteLaplace, NoNoise
from studies.kept import archived

ONE = Sensitivity(1, 1, 1)
GUARANTEES = [
    (Q(1, 10), Q(1, 10**9)),
    (Q(1), Q(1, 10**6)),
    (Q(8), Q(1, 10**5)),
    (Q(1, 100), Q(1, 10**12)),
]
EVERY_MEASURE = list(Measure)


def gaussian_delta(mu: float, epsilon: float) -> float:
    return float(
        norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu)
    )


def discrete_gaussian(sigma2: float, reach: int) -> np.ndarray:
    x = np.arange(-reach, reach + 1)
    weights = np.exp(-(x**2) / (2 * sigma2))
    return weights / weights.sum()


def delta_of_unit_shift(sigma2: float, epsilon: float) -> float:
    p = discrete_gaussian(sigma2, int(40 * math.sqrt(sigma2)) + 40)
    return float(np.maximum(0, p[1:] - math.exp(epsilon) * p[:-1]).sum())


# -------------------------------------------------------------------------------------- budgets
@pytest.mark.parametrize("measure", EVERY_MEASURE)
@pytest.mark.parametrize(("epsilon", "delta"), GUARANTEES)
def test_a_budget_spent_to_the_end_keeps_its_promise_and_wastes_next_to_nothing(
    measure, epsilon, delta
):
    kept = Q(
        conversions.epsilon_of(measure, conversions.whole_budget(measure, epsilon, delta), delta)
    )
    assert epsilon * (1 - Q(1, 10**10)) <= kept <= Q(float(epsilon))


@pytest.mark.parametrize("measure", [Measure.ZCDP, Measure.GDP])
def test_a_budget_that_is_a_millionth_larger_breaks_the_promise(measure):
    more = conversions.whole_budget(measure, Q(1), Q(1, 10**6)) * Q(1000001, 1000000)
    assert conversions.epsilon_of(measure, more, Q(1, 10**6)) > 1


def test_gaussian_budgets_agree_with_the_published_noise_multipliers():
    # sigma for 100 compositions at delta = 1 / 32561, exact Gaussian accounting.
    for epsilon, sigma in ((Q(1, 10), 278.05), (Q(1, 2), 64.93), (Q(1), 34.72)):
        mu_squared = conversions.whole_budget(Measure.GDP, epsilon, Q(1, 32561))
        assert 10 / math.sqrt(mu_squared) == pytest.approx(sigma, abs=0.006)


def test_the_gaussian_curve_agrees_with_scipy():
    for mu_squared in (Q(1, 100), Q(1), Q(9)):
        epsilon = conversions.epsilon_of(Measure.GDP, mu_squared, Q(1, 10**6))
        assert gaussian_delta(math.sqrt(mu_squared), epsilon) == pytest.approx(1e-6, rel=1e-6)


def test_the_zcdp_conversion_is_the_best_over_all_orders():
    rho, delta = 0.02, 1e-6
    orders = 1 + np.exp(np.linspace(-8, 12, 400_000))
    grid = orders * rho + np.log1p(-1 / orders) - np.log(orders * delta) / (orders - 1)
    found = conversions.epsilon_of(Measure.ZCDP, Q(2, 100), Q(1, 10**6))
    assert grid.min() - 1e-9 <= found <= grid.min() + 1e-9


@pytest.mark.parametrize("measure", EVERY_MEASURE)
def test_a_release_without_noise_has_infinite_epsilon(measure):
    assert conversions.epsilon_of(measure, math.inf, Q(1, 10**6)) == math.inf


@pytest.mark.parametrize("measure", [Measure.ZCDP, Measure.GDP])
def test_gaussian_noise_keeps_no_epsilon_at_delta_zero(measure):
    assert conversions.epsilon_of(measure, Q(1, 10), Q(0)) == math.inf
    with pytest.raises(ParameterError, match="needs delta > 0"):
        conversions.whole_budget(measure, Q(1), Q(0))


@pytest.mark.parametrize("spent", [float("nan"), 0.5, Q(-1), 1])
def test_what_is_not_an_exact_cost_has_no_epsilon(spent):
    with pytest.raises(ParameterError):
        conversions.epsilon_of(Measure.PURE, spent, Q(0))


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        (Q(0), Q(0)),
        (Q(-1), Q(0)),
        (Q(1), Q(1)),
        (Q(1), Q(-1, 10)),
        (float("inf"), Q(0)),
        (float("nan"), Q(0)),
    ],
)
def test_a_promise_of_nothing_is_refused(epsilon, delta):
    with pytest.raises(ParameterError):
        conversions.whole_budget(Measure.PURE, epsilon, delta)


# --------------------------------------------------------- against privacy loss distributions
GRID = 1e-4


def certified(mu_squared: float, choice_epsilons: list[float], delta: float) -> float:
    """Epsilon of Gaussian sums and of eps-DP choices together, by dp_accounting; pessimistic."""
    from dp_accounting.pld import common
    from dp_accounting.pld import privacy_loss_distribution as pld

    whole = pld.from_gaussian_mechanism(
        1 / math.sqrt(mu_squared), value_discretization_interval=GRID
    )
    for epsilon in choice_epsilons:
        worst = common.DifferentialPrivacyParameters(epsilon, 0.0)
        whole = whole.compose(
            pld.from_privacy_parameters(worst, value_discretization_interval=GRID)
        )
    return float(whole.get_epsilon_for_delta(delta))


@pytest.mark.parametrize("mu_squared", [Q(1, 100), Q(1, 10), Q(1)])
def test_the_epsilon_of_gaussian_sums_is_that_of_their_privacy_loss_distribution(mu_squared):
    ours = conversions.epsilon_of(Measure.GDP, mu_squared, Q(1, 10**6))
    assert ours <= certified(float(mu_squared), [], 1e-6) <= ours + 2e-3


def test_the_epsilon_of_sums_and_choices_is_never_below_that_of_their_distribution():
    sums, choices = Q(1, 20), 8
    each = Q(1, 100)
    ours = conversions.epsilon_of(Measure.GDP, sums + choices * each, Q(1, 10**6))
    epsilon = float(conversions.selection_epsilon(Measure.GDP, each, "permute_and_flip"))
    theirs = certified(float(sums), [epsilon] * choices, 1e-6)
    assert theirs <= ours + 2e-3
    assert ours < 1.5 * theirs  # and the bound is not loose
    assert theirs > conversions.epsilon_of(Measure.GDP, sums, Q(1, 10**6))  # choices count


# -------------------------------------------------------------------------------------- rounding
@pytest.mark.parametrize(
    ("epsilon", "text"),
    [
        (1.0, "1"),
        (0.1, "0.1"),
        (1.23401, "1.235"),
        (0.99999, "1"),
        (12345.6, "12350"),
        (1e-7, "1e-7"),
        (0.0, "0"),
        (math.inf, "infinity"),
    ],
)
def test_a_printed_epsilon_is_never_smaller_than_the_true_one(epsilon, text):
    assert rounding.format_above(epsilon) == text
    assert text == "infinity" or Q(text) >= Q(repr(epsilon))


@pytest.mark.parametrize("number", [Q(1, 3), Q(1, 10), Q(10**30 + 1, 10**30), Q(2, 7)])
def test_a_float_reads_as_at_least_the_rational_it_stands_for(number):
    assert Q(repr(rounding.float_above(number))) >= number
    assert Q(repr(math.nextafter(rounding.float_above(number), 0))) < number


def test_short_rationals_lie_on_the_promised_side():
    for number in (Q(1, 3), Q(10**20, 7), Q(5), Q(1, 10**15)):
        real = rounding.real(number)
        assert (
            number * (1 - Q(1, 2**37))
            <= rounding.rounded_down(real)
            < number
            <= rounding.above(real)
        )
        assert number <= rounding.short_above(number) <= number * (1 + Q(1, 2**38))


# ----------------------------------------------------------------------------------------- noise
def test_laplace_noise_divides_the_cost_by_the_l1_norm():
    law = conversions.noise_law(Measure.PURE, Q(1, 10), Sensitivity(7, 7, 1))
    assert law == DiscreteLaplace(Q(1, 70))
    assert conversions.cost_of(Measure.PURE, law, Sensitivity(7, 7, 1)) == Q(1, 10)


def test_zcdp_noise_has_the_exact_variance():
    law = conversions.noise_law(Measure.ZCDP, Q(1, 50), Sensitivity(7, 7, 1))
    assert law == DiscreteGaussian(Q(175))


@pytest.mark.parametrize(
    "cost", [Q(1, 10**9), Q(1, 777), Q(1, 3), Q(1), Q(109, 100), Q(11, 10), Q(4), Q(150)]
)
def test_gdp_noise_costs_what_was_paid_and_hardly_less(cost):
    law = conversions.noise_law(Measure.GDP, cost, ONE)
    assert (
        cost * (1 - Q(1, 10**6))
        <= conversions.cost_of(Measure.GDP, law, ONE)
        <= cost * (1 + Q(1, 2**38))
    )


def test_gdp_noise_for_many_units_is_that_of_one_unit_at_a_part_of_the_cost():
    many = conversions.noise_law(Measure.GDP, Q(1, 10), Sensitivity(3, 9, 3))
    assert many == conversions.noise_law(Measure.GDP, Q(1, 90), ONE)


@pytest.mark.parametrize("measure", EVERY_MEASURE)
def test_an_infinite_cost_buys_no_noise_and_a_zero_cost_buys_nothing(measure):
    assert conversions.noise_law(measure, math.inf, ONE) == NoNoise()
    assert conversions.cost_of(measure, NoNoise(), ONE) == math.inf
    with pytest.raises(ParameterError, match="fraction > 0"):
        conversions.noise_law(measure, Q(0), ONE)


# ------------------------------------------------------------------- the discrete Gaussian's own mu
VARIANCES = (0.05, 0.12, 0.25, 0.5, 1.0, 1.7, 4.0, 18.0, 100.0)


@pytest.mark.parametrize("sigma2", VARIANCES)
def test_no_step_between_quantiles_is_wider_than_the_one_in_the_center(sigma2):
    with mp.workdps(60):
        reach = int(10 * math.sqrt(sigma2)) + 5
        weights = [mp.exp(-mp.mpf(k * k) / (2 * mp.mpf(sigma2))) for k in range(5 * reach)]
        whole = weights[0] + 2 * sum(weights[1:])
        tails = [sum(weights[k:]) / whole for k in range(1, reach)]
        z = [
            mp.findroot(lambda x, t=t: mp.log(mp.ncdf(-x)) - mp.log(t), mp.sqrt(-2 * mp.log(t)))
            for t in tails
        ]
        center = 2 * z[0]
        assert all(b - a < center for a, b in itertools.pairwise(z))
        bound = gaussian.unit_mu_squared(Q(sigma2))
        assert (
            center**2 <= mp.mpf(bound.numerator) / bound.denominator <= center**2 * mp.mpf("1.0001")
        )


@pytest.mark.parametrize("sigma2", VARIANCES)
def test_the_discrete_gaussian_lies_under_its_gaussian_curve(sigma2):
    mu = math.sqrt(gaussian.unit_mu_squared(Q(sigma2)))
    for epsilon in (0.1, 0.5, 1.0, 2.0, 4.0):
        assert (
            delta_of_unit_shift(sigma2, epsilon) <= gaussian_delta(mu, epsilon) * (1 + 1e-9) + 1e-15
        )


def test_one_over_sigma_would_promise_too_much():
    sigma2 = 1 / conversions.whole_budget(Measure.GDP, Q(2), Q(1, 10**6))
    assert delta_of_unit_shift(float(sigma2), 2.0) > 1.05e-6
    ours = conversions.noise_law(
        Measure.GDP, conversions.whole_budget(Measure.GDP, Q(2), Q(1, 10**6)), ONE
    )
    assert delta_of_unit_shift(float(ours.sigma2), 2.0) <= 1e-6


def test_the_series_bounds_the_centre_step_from_above_and_closely():
    with mp.workdps(40):
        for w in (Q(1, 1000), Q(1, 10), Q(1, 2), Q(9, 10), Q(1)):
            y = 1 / mp.sqrt(2 * mp.pi / (mp.mpf(w.numerator) / w.denominator))
            true = 8 * mp.erfinv(y) ** 2
            series = gaussian._series(w)
            assert true <= mp.mpf(series.numerator) / series.denominator <= true * mp.mpf("1.0001")


# ------------------------------------------------------------------------------------- selections
CHOOSERS = ["exponential", "permute_and_flip", "report_noisy_max"]


@pytest.mark.parametrize("chooser", CHOOSERS)
def test_a_selection_in_pure_epsilon_spends_its_cost(chooser):
    assert conversions.selection_epsilon(Measure.PURE, Q(1, 7), chooser) == Q(1, 7)


@pytest.mark.parametrize("cost", [Q(1, 1000), Q(1, 4), Q(3)])
@pytest.mark.parametrize("chooser", ["permute_and_flip", "report_noisy_max"])
def test_only_the_exponential_mechanism_is_priced_by_its_range(chooser, cost):
    """All others pay under delta > 0 what the worst mechanism of their epsilon would."""
    mu = float(conversions.selection_epsilon(Measure.GDP, cost, chooser))
    assert 2 * norm.ppf(1 / (1 + math.exp(-mu))) == pytest.approx(math.sqrt(cost), rel=1e-9)


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.maximum(0, p - math.exp(epsilon) * q).sum())


def exponential_pmf(scores: np.ndarray, coefficient: float) -> np.ndarray:
    weights = np.exp(coefficient * (scores - scores.max()))
    return weights / weights.sum()


@pytest.mark.parametrize("cost", [Q(1, 100), Q(1, 2), Q(4)])
def test_the_exponential_mechanism_keeps_the_gaussian_curve_it_pays_for(cost):
    rng = np.random.default_rng(7)
    epsilon = float(conversions.selection_epsilon(Measure.GDP, cost, "exponential"))
    for _ in range(300):
        scores = rng.exponential(3, size=rng.integers(2, 6))
        moved = scores + rng.choice([0.0, 1.0, rng.random()], size=len(scores))
        p, q = exponential_pmf(scores, epsilon), exponential_pmf(moved, epsilon)
        for e in (0.0, epsilon / 4, epsilon / 2, 0.9 * epsilon):
            allowed = gaussian_delta(math.sqrt(cost), e) + 1e-12
            assert hockey_stick(p, q, e) <= allowed
            assert hockey_stick(q, p, e) <= allowed


def test_randomized_response_meets_its_gaussian_curve_exactly_and_would_break_the_ranged_one():
    cost, mu = Q(1, 4), 0.5
    plain = float(conversions.selection_epsilon(Measure.GDP, cost, "permute_and_flip"))
    kept = 1 / (1 + math.exp(-plain))
    assert 2 * norm.ppf(kept) == pytest.approx(mu, rel=1e-9)
    ranged = float(conversions.selection_epsilon(Measure.GDP, cost, "exponential"))
    assert ranged == 2 * plain
    assert 2 * norm.ppf(1 / (1 + math.exp(-ranged))) > 1.9 * mu


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 4.0])
def test_of_all_ranges_the_centred_one_is_the_hardest_to_hide(epsilon):
    # Odds a -> a e^eps for a bounded range; the Gaussian mu of that pair is largest at the center.
    x = np.linspace(-8, 8 - epsilon, 2001)
    mu = norm.ppf(1 / (1 + np.exp(-(x + epsilon)))) - norm.ppf(1 / (1 + np.exp(-x)))
    assert mu.max() <= 2 * norm.ppf(1 / (1 + math.exp(-epsilon / 2))) + 1e-9


# ------------------------------------------------------------------------------------- lifetime
def test_studies_enter_a_lifetime_in_rho():
    assert conversions.lifetime_cost(Measure.GDP, Q(1, 10), Measure.ZCDP) == Q(1, 20)
    assert conversions.lifetime_cost(Measure.ZCDP, Q(1, 10), Measure.ZCDP) == Q(1, 10)
    pure = conversions.lifetime_cost(Measure.PURE, Q(1), Measure.ZCDP)
    assert math.tanh(0.5) <= pure <= math.tanh(0.5) * (1 + 1e-9)
    assert conversions.lifetime_cost(Measure.PURE, math.inf, Measure.ZCDP) == math.inf


def test_a_lifetime_in_epsilon_takes_pure_studies_only():
    assert conversions.lifetime_cost(Measure.PURE, Q(1), Measure.PURE) == 1
    with pytest.raises(ParameterError, match="delta = 0"):
        conversions.lifetime_cost(Measure.GDP, Q(1), Measure.PURE)


# --------------------------------------------------------------------------------------------------
# docs/conversions.md: where Gaussian noise becomes smaller than Laplace noise.
PAGE = Path(__file__).parents[2] / "docs" / "accounting.md"
EPSILONS = [Fraction(e) for e in ("0.1", "0.5", "1", "2", "5", "10")]


def crossover(epsilon: Fraction, delta: Fraction) -> float:
    return float(epsilon**2 / (2 * conversions.whole_budget(Measure.GDP, epsilon, delta)))


def rows_of_the_table() -> list[tuple[Fraction, list[float]]]:
    found = re.findall(r"^\| (1e-\d+) \| ([\d. |]+) \|$", PAGE.read_text("utf-8"), re.M)
    return [(Fraction(d), [float(v) for v in values.split("|")]) for d, values in found]


@pytest.mark.parametrize(("delta", "shown"), rows_of_the_table(), ids=str)
def test_the_table_of_crossovers_is_what_the_accounting_gives(delta, shown):
    assert len(shown) == len(EPSILONS)
    for epsilon, k in zip(EPSILONS, shown, strict=True):
        assert crossover(epsilon, delta) == pytest.approx(k, abs=0.051)


def test_the_table_has_three_rows():
    assert len(rows_of_the_table()) == 3


@pytest.mark.parametrize(("k", "smaller"), [(6, Measure.PURE), (12, Measure.GDP)])
def test_the_noise_itself_changes_sides_at_the_crossover(k, smaller):
    """Epsilon 1, delta 1e-6: k* = 8.9, by the variances of the integer laws."""
    epsilon, delta = Fraction(1), Fraction(1, 10**6)
    lattice = 1 << 10  # fine units, so that the laws are not cut off by the integers
    variance = {}
    for measure in (Measure.PURE, Measure.GDP):
        cost = conversions.whole_budget(
            measure, epsilon, delta if measure is Measure.GDP else Fraction(0)
        )
        bound = Sensitivity(lattice, lattice**2, lattice)
        variance[measure] = conversions.noise_law(measure, cost / k, bound).variance
    assert min(variance, key=lambda m: variance[m]) is smaller


# --------------------------------------------------------------------------------------------------
# docs/proofs/discrete_gaussian_gdp.md, section 4: selections are priced by what is left after them.
DELTA = 1e-6
BUDGET = conversions.whole_budget(Measure.GDP, Q(1), Q(1, 10**6))


def normal_deltas(mu_squared, at):
    mu = math.sqrt(mu_squared)
    return norm.cdf(mu / 2 - at / mu) - np.exp(at) * norm.cdf(-mu / 2 - at / mu)


def sharpness(part: Fraction, chooser: str, left: Fraction) -> Fraction:
    """The epsilon of a selection that costs a part of the budget and leaves another."""
    return conversions.selection_epsilon(Measure.GDP, part * BUDGET, chooser, left * BUDGET)


def before(epsilons: list[Fraction], chooser: str, sums: Fraction) -> float:
    """What the same selections and sums would claim if each selection were priced alone."""
    width = 2 if chooser == "exponential" else 1
    alone = sum(conversions._mu_squared_of_pure(epsilon / width) for epsilon in epsilons)
    return conversions.epsilon_of(Measure.GDP, alone + sums, Q(1, 10**6))


def epsilon_of_pairs(halves: list[float], sums: float) -> float:
    """At delta 1e-6, rounded up: of steps with losses +-half each, and of sums of so much mu^2.

    Equal steps lose a binomial number of halves, so that the mixture is finite: nothing is put on a
    grid. It is no bound for the exponential mechanism: `Game`.
    """
    losses, masses = np.zeros(1), np.ones(1)
    for half, n in Counter(halves).items():
        k, high = np.arange(n + 1), 1 / (1 + math.exp(-half))
        losses = (losses[:, None] + (2 * k - n) * half).ravel()
        masses = (masses[:, None] * binom.pmf(k, n, high)).ravel()
    low, high = 0.0, 4.0
    for _ in range(30):
        middle = (low + high) / 2
        enough = masses @ normal_deltas(sums, middle - losses) <= DELTA
        low, high = (low, middle) if enough else (middle, high)
    return high + 1e-6  # beyond the rounding of floats


def plans() -> list[dict[str, str]]:
    """As `python -m support.measure` read them off fits; docs/accounting.md shows them."""
    return list(csv.DictReader(io.StringIO(archived("audit").text("plans.csv"))))


Step = tuple[bool, Fraction]
"""Whether it is a sum, and its mu^2, or the epsilon of a selection."""


def steps_of(plan: str, chooser: str) -> list[Step]:
    """The steps of a path in their order; sums stand in brackets, and what no step uses is one."""
    left, steps = Q(1), list[Step]()
    for words in plan.split("; "):
        items = [(word[0] == "(", *word.strip("()").split("x")) for word in words.split(", ")]
        left -= sum(int(n) * Q(part) for _, n, part in items)
        for is_sum, n, words_of_part in items:
            part = Q(words_of_part)
            size = part * BUDGET if is_sum else sharpness(part, chooser, min(left, 32 * part))
            steps += [(is_sum, size)] * int(n)
    return [*steps, (True, BUDGET * left)]


def losses_of(steps: list[Step], chooser: str) -> tuple[float, float, float]:
    """At delta 1e-6: what would be claimed if selections were priced alone; what is lost if their
    losses are centered; what any strategy loses at most."""
    epsilons = [size for is_sum, size in steps if not is_sum]
    sums = sum(size for is_sum, size in steps if is_sum)
    halves = [float(e) / (2 if chooser == "exponential" else 1) for e in epsilons]
    worst = worst_epsilon(steps, is_ranged=chooser == "exponential")
    return before(epsilons, chooser, sums), epsilon_of_pairs(halves, float(sums)), worst


@pytest.mark.parametrize("row", plans(), ids=lambda row: row["what"])
def test_a_plan_saves_and_loses_what_the_table_says(row):
    steps, chooser = steps_of(row["plan"], row["mechanism"]), row["mechanism"]
    alone, centered, lost = losses_of(steps, chooser)
    assert alone == pytest.approx(float(row["before"]), abs=1e-6)
    assert lost == pytest.approx(float(row["lost"]), abs=1e-5)
    assert centered - 1e-3 < lost < 1 < alone
    sums = float(sum(size for is_sum, size in steps if is_sum))
    halves = [float(e) / (2 if chooser == "exponential" else 1) for s, e in steps if not s]
    assert centered <= certified(sums, halves, DELTA) <= centered + 6e-3  # dp-accounting's grid
    sharper = [(is_sum, size if is_sum else size * Q(11, 10)) for is_sum, size in steps]
    assert losses_of(sharper, chooser)[1:] > (centered + 1e-3, lost + 1e-3)  # negative control


def test_pairs_composed_beforehand_would_claim_too_little_for_the_exponential_mechanism():
    """Where its losses lie depends on scores, and scores on earlier answers."""
    claims = {row["what"]: losses_of(steps_of(row["plan"], row["mechanism"]), row["mechanism"])
              for row in plans()[:3]}  # fmt: skip
    _, centered, lost = claims["MedianForestClassifier"]
    assert lost > centered + 0.05


def test_the_plans_are_those_of_all_who_select():
    names = " ".join(row["what"] for row in plans())
    for words in ("MedianForest", "Multiway", "TopDown", "single_machine_rnm", "local_rnm"):
        assert words in names


def above_the_claim(cost, left, sharper, at):
    """By how much a selection among sums passes the Gaussian it is priced as, at any `at` in [0, 1]
    of the interval in which its losses lie, at any epsilon."""
    epsilon = sharper * float(
        conversions.selection_epsilon(Measure.GDP, Q(cost), "exponential", Q(left))
    )
    high = at * epsilon
    p = (math.exp(epsilon) - math.exp(high)) / math.expm1(epsilon)
    grid = np.linspace(-7, 7, 801) * math.sqrt(cost + left)
    mixed = p * normal_deltas(left, grid - high) + (1 - p) * normal_deltas(
        left, grid - high + epsilon
    )
    return float((mixed - normal_deltas(cost + left, grid)).max())


@pytest.mark.parametrize("left", [0.003, 0.1, 1.0, 9.0])
@pytest.mark.parametrize("ratio", [0.01, 0.3, 1.0, 20.0])
def test_a_selection_among_sums_is_below_the_noise_that_it_is_priced_as(left, ratio):
    places = np.linspace(0.001, 0.999, 41)
    assert max(above_the_claim(ratio * left, left, 1.0, at) for at in places) <= 1e-15
    if left * (1 + ratio) < 10:  # negative control
        assert max(above_the_claim(ratio * left, left, 1.25, at) for at in places) > 1e-7


@pytest.mark.parametrize("chooser", ["exponential", "permute_and_flip"])
def test_with_nothing_left_a_selection_costs_what_it_costs_alone_and_never_more(chooser):
    alone = sharpness(Q(1, 10), chooser, Q(0))
    assert sharpness(Q(1, 10), chooser, Q(1, 100)) == alone
    rising = [sharpness(Q(1, 10), chooser, Q(left, 10)) for left in (2, 3, 5, 9)]
    assert [alone, *rising] == sorted({alone, *rising})
    half = float(rising[-1]) / (2 if chooser == "exponential" else 1)
    assert half < math.sqrt(BUDGET / 10)  # its variance is below its price
    assert conversions.selection_epsilon(Measure.PURE, Q(1, 10), chooser, Q(1)) == Q(1, 10)


class Deltas:
    """The least delta at each epsilon of a grid, of all that is still to be asked."""

    def __init__(self, grid, values) -> None:
        self.grid, self.values = grid, values

    def at(self, epsilon):
        known = np.interp(epsilon, self.grid, self.values)
        return np.where(epsilon < self.grid[0], -np.expm1(np.minimum(epsilon, 0)), known)

    def before_a_sum(self, mu_squared: float):
        z = np.linspace(-7, 7, 281)
        weights = norm.pdf(z) / norm.pdf(z).sum()
        losses = mu_squared / 2 + math.sqrt(mu_squared) * z
        return sum(w * self.at(self.grid - x) for w, x in zip(weights, losses, strict=True))

    def before_a_selection(self, width: float, places):
        """Its losses are the ends of an interval, which lies where it hurts most among places."""
        worst = np.zeros_like(self.values)
        for high in places * width:
            p = (math.exp(width) - math.exp(high)) / math.expm1(width)
            both = p * self.at(self.grid - high) + (1 - p) * self.at(self.grid - high + width)
            worst = np.maximum(worst, both)
        return worst


def worst_epsilon(steps: list[Step], *, is_ranged: bool) -> float:
    """At delta 1e-6, of an adversary who knows all answers and lets the losses of a selection lie
    anywhere in an interval as long as its epsilon, or twice as long around 0."""
    grid = np.linspace(-3.0, 4.0, 3501)
    deltas = Deltas(grid, np.maximum(-np.expm1(grid), 0.0))
    for is_sum, size in reversed(steps):
        if is_sum and size:
            deltas = Deltas(grid, deltas.before_a_sum(float(size)))
        elif not is_sum:
            width = float(size) * (1 if is_ranged else 2)
            places = np.linspace(0.02, 0.98, 25) if is_ranged else np.array([0.5])
            deltas = Deltas(grid, deltas.before_a_selection(width, places))
    return float(np.interp(-DELTA, -deltas.values, grid))


class Game:
    """An adversary who knows all answers: at each step it asks for a selection whose losses lie
    wherever it likes, or for a sum, whichever hurts more. By dynamic programming over what is left
    of the budget, in tenths, and over the epsilon that is still to be passed."""

    def __init__(self, least_left: int, priced_by: int) -> None:
        self.least_left = least_left
        self.epsilon = float(sharpness(Q(1, 10), "exponential", Q(priced_by, 10)))
        grid = np.linspace(-3.0, 3.5, 2601)
        self.deltas = Deltas(grid, np.maximum(-np.expm1(grid), 0.0))

    def before(self, left: int) -> Deltas:
        """The worst of both next steps, which leave so many tenths."""
        worst = self.deltas.before_a_sum(float(BUDGET / 10))
        if left >= self.least_left:
            places = np.linspace(0.02, 0.98, 25)
            worst = np.maximum(worst, self.deltas.before_a_selection(self.epsilon, places))
        return Deltas(self.deltas.grid, worst)

    def excess(self) -> float:
        """By what part its delta is above that of the budget, at the worst of all epsilons."""
        for left in range(10):
            self.deltas = self.before(left)
        at = np.linspace(0.0, 1.0, 101)
        return float((self.deltas.at(at) / normal_deltas(float(BUDGET), at)).max()) - 1


def test_no_strategy_loses_more_than_was_claimed_by_selections_among_sums():
    """A selection for a tenth of the budget leaves three tenths or more."""
    assert Game(least_left=3, priced_by=3).excess() < 0.005
    assert Game(least_left=0, priced_by=0).excess() < 0.005
    assert Game(least_left=0, priced_by=3).excess() > 0.02  # negative control
