"""What `python -m studies boosted` has measured, by cell, and what others measured beside it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pandas as pd

from studies import authors
from studies.boosted_fits import (
    BINS,
    CLOSE,
    DATASETS,
    EPSILONS,
    EVERY_RECORD,
    FIGURE_SET,
    LOCAL_BASELINE,
    MADE,
    MADE_ROWS,
    RANDOM_TREES,
    RANKED_SETS,
    RANKED_TREES,
    RANKS,
    RUNS,
    SHRUNK,
    SPLITS,
    UPDATES,
    WEIGHT_TABLES,
    batched,
    components,
    in_turns,
    named,
    placed,
    weight_updates,
)
from studies.claims import (
    ABSTRACT,
    FAILS,
    HOLDS,
    NOT_RUN,
    OURS,
    Claim,
    Lead,
    clustered,
    lead,
    listed,
)
from studies.claims import PUBLISHED as PUBLISHED_COLUMN
from studies.pages import markdown_table

DASH = "-"


class Cells:
    """Measured cells; a mean is over the splits that were run."""

    def __init__(self, table: pd.DataFrame) -> None:
        keys = ["dataset", "learner", "epsilon", "n_sites"]
        table = table if "n_sites" in table else table.assign(n_sites=1)
        groups = table.groupby(keys) if len(table) else ()
        self._by_split = {key: rows.set_index("split") for key, rows in groups}

    def with_deviation(self, dataset: str, learner: str, epsilon: float) -> str:
        """Mean (sample deviation), or a dash."""
        found = self.aucs(dataset, learner, epsilon)
        if not len(found):
            return DASH
        spread = f" ({shown(float(found.std(ddof=1)))})" if len(found) > 1 else ""
        return f"{shown(float(found.mean()))}{spread}"

    def aucs(self, dataset: str, learner: str, epsilon: float, n_sites: int = 1) -> pd.Series:
        """By split; empty if the cell was not run."""
        return self.by_split(dataset, learner, epsilon, "auc", n_sites)

    def by_split(
        self, dataset: str, learner: str, epsilon: float, measure: str, n_sites: int = 1
    ) -> pd.Series:
        rows = self._by_split.get((dataset, learner, epsilon, n_sites))
        return NO_SCORES if rows is None else rows[measure]


NO_SCORES = pd.Series(dtype=float)


def shown(value: float | None) -> str:
    return DASH if value is None else f"{value:.4f}".lstrip("0")


NEWTON, BEST_BATCH = 1, 20
"""Trees of a batch: none beside another, and the paper's best."""
SMALL = 0.1
"""Epsilon of the paper's Table 5."""


# --------------------------------------------------------------------------------------------------
# The claims of Maddock et al. 2022, judged split by split: by its methods as published, and by the
# same with our repairs, at epsilon and not at its noise.
USUAL = 1.0
"""The paper's epsilon of its first tables."""
FEW_ROUNDS, MANY_ROUNDS = 5, 30
FEW_TREES, FULL_TREES = 25, 200
ONE_SET = {FIGURE_SET: DATASETS[FIGURE_SET]}
LARGE = tuple(epsilon for epsilon in WEIGHT_TABLES if epsilon >= 0.5)
"""Epsilons at which the paper sees Newton steps ahead."""
FEW = (0.1, 0.25)
"""And those at which averages win."""
A_LITTLE = 0.02
"""AUC: a small difference."""
BEST_LOOKING, LATE_LOOKING = (25, 50), 100
"""Trees at which those that look peak, and far beyond."""
SHALLOW, DEEP = 2, 6
MANY_BINS = 128
ENOUGH = 10_000
"""Records of Figure 20 (b) from which its methods stand still."""
MEGABYTE = 1e6
ADVOCATED = ("DP-TR Batch IH EBM p=0.25", "DP-TR Batch IH EBM p=1", "DP-TR Newton IH EBM")
ONE_BATCH = "DP-TR Batch IH EBM p=0.25"
BATCHES_OF_TREES = 4
"""Of a quarter of all trees each."""
Kind = tuple[str, str]
"""Splits and update."""


