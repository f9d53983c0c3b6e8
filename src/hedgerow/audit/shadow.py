"""A second accountant, which shares no code with the first: it reads plain numbers alone.

It takes the queries, the integers that a site would have released with a record and without it, and
the noise that was drawn for them, and computes by its own arithmetic what that record lost. Both
must agree: no record loses more than its charge, noise is as large as its charge says, and charges
add up along the worst path to what ledger and statement say. An import contract forbids
`hedgerow.privacy` here; `audit.transcript` makes the plain numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any

from mpmath.ctx_mp import MPContext

LAW_DIGITS, CLOSE, PRINTED = 40, 1e-6, 1e-9
"""Digits of the laws; tolerance for noise above what its charge needs; that for floats."""

PlainRegion = tuple[tuple[str, int], ...]
"""Tests, each with everything that determines its outcome, and the outcome."""
Amount = Fraction | float


@dataclass(frozen=True, kw_only=True)
class Terms:
    """The agreed numbers.

    `measure` is "pure" or "gaussian", `delta` the part from which noise is derived, `honest_sites`
    the number of sites whose noise protects a record, `entry` the price before the first round.
    """

    study: str
    measure: str
    epsilon: Fraction
    delta: Fraction
    honest_sites: int
    records_per_person: int = 1
    entry: Amount = Fraction(0)
    label_odds: tuple[Fraction, Fraction, int] | None = None
    """For randomized labels: the chances of the true and of each other label, and the number of
    reports of one person in which neighbors differ."""


@dataclass(frozen=True)
class PlainLaw:
    """The law of one site: a "gaussian" variance, or the "laplace" rate of `shares` sites."""

    kind: str
    size: Fraction
    shares: int = 1


@dataclass(frozen=True, kw_only=True)
class SiteRelease:
    """The release of a site for one query, with and without a record."""

    round: int
    site: int
    what: str
    region: PlainRegion
    charge: Amount
    remainder: Amount = Fraction(0)


@dataclass(frozen=True, kw_only=True)
class NoisySum(SiteRelease):
    """Integers with noise.

    `claimed` are the L1, squared L2 and Linf norms for which the noise was made, `change` the
    changes by the record. `draws` are the numbers of the draws of noise in each integer, negative
    for none; `laws` are those of the draws.
    """

    claimed: tuple[int, int, int]
    change: tuple[int, ...]
    draws: tuple[int, ...]
    laws: tuple[PlainLaw | None, ...]


@dataclass(frozen=True, kw_only=True)
class Selection(SiteRelease):
    """An index, drawn by exact scores and a coefficient; `reach` is their claimed range."""

    mechanism: str
    coefficient: Fraction
    reach: int
    scores: tuple[int, ...]
    scores_without: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The claims of ledger and statement about a run; None where they make none."""

    spent: Amount
    spent_fraction: float | None = None
    spent_epsilon: float | None = None
    epsilon: float | None = None
    lines: float | None = None
    """The sum of the statement's lines, as a fraction of the budget."""


@dataclass(frozen=True, kw_only=True)
class PlainTranscript:
    terms: Terms
    releases: tuple[SiteRelease, ...]
    claim: Claim | None = None


# Laws, in 40 digits.
@cache
def _context(digits: int = LAW_DIGITS) -> Any:
    context = MPContext()
    context.dps = digits
    return context


@lru_cache(maxsize=4096)
def mu_squared_of_unit(variance: Fraction) -> Fraction:
    """mu^2 between a discrete Gaussian and itself moved by 1: 2 Phi^-1((1 + P(0)) / 2), squared;
    P(0) is one over a theta function, summed directly or by Poisson's formula.
    """
    low = float(variance)
    ctx = _context(LAW_DIGITS + int(0.5 / low) if low < 1.0 else LAW_DIGITS)
    v = _real(ctx, variance)
    if low < 1.0:
        terms = [ctx.exp(-(k * k) / (2 * v)) for k in range(1, int(24 * math.sqrt(low)) + 4)]
        center = 1 / (1 + 2 * ctx.fsum(terms))
    else:
        waves = [ctx.exp(-2 * ctx.pi**2 * v * k * k) for k in (1, 2, 3)]
        center = 1 / (ctx.sqrt(2 * ctx.pi * v) * (1 + 2 * ctx.fsum(waves)))
    return _rational(8 * ctx.erfinv(center) ** 2)


