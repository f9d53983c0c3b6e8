"""Figures 1-8 and 10-18 of Maddock et al. 2022, from what was measured, leaves as published.

Figures 9 and 19 are of Nomao, which no public copy holds. Figure 20 reads the costs of the fits of
Figure 5, and its panel on the number of records the rows as published.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pandas as pd

from studies.boosted_claims import Cells
from studies.boosted_fits import (
    EPSILONS,
    EVERY_RECORD,
    FIGURE_SET,
    LOOKING_TREES,
    MADE,
    MADE_ROWS,
    PUBLISHED,
    RANKS,
    SHRUNK,
    SPLITS,
    TITLES,
    WEIGHT_TABLES,
    batched,
    components,
    in_turns,
    named,
    placed,
)
from studies.pages import Line, curves

LOOKING, RANDOM = (10, 25, 50, 100), (10, 25, 50, 100, 200, 300)
NAMED_TREES = (25, 100, 200)
DEPTHS = (2, 3, 4, 5, 6)
BINS = (2, 4, 16, 32, 64, 128)
MADE_BINS = (2, 4, 8, 16, 32, 64, 128)
ROUNDS = (5, 10, 20, 30)
CANDIDATES = ("iterative_hessian", "quantile", "log", "uniform")
BATCHES = {"Newton": 1, "random forest": 0} | {f"B = {b}": b for b in (20, 50, 200)}
WIDTHS = (1, 2, 3, 5, None)
SHALLOW = 3

Point = tuple[float, float, str]
"""(x, epsilon, method)."""
Panels = dict[str, dict[str, list[Point]]]


@dataclass(frozen=True)
class Figure:
    """Which cells of a set a figure shows, by panel and line."""

    number: int
    dataset: str
    panels: Panels
    x: str = ""  # a panel's title if empty
    log_x: bool = False
    y: str = "test AUC"
    measure: str = "auc"
    leaves: str = PUBLISHED

    @property
    def points(self) -> Iterator[Point]:
        for lines in self.panels.values():
            for points in lines.values():
                yield from points


def all_figures() -> list[Figure]:
    sets = {6: "credit_default", 7: "adult", 8: "bank"}
    compared = {15: "higgs_18k", 16: "credit_default", 17: "adult", 18: "bank"}
    others = ("credit_default", "adult", "bank")
    return [
        *(Figure(1, name, {"": _methods(0.5)}, "trees") for name in (FIGURE_SET, "adult")),
        Figure(2, FIGURE_SET, _split_methods()),
        Figure(3, FIGURE_SET, _candidates(), log_x=True),
        Figure(4, FIGURE_SET, {"": _batches()}, "epsilon"),
        Figure(5, FIGURE_SET, _with_zoom(_methods(1.0)), "trees"),
        *(Figure(number, name, _split_methods()) for number, name in sets.items()),
        Figure(10, FIGURE_SET, {"": _widths()}, "trees"),
        Figure(11, FIGURE_SET, {"": _turns()}, "trees"),
        Figure(12, FIGURE_SET, {"": _candidates_by_epsilon()}, "epsilon"),
        *(Figure(13, name, {"": _bins()}, "bins", log_x=True) for name in others),
        *(Figure(14, name, {"": _batches()}, "epsilon") for name in others),
        *(Figure(n, name, {"": _methods(1.0)}, "trees") for n, name in compared.items()),
    ]


def pulled_figures() -> list[Figure]:
    """The figures of the paper's body with our rule of leaves."""
    methods = {"": _methods(1.0, SHRUNK)}
    return [
        Figure(2, FIGURE_SET, _split_methods(SHRUNK), leaves=SHRUNK),
        Figure(3, FIGURE_SET, _candidates(SHRUNK), log_x=True, leaves=SHRUNK),
        Figure(4, FIGURE_SET, {"": _batches(SHRUNK)}, "epsilon", leaves=SHRUNK),
        Figure(5, FIGURE_SET, methods, "trees", leaves=SHRUNK),
    ]


