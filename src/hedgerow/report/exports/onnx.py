"""A model as ONNX: one TreeEnsemble of ai.onnx.ml opset 5, in double precision throughout.

Every column is a separate input (n, 1): numbers as double (NaN is missing), categories as string,
hashed columns as the number of their bucket. The graph parses sentinels and words for true and
false; dates, amounts, ranks and prefixes must be parsed before, as `inputs(row)` of the Python
export does: the property `preprocessing` names them. Needs `pip install hedgerow[onnx]`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from hedgerow.errors import ParameterError
from hedgerow.models.survival import SurvivalCurve
from hedgerow.report.plain import (
    OutputLink,
    PlainBranch,
    PlainLeaf,
    PlainModel,
    PlainNode,
    Threshold,
    as_threshold,
    category_set,
    nodes_of,
    spellings,
    unknown_code,
)
from hedgerow.schema.features import NUMERAL
from hedgerow.schema.grids import ColumnKind, Grid
from hedgerow.schema.tokens import token_of
from hedgerow.version import __version__

LESS_OR_EQUAL, LESS, MEMBER = 0, 1, 6
"""Node modes in the operator's definition."""
SUM, NO_TRANSFORM = 1, 0
OPSETS = {"": 20, "ai.onnx.ml": 5}
IR_VERSION = 10
SEPARATOR = np.nan
"""Ends each set in the list of all sets."""


def to_onnx(model: PlainModel) -> bytes:
    try:
        import onnx
    except ImportError as error:
        raise ParameterError(
            "ONNX files need the package onnx; install it with `pip install hedgerow[onnx]`."
        ) from error
    helper = onnx.helper
    graph = _Graph(helper, onnx.numpy_helper)
    columns = [_column(graph, grid) for grid in model.grids]
    rows = graph.node("Concat", *columns, axis=1) if len(columns) > 1 else columns[0]
    add = _add_terms if model.clip is None else _add_clipped_terms
    _finish(graph, model, add(graph, model, rows))
    onnx_model = helper.make_model(
        graph.made(model.name),
        opset_imports=[helper.make_opsetid(name, version) for name, version in OPSETS.items()],
        ir_version=IR_VERSION,
        producer_name="hedgerow",
        producer_version=__version__,
    )
    parsers = {
        grid.feature: {
            "column": grid.source,
            "parse": None if grid.parser is None else grid.parser.entries,
            "missing": list(grid.sentinels),
        }
        for grid in model.grids
        if grid.is_parsed
    }
    properties = {"preprocessing": json.dumps(parsers)} if parsers else {}
    helper.set_model_props(onnx_model, {"classes": json.dumps(model.classes)} | properties)
    onnx.checker.check_model(onnx_model, full_check=True)
    content: bytes = onnx_model.SerializeToString()
    return content


class _Graph:
    """Collects nodes, inputs and constants."""

    def __init__(self, helper: Any, numpy_helper: Any, name: str = "") -> None:
        self._helper, self._numpy, self._name = helper, numpy_helper, name
        self.nodes: list[Any] = []
        self.inputs: list[Any] = []
        self.outputs: list[Any] = []
        self.constants: list[Any] = []

    def tensor(self, values: Any, kind: Any, name: str = "") -> Any:
        return self._numpy.from_array(np.asarray(values, kind), name)

    def constant(self, values: Any, kind: Any = np.float64) -> str:
        name = f"{self._name}constant {len(self.constants)}"
        self.constants.append(self.tensor(values, kind, name))
        return name

    def node(self, kind: str, *inputs: str, to: str = "", domain: str = "", **how: Any) -> str:
        name = to or f"{self._name}{kind} {len(self.nodes)}"
        onnx_node = self._helper.make_node(kind, list(inputs), [name], domain=domain, **how)
        self.nodes.append(onnx_node)
        return name

    def nested(self) -> _Graph:
        return _Graph(self._helper, self._numpy, "inner ")

    def made(self, title: str) -> Any:
        return self._helper.make_graph(self.nodes, title, self.inputs, self.outputs, self.constants)

    def value(self, name: str, kind: type[Any], shape: Sequence[Any]) -> Any:
        from onnx import TensorProto

        number = TensorProto.STRING if kind is str else TensorProto.DOUBLE
        return self._helper.make_tensor_value_info(name, number, list(shape))