def claims(cells: Cells, published: Cells) -> list[Claim]:
    by_column: dict[str, Cells] = {PUBLISHED_COLUMN: published, OURS: cells}
    made = [claim for claim in agreement(published) if claim.leads]
    for judge in JUDGED:
        for column, rows in by_column.items():
            made += [replace(claim, column=column) for claim in judge(rows) if claim.leads]
    own = [_ldp(cells), _megabyte(cells), _pulled(cells)]
    return [*made, _enough_records(published), *(replace(claim, column=OURS) for claim in own)]


def ahead(
    rows: Cells, epsilon: float, first: str, second: str, sets: Mapping[str, str] = DATASETS
) -> dict[str, Lead]:
    """By data set, on the splits that both methods have."""
    found = {
        title: lead(rows.aucs(name, first, epsilon) - rows.aucs(name, second, epsilon))
        for name, title in sets.items()
    }
    return {title: gap for title, gap in found.items() if gap.n}


def over_epsilons(
    rows: Cells, first: Kind, second: Kind, epsilons: Iterable[float]
) -> dict[str, Lead]:
    """By set; all epsilons of a split are one cluster."""
    one, two = components(*first), components(*second)
    found = {}
    for data, title in DATASETS.items():
        gaps = [rows.aucs(data, one, e) - rows.aucs(data, two, e) for e in epsilons]
        gap = clustered(pd.concat(gaps).rename_axis("split"), ["split"], "splits")
        if gap.n:
            found[title] = gap
    return found


# ------------------------------------------------------------------ sections 6.2 and 6.3, Figure 2
def _kinds(
    rows: Cells,
    says: str,
    where: str,
    first: Kind,
    second: Kind,
    epsilons: Iterable[float] = tuple(WEIGHT_TABLES),
) -> Claim:
    program = authors.over_epsilons(DATASETS, first, second, epsilons)
    return Claim(says, where, over_epsilons(rows, first, second, epsilons), program=program)


def _splits(rows: Cells) -> Iterator[Claim]:
    best = ("totally_random", "newton")
    for other in ("histogram", "partially_random"):
        says = f"Totally random splits beat {other.replace('_', ' ')} ones"
        yield _kinds(rows, says, "section 6.2, Tables 3 and 9 to 12", best, (other, "newton"))
    yield _kinds(
        rows,
        f"At epsilon {USUAL:g} partially random splits beat histograms",
        "section 6.2, Figure 2c; Table 12",
        ("partially_random", "newton"),
        ("histogram", "newton"),
        (USUAL,),
    )


def _updates(rows: Cells) -> Iterator[Claim]:
    for kind in ("histogram", "totally_random"):
        yield _kinds(
            rows,
            f"From epsilon {LARGE[0]:g} on Newton beats averages ({kind.replace('_', ' ')})",
            "section 6.3, Tables 3 and 9 to 12",
            (kind, "newton"),
            (kind, "averaging"),
            LARGE,
        )
    found = {
        kind.replace("_", " "): clustered(
            pd.concat(
                {
                    name: rows.aucs(name, components(kind, "newton"), LARGE[0])
                    - rows.aucs(name, components(kind, "gradient"), LARGE[0])
                    for name in DATASETS
                },
                names=["data", "split"],
            ),
            ["data", "split"],
            "splits",
        )
        for kind in SPLITS
    }
    found = {kind: gap for kind, gap in found.items() if gap.n}
    says = f"Newton equals gradient steps or better ({CLOSE:g})"
    yield Claim(says, "section 6.3, Table 3", found, slack=CLOSE)
    for epsilon in FEW:
        yield _kinds(
            rows,
            f"At epsilon {epsilon:g} averages beat Newton (totally random)",
            "appendix A.2, Tables 9 and 10",
            ("totally_random", "averaging"),
            ("totally_random", "newton"),
            (epsilon,),
        )


