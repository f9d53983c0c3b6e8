"""A picture of a tree: tests on the left, leaves on the right.

The tree grows from left to right, so that every leaf is a readable line: its class with a bar of
probabilities, or its mean with its noise, and its rows with theirs. Needs matplotlib (`pip install
hedgerow[plot]`).
"""

from __future__ import annotations

import io
import textwrap
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hedgerow.errors import ParameterError
from hedgerow.privacy.statement.statement import PrivacyStatement
from hedgerow.report.view import Leaf, Mean, Question, Verdict, View, view_of
from hedgerow.report.weighing import Readable

COLORS = ("#4477AA", "#EE6677", "#228833", "#CCBB44", "#66CCEE", "#AA3377", "#BBBBBB")
"""Color-blind safe (Tol's bright scheme); later classes share the last gray."""
INK, FAINT, LINE = "#222222", "#6b6b6b", "#9a9a9a"
LEVEL_STEP, ROW, BOX = 3.05, 0.62, 2.1
BAR_START, BAR_WIDTH = 0.35, 2.2
LETTERS = 22
PICTURE_KINDS = (".svg", ".png", ".pdf")


@dataclass
class Layout:
    """Positions in the picture: one line per leaf, a test between its two sides."""

    depth: int
    leaves: list[tuple[float, Leaf]] = field(default_factory=list)
    questions: list[tuple[float, float, Question]] = field(default_factory=list)
    edges: list[tuple[float, float, float, float, str]] = field(default_factory=list)

    def place(self, view: View, level: int) -> float:
        """The height of a node, after all nodes below it are placed."""
        if not isinstance(view, Question):
            y = -ROW * len(self.leaves)
            self.leaves.append((y, view))
            return y
        heights = [self.place(child, level + 1) for child in view.children]
        y, x = sum(heights) / 2.0, LEVEL_STEP * level
        self.questions.append((x, y, view))
        for child, height, word in zip(view.children, heights, ("yes", "no"), strict=True):
            end = LEVEL_STEP * (level + 1 if isinstance(child, Question) else self.depth)
            self.edges.append((x, y, end, height, word))
        return y


@dataclass(frozen=True, repr=False)
class InlinePicture:
    """A picture that a notebook shows as the value of a cell."""

    svg: str

    def _repr_svg_(self) -> str:
        return self.svg

    def __repr__(self) -> str:
        return "a picture; draw_tree(path) writes it to a file"


def draw_tree(model: Readable, path: str | Path | None = None) -> Path | InlinePicture:
    """Writes the picture; the suffix of `path` decides the format: .svg, .png or .pdf.

    Without a path, returns it for display in a notebook.
    """
    target = io.StringIO() if path is None else _target(path)
    try:
        import matplotlib
    except ImportError:
        raise ParameterError(
            "a picture needs matplotlib, which is not installed; pip install 'hedgerow[plot]'."
        ) from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    view = view_of(model)
    layout = Layout(_depth(view))
    layout.place(view, 0)
    right = LEVEL_STEP * layout.depth + BAR_START + BAR_WIDTH + 2.4
    bottom = -ROW * (len(layout.leaves) - 1)
    figure, axis = plt.subplots(figsize=(0.92 * (right + 1.6), 0.92 * (2.3 - bottom)))
    axis.set(xlim=(-1.25, right), ylim=(bottom - 1.0, 1.25))
    axis.axis("off")
    _draw_edges(axis, layout)
    _draw_questions(axis, layout)
    _draw_leaves(axis, layout)
    _draw_notes(axis, layout, model, bottom)
    with matplotlib.rc_context({"svg.hashsalt": "hedgerow"}):
        kind = "svg" if path is None else None
        figure.savefig(target, dpi=110, bbox_inches="tight", facecolor="white", format=kind)
    plt.close(figure)
    return InlinePicture(target.getvalue()) if isinstance(target, io.StringIO) else target


def _target(path: str | Path) -> Path:
    target = Path(path)
    if target.suffix not in PICTURE_KINDS:
        raise ParameterError(
            f"the picture's file is {str(path)!r}; end its name in {', '.join(PICTURE_KINDS)}."
        )
    if not target.parent.is_dir():
        raise ParameterError(
            f"{str(target.parent)!r} is no folder; make it first, or name another."
        )
    return target


def _depth(view: View) -> int:
    return 1 + max(map(_depth, view.children)) if isinstance(view, Question) else 0


