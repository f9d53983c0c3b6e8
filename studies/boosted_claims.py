"""What `python -m studies boosted` has measured, by cell, and what others measured beside it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import product

import pandas as pd

from studies import authors
from studies.boosted_fits import (
    BATCH_TREES,
    BATCHES,
    CLOSE,
    DATASETS,
    EPSILONS,
    EVERY_RECORD,
    FIGURE_SET,
    JUDGED_EPSILONS,
    JUDGED_SETS,
    LEAVES,
    LOCAL_BASELINE,
    PUBLISHED,
    RANDOM_TREES,
    RANKED_SETS,
    RANKS,
    SHRUNK,
    TRAINING_ROWS,
    WEIGHT_TABLES,
    at_the_papers_noise,
    batched,
    components,
    in_turns,
    named,
    placed,
    weight_updates,
)
from studies.boosted_published import Published, agreement
from studies.claims import NOT_RUN, NOTHING, Claim, Lead, lead, listed, where_it_holds
from studies.measures import CONFIDENCE, student
from studies.pages import markdown_table

DASH = "-"


class Cells:
    """Measured cells; a mean is over the splits that were run."""

    def __init__(self, table: pd.DataFrame) -> None:
        keys = ["dataset", "learner", "epsilon", "n_sites"]
        self.table = table
        grouped = table.drop(columns=["split", "code"], errors="ignore").groupby(keys)
        self.means, self.deviations = grouped.mean(), grouped.std(ddof=1)
        self._by_split = {k: rows.set_index("split") for k, rows in table.groupby(keys)}

    def value(
        self, dataset: str, learner: str, epsilon: float, measure: str = "auc", n_sites: int = 1
    ) -> float | None:
        key = (dataset, learner, epsilon, n_sites)
        return float(self.means.loc[key, measure]) if key in self.means.index else None

    def with_deviation(self, dataset: str, learner: str, epsilon: float) -> str:
        """Mean (sample deviation), or a dash."""
        found = self.aucs(dataset, learner, epsilon)
        if not len(found):
            return DASH
        spread = f" ({shown(float(found.std(ddof=1)))})" if len(found) > 1 else ""
        return f"{shown(float(found.mean()))}{spread}"

    def deviation(self, dataset: str, learner: str, epsilon: float) -> float:
        return float(self.deviations.loc[(dataset, learner, epsilon, 1), "auc"])

    def aucs(self, dataset: str, learner: str, epsilon: float, n_sites: int = 1) -> pd.Series:
        """By split; empty if the cell was not run."""
        return self.by_split(dataset, learner, epsilon, "auc", n_sites)

    def by_split(
        self, dataset: str, learner: str, epsilon: float, measure: str, n_sites: int = 1
    ) -> pd.Series:
        rows = self._by_split.get((dataset, learner, epsilon, n_sites))
        return NO_SCORES if rows is None else rows[measure]

    def seconds(self, dataset: str, learner: str, epsilon: float) -> float | None:
        """Median over splits: the first fit of a process also compiles."""
        t = self.table
        rows = t[(t.dataset == dataset) & (t.learner == learner) & (t.epsilon == epsilon)]
        return _median(rows[rows.n_sites == 1].seconds)

    def splits(self, learner: str, n_sites: int = 1) -> int:
        """How many splits a method was run on."""
        rows = self.table[(self.table.learner == learner) & (self.table.n_sites == n_sites)]
        return int(rows.split.nunique())


NO_SCORES = pd.Series(dtype=float)


class Peer:
    """A program whose script in benchmarks/peers has left its results; empty if it was not run."""

    def __init__(self, found: pd.DataFrame | None) -> None:
        table = pd.DataFrame(columns=["dataset", "epsilon"]) if found is None else found
        self._rows = {
            key: rows.set_index("split") for key, rows in table.groupby(["dataset", "epsilon"])
        }

    def aucs(self, dataset: str, epsilon: float) -> pd.Series:
        rows = self._rows.get((dataset, epsilon))
        return NO_SCORES if rows is None else rows.auc

    def seconds(self, dataset: str, epsilon: float) -> float | None:
        rows = self._rows.get((dataset, epsilon))
        return None if rows is None else _median(rows.seconds)

    def value(self, dataset: str, epsilon: float) -> float | None:
        found = self.aucs(dataset, epsilon)
        return float(found.mean()) if len(found) else None

    @property
    def splits(self) -> int:
        return max((len(rows) for rows in self._rows.values()), default=0)


def _median(values: pd.Series) -> float | None:
    return float(values.median()) if len(values) else None


def shown(value: float | None) -> str:
    return DASH if value is None else f"{value:.4f}".lstrip("0")


# --------------------------------------------------------------------------------------------------
# The paper's printed methods beside its printed cells, and its batches by both rules of leaves.
NEWTON, BEST_BATCH = 1, 20
"""Trees of a batch: none beside another, and the paper's best."""
SMALL = 0.1
"""Epsilon of the paper's Table 5."""