def _sizes(rows: Cells) -> Iterator[Claim]:
    """Figure 2 (a) and (b), on its set."""

    def aucs(kind: str, trees: int | None = None, depth: int = 4) -> pd.Series:
        return rows.aucs(FIGURE_SET, components(kind, "newton", trees, depth), USUAL)

    peak = {
        kind.replace("_", " "): lead(
            pd.concat([aucs(kind, trees) for trees in BEST_LOOKING], axis=1).max(axis=1)
            - aucs(kind, LATE_LOOKING)
        )
        for kind in SPLITS[:2]
    }
    peak[f"totally random, {RANDOM_TREES} less {BEST_LOOKING[1]}"] = lead(
        aucs(SPLITS[2], RANDOM_TREES) - aucs(SPLITS[2], BEST_LOOKING[1])
    )
    found = {name: gap for name, gap in peak.items() if gap.n}
    few, many = BEST_LOOKING
    says = f"Looking trees peak at {few} to {many}; random ones need {RANDOM_TREES}"
    yield Claim(says, "section 6.2, Figure 2a", found)
    found = {
        kind.replace("_", " "): gap
        for kind in SPLITS
        if (gap := lead(aucs(kind, depth=DEEP) - aucs(kind, depth=SHALLOW))).n
    }
    says = f"Depth costs little: {DEEP} less {SHALLOW} levels (here: {A_LITTLE:g})"
    verdicts = {kind: gap.within(A_LITTLE) for kind, gap in found.items()}
    yield Claim(says, "section 6.2, Figure 2b", found, judged=verdicts)


# ------------------------------------------------------------------------------------ section 6.4
def _candidates(rows: Cells) -> Iterator[Claim]:
    refined = placed("iterative_hessian")
    for says, other, sets in (
        ("Iterative Hessian (IH) beats uniform candidates on Credit 1", "uniform", ONE_SET),
        ("IH is as good as quantiles or better", "quantile", DATASETS),
    ):
        found = ahead(rows, USUAL, refined, placed(other), sets)
        program = authors.of_column(sets, "candidates", "candidates", "iterative_hessian", other)
        slack = CLOSE if other == "quantile" else 0.0
        yield Claim(says, "section 6.4, Table 4", found, program=program, slack=slack)
    worst = {
        other: gap
        for other in ("uniform", "log", "quantile")
        if (gap := _on("credit_default", rows, placed(other), refined)).n
    }
    yield Claim("IH is the worst on Credit 2", "section 6.4, Table 4", worst)


def _on(data: str, rows: Cells, first: str, second: str, epsilon: float = USUAL) -> Lead:
    return lead(rows.aucs(data, first, epsilon) - rows.aucs(data, second, epsilon))


def _bins(rows: Cells) -> Iterator[Claim]:
    """Scatter over splits, and how far a mean moves."""
    few, many = (rows.aucs(FIGURE_SET, placed("uniform", bins=b), USUAL) for b in (BINS, MANY_BINS))
    shared = few.index.intersection(many.index)
    few, many = few[shared], many[shared]
    gap = lead((many - many.mean()).abs() - (few - few.mean()).abs())
    says = f"Uniform candidates vary more with {MANY_BINS} bins than {BINS}"
    yield Claim(says, "section 6.4, Figures 3c and 13", {"": gap} if gap.n else {})
    refined = placed("iterative_hessian", bins=MANY_BINS)
    gap = _on(FIGURE_SET, rows, refined, placed("iterative_hessian"))
    says = f"IH is robust: {MANY_BINS} less {BINS} bins (here: {A_LITTLE:g})"
    where, found = "section 6.4, Figure 3c", {"": gap} if gap.n else {}
    yield Claim(says, where, found, judged={"": gap.within(A_LITTLE)})


