"""Curves and surfaces by private gradient descent: a few functions of every column and of pairs.

Each column has up to four orthonormal functions of its bins: its curve, then polynomials of the
rank. Pairs of the strongest columns have all products of theirs. The coefficients are learned in
rounds of one bounded sum each: gradients of the log-loss, each record's vector scaled to a common
norm. With three or more classes each class has its own coefficients. Steps are so short that early
stopping is close to the best linear filter of the noise, so no Hessian is needed. After a third of
the rounds the prior of each column and pair is estimated from the energy of its coefficients.

The result is curves, and one tree per surface: a table of two columns with one leaf per cell, so
that all code for trees also handles surfaces.

Shapes: B bins of a column, q functions, d channels, O outputs.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import combinations

import numpy as np

from hedgerow.methods.blocks.curves import FeatureEffects, Stacking, curve_of_bins, probabilities
from hedgerow.methods.blocks.flow import Flow, ask
from hedgerow.methods.blocks.newton_steps import MANY_CLASSES
from hedgerow.methods.blocks.private_bins import merge
from hedgerow.methods.blocks.sizes import QUERY, Scale
from hedgerow.methods.constants import constant
from hedgerow.models.losses import LogLoss, SoftmaxLoss, SquaredLoss
from hedgerow.models.model import Additive, Curve
from hedgerow.models.surfaces import ALONE, Basis
from hedgerow.models.tree import Tree
from hedgerow.models.uncertainty import NoisyTree
from hedgerow.privacy.bundles import DEFINITION, NAME, NUMBER, Size
from hedgerow.privacy.queries import SumQuery, SurfaceGradients, Whole
from hedgerow.privacy.queries.statistics import COARSER
from hedgerow.schema.arrays import FloatArray, IntArray, canonical
from hedgerow.schema.candidates import Grids
from hedgerow.schema.grids import ColumnKind
from hedgerow.schema.regions import EVERYONE, Split

FUNCTIONS = constant((4, 6), unit="functions of a column", evidence="numbers.md#0168")
"""Functions of a column: for classes, and for a number."""
LARGEST_FUNCTION = constant(2.5, unit="deviations of a function at most, either way")
PAIRED = constant(8, unit="strongest columns whose pairs are learned", evidence="boosting.md#0161")
GROUPS = constant((12, 24), unit="groups of a column in a surface", evidence="numbers.md#0168")
DECAY = constant(0.7, unit="prior deviation from function to function", evidence="boosting.md#0161")
PRIOR_OF_CURVES = constant(0.12, unit="deviation of a coefficient", evidence="boosting.md#0161")
PRIOR_OF_SURFACES = constant(0.1, unit="deviation of a coefficient", evidence="boosting.md#0161")
PRIOR_OF_CONSTANT = constant(0.3, unit="deviation of the constant", evidence="boosting.md#0161")
LENGTH = constant(0.4, unit="part of the squared prior norm", evidence="boosting.md#0161")
"""Squared norm to which records are scaled, so that most use their whole sensitivity."""
NOISE_KEPT = constant(0.25, unit="deviation of a coefficient", evidence="boosting.md#0161")
"""Noise deviation of a coefficient after all steps, in prior deviations."""
DESCENT_ROUNDS = constant((7, 14), unit="gradient steps", evidence="boosting.md#0161")
"""Steps before and after the priors are estimated anew."""
SHARED_DESCENT_ROUNDS = constant(
    ((5, 10), (4, 6)), unit="steps of several sites", evidence="numbers.md#0168"
)
"""The same over several sites: for classes, and for a number."""
FIRST_PART = constant(Fraction(7, 20), unit="part of the stage", evidence="boosting.md#0161")
STEEPEST = constant(0.12, unit="part of the records' variance", evidence="boosting.md#0161")
"""Curvature of the steepest direction, relative to all records in one direction."""
STEEPEST_OF_MANY = constant(0.06, unit="the same, many classes", evidence="classes.md#0163")
CLIPS = constant((0.5, 1.0), unit="norm of a gradient of many classes", evidence="classes.md#0163")
"""Norms from which records are scaled down: below a signal threshold, and above it."""
LONGER_CLIP_FROM = constant(2000.0, unit="signal", evidence="classes.md#0163")
PAIRS_OF_MANY_FROM = constant(200.0, unit="signal", evidence="classes.md#0163")
"""Signal below which models of three or more classes have curves only."""
TURNED = constant(4.0, unit="deviations of a gradient against the last one")
LEAST_PRIOR, MOST_PRIOR = constant((0.3, 3.0), unit="times the mean", evidence="boosting.md#0161")
PRIOR_POWER = constant(0.5, unit="power of the energy's root", evidence="boosting.md#0161")
MOMENTUM = constant(0.6, unit="part of the last step", evidence="numbers.md#0168")
"""Part of the last step that is taken again, for a number."""
Nodes = list[Split | tuple[float, ...]]
RADIUS = constant(2048, unit="integers")
"""Integer norm of a record, so large that rounding is below every noise."""


def largest(scale: Scale, outputs: int) -> Size:
    """All rounds of the descent, independent of the rows."""
    n_paired = min(PAIRED, scale.columns)
    pairs = math.comb(n_paired, 2)
    is_number = scale.schema.target is not None
    functions = FUNCTIONS[is_number]
    channels = 1 + functions * scale.columns + functions**2 * pairs
    function = NAME + DEFINITION + NUMBER * (2 + functions * scale.cells)
    terms = 4 * NUMBER * (scale.columns + pairs)
    basis = 2 * DEFINITION + (scale.columns + n_paired) * function + terms
    model = scale.model_bytes(0, 0, outputs)
    size = QUERY + NUMBER * channels * outputs + basis + model
    steps = Size.of_step(integers=channels * outputs, bytes=size) * sum(DESCENT_ROUNDS)
    # fewer over several sites; none if a study allows few rounds
    return replace(steps, rounds=sum(SHARED_DESCENT_ROUNDS[is_number]), fewest_rounds=0)


def tree_bytes(scale: Scale, outputs: int) -> int:
    """Bytes of the trees that represent surfaces."""
    pairs = math.comb(min(PAIRED, scale.columns), 2)
    groups = GROUPS[scale.schema.target is not None] + 2
    return pairs * scale.tree_bytes(groups**2, outputs, 2 * groups)


@dataclass(frozen=True)
class _Terms:
    """Functions and terms of a basis, with the prior deviation of each term's first channel."""

    functions: tuple[Curve, ...]
    terms: tuple[tuple[int, int], ...]
    priors: FloatArray
    pairs: tuple[tuple[FeatureGroups, FeatureGroups], ...]

    def basis(self) -> tuple[Basis, float]:
        """The basis in which records have norm `RADIUS`, and the integer that stands for 1."""
        total = PRIOR_OF_CONSTANT**2 + float((self.priors**2 * self._norms()).sum())
        scale = float(canonical(RADIUS / np.sqrt(LENGTH * total)))
        weights = tuple(canonical(scale * self.priors).tolist())
        constant_value = round(scale * PRIOR_OF_CONSTANT)
        return Basis(self.functions, self.terms, weights, constant_value), scale

    def _norms(self) -> FloatArray:
        """(T,) mean squared norm of each term's functions at a prior of 1."""
        own = [sum(DECAY ** (2 * k) for k in range(len(c.values[0]))) for c in self.functions]
        return np.array([own[a] * (1.0 if b == ALONE else own[b]) for a, b in self.terms])


