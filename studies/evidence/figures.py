"""The leading figure of every results page: values with their intervals, from the entries alone."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from studies.evidence.entries import Entry
from studies.evidence.own import AT_ONE, CELLS, CHANGE, RATIO, RECORDS, SURVIVAL
from studies.evidence.papers import ACCURACY, PAPERS, PER_CENT

Entries = Sequence[Entry]
WIDE = 60
"""Letters of a label."""
COLORS = ("#1f77b4", "#d95f02", "#1b9e77", "#7570b3", "#666666")
MAIN_UNIT = {"gubler": PER_CENT, "maddock": "AUC", "wang": ACCURACY, "liu": ACCURACY}


@dataclass(frozen=True)
class Row:
    """A line of a figure: its label, and values that may belong to named series."""

    label: str
    values: Sequence[tuple[str, Entry]]


@dataclass(frozen=True)
class Figure:
    rows: Sequence[Row]
    axis: str
    zero: float | None = 0.0
    is_log: bool = False
    is_skewed: bool = False
    """Whether some values are far larger than most: then by logarithms beyond a hundredth."""


def _claims(page: str, unit: str, entries: Entries) -> Figure:
    mine = [e for e in entries if e.parts[0] == page and e.unit == unit and len(e.parts) == 3]
    rows = [
        Row(said.rsplit(" [", 1)[0], [("", e) for e in mine if e.parts[1] == said])
        for said in dict.fromkeys(e.parts[1] for e in mine)
        if page != "wang" or ": as printed [" not in said
    ]
    return Figure(rows, f"{unit}; above zero: as claimed", is_skewed=page == "wang")


def _by_series(entries: Iterable[Entry], axis: str, zero: float | None) -> Figure:
    rows: dict[str, list[tuple[str, Entry]]] = {}
    for entry in entries:
        rows.setdefault(entry.parts[2], []).append((entry.parts[3], entry))
    return Figure([Row(label, values) for label, values in rows.items()], axis, zero)


def _ours(entries: Entries) -> Figure:
    return _by_series(_of(entries, "ours", AT_ONE), AT_ONE, None)


def _robustness(entries: Entries) -> Figure:
    found = _of(entries, "robustness", CHANGE)
    return _by_series(found, "score less that of clean records", 0.0)


def _reconstruction(entries: Entries) -> Figure:
    found = {words: _of(entries, "reconstruction", words) for words in (CELLS, RECORDS)}
    rows: dict[str, list[tuple[str, Entry]]] = {}
    for words, mine in found.items():
        for entry in mine:
            rows.setdefault(entry.parts[2], []).append((words, entry))
    return Figure([Row(label, values) for label, values in rows.items()], "share", 0.0)


def _speed(entries: Entries) -> Figure:
    found = [e for e in _of(entries, "speed", RATIO) if "(goal " in e.unit]
    rows = [Row(e.parts[2], [("", e)]) for e in found]
    return Figure(rows, "CPU seconds over those of the reference", 1.0, is_log=True)


def _survival(entries: Entries) -> Figure:
    found = _of(entries, "survival", SURVIVAL["c"])
    rows = [Row(e.parts[2], [("", e)]) for e in found]
    return Figure(rows, "C-index, mean of the data sets", None)


def _of(entries: Entries, page: str, words: str) -> list[Entry]:
    return [e for e in entries if e.parts[0] == page and e.parts[1] == words]


FIGURES: dict[str, Callable[[Entries], Figure]] = {
    **{
        paper.page: lambda entries, page=paper.page: _claims(  # type: ignore[misc]
            page, MAIN_UNIT.get(page, ACCURACY), entries
        )
        for paper in PAPERS
    },
    "ours": _ours,
    "robustness": _robustness,
    "reconstruction": _reconstruction,
    "speed": _speed,
    "survival": _survival,
}


def draw(name: str, entries: Entries, path: Path) -> None:
    """As SVG with plain text: the same numbers give the same bytes."""
    import matplotlib

    matplotlib.use("svg")
    settings: dict[Any, Any] = {"svg.hashsalt": "evidence", "svg.fonttype": "none", "font.size": 8}
    with matplotlib.rc_context(settings):
        from matplotlib import pyplot

        found = FIGURES[name](entries)
        figure, axes = pyplot.subplots(figsize=(7.0, 0.7 + 0.26 * len(found.rows)))
        _fill(axes, found)
        figure.tight_layout()
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, metadata={"Date": None, "Creator": None})
        pyplot.close(figure)


def _fill(axes: Any, found: Figure) -> None:
    series = list(dict.fromkeys(name for row in found.rows for name, _ in row.values))
    for place, row in enumerate(found.rows):
        for k, (name, entry) in enumerate(row.values):
            shift = 0.6 * ((k + 0.5) / len(row.values) - 0.5)
            color = COLORS[series.index(name) % len(COLORS)]
            if entry.low is not None and entry.high is not None:
                axes.hlines(place + shift, entry.low, entry.high, color, linewidth=0.8)
            face = color if entry.low is None or entry.is_clear else "white"
            axes.plot(entry.value, place + shift, "o", color=color, mfc=face, markersize=3)
    for name in filter(None, series):
        axes.plot([], [], "o", color=COLORS[series.index(name) % len(COLORS)], label=name)
    if found.zero is not None:
        axes.axvline(found.zero, color="black", linewidth=0.6)
    if found.is_log:
        axes.set_xscale("log")
    if found.is_skewed:
        axes.set_xscale("symlog", linthresh=0.01)
    labels = [textwrap.shorten(row.label, WIDE, placeholder=" ...") for row in found.rows]
    axes.set(yticks=range(len(labels)), yticklabels=labels, xlabel=found.axis)
    axes.invert_yaxis()
    axes.grid(axis="x", alpha=0.3)
    if any(series):
        axes.legend(
            fontsize=7, frameon=False, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3
        )
