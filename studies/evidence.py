"""A number that is quoted, with all that says where it is from: a line of docs/evidence.json."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby, product, takewhile
from operator import attrgetter, eq
from pathlib import Path
from typing import Any

import pandas as pd

from studies import authors
from studies.claims import THEIRS, Claim, Lead, in_short, lead
from studies.harness import CODE, Computation
from studies.kept import ROOT, archived
from studies.survival import GROUPS

FILE = ROOT / "docs" / "evidence.json"
DIGITS = 5
"""Of a value that is kept: more than any page shows."""
VERDICT = "verdict"
"""The unit of entries whose value is what holds of a claim, in words."""


@dataclass(frozen=True)
class Entry:
    """`id` is page / subject / place; `low` and `high` are the ends of the 95% interval."""

    id: str
    value: float | str
    low: float | None
    high: float | None
    n: int
    unit: str
    study: str
    table: str
    code: str
    command: str

    @property
    def parts(self) -> list[str]:
        return self.id.split(BETWEEN)

    @property
    def is_clear(self) -> bool:
        """Whether the interval leaves zero out."""
        return self.low is not None and self.high is not None and self.low * self.high > 0.0


@dataclass(frozen=True)
class Source:
    """Where numbers are from: a table of an archive, and the command that computed it."""

    study: str
    table: str
    command: str

    def entry(
        self, name: Sequence[str], value: float | str, unit: str, n: int, *ends: float
    ) -> Entry:
        low, high = (rounded(end) for end in ends) if ends else (None, None)
        kept = value if isinstance(value, str) else rounded(value)
        assert kept is not None, f"{name} has no value"
        code = codes(self.study, self.table)
        return Entry(
            BETWEEN.join(name), kept, low, high, n, unit, self.study, self.table, code, self.command
        )

    def mean(self, name: Sequence[str], values: Any, unit: str) -> Entry:
        found = lead(values)
        return self.lead(name, found, unit)

    def lead(self, name: Sequence[str], found: Lead, unit: str) -> Entry:
        return self.entry(name, found.mean, unit, found.n, *found.range)

    def claim(self, page: str, claim: Claim, unit: str) -> Iterable[Entry]:
        """The verdict, and the numbers behind it place by place."""
        subject = (page, f"{claim.says} [{claim.where}]", claim.column)
        n = sum(found.n for found in claim.leads.values())
        yield self.entry(subject, in_short(claim.verdicts), VERDICT, n)
        for place, found in claim.leads.items():
            yield self.lead((*subject, place or "all"), found, unit)
        if claim.program:
            n = sum(found.n for found in claim.program.values())
            quoted = Source(authors.STUDY, page, f"quoted: {authors.PROGRAMS[page]}")
            short = in_short(claim.of_program)
            yield quoted.entry((page, subject[1], THEIRS), short, VERDICT, n)


def rounded(value: float) -> float | None:
    """To some digits, the same on every machine; what is not finite is no number."""
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else None


@cache
def codes(study: str, tables: str) -> str:
    """Digests of the code that made a study's tables, the commonest first; none for benchmarks.

    Eight digits of each, and of three at most: the archive has all of them.
    """
    found = [archived(study).frame(table, dtype=str) for table in tables.split(", ")]
    named = [table[CODE].dropna() for table in found if table is not None and CODE in table]
    return " ".join(code[:8] for code in pd.concat(named).value_counts().index[:3]) if named else ""


ORIGIN = ("unit", "study", "table", "code", "command")
"""What many share: the file says it once."""
BETWEEN, AGAIN = " / ", "="
"""Parts of an id; in the file, one sign for each first part that is that of the line above."""


def store(entries: Iterable[Entry]) -> None:
    """All origins, then blocks of one origin: its number, and a line for each of its entries."""
    blocks, origins = [], dict[Any, int]()
    for origin, block in groupby(entries, attrgetter(*ORIGIN)):
        lines, before = [str(origins.setdefault(origin, len(origins)))], list[str]()
        for e in block:
            lines.append(_spelled([_without(before, e.parts), e.value, e.low, e.high, e.n]))
            before = e.parts
        blocks.append("[" + ",\n".join(lines) + "]")
    spelled = [_spelled(dict(zip(ORIGIN, origin, strict=True))) for origin in origins]
    blocks.insert(0, "[" + ",\n".join(spelled) + "]")
    FILE.write_text("[\n" + ",\n".join(blocks) + "\n]\n", encoding="utf-8")


def stored(path: Path = FILE) -> list[Entry]:
    found = []
    origins, *blocks = json.loads(path.read_text(encoding="utf-8"))
    for origin, *numbers in blocks:
        before = list[str]()
        for told, *rest in numbers:
            first, *others = told.split(BETWEEN)
            before = [*(before[: len(first)] if first.startswith(AGAIN) else [first]), *others]
            found.append(Entry(BETWEEN.join(before), *rest, **origins[origin]))
    return found


def _without(before: Sequence[str], parts: Sequence[str]) -> str:
    same = sum(1 for _ in takewhile(bool, map(eq, before, parts)))
    return BETWEEN.join([AGAIN * same, *parts[same:]] if same else parts)


def _spelled(part: Any) -> str:
    return json.dumps(part, ensure_ascii=False, separators=(",", ":"))


# --------------------------------------------------------------------------------------------------
# The claims of five papers, as entries: what holds of each, and the numbers behind it.
@dataclass(frozen=True)
class Paper:
    """A page of claims: its name and title, the study behind it, and where its numbers lie."""

    page: str
    title: str
    cited: str
    study: str
    command: str
    claims: Callable[[], list[Claim]]
    tables: Sequence[tuple[str, str, str]]
    """Words of a claim or of its place in the paper, table, unit; the first that fits counts."""

    def entries(self) -> Iterator[Entry]:
        """Each once: what the authors' program says stands beside several columns of a claim."""
        seen = set[str]()
        for entry in self._every_entry():
            if entry.id not in seen:
                seen.add(entry.id)
                yield entry

    def _every_entry(self) -> Iterator[Entry]:
        for claim in self.claims():
            words = f"{claim.where}: {claim.says}: {claim.column}"
            table, unit = next((t, u) for part, t, u in self.tables if part in words)
            source = Source(self.study, table, f"python -m studies {self.command} --data DIR")
            if claim.leads:
                yield from source.claim(self.page, claim, unit)


