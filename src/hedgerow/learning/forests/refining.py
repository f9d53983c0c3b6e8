"""Trees whose candidate cuts follow the Hessians of the trees before them.

Maddock et al. 2022, section 4.5.2; what is asked when is written in `HessianCuts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from hedgerow.learning.bins.cut_points import Setting
from hedgerow.learning.bins.iterative_hessian import HessianCuts
from hedgerow.learning.flow import Flow, together, watched
from hedgerow.learning.forests.boosting import Splitting
from hedgerow.learning.leaves.updates import Update
from hedgerow.queries import Answer, Binning, Cells, Query, Reply, SumQuery
from hedgerow.values.arrays import FloatArray
from hedgerow.values.models import Additive
from hedgerow.values.noise import NoisyTree


@dataclass
class RefinedTrees:
    """One flow's trees: the bins move on with every batch, so it is made for one flow only.

    `splitting` grows trees on given bins. `at_the_model` is False where the model is no score whose
    Hessian there is: then Hessians are those of the start.
    """

    cuts: HessianCuts
    setting: Setting
    binning: Binning
    splitting: Callable[[Binning], Splitting]
    at_the_model: bool = True
    batches: int = 0

    def grow(
        self,
        numbers: range,
        update: Update,
        at: Additive,
        share: Fraction,
        rng: np.random.Generator,
    ) -> Flow[list[NoisyTree]]:
        growing = self.splitting(self.binning).grow(numbers, update, at, share, rng)
        if self.setting.histograms:
            trees, first = yield from watched(growing)
            self._refine(hessian_weights(first, update))
            return trees
        flows: dict[str, Flow[Any]] = {"trees": growing}
        if self.batches < self.cuts.beside_trees(self.setting):
            model = at if self.at_the_model else self.setting.start
            flows["hessians"] = self.cuts.asked(self.setting, self.binning, model)
        done = yield from together(flows)
        self.batches += 1
        self._refine(done.get("hessians", {}))
        grown: list[NoisyTree] = done["trees"]
        return grown

    def _refine(self, masses: dict[int, FloatArray]) -> None:
        if masses:
            self.binning = self.cuts.refined(self.setting.schema, self.binning, masses)


def hessian_weights(first: Iterable[tuple[Query, Reply]], update: Update) -> dict[int, FloatArray]:
    """By feature: the weight of each of its bins, from the tables that trees ask at their roots."""
    found = dict[int, FloatArray]()
    for query, reply in first:
        assert isinstance(query, SumQuery)
        assert isinstance(query.by, Cells)
        assert isinstance(reply, Answer)
        for position, feature in enumerate(query.by.features):
            weights = update.weight(reply.values[position])
            found[feature] = found.get(feature, 0.0) + weights
    return found