def _column(graph: _Graph, grid: Grid) -> str:
    """The column as TreeEnsemble expects it: a number, or the code of a category."""
    name = grid.feature
    if grid.kind is ColumnKind.HASHED:
        name += "_bucket"
    kind = str if grid.kind is ColumnKind.CATEGORICAL else float
    graph.inputs.append(graph.value(name, kind, ["n", 1]))
    if grid.kind is ColumnKind.NUMERIC:
        for sentinel in grid.sentinels if grid.parser is None else ():
            if NUMERAL.fullmatch(sentinel):
                is_missing = graph.node("Equal", name, graph.constant([[float(sentinel)]]))
                name = graph.node("Where", is_missing, graph.constant([[np.nan]]), name)
        return name
    if grid.kind is ColumnKind.HASHED:
        absent = graph.node("IsNaN", name)
        return graph.node("Where", absent, graph.constant([[float(grid.missing)]]), name)
    codes = spellings(grid) | _words(grid)
    return graph.node(
        "LabelEncoder",
        name,
        domain="ai.onnx.ml",
        keys_tensor=graph.tensor(list(codes), object, "keys"),
        values_tensor=graph.tensor(list(codes.values()), np.float64, "codes"),
        default_tensor=graph.tensor([unknown_code(grid)], np.float64, "unknown"),
    )


def _words(grid: Grid) -> dict[str, int]:
    """Words of a boolean parser, and sentinels, in their usual spellings."""
    words = {w for word in grid.rules.get("words", ()) for w in (word, word.upper(), word.title())}
    return {w: grid.category_code(token_of(grid.read(w))) for w in {*words, *grid.sentinels}}


def _add_terms(graph: _Graph, model: PlainModel, rows: str) -> str:
    if not model.terms:
        return _constant_sums(graph, model, rows)
    trees = _Ensemble(model.grids, model.terms).node(graph, rows, model.outputs)
    return graph.node("Add", trees, graph.constant([model.base]))


def _constant_sums(graph: _Graph, model: PlainModel, rows: str) -> str:
    """One row of the base for each record."""
    count = graph.node("Shape", rows, start=0, end=1)
    shape = graph.node("Concat", count, graph.constant([model.outputs], np.int64), axis=0)
    return graph.node("Expand", graph.constant([model.base]), shape)


def _add_clipped_terms(graph: _Graph, model: PlainModel, rows: str) -> str:
    """Every tree has its own targets; a scan then adds and clips, one tree at a time."""
    assert model.clip is not None
    start = _constant_sums(graph, model, rows)
    if model.curves:
        curves = _Ensemble(model.grids, model.curves).node(graph, rows, model.outputs)
        start = graph.node("Add", start, curves)
    trees = _Ensemble(model.grids, model.trees, apart=model.outputs)
    flat = trees.node(graph, rows, len(model.trees) * model.outputs)
    shape = graph.constant([-1, len(model.trees), model.outputs], np.int64)
    by_tree = graph.node("Transpose", graph.node("Reshape", flat, shape), perm=[1, 0, 2])
    inner, sides = graph.nested(), ["n", model.outputs]
    sum_name = inner.node("Add", "sum", "tree")
    low, high = (inner.constant(bound) for bound in model.clip)
    inner.node("Clip", sum_name, low, high, to="clipped")
    inner.inputs += [inner.value(name, float, sides) for name in ("sum", "tree")]
    inner.outputs.append(inner.value("clipped", float, sides))
    return graph.node("Scan", start, by_tree, body=inner.made("one tree"), num_scan_inputs=1)


def _finish(graph: _Graph, model: PlainModel, sums: str) -> None:
    if model.survival is not None:
        _survival(graph, model.survival, model.times, sums)
    if model.classes is None:
        graph.node("Identity", sums, to="prediction")
        graph.outputs.append(graph.value("prediction", float, ["n", 1]))
        return
    _apply_link(graph, model.link, sums)
    best = graph.node("ArgMax", "probabilities", axis=1, keepdims=0)
    graph.node("Gather", graph.constant(list(model.classes), object), best, to="label")
    graph.outputs += [
        graph.value("label", str, ["n"]),
        graph.value("probabilities", float, ["n", len(model.classes)]),
    ]


def _survival(graph: _Graph, curve: SurvivalCurve, times: Sequence[float], sums: str) -> None:
    """(n, K) the probability of no event until each time, which never rises."""
    centered_scores = graph.node("Sub", sums, graph.constant([[curve.center]]))
    scaled_scores = graph.node("Mul", centered_scores, graph.constant([curve.slopes]))
    levels = [math.log(odds) + curve.center for odds in curve.odds]
    chances = graph.node("Sigmoid", graph.node("Add", scaled_scores, graph.constant([levels])))
    outputs = list[str]()
    for place in range(len(curve.edges)):
        column = graph.node("Gather", chances, graph.constant([place], np.int64), axis=1)
        outputs.append(graph.node("Max", column, outputs[-1]) if outputs else column)
    highest = graph.node("Concat", *outputs, axis=1)
    until = graph.node("MatMul", highest, graph.constant(curve.weights(times)))
    graph.node("Sub", graph.constant([[1.0]]), until, to="survival")
    graph.node("Identity", graph.constant(times), to="times")
    graph.outputs += [
        graph.value("survival", float, ["n", len(times)]),
        graph.value("times", float, [len(times)]),
    ]