@dataclass(frozen=True)
class Descent:
    """The coefficients (O, d) so far, in units of the basis, and their noise variance (d,)."""

    basis: Basis
    coefficients: FloatArray
    variance: FloatArray


@dataclass(frozen=True)
class Slope:
    """The loss of a descent, the resolution of its functions, and the length of its steps."""

    loss: LogLoss | SoftmaxLoss | SquaredLoss
    curvature: float
    """The curvature of the steepest direction."""
    noise_kept: float = NOISE_KEPT
    clip: float = 1.0
    paired: int = PAIRED
    unit: float = 1.0
    """The score that stands for a gradient of 1."""
    momentum: float = 0.0

    @property
    def outputs(self) -> int:
        return self.loss.outputs

    @property
    def is_number(self) -> bool:
        return isinstance(self.loss, SquaredLoss)

    @staticmethod
    def of_number(loss: SquaredLoss, records: float) -> Slope:
        """Residuals are learned in units of their clip."""
        return Slope(loss, STEEPEST * records, unit=loss.clip, momentum=MOMENTUM)

    @staticmethod
    def of_classes(effects: FeatureEffects, strength: float) -> Slope:
        """From the classes' probabilities and the signal; more noise is left in many classes."""
        base, records = effects.base, effects.records
        chances = probabilities(base[None])
        spread = records * float((chances * (1.0 - chances)).mean())
        if len(base) == 1:
            return Slope(LogLoss(), STEEPEST * spread)
        more = len(base) / MANY_CLASSES
        return Slope(
            SoftmaxLoss(len(base)),
            STEEPEST_OF_MANY * spread,
            float(NOISE_KEPT * (2.0 * np.sqrt(np.sqrt(more)) if more >= 1.0 else 1.0)),
            CLIPS[strength >= LONGER_CLIP_FROM],
            PAIRED if strength >= PAIRS_OF_MANY_FROM else 0,
        )


