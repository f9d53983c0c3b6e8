"""Curves, surfaces and importances as plain SVG, each with its noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from hedgerow.report.importances import (
    FeatureEffect,
    PairEffect,
    feature_effect,
    importances,
    pair_effect,
    pair_importances,
)
from hedgerow.report.page.html import Html, bullet_list, picture, tag
from hedgerow.report.view import DEVIATIONS
from hedgerow.report.weighing import Readable
from hedgerow.schema.arrays import FloatArray
from hedgerow.schema.grids import ColumnKind, Grid

WIDE, HIGH, MARGIN = 280.0, 120.0, 8.0
MOST_SHAPES = 12
MOST_BARS = 20
MOST_SURFACES, MOST_NAMED, SHADES = 9, 8, 4
"""Most heat maps per page, most named cells per map, and shades per sign."""
LEFT, SIDE, BEYOND, LEAST_PART = 76.0, 170.0, 15.0, 0.001
TICKS = (0.5, 0.3, 0.7)
"""Positions of numbers under a picture, most important first, if there is room."""
MOST_SHOWN_NAMES = 4
"""Most category names under a picture."""
ROOM_FOR_NAMES = 44
"""Characters that fit under a picture."""
BAND_ROOM = 1.6
"""How far bands may stretch the scale of the curves; wider ones run to the edge."""


def importance_bars(model: Readable) -> Html:
    """A bar for each important column, with a line across its end as long as the noise."""
    parts = importances(model)
    spread, shown = parts.deviations, list(parts.items())[:MOST_BARS]
    return _bars({name: (part, spread[name]) for name, part in shown if part}, "importances")


def _bars(parts: Mapping[str, tuple[float, float]], own_id: str) -> Html:
    top = max((part + DEVIATIONS * spread for part, spread in parts.values()), default=1.0)
    rows = []
    for name, (part, spread) in parts.items():
        noise = DEVIATIONS * spread
        low, high = max(part - noise, 0.0) / top, (part + noise) / top
        place = f"left:{100 * low:.1f}%;width:{100 * (high - low):.1f}%"
        bars = [tag("span", "", class_="part k0", style=f"flex-basis:{100 * part / top:.1f}%")]
        bars += [tag("span", "", class_="whisker", style=place)] if noise else []
        bar = tag("span", *bars, class_="bar", aria_hidden="true")
        value = f"{part:.1%} ± {noise:.1%}" if noise else f"{part:.1%}"
        words = tag("span", name, class_="words"), bar, tag("span", value, class_="value")
        rows.append(tag("div", *words, class_="share"))
    return tag("div", *rows, class_="shares", id=own_id)


def effect_figures(model: Readable) -> list[Html]:
    """One figure for each of the most important columns, all on one scale."""
    columns = [name for name, part in importances(model).items() if part > 0.0][:MOST_SHAPES]
    effects = [feature_effect(model, name) for name in columns]
    reach = _reach(effects)
    grids = {grid.feature: grid for grid in model.schema_.grids}
    return [_figure(effect, grids[effect.feature], reach) for effect in effects]


def _reach(effects: list[FeatureEffect]) -> float:
    curves = max((float(np.abs(effect.values).max()) for effect in effects), default=1.0) or 1.0
    bands = max((float(np.abs(effect.band).max()) for effect in effects), default=1.0)
    return min(max(curves, bands), BAND_ROOM * curves)


def _figure(effect: FeatureEffect, grid: Grid, reach: float) -> Html:
    inner = (
        f'<line class="axis" x1="0" x2="{WIDE}" y1="{HIGH / 2}" y2="{HIGH / 2}"/>'
        f"{_draw_curves(effect, reach)}{_axis(effect, grid)}"
        f'<text x="0" y="12">{reach:+.2g}</text><text x="0" y="{HIGH - 3}">{-reach:+.2g}</text>'
    )
    bins = zip(effect.words, effect.values[:, -1], effect.deviations[:, -1], strict=True)
    label = "; ".join(f"{words} {_with_noise(*numbers)}" for words, *numbers in list(bins)[:8])
    ends = [(effect.values[-1, k], effect.deviations[-1, k]) for k in _outputs(effect)]
    missing = f"missing: {', '.join(_with_noise(*numbers) for numbers in ends)}"
    return tag(
        "figure",
        tag("figcaption", effect.feature),
        picture(inner, f"0 0 {WIDE} {HIGH + 20}", label),
        tag("div", missing, class_="small"),
    )


def surface_figures(model: Readable) -> list[Html]:
    """Bars of the most important pairs, a legend, and heat maps that reach its first shade."""
    pairs = dict(list(pair_importances(model).items())[:MOST_SURFACES])
    by_name = {" with ".join(pair): part for pair, part in pairs.items() if part[0] > LEAST_PART}
    effects = [pair_effect(model, *pair) for pair in pairs]
    reach = max((float(np.abs(effect.values).max()) for effect in effects), default=0.0) or 1.0
    shown = [e for e in effects if 2 * SHADES * np.abs(e.values).max() > reach]
    grids = {grid.feature: grid for grid in model.schema_.grids}
    names = model.schema_.classes or ()
    maps = [_map(effect, [grids[j] for j in effect.features], reach, names) for effect in shown]
    chip = '<svg class="shade" viewBox="0 0 9 9" aria-hidden="true">{}</svg>'
    chips = [Html(chip.format(_rect(k, False, (0, 0, 9, 9)))) for k in range(-SHADES, SHADES + 1)]
    gray = Html(chip.format(_rect(SHADES // 2, True, (0, 0, 9, 9))))
    ends = tag("li", f"{-reach:+.2g} ", *chips, f" {reach:+.2g}")
    legend = tag("ul", ends, tag("li", gray, " noise alone could do this"), class_="legend")
    return [_bars(by_name, "pair-importances"), legend, tag("div", *maps, class_="columns")]


def _rect(level: int, is_faint: bool, box: tuple[float, float, float, float]) -> str:
    side = "faint" if is_faint else "up" if level > 0 else "down"
    place = 'x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"'.format(*box)
    return f'<rect class="heat {side} s{abs(level)}" {place}/>'


def _map(effect: PairEffect, grids: Sequence[Grid], reach: float, names: Sequence[str]) -> Html:
    """The first column upwards, the second to the right; missing values beyond the edges.

    For three or more classes, shows the class whose score the columns change most.
    """
    output = int(np.argmax((effect.values**2).sum(axis=(0, 1))))
    values, spread = effect.values[..., output], effect.deviations[..., output]
    title = " with ".join(effect.features) + (f": {names[output]}" if len(names) > 2 else "")
    levels = np.rint(SHADES * values / reach).astype(int)
    faint = np.abs(values) < DEVIATIONS * spread
    up, right = (_places(n) for n in values.shape)
    inner = "".join(
        _rect(levels[k, m], faint[k, m], (LEFT + x, SIDE - y - h, w, h))
        for k, (y, h) in enumerate(up)
        for m, (x, w) in enumerate(right)
    )
    (low, high), (first, last) = map(_ends, effect.words, grids)
    for x, y, words, anchor in (
        (LEFT - 4.0, SIDE, low, "end"), (LEFT - 4.0, 10.0, high, "end"),
        (LEFT, SIDE + 14.0, first, "start"), (LEFT + SIDE, SIDE + 14.0, last, "end"),
    ):  # fmt: skip
        inner += tag("text", words, x=x, y=y, text_anchor=anchor)
    order = np.unravel_index(np.argsort(-np.abs(values), axis=None)[:MOST_NAMED], values.shape)
    rows, columns = effect.words
    named_cells = [
        f"{rows[k]} with {columns[m]}: {_with_noise(values[k, m], spread[k, m])}"
        for k, m in zip(*order, strict=True)
    ]
    box = f"0 {-BEYOND} {WIDE} {SIDE + BEYOND + 20}"
    return tag(
        "figure",
        tag("figcaption", title),
        picture(inner, box, "; ".join([title, *named_cells])),
        tag("div", "Up: {}. To the right: {}.".format(*effect.features), class_="small"),
        tag("details", tag("summary", "Largest values"), bullet_list(named_cells), class_="small"),
    )


def _places(n_bins: int) -> list[tuple[float, float]]:
    """Start and length of each bin, all equally wide; missing values beyond the edge."""
    width = SIDE / max(n_bins - 1, 1)
    return [*((k * width, width) for k in range(n_bins - 1)), (SIDE + BEYOND / 3, BEYOND / 2)]


def _ends(words: Sequence[str], grid: Grid) -> tuple[str, str]:
    """Labels of an axis."""
    if grid.kind is ColumnKind.NUMERIC:
        return _number(grid.low, grid), _number(grid.high, grid)
    first, last = (words[k].removeprefix(f"{grid.feature} = ") for k in (0, -2))
    return _short(first, 10), _short(last, 10)


def _axis(effect: FeatureEffect, grid: Grid) -> str:
    """Labels at the bins' edges: all bins are equally wide, whatever values they hold."""
    n_bins = max(len(effect.cells) - 1, 1)
    if grid.kind is not ColumnKind.NUMERIC:
        return _categories(effect, n_bins)
    first, last = _number(grid.low, grid), _number(grid.high, grid)
    room = {words: (len(words) + 1) / ROOM_FOR_NAMES for words in (first, last)}
    label_spans = {first: (0.0, room[first]), last: (1.0 - room[last], 1.0)}
    between = list[tuple[float, str]]()
    for k in (round(n_bins * part) for part in TICKS if n_bins > 1):
        words, place = _number(grid.edges[effect.cells[k] - 1], grid), k / n_bins
        half = (len(words) + 1) / ROOM_FOR_NAMES / 2.0
        is_free = all(
            place + half < begin or end < place - half for begin, end in label_spans.values()
        )
        if is_free and words not in label_spans:
            label_spans[words] = (place - half, place + half)
            between.append((place, words))
    inner = "".join(_tick(place, words, "middle") for place, words in sorted(between))
    return _tick(0.0, first, "start") + inner + _tick(1.0, last, "end")


