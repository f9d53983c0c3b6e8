"""Dyadic histograms: noisy sums of runs of bins, of all widths, made to agree by least squares.

A prefix of a flat table adds the noise of all its bins, up to B of them. Told as runs of 1, 2, 4,
... bins it adds that of log2 B runs at most (Hay et al. 2010). The widths share the budget. Under
Gaussian noise that makes each of b tables b times as variable, and prefixes win; under Laplace
noise b^2 times, and they lose (studies/notes/trees.md#0051).

Categories have no runs: their table is asked at every width again, and the mean of b tables with b
times the variance is as good as one. `missing` is a run of its own at every width.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from hedgerow.methods.blocks.builder import Node
from hedgerow.methods.blocks.flow import Flow
from hedgerow.privacy.queries import Answer, Binning, Cells, Statistic, SumQuery
from hedgerow.schema.arrays import BoolArray, FloatArray
from hedgerow.schema.candidates import Grids
from hedgerow.schema.grids import ColumnKind


@dataclass(frozen=True)
class DyadicTables:
    """Asks for features' tables by runs of their bins, and reads the bins off the answers."""

    grids: Grids
    statistic: Statistic

    def ask(self, node: Node, features: Sequence[int], share: Fraction) -> Flow[list[FloatArray]]:
        """(B, C) of each feature; bins that the path to the node excludes hold nothing."""
        part = share / len(self.levels)
        replies = yield [
            SumQuery(node.region, self.statistic, Cells(tuple(features), level), part)
            for level in self.levels
        ]
        told = [reply.values for reply in replies if isinstance(reply, Answer)]
        return [
            self.bins(feature, self.grids.reachable(node.region, feature), [v[i] for v in told])
            for i, feature in enumerate(features)
        ]

    def bins(self, feature: int, reachable: BoolArray, runs: Sequence[FloatArray]) -> FloatArray:
        """(B, C) bins that explain the noisy runs of all widths best; runs may be padded."""
        sizes = [level.n_bins[feature] for level in self.levels]
        told = np.concatenate([values[:size] for values, size in zip(runs, sizes, strict=True)])
        return np.asarray(self._solution(feature, reachable) @ told)

    def _solution(self, feature: int, reachable: BoolArray) -> FloatArray:
        """(B, R) least squares as a matrix, kept: nodes have few ranges among them.

        Each bin is told alone at the first width, so the normal equations are well conditioned.
        """
        key = (feature, reachable.tobytes())
        if key not in self._solved:
            members = self._members(feature)
            solved, held = np.zeros(members.T.shape), members[:, reachable]
            solved[reachable] = np.linalg.solve(held.T @ held, held.T)
            self._solved[key] = solved
        return self._solved[key]

    @cached_property
    def _solved(self) -> dict[tuple[int, bytes], FloatArray]:
        return {}

    def _members(self, feature: int) -> FloatArray:
        """(R, B) which bins each run of each width holds."""
        of_cell = np.asarray(self.grids.binning.bins[feature])
        blocks = []
        for level in self.levels:
            members = np.zeros((level.n_bins[feature], self.grids.binning.n_bins[feature]))
            members[np.asarray(level.bins[feature]), of_cell] = 1.0
            blocks.append(members)
        return np.concatenate(blocks)

    # -------------------------------------------------------------------------------- widths
    @cached_property
    def levels(self) -> tuple[Binning, ...]:
        """The bins, then runs of two, of four, and so on, until two runs are left."""
        n_levels = max(self._n_widths(f) for f in range(self.grids.n_features))
        return tuple(self._level(k) for k in range(n_levels))

    def _n_widths(self, feature: int) -> int:
        if self.grids.grid(feature).kind is not ColumnKind.NUMERIC:
            return 1
        return max(1, int(np.ceil(np.log2(self.grids.binning.n_bins[feature] - 1))))

    def _level(self, k: int) -> Binning:
        """A feature with fewer widths begins again."""
        binning = self.grids.binning
        return Binning(
            tuple(
                _runs(bins, n_bins, 1 << k % self._n_widths(feature))
                for feature, (bins, n_bins) in enumerate(
                    zip(binning.bins, binning.n_bins, strict=True)
                )
            )
        )


def _runs(bins: tuple[int, ...], n_bins: int, width: int) -> tuple[int, ...]:
    """Runs of so many bins; the last bin, `missing`, stays alone."""
    last = (n_bins - 2) // width + 1
    return tuple(last if b == n_bins - 1 else b // width for b in bins)