def orthonormal_functions(
    values: FloatArray, mass: FloatArray, is_ordered: bool, most: int = FUNCTIONS[0]
) -> FloatArray:
    """(B, q) the curve and polynomials of the rank, each smaller than the one before it."""
    part = np.maximum(mass, 1e-9) / np.maximum(mass, 1e-9).sum()
    order = np.arange(len(values)) if is_ordered else np.argsort(values, kind="stable")
    rank = np.empty(len(values))
    rank[order] = 2.0 * (np.cumsum(part[order]) - 0.5 * part[order]) - 1.0
    earlier, functions = [np.ones(len(values))], list[FloatArray]()
    for function in (values, *(rank**k for k in range(1, most + 1))):
        for _ in range(2):
            for previous in earlier:
                function = function - (part @ (function * previous)) * previous
        size = float(np.sqrt(part @ function**2))
        if size > 1e-3 and len(functions) < most:
            earlier.append(function / size)
            limit = LARGEST_FUNCTION
            shrinkage = DECAY ** len(functions)
            functions.append(shrinkage * np.clip(function / size, -limit, limit))
    return canonical(np.stack(functions or [np.zeros(len(values))], axis=1))


@dataclass(frozen=True)
class FeatureGroups:
    """A feature's bins in a few groups of about equal noisy mass."""

    feature: int
    mass: FloatArray  # (bins,)
    groups: IntArray  # (bins,)

    @property
    def n_groups(self) -> int:
        return int(self.groups.max()) + 1

    @property
    def rows(self) -> FloatArray:
        """(groups,) noisy records."""
        return np.asarray(np.bincount(self.groups, self.mass, self.n_groups))


def strongest(
    grids: Grids,
    effects: FeatureEffects,
    values: Sequence[FloatArray],
    many: int,
    n_groups: int,
) -> list[FeatureGroups]:
    """The features with the strongest curves; `values` are the curves (bins, O) of the model.

    Numeric features keep the order of their bins, `missing` last; categories follow the main
    direction of their curve.
    """
    strengths = [
        float((mass @ v**2).sum() / max(mass.sum(), 1.0))
        for mass, v in zip(effects.masses, values, strict=True)
    ]
    groupings = []
    for place in np.argsort(-np.array(strengths), kind="stable")[:many].tolist():
        feature, mass = effects.features[place], effects.masses[place]
        order = np.arange(len(mass))
        if grids.grid(feature).kind is not ColumnKind.NUMERIC:
            direction = np.linalg.svd(values[place], full_matrices=False)[2][0]
            order = np.argsort(values[place] @ direction, kind="stable")
        groups = np.empty(len(order), np.int64)
        groups[order] = merge(mass[order], max(float(mass.sum()) / n_groups, 1e-9))
        groupings.append(FeatureGroups(feature, mass, groups))
    return [column for column in groupings if column.n_groups > 1]


