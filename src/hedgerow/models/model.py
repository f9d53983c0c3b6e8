"""The trained model: trees and curves that add up, or trees that vote.

Independent of how it was trained. A model reads cell codes (F, n), never raw values.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Any

import numpy as np

from hedgerow.models.losses import sigmoid, softmax
from hedgerow.models.packing import PackedTrees, pack
from hedgerow.models.survival import SurvivalCurve
from hedgerow.models.tree import Tree, trees_from_dict, trees_to_dict, without_caches
from hedgerow.models.uncertainty import ScoreNoise, alike_runs, spread_over_cells
from hedgerow.schema.arrays import Codes, FloatArray, IntArray


@dataclass(frozen=True)
class Curve:
    """The contribution of one feature by its cell: `values[cell]` is a vector of O outputs."""

    feature: int
    values: tuple[tuple[float, ...], ...]

    @cached_property
    def table(self) -> FloatArray:
        """(256, O); cells beyond the grid contribute nothing."""
        out = np.zeros((256, len(self.values[0])))
        out[: len(self.values)] = self.values
        return out

    def at(self, codes: Codes) -> FloatArray:
        return np.asarray(self.table[codes[self.feature]])

    __getstate__ = without_caches


ROWS_LOOKED_UP = 1 << 14
"""Rows whose curves are looked up at a time: few enough to stay in the cache."""


@dataclass(frozen=True)
class Additive:
    """raw(x) = base + curves + trees; with `clip`, clipped after every tree."""

    base: tuple[float, ...]
    curves: tuple[Curve, ...] = ()
    trees: tuple[Tree, ...] = ()
    clip: tuple[float, float] | None = None

    @property
    def outputs(self) -> int:
        return len(self.base)

    @cached_property
    def digest(self) -> str:
        """Hash of the content: models with the same digest predict alike."""
        h = hashlib.sha256(repr((self.base, self.curves, self.clip)).encode())
        for tree in self.trees:
            h.update(tree.digest.encode())
        return h.hexdigest()

    @cached_property
    def packed(self) -> PackedTrees:
        """The trees as the kernels read them, laid out once per model."""
        return pack(self.trees)

    def plus(self, *trees: Tree) -> Additive:
        return replace(self, trees=self.trees + trees)

    def start(self, codes: Codes) -> FloatArray:
        """Base and curves alone: (n, O)."""
        if codes.shape[1] == 1:
            return self._start_of_one(codes[:, 0])
        raw = np.empty((codes.shape[1], self.outputs))
        for lo in range(0, len(raw), ROWS_LOOKED_UP):
            part = raw[lo : lo + ROWS_LOOKED_UP]
            part[:] = self.base
            for curve in self.curves:
                part += curve.at(codes[:, lo : lo + ROWS_LOOKED_UP])
        return raw

    def _start_of_one(self, cells: Codes) -> FloatArray:
        """One row; its curves are added in the same order, to the same bits."""
        features, tables = self._stacked_curves
        terms = tables[np.arange(len(tables)), cells[features]]
        return np.add.accumulate([self.base, *terms], dtype=np.float64)[-1:]

    @cached_property
    def _stacked_curves(self) -> tuple[IntArray, FloatArray]:
        """(K,) features and (K, 256, O) tables."""
        tables = [curve.table for curve in self.curves]
        shaped = np.array(tables).reshape(-1, 256, self.outputs)
        return np.array([curve.feature for curve in self.curves], np.int64), shaped

    def raw(self, codes: Codes) -> FloatArray:
        raw = self.start(codes)
        for tree in self.trees:
            raw += tree.predict(codes)
            if self.clip is not None:
                np.clip(raw, *self.clip, out=raw)
        return raw

    def to_dict(self) -> dict[str, Any]:
        """Plain values, exact to the last bit; shared tests and repeated cells appear once."""
        return {
            "base": list(self.base),
            "curves": [{"feature": c.feature, **alike_runs(c.values)} for c in self.curves],
            **trees_to_dict(self.trees),
            "clip": self.clip,
        }

    __getstate__ = without_caches

    @staticmethod
    def from_dict(d: dict[str, Any]) -> Additive:
        curves = tuple(Curve(c["feature"], _cells(c)) for c in d["curves"])
        trees = trees_from_dict(d)
        clip = None if d["clip"] is None else (float(d["clip"][0]), float(d["clip"][1]))
        return Additive(tuple(float(b) for b in d["base"]), curves, trees, clip)


def _cells(runs: dict[str, Any]) -> tuple[tuple[float, ...], ...]:
    outputs = (map(float, output) for output in runs["values"])
    return spread_over_cells(runs["cells"], list(zip(*outputs, strict=True)))


class Output(Enum):
    """How raw outputs become predictions."""

    MEAN = "mean of the trees' outputs"
    LOG_MEAN = "prior times the geometric mean of the trees' odds against it"
    SIGMOID = "probability of the second class by the logistic function"
    SOFTMAX = "probabilities by softmax"
    VALUE = "the raw output itself"


@dataclass(frozen=True, repr=False)
class Model:
    """An additive score and its output function.

    For votes the trees carry probabilities: MEAN averages them; LOG_MEAN averages their logs (the
    trees then hold log p - log prior) and multiplies the mean by `sharpness`. `parts` are for
    people who read the model: the fraction of records in each cell of each feature, by noisy counts
    that were released anyway; empty if there were none. `noise` has the standard deviations of the
    noise in the numbers of `score`; models that store the masses of their leaves need none.
    """

    score: Additive
    output: Output
    sharpness: float = 1.0
    parts: tuple[tuple[float, ...], ...] = ()
    noise: ScoreNoise = ScoreNoise()  # noqa: RUF009  (a frozen value)
    survival: SurvivalCurve | None = None
    """How the score of a survival model becomes probabilities."""

    def __repr__(self) -> str:
        parts = f"{len(self.score.trees)} trees, {len(self.score.curves)} curves"
        return f"Model({parts}, output: {self.output.value})"

    def predict(self, codes: Codes) -> FloatArray:
        """(n, classes) probabilities, or (n, 1) values for regression."""
        return self.read(self.score.raw(codes))

    def read(self, raw: FloatArray) -> FloatArray:
        """Outputs from raw scores: votes are averaged first."""
        many = max(len(self.score.trees), 1)
        if self.output is Output.MEAN:
            return self.read_score(raw / many)
        if self.output is Output.LOG_MEAN:
            base = np.asarray(self.score.base)
            return self.read_score(base + self.sharpness * (raw - base) / many)
        return self.read_score(raw)

    def read_score(self, score: FloatArray) -> FloatArray:
        """Outputs from averaged votes or from sums."""
        match self.output:
            case Output.SIGMOID:
                p = sigmoid(score[:, 0])
                return np.stack([1.0 - p, p], axis=1)
            case Output.SOFTMAX | Output.LOG_MEAN:
                return softmax(score)
            case Output.MEAN | Output.VALUE:
                return score

    def to_dict(self) -> dict[str, Any]:
        return {
            "score": self.score.to_dict(),
            "output": self.output.name,
            "sharpness": self.sharpness,
            "parts": [list(parts) for parts in self.parts],
            "noise": self.noise.to_dict(),
            **({} if self.survival is None else {"survival": self.survival.to_dict()}),
        }

    @staticmethod
    def from_dict(d: dict[str, Any]) -> Model:
        parts = tuple(tuple(map(float, parts)) for parts in d.get("parts", ()))
        score = Additive.from_dict(d["score"])
        noise = ScoreNoise.from_dict(d["noise"])
        curve = SurvivalCurve.from_dict(d["survival"]) if "survival" in d else None
        return Model(score, Output[d["output"]], float(d["sharpness"]), parts, noise, curve)
