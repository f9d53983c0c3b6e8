"""The sections of the page that work without scripts and can be printed and searched."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any

from hedgerow.privacy.accounting.rounding import format_above
from hedgerow.privacy.statement.record import RoundRecord, RunRecord
from hedgerow.privacy.statement.spending import Part, Spending
from hedgerow.privacy.statement.statement import PrivacyStatement
from hedgerow.privacy.statement.wording import dp_model_words, meaning_words, percent
from hedgerow.report.evaluation import HIDDEN_BY_NOISE, Evaluation, Measured, measure_name
from hedgerow.report.measures import CalibrationBin, EstimatedMeasure
from hedgerow.report.page.html import Html, bullet_list, join_html, picture, table, tag
from hedgerow.report.plain import PlainModel
from hedgerow.schema.grids import ColumnKind
from hedgerow.secagg.envelope import SignedHeader


def section(name: str, title: str, *inside: str | Html) -> Html:
    head = tag("h2", title, id=f"{name}-title")
    return tag("section", head, *inside, id=name, aria_labelledby=f"{name}-title")


def glance(model: PlainModel, statement: PrivacyStatement, run: RunRecord) -> Html:
    task = "a number" if model.classes is None else " or ".join(model.classes[:4])
    task = task if model.survival is None else "time to an event"
    if model.classes is not None and len(model.classes) > 4:
        task += f" and {len(model.classes) - 4} more"
    facts = [
        ("Predicts", task),
        ("From", many(len(model.grids), "column")),
        ("Made of", made_of(model)),
        ("Trained on", sites_words(statement)),
        ("In", many(len(run.rounds), "round")),
        ("Each site sent", in_bytes(sum(r.bytes_out for r in run.rounds))),
    ]
    cards = [tag("div", tag("dt", name), tag("dd", words)) for name, words in facts]
    return tag("dl", *cards, class_="facts")


def sites_words(statement: PrivacyStatement) -> str:
    return "one site" if statement.n_sites == 1 else many(statement.n_sites, "site")


def guarantee_card(statement: PrivacyStatement) -> Html:
    """The guarantee at a glance."""
    epsilon = "∞" if math.isinf(statement.epsilon) else format_above(statement.epsilon)
    return tag(
        "div",
        tag("p", tag("span", "ε", class_="symbol"), f" {epsilon}", class_="epsilon"),
        tag("p", f"δ = {format_above(statement.delta)} · {statement.unit}", class_="small"),
        class_="guarantee-card",
    )


def made_of(model: PlainModel) -> str:
    surfaces, trees = len({*model.pairs} - {()}), model.pairs.count(())
    counts = {"curve": len(model.curves), "surface": surfaces, "tree": trees}
    *parts, last = [many(count, word) for word, count in counts.items() if count] or ["a constant"]
    return f"{', '.join(parts)} and {last}" if parts else last


def meaning_lines(statement: PrivacyStatement) -> list[str]:
    return [
        f"{line[0].upper()}{line[1:]}." for line in meaning_words(statement.meaning, statement.unit)
    ]


def guarantee(statement: PrivacyStatement) -> Html:
    words = meaning_lines(statement)
    lead = f"{words[0]} This holds for whoever sees the model, whatever else they know."
    against = table(["Against", "Guarantee"], statement.trust, "Against whom the guarantee holds")
    return section(
        "guarantee",
        "The guarantee",
        tag("p", lead, class_="lead"),
        _meter(statement.meaning.guess),
        tag("p", words[1]),
        against,
        _numbers(statement),
    )


def _meter(guess: float) -> Html:
    """From a coin's 50 % to certainty, with the best that an attacker can reach."""
    x = 600.0 * (guess - 0.5) / 0.5
    label = f"A guess is right at most {percent(guess)} of the time; a coin is right 50 %."
    inner = (
        f'<rect class="track" x="10" y="26" width="600" height="12" rx="6"/>'
        f'<rect class="reach" x="10" y="26" width="{max(x, 3):.1f}" height="12" rx="6"/>'
        f'<text x="10" y="58">coin 50 %</text>'
        f'<text x="610" y="58" text-anchor="end">certain 100 %</text>'
        f'<text class="mark" x="{10 + min(max(x, 20), 560):.1f}" y="18">≤ {percent(guess)}</text>'
    )
    return picture(inner, "0 0 620 66", label, class_="meter")


