"""The claims of Maddock et al. 2022, judged split by split, with leaves as it prints them."""

from __future__ import annotations

import pandas as pd

from studies.boosted import learners
from studies.boosted.cells import Cells
from studies.boosted.learners import (
    EPSILONS,
    FIGURE_SET,
    LEAVES,
    PUBLISHED,
    batched,
    components,
    in_turns,
    named,
    placed,
)
from studies.boosted.paper import CLOSE, DATASETS, RANKS, WEIGHT_TABLES
from studies.boosted.verdicts import BEST_BATCH, NEWTON, SMALL, printed_cells
from studies.claims import HOLDS, NOT_RUN, NOTHING, Claim, Lead, lead, listed, where_it_holds

USUAL = 1.0
"""The paper's epsilon of its first tables."""
FEW_ROUNDS, MANY_ROUNDS = 5, 30
FEW_TREES = 25


def claims(cells: Cells) -> list[Claim]:
    return [
        *(_printed_cells(cells, papers_noise=louder) for louder in (False, True)),
        *(_random_is_best(cells, other) for other in ("histogram", "partially_random")),
        *(_newton_is_best(cells, split) for split in ("histogram", "totally_random")),
        *(_batches(cells, leaves) for leaves in LEAVES),
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


def over_epsilons(cells: Cells, first: str, second: str) -> dict[str, Lead]:
    """By data set, pairs of all epsilons of the paper's tables."""
    found = {}
    for name, title in DATASETS.items():
        gaps = [cells.aucs(name, first, e) - cells.aucs(name, second, e) for e in WEIGHT_TABLES]
        gap = lead(pd.concat(gaps))
        if gap.n:
            found[title] = gap
    return found


# ------------------------------------------------------------------------------ Tables 3, 9 to 12
def _printed_cells(cells: Cells, *, papers_noise: bool) -> Claim:
    """Newton steps in totally random trees, as printed, beside the printed cells."""
    found = list(printed_cells(cells, papers_noise=papers_noise))
    near, off = [c for c in found if c.is_near], [c for c in found if c.is_clearly_off]
    said = [
        f"{DATASETS[c.data]}, epsilon {c.epsilon:g}: {c.aucs.mean():.4f} ± {c.gap.error:.4f}, "
        f"paper {c.paper:.4f} ({c.gap.n} splits)"
        for c in found
    ]
    if not found:
        verdict = NOT_RUN
    elif len(near) == len(found):
        verdict = HOLDS
    else:
        verdict = f"holds in {len(near)} of {len(found)}; clearly off in {len(off)}"
    return Claim(
        f"Newton steps in random trees have the printed AUC (within {CLOSE:g} here), at the "
        f"paper's {'noise' if papers_noise else 'epsilon'}",
        "Tables 3 and 9",
        verdict,
        "; ".join(said) or NOTHING,
        leads={f"{DATASETS[c.data]}, epsilon {c.epsilon:g}": c.gap for c in found},
    )


def _random_is_best(cells: Cells, other: str) -> Claim:
    found = over_epsilons(
        cells, components("totally_random", "newton"), components(other, "newton")
    )
    return Claim(
        f"Totally random splits beat {other.replace('_', ' ')} ones",
        "section 6.2, Tables 3 and 9 to 12",
        where_it_holds(found),
        listed(found),
        leads=found,
    )


def _newton_is_best(cells: Cells, split: str) -> Claim:
    found = over_epsilons(cells, components(split, "newton"), components(split, "averaging"))
    return Claim(
        f"Newton steps beat averages in {split.replace('_', ' ')} trees",
        "section 6.3, Tables 3 and 9 to 12",
        where_it_holds(found),
        listed(found),
        leads=found,
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
    return Claim(says, "section 6.4, Table 4", where_it_holds(found), listed(found), leads=found)


def _few_rounds(cells: Cells) -> Claim:
    few, many = (placed("iterative_hessian", rounds=s) for s in (FEW_ROUNDS, MANY_ROUNDS))
    gap = lead(cells.aucs(FIGURE_SET, few, SMALL) - cells.aucs(FIGURE_SET, many, SMALL))
    return Claim(
        f"{FEW_ROUNDS} rounds of it are better than {MANY_ROUNDS} at epsilon {SMALL:g}",
        "section 6.4, Figure 3",
        gap.verdict,
        gap.shown(),
        leads={"": gap},
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
