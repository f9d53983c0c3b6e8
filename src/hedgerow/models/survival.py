"""Probabilities of an event over time from a score: proportional odds on a released grid of times.

It reads no rows. Counts are released noisy ones; `deviation` is that of their noise.
Shapes: K times, G groups of the score.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from hedgerow.models.losses import sigmoid
from hedgerow.schema.arrays import FloatArray

LEAST_AT_RISK = 0.02  # the least fraction of records assumed to be at risk at any time
LARGEST_HAZARD = 0.9


@dataclass(frozen=True)
class RiskTable:
    """Noisy counts by group of the score and by interval of time, without and with the event.

    `counts` is (G, 2, K + 1), flat: group g lies between `cuts[g - 1]` and `cuts[g]`, interval k
    ends at `edges[k]`, and the last one is unbounded. `deviation` is that of the noise in a count.
    """

    cuts: tuple[float, ...]
    edges: tuple[float, ...]
    counts: tuple[float, ...]
    deviation: float

    @property
    def table(self) -> FloatArray:
        """(G, 2, K + 1)."""
        return np.reshape(self.counts, (len(self.cuts) + 1, 2, len(self.edges) + 1))

    @property
    def counts_at_risk(self) -> FloatArray:
        """(K,) of how many counts each number at risk is the sum."""
        return np.arange(len(self.edges) + 1, 1, -1) * np.float64(2.0)

    def smoothed_chances(self, records: float) -> FloatArray:
        """(K,) of an event, of one group; hazards shrink to a constant as far as noise asks."""
        counts = self.table[0]
        risk, events = at_risk(counts, records), np.maximum(counts[1, :-1], 0.0)
        exposure = np.maximum(risk - events / 2.0, 1.0) * np.diff(self.edges, prepend=0.0)
        expectation = exposure * max(float(events.sum()), 1.0) / exposure.sum()
        trust = expectation**2 / (expectation**2 + self.deviation**2 + expectation)
        return actuarial(expectation + (events - expectation) * trust, risk)


@dataclass(frozen=True)
class SurvivalCurve:
    """logit P(T <= t | f) = log odds(t) + center + slope(t) (f - center), at the edges.

    Between edges the probability is linear in time, beyond the last edge it is constant. `slopes`
    differ from 1 where effects fade or grow with time. `marginal` is the probability of an event
    over all records; `score_cuts` and `score_parts` are the distribution of their scores.
    """

    edges: tuple[float, ...]
    odds: tuple[float, ...]
    slopes: tuple[float, ...]
    center: float
    marginal: tuple[float, ...]
    everyone: RiskTable
    groups: RiskTable | None = None
    score_cuts: tuple[float, ...] = ()
    score_parts: tuple[float, ...] = ()

    def chances(self, score: FloatArray) -> FloatArray:
        """(n, K) probabilities of an event until each edge; they never fall."""
        z = self.center + np.asarray(self.slopes) * (np.asarray(score)[:, None] - self.center)
        return np.maximum.accumulate(sigmoid(np.log(self.odds) + z), axis=1)

    def survival(self, score: FloatArray, times: Sequence[float] | FloatArray) -> FloatArray:
        """(n, T) the probability of no event until each of these times."""
        return np.asarray(1.0 - self.chances(score) @ self.weights(times))

    def weights(self, times: Sequence[float] | FloatArray) -> FloatArray:
        """(K, T) weights that turn probabilities at the edges into those at other times."""
        edges, units = (0.0, *self.edges), np.eye(len(self.edges))
        return np.stack([np.interp(times, edges, (0.0, *unit)) for unit in units])

    def group_scores(self, cuts: tuple[float, ...]) -> FloatArray:
        """(G,) the mean score of each group, from the released distribution of scores."""
        middles = interval_middles(self.score_cuts)
        parts = np.asarray(self.score_parts or (1.0,)) + 1e-9  # a single curve has one score
        group = np.searchsorted(np.asarray(cuts), middles, side="right")
        masses, sums = (np.bincount(group, w, len(cuts) + 1) for w in (parts, parts * middles))
        return np.where(masses > 0.0, sums / np.maximum(masses, 1e-12), interval_middles(cuts))

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_dict(d: dict[str, Any]) -> SurvivalCurve:
        everyone, groups = (d[name] and RiskTable(**_numbers(d[name])) for name in _TABLES)
        rest = _numbers({name: values for name, values in d.items() if name not in _TABLES})
        curve = SurvivalCurve(**rest, everyone=everyone, groups=groups)
        if len(set(map(len, (curve.edges, curve.odds, curve.slopes, curve.marginal)))) > 1:
            raise ValueError("times, odds and slopes of a survival curve are not of one number")
        assert all(table.table.size for table in (everyone, groups) if table)
        return curve


_TABLES = ("everyone", "groups")


def _numbers(d: dict[str, Any]) -> dict[str, Any]:
    """Parses numbers and lists of numbers; raises if one is not finite."""
    numbers = {k: tuple(map(float, v)) if isinstance(v, list) else float(v) for k, v in d.items()}
    if not all(np.isfinite(values).all() for values in numbers.values()):
        raise ValueError("a number of a survival curve is not finite")
    return numbers


def interval_middles(cuts: tuple[float, ...]) -> FloatArray:
    """The middles of the intervals between cuts; outer ones are as wide as their neighbors."""
    if len(cuts) < 2:
        return np.array([*(c - 0.5 for c in cuts), *(c + 0.5 for c in cuts)] or [0.0])
    edges = np.array(cuts)
    ends = np.concatenate([[2 * edges[0] - edges[1]], edges, [2 * edges[-1] - edges[-2]]])
    return np.asarray((ends[:-1] + ends[1:]) / 2.0)


def concordance(risk: FloatArray, signed_times: FloatArray) -> float:
    """Harrell's C: among pairs in which one is known to have had its event first, the fraction in
    which it has the higher risk; equal risks count half. `signed_times` are negative if censored.
    """
    time, has_event = np.abs(signed_times), signed_times > 0.0
    right, pairs = 0.0, 0
    for part in np.array_split(np.flatnonzero(has_event), 1 + len(time) // 256):
        own_time, own_risk = time[part, None], risk[part, None]
        later = (time > own_time) | ((time == own_time) & ~has_event)
        right += (later & (risk < own_risk)).sum() + (later & (risk == own_risk)).sum() / 2.0
        pairs += int(later.sum())
    return right / pairs if pairs else 0.5


# The actuarial estimate of one curve from noisy counts.


def at_risk(tables: FloatArray, records: float | None = None) -> FloatArray:
    """(..., K) records at risk in intervals of tables (..., 2, K + 1), half of the censored."""
    n = np.maximum(tables.sum(axis=(-2, -1)), 1.0)[..., None] if records is None else records
    left_counts = np.cumsum(tables.sum(axis=-2), axis=-1)[..., :-1]
    left_before = np.concatenate([np.zeros_like(left_counts[..., :1]), left_counts[..., :-1]], -1)
    least = np.maximum(LEAST_AT_RISK * n, 1.0)
    present = np.maximum(n - left_before, LEAST_AT_RISK * n)
    return np.asarray(np.maximum(present - np.maximum(tables[..., 0, :-1], 0.0) / 2.0, least))


def actuarial(events: FloatArray, risk: FloatArray) -> FloatArray:
    """(..., K) the probability of an event until the end of each interval."""
    hazards = np.clip(events / risk, 1e-5, LARGEST_HAZARD)
    return np.asarray(1.0 - np.cumprod(1.0 - hazards, axis=-1))
