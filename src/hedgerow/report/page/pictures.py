"""Curves and importances as plain SVG."""

from __future__ import annotations

import numpy as np

from hedgerow.report.page.html import Html, tag
from hedgerow.report.reading import ColumnShape, Readable, importances, shape
from hedgerow.values.grids import ColumnKind, Grid

WIDTH, HEIGHT, MARGIN = 280.0, 120.0, 8.0
MOST_SHAPES = 12
MOST_BARS = 20


def shown_columns(model: Readable) -> list[str]:
    """Columns that matter, the most important first."""
    return [name for name, part in importances(model).items() if part > 0.0]


def importance_bars(model: Readable) -> Html:
    found = [(name, part) for name, part in importances(model).items() if part > 0.0][:MOST_BARS]
    top = max((part for _, part in found), default=1.0)
    rows = [
        tag(
            "div",
            tag("span", name, class_="words"),
            tag(
                "span",
                tag("span", "", class_="part k0", style=f"flex-basis:{100 * part / top:.1f}%"),
                class_="bar",
                aria_hidden="true",
            ),
            tag("span", f"{part:.1%}", class_="value"),
            class_="share",
        )
        for name, part in found
    ]
    return tag("div", *rows, class_="shares", id="importances")


def shape_figures(model: Readable) -> list[Html]:
    """One figure for each of the most important columns, all on one scale."""
    columns = shown_columns(model)[:MOST_SHAPES]
    found = [shape(model, name) for name in columns]
    reach = max((float(np.abs(one.values).max()) for one in found), default=1.0) or 1.0
    grids = {grid.feature: grid for grid in model.schema_.grids}
    return [_figure(one, grids[one.feature], reach) for one in found]


def _figure(one: ColumnShape, grid: Grid, reach: float) -> Html:
    drawn = _steps(one, reach)
    words = "; ".join(
        f"{said} {value:+.2g}"
        for said, value in list(zip(one.words, one.values[:, -1], strict=True))[:8]
    )
    ends = (
        (f"{grid.low:g}", f"{grid.high:g}")
        if grid.kind is ColumnKind.NUMERIC
        else ("first category", "last")
    )
    inner = (
        f'<line class="axis" x1="0" x2="{WIDTH}" y1="{HEIGHT / 2}" y2="{HEIGHT / 2}"/>{drawn}'
        f'<text x="0" y="{HEIGHT + 14}">{_escaped(ends[0])}</text>'
        f'<text x="{WIDTH}" y="{HEIGHT + 14}" text-anchor="end">{_escaped(ends[1])}</text>'
        f'<text x="0" y="12">{reach:+.2g}</text><text x="0" y="{HEIGHT - 3}">{-reach:+.2g}</text>'
    )
    picture = Html(
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT + 20}" role="img" aria-label="{_escaped(words)}">'
        f"{inner}</svg>"
    )
    missing = one.values[-1]
    said = "missing: " + ", ".join(f"{value:+.2g}" for value in missing)
    return tag("figure", tag("figcaption", one.feature), picture, tag("div", said, class_="small"))


def _steps(one: ColumnShape, reach: float) -> str:
    """A line per output; bins are set side by side, each as wide as the others."""
    values = one.values[:-1] if len(one.values) > 1 else one.values
    width, lines = WIDTH / len(values), []
    for output in range(values.shape[1]):
        places = HEIGHT / 2 - values[:, output] / reach * (HEIGHT / 2 - MARGIN)
        points = [
            f"{x:.1f},{y:.1f}" for k, y in enumerate(places) for x in (k * width, (k + 1) * width)
        ]
        lines.append(f'<polyline class="curve k{min(output, 6)}" points="{" ".join(points)}"/>')
    return "".join(lines)


def _escaped(text: str) -> str:
    return str(tag("i", text))[3:-4].replace('"', "&quot;")
