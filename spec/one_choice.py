"""The other thing a site can be asked: its own private selection among splits (LocalRNM).

Wang et al. 2020. Only the index of the winner leaves the site, in the clear beside its masked
vector. `choice_question` takes the place of `histogram_question` in `one_round.secure_round`, for
a study whose `asks` begin with ASKS.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

from spec.one_round import (
    Answer,
    Counts,
    Question,
    Row,
    Study,
    Tape,
    added,
    blob,
    canonical,
    cost,
    edges,
    histograms,
    share,
)

ASKS = "LocalSelection GINI"
LATTICE = 1 << 14  # integer units per 1.0 of a score


def choice_question(study: Study) -> Question:
    """All cuts of all features; missing values go right."""
    cuts = [
        canonical({"!": "Thresholds", "feature": name, "grid": grid_name(study, j),
                   "at": list(range(1, study.n_bins)), "also": None})
        for j, (name, _, _) in enumerate(study.features)
    ]  # fmt: skip
    query: dict[str, Any] = {
        "!": "LocalSelection", "region": [], "fraction": {"%": str(share(study))},
        "splits": [{"@": hashlib.sha256(cut).hexdigest()} for cut in cuts],
        "scoring": {"!": "Scoring", "score": {"#": ["Score", "GINI"]},
                    "rows_at_most": 2**32, "balance": 0},
        "mechanism": {"#": ["Mechanism", "PERMUTE_AND_FLIP"]}, "remainder": {"%": "0"},
    }  # fmt: skip
    n = len(study.features) * (study.n_bins - 1)
    words = f"each site's private selection among {n} splits, for all records"

    def respond(rows: Sequence[Row], read: Tape) -> Answer:
        """A record moves every score down by 0 to 2: range 2, hence epsilon / 2 per 1.0."""
        coefficient = cost(study) / (2 * LATTICE * study.records_per_person)
        return [0], [permute_and_flip(gini_scores(histograms(study, rows)), coefficient, read)]

    return canonical([query]), b"".join(map(blob, cuts)), words, respond


def grid_name(study: Study, feature: int) -> str:
    """Names all that decides the cell of a value: two tests are one only if this agrees."""
    cuts = [repr(edge) for edge in edges(study, feature)]
    meaning = ["grid 1", study.features[feature][0], "numeric", cuts, [], False]
    return hashlib.sha256(canonical(meaning)).hexdigest()


def gini_scores(counts: Counts) -> list[int]:
    """- n (1 - sum p^2) summed over both sides of every cut, each half of it rounded down."""

    def loss(side: list[int]) -> int:
        n = sum(side)
        return 2 * (LATTICE * (n * n - sum(c * c for c in side)) // (2 * max(n, 1)))

    pairs = [(cells[:k], cells[k:]) for cells in counts for k in range(1, len(cells) - 1)]
    return [-loss(added(left)) - loss(added(right)) for left, right in pairs]


def permute_and_flip(scores: Sequence[int], coefficient: Fraction, read: Tape) -> int:
    """McKenna and Sheldon 2020: in random order, keep r with probability exp(-coefficient gap)."""
    waiting = list(range(len(scores)))
    while True:
        place = uniform_below(len(waiting), read)
        if bernoulli_exp(coefficient * (max(scores) - scores[waiting[place]]), read):
            return waiting[place]
        waiting[place] = waiting[-1]
        waiting.pop()


def bernoulli_exp(x: Fraction, read: Tape) -> bool:
    """True with probability exp(-x), exactly: Canonne, Kamath and Steinke 2020, Algorithm 1."""

    def up_to_one(n: int, d: int) -> bool:
        k = 1
        while uniform_below(d * k, read) < n:
            k += 1
        return k % 2 == 1

    whole, rest = divmod(x.numerator, x.denominator)
    return all(up_to_one(1, 1) for _ in range(whole)) and up_to_one(rest, x.denominator)


def uniform_below(n: int, read: Tape) -> int:
    """Too large a draw is thrown away."""
    bits = (n - 1).bit_length()
    while (drawn := int.from_bytes(read((bits + 7) // 8), "little") >> -bits % 8) >= n:
        pass
    return drawn
