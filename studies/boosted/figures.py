"""Figures 2-5 and 20 of Maddock et al. 2022, from the cells that were measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from studies.boosted.paper import RANKS, SPLITS, WEIGHT_TABLES
from studies.boosted.recipes import (
    EPSILONS,
    EVERY_RECORD,
    FIGURE_SET,
    batched,
    components,
    named,
    placed,
)
from studies.pages import curves

HEAD = """## Figures

All on Credit 1, epsilon 1 where it is not an axis: the first split, or the mean of all splits where
a table above has the same cell. Figure 20 reads the bytes, rounds and seconds of the fits of Figure
5; its panel on the number of clients is not reproduced.
"""
TREES = (10, 25, 50, 100, 200, 300)
NAMED_TREES = (25, 100, 200)
DEPTHS = (2, 3, 4, 5, 6)
BINS = (2, 4, 8, 16, 32, 64, 128)
CANDIDATES = ("iterative_hessian", "quantile", "log", "uniform")
BATCHES = {"Newton": 1, "B = 20": 20, "B = 50": 50, "B = 200": 200, "random forest": 0}

Value = Callable[[str, str, float, str, int], float | None]
"""(dataset, recipe, epsilon, measure, parties) -> mean of the cell, if it was run."""
Line = tuple[list[float], list[float]]


@dataclass(frozen=True)
class Pen:
    value: Value
    measure: str = "auc"
    parties: int = 1

    def line(self, wanted: Sequence[tuple[float, float, str]]) -> Line:
        """The points (x, epsilon, recipe) that were measured."""
        points = [
            (float(x), y)
            for x, epsilon, recipe in wanted
            if (y := self.value(FIGURE_SET, recipe, epsilon, self.measure, self.parties))
            is not None
        ]
        return [x for x, _ in points], [y for _, y in points]


@dataclass(frozen=True)
class Figure:
    number: int
    panels: dict[str, dict[str, Line]]
    x: str = ""  # a panel's title if empty
    y: str = "test AUC"
    log_x: bool = False

    @property
    def is_measured(self) -> bool:
        """Whether some line has two points."""
        return any(len(xs) > 1 for lines in self.panels.values() for xs, _ in lines.values())

    def draw(self, out: Path) -> str:
        """The figure as files, and its line on the page."""
        if not self.is_measured:
            return f"Figure {self.number}: its cells were not run."
        curves(out / f"figure_{self.number}", self.panels, self.x, self.y, log_x=self.log_x)
        return f"![Figure {self.number}](figure_{self.number}.png)"


def draw_all(value: Value, out: Path) -> str:
    pen = Pen(value)
    costs = {m: _methods(Pen(value, m)) for m in ("bytes", "rounds", "seconds")}
    figures = [
        Figure(2, _split_methods(pen)),
        Figure(3, _candidates(pen), log_x=True),
        Figure(4, {"batches, T = 200": _batches(pen)}, "epsilon"),
        Figure(
            5, {"all": _methods(pen) | _local(value), "without local noise": _methods(pen)}, "trees"
        ),
        Figure(20, costs, "trees", "cost of a fit"),
    ]
    return "\n\n".join([HEAD, *(figure.draw(out) for figure in figures)]) + "\n"


def _split_methods(pen: Pen) -> dict[str, dict[str, Line]]:
    panels: dict[str, dict[str, Line]] = {"trees": {}, "depth": {}, "epsilon": {}}
    for s in SPLITS:
        panels["trees"][s] = pen.line([(t, 1.0, components(s, "newton", t)) for t in TREES])
        panels["depth"][s] = pen.line([(d, 1.0, components(s, "newton", depth=d)) for d in DEPTHS])
        panels["epsilon"][s] = pen.line(
            [(e, e, components(s, "newton", depth=3)) for e in sorted(WEIGHT_TABLES)]
        )
    return panels


def _candidates(pen: Pen) -> dict[str, dict[str, Line]]:
    panels: dict[str, dict[str, Line]] = {"epsilon": {}, "trees": {}, "bins": {}}
    for s in (5, 10, 20, 30):
        rounds = [(e, e, placed("iterative_hessian", rounds=s)) for e in EPSILONS]
        panels["epsilon"][f"{s} rounds"] = pen.line(rounds)
    for k in CANDIDATES:
        panels["trees"][k] = pen.line([(t, 1.0, placed(k, trees=t)) for t in (100, 200, 300)])
        panels["bins"][k] = pen.line([(q, 1.0, placed(k, bins=q)) for q in BINS])
    return panels


def _batches(pen: Pen) -> dict[str, Line]:
    return {label: pen.line([(e, e, batched(b)) for e in EPSILONS]) for label, b in BATCHES.items()}


def _methods(pen: Pen) -> dict[str, Line]:
    return {n: pen.line([(t, 1.0, named(n, t)) for t in NAMED_TREES]) for n in RANKS}


def _local(value: Value) -> dict[str, Line]:
    pen = Pen(value, parties=EVERY_RECORD)
    return {"local noise": pen.line([(t, 1.0, named("DP-TR Newton", t)) for t in NAMED_TREES])}
