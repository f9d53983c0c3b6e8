"""Whether a fit is one of many that a search over parameters makes of the same rows.

scikit-learn clones an estimator for every fit of a search, so no instance knows of the others.
What knows is the call that scikit-learn makes: it names how many settings and folds there are.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from types import FrameType
from typing import Any

from hedgerow.errors import PrivacyWarning, warn
from hedgerow.privacy.accounting import rounding
from hedgerow.privacy.accounting.budget import exact
from hedgerow.privacy.accounting.rounding import printed

SEARCHES = "sklearn.model_selection."


@dataclass(frozen=True)
class Search:
    """Fits of one search: all of them, which one this is, and what they cost together."""

    settings: int
    folds: int
    number: int
    epsilon: Fraction

    @property
    def fits(self) -> int:
        return self.settings * self.folds

    @property
    def left(self) -> int:
        """How many are to be made, the one at hand included."""
        return self.fits - self.number


def search_around(epsilon: Fraction) -> Search | None:
    """The search that called this fit, if one did; `epsilon` is that of this fit."""
    frames = [f for f in _callers() if f.f_globals.get("__name__", "").startswith(SEARCHES)]
    called = next((f for f in frames if f.f_code.co_name == "_fit_and_score"), None)
    known = {} if called is None else called.f_locals
    settings, folds = known.get("candidate_progress"), known.get("split_progress")
    if not settings or not folds:
        return None
    each = _epsilons(frames, known.get("estimator")) or [epsilon] * settings[1]
    number = settings[0] * folds[1] + folds[0]
    return Search(settings[1], folds[1], number, sum(each, Fraction(0)) * folds[1])


def _callers() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _epsilons(frames: list[FrameType], estimator: Any) -> list[Fraction]:
    """Of each setting, where the search runs in this process; else nothing is known of them."""
    tried = next((f for f in frames if f.f_code.co_name == "evaluate_candidates"), None)
    candidates = list(tried.f_locals.get("candidate_params", ())) if tried else []
    names = {
        name for setting in candidates for name in setting if name.split("__")[-1] == "epsilon"
    }
    if len(names) != 1:
        return []
    (name,) = names
    usual = estimator.get_params().get(name)
    return [exact(setting.get(name, usual)) for setting in candidates]


def warn_of_search(search: Search | None) -> None:
    """Once for a search, at its first fit."""
    if search is None or search.number:
        return
    warn(
        f"a search over parameters makes {search.fits} fits of these rows ({search.settings} "
        f"settings, {search.folds} folds), with epsilon {printed(_number(search.epsilon))} in "
        "total, and one more fit with the best setting. Each statement speaks of its own fit "
        "alone, and scores on raw rows are not private. Give all fits one `ledger`, or search on "
        "public data.",
        PrivacyWarning,
    )


def _number(epsilon: Fraction) -> float:
    return rounding.float_above(epsilon)
