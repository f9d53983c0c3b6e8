"""Audit of observed fits: the measured privacy loss against the claimed epsilon.

White box: released sums minus their exact values show the variance of the noise, and the
contribution of a canary shows how far it moves a sum. Together they give the loss of a sum, which
is compared with its charge, per kind of statistic, and over a canary's whole path with the budget.
Selections and randomized labels are measured in audit/choices.py.
One run: released sums minus their expectation are projected on each canary's own vector. Whoever
guesses from them which canaries were included refutes small epsilons (audit/choices.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np

from hedgerow.audit import choices
from hedgerow.audit.choices import (
    Chosen,
    NoiseSeen,
    RandomizedLabels,
    chosen_in,
    epsilon_at_least,
    loss_of_labels,
    reports_of,
)
from hedgerow.audit.paths import PathVerdict
from hedgerow.data.reading.encoding import encode
from hedgerow.data.rows import Draws, Rows
from hedgerow.errors import ParameterError
from hedgerow.federation.transports import in_process
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.training import agree
from hedgerow.privacy.accounting import conversions
from hedgerow.privacy.accounting.budget import DPModel, Measure
from hedgerow.privacy.queries import Answer, Mechanism, Query, Reply, SumQuery
from hedgerow.privacy.study import Study
from hedgerow.schema.arrays import BoolArray, FloatArray, Rng
from hedgerow.schema.schema import Schema

QUIET_DEVIATIONS = 4.9
"""One-sided: sound noise fails less than once in a million audits of a kind of sum."""
ERROR = 5e-7
ROUNDING = 1.005
"""Tolerance for integer noise and truncated contributions: a part in 200 is no finding."""


@dataclass(frozen=True)
class KindOfRelease:
    """All sums of one statistic, all selections by one mechanism, or all randomized labels.

    The deviation of their noise, and the most by which a charge was exceeded.
    """

    what: str
    numbers: int
    noise: float  # measured deviation over the claimed one
    at_least: float  # lower bound of loss over charge

    @property
    def is_sound(self) -> bool:
        return self.at_least <= ROUNDING


@dataclass(frozen=True)
class AuditVerdict:
    claimed: float
    delta: float
    white_box: float
    one_run: float
    canaries: int
    right: int
    kinds: tuple[KindOfRelease, ...]
    paths: Mapping[str, PathVerdict] = field(default_factory=dict)
    """Other uses of the records, judged by the second accountant."""

    @property
    def is_sound(self) -> bool:
        is_below = max(self.white_box, self.one_run) <= self.claimed * ROUNDING
        has_no_problem = not any(path.problems for path in self.paths.values())
        return is_below and has_no_problem and all(kind.is_sound for kind in self.kinds)


def judge_fits(fits: Sequence[Watched]) -> AuditVerdict:
    study = fits[0].study
    if study.dp_model is DPModel.NONE:
        raise ParameterError(
            "dp_model is 'none'; the audit measures noise in sums, selections and labels: use "
            "'central', 'distributed', 'per_site' or 'label'."
        )
    if study.dp_model is DPModel.LABEL:
        kind, white_box, (right, total) = _of_labels(fits)
        kinds = [kind]
    else:
        by_law = [_choices(fits, law) for law in choices.LAW_WORDS]
        groups: dict[type, list[tuple[Study, Released]]] = {}
        for fit in fits:
            for release in fit.released:
                groups.setdefault(type(release.query.statistic), []).append((fit.study, release))
        kinds = sorted(map(_kind, groups.values()), key=lambda kind: kind.what)
        kinds += [kind for kind, _ in by_law if kind is not None]
        white_box = _whole_path(fits, [lost for _, lost in by_law])
        right, total = _guesses(fits)
    return AuditVerdict(
        claimed=float(study.epsilon),
        delta=float(study.delta),
        white_box=white_box,
        one_run=epsilon_at_least(total, right, total, float(study.delta), ERROR),
        canaries=total,
        right=right,
        kinds=tuple(kinds),
    )


def _kind(group: Sequence[tuple[Study, Released]]) -> KindOfRelease:
    noise = _noise(group)
    scale = noise.at_most(QUIET_DEVIATIONS)
    ratios = [
        _losses(s, release, scale).max() / float(s.cost(release.query)) for s, release in group
    ]
    return KindOfRelease(
        what=str(group[0][1].query.statistic.words),
        numbers=noise.count,
        noise=math.sqrt(noise.square),
        at_least=max(float(part) for part in ratios),
    )


def _choices(
    fits: Sequence[Watched], law: Mechanism
) -> tuple[KindOfRelease | None, list[FloatArray]]:
    """All selections by one mechanism, and the loss of each canary of each fit by them.

    A law that is sharper than claimed exceeds its charge for the record that moves the scores most.
    That record need not be among the canaries, so the sharpness counts by itself.
    """
    lost = [np.zeros(len(fit.included)) for fit in fits]
    group = [(k, c) for k, f in enumerate(fits) for c in f.chosen if c.query.mechanism is law]
    if not group:
        return None, lost
    estimate, at_least = choices.sharpness([choice for _, choice in group], ERROR)
    most = at_least if at_least > ROUNDING else 0.0
    for k, choice in group:
        if len(choice.others):
            losses = choices.losses(fits[k].study, choice, at_least)
            most = max(most, float(losses.max()) / float(fits[k].study.cost(choice.query)))
            lost[k] += losses
    numbers = sum(len(choice.selections) for _, choice in group)
    noise = 1.0 / estimate if estimate else math.inf
    return KindOfRelease(choices.LAW_WORDS[law], numbers, noise, most), lost


def _of_labels(fits: Sequence[Watched]) -> tuple[KindOfRelease, float, tuple[int, int]]:
    """A coin decided the label of each canary; the reported label is the guess."""
    reports = [fit.label_reports for fit in fits if fit.label_reports is not None]
    lost = loss_of_labels(reports, ERROR)
    kind = KindOfRelease(
        what="randomized labels",
        numbers=sum(report.total for report in reports),
        noise=sum(report.loudness for report in reports) / len(reports),
        at_least=lost / float(fits[0].study.entry_cost),
    )
    right = sum(report.canaries_right for report in reports)
    return kind, lost, (right, sum(int(fit.included.sum()) for fit in fits))


def _noise(group: Sequence[tuple[Study, Released]]) -> NoiseSeen:
    """The noise of several sums together, each number in deviations of its own claim."""
    count = sum(release.noise.size for _, release in group)
    square = sum(float((release.noise**2).sum()) / release.variance for _, release in group)
    tail = sum(release.noise.size * _tail(study, release) for study, release in group)
    return NoiseSeen(count, square / max(count, 1), tail / max(count, 1))


def _losses(study: Study, release: Released, scale: float) -> FloatArray:
    """(M,) the loss of each canary by one sum, if the variance is `scale` times the claimed one."""
    pulls = release.pulls.reshape(len(release.pulls), -1)
    if math.isinf(scale):
        return np.zeros(len(pulls))
    variance = release.variance * _counted_part(study) * scale
    if study.measure is Measure.GDP:
        return np.asarray((pulls**2).sum(axis=1) / variance)
    unit = _unit(study, release)
    rate = -math.log(_ratio(variance * unit**2))
    return np.asarray(np.abs(pulls).sum(axis=1) * unit * rate)


def _unit(study: Study, release: Released) -> int:
    return study.unit(release.query) * study.refinement(release.query)


def _ratio(variance: float) -> float:
    """The ratio q of neighboring probabilities of a discrete Laplace law, by its variance."""
    return (1.0 + variance - math.sqrt(1.0 + 2.0 * variance)) / variance


def _tail(study: Study, release: Released) -> float:
    """Kurtosis minus 1 of the opened noise, from the fourth cumulant of a geometric law."""
    if study.measure is Measure.GDP:
        return 2.0
    part = _counted_part(study)
    q = _ratio(release.variance * part * _unit(study, release) ** 2)
    return 2.0 + part * (1.0 + 4.0 * q + q * q) / (2.0 * q)


def _counted_part(study: Study) -> float:
    """The part of the noise that the guarantee counts on: of honest survivors, or of one site."""
    if study.dp_model is DPModel.DISTRIBUTED:
        return (study.threshold - study.colluders) / study.n_sites
    return 1.0 / study.n_sites if study.dp_model is DPModel.PER_SITE else 1.0


def _whole_path(fits: Sequence[Watched], lost_by_choices: Sequence[list[FloatArray]]) -> float:
    """A lower bound on the epsilon of the canary that lost most over all sums and selections."""
    study = fits[0].study
    noise = _noise([(fit.study, release) for fit in fits for release in fit.released])
    scale = noise.at_most(QUIET_DEVIATIONS)
    lost = 0.0
    for k, fit in enumerate(fits):
        path = np.sum([by_law[k] for by_law in lost_by_choices], axis=0)
        path += np.sum([_losses(fit.study, release, scale) for release in fit.released], axis=0)
        lost = max(lost, float(path.max()))
    return conversions.epsilon_of(study.measure, Fraction(lost), study.noise_delta)


def _guesses(fits: Sequence[Watched]) -> tuple[int, int]:
    """Right and all guesses; a canary is guessed "in" if half of its own contribution is seen."""
    right = total = 0
    for fit in fits:
        evidence = np.zeros(len(fit.included))
        half = np.zeros(len(fit.included))
        for release in fit.released:
            pulls = release.pulls.reshape(len(release.pulls), -1)
            length = (pulls**2).sum(axis=1) / release.variance
            projection = pulls @ release.noise.reshape(-1) / release.variance
            evidence += projection + np.where(fit.included, length, 0.0)
            half += length / 2.0
        for choice in fit.chosen:
            if len(choice.others):
                evidence += choices.evidence(choice, fit.included)
        right += int(((evidence > half) == fit.included).sum())
        total += len(fit.included)
    return right, total


# One fit of the real pipeline with canaries, and everything it released. Nothing is replaced: an
# estimator's own study and method run over an in-process federation. In addition the same queries
# are answered without noise on the same rows and on each canary alone, which gives the noise in
# released sums, the contribution of each canary, and its effect on the scores of selections.


@dataclass(frozen=True)
class Released:
    """One noisy sum: its noise, and what each canary adds to it (M, ...)."""

    query: SumQuery
    noise: FloatArray
    variance: float
    pulls: FloatArray


@dataclass(frozen=True)
class Watched:
    """A finished fit: its study, what it released, and which canaries were included."""

    study: Study
    released: tuple[Released, ...]
    included: BoolArray  # (M,)
    chosen: tuple[Chosen, ...] = ()
    label_reports: RandomizedLabels | None = None
    """Where labels are randomized there is nothing else to see."""


def watch_fit(
    estimator: Any,
    schema: Schema,
    rows: tuple[Any, Any],
    canaries: tuple[Any, Any],
    n_sites: int,
    rng: Rng,
) -> Watched:
    """Fits once; a fair coin decides whether each canary is included, at the first site."""
    study, method = agree(estimator, schema, n_sites)
    X, y = (np.asarray(part, dtype=object) for part in rows)
    extra_X, extra_y = (np.asarray(part, dtype=object) for part in canaries)
    is_included = rng.random(len(extra_y)) < 0.5
    draws = [Draws(rng.bytes(32), study.name) for _ in range(n_sites)]
    site_rows = []
    for k in range(n_sites):
        own_X, own_y = X[k::n_sites], y[k::n_sites]
        if k == 0:
            own_X = np.concatenate([own_X, extra_X[is_included]])
            own_y = np.concatenate([own_y, extra_y[is_included]])
        site_rows.append(_rows(own_X, own_y, study.schema, draws[k]))
    federation = in_process.open_federation(study, site_rows)
    pairs = list[tuple[Query, Reply]]()

    def ask(queries: Sequence[Query]) -> Sequence[Reply]:
        replies = federation.ask(queries)
        pairs.extend(zip(queries, replies, strict=True))
        return replies

    public = np.random.default_rng(study.public_seed)
    run(method.flow(study.schema, federation, public), SimpleNamespace(ask=ask))
    if study.dp_model is DPModel.LABEL:
        reports = reports_of(study, site_rows[0], draws[0], is_included)
        return Watched(study, (), is_included, label_reports=reports)
    alone = [
        _rows(extra_X[i : i + 1], extra_y[i : i + 1], study.schema, draws[0])
        for i in range(len(extra_y))
    ]
    releases = _released(study, pairs, site_rows, alone)
    chosen = chosen_in(study, pairs, site_rows, alone, is_included)
    return Watched(study, tuple(releases), is_included, tuple(chosen))


def _rows(X: Any, y: Any, schema: Schema, draws: Draws) -> Rows:
    return Rows(encode(X, schema, y=y, check=False), schema, draws)


def _released(
    study: Study,
    pairs: Sequence[tuple[Query, Reply]],
    site_rows: Sequence[Rows],
    alone: Sequence[Rows],
) -> list[Released]:
    """The noisy sums; `audit.choices` has the private selections."""
    sums = [(q, r) for q, r in pairs if isinstance(q, SumQuery) and isinstance(r, Answer)]
    queries = [query for query, _ in sums]
    by_site = [_exact(study, site, queries) for site in site_rows]
    exact = [np.sum(parts, axis=0) for parts in zip(*by_site, strict=True)]
    pulls = zip(*(_exact(study, record, queries) for record in alone), strict=True)
    return [
        Released(query, reply.values - expectation, reply.variance, np.stack(pull))
        for (query, reply), expectation, pull in zip(sums, exact, pulls, strict=True)
        if reply.variance > 0.0
    ]


def _exact(study: Study, rows: Rows, queries: Sequence[SumQuery]) -> list[FloatArray]:
    """The exact answers of these rows alone, without noise."""
    silent = replace(
        study, dp_model=DPModel.NONE, n_sites=1, colluders=0, threshold=1, label_reports=None
    )
    replies = in_process.open_federation(silent, [rows]).ask(queries) if queries else []
    return [reply.values for reply in replies if isinstance(reply, Answer)]
