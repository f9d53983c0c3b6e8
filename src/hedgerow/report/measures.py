"""From noisy class counts by predicted probability to quality measures with intervals.

Every measure is a smooth function of counts, so its variance follows from theirs to first order: a
count of n records has sampling variance n (Poisson), plus the noise. Noise is symmetric and
independent, so measures use the counts as they are, including negative ones: clipping at zero would
bias them.

Shapes: B bins of the probability, C classes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import attrgetter
from statistics import NormalDist

import numpy as np

from hedgerow.models.survival import RiskTable, SurvivalCurve, actuarial, at_risk
from hedgerow.schema.arrays import FloatArray

PROBABILITY_EDGES = (
    *(0.005, 0.01, 0.02, 0.035, 0.055, 0.08, 0.12, 0.17, 0.23, 0.3, 0.4, 0.5),
    *(0.6, 0.7, 0.77, 0.83, 0.88, 0.92, 0.95, 0.98, 0.99),
)
"""Public edges for every model: about even in log-odds, and one at a half."""
CLASS_STANDS_OUT = 4.0
"""Deviations of noise that each class, or all records, must exceed to be reported."""
BUMP = 1.0
UNIT = (0.0, 1.0)

TableMeasure = Callable[[FloatArray], float]


@dataclass(frozen=True)
class EstimatedMeasure:
    """A measure and its interval at the stated confidence, by sampling and by noise."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if math.isnan(self.value):
            return "below the noise"
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


@dataclass(frozen=True)
class CalibrationBin:
    """The share of a class among the records in one range of predicted probability."""

    low: float
    high: float
    records: float
    share: EstimatedMeasure


def estimate(
    measure: TableMeasure,
    counts: FloatArray,
    variance: float | FloatArray,
    confidence: float,
    ends: tuple[float, float],
) -> EstimatedMeasure:
    """An estimate by the delta method; `ends` are the bounds of the measure."""
    value = measure(counts)
    spread = math.sqrt(max(_variance(measure, counts, variance), 0.0))
    if not (math.isfinite(value) and math.isfinite(spread)):
        return EstimatedMeasure(math.nan, *ends)
    reach = NormalDist().inv_cdf(0.5 + confidence / 2.0) * spread
    low, high = (min(max(end, ends[0]), ends[1]) for end in (value - reach, value + reach))
    return EstimatedMeasure(min(max(value, ends[0]), ends[1]), low, high)


def estimates(
    measures: Mapping[str, tuple[TableMeasure, tuple[float, float]]],
    counts: FloatArray,
    variance: float,
    confidence: float,
    is_told: bool,
) -> dict[str, EstimatedMeasure]:
    """Every measure, or none of them if the counts do not exceed the noise."""
    return {
        name: estimate(measure, counts, variance, confidence, ends)
        if is_told
        else EstimatedMeasure(math.nan, *ends)
        for name, (measure, ends) in measures.items()
    }


def _variance(measure: TableMeasure, counts: FloatArray, variance: float | FloatArray) -> float:
    """Sum over cells of slope squared times the variance of the count."""
    total, flat = 0.0, counts.reshape(-1)
    noise = np.broadcast_to(variance, counts.shape).reshape(-1)
    for k in range(flat.size):
        up, down = flat.copy(), flat.copy()
        up[k] += BUMP
        down[k] -= BUMP
        slope = (measure(up.reshape(counts.shape)) - measure(down.reshape(counts.shape))) / 2 / BUMP
        total += slope**2 * (max(float(flat[k]), 0.0) + float(noise[k]))
    return total


def two_class_measures(
    counts: FloatArray,
    variance: float,
    confidence: float,
    edges: Sequence[float] = PROBABILITY_EDGES,
    probabilities: FloatArray | None = None,
) -> dict[str, EstimatedMeasure]:
    """(B, 2) counts by the probability of the second class.

    `probabilities` are all values the model can predict, if they are few, as for a single tree:
    they then represent their bins, and records of one bin count as nearly tied.
    """
    middles = middles_of(edges) if probabilities is None else _means_within(edges, probabilities)
    credit = _ranked_within(edges) if probabilities is None else np.full(len(counts), 0.5)
    second = middles > 0.5
    worth = {
        "accuracy": np.stack([~second, second], axis=1).astype(np.float64),
        "log_loss": -np.log(np.stack([1.0 - middles, middles], axis=1)),
        "brier": np.stack([middles, 1.0 - middles], axis=1) ** 2,
        "share_of_second_class": np.tile([0.0, 1.0], (len(middles), 1)),
    }
    measures: dict[str, tuple[TableMeasure, tuple[float, float]]] = {
        "auc": (lambda c: _auc(c, credit), UNIT),
        **{name: (partial(_mean, worth=own), UNIT) for name, own in worth.items()},
    }
    measures["log_loss"] = (measures["log_loss"][0], (0.0, math.inf))
    return estimates(measures, counts, variance, confidence, stand_out(counts, variance))


