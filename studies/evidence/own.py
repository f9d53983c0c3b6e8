"""Our own estimators beside others, hurt records, and speed, as entries."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pandas as pd

from studies.claims import lead
from studies.evidence.entries import Entry, Source
from studies.evidence.papers import kept
from studies.kept import archived

DATA = {
    "adult": "Adult",
    "bank": "Bank",
    "credit_gmsc": "Credit 1",
    "credit_default": "Credit 2",
    "spambase": "Spambase",
    "higgs_18k": "Higgs 18k",
}
ONE, FIVE = "hedgerow, one site", "hedgerow, five sites"
EBM, FOREST, PLAIN = "DP-EBM (interpret)", "diffprivlib forest", "LightGBM, no privacy"
AT_ONE, GAP = "test AUC, epsilon 1", "AUC below LightGBM"
EPSILONS = {f"epsilon {e:g}": e for e in (1.0, 3.0, 8.0, 100.0)} | {"no noise": math.inf}
WHICH = "python -m studies which --data DIR"
TARGETS, RIVALS, UNSEEN = "targets met", "against others", "tasks that decided no constant"
TAKEN, PLANNED = "best of ours, or as good", "estimator of a plan"
CHANGE, BELOW, RANGES = "score less that of clean records", "worse than no model", "open ranges"
SURVIVAL = {"c": "C-index", "brier": "integrated Brier score"}
CELLS, RECORDS = "cells recovered", "whole records recovered"
RATIO, ROUND = "CPU seconds over those of the reference", "round over echo"


def table(study: str, name: str) -> pd.DataFrame:
    found = archived(study).frame(name)
    assert found is not None, f"{name} is not in the archive of {study}"
    return found


# ------------------------------------------------------------------------------------------- ours
def ours() -> Iterator[Entry]:
    yield from _beside_others()
    yield from _below_plain()
    yield from _verdicts()
    yield from _taken()
    yield from _planned()


def _fresh(dataset: str, epsilon: float, n_sites: int = 1) -> pd.Series:
    rows = table("which", "fresh")
    mine = rows[(rows["dataset"] == dataset) & (rows["n_sites"] == n_sites)]
    return mine[mine["epsilon"] == epsilon].set_index("split")["auc"]


def _beside_others() -> Iterator[Entry]:
    others = {EBM: "dp_ebm", FOREST: "diffprivlib", PLAIN: "limits"}
    for key, name in DATA.items():
        for column, n_sites in ((ONE, 1), (FIVE, 5)):
            source = Source("which", "fresh", WHICH)
            yield source.mean(("ours", AT_ONE, name, column), _fresh(key, 1.0, n_sites), "AUC")
        for column, file in others.items():
            rows = table("which", file)
            mine = rows[rows["dataset"] == key]
            if "epsilon" in mine and column != PLAIN:
                mine = mine[mine["epsilon"] == 1.0]
            source = Source("which", file, WHICH)
            yield source.mean(("ours", AT_ONE, name, column), mine["auc"], "AUC")


def _below_plain() -> Iterator[Entry]:
    """On the splits that both have."""
    rows = table("which", "limits")
    source = Source("which", "fresh, limits", WHICH)
    for key, name in DATA.items():
        plain = rows[rows["dataset"] == key].set_index("split")["auc"]
        for words, epsilon in EPSILONS.items():
            gaps = (plain - _fresh(key, epsilon)).dropna()
            if len(gaps):
                yield source.mean(("ours", GAP, name, words), gaps, "AUC")


def _verdicts() -> Iterator[Entry]:
    from studies.ours import verdicts
    from studies.ours.page import joined
    from studies.ours.run import collected

    tables = collected(kept("ours"))
    everything, unseen = joined(archived("ours"), tables)
    command = "python -m studies ours --data DIR"
    for words, found, name in (
        ("mean accuracy over the tasks", verdicts.accuracy_targets(tables["classes"]), "classes"),
        ("Adult", verdicts.adult_targets(everything), "classes"),
        ("numbers", verdicts.number_targets(tables["numbers"]), "numbers"),
    ):
        met = int((found["met"] == "yes").sum())
        source = Source("ours", name, command)
        yield source.entry(("ours", TARGETS, words), met, f"of {len(found)}", len(found))
    better, worse, n, _ = verdicts.tally(verdicts.against_rivals(everything))
    source = Source("ours", "classes, parties, baselines, diffprivlib", command)
    yield source.entry(("ours", RIVALS, "clearly better"), better, f"of {n} comparisons", n)
    yield source.entry(("ours", RIVALS, "clearly worse"), worse, f"of {n} comparisons", n)
    standing = verdicts.unseen_verdicts(unseen)
    n = len(standing) * len(verdicts.EPSILONS)
    source = Source("ours", "unseen, diffprivlib", command)
    for words, column in (
        ("clearly above all others", "clearly above all at"),
        ("clearly below one of them", "clearly below one at (by)"),
    ):
        cells = int(verdicts.epsilons_named(standing[column]).sum())
        yield source.entry(("ours", UNSEEN, words), cells, f"of {n} cells", n)


def _taken() -> Iterator[Entry]:
    """In how many cells of data and epsilon each estimator is the best, or as good as it."""
    from studies.which.page import standing_of_classes, standing_of_numbers

    for kind, standing in (("classes", standing_of_classes), ("numbers", standing_of_numbers)):
        taken = [line["take"].split(", ") for line in standing(table("which", kind))]
        source = Source("which", kind, WHICH)
        for name in ("boosted", "forest", "tree"):
            times = sum(name in names for names in taken)
            yield source.entry(
                ("ours", TAKEN, kind, name), times, f"of {len(taken)} cells", len(taken)
            )


def _planned() -> Iterator[Entry]:
    from studies.planned import NEAR, compared, taken_by

    found = compared(table("planned", "cells"), taken_by(table("planned", "plans")))
    source = Source("planned", "cells, plans", "python -m studies planned --data DIR")
    for epsilon, cells in found.groupby("epsilon"):
        near = int((cells["below the best"] <= NEAR).sum())
        name = ("ours", PLANNED, f"epsilon {epsilon}")
        yield source.entry(name, near, f"of {len(cells)} data sets", len(cells))


# ------------------------------------------------------------------------------------- robustness
def robustness() -> Iterator[Entry]:
    from studies.robust.harms import HARMS
    from studies.robust.page import KEYS, is_harm

    rows = table("robust", "robust")
    source = Source("robust", "robust", "python -m studies robust --data DIR")
    scores = rows.set_index(["harm", "method", "task_name", "seed"])["score"].sort_index()
    clean = scores["clean"]
    for harm in HARMS:
        for method in ("boosted", "forest", "tree"):
            if harm != "clean" and (harm, method) in scores.index.droplevel([2, 3]):
                gaps = (scores[harm, method] - clean[method]).dropna()
                yield source.mean(("robustness", CHANGE, harm, method), gaps, "score")
    means = rows.groupby(KEYS)["score"].mean()
    harmful = sum(is_harm(str(key[0]), float(score)) for key, score in means.items())
    unit = f"of {len(means)} cells"
    yield source.entry(("robustness", BELOW, "all"), harmful, unit, len(means))
    yield from _open_ranges()


def _open_ranges() -> Iterator[Entry]:
    rows = table("open_ranges", "cells")
    keys = ["dataset", "n_sites", "epsilon", "split"]
    wide = rows.pivot_table(index=keys, columns="schema", values="auc")
    source = Source("open_ranges", "cells", "python -m studies open-ranges --data DIR")
    for epsilon, part in wide.groupby("epsilon"):
        name = ("robustness", RANGES, f"epsilon {epsilon:g}")
        yield source.lead(name, lead(part["open"] - part["true"]), "AUC")


# --------------------------------------------------------------------------------------- survival
def survival() -> Iterator[Entry]:
    """Means over data sets, of one site and of five, and of methods without privacy."""
    command = "python -m studies survival"
    private, others = table("survival", "private"), table("survival", "others")
    by_method = others.groupby("dataset")["method"].nunique()
    shared = by_method.index[by_method == by_method.max()]  # sets that every method was run on
    paired = private["dataset"].isin(shared) & private["split"].isin(others["split"].unique())
    private, others = private[paired], others[others["dataset"].isin(shared)]
    source = Source("survival", "private", command)
    for measure, words in SURVIVAL.items():
        by = private.groupby(["n_sites", "epsilon", "dataset"])[measure].mean()
        alone = [(1, epsilon) for epsilon in ("0.5", "1", "3", "8", "none")]
        for n_sites, epsilon in [*alone, (5, "1"), (5, "8"), (5, "none")]:
            name = ("survival", words, f"epsilon {epsilon}, {n_sites} site(s)")
            yield source.mean(name, by[n_sites, epsilon], words)
        without = others.groupby(["method", "dataset"])[measure].mean()
        for method in without.index.unique("method"):
            name = ("survival", words, f"{method}, no privacy")
            yield Source("survival", "others", command).mean(name, without[method], words)


# --------------------------------------------------------------------------------- reconstruction
def reconstruction() -> Iterator[Entry]:
    """What one site rebuilds of the others' records, over data sets and draws."""
    rows = table("reconstruction", "attacks")
    source = Source("reconstruction", "attacks", "python -m studies reconstruction --data DIR")
    for view, part in rows.groupby("view", sort=False):
        yield source.mean(("reconstruction", CELLS, str(view)), part["cells"], "share")
        yield source.mean(("reconstruction", RECORDS, str(view)), part["records"], "share")


# ------------------------------------------------------------------------------------------ speed
def speed() -> Iterator[Entry]:
    from benchmarks.run import kept as lines
    from benchmarks.timing import Row

    def entry(row: Row) -> Entry:
        name = ("speed", RATIO, row.work)
        goal = f" (goal {row.most_ratio:g})" if row.most_ratio is not None else ""
        return source.entry(name, row.ratio, f"times {row.reference}{goal}", 1)

    source = Source("benchmarks", "lines", "python -m benchmarks.run")
    yield from (entry(row) for row in lines())
    yield from _round_costs()


def _round_costs() -> Iterator[Entry]:
    from benchmarks import results
    from benchmarks.network_page import MOST_RATIO

    source = Source("benchmarks", "network", "python -m benchmarks.bench_network")
    for part in results.read("network").values():
        for one in part if isinstance(part, list) else ():
            words = f"{one['transport']}, {one['sites']} sites, {one['integers']:,} integers"
            ratio = one["round_cpu"] / one["echo_cpu"]
            unit = f"times an echo (goal {MOST_RATIO:g})"
            yield source.entry(("speed", ROUND, words), ratio, unit, one["repeats"])