def kept(study: str) -> Computation:
    """A study that computes nothing and reads its archive alone."""
    return Computation(Path(), archived(study), page_only=True)


def _gubler() -> list[Claim]:
    from studies.gubler import collected, mixture
    from studies.gubler_claims import claims

    tables = collected(kept("gubler"))
    return claims(mixture(tables), tables["shares"])


def _wang() -> list[Claim]:
    from studies.topdown import collected
    from studies.topdown_claims import claims

    return claims(collected(kept("topdown")))


def _maddock() -> list[Claim]:
    from studies.boosted import collected
    from studies.boosted_claims import Cells, claims

    tables = collected(kept("boosted"))
    return claims(Cells(tables["cells"]), Cells(tables["published"]))


def _liu() -> list[Claim]:
    from studies.extra_trees import collected
    from studies.extra_trees_claims import claims

    tables = collected(kept("extra-trees"))
    return claims(tables["table2"], tables["figure3"], tables["printed"])


def _consul() -> list[Claim]:
    from studies.diprime import collected
    from studies.diprime_claims import claims

    return claims(collected(kept("diprime")))


ACCURACY, PER_CENT = "accuracy", "% of accuracy"
ERROR = "error, in the paper's units"
PAPERS = (
    Paper(
        "gubler",
        "Gubler's private tree",
        "H. Gubler, *Secure and Interpretable: Federated Differentially Private Decision Trees*, "
        "EPFL 2023",
        "gubler",
        "gubler",
        _gubler,
        (("3.6", "shares", PER_CENT), ("", "shallow, deep", PER_CENT)),
    ),
    Paper(
        "wang",
        "DP-TopDown: best-first trees",
        "Wang, Dick and Balcan, *Scalable and Provably Accurate Algorithms for Differentially "
        "Private Distributed Decision Tree Learning*, 2020",
        "topdown",
        "topdown",
        _wang,
        (
            ("communication", "bytes", "part saved"),
            ("leaves get", "leaf_fraction", ACCURACY),
            ("little for leaves", "leaf_fraction", ACCURACY),
            ("decaying budget is", "leaf_fraction", ACCURACY),
            ("levels at a smaller epsilon: as published", "printed", "levels"),
            ("leaves at a smaller epsilon: as published", "printed", "leaves"),
            ("trees: as published", "printed", "levels"),
            ("as published", "printed", ACCURACY),
            ("levels at a smaller", "curves", "levels"),
            ("leaves at a smaller", "curves", "leaves"),
            ("deepest", "curves", "levels"),
            ("shallowest", "curves", "levels"),
            ("Figure 3", "training_size", ACCURACY),
            ("Figure 6", "training_size", ACCURACY),
            ("", "curves", ACCURACY),
        ),
    ),
    Paper(
        "maddock",
        "Boosted trees",
        "Maddock, Cormode, Wang, Maple and Jha, *Federated Boosted Decision Trees with "
        "Differential Privacy*, CCS 2022",
        "boosted",
        "boosted",
        _maddock,
        (
            ("ranks first", "cells, published", "ranks"),
            ("1 MB", "cells", "part of a megabyte"),
            ("as published", "published", "AUC"),
            ("", "cells", "AUC"),
        ),
    ),
    Paper(
        "liu",
        "Federated extra-trees",
        "Liu et al., *Federated Extra-Trees with Privacy Preserving*, 2020",
        "extra-trees",
        "extra-trees",
        _liu,
        (
            ("in F1", "table2", "F1"),
            ("Figure 3", "figure3", ACCURACY),
            ("FET-GDP is close", "table2, printed", ACCURACY),
            ("", "table2", ACCURACY),
        ),
    ),
    Paper(
        "consul",
        "Median forests",
        "Consul and Williamson, *Differentially Private Median Forests for Regression and "
        "Classification*, 2020",
        "diprime",
        "diprime",
        _consul,
        (
            ("Tables 1 and 2", "table1, table2", "error or accuracy"),
            ("Table 1", "table1", ERROR),
            ("Table 2", "table2", ACCURACY),
            ("Figure 2", "figure2", ACCURACY),
            ("Figure 1 (a)", "figure1_depth", ERROR),
            ("Figure 1 (b)", "figure1_trees", ERROR),
            ("Figure 1 (c)", "figure1_epsilon", ERROR),
            ("Figure 5", "figure1_depth, figure5_depth", "levels"),
            ("Figure 7", "figure7_8_rho", ERROR),
            ("Figure 8", "figure7_8_rho", ERROR),
            ("", "balance", "part of leaves or nodes"),
        ),
    ),
)