def stand_out(counts: FloatArray, variance: float) -> bool:
    """Whether each column of counts, added up, exceeds the noise, so that it is reported."""
    noise = math.sqrt(variance * len(counts))
    return bool((counts.sum(axis=0) > CLASS_STANDS_OUT * noise).all())


def middles_of(edges: Sequence[float]) -> FloatArray:
    """(B,) the probability that represents each bin: the middle in log-odds.

    The outer bins are represented by .003 and .997, which bounds the log-loss: otherwise one
    confident error would outweigh all other records.
    """
    odds = np.log(np.asarray(edges) / (1.0 - np.asarray(edges)))
    inner = (odds[1:] + odds[:-1]) / 2.0
    ends = (odds[0] - 0.5, odds[-1] + 0.5)
    return np.asarray(1.0 / (1.0 + np.exp(-np.array([ends[0], *inner, ends[1]]))))


def _means_within(edges: Sequence[float], probabilities: FloatArray) -> FloatArray:
    """(B,) the mean prediction in each bin; the middle of a bin without predictions."""
    middles = middles_of(edges)
    clipped_probabilities = np.clip(probabilities, middles[0], middles[-1])
    bins = np.searchsorted(edges, probabilities, side="right")
    times = np.bincount(bins, minlength=len(middles))
    sums = np.bincount(bins, clipped_probabilities, minlength=len(middles))
    return np.where(times > 0, sums / np.maximum(times, 1), middles)


def _ranked_within(edges: Sequence[float]) -> FloatArray:
    """(B,) the probability that, within a bin, the record of the second class is ranked higher.

    Assumes the model's own odds: if first-class records are uniform over a bin of width w in
    log-odds and second-class ones follow the odds, it is e^w / (e^w - 1) - 1 / w.
    """
    odds = np.log(np.asarray(edges) / (1.0 - np.asarray(edges)))
    width = np.array([1.0, *np.diff(odds), 1.0])
    return np.asarray(np.exp(width) / np.expm1(width) - 1.0 / width)


def _auc(counts: FloatArray, within: FloatArray) -> float:
    """The probability that a record of the second class is ranked above one of the first."""
    first, second = counts[:, 0], counts[:, 1]
    below = np.cumsum(first) - first
    pairs = float(first.sum() * second.sum())
    return float((second * (below + within * first)).sum() / pairs) if pairs else math.nan


def _mean(counts: FloatArray, worth: FloatArray) -> float:
    """Mean over records of the value of their cell."""
    total = float(counts.sum())
    return float((counts * worth).sum() / total) if total else math.nan


def calibration(
    counts: FloatArray,
    variance: float | FloatArray,
    confidence: float,
    edges: Sequence[float] = PROBABILITY_EDGES,
) -> tuple[CalibrationBin, ...]:
    """(B, 2) counts of wrong and right, or of the first and the second class."""
    least = CLASS_STANDS_OUT * math.sqrt(float(np.broadcast_to(variance, 2).sum()))
    bins = zip([0.0, *edges], [*edges, 1.0], counts, strict=True)
    share = partial(estimate, _second_share)
    return tuple(
        CalibrationBin(low, high, float(row.sum()), share(row, variance, confidence, UNIT))
        for low, high, row in bins
        if row.sum() > least
    )


def _second_share(row: FloatArray) -> float:
    return float(row[1] / row.sum()) if row.sum() else math.nan


