"""All that is made of the evidence: figures and pages of results, and the full pages of studies.

The leading figure of every results page shows values with their intervals, from the entries alone.
"""

from __future__ import annotations

import hashlib
import math
import os
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from html import escape
from importlib import import_module
from itertools import chain, product
from multiprocessing import get_context
from pathlib import Path

from studies import data_files
from studies.arena import (
    CLEAR,
    DEFAULT,
    FIRST_SPLIT,
    OURS,
    QUOTED,
    RATING,
    SHOWN,
    group_of,
)
from studies.arena import EPSILONS as PLAYED
from studies.arena_peers import KIND, MOST_ROWS, NEW
from studies.arena_peers import SETS as KINDS
from studies.authors import PROGRAMS
from studies.claims import ABSTRACT, COLUMNS, THEIRS
from studies.code_version import code_version
from studies.data_files import LISTED
from studies.evidence import (
    ACCURACY,
    AHEAD,
    AT_ONE,
    BELOW,
    CELLS,
    CHANGE,
    NAMED,
    NEW_SETS,
    PAPERS,
    PER_CENT,
    PLANNED,
    RANGES,
    RATIO,
    RECORDS,
    RIVALS,
    ROUND,
    SPLITS,
    STAGE,
    SURVIVAL,
    TAKEN,
    TARGETS,
    UNSEEN,
    VERDICT,
    Entry,
    Paper,
    arena,
    ours,
    reconstruction,
    robustness,
    speed,
    store,
    stored,
    survival,
    survival_words,
)
from studies.kept import ROOT, archived
from studies.measures import CONFIDENCE
from studies.planned import NEAR
from studies.reconstruction import OTHER_ROWS, OWN_ROWS, TOLERANCE
from studies.robust_fits import EPSILON
from studies.survival import FURTHER
from studies.survival import GROUPS as SETS
from studies.which import CLOSE

Entries = Sequence[Entry]
WIDE = 60
"""Letters of a label."""
COLORS = ("#17b", "#d60", "#197", "#77b", "#666")
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
    mine = [e for e in entries if e.parts[0] == page and e.unit == unit]
    rows = [
        Row(said.rsplit(" [", 1)[0], [(e.parts[2], e) for e in mine if e.parts[1] == said])
        for said in dict.fromkeys(e.parts[1] for e in mine)
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
    found = _of(entries, "survival", survival_words("c", "design"))
    rows = [Row(e.parts[2], [("", e)]) for e in found]
    return Figure(rows, "C-index, mean of the data sets", None)


def _arena(entries: Entries) -> Figure:
    players = [e.parts[2] for e in _of(entries, "arena", RATING)]
    groups = {kind: _of(entries, "arena", group_of(kind, SHOWN[1])) for kind in KINDS}
    found = {kind: {e.parts[2]: e for e in group} for kind, group in groups.items()}
    rows = [Row(p, [(k, own[p]) for k, own in found.items() if p in own]) for p in players]
    return Figure(rows, f"part of the gap that is closed at epsilon {SHOWN[1]:g}")


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
    "arena": _arena,
    "speed": _speed,
    "survival": _survival,
}


def draw(name: str, entries: Entries, path: Path) -> None:
    """As SVG with plain text: the same numbers give the same bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_picture(FIGURES[name](entries)), encoding="utf-8")


PIXELS, LEFT, RIGHT, TOP, ROW = 720, 340, 12, 24, 20
"""Of a figure: its width, what labels and the right margin take, the legend's line, and a row."""
LINEAR_TO = 0.01
"""On a skewed axis, the value beyond which steps are logarithms."""
STYLE = (
    "text{font:10px sans-serif}.grid{stroke:#ddd}.zero{stroke:#000}.frame{fill:none;stroke:#000}"
)


def _skewed(value: float) -> float:
    part = abs(value) / LINEAR_TO
    return math.copysign(part if part <= 1.0 else 1.0 + math.log10(part), value)


