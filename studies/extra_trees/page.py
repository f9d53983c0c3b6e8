"""The page of `python -m studies extra-trees`: the paper's cells beside ours, in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from studies.extra_trees.fits import LABELS, WHOLE
from studies.extra_trees.waveform import best_accuracy
from studies.harness import Computation
from studies.pages import curves, markdown_table, write_page

# Liu et al. 2020, Table 2: accuracy and F1 of ET, FET, FET-LDP, FET-GDP.
PAPER: dict[str, dict[str, tuple[float, float]]] = {
    "spambase": {
        "ET": (0.934, 0.943),
        "FET": (0.932, 0.934),
        "LDP": (0.920, 0.920),
        "GDP": (0.919, 0.915),
    },
    "credit_default": {
        "ET": (0.805, 0.885),
        "FET": (0.814, 0.890),
        "LDP": (0.815, 0.852),
        "GDP": (0.811, 0.889),
    },
    "waveform": {
        "ET": (0.842, 0.842),
        "FET": (0.886, 0.886),
        "LDP": (0.882, 0.882),
        "GDP": (0.876, 0.876),
    },
    "letter": {
        "ET": (0.953, 0.953),
        "FET": (0.971, 0.971),
        "LDP": (0.940, 0.940),
        "GDP": (0.972, 0.972),
    },
    "kddcup99_10pct": {
        "ET": (0.994, 0.994),
        "FET": (0.994, 0.994),
        "LDP": (0.993, 0.993),
        "GDP": (0.993, 0.993),
    },
}
NEAR_SKLEARN, NEAR_PAPER, BELOW_PAPER = 0.01, 0.015, 0.02
FIGURE_TITLES = {"clients": "clients", "trees": "trees", "depth": "depth of the trees"}
FIGURE_DEFAULTS = {"clients": 0, "trees": 20, "depth": 20}
FIGURE_NAMES = {"FET": "FET", "response": "labels, epsilon 4", "silo": "silo, epsilon 8"}


def write(
    computation: Computation, table: pd.DataFrame, figure: pd.DataFrame, command: str
) -> None:
    out = computation.out
    means = table.groupby(["data", "method", "epsilon"])[["accuracy", "f1"]].agg(["mean", "std"])
    peer = _peer(out)
    parts = [
        _setting(table),
        "## Without noise: FET beside pooled extra-trees\n",
        markdown_table(_without_noise(means)),
        _verdict_without_noise(means),
        "## Labels told at random (the paper's FET-LDP)\n",
        LABEL_WORDS,
        markdown_table(_labels(means)),
        _verdict_labels(means),
        "## Noise on every sum (the paper's FET-GDP is `silo`)\n",
        NOISE_WORDS,
        _against_peer(means, peer),
        *[f"### {name}\n\n{markdown_table(_noisy(means, peer, name))}" for name in _sets(means)],
    ]
    if len(figure):
        parts += [_figure(figure, out)]
    parts += _benchmark(out)
    write_page(computation, "README.md", "Federated extra-trees", command, [*parts, _limits()])


LABEL_WORDS = """Labels only: features are not protected, and neither are counts of rows. `response`
is k-ary randomised response, `bloom` the paper's Bloom filter with permanent and instant bits,
these true with odds 3 : 1, our default, or 99 : 1. Epsilon is that of any number of reports, for
one record's label, for the whole run and all trees: the permanent bits alone decide it. What a
single report costs is less, and more at 99 : 1 than at 3 : 1.
"""
NOISE_WORDS = """Epsilon of one record, pure except for the Gaussian rows (delta = 1e-6). 5 trees of
depth 6, or 20 totally random trees of depth 8, 10 trees of depth 6 for Gaussian noise. With two
sites, of which one may collude, `shares` cannot divide the noise: it is as noisy as `silo`. With
nine sites it divides it among six. The paper does not say its epsilon. `diffprivlib` is its forest
of 20 totally random trees of depth 8 on the pooled rows, with one trusted holder.
"""
DRAWS = 100_000


def _limits() -> str:
    return f"""## What to keep in mind

* Settings were chosen by test accuracy on these same data sets, before this run: the law of cuts
  among five variants (decision record 0040), at least 5 rows in a leaf of told labels among 1, 3, 5
  and 20, the noisy forests among ten or so numbers of trees, depths and features on spambase,
  credit_default and waveform. No epsilon covers that choice, and it flatters our rows a little.
  diffprivlib was run once, with the shape of our random forest; no other shape was tried for it.
