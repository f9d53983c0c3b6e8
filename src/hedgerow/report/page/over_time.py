"""Probabilities over time on the page: all records, risk groups, calibration, odds ratios."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from hedgerow.models.survival import RiskTable, SurvivalCurve, at_risk
from hedgerow.models.uncertainty import ScoreNoise
from hedgerow.report.importances import feature_effect, importances
from hedgerow.report.measures import calibration_at, curve_with_band
from hedgerow.report.page.html import Html, table, tag
from hedgerow.report.page.sections import calibration_figure, legend, section
from hedgerow.report.view import DEVIATIONS
from hedgerow.report.weighing import Readable
from hedgerow.schema.arrays import FloatArray
from hedgerow.schema.features import Survival

WIDE, HIGH, LEFT, TOP = 560.0, 220.0, 34.0, 8.0
CONFIDENCE = 0.95
MOST_RATIOS, MOST_COLORS = 12, 6
DRIFT = 0.1  # smallest change of an effect over time that is reported
ALL = (
    "The chance of no event, for all records together. The band is two deviations of sampling and "
    "noise; numbers at risk are noisy too. Nobody's time left a site."
)
RISK_GROUPS = (
    "Lines are what the model predicts for groups of risk; dots are the noisy chances that were "
    "observed in them in training (an actuarial estimate), with two deviations."
)
RATIOS = (
    "The odds of an event by any time, against those of an average record: the lowest and the "
    "highest bin of each column, all else averaged, with two deviations of the noise."
)


def survival_section(model: Readable) -> Html:
    """The section of survival models; it costs no further budget."""
    curve, outcome = model.model_.survival, model.schema_.survival
    assert curve is not None
    assert outcome is not None
    parts = [tag("p", ALL), _all_records(curve.everyone, outcome), _at_risk(curve, outcome)]
    if curve.groups is not None:
        parts += [tag("h3", "Groups of risk"), tag("p", RISK_GROUPS), _groups(curve, outcome)]
        parts += [tag("p", words) for words in _drift(curve)]
        parts += [_calibration(curve, outcome), *_ratios(model)]
    return section("survival", "Over time", *parts)


def script_survival(model: Readable) -> dict[str, Any] | None:
    """The data with which the page draws one record's curve; None for other models."""
    curve, outcome = model.model_.survival, model.schema_.survival
    if curve is None or outcome is None:
        return None
    numbers = {name: getattr(curve, name) for name in ("edges", "odds", "slopes", "center")}
    noise = DEVIATIONS * typical_deviation(model.model_.noise)
    last = {"ticks": _ticks(curve.edges[-1]), "last": outcome.words(curve.edges[-1])}
    return {**numbers, **last, "noise": round(noise, 4)}


def typical_deviation(noise: ScoreNoise) -> float:
    """Noise deviation of an average record's score, all bins and leaves weighted equally."""
    parts = [np.square(deviation[0]).mean() for deviation in (*noise.trees, *noise.curves)]
    return float(np.sqrt(sum(parts)))


# --------------------------------------------------------------------------------------- pictures
def _all_records(counts: RiskTable, outcome: Survival) -> Html:
    parts = curve_with_band(counts, 0)
    times = np.array([0.0, *counts.edges])
    line, low, high = (np.array([1.0, *part]) for part in parts)
    back = _points(times[::-1], low[::-1], times[-1])
    band = f'<polygon class="band k0" points="{_points(times, high, times[-1])} {back}"/>'
    drawing = f'<polyline class="curve k0" points="{_points(times, line, times[-1])}"/>'
    words = "; ".join(
        f"until {t:g}: {s:.2f} ({a:.2f} to {b:.2f})"
        for t, s, a, b in zip(counts.edges, *parts, strict=True)
    )
    return _figure("All records", band + drawing, times[-1], outcome, words)


def _groups(curve: SurvivalCurve, outcome: Survival) -> Html:
    counts = curve.groups
    assert counts is not None
    times, last = np.array([0.0, *curve.edges]), curve.edges[-1]
    chances = 1.0 - curve.chances(curve.group_scores(counts.cuts))
    drawing = list[str]()
    for group, line in enumerate(chances):
        color = f"k{group % MOST_COLORS}"
        points = _points(times, np.array([1.0, *line]), last)
        drawing.append(f'<polyline class="curve {color}" points="{points}"/>')
        if counts.table[group].sum() > 0.0:
            drawing += _dots(counts, curve_with_band(counts, group), color, last)
    names, title = _group_names(curve, counts.cuts), "Groups of risk, predicted and observed"
    words = "; ".join(f"{n}: {s:.2f} at last" for n, s in zip(names, chances[:, -1], strict=True))
    return tag("div", legend(names), _figure(title, "".join(drawing), last, outcome, words))


def _group_names(curve: SurvivalCurve, cuts: tuple[float, ...]) -> list[str]:
    """Named by the noisy fraction of records with a lower score."""
    below = np.interp(cuts, curve.score_cuts, np.cumsum(curve.score_parts)[:-1])
    ends = [f"{100.0 * part:.0f}" for part in (0.0, *below, 1.0)]
    ranges = [f"{low}-{high} %" for low, high in pairwise(ends)]
    return [f"lowest risk ({ranges[0]})", *ranges[1:-1], f"highest risk ({ranges[-1]})"]