class _Axis:
    """Where a value stands, in pixels from the left, and which values are named below."""

    def __init__(self, figure: Figure) -> None:
        self.bend = math.log10 if figure.is_log else _skewed if figure.is_skewed else float
        found = [entry for row in figure.rows for _, entry in row.values]
        values = [v for e in found for v in (e.value, e.low, e.high) if isinstance(v, float | int)]
        bent = [self.bend(v) for v in values + ([] if figure.zero is None else [figure.zero])]
        margin = 0.03 * (max(bent) - min(bent))
        self.low, self.high = min(bent) - margin, max(bent) + margin

    def at(self, value: float) -> float:
        part = (self.bend(value) - self.low) / (self.high - self.low)
        return round(LEFT + part * (PIXELS - LEFT - RIGHT), 1)

    def named(self) -> list[float]:
        tens = [10.0**k for k in range(-5, 6)]
        if self.bend is math.log10:
            known = [m * ten for ten in tens for m in (1, 3)]
        elif self.bend is _skewed:
            known = [0.0, *(sign * ten for ten in tens for sign in (1, -1) if ten >= LINEAR_TO)]
        else:
            wide = self.high - self.low
            step = next(m * ten for ten in tens for m in (1, 2, 5) if wide / (m * ten) <= 6)
            known = [
                k * step for k in range(math.floor(self.low / step), 8 + int(self.high / step))
            ]
        return [value for value in known if self.low <= self.bend(value) <= self.high]


def _picture(figure: Figure) -> str:
    axis, bottom = _Axis(figure), TOP + ROW * len(figure.rows)
    series = list(dict.fromkeys(name for row in figure.rows for name, _ in row.values))
    colors = {name: COLORS[k % len(COLORS)] for k, name in enumerate(series)}
    lines = [*_ticks(axis, bottom), *_legend(colors)]
    if figure.zero is not None:
        lines.append(_upright(axis.at(figure.zero), bottom, "zero"))
    for k, row in enumerate(figure.rows):
        lines += _row(row, TOP + ROW * (k + 0.5), axis, colors)
    frame = f'x="{LEFT}" y="{TOP}" width="{PIXELS - LEFT - RIGHT}" height="{bottom - TOP}"'
    middle = (LEFT + PIXELS - RIGHT) / 2
    lines += [f'<rect {frame} class="frame"/>', _text(middle, bottom + 32, figure.axis, "middle")]
    size = f'viewBox="0 0 {PIXELS} {bottom + 40}" width="{PIXELS}" height="{bottom + 40}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>\n<style>{STYLE}</style>'
    ground = '<rect width="100%" height="100%" fill="#fff"/>'
    return "\n".join([head, ground, *lines, "</svg>\n"])


def _row(row: Row, middle: float, axis: _Axis, colors: Mapping[str, str]) -> Iterator[str]:
    label = textwrap.shorten(row.label, WIDE, placeholder=" ...")
    yield _text(LEFT - 8, middle + 4, label, "end")
    for k, (name, entry) in enumerate(row.values):
        y = round(middle + 0.6 * ROW * ((k + 0.5) / len(row.values) - 0.5), 1)
        color, x = colors[name], axis.at(float(entry.value))
        if entry.low is not None and entry.high is not None:
            low, high = axis.at(entry.low), axis.at(entry.high)
            yield f'<path d="M{low:g} {y:g}H{high:g}" stroke="{color}"/>'
        is_full = entry.low is None or entry.is_clear
        look = f'r="3" fill="{color}"' if is_full else f'r="2.5" fill="#fff" stroke="{color}"'
        yield f'<circle cx="{x:g}" cy="{y:g}" {look}/>'


def _ticks(axis: _Axis, bottom: float) -> Iterator[str]:
    for value in axis.named():
        yield _upright(axis.at(value), bottom, "grid")
        yield _text(axis.at(value), bottom + 14, f"{value:g}", "middle")


def _legend(colors: Mapping[str, str]) -> Iterator[str]:
    x = float(LEFT)
    for name in filter(None, colors):
        yield f'<circle cx="{x + 4:g}" cy="12" r="2.5" fill="{colors[name]}"/>'
        yield _text(x + 12, 15.5, name, "start")
        x += 30 + 5.5 * len(name)


