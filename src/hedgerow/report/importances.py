"""Explanations of any model: feature importance, feature effects and single predictions.

Pure functions of the released model. No row and no further release is needed, so nothing is
charged. A model is `base + curves + trees` (models/model.py), or the mean of trees.

How its pieces are weighed is said in report/weighing.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from hedgerow.models.model import Curve
from hedgerow.report.view import DEVIATIONS, readable
from hedgerow.report.weighing import Parts, Readable, WeightedTree, parts_of_model
from hedgerow.schema.arrays import Codes, FloatArray
from hedgerow.schema.grids import ColumnKind, Grid, short_number

SPIKE = 1e-5
"""Fraction of the range below which a cell stands for the lowest value alone."""


@dataclass(frozen=True)
class FeatureEffect:
    """The effect of a column on the raw score, cell by cell, averaged over the other columns.

    `words[k]` describes the values of bin k; `values` is (K, O), centered; O raw outputs: one for
    two classes (log-odds of the second) or regression, else one per class. Bins are runs of cells
    that the model treats alike, and `cells[k]` is the first cell of bin k. The last bin holds
    missing values.

    `deviations` is (K, O): standard deviations of the privacy noise in `values`, to first order in
    the noise of leaves and curves (models/uncertainty.py), with the model's tests, bins and weights
    taken as fixed. `band` extends two of them to either side. In about 95 % of cases or more it
    covers the average of the same model over the noise; it accounts neither for other records nor
    for the bias of smoothing.
    """

    feature: str
    words: tuple[str, ...]
    cells: tuple[int, ...]
    values: FloatArray
    deviations: FloatArray

    @property
    def band(self) -> tuple[FloatArray, FloatArray]:
        """Lower and upper end, (K, O) each."""
        reach = DEVIATIONS * self.deviations
        return self.values - reach, self.values + reach

    def _repr_html_(self) -> str:
        """A bar per bin, for notebooks; one table per class if there are several."""
        tables = []
        for k, (values, noise) in enumerate(zip(self.values.T, self.deviations.T, strict=True)):
            title = self.feature if len(self.values.T) == 1 else f"{self.feature}, class {k + 1}"
            tables.append(bars(title, list(zip(self.words, values, noise, strict=True))))
        return "".join(tables)


@dataclass(frozen=True)
class PairEffect:
    """The joint effect of two columns on the raw score, beyond the effect of each: a surface.

    `values` and `deviations` are (K, M, O): bins of the first column by bins of the second, named
    by `words` and `cells` as in `FeatureEffect`. Trees of more columns are not included.
    """

    features: tuple[str, ...]
    words: tuple[tuple[str, ...], ...]
    cells: tuple[tuple[int, ...], ...]
    values: FloatArray
    deviations: FloatArray


@dataclass(frozen=True)
class Contributions:
    """raw score = base + contributions: `base` is (O,), `values` is (n, F + P, O), pairs last."""

    features: tuple[str, ...]
    pairs: tuple[tuple[int, ...], ...]
    base: FloatArray
    values: FloatArray


class Importances(dict[str, float]):
    """Importances by column, largest first, and the deviations of the noise in them."""

    model: Readable

    @property
    def deviations(self) -> dict[str, float]:
        noise = importance_deviations(self.model).tolist()
        return dict(zip(self.model.schema_.names, noise, strict=True))

    def _repr_html_(self) -> str:
        noise = self.deviations
        rows = [(name, part, noise[name]) for name, part in self.items() if part > 0.0]
        return bars("Feature importance", rows)


def bars(title: str, rows: Sequence[tuple[str, float, float]]) -> str:
    """A table for notebooks: value, two deviations of its noise, a bar with that band."""
    reaches = [(value - DEVIATIONS * noise, value + DEVIATIONS * noise) for _, value, noise in rows]
    low, high = min([0.0, *(a for a, _ in reaches)]), max([1e-12, *(b for _, b in reaches)])
    lines = []
    for (words, value, noise), reach in zip(rows, reaches, strict=True):
        at = [round(200.0 * (x - low) / (high - low), 1) for x in (0.0, value, *reach)]
        lines.append(
            f'<tr><td style="text-align:left">{escape(words)}</td><td>{value:.3g}</td>'
            f"<td>± {DEVIATIONS * noise:.2g}</td>"
            f'<td><svg width="200" height="14" aria-hidden="true"><rect x="{min(at[:2])}" y="3" '
            f'width="{abs(at[1] - at[0]):.1f}" height="8" fill="#4477AA"/>'
            f'<path d="M{at[2]} 7H{at[3]}" stroke="#EE6677" stroke-width="2"/></svg></td></tr>'
        )
    return f"<table><caption>{escape(title)}</caption>{''.join(lines)}</table>"


def importances(model: Readable) -> Importances:
    """The fraction of the score's variation due to each column, largest first; the sum is 1.

    A test contributes p (1 - p) times the squared difference of its two sides, weighted by the
    probability of reaching it; a curve its variance over its bins; a surface half of its variance
    to either column. All are 0 for a constant model.
    """
    share, _ = importance_parts(model)
    order, names = np.argsort(-share, kind="stable"), model.schema_.names
    by_name = Importances({names[j]: float(share[j]) for j in order})
    by_name.model = model
    return by_name


def pair_importances(model: Readable) -> dict[tuple[str, ...], tuple[float, float]]:
    """The importance of each pair's surface, largest first, and its noise deviation."""
    parts, names = parts_of_model(model), model.schema_.names
    terms, view = _variations(model, parts), np.eye(len(names) + len(parts.surfaces))
    shares, noise = terms / (terms.sum() or 1.0), _deviations(model, parts, view)
    order = len(names) + np.argsort(-terms[len(names) :], kind="stable")
    pairs = {k: tuple(names[j] for j in parts.surfaces[k - len(names)].columns) for k in order}
    return {pair: (float(shares[k]), float(noise[k])) for k, pair in pairs.items()}


