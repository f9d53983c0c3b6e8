"""The sections of the page that need no script: they are read, printed and searched as they are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from hedgerow.privacy.accounting.rounding import printed
from hedgerow.privacy.statement.record import RunRecord
from hedgerow.privacy.statement.statement import PrivacyStatement
from hedgerow.privacy.statement.wording import meaning_words, percent
from hedgerow.report.page.html import Html, bullet_list, table, tag
from hedgerow.report.plain import PlainModel
from hedgerow.schema.grids import ColumnKind


def section(name: str, title: str, *inside: str | Html) -> Html:
    head = tag("h2", title, id=f"{name}-title")
    return tag("section", head, *inside, id=name, aria_labelledby=f"{name}-title")


def glance(model: PlainModel, said: PrivacyStatement, run: RunRecord) -> Html:
    task = "a number" if model.classes is None else " / ".join(model.classes[:4])
    if model.classes is not None and len(model.classes) > 4:
        task += f" and {len(model.classes) - 4} more"
    facts = [
        ("Tells", task),
        ("From", many(len(model.grids), "column")),
        ("Made of", made_of(model)),
        ("Trained on", "one holder" if said.parties == 1 else many(said.parties, "site")),
        ("In", many(len(run.rounds), "round")),
        ("Each site sent", in_bytes(sum(r.bytes_out for r in run.rounds))),
    ]
    cards = [tag("div", tag("dt", name), tag("dd", words)) for name, words in facts]
    return tag("dl", *cards, class_="facts")


def promise_card(said: PrivacyStatement) -> Html:
    """The promise in one look."""
    epsilon = "∞" if math.isinf(said.epsilon) else printed(said.epsilon)
    return tag(
        "div",
        tag("p", tag("span", "ε", class_="symbol"), f" {epsilon}", class_="epsilon"),
        tag("p", f"δ = {printed(said.delta)} · {said.unit}", class_="small"),
        class_="promise-card",
    )


def made_of(model: PlainModel) -> str:
    parts = [many(len(model.curves), "curve")] if model.curves else []
    parts += [many(len(model.trees), "tree")] if model.trees else []
    return " and ".join(parts) or "a constant"


def meaning_lines(said: PrivacyStatement) -> list[str]:
    return [f"{line[0].upper()}{line[1:]}." for line in meaning_words(said.meaning, said.unit)]


def promise(said: PrivacyStatement) -> Html:
    words = meaning_lines(said)
    return section(
        "promise",
        "The promise",
        tag(
            "p",
            f"{words[0]} This holds for whoever sees the model, whatever else they know.",
            class_="lead",
        ),
        _meter(said.meaning.guess),
        tag("p", words[1]),
        table(
            ["Against", "Promise"],
            [(who, what) for who, what in said.trust],
            "Against whom the promise holds",
        ),
        _numbers(said),
    )


def _meter(guess: float) -> Html:
    """From a coin's 50 % to certainty, with the most that anybody can reach."""
    x = 600.0 * (guess - 0.5) / 0.5
    label = f"A guess is right at most {percent(guess)} of the time; a coin is right 50 %."
    inner = (
        f'<rect class="track" x="10" y="26" width="600" height="12" rx="6"/>'
        f'<rect class="reach" x="10" y="26" width="{max(x, 3):.1f}" height="12" rx="6"/>'
        f'<text x="10" y="58">coin 50 %</text>'
        f'<text x="610" y="58" text-anchor="end">certain 100 %</text>'
        f'<text class="mark" x="{10 + min(max(x, 20), 560):.1f}" y="18">≤ {percent(guess)}</text>'
    )
    return Html(
        f'<svg class="meter" viewBox="0 0 620 66" role="img" aria-label="{label}">{inner}</svg>'
    )


def _numbers(said: PrivacyStatement) -> Html:
    rows = [
        ("Epsilon, delta", said.promise),
        *([("All fits of one ledger", said.total.promise)] if said.total else []),
        ("Unit", said.unit),
        ("Neighbours", said.neighbours),
        ("Noise", said.placement),
        ("Accountant", said.accountant),
        ("Randomness", said.randomness),
        ("Schema", said.schema_source),
        ("Inexact draws add to delta", printed(said.delta_slack, 2)),
        *(
            (f"Found at {percent(alarms)} false alarms", f"at most {percent(found)}")
            for alarms, found in said.meaning.found
        ),
        *((f"Mechanism, {m.part:.1%}", m.what) for m in said.mechanisms),
    ]
    return tag(
        "details",
        tag("summary", "The promise in numbers"),
        table(["What", "Value"], rows, "The promise in numbers"),
    )


def not_protected(said: PrivacyStatement) -> Html:
    return section(
        "unprotected",
        "What is not protected",
        bullet_list(said.unprotected),
        tag("h3", "And to be remembered"),
        bullet_list(said.caveats),
    )


def origin(
    model: PlainModel, said: PrivacyStatement, parameters: dict[str, Any], digest: str
) -> Html:
    rows = [
        *((f"{title[0].upper()}{title[1:]}", words) for title, words in _said_of_it(said)),
        ("Estimator", model.name),
        ("Release", f"hedgerow {said.release}"),
        ("Source files, SHA-256", said.source),
        ("Model, SHA-256", digest),
        *((name, str(value)) for name, value in parameters.items()),
    ]
    how = (
        "Public randomness follows random_state; noise comes from the operating system and cannot "
        "be drawn again. The same study on the same rows gives another model with the same promise."
    )
    return section(
        "origin",
        "Where it comes from",
        table(["What", "Value"], rows, "Versions, parameters and hashes"),
        tag("p", how),
        tag("pre", 'import hedgerow\nmodel = hedgerow.load("model.json")  # checks its digest'),
    )


def _said_of_it(said: PrivacyStatement) -> list[tuple[str, str]]:
    return list(said.about.lines()) if said.about else []


def fields(model: PlainModel) -> Iterator[Html]:
    """One input for each column; empty is missing."""
    for j, grid in enumerate(model.grids):
        name = f"field-{j}"
        if grid.kind is ColumnKind.NUMERIC:
            hint = f"{grid.low:g} to {grid.high:g}"
            field = Html(
                f'<input id="{name}" inputmode="decimal" autocomplete="off" placeholder="{hint}">'
            )
        else:
            field = _choices(name, grid.values, grid.other)
        label = grid.feature if grid.kind is not ColumnKind.HASHED else f"{grid.feature} (bucket)"
        yield tag("div", Html(str(tag("label", label, for_=name))), field, class_="field")


def _choices(name: str, values: Sequence[str], other: bool) -> Html:
    options = [tag("option", "missing", value="")]
    options += [tag("option", value, value=k) for k, value in enumerate(values)]
    if other:
        options.append(tag("option", "any other value", value=len(values)))
    return tag("select", *options, id=name)


def many(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def in_bytes(count: int) -> str:
    if count < 10_000:
        return f"{count} bytes"
    return f"{count / 1000:.0f} kB" if count < 10_000_000 else f"{count / 1e6:.0f} MB"