def _upright(x: float, bottom: float, kind: str) -> str:
    return f'<path d="M{x} {TOP}V{bottom}" class="{kind}"/>'


def _text(x: float, y: float, words: str, anchor: str) -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}">{escape(words)}</text>'


# --------------------------------------------------------------------------------------------------
# The pages of results, one screen each, from docs/evidence.json and nothing else.
FOR = "For data scientists and reviewers."
METHODS = ("boosted", "forest", "tree")


def of_page(entries: Entries, page: str) -> list[Entry]:
    return [entry for entry in entries if entry.parts[0] == page]


def subject(entries: Entries, page: str, words: str) -> list[Entry]:
    return [entry for entry in of_page(entries, page) if entry.parts[1] == words]


def provenance(entries: Entries, full: Sequence[str]) -> str:
    """Last on every page: what made its numbers, and where the rest is."""
    commands = dict.fromkeys(
        e.command for e in entries if e.unit != VERDICT or e.parts[-1] != THEIRS
    )
    archives = dict.fromkeys(entry.study for entry in entries)
    files = [
        "benchmarks/results.json" if a == "benchmarks" else f"studies/data/{a}.zip"
        for a in archives
    ]
    pages = ", ".join(f"`docs/_build/evidence/{name}/README.md`" for name in full)
    return (
        f"Numbers: `docs/evidence.json`, from {', '.join(f'`{name}`' for name in files)}, made by "
        f"{', '.join(f'`{command}`' for command in commands)}. All tables and figures: "
        f"`make evidence`, then {pages}."
    )


def joined(*parts: str) -> str:
    return "\n\n".join(parts) + "\n"


def figure(name: str, words: str) -> str:
    return f"![{words}](figures/{name}.svg)"


# ----------------------------------------------------------------------------------------- papers
def paper_page(paper: Paper, entries: Entries) -> str:
    mine = of_page(entries, paper.page)
    verdicts = [e for e in mine if e.unit == VERDICT]
    columns = [name for name in COLUMNS if any(e.parts[2] == name for e in verdicts)]
    compared = sum(e.unit != VERDICT for e in mine)
    program = f"; *{THEIRS}*: `{PROGRAMS[paper.page]}`" if THEIRS in columns else ""
    subjects = list(dict.fromkeys(e.parts[1] for e in verdicts))
    parts = [
        f"# {paper.title}",
        f"{FOR} {paper.cited}: its claims, by Student's t at {CONFIDENCE:.0%}{program}. n: pairs "
        f"or draws. Of {compared} comparisons about {(1 - CONFIDENCE) * compared:.0f} would look "
        "clear by chance.",
    ]
    for title, is_first in (("In the abstract", True), ("In the text", False)):
        named = [one for one in subjects if f" [{ABSTRACT}" in one]
        rows = [one for one in subjects if (one in named) == is_first]
        if rows:
            head = ["claim", *columns, "n"]
            lines = [_claim(one, columns, verdicts, subjects) for one in rows]
            parts += [f"## {title}" if named else "## Claims", table(head, lines)]
    parts.append(figure(paper.page, "differences with their intervals, claim by claim"))
    parts.append(provenance(mine, [paper.study]))
    return joined(*parts)


def _claim(
    said: str, columns: Sequence[str], verdicts: Entries, subjects: Sequence[str]
) -> list[str]:
    """Its words, with its place in the paper if another claim has the same; verdicts; pairs."""
    words, _, where = said.rstrip("]").rpartition(" [")
    twice = sum(one.startswith(f"{words} [") for one in subjects) > 1
    place = f" ({where.removeprefix(f'{ABSTRACT}; ')})" if twice else ""
    found = {e.parts[2]: e for e in verdicts if e.parts[1] == said}
    most = max(e.n for name, e in found.items() if name != THEIRS)
    told = [str(found[name].value) if name in found else "" for name in columns]
    return [f"{words}{place}", *told, str(most)]


