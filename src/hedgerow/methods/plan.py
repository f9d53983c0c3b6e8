"""`hedgerow.plan`: what a fit will carry, cost and give, before anything is spent.

The real learner runs under the real study on stand-in rows: public rows that the user names, or
rows made up from the schema. Noise laws, rounds and bytes follow from study and queries alone, so
they are those of the fit; quality is that on the stand-in, and is said to be no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hedgerow.errors import SpecError
from hedgerow.methods.common import DEFAULT_DELTA
from hedgerow.methods.dry_run import PlannedNoise, Rehearsal, Trial, is_binary
from hedgerow.methods.inputs import check_outcome
from hedgerow.methods.progress import counted_steps
from hedgerow.schema.schema import Schema

OWN_METHODS = ("BoostedTrees", "Forest", "Tree")
"""Our own methods: the best in most cells of the measured tables, the one with fewest rounds, and
the one that people can read."""
BY_RULE = "It was the best on most real data of so many columns; made-up rows cannot tell."
FEW_COLUMNS = 4
"""Up to so many a forest was the best of them (docs/results/ours.md)."""
FACTORS = (0.25, 1.0, 4.0)
"""Of the epsilon that was asked for, for the curve of quality."""
NOTHING_HELPS = (
    "nothing beats the classes' shares or the mean on the stand-in: ask for fewer columns, more "
    "records or a larger epsilon."
)
MARGIN = 0.03
"""By which a model must beat one that looks at no column: in AUC, R2 or accuracy."""
FEWEST_TRIED = 50
MOST_TIMES = 16
"""For how many records a model helps is sought by doubling, up to so many times those there are."""
TIE = 0.01
MOST_PLANNED_SITES = 200
MOST_REHEARSED_ROWS = 100_000
"""A rehearsal holds all sites and rows in one process; more rows than these tell little more."""


@dataclass(frozen=True)
class Plan:
    """What to expect. `trials` are all runs; `curve` is quality by epsilon, mean and spread."""

    estimator: str
    epsilon: float
    delta: float
    n: int
    parties: int
    measure: str
    stand_in: str
    advice: str
    fewest: int | None
    """Records from which on the estimator helps at this epsilon, about; None if never on the
    stand-in, as far as was tried."""
    trials: tuple[Trial, ...] = field(repr=False)

    @property
    def chosen(self) -> Trial:
        return next(t for t in self.trials if self._is(t, self.estimator, self.epsilon))

    @property
    def noise(self) -> tuple[PlannedNoise, ...]:
        return self.chosen.noise

    @property
    def curve(self) -> dict[float, tuple[float, float | None]]:
        epsilons = sorted({t.epsilon for t in self.trials if t.estimator == self.estimator})
        return {e: self.quality(self.estimator, e) for e in epsilons}

    def quality(self, estimator: str, epsilon: float) -> tuple[float, float | None]:
        """Of an estimator's runs at an epsilon: mean, and deviation if there were several."""
        found = [t.quality for t in self.trials if self._is(t, estimator, epsilon)]
        return float(np.mean(found)), float(np.std(found, ddof=1)) if len(found) > 1 else None

    @staticmethod
    def _is(trial: Trial, estimator: str, epsilon: float) -> bool:
        return (trial.estimator, trial.epsilon) == (estimator, epsilon)

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "estimator": self.estimator,
            "advice": self.advice,
            "fewest_records": self.fewest,
            "stand_in": self.stand_in,
            "rounds": self.chosen.rounds,
            "bytes_per_site": self.chosen.bytes_per_site,
            "seconds": round(self.chosen.seconds, 3),
            "noise": [vars_of(one) for one in self.noise],
            "quality": {
                "measure": self.measure,
                "by_epsilon": [[e, *q] for e, q in self.curve.items()],
                "by_estimator": {name: self.quality(name, self.epsilon) for name in self.names},
            },
        }

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(t.estimator for t in self.trials))

    def __str__(self) -> str:
        one = self.chosen
        promise = f"epsilon {self.epsilon:g}, delta {self.delta:g}"
        head = f"Plan for {self.n} records, {self.parties} site(s), {promise}"
        lines = [head, "", f"  {self.advice}", "", "  noise on each sum, in records"]
        lines += [
            f"    {n.deviation:10.1f}   round {n.rounds}: {n.what} ({self._told_from_noise(n)})"
            for n in self.noise
        ]
        lines += ["", f"  {self.measure} on {self.stand_in}; mean +- spread over runs"]
        lines += [f"    epsilon {e:<16g} {_told(*found)}" for e, found in self.curve.items()]
        for name in self.names:
            lines.append(f"    {name:<24} {_told(*self.quality(name, self.epsilon))}")
        took = (
            f"{one.rounds} rounds, {one.bytes_per_site} bytes per site, {one.seconds:.1f} seconds"
        )
        return "\n".join([*lines, "", f"  {took} on this machine, the network not counted."])

    def _told_from_noise(self, noise: PlannedNoise) -> str:
        if noise.smallest > self.n:
            return f"{noise.smallest} records would be told from noise, more than there are"
        return f"told from noise: {noise.smallest}"


def _told(mean: float, spread: float | None) -> str:
    return f"{mean:.3f}" + (" in one run" if spread is None else f" +- {spread:.3f}")


def vars_of(noise: PlannedNoise) -> dict[str, Any]:
    return {"rounds": noise.rounds, "what": noise.what, "deviation": noise.deviation}


