"""The audit that users run: synthetic rows, canaries, fits, and a verdict in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from hedgerow.audit.measuring import AuditVerdict, judge_fits, watch_fit
from hedgerow.audit.paths import PathVerdict, compare_neighbors
from hedgerow.errors import DataError, ParameterError, UnsupportedQuery
from hedgerow.methods.evaluate import evaluate
from hedgerow.methods.model_selection import select_model
from hedgerow.methods.registry import EstimatorMaker, estimators, paper_methods
from hedgerow.schema.arrays import Rng
from hedgerow.schema.schema import Categorical, Feature, Numeric, Schema, Survival, Target

AUDIT_FEATURES: tuple[Feature, ...] = (
    *(Numeric(f"number {k}", 0.0, 1.0, bins=24) for k in range(6)),
    Categorical("group", ("a", "b", "c", "d")),
)
CLAIM_WIDTH = 40
AUDIT_LABEL = "outcome"


def estimators_named(name: str) -> dict[str, EstimatorMaker]:
    """The class or the paper's method of that name, or all classes."""
    classes = estimators()
    if name == "all":
        return {**classes}
    makers: dict[str, EstimatorMaker] = {**classes}  # a published number is no claim to audit
    makers |= {paper: maker for paper, maker in paper_methods().items() if "_as_" not in paper}
    if name not in makers:
        raise ParameterError(
            f"there is no estimator {name!r}; use 'all' or one of {sorted(makers)}."
        )
    return {name: makers[name]}


def audit_estimator(
    kind: EstimatorMaker,
    dp_model: str = "central",
    epsilon: float = 8.0,
    delta: float = 1e-6,
    n_rows: int = 400,
    canaries: int = 60,
    fits: int = 1,
    paths: bool = False,
    **parameters: Any,
) -> AuditVerdict:
    """Audits an estimator on synthetic rows; more fits and canaries give tighter bounds.

    `paths` adds other uses of the records: `audit_paths`.
    """
    for words, count in (("fits", fits), ("canaries", canaries)):
        if count < 1:
            raise ParameterError(f"{words} is {count}; an audit needs 1 or more.")
    n_sites = 1 if dp_model == "central" else 3
    rng = np.random.default_rng()
    number = getattr(kind, "_regression", False)
    schema = Schema(AUDIT_FEATURES, classes=("no", "yes"))
    if getattr(kind, "_survival", False):
        schema = Schema(AUDIT_FEATURES, survival=Survival("time", "event", 1.0))
    elif number:
        schema = Schema(AUDIT_FEATURES, target=Target(0.0, 1.0))
    watched_fits = []
    for _ in range(fits):
        model = kind(schema, epsilon=epsilon, delta=delta, dp_model=dp_model, **parameters)
        rows, extra = _made_up(n_rows, number, rng), _made_up(canaries, number, rng, extreme=True)
        if schema.survival is not None:
            rows, extra = _censor(rows, rng), _censor(extra, rng)
        watched_fits.append(watch_fit(model, schema, rows, extra, n_sites, rng))
    if not paths:
        return judge_fits(watched_fits)
    maker = partial(kind, schema, epsilon=epsilon, delta=delta, random_state=0, **parameters)
    if dp_model != "central":
        maker = partial(maker, dp_model=dp_model)
    return replace(
        judge_fits(watched_fits), paths=audit_paths(maker, schema, dp_model, number, rng)
    )


# Other uses of the records.
PATH_ROWS, VICTIMS = 60, 2
"""Small numbers: every path is fitted twice for each record that is left out."""