@dataclass(frozen=True)
class PrintedCell:
    """A cell of the paper and our splits of it, with printed leaves."""

    data: str
    epsilon: float
    run: float
    """Our epsilon: the paper's, or that of its noise."""
    paper: float
    deviation: float
    aucs: pd.Series

    @property
    def gap(self) -> Lead:
        return lead(self.aucs - self.paper)

    @property
    def verdict(self) -> str:
        if self.is_near:
            return "yes"
        return "off" if self.is_clearly_off else "no, within scatter"

    @property
    def is_near(self) -> bool:
        return abs(self.gap.mean) <= CLOSE

    @property
    def is_clearly_off(self) -> bool:
        """Even the near end of the interval of our mean is further away than what is allowed."""
        gap = self.gap
        return gap.n > 1 and abs(gap.mean) - student(gap.n) * gap.error > CLOSE


def printed_cells(cells: Cells, *, papers_noise: bool) -> Iterator[PrintedCell]:
    """Newton steps in totally random trees, those that were run, at its epsilon or its noise."""
    learner = components("totally_random", "newton")
    for epsilon, name in product(JUDGED_EPSILONS, JUDGED_SETS):
        run = at_the_papers_noise(epsilon, TRAINING_ROWS[name]) if papers_noise else epsilon
        aucs = cells.aucs(name, learner, run)
        if len(aucs):
            paper = weight_updates(epsilon)["totally_random", "newton", name]
            yield PrintedCell(name, epsilon, run, *paper, aucs)


def section(cells: Cells) -> str:
    tables = " and ".join(str(WEIGHT_TABLES[e]) for e in JUDGED_EPSILONS)
    same, louder = (list(printed_cells(cells, papers_noise=p)) for p in (False, True))
    if not same:
        return f"## The printed cells of Tables {tables}\n\nNot run.\n"
    return f"""## The printed cells of Tables {tables}

Newton steps in {RANDOM_TREES} totally random trees with printed leaves: our AUC, mean (sample
deviation), beside the paper's. Near is a mean within {CLOSE:g} of the paper's. Noise scatters
single fits by far more than that, so a difference has its standard error, and a cell is off where
even the near end of its interval at {CONFIDENCE:.0%} is further away.

The paper accounts by Renyi divergences, which cost more than the exact account here: at one epsilon
it adds about a tenth more noise. So each cell is judged twice: at the paper's epsilon, and at the
paper's noise (`studies/boosted_fits.py`), which has the smaller epsilon that is named. At its
epsilon {_counted(same)}; at its noise {_counted(louder)}. Rows: {_codes(cells)}.

{markdown_table(pd.DataFrame([*map(_row, same), *map(_row, louder)]))}

Batches of {BEST_BATCH} trees against Newton steps tree by tree (Table 5, epsilon {SMALL:g}), by
both rules of leaves, on the splits that both have:

{markdown_table(pd.DataFrame(list(_batch_rows(cells))))}
"""


