"""The constants that read noisy answers, where each stands, and a way to fit with others.

A setting is a text such as `tree.ROOT_FRACTION x 1.5; leaning.PSEUDO_ROWS x 2`; the empty one is
the methods as they are. Shares move by a half, since shares must add up; all others are doubled and
halved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache, partial
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.datasets import make_classification

from hedgerow.methods import boosting_classes, boosting_numbers, forest, tree
from hedgerow.methods.blocks import (
    curves,
    fallback,
    leaves,
    private_bins,
    random_trees,
    target,
)
from hedgerow.schema.schema import Categorical, Feature, Numeric, Schema, Target
from studies.measures import of_classes
from studies.ours_fits import DELTA, FOR_CLASSES, FOR_NUMBERS, Task, task
from studies.simulation import fixed_noise

CLASSES, NUMBERS = "classes", "numbers"
TWICE = (Fraction(1, 2), Fraction(2))
SHARE = (Fraction(2, 3), Fraction(3, 2))
AND = "; "


@dataclass(frozen=True)
class Constant:
    """A name in a module; or, with a `field`, that field of what the name makes.

    The same constant may have been imported by its name: then every module has to change.
    """

    group: str
    """By which kept rows call it."""
    module: ModuleType
    name: str
    factors: tuple[Fraction, ...] = TWICE
    field: str = ""
    also: tuple[ModuleType, ...] = ()

    @property
    def label(self) -> str:
        parts = (self.group, self.name, self.field)
        return ".".join(part for part in parts if part)

    def settings(self) -> list[str]:
        return [f"{self.label} x {float(factor):.4g}" for factor in self.factors]

    def times(self, factor: Fraction) -> Any:
        present = getattr(self.module, self.name)
        if not self.field:
            return _times(present, factor)
        if isinstance(present, type):
            default = present.__dataclass_fields__[self.field].default  # type: ignore[attr-defined]
            return partial(present, **{self.field: _times(default, factor)})
        return _changed_after(present, self.field.split("."), factor)


def _times(value: Any, factor: Fraction) -> Any:
    if isinstance(value, tuple):
        return tuple(_times(part, factor) for part in value)
    return value * (factor if isinstance(value, Fraction) else float(factor))


def _changed_after(make: Callable[..., Any], path: list[str], factor: Fraction) -> Any:
    """Makes what `make` does, with one field multiplied."""

    def made(*given: Any) -> Any:
        return _with_field(make(*given), path, factor)

    return made


def _with_field(whole: Any, path: list[str], factor: Fraction) -> Any:
    first, *inner = path
    part = getattr(whole, first)
    new = _with_field(part, inner, factor) if inner else _times(part, factor)
    return replace(whole, **{first: new})


COUNTING = (
    Constant("counting", target, "COUNT_IS_SEEN", also=(fallback,)),
    Constant("counting", target, "AGAIN_FRACTION", SHARE),
)
TARGET = (
    Constant("target_range", target, "TARGET_FRACTION", SHARE, also=(target,)),
    Constant("target_range", target, "TARGET_STANDS_OUT"),
    Constant("goal", target, "TARGET_AGAIN", SHARE),
    Constant("plain", fallback, "FALLBACK_BELOW_FOR_NUMBERS"),
)
TREES_OF_CLASSES = (
    Constant("leaning", leaves, "PSEUDO_ROWS"),
    Constant("plain", fallback, "FALLBACK_BELOW"),
)
ONE_TREE = (
    Constant("tree", tree, "shrinkage_of", field="per_noise"),
    Constant("tree", tree, "ROOT_FRACTION", SHARE),
    Constant("tree", tree, "tree_constants", SHARE, "leaf_fraction"),
    Constant("tree", tree, "tree_constants", field="pieces.penalty"),
    Constant("tree", tree, "tree_constants", field="pieces.deviations"),
    Constant("tree", tree, "LEAST_ROWS"),
)
ONE_FOREST = (
    Constant("forest", forest, "forest_constants", SHARE, "root_fraction"),
    Constant("forest", forest, "WEAK_PENALTY"),
    Constant("forest", forest, "NOISE_PENALTY"),
    Constant("forest", forest, "SCREEN_FROM"),
    Constant("forest", forest, "WEIGHT_FLOOR"),
)
OF_METHODS: dict[tuple[str, str], tuple[Constant, ...]] = {
    ("boosted", CLASSES): (
        *COUNTING,
        Constant("boost_classes", random_trees, "RANDOM_TREES_BELOW"),
        Constant("by_count", private_bins, "BINS_FRACTION", SHARE),
        Constant("by_count", private_bins, "DEVIATIONS_A_BIN"),
        Constant("by_count", private_bins, "COUNT_STANDS_OUT"),
        Constant("smoothing", curves, "ROUGH"),
        Constant("smoothing", curves, "PULL"),
        Constant("smoothing", curves, "LEAST_CLASS"),
        Constant("stacking", curves, "LARGEST_START"),
        Constant("stacking", curves, "STEP_DEVIATION"),
        Constant("boost_classes", boosting_classes, "STACK_PART", SHARE),
        Constant("boost_classes", boosting_classes, "MOST_FOR_TREES", SHARE),
        Constant("boost_classes", boosting_classes, "TREE_GATE"),
        Constant("boost_classes", boosting_classes, "TREE_GATE_OF_MANY"),
        Constant("boost_classes", boosting_classes, "MANY_DEVIATION"),
        Constant("boost_classes", boosting_classes, "Wiener", field="deviation"),
    ),
    ("forest", CLASSES): (
        *COUNTING,
        *TREES_OF_CLASSES,
        *ONE_FOREST,
        Constant("forest", random_trees, "RANDOM_TREES_BELOW"),
        Constant("forest", forest, "forest_constants", SHARE, "sharpness"),
        Constant("leaning", leaves, "CLASSES_PER_NOISE"),
        Constant("forest", forest, "CALIBRATION_FRACTION", SHARE),
        Constant("calibration", forest, "EXPECTED_ERROR"),
    ),
    ("tree", CLASSES): (
        *COUNTING,
        *TREES_OF_CLASSES,
        *ONE_TREE,
        Constant("tree", random_trees, "RANDOM_TREES_BELOW"),
    ),
    ("boosted", NUMBERS): (
        *TARGET,
        Constant("boost_numbers", boosting_numbers, "LEAST_SIGNAL"),
        Constant("boost_numbers", boosting_numbers, "LOOK_FRACTION"),
        Constant("boost_numbers", boosting_numbers, "RESIDUAL_TAIL"),
        Constant("boost_numbers", boosting_numbers, "DESCENT_FRACTION", SHARE),
    ),
    ("forest", NUMBERS): (
        *COUNTING,
        *TARGET,
        *ONE_FOREST,
        Constant("forest", forest, "MOST_LEAF_NOISE"),
        Constant("levelling", fallback, "LEVEL_NOISE"),
    ),
    ("tree", NUMBERS): (
        *COUNTING,
        *TARGET,
        *ONE_TREE,
        Constant("levelling", fallback, "LEVEL_NOISE"),
    ),
}
"""Of each method and task, those that were varied. A constant stands where a method uses it."""

_EVERY = {c.label: c for constants in OF_METHODS.values() for c in constants}


@contextmanager
def fitted_with(setting: str) -> Iterator[None]:
    """Fits inside see other constants; everything is as it was afterwards."""
    with ExitStack() as changed:
        for part in setting.split(AND) if setting else ():
            label, _, written = part.partition(" x ")
            constant = _EVERY[label]
            factor = next(f for f in constant.factors if f"{float(f):.4g}" == written)
            other = constant.times(factor)
            for module in (constant.module, *constant.also):
                changed.enter_context(mock.patch.object(module, constant.name, other))
        yield


# --------------------------------------------------------------------------------------------------
# The real data on which learned constants are judged; the search sees none of it.
BUNDLED = {CLASSES: ("breast_cancer", "wine", "digits"), NUMBERS: ("diabetes",)}
"""They come with scikit-learn."""
STORED: dict[str, tuple[str, ...]] = {
    CLASSES: (
        *("adult", "bank", "credit_default", "spambase", "banknote", "wall_robot", "letter"),
        *("waveform", "puc_rio_har", "avazu_15k", "skin"),
    ),
    NUMBERS: ("parkinsons", "appliances_energy", "metro_traffic", "gas_turbine", "flights_nyc13"),
}
REAL = {goal: BUNDLED[goal] + STORED[goal] for goal in (CLASSES, NUMBERS)}


# --------------------------------------------------------------------------------------------------
# Tasks made from a seed: many sizes, widths, shapes and classes, and no record of anybody.
#
# The seed decides everything. What is learned here may be judged on real data, none of which was
# looked at for it.
LEAST_TRAIN, MOST_TRAIN, TEST_ROWS = 300, 10_000, 2_000
FEWEST_COLUMNS, MOST_COLUMNS = 3, 60
CLASS_NUMBERS = (2, 2, 2, 3, 4, 6, 10)
CATEGORIES = 6
TREE_LEVELS = 4

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Made:
    """A task, and how many of its rows are for training; they come first."""

    task: Task
    n_train: int


def made(seed: int, goal: str) -> Made:
    rng = np.random.default_rng([seed, goal == NUMBERS])
    n_train = int(_between(rng, LEAST_TRAIN, MOST_TRAIN))
    columns = int(_between(rng, FEWEST_COLUMNS, MOST_COLUMNS))
    n = n_train + TEST_ROWS
    if goal == NUMBERS:
        Z = rng.normal(size=(n, columns))
        y, target = _number(Z, rng)
        X, features = _declared(Z, rng)
        return Made(Task(X, y, Schema(features, target=target)), n_train)
    n_classes = int(rng.choice(CLASS_NUMBERS))
    if rng.random() < 0.3:
        Z, codes = _clusters(n, columns, n_classes, rng)
    else:
        Z = rng.normal(size=(n, columns))
        codes = _classes(Z, n_classes, rng)
    X, features = _declared(Z, rng)
    names = tuple(f"class_{k}" for k in range(n_classes))
    return Made(Task(X, np.array(names, object)[codes], Schema(features, classes=names)), n_train)


def _between(rng: np.random.Generator, low: float, high: float, power: float = 1.0) -> float:
    return float(low * (high / low) ** (rng.random() ** power))


# ------------------------------------------------------------------------------------- what is told
def _clusters(
    n: int, columns: int, n_classes: int, rng: np.random.Generator
) -> tuple[Floats, NDArray[np.int64]]:
    """scikit-learn's clusters at corners of a cube."""
    needed = int(np.ceil(np.log2(2 * n_classes)))
    informative = int(rng.integers(needed, max(columns // 2, needed) + 1))
    X, y = make_classification(
        n,
        max(columns, informative),
        n_informative=informative,
        n_redundant=0,
        n_classes=n_classes,
        weights=rng.dirichlet([3.0] * n_classes),
        flip_y=rng.uniform(0.0, 0.1),
        class_sep=rng.uniform(0.5, 2.0),
        random_state=int(rng.integers(2**31)),
    )
    return X, y


def _classes(Z: Floats, n_classes: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Drawn by the softmax of scores: one of random shape for each class."""
    scores = np.stack([_score(Z, rng) for _ in range(n_classes)], axis=1)
    scores = rng.uniform(0.5, 3.0) * scores + rng.normal(0.0, 0.7, n_classes)
    return np.asarray((scores + rng.gumbel(size=scores.shape)).argmax(axis=1))


def _number(Z: Floats, rng: np.random.Generator) -> tuple[Floats, Target]:
    """A score and noise, in some tasks with a heavy tail; a public range up to ten times wider."""
    y = _score(Z, rng) + rng.normal(0.0, rng.uniform(0.1, 1.0), len(Z))
    if rng.random() < 0.3:
        y = np.exp(y)
    width = float(np.ptp(y))
    room = width * (_between(rng, 1.0, 10.0, 2.0) - 1.0)
    below = rng.uniform(0.0, room)
    return y, Target(float(y.min() - below), float(y.max() + room - below))


def _score(Z: Floats, rng: np.random.Generator) -> Floats:
    """Curves of some columns, and in some tasks products of two or boxes; of deviation one."""
    used = rng.permutation(Z.shape[1])[: int(_between(rng, 2, Z.shape[1]))]
    total = np.zeros(len(Z))
    for j in used:
        total += rng.exponential() * _standard(CURVES[rng.integers(len(CURVES))](Z[:, j]))
    if rng.random() < 0.5:
        for _ in range(int(rng.integers(1, 4))):
            a, b = rng.choice(used, 2)
            total += rng.exponential(2.0) * _standard(Z[:, a] * Z[:, b])
    if rng.random() < 0.4:
        total += rng.exponential(2.0) * np.sqrt(len(used)) * _standard(_boxes(Z[:, used], rng))
    return _standard(total)


CURVES: tuple[Callable[[Floats], Floats], ...] = (
    lambda z: z,
    lambda z: np.tanh(2.0 * z),
    lambda z: (z > 0.5).astype(np.float64),
    np.abs,
    lambda z: np.sin(2.0 * z),
)


def _standard(v: Floats) -> Floats:
    return np.asarray((v - v.mean()) / max(float(v.std()), 1e-9))


def _boxes(Z: Floats, rng: np.random.Generator) -> Floats:
    """A random tree, the same test at all nodes of a level."""
    leaf = np.zeros(len(Z), np.int64)
    for _ in range(TREE_LEVELS):
        leaf = 2 * leaf + (Z[:, rng.integers(Z.shape[1])] > rng.normal(0.0, 0.7))
    return np.asarray(rng.normal(size=2**TREE_LEVELS)[leaf])


# -------------------------------------------------------------------------------- how it is written
def _declared(Z: Floats, rng: np.random.Generator) -> tuple[pd.DataFrame, tuple[Feature, ...]]:
    """Every column in a scale of its own: as it is, bent, rounded, or as a category."""
    columns: dict[str, object] = {}
    features: list[Feature] = []
    for j in range(Z.shape[1]):
        name, kind = f"c{j}", rng.random()
        if kind < 0.15:
            cuts = np.sort(rng.normal(size=CATEGORIES - 1))
            columns[name] = np.searchsorted(cuts, Z[:, j]).astype(str)
            features.append(Categorical(name, tuple(str(k) for k in range(CATEGORIES))))
            continue
        bend = BENDS[rng.integers(len(BENDS))]
        v = bend(Z[:, j])
        room = float(np.ptp(v)) * rng.uniform(0.0, 1.0)
        columns[name] = v
        features.append(Numeric(name, float(v.min()) - 0.1 * room - 1e-6, float(v.max()) + room))
    return pd.DataFrame(columns), tuple(features)


BENDS: tuple[Callable[[Floats], Floats], ...] = (
    lambda z: z,
    lambda z: np.exp(1.5 * z),
    lambda z: z**3,
    lambda z: 1.0 / (1.0 + np.exp(-2.0 * z)),
    lambda z: np.round(3.0 * z),
)
"""Rising, all of them: trees see the same order."""


# --------------------------------------------------------------------------------------------------
# One fit with other constants, on a task that is made or on a real one.
MOST_REAL_TRAIN, MOST_REAL_TEST = 6_000, 3_000
CALLS = 10**7
"""More than a fit asks for random bytes: the noise of two seeds has nothing in common."""
WORST = -1.0
"""Of R2: how bad a fit is beyond that must not decide."""
BUNDLED_NUMBERS = "diabetes"


def fit_made(seed: int, goal: str, method: str, epsilon: float, setting: str) -> dict[str, float]:
    """On a task that the seed makes; minus log-loss of classes, R2 of numbers."""
    given = _made(seed, goal)
    order = np.arange(len(given.task.y))
    rows = order[: given.n_train], order[given.n_train :]
    return _fit(given.task, rows, method, epsilon, setting, seed)


def fit_real(
    split: int, task_name: str, method: str, epsilon: float, setting: str
) -> dict[str, float]:
    given = _real(task_name)
    train, test = given.split(split)
    return _fit(
        given, (train[:MOST_REAL_TRAIN], test[:MOST_REAL_TEST]), method, epsilon, setting, split
    )


@lru_cache(maxsize=2)
def _made(seed: int, goal: str) -> Made:
    return made(seed, goal)


def _real(name: str) -> Task:
    return _diabetes() if name == BUNDLED_NUMBERS else task(name)


@lru_cache(maxsize=1)
def _diabetes() -> Task:
    from sklearn.datasets import load_diabetes

    from hedgerow.schema.schema import Schema, Target
    from studies.datasets import declared, whole

    frame: pd.DataFrame = load_diabetes(as_frame=True).frame
    y = np.asarray(frame.pop("target"), np.float64)
    features = tuple(whole(declared(frame[column]), frame[column]) for column in frame)
    return Task(frame, y / y.max(), Schema(features, target=Target(0.0, 1.0)))


def _fit(
    given: Task,
    rows: tuple[NDArray[np.int64], NDArray[np.int64]],
    method: str,
    epsilon: float,
    setting: str,
    seed: int,
) -> dict[str, float]:
    """The noise is that of the seed, so that two settings differ in what they make of it."""
    train, test = rows
    is_number = given.schema.target is not None
    make = (FOR_NUMBERS if is_number else FOR_CLASSES)[method]
    model = make(given.schema, epsilon, DELTA, random_state=seed)
    with fixed_noise(seed * CALLS), fitted_with(setting):
        model.fit(given.X.iloc[train], given.y[train])
    X, y = given.X.iloc[test], given.y[test]
    if is_number:
        around = np.mean((y - given.y[train].mean()) ** 2)
        return {"score": max(float(1.0 - np.mean((model.predict(X) - y) ** 2) / around), WORST)}
    return {"score": -of_classes(model.predict_proba(X), y, given.schema)["log_loss"]}
