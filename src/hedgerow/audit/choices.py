"""Private selections, measured: how sharply they are drawn, and how a canary moves their odds.

An index contains no noise that could be measured. But scores are known here, and with them the
claimed law. A site draws its selections again and again: how far they fall short of the best shows
how sharp the law really is, as a multiple of the claimed one. The odds of that law on the rows with
and without a canary are the loss, in the measure that was charged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import NormalDist

import numpy as np

from hedgerow.data.prepared import StudyRows, permanent_bits
from hedgerow.data.reading.encoding import Encoded
from hedgerow.data.rows import Draws, Rows
from hedgerow.data.scoring import scores_by
from hedgerow.data.sums import Answering, tables_of
from hedgerow.federation.client import respond
from hedgerow.privacy.accounting.budget import Measure
from hedgerow.privacy.mechanisms.coins import SecretRandomness
from hedgerow.privacy.mechanisms.response import BloomRandomizedResponse
from hedgerow.privacy.pricing import priced
from hedgerow.privacy.queries import LocalSelection, Mechanism, Query, Reply, Selecting, SelectQuery
from hedgerow.privacy.study import Study
from hedgerow.schema.arrays import BoolArray, FloatArray, IntArray

# Lower bounds on a privacy loss from the observations of an audit. One run with many canaries:
# Steinke, Nasr and Jagielski 2023, Theorem 5.2. A fair coin included each canary; a guesser who is
# right more often than epsilon and delta allow refutes them, however its guesses depend on each
# other.
MOST_EPSILON = 60.0
BISECTIONS = 60


def chance_of(guesses: int, right: int, canaries: int, epsilon: float, delta: float) -> float:
    """The largest probability of so many right guesses if the claim holds."""
    keep, k = 1.0 / (1.0 + math.exp(-epsilon)), np.arange(guesses + 1)
    factorials = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, guesses + 1)))])
    ways = factorials[guesses] - factorials[k] - factorials[guesses - k]
    chances = np.exp(ways + k * math.log(keep) + (guesses - k) * math.log1p(-keep))
    tail = float(chances[right:].sum())
    below = np.cumsum(chances[:right][::-1])  # right - 1, right - 2, ... right guesses
    steepest = float((below / np.arange(1, right + 1)).max()) if right else 0.0
    return min(tail + 2.0 * canaries * delta * steepest, 1.0)


def epsilon_at_least(guesses: int, right: int, canaries: int, delta: float, error: float) -> float:
    """The largest epsilon that is refuted, except with probability `error`."""

    def is_refuted(epsilon: float) -> bool:
        return chance_of(guesses, right, canaries, epsilon, delta) < error

    return _largest(is_refuted, MOST_EPSILON, BISECTIONS) if is_refuted(0.0) else 0.0


def _largest(holds: Callable[[float], bool], high: float, halvings: int) -> float:
    """The largest number for which it holds, from 0 to `high`, by bisection."""
    low = 0.0
    for _ in range(halvings):
        middle = (low + high) / 2.0
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


@dataclass(frozen=True)
class NoiseSeen:
    """Noise in released numbers, in deviations of the claimed law.

    `square` is the mean of their squares: 1 if the noise has the variance it claims. `tail` is the
    kurtosis of the law minus 1: 2 for a Gaussian, 5 for a wide Laplace law.
    """

    count: int
    square: float
    tail: float

    def at_most(self, deviations: float) -> float:
        """Upper bound on the noise's variance over its claim, at this number of deviations."""
        width = deviations * math.sqrt(self.tail / self.count) if self.count else math.inf
        return self.square / (1.0 - width) if width < 1.0 else math.inf


MOST_CHOICES = 40
"""Selections per fit that are drawn again: the first ones, which have most records."""
PICKS_DRAWN = 1_000
"""Draws of all selections of a fit together."""
SHARPEST = 16.0
HALVINGS = 14
NODES, WEIGHTS = np.polynomial.legendre.leggauss(64)
NEGLIGIBLE = 45.0  # nats
SCORE_STEP = 0.1  # between values of noisy scores, in deviations of their noise
RAREST = 1e-12
LAW_WORDS = {
    Mechanism.EXPONENTIAL: "choices, exponential",
    Mechanism.PERMUTE_AND_FLIP: "choices, permute-and-flip",
    Mechanism.REPORT_NOISY_MAX: "choices, report-noisy-max",
}


@dataclass(frozen=True)
class Chosen:
    """One selection of one site: its index, many more draws of it, and its scores.

    Scores are in nats of the claimed law. `others` are the scores with a canary that was left out,
    or without one that was included; empty for a site without canaries.
    """

    query: Selecting
    scores: FloatArray  # (k,)
    others: FloatArray  # (M, k)
    selection: int
    selections: IntArray  # (draws,)