# ------------------------------------------------------------------------------------------- ours
def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"|{'|'.join(line)}|" for line in lines)


def auc(value: float | str) -> str:
    return f"{float(value):.3f}".removeprefix("0")


def beside_others(entries: Entries) -> tuple[list[str], dict[str, dict[str, Entry]]]:
    """Columns, and by data set the entries of test AUC at epsilon 1."""
    found: dict[str, dict[str, Entry]] = {}
    for entry in subject(entries, "ours", AT_ONE):
        found.setdefault(entry.parts[2], {})[entry.parts[3]] = entry
    return list(next(iter(found.values()))), found


def ours_page(entries: Entries) -> str:
    columns, found = beside_others(entries)
    rows = [[name, *(auc(cells[c].value) for c in columns)] for name, cells in found.items()]
    splits = sorted({entry.n for cells in found.values() for entry in cells.values()})
    mine = of_page(entries, "ours")
    return joined(
        "# Our estimators beside others",
        f"{FOR} `BoostedTreesClassifier` at its defaults, on splits that decided nothing "
        f"({splits[0]} of each set).",
        table([AT_ONE, *columns], rows),
        _gains(entries),
        _counts("## Tree and forest", entries, (TARGETS, RIVALS, UNSEEN)),
        _counts(f"## Which to take: best of ours, or within {CLOSE:g}", entries, (TAKEN,)),
        _counts(f"## Within {NEAR:g} of the best: what `hedgerow plan` names", entries, (PLANNED,)),
        figure("ours", f"{AT_ONE}, with intervals, by data set"),
        provenance(mine, ["which", "ours", "planned"]),
    )


def _gains(entries: Entries) -> str:
    """What surfaces add to the mean AUC of all sets, by epsilon, at one site and at several."""
    gains = subject(entries, "ours", STAGE)
    places = [entry.parts[2].split(", ") for entry in gains]
    epsilons, sites = (list(dict.fromkeys(place[k] for place in places)) for k in (0, 1))
    texts = {
        tuple(place): f"{entry.value:+.4f}{'' if entry.is_clear else ' ~'}"
        for place, entry in zip(places, gains, strict=True)
    }
    rows = [[name, *(texts.get((epsilon, name), "") for epsilon in epsilons)] for name in sites]
    words = (
        f"AUC with its surfaces less without, mean of the sets, on {gains[0].n} other splits; ~ is "
        "no clear difference:"
    )
    return f"{words}\n\n" + table(["", *epsilons], rows)


def _counts(title: str, entries: Entries, subjects: Sequence[str]) -> str:
    lines = [
        f"* {_words(entry)}: {entry.value:g} {entry.unit}"
        for name in subjects
        for entry in subject(entries, "ours", name)
    ]
    return f"{title}\n\n" + "\n".join(lines)


def _words(entry: Entry) -> str:
    named = {TARGETS: "targets of {}", RIVALS: "{} than others", UNSEEN: "on unseen tasks {}"}
    return named.get(entry.parts[1], "{}").format(", ".join(entry.parts[2:]))


# ------------------------------------------------------------------------------------- robustness
def robustness_page(entries: Entries) -> str:
    found: dict[str, dict[str, Entry]] = {}
    for entry in subject(entries, "robustness", CHANGE):
        found.setdefault(entry.parts[2], {})[entry.parts[3]] = entry
    (below,) = subject(entries, "robustness", BELOW)
    ranges = "; ".join(
        f"{entry.parts[2]}: {entry.value:+.3f} ({entry.low:+.3f} to {entry.high:+.3f})"
        for entry in subject(entries, "robustness", RANGES)
    )
    rows = [
        [
            harm,
            *(_change(cells.get(name)) for name in METHODS),
            str(max(e.n for e in cells.values())),
        ]
        for harm, cells in found.items()
    ]
    return joined(
        "# Corrupted records",
        f"{FOR} Epsilon {EPSILON:g}; score (AUC, accuracy or R2) less that of the same records "
        "before they were corrupted, mean over data sets and splits; a star: the interval at "
        f"{CONFIDENCE:.0%} leaves zero out.",
        table(["harm", *METHODS, "n"], rows),
        f"Worse than no model: {below.value:g} {below.unit}. Ranges left open, AUC less that "
        f"with true ones: {ranges}.",
        figure("robustness", "change of the score with intervals, by harm"),
        provenance(of_page(entries, "robustness"), ["robust", "open_ranges"]),
    )


