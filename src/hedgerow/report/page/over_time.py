"""Probabilities over time on the page: all records, risk groups, calibration, odds ratios."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from hedgerow.models.survival import SurvivalCurve, at_risk
from hedgerow.models.uncertainty import ScoreNoise
from hedgerow.report.importances import feature_effect, importances
from hedgerow.report.measures import calibration_at, curve_with_band
from hedgerow.report.page.html import Html, picture, table, tag
from hedgerow.report.page.sections import calibration_figure, legend, section
from hedgerow.report.view import DEVIATIONS
from hedgerow.report.weighing import Readable
from hedgerow.schema.features import Survival

WIDE, HIGH, LEFT, TOP = 560.0, 220.0, 34.0, 8.0
CONFIDENCE, MOST_RATIOS, LEAST_PART = 0.95, 12, 0.1
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
    "highest bin of each column, all else averaged, with two deviations of the noise. Bins of very "
    "few records are left out."
)


def survival_section(model: Readable) -> Html:
    """The section of survival models; it costs no further budget."""
    curve, outcome = model.model_.survival, model.schema_.survival
    assert curve is not None
    assert outcome is not None
    parts = [tag("p", ALL), _all_records(curve, outcome), _at_risk(curve, outcome)]
    if curve.groups is not None:
        parts += [tag("h3", "Groups of risk"), tag("p", RISK_GROUPS), _groups(curve, outcome)]
        first, last = curve.slopes[0], curve.slopes[-1]
        if abs(last - first) >= DRIFT:
            word = "grow" if last > first else "fade"
            parts.append(tag("p", f"Effects {word} with time: from {first:.2f} to {last:.2f}."))
        parts += [_calibration(curve, outcome), *_ratios(model)]
    return section("survival", "Over time", *parts)


def script_survival(model: Readable) -> dict[str, Any] | None:
    """The data with which the page draws one record's curve; None for other models."""
    curve, outcome = model.model_.survival, model.schema_.survival
    if curve is None or outcome is None:
        return None
    return {
        **{name: getattr(curve, name) for name in ("edges", "odds", "slopes", "center")},
        "ticks": _ticks(curve.edges[-1]),
        "last": outcome.words(curve.edges[-1]),
        "noise": round(DEVIATIONS * typical_deviation(model.model_.noise), 4),
    }


def typical_deviation(noise: ScoreNoise) -> float:
    """Noise deviation of an average record's score, all bins and leaves weighted equally."""
    parts = [np.square(deviation[0]).mean() for deviation in (*noise.trees, *noise.curves)]
    return float(np.sqrt(sum(parts)))


def _all_records(curve: SurvivalCurve, outcome: Survival) -> Html:
    parts, times = curve_with_band(curve.everyone, 0), [0.0, *curve.edges]
    line, low, high = ([1.0, *part] for part in parts)
    band = _shape("polygon", "band k0", [*times, *times[::-1]], [*high, *low[::-1]])
    drawing = band + _shape("polyline", "curve k0", times, line)
    words = "; ".join(
        f"until {t:g}: {s:.2f} ({a:.2f} to {b:.2f})"
        for t, s, a, b in zip(curve.edges, *parts, strict=True)
    )
    return _figure("All records", drawing, times[-1], outcome, words)


def _groups(curve: SurvivalCurve, outcome: Survival) -> Html:
    counts, times, last = curve.groups, [0.0, *curve.edges], curve.edges[-1]
    assert counts is not None
    chances, drawing = 1.0 - curve.chances(curve.group_scores(counts.cuts)), ""
    # named by the noisy fraction of records with a lower score
    below = np.interp(counts.cuts, curve.score_cuts, np.cumsum(curve.score_parts)[:-1])
    names = [f"{100 * a:.0f}-{100 * b:.0f} %" for a, b in pairwise([0.0, *below, 1.0])]
    names = [f"lowest risk ({names[0]})", *names[1:-1], f"highest risk ({names[-1]})"]
    for group, line in enumerate(chances):
        color = f"curve k{group}"
        drawing += _shape("polyline", color, times, [1.0, *line])
        for time, (middle, *ends) in zip(
            counts.edges, curve_with_band(counts, group).T, strict=True
        ):
            drawing += _shape("polyline", f"{color} faint", [time] * 2, ends, last)
            drawing += _shape("polyline", f"{color} spot", [time] * 2, [middle] * 2, last)
    words = "; ".join(f"{n}: {s:.2f} at last" for n, s in zip(names, chances[:, -1], strict=True))
    title = "Groups of risk, predicted and observed"
    return tag("div", legend(names), _figure(title, drawing, last, outcome, words))