def _few_rounds(rows: Cells) -> Iterator[Claim]:
    few, many = (placed("iterative_hessian", rounds=s) for s in (FEW_ROUNDS, MANY_ROUNDS))
    program = authors.of_column(ONE_SET, "rounds", "rounds", FEW_ROUNDS, MANY_ROUNDS)
    found = ahead(rows, SMALL, few, many, ONE_SET)
    says = f"IH: {FEW_ROUNDS} rounds beat {MANY_ROUNDS} at epsilon {SMALL:g}"
    yield Claim(says, "section 6.4, Figure 3a", found, program=program)


def _one_feature(rows: Cells) -> Iterator[Claim]:
    one, every = (in_turns(k, "newton", FEW_TREES) for k in (1, None))
    program = authors.of_column(ONE_SET, "features", "features", 1, None)
    found = ahead(rows, USUAL, one, every, ONE_SET)
    says = f"With {FEW_TREES} trees, one feature a tree beats all"
    yield Claim(says, "appendix A.3, Figures 10 and 11", found, program=program)


# --------------------------------------------------------------------------- sections 6.5 and 6.6
def _batches(rows: Cells) -> Iterator[Claim]:
    found = ahead(rows, SMALL, batched(BEST_BATCH), batched(NEWTON))
    program = authors.of_column(DATASETS, "batches", "batch", BEST_BATCH, NEWTON)
    says = f"At epsilon {SMALL:g} batches of {BEST_BATCH} trees beat Newton"
    yield Claim(says, "section 6.5, Table 5", found, program=program)


def _whole_methods(rows: Cells) -> Iterator[Claim]:
    """Section 6.6, at epsilon 1: on Credit 1, and on the sets of Figures 16 to 18."""

    def named_ahead(first: str, second: str, trees: int) -> dict[str, Lead]:
        return ahead(rows, USUAL, named(first, trees), named(second, trees))

    found = named_ahead(ONE_BATCH, "DP-TR Newton IH", FULL_TREES)
    says = f"{BATCHES_OF_TREES} rounds instead of {FULL_TREES} lose less than {CLOSE:g} (p=0.25)"
    yield Claim(says, "section 6.6, Figure 5", found, slack=CLOSE)
    found = named_ahead("DP-EBM Newton", "DP-EBM", RANKED_TREES)
    says = f"DP-EBM Newton equals DP-EBM with T a feature ({CLOSE:g})"
    yield Claim(says, "section 6.6, Figure 5", found, slack=CLOSE)
    found = named_ahead("DP-TR Newton", "DP-RF", FULL_TREES)
    yield Claim("Boosting (DP-TR Newton) beats DP-RF", "section 6.6, Figure 5", found)


def _ldp(cells: Cells) -> Claim:
    found = {
        title: lead(
            cells.aucs(name, named("DP-TR Newton"), USUAL)
            - cells.aucs(name, LOCAL_BASELINE, USUAL, EVERY_RECORD)
        )
        for name, title in DATASETS.items()
    }
    found = {title: gap for title, gap in found.items() if gap.n}
    says = "LDP is far behind"
    return Claim(says, "section 6.6, Figure 5", found)


def _megabyte(cells: Cells) -> Claim:
    """All that a site sends and receives here, masks and signatures too."""
    sent = {
        name: cells.by_split(FIGURE_SET, named(name, FULL_TREES), USUAL, "bytes")
        for name in ADVOCATED
    }
    found = {name: lead(1.0 - values / MEGABYTE) for name, values in sent.items() if len(values)}
    says = f"A client sends less than {MEGABYTE / 1e6:g} MB"
    verdicts = {
        name: HOLDS if float(sent[name].max()) < MEGABYTE else FAILS for name in found
    }  # bytes scatter by a few ids alone
    return Claim(says, "appendix B.2, Figure 20a", found, judged=verdicts)


def _enough_records(published: Cells) -> Claim:
    """How far AUC is below that of the most records."""
    found = {}
    for candidates, n in product(("uniform", "iterative_hessian"), sorted(MADE_ROWS)[:-1]):
        few, most = (
            published.aucs(f"{MADE}{rows}", placed(candidates), USUAL)
            for rows in (n, max(MADE_ROWS))
        )
        if n >= ENOUGH and (gap := lead(few - most)).n:
            found[f"{candidates.replace('_', ' ')}, n = {n:,}"] = gap
    says = f"{ENOUGH:,} records are enough (not {A_LITTLE:g} below {max(MADE_ROWS):,})"
    return Claim(says, "appendix C, Figure 20b", found, slack=A_LITTLE)