def _change(entry: Entry | None) -> str:
    return "-" if entry is None else f"{entry.value:+.3f}{'*' if entry.is_clear else ''}"


# ------------------------------------------------------------------------------------------ arena
def arena_page(entries: Entries) -> str:
    mine = of_page(entries, "arena")
    found = {name: {e.parts[2]: e for e in subject(entries, "arena", name)} for name in QUOTED}
    new = {e.parts[2]: e for e in subject(entries, "arena", NEW_SETS)}
    rows = [
        [p, _rating(e), _rating(new.get(p)), *(_closed(kind, p, found) for kind in KINDS)]
        for e in subject(entries, "arena", RATING)
        for p in [e.parts[2]]
    ]
    shown = "/".join(f"{epsilon:g}" for epsilon in SHOWN)
    (ahead,), (named,) = (subject(entries, "arena", words) for words in (AHEAD, NAMED))
    splits = " to ".join(dict.fromkeys(f"{e.value:g}" for e in subject(entries, "arena", SPLITS)))
    counts = ", ".join(f"{len(names)} of {kind}" for kind, names in KINDS.items())
    return joined(
        "# Arena of private learners",
        f"{FOR} {len(KIND)} public sets ({counts}), at most {MOST_ROWS:,} rows, epsilon "
        f"{min(PLAYED):g} to {max(PLAYED):g}, {splits} split(s) from {FIRST_SPLIT} on, on "
        f"which nothing was decided; on the {len(NEW)} new sets ({', '.join(NEW)}) nothing ever "
        "was. Learners have their defaults. A game is a set, epsilon, split and two learners: "
        "higher AUC, accuracy or R2 wins. *Gap closed*: part of the way from no model (worse "
        "counts as none) to LightGBM or HistGB without privacy. Sets and splits were drawn again "
        "for intervals.",
        table([f"gap closed at epsilon {shown}", RATING, NEW_SETS, *KINDS], rows),
        f"Our tree or forest is more than {CLEAR:g} above `{DEFAULT}` in {ahead.value:g} "
        f"{ahead.unit}; `hedgerow plan` names it in {named.value:g}.",
        f"Ours: {', '.join(OURS)}. DP regression: noisy gradient descent; AdaSSP for numbers. "
        "diffprivlib keeps pure epsilon. A dash: not offered, or too slow (MST). Absent: PrivTab "
        "(on no package index), AIM (slower).",
        figure("arena", "gap closed with intervals, by learner and kind of target"),
        provenance(mine, ["arena"]),
    )


def _rating(entry: Entry | None) -> str:
    if entry is None or entry.low is None or entry.high is None:
        return "-"
    return f"{entry.value:.0f} ({entry.low:.0f}-{entry.high:.0f})"


def _closed(kind: str, player: str, found: Mapping[str, Mapping[str, Entry]]) -> str:
    cells = [found[group_of(kind, epsilon)].get(player) for epsilon in SHOWN]
    return "/".join("-" if cell is None else f"{cell.value:.2f}".lstrip("0") for cell in cells)


