"""`python docs/make_papers.py` writes the table of the papers' methods into README.md."""

from __future__ import annotations

from pathlib import Path

from hedgerow.methods.registry import paper_table

PAGE = Path(__file__).parents[1] / "README.md"
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
    rows = [
        f"| {m.title} | {m.name} | `{m.line}` | [{Path(m.page).stem}]({m.page}) |"
        for m in paper_table()
    ]
    return "\n".join([HEAD, "|---|---|---|---|", *rows, ""])


if __name__ == "__main__":
    main()