def _pulled(cells: Cells) -> Claim:
    """Not the paper's: what its remedy by batches is compared with here."""
    found = ahead(cells, SMALL, batched(NEWTON, SHRUNK), batched(BEST_BATCH))
    return Claim(f"Shrunk leaves beat batches of {BEST_BATCH}", "not in the paper", found)


# ----------------------------------------------------------------------------------------- ranks
def ranks(rows: Cells, epsilon: float) -> pd.DataFrame:
    """(set and split, method) the rank, wherever all named methods were run."""
    scores = {
        name: pd.concat({data: rows.aucs(data, named(name), epsilon) for data in RANKED_SETS})
        for name in RANKS
    }
    return pd.DataFrame(scores).dropna().rank(axis=1, ascending=False)


def _ranked(rows: Cells) -> Iterator[Claim]:
    for place, epsilon in ((0, EPSILONS[0]), (2, EPSILONS[2])):
        printed = {name: numbers[place] for name, numbers in RANKS.items()}
        best = min(printed, key=lambda name: printed[name])
        each = ranks(rows, epsilon)
        if len(each) < 2:
            continue
        mean = each.mean()
        rival = mean.drop(best).idxmin()
        gap = lead(each[rival] - each[best])
        said = f"{best} {mean[best]:.2f}, {rival} {mean[rival]:.2f}, difference {gap.shown(2)}"
        yield Claim(
            f"{best} ranks first at epsilon {epsilon:g}",
            f"{ABSTRACT}; section 6.6, Table 6",
            {"": gap},
            told=f"{said}; paper {printed[best]:.2f}",
        )


JUDGED: tuple[Callable[[Cells], Iterator[Claim]], ...] = (
    _ranked,
    _splits,
    _updates,
    _batches,
    _whole_methods,
    _candidates,
    _bins,
    _few_rounds,
    _sizes,
    _one_feature,
)


# --------------------------------------------------------------------------------------------------
# Tables 3 and 9 to 12 as published, cell by cell beside the authors' program.
PROGRAM, PRINT, NEITHER = "the program", "print", "neither"
"""What a cell of ours meets."""
TABLES = "Tables 3 and 9 to 12"
ERRORS, LEAST = 2.0, 3
"""Standard errors within which two programs are taken to agree; splits of each below which a cell
is not compared."""


def beside_the_program(published: Cells) -> Iterator[CellBeside]:
    for epsilon, data, kind, update in product(WEIGHT_TABLES, DATASETS, SPLITS, UPDATES):
        mine = published.aucs(data, components(kind, update), epsilon)
        theirs = authors.aucs(data, kind, update, epsilon)
        if min(len(mine), len(theirs)) >= LEAST:
            yield CellBeside(data, kind, update, epsilon, mine, theirs)


