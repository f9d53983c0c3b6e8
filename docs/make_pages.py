"""`make pages` writes every tracked text that follows from code and kept measurements.

`python -m docs.make_pages stub papers` writes only these; the names are those of `KEPT`. The
rest is made whenever the site is built and not tracked; its sources `tests/mutants/verdicts.csv`,
`docs/cards.toml`, `docs/checks.csv` and `benchmarks/results.json` are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
EVIDENCE = DOCS / "_build" / "evidence"
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

import hedgerow as hr  # noqa: E402
from benchmarks import network_page  # noqa: E402
from benchmarks import page as speed_page  # noqa: E402
from docs import make_cards, make_formats, make_methods, make_pictures, make_tables  # noqa: E402
from hedgerow.methods import consul, wang  # noqa: E402
from hedgerow.methods.registry import (  # noqa: E402
    PaperMethod,
    paper_departures,
    paper_table,
    paper_titles,
)
from mutants import page as mutants_page  # noqa: E402

# --------------------------------------------------------------------------------------------------
# Public names for type checkers.
STUB = Path(hr.__file__).with_suffix(".pyi")
STUB_HEAD = '''"""Public names for type checkers, made by `make pages`; a test compares."""

from types import SimpleNamespace

'''
MODULES = [("hedgerow.methods", "mlflow")]
"""Modules that are attributes of the package."""


def stub() -> str:
    homes = [(getattr(hr, name).__module__, name) for name in hr.__all__] + MODULES
    lines = [f"from {home} import {name} as {name}\n" for home, name in sorted(homes)]
    return STUB_HEAD + "".join(lines) + "\n__version__: str\npapers: SimpleNamespace\n"


# --------------------------------------------------------------------------------------------------
# The table of the papers' methods.
PAPERS = DOCS / "papers.md"
PAPERS_HEAD = "| paper | method | line of code | measured |"
DEPARTURES = """
## Departures

What differs from each paper. A repair that has a switch is off under the paper's names; one that
has none says why."""
THEOREMS = """
## Theorems that compute

The papers' utility theorems are functions, with the constants of their proofs. At realistic sizes:

| theorem | bounds | is | known without it | says |
|---|---|---|---|---|"""
BEGIN, END = "<!-- papers: made by docs/make_pages.py -->\n", "<!-- end of papers -->\n"


def with_papers(page: str) -> str:
    """The page with the present table between its two marks."""
    before, rest = page.split(BEGIN)
    return before + BEGIN + papers_table() + END + rest.split(END)[1]


def papers_table() -> str:
    rows = [f"| {m.title} | {m.name} | `{m.line}` | {_measured(m)} |" for m in paper_table()]
    lists = [f"\n### {title}\n\n{_departures(paper)}" for paper, title in paper_titles().items()]
    parts = [PAPERS_HEAD, "|---|---|---|---|", *rows, DEPARTURES, *lists, THEOREMS, *_theorems()]
    return "\n".join([*parts, ""])


def _theorems() -> Iterator[str]:
    """What each bound is, beside what holds anyway; a bound that is no better says nothing."""
    whole = wang.rows_needed(0.25, 0.25, 4, 8.0, 0.05, 100)
    one = wang.rows_for_split(0.05, 0.5, 0.05, 100)
    counts = wang.rows_for_split(0.05, 0.5, 0.05, 100, sites=5, noisy_counts=True)
    uneven, even = (consul.excess_squared_error(1000, t, 0.5, 0.5) for t in (100, 500))
    leaf, median = consul.accuracy_loss(50, 0.5, 0.7), consul.balance_probability(0.6, 0.02)
    for theorem, what, bound, known, is_better in (
        (
            "Wang 3, `rows_needed`",
            "rows for a tree of 4 splits, epsilon 8",
            whole,
            1e6,
            whole < 1e6,
        ),
        ("14, `rows_for_split`", "rows for one split, epsilon .5", one, 1e6, one < 1e6),
        ("15", "the same over 5 sites", counts, 1e6, counts < 1e6),
        (
            "Consul 1, `excess_squared_error`",
            "squared error lost, 1,000 rows, 100 on a side",
            uneven,
            250.0,
            uneven < 250,
        ),
        ("1", "the same, 500 on each side", even, 250.0, even < 250),
        (
            "2, `accuracy_loss`",
            "accuracy lost in leaves of 50 rows, epsilon .5",
            leaf,
            0.4,
            leaf < 0.4,
        ),
        (
            "3, `balance_probability`",
            "chance of an even median, epsilon .02",
            median,
            0.6,
            median > 0.6,
        ),
    ):
        says = "something" if is_better else "nothing"
        yield f"| {theorem} | {what} | {bound:.3g} | {known:.3g} | {says} |"


def _departures(paper: str) -> str:
    """The list that the paper's file has, which help and tests read too."""
    return (
        "\n".join(f"* {departure}" for departure in paper_departures()[paper]) or "None is listed."
    )


def _measured(method: PaperMethod) -> str:
    """Where a study of the paper is."""
    page = method.page.removeprefix("docs/")
    return f"[{method.paper}]({page})" if (DOCS / page).is_file() else "no study yet"


# --------------------------------------------------------------------------------------------------
# What is written, and where.
KEPT: dict[str, Callable[[], dict[Path, str]]] = {
    "stub": lambda: {STUB: stub()},
    "papers": lambda: {PAPERS: with_papers(PAPERS.read_text(encoding="utf-8"))},
    "formats": make_formats.files,
    "tables": make_tables.pages,
}
"""By name, the tracked files and their texts."""
SITE: dict[str, Callable[[], str]] = {
    "cards": make_cards.page,
    "checks": make_methods.checks_page,
    "constants": make_methods.constants_page,
    "faults": network_page.faults_page,
    "mutants": lambda: mutants_page.page(mutants_page.kept()),
    "network_speed": network_page.network_page,
    "parameters": make_methods.parameters_page,
}
"""By name, the text of a page of the site."""


def main(names: list[str]) -> None:
    for name in names or KEPT:
        for path, text in KEPT[name]().items():
            _write(path, text)


def build_site_pages() -> None:
    make_pictures.main()
    for name, made in SITE.items():
        _write(DOCS / f"{name}.md", made())
    _write(EVIDENCE / "speed" / "README.md", speed_page.page())
    speed_page.draw(EVIDENCE / "speed")


def _write(path: Path, text: str) -> None:
    """Left alone if it says the same: Sphinx reads what is newer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
