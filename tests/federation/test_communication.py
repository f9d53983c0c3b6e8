"""docs/communication.md: what a run costs on the wire, by formula and by count."""

from __future__ import annotations

import io
import math

import numpy as np
import pytest
from rich.console import Console

from hedgerow.cli.demo import ALL_TOGETHER, BARE, EACH_ALONE, run_demo
from hedgerow.federation.wire import Sender
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.gubler import HistogramTree
from support.worlds import THREE, TWO, federation, holders, sample, study

HEADER, SIGNATURE, LENGTH, SITE = 136, 64, 2, 2
SEALED, SHARE, COMMITMENT = 48, 32, 32


def bytes_of_a_round(integers: int, bundle: int, spent: int, sites: int) -> int:
    """The formula of docs/communication.md, message by message; nobody is lost."""
    envelope = HEADER + SIGNATURE
    ask = envelope + 4 + bundle + 4 + LENGTH + SITE * sites
    masked = envelope + spent + 8 + 8 * integers + 4 + COMMITMENT
    masked += LENGTH + (SITE + SEALED) * (sites - 1)
    unmask = envelope + LENGTH + SITE * sites + LENGTH + LENGTH + (SITE + SEALED) * (sites - 1)
    shares = envelope + spent + LENGTH + (SITE + SHARE) * sites + LENGTH
    return ask + masked + unmask + shares


class Watched:
    """A federation that keeps what was asked of it, and what had been spent by then."""

    def __init__(self, inner):
        self.inner, self.sender, self.rounds = inner, Sender(), []

    def ask(self, queries):
        replies = self.inner.ask(queries)
        integers = sum(math.prod(q.shape) for q in queries)
        spent = self.inner.ledger.spent(self.inner.study.account)
        text = f"{spent.numerator}/{spent.denominator}"
        self.rounds.append((integers, self.sender.encode(queries).size, len(text)))
        return replies


def watched_run(recipe, schema, delta):
    X, y = sample(400, schema, seed=3)
    parts = holders(X, y, np.arange(400) % 5, 5, schema)
    inner = federation(study(schema, 5, delta=delta), parts)
    watched = Watched(inner)
    run(recipe.flow(schema, inner, np.random.default_rng(0)), watched)
    return watched, inner.record


@pytest.mark.parametrize("delta", ["0", "1e-6"])
@pytest.mark.parametrize("schema", [TWO, THREE], ids=["two classes", "three classes"])
def test_the_bytes_of_a_run_are_those_of_the_formula(schema, delta):
    watched, record = watched_run(HistogramTree(max_depth=3), schema, delta)
    expected = [bytes_of_a_round(*asked, sites=5) for asked in watched.rounds]
    assert [r.bytes_out + r.bytes_in for r in record.rounds] == expected
    assert record.bytes_per_party == sum(expected)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_a_tree_of_depth_d_costs_d_plus_one_rounds(depth):
    recipe = HistogramTree(max_depth=depth)
    _, record = watched_run(recipe, TWO, "0")
    assert len(record.rounds) <= depth + 1 == recipe.largest(TWO).rounds


@pytest.mark.slow
def test_the_demo_prints_the_bytes_of_its_run():
    console = Console(record=True, width=120, file=io.StringIO())
    result = run_demo(console, show_progress=False)
    text = console.export_text()
    assert f"{result.model.run_.bytes_per_party} bytes per hospital" in text
    assert result.auc[ALL_TOGETHER] > result.auc[EACH_ALONE] + 0.03
    assert result.auc[ALL_TOGETHER] > result.auc[BARE] - 0.05
