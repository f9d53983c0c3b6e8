"""What is left when more sites collude than a study tolerates."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from fractions import Fraction as Q
from functools import cache
from statistics import NormalDist

import numpy as np
import pytest

from hedgerow.data.reading.encoding import Encoded
from hedgerow.data.rows import Rows
from hedgerow.data.sums import Answering
from hedgerow.errors import ParameterError
from hedgerow.models.losses import Sensitivity
from hedgerow.privacy.accounting import coalition, conversions
from hedgerow.privacy.accounting.budget import Measure
from hedgerow.privacy.accounting.coalition import (
    Coalition,
    CoalitionRelease,
    cost_against,
    polya_loss,
)
from hedgerow.privacy.mechanisms.mechanisms import DiscreteGaussian, DiscreteLaplace
from hedgerow.privacy.queries import (
    Binning,
    Cells,
    ClassCounts,
    Fractions,
    LocalSelection,
    Mechanism,
    Score,
    Scoring,
    SumQuery,
    Whole,
)
from hedgerow.privacy.statement import wording
from hedgerow.privacy.statement.statement import statement
from hedgerow.privacy.study import Study
from hedgerow.schema.regions import EVERYONE, Step
from hedgerow.schema.schema import Categorical, Schema, Target
from support.worlds import federation, site_rows, study

ONE = Sensitivity(1, 1, 1)


def counted(rate: Q) -> CoalitionRelease:
    return CoalitionRelease(law=DiscreteLaplace(rate), sensitivity=ONE)


def polya_difference(rate: float, shape: float, reach: int) -> np.ndarray:
    """P(0), P(1), .. of X - Y by plain summation."""
    a, one = math.exp(-rate), [1.0]
    for k in range(1, 40 * reach):
        one.append(one[-1] * a * (shape + k - 1) / k)
    q = np.array(one) * (1 - a) ** shape
    return np.array([np.dot(q[: len(q) - k], q[k:]) for k in range(reach)])


# (h, t, colluders) stands for `feature_effect` honest shares of h; losses are for one unit count.
TABLE = [
    (2, 3, 2, (0.606, 1.138, 1.675)),
    (3, 4, 2, (0.343, 0.856, 1.389)),
    (3, 4, 3, (1.036, 1.549, 2.083)),
    (6, 8, 6, (1.036, 1.549, 2.083)),
    (6, 7, 2, (0.187, 0.652, 1.172)),
]


@pytest.mark.parametrize(("h", "t", "colluders", "expected"), TABLE)
def test_one_colluder_too_many_costs_what_the_exact_table_says(h, t, colluders, expected):
    coalition = Coalition(h=h, t=t, colluders=colluders)
    for declared, true in zip((Q(1, 10), Q(1, 2), Q(1)), expected, strict=True):
        found = cost_against(Measure.PURE, counted(declared), coalition)
        assert float(found) == pytest.approx(true, abs=6e-4)


@pytest.mark.parametrize("colluders", [0, 1])
def test_the_declared_cost_holds_against_tolerated_colluders(colluders):
    coalition = Coalition(h=3, t=4, colluders=colluders)
    assert cost_against(Measure.PURE, counted(Q(1, 10)), coalition) == Q(1, 10)
    law = DiscreteGaussian(Q(50))
    release = CoalitionRelease(law=law, sensitivity=ONE)
    assert cost_against(Measure.GDP, release, coalition) == conversions.cost_of(
        Measure.GDP, law, ONE
    )


@pytest.mark.parametrize("measure", list(Measure))
def test_nothing_is_promised_when_every_survivor_may_collude(measure):
    coalition = Coalition(h=3, t=4, colluders=4)
    release = CoalitionRelease(law=DiscreteGaussian(Q(50)), sensitivity=ONE)
    assert cost_against(measure, release, coalition) == math.inf


def test_gaussian_noise_loses_the_square_root_of_the_shares_it_misses():
    release = CoalitionRelease(law=DiscreteGaussian(Q(10**6)), sensitivity=ONE)
    full = cost_against(Measure.GDP, release, Coalition(h=4, t=6, colluders=2))
    half = cost_against(Measure.GDP, release, Coalition(h=4, t=6, colluders=4))
    assert float(half / full) == pytest.approx(2, rel=1e-6)


@pytest.mark.parametrize(
    ("rate", "shape"), [(0.5, Q(1, 2)), (0.1, Q(1, 3)), (1.0, Q(4, 5)), (0.3, Q(1))]
)
def test_the_loss_of_a_part_of_the_shares_is_the_exact_one(rate, shape):
    p = polya_difference(rate, float(shape), 30)
    both_sides = np.concatenate([p[:0:-1], p])
    for change in (1, 2, 7):
        worst = np.abs(np.log(both_sides[change:] / both_sides[:-change])).max()
        assert float(polya_loss(Q(rate), shape, change)) == pytest.approx(worst, rel=1e-6)


def test_an_even_spread_of_a_change_is_the_worst_one():
    rate, shape = Q(1, 5), Q(1, 2)
    release = CoalitionRelease(
        law=DiscreteLaplace(rate), sensitivity=Sensitivity(7, 49, 7), touched_coordinates=3
    )
    cost = cost_against(Measure.PURE, release, Coalition(h=2, t=3, colluders=2))
    spreads = [s for s in itertools.product(range(8), repeat=3) if sum(s) <= 7]
    loss = [Q(0), *(polya_loss(rate, shape, change) for change in range(1, 8))]
    assert cost == max(sum(loss[change] for change in spread) for spread in spreads)


def test_two_releases_cost_more_against_a_coalition_than_one_of_twice_the_rate():
    coalition = Coalition(h=2, t=3, colluders=2)
    once = cost_against(Measure.PURE, counted(Q(1, 10)), coalition)
    assert 2 * once > cost_against(Measure.PURE, counted(Q(1, 5)), coalition)


def test_a_study_without_tolerated_colluders_is_not_a_study():
    with pytest.raises(ParameterError):
        Coalition(h=3, t=3, colluders=1)


# --------------------------------------------------------------------------------------------------
# What one colluder more than tolerated costs, against every placing of one person's records.
FEATURES = (Categorical("a", ("p", "q")), Categorical("b", ("r",)))
CLASSES = Schema(FEATURES, classes=("no", "yes"))
VALUES = Schema(FEATURES, target=Target(0.0, 1.0))
CELLS = [range(grid.n_cells) for grid in CLASSES.grids]
PARTIES = 5  # h = 3 honest of t = 4, one colluder tolerated; two leave 2 of 3 shares
LEFT = Fraction(2, 3)
SPLIT = CLASSES.grids[0].split_values([0])
CHOICE = LocalSelection(
    EVERYONE, (SPLIT, CLASSES.grids[1].split_values([0])), Scoring(Score.GINI), Fraction(3, 4)
)
COUNTS = SumQuery(
    EVERYONE, ClassCounts(2), Cells((0, 1), Binning.of_cells(CLASSES)), Fraction(1, 4)
)
BY_NODE = [
    SumQuery((Step(SPLIT, side),), ClassCounts(2), Whole(), Fraction(1, 4)) for side in (0, 1)
]


def rows_of(schema: Schema, records: list[tuple[int, int, float]]) -> Rows:
    codes = np.array([r[:2] for r in records], np.uint8).reshape(-1, 2).T.copy()
    kind = np.uint8 if schema.classes else np.float64
    y = np.array([r[2] for r in records], kind)
    encoded = Encoded(codes=codes, y=y, persons=None, clamped={}, unknown={}, skipped=0)
    return Rows(encoded, schema)


def moved_by(the_study: Study, bundle: list[SumQuery], records) -> list[int]:
    """What a person adds to the sums of a bundle, coordinate by coordinate."""
    schema = the_study.schema
    answering = Answering(rows_of(schema, records), schema)
    units = np.concatenate([answering.integers(q, the_study.unit(q)) for q in bundle])
    return [int(v) for v in np.abs(units) if v]


@cache
def loss(rate: float, shape: float, change: int) -> float:
    """log P(0) / P(change) of the difference of two Polya numbers, by plain sums."""
    a, q = math.exp(-rate), [1.0]
    for k in range(1, int(60 / rate) + 10):
        q.append(q[-1] * a * (shape + k - 1) / k)
    weights = np.array(q)
    return float(np.log(weights @ weights / (weights[: len(q) - change] @ weights[change:])))


def worst_loss(the_study: Study, bundle: list[SumQuery]) -> float:
    """Over every placing of a person's records, of the noise that two colluders leave."""
    (law,) = {the_study.sum_law(query) for query in bundle}
    assert isinstance(law, DiscreteLaplace)
    answers = (0, 1) if the_study.schema.classes else (0.0, 0.37, 1.0)
    every = list(itertools.product(*CELLS, answers))
    persons = itertools.combinations_with_replacement(every, the_study.records_per_person)
    spreads = {tuple(sorted(moved_by(the_study, bundle, person))) for person in persons}
    return max(sum(loss(float(law.rate), float(LEFT), v) for v in s) for s in spreads)


