"""docs/evidence.json from the archives, and all that is made of it: all pages and figures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain

from studies.evidence.entries import Entry, store, stored
from studies.evidence.figures import FIGURES, draw
from studies.evidence.one_screen import PAGES
from studies.evidence.own import ours, reconstruction, robustness, speed, survival
from studies.evidence.papers import PAPERS
from studies.kept import ROOT

RESULTS = ROOT / "docs" / "results"

SECTIONS: dict[str, Callable[[], Iterable[Entry]]] = {
    **{paper.page: paper.entries for paper in PAPERS},
    "ours": ours,
    "robustness": robustness,
    "reconstruction": reconstruction,
    "speed": speed,
    "survival": survival,
}
"""By page, what computes its entries."""


def computed() -> Iterator[Entry]:
    return chain.from_iterable(section() for section in SECTIONS.values())


def write_all() -> int:
    """The numbers, then what reads nothing else; gives how many numbers there are."""
    store(computed())
    entries = stored()
    for name, page in PAGES.items():
        (RESULTS / f"{name}.md").write_text(page(entries), encoding="utf-8")
        draw(name, entries, RESULTS / "figures" / f"{name}.svg")
    assert set(PAGES) == set(FIGURES) == set(SECTIONS)
    return len(entries)
