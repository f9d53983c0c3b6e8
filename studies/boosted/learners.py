"""The cells of `python -m studies boosted` by name: estimator parameters, spelled as text."""

from __future__ import annotations

from studies.boosted.fits import EVERY_RECORD as EVERY_RECORD
from studies.boosted.fits import SHARES_PARTIES as SHARES_PARTIES
from studies.boosted.paper import RANKS

FIRST_SPLIT = 200  # no choice was ever made on the splits from here on
DEFAULT = "method=default"
LOCAL_BASELINE = "method=DP-TR Newton;n_estimators=100"
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


PUBLISHED, SHRUNK = "published", "shrunk"
"""What a noisy leaf says: the paper's rule, or ours that pulls it by its noise."""
LEAVES = (PUBLISHED, SHRUNK)
LOOKING_TREES, RANDOM_TREES = 25, 300
"""Of trees that look at scores, and of random ones (the paper's Tables 3 and 9 to 12)."""
BATCH_TREES, CANDIDATE_TREES, RANKED_TREES = 200, 100, 100
"""Of its Tables 5, 4 and 6."""
DEPTH, BINS = 4, 32


def components(
    split: str, update: str, trees: int | None = None, depth: int = DEPTH, leaves: str = PUBLISHED
) -> str:
    """Weight updates of the paper's Tables 3 and 9 to 12; averages have one kind of leaf."""
    trees = trees or (RANDOM_TREES if split == "totally_random" else LOOKING_TREES)
    averages = update == "averaging"
    told = "" if averages else f";leaf_values={leaves}"
    return (
        f"method=components;split={split};update={update};n_estimators={trees};"
        f"trees_per_round={trees if averages else 1};max_depth={depth}{told}"
    )


def placed(
    candidates: str,
    trees: int = CANDIDATE_TREES,
    bins: int = BINS,
    rounds: int = 5,
    leaves: str = PUBLISHED,
) -> str:
    extra = f";hessian_rounds={rounds}" if candidates == "iterative_hessian" else ""
    return (
        f"method=components;candidates={candidates};n_estimators={trees};n_bins={bins}{extra};"
        f"leaf_values={leaves}"
    )


def batched(batch: int, leaves: str = PUBLISHED, trees: int = BATCH_TREES) -> str:
    if batch == 0:
        return components("totally_random", "averaging", trees)
    return f"method=components;n_estimators={trees};trees_per_round={batch};leaf_values={leaves}"


def in_turns(features: int | None, update: str, trees: int) -> str:
    """Cyclical trees of some features each; None are all of them."""
    chosen = "" if features is None else f";order=cyclic;features_per_tree={features}"
    return f"method=components;update={update};n_estimators={trees};leaf_values={PUBLISHED}{chosen}"


def named(name: str, trees: int = RANKED_TREES, leaves: str = PUBLISHED) -> str:
    """Under its name a method has printed leaves; averages have no other."""
    told = f";leaf_values={leaves}" if leaves == SHRUNK and name != "DP-RF" else ""
    return f"method={name};n_estimators={trees}{told}"
