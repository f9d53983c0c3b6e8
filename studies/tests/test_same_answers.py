"""Today's code gives the answers that were kept, so rows of the code that gave them still stand."""

from __future__ import annotations

import json

import pytest

from hedgerow.methods.liu import ExtraTreesClassifier
from hedgerow.methods.parameters import check_parameters
from hedgerow.schema.schema import Numeric, Schema
from studies import boosted, boosted_fits, gubler_fits, ours_fits
from studies import extra_trees_fits as extra_trees
from studies.code_version import SAME_ANSWERS
from studies.datasets import Dataset
from studies.tests.answers import ANSWERS, MODULES, fixed_noise

TO_DO = (
    "fits of a study answer otherwise than they did. If that is meant, take the digests of this "
    "module out of studies/code_version.py, whose rows are then old, and run "
    "python -m studies.tests.answers."
)
KEPT = json.loads(ANSWERS.read_text(encoding="utf-8"))


@pytest.mark.parametrize("module", MODULES)
def test_with_the_noise_held_fixed_the_answers_are_those_that_were_kept(module):
    found = MODULES[module]()
    assert set(found) == set(KEPT[module])
    for name, answer in found.items():
        assert answer == pytest.approx(KEPT[module][name], rel=1e-9), TO_DO


def test_rows_are_taken_over_only_where_answers_are_kept():
    assert set(SAME_ANSWERS) <= set(KEPT) == set(MODULES)


def test_other_noise_gives_other_answers():
    """Twin: the cells would notice."""

    def answer(first):
        gubler_fits.mixture.cache_clear()
        with fixed_noise(first):
            return gubler_fits.on_mixture(1, 100, 5, 0.3, 4, 1.0, "saving")

    assert answer(0) == answer(0) == KEPT["studies.gubler_fits"]["depth 4, epsilon 1, saving"]
    assert answer(0) != answer(1)


# --------------------------------------------------------------------------------------------------
# Every method of the studies is one that the estimators accept: no parameter of it is idle.
SCHEMA = Schema((Numeric("x", 0.0, 1.0), Numeric("y", 0.0, 1.0)), classes=("no", "yes"))
BOOSTED = sorted({str(cell["learner"]) for cell in boosted.cells(1)})
OURS = {**ours_fits.FOR_CLASSES, **ours_fits.ON_EVEN_GRIDS, **ours_fits.WITH_PIECES}


@pytest.mark.parametrize("learner", BOOSTED)
def test_the_cells_of_boosting_spell_parameters_that_are_used(learner):
    assert boosted_fits.estimator(SCHEMA, learner)._method(SCHEMA).n_estimators > 0


@pytest.mark.parametrize(
    "method", [*extra_trees.LABELS, *extra_trees.NOISY, extra_trees.AS_PRINTED, "FET"]
)
def test_the_methods_of_extra_trees_use_all_they_name(method):
    given = Dataset("none", None, None, SCHEMA)
    model = extra_trees._federated(given, method, 4.0, 0, 2, 3)
    assert isinstance(model, ExtraTreesClassifier)
    assert check_parameters(model).n_estimators == 2


@pytest.mark.parametrize("name", OURS)
def test_the_methods_of_our_own_study_use_all_they_name(name):
    assert check_parameters(OURS[name](SCHEMA, 1.0, 0.0, random_state=0)).epsilon == 1