def _number(value: float, grid: Grid) -> str:
    """A number at a picture's resolution: a thousandth of the range is zero."""
    unit = 10.0 ** math.floor(math.log10((grid.high - grid.low) / 1000.0))
    return f"{round(value / unit) * unit + 0.0:.4g}"


def _categories(effect: FeatureEffect, n_bins: int) -> str:
    """Names under their bins if there is room, else those of the first and the last."""
    names = [words.removeprefix(f"{effect.feature} = ") for words in effect.words[:n_bins]]
    if n_bins > MOST_SHOWN_NAMES:
        return _tick(0.0, _short(names[0], 18), "start") + _tick(1.0, _short(names[-1], 18), "end")
    room = round(ROOM_FOR_NAMES / n_bins)
    places = ((k + 0.5) / n_bins for k in range(n_bins))
    return "".join(
        _tick(at, _short(name, room), "middle") for at, name in zip(places, names, strict=True)
    )


def _short(words: str, length: int) -> str:
    return words if len(words) <= length else f"{words[: length - 1]}…"


def _tick(place: float, words: str, anchor: str) -> str:
    return tag("text", words, x=f"{WIDE * place:.1f}", y=HIGH + 14, text_anchor=anchor)


def _with_noise(value: float, deviation: float) -> str:
    """A value and two deviations, in one digit without an exponent where people can read it."""
    noise = DEVIATIONS * deviation
    return f"{value:+.2g} ± {noise:.1g}" if noise < 9.5 else f"{value:+.2g} ± {noise:.0f}"


def _draw_curves(effect: FeatureEffect, reach: float) -> str:
    """A band and a line per output; bins are adjacent and equally wide."""
    bin_range = slice(0, -1) if len(effect.values) > 1 else slice(None)  # the last bin is missing
    bands, lines = "", ""
    for k in _outputs(effect):
        line, low, high = (
            _points(values[bin_range, k], reach) for values in (effect.values, *effect.band)
        )
        lines += f'<polyline class="curve k{min(k, 6)}" points="{" ".join(line)}"/>'
        if effect.deviations.any():
            edge = " ".join([*high, *low[::-1]])
            bands += f'<polygon class="band k{min(k, 6)}" points="{edge}"/>'
    return bands + lines


def _outputs(effect: FeatureEffect) -> list[int]:
    """The outputs to draw; for two classes the second, since the first mirrors it."""
    many = effect.values.shape[1]
    return [1] if many == 2 else list(range(many))


def _points(values: FloatArray, reach: float) -> list[str]:
    width = WIDE / len(values)
    places = HIGH / 2 - np.clip(values / reach, -1.0, 1.0) * (HIGH / 2 - MARGIN)
    return [f"{x:.1f},{y:.1f}" for k, y in enumerate(places) for x in (k * width, (k + 1) * width)]
