"""`python docs/make_papers.py` writes the table of the papers' methods into papers.md."""

from __future__ import annotations

from pathlib import Path

from hedgerow.methods.registry import (
    PaperMethod,
    paper_departures,
    paper_table,
    paper_titles,
)

PAGE = Path(__file__).parent / "papers.md"
HEAD = "| paper | method | line of code | measured |"
DEPARTURES = """
## Departures

What differs from each paper. A repair that has a switch is off under the paper's names; one that
has none says why."""
BEGIN, END = "<!-- papers: made by docs/make_papers.py -->\n", "<!-- end of papers -->\n"


def main() -> None:
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def with_table(page: str) -> str:
    """The page with the present table between its two marks."""
    before, rest = page.split(BEGIN)
    _, after = rest.split(END)
    return before + BEGIN + table() + END + after


def table() -> str:
    rows = [f"| {m.title} | {m.name} | `{m.line}` | {_measured(m)} |" for m in paper_table()]
    lists = [f"\n### {title}\n\n{_departures(paper)}" for paper, title in paper_titles().items()]
    return "\n".join([HEAD, "|---|---|---|---|", *rows, DEPARTURES, *lists, ""])


def _departures(paper: str) -> str:
    """The list that the paper's file has, which help and tests read too."""
    return (
        "\n".join(f"* {departure}" for departure in paper_departures()[paper]) or "None is listed."
    )


def _measured(method: PaperMethod) -> str:
    """Where a study of the paper is."""
    page = method.page.removeprefix("docs/")
    return f"[{method.paper}]({page})" if (PAGE.parent / page).is_file() else "no study yet"


if __name__ == "__main__":
    main()
