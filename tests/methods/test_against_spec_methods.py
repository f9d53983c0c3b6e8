"""Algorithm 5 against `spec/`: the study it means, the question at its root, the split it takes."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from hedgerow.federation.wire import Sender
from hedgerow.methods import registry
from hedgerow.methods.blocks import histograms
from hedgerow.methods.blocks.scores import gini
from hedgerow.methods.blocks.tables import Tables
from hedgerow.methods.training import agree
from hedgerow.privacy.queries import Answer, Binning, ClassCounts, SumQuery
from hedgerow.privacy.statement.statement import statement
from hedgerow.privacy.study import Study
from hedgerow.schema.candidates import Grids
from hedgerow.schema.schema import Schema
from spec import make_vectors
from spec import one_round as spec
from support.spec_replay import load

papers = registry.papers()

HISTOGRAMS = ("three_sites", "one_lost")
PLAIN = Schema({name: (low, high) for name, low, high in make_vectors.COLUMNS}, ["no", "yes"])


def algorithm_5(stored):
    """The preset as a study of its sites would have it, and what they agree on."""
    told = stored["study"]
    estimator = papers.gubler.algorithm_5(
        PLAIN,
        epsilon=1.0,
        colluders=told["colluders"],
        threshold=told["threshold"],
        random_state=0,
    )
    terms = {
        "name": told["name"],
        "retry_budget": Fraction(told["retry_budget"]),
        "sites": tuple(bytes.fromhex(key) for key in told["sites"]),
        "coordinator": bytes.fromhex(told["coordinator"]),
    }
    study, method = agree(estimator, PLAIN, told["n_sites"], terms)
    return replace(study, public_seed=told["public_seed"]), method


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_algorithm_5_means_the_study_of_the_spec(name):
    stored = load(name)
    study, _ = algorithm_5(stored)
    assert study.to_dict() == stored["study"]
    assert study.hash.hex() == stored["study_hash"]


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_the_learner_asks_and_splits_at_the_root_as_the_spec_does(name):
    """The flow of the method itself: its first question, and the region of its second."""
    stored = load(name)
    (study, method), told = algorithm_5(stored), stored["rounds"][0]
    flow = method.flow(study.schema, None, np.random.default_rng(0))
    (query,) = next(flow)
    assert Sender().encode([query]).questions.hex() == told["questions"]
    values = np.array(told["sum"], np.float64).reshape(query.shape)
    below = flow.send([Answer(values, study.variance(query, len(told["members"])))])
    split = below[0].region[0].test
    assert (split.feature, split.left) == tuple(told["split"])


def test_splits_of_noisy_tables_are_the_spec_s():
    """Without agreement on totals, as the report has it; also where the answer is no split."""
    study = Study.from_dict(load("three_sites")["study"])
    theirs = make_vectors.begin("any", [[], [], []]).world.study
    grids = Grids(study.schema, Binning.of_cells(study.schema))
    rules = histograms.HistogramRules(
        grids, ClassCounts(2), gini, 10.0, consistency=False, known_zeros=False
    )
    rng, found = np.random.default_rng(5), list[object]()
    for scale in (1, 3, 30, 300):
        for shift in (-1, 0, 2):
            for _ in range(8):
                values = np.rint(rng.laplace(shift, scale, (2, 11, 2)))
                tables = Tables((0, 1), values, 1.0, (11, 11))
                best, expected = rules.best(tables), None
                if not rules.must_stop(tables) and np.isfinite(best.impurity):
                    sets = grids.left_sets[best.feature][best.candidate]
                    split = grids.split(best.feature, sets)
                    expected = (split.feature, split.left)
                total = [int(value) for value in values.reshape(-1)]
                assert spec.best_split(theirs, total) == expected
                found.append(expected)
    assert None in found
    assert len(set(found)) > 20


@pytest.mark.parametrize("name", HISTOGRAMS)
def test_the_statement_says_what_the_spec_says(name):
    stored = load(name)
    study, _ = algorithm_5(stored)
    spent = Fraction(stored["cost"])
    ours = statement(study, spent, [], is_simulation=False)
    numbers = f"epsilon {ours.epsilon:g}, delta {ours.delta:g}"
    assert stored["statement"].startswith(numbers)
    assert f"{spent} is spent" in stored["statement"]
    assert ours.spent_fraction == float(spent / study.epsilon)
    against = f"the coordinator and any {study.colluders} of {ours.n_sites} sites"
    assert stored["statement"].endswith(against)
    assert (ours.unit, ours.honest_shares) == ("one record", study.threshold - study.colluders)


def test_a_query_of_the_spec_is_a_histogram_of_all_columns():
    """A control: a learner with other settings asks another question."""
    stored = load("three_sites")
    study, method = algorithm_5(stored)
    flow = replace(method, max_depth=4).flow(study.schema, None, np.random.default_rng(0))
    (query,) = next(flow)
    assert isinstance(query, SumQuery)
    assert Sender().encode([query]).questions.hex() != stored["rounds"][0]["questions"]