def plan(
    schema: Schema,
    n: int,
    epsilon: float = 1.0,
    *,
    delta: float = DEFAULT_DELTA,
    parties: int = 1,
    stand_in: tuple[Any, Any] | None = None,
    public: bool = False,
    estimators: Sequence[str] = (),
    repeats: int = 2,
    progress: bool = False,
) -> Plan:
    """What noise, rounds, bytes and quality to expect of a fit; nothing is spent.

    Parameters
    ----------
    schema : Schema
        As for the fit.
    n : int
        Records of all sites together, as far as that is known in public.
    epsilon, delta : float
        The promise.
    parties : int, default=1
        Sites.
    stand_in : (X, y) or None, default=None
        Public rows that resemble those of the fit; they decide which estimator is recommended. None
        makes some up from the schema, and takes what was the best on data of so many columns.
    public : bool, default=False
        Whether the rows of `stand_in` are public. A plan adds no noise: what it tells of rows, and
        what is chosen by it, nobody's promise covers. Rows that nobody says are public are refused.
    estimators : sequence of str, default=()
        Names in hedgerow, to be compared on the stand-in; our own three if left out.
    repeats : int, default=2
        Runs of each.
    progress : bool, default=False
        Whether to draw a progress bar on the terminal.

    Returns
    -------
    Plan
        `print(plan)` says it all.

    """
    if not isinstance(n, int) or n < 8:
        raise SpecError(f"n is {n!r}; give the number of records, 8 or more.")
    if not 1 <= parties <= MOST_PLANNED_SITES:
        raise SpecError(
            f"parties is {parties!r}; a rehearsal takes 1 to {MOST_PLANNED_SITES} sites. Under "
            "'shares' the noise of more is about the same."
        )
    if stand_in is not None and public is not True:
        raise SpecError(
            "stand_in holds rows of which nobody has said that they are public, and a plan would "
            "tell of them without noise; say public=True (--public) if they are, or leave them out."
        )
    check_outcome(schema, "a plan")
    kind = "Regressor" if schema.target is not None else "Classifier"
    names = list(estimators) or [name + kind for name in OWN_METHODS]
    by_rule = None if estimators or stand_in else preferred(schema) + kind
    rehearsal = Rehearsal(schema, delta, parties, stand_in, repeats)
    most = min(n, MOST_REHEARSED_ROWS)
    factors, sizes = [factor for factor in FACTORS if factor != 1.0], _sizes(n)
    total = (len(names) + len(factors) + len(sizes)) * repeats
    with counted_steps(progress, "rehearsals", total) as step:
        first = [trial for name in names for trial in rehearsal.runs(name, most, epsilon, step)]
        best = by_rule or _best(names, first)
        chosen = [trial for trial in first if trial.estimator == best]
        others = [
            trial
            for factor in factors
            for trial in rehearsal.runs(best, most, factor * epsilon, step)
        ]
        runs_of = (rehearsal.runs(best, size, epsilon, step) for size in sizes)
        fewest = next((runs[0].rows for runs in runs_of if _helps(runs)), None)
    measure = "AUC" if is_binary(schema) else "R2" if schema.target is not None else "accuracy"
    if _helps(chosen):
        advice = _advice(best, first, measure, by_rule is not None)
    else:
        advice = f"With {n} records at epsilon {epsilon:g} {NOTHING_HELPS}"
    return Plan(
        estimator=best,
        epsilon=epsilon,
        delta=delta,
        n=n,
        parties=parties,
        measure=measure,
        stand_in=f"{_source(stand_in)}, {chosen[0].rows} of them",
        advice=f"{advice} {_from_so_many(fewest, epsilon)}",
        fewest=fewest,
        trials=(*first, *others),
    )


def _source(stand_in: object) -> str:
    return "the rows you named, public as you said" if stand_in else "rows made up from the schema"


def _sizes(n: int) -> list[int]:
    """By doubling: small rehearsals take little time, and the first that helps ends the search."""
    most = min(MOST_TIMES * n, MOST_REHEARSED_ROWS)
    return [FEWEST_TRIED * 2**k for k in range(30) if FEWEST_TRIED * 2**k <= most]


def _helps(trials: Sequence[Trial]) -> bool:
    """Whether runs are better than without any column, by more than they are apart."""
    gains = [trial.quality - trial.blind for trial in trials]
    spread = float(np.std(gains, ddof=1)) if len(gains) > 1 else 0.0
    return float(np.mean(gains)) - spread > MARGIN


def _from_so_many(fewest: int | None, epsilon: float) -> str:
    if fewest is None:
        return f"At epsilon {epsilon:g} no number of records that was tried is enough."
    if fewest <= FEWEST_TRIED:
        return f"At epsilon {epsilon:g} it helps from the fewest records that were tried, {fewest}."
    return f"Below about {fewest} records at epsilon {epsilon:g} it would not help."


def preferred(schema: Schema) -> str:
    """By what is public. Rows that were made up cannot tell which method suits the true ones."""
    return "Forest" if len(schema.features) <= FEW_COLUMNS else OWN_METHODS[0]


def _best(names: Sequence[str], trials: Sequence[Trial]) -> str:
    """The best on average; of those that tie, the first that was named."""
    means = {n: float(np.mean([t.quality for t in trials if t.estimator == n])) for n in names}
    top = max(means.values())
    return next(name for name in names if means[name] >= top - TIE)


def _advice(best: str, trials: Sequence[Trial], measure: str, by_rule: bool) -> str:
    quality = float(np.mean([t.quality for t in trials if t.estimator == best]))
    others = sorted({t.estimator for t in trials} - {best})
    against = f"; compared with {', '.join(others)}" if others else ""
    why = f" {BY_RULE}" if by_rule else ""
    return f"Take {best}: {measure} about {quality:.3f} on the stand-in{against}.{why}"