def _numbers(statement: PrivacyStatement) -> Html:
    rows = [
        ("Epsilon, delta", statement.summary),
        *([("All fits of one ledger", statement.total.summary)] if statement.total else []),
        ("Unit", statement.unit),
        ("Neighbors", statement.neighbors),
        ("Noise", dp_model_words(statement.dp_model)),
        ("Accountant", statement.accountant),
        ("Randomness", statement.randomness),
        ("Schema", statement.schema_source),
        ("Inexact sampling adds to delta", format_above(statement.delta_slack, 2)),
        *(
            (f"Attack with {percent(alarms)} false positives", f"succeeds at most {percent(most)}")
            for alarms, most in statement.meaning.found
        ),
        *((f"Mechanism, {m.part:.1%}", m.what) for m in statement.mechanisms),
    ]
    title = "The guarantee in numbers"
    return tag("details", tag("summary", title), table(["What", "Value"], rows, title))


def not_protected(statement: PrivacyStatement) -> Html:
    return section(
        "unprotected",
        "What is not protected",
        bullet_list(statement.unprotected),
        tag("h3", "Notes"),
        bullet_list(statement.caveats),
    )


def origin(
    model: PlainModel, statement: PrivacyStatement, parameters: dict[str, Any], digest: str
) -> Html:
    about = statement.about.lines() if statement.about else ()
    rows = [
        *((f"{title[0].upper()}{title[1:]}", words) for title, words in about),
        ("Estimator", model.name),
        ("Release", f"hedgerow {statement.release}"),
        ("Source files, SHA-256", statement.source),
        ("Model, SHA-256", digest),
        *((name, str(value)) for name, value in parameters.items()),
    ]
    how = (
        "Public randomness follows random_state; noise comes from the operating system and cannot "
        "be drawn again. The same study on the same rows gives another model, with the same "
        "guarantee."
    )
    versions = table(["What", "Value"], rows, "Versions, parameters and hashes")
    load = 'import hedgerow\nmodel = hedgerow.load("model.json")  # verified'
    code = tag("pre", load, tabindex=0)
    return section("origin", "Where it comes from", versions, tag("p", how), code)


def fields(model: PlainModel) -> Iterator[Html]:
    """One input per column; empty means missing."""
    for j, grid in enumerate(model.grids):
        name = f"field-{j}"
        if grid.kind is ColumnKind.NUMERIC:
            hint = f"{grid.low:g} to {grid.high:g}"
            field = Html(
                f'<input id="{name}" inputmode="decimal" autocomplete="off" placeholder="{hint}">'
            )
        else:
            values = [*grid.values, *(["any other value"] if grid.other else [])]
            options = [tag("option", value, value=k) for k, value in enumerate(values)]
            field = tag("select", tag("option", "missing", value=""), *options, id=name)
        label = grid.feature if grid.kind is not ColumnKind.HASHED else f"{grid.feature} (bucket)"
        yield tag("div", tag("label", label, for_=name), field, class_="field")