def chosen_in(
    study: Study,
    pairs: Sequence[tuple[Query, Reply]],
    site_rows: Sequence[Rows],
    alone: Sequence[Rows],
    is_included: BoolArray,
) -> list[Chosen]:
    """The selections of a fit; canaries are at the first site, `alone` has one row for each."""
    questions = [
        (query, site, selection)
        for query, reply in pairs
        if isinstance(query, SelectQuery | LocalSelection)
        for site, selection in enumerate(reply.indices)  # type: ignore[union-attr]
    ][:MOST_CHOICES]
    prepared_rows = [StudyRows(study, rows) for rows in site_rows]
    draws = -(-PICKS_DRAWN // max(len(questions), 1))
    choices = []
    for query, site, selection in questions:
        selections = respond(
            prepared_rows[site], [priced(study, query)] * draws, SecretRandomness()
        ).selections
        nats = float(study.selection_epsilon(query)) / query.scoring.reach
        scores = nats * _scores(study, query, site_rows[site])
        others = [
            nats * _scores(study, query, site_rows[0], record, -1 if is_in else 1)
            for record, is_in in zip(alone if site == 0 else (), is_included, strict=False)
        ]
        neighbors = np.reshape(others, (-1, len(scores)))
        choices.append(Chosen(query, scores, neighbors, selection, np.array(selections)))
    return choices


def _scores(
    study: Study, query: Selecting, rows: Rows, record: Rows | None = None, sign: int = 1
) -> FloatArray:
    """Exact scores of a site's rows, with one record more or less."""

    def count(question: Selecting, features: Sequence[int]) -> IntArray:
        tables = tables_of(question, rows, features)
        return tables if record is None else tables + sign * tables_of(question, record, features)

    return scores_by(query, count, study.schema).astype(np.float64)


def log_chances(mechanism: Mechanism, scores: FloatArray) -> FloatArray:
    """(k,) log-probability of each candidate, for scores in nats of the law."""
    return LAWS[mechanism](scores - scores.max())


def _exponential(below: FloatArray) -> FloatArray:
    return np.asarray(below - np.log(np.exp(below).sum()))


def _permute_and_flip(below: FloatArray) -> FloatArray:
    """q_r times the integral of prod (1 - x q_s) over the others, x from 0 to 1."""
    heads = np.exp(below)
    end = min(1.0, NEGLIGIBLE / float(heads.sum()))
    x = end * (NODES + 1.0) / 2.0
    turned_down = np.log1p(-x[:, None] * heads)  # (nodes, k)
    others = turned_down.sum(axis=1)[:, None] - turned_down
    return np.asarray(below + np.log(end / 2.0 * (WEIGHTS[:, None] * np.exp(others)).sum(axis=0)))


def _report_noisy_max(below: FloatArray) -> FloatArray:
    """Integrates over the winner's noisy score; lattice noise this fine is as good as real."""
    end = NEGLIGIBLE / 2.0 + math.log(len(below))
    at = np.arange(-NEGLIGIBLE / 2.0, end, SCORE_STEP)[:, None] - below  # (values, k)
    density = -np.abs(at) + math.log(0.5)
    log_reach = np.where(at < 0.0, at + math.log(0.5), np.log1p(-0.5 * np.exp(-np.abs(at))))
    others = log_reach.sum(axis=1)[:, None] - log_reach
    chances = np.exp(density + others).sum(axis=0)
    return np.asarray(np.log(chances / chances.sum()))


LAWS: dict[Mechanism, Callable[[FloatArray], FloatArray]] = {
    Mechanism.EXPONENTIAL: _exponential,
    Mechanism.PERMUTE_AND_FLIP: _permute_and_flip,
    Mechanism.REPORT_NOISY_MAX: _report_noisy_max,
}


def sharpness(choices: Sequence[Chosen], error: float) -> tuple[float, float]:
    """Sharpness as a multiple of the claimed law's: the estimate, and a lower bound.

    Estimated from how far draws fall short of the best, a nonnegative sum.
    By Bernstein's inequality such a sum is below its mean by more than sqrt(2 V L) + m L / 3 with
    probability at most `error`, where L is -ln(error) and m the largest mean of one term.
    """
    shortfall = sum(
        float((choice.scores.max() - choice.scores[choice.selections]).sum()) for choice in choices
    )

    def is_sharper(factor: float, nats: float) -> bool:
        """Whether a law `factor` times as sharp would fall short by more."""
        total = variance = most = 0.0
        for choice in choices:
            chances = np.exp(log_chances(choice.query.mechanism, factor * choice.scores))
            short, draws = choice.scores.max() - choice.scores, len(choice.selections)
            mean = float(chances @ short)
            total, most = total + draws * mean, max(most, mean)
            variance += draws * float(chances @ (short - mean) ** 2)
        return shortfall < total - math.sqrt(2.0 * nats * variance) - most * nats / 3.0

    estimate, least = (
        _largest(partial(is_sharper, nats=nats), SHARPEST, HALVINGS)
        for nats in (0.0, -math.log(error))
    )
    return estimate, least


def losses(study: Study, choice: Chosen, factor: float) -> FloatArray:
    """(M,) the loss of each canary by a selection that is `factor` times as sharp as claimed."""
    if not factor:
        return np.zeros(len(choice.others))
    mine = log_chances(choice.query.mechanism, factor * choice.scores)
    lost = np.zeros(len(choice.others))
    for k, neighbor in enumerate(choice.others):
        if not np.array_equal(neighbor, choice.scores):
            theirs = log_chances(choice.query.mechanism, factor * neighbor)
            is_pure = study.measure is not Measure.GDP
            lost[k] = (
                np.abs(mine - theirs).max()
                if is_pure
                else gaussian_loss(np.exp(mine), np.exp(theirs))
            )
    return lost


def gaussian_loss(p: FloatArray, q: FloatArray) -> float:
    """The least mu^2 for which two laws are as hard to tell apart as Gaussians mu apart."""
    order = np.argsort(q / p)
    power, false_alarm = np.cumsum(p[order])[:-1], np.cumsum(q[order])[:-1]
    is_likely = (false_alarm > RAREST) & (power < 1.0 - RAREST)
    quantile = NormalDist().inv_cdf
    pairs = zip(power[is_likely].tolist(), false_alarm[is_likely].tolist(), strict=True)
    return max((quantile(hit) - quantile(alarm) for hit, alarm in pairs), default=0.0) ** 2


def evidence(choice: Chosen, is_included: BoolArray) -> FloatArray:
    """(M,) log-likelihood ratio of the fit's own selection; positive if it indicates a canary."""
    law = choice.query.mechanism
    mine = log_chances(law, choice.scores)[choice.selection]
    theirs = np.array([log_chances(law, neighbor)[choice.selection] for neighbor in choice.others])
    return np.asarray(np.where(is_included, mine - theirs, theirs - mine))


# Randomized labels, measured: how many of many are reported unchanged. The guarantee covers the
# label alone, and everybody may know the rest of a record. So the audit sees the reported label
# itself, or a record's permanent bits, and a coin has decided a canary's label.

RECORDS = 1 << 17
"""Records whose labels are reported: changed ones are rare if epsilon is large."""


@dataclass(frozen=True)
class RandomizedLabels:
    """Labels, or bits of labels, that were reported unchanged, and the resulting odds."""

    right: int
    total: int
    claimed: float  # probability of a right one
    ways: int
    """Number of ways to report wrongly: the other classes; 1 for a bit."""
    apart: int
    """The largest number of reports in which two labels differ."""
    canaries_right: int

    @property
    def loudness(self) -> float:
        """Wrong reports over their claimed number."""
        return (1.0 - self.right / self.total) / (1.0 - self.claimed)


def reports_of(
    study: Study, site: Rows, draws: Draws, is_included: BoolArray, records: int = RECORDS
) -> RandomizedLabels:
    """Reports of the first site: of its canaries, which are its last rows, and of many records."""
    canaries, times = int(is_included.sum()), -(-records // site.n)
    copies = Encoded(
        codes=np.tile(site.codes, (1, times)), y=np.tile(_labels(site).astype(np.uint8), times)
    )
    many = Rows(copies, site.schema, draws)  # each copy has its own draw
    if study.label_reports is not None:
        return _bit_reports_of(study.label_reports, site, many, canaries)
    own = _told_labels(study, site)[site.n - canaries :]
    right = _told_labels(study, many) == _labels(many)
    return RandomizedLabels(
        right=int(right.sum()),
        total=many.n,
        claimed=float(study.response.keep),
        ways=study.response.classes - 1,
        apart=1,
        canaries_right=int((own == _labels(site)[site.n - canaries :]).sum()),
    )


def _bit_reports_of(
    reports: BloomRandomizedResponse, site: Rows, many: Rows, canaries: int
) -> RandomizedLabels:
    """Guesses the label of a canary as the one with the nearest bits."""
    bits, code = permanent_bits(many, reports), reports.code
    apart = (permanent_bits(site, reports)[:, None, :] != code).sum(axis=2)
    own = apart.argmin(axis=1) == _labels(site)
    return RandomizedLabels(
        right=int((bits == code[_labels(many)]).sum()),
        total=bits.size,
        claimed=(1.0 + float(reports.keep)) / 2.0,
        ways=1,
        apart=max(int((a != b).sum()) for a in code for b in code),
        canaries_right=int(own[site.n - canaries :].sum()),
    )


def _labels(rows: Rows) -> IntArray:
    assert rows.labels is not None
    return rows.labels.astype(np.int64)


def _told_labels(study: Study, rows: Rows) -> IntArray:
    """The randomized labels that a site stores when it joins."""
    answering = StudyRows(study, rows).sums
    assert isinstance(answering, Answering)
    return _labels(answering.rows)


def loss_of_labels(reports: Sequence[RandomizedLabels], error: float) -> float:
    """A lower bound on the epsilon of one record's label."""
    right, total = sum(report.right for report in reports), sum(report.total for report in reports)
    odds = epsilon_at_least(total, right, total, 0.0, error)
    return reports[0].apart * (odds + math.log(reports[0].ways)) if odds else 0.0
