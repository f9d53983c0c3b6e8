"""What fits of the studies give when the noise is held fixed, on rows that need no file.

`python -m studies.tests.answers` writes `answers.json`. A row of an earlier code may stand on a
page as today's only where that code gives the same answers: `studies/earlier_code.py`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

from hedgerow.privacy.noise import randomness
from hedgerow.values.schema import Categorical, Numeric, Schema
from studies import simulation

ANSWERS = Path(__file__).with_name("answers.json")
Answers = dict[str, dict[str, float]]


@contextmanager
def fixed_noise(first: int = 0) -> Iterator[None]:
    """The noise's and the folds' bytes in a fixed order. Others may ask the system for more."""
    calls = count(first)

    def known(n: int) -> bytes:
        return hashlib.shake_256(str(next(calls)).encode()).digest(n)

    system = SimpleNamespace(urandom=known)
    with mock.patch.object(randomness, "os", system), mock.patch.object(simulation, "os", system):
        yield


def of_gubler() -> Answers:
    """Every method of the study, at two depths; shares; permuted labels."""
    from studies.gubler import fits, mixture
    from studies.gubler.run import MIXTURE_METHODS

    def with_fixed_noise(
        cell: Callable[..., Mapping[str, float]], *values: Any
    ) -> dict[str, float]:
        mixture.mixture.cache_clear()
        with fixed_noise():
            return dict(cell(*values))

    found = {
        f"depth {depth}, epsilon {epsilon:g}, {method}": with_fixed_noise(
            fits.on_mixture, 1, 100, 5, 0.3, depth, epsilon, method
        )
        for method in MIXTURE_METHODS
        for depth, epsilon in ((4, 1.0), (7, 10.0))
    }
    found["shares"] = with_fixed_noise(fits.on_shares, 1, 0.3, 0.25, 5.0)
    found["permuted"] = with_fixed_noise(fits.on_permuted, 1, 100, 5, 5.0, True)
    return found


def of_topdown() -> Answers:
    """Every line of the study on a small table, with its tree in digits."""
    from studies.topdown.methods import METHODS, PRINTED, Sized

    rng = np.random.default_rng(0)
    X = np.stack([rng.random(600), rng.random(600), rng.integers(0, 3, 600)], axis=1)
    y = np.where(X[:, 0] + 0.3 * X[:, 1] + 0.2 * (X[:, 2] == 1) > 0.7, "yes", "no")
    columns = (Numeric("a", 0.0, 1.0), Numeric("b", 0.0, 1.0), Categorical("c", ("0", "1", "2")))
    schema = Schema(columns, classes=("no", "yes")).with_grid(bins=6)
    frame = {"a": X[:, 0], "b": X[:, 1], "c": X[:, 2].astype(int).astype(str)}
    found: Answers = {}
    for name, line in (METHODS | PRINTED).items():
        with fixed_noise():
            owner = np.arange(len(y)) % line.parties
            sites = simulation.Sites(pd.DataFrame(frame), y, owner, schema)
            recipe = line.recipe(Sized(schema, "decay", Fraction(1, 2), 1024))
            study = simulation.study_of(recipe, sites, 4.0, line.delta, placement=line.placement)
            trained, spent = simulation.train(recipe, study, sites, 0)
        said = simulation.probabilities(trained, pd.DataFrame(frame), schema)[:, 1]
        tree = trained.grown[0].tree
        found[name] = {
            "leaves": float(tree.n_leaves),
            "depth": float(tree.depth),
            "spent": float(spent),
            "what it says, weighed by row": round(float(said @ np.arange(len(said))), 6),
        }
    return found


MODULES = {"studies.gubler.fits": of_gubler, "studies.topdown.fits": of_topdown}

if __name__ == "__main__":
    made = {module: answers() for module, answers in MODULES.items()}
    ANSWERS.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
