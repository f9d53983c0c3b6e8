"""Studies over a sparse graph of masks: named in the study, paid out of delta, really run."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from hedgerow.errors import BudgetExceeded, ParameterError
from hedgerow.federation.client import refusal_code
from hedgerow.privacy.accounting import conversions
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.privacy.queries import ClassCounts, SumQuery, Whole
from hedgerow.privacy.statement.statement import statement
from hedgerow.privacy.study import Study
from hedgerow.schema.regions import EVERYONE
from hedgerow.secagg.codes import Code
from hedgerow.secagg.parameters import Sparse
from support.worlds import (
    TWO,
    federation,
    remembered,  # noqa: F401
    sample,
    site_rows,
    study,
)

SITES = 201
COUNTS = SumQuery(EVERYONE, ClassCounts(2), Whole(), Fraction(1, 10))


def sparse(delta="1e-6", graph=Sparse(rounds=2), **changes):  # noqa: B008
    many = replace(study(TWO, SITES, delta="1e-6"), colluders=5, threshold=SITES - 11)
    return replace(many, delta=Fraction(delta), graph=graph, **changes)


@pytest.fixture
def opened(remembered):  # noqa: F811
    X, y = sample(300, TWO)
    return federation(sparse(), site_rows(X, y, np.arange(300) % SITES, SITES, TWO)), y


def test_a_study_on_a_sparse_graph_runs_for_the_rounds_it_paid_for(opened):
    fed, y = opened
    degree = fed.study.to_dict()["graph"]["degree"]
    joined = [end.site._membership.site_session for end in fed.sites.clients]
    assert degree == 14
    assert {len(one.roots) for one in joined} == {degree}
    for _ in range(2):
        (answer,) = fed.ask([COUNTS])
        truth = np.array([(y == "no").sum(), (y == "yes").sum()])
        assert np.abs(answer.values.ravel() - truth).max() < 8 * np.sqrt(answer.variance)
    with pytest.raises(BudgetExceeded, match="more than 2 rounds"):
        fed.ask([COUNTS])
    encoded = fed.sites.sender.encode([COUNTS])
    messages = fed.sites.coordinator.start(encoded.questions, 2).requests()
    # and sites do not rely on the coordinator's count
    assert refusal_code(fed.sites.clients[0].handle(messages[0])) == Code.BUDGET_REFUSED.value
    said = statement(fed.study, fed.sites.spent(), fed.queries, is_simulation=True)
    assert "1.9e-12 of delta" in str(said)


def test_what_a_sparse_graph_may_expose_is_a_part_of_the_promised_delta():
    whole, part = sparse(graph=None), sparse(delta="2e-9", graph=Sparse(rounds=1000))
    assert whole.graph_delta == 0
    assert whole.noise_delta == whole.delta
    exposed = conversions.delta_of_sparse_rounds(1000, 40)
    assert exposed == Fraction(1000, 2**40)
    assert part.graph_delta == exposed
    assert part.noise_delta + part.graph_delta == part.delta
    budget = conversions.whole_budget(part.measure, part.epsilon, part.delta - exposed)
    assert part.total == budget < replace(part, graph=None).total
    said = statement(part, part.total, [], is_simulation=True)
    assert said.delta == pytest.approx(2e-9)
    assert said.delta >= part.delta
    assert said.spent_epsilon <= said.epsilon == 1.0


def test_noise_sized_for_the_whole_delta_would_be_seen():
    """Twin: a budget that forgets the graph keeps less than the guarantee with what is left."""
    part = sparse(delta="2e-9", graph=Sparse(rounds=1000))
    forgetful = replace(part, graph=None).total
    assert conversions.epsilon_of(part.measure, forgetful, part.noise_delta) > 1.0


def test_only_divided_noise_needs_the_masks():
    silo = sparse(dp_model=DPModel.PER_SITE)
    assert silo.graph_delta == 0
    assert sparse(delta="0", dp_model=DPModel.LABEL).graph_delta == 0


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"delta": "0"}, "complete graph"),
        ({"delta": "1e-12", "graph": Sparse(rounds=2)}, "fewer rounds"),
        ({"n_sites": 150, "threshold": 140}, "saves nothing"),
        ({"colluders": 100, "threshold": 101}, "use the complete graph"),
    ],
)
def test_a_graph_that_breaks_the_promise_or_does_not_exist_is_refused(changes, why):
    with pytest.raises(ParameterError, match=why):
        sparse(**changes)


def test_the_graph_is_in_the_hash_with_its_degree_and_comes_back():
    one, other = sparse(), sparse(graph=Sparse(rounds=3))
    assert len({one.hash, other.hash, sparse(graph=None).hash}) == 3
    sent = json.loads(json.dumps(one.to_dict()))
    assert Study.from_dict(sent) == one
    sent["graph"]["degree"] = 16
    with pytest.raises(ParameterError, match="changed by hand"):
        Study.from_dict(sent)