def many_class_measures(
    counts: FloatArray, variance: float, confidence: float
) -> dict[str, EstimatedMeasure]:
    """(C B, C) counts by the predicted class, its probability, and the true class."""
    if not stand_out(counts.reshape(-1, 1), variance):
        return {"accuracy": EstimatedMeasure(math.nan, *UNIT)}
    table, noise = right_and_wrong(counts, variance)
    accuracy = estimate(lambda c: _second_share(c.sum(axis=0)), table, noise, confidence, UNIT)
    return {"accuracy": accuracy}


def right_and_wrong(counts: FloatArray, variance: float) -> tuple[FloatArray, FloatArray]:
    """(B, 2) counts by the predicted class's probability, wrong and right; and their noise."""
    classes = counts.shape[1]
    blocks = counts.reshape(classes, -1, classes)
    right = np.stack([blocks[k, :, k] for k in range(classes)]).sum(axis=0)
    table = np.stack([blocks.sum(axis=(0, 2)) - right, right], axis=1)
    return table, variance * np.array([classes * (classes - 1.0), float(classes)])


def number_measures(
    errors: FloatArray,
    error_edges: Sequence[float],
    targets: FloatArray,
    target_edges: Sequence[float],
    variance: float,
    confidence: float,
    ends: tuple[float, float],
) -> dict[str, EstimatedMeasure]:
    """Measures from counts by the size of the error, (E,), and by the target, (T,)."""
    width = ends[1] - ends[0]
    sides = np.array([0.0, *error_edges, width])
    below, above = sides[:-1], sides[1:]
    middle = (below + above) / 2.0
    up_to = np.tri(len(errors))  # (E, E) 1 for bins up to each

    def mean_of(worth: FloatArray, most: float) -> EstimatedMeasure:
        return estimate(partial(_mean, worth=worth), errors, variance, confidence, (0.0, most))

    parts = [mean_of(row, 1.0) for row in up_to]
    measures = {
        "mean_absolute_error": mean_of(middle, width),
        "median_absolute_error": _quantile(parts, sides, 0.5),
        "error_that_9_of_10_keep": _quantile(parts, sides, 0.9),
    }
    squares = [mean_of(side**2, width**2) for side in (below, middle, above)]
    cells = np.array([ends[0], *target_edges, ends[1]])
    spread_of = partial(_spread, middles=(cells[1:] + cells[:-1]) / 2.0)
    spread = estimate(spread_of, targets, variance, confidence, (0.0, width**2 / 4.0))
    measures["r2"] = EstimatedMeasure(
        1.0 - squares[1].value / max(spread.value, 1e-12),
        1.0 - squares[2].high / max(spread.low, 1e-12),
        min(1.0, 1.0 - squares[0].low / max(spread.high, 1e-12)),
    )
    if not stand_out(errors[:, None], variance):
        limits = {"r2": (-math.inf, 1.0)}
        return {n: EstimatedMeasure(math.nan, *limits.get(n, (0.0, width))) for n in measures}
    return measures


def _spread(counts: FloatArray, middles: FloatArray) -> float:
    mean = _mean(counts, middles)
    return _mean(counts, (middles - mean) ** 2)


def _quantile(
    parts: Sequence[EstimatedMeasure], sides: FloatArray, level: float
) -> EstimatedMeasure:
    """A quantile from (E,) fractions of the records up to the upper side of each bin.

    Errors are assumed uniform within a bin. The interval follows from those of the fractions.
    """

    def reach_level(of: Callable[[EstimatedMeasure], float]) -> float:
        rising = np.maximum.accumulate([0.0, *map(of, parts)])
        k = min(int(np.searchsorted(rising, level)), len(parts))
        step = rising[k] - rising[k - 1]
        within = min((level - rising[k - 1]) / step, 1.0) if step > 0.0 else 1.0
        return float(sides[k - 1] + within * (sides[k] - sides[k - 1]))

    return EstimatedMeasure(*(reach_level(attrgetter(end)) for end in ("value", "high", "low")))


# Quality of survival models, from one noisy table: risk group x time x event. A record is in one
# cell, so the table costs as much as one count. Records of one group and one interval are not
# ranked against each other, and half of their pairs count as right: so the grouped concordance is
# slightly below Harrell's. Shapes: G groups, T times; counts are (G, 2, T + 1), without and with
# the event.
GROUP_STANDS_OUT = 3.0  # deviations of noise that a group must exceed


