"""The papers' methods as the audit takes estimators: each line of their table, by what is typed."""

from __future__ import annotations

from typing import Any

import hedgerow as hr
from hedgerow import papers
from hedgerow.papers.by_name import Maker
from hedgerow.papers.table import NamedMethod

CANARIES = 20
"""Fewer than usual: some methods put hundreds of queries, each to every canary alone."""


def methods() -> dict[str, Maker]:
    """By their line, such as papers.wang.local_rnm(schema, budget="even")."""
    return {f"papers.{method.call}": _maker(method) for method in papers.METHODS}


def _maker(method: NamedMethod) -> Maker:
    def make(schema: hr.Schema, **parameters: Any) -> Any:
        names = {"hr": hr, "schema": schema, "numbers": schema}
        made = eval(method.line, names)  # a line of our own table
        if made.placement not in (None, parameters["placement"]):
            raise hr.SpecError(f"{method.line} is what it is by placement={made.placement!r}.")
        return made.set_params(**parameters)

    make._regression = "(numbers" in method.call  # type: ignore[attr-defined]
    return make