def importance_parts(model: Readable) -> tuple[FloatArray, float]:
    """(F,) the importance of every column of the schema, and the total variation."""
    parts = parts_of_model(model)
    terms = _variations(model, parts)
    total = float(terms.sum())
    return terms @ _by_column(model, parts) / (total or 1.0), total


def _variations(model: Readable, parts: Parts) -> FloatArray:
    """(F + P,) variations of columns, then of surfaces."""
    variations = np.zeros(len(model.schema_.features))
    for curve in parts.curves:
        table, weights = by_cell(model, curve)
        variations[curve.feature] += float((weights @ (table - weights @ table) ** 2).sum())
    for weighted_tree in parts.trees:
        tree, mean = weighted_tree.tree, weighted_tree.mean
        chance = np.zeros(len(tree.tests))
        chance[0] = 1.0
        for q in np.flatnonzero(tree.feature >= 0):  # parents come before their children
            left, right, part = tree.left[q], tree.right[q], weighted_tree.left_part[q]
            chance[left], chance[right] = chance[q] * part, chance[q] * (1.0 - part)
            apart = float(((mean[left] - mean[right]) ** 2).sum())
            variations[tree.feature[q]] += chance[q] * part * (1.0 - part) * apart
    return np.array([*variations, *(surface.variation for surface in parts.surfaces)])


def _by_column(model: Readable, parts: Parts) -> FloatArray:
    """(F + P, F): half of a surface goes to either column."""
    out = np.eye(len(model.schema_.features) + len(parts.surfaces), len(model.schema_.features))
    for half, surface in zip(out[out.shape[1] :], parts.surfaces, strict=True):
        half[list(surface.columns)] = 0.5
    return out


def pair_effect(model: Readable, first: str, second: str) -> PairEffect:
    """The surface of two columns, with its noise; zero if the model has none."""
    pair = model.schema_.index(first), model.schema_.index(second)
    grids = [model.schema_.grids[j] for j in pair]
    values = deviations = np.zeros((*(grid.n_cells for grid in grids), 1))
    for surface in parts_of_model(model).surfaces:
        if set(surface.columns) == set(pair):
            order = (0, 1, 2) if surface.columns == pair else (1, 0, 2)
            values, deviations = surface.table.transpose(order), surface.deviations.transpose(order)
    tables = [values.swapaxes(0, axis).reshape(values.shape[axis], -1) for axis in (0, 1)]
    runs = [_runs_of_equals(t, grid.missing) for t, grid in zip(tables, grids, strict=True)]
    cells = tuple(tuple(begin for begin, _ in bins) for bins in runs)
    words = tuple(tuple(_bin_words(g, b) for b in r) for g, r in zip(grids, runs, strict=True))
    at = np.ix_(*cells)
    return PairEffect((first, second), words, cells, values[at], deviations[at])


