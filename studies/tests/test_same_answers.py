"""Today's code gives the answers that were kept, so rows of the code that gave them still stand."""

from __future__ import annotations

import json

import pytest

from studies.earlier_code import SAME_ANSWERS
from studies.gubler import fits, mixture
from studies.tests.answers import ANSWERS, MODULES, fixed_noise

TO_DO = (
    "fits of a study answer otherwise than they did. If that is meant, take the digests of this "
    "module out of studies/earlier_code.py, whose rows are then old, and run "
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
        mixture.mixture.cache_clear()
        with fixed_noise(first):
            return fits.on_mixture(1, 100, 5, 0.3, 4, 1.0, "saving")

    assert answer(0) == answer(0) == KEPT["studies.gubler.fits"]["depth 4, epsilon 1, saving"]
    assert answer(0) != answer(1)
