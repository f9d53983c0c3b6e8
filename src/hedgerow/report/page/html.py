"""Pieces of HTML; every text is escaped where it is inserted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from hedgerow.schema.visible import visible_lines


class Html(str):
    """Text that is already HTML."""

    __slots__ = ()


def picture(inner: str, box: str, label: str, **more: str) -> Html:
    """An SVG; `label` is what a screen reader says of it."""
    return tag("svg", Html(inner), **more, viewBox=box, role="img", aria_label=label)


def tag(name: str, *inside: str | Html, **attributes: str | int | float) -> Html:
    """An element; a plain text inside is escaped. `class_` is class, `aria_label` aria-label."""
    attribute_text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{_text(str(value), quote=True)}"'
        for key, value in attributes.items()
    )
    return Html(f"<{name}{attribute_text}>{join_html(inside)}</{name}>")


def join_html(parts: Iterable[str | Html]) -> Html:
    return Html("".join(p if isinstance(p, Html) else _text(p) for p in parts))


def _text(words: str, quote: bool = False) -> str:
    return escape(visible_lines(words), quote=quote)


def table(head: Sequence[str], rows: Iterable[Sequence[str | Html]], caption: str) -> Html:
    """A table; the first cell of a row is its header, and short cells are never wrapped."""
    top = tag("tr", *(tag("th", words, scope="col") for words in head))
    body = [tag("tr", tag("th", row[0], scope="row"), *map(_cell, row[1:])) for row in rows]
    inside = tag("table", tag("caption", caption), tag("thead", top), tag("tbody", join_html(body)))
    return tag("div", inside, class_="scroll", tabindex=0, role="region", aria_label=caption)


SHORT = 16


def _cell(words: str | Html) -> Html:
    is_short = not isinstance(words, Html) and len(words) <= SHORT
    return tag("td", words, class_="short") if is_short else tag("td", words)


def bullet_list(lines: Iterable[str | Html]) -> Html:
    return tag("ul", *(tag("li", line) for line in lines))