def _dots(counts: RiskTable, calibration: FloatArray, color: str, last: float) -> list[str]:
    marks = list[str]()
    for time, (middle, low, high) in zip(counts.edges, calibration.T, strict=True):
        x, y = _x(time, last), _y(middle)
        ends = f'x1="{x:.1f}" x2="{x:.1f}" y1="{_y(high):.1f}" y2="{_y(low):.1f}"'
        marks.append(f'<line class="curve {color}" opacity=".5" {ends}/>')
        marks.append(f'<circle class="curve {color}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"/>')
    return marks


def _figure(title: str, drawing: str, last: float, outcome: Survival, words: str) -> Html:
    right, bottom = LEFT + WIDE, TOP + HIGH
    ticks = "".join(
        f'<text x="{_x(t, last):.1f}" y="{bottom + 16}" text-anchor="middle">{t:.4g}</text>'
        for t in _ticks(last)
    )
    inner = (
        f'<rect class="frame" x="{LEFT}" y="{TOP}" width="{WIDE}" height="{HIGH}"/>{drawing}{ticks}'
        f'<text x="{LEFT - 4}" y="{TOP + 8}" text-anchor="end">1</text>'
        f'<text x="{LEFT - 4}" y="{bottom}" text-anchor="end">0</text>'
    )
    box = f"0 0 {right + 8} {bottom + 22}"
    picture = Html(f'<svg viewBox="{box}" role="img" aria-label="{words}">{inner}</svg>')
    unit = f" ({outcome.unit})" if outcome.unit else ""
    return tag("figure", tag("figcaption", f"{title}: no event until a time{unit}"), picture)


def _ticks(last: float) -> list[float]:
    """Three to six round times."""
    power = 10.0 ** np.floor(np.log10(last))
    step = next(f * power for f in (0.2, 0.5, 1.0, 2.0) if last < 6.0 * f * power)
    return [float(f"{step * k:.6g}") for k in range(1, int(last / step) + 1)]


def _points(times: FloatArray, values: FloatArray, last: float) -> str:
    return " ".join(f"{_x(t, last):.1f},{_y(v):.1f}" for t, v in zip(times, values, strict=True))


def _x(time: float, last: float) -> float:
    return LEFT + WIDE * float(time) / float(last)


def _y(value: float) -> float:
    return TOP + HIGH * (1.0 - float(value))


# ----------------------------------------------------------------------------------------- tables
def _at_risk(curve: SurvivalCurve, outcome: Survival) -> Html:
    """Records at risk at the start of each interval, and the events in it."""
    counts = curve.everyone.table[0]
    risk = at_risk(counts, max(float(counts.sum()), 1.0))
    noise = DEVIATIONS * curve.everyone.deviation
    of_risk = noise * np.sqrt(2.0 * np.arange(len(risk) + 1, 1, -1))  # noise of a sum of counts
    rows = [
        (f"until {outcome.words(t)}", f"{r:.0f} ± {n:.0f}", f"{max(d, 0.0):.0f} ± {noise:.0f}")
        for t, r, n, d in zip(curve.edges, risk, of_risk, counts[1], strict=False)
    ]
    head = ["Interval", "At risk, half of the censored counted", "Events"]
    numbers = table(head, rows, "Noisy numbers, with two deviations of the noise")
    return tag("details", tag("summary", "Numbers at risk"), numbers)


def _drift(curve: SurvivalCurve) -> list[str]:
    change = curve.slopes[-1] - curve.slopes[0]
    word = "grow" if change > 0.0 else "fade"
    words = f"Effects {word} with time: from {curve.slopes[0]:.2f} to {curve.slopes[-1]:.2f}."
    return [words] if abs(change) >= DRIFT else []


def _calibration(curve: SurvivalCurve, outcome: Survival) -> Html:
    """Half-way and at the last time, on the training records."""
    counts = curve.groups
    assert counts is not None
    places = sorted({(len(counts.edges) - 1) // 2, len(counts.edges) - 1})
    words = "An event until {}: predicted, and observed in training"
    bins = [calibration_at(counts, curve, place, CONFIDENCE) for place in places]
    titles = [words.format(outcome.words(counts.edges[place])) for place in places]
    return tag("div", *map(calibration_figure, bins, titles), class_="columns")


def _ratios(model: Readable) -> list[Html]:
    columns = [name for name, part in importances(model).items() if part > 0.0][:MOST_RATIOS]
    rows = [(name, *_ratio(model, name)) for name in columns]
    ratios = table(["Column", "Lowest odds", "Highest odds"], rows, "Odds ratios")
    return [tag("h3", "Odds ratios"), tag("p", RATIOS), ratios] if rows else []


def _ratio(model: Readable, name: str) -> list[str]:
    ratio = feature_effect(model, name)
    values, low, high = ratio.values[:, 0], ratio.band[0][:, 0], ratio.band[1][:, 0]
    return [
        f"{np.exp(values[k]):.2f} ({np.exp(low[k]):.2f} to {np.exp(high[k]):.2f}): {ratio.words[k]}"
        for k in (int(np.argmin(values)), int(np.argmax(values)))
    ]