def _shape(
    kind: str, style: str, times: Sequence[float], values: Iterable[float], last: float = 0.0
) -> str:
    """A polyline or polygon over the times up to the last, which is theirs if not given."""
    end = last or max(times)
    points = zip(times, values, strict=True)
    places = (f"{LEFT + WIDE * t / end:.1f},{TOP + HIGH * (1.0 - s):.1f}" for t, s in points)
    return f'<{kind} class="{style}" points="{" ".join(places)}"/>'


def _figure(title: str, drawing: str, last: float, outcome: Survival, words: str) -> Html:
    right, bottom, left = LEFT + WIDE, TOP + HIGH, LEFT - 4
    marks = [(LEFT + WIDE * t / last, bottom + 16, "middle", f"{t:.4g}") for t in _ticks(last)]
    marks += [(left, TOP + 8, "end", "1"), (left, bottom, "end", "0")]
    inner = f'<rect class="frame" x="{LEFT}" y="{TOP}" width="{WIDE}" height="{HIGH}"/>{drawing}'
    for x, y, anchor, text in marks:
        inner += f'<text x="{x:.1f}" y="{y}" text-anchor="{anchor}">{text}</text>'
    drawing = picture(inner, f"0 0 {right + 8} {bottom + 22}", words)
    unit = f" ({outcome.unit})" if outcome.unit else ""
    return tag("figure", tag("figcaption", f"{title}: no event until a time{unit}"), drawing)


def _ticks(last: float) -> list[float]:
    """Three to six round times."""
    power = 10.0 ** np.floor(np.log10(last))
    step = next(f * power for f in (0.2, 0.5, 1.0, 2.0) if last < 6.0 * f * power)
    return [float(f"{step * k:.6g}") for k in range(1, int(last / step) + 1)]


def _at_risk(curve: SurvivalCurve, outcome: Survival) -> Html:
    """Records at risk at the start of each interval, and the events in it."""
    counts, noise = curve.everyone.table[0], DEVIATIONS * curve.everyone.deviation
    of_risk = noise * np.sqrt(curve.everyone.counts_at_risk)
    rows = [
        (f"until {outcome.words(t)}", f"{r:.0f} ± {n:.0f}", f"{max(d, 0.0):.0f} ± {noise:.0f}")
        for t, r, n, d in zip(curve.edges, at_risk(counts), of_risk, counts[1], strict=False)
    ]
    head = ["Interval", "At risk, half of the censored counted", "Events"]
    numbers = table(head, rows, "Noisy numbers, with two deviations of the noise")
    return tag("details", tag("summary", "Numbers at risk"), numbers)


def _calibration(curve: SurvivalCurve, outcome: Survival) -> Html:
    """Half-way and at the last time, on the training records."""
    counts = curve.groups
    assert counts is not None
    end, words = len(counts.edges) - 1, "An event until {}: predicted, and observed in training"
    places = sorted({end // 2, end})
    bins = [calibration_at(counts, curve, place, CONFIDENCE) for place in places]
    titles = [words.format(outcome.words(counts.edges[place])) for place in places]
    return tag("div", *map(calibration_figure, bins, titles), class_="columns")


def _ratios(model: Readable) -> list[Html]:
    columns = [name for name, part in importances(model).items() if part > 0.0][:MOST_RATIOS]
    rows = []
    for name in columns:
        effect = feature_effect(model, name)
        values, low, high = np.exp([part[:, 0] for part in (effect.values, *effect.band)])
        parts = np.add.reduceat(model.model_.parts[model.schema_.index(name)], effect.cells)
        common = np.flatnonzero(parts >= LEAST_PART * parts.mean())
        numbers = (
            f"{values[k]:.2f} ({low[k]:.2f} to {high[k]:.2f}): {effect.words[k]}"
            for k in common[np.argsort(values[common])[[0, -1]]]
        )
        rows.append((name, *numbers))
    ratios = table(["Column", "Lowest odds", "Highest odds"], rows, "Odds ratios")
    return [tag("h3", "Odds ratios"), tag("p", RATIOS), ratios] if rows else []
