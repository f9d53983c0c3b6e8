"""What fits of the studies give when the noise is held fixed, on rows that need no file.

`python -m studies.tests.answers` writes `answers.json`. A row of an earlier code may stand on a
page as today's only where that code gives the same answers: `studies/code_version.py`.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hedgerow.schema.schema import Categorical, Numeric, Schema, Target
from studies import datasets, simulation
from studies.simulation import fixed_noise

ANSWERS = Path(__file__).with_name("answers.json")
Answers = dict[str, dict[str, float]]


def of_gubler() -> Answers:
    """Every method of the study, at two depths; shares; permuted labels."""
    from studies import gubler_fits as fits
    from studies import gubler_fits as mixture
    from studies.gubler import MIXTURE_METHODS

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


ROWS = 400
CLASSES = ("no", "yes")


def small_table() -> tuple[pd.DataFrame, NDArray[Any], Schema]:
    """Two numbers and a category, and what they say of a class."""
    rng = np.random.default_rng(0)
    a, b, c = rng.random(ROWS), rng.random(ROWS), rng.integers(0, 3, ROWS).astype(str)
    y = np.where(a + 0.3 * b + 0.2 * (c == "1") > 0.7, "yes", "no")
    columns = (Numeric("a", 0.0, 1.0), Numeric("b", 0.0, 1.0), Categorical("c", ("0", "1", "2")))
    return pd.DataFrame({"a": a, "b": b, "c": c}), y, Schema(columns, classes=CLASSES)


def digits(said: NDArray[np.float64]) -> float:
    """All probabilities in one number, which changes if one of them does."""
    return round(float(said[:, 1] @ np.arange(len(said))), 6)


def of_topdown() -> Answers:
    """Every line of the study on a small table."""
    from studies.topdown_fits import METHODS, PRINTED, Sized

    X, y, plain = small_table()
    schema, found = plain.with_grid(bins=6), Answers()
    for name, line in (METHODS | PRINTED).items():
        with fixed_noise():
            sites = simulation.Sites(X, y, np.arange(len(y)) % line.n_sites, schema)
            learner = line.learner(Sized(schema, "decay", Fraction(1, 2), 1024))
            study = simulation.study_of(learner, sites, 4.0, line.delta, dp_model=line.dp_model)
            trained, spent = simulation.train(learner, study, sites, 0)
        said = simulation.probabilities(trained, X, schema)
        leaves = float(trained.leaf_statistics[0].tree.n_leaves)
        found[name] = {"leaves": leaves, "spent": float(spent), "said": digits(said)}
    return found


def of_boosted() -> Answers:
    """A recipe of each kind of the study, with few trees; the last from three sites; LightGBM."""
    from studies import boosted_fits as fits
    from studies import boosted_fits as learners
    from studies.boosted_fits import estimator, guarantee

    X, y, schema = small_table()
    kinds = (
        learners.components("totally_random", "newton", 5),
        learners.components("totally_random", "newton", 5, leaves=learners.SHRUNK),
        learners.components("histogram", "gradient", 3),
        learners.components("histogram", "newton", 3),
        learners.components("histogram", "newton", 3, leaves=learners.SHRUNK),
        learners.components("partially_random", "newton", 3),
        learners.components("partially_random", "averaging", 3),
        learners.DEFAULT,
        learners.placed("iterative_hessian", 6, rounds=2),
        learners.placed("quantile", 5),
        learners.batched(2, trees=4),
        *(learners.named(name, 4) for name in ("DP-EBM", "DP-RF", "DP-TR Batch IH EBM p=0.25")),
    )
    found = Answers()
    for learner, n_sites in [*((kind, 1) for kind in kinds), (kinds[-1], 3)]:
        given = guarantee(4.0, n_sites, len(y)) | {"delta": 1e-3, "random_state": 0}
        with fixed_noise(), _no_advice():
            model = estimator(schema, learner, **given)
            model.fit(X, y, site=None if n_sites == 1 else np.arange(len(y)) % n_sites)
        found[f"{learner}, {n_sites}"] = {"said": digits(model.predict_proba(X))}
    with _small(fits, "loaded", _dataset), _no_advice():
        found["LightGBM"] = fits.fit_lightgbm("small", 0)
    return found


def of_diprime() -> Answers:
    """Every private method of the study, with and without folds where both are drawn."""
    from hedgerow.methods.blocks.public_grids import fine_schema
    from studies.diprime_fits import ALL_ROWS, METHOD_EXAMPLES, PARTIES, Halves, Setting, train

    X, y, plain = small_table()
    schema, found = fine_schema(plain), Answers()
    setting = Setting("banknote", 8.0, 2, 3, Fraction(1, 2), 2)
    makes = [(name, name, make) for name, make in METHOD_EXAMPLES.items()]
    makes += [(f"{name}, all rows", name, make) for name, make in ALL_ROWS.items()]
    for words, name, make in makes:
        with fixed_noise():
            one, many = np.zeros(len(y), np.int64), np.arange(len(y)) % PARTIES
            pooled, divided = (simulation.Sites(X, y, owner, schema) for owner in (one, many))
            rows = Halves(schema, pooled, divided, X, y, X, y)
            trained = train(name, make(setting, rows), setting, rows, 0)
        found[words] = {"said": digits(simulation.probabilities(trained, X, schema))}
    return found


def of_extra_trees() -> Answers:
    """The pooled trees, and every mechanism and placement of the study; two sites, and three."""
    from studies import extra_trees_fits as fits

    found = Answers()
    methods = ("ET", "FET", fits.WHOLE, *fits.LABELS, *fits.NOISY, fits.AS_PRINTED)
    cells = [(method, 0) for method in methods] + [("response", 3), ("shares", 3)]
    for method, clients in cells:
        with _small(fits, "_loaded", _dataset), fixed_noise(), _no_advice():
            answer = fits.work("small", method, 4.0, 0, clients, 3, 3)
        found[f"{method}, {clients}"] = _without(answer, "cpu_seconds")
    return found


def of_ours() -> Answers:
    """Every method of the study with one site; our own of three sites, by the other noise."""
    from studies import ours_fits as tasks

    found = Answers()
    for_classes = (*tasks.FOR_CLASSES, *tasks.WITH_PIECES)
    grids = [(tasks.fit_classes, small_task, method, "gaussian", 1) for method in for_classes]
    for method in tasks.FOR_NUMBERS:
        grids.append((tasks.fit_classes, small_task, method, "laplace", 3))
        grids.append((tasks.fit_numbers, small_numbers, method, "gaussian", 1))
        grids.append((tasks.fit_numbers, small_numbers, method, "laplace", 3))
    for fit, given, method, noise, n_sites in grids:
        with _small(tasks, "task", given), fixed_noise(), _no_advice():
            answer = fit(0, "small", method, noise, n_sites, 4.0)
        found[f"{fit.__name__}, {method}, {noise}, {n_sites}"] = answer
    with _small(tasks, "task", small_task):
        for method in ("CART", "random forest", "HistGB"):
            found[f"{method}, no privacy"] = tasks.fit_classes(0, "small", method, "none", 1, 0.0)
    return found


def of_robust() -> Answers:
    """Every harm but the slowest to one tree; the other two estimators unharmed."""
    from studies import robust_fits as fits
    from studies.robust import LAST
    from studies.robust_fits import ANY, OF_NUMBERS, OF_TWO_CLASSES

    found = Answers()
    harms = [harm for harm in (*ANY, *OF_TWO_CLASSES) if harm != LAST]
    cells = [("adult", small_task, harm, "tree") for harm in harms]
    cells += [("gas_turbine", small_numbers, harm, "tree") for harm in OF_NUMBERS]
    cells += [("adult", small_task, "clean", method) for method in ("forest", "boosted")]
    for name, given, harm, method in cells:
        with _small(fits, "task", given), fixed_noise(), _no_advice():
            found[f"{name}, {harm}, {method}"] = fits.fit_harmed(0, name, harm, method)
    return found


def of_learned() -> Answers:
    """A task of each goal by every method, with the constants as they are."""
    from studies import learned_fits as fits

    goals, methods = ("classes", "numbers"), ("tree", "forest", "boosted")
    cells = [(goal, method) for goal in goals for method in methods]
    with _no_advice():
        return {
            f"{goal}, {method}": fits.fit_made(0, goal, method, 1.0, "") for goal, method in cells
        }


def _dataset(name: str) -> datasets.Dataset:
    X, y, schema = small_table()
    return datasets.Dataset(name, X, y, schema)


def small_task(name: str) -> Any:
    from studies.ours_fits import Task

    return Task(*small_table())


def small_numbers(name: str) -> Any:
    from studies.ours_fits import Task

    X, _, schema = small_table()
    target = np.asarray((X["a"] + X["b"]) / 2.0)
    return Task(X, target, Schema(schema.features, target=Target(0.0, 1.0)))


def _small(module: Any, name: str, given: Callable[[str], Any]) -> Any:
    """The module's rows are the small ones."""
    return mock.patch.object(module, name, given)


@contextmanager
def _no_advice() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _without(answer: Mapping[str, float], name: str) -> dict[str, float]:
    """Seconds are no answer."""
    return {key: float(value) for key, value in answer.items() if key != name}


MODULES = {
    "studies.gubler_fits": of_gubler,
    "studies.topdown_fits": of_topdown,
    "studies.boosted_fits": of_boosted,
    "studies.diprime_fits": of_diprime,
    "studies.extra_trees_fits": of_extra_trees,
    "studies.ours_fits": of_ours,
    "studies.robust_fits": of_robust,
    "studies.learned_fits": of_learned,
}

if __name__ == "__main__":
    made = {module: answers() for module, answers in MODULES.items()}
    ANSWERS.write_text(json.dumps(made, indent=1) + "\n", encoding="utf-8")
