"""The audit as a person runs it: rows from nowhere, canaries, fits, a verdict in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from hedgerow.audit.measuring import AuditVerdict, judge
from hedgerow.audit.watching import watched_fit
from hedgerow.errors import SpecError
from hedgerow.methods.registry import Maker, estimators, paper_methods
from hedgerow.schema.schema import Categorical, Feature, Numeric, Schema, Target

AUDIT_FEATURES: tuple[Feature, ...] = (
    *(Numeric(f"number {k}", 0.0, 1.0, bins=24) for k in range(6)),
    Categorical("group", ("a", "b", "c", "d")),
)
CLAIM_WIDTH = 40


def estimators_named(name: str) -> dict[str, Maker]:
    """The class or the paper's method of that name, or all classes."""
    classes = estimators()
    if name == "all":
        return {**classes}
    known: dict[str, Maker] = {**classes, **_methods_with_a_claim()}
    if name not in known:
        raise SpecError(f"there is no estimator {name!r}; use 'all' or one of {sorted(known)}.")
    return {name: known[name]}


def _methods_with_a_claim() -> dict[str, Maker]:
    """Those that take epsilon: what a paper printed is no claim to be held against."""
    return {name: one for name, one in paper_methods().items() if "_as_" not in name}


def audited(
    kind: Maker,
    placement: str = "curator",
    epsilon: float = 8.0,
    delta: float = 1e-6,
    n_rows: int = 400,
    canaries: int = 60,
    fits: int = 1,
    **parameters: Any,
) -> AuditVerdict:
    """Audits an estimator on made-up rows; more fits and canaries make the bounds tighter."""
    for words, count in (("fits", fits), ("canaries", canaries)):
        if count < 1:
            raise SpecError(f"{words} is {count}; an audit needs 1 or more.")
    parties = 1 if placement == "curator" else 3
    rng = np.random.default_rng()
    number = getattr(kind, "_regression", False)
    schema = Schema(AUDIT_FEATURES, classes=("no", "yes"))
    if number:
        schema = Schema(AUDIT_FEATURES, target=Target(0.0, 1.0))
    found = []
    for _ in range(fits):
        model = kind(schema, epsilon=epsilon, delta=delta, placement=placement, **parameters)
        rows, extra = _made_up(n_rows, number, rng), _made_up(canaries, number, rng, extreme=True)
        found.append(watched_fit(model, schema, rows, extra, parties, rng))
    return judge(found)


def _made_up(
    n: int, number: bool, rng: np.random.Generator, extreme: bool = False
) -> tuple[Any, Any]:
    """Rows with something to learn; canaries stand in rare corners and carry the ends of ranges."""
    X = rng.random((n, 6))
    if extreme:
        X = np.where(rng.random((n, 6)) < 0.3, np.round(X), X)
    score = X[:, 0] + 0.5 * X[:, 1] + rng.normal(0.0, 0.2, n)
    flip = rng.random(n) < (0.5 if extreme else 0.0)
    high = (score > 0.75) ^ flip
    y = np.where(high, 1.0, 0.0) if extreme else np.clip(score / 1.5, 0.0, 1.0)
    labels = y if number else np.where(high, "yes", "no")
    group = rng.choice(list("abcd"), n)
    return np.concatenate([X.astype(object), group[:, None].astype(object)], axis=1), labels


def lines(name: str, placement: str, found: AuditVerdict) -> Iterator[str]:
    """The verdict for a terminal, with a picture."""
    yield f"{name}, noise added by {placement}"
    yield f"  claim      epsilon = {found.claimed:g}, delta = {found.delta:g}"
    yield f"  white box  at least {found.white_box:.3f}  {_bar(found.white_box, found.claimed)}"
    yield f"  one run    at least {found.one_run:.3f}  {_bar(found.one_run, found.claimed)}"
    yield f"             {found.right} of {found.canaries} canaries guessed right"
    for kind in found.kinds:
        mark = "" if kind.is_sound else "   BEYOND ITS CHARGE"
        yield (
            f"  {kind.what:<28} {kind.numbers:>7} numbers, noise {kind.noise:.3f} of its claim, "
            f"loss at least {kind.at_least:.3f} of its charge{mark}"
        )
    yield "  below its claim" if found.is_sound else "  ABOVE ITS CLAIM: do not use this build"


def _bar(measured: float, claimed: float) -> str:
    """Measured against claimed; the claim is the upright line."""
    reach = min(round(CLAIM_WIDTH * measured / claimed), CLAIM_WIDTH + 10)
    bar = (
        "#" * min(reach, CLAIM_WIDTH)
        + "." * max(CLAIM_WIDTH - reach, 0)
        + "|"
        + "#" * max(reach - CLAIM_WIDTH, 0)
    )
    return f"[{bar}]"