def audit_paths(
    make: Callable[..., Any], schema: Schema, dp_model: str, number: bool, rng: Rng
) -> dict[str, PathVerdict]:
    """By name of the path: both accountants on the effect of leaving single records out.

    A path that the method refuses, or that needs a package which is not installed, is absent.
    """
    if dp_model == "label":  # neighbors differ in a label, which `audit.choices` measures
        return {}
    X, y = _made_up(PATH_ROWS, number, rng, extreme=True)
    label: str | None = AUDIT_LABEL
    if schema.survival is not None:
        signed_times, label = _censor((X, y), rng)[1], None
        kinds = [(name, np.float64) for name in schema.survival.columns]
        y = np.array([*zip(np.abs(signed_times), signed_times > 0.0, strict=True)], kinds)
    guarantee: dict[str, Any] = {"epsilon": 50.0}  # large enough that groups are asked, too
    sites = 1 if dp_model == "central" else 3
    site: dict[str, Any] = {} if sites == 1 else {"sites": range(sites)}

    def whose(rows: Any) -> dict[str, Any]:
        return site if sites == 1 else {**site, "site": rows % sites}

    def fit_rows(rows: Any, **more: Any) -> Any:
        return make(**more).fit(X[rows], y[rows], **whose(rows))

    def persons(rows: Any) -> None:
        model = make(records_per_person=2)  # of three that each person has
        model.fit(X[rows], y[rows], person=rows // 3, **whose(rows // 3))

    def evaluation(rows: Any, **more: Any) -> None:
        model = fit_rows(rows, **more)
        evaluate(model, X[rows], y[rows], by=None if more else "group", **guarantee, **whose(rows))

    def selection(rows: Any) -> None:
        select_model([make(), make()], X[rows], y[rows], hold_out=3, **guarantee, **whose(rows))

    def database(rows: Any) -> None:
        import duckdb

        outcome = schema.label_columns(AUDIT_LABEL)
        labels = [y[rows]] if label else [y[name][rows] for name in outcome]
        table = pa.table([*map(pa.array, (*X[rows].T, *labels))], names=[*schema.names, *outcome])
        with closing(duckdb.connect(config={"threads": 1})) as connection:
            connection.register("records", table)
            source = {"sql": "SELECT * FROM records", "push_down": True, "target": label}
            make().fit(connection, **source)

    verdicts = {
        "rounds that fail": _path(fit_rows, as_study=True, fails=1),
        "records of persons": _path(persons, size=3),
        "evaluation": _path(evaluation),
        "records held out": _path(partial(evaluation, hold_out=3), holds_out=True),
        "model selection": _path(selection, holds_out=True),
        "rows in a database": _path(database) if sites == 1 else None,
    }
    return {name: verdict for name, verdict in verdicts.items() if verdict is not None}


def _path(act: Callable[[Any], None], size: int = 1, **how: Any) -> PathVerdict | None:
    """The worst verdict over several records, or persons of `size` records, left out in turn."""
    rows, verdicts = np.arange(PATH_ROWS), list[PathVerdict]()
    for victim in range(VICTIMS):
        left = rows[(rows // size) != victim]
        try:
            verdicts.append(compare_neighbors(act, rows, left, **how))
        except (ParameterError, UnsupportedQuery, DataError, ImportError):
            return None
    problems = dict.fromkeys(problem for verdict in verdicts for problem in verdict.problems)
    return PathVerdict(tuple(problems), max(verdict.lost_fraction for verdict in verdicts))


def _made_up(n: int, number: bool, rng: Rng, extreme: bool = False) -> tuple[Any, Any]:
    """Rows with a signal; canaries lie in rare corners and have the ends of ranges."""
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


def _censor(rows: tuple[Any, Any], rng: Rng) -> tuple[Any, Any]:
    """Censors some of the times: they become negative."""
    X, times = rows
    return X, np.where(rng.random(len(times)) < 0.4, -1.0, 1.0) * np.maximum(times, 1e-3)


def lines(name: str, dp_model: str, verdict: AuditVerdict) -> Iterator[str]:
    """The verdict for a terminal, with bars, in which the claim is a vertical line."""
    yield f"{name}, dp_model {dp_model}"
    yield f"  claim      epsilon = {verdict.claimed:g}, delta = {verdict.delta:g}"
    for words, loss in (("white box", verdict.white_box), ("one run  ", verdict.one_run)):
        reach = min(round(CLAIM_WIDTH * loss / verdict.claimed), CLAIM_WIDTH + 10)
        below, beyond = "#" * min(reach, CLAIM_WIDTH), "#" * (reach - CLAIM_WIDTH)
        yield f"  {words}  at least {loss:.3f}  [{below:.<{CLAIM_WIDTH}}|{beyond}]"
    yield f"             {verdict.right} of {verdict.canaries} canaries guessed right"
    for kind in verdict.kinds:
        mark = "" if kind.is_sound else "   BEYOND ITS CHARGE"
        yield (
            f"  {kind.what:<28} {kind.numbers:>7} numbers, noise {kind.noise:.3f} of its claim, "
            f"loss at least {kind.at_least:.3f} of its charge{mark}"
        )
    for name, path in verdict.paths.items():
        words = (
            path.problems[0] if path.problems else f"lost {path.lost_fraction:.3f} of its charge"
        )
        yield f"  {name:<28} {'ACCOUNTANTS DISAGREE: ' if path.problems else ''}{words}"
    yield "  below its claim" if verdict.is_sound else "  ABOVE ITS CLAIM: do not use this build"
