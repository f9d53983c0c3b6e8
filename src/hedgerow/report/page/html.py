"""Pieces of HTML: every text is escaped where it is put in, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, *inside: str | Html, **attributes: str | int | float) -> Html:
    """An element; a plain text inside is escaped. `class_` is class, `aria_label` aria-label."""
    named = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
    )
    return Html(f"<{name}{named}>{joined(inside)}</{name}>")


def joined(parts: Iterable[str | Html]) -> Html:
    return Html("".join(p if isinstance(p, Html) else escape(p, quote=False) for p in parts))


def table(head: Sequence[str], rows: Iterable[Sequence[str | Html]], caption: str) -> Html:
    """The first cell of a row is its head; numbers are set to the right by their column's name."""
    top = tag("tr", *(tag("th", words, scope="col") for words in head))
    body = [
        tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:]))
        for row in rows
    ]
    inside = tag("table", tag("caption", caption), tag("thead", top), tag("tbody", joined(body)))
    return tag("div", inside, class_="scroll", tabindex=0, role="region", aria_label=caption)


def bullet_list(lines: Iterable[str | Html]) -> Html:
    return tag("ul", *(tag("li", line) for line in lines))
