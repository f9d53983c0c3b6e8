"""An estimator as it is typed: its name, and parameters after it, "TreeClassifier max_depth=4"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hedgerow.estimators.base import PrivateEstimator

FLAGS = ("schema", "epsilon", "delta", "ledger", "hold_out", "progress")
"""Parameters that the commands have flags for, or that are their own business."""


def typed_estimator(text: str, flags: dict[str, Any]) -> PrivateEstimator:
    """What a text names, with its own parameters and with those that flags said."""
    from hedgerow.agreement.drafting import typed_parameter
    from hedgerow.errors import SpecError
    from hedgerow.estimators.parameters import declared
    from hedgerow.papers.by_name import estimator_named

    if not text.strip():
        raise SpecError("an estimator is empty; name one, such as ForestClassifier.")
    name, *given = text.split()
    parameters = dict(typed_parameter(one) for one in given)
    kind = estimator_named(name)
    said = sorted(set(parameters) & set(FLAGS))
    if said:
        raise SpecError(f"{text!r} sets {said}, which flags of this command say; leave it out.")
    if isinstance(kind, type):  # a paper's method knows its own
        known = {one.name for one in declared(kind)} - set(FLAGS)
        for strange in sorted(set(parameters) - known):
            raise SpecError(f"{strange} is no parameter of {name}; use some of {sorted(known)}.")
    return kind(**flags, **parameters)