def drawn(figures: Sequence[Figure]) -> Iterator[tuple[float, str, str]]:
    """(epsilon, set, method) of every point of some figures."""
    for figure in figures:
        for _, epsilon, learner in figure.points:
            yield epsilon, figure.dataset, learner


FAR_BELOW = ("DP-GBM", "FEVERLESS (uniform)")


def _with_zoom(lines: dict[str, list[Point]]) -> Panels:
    """The paper's second panel has no room for the two that are far below."""
    return {"": lines, "zoom": {n: points for n, points in lines.items() if n not in FAR_BELOW}}


# ---------------------------------------------------------------------------------------- points
def _split_methods(leaves: str = PUBLISHED) -> Panels:
    def newton(s: str, trees: int | None = None, depth: int = 4) -> str:
        return components(s, "newton", trees, depth, leaves)

    return {
        "trees": {
            s: [(t, 1.0, newton(s, t)) for t in (RANDOM if s == "totally_random" else LOOKING)]
            for s in SPLITS
        },
        "depth": {s: [(d, 1.0, newton(s, depth=d)) for d in DEPTHS] for s in SPLITS},
        "epsilon": {
            s: [(e, e, newton(s, depth=SHALLOW)) for e in sorted(WEIGHT_TABLES)] for s in SPLITS
        },
    }


def _candidates(leaves: str = PUBLISHED) -> Panels:
    return {
        "epsilon": {
            f"{s} rounds": [
                (e, e, placed("iterative_hessian", rounds=s, leaves=leaves)) for e in EPSILONS
            ]
            for s in ROUNDS
        },
        "trees": {
            k: [(t, 1.0, placed(k, trees=t, leaves=leaves)) for t in (100, 200, 300)]
            for k in CANDIDATES
        },
        "bins": _bins(leaves),
    }


def _bins(leaves: str = PUBLISHED) -> dict[str, list[Point]]:
    return {k: [(q, 1.0, placed(k, bins=q, leaves=leaves)) for q in BINS] for k in CANDIDATES}


def _candidates_by_epsilon() -> dict[str, list[Point]]:
    return {k: [(e, e, placed(k)) for e in sorted(WEIGHT_TABLES)] for k in CANDIDATES}


def _batches(leaves: str = PUBLISHED) -> dict[str, list[Point]]:
    return {label: [(e, e, batched(b, leaves)) for e in EPSILONS] for label, b in BATCHES.items()}


def _methods(epsilon: float, leaves: str = PUBLISHED) -> dict[str, list[Point]]:
    few = {"DP-EBM": (25, 100)}  # its trees are that many for each feature
    return {n: [(t, epsilon, named(n, t, leaves)) for t in few.get(n, NAMED_TREES)] for n in RANKS}


def _widths() -> dict[str, list[Point]]:
    return {
        "k = m" if k is None else f"k = {k}": [
            (t, 1.0, in_turns(k, "newton", t)) for t in (LOOKING_TREES, 50, 100, 200)
        ]
        for k in WIDTHS
    }


def _turns() -> dict[str, list[Point]]:
    return {
        f"{update}, {'k = m' if k is None else 'one feature a tree'}": [
            (t, 1.0, in_turns(k, update, t)) for t in (LOOKING_TREES, 50, 100, 200)
        ]
        for update in ("newton", "gradient")
        for k in (1, None)
    }


# --------------------------------------------------------------------------------------- drawing
def draw_all(cells: Cells, published: Cells, out: Path) -> str:
    parts = [HEAD, *(_draw(figure, cells, out) for figure in [*all_figures(), *_costs(PUBLISHED)])]
    parts.append(_records(published, out))
    parts.append("### The figures of the paper's body with pulled leaves")
    parts += [_draw(figure, cells, out) for figure in [*pulled_figures(), *_costs(SHRUNK)]]
    return "\n\n".join(parts) + "\n"


