"""Figures 1 to 6 of Wang, Dick and Balcan 2020, each with one number of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from studies.pages import Line, curves, evenly, left_out, level, line, repeats
from studies.topdown.data import LOADERS
from studies.topdown.methods import BASELINES

Tables = Mapping[str, pd.DataFrame]
BODY = ("adult", "bank")
"""Sets of the paper's Figures 1 and 3; the others are in its appendix."""
CELL = ["name", "method", "fraction", "budget", "leaf_fraction", "alpha"]
NOT_RUN = "its cells were not run.\n"


def draw_all(out: Path, tables: Tables) -> str:
    return "\n".join(
        [
            "## Figures\n",
            _privacy(out, tables, "curves", "test", "test accuracy", "Figure 2"),
            _privacy(out, tables, "printed", "test", "test accuracy, as printed", "Figure 2"),
            "Not drawn: slow budgets (`slow.csv`) and larger epsilons (`loud.csv`).\n",
            *(
                _privacy(out, tables, f"figure_5_{value}", value, words, "Figure 5")
                for value, words in (
                    ("train", "training accuracy"),
                    ("depth", "depth of the tree"),
                    ("leaves", "leaves of the tree"),
                )
            ),
            *_by_set(out, tables, _leaf_shares, "leaf_fraction", "Figure 1", "Figure 4"),
            *_by_set(out, tables, _sizes_test, "training_size", "Figure 3", "Not in the paper"),
            *_by_set(out, tables, _sizes_train, "figure_6", "Figure 6", "Figure 6, other sets"),
        ]
    )


def even(table: pd.DataFrame) -> pd.DataFrame:
    return table if table.empty else evenly(table, CELL, "seed")


# ------------------------------------------------------------------------------- against epsilon
def _privacy(out: Path, tables: Tables, name: str, value: str, words: str, figure: str) -> str:
    which = "printed" if name == "printed" else "curves"
    table, plain = even(tables[which]), tables["baselines"]
    if table.empty:
        return f"{figure}: {NOT_RUN}"
    names = list(dict.fromkeys(tables[which]["name"]))
    alphas = sorted(table["alpha"].unique())
    panels: dict[str, dict[str, Line]] = {}
    for label, part in table.groupby("name", sort=False):
        lines = {str(m): line(p, "alpha", value) for m, p in part.groupby("method", sort=False)}
        for method, rows in plain[plain["name"] == label].groupby("method", sort=False):
            lines[str(method)] = level(alphas, rows[value])
        panels[str(label)] = lines
    curves(out / name, panels, "epsilon", words)
    told = _told(tables[which], table, names)
    return (
        f"{figure}: {words} against epsilon ({told}); flat lines are trees "
        f"without noise.\n\n![{figure}, {words}]({name}.png)\n"
    )


# ------------------------------------------------------------------------- by leaf share or size
def _by_set(
    out: Path, tables: Tables, draw: object, name: str, body: str, appendix: str
) -> list[str]:
    """One figure for the sets of the paper's body, one for the others."""
    assert callable(draw)
    return [
        draw(out / path, tables, names, figure)
        for figure, names, path in (
            (body, BODY, name),
            (appendix, [n for n in LOADERS if n not in BODY], f"{name}_others"),
        )
    ]


def _leaf_shares(path: Path, tables: Tables, names: Sequence[str], figure: str) -> str:
    whole = tables["leaf_fraction"]
    whole = whole[whole["name"].isin(names)]
    table = even(whole)
    if table.empty:
        return f"{figure}: {NOT_RUN}"
    panels = {
        f"{name}: {method}": {
            f"epsilon {alpha:g}, {budget}": line(p, "leaf_fraction", "test")
            for (alpha, budget), p in part.groupby(["alpha", "budget"], sort=False)
        }
        for (name, method), part in table.groupby(["name", "method"], sort=False)
    }
    curves(path, panels, "part of the budget for leaves", "test accuracy", log_x=False)
    words = "test accuracy against the part of the budget for leaves"
    return f"{figure}: {words} ({_told(whole, table, names)}).\n\n![{figure}]({path.name}.png)\n"


def _sizes_test(path: Path, tables: Tables, names: Sequence[str], figure: str) -> str:
    return _sizes(path, tables, names, figure, "test")


def _sizes_train(path: Path, tables: Tables, names: Sequence[str], figure: str) -> str:
    return _sizes(path, tables, names, figure, "train")


def _sizes(path: Path, tables: Tables, names: Sequence[str], figure: str, value: str) -> str:
    whole, plain = tables["training_size"], tables["size_baselines"]
    whole = whole[whole["name"].isin(names)]
    table = even(whole)
    if table.empty:
        return f"{figure}: {NOT_RUN}"
    panels: dict[str, dict[str, Line]] = {}
    alphas = sorted(table["alpha"].unique())
    for (name, method), part in table.groupby(["name", "method"], sort=False):
        lines: dict[str, Line] = {}
        for fraction, p in part.groupby("fraction", sort=False):
            lines[f"{fraction:g} of the rows"] = line(p, "alpha", value)
            rows = plain[(plain["name"] == name) & (plain["fraction"] == fraction)]
            rows = rows[rows["method"] == unnoised(str(method))]
            if len(rows):
                lines[f"{fraction:g} of the rows, no noise"] = level(alphas, rows[value])
        panels[f"{name}: {method}"] = lines
    words = f"{value}{'ing' if value == 'train' else ''} accuracy"
    curves(path, panels, "epsilon", words)
    told = _told(whole, table, names)
    return (
        f"{figure}: {words} for parts of the training rows ({told}).\n\n"
        f"![{figure}]({path.name}.png)\n"
    )


def unnoised(method: str) -> str:
    """The same tree without noise: local choices find another one, and so does Gini."""
    return next((plain for plain, line in BASELINES.items() if line == method), "without noise")


def _told(whole: pd.DataFrame, table: pd.DataFrame, names: Sequence[str]) -> str:
    """How many runs a figure has, and what is not in it."""
    absent = [name for name in names if name not in set(table["name"])]
    without = f"; without {', '.join(absent)}: too few runs of it" if absent else ""
    return repeats(table, "seed", "runs") + left_out(whole, table, CELL) + without