* MIMIC is not public, so the paper's row for it has no counterpart here.
* KDD Cup 99: the 10 % file, 494,021 rows, 99 : 1. The paper used 4,000,000 rows.
* The paper gives neither its number of trees for Table 2 nor its filter's size, hashes and odds,
  nor the scale of its Laplace noise. Here: 20 trees of depth 20 where nothing else is said.
* Waveform: the law of these data is known, and the best possible classifier is right in
  {best_accuracy(DRAWS):.3f} of all cases ({DRAWS:,} draws, `studies.extra_trees.waveform`). The
  paper's FET, FET-LDP and FET-GDP are above that; its pooled ET and all ours are below. Nothing can
  be expected to reach 0.886.
* Letter by Bloom filter: two labels differ in two bits, each of which gets half of epsilon, and a
  count is read from 26 noisy bits where k-ary response tells one label. With instant bits at 3 : 1
  no epsilon would do, since their fresh coins drown leaves of five rows whatever epsilon is; that
  was seen on the first division of letter, and the odds 99 : 1 were chosen there.
* Cuts come from the public range, here that of the whole file. Decision record 0040 says why, and
  what `ranges="observed"` tells and brings where the public range is wider.
"""


def _setting(table: pd.DataFrame) -> str:
    return (
        "Liu et al. 2020, Table 2 and Figure 3. Random divisions 80 : 20 (KDD Cup 99 : 1), two "
        f"sites, all sums masked. Repeats: {_repeats(table)} (the paper: 30). "
        "Accuracy and F1 are means; "
        "F1 is that of the more frequent class for two classes and micro F1 for more, which is "
        "what the paper's cells fit. F1 of every method is in table2.csv.\n"
    )


def _repeats(table: pd.DataFrame) -> str:
    """Of each set; every method has as many."""
    each = table.groupby("data", sort=False)["seed"].nunique()
    return ", ".join(f"{name} {n}" for name, n in each.items())


def _sets(means: pd.DataFrame) -> list[str]:
    there = set(means.index.get_level_values("data"))
    return [name for name in PAPER if name in there]


def _at(means: pd.DataFrame, name: str, method: str, epsilon: float, what: str) -> float:
    key = (name, method, epsilon)
    return float(means.loc[key, (what, "mean")]) if key in means.index else float("nan")


def _without_noise(means: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for name in _sets(means):
        for what, i in (("accuracy", 0), ("f1", 1)):
            et, fet, whole = (_at(means, name, m, 0.0, what) for m in ("ET", "FET", WHOLE))
            rows.append(
                {
                    "data": name,
                    "measure": what,
                    "ET, scikit-learn": et,
                    "FET, hedgerow": fet,
                    "difference": fet - et,
                    "FET, whole numbers": whole,
                    "its difference": whole - et,
                    "ET, paper": PAPER[name]["ET"][i],
                    "FET, paper": PAPER[name]["FET"][i],
                }
            )
    return pd.DataFrame(rows)


def _verdict_without_noise(means: pd.DataFrame) -> str:
    far = [
        n
        for n in _sets(means)
        if abs(_at(means, n, "FET", 0.0, "accuracy") - PAPER[n]["FET"][0]) > NEAR_PAPER
    ]
    return (
        "*Whole numbers*: the schema also says which columns hold whole numbers of a small range, "
        "which is public, and cuts fall between values. More than "
        f"{NEAR_SKLEARN} below scikit-learn in accuracy: FET {_listed(_below(means, 'FET'))}; with "
        f"whole numbers {_listed(_below(means, WHOLE))}. More than {NEAR_PAPER} away from the "
        f"paper's FET: {_listed(far)}; of these the paper's own pooled ET is as far away from its "
        f"FET on {_listed([n for n in far if _paper_gap(n) > NEAR_PAPER])}.\n"
    )


def _below(means: pd.DataFrame, method: str) -> list[str]:
    """Sets on which a method is too far below pooled extra-trees."""
    gaps = {n: _at(means, n, method, 0.0, "accuracy") for n in _sets(means)}
    least = {n: _at(means, n, "ET", 0.0, "accuracy") - NEAR_SKLEARN for n in gaps}
    return [n for n, accuracy in gaps.items() if accuracy < least[n]]


def _paper_gap(name: str) -> float:
    return abs(PAPER[name]["ET"][0] - PAPER[name]["FET"][0])


def _labels(means: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for name in _sets(means):
        for method in LABELS:
            found = means.loc[name].loc[method] if (name, method) in _pairs(means) else None
            if found is not None:
                cells = {f"epsilon {e:g}": float(v) for e, v in found[("accuracy", "mean")].items()}
                paper = PAPER[name]["LDP"][0]
                rows.append({"data": name, "told by": method, "paper": paper, **cells})
    return pd.DataFrame(rows)


def _pairs(means: pd.DataFrame) -> set[tuple[str, str]]:
    return {(d, m) for d, m, _ in means.index}


def _verdict_labels(means: pd.DataFrame) -> str:
    lines = []
    for name in _sets(means):
        needed = PAPER[name]["LDP"][0] - BELOW_PAPER
        for method in LABELS:
            enough = [
                e
                for d, m, e in means.index
                if (d, m) == (name, method) and _at(means, d, m, e, "accuracy") >= needed
            ]
            said = f"epsilon {min(enough):g} suffices" if enough else "none of these epsilons does"
            lines.append(f"* {name}, {method}: for the paper's accuracy less {BELOW_PAPER} {said}.")
    return "\n".join(lines) + "\n"


def _noisy(means: pd.DataFrame, peer: pd.DataFrame | None, name: str) -> pd.DataFrame:
    noisy = [m for m in means.loc[name].index.get_level_values(0).unique()]
    rows = []
    for method in noisy:
        if method in ("ET", "FET", WHOLE, *LABELS):
            continue
        found = means.loc[name].loc[method][("accuracy", "mean")]
        rows.append({"method": method, **{f"epsilon {e:g}": float(v) for e, v in found.items()}})
    if peer is not None and name in set(peer["data"]):
        mine = peer[peer["data"] == name].groupby("epsilon")["accuracy"].mean()
        cells = {f"epsilon {e:g}": float(v) for e, v in mine.items()}
        rows.append({"method": "diffprivlib forest, pooled", **cells})
    return pd.DataFrame(rows)


def _against_peer(means: pd.DataFrame, peer: pd.DataFrame | None) -> str:
    """Where a line of shared noise has a lower mean than diffprivlib on the same divisions."""
    if peer is None:
        return ""
    theirs = peer.groupby(["data", "epsilon"])["accuracy"].mean()
    lines = []
    for method in ("shares", "shares, random", "shares, Gaussian"):
        lost = [
            f"{name} at {epsilon:g}"
            for (name, epsilon), accuracy in theirs.items()
            if _at(means, name, method, epsilon, "accuracy") < accuracy
        ]
        lines.append(f"* `{method}` has a lower mean than diffprivlib on: {_listed(lost)}.")
    return "\n".join(lines) + "\n"


def _peer(out: Path) -> pd.DataFrame | None:
    path = out / "diffprivlib.csv"
    return pd.read_csv(path) if path.exists() else None


def _benchmark(out: Path) -> list[str]:
    """The table of `python -m benchmarks.run extra_trees`, if it was kept beside the results."""
    path = out / "benchmark.md"
    if not path.exists():
        return []
    words = "CPU seconds of `python -m benchmarks.run extra_trees`, all sites in one process.\n"
    return ["## Speed, rounds and bytes\n", words, path.read_text(encoding="utf-8")]


def _figure(figure: pd.DataFrame, out: Path) -> str:
    panels: dict[str, Mapping[str, tuple[list[float], list[float]]]] = {}
    for name in figure["data"].unique():
        for what, title in FIGURE_TITLES.items():
            panels[f"{name}: {title}"] = _lines(figure[figure["data"] == name], what)
    curves(out / "figure3", panels, "", "accuracy", log_x=False)
    return (
        f"## Figure 3\n\nFits per point: {figure['seed'].nunique()}. Clients hold a ninth of the "
        "rows each; k of them take part. 20 trees of depth 20 unless varied, except that `silo` "
        "has 5 trees of depth 6 while clients vary; it was not run with 20 trees of depth 20.\n\n"
        "![Accuracy against clients, trees and depth](figure3.png)\n"
    )


def _lines(mine: pd.DataFrame, what: str) -> dict[str, tuple[list[float], list[float]]]:
    others = [k for k in FIGURE_DEFAULTS if k != what]
    for other in others:
        mine = mine[mine[other] == FIGURE_DEFAULTS[other]]
    if what == "clients":
        mine = mine[mine["clients"] > 0]
    else:  # at the paper's setting the cell of `silo` is the table's, with few and shallow trees
        mine = mine[(mine["method"] != "silo") | (mine[what] != FIGURE_DEFAULTS[what])]
    lines = {}
    for method, points in mine.groupby("method"):
        means = points.groupby(what)["accuracy"].mean()
        lines[FIGURE_NAMES[str(method)]] = (list(means.index), list(means))
    return lines


def _listed(names: list[str]) -> str:
    return ", ".join(names) if names else "none"
