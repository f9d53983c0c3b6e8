"""The report: one HTML file about a model that needs no network."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from hedgerow.privacy.statement.record import RunRecord
from hedgerow.privacy.statement.statement import PrivacyStatement
from hedgerow.report.evaluation import kept_evaluation
from hedgerow.report.exports.export import write_file
from hedgerow.report.importances import mean_of_curve
from hedgerow.report.page import sections
from hedgerow.report.page.data import in_page_digits, script_data, trees_that_fit
from hedgerow.report.page.html import Html, join_html, tag
from hedgerow.report.page.over_time import script_survival, survival_section
from hedgerow.report.page.pictures import effect_figures, importance_bars, surface_figures
from hedgerow.report.plain import PlainModel, plain
from hedgerow.report.text import leaf_sentences, number_words
from hedgerow.report.view import is_one_tree, leaf_of
from hedgerow.report.weighing import Readable, have_all_leaves

LOGO = Html(
    '<svg viewBox="0 0 24 24" aria-hidden="true"><g fill="none" stroke="currentColor" '
    'stroke-width="2" stroke-linecap="round"><path d="M2 21h20M12 21V8M12 12 7 8M12 10l5-4"/>'
    '<circle cx="6.5" cy="7" r="2.6"/><circle cx="17.5" cy="5" r="2.6"/>'
    '<circle cx="12" cy="5" r="2.6"/></g></svg>'
)


POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
"""Nothing may be fetched from anywhere."""


def html_document(title: str, style: str, *body: Html, policy: str = POLICY) -> str:
    """A whole page in one file."""
    return join_html(
        [
            Html('<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'),
            Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            Html(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
            Html('<link rel="icon" href="data:,">'),
            tag("title", f"{title} · hedgerow"),
            Html(f"<style>{style}</style></head><body>"),
            *body,
            Html("</body></html>\n"),
        ]
    )


class Reportable(Readable, Protocol):
    privacy_: PrivacyStatement
    run_: RunRecord

    def get_params(self, deep: bool = True) -> dict[str, Any]: ...


def report(model: Reportable, path: str | Path) -> Path:
    """Writes the page."""
    return write_file(path, page_of(model).encode())


def page_of(model: Reportable) -> str:
    form, statement, run = plain(model), model.privacy_, model.run_
    hidden = ("schema", "ledger", "progress")
    parameters = {
        name: value
        for name, value in model.get_params(deep=False).items()
        if name not in hidden and value is not None
    }
    body = [
        sections.guarantee(statement),
        sections.evaluation(kept_evaluation(model), form.classes, statement),
        _columns_section(model, form),
        *([survival_section(model)] if form.survival is not None else []),
        _tree_section(model, form),
        _why_section(form),
        sections.spent(statement, getattr(model, "signed_", None)),
        sections.left(run, statement),
        sections.not_protected(statement),
        sections.origin(form, statement, parameters, model.model_.score.digest),
    ]
    title = tag("div", tag("p", LOGO, "hedgerow", class_="kicker"), tag("h1", title_of(form)))
    top = tag("div", title, sections.guarantee_card(statement), class_="title")
    head = tag("header", tag("div", top, sections.glance(form, statement, run), class_="inner"))
    data = json.dumps(_data(model, form), separators=(",", ":"), ensure_ascii=False)
    data = data.replace("<", "\\u003c")  # no text can end the surrounding script block
    links = [
        tag("li", tag("a", words, href=f"#{place}"))
        for place, words in PLACES.items()
        if place != "survival" or form.survival is not None
    ]
    return html_document(
        title_of(form),
        page_file("page.css"),
        tag("a", "Skip to the report", class_="skip", href="#main"),
        head,
        tag("nav", tag("div", tag("ul", *links), class_="inner"), aria_label="Sections"),
        tag("main", tag("div", *body, class_="inner"), id="main"),
        tag("footer", tag("div", FOOT, class_="inner")),
        Html(f'<script type="application/json" id="model">{data}</script>'),
        Html(f"<script>{page_file('page.js')}</script>"),
    )


FOOT = (
    "Made by hedgerow from the model file alone. Every number carries noise that protects the "
    "records; the page asks nothing of any network."
)
PLACES = {
    "guarantee": "The guarantee",
    "evaluation": "How good",
    "columns": "Columns",
    "survival": "Over time",
    "tree": "Trees",
    "why": "Why?",
    "spent": "Spent",
    "left": "What left",
    "unprotected": "Not protected",
    "origin": "Origin",
}


def title_of(form: PlainModel) -> str:
    if form.survival is not None:
        return "Boosted trees for the time to an event"
    if not form.name.endswith(("Classifier", "Regressor")):
        return form.name
    return re.sub(r"(?<!^)[A-Z]", lambda letter: f" {letter[0].lower()}", form.name)


def _tree_section(model: Reportable, form: PlainModel) -> Html:
    if not (n_trees := form.pairs.count(())):
        words = f"The model has no trees; it is made of {sections.made_of(form)}."
        return sections.section("tree", "Trees", tag("p", words))
    single = is_one_tree(model)
    fitting = form.pairs[: trees_that_fit(form)].count(())
    words = MANY_TREES.format(n_trees)
    if single:
        words = ONE_TREE if form.classes is not None else ONE_TREE_OF_A_NUMBER
    if fitting < n_trees:
        words += f" The page holds the first {fitting}; the model is too large for more."
    names = {"open-all": "Open all", "close-all": "Close all"}
    tools = [tag("button", words, type="button", id=name) for name, words in names.items()]
    if fitting > 1:
        field = Html(f'<input id="tree-number" type="number" min="1" max="{fitting}" value="1">')
        tools.insert(0, tag("span", Html(str(tag("label", "Tree ", for_="tree-number"))), field))
    by_hand = [tag("span", BY_HAND, class_="by-hand")] if single else []
    parts = [tag("p", *by_hand, words), tag("div", *tools, class_="tools")]
    if single and form.classes is not None:
        parts.append(sections.legend(form.classes))
    parts.append(tag("div", tag("div", "", id="tree-view"), class_="panel"))
    parts.append(Html("<noscript><p>The tree needs the page's own script.</p></noscript>"))
    return sections.section("tree", "The tree" if single else "The trees", *parts)


BY_HAND = "Open and close branches by mouse or by keyboard. "
"""Hidden in print."""
ONE_TREE = (
    "Records are shown with two deviations of their noise; pale bars with a question mark say that "
    "noise alone could change the class."
)
ONE_TREE_OF_A_NUMBER = (
    "Records, and the means of leaves, are shown with two deviations of their noise."
)
MANY_TREES = (
    "{} trees add up. Choose one: its leaves say what they add to the score, to the right for "
    "more, to the left for less; branches say the mean of what is below them."
)


IMPORTANCES = (
    "The part of the score's variation that each column brings about, with two deviations of its "
    "noise. A column that is not well above its noise may be nothing but noise."
)


FEATURE_EFFECTS = (
    "What a column adds to {}, all else averaged; its bins from left to right, as wide as each "
    "other. The band is two deviations of the noise to either side. Read off the released model, "
    "so nothing more was spent."
)
SURFACES = (
    "What two columns add to {} together, beyond the curves of each: its part of the variation "
    "(half of it is counted above with either column), then its heat map, with missing values "
    "beyond the edges. Blue is more, red is less, gray where two deviations of the noise reach "
    "zero."
)


def _columns_section(model: Reportable, form: PlainModel) -> Html:
    target_words = "the number" if form.classes is None else "the score"
    if form.survival is not None:
        target_words = "the log-odds of an event by any time"
    if form.classes is not None and len(form.classes) == 2:
        target_words += f" of {form.classes[1]}"
    parts = [tag("p", IMPORTANCES), importance_bars(model)]
    if trees_that_fit(form) < len(form.trees):
        parts += [tag("p", "hedgerow.feature_effect(model, column) has the curve of each column.")]
    else:
        parts += [tag("h3", "Feature effects"), tag("p", FEATURE_EFFECTS.format(target_words))]
        parts += [sections.legend(form.classes or ())] if form.outputs > 2 else []
        parts += [tag("div", *effect_figures(model), class_="columns")]
        if any(form.pairs):
            parts += [tag("h3", "Surfaces"), tag("p", SURFACES.format(target_words))]
            parts += surface_figures(model)
    return sections.section("columns", "Feature importance", *parts)


def _why_section(form: PlainModel) -> Html:
    if trees_that_fit(form) < len(form.trees):
        words = "The model is too large for a page. Ask hedgerow.explain(model, rows) instead."
        return sections.section("why", "Why?", tag("p", words))
    say = tag("button", "Say why", type="submit", class_="main")
    buttons = tag("div", say, tag("button", "Clear", type="reset"), class_="buttons")
    form_tag = tag("form", *sections.fields(form), buttons, id="why-form", autocomplete="off")
    answer = tag("div", "", id="why-answer", role="status", aria_live="polite")
    words = "Type a record; leave empty what is not known. It stays in this page."
    panel = tag("div", form_tag, answer, class_="panel")
    return sections.section("why", "Why?", tag("p", words), panel)


def _data(model: Reportable, form: PlainModel) -> dict[str, Any]:
    curves = model.model_.score.curves
    rows = None  # noisy records of each leaf, if all trees have them
    if have_all_leaves(model):
        rows = [
            in_page_digits([float(leaf.masses.clip(0.0).sum()) for leaf in tree.leaves])
            for tree in model.leaf_statistics_
        ]
    return script_data(form, model.model_.parts) | {
        "curve_columns": [curve.feature for curve in curves],
        "curve_means": [mean_of_curve(model, curve).tolist() for curve in curves],
        "rows": rows,
        "leaves": _leaves(model) if is_one_tree(model) else None,
        "unit": number_words(model, "Numbers", "the class that is named"),
        "survival": script_survival(model),
    }


def _leaves(model: Reportable) -> list[dict[str, Any]]:
    leaves = [leaf_of(model.schema_, leaf) for leaf in model.leaf_statistics_[0].leaves]
    return [
        {
            "rows": leaf.rows,
            "spread": leaf.rows_spread,
            "sure": getattr(leaf, "is_sure", True),
            "noise": getattr(leaf, "value_spread", 0.0),
            "sentence": sentence,
        }
        for leaf, sentence in zip(leaves, leaf_sentences(model), strict=True)
    ]


def page_file(name: str) -> str:
    return files("hedgerow.report.page").joinpath(name).read_text("utf-8")


@dataclass(frozen=True, repr=False)
class InlinePage:
    """A whole page in a notebook's frame, isolated from the notebook's styles and scripts."""

    html: str
    height: int = 640

    def _repr_html_(self) -> str:
        content = escape(self.html, quote=True)
        return (
            f'<iframe title="hedgerow report" sandbox="allow-scripts" srcdoc="{content}" '
            f'style="width:100%;height:{self.height}px;border:1px solid #9aa894;'
            'border-radius:10px"></iframe>'
        )

    def __repr__(self) -> str:
        return "a report page; model.report(path) writes it to a file"


def card(model: Reportable) -> str:
    """A short card for notebooks: the model and its guarantee."""
    form, statement = plain(model), model.privacy_
    style = (
        "border:1px solid #9aa894;border-radius:10px;padding:.8em 1.1em;max-width:46em;"
        "font-family:system-ui,sans-serif"
    )
    facts = f"{title_of(form)}: {sections.made_of(form)}, from {len(form.grids)} columns"
    lines = [f"{statement.summary} · {statement.unit}", *sections.meaning_lines(statement)]
    more = "model.report() shows the whole page, model.report(path) writes it."
    parts = [tag("strong", facts), *(tag("div", line) for line in lines)]
    return str(tag("div", *parts, tag("div", more, style="opacity:.75"), style=style))


# The live page of a run: styled like the report, filled by events.

LIVE_POLICY = f"{POLICY}; connect-src 'self'"
NO_TREE = "No tree has begun. Of several trees the newest is shown."
SPENT = "Part of the budget that is spent"


class LivePart(NamedTuple):
    """One study or site of a live view; `facts` are titles by their names."""

    name: str
    facts: dict[str, str]
    budget: str
    has_sites: bool
    has_tree: bool


def live_page(title: str, parts: Sequence[LivePart]) -> str:
    """The page of a live view; several studies are a list that folds."""
    words = tag("div", tag("p", LOGO, "hedgerow, live", class_="kicker"), tag("h1", title))
    head, main = [tag("div", words, class_="title")], []
    for place, part in enumerate(parts):
        cards = [
            tag("div", tag("dt", words), tag("dd", "...", id=_live_id(name, place)))
            for name, words in part.facts.items()
        ]
        facts, inner = tag("dl", *cards, class_="facts"), _live_sections(part, place)
        if len(parts) == 1:
            head, main = [*head, facts], inner
            break
        brief = tag("span", "", id=_live_id("brief", place))
        name = tag("summary", tag("h2", part.name), " ", brief)
        main.append(tag("details", name, facts, *inner, class_="study", open="open"))
    return html_document(
        title,
        page_file("page.css"),
        tag("header", tag("div", *head, class_="inner")),
        tag("main", tag("div", *main, class_="inner"), aria_live="polite"),
        Html(f"<script>{page_file('live.js')}</script>"),
        policy=LIVE_POLICY,
    )


def _live_id(name: str, place: int) -> str:
    return f"live-{name}-{place}" if place else f"live-{name}"


def _live_sections(part: LivePart, place: int) -> list[Html]:
    own = {name: _live_id(name, place) for name in ("bar", "tree", "each-site", "events")}
    bars = (
        '<rect class="left" width="620" height="22"/>'
        f'<rect class="c1" id="{own["bar"]}" width="0" height="22"/>'
    )
    out = [tag("section", tag("h2", part.budget), sections.budget_bar(bars, SPENT))]
    if part.has_sites:
        heads = [tag("th", words, scope="col") for words in ("Site", "State", "Last answer")]
        table = tag("table", tag("thead", tag("tr", *heads)), tag("tbody", id=own["each-site"]))
        sites = tag("details", tag("summary", "Sites, one by one"), table, open="open")
        out.append(tag("section", tag("h2", "Sites"), sites))
    if part.has_tree:
        note = tag("p", NO_TREE, class_="small")
        tree = tag("ul", "", id=own["tree"], class_="live-tree", aria_live="off")
        out.append(tag("section", tag("h2", "The tree so far"), note, tree))
    events = tag("ol", "", id=own["events"], class_="live-events")
    return [*out, tag("section", tag("h2", "What happened"), events)]