def _counted(found: list[PrintedCell]) -> str:
    near, off = sum(c.is_near for c in found), sum(c.is_clearly_off for c in found)
    return f"{near} of {len(found)} are near and {off} off"


def _row(cell: PrintedCell) -> dict[str, str]:
    return {
        "data": DATASETS[cell.data],
        "epsilon of the paper": f"{cell.epsilon:g}",
        "ours has": "the paper's epsilon" if cell.run == cell.epsilon else f"its noise, {cell.run}",
        "paper": f"{shown(cell.paper)} ({shown(cell.deviation)})",
        "ours": f"{shown(float(cell.aucs.mean()))} ({shown(float(cell.aucs.std(ddof=1)))})",
        "splits": str(len(cell.aucs)),
        "ours less paper": f"{cell.gap.mean:+.4f} ± {cell.gap.error:.4f}",
        "near": cell.verdict,
    }


def _batch_rows(cells: Cells) -> Iterator[dict[str, str]]:
    for name, leaves in product(JUDGED_SETS, LEAVES):
        many, one = batched(BEST_BATCH, leaves), batched(NEWTON, leaves)
        gap = lead(cells.aucs(name, many, SMALL) - cells.aucs(name, one, SMALL))
        papers = BATCHES[BEST_BATCH, name][0] - BATCHES[NEWTON, name][0]
        yield {
            "data": DATASETS[name],
            "leaves": leaves,
            "Newton": cells.with_deviation(name, one, SMALL),
            f"batches of {BEST_BATCH}": cells.with_deviation(name, many, SMALL),
            "batches less Newton": gap.shown(4),
            "batches beat Newton": gap.verdict,
            "paper's difference": f"{papers:+.4f}" if leaves == PUBLISHED else DASH,
        }


def _codes(cells: Cells) -> str:
    """Which code made the rows of these two tables."""
    table = cells.table[(cells.table["n_sites"] == 1) & cells.table["dataset"].isin(JUDGED_SETS)]
    batches = {batched(b, leaves) for b, leaves in product((NEWTON, BEST_BATCH), LEAVES)}
    newton = components("totally_random", "newton")
    epsilons = {*JUDGED_EPSILONS, *_louder()}
    rows = table[
        (table["learner"].isin(batches) & (table["epsilon"] == SMALL))
        | ((table["learner"] == newton) & table["epsilon"].isin(epsilons))
    ]
    if "code" not in rows:
        return f"{len(rows)}"
    counted = rows["code"].value_counts()
    return ", ".join(f"{n} by code `{code}`" for code, n in counted.items())


def _louder() -> set[float]:
    return {
        at_the_papers_noise(epsilon, rows)
        for epsilon, rows in product(JUDGED_EPSILONS, TRAINING_ROWS.values())
    }


# --------------------------------------------------------------------------------------------------
# The claims of Maddock et al. 2022, judged split by split, with leaves as it prints them.
USUAL = 1.0
"""The paper's epsilon of its first tables."""
FEW_ROUNDS, MANY_ROUNDS = 5, 30
FEW_TREES = 25
ONE_SET = {FIGURE_SET: DATASETS[FIGURE_SET]}


LARGE = tuple(epsilon for epsilon in WEIGHT_TABLES if epsilon >= 0.5)
"""Epsilons at which the paper sees Newton steps ahead."""
FEW_BATCHES = 50
"""Trees of a batch: four rounds for two hundred trees."""


def claims(cells: Cells, published: Published) -> list[Claim]:
    return [
        agreement(published),
        *(_random_is_best(published, other) for other in ("histogram", "partially_random")),
        *(_newton_is_best(published, split) for split in ("histogram", "totally_random")),
        _averages_at_small_epsilon(published),
        *(_batches(cells, leaves) for leaves in LEAVES),
        _four_rounds(cells),
        _ldp(cells),
        _pulled(cells),
        *(_candidates(cells, other) for other in ("uniform", "quantile")),
        _few_rounds(cells),
        _one_feature(cells),
        *_ranked(cells),
    ]


