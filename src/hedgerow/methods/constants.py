"""Tuned constants, each with its unit and the study that measured it."""

from __future__ import annotations

from typing import TypeVar

C = TypeVar("C")
CHOSEN = "chosen, not measured"


def constant(value: C, *, unit: str, evidence: str = CHOSEN) -> C:
    """Returns the value; the page of constants parses the calls.

    `evidence` is a note of the studies (`gates.md#0156`) or a page (`docs/design/budget.md`).
    """
    return value
