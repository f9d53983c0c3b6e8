"""What the study of median forests compares. Names in capitals are the paper's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from hedgerow.methods.blocks.selection import MechanismName
from hedgerow.methods.consul import (
    MedianForest,
    MedianSplit,
    honest_factor_of_medians,
)
from hedgerow.methods.liu import ExtraTrees
from hedgerow.methods.method import Method, TrainingResult
from hedgerow.methods.multiway import MultiwayForestMethod, PrunedMultiwayForest
from hedgerow.models.tree import Tree
from hedgerow.privacy.accounting.budget import DPModel
from hedgerow.schema.regions import Region
from studies import simulation
from studies.diprime.data import PARTIES, Halves, kary_depth, occupancy, paper_depth

MOST_LEVELS = 7
"""Of the median forest without noise: one fit at the paper's depths would take minutes."""


@dataclass(frozen=True)
class Setting:
    """One cell of a grid. `depth` 0 follows the occupancy; epsilon is the true one."""

    name: str
    epsilon: float
    n_estimators: int
    depth: int
    split_fraction: Fraction
    k: int
    delta: float = 0.0

    def part_depth(self, rows: int) -> int:
        return self.depth or paper_depth(self.name, rows, self.n_estimators)

    def full_depth(self, rows: int) -> int:
        return self.depth or paper_depth(self.name, rows, 1)

    def kary_depth(self, rows: int) -> int:
        return kary_depth(self.name, rows)


# ------------------------------------------------------------------------------------- recipes
Make = Callable[[Setting, Halves], Method]


def _dp_ert(setting: Setting, rows: Halves) -> Method:
    return ExtraTrees(
        n_estimators=setting.n_estimators,
        max_depth=setting.full_depth(len(rows.y)),
        split="random",
        shrinkage=False,
    )


def _dp_rf(setting: Setting, rows: Halves) -> Method:
    depth = setting.kary_depth(len(rows.y))
    return MultiwayForestMethod(
        n_estimators=setting.n_estimators, max_depth=depth, max_features=setting.k
    )


def _dp_df(setting: Setting, rows: Halves) -> Method:
    depth = setting.kary_depth(len(rows.y))
    return PrunedMultiwayForest(
        n_estimators=setting.n_estimators,
        max_depth=depth,
        min_samples_split=occupancy(setting.name),
    )


def _paper(
    setting: Setting,
    rows: Halves,
    split: MedianSplit,
    mechanism: MechanismName,
    *,
    folds: bool = True,
) -> Method:
    """The paper's sizes and plain leaves, every median paid.

    Without folds every tree has all rows and its part of the budget, and may be deeper.
    """
    depth = setting.part_depth if folds else setting.full_depth
    return MedianForest(
        n_estimators=setting.n_estimators,
        max_depth=depth(len(rows.y)),
        max_features=setting.k,
        leaf_fraction=float(1 - setting.split_fraction),
        split=split,
        mechanism=mechanism,
        shrinkage=False,
        folds=folds,
    )


def _as_printed(setting: Setting, rows: Halves) -> Method:
    """The paper's budget, named for what it costs: splits have more than their half."""
    leaves = (1 - setting.split_fraction) / _printed_factor(setting, rows)
    return _paper(replace(setting, split_fraction=1 - leaves), rows, "medians", EXP)


def _median_without_noise(setting: Setting, rows: Halves) -> Method:
    return MedianForest(
        n_estimators=setting.n_estimators,
        max_depth=min(setting.full_depth(len(rows.y)), MOST_LEVELS),
        max_features=setting.k,
        split="medians",
        folds=False,
        shrinkage=False,
    )


def _ours(setting: Setting, rows: Halves, **changes: Any) -> Method:
    """The defaults of the estimators, whatever the setting says."""
    return MedianForest(**changes)


def _joint(setting: Setting, rows: Halves) -> Method:
    return _paper(setting, rows, "grid", FLIP)


def _printed_factor(setting: Setting, rows: Halves) -> Fraction:
    """True over stated epsilon; a set of four features has no five to ask."""
    k = min(setting.k, len(rows.schema.features))
    return honest_factor_of_medians(k, setting.split_fraction)


