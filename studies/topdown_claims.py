"""What Wang, Dick and Balcan 2020 say of their runs, and what their algorithm gives on mnist."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from studies import authors
from studies.claims import (
    ABSTRACT,
    OURS,
    PUBLISHED,
    Claim,
    Lead,
    by_place,
    clustered,
    lead,
)
from studies.pages import Line, curves, evenly, left_out, level, line, repeats
from studies.topdown_fits import BASELINES, LOADERS

RUNS = 100
ROWS = {"avazu": 1_100_000}
"""Rows that the paper names for a set of which we have a part."""
MNIST = {8.0: 0.42, 64.0: 0.56, 512.0: 0.671}
"""epsilon -> test accuracy of the authors' algorithm for one machine."""
ADULT_RANGES = {"file": (0.805, 0.829), "authors": (0.822, 0.837)}
"""Adult at epsilon 1 and without noise, with the file's ranges and with the authors'."""


# --------------------------------------------------------------------------------------------------
# Figures 1 to 6 of Wang, Dick and Balcan 2020, each with one number of runs.
Tables = Mapping[str, pd.DataFrame]
BODY = ("adult", "bank")
"""Sets of the paper's Figures 1 and 3; the others are in its appendix."""
CELL = ["name", "method", "fraction", "budget", "leaf_fraction", "alpha"]
NO_CELLS = "its cells were not run.\n"


