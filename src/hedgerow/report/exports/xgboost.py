"""A model as XGBoost's own JSON, for `xgboost.Booster` and `shap.TreeExplainer`.

Numeric columns have type float, categories and buckets are codes of type c; NaN is missing. XGBoost
computes in single precision, so values must be float32 to fall on the same side of a cut. A cut is
moved up to the next float32, which affects no such value.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hedgerow.errors import ParameterError
from hedgerow.report.plain import (
    OutputLink,
    PlainBranch,
    PlainLeaf,
    PlainModel,
    PlainNode,
    Threshold,
    as_threshold,
    category_set,
    is_missing_in,
    nodes_of,
)
from hedgerow.schema.grids import ColumnKind

XGBOOST_VERSION = [3, 2, 0]
NO_PARENT = 2**31 - 1
NUMBER, CATEGORY = 0, 1
HIGHEST = float(np.finfo(np.float32).max)


def to_xgboost(model: PlainModel) -> str:
    if model.clip is not None and _may_bind(model, *model.clip):
        raise ParameterError(
            "this model is clipped to the target's range after every tree, which XGBoost cannot "
            "do, and its leaves reach beyond that range; export it to onnx, python or sql."
        )
    targets = list(range(model.outputs)) if model.link is not OutputLink.SIGMOID else [0]
    trees = [_tree(model, root, output) for root in model.terms for output in targets]
    return json.dumps({"learner": _learner(model, trees, targets), "version": XGBOOST_VERSION})


def _may_bind(model: PlainModel, low: float, high: float) -> bool:
    """Whether a sum of leaves can leave the range; otherwise clipping changes nothing."""
    least, most = _reach(model.curves)
    base = model.base[0]
    for tree in model.trees:
        lower, upper = _reach((tree,))
        least, most = least + lower, most + upper
        if base + least < low or base + most > high:
            return True
    return False


def _reach(terms: Iterable[PlainNode]) -> tuple[float, float]:
    """The smallest and largest possible sum of terms with one output."""
    leaves = [[n.values[0] for n in nodes_of(term) if isinstance(n, PlainLeaf)] for term in terms]
    return sum(map(min, leaves)), sum(map(max, leaves))


def _learner(model: PlainModel, trees: list[Any], targets: list[int]) -> dict[str, Any]:
    rounds = list(range(0, len(trees) + 1, len(targets)))
    for number, tree in enumerate(trees):
        tree["id"] = number
    meanings = [  # of each code of a column
        {"column": g.feature, "codes": [*g.values, *(["any other value"] if g.other else [])]}
        for g in model.grids
    ]
    return {
        "attributes": {"hedgerow": json.dumps(meanings)},
        "feature_names": [grid.feature for grid in model.grids],
        "feature_types": [
            "float" if grid.kind is ColumnKind.NUMERIC else "c" for grid in model.grids
        ],
        "gradient_booster": {
            "model": {
                "cats": {"enc": [], "feature_segments": [], "sorted_idx": []},
                "gbtree_model_param": {"num_parallel_tree": "1", "num_trees": str(len(trees))},
                "iteration_indptr": rounds,
                "tree_info": targets * (len(trees) // len(targets)),
                "trees": trees,
            },
            "name": "gbtree",
        },
        **_objective(model, len(targets)),
    }


def _objective(model: PlainModel, targets: int) -> dict[str, Any]:
    """XGBoost starts from `base_score`, which for two classes is a probability."""
    classes = str(targets) if model.link is OutputLink.SOFTMAX else "0"
    wide = model.link is OutputLink.NONE and targets > 1
    start = np.asarray(model.base)
    if model.link is OutputLink.SIGMOID:
        start = 1.0 / (1.0 + np.exp(-start))
    name, parameter, value = {
        OutputLink.SIGMOID: ("binary:logistic", "reg_loss_param", {"scale_pos_weight": "1"}),
        OutputLink.SOFTMAX: ("multi:softprob", "softmax_multiclass_param", {"num_class": classes}),
        OutputLink.NONE: ("reg:squarederror", "reg_loss_param", {"scale_pos_weight": "1"}),
    }[model.link]
    return {
        "learner_model_param": {
            "base_score": "[" + ",".join(f"{b:.9E}" for b in start) + "]",
            "boost_from_average": "0",
            "num_class": classes,
            "num_feature": str(len(model.grids)),
            "num_target": str(targets) if wide else "1",
        },
        "objective": {"name": name, parameter: value},
    }


EMPTY_NODE: dict[str, Any] = {
    "default_left": 0,
    "left_children": -1,
    "loss_changes": 0.0,
    "parents": NO_PARENT,
    "right_children": -1,
    "split_conditions": 0.0,
    "split_indices": 0,
    "split_type": NUMBER,
    "sum_hessian": 1.0,
}


@dataclass
class _Arrays:
    """The nodes of one tree. XGBoost requires both children of a node to be adjacent."""

    nodes: list[dict[str, Any]] = field(default_factory=list)
    sets: dict[int, list[int]] = field(default_factory=dict)

    def add(self, parent: int, cover: float) -> int:
        """Adds a leaf without a value yet."""
        self.nodes.append(EMPTY_NODE | {"parents": parent, "sum_hessian": cover})
        return len(self.nodes) - 1


def _tree(model: PlainModel, root: PlainNode, output: int) -> dict[str, Any]:
    arrays = _laid_out(model, root, output)
    sets = list(arrays.sets.values())
    by_name = {name: [node[name] for node in arrays.nodes] for name in EMPTY_NODE}
    return by_name | {
        "base_weights": by_name["split_conditions"],
        "categories": [code for code_set in sets for code in code_set],
        "categories_nodes": list(arrays.sets),
        "categories_segments": np.cumsum([0, *map(len, sets)])[:-1].tolist(),
        "categories_sizes": [len(code_set) for code_set in sets],
        "tree_param": {
            "num_deleted": "0",
            "num_feature": str(len(model.grids)),
            "num_nodes": str(len(arrays.nodes)),
            "size_leaf_vector": "1",
        },
    }


def _laid_out(model: PlainModel, root: PlainNode, output: int) -> _Arrays:
    """Lays a tree out level by level; `open_cells` are the cells of each column that lead to a
    node.

    Shapley values along paths need a weight for every node. Models have no counts for most nodes,
    so all cells of the public grid weigh the same.
    """
    arrays, everything = _Arrays(), tuple((1 << grid.n_cells) - 1 for grid in model.grids)
    waiting: deque[tuple[int, PlainNode | Threshold, tuple[int, ...]]] = deque()
    waiting.append((arrays.add(NO_PARENT, 1.0), root, everything))
    while waiting:
        here, test, open_cells = waiting.popleft()
        while isinstance(test, PlainBranch) and model.grids[test.column].kind is ColumnKind.NUMERIC:
            test = as_threshold(test, model.grids[test.column])
        record = arrays.nodes[here]
        if isinstance(test, PlainLeaf):
            record["split_conditions"] = float(np.float32(test.values[output]))
            continue
        record["split_indices"] = test.column
        sides = _sides(model, arrays, here, test)
        for way, (side, cells) in zip(("left_children", "right_children"), sides, strict=True):
            still = tuple(a & cells if j == test.column else a for j, a in enumerate(open_cells))
            record[way] = arrays.add(here, _cover(model, still))
            waiting.append((record[way], side, still))
    return arrays


def _sides(
    model: PlainModel, arrays: _Arrays, here: int, test: PlainBranch | Threshold
) -> tuple[tuple[PlainNode, int], tuple[PlainNode, int]]:
    """Records the test; returns its left and right child, each with the cells that go there."""
    grid, record = model.grids[test.column], arrays.nodes[here]
    if isinstance(test, Threshold):
        record |= {"split_conditions": _single(test.below), "default_left": int(test.missing)}
        n_below = grid.missing if test.below is None else grid.edges.index(test.below) + 1
        cells = (1 << n_below) - 1 | (test.missing << grid.missing)
        return (test.yes, cells), (test.no, ~cells)
    right = test.cells if test.cells & ~(1 << grid.missing) else ~test.cells  # never an empty set
    record |= {"split_type": CATEGORY, "default_left": int(not is_missing_in(grid, right))}
    arrays.sets[here] = [c for c in category_set(grid, right) if c != grid.missing]
    sides = (test.no, ~test.cells), (test.yes, test.cells)
    return sides if right == test.cells else (sides[1], sides[0])


def _cover(model: PlainModel, open_cells: tuple[int, ...]) -> float:
    """The fraction of all combinations of cells, never zero."""
    parts = (a.bit_count() / grid.n_cells for a, grid in zip(open_cells, model.grids, strict=True))
    return max(float(np.prod(list(parts))), 1e-6)


def _single(edge: float | None) -> float:
    """The smallest float32 that is not below the edge."""
    if edge is None:
        return HIGHEST
    near = np.float32(edge)
    return float(near if float(near) >= edge else np.nextafter(near, np.float32(np.inf)))