EXP: Final = "exponential"
FLIP: Final = "permute_and_flip"
OVER_SITES = f"ours, {PARTIES} sites"
METHOD_EXAMPLES: dict[str, Make] = {
    "Median, no noise": _median_without_noise,
    "DP-RF": _dp_rf,
    "DP-DF": _dp_df,
    "DP-ERT": _dp_ert,
    "DiPriMe": partial(_paper, split="median", mechanism=EXP),
    "DiPriMeExp, paid": partial(_paper, split="medians", mechanism=EXP),
    "DiPriMeFlip, paid": partial(_paper, split="medians", mechanism=FLIP),
    "DiPriMeExp as printed": _as_printed,
    "joint choice, paper's sizes": _joint,
    "ours": _ours,
    "ours, no noise": partial(_ours, folds=True),
    OVER_SITES: partial(_ours, split="table"),
}
ALL_ROWS: dict[str, Make] = {
    "DiPriMe": partial(_paper, split="median", mechanism=EXP, folds=False),
    "DiPriMeExp, paid": partial(_paper, split="medians", mechanism=EXP, folds=False),
    "DiPriMeFlip, paid": partial(_paper, split="medians", mechanism=FLIP, folds=False),
}
"""Without partitioning the rows among trees (Figures 5 and 6)."""
NOT_PRIVATE = ("constant", "RF", "ERT")


def fit_and_score(
    method: str, setting: Setting, rows: Halves, seed: int, *, folds: bool = True
) -> float:
    if method == "constant":
        return rows.score(_constant(rows))
    if method in NOT_PRIVATE:
        return rows.score(_sklearn(method, setting, rows, seed))
    learner = (METHOD_EXAMPLES if folds else ALL_ROWS)[method](setting, rows)
    return score(train(method, learner, setting, rows, seed), rows)


def score(trained: TrainingResult, rows: Halves) -> float:
    return rows.score(simulation.probabilities(trained, rows.X_test, rows.schema))


def train(
    method: str, learner: Method, setting: Setting, rows: Halves, seed: int
) -> TrainingResult:
    several = method.endswith("sites")
    sites = rows.divided if several else rows.pooled
    dp_model = DPModel.DISTRIBUTED if several else DPModel.CENTRAL
    if method.endswith("no noise"):
        dp_model = DPModel.NONE
    printed = method.endswith("printed")
    factor = _printed_factor(setting, rows) if printed else 1
    epsilon = float(factor) * setting.epsilon
    study = simulation.study_of(learner, sites, epsilon, setting.delta, dp_model=dp_model)
    trained, _ = simulation.train(learner, study, sites, seed)
    return trained


def _constant(rows: Halves) -> NDArray[np.float64]:
    """What a model without features says: the training mean, or the parts of the classes."""
    if rows.is_regression:
        said = [float(np.mean(rows.y))]
    else:
        said = [float(np.mean(rows.y == label)) for label in rows.schema.classes or ()]
    return np.tile(said, (len(rows.y_test), 1))


def _sklearn(method: str, setting: Setting, rows: Halves, seed: int) -> NDArray[np.float64]:
    """Random forest and extremely randomized trees as the paper's released code sets them."""
    from sklearn import ensemble

    kind = "RandomForest" if method == "RF" else "ExtraTrees"
    make = getattr(ensemble, kind + ("Regressor" if rows.is_regression else "Classifier"))
    model = make(
        setting.n_estimators,
        max_depth=setting.full_depth(len(rows.y)),
        max_features=min(setting.k, rows.X.shape[1]),
        min_samples_leaf=5,
        random_state=seed,
    )
    X, X_test = _numbers(rows.X, rows), _numbers(rows.X_test, rows)
    model.fit(X, rows.y)
    said = model.predict(X_test)[:, None] if rows.is_regression else model.predict_proba(X_test)
    return np.asarray(said)


def _numbers(X: Any, rows: Halves) -> NDArray[np.float64]:
    """Categories by their place in the schema."""
    columns = []
    for feature in rows.schema.features:
        column = X[feature.name]
        places = {value: k for k, value in enumerate(getattr(feature, "values", ()))}
        columns.append([places[str(v)] for v in column] if places else column.to_numpy())
    return np.stack(columns, axis=1).astype(np.float64)


# ----------------------------------------------------------------------- balance of the splits
def leaf_parts(tree: Tree, codes: NDArray[np.uint8]) -> NDArray[np.float64]:
    """Part of the experimenter's rows in each leaf. Exact: never part of a model or a report."""
    leaves = tree.apply(codes)
    return np.asarray(np.bincount(leaves, minlength=tree.n_leaves) / codes.shape[1])


def left_parts(tree: Tree, codes: NDArray[np.uint8]) -> list[float]:
    """Part of each inner node's rows that goes left, of nodes that hold any."""
    regions = tree.regions()
    held = np.bincount(tree.apply(codes), minlength=len(regions))
    sides: dict[Region, list[int]] = {}
    for region, n in zip(regions, held.tolist(), strict=True):
        for level, step in enumerate(region):
            sides.setdefault(region[:level], [0, 0])[step.outcome] += n
    return [left / (left + right) for left, right in sides.values() if left + right]