def draw_all(out: Path, tables: Tables) -> str:
    return "\n".join(
        [
            "## Figures\n",
            _privacy(out, tables, "curves", "test", "test accuracy", "Figure 2"),
            _privacy(out, tables, "printed", "test", "test accuracy, as published", "Figure 2"),
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
        return f"{figure}: {NO_CELLS}"
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
        return f"{figure}: {NO_CELLS}"
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
    return _draw_sizes(path, tables, names, figure, "test")


def _sizes_train(path: Path, tables: Tables, names: Sequence[str], figure: str) -> str:
    return _draw_sizes(path, tables, names, figure, "train")


def _draw_sizes(path: Path, tables: Tables, names: Sequence[str], figure: str, value: str) -> str:
    whole, plain = tables["training_size"], tables["size_baselines"]
    whole = whole[whole["name"].isin(names)]
    table = even(whole)
    if table.empty:
        return f"{figure}: {NO_CELLS}"
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


# --------------------------------------------------------------------------------------------------
# The claims of Wang, Dick and Balcan 2020, judged on pairs of one run at one epsilon.
ORDERED_SETS = ("adult", "bank", "credit_default", "skin")
"""Sets on which the paper claims an order."""
REPEATED = tuple(2.0**k for k in range(-3, 10, 3))
"""Epsilons of which there are more repeats, on those sets."""
CLOSE = 0.005
"""Half a per cent of accuracy: what "converges to the baseline" means here."""
THREE = {
    "SingleMachine": "single machine",
    "LocalRNM": "local choice",
    "NoisyCounts": "noisy counts as written",
}
"""The paper's methods with our repairs."""
AS_PRINTED = {
    "SingleMachine": "SingleMachine RNM",
    "LocalRNM": "LocalRNM",
    "NoisyCounts": "NoisyCounts",
}
"""The same without any, from `hedgerow.papers`."""
BY_PROGRAM = ("adult", "bank", "credit_default")
"""Sets on which the authors' program was run."""
KEYS = ["seed", "name", "fraction", "budget", "leaf_fraction", "alpha"]


def claims(tables: Tables) -> list[Claim]:
    repaired = [
        *_sizes(tables["training_size"], "test", f"{ABSTRACT}; Theorem 3, Figure 3"),
        _converges(tables),
        *_order(tables["curves"], REPAIRED_ORDER),
        _more_epsilon(tables["curves"], THREE),
        _above_its_tree(tables, "avazu"),
        *_leaf_share(tables["leaf_fraction"]),
        _variance(tables["training_size"]),
        _small_parts(tables),
        *_shapes(tables["curves"], THREE),
        *_sizes(tables["training_size"], "train", "Figure 6"),
    ]
    sent = tables.get("bytes", pd.DataFrame())
    return [
        *(_less_sent(sent) if len(sent) else ()),
        *(replace(claim, column=OURS) for claim in repaired),
        *_printed(tables["printed"]),
    ]


def _less_sent(table: pd.DataFrame) -> Iterator[Claim]:
    """Numbers told, as the paper counts; and bytes of the whole secure sum here."""
    for column, what in ((PUBLISHED, "numbers"), (OURS, "bytes")):
        wide = table.pivot_table(index=["name", "seed"], columns="method", values=what)
        found = _by(1.0 - wide["LocalRNM"] / wide["NoisyCounts"], "name")
        yield Claim(
            "LocalRNM significantly reduces communication",
            f"{ABSTRACT}; section 3",
            found,
            f"part of NoisyCounts' {what} a split that it saves",
            column=column,
        )


def pairs(table: pd.DataFrame, column: str, first: object, second: object) -> pd.Series:
    """Test accuracy at one value of a column less that at another, all else equal."""
    keys = [k for k in ("method", *KEYS) if k != column]
    wide = table[table[column].isin([first, second])].pivot_table(
        index=keys, columns=column, values="test"
    )
    if first not in wide or second not in wide:
        return pd.Series(dtype=float)
    return (wide[first] - wide[second]).dropna()


def _by(values: pd.Series, level: str) -> dict[str, Lead]:
    """All pairs of one run are one cluster: it divides the rows once."""
    if values.empty:
        return {}
    groups = values.groupby(level, sort=False)
    return {str(k): clustered(part, ["seed"], "runs") for k, part in groups}


# -------------------------------------------------------------------------------- Figures 1 and 4
def _leaf_share(table: pd.DataFrame) -> list[Claim]:
    if table.empty:
        return []
    low, high = float(table["leaf_fraction"].min()), float(table["leaf_fraction"].max())
    middle = float(sorted(table["leaf_fraction"].unique())[table["leaf_fraction"].nunique() // 2])
    made = []
    for edge in (low, high):
        found = _by(pairs(table, "leaf_fraction", middle, edge), "name")
        made.append(
            Claim(
                f"Accuracy suffers if leaves get {('little' if edge == low else 'nearly all')}",
                "Figures 1 and 4",
                found,
                f"leaf share {middle:g} less {edge:g}",
            )
        )
    decay = _by(pairs(table, "budget", "decay", "even"), "name")
    made.append(
        Claim(
            "The decaying budget is more accurate than the even one",
            "section 3, Figure 1",
            decay,
            "decay less even",
        )
    )
    fall = pairs(table, "leaf_fraction", middle, low)
    if {"decay", "even"} <= set(fall.index.get_level_values("budget")):
        wide = fall.unstack("budget")
        found = _by((wide["decay"] - wide["even"]).dropna(), "name")
        made.append(
            Claim(
                "With little for leaves, the decaying budget suffers more than the even one",
                "Figure 1",
                found,
                f"loss from {middle:g} to {low:g}, decay less even",
            )
        )
    return made


# -------------------------------------------------------------------------------------- Figure 2
def _more_epsilon(table: pd.DataFrame, lines: Mapping[str, str]) -> Claim:
    low, high = float(table["alpha"].min()), float(table["alpha"].max())
    three = table[table["method"].isin(lines.values())]
    found = _by(pairs(three, "alpha", high, low), "name")
    return Claim("Accuracy grows with epsilon", "Figure 2", found, f"epsilon {high:g} less {low:g}")


def gaps(tables: Tables, alpha: float) -> pd.DataFrame:
    """Each line at an epsilon less its own tree without noise."""
    table = tables["curves"][tables["curves"]["alpha"] == alpha]
    plain = tables["baselines"].groupby(["name", "method"])["test"].mean()
    base = [
        plain.get((name, unnoised(method)), float("nan"))
        for name, method in zip(table["name"], table["method"], strict=True)
    ]
    return table.assign(gap=table["test"] - base)


def _converges(tables: Tables) -> Claim:
    """At the largest epsilon no more than `CLOSE` below its own tree."""
    top = float(tables["curves"]["alpha"].max())
    table = gaps(tables, top)
    found = {
        f"{words} on {name}": lead(part["gap"])
        for words, method in THREE.items()
        for name, part in table[table["method"] == method].groupby("name", sort=False)
    }
    met = {name: replace(gap, mean=gap.mean + CLOSE).verdict for name, gap in found.items()}
    authors = "; ".join(f"epsilon {e:g}: {a:.3f}" for e, a in MNIST.items())
    return Claim(
        f"All three meet the tree without noise as epsilon grows (not {CLOSE:g} below)",
        "Figure 2",
        found,
        f"epsilon {top:g} less no noise",
        judged=met,
        authors=f"SingleMachine on mnist, {authors}",
    )


REPAIRED_ORDER = (
    ("SingleMachine is the best", "single machine", "local choice"),
    ("LocalRNM is better than NoisyCounts", "local choice", "noisy counts as written"),
    (
        "LocalRNM is better than NoisyCounts with a table per feature",
        "local choice",
        "noisy counts, silo",
    ),
    (
        "LocalRNM is better than NoisyCounts with shared noise",
        "local choice",
        "noisy counts, shares",
    ),
)
PROGRAMS = {
    "SingleMachine is the best": ("SingleMachine RNM", "LocalRNM"),
    "LocalRNM is better than NoisyCounts": ("LocalRNM", "NoisyCounts"),
    "NoisyCounts grows the deepest trees": ("NoisyCounts", "SingleMachine RNM"),
    "LocalRNM grows the shallowest trees": ("SingleMachine RNM", "LocalRNM"),
}
"""What the authors' program compares for a claim."""
PRINTED_ORDER = (
    ("SingleMachine is the best", AS_PRINTED["SingleMachine"], AS_PRINTED["LocalRNM"]),
    ("LocalRNM is better than NoisyCounts", AS_PRINTED["LocalRNM"], AS_PRINTED["NoisyCounts"]),
)


def _order(table: pd.DataFrame, compared: Sequence[tuple[str, str, str]]) -> list[Claim]:
    part = table[table["name"].isin(ORDERED_SETS) & table["alpha"].isin(REPEATED)]
    wide = part.pivot_table(index=["name", "seed", "alpha"], columns="method", values="test")
    made = []
    for says, first, second in compared:
        if first in wide and second in wide:
            by_run = (wide[first] - wide[second]).groupby(["name", "seed"]).mean()
            found = _by(by_run, "name")
            program = authors.wang("value", *PROGRAMS[says], BY_PROGRAM) if says in PROGRAMS else {}
            verdicts = by_place(found)
            made.append(Claim(says, "Figure 2", found, judged=verdicts, program=program))
    return made


def _above_its_tree(tables: Tables, name: str) -> Claim:
    says, where = f"On {name} noise makes better trees, for some epsilon", "Figure 2"
    table = tables["curves"][tables["curves"]["name"] == name]
    if table.empty:
        return Claim(says, where, {})
    found = {}
    for words, method in THREE.items():
        best = lead([])
        for alpha in sorted(table["alpha"].unique()):
            rows = gaps(tables, alpha)
            gap = lead(rows[(rows["name"] == name) & (rows["method"] == method)]["gap"])
            if gap.n and (best.n == 0 or gap.mean > best.mean):
                best = gap
        found[words] = best
    return Claim(says, where, found, "at the best epsilon")


# ------------------------------------------------------------------------------- Figures 3 and 6
def _sizes(table: pd.DataFrame, value: str, where: str) -> list[Claim]:
    if table.empty:
        return []
    low, high = float(table["fraction"].min()), float(table["fraction"].max())
    found = _by(pairs(table.assign(test=table[value]), "fraction", high, low), "name")
    words = "test" if value == "test" else "training"
    return [
        Claim(
            f"More training rows give better {words} accuracy",
            where,
            found,
            f"{high:g} less {low:g} of the rows",
        )
    ]


def _variance(table: pd.DataFrame) -> Claim:
    says, where = "Fewer rows scatter more", "Figure 3"
    if table.empty or table["seed"].nunique() < 2:
        return Claim(says, where, {})
    keys = ["name", "method", "alpha", "fraction"]
    spread = table.groupby(keys, sort=False)["test"].std(ddof=1).unstack("fraction")
    found = lead(spread[spread.columns.min()] - spread[spread.columns.max()])
    words = "sample deviation of the smallest less the largest part"
    return Claim(says, where, {"": found}, f"{words}")


def _small_parts(tables: Tables) -> Claim:
    """NoisyCounts on bank: private curves of small parts above the tree without noise."""
    says = "On bank, small parts do better with noise than without (NoisyCounts)"
    table, plain = tables["training_size"], tables["size_baselines"]
    if table.empty or plain.empty:
        return Claim(says, "Figure 3", {})
    table = table[(table["name"] == "bank") & table["method"].str.startswith("noisy counts")]
    plain = plain[(plain["name"] == "bank") & (plain["method"] == "without noise")]
    base = plain.set_index(["fraction", "seed"])["test"]
    found = {}
    for fraction, part in table[table["fraction"] < table["fraction"].max()].groupby("fraction"):
        rows = part.set_index(["fraction", "seed"])
        gap = rows["test"] - base.reindex(rows.index)
        found[f"{fraction:g} of the rows"] = lead(gap.groupby("seed").mean())
    return Claim(says, "Figure 3", found)


# -------------------------------------------------------------------------------------- Figure 5
def _shapes(table: pd.DataFrame, lines: Mapping[str, str]) -> list[Claim]:
    low, high = float(table["alpha"].min()), float(table["alpha"].max())
    made = []
    for value, words in (("depth", "levels"), ("leaves", "leaves")):
        renamed = table[table["method"].isin(lines.values())].assign(test=lambda t, v=value: t[v])
        found = _by(pairs(renamed, "alpha", high, low), "name")
        made.append(
            Claim(
                f"Trees have fewer {words} at a smaller epsilon",
                "Figure 5",
                found,
                f"epsilon {high:g} less {low:g}",
            )
        )
    wide = table.pivot_table(index=["name", "seed", "alpha"], columns="method", values="depth")
    for says, first, second in (
        ("NoisyCounts grows the deepest trees", lines["NoisyCounts"], lines["SingleMachine"]),
        ("LocalRNM grows the shallowest trees", lines["SingleMachine"], lines["LocalRNM"]),
    ):
        if first in wide and second in wide:
            found = _by((wide[first] - wide[second]).dropna(), "name")
            made.append(
                Claim(
                    says,
                    "Figure 5",
                    found,
                    f"depth of {first} less {second}",
                    program=authors.wang("depth", *PROGRAMS[says], BY_PROGRAM),
                    decimals=1,
                )
            )
    return made


# ------------------------------------------------------------------------------------ as published
def _printed(table: pd.DataFrame) -> list[Claim]:
    """The claims on which the repairs could bear, without them."""
    if table.empty:
        return []
    return [
        *_order(table, PRINTED_ORDER),
        _more_epsilon(table, AS_PRINTED),
        *_shapes(table, AS_PRINTED),
    ]