def many(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def in_bytes(count: int) -> str:
    if count < 10_000:
        return f"{count} bytes"
    return f"{count / 1000:.0f} kB" if count < 10_000_000 else f"{count / 1e6:.0f} MB"


# The cost of a run and the data that left the sites: round by round, site by site.

MANIFEST_LINES = 3
"""Most lines per round; the rest is counted."""
ALIKE = (
    "Every site that answers a round sends as much as the others: lengths follow from the "
    "question, never from rows."
)


def spent(statement: PrivacyStatement, signatures: dict[str, Any] | None) -> Html:
    title = "Budget used"
    if statement.spent_fraction is None:
        return section("spent", title, tag("p", "No noise was added: there is no guarantee."))
    slices: list[tuple[str, str, Spending | Part]] = [
        *((f"c{k % 6}", _round_words(s.rounds), s) for k, s in enumerate(statement.spending)),
        *(("left", "left", part) for part in statement.unspent),
    ]
    rows = [
        (tag("span", tag("span", "", class_=f"chip {kind}"), f" {when}"), p.what, f"{p.part:.1%}")
        for kind, when, p in slices
    ]
    rows += [
        (tag("span", _round_words(s.rounds)), f"{s.what}, of held-out records", f"{s.part:.1%}")
        for s in statement.held_out
    ]
    bars, x = "", 0.0
    for kind, _, p in slices:
        place = f'x="{620 * x:.2f}" y="0" width="{620 * p.part:.2f}" height="22"'
        bars, x = f'{bars}<rect class="{kind}" {place}/>', x + p.part
    whole = sum(p.part for p in statement.spending)
    label = f"A bar of the whole budget; {whole:.1%} of it was spent."
    words = (
        f"{statement.spent_fraction:.1%} of the budget (worst-case record); what was released has "
        f"epsilon {format_above(statement.spent_epsilon)}."
    )
    rounds = table(["Rounds", "For", "Part"], rows, "The budget, round by round")
    site_parts = _site_by_site(statement, signatures)
    return section("spent", title, tag("p", words), budget_bar(bars, label), rounds, *site_parts)


def _site_by_site(statement: PrivacyStatement, signatures: dict[str, Any] | None) -> list[Html]:
    """Spending by the sites' receipts, if any; in one process all sites paid the same."""
    if signatures is None or not statement.spent_fraction:
        sites = "the site" if statement.n_sites == 1 else f"each of the {statement.n_sites} sites"
        words = f"The same charge stands in the ledger of {sites}: every site answers every round."
        return [tag("p", words, class_="small")]
    receipts = {
        name: SignedHeader.read(bytes.fromhex(text))
        for name, text in sorted(signatures["receipts"].items())
    }
    costs = {name: Fraction(own.header.ledger.spent) for name, own in receipts.items()}
    most = max(costs.values())
    rows = [
        (name, f"{float(cost / most) * statement.spent_fraction:.1%}" if most else "0.0%")
        for name, cost in costs.items()
    ]
    note = (
        "By each site's own signed receipt. This page does not check signatures; `hedgerow verify` "
        "with the study's file does."
    )
    return [
        table(["Site", "Budget used"], rows, "The budget, site by site"),
        tag("p", note, class_="small"),
        tag("p", _closing_words(costs, signatures), class_="small"),
    ]


def _closing_words(names: Iterable[str], signatures: dict[str, Any]) -> str:
    """Whether the statement is final, and which sites vouch for the model."""
    open_names = sorted(set(names) - set(signatures.get("closed", {})))
    final = "All sites have closed the study: no later run can add to it."
    if open_names:
        final = f"Not closed by {', '.join(open_names)}: count there the study's whole budget."
    vouches = sorted(signatures.get("vouches", {}))
    anew = f" {', '.join(vouches)} computed the model anew and vouch for it." if vouches else ""
    clever = "Nothing here shows that a site's records are true: a site that lies can turn a model."
    return f"{final}{anew} {clever}"


def _round_words(rounds: str) -> str:
    return f"round {rounds}" if rounds[:1].isdigit() else rounds


def budget_bar(bars: str, label: str) -> Html:
    """A bar of the whole budget, 620 wide."""
    return picture(bars, "0 0 620 22", label, class_="stack", preserveAspectRatio="none")


def left(run: RunRecord, statement: PrivacyStatement) -> Html:
    out, back = sum(r.bytes_out for r in run.rounds), sum(r.bytes_in for r in run.rounds)
    subject = "The site answered" if statement.n_sites == 1 else "Each site answered"
    words = (
        f"{subject} {many(len(run.rounds), 'round')} with {sum(r.integers for r in run.rounds)} "
        f"whole numbers in all: {in_bytes(out)} out, {in_bytes(back)} in. No row, and no number "
        "without noise, is among them."
    )
    if statement.spent_fraction is None:
        words = words.partition(" No row")[0] + " No noise was added to them."
    rows = [
        (
            f"{r.number}{' (failed)' if r.void else ''}",
            _manifest(r),
            "" if r.sites is None else str(r.sites),
            str(r.integers),
            in_bytes(r.bytes_out),
        )
        for r in run.rounds
    ]
    head = ["Round", "Asked", "Sites", "Numbers", "Sent"]
    rounds = table(head, rows, "Every round, as a site saw it")
    notes = [tag("p", ALIKE, class_="small")] if statement.n_sites > 1 else []
    every = tag("details", tag("summary", f"All {len(rows)} rounds"), rounds)
    return section("left", "What left each site", tag("p", words), *notes, every)


def _manifest(record: RoundRecord) -> Html:
    lines = [tag("div", line) for line in record.manifest[:MANIFEST_LINES]]
    more = len(record.manifest) - MANIFEST_LINES
    rest = [tag("div", f"and {more} more", class_="small")] if more > 0 else []
    return join_html([*lines, *rest])


# The quality of a model with a stored evaluation: every number with its interval.

NOT_EVALUATED = (
    "This model carries no evaluation. A score on records of the sites is a release of its own, "
    "with noise and a charge. "
)


def how_to_evaluate(statement: PrivacyStatement) -> str:
    """How to get an evaluation, and what it costs."""
    price = "" if math.isinf(statement.epsilon) else f", at {statement.summary}"
    return (
        "Not measured. Train with hold_out=5: one record in five then measures the model and "
        f"trains nothing{price}; the guarantee stays as it is. Of this model: "
        "hedgerow.evaluate on other records, each of which pays the epsilon that is given."
    )


IN_THE_RUN = (
    "It is one more round of the run that made the model: records that were kept out of training "
    "answered it and paid for nothing else, so that the model's guarantee covers both."
)
NAMES = {
    "auc": "AUC",
    "brier": "Brier score",
    "log_loss": "Log-loss",
    "r2": "R squared",
    "grouped_c_index": "C-index of risk groups",
    "integrated_brier": "Integrated Brier score",
}
SIDE, MARGIN = 220.0, 24.0


def evaluation(
    result: Evaluation | None, classes: tuple[str, ...] | None, statement: PrivacyStatement
) -> Html:
    title = "How good it is"
    if result is None:
        words = NOT_EVALUATED + how_to_evaluate(statement)
        return section("evaluation", title, tag("p", words))
    groups, payment = result.parts[0], result.privacy_
    words = (
        f"Measured by one private query over records that were given for it. They paid for it: "
        f"{payment.summary}; {payment.unit}. Intervals hold {result.confidence:.0%} of the "
        "time and count both, that records are a sample and the noise."
    )
    note = payment.caveats[0]  # how this cost and that of the model combine; see `evaluate`
    who_paid = IN_THE_RUN if payment.held_out else f"{note[0].upper()}{note[1:]}"
    parts = [tag("p", words), tag("p", who_paid, class_="small")]
    parts += [_group(group_measures, len(groups) > 1, classes or ()) for group_measures in groups]
    return section("evaluation", title, *parts)


def _group(group_measures: Measured, has_name: bool, classes: tuple[str, ...]) -> Html:
    title = [tag("h3", group_measures.group)] if has_name else []
    if not group_measures.is_told:
        return tag("div", *title, tag("p", f"{HIDDEN_BY_NOISE.capitalize()}."))
    rows = [
        (measure_title(name, classes), f"{m.value:.3f}", interval_words(m))
        for name, m in group_measures.measures.items()
    ]
    parts = [*title, table(["Measure", "Estimate", "Interval"], rows, "What was measured")]
    if group_measures.calibration:
        caption = "Probability: predicted, and observed among the records"
        parts.append(calibration_figure(group_measures.calibration, caption))
    return tag("div", *parts, class_="measured")


def measure_title(name: str, classes: tuple[str, ...]) -> str:
    words = measure_name(name, classes)
    if words != name:
        return f"{words[0].upper()}{words[1:]}"
    return NAMES.get(name) or name.replace("_", " ").capitalize()


def interval_words(m: EstimatedMeasure) -> str:
    return f"{m.low:.3f} to {m.high:.3f}"


def legend(names: Sequence[str]) -> Html:
    """The legend of colors."""
    chips = [
        tag("li", tag("span", "", class_=f"chip k{min(k, 6)}"), f" {name}")
        for k, name in enumerate(names)
    ]
    return tag("ul", *chips, class_="legend")


def calibration_figure(bins: tuple[CalibrationBin, ...], caption: str) -> Html:
    """Predicted against observed probability, with the diagonal."""
    low, high, inner, words = MARGIN, MARGIN + SIDE, "", []
    for b in bins:
        share, x = b.share, MARGIN + SIDE * (b.low + b.high) / 2.0
        if math.isnan(share.value):
            continue
        top, middle, bottom = (
            4.0 + SIDE * (1.0 - min(max(v, 0.0), 1.0)) for v in (share.high, share.value, share.low)
        )
        inner += (
            f'<line class="interval" x1="{x:.1f}" x2="{x:.1f}" y1="{top:.1f}" y2="{bottom:.1f}"/>'
            f'<circle class="dot" cx="{x:.1f}" cy="{middle:.1f}" r="4"/>'
        )
        interval = f"{share.value:.2f} ({interval_words(share)})"
        words.append(f"predicted {b.low:.2g} to {b.high:.2g}, observed {interval}")
    inner = (
        f'<rect class="frame" x="{low}" y="4" width="{SIDE}" height="{SIDE}"/>'
        f'<line class="axis" x1="{low}" y1="{SIDE + 4}" x2="{high}" y2="4"/>{inner}'
        f'<text x="{low}" y="{SIDE + 20}">predicted 0</text>'
        f'<text x="{high}" y="{SIDE + 20}" text-anchor="end">1</text>'
        f'<text x="{low - 4}" y="{SIDE + 4}" text-anchor="end">0</text>'
        f'<text x="{low - 4}" y="14" text-anchor="end">1</text>'
    )
    box = f"0 0 {SIDE + 2 * MARGIN} {SIDE + 26}"
    drawing = picture(inner, box, "; ".join(words), class_="calibration")
    return tag("figure", tag("figcaption", caption), drawing, class_="narrow")