@lru_cache(maxsize=4096)
def pure_mu_squared(epsilon: Fraction) -> Fraction:
    """mu^2 that no epsilon-DP mechanism exceeds: Phi(mu / 2) = 1 / (1 + exp(-epsilon))."""
    ctx = _context(LAW_DIGITS + int(float(epsilon) / 2))
    return _rational(8 * ctx.erfinv(ctx.tanh(_real(ctx, epsilon) / 2)) ** 2)


def delta_of(mu: Any, epsilon: Any, ctx: Any) -> Any:
    """Delta between two normal laws mu apart."""
    return ctx.ncdf(mu / 2 - epsilon / mu) - ctx.exp(epsilon) * ctx.ncdf(-mu / 2 - epsilon / mu)


@lru_cache(maxsize=1024)
def budget_of(measure: str, epsilon: Fraction, delta: Fraction) -> Fraction:
    """The whole budget: epsilon itself, or the mu^2 that keeps (epsilon, delta)."""
    if measure == "pure":
        return epsilon
    ctx = _context()
    e, goal, high = _real(ctx, epsilon), _real(ctx, delta), ctx.mpf(1)
    while delta_of(high, e, ctx) <= goal:
        high *= 2
    return _rational(_bisect(lambda mu: delta_of(mu, e, ctx) <= goal, ctx.mpf(0), high)[0] ** 2)


@lru_cache(maxsize=1024)
def epsilon_of_spent(measure: str, spent: Fraction, delta: Fraction) -> float:
    if measure == "pure" or spent == 0:
        return float(spent)
    ctx = _context()
    mu, goal = ctx.sqrt(_real(ctx, spent)), _real(ctx, delta)
    if delta_of(mu, ctx.mpf(0), ctx) <= goal:
        return 0.0
    most = mu**2 / 2 + mu * ctx.sqrt(-2 * ctx.log(goal))
    return float(_bisect(lambda e: delta_of(mu, e, ctx) > goal, ctx.mpf(0), most)[1])


def _bisect(is_low: Callable[[Any], bool], low: Any, high: Any) -> tuple[Any, Any]:
    for _ in range(64):
        middle = (low + high) / 2
        low, high = (middle, high) if is_low(middle) else (low, middle)
    return low, high


def _real(ctx: Any, number: Fraction) -> Any:
    return ctx.mpf(number.numerator) / number.denominator


def _rational(number: Any) -> Fraction:
    sign, mantissa, exponent, _ = number._mpf_
    return Fraction((-1) ** sign * int(mantissa)) * Fraction(2) ** int(exponent)


# The loss of a record.
def _guaranteed_law(law: PlainLaw | None, terms: Terms) -> PlainLaw | None:
    """The noise of all sites that protect a record; None if it is not a guaranteed law."""
    if law is None or law.size <= 0:
        return None
    if law.kind == "gaussian":
        return PlainLaw(law.kind, law.size * terms.honest_sites)
    return PlainLaw(law.kind, law.size) if law.shares <= terms.honest_sites else None


def loss_of_norms(law: PlainLaw | None, l1: int, l2_squared: int, terms: Terms) -> Amount:
    honest_law = _guaranteed_law(law, terms)
    if honest_law is None or l1 == 0:
        return math.inf if l1 else Fraction(0)
    if terms.measure == "pure":
        return l1 * honest_law.size if honest_law.kind == "laplace" else math.inf
    if honest_law.kind == "laplace":
        return pure_mu_squared(l1 * honest_law.size)
    return l2_squared * mu_squared_of_unit(honest_law.size)


def loss_of_range(choice: Selection, units: int, terms: Terms) -> Amount:
    """The loss of a selection whose scores move within this many units.

    The exponential mechanism's loss lies in an interval of that length, so half of it counts among
    Gaussian losses. With Gaussian noise of mu^2 = s left, it is below noise of mu^2 = s + loss
    where 1/s - 1/(s + loss) = (half / s)^2.
    """
    epsilon = choice.coefficient * units
    if terms.measure == "pure":
        return epsilon
    half = epsilon / 2 if choice.mechanism == "exponential" else epsilon
    alone, left = pure_mu_squared(half), Fraction(choice.remainder)
    return min(alone, left * half**2 / (left - half**2)) if half**2 < left else alone


