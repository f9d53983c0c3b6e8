"""The claims of Maddock et al. 2022, judged split by split, with leaves as it prints them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pandas as pd

from studies import authors
from studies.boosted import learners
from studies.boosted.cells import Cells
from studies.boosted.learners import (
    EPSILONS,
    FIGURE_SET,
    LEAVES,
    PUBLISHED,
    batched,
    in_turns,
    named,
    placed,
)
from studies.boosted.paper import CLOSE, DATASETS, RANKS, WEIGHT_TABLES
from studies.boosted.published import Published, agreement
from studies.boosted.verdicts import BEST_BATCH, NEWTON, SMALL
from studies.claims import NOT_RUN, NOTHING, Claim, Lead, lead, listed, where_it_holds

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
    """By data set, on the splits that both recipes have."""
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
    rounds = learners.BATCH_TREES // FEW_BATCHES
    return Claim(
        f"{rounds} rounds instead of {learners.BATCH_TREES} lose less than {CLOSE:g}: batches of "
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
            - cells.aucs(name, learners.LOCAL_BASELINE, USUAL, learners.EVERY_RECORD)
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
    found = ahead(cells, SMALL, batched(NEWTON, learners.SHRUNK), batched(BEST_BATCH, PUBLISHED))
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
        name: pd.concat(
            {data: cells.aucs(data, named(name), epsilon) for data in learners.RANKED_SETS}
        )
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