def _apply_link(graph: _Graph, link: OutputLink, sums: str) -> None:
    if link is OutputLink.SOFTMAX:
        graph.node("Softmax", sums, axis=1, to="probabilities")
    elif link is OutputLink.SIGMOID:
        second = graph.node("Sigmoid", sums)
        first = graph.node("Sub", graph.constant([[1.0]]), second)
        graph.node("Concat", first, second, axis=1, to="probabilities")
    else:
        graph.node("Identity", sums, to="probabilities")


class _Ensemble:
    """Trees in the layout of the operator's attributes.

    A leaf has one target, so a tree of several outputs is written once for each of them. The
    targets of one tree are `apart` from those of the next.
    """

    def __init__(self, grids: Sequence[Grid], roots: Sequence[PlainNode], apart: int = 0) -> None:
        self._grids = grids
        self._roots: list[int] = []
        self._nodes: list[tuple[int, int, float, int]] = []  # mode, column, split, missing
        self._ways: list[list[tuple[int, int]]] = []  # (number, whether a leaf) for true and false
        self._leaves: list[tuple[int, float]] = []
        self._sets: list[float] = []
        for number, root in enumerate(roots):
            self._add(root, number * apart)

    def _add(self, root: PlainNode, first_target: int) -> None:
        outputs = next(len(node.values) for node in nodes_of(root) if isinstance(node, PlainLeaf))
        for output in range(outputs):
            self._roots.append(len(self._nodes))
            place, is_leaf = self._place(root, output, first_target + output)
            if is_leaf:  # the operator has no tree without a test
                self._ask(LESS_OR_EQUAL, 0, np.inf, True, (place, 1), (place, 1))

    def _place(self, node: PlainNode, output: int, target: int) -> tuple[int, int]:
        if isinstance(node, PlainLeaf):
            self._leaves.append((target, node.values[output]))
            return len(self._leaves) - 1, 1
        grid = self._grids[node.column]
        if grid.kind is not ColumnKind.NUMERIC:
            return self._place_set(node, grid, output, target)
        test = as_threshold(node, grid)
        if not isinstance(test, Threshold):
            return self._place(test, output, target)
        mode = LESS if test.below is not None else LESS_OR_EQUAL
        split = test.below if test.below is not None else np.inf
        here = self._ask(mode, test.column, split, test.missing)
        return self._below(here, test.yes, test.no, output, target)

    def _place_set(
        self, node: PlainBranch, grid: Grid, output: int, target: int
    ) -> tuple[int, int]:
        inside, outside = category_set(grid, node.cells), category_set(grid, ~node.cells)
        if not inside or not outside:
            return self._place(node.yes if inside else node.no, output, target)
        is_inverted = len(outside) < len(inside)
        self._sets += [*map(float, outside if is_inverted else inside), SEPARATOR]
        here = self._ask(MEMBER, node.column, 0.0, False)
        sides = (node.no, node.yes) if is_inverted else (node.yes, node.no)
        return self._below(here, *sides, output, target)

    def _ask(
        self, mode: int, column: int, split: float, missing: bool, *ways: tuple[int, int]
    ) -> int:
        self._nodes.append((mode, column, split, int(missing)))
        self._ways.append(list(ways))
        return len(self._nodes) - 1

    def _below(
        self, here: int, yes: PlainNode, no: PlainNode, output: int, target: int
    ) -> tuple[int, int]:
        for side in (yes, no):
            self._ways[here].append(self._place(side, output, target))
        return here, 0

    def node(self, graph: _Graph, rows: str, targets: int) -> str:
        modes, columns, splits, missing = zip(*self._nodes, strict=True)
        (yes, yes_leaf), (no, no_leaf) = (
            zip(*(way[side] for way in self._ways), strict=True) for side in (0, 1)
        )
        target_of, weights = zip(*self._leaves, strict=True)
        sets = {"membership_values": graph.tensor(self._sets, np.float64, "sets")}
        return graph.node(
            "TreeEnsemble",
            rows,
            domain="ai.onnx.ml",
            aggregate_function=SUM,
            post_transform=NO_TRANSFORM,
            n_targets=targets,
            tree_roots=self._roots,
            nodes_modes=graph.tensor(modes, np.uint8, "modes"),
            nodes_featureids=columns,
            nodes_splits=graph.tensor(splits, np.float64, "splits"),
            nodes_missing_value_tracks_true=missing,
            nodes_truenodeids=yes,
            nodes_trueleafs=yes_leaf,
            nodes_falsenodeids=no,
            nodes_falseleafs=no_leaf,
            leaf_targetids=target_of,
            leaf_weights=graph.tensor(weights, np.float64, "weights"),
            **(sets if self._sets else {}),
        )