def _draw_edges(axis: Any, layout: Layout) -> None:
    for x, y, end, height, word in layout.edges:
        turn = x + BOX / 2.0 + 0.28
        way = ([x, turn, turn, end + 0.2], [y, y, height, height])
        axis.plot(*way, color=LINE, lw=1.2, zorder=0)  # boxes cover its start
        above, level = (0.05, "bottom") if height > y else (-0.05, "top")
        _write(axis, turn + 0.06, height + above, word, 8, FAINT, va=level)


def _write(
    axis: Any, x: float, y: float, words: str, size: float, color: str = INK, **more: Any
) -> None:
    axis.text(x, y, words, fontsize=size, color=color, **{"va": "center"} | more)


def _draw_questions(axis: Any, layout: Layout) -> None:
    for x, y, question in layout.questions:
        words = "\n".join(
            textwrap.wrap(f"{question.words}?", LETTERS, max_lines=4, placeholder=" ...")
        )
        box = {"boxstyle": "round,pad=0.45", "fc": "#f6f4ee", "ec": LINE, "lw": 1.0}
        _write(axis, x, y, words, 9, ha="center", linespacing=1.25, bbox=box)


def _draw_leaves(axis: Any, layout: Layout) -> None:
    left = LEVEL_STEP * layout.depth + BAR_START
    means = [verdict.value for _, verdict in layout.leaves if isinstance(verdict, Mean)]
    for y, verdict in layout.leaves:
        if isinstance(verdict, Mean):
            _draw_mean(axis, (left, y), verdict, (min(means), max(means)))
        else:
            _draw_classes(axis, (left, y), verdict)
        words = f"{verdict.rows:.0f} ± {verdict.rows_spread:.0f} records"
        _write(axis, left + BAR_WIDTH + 0.15, y - 0.14, words, 7.5, FAINT)


def _draw_classes(axis: Any, at: tuple[float, float], verdict: Verdict) -> None:
    """A bar with a part for each class, and the name of the largest."""
    left, y = at
    start, alpha, mark, ink = (left, 1.0, "", INK) if verdict.is_sure else (left, 0.35, " ?", FAINT)
    for k, part in enumerate(verdict.probabilities):
        color, width = COLORS[min(k, len(COLORS) - 1)], BAR_WIDTH * part
        axis.barh(y, width, left=start, height=0.3, color=color, alpha=alpha, lw=0)
        start += width
    words = f"{verdict.name} {verdict.probability:.0%}{mark}"
    _write(axis, left + BAR_WIDTH + 0.15, y + 0.1, words, 9.5, ink)


def _draw_mean(
    axis: Any, at: tuple[float, float], verdict: Mean, ends: tuple[float, float]
) -> None:
    """A dot between the smallest and the largest leaf, on a line as long as its noise."""
    left, y = at
    width = BAR_WIDTH / max(ends[1] - ends[0], 1e-12)
    place = left + width * (verdict.value - ends[0])
    reach = width * verdict.value_spread
    noise = (max(place - reach, left), min(place + reach, left + BAR_WIDTH))
    axis.plot([left, left + BAR_WIDTH], [y, y], color=LINE, lw=0.6, zorder=0)
    axis.plot(noise, [y, y], color=COLORS[0], lw=5.0, alpha=0.35, solid_capstyle="butt")
    axis.plot([place], [y], "o", color=COLORS[0], markersize=6)
    words = f"{verdict.value:.4g} ± {verdict.value_spread:.2g}"
    _write(axis, left + BAR_WIDTH + 0.15, y + 0.1, words, 9.5)


def _draw_notes(axis: Any, layout: Layout, model: Readable, bottom: float) -> None:
    note = "Every number carries noise that protects the records; ± is two of its deviations.\n"
    first = layout.leaves[0][1]
    if isinstance(first, Verdict):
        _draw_names(axis, layout, first.classes[: len(COLORS)])
        note += "Pale bars with a question mark: noise alone could change the class."
    else:
        note += "Dots lie between the smallest and the largest mean; bars are their noise."
    statement: PrivacyStatement | None = getattr(model, "privacy_", None)
    note += "" if statement is None else f" Guarantee: {statement.summary}."
    _write(axis, -1.1, bottom - 0.55, note, 7.5, FAINT, va="top")


def _draw_names(axis: Any, layout: Layout, names: tuple[str, ...]) -> None:
    left = LEVEL_STEP * layout.depth + BAR_START
    for k, name in enumerate(names):
        x, y = left + 1.6 * (k % 2), 0.62 + 0.24 * ((len(names) - 1) // 2 - k // 2)
        axis.barh(y, 0.16, left=x, height=0.13, color=COLORS[k])
        _write(axis, x + 0.25, y, name, 8.5, "black")
