"""Draws the pictures of the Understand pages: `python -m docs.make_pictures`.

Plain SVG with colors by name, so that each is readable in the light and in the dark: a picture
that stands alone follows the system, one inside the site follows the site's own switch
(pictures.css).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import numpy as np

from hedgerow.methods.consul import accuracy_loss, balance_probability
from hedgerow.methods.gubler import impurity_bound
from hedgerow.methods.wang import rows_for_split

FOLDER = Path(__file__).with_name("images") / "understand"
STYLE = """
.hedge{--ink:#1f2933;--soft:#5b6773;--paper:#ffffff;--site:#e6f2ea;--line:#3a7d57;
--hub:#e8eefb;--hubline:#3b62b5;--noise:#b3541e;--warn:#fbeae3}
@media (prefers-color-scheme:dark){.hedge{--ink:#e7ecf1;--soft:#a7b2bd;--paper:#161b20;
--site:#1d3327;--line:#6dbd8f;--hub:#1f2b45;--hubline:#8fb0f5;--noise:#f0a072;--warn:#3d2a20}}
.hedge text{font:14px system-ui,sans-serif;fill:var(--ink)}
.hedge .small{font-size:12px;fill:var(--soft)}
.hedge .bold{font-weight:600}
.hedge .noise{fill:var(--noise)}
.hedge .mid{text-anchor:middle}
.hedge .end{text-anchor:end}
.hedge .mono{font-family:ui-monospace,monospace;font-size:13px}
.hedge .site{fill:var(--site);stroke:var(--line);stroke-width:1.5}
.hedge .hub{fill:var(--hub);stroke:var(--hubline);stroke-width:1.5}
.hedge .warn{fill:var(--warn);stroke:var(--noise);stroke-width:1.5}
.hedge .plain{fill:none;stroke:var(--soft);stroke-width:1.2}
.hedge .arrow{fill:none;stroke:var(--ink);stroke-width:1.5}
.hedge .head{fill:var(--ink)}
.hedge .curve{fill:none;stroke:var(--line);stroke-width:2}
.hedge .bound{fill:none;stroke:var(--noise);stroke-width:2;stroke-dasharray:6 4}
"""


@dataclass
class Picture:
    """A drawing that grows line by line."""

    name: str
    title: str
    width: int
    height: int
    parts: list[str] = field(default_factory=list)

    def box(self, x: float, y: float, w: float, h: float, kind: str = "site") -> None:
        self.parts.append(f'<rect class="{kind}" x="{x}" y="{y}" width="{w}" height="{h}" rx="8"/>')

    def say(self, x: float, y: float, words: str, kind: str = "") -> None:
        self.parts.append(f'<text class="{kind}" x="{x}" y="{y}">{escape(words)}</text>')

    def lines(self, x: float, y: float, words: list[str], kind: str = "", step: int = 20) -> None:
        for k, one in enumerate(words):
            self.say(x, y + step * k, one, kind)

    def arrow(self, x1: float, y1: float, x2: float, y2: float) -> None:
        self.parts.append(
            f'<path class="arrow" d="M{x1} {y1}L{x2} {y2}" marker-end="url(#{self.name}-tip)"/>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float) -> None:
        self.parts.append(f'<path class="plain" d="M{x1} {y1}L{x2} {y2}"/>')

    def dot(self, x: float, y: float, kind: str = "head", r: float = 4) -> None:
        self.parts.append(f'<circle class="{kind}" cx="{x}" cy="{y}" r="{r}"/>')

    def svg(self) -> str:
        tip = (
            f'<marker id="{self.name}-tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto"><path class="head" d="M0 0L8 4L0 8z"/></marker>'
        )
        size = (
            f'viewBox="0 0 {self.width} {self.height}" style="max-width:{self.width}px;width:100%"'
        )
        head = f'<svg xmlns="http://www.w3.org/2000/svg" class="hedge" role="img" {size}>'
        body = "\n".join(self.parts)
        return (
            f"{head}\n<title>{escape(self.title)}</title>\n<style>{STYLE}</style>\n"
            f"<defs>{tip}</defs>\n{body}\n</svg>\n"
        )


# ------------------------------------------------------------------------------------ what leaves
def what_leaves() -> Picture:
    p = Picture("what_leaves", "What leaves a site: a masked sum with noise in it", 760, 330)
    for k, name in enumerate(("Hospital A", "Hospital B", "Hospital C")):
        y = 10 + 108 * k
        p.box(10, y, 440, 92)
        p.say(24, y + 22, name, "bold")
        for j, (words, small) in enumerate(
            (
                ("rows", "stay here"),
                ("sums", "integers"),
                ("+ noise", "its part"),
                ("+ mask", "secret"),
            )
        ):
            x = 24 + 106 * j
            p.box(x, y + 34, 88, 46, "plain")
            p.say(x + 44, y + 54, words, "mid noise" if "noise" in words else "mid")
            p.say(x + 44, y + 72, small, "mid small")
            if j:
                p.arrow(x - 16, y + 57, x - 2, y + 57)
        p.arrow(450, y + 46, 556, 150 + 16 * (k - 1))
    p.box(560, 92, 190, 120, "hub")
    p.say(655, 116, "Coordinator", "mid bold")
    p.lines(655, 142, ["adds up: masks cancel,", "the noise stays.", "Sees the sum alone."], "mid")
    p.arrow(655, 212, 655, 250)
    p.box(560, 252, 190, 60, "plain")
    p.say(655, 276, "model + statement", "mid bold")
    p.say(655, 296, "may be shown to anybody", "mid small")
    return p


# ------------------------------------------------------------------------------------ secure sums
def masks() -> Picture:
    p = Picture("masks", "Three numbers, three pairs of masks, one sum", 760, 300)
    rows = (
        ("A", "17", "+ a", "+ b", "17 + a + b"),
        ("B", "4", "− a", "+ c", "4 − a + c"),
        ("C", "25", "− b", "− c", "25 − b − c"),
    )
    p.say(70, 28, "true sum", "small mid")
    p.say(300, 28, "masks, agreed in pairs", "small mid")
    p.say(560, 28, "what leaves", "small mid")
    for k, (name, own, first, second, out) in enumerate(rows):
        y = 40 + 66 * k
        p.box(10, y, 400, 52)
        p.say(26, y + 32, name, "bold")
        p.say(70, y + 32, own, "mid mono")
        p.say(250, y + 32, first, "mid mono")
        p.say(340, y + 32, second, "mid mono")
        p.arrow(410, y + 26, 458, y + 26)
        p.box(460, y, 200, 52, "hub")
        p.say(560, y + 32, out, "mid mono")
    p.line(460, 246, 660, 246)
    p.say(560, 274, "17 + 4 + 25 = 46", "mid mono bold")
    p.say(70, 274, "each line alone looks like a random number", "small")
    return p


def round_trip() -> Picture:
    p = Picture("round_trip", "One round: ask, charge, answer, open", 760, 250)
    p.box(10, 10, 180, 225, "hub")
    p.say(100, 36, "Coordinator", "mid bold")
    p.box(560, 10, 190, 225)
    p.say(655, 36, "each site", "mid bold")
    steps = (
        (70, True, "1  ROUND: which sums, of which records"),
        (115, False, "2  MASKED: one vector of whole numbers"),
        (160, True, "3  UNMASK: who answered"),
        (205, False, "4  SHARES: pieces of this round's masks"),
    )
    for y, out, words in steps:
        p.arrow(*((194, y, 556, y) if out else (556, y, 194, y)))
        p.say(375, y - 8, words, "mid")
    p.lines(
        575, 66, ["checks the study,", "charges its ledger,", "then looks at rows"], "small", 16
    )
    p.lines(575, 156, ["signs who takes", "part, once", "for each round"], "small", 16)
    p.lines(24, 200, ["adds up; gets the", "sum, nothing else"], "small", 16)
    return p


# ------------------------------------------------------------------------------------ integers
def integers() -> Picture:
    p = Picture("integers", "Floating-point noise leaves gaps; integer noise does not", 760, 250)
    p.say(10, 24, "floating point: which results are possible depends on the true value", "bold")
    for y, start, name in ((60, 0.0, "true value 0"), (100, 13.0, "true value 1")):
        p.say(10, y + 4, name, "small")
        p.line(110, y, 740, y)
        for k in range(19):
            p.dot(125 + 32.5 * k + start + (k % 3) * 2, y, "noise", 4)
    p.say(
        110,
        130,
        "a result that only one of them can give tells them apart, however loud the noise",
        "small",
    )
    p.say(
        10,
        172,
        "whole numbers: every result is possible from both, only more or less likely",
        "bold",
    )
    for y, name in ((200, "true value 0"), (234, "true value 1")):
        p.say(10, y + 4, name, "small")
        p.line(110, y, 740, y)
        for k in range(19):
            p.dot(125 + 32.5 * k, y, "head", 4)
    return p


# ------------------------------------------------------------------------------------ the ledger
def paths() -> Picture:
    p = Picture("paths", "What a record pays: tests add, of two sides one counts", 760, 320)
    p.box(290, 10, 180, 50)
    p.say(380, 32, "all records", "mid")
    p.say(380, 50, "question costs 10 %", "mid small noise")
    _node(p, 110, 110, "age < 77", "question costs 20 %")
    _node(p, 470, 110, "age >= 77: a leaf", "gets the other 90 %")
    _node(p, 20, 210, "a leaf", "gets the other 70 %")
    _node(p, 220, 210, "a leaf", "gets the other 70 %")
    p.arrow(380, 60, 200, 108)
    p.arrow(380, 60, 560, 108)
    p.arrow(200, 160, 110, 208)
    p.arrow(200, 160, 310, 208)
    p.lines(
        20,
        288,
        [
            "10 + 20 + 70 = 100 on the left, 10 + 90 = 100 on the right: a record walks one path",
            "and pays for it alone. Questions along it add up; other paths cost it nothing.",
        ],
        "small",
        18,
    )
    return p


def _node(p: Picture, x: float, y: float, words: str, cost: str) -> None:
    p.box(x, y, 180, 50)
    p.say(x + 90, y + 22, words, "mid")
    p.say(x + 90, y + 40, cost, "mid small noise")


def chain() -> Picture:
    p = Picture("chain", "Each entry of the ledger names the one before it", 760, 170)
    entries = (
        ("limit", "epsilon 4 for life"),
        ("approved", "study 1: epsilon 2"),
        ("charged", "round 1: 24 %"),
        ("charged", "round 2: 24 %"),
    )
    for k, (what, words) in enumerate(entries):
        x = 10 + 188 * k
        p.box(x, 20, 166, 84)
        p.say(x + 83, 44, what, "mid bold")
        p.say(x + 83, 66, words, "mid")
        p.say(x + 83, 90, "signed; names ←", "mid small")
        if k:
            p.arrow(x - 2, 86, x - 20, 86)
    p.box(574, 122, 166, 40, "warn")
    p.say(657, 147, "anchor: the last one", "mid")
    p.arrow(657, 122, 657, 106)
    p.say(10, 147, "an older copy of the file ends before the anchor, and is refused", "small")
    return p


# ------------------------------------------------------------------------------------ DP models
def _sites(p: Picture, marks: tuple[str, str, str], under: str) -> None:
    for k, mark in enumerate(marks):
        y = 14 + 62 * k
        p.box(10, y, 190, 50)
        p.say(24, y + 30, f"site {'ABC'[k]}: sums", "")
        p.say(120, y + 30, mark, "noise")
        p.arrow(200, y + 25, 296, 100)
    p.box(300, 70, 150, 60, "hub")
    p.say(375, 96, "sum", "mid bold")
    p.say(375, 116, under, "mid small")


def central_dp() -> Picture:
    p = Picture("central", "central: one site adds all the noise", 620, 130)
    p.box(10, 30, 240, 60)
    p.say(24, 66, "one site: sums")
    p.say(150, 66, "+ noise", "noise")
    p.arrow(250, 60, 346, 60)
    p.box(350, 30, 200, 60, "plain")
    p.say(450, 66, "everybody", "mid")
    return p


def distributed_dp() -> Picture:
    p = Picture("distributed", "distributed: each site adds a part, only the sum is seen", 620, 210)
    _sites(p, ("+ a half", "+ a half", "+ a half"), "noise 1½ times")
    p.lines(
        470,
        88,
        ["little noise; needs masks.", "Two halves are enough,", "if one site colludes."],
        "small",
        17,
    )
    return p


def per_site_dp() -> Picture:
    p = Picture("per_site", "per_site: each site adds enough for itself", 620, 210)
    _sites(p, ("+ all of it", "+ all of it", "+ all of it"), "noise three times")
    p.say(470, 104, "more noise; needs no trust", "small")
    return p


def label_dp() -> Picture:
    p = Picture("label", "label: each label is randomized once, features are open", 620, 150)
    p.box(10, 20, 270, 100)
    p.say(24, 50, "record: age 64, ward heart")
    p.say(24, 76, "label: returns")
    p.say(24, 102, "randomized once", "noise")
    p.arrow(280, 70, 346, 70)
    p.box(350, 30, 240, 80, "warn")
    p.say(470, 62, "labels protected", "mid bold")
    p.say(470, 88, "features are not", "mid")
    return p


def no_dp() -> Picture:
    p = Picture("none", "none: no noise and no guarantee", 620, 130)
    p.box(10, 30, 240, 60)
    p.say(130, 66, "sums, exact", "mid")
    p.arrow(250, 60, 346, 60)
    p.box(350, 30, 240, 60, "warn")
    p.say(470, 66, "epsilon is infinite", "mid")
    return p


# ------------------------------------------------------------------------------------ threats
def threats() -> Picture:
    p = Picture("threats", "Who may be curious, who may lie", 760, 300)
    p.box(300, 16, 170, 70, "warn")
    p.say(385, 44, "Coordinator", "mid bold")
    p.say(385, 66, "may lie, replay, split", "mid small")
    for k, (name, kind, words) in enumerate(
        (
            ("your site", "site", "believes nobody"),
            ("honest site", "site", "adds its noise"),
            ("honest site", "site", "adds its noise"),
            ("colluder", "warn", "tells all it knows"),
        )
    ):
        x = 20 + 186 * k
        p.box(x, 150, 162, 66, kind)
        p.say(x + 81, 178, name, "mid bold")
        p.say(x + 81, 200, words, "mid small")
        p.arrow(x + 81, 150, 385 + 16 * (k - 1.5), 90)
    p.box(20, 244, 720, 44, "plain")
    p.say(
        380,
        271,
        "the public: sees the model, and may know everything about everybody but you",
        "mid",
    )
    return p


# ------------------------------------------------------------------------------------ theorems
Points = list[tuple[float, float]]


def noisy_maxima() -> tuple[Points, float]:
    """Wang et al., Theorem 14: how often a noisy maximum is not within zeta of the best split.

    A hundred weak learners, whose advantages over guessing are even between 0 and .3.
    """
    zeta, epsilon, failure, k = 0.05, 1.0, 0.05, 100
    rng, right = np.random.default_rng(0), 0.5 + np.linspace(0.0, 0.3, k)
    gains = 1.0 + right * np.log2(right) + (1.0 - right) * np.log2(1.0 - right)
    needed = rows_for_split(zeta, epsilon, failure, k)
    rates = []
    for rows in needed / 2.0 ** np.arange(8.0, -1.0, -1.0):
        scale = 20.0 * math.log2(rows) / (epsilon * rows)
        chosen = np.argmax(gains + rng.laplace(0.0, scale, (400, k)), axis=1)
        missed = np.mean(gains[chosen] < gains.max() - zeta)
        rates.append((math.log2(rows / needed), float(missed)))
    return rates, failure


def wrong_labels() -> tuple[Points, Points]:
    """Consul and Williamson, Theorem 2: accuracy lost by noisy counts of a leaf, by its rows."""
    rng, purity, epsilon = np.random.default_rng(0), 0.7, 0.2
    rows = np.arange(10, 81, 10)
    noise = rng.laplace(0.0, 1.0 / epsilon, (4000, 2))
    wrong = [np.mean(purity * n + noise[:, 0] < (1 - purity) * n + noise[:, 1]) for n in rows]
    lost = [(float(n), float(w) * (2 * purity - 1)) for n, w in zip(rows, wrong, strict=True)]
    return lost, [(float(n), accuracy_loss(n, epsilon, purity)) for n in rows.tolist()]


def uneven_medians() -> tuple[Points, Points]:
    """The same, Theorem 3: how often a private median leaves fewer than t rows on a side."""
    n, t, rng = 60, 10, np.random.default_rng(0)
    x = np.concatenate([[0.0], np.sort(rng.random(n)), [1.0]])
    left, inside = np.arange(n + 1), x[n - t + 1] - x[t]
    measured, bounds = [], []
    for epsilon in np.linspace(0.0, 0.3, 13).tolist():
        weights = np.diff(x) * np.exp(-epsilon * np.abs(2 * left - n) / 2.0)
        even = weights[(left >= t) & (left <= n - t)].sum() / weights.sum()
        measured.append((epsilon, 1.0 - float(even)))
        bounds.append((epsilon, 1.0 - balance_probability(float(inside), epsilon)))
    return measured, bounds


def purest_splits() -> tuple[Points, Points]:
    """Gubler, Theorem 7: the impurity of the best split over all sites, and its bound."""
    rng, best, bounds = np.random.default_rng(0), [], []
    x, cuts = rng.random(600), np.linspace(0.05, 0.95, 19)
    y = rng.random(600) < 0.2 + 0.6 * (x > 0.5)

    def purest(of: np.ndarray) -> float:
        sides = ((y[of & (x <= c)], y[of & (x > c)]) for c in cuts)
        mixed = (sum(p.sum() * (~p).sum() / len(p) for p in two if len(p)) for two in sides)
        return min(mixed) / int(of.sum())

    for n_sites in range(1, 21):
        masks = [np.arange(600) % n_sites == k for k in range(n_sites)]
        rows = [int(mask.sum()) for mask in masks]
        bounds.append((float(n_sites), impurity_bound(rows, [purest(mask) for mask in masks])))
        best.append((float(n_sites), purest(np.ones(600, dtype=bool))))
    return best, bounds


def theorems() -> Picture:
    p = Picture("theorems", "Four theorems of the papers, and what is measured", 760, 420)
    rates, failure = noisy_maxima()
    ends = [(rates[0][0], failure), (rates[-1][0], failure)]
    panels = (
        ("Wang, Theorem 14", "failures by rows (log2, 0: the bound's)", rates, ends),
        ("Consul, Theorem 2", "accuracy lost by rows of a leaf", *wrong_labels()),
        ("Consul, Theorem 3", "uneven medians by epsilon", *uneven_medians()),
        ("Gubler, Theorem 7", "impurity of the best split by sites", *purest_splits()),
    )
    for k, (name, words, measured, bound) in enumerate(panels):
        _panel(p, 50 + 380 * (k % 2), 46 + 200 * (k // 2), name, words, measured, bound)
    return p


def _panel(
    p: Picture, x: float, y: float, name: str, words: str, measured: Points, bound: Points
) -> None:
    """Measured: a line; the theorem's: a broken one."""
    width, height = 300.0, 120.0
    low, high = measured[0][0], measured[-1][0]
    top = max(value for _, value in (*measured, *bound)) or 1.0
    p.say(x, y - 24, name, "bold")
    p.say(x, y - 8, words, "small")
    p.say(x - 6, y + 10, f"{top:.2g}", "small end")
    p.say(x - 6, y + height, "0", "small end")
    p.say(x, y + height + 18, f"{low:g}", "small")
    p.say(x + width, y + height + 18, f"{high:g}", "small end")
    p.line(x, y, x, y + height)
    p.line(x, y + height, x + width, y + height)

    def path(points: Iterable[tuple[float, float]]) -> str:
        places = (
            f"{x + width * (a - low) / (high - low):.1f} {y + height * (1 - b / top):.1f}"
            for a, b in points
        )
        return "M" + "L".join(places)

    for kind, points in (("curve", measured), ("bound", bound)):
        p.parts.append(f'<path class="{kind}" d="{path(points)}"/>')


PICTURES = (
    what_leaves,
    masks,
    round_trip,
    integers,
    paths,
    chain,
    central_dp,
    distributed_dp,
    per_site_dp,
    label_dp,
    no_dp,
    threats,
    theorems,
)


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    for draw in PICTURES:
        picture = draw()
        (FOLDER / f"{picture.name}.svg").write_text(picture.svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