HEAD = """## Figures

Leaves as published, and as shrunk at the end. A figure has the splits that all its cells have; bars
are standard errors. Figures 9 and 19 are of Nomao, of which no public copy is whole
(studies/data/files.csv). Figure 20 reads bytes, rounds and seconds of the fits of Figure 5, on a
logarithmic axis; its panel (b) has made records and the paper's methods as published."""


def _costs(leaves: str) -> list[Figure]:
    panels = {"": _methods(1.0, leaves)}
    return [
        Figure(20, FIGURE_SET, panels, "trees", y=measure, measure=measure, leaves=leaves)
        for measure in ("bytes", "rounds", "seconds")
    ]


def _records(published: Cells, out: Path) -> str:
    """Figure 20 (b): AUC by the number of records."""
    lines: dict[str, Line] = {}
    for candidates, bins in product(("uniform", "iterative_hessian"), MADE_BINS):
        there = [
            (float(n), aucs)
            for n in sorted(MADE_ROWS)
            if len(aucs := published.aucs(f"{MADE}{n}", placed(candidates, bins=bins), 1.0))
        ]
        if there:
            lines[f"{candidates.replace('_', ' ')}, {bins} bins"] = _line(there)
    if not lines:
        return "Figure 20 (b): its cells were not run."
    curves(out / "figure_20_records", {"": lines}, "records", "test AUC")
    return "Figure 20 (b), made records.\n\n![Figure 20 (b)](figure_20_records.png)"


def _draw(figure: Figure, cells: Cells, out: Path) -> str:
    """The figure as files, and its line on the page."""
    title = f"Figure {figure.number}, {TITLES[figure.dataset]}, {figure.leaves} leaves"
    found = {
        (epsilon, learner): cells.by_split(figure.dataset, learner, epsilon, figure.measure)
        for _, epsilon, learner in figure.points
    }
    measured = {key: values for key, values in found.items() if len(values)}
    if 2 * len(measured) < len(found):
        return f"{title}: {len(measured)} of its {len(found)} cells were run, too few to draw."
    shared = sorted(set.intersection(*(set(values.index) for values in measured.values())))
    if not shared:
        return f"{title}: its cells have no split in common."
    panels = {
        name or figure.x: _lines(lines, measured, shared) for name, lines in figure.panels.items()
    }
    panels |= _local(figure, cells, shared)
    name = f"figure_{figure.number}_{figure.dataset}"
    if figure.measure != "auc":
        name += f"_{figure.measure}"
    if figure.leaves == SHRUNK:
        name += f"_{SHRUNK}"
    is_cost = figure.measure != "auc"
    curves(out / name, panels, figure.x, figure.y, log_x=figure.log_x, log_y=is_cost)
    missing = len(found) - len(measured)
    rest = f"; {missing} of its {len(found)} cells were not run" if missing else ""
    return f"{title} (splits: {len(shared)}{rest}).\n\n![{title}]({name}.png)"


def _lines(
    lines: dict[str, list[Point]],
    measured: dict[tuple[float, str], pd.Series],
    shared: Sequence[int],
) -> dict[str, Line]:
    made = {}
    for label, points in lines.items():
        there = [(x, measured[e, r].loc[shared]) for x, e, r in points if (e, r) in measured]
        made[label] = _line(there)
    return made


def _line(points: Sequence[tuple[float, pd.Series]]) -> Line:
    errors = [v.std(ddof=1) / len(v) ** 0.5 if len(v) > 1 else 0.0 for _, v in points]
    return [x for x, _ in points], [float(v.mean()) for _, v in points], errors


def _local(figure: Figure, cells: Cells, shared: Sequence[int]) -> dict[str, dict[str, Line]]:
    """Figure 5 has the baseline whose every record adds noise, in a panel of its own."""
    if figure.number != 5 or figure.leaves != PUBLISHED:
        return {}
    found = [
        (float(t), cells.by_split(FIGURE_SET, named("DP-TR Newton", t), 1.0, "auc", EVERY_RECORD))
        for t in NAMED_TREES
    ]
    there = [(t, v.reindex(shared).dropna()) for t, v in found if len(v)]
    return {"local noise": {"LDP": _line(there)}} if there else {}