@dataclass(frozen=True)
class CellBeside:
    """A cell of Tables 3 and 9 to 12: our splits, and those of the authors' program."""

    data: str
    kind: str
    update: str
    epsilon: float
    mine: pd.Series
    theirs: pd.Series

    @property
    def name(self) -> str:
        words = (DATASETS[self.data], self.kind.replace("_", " "), self.update)
        return f"{', '.join(words)}, epsilon {self.epsilon:g}"

    @property
    def gap(self) -> Lead:
        """Ours less theirs; the deviation of both together, for theirs has few splits."""
        parts = (self.mine, self.theirs)
        squares = sum(float(((part - part.mean()) ** 2).sum()) for part in parts)
        deviation = math.sqrt(squares / (len(self.mine) + len(self.theirs) - 2))
        error = deviation * math.sqrt(sum(1.0 / len(part) for part in parts))
        return Lead(float(self.mine.mean() - self.theirs.mean()), error, len(self.mine), "splits")

    @property
    def printed(self) -> Lead:
        """Ours less the paper's mean of its runs, with the errors of both."""
        mean, deviation = weight_updates(self.epsilon)[self.kind, self.update, self.data]
        error = math.sqrt(self.mine.var(ddof=1) / len(self.mine) + deviation**2 / RUNS)
        return Lead(float(self.mine.mean()) - mean, error, len(self.mine), "splits")

    @property
    def meets(self) -> str:
        """The program; else print, from which the program's few splits are then as far as ours."""
        found = {PROGRAM: self.gap, PRINT: self.printed}
        return next((name for name, gap in found.items() if _is_near(gap)), NEITHER)

    @property
    def chance(self) -> float:
        """Of being further away although both programs do the same."""
        from scipy import stats

        gap = self.gap
        freedom = len(self.mine) + len(self.theirs) - 2
        return float(2.0 * stats.t.sf(max(CLOSE / gap.error, ERRORS), freedom))

    def row(self) -> dict[str, str]:
        paper = weight_updates(self.epsilon)[self.kind, self.update, self.data]
        return {
            "table": str(WEIGHT_TABLES[self.epsilon]),
            "epsilon": f"{self.epsilon:g}",
            "splits": self.kind.replace("_", " "),
            "update": self.update,
            "data": DATASETS[self.data],
            "paper": f"{paper[0]:.4f} ({paper[1]:.4f})",
            "authors' program": f"{self.theirs.mean():.4f} ({len(self.theirs)})",
            "ours as published": f"{self.mine.mean():.4f} ({len(self.mine)})",
            "ours less program": f"{self.gap.mean:+.4f} ± {self.gap.error:.4f}",
            "ours less paper": f"{self.printed.mean:+.4f} ± {self.printed.error:.4f}",
            "meets": self.meets,
        }


def _is_near(gap: Lead) -> bool:
    return abs(gap.mean) <= max(CLOSE, ERRORS * gap.error)


def agreement(published: Cells) -> Iterator[Claim]:
    """With the authors' program; and with print in the cells where that differs from it."""
    cells = list(beside_the_program(published))
    near = sum(cell.meets == PROGRAM for cell in cells)
    places = {}
    for kind, update in product(SPLITS, UPDATES):
        gaps = [c.gap.mean for c in cells if (c.kind, c.update) == (kind, update)]
        if len(gaps) > 1:
            error = float(np.std(gaps, ddof=1)) / math.sqrt(len(gaps))
            name = f"{kind.replace('_', ' ')}, {update}"
            places[name] = Lead(float(np.mean(gaps)), error, len(gaps), "cells")
    verdict = HOLDS if near == len(cells) else f"{near} of {len(cells)} cells"
    yield Claim(
        f"Ours equals the authors' program ({CLOSE:g}, or {ERRORS:g} errors)",
        TABLES,
        places,
        judged={"": verdict if cells else NOT_RUN},
        told=f"{len(cells) - near} cells are further away; if both did the same, chance alone "
        f"would put {sum(c.chance for c in cells):.1f} there; {listed(places, 4)}",
    )
    others = [cell for cell in cells if cell.meets != PROGRAM]
    leads = {cell.name: cell.printed for cell in others}
    yield Claim(
        "Elsewhere ours equals print",
        TABLES,
        leads,
        judged={cell.name: HOLDS if cell.meets == PRINT else FAILS for cell in others},
    )


def beside_section(published: Cells) -> str:
    rows = [cell.row() for cell in beside_the_program(published)]
    if not rows:
        return ""
    return (
        "## Tables 3 and 9 to 12 as published, beside the authors' program\n\n"
        f"Test AUC, mean (splits). Every repair of ours is off (docs/papers.md), noise is as large "
        "as the paper's, and columns are read as its loader does. The program: "
        f"`{authors.PROGRAMS['maddock']}`; of it: {authors.DIFFERS['maddock']}.\n\n"
        + markdown_table(pd.DataFrame(rows))
    )