def table_tree(grids: Grids, features: Sequence[FeatureGroups]) -> Tree:
    """A tree with one leaf per cell of the features' table; the last feature varies fastest."""

    def balanced(column: FeatureGroups, low: int, high: int, leaf: Nodes) -> Nodes:
        """A balanced tree over the groups `low` to `high`, each of which ends in `leaf`."""
        if low == high:
            return leaf
        middle = (low + high) // 2
        test = grids.split(column.feature, column.groups <= middle)
        left = balanced(column, low, middle, leaf)
        return [test, *left, *balanced(column, middle + 1, high, leaf)]

    nodes: Nodes = [()]
    for column in reversed(features):
        nodes = balanced(column, 0, column.n_groups - 1, nodes)
    return Tree.of_preorder(grids.schema.names, nodes)


def _terms(effects: FeatureEffects, stacking: Stacking, grids: Grids, slope: Slope) -> _Terms:
    most, groups = FUNCTIONS[slope.is_number], GROUPS[slope.is_number]
    of_model = [w * v for w, v in zip(stacking.weights, effects.values, strict=True)]
    spreads = np.abs(stacking.weights) * np.sqrt(effects.strengths) + 1e-6
    importance = 0.5 + 0.5 * np.sqrt(spreads / spreads.mean())
    functions = [_of_bins(grids, effects, place, most) for place in range(len(effects.features))]
    terms = [(place, ALONE) for place in range(len(functions))]
    priors = (PRIOR_OF_CURVES * importance).tolist()
    first, columns = len(functions), strongest(grids, effects, of_model, slope.paired, groups)
    places = [effects.features.index(column.feature) for column in columns]
    for column, place in zip(columns, places, strict=True):
        functions.append(_of_groups(grids, column, _direction(effects, place), most))
    pairs = list(combinations(range(len(columns)), 2))
    for a, b in pairs:
        terms.append((first + a, first + b))
        both = importance[places[a]] * importance[places[b]]
        priors.append(PRIOR_OF_SURFACES * float(np.sqrt(both)))
    tables = tuple((columns[a], columns[b]) for a, b in pairs)
    return _Terms(tuple(functions), tuple(terms), np.array(priors), tables)


def _of_bins(grids: Grids, effects: FeatureEffects, place: int, most: int) -> Curve:
    feature, values = effects.features[place], _direction(effects, place)
    is_ordered = grids.grid(feature).kind is ColumnKind.NUMERIC
    functions = orthonormal_functions(values, effects.masses[place], is_ordered, most)
    return curve_of_bins(grids, feature, functions)


def _direction(effects: FeatureEffects, place: int) -> FloatArray:
    """(B,) the curve; for many classes, the direction in which their curves differ most."""
    values, mass = effects.values[place], effects.masses[place]
    if values.shape[1] == 1:
        return values[:, 0]
    by_mass = np.sqrt(np.maximum(mass, 1e-9))[:, None] * values
    return np.asarray(values @ np.linalg.svd(by_mass, full_matrices=False)[2][0])


def _of_groups(grids: Grids, column: FeatureGroups, values: FloatArray, most: int) -> Curve:
    mass = np.maximum(column.mass, 1e-9)
    total = np.asarray(np.bincount(column.groups, mass), np.float64)
    means = np.bincount(column.groups, mass * values) / total
    functions = orthonormal_functions(means, total, True, most)  # ordered by the curve
    return curve_of_bins(grids, column.feature, functions[column.groups])


