"""The cells of `python -m studies boosted` by name: estimator parameters, spelled as text."""

from __future__ import annotations

from studies.boosted.paper import RANKS

FIRST_SPLIT = 200  # no choice was ever made on the splits from here on
SHARES_PARTIES = 5
EVERY_RECORD = 0  # as a number of parties: each record is a site and adds noise of its own
DEFAULT = "method=default"
LOCAL_BASELINE = "method=DP-TR Newton;n_trees=100"
DEFAULT_SETS = ("adult", "bank", "credit_gmsc", "credit_default", "spambase", "higgs_18k")
RANKED_SETS = ("adult", "bank", "credit_gmsc", "credit_default", "higgs_18k")
EPSILONS = (0.1, 0.5, 1.0)
NAMED = (*RANKS, "DP-TR Newton")
FIGURE_SET = "credit_gmsc"
TITLES = {
    "adult": "Adult",
    "bank": "Bank",
    "credit_gmsc": "Credit 1",
    "credit_default": "Credit 2",
    "spambase": "Spambase",
    "higgs_18k": "Higgs 18k",
}


def components(split: str, update: str, trees: int | None = None, depth: int = 4) -> str:
    """Random trees: 300 of them; trees that look: 25 (the paper's Table 3)."""
    trees = trees or (300 if split == "totally_random" else 25)
    batch = trees if update == "averaging" else 1
    return (
        f"method=components;split={split};update={update};n_trees={trees};"
        f"batch={batch};max_depth={depth}"
    )


def placed(candidates: str, trees: int = 100, bins: int = 32, rounds: int = 5) -> str:
    extra = f";hessian_rounds={rounds}" if candidates == "iterative_hessian" else ""
    return f"method=components;candidates={candidates};n_trees={trees};n_bins={bins}{extra}"


def batched(batch: int, trees: int = 200) -> str:
    if batch == 0:
        return components("totally_random", "averaging", trees)
    return f"method=components;n_trees={trees};batch={batch}"


def named(name: str, trees: int) -> str:
    return f"method={name};n_trees={trees}"
