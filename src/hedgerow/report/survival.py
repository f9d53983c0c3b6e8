"""How well a model of time to an event does, from one noisy table: risk group x time x event.

Knows no row. A record is in one cell, so that the table costs what one count costs. Records of one
group are not ranked against each other, and events of one interval are no pair: so the concordance
of groups is near Harrell's, not equal to it.

Shapes: G groups, T times; counts are (G, 2, T + 1), without and with the event.
"""

from __future__ import annotations

import math

import numpy as np

from hedgerow.models.survival import RiskTable, SurvivalCurve, actuarial, at_risk
from hedgerow.report.measures import (
    CalibrationBin,
    EstimatedMeasure,
    TableMeasure,
    estimate,
    stand_out,
)
from hedgerow.schema.arrays import FloatArray

UNIT = (0.0, 1.0)
GROUP_STANDS_OUT = 3.0  # deviations of its noise by which a group must be seen


def evaluation_grid(curve: SurvivalCurve) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Cuts of the score and times, released with the model: what its evaluation counts by."""
    return curve.score_cuts or (0.0,), curve.edges


def survival_measures(
    table: RiskTable, curve: SurvivalCurve, confidence: float
) -> tuple[dict[str, EstimatedMeasure], tuple[CalibrationBin, ...]]:
    """Grouped concordance, Brier score, events until the last time; calibration half-way."""
    counts, variance = table.table, table.deviation**2
    chances = chances_of_groups(table, curve)
    measures: dict[str, TableMeasure] = {
        "grouped_c_index": _grouped_c,
        "integrated_brier": lambda c: _brier(c, chances, table.edges),
        "events_by_the_last_time": lambda c: float(_chances(c.sum(axis=0))[-1]),
    }
    if not stand_out(counts.reshape(-1, 1), variance):
        return {name: EstimatedMeasure(math.nan, *UNIT) for name in measures}, ()
    estimates = {
        name: estimate(measure, counts, variance, confidence, UNIT)
        for name, measure in measures.items()
    }
    return estimates, calibration_at(table, curve, len(table.edges) // 2, confidence)


def chances_of_groups(table: RiskTable, curve: SurvivalCurve) -> FloatArray:
    """(G, T) what the model says of each group: at the mean of its scores."""
    scores = curve.group_scores(table.cuts)
    return 1.0 - curve.survival(scores, np.array(table.edges))


def calibration_at(
    table: RiskTable, curve: SurvivalCurve, place: int, confidence: float
) -> tuple[CalibrationBin, ...]:
    """Said and found chances of an event until one of the times, for each group that is seen."""
    chances = chances_of_groups(table, curve)[:, place]
    groups = list[CalibrationBin]()
    for chance, counts in zip(chances, table.table, strict=True):
        noise = table.deviation * math.sqrt(counts.size)
        if counts.sum() > GROUP_STANDS_OUT * noise:
            share = estimate(
                lambda c: float(_chances(c)[place]),
                counts,
                table.deviation**2,
                confidence,
                UNIT,
            )
            records = round(float(counts.sum()), 1)
            groups.append(CalibrationBin(float(chance), float(chance), records, share))
    return tuple(groups)


def _chances(counts: FloatArray) -> FloatArray:
    """(T,) the actuarial chance of an event in a table (2, T + 1)."""
    risk = at_risk(counts, max(float(counts.sum()), 1.0))
    return actuarial(np.maximum(counts[1, :-1], 0.0), risk)


def curve_with_band(table: RiskTable, group: int) -> FloatArray:
    """(3, T) survival of one group, and two deviations of sampling and noise to either side."""
    counts = table.table[group]
    chances = _chances(counts)
    risk = at_risk(counts, max(float(counts.sum()), 1.0))
    hazards = np.clip(counts[1, :-1] / risk, 0.0, 0.9)
    noise = table.deviation**2 * (1.0 + hazards**2 * 2.0 * np.arange(len(risk) + 1, 1, -1))
    steps = (risk * hazards + noise) / (risk * (1.0 - hazards)) ** 2
    reach = 2.0 * (1.0 - chances) * np.sqrt(np.cumsum(steps))
    ends = np.stack([1.0 - chances, 1.0 - chances - reach, 1.0 - chances + reach])
    return np.asarray(np.clip(ends, 0.0, 1.0))


def _grouped_c(counts: FloatArray) -> float:
    """Of pairs of which one had its event in an earlier interval, those in groups of that order."""
    events = counts[:, 1, :-1]
    after = np.cumsum(counts.sum(axis=1)[:, ::-1], axis=1)[:, ::-1][:, 1:]
    later = after + counts[:, 0, :-1] / 2.0  # of those censored in the interval, half
    pairs = events @ later.T  # (G, G): whose event, against whom
    right = np.tril(pairs, -1).sum() + np.trace(pairs) / 2.0
    total = float(pairs.sum())
    return float(right / total) if total > 0.0 else math.nan


def _brier(counts: FloatArray, chances: FloatArray, times: tuple[float, ...]) -> float:
    """Over the times, of all groups: squared distance of what was said from what happened."""
    records = np.maximum(counts.sum(axis=(1, 2)), 0.0)
    observed_chances = np.stack([_chances(part) for part in counts])
    errors = (
        observed_chances * (1.0 - chances) ** 2 + (1.0 - observed_chances) * chances**2
    )  # (G, T)
    widths = np.diff(np.array([0.0, *times]))
    mean = (records @ errors) / max(float(records.sum()), 1.0)
    return float(mean @ widths / widths.sum())