# --------------------------------------------------------------------------------------------------
# Our own estimators beside others, hurt records, and speed, as entries.
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
STAGE = "what curves and surfaces add"
TAKEN, PLANNED = "best of ours, or as good", "estimator of a plan"
CHANGE, BELOW, RANGES = "score less that of clean records", "worse than no model", "open ranges"
SURVIVAL = {"c": "C-index", "brier": "integrated Brier score"}
CELLS, RECORDS = "cells recovered", "whole records recovered"
NEW_SETS, SPLITS = "Elo, new sets", "splits of a cell"
AHEAD, NAMED = "tree or forest clearly ahead of the default", "named by a plan"
RATIO, ROUND = "CPU seconds over those of the reference", "round over echo"


def table(study: str, name: str) -> pd.DataFrame:
    found = archived(study).frame(name)
    assert found is not None, f"{name} is not in the archive of {study}"
    return found


# ------------------------------------------------------------------------------------------- ours
def ours() -> Iterator[Entry]:
    yield from _beside_others()
    yield from _below_plain()
    yield from _surfaces()
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


def _surfaces() -> Iterator[Entry]:
    """The mean of all sets with surfaces less that without, over splits."""
    from studies.which import paired

    pairs = paired(table("which", "surfaces")).set_index(["n_sites", "epsilon", "split"])
    source = Source("which", "surfaces", WHICH)
    gains = (pairs["auc"] - pairs["auc_before"]).groupby(["n_sites", "epsilon", "split"])
    whole = gains.mean()[gains.count() == len(DATA)]
    for n_sites, epsilon in sorted(set(whole.index.droplevel("split"))):
        sites = "one site" if n_sites == 1 else f"{n_sites} sites"
        name = ("ours", STAGE, f"epsilon {epsilon:g}, {sites}")
        yield source.mean(name, whole[n_sites, epsilon], "AUC")