# --------------------------------------------------------------------------------- one release
@pytest.mark.parametrize("m", [1, 2, 3])
@pytest.mark.parametrize("bundle", [[COUNTS], BY_NODE], ids=["two columns", "two nodes"])
def test_the_worst_placing_of_a_persons_records_costs_what_is_stated(bundle, m):
    """Also of records in two nodes: the price of one node then covers what is lost in both."""
    the_study = study(CLASSES, PARTIES, records_per_person=m)
    assert the_study.honest == 3
    found = price(the_study, bundle[0])
    assert found == pytest.approx(worst_loss(the_study, bundle), rel=1e-6)


@pytest.mark.parametrize("m", [1, 2])
def test_fractional_counts_are_priced_for_the_even_spread_over_their_channels(m):
    """The bound is the even spread; no placing of whole records loses more."""
    the_study = study(VALUES, PARTIES, epsilon="4", records_per_person=m)
    query = SumQuery(EVERYONE, Fractions(0.0, 1.0), Whole(), Fraction(1))
    assert worst_loss(the_study, [query]) <= price(the_study, query) * (1 + 1e-9)


def price(the_study: Study, query: SumQuery) -> float:
    against = coalition.Coalition(h=3, t=4, colluders=2)
    return float(coalition.cost_against(the_study.measure, the_study.release(query), against))


