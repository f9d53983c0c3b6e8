"""The pages of results, one screen each, from docs/evidence.json and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

from studies.authors import PROGRAMS
from studies.evidence.entries import PROGRAM, VERDICT, Entry
from studies.evidence.own import (
    AT_ONE,
    BELOW,
    CELLS,
    CHANGE,
    PLANNED,
    RANGES,
    RATIO,
    RECORDS,
    RIVALS,
    ROUND,
    SURVIVAL,
    TAKEN,
    TARGETS,
    UNSEEN,
)
from studies.evidence.papers import PAPERS, Paper
from studies.measures import CONFIDENCE
from studies.planned import NEAR
from studies.reconstruction import OTHER_ROWS, OWN_ROWS, TOLERANCE
from studies.robust.fits import EPSILON
from studies.which.page import CLOSE

Entries = Sequence[Entry]
FOR = "For data scientists and reviewers."
GROUPS = {
    "Holds": ("holds",),
    "Holds in part": ("holds ",),
    "Does not hold": ("does not hold",),
    "Open": ("open", "not run"),
}
"""Heading, and how a verdict begins that stands below it; the first that fits counts."""
METHODS = ("boosted", "forest", "tree")


def of_page(entries: Entries, page: str) -> list[Entry]:
    return [entry for entry in entries if entry.parts[0] == page]


def subject(entries: Entries, page: str, words: str) -> list[Entry]:
    return [entry for entry in of_page(entries, page) if entry.parts[1] == words]


def provenance(entries: Entries, full: Sequence[str]) -> str:
    """Last on every page: what made its numbers, and where the rest is."""
    commands = dict.fromkeys(e.command for e in entries if e.unit != PROGRAM)
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
    verdicts = [e for e in mine if e.unit == VERDICT and not _is_left_out(e)]
    groups = {title: [v for v in verdicts if _group(v) == title] for title in GROUPS}
    compared = sum(e.unit not in (VERDICT, PROGRAM) for e in mine)
    program = f"; *theirs*: by `{PROGRAMS[paper.page]}`" if paper.page in PROGRAMS else ""
    parts = [
        f"# {paper.title}",
        f"{FOR} {paper.cited}: its claims, by Student's t at {CONFIDENCE:.0%}. A share: in so "
        f"many of so many places; n: pairs or draws{program}. Of {compared} comparisons about "
        f"{(1 - CONFIDENCE) * compared:.0f} would look clear by chance.",
    ]
    for title, found in groups.items():
        if found:
            parts += [f"## {title}", "\n".join(_claim(v, mine, verdicts) for v in found)]
    parts.append(figure(paper.page, "differences with their intervals, claim by claim"))
    parts.append(provenance(mine, [paper.study]))
    return joined(*parts)


def _is_left_out(verdict: Entry) -> bool:
    """Claims of Wang et al. a second time, without our repairs: they are on the full page."""
    return verdict.parts[0] == "wang" and ": as printed [" in verdict.id


def _group(verdict: Entry) -> str:
    said = str(verdict.value)
    if said == "holds":
        return "Holds"
    return next(t for t, starts in GROUPS.items() if t != "Holds" and said.startswith(starts))


def _claim(verdict: Entry, entries: Iterable[Entry], all_claims: Iterable[Entry]) -> str:
    """Its words, with its place in the paper if another claim has the same ones."""
    words, _, where = verdict.parts[1].rstrip("]").rpartition(" [")
    twice = sum(v.parts[1].startswith(f"{words} [") for v in all_claims) > 1
    below = [e for e in entries if e.id.startswith(f"{verdict.id} / ")]
    places = [e.parts[-1] for e in below if e.unit != PROGRAM]
    theirs = next((f"; theirs: {e.value}" for e in below if e.unit == PROGRAM), "")
    held = share(str(verdict.value), places)
    told = [f"* {words}{f' ({where})' if twice else ''}", *([held] if held else [])]
    return f"{': '.join(told)}; n={verdict.n}{theirs}"


def share(said: str, places: Sequence[str]) -> str:
    """In how many of the places a verdict is what its first words say; empty if in all."""
    first = said.partition(";")[0]
    if first.startswith("holds in "):
        return first.removeprefix("holds in ").replace(" of ", "/")
    named = 0
    for place in sorted(places, key=len, reverse=True):  # a name may be a part of another
        if place in first:
            first, named = first.replace(place, "", 1), named + 1
    if not named:
        return ""
    return f"{len(places) - named if said.startswith('holds but') else named}/{len(places)}"


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
        _counts("## Tree and forest", entries, (TARGETS, RIVALS, UNSEEN)),
        _counts(f"## Which to take: best of ours, or within {CLOSE:g}", entries, (TAKEN,)),
        _counts(f"## Within {NEAR:g} of the best: what `hedgerow plan` names", entries, (PLANNED,)),
        figure("ours", f"{AT_ONE}, with intervals, by data set"),
        provenance(mine, ["which", "ours", "planned"]),
    )


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
        "# Hurt records",
        f"{FOR} Epsilon {EPSILON:g}; score (AUC, accuracy or R2) less that of the same records "
        "before they were hurt, mean over data sets and splits; a star: the interval at "
        f"{CONFIDENCE:.0%} leaves zero out.",
        table(["harm", *METHODS, "n"], rows),
        f"Worse than no model: {below.value:g} {below.unit}. Ranges left open, AUC less that "
        f"with true ones: {ranges}.",
        figure("robustness", "change of the score with intervals, by harm"),
        provenance(of_page(entries, "robustness"), ["robust", "open_ranges"]),
    )


def _change(entry: Entry | None) -> str:
    return "-" if entry is None else f"{entry.value:+.3f}{'*' if entry.is_clear else ''}"


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
    found: dict[str, dict[str, Entry]] = {}
    for words in SURVIVAL.values():
        for entry in subject(entries, "survival", words):
            found.setdefault(entry.parts[2], {})[words] = entry
    rows = [
        [name, *(f"{float(cells[words].value):.3f}" for words in SURVIVAL.values())]
        for name, cells in found.items()
    ]
    mine = of_page(entries, "survival")
    return joined(
        "# Time to an event",
        f"{FOR} `SurvivalBoostedTrees` on {max(e.n for e in mine)} data sets that all "
        "methods were run on. Means over sets of each one's "
        "splits; the full page has every set and split, made sets among them. A higher C-index "
        "and a lower Brier score are better. "
        "Kaplan-Meier is one curve for all; boosting and forest are scikit-survival's, trained on "
        "a sample where sets are large. Without noise five sites learn what one would.",
        table(["setting", *SURVIVAL.values()], rows),
        "Many of these sets are small: with few records or events a small epsilon gives "
        "little beyond the curve of all records.",
        figure("survival", "C-index by setting"),
        provenance(mine, ["survival"]),
    )


PAGES: dict[str, Callable[[Entries], str]] = {
    **{paper.page: partial(paper_page, paper) for paper in PAPERS},
    "ours": ours_page,
    "robustness": robustness_page,
    "reconstruction": reconstruction_page,
    "speed": speed_page,
    "survival": survival_page,
}