def _verdicts() -> Iterator[Entry]:
    from studies import ours_claims as verdicts
    from studies.ours import collected, joined

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
    from studies.which import standing_of_classes, standing_of_numbers

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
    from studies.robust import KEYS, is_harm
    from studies.robust_fits import HARMS

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
    for measure, group in product(SURVIVAL, GROUPS):
        words, unit = survival_words(measure, group), SURVIVAL[measure]
        mine = private[private["dataset"].isin(GROUPS[group])]
        by = mine.groupby(["n_sites", "epsilon", "dataset"])[measure].mean()
        alone = [(1, epsilon) for epsilon in ("0.5", "1", "3", "8", "none")]
        for n_sites, epsilon in [*alone, (5, "1"), (5, "8"), (5, "none")]:
            name = ("survival", words, f"epsilon {epsilon}, {n_sites} site(s)")
            yield source.mean(name, by[n_sites, epsilon], unit)
        theirs = others[others["dataset"].isin(GROUPS[group])]
        without = theirs.groupby(["method", "dataset"])[measure].mean()
        for method in without.index.unique("method"):
            name = ("survival", words, f"{method}, no privacy")
            yield Source("survival", "others", command).mean(name, without[method], unit)
    most = private["rounds"].max()
    yield source.entry(("survival", "rounds", "most"), most, "rounds", len(private))


def survival_words(measure: str, group: str) -> str:
    return f"{SURVIVAL[measure]}, {group} sets"


# ------------------------------------------------------------------------------------------ arena
def arena() -> Iterator[Entry]:
    """Ratings and gaps closed, and where our tree or forest is ahead of the default."""
    from studies.arena import CLEAR, DEFAULT, QUOTED, RATING, behind, collected, grids, standings
    from studies.arena_peers import NEW

    whole, plans = collected(kept("arena"))
    command = "python -m studies arena --data DIR"
    source = Source("arena", ", ".join(grids(1, False, True)), command)
    new = [(NEW_SETS, one) for one in standings(whole[whole["dataset"].isin(NEW)])]
    found = [*((one.group, one) for one in standings(whole)), *new]
    for quoted in (RATING, NEW_SETS, *QUOTED):
        unit = "Elo" if quoted in (RATING, NEW_SETS) else "part of the gap"
        for group, one in found:
            if group == quoted and one.group in (RATING, quoted):
                name = ("arena", quoted, one.player)
                yield source.entry(name, one.value, unit, one.n, one.low, one.high)
    source = Source("arena", "one_site, five_sites", command)
    mine = whole[whole["player"] == DEFAULT]
    splits = mine.groupby(["dataset", "epsilon", "n_sites"])["split"].nunique()
    for words, n in (("fewest", splits.min()), ("most", splits.max())):
        yield source.entry(("arena", SPLITS, words), int(n), "splits", len(mine))
    own = behind(whole, plans)
    ahead = own[own["lead"] > CLEAR]
    source = Source("arena", "one_site, five_sites, plans", command)
    for words, part in ((AHEAD, ahead), (NAMED, ahead[ahead["other"] == ahead["plan"]])):
        yield source.entry(("arena", words, "all"), len(part), f"of {len(own)} cells", len(own))


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
