"""A model as tests of raw columns: the one form from which every export is written.

Everything that a model sums is a tree here: a curve becomes a tree of one column. Forests are
rescaled so that the mean becomes a sum, and one of three links turns the sum into the output.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from hedgerow.errors import ParameterError
from hedgerow.models.model import Curve, Output
from hedgerow.models.survival import SurvivalCurve
from hedgerow.models.tree import Tree
from hedgerow.report.weighing import Readable, surfaces_of, weight_of_a_tree
from hedgerow.schema.grids import ColumnKind, Grid
from hedgerow.schema.tokens import MISSING_TEXTS, token_of

Outputs = tuple[float, ...]


class OutputLink(Enum):
    """Turns the sum into the output."""

    NONE = "the sum itself"
    SIGMOID = "the logistic function of the sum is the probability of the second class"
    SOFTMAX = "softmax of the sums are the probabilities"


@dataclass(frozen=True, slots=True)
class PlainLeaf:
    values: Outputs


@dataclass(frozen=True, slots=True)
class PlainBranch:
    """Tests whether the cell of a column is in a set; bit k of `cells` stands for cell k."""

    column: int
    cells: int
    yes: PlainNode
    no: PlainNode


PlainNode = PlainBranch | PlainLeaf


@dataclass(frozen=True)
class PlainModel:
    """sum(x) = base + curves + trees; with `clip`, clipped after every tree (not after curves)."""

    name: str
    grids: tuple[Grid, ...]
    classes: tuple[str, ...] | None
    base: Outputs
    curves: tuple[PlainNode, ...]
    trees: tuple[PlainNode, ...]
    clip: tuple[float, float] | None
    link: OutputLink
    survival: SurvivalCurve | None = None
    times: tuple[float, ...] = ()
    """Times at which survival probabilities are computed."""
    pairs: tuple[tuple[int, ...], ...] = ()
    """Per tree, the two columns of a surface; () for other trees."""

    @property
    def outputs(self) -> int:
        return len(self.base)

    @property
    def terms(self) -> tuple[PlainNode, ...]:
        return self.curves + self.trees


def plain(model: Readable, times: Sequence[float] = ()) -> PlainModel:
    """The plain form of a fitted estimator; `times` replace those of its training."""
    if getattr(model, "model_", None) is None:
        raise ParameterError("this estimator is not fitted; call fit first, or load a saved model.")
    score, schema = model.model_.score, model.schema_
    weight = weight_of_a_tree(model.model_)
    is_averaged = model.model_.output is not Output.LOG_MEAN
    base = _scale_values(score.base, weight) if is_averaged else score.base
    return PlainModel(
        name=type(model).__name__,
        grids=schema.grids,
        classes=schema.classes,
        base=base,
        curves=tuple(_of_curve(c, weight, schema.grids[c.feature].n_cells) for c in score.curves),
        trees=tuple(_of_tree(tree, weight) for tree in score.trees),
        clip=score.clip,
        link=LINKS.get(model.model_.output, OutputLink.NONE),
        survival=model.model_.survival,
        times=times_of(model, times),
        pairs=tuple(surface.columns if surface else () for surface in surfaces_of(model)),
    )


def times_of(model: Readable, times: Sequence[float]) -> tuple[float, ...]:
    """The given times or the model's own; survival models only."""
    curve, outcome = model.model_.survival, model.schema_.survival
    if curve is not None and outcome is not None:
        return outcome.within(times) or curve.edges
    if len(times):
        raise ParameterError("times are for models of the time to an event; leave them out.")
    return ()


LINKS = {
    Output.LOG_MEAN: OutputLink.SOFTMAX,
    Output.SOFTMAX: OutputLink.SOFTMAX,
    Output.SIGMOID: OutputLink.SIGMOID,
}


def _scale_values(values: Outputs, weight: float) -> Outputs:
    return tuple(weight * float(value) for value in values)


def _of_tree(tree: Tree, weight: float) -> PlainNode:
    """Built from the last node to the first: children come after their parent."""
    built: dict[int, PlainNode] = {}
    for q in reversed(range(len(tree.tests))):
        test = tree.tests[q]
        if test is None:
            built[q] = PlainLeaf(_scale_values(tuple(tree.value[q]), weight))
        else:
            yes, no = built.pop(int(tree.left[q])), built.pop(int(tree.right[q]))
            built[q] = PlainBranch(int(tree.feature[q]), test.left, yes, no)
    return built[0]