def feature_effect(model: Readable, feature: str) -> FeatureEffect:
    """The curve of one column, with its noise: partial dependence by the model's weights."""
    parts, schema = parts_of_model(model), model.schema_
    at = schema.index(feature)
    grid = schema.grids[at]
    total = np.zeros((grid.n_cells, model.model_.score.outputs))
    for curve in parts.curves:
        if curve.feature == at:
            total += curve.table[: grid.n_cells]
    for tree in parts.trees:
        total += tree.dependence(at, grid.n_cells)
    bins = _runs_of_equals(total, grid.missing)
    first, weights = [first for first, _ in bins], _weights(model, at, total)
    values = total[first] - weights @ total
    noise = _noise_of_shape(model, parts, at, first, np.add.reduceat(weights, first))
    deviations = np.hypot(noise, model.model_.noise.common * values)
    words = tuple(_bin_words(grid, b) for b in bins)
    return FeatureEffect(feature, words, tuple(first), values, deviations)


def _noise_of_shape(
    model: Readable, parts: Parts, column: int, cells: list[int], weights: FloatArray
) -> FloatArray:
    """(K, O) deviations of the centered sum at some cells; `weights` are those of its bins."""
    variance = np.zeros((len(cells), model.model_.score.outputs))
    for curve, noise in zip(parts.curves, model.model_.noise.curves, strict=False):
        if curve.feature == column:
            variance += np.array(noise).T[cells] ** 2
    for tree in parts.trees:
        if tree.deviations is not None and (tree.tree.feature == column).any():
            of_leaf = tree.parts_of_leaves(column, cells)  # (L, K)
            variance += (of_leaf - (of_leaf @ weights)[:, None]).T ** 2 @ tree.deviations**2
    return np.sqrt(variance)


def contributions(model: Readable, codes: Codes) -> Contributions:
    """Contributions along each record's path: a test gets the change of the mean below it.

    For one tree this is the decision path with numbers (Saabas 2014); curves contribute their
    values less their means, surfaces their values. Base and contributions add up to the score
    behind the prediction, except for models that clip their score after every tree.
    """
    parts, schema = parts_of_model(model), model.schema_
    pairs, many = tuple(surface.columns for surface in parts.surfaces), len(schema.features)
    values = np.zeros((codes.shape[1], many + len(pairs), model.model_.score.outputs))
    base = parts.base.copy()
    for curve in parts.curves:
        mean = mean_of_curve(model, curve)
        base += mean
        values[:, curve.feature] += curve.at(codes) - mean
    for tree in parts.trees:
        base += tree.mean[0]
        tree.credit(codes, values)
    for k, surface in enumerate(parts.surfaces, many):
        values[:, k] = surface.table[codes[surface.columns[0]], codes[surface.columns[1]]]
    return Contributions(schema.names, pairs, base, values)


def by_cell(model: Readable, curve: Curve) -> tuple[FloatArray, FloatArray]:
    """(cells, O) the values of a curve, and (cells,) the fraction of records in each."""
    table = curve.table[: model.schema_.grids[curve.feature].n_cells]
    return table, _weights(model, curve.feature, table)


def mean_of_curve(model: Readable, curve: Curve) -> FloatArray:
    """(O,) the mean of a curve over records, to which contributions are relative."""
    table, weights = by_cell(model, curve)
    return np.asarray(weights @ table)


def _weights(model: Readable, column: int, table: FloatArray) -> FloatArray:
    """(cells,) weights by noisy counts; without them, runs of equal cells count equally."""
    counts = model.model_.parts[column] if model.model_.parts else ()
    if any(counts):
        return np.asarray(counts) / sum(counts)
    out = np.zeros(len(table))
    runs = _runs_of_equals(table, model.schema_.grids[column].missing)[:-1]
    for first, last in runs:
        out[first : last + 1] = 1.0 / len(runs) / (last + 1 - first)
    return out


def _runs_of_equals(table: FloatArray, missing: int) -> list[tuple[int, int]]:
    """First and last cell of each run of equal rows; the missing cell is a run of its own."""
    starts = [k for k in range(missing) if k == 0 or not np.array_equal(table[k], table[k - 1])]
    ends = [*(start - 1 for start in starts[1:]), missing - 1]
    return [*zip(starts, ends, strict=True), (missing, missing)]


