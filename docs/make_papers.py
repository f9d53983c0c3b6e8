"""`python docs/make_papers.py` writes the table of the papers' methods into papers.md."""

from __future__ import annotations

from pathlib import Path

from hedgerow.methods.registry import PaperMethod, paper_table

PAGE = Path(__file__).parent / "papers.md"
HEAD = "| paper | method | line of code | measured |"
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
    return "\n".join([HEAD, "|---|---|---|---|", *rows, ""])


def _measured(method: PaperMethod) -> str:
    """Where a study of the paper is."""
    page = method.page.removeprefix("docs/")
    return f"[{method.paper}]({page})" if (PAGE.parent / page).is_file() else "no study yet"


if __name__ == "__main__":
    main()