def ahead(cells: Cells, epsilon: float, first: str, second: str) -> dict[str, Lead]:
    """By data set, on the splits that both methods have."""
    found = {
        title: lead(cells.aucs(name, first, epsilon) - cells.aucs(name, second, epsilon))
        for name, title in DATASETS.items()
    }
    return {title: gap for title, gap in found.items() if gap.n}


# ------------------------------------------------------------------------------ Tables 3, 9 to 12
Kind = tuple[str, str]
"""Splits and update."""


def _compared(
    published: Published,
    says: str,
    where: str,
    first: Kind,
    second: Kind,
    epsilons: Iterable[float] = tuple(WEIGHT_TABLES),
) -> Claim:
    """One kind as published against another, here and by the authors' program."""
    found = published.over_epsilons(first, second, epsilons)
    program = authors.over_epsilons(DATASETS, first, second, epsilons)
    where_it = where_it_holds(found)
    return Claim(says, where, where_it, listed(found), leads=found, program=program)


def _random_is_best(published: Published, other: str) -> Claim:
    return _compared(
        published,
        f"Totally random splits beat {other.replace('_', ' ')} ones",
        "section 6.2, Tables 3 and 9 to 12",
        ("totally_random", "newton"),
        (other, "newton"),
    )


def _newton_is_best(published: Published, split: str) -> Claim:
    trees = f"{split.replace('_', ' ')} trees"
    return _compared(
        published,
        f"From epsilon {LARGE[0]:g} on Newton steps beat averages in {trees}",
        "section 6.3, Tables 3 and 9 to 12",
        (split, "newton"),
        (split, "averaging"),
        LARGE,
    )


def _averages_at_small_epsilon(published: Published) -> Claim:
    return _compared(
        published,
        f"At epsilon {SMALL:g} averages beat Newton steps in totally random trees",
        "appendix A.2, Tables 3 and 9 to 12",
        ("totally_random", "averaging"),
        ("totally_random", "newton"),
        (SMALL,),
    )


# --------------------------------------------------------------------------------------- batches
def _batches(cells: Cells, leaves: str) -> Claim:
    found = ahead(cells, SMALL, batched(BEST_BATCH, leaves), batched(NEWTON, leaves))
    return Claim(
        f"At epsilon {SMALL:g} batches of {BEST_BATCH} trees beat Newton steps: {leaves} leaves",
        "section 6.5, Table 5",
        where_it_holds(found),
        listed(found),
        leads=found,
        program=authors.of_column(DATASETS, "batches", "batch", BEST_BATCH, NEWTON)
        if leaves == PUBLISHED
        else {},
    )


def _four_rounds(cells: Cells) -> Claim:
    """The lead plus the margin is above zero: no more than the margin is lost."""
    found = ahead(cells, SMALL, batched(FEW_BATCHES), batched(NEWTON))
    theirs = authors.of_column(DATASETS, "batches", "batch", FEW_BATCHES, NEWTON)
    kept, theirs = (
        {name: replace(gap, mean=gap.mean + CLOSE) for name, gap in each.items()}
        for each in (found, theirs)
    )
    rounds = BATCH_TREES // FEW_BATCHES
    return Claim(
        f"{rounds} rounds instead of {BATCH_TREES} lose less than {CLOSE:g}: batches of "
        f"{FEW_BATCHES}, epsilon {SMALL:g}",
        "section 6.5, Table 5",
        where_it_holds(kept),
        f"batches less Newton: {listed(found)}",
        leads=kept,
        program=theirs,
    )


def _ldp(cells: Cells) -> Claim:
    found = {
        title: lead(
            cells.aucs(name, named("DP-TR Newton"), USUAL)
            - cells.aucs(name, LOCAL_BASELINE, USUAL, EVERY_RECORD)
        )
        for name, title in DATASETS.items()
    }
    found = {title: gap for title, gap in found.items() if gap.n}
    return Claim(
        f"Local differential privacy is far behind (epsilon {USUAL:g})",
        "section 6.6, Figure 5",
        where_it_holds(found),
        f"DP-TR Newton less LDP: {listed(found)}",
        leads=found,
    )