def descend_gradient(
    begin: Descent, scale: float, start: Additive, rounds: int, fraction: Fraction, slope: Slope
) -> Flow[Descent]:
    """Gradient steps of equal length, one round each.

    With s the noise of a gradient and T steps, a step of c / (sqrt(T) s) leaves noise c in a
    coefficient. Steps are shorter where the curvature requires it. A gradient that reverses the
    last one by more than noise shows how much too long the step was (a secant).
    """
    basis, coefficients = begin.basis, begin.coefficients
    variance, last, short = begin.variance, np.zeros(coefficients.shape), 1.0
    steps = np.zeros(coefficients.shape)
    for _ in range(rounds):
        at = tuple(coefficients.ravel().tolist())
        statistic = SurfaceGradients(basis, start, at, RADIUS, slope.loss, slope.clip)
        answer = yield from ask(SumQuery(EVERYONE, statistic, Whole(), fraction / rounds))
        gradient = slope.clip * COARSER * answer.values[0, 0].reshape(last.shape)
        noise = slope.clip * COARSER * np.sqrt(answer.variance)
        turn, length = float(gradient.ravel() @ last.ravel()), float(np.linalg.norm(last))
        if turn < -TURNED * noise * length:
            short /= 1.0 - turn / length**2
        of_noise = np.sqrt(rounds) * noise * scale / slope.noise_kept / (1.0 - slope.momentum)
        step = short * slope.unit / max(of_noise, slope.curvature * RADIUS**2)
        steps = slope.momentum * steps - step * gradient
        coefficients = canonical(coefficients + steps)
        variance = variance + (step * noise / (1.0 - slope.momentum)) ** 2
        last = gradient
    return Descent(basis, coefficients, variance)


def estimated_priors(terms: _Terms, descent: Descent, scale: float) -> FloatArray:
    """(T,) priors from the energy of each term's coefficients beyond the noise, per kind."""
    ends = np.cumsum(descent.basis.widths)
    excess = ((descent.coefficients**2).mean(axis=0) - descent.variance) * scale**2
    noise = float(descent.variance.mean()) * scale**2
    energy = np.array([part.mean() for part in np.split(excess, ends[:-1])[1:]])
    priors, is_pair = terms.priors.copy(), np.array([b != ALONE for _, b in terms.terms])
    for kind in (is_pair, ~is_pair):
        mean = float(energy[kind].mean()) if kind.any() else 0.0
        if mean > 0.0:
            ratio = energy[kind] / max(mean, 0.1 * noise)
            ratio = np.clip(ratio, LEAST_PRIOR**2, MOST_PRIOR**2)
            priors[kind] *= ratio ** (0.5 * PRIOR_POWER)
    return priors


def learn_surfaces(
    effects: FeatureEffects,
    stacking: Stacking,
    grids: Grids,
    fraction: Fraction,
    is_shared: bool,
    slope: Slope,
    slope_at: Callable[[Additive], Flow[Slope]] | None = None,
) -> Flow[Surfaces]:
    """Curves and surfaces on top of the weighted curves.

    `slope_at` asks for another slope when the priors are estimated.
    """
    start, noise = effects.start(grids, stacking), effects.noise(grids, stacking)
    terms = _terms(effects, stacking, grids, slope)
    basis, scale = terms.basis()
    zeros = np.zeros((slope.outputs, basis.channels))
    first, second = SHARED_DESCENT_ROUNDS[slope.is_number] if is_shared else DESCENT_ROUNDS
    begin = Descent(basis, zeros, zeros[0])
    parts = fraction * FIRST_PART, fraction * (1 - FIRST_PART)
    descent = yield from descend_gradient(begin, scale, start, first, parts[0], slope)
    if slope_at:
        slope = yield from slope_at(Surfaces(descent, terms, start, noise, grids).score())
    terms = replace(terms, priors=canonical(estimated_priors(terms, descent, scale)))
    basis, scale = terms.basis()
    again = _change_basis(descent, basis)
    descent = yield from descend_gradient(again, scale, start, second, parts[1], slope)
    return Surfaces(descent, terms, start, noise, grids)