def one_records_coordinates(right):
    """The mutant: three records counted in the coordinates of one."""

    def release(self, query):
        whole = right(self, query)
        return replace(
            whole, touched_coordinates=whole.touched_coordinates // self.records_per_person
        )

    return release


def test_a_coalition_priced_for_one_record_and_one_coordinate_is_seen(monkeypatch):
    """Twin: three records in three cells."""
    monkeypatch.setattr(Study, "release", one_records_coordinates(Study.release))
    the_study = study(CLASSES, PARTIES, records_per_person=3)
    assert price(the_study, COUNTS) < 0.99 * worst_loss(the_study, [COUNTS])


# --------------------------------------------------------------------------------- a whole run
def stated(the_study: Study, bundles) -> float:
    """Epsilon "if one more site colludes" in the statement of a run."""
    X, y = np.empty((0, 2), object), np.empty(0, object)
    fed = federation(the_study, site_rows(X, y, np.empty(0, int), PARTIES, CLASSES))
    for bundle in bundles:
        fed.ask(bundle)
    said = statement(the_study, fed.sites.spent(), fed.queries, is_simulation=True)
    words = dict(said.trust)["coalition"]
    return float(words.split("; epsilon ")[1].split(" if one more")[0])


def true_epsilon(the_study: Study) -> float:
    """A choice at its own price, and the worst placing of counts by node."""
    return float(CHOICE.fraction * the_study.epsilon) + worst_loss(the_study, BY_NODE)


def is_priced(the_study: Study) -> bool:
    return stated(the_study, [[CHOICE], BY_NODE]) == pytest.approx(
        true_epsilon(the_study), rel=1e-3
    )


PERSONS = [study(CLASSES, PARTIES, records_per_person=m) for m in (1, 3)]


@pytest.mark.parametrize("the_study", PERSONS, ids=["one record", "three records"])
def test_the_statement_prices_choices_and_every_record_of_a_person(the_study):
    assert is_priced(the_study)


def test_choices_left_out_of_the_price_are_seen(monkeypatch):
    """Twin: three quarters of the node's budget go to choices."""
    right = wording.worst_path
    monkeypatch.setattr(
        wording, "worst_path", lambda asked: right([q for q in asked if q.release is not None])
    )
    assert not is_priced(PERSONS[0])


def test_one_records_coordinates_in_the_price_of_a_run_are_seen(monkeypatch):
    """Twin, in the statement itself."""
    monkeypatch.setattr(Study, "release", one_records_coordinates(Study.release))
    assert not is_priced(PERSONS[1])


def test_a_gaussian_run_is_priced_by_the_variance_that_is_left():
    """mu^2 of what is left of each sum, by its definition, and of the choice; then epsilon."""
    the_study = study(CLASSES, PARTIES, epsilon="2", delta="1e-6", records_per_person=3)
    assert the_study.measure is Measure.GDP
    law, scale = the_study.sum_law(COUNTS), the_study.refinement(COUNTS)
    variance = float(law.sigma2 * LEFT)
    k = np.arange(-4000, 4001, dtype=float)
    at_zero = 1 / np.exp(-(k**2) / (2 * variance)).sum()
    unit = 2 * NormalDist().inv_cdf((1 + at_zero) / 2)
    squared_change = 2 * (3 * scale) ** 2  # three records in one cell of each column
    expected = squared_change * unit**2 + float(CHOICE.fraction * the_study.total)
    choice = replace(CHOICE, mechanism=Mechanism.EXPONENTIAL)
    assert gaussian_delta(math.sqrt(expected), stated(the_study, [[choice], [COUNTS]])) == (
        pytest.approx(1e-6, rel=0.02)
    )


def gaussian_delta(mu: float, epsilon: float) -> float:
    law = NormalDist()
    return law.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * law.cdf(-mu / 2 - epsilon / mu)


# ------------------------------------------------------------------------------ several records
def test_n_of_m_records_pay_at_most_n_mth_of_a_choice_in_gaussian_terms():
    """psi^2 is convex: docs/proofs/discrete_gaussian_gdp.md, section 3."""
    law = NormalDist()
    for epsilon in (0.01, 0.3, 1.0, 4.0, 12.0, 30.0):
        whole = law.inv_cdf(1 / (1 + math.exp(-epsilon))) ** 2
        for part in (0.1, 1 / 3, 0.5, 0.9):
            paid = law.inv_cdf(1 / (1 + math.exp(-epsilon * part))) ** 2
            assert paid <= part * whole * (1 + 1e-12)
