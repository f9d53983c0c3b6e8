"""Every method of the studies is one that the estimators accept: no parameter of it is idle."""

from __future__ import annotations

import pytest

from hedgerow.methods.liu import ExtraTreesClassifier
from hedgerow.methods.parameters import check_parameters
from hedgerow.schema.schema import Numeric, Schema
from studies.boosted import fits
from studies.boosted import run as boosted
from studies.datasets import Dataset
from studies.extra_trees import fits as extra_trees
from studies.ours import tasks

SCHEMA = Schema((Numeric("x", 0.0, 1.0), Numeric("y", 0.0, 1.0)), classes=("no", "yes"))
BOOSTED = sorted({str(cell["learner"]) for cell in boosted.cells(1)})
OURS = {**tasks.FOR_CLASSES, **tasks.ON_EVEN_GRIDS, **tasks.WITH_PIECES}


@pytest.mark.parametrize("learner", BOOSTED)
def test_the_cells_of_boosting_spell_parameters_that_are_used(learner):
    assert fits.estimator(SCHEMA, learner)._method(SCHEMA).n_estimators > 0


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