# --------------------------------------------------------------------------------- reconstruction
def reconstruction_page(entries: Entries) -> str:
    cells = subject(entries, "reconstruction", CELLS)
    whole = {e.parts[2]: e for e in subject(entries, "reconstruction", RECORDS)}
    rows = [[e.parts[2], _share(e), _share(whole[e.parts[2]])] for e in cells]
    return joined(
        "# Can one site rebuild the records of the others?",
        "For privacy officers and reviewers. An attack in the manner of TimberStrike (Di Gennaro "
        f"et al. 2025): one site of {OWN_ROWS} records takes its own part off the sums that it "
        f"sees and looks for {OTHER_ROWS} records that add up to the rest. A number counts as "
        f"recovered within {TOLERANCE} of its standard deviation, a category exactly; records are "
        f"matched as well as possible (mean and interval at {CONFIDENCE:.0%}, "
        f"{cells[0].n} attacks each).",
        table(["the attacker sees", "cells", "whole records"], rows),
        "*Nothing seen* hands in the attacker's own records: what this measure gives away to "
        "whoever knows similar people. *In the clear* is Newton boosting with exact sums: of "
        "leaves, as where trees go round (Flower), or of every node by column and cell, as where "
        "histograms are added up (FLARE). *hedgerow* is the same boosting (`split='histogram'` "
        "or totally random trees) with all that the coordinator gets, which is more than a site "
        "sees; without noise the attack works there too. Of two searches, the better counts.",
        "Limits: small sites, where such attacks are strongest; two data sets; our own program, "
        "not the authors', who report more on other data. Leaf sums gave our search no more "
        "than a guess, which does not show that they are safe. A measured attack bounds nothing: "
        "epsilon does.",
        figure("reconstruction", "share of whole records recovered, by what the attacker sees"),
        provenance(of_page(entries, "reconstruction"), ["reconstruction"]),
    )


def _share(entry: Entry) -> str:
    if not entry.low and not entry.high:
        return f"{float(entry.value):.0%}"
    ends = "" if entry.low is None or entry.high is None else _ends(entry.low, entry.high)
    return f"{float(entry.value):.0%}{ends}"


def _ends(low: float, high: float) -> str:
    return f" ({max(low, 0.0):.0%} to {min(high, 1.0):.0%})"


# ------------------------------------------------------------------------------------------ speed
def speed_page(entries: Entries) -> str:
    lines = subject(entries, "speed", RATIO)
    rounds = subject(entries, "speed", ROUND)
    goals = [entry for entry in lines if "(goal " in entry.unit]
    by_transport: Mapping[str, list[float]] = {
        transport: [float(e.value) for e in rounds if e.parts[2].startswith(transport)]
        for transport in ("HTTPS", "FLARE")
    }
    costs = "; ".join(f"{c}: {min(v):.1f} to {max(v):.1f}" for c, v in by_transport.items())
    return joined(
        "# Speed",
        "For engineers and data scientists with many rows. CPU seconds of one thread as a "
        "multiple of a named reference, both measured in one run.",
        f"{_met(goals)} goals are met; of rounds between processes {_met(rounds)}.",
        "\n".join(f"* {e.parts[2]}: {_times(e)}" for e in goals),
        "A round between processes, CPU over an echo of as many bytes "
        f"(goal {_goal(rounds[0]):g}): {costs}.",
        figure("speed", "CPU seconds over those of the reference"),
        provenance(lines + rounds, ["speed"]),
    )


def _met(entries: Entries) -> str:
    return f"{sum(float(e.value) <= _goal(e) for e in entries)} of {len(entries)}"


def _goal(entry: Entry) -> float:
    return float(entry.unit.rpartition("(goal ")[2].rstrip(")"))


def _times(entry: Entry) -> str:
    reference = entry.unit.removeprefix("times ").partition(",")[0].partition(" (goal")[0]
    return f"{float(entry.value):.2g}x {reference}"


