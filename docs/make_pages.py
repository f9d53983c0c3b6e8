"""Pages that are made whenever the site is built, from declarations and kept measurements.

Nothing of them is tracked: `tests/mutants/verdicts.csv`, `docs/cards.toml`, `docs/checks.csv` and
`benchmarks/results.json` are.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
EVIDENCE = DOCS / "_build" / "evidence"
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

from benchmarks import network_page  # noqa: E402
from benchmarks import page as speed_page  # noqa: E402
from docs import (  # noqa: E402
    make_cards,
    make_checks,
    make_methods,
    make_pictures,
)
from mutants import page as mutants_page  # noqa: E402

PAGES: dict[str, Callable[[], str]] = {
    "cards": make_cards.page,
    "checks": make_checks.page,
    "constants": make_methods.constants_page,
    "faults": network_page.faults_page,
    "mutants": lambda: mutants_page.page(mutants_page.kept()),
    "network_speed": network_page.network_page,
    "parameters": make_methods.parameters_page,
}
"""By name, its text."""


def main() -> None:
    make_pictures.main()
    for name, made in PAGES.items():
        _write(DOCS / f"{name}.md", made())
    _write(EVIDENCE / "speed" / "README.md", speed_page.page())
    speed_page.draw(EVIDENCE / "speed")


def _write(path: Path, text: str) -> None:
    """Left alone if it says the same: Sphinx reads what is newer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
