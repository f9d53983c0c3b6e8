"""Boosted trees for the time to an event: proportional odds on a private grid of times.

Our own method: the classifier's (private bins, smoothed curves, stacking, oblivious trees) with
another loss, whose vectors (g, 2 h) have norm 1 without clipping (docs/proofs/losses.md). A
record is in one interval of time, so numbers at risk follow from counts and cost nothing.

    | round    | asked                                                 | part of the budget       |
    |----------|-------------------------------------------------------|--------------------------|
    | 1        | number of records                                     | .002 (+ .05 if hidden)   |
    | 2        | events and censored records on a public grid of times | .03                      |
    | 3        | the same on intervals of equal event mass; bins       | .07 (.14 if weak); .04   |
    | 4        | gradients and Hessians by bin of each column          | .8 of what trees leave   |
    | 5-7      | steps on the weights of the curves                    | .2 of what trees leave   |
    | 8        | distribution of the score: the baseline follows       | .01                      |
    | then     | leaves of oblivious trees, `trees_per_round` of them  | up to half of the rest   |
    | last two | distribution again; score group x time x event        | .01; .04                 |

The last table corrects level and time dependence of the score, and is what pages show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from hedgerow.methods import boosting_classes as classes
from hedgerow.methods.base import PrivateEstimator, StagedTrees
from hedgerow.methods.blocks import curves, private_bins, random_trees
from hedgerow.methods.blocks.boosting import DrawnTrees, Rounds, boost, equal_sizes
from hedgerow.methods.blocks.flow import Flow, NoiseModel, ask, both
from hedgerow.methods.blocks.newton_steps import Wiener
from hedgerow.methods.blocks.sizes import QUERY, Scale
from hedgerow.methods.blocks.tables import ask_tables
from hedgerow.methods.constants import constant
from hedgerow.methods.inputs import checked_times
from hedgerow.methods.method import Needs, Task, TrainingResult, method
from hedgerow.methods.parameters import estimator, parameter
from hedgerow.models.losses import OddsLoss, sigmoid
from hedgerow.models.model import Additive, Model, Output
from hedgerow.models.survival import RiskTable, SurvivalCurve, concordance, interval_middles
from hedgerow.models.uncertainty import ScoreNoise
from hedgerow.privacy.bundles import NUMBER, Size
from hedgerow.privacy.queries import (
    Cells,
    Count,
    CurveNewton,
    EventCounts,
    Gradients,
    Leaves,
    PredictionCells,
    QueryKinds,
    SumQuery,
    Whole,
    sums,
)
from hedgerow.schema.arrays import FloatArray, Rng, canonical
from hedgerow.schema.candidates import Grids
from hedgerow.schema.features import Mark, Survival
from hedgerow.schema.regions import EVERYONE
from hedgerow.schema.rules import whole
from hedgerow.schema.schema import Schema

ONE_CURVE_BELOW = constant(10.0, unit="records per noise")
"""Below it all records get one curve: a model of noise would be worse."""
WEAK = constant(150.0, unit="records per noise")
"""Below it the curve of all records takes a larger fraction of the budget."""
TIME_FRACTION = constant(Fraction(1, 10), unit="fraction of the budget for times")
WEAK_TIME_FRACTION = constant(Fraction(1, 5), unit="fraction of the budget for times, if weak")
ONE_CURVE_FRACTION = constant(Fraction(9, 10), unit="fraction of the budget for one curve alone")
FIRST_LOOK_FRACTION = constant(Fraction(3, 10), unit="fraction of what times take")
SCORE_FRACTION = constant(Fraction(1, 100), unit="fraction of the budget for scores")
TABLE_FRACTION = constant(Fraction(4, 100), unit="fraction of the budget for calibration")
TIME_CELLS = constant((6, 64), unit="cells of the public grid of times, at least and at most")
DEVIATIONS_PER_CELL = constant(6.0, unit="deviations of noise that a cell of times should hold")
INTERVALS = constant((4, 12), unit="intervals of equal event mass, at least and at most")
FEWEST_EVENTS = constant(8.0, unit="events of an interval, at least")
FOLLOWED_UP = constant(0.97, unit="part of the follow-up before the last edge")
CELL_STANDS_OUT = constant(2.0, unit="deviations by which a cell of times stands out")
LEAST_RECORDS_OF_CURVE = constant(50.0, unit="records there are taken to be at least")
STACK_ROUNDS = constant(3, unit="Newton steps on the weights of the curves")
WEIGHT_DEVIATION = constant(0.35, unit="prior deviation of a weight")
CURVE_WEIGHTS = constant((-0.3, 1.6), unit="weight of a curve, at least and at most")
RISK_CUTS = constant(
    (-2.0, -1.5, -1.1, -0.8, -0.5, -0.25, 0.0, 0.25, 0.5, 0.8, 1.1, 1.5, 2.0, 2.5, 3.2),
    unit="deviations of the score",
)
LEAF_DEVIATION = constant(0.15, unit="log-odds that a leaf is expected to lie from zero")
CLEAR_LEAF_DEVIATION = constant(0.1, unit="the same, under little noise")
GROUP_QUANTILES = constant((0.2, 0.4, 0.6, 0.8), unit="quantiles of the score")
GROUP_TIMES = constant(4, unit="times of the table of score groups")
CALIBRATION_PRIOR = constant((0.15, 0.25), unit="prior deviations of shift and drift")
FEW = constant((300.0, 60.0), unit="1,500 and 300 at epsilon 1")
ONE_CURVE = (
    "noise hides nearly all that these records could teach: the model gives one survival curve for "
    "everybody and uses no column; ask with a larger epsilon, more records or fewer columns."
)
LITTLE = (
    "there are few {} for this epsilon: expect little beyond the survival curve of all records. At "
    "epsilon 1 use about 1,500 records with 300 events, or more."
)


@method("survival_boost", test_settings=({"n_estimators": 4, "trees_per_round": 2},))
class SurvivalBoost(classes.SmoothedBoost):
    """Curves, then at most `n_estimators` oblivious trees, `trees_per_round` of them a round."""

    trees_per_round: int = parameter(
        default=4,
        rule=whole(1),
        text="How many trees see the same gradients: a batch of random trees is one round.",
    )

    @property
    def needs(self) -> Needs:
        return Needs(tasks=frozenset({Task.SURVIVAL}))

    def asks(self, schema: Schema) -> QueryKinds:
        times = sums(EventCounts, Whole, PredictionCells) | sums(Count, PredictionCells)
        learning = sums(Gradients, Cells, Leaves) | sums(CurveNewton, Whole)
        return private_bins.ASKS | times | learning

    def largest(self, schema: Schema) -> Size:
        """With all trees, which only a strong signal pays for."""
        scale = Scale(schema)
        leaves = scale.complete(self.max_depth)
        rounds = -(-self.n_estimators // self.trees_per_round)
        model = scale.model_bytes(self.n_estimators, leaves, 1, self.max_depth)
        times = TIME_CELLS[1] * 5 // 4
        edges = QUERY + NUMBER * 2 * times
        size = scale.total() * 2 + Size.of_step(integers=2 * times + 2, bytes=edges)
        both = max(2 * times + 2, scale.columns * scale.cells)  # counts of times, and of all cells
        size += Size.of_step(2, integers=both, bytes=edges + scale.bins_bytes)
        size += scale.tables(channels=2, shared_bytes=edges)
        step = curves.size_of_step(scale, NUMBER * 2 * times + model)
        groups = (len(RISK_CUTS) + 1) * 2 * (GROUP_TIMES + 1)
        size += step * STACK_ROUNDS + Size.of_step(integers=groups, bytes=edges + model) * 3
        trees = scale.trees(self.trees_per_round, leaves, channels=2, shared_bytes=edges + model)
        return size + trees * rounds

    def flow(self, schema: Schema, noise_model: NoiseModel, rng: Rng) -> Flow[TrainingResult]:
        noisy_count = yield from private_bins.count_until_clear()
        strength = classes.signal_to_noise(noisy_count, len(schema.grids))
        one_curve = strength < ONE_CURVE_BELOW or not noisy_count.count.is_seen
        part = TIME_FRACTION if strength >= WEAK else WEAK_TIME_FRACTION
        if one_curve:
            part = min(ONE_CURVE_FRACTION, 1 - noisy_count.count.spent)
        cells = yield from first_look(schema, noisy_count, part * FIRST_LOOK_FRACTION)
        of_times = part * (1 - FIRST_LOOK_FRACTION)
        edges = interval_edges(*cells, noisy_count, of_times)
        time_table = count_times(edges, noisy_count, of_times)
        if one_curve:
            return everybody((yield from time_table))
        bins = private_bins.bins_by_count(schema, noisy_count)
        times, binning = yield from both(time_table, bins)
        grids = Grids(schema, binning)
        if not grids.active:
            return everybody(times)
        spent = noisy_count.count.spent + part + private_bins.BINS_FRACTION
        rest = 1 - spent - 2 * SCORE_FRACTION - TABLE_FRACTION
        trees = rest * classes.for_trees(strength, 2)
        stacking = (rest - trees) * classes.STACK_PART
        loss = OddsLoss(times.edges, times.odds)
        gradients, by = Gradients(loss, Additive((0.0,))), Cells(grids.active, binning)
        tables = yield from ask_tables(EVERYONE, gradients, by, rest - trees - stacking)
        shapes = curves.gradient_shapes(grids, tables, loss)
        stack = yield from stack_curves(shapes, grids, loss, stacking)
        score, noise = shapes.start(grids, stack), list[FloatArray]()
        spread = max(float(np.sqrt(shapes.strengths.sum()) * abs(stack.weights.mean())), 0.2)
        scores = yield from score_distribution(score, stack.shift, spread, SCORE_FRACTION)
        if trees:
            loss = OddsLoss(times.edges, baseline(times.marginal, *scores))
            # Leaves are expected to lie less far from zero where little noise holds them back.
            variance = noisy_count.deviation**2 * self.n_estimators / float(trees)
            hessian = float(tables.total[0][1]) / OddsLoss.hessian_scale
            is_noisy = variance > 4.0 * max(hessian, 1.0) / 2**self.max_depth
            clear = CLEAR_LEAF_DEVIATION * float(np.sqrt(self.trees_per_round))  # one step a batch
            update = Wiener(loss, deviation=LEAF_DEVIATION if is_noisy else clear)
            columns = classes.drawable_features(shapes, stack)
            drawn_trees = DrawnTrees(random_trees.oblivious(grids, columns, self.max_depth))
            rounds = Rounds(equal_sizes(self.n_estimators, self.trees_per_round), trees)
            score, noise = yield from boost(rounds, drawn_trees, lambda _: update, score, rng)
            scores = yield from score_distribution(score, stack.shift, spread, SCORE_FRACTION)
        curve = yield from calibrate_hazard(times, score, scores, TABLE_FRACTION)
        score_noise = ScoreNoise.of(noise, shapes.noise(grids, stack))
        parts = shapes.parts(grids)
        model = Model(score, Output.VALUE, parts=parts, noise=score_noise, survival=curve)
        return TrainingResult(model, instead=little_to_learn(times, noisy_count.deviation))


def everybody(curve: SurvivalCurve) -> TrainingResult:
    """The curve of all records, for each of them."""
    return TrainingResult(Model(Additive((0.0,)), Output.VALUE, survival=curve), instead=ONE_CURVE)


def little_to_learn(times: SurvivalCurve, deviation: float) -> str | None:
    """Of what there is too little, if so; `deviation` is that of a count at the whole budget."""
    counts = times.everyone.table[0]
    both = zip((counts.sum(), counts[1].sum()), FEW, ("records", "events"), strict=True)
    return next((LITTLE.format(word) for n, few, word in both if n < few * deviation), None)


def first_look(
    schema: Schema, noisy_count: private_bins.NoisyCount, fraction: Fraction
) -> Flow[tuple[FloatArray, FloatArray]]:
    """Ends of public cells of time, and (2, cells) what stands out of the noise in them.

    What is left of the records is spread over the other cells by width.
    """
    assert schema.survival is not None
    noise, horizon = noisy_count.deviation / np.sqrt(float(fraction)), schema.survival.horizon
    cells = noisy_count.records / (DEVIATIONS_PER_CELL * max(noise, 1e-9))
    n = int(np.clip(cells, *TIME_CELLS))
    steps = np.arange(1, 1 + n // 4) / (4.0 if n < 48 else 6.0)
    parts = np.concatenate([np.arange(1, n + 1) / n, 10.0**-steps])
    ends = np.unique(canonical(horizon * parts))
    ends[-1] = horizon
    counts = yield from ask_times(tuple(ends.tolist()), Whole(), fraction)
    table, records = counts.table[0, :, :-1], noisy_count.records
    clear_cells = np.where(table > CELL_STANDS_OUT * counts.deviation, table, 0.0)
    if clear_cells.sum() <= 0.0:
        clear_cells = np.full_like(clear_cells, records / clear_cells.size)
    widths = np.diff(ends, prepend=0.0) * (clear_cells.sum(axis=0) == 0.0)
    left = max(records - float(clear_cells.sum()), 0.0) * widths / max(float(widths.sum()), 1e-12)
    rows = clear_cells.sum(axis=1, keepdims=True) / clear_cells.sum()
    return ends, np.asarray(clear_cells + left * rows)


def ask_times(
    edges: tuple[float, ...], by: Whole | PredictionCells, fraction: Fraction
) -> Flow[RiskTable]:
    """Noisy counts of all records by interval and event, in total or by group of the score."""
    answer = yield from ask(SumQuery(EVERYONE, EventCounts(edges), by, fraction))
    cuts, counts = getattr(by, "edges", ()), tuple(answer.values.ravel().tolist())
    return RiskTable(cuts, edges, counts, float(np.sqrt(answer.variance)))


def interval_edges(
    ends: FloatArray, table: FloatArray, noisy_count: private_bins.NoisyCount, fraction: Fraction
) -> tuple[float, ...]:
    """Intervals of equal noisy event mass, two more by follow-up; the last has most of it."""
    left_fraction = np.cumsum(table.sum(axis=0)) / table.sum()
    events = np.cumsum(table[1])
    last = min(int(np.searchsorted(left_fraction, FOLLOWED_UP)), len(ends) - 1)
    noise = noisy_count.deviation / np.sqrt(float(fraction))
    n_intervals = events[last] / max(DEVIATIONS_PER_CELL * noise, FEWEST_EVENTS)
    k = int(np.clip(n_intervals, *INTERVALS))
    by_event = np.searchsorted(events, events[last] * np.arange(1, k) / k)
    parts = np.array([0.5] if len(ends) < 20 else [0.33, 0.67])
    by_followup = np.searchsorted(left_fraction, parts * left_fraction[last])
    places = np.minimum(np.concatenate([by_event, by_followup, [last]]), last)
    return tuple(float(ends[place]) for place in np.unique(places))


def count_times(
    edges: tuple[float, ...], noisy_count: private_bins.NoisyCount, fraction: Fraction
) -> Flow[SurvivalCurve]:
    """The curve of all records, from the counts of each interval.

    Their number is that of the count and the table's total, each as far as it is certain.
    """
    counts = yield from ask_times(edges, Whole(), fraction)
    numbers = np.array([noisy_count.count.number, counts.table.sum()])
    noise = noisy_count.count.deviation**2, counts.deviation**2 * counts.table.size
    records = np.average(numbers, weights=1.0 / np.maximum(noise, 1e-9))
    chances = canonical(counts.smoothed_chances(max(float(records), LEAST_RECORDS_OF_CURVE)))
    marginal, odds = (tuple(part.tolist()) for part in (chances, chances / (1.0 - chances)))
    return SurvivalCurve(edges, odds, (1.0,) * len(edges), 0.0, marginal, counts)


def stack_curves(
    shapes: curves.FeatureEffects, grids: Grids, loss: OddsLoss, fraction: Fraction
) -> Flow[curves.Stacking]:
    """One weight a curve: the posterior mean given the sums of all rounds, later ones first.

    Unlike `curves.stack`, all are drawn to one prior: a flat curve does not hold back the others.
    """
    first = curves.first_step(shapes, grids, loss)
    start = np.array(first.weights)
    weights, d = start, len(start)
    mean, weight_sum, squares = np.zeros((d, d + 1)), 0.0, 0.0
    for place in range(STACK_ROUNDS):
        newton_step = replace(first, weights=tuple(weights.tolist()))
        answer = yield from ask(SumQuery(EVERYONE, newton_step, Whole(), fraction / STACK_ROUNDS))
        gradient, values, vectors = curves.newton_sums(newton_step, answer)
        hessian = (vectors * values) @ vectors.T
        target = hessian @ (weights - start) - gradient
        mean += (place + 1.0) * np.column_stack([hessian, target])
        weight_sum, squares = weight_sum + place + 1.0, squares + (place + 1.0) ** 2
        noise = first.radius**2 * answer.variance * squares / weight_sum**2
        h, z, prior = mean[:, :d] / weight_sum, mean[:, d] / weight_sum, WEIGHT_DEVIATION**2
        spread = prior * h @ h + h + (noise + 1e-9) * np.eye(d)
        gain = prior * np.linalg.solve(spread, h).T
        weights = canonical(np.clip(start + gain @ z, *CURVE_WEIGHTS))
    deviations = canonical(np.sqrt((gain[:-1] ** 2).sum(axis=1) * noise))
    return curves.Stacking(weights[:-1], float(weights[-1] * first.constant), deviations)


EdgeScores = tuple[tuple[float, ...], FloatArray]  # cuts, and parts of the records between them


def score_distribution(
    score: Additive, center: float, spread: float, fraction: Fraction
) -> Flow[EdgeScores]:
    """Noisy parts of the records by interval of the score; cells of noise count half."""
    cuts = tuple(canonical(center + np.array(RISK_CUTS) * spread).tolist())
    answer = yield from ask(SumQuery(EVERYONE, Count(), PredictionCells(score, cuts), fraction))
    counts, noise = answer.values[0, :, 0], np.sqrt(answer.variance)
    mass = np.maximum(np.where(counts > 1.5 * noise, counts, counts / 2.0), 0.0) + 1e-3
    return cuts, mass / mass.sum()


def baseline(
    marginal: Sequence[float], cuts: tuple[float, ...], parts: FloatArray
) -> tuple[float, ...]:
    """Odds at which the mean chance over all scores is the marginal one; by halving."""
    chances, scores = np.clip(marginal, 1e-5, 1.0 - 1e-5), interval_middles(cuts)
    low, high = np.full(len(chances), -30.0), np.full(len(chances), 30.0)
    for _ in range(60):
        middle = (low + high) / 2.0
        is_low = sigmoid(middle[:, None] + scores) @ parts < chances
        low, high = np.where(is_low, middle, low), np.where(is_low, high, middle)
    odds = canonical(np.exp((low + high) / 2.0))
    return tuple(np.maximum.accumulate(odds).tolist())


def calibrate_hazard(
    times: SurvivalCurve, score: Additive, scores: EdgeScores, fraction: Fraction
) -> Flow[SurvivalCurve]:
    """The curve with a shift of its level and a drift of the score's effect over time.

    From one table, groups of the score x a few times x event: logit F = log odds + shift + mean +
    (1 + drift u(t)) (f - mean), u from -1/2 to 1/2 over the times; fitted to hazards, each with its
    own noise, and drawn to no change.
    """
    (cuts, parts), middles = scores, interval_middles(scores[0])
    odds = baseline(times.marginal, cuts, parts)
    steps = np.round(np.linspace(0, len(odds), GROUP_TIMES + 1)[1:]).astype(int)
    places = np.unique(np.maximum(steps, 1)) - 1
    ends = tuple(times.edges[place] for place in places)
    quantiles = canonical(np.interp(GROUP_QUANTILES, np.cumsum(parts), middles))
    groups = tuple(np.unique(quantiles).tolist())
    table = yield from ask_times(ends, PredictionCells(score, groups), fraction)
    center = float(canonical(parts @ middles))
    curve = replace(times, odds=odds, center=center, groups=table)
    curve = replace(curve, score_cuts=cuts, score_parts=tuple(canonical(parts).tolist()))
    at_ends = (np.arange(len(ends)) + 0.5) / len(ends) - 0.5  # zero if there is one alone
    shift, drift = _fit_drift(curve, places, at_ends)
    slopes = canonical(1.0 + drift * np.interp(times.edges, ends, at_ends))
    new_odds = canonical(np.asarray(odds) * np.exp(shift))
    return replace(curve, odds=tuple(new_odds.tolist()), slopes=tuple(slopes.tolist()))


def _fit_drift(
    curve: SurvivalCurve, places: NDArray[np.intp], u: FloatArray
) -> tuple[float, float]:
    """Shift and drift by Gauss-Newton steps."""
    assert curve.groups is not None
    table, noise = curve.groups.table, curve.groups.deviation**2
    groups = curve.group_scores(curve.groups.cuts)[:, None] - curve.center
    logs = np.log(np.asarray(curve.odds)[places]) + curve.center
    left = np.cumsum(table.sum(axis=1)[:, ::-1], axis=1)[:, ::-1]
    risk = np.maximum(left[:, :-1] - table[:, 0, :-1] / 2.0, 1.0)
    events, n_counts = table[:, 1, :-1], curve.groups.counts_at_risk

    def hazards(at: FloatArray) -> FloatArray:  # (G, T) of each interval
        logits = logs + at[0] + (1.0 + at[1] * u) * groups
        chances = np.maximum.accumulate(sigmoid(logits), axis=1)
        before = np.pad(chances[:, :-1], ((0, 0), (1, 0)))
        return np.asarray((chances - before) / (1.0 - before + 1e-9))

    solution, prior = np.zeros(2), np.array(CALIBRATION_PRIOR) ** 2
    for _ in range(12):
        now = hazards(solution)
        spread = noise * (1.0 + now**2 * n_counts) + risk * now * (1.0 - now) + 1e-6
        slopes = [risk * (hazards(solution + step) - now) / 1e-4 for step in 1e-4 * np.eye(2)]
        jacobian = np.reshape(slopes, (2, -1))
        weighted_jacobian = jacobian / spread.ravel()
        curvature = weighted_jacobian @ jacobian.T + np.diag(1.0 / prior)
        gradient = weighted_jacobian @ (events - risk * now).ravel() - solution / prior
        solution = np.clip(solution + np.linalg.solve(curvature, gradient), -1.0, 1.0)
    return float(solution[0]), float(solution[1])


@dataclass(frozen=True)
class SurvivalFunction:
    """A function of time for one record: `x` are times, `y` its values; linear between them."""

    x: FloatArray
    y: FloatArray
    first: float
    outcome: Survival

    @property
    def domain(self) -> tuple[float, float]:
        return 0.0, self.outcome.horizon

    def __call__(self, times: Any) -> Any:
        """Its values at some times up to the horizon; beyond the last of `x` it stays as it is."""
        self.outcome.within(np.ravel(times))
        return np.interp(times, [0.0, *self.x], [self.first, *self.y])


class PrivateSurvivalModel(PrivateEstimator):
    """scikit-survival's manners: a structured `y`, risks, functions of time, Harrell's C."""

    _regression = True
    _survival = True

    def _checked_labels(self, y: Any) -> NDArray[Any]:
        return checked_times(y, getattr(self.schema, "survival", None))

    def _given_schema(self, X: Any, y: Any) -> Schema:
        schema, end = super()._given_schema(X, y), float(np.abs(y).max())
        draft = Survival("time", "event", end, mark=Mark())
        return schema if self.schema is not None else replace(schema, target=draft)

    @property
    def curve_(self) -> SurvivalCurve:
        """How the score becomes chances over time, with the noisy tables that were released."""
        check_is_fitted(self, "model_")
        assert self.model_.survival is not None
        return self.model_.survival

    @property
    def unique_times_(self) -> FloatArray:
        """(K,) the times at which functions of time are known."""
        return np.array(self.curve_.edges)

    def predict(self, X: Any) -> FloatArray:
        """(n,) the risk: a log-odds score, higher for an earlier event."""
        return self._outputs(X)[:, 0]

    def predict_survival_function(self, X: Any, return_array: bool = False) -> Any:
        """The chance of no event until each time: (n, K) at `unique_times_`, or n functions."""
        return self._functions(1.0 - self.curve_.chances(self.predict(X)), 1.0, return_array)

    def predict_cumulative_hazard_function(self, X: Any, return_array: bool = False) -> Any:
        """Minus the logarithm of the survival function: (n, K), or n functions."""
        chances = self.predict_survival_function(X, return_array=True)
        return self._functions(-np.log(np.maximum(chances, 1e-12)), 0.0, return_array)

    def predict_proba_by(self, X: Any, time: Any) -> FloatArray:
        """(n,) the chance of an event until a time, or (n, T) until each of several."""
        times = cast(Survival, self.schema_.target).within(np.ravel(time))
        chances = 1.0 - self.curve_.survival(self.predict(X), times)
        return chances[:, 0] if np.ndim(time) == 0 else chances

    def score(self, X: Any, y: Any) -> float:
        """Harrell's concordance index, without any noise: for rows of one's own."""
        return concordance(self.predict(X), checked_times(y, self.schema_.survival))

    def _functions(self, values: FloatArray, first: float, return_array: bool) -> Any:
        if return_array:
            return values
        times, outcome = self.unique_times_, cast(Survival, self.schema_.target)
        functions = np.empty(len(values), object)
        functions[:] = [SurvivalFunction(times, row, first, outcome) for row in values]
        return functions


@estimator
class SurvivalBoostedTrees(StagedTrees, PrivateSurvivalModel, SurvivalBoost):
    """Boosted trees for the time to an event, with right-censored records.

    It predicts a risk and, for every record, the chance of no event until any time up to the
    horizon. Censoring must not depend on the event beyond what the columns say.

    Examples
    --------
    >>> import hedgerow as hr
    >>> import numpy as np
    >>> death = hr.Survival(time="years", event="death", horizon=10, unit="years")
    >>> schema = hr.Schema({"age": (0, 100), "dose": (0, 10)}, survival=death)
    >>> X = [[20, 1], [30, 2], [70, 8], [80, 9]] * 1000
    >>> y = np.array([(0, 10), (1, 8), (1, 3), (1, 1)] * 1000, [("death", "?"), ("years", "f8")])
    >>> model = hr.SurvivalBoostedTrees(schema, epsilon=10.0, random_state=0).fit(X, y)
    >>> risks = model.predict([[25, 1], [75, 9]])
    >>> bool(risks[0] < risks[1])
    True

    """