def loss_of_release(release: SiteRelease, terms: Terms) -> Amount:
    if isinstance(release, NoisySum):
        l1, l2_squared, _ = _norms(release.change)
        return max(loss_of_norms(law, l1, l2_squared, terms) for law in release.laws or (None,))
    assert isinstance(release, Selection)
    return loss_of_range(release, range_of(release), terms)


def _norms(change: Sequence[int]) -> tuple[int, int, int]:
    sizes = [abs(v) for v in change if v]
    return sum(sizes), sum(v * v for v in sizes), max(sizes, default=0)


def range_of(choice: Selection) -> int:
    """The range of the record's effect on scores: moving all of them alike is free."""
    changes = [a - b for a, b in zip(choice.scores, choice.scores_without, strict=False)]
    return max(changes, default=0) - min(changes, default=0)


def most_along_a_path(charges: Iterable[tuple[PlainRegion, Amount]]) -> Amount:
    """The most that any record can have been charged: it has one outcome of every test."""
    here: Amount = Fraction(0)
    tests: dict[str, dict[int, list[tuple[PlainRegion, Amount]]]] = {}
    for region, cost in charges:
        here += Fraction(0) if region else cost
        for test, outcome in region[:1]:
            tests.setdefault(test, {}).setdefault(outcome, []).append((region[1:], cost))
    return here + sum(max(map(most_along_a_path, parts.values())) for parts in tests.values())


# The verdict.
@dataclass(frozen=True)
class RecordVerdict:
    """The loss and charge of one record, the largest possible charge, and all disagreements."""

    lost: Amount
    payment: Amount
    worst: Amount
    budget: Fraction
    problems: tuple[str, ...]


def judge_transcript(transcript: PlainTranscript) -> RecordVerdict:
    """Compares what was charged, claimed and stated with what the record really lost."""
    terms, releases = transcript.terms, transcript.releases
    problems = [
        f"round {release.round}, site {release.site}, {release.what}: {words}"
        for release in releases
        for words in _faults(release, terms)
    ]
    problems += _shared_draws(releases)
    lost = terms.entry + sum(loss_of_release(r, terms) for r in releases if not terms.label_odds)
    payment = terms.entry + sum(r.charge for r in releases if _is_touched(r))
    spent = (_spent(releases, site) for site in {release.site for release in releases})
    worst = terms.entry + max(spent, default=Fraction(0))
    budget = budget_of(terms.measure, terms.epsilon, terms.delta)
    if terms.records_per_person == 1 and not _at_most(payment, worst):
        problems.append(f"the record is in regions charged {_of(payment, worst)} the worst path")
    if not _at_most(lost, worst):
        problems.append(f"the record loses {_of(lost, worst)} charged on the worst path")
    if not _at_most(worst, budget):
        problems.append(f"charges are {_of(worst, budget)} the budget")
    problems += _label_faults(terms)
    if transcript.claim is not None:
        problems += _claim_faults(transcript.claim, worst, budget, terms)
    return RecordVerdict(lost, payment, worst, budget, tuple(problems))


def _spent(releases: Sequence[SiteRelease], site: int) -> Amount:
    """The worst path at one site, or more: a selection's remainder counts from its round on."""
    own = [release for release in releases if release.site == site]
    left: dict[int, Amount] = {max(r.round for r in own): Fraction(0)}
    for r in own:
        if r.remainder:
            left[r.round] = max(r.remainder, left.get(r.round, 0))
    charges = [(r.round, (r.region, r.charge)) for r in own]
    return max(most_along_a_path(c for n, c in charges if n <= last) + left[last] for last in left)


def _is_touched(release: SiteRelease) -> bool:
    if isinstance(release, Selection):
        return release.scores != release.scores_without
    return isinstance(release, NoisySum) and any(release.change)


