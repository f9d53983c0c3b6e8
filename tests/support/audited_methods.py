"""The papers' methods as the audit takes estimators: each line of their table, by what is typed.

And what each paper's names turn off.
"""

from __future__ import annotations

from typing import Any

import hedgerow as hr
from hedgerow.audit.running import AUDIT_FEATURES
from hedgerow.methods.registry import PaperMethod

SWITCHES = {
    "consul": {"shrinkage", "folds"},
    "gubler": {"leaf_budget", "consistency", "known_zeros", "shrinkage", "screening", "accounting"},
    "jagannathan": {"shrinkage"},
    "liu": {"consistency", "shrinkage"},
    "maddock": {"leaf_values", "norms", "consistency", "noise_gate", "hessian_cost"},
    "wang": {"weight_query", "tables", "ask_all", "consistency", "leaf_budget", "mechanism"}
    | {"index_fraction", "shrinkage", "screening"},
}
"""What can be turned off, by paper; a repair that is dropped from a list is missed here."""
CANARIES = 20
"""Fewer than usual: some methods put hundreds of queries, each to every canary alone."""


class AuditedMethod:
    """A line of the table as the audit takes estimators, where it adds its own noise."""

    def __init__(self, method: PaperMethod) -> None:
        self._line = method.line
        self._regression = "(numbers" in method.call
        schema = hr.Schema(
            AUDIT_FEATURES,
            classes=None if self._regression else ("no", "yes"),
            target=(0.0, 1.0) if self._regression else None,
        )
        self.dp_model: str = self._made(schema).dp_model or "central"

    def _made(self, schema: hr.Schema) -> Any:
        return eval(self._line, {"hr": hr, "schema": schema, "numbers": schema})

    def __call__(self, schema: hr.Schema, **parameters: Any) -> Any:
        return self._made(schema).set_params(**parameters)


def methods() -> dict[str, AuditedMethod]:
    """By their line, such as papers.wang.local_rnm(schema, budget="even")."""
    return {f"papers.{method.call}": AuditedMethod(method) for method in hr.papers.METHODS}
