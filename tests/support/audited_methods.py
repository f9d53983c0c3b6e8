"""The papers' methods as the audit takes estimators: each line of their table, by what is typed.

And what each paper's names turn off; and networked runs as an audit sees them.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import hedgerow as hr
from hedgerow.audit.choices import chosen_in
from hedgerow.audit.measuring import AuditVerdict, Watched, _released, judge_fits
from hedgerow.audit.running import AUDIT_FEATURES
from hedgerow.data.rows import Rows
from hedgerow.deployment.run import run_study
from hedgerow.deployment.verify import replay_run
from hedgerow.federation import exchange
from hedgerow.federation.server import Server
from hedgerow.methods.registry import PaperMethod
from support.worlds import World

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
SWITCHLESS = {"consul": 1, "gubler": 2, "jagannathan": 2, "liu": 2, "maddock": 6, "wang": 1}
"""Departures that are neither turned off by the paper's names nor unsound: never one more."""
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


def audit_network(folder: Path, **terms: Any) -> AuditVerdict:
    """A run over sites with stores and signed, masked messages; then everybody's secrets are read.

    All records of the first site are canaries that were in: there are no coins to guess.
    """
    clock = partial(next, iter(np.arange(0.0, 1e6, 0.2)))
    retry = partial(exchange.RetryPolicy, clock=clock, wait=lambda seconds: clock())
    folder.mkdir(exist_ok=True)
    world = World(folder, **terms)
    site_rows = [world.rows(k) for k in range(world.study.n_sites)]  # secrets end with the run
    try:
        with patch("hedgerow.deployment.run.RetryPolicy", retry):
            run_study(world.folder, world)
        return judge_fits([_watched(world, site_rows)])
    finally:
        world.close()


def _watched(world: World, site_rows: list[Rows]) -> Watched:
    pairs, plain = list[tuple[Any, Any]](), Server.ask

    def ask(server: Server, queries: Any) -> Any:
        replies = plain(server, queries)
        pairs.extend(zip(queries, replies, strict=True))
        return replies

    with patch.object(Server, "ask", ask):
        replay_run(world.folder.model_file)
    alone = [site_rows[0].block(slice(i, i + 1)) for i in range(site_rows[0].n)]
    is_in = np.ones(len(alone), bool)
    study = replace(world.study, sites=(), names=(), coordinator=b"")  # as one process asks itself
    chosen = chosen_in(study, pairs, site_rows, alone, is_in)
    return Watched(study, tuple(_released(study, pairs, site_rows, alone)), is_in, tuple(chosen))
