"""What follows from a study and a query alone is worked out once for each query.

All sites of one process have the same study, and read the same questions as the same objects. What
is kept lies with the query and goes with it; it is not copied or sent along.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from hedgerow.study.terms import Study

REMEMBERED = "_remembered"
AQuery = TypeVar("AQuery")
Result = TypeVar("Result")
Follows = Callable[["Study", AQuery], Result]


class _Remembered:
    """Results by the names of the functions that made them, for one study."""

    __slots__ = ("results", "study")

    def __init__(self, study: Study | None = None) -> None:
        self.study, self.results = study, dict[str, Any]()

    def __reduce__(self) -> tuple[Any, ...]:
        return _Remembered, ()


def once_a_query(function: Follows[AQuery, Result]) -> Follows[AQuery, Result]:
    """For functions of a study and of a query that never changes; what they raise is not kept."""
    name = function.__qualname__

    @wraps(function)
    def remembered(study: Study, query: AQuery) -> Result:
        kept = vars(query).get(REMEMBERED)
        if kept is None or kept.study is not study:
            kept = vars(query)[REMEMBERED] = _Remembered(study)
        if name not in kept.results:
            kept.results[name] = function(study, query)
        result: Result = kept.results[name]
        return result

    return remembered