def _faults(release: SiteRelease, terms: Terms) -> list[str]:
    if terms.label_odds is not None:  # protected before any query
        is_fine = isinstance(release, NoisySum) and _norms(release.change)[0] <= release.claimed[0]
        return [] if is_fine else ["another label moves more than its own counts"]
    find_faults = _faults_of_sum if isinstance(release, NoisySum) else _faults_of_choice
    faults, loss = find_faults(release, terms), loss_of_release(release, terms)
    if not _at_most(loss, release.charge):
        faults.append(f"the record loses {_of(loss, release.charge)} its charge")
    return faults


def _faults_of_sum(release: SiteRelease, terms: Terms) -> list[str]:
    assert isinstance(release, NoisySum)
    norms = zip(("L1", "squared L2", "Linf"), _norms(release.change), release.claimed, strict=True)
    faults = [
        f"one record moves its {name} by {mine}; noise was made for {theirs}"
        for name, mine, theirs in norms
        if mine > theirs
    ]
    if any(draw < 0 for draw in release.draws) or len(release.draws) != len(release.change):
        faults.append("a number carries no noise of its own")
    for law in set(release.laws):
        whole = loss_of_norms(law, release.claimed[0], release.claimed[1], terms)
        faults += _unequal("noise", whole, release.charge)
    return faults


def _faults_of_choice(release: SiteRelease, terms: Terms) -> list[str]:
    assert isinstance(release, Selection)
    faults, reach = [], release.reach * terms.records_per_person
    if len(release.scores) != len(release.scores_without):
        faults.append("the number of candidates depends on a record")
    if range_of(release) > reach:
        faults.append(f"one record moves scores by {range_of(release)}; {reach} was claimed")
    whole = loss_of_range(release, reach, terms)
    return faults + _unequal("the choice", whole, release.charge)


def _unequal(words: str, whole: Amount, charge: Amount) -> list[str]:
    """A law whose worst loss differs from its charge: above it, or too far below."""
    is_equal = _at_most(whole, charge) and float(whole) >= float(charge) * (1.0 - CLOSE)
    return [] if is_equal else [f"{words} is sized for {_of(whole, charge)} its charge"]


def _shared_draws(releases: Sequence[SiteRelease]) -> list[str]:
    """Numbers of one site and round with the same draw reveal each other's noise."""
    sums = [release for release in releases if isinstance(release, NoisySum)]
    places = [(sum_.round, sum_.site, draw) for sum_ in sums for draw in sum_.draws if draw >= 0]
    return [] if len(set(places)) == len(places) else ["two numbers carry the same draw of noise"]


def _label_faults(terms: Terms) -> list[str]:
    """Randomized labels lose the log-odds of the truth against one lie, once per report."""
    if terms.label_odds is None:
        return []
    (truth, lie, reports), ctx = terms.label_odds, _context()
    lost = float(reports * ctx.log(_real(ctx, truth / lie)))
    return _unequal("randomized labels", lost, terms.entry)


def _claim_faults(claim: Claim, worst: Amount, budget: Fraction, terms: Terms) -> list[str]:
    says = f"the ledger says {float(claim.spent):.9g}; it is {float(worst):.9g}"
    faults = [says] if claim.spent != worst else []
    part = float(Fraction(worst) / budget)
    for fraction in (claim.spent_fraction, claim.lines):
        if fraction is not None and abs(fraction - part) > PRINTED:
            faults.append(f"{fraction:.9g} of the budget is stated as spent; it is {part:.9g}")
    own = epsilon_of_spent(terms.measure, Fraction(worst), terms.delta)
    spent = claim.spent_epsilon
    if spent is not None and not own * (1 - PRINTED) <= spent <= own * (1 + CLOSE) + PRINTED:
        faults.append(f"epsilon {spent:.9g} is stated as spent; it is {own:.9g}")
    least = own if terms.label_odds else float(terms.epsilon)
    if claim.epsilon is not None and claim.epsilon < least * (1 - PRINTED):
        faults.append(f"epsilon {claim.epsilon:.9g} is stated as guaranteed; it is {least:.9g}")
    return faults


def _of(mine: Amount, limit: Amount) -> str:
    return f"{float(mine):.9g} and not {float(limit):.9g}, which is"


def _at_most(mine: Amount, limit: Amount) -> bool:
    """Exact for rationals; numbers rounded to 40 digits may err in the last few."""
    return float(mine) <= float(limit) or mine <= limit * (1 + Fraction(1, 10**15))
