"""How good a model is, where a paid evaluation is kept with it: every number with its interval."""

from __future__ import annotations

import math

from hedgerow.report.evaluation import HIDDEN_BY_NOISE, Evaluation, Measured, measure_name
from hedgerow.report.measures import CalibrationBin, EstimatedMeasure
from hedgerow.report.page.html import Html, table, tag
from hedgerow.report.page.sections import section

NOT_EVALUATED = (
    "This model carries no evaluation. A score on records of the sites is a release of its own, "
    "with noise and a charge: hedgerow.evaluate asks for it, model.keep puts it here. A score on "
    "other rows is outside the promise."
)
IN_THE_RUN = (
    "It is one more round of the run that made the model: records that were kept out of training "
    "answered it and paid for nothing else, so that the model's promise covers both."
)
NAMES = {
    "auc": "AUC",
    "brier": "Brier score",
    "log_loss": "Log-loss",
    "r2": "R squared",
}
SIDE, MARGIN = 220.0, 24.0


def evaluation(found: Evaluation | None, classes: tuple[str, ...] | None) -> Html:
    if found is None:
        return section("evaluation", "How good it is", tag("p", NOT_EVALUATED))
    groups = found.parts[0]
    said = found.privacy_
    words = (
        f"Measured by one private query over records that were given for it. They paid for it: "
        f"{said.promise}; {said.unit}. Intervals hold {found.confidence:.0%} of the time and count "
        "both, that records are a sample and the noise."
    )
    return section(
        "evaluation",
        "How good it is",
        tag("p", words),
        tag("p", _who_paid(found), class_="small"),
        *(_group(one, len(groups) > 1, classes or ()) for one in groups),
    )


def _who_paid(found: Evaluation) -> str:
    """How this price and the model's own meet; `evaluate` says it first of all."""
    if found.privacy_.held_out:
        return IN_THE_RUN
    words = found.privacy_.caveats[0]
    return f"{words[0].upper()}{words[1:]}"


def _group(one: Measured, has_name: bool, classes: tuple[str, ...]) -> Html:
    title = [tag("h3", one.group)] if has_name else []
    if not one.is_told:
        return tag("div", *title, tag("p", f"{HIDDEN_BY_NOISE.capitalize()}."))
    rows = [
        (_name(name, classes), f"{m.value:.3f}", _between(m)) for name, m in one.measures.items()
    ]
    measures = table(["Measure", "Estimate", "Interval"], rows, "What was measured")
    picture = [_calibration(one.calibration)] if one.calibration else []
    return tag("div", *title, measures, *picture, class_="measured")


def _name(name: str, classes: tuple[str, ...]) -> str:
    words = measure_name(name, classes)
    if words != name:
        return f"{words[0].upper()}{words[1:]}"
    return NAMES.get(name) or name.replace("_", " ").capitalize()


def _between(m: EstimatedMeasure) -> str:
    return f"{m.low:.3f} to {m.high:.3f}"


def _calibration(bins: tuple[CalibrationBin, ...]) -> Html:
    """Said against found: on the line from corner to corner both are the same."""
    told = [b for b in bins if not math.isnan(b.share.value)]
    marks = "".join(_mark(b) for b in told)
    words = "; ".join(
        f"said {b.low:.2g} to {b.high:.2g}, found {b.share.value:.2f} ({_between(b.share)})"
        for b in told
    )
    low, high = MARGIN, MARGIN + SIDE
    inner = (
        f'<rect class="frame" x="{low}" y="4" width="{SIDE}" height="{SIDE}"/>'
        f'<line class="axis" x1="{low}" y1="{SIDE + 4}" x2="{high}" y2="4"/>{marks}'
        f'<text x="{low}" y="{SIDE + 20}">said 0</text>'
        f'<text x="{high}" y="{SIDE + 20}" text-anchor="end">1</text>'
        f'<text x="{low - 4}" y="{SIDE + 4}" text-anchor="end">0</text>'
        f'<text x="{low - 4}" y="14" text-anchor="end">1</text>'
    )
    picture = Html(
        f'<svg class="calibration" viewBox="0 0 {SIDE + 2 * MARGIN} {SIDE + 26}" role="img" '
        f'aria-label="{words}">{inner}</svg>'
    )
    caption = "Probability: said, and found among the records"
    return tag("figure", tag("figcaption", caption), picture, class_="narrow")


def _mark(b: CalibrationBin) -> str:
    x = MARGIN + SIDE * (b.low + b.high) / 2.0
    top, middle, bottom = (
        4.0 + SIDE * (1.0 - min(max(v, 0.0), 1.0))
        for v in (b.share.high, b.share.value, b.share.low)
    )
    return (
        f'<line class="interval" x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{bottom:.1f}"/>'
        f'<circle class="dot" cx="{x:.1f}" cy="{middle:.1f}" r="4"/>'
    )