def words_at(model: Readable, column: int, cell: int) -> str:
    """The value of a cell in words, with adjacent cells that a curve treats equally."""
    grid = model.schema_.grids[column]
    for curve in model.model_.score.curves:
        if curve.feature == column:
            bins = _runs_of_equals(curve.table[: grid.n_cells], grid.missing)
            return _bin_words(grid, next(b for b in bins if b[0] <= cell <= b[1]))
    return _bin_words(grid, (cell, cell))


def _bin_words(grid: Grid, cells: tuple[int, int]) -> str:
    first, last = cells
    is_lowest = grid.kind is ColumnKind.NUMERIC and first == 0 and last < len(grid.edges)
    if is_lowest and grid.edges[last] - grid.low < SPIKE * (grid.high - grid.low):
        return f"{grid.feature} about {short_number(grid.low)}"
    return readable(grid.describe(((1 << (last + 1)) - 1) ^ ((1 << first) - 1)))


# Standard deviations of the noise in importances. An importance is a fraction of the score's
# variation, V_j / V. Both are squares of noisy numbers; to first order dV_j = sum over leaves of 2
# (probability of the leaf) (what column j added on the way there) d(leaf), since the derivative of
# a variation along a path is what the path credits. Noise of leaves is independent. Noise of one
# curve or surface is not, and is assumed to move all its cells in the direction that moves V_j
# most, which is conservative. Noise alone makes every tested column look slightly important: a
# column whose importance is not well above its deviation may be pure noise.


def importance_deviations(model: Readable) -> FloatArray:
    """(F,) standard deviations of the noise in the importances, in the order of the schema."""
    parts = parts_of_model(model)
    return _deviations(model, parts, _by_column(model, parts))


def _deviations(model: Readable, parts: Parts, view: FloatArray) -> FloatArray:
    """Deviations of fractions of the variation; `view` is (F + P, fractions)."""
    terms = _variations(model, parts)
    total = float(terms.sum()) or 1.0
    share, variance = terms @ view / total, np.zeros(view.shape[1])
    for moves in _moves(model, parts, len(terms)):  # (sources, F + P): how far each moves each term
        of_shares = (moves @ view - moves.sum(axis=1, keepdims=True) * share) / total
        variance += (of_shares**2).sum(axis=0)
    return np.asarray(np.minimum(np.sqrt(variance), 0.5))


def _moves(model: Readable, parts: Parts, n_terms: int) -> Iterator[FloatArray]:
    for curve, noise in zip(parts.curves, model.model_.noise.curves, strict=False):
        table, weights = by_cell(model, curve)
        slope = 2.0 * weights[:, None] * (table - weights @ table)
        moves = np.zeros((table.shape[1], n_terms))
        moves[:, curve.feature] = (np.abs(slope) * np.array(noise).T).sum(axis=0)
        yield moves
    for k, surface in enumerate(parts.surfaces, len(model.schema_.features)):
        moves = np.zeros((1, n_terms))
        sizes = np.abs(surface.table) * surface.deviations
        moves[0, k] = 2.0 * np.einsum("a,b,abo->", *surface.weights, sizes)
        yield moves
    for tree in parts.trees:
        if tree.deviations is not None:
            yield _moves_of_tree(tree, n_terms)


def _moves_of_tree(weighted_tree: WeightedTree, n_columns: int) -> FloatArray:
    """(leaves and outputs, F): 2 x probability x credit x deviation."""
    tree, n = weighted_tree.tree, len(weighted_tree.tree.tests)
    chance, credit = np.ones(n), np.zeros((n, n_columns, tree.n_outputs))
    for q, test in enumerate(tree.tests):  # parents come before their children
        if test is None:
            continue
        part_left = weighted_tree.left_part[q]
        for child, part in ((tree.left[q], part_left), (tree.right[q], 1.0 - part_left)):
            chance[child], credit[child] = chance[q] * part, credit[q]
            credit[child, tree.feature[q]] += weighted_tree.mean[child] - weighted_tree.mean[q]
    ends = tree.leaf >= 0
    assert weighted_tree.deviations is not None
    slope = 2.0 * chance[ends, None, None] * credit[ends]  # (L, F, O)
    moves = slope * weighted_tree.deviations[:, None, :]
    return np.asarray(np.moveaxis(moves, 1, 2).reshape(-1, n_columns))
