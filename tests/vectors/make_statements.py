"""Writes the pinned statements again: PYTHONPATH=src:tests:. python -m vectors.make_statements."""

from __future__ import annotations

from privacy.test_statement import PINNED, STUDIES, worded

if __name__ == "__main__":
    texts = [f"=== {name}\n{worded(the_study)}\n" for name, the_study in STUDIES.items()]
    PINNED.write_text("\n".join(texts), encoding="utf-8")
