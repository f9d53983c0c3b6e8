"""Whether a fit is one of many that a search over parameters makes of the same rows.

scikit-learn clones an estimator for every fit of a search, so no instance knows of the others.
What knows is the call that scikit-learn makes: it names how many settings and folds there are.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any

from hedgerow.errors import PrivacyWarning, warn
from hedgerow.privacy.accounting.budget import Cost, exact
from hedgerow.privacy.accounting.guarantee import Guarantee, together

SEARCHES = "sklearn.model_selection."


@dataclass(frozen=True)
class Search:
    """Fits of one search: all of them, which one this is, and what they cost together."""

    settings: int
    folds: int
    number: int
    guarantee: Guarantee

    @property
    def fits(self) -> int:
        return self.settings * self.folds

    @property
    def left(self) -> int:
        """How many are to be made, the one at hand included."""
        return self.fits - self.number


def search_around(guarantee: Guarantee) -> Search | None:
    """The search that called this fit, if one did; `guarantee` is that of this fit."""
    frames = [f for f in _callers() if f.f_globals.get("__name__", "").startswith(SEARCHES)]
    called = next((f for f in frames if f.f_code.co_name == "_fit_and_score"), None)
    known = {} if called is None else called.f_locals
    settings, folds = known.get("candidate_progress"), known.get("split_progress")
    if not settings or not folds:
        return None
    epsilons, deltas = (
        _of_settings(frames, known.get("estimator"), name) or [usual] * settings[1]
        for name, usual in (("epsilon", guarantee.epsilon), ("delta", guarantee.delta))
    )
    each = [
        replace(guarantee, epsilon=epsilon, delta=exact(delta))
        for epsilon, delta in zip(epsilons, deltas, strict=True)
    ]
    number = settings[0] * folds[1] + folds[0]
    return Search(settings[1], folds[1], number, together(*each * folds[1]))


def _callers() -> Iterator[FrameType]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back


def _of_settings(frames: list[FrameType], estimator: Any, wanted: str) -> list[Cost]:
    """Of each setting, where the search runs in this process; else nothing is known of them."""
    tried = next((f for f in frames if f.f_code.co_name == "evaluate_candidates"), None)
    candidates = list(tried.f_locals.get("candidate_params", ())) if tried else []
    names = {name for setting in candidates for name in setting if name.split("__")[-1] == wanted}
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
        f"settings, {search.folds} folds), with {search.guarantee.promise} in "
        "total, and one more fit with the best setting. Each statement speaks of its own fit "
        "alone, and scores on raw rows are not private. Give all fits one `ledger`, or search on "
        "public data.",
        PrivacyWarning,
    )