def _change_basis(descent: Descent, basis: Basis) -> Descent:
    """The same functions in units of another basis; rounding differences become a new start."""
    old, new = descent.basis, basis
    before = np.array([old.constant, *old.weights])
    after = np.maximum(np.array([new.constant, *new.weights]), 1e-12)
    ratio = np.repeat(before / after, basis.widths)
    coefficients = canonical(descent.coefficients * ratio)
    return Descent(basis, coefficients, descent.variance * ratio**2)


@dataclass(frozen=True)
class Surfaces:
    """The result of the descent, on top of `start`: curves by cell, and trees."""

    descent: Descent
    terms: _Terms
    start: Additive
    start_noise: list[FloatArray]
    grids: Grids

    def score(self) -> Additive:
        values = self._values
        base = tuple(canonical(np.array(self.start.base) + values[0][0]).tolist())
        curves = []
        for curve, own in zip(self.start.curves, self._of_curves(values), strict=True):
            rows = canonical(np.array(curve.values) + own).tolist()
            curves.append(replace(curve, values=tuple(map(tuple, rows))))
        return Additive(base, tuple(curves)).plus(*(noisy.tree for noisy in self.trees))

    def curve_noise(self) -> list[FloatArray]:
        """(cells, O) noise deviations of each curve, those of the start among them."""
        pairs = zip(self.start_noise, self._of_curves(self._noise), strict=True)
        return [np.hypot(before, own) for before, own in pairs]

    @cached_property
    def trees(self) -> list[NoisyTree]:
        many = len(self.start.curves)
        cells = zip(self._values[1 + many :], self._noise[1 + many :], strict=True)
        out = []
        terms = zip(self.terms.terms[many:], self.terms.pairs, cells, strict=True)
        for (a, b), (first, second), (values, noise) in terms:
            rows, columns = self._of_groups(a, first), self._of_groups(b, second)
            width = int(self.descent.basis.groups[b].max()) + 1
            places = (width * rows[:, None] + columns[None, :]).ravel()
            tree = table_tree(self.grids, (first, second)).with_values(canonical(values[places]))
            out.append(NoisyTree(tree, noise[places]))
        return out

    @cached_property
    def _values(self) -> list[FloatArray]:
        """(cells, O) the values of each term."""
        outputs = [self.descent.basis.values(own) for own in self.descent.coefficients]
        return [np.stack(term, axis=1) for term in zip(*outputs, strict=True)]

    @cached_property
    def _noise(self) -> list[FloatArray]:
        """(cells, O) per term; the noise of coefficients is independent to first order."""
        basis, outputs = self.descent.basis, np.ones((1, len(self.descent.coefficients)))
        parts = np.split(self.descent.variance, np.cumsum(basis.widths)[:-1])
        pairs = zip(basis.tables, parts, strict=True)
        return [np.sqrt((table**2.0) @ part)[:, None] * outputs for table, part in pairs]

    def _of_curves(self, terms: list[FloatArray]) -> list[FloatArray]:
        """(cells, O) the terms of single columns, by cell."""
        return [
            terms[1 + place][self._groups(place)][: len(curve.values)]
            for place, curve in enumerate(self.start.curves)
        ]

    def _groups(self, place: int) -> IntArray:
        return np.asarray(self.descent.basis.groups[place], np.int64)

    def _of_groups(self, place: int, column: FeatureGroups) -> IntArray:
        """The basis's index of each group of a column."""
        cells = column.groups[np.asarray(self.grids.binning.bins[column.feature])]
        firsts = [int(np.flatnonzero(cells == g)[0]) for g in range(column.n_groups)]
        return self._groups(place)[firsts]