# --------------------------------------------------------------------------------------- survival
def survival_page(entries: Entries) -> str:
    columns = [survival_words(*pair) for pair in product(SURVIVAL, SETS)]
    found: dict[str, list[str]] = {}
    for words in columns:
        for entry in subject(entries, "survival", words):
            found.setdefault(entry.parts[2], []).append(f"{float(entry.value):.3f}")
    mine = of_page(entries, "survival")
    (most,) = subject(entries, "survival", "rounds")
    return joined(
        "# Time to an event",
        f"{FOR} `SurvivalBoostedTrees` on fresh splits of two groups of sets: the twelve of the "
        f"SurvSet package on which it was designed with three made ones, and {len(FURTHER)} "
        "further: all others there with 1,500 records or more. Means over sets. A higher C-index "
        "and a lower Brier score are better. Kaplan-Meier is one curve for all; boosting and "
        "forest are scikit-survival's, trained on at most 2,000 records. Without noise five sites "
        f"learn what one would. No fit took more than {float(most.value):.0f} rounds.",
        table(["setting", *columns], [[name, *values] for name, values in found.items()]),
        figure("survival", "C-index by setting"),
        provenance(mine, ["survival"]),
    )


PAGES: dict[str, Callable[[Entries], str]] = {
    **{paper.page: partial(paper_page, paper) for paper in PAPERS},
    "ours": ours_page,
    "robustness": robustness_page,
    "reconstruction": reconstruction_page,
    "arena": arena_page,
    "speed": speed_page,
    "survival": survival_page,
}


# --------------------------------------------------------------------------------------------------
# docs/evidence.json from the archives, and all that is made of it: all pages and figures.
RESULTS = ROOT / "docs" / "results"

SECTIONS: dict[str, Callable[[], Iterable[Entry]]] = {
    **{paper.page: paper.entries for paper in PAPERS},
    "ours": ours,
    "robustness": robustness,
    "reconstruction": reconstruction,
    "arena": arena,
    "speed": speed,
    "survival": survival,
}
"""By page, what computes its entries."""


def computed() -> Iterator[Entry]:
    return chain.from_iterable(section() for section in SECTIONS.values())


def write_quoted() -> int:
    """The numbers, then what reads nothing else; gives how many numbers there are."""
    store(computed())
    entries = stored()
    for name, page in PAGES.items():
        (RESULTS / f"{name}.md").write_text(page(entries), encoding="utf-8")
        draw(name, entries, RESULTS / "figures" / f"{name}.svg")
    assert set(PAGES) == set(FIGURES) == set(SECTIONS)
    return len(entries)


# --------------------------------------------------------------------------------------------------
# The full pages of all studies, read off the archives; a page is drawn anew only if it must be.
MARK = ".made"
"""A file beside a page: the digest of all that the page was made from."""
INDEX = """# All numbers

For data scientists and reviewers. The page of every study as its command writes it, with all tables
and figures, made by `make evidence` from the archives in `studies/data`. What they come to is on
[one page for each subject](/results/index.md).

```{toctree}
:maxdepth: 1

%s
```
"""


def write_full_pages(out: Path, names: Sequence[str]) -> int:
    """Pages that were not there, or not of today's tables and code; gives their number."""
    out.mkdir(parents=True, exist_ok=True)
    stale = [name for name in names if not _is_made(out, name)]
    workers = min(len(stale), os.cpu_count() or 1)
    if stale:
        with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
            list(pool.map(write_one, [out] * len(stale), stale))
    _write(out / "data" / "README.md", data_files.page())
    pages = [f"{name}/README" for name in (*names, "speed", "data")]
    _write(out / "index.md", INDEX % "\n".join(pages))
    return len(stale)


def write_one(out: Path, name: str) -> None:
    from studies.__main__ import STUDIES, Order

    order = Order(name, page_only=True, tables=archived(name), out=out / name)
    STUDIES[name](order)
    _write(out / name / MARK, _digest(name))


def _is_made(out: Path, name: str) -> bool:
    mark = out / name / MARK
    return mark.is_file() and mark.read_text(encoding="utf-8") == _digest(name)


def _digest(name: str) -> str:
    total = hashlib.sha256(LISTED.read_bytes())
    archive = archived(name).archive
    assert archive is not None
    total.update(archive.read_bytes())
    module = import_module(f"studies.{name.replace('-', '_')}")
    total.update(code_version(module.run).encode())
    return total.hexdigest()


def _write(path: Path, text: str) -> None:
    """Left alone if it says the same: Sphinx reads what is newer."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
