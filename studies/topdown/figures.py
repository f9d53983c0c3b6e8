"""Figures 1 to 6 of Wang, Dick and Balcan 2020, each with one number of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from studies.pages import Line, curves, evenly, level, line, repeats
from studies.topdown.methods import BASELINES

Tables = Mapping[str, pd.DataFrame]
BODY = ("adult", "bank")
"""Sets of the paper's Figures 1 and 3; the others are in its appendix."""
CELL = ["name", "method", "fraction", "budget", "leaf_share", "alpha"]
NOT_RUN = "its cells were not run.\n"


def draw_all(out: Path, tables: Tables) -> str:
    return "\n".join(
        [
            "## Figures\n",
            _privacy(out, tables, "curves", "test", "test accuracy", "Figure 2"),
            _privacy(out, tables, "printed", "test", "test accuracy, as printed", "Figure 2"),
            "Not drawn: [slow budgets](slow.csv) and [larger epsilons](loud.csv).\n",
            *(
                _privacy(out, tables, f"figure_5_{value}", value, words, "Figure 5")
                for value, words in (
                    ("train", "training accuracy"),
                    ("depth", "depth of the tree"),
                    ("leaves", "leaves of the tree"),
                )
            ),
            *_by_set(out, tables, _leaf_shares, "leaf_share", "Figure 1", "Figure 4"),
            *_by_set(out, tables, _sizes_test, "training_size", "Figure 3", "Not in the paper"),
            *_by_set(out, tables, _sizes_train, "figure_6", "Figure 6", "Figure 6, other sets"),
        ]
    )


def even(table: pd.DataFrame) -> pd.DataFrame:
    return table if table.empty else evenly(table, CELL, "seed")


# ------------------------------------------------------------------------------- against epsilon
def _privacy(out: Path, tables: Tables, name: str, value: str, words: str, figure: str) -> str:
    table = even(tables["printed" if name == "printed" else "curves"])
    plain = tables["baselines"]
    if table.empty:
        return f"{figure}: {NOT_RUN}"
    alphas = sorted(table["alpha"].unique())
    panels: dict[str, dict[str, Line]] = {}
    for label, part in table.groupby("name", sort=False):
        lines = {str(m): line(p, "alpha", value) for m, p in part.groupby("method", sort=False)}
        for method, rows in plain[plain["name"] == label].groupby("method", sort=False):
            lines[str(method)] = level(alphas, rows[value])
        panels[str(label)] = lines
    curves(out / name, panels, "epsilon", words)
    return (
        f"{figure}: {words} against epsilon ({repeats(table, 'seed', 'runs')}); flat lines are "
        f"trees "
        f"without noise.\n\n![{figure}, {words}]({name}.png)\n"
    )


# ------------------------------------------------------------------------- by leaf share or size
def _by_set(
    out: Path, tables: Tables, draw: object, name: str, body: str, appendix: str
) -> list[str]:
    """One figure for the sets of the paper's body, one for the others."""
    assert callable(draw)
    whole = tables["leaf_share" if name == "leaf_share" else "training_size"]
    there = list(dict.fromkeys(whole["name"]))
    made = []
    for figure, names, path in (
        (body, [n for n in there if n in BODY], name),
        (appendix, [n for n in there if n not in BODY], f"{name}_others"),
    ):
        if names:
            made.append(draw(out / path, tables, names, figure))
    return made


def _leaf_shares(path: Path, tables: Tables, names: Sequence[str], figure: str) -> str:
    table = tables["leaf_share"]
    table = even(table[table["name"].isin(names)])
    if table.empty:
        return f"{figure}: {NOT_RUN}"
    panels = {
        f"{name}: {method}": {
            f"epsilon {alpha:g}, {budget}": line(p, "leaf_share", "test")
            for (alpha, budget), p in part.groupby(["alpha", "budget"], sort=False)
        }
        for (name, method), part in table.groupby(["name", "method"], sort=False)
    }
    curves(path, panels, "part of the budget for leaves", "test accuracy", log_x=False)
    return _shown(path, table, figure, "test accuracy against the part of the budget for leaves")


def _sizes_test(path: Path, tables: Tables, names: Sequence[str], figure: str) -> str:
    return _sizes(path, tables, names, figure, "test")


def _sizes_train(path: Path, tables: Tables, names: Sequence[str], figure: str) -> str:
    return _sizes(path, tables, names, figure, "train")


def _sizes(path: Path, tables: Tables, names: Sequence[str], figure: str, value: str) -> str:
    table, plain = tables["training_size"], tables["size_baselines"]
    table = even(table[table["name"].isin(names)])
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
    return _shown(path, table, figure, f"{words} for parts of the training rows")


def unnoised(method: str) -> str:
    """The same tree without noise: local choices find another one, and so does Gini."""
    return next((plain for plain, line in BASELINES.items() if line == method), "without noise")


def _shown(path: Path, table: pd.DataFrame, figure: str, words: str) -> str:
    return (
        f"{figure}: {words} ({repeats(table, 'seed', 'runs')}).\n\n![{figure}]({path.name}.png)\n"
    )
