"""Results for people: a Markdown page that names its command, and small figures."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from studies.harness import Computation

MARK_INCHES, LETTER_INCHES, LINE_INCHES = 0.55, 0.075, 0.22
"""Of a legend: the width of a label's mark and of a letter, and the height of a line."""


def write_page(
    computation: Computation, name: str, title: str, command: str, parts: Sequence[str]
) -> None:
    """The page, with the command that made it and what it has computed on top."""
    path = computation.out / name
    path.parent.mkdir(parents=True, exist_ok=True)
    head = (
        f"# {title}\n\nFor data scientists and reviewers. Made by `{command}` from "
        f"{computation.words()}. Do not edit: run it again.\n"
    )
    path.write_text("\n".join([head, *parts]) + "\n", encoding="utf-8")


def markdown_table(table: pd.DataFrame, decimals: int = 3) -> str:
    """A data frame as a Markdown table; what was not measured is a dash."""

    def shown(value: Any) -> str:
        if not isinstance(value, float):
            return str(value)
        return "-" if math.isnan(value) else f"{value:.{decimals}f}"

    lines = ["| " + " | ".join(map(str, table.columns)) + " |", "|" + "---|" * len(table.columns)]
    lines += [
        "| " + " | ".join(shown(v) for v in row) + " |" for row in table.itertuples(index=False)
    ]
    return "\n".join(lines) + "\n"


def means(
    table: pd.DataFrame, rows: Sequence[str], column: str, value: str, decimals: int = 3
) -> str:
    """A line for each of `rows`, a column for each value of `column`: mean (sample deviation)."""
    if table.empty:
        return "Not run.\n"
    wide = table.groupby([*rows, column], sort=False)[value].apply(with_deviation, decimals)
    wide = wide.unstack(column).fillna("-")
    names = {v: f"{column} {v:g}" if isinstance(v, float) else str(v) for v in wide.columns}
    return markdown_table(wide.rename(columns=names).reset_index())


def with_deviation(values: pd.Series, decimals: int = 3) -> str:
    spread = f" ({values.std(ddof=1):.{decimals}f})" if len(values) > 1 else ""
    return f"{values.mean():.{decimals}f}{spread}" if len(values) else "-"


Line = (
    tuple[Sequence[float], Sequence[float]]
    | tuple[Sequence[float], Sequence[float], Sequence[float]]
)
"""x, y, and standard errors of y if they are known."""


def line(table: pd.DataFrame, x: str, value: str) -> Line:
    """Means by x, with the standard errors that the sample deviations give."""
    groups = table.groupby(x)[value]
    means, errors = groups.mean(), (groups.std(ddof=1) / groups.count() ** 0.5).fillna(0.0)
    return [float(v) for v in means.index], list(means), list(errors)


def level(xs: Sequence[float], values: pd.Series) -> Line:
    """A line that depends on nothing here, with its error at both ends."""
    error = float(values.std(ddof=1)) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return [min(xs), max(xs)], [float(values.mean())] * 2, [error] * 2


def evenly(table: pd.DataFrame, points: Sequence[str], repeat: str) -> pd.DataFrame:
    """Repeats that most points have, and the points that have all of those.

    So a figure has one number of repeats, and a point that was run less often is not in it.
    """
    each = table.groupby(list(points))[repeat].agg(set)
    shared = {r for r in table[repeat].unique() if 2 * sum(r in has for has in each) > len(each)}
    whole = each[[bool(shared) and shared <= has for has in each]].index
    keys = pd.MultiIndex.from_frame(table[list(points)])
    return table[table[repeat].isin(shared) & keys.isin(whole)]


def repeats(table: pd.DataFrame, repeat: str, noun: str = "splits") -> str:
    n = int(table[repeat].nunique())
    return f"one of the {noun}; no error bars" if n == 1 else f"{n} {noun}; bars: standard errors"


def left_out(table: pd.DataFrame, even: pd.DataFrame, points: Sequence[str]) -> str:
    """How many points have fewer repeats than the figure, and are not in it."""
    all_points, drawn = (len(part.groupby(list(points))) for part in (table, even))
    missing = all_points - drawn
    return f"; {missing} of {all_points} points have fewer and are not drawn" if missing else ""


def curves(
    path: Path,
    panels: Mapping[str, Mapping[str, Line]],
    x_label: str,
    y_label: str,
    *,
    log_x: bool = True,
    log_y: bool = False,
    columns: int = 3,
) -> None:
    """One panel a title, one line a label, with error bars, as PNG.

    Without an `x_label`, a panel's title says what its x is.
    """
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = -(-len(panels) // columns)
    figure, axes = plt.subplots(
        rows,
        min(columns, len(panels)),
        figsize=(4.2 * min(columns, len(panels)), 3.2 * rows),
        squeeze=False,
        sharey=False,
    )
    colors = _colors(panels)
    for axis, (title, lines) in zip(axes.flat, panels.items(), strict=False):
        for label, (x, y, *errors) in lines.items():
            axis.errorbar(
                x,
                y,
                yerr=errors[0] if errors else None,
                marker="o",
                markersize=3,
                linewidth=1.4,
                elinewidth=0.8,
                capsize=2,
                label=label,
                color=colors[label],
            )
        if log_x:
            axis.set_xscale("log")
        if log_y:
            axis.set_yscale("log")
        axis.set(title=title, xlabel=x_label or title, ylabel=y_label)
        axis.grid(alpha=0.3)
    for axis in list(axes.flat)[len(panels) :]:
        axis.set_visible(False)
    _legend(figure, list(axes.flat)[: len(panels)])
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path.with_suffix(".png"), dpi=90)
    plt.close(figure)


def _colors(panels: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """One for each label, the same in every panel; there are ten."""
    labels = dict.fromkeys(label for lines in panels.values() for label in lines)
    return {label: f"C{number % 10}" for number, label in enumerate(labels)}


def _legend(figure: Any, axes: Sequence[Any]) -> None:
    """One below the figure, with every label once; inside the panels if they share no label."""
    named = [dict(zip(*axis.get_legend_handles_labels()[::-1], strict=True)) for axis in axes]
    if len(named) > 1 and not set(named[0]) & set(named[1]):
        for axis in axes:
            axis.legend(fontsize=7, frameon=False)
        figure.tight_layout()
        return
    handles = {label: handle for names in named for label, handle in names.items()}
    widest = MARK_INCHES + LETTER_INCHES * max(map(len, handles), default=0)
    columns = max(1, min(len(handles), 5, int(figure.get_figwidth() / widest)))
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="lower center",
        ncols=columns,
        fontsize="small",
        columnspacing=1.0,
        handlelength=1.5,
        frameon=False,
    )
    below = LINE_INCHES * -(-len(handles) // columns)
    height = figure.get_figheight() + below
    figure.set_figheight(height)
    figure.tight_layout(rect=(0, below / height, 1, 1))
