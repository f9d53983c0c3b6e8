"""The page of a run that is under way: the look of the report, filled by events."""

from __future__ import annotations

from hedgerow.report.page.html import Html, joined, tag
from hedgerow.report.page.page import LOGO, POLICY, page_file

LIVE_POLICY = f"{POLICY}; connect-src 'self'"
NO_TREE = "No tree has begun. Of several trees the newest is shown."


def live_page(title: str, facts: dict[str, str], budget: str, has_tree: bool) -> str:
    """`facts` are titles by the names of what events fill in."""
    cards = [
        tag("div", tag("dt", words), tag("dd", "...", id=f"live-{name}"))
        for name, words in facts.items()
    ]
    head = tag(
        "div",
        tag("div", tag("p", LOGO, "hedgerow, live", class_="kicker"), tag("h1", title)),
        class_="title",
    )
    bar = Html(
        '<svg class="stack" viewBox="0 0 620 22" preserveAspectRatio="none" role="img" '
        'aria-label="Part of the budget that is spent"><rect class="left" width="620" height="22"/>'
        '<rect class="c1" id="live-bar" width="0" height="22"/></svg>'
    )
    tree = [tag("p", NO_TREE, class_="small"), tag("ul", "", id="live-tree", aria_live="off")]
    parts = [
        tag("section", tag("h2", budget), bar),
        *([tag("section", tag("h2", "The tree so far"), *tree)] if has_tree else []),
        tag("section", tag("h2", "What happened"), tag("ol", "", id="live-events")),
    ]
    main = tag("main", tag("div", *parts, class_="inner"), aria_live="polite")
    return joined(
        [
            Html('<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'),
            Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            Html(f'<meta http-equiv="Content-Security-Policy" content="{LIVE_POLICY}">'),
            Html('<link rel="icon" href="data:,">'),
            tag("title", f"{title} · hedgerow"),
            Html(f"<style>{page_file('page.css')}</style></head><body>"),
            tag("header", tag("div", head, tag("dl", *cards, class_="facts"), class_="inner")),
            main,
            Html(f"<script>{page_file('live.js')}</script></body></html>\n"),
        ]
    )