def _of_curve(curve: Curve, weight: float, n_cells: int) -> PlainNode:
    """A balanced tree over the runs of cells with equal curve values."""
    values = [_scale_values(row, weight) for row in curve.values]
    values += [(0.0,) * len(values[0])] * (n_cells - len(values))
    starts = [k for k in range(n_cells) if k == 0 or values[k] != values[k - 1]]
    return _balanced_tree(curve.feature, [(start, values[start]) for start in starts])


def _balanced_tree(column: int, runs: list[tuple[int, Outputs]]) -> PlainNode:
    if len(runs) == 1:
        return PlainLeaf(runs[0][1])
    middle = len(runs) // 2
    below = (1 << runs[middle][0]) - 1
    return PlainBranch(
        column, below, _balanced_tree(column, runs[:middle]), _balanced_tree(column, runs[middle:])
    )


def is_missing_in(grid: Grid, cells: int) -> bool:
    return bool(cells >> grid.missing & 1)


@dataclass(frozen=True, slots=True)
class Threshold:
    """Tests x < `below`, or with None whether x is known. `missing` routes missing values."""

    column: int
    below: float | None
    missing: bool
    yes: PlainNode
    no: PlainNode


def as_threshold(branch: PlainBranch, grid: Grid) -> Threshold | PlainNode:
    """A test of a number as one comparison, or as nested comparisons.

    Sets with holes repeat their two subtrees.
    """
    cells, missing = branch.cells, is_missing_in(grid, branch.cells)
    # cells of known values at which the set begins or ends
    turns = [k for k in range(1, grid.missing) if (cells >> k ^ cells >> (k - 1)) & 1]
    starts_yes = bool(cells & 1)
    sides = (branch.yes, branch.no) if starts_yes else (branch.no, branch.yes)
    if not turns and starts_yes == missing:  # every value goes the same way
        return sides[0]
    if len(turns) <= 1:
        below = grid.edges[turns[0] - 1] if turns else None
        return Threshold(branch.column, below, missing == starts_yes, *sides)
    return _nest_thresholds(branch, grid, turns)


def _nest_thresholds(branch: PlainBranch, grid: Grid, turns: list[int]) -> Threshold:
    """Splits at the middle turn: each half of the cells has fewer turns."""
    at = turns[len(turns) // 2]
    missing = branch.cells & (1 << grid.missing)
    low = branch.cells & ((1 << at) - 1)
    high = branch.cells >> at & ((1 << (grid.missing - at)) - 1)
    below = low | ((1 << grid.missing) - (1 << at) if low >> (at - 1) & 1 else 0) | missing
    above = high << at | ((1 << at) - 1 if high & 1 else 0) | missing
    sides = (PlainBranch(branch.column, cells, branch.yes, branch.no) for cells in (below, above))
    return Threshold(branch.column, grid.edges[at - 1], True, *sides)


def category_set(grid: Grid, cells: int) -> list[int]:
    """Codes of a set of cells, in order."""
    return [code for code in range(grid.n_cells) if cells >> code & 1]


def nodes_of(root: PlainNode) -> Iterator[PlainNode]:
    """All nodes in preorder."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, PlainBranch):
            waiting += [node.no, node.yes]


def spellings(grid: Grid) -> dict[str, int]:
    """Spellings of a listed category or a missing value in databases and data frames.

    Numbers or booleans converted to text may be spelled differently from the schema ("1.0",
    "true"); hedgerow treats them as equal, so consumers that compare texts get all of them.
    """
    codes = {text: grid.missing for text in sorted(MISSING_TEXTS)}
    if grid.kind is not ColumnKind.CATEGORICAL:
        return codes
    for code, value in enumerate(grid.values):
        codes.pop(value, None)
        for text in sorted({value, *other_spellings(value)}):
            if grid.category_code(token_of(text)) == code:
                codes[text] = code
    return codes


def other_spellings(value: str) -> set[str]:
    token = token_of(value)
    assert isinstance(token, str)
    truths = {"1": {"True", "true"}, "0": {"False", "false"}}
    whole = {f"{token}.0"} if token.lstrip("-").isdigit() else set()
    return {token} | whole | truths.get(token, set())


def unknown_code(grid: Grid) -> int:
    """The code of a text that the schema does not list."""
    return len(grid.values) if grid.other else grid.missing