def evaluation_grid(curve: SurvivalCurve) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Cuts of the score and times, released with the model: the cells of its evaluation."""
    return curve.score_cuts or (0.0,), curve.edges


def survival_measures(
    table: RiskTable, curve: SurvivalCurve, confidence: float
) -> tuple[dict[str, EstimatedMeasure], tuple[CalibrationBin, ...]]:
    """Grouped concordance, Brier score, events until the last time; calibration half-way."""
    counts, variance = table.table, table.deviation**2
    chances = chances_of_groups(table, curve)
    measures: dict[str, tuple[TableMeasure, tuple[float, float]]] = {
        "grouped_c_index": (_grouped_c, UNIT),
        "integrated_brier": (lambda c: _brier(c, chances, table.edges), UNIT),
        "events_by_the_last_time": (lambda c: float(_chances(c.sum(axis=0))[-1]), UNIT),
    }
    is_told = stand_out(counts.reshape(-1, 1), variance)
    half_way = calibration_at(table, curve, len(table.edges) // 2, confidence) if is_told else ()
    return estimates(measures, counts, variance, confidence, is_told), half_way


def chances_of_groups(table: RiskTable, curve: SurvivalCurve) -> FloatArray:
    """(G, T) the predicted event probabilities of each group, at the mean of its scores."""
    scores = curve.group_scores(table.cuts)
    return 1.0 - curve.survival(scores, np.array(table.edges))


def calibration_at(
    table: RiskTable, curve: SurvivalCurve, place: int, confidence: float
) -> tuple[CalibrationBin, ...]:
    """Predicted and observed event probabilities at one time, for groups above the noise."""
    chances, variance = chances_of_groups(table, curve)[:, place].tolist(), table.deviation**2

    def bin_of(chance: float, counts: FloatArray) -> CalibrationBin:
        share = estimate(lambda c: float(_chances(c)[place]), counts, variance, confidence, UNIT)
        return CalibrationBin(chance, chance, round(float(counts.sum()), 1), share)

    least = GROUP_STANDS_OUT * math.sqrt(variance * table.table[0].size)
    groups = zip(chances, table.table, strict=True)
    return tuple(bin_of(chance, counts) for chance, counts in groups if counts.sum() > least)


def _chances(counts: FloatArray) -> FloatArray:
    """(..., T) the actuarial event probabilities of tables (..., 2, T + 1)."""
    return actuarial(np.maximum(counts[..., 1, :-1], 0.0), at_risk(counts))


def curve_with_band(table: RiskTable, group: int) -> FloatArray:
    """(3, T) survival of one group, and two deviations of sampling and noise to either side."""
    counts = table.table[group]
    survival, risk = 1.0 - _chances(counts), at_risk(counts)
    hazards = np.clip(counts[1, :-1] / risk, 0.0, 0.9)
    noise = table.deviation**2 * (1.0 + hazards**2 * table.counts_at_risk)
    steps = (risk * hazards + noise) / (risk * (1.0 - hazards)) ** 2
    reach = 2.0 * survival * np.sqrt(np.cumsum(steps))
    return np.asarray(np.clip([survival, survival - reach, survival + reach], 0.0, 1.0))


def _grouped_c(counts: FloatArray) -> float:
    """Of pairs in which one event came first, the fraction whose groups have that order."""
    events = counts[:, 1, :-1]
    after = np.cumsum(counts.sum(axis=1)[:, ::-1], axis=1)[:, ::-1][:, 1:]
    later = after + counts[:, :, :-1].sum(axis=1) / 2.0  # half of those who leave in the interval
    pairs = events @ later.T  # (G, G): pairs by group of the event and of the other
    right = np.tril(pairs, -1).sum() + np.trace(pairs) / 2.0
    total = float(pairs.sum())
    return float(right / total) if total > 0.0 else math.nan


def _brier(counts: FloatArray, chances: FloatArray, times: tuple[float, ...]) -> float:
    """The squared distance of prediction from outcome, over times and groups."""
    records = np.maximum(counts.sum(axis=(1, 2)), 0.0)
    seen_chances = _chances(counts)  # (G, T)
    errors = seen_chances * (1.0 - chances) ** 2 + (1.0 - seen_chances) * chances**2
    mean = np.array([0.0, *(records @ errors / max(float(records.sum()), 1.0))])
    return float((mean[1:] + mean[:-1]) @ np.diff([0.0, *times]) / (2.0 * times[-1]))