def _pulled(cells: Cells) -> Claim:
    """Not the paper's: what its remedy by batches is compared with here."""
    found = ahead(cells, SMALL, batched(NEWTON, SHRUNK), batched(BEST_BATCH, PUBLISHED))
    return Claim(
        f"Ours: leaves pulled by their noise beat batches of {BEST_BATCH} with printed leaves",
        "not in the paper",
        where_it_holds(found),
        listed(found),
        leads=found,
    )


# ------------------------------------------------------------------------------------ candidates
def _candidates(cells: Cells, other: str) -> Claim:
    found = ahead(cells, USUAL, placed("iterative_hessian"), placed(other))
    says = {
        "uniform": "The Iterative Hessian beats uniform candidates on skewed features (Credit 1)",
        "quantile": "The Iterative Hessian is as good as quantiles or better",
    }[other]
    program = authors.of_column(DATASETS, "candidates", "candidates", "iterative_hessian", other)
    verdict = where_it_holds(found)
    return Claim(says, "section 6.4, Table 4", verdict, listed(found), leads=found, program=program)


def _few_rounds(cells: Cells) -> Claim:
    few, many = (placed("iterative_hessian", rounds=s) for s in (FEW_ROUNDS, MANY_ROUNDS))
    gap = lead(cells.aucs(FIGURE_SET, few, SMALL) - cells.aucs(FIGURE_SET, many, SMALL))
    return Claim(
        f"{FEW_ROUNDS} rounds of it are better than {MANY_ROUNDS} at epsilon {SMALL:g}",
        "section 6.4, Figure 3",
        gap.verdict,
        gap.shown(),
        leads={"": gap},
        program=authors.of_column(ONE_SET, "rounds", "rounds", FEW_ROUNDS, MANY_ROUNDS),
    )


def _one_feature(cells: Cells) -> Claim:
    one, every = (in_turns(k, "newton", FEW_TREES) for k in (1, None))
    gap = lead(cells.aucs(FIGURE_SET, one, USUAL) - cells.aucs(FIGURE_SET, every, USUAL))
    return Claim(
        f"With few trees ({FEW_TREES}), one feature a tree beats all features",
        "appendix A.3, Figures 10 and 11",
        gap.verdict,
        gap.shown(),
        leads={"": gap},
        program=authors.of_column(ONE_SET, "features", "features", 1, None),
    )


# ----------------------------------------------------------------------------------------- ranks
def ranks(cells: Cells, epsilon: float) -> pd.DataFrame:
    """(set and split, method) the rank, wherever all named methods were run."""
    scores = {
        name: pd.concat({data: cells.aucs(data, named(name), epsilon) for data in RANKED_SETS})
        for name in RANKS
    }
    return pd.DataFrame(scores).dropna().rank(axis=1, ascending=False)


def _ranked(cells: Cells) -> list[Claim]:
    made = []
    for place, epsilon in ((0, EPSILONS[0]), (2, EPSILONS[2])):
        printed = {name: numbers[place] for name, numbers in RANKS.items()}
        best = min(printed, key=lambda name: printed[name])
        each = ranks(cells, epsilon)
        verdict, said, leads = NOT_RUN, NOTHING, dict[str, Lead]()
        if len(each):
            mean = each.mean()
            rival = mean.drop(best).idxmin()
            gap = lead(each[rival] - each[best])
            verdict, leads = gap.verdict, {"": gap}
            said = f"{best} {mean[best]:.2f}, {rival} {mean[rival]:.2f}, difference {gap.shown(2)}"
        made.append(
            Claim(
                f"{best} ranks first at epsilon {epsilon:g}",
                "section 6.6, Table 6",
                verdict,
                f"{said}; paper {printed[best]:.2f}",
                leads=leads,
            )
        )
    return made
