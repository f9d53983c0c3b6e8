"""`hedgerow.plan`: expected noise, rounds, bytes and quality, before anything is spent.

The real method runs under the real study on proxy rows: public rows that the user names, or rows
generated from the schema. Noise, rounds and bytes depend on study and queries alone, so they are
those of the fit; quality is that on the proxy rows only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hedgerow.errors import ParameterError
from hedgerow.methods.common import DEFAULT_DELTA
from hedgerow.methods.constants import constant
from hedgerow.methods.dry_run import DryRun, PlannedNoise, Trial, is_binary, network_words
from hedgerow.methods.inputs import check_outcome
from hedgerow.methods.training import count_steps
from hedgerow.privacy.declaration import STUDY
from hedgerow.schema.schema import Schema

SURVIVAL_METHOD = "SurvivalBoostedTrees"
FEW_COLUMNS = constant(4, unit="columns", evidence="forests.md#0149")
"""Number of columns up to which a forest performed best."""
FACTORS = constant((0.25, 1.0, 4.0), unit="times epsilon")
"""Multiples of the requested epsilon, for the curve of quality."""
QUALITY_MARGIN = constant(0.03, unit="AUC, R2 or accuracy")
"""Margin by which a model must beat one without columns."""
FEWEST_TRIED = constant(50, unit="records of a trial, at least")
MOST_TIMES = constant(16, unit="times the records")
"""Largest multiple of n in the search for a sufficient number of records."""
TIE = constant(0.01, unit="difference of quality that decides nothing")
MOST_PLANNED_SITES = constant(200, unit="sites")
"""Largest number of sites in a dry run, which simulates all of them in one process."""
MAX_DRY_RUN_ROWS = constant(100_000, unit="rows of a dry run; more tell little more")

OWN_METHODS = ("BoostedTrees", "Forest", "Tree")
"""Our own methods: the best in most measured tables, the one with fewest rounds, a readable one."""
BY_RULE = "It was the best on most real data of so many columns; made-up rows cannot tell."
MADE_UP = "rows made up from the schema"
NOTHING_HELPS = (
    "nothing beats a model without columns on the proxy: ask for fewer columns, more records or a "
    "larger epsilon."
)


@dataclass(frozen=True)
class Plan:
    """A plan. `trials` are all runs; `curve` is quality by epsilon, mean and deviation."""

    estimator: str
    epsilon: float
    delta: float
    n: int
    n_sites: int
    measure: str
    proxy_rows: str
    advice: str
    fewest: int | None
    """Approximate number of records from which the estimator helps; None if it never did."""
    trials: tuple[Trial, ...] = field(repr=False)
    latency: float | None = None
    """Round-trip time of the network in milliseconds."""

    @property
    def chosen(self) -> Trial:
        own = self.estimator, self.epsilon
        return next(trial for trial in self.trials if (trial.estimator, trial.epsilon) == own)

    @property
    def noise(self) -> tuple[PlannedNoise, ...]:
        return self.chosen.noise

    @property
    def curve(self) -> dict[float, tuple[float, float | None]]:
        epsilons = sorted({t.epsilon for t in self.trials if t.estimator == self.estimator})
        return {e: self.quality(self.estimator, e) for e in epsilons}

    def quality(self, estimator: str, epsilon: float) -> tuple[float, float | None]:
        """Mean quality of an estimator's runs at an epsilon, and their deviation if several."""
        runs = [t for t in self.trials if (t.estimator, t.epsilon) == (estimator, epsilon)]
        qualities = [trial.quality for trial in runs]
        spread = float(np.std(qualities, ddof=1)) if len(qualities) > 1 else None
        return float(np.mean(qualities)), spread

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "estimator": self.estimator,
            "advice": self.advice,
            "fewest_records": self.fewest,
            "proxy_rows": self.proxy_rows,
            "rounds": self.chosen.rounds,
            "round_trips": self.chosen.round_trips,
            "network_seconds": self.network_seconds,
            "bytes_per_site": self.chosen.bytes_per_site,
            "seconds": round(self.chosen.seconds, 3),
            "noise": [
                {"rounds": n.rounds, "what": n.query_name, "deviation": n.deviation}
                for n in self.noise
            ],
            "quality": {
                "measure": self.measure,
                "by_epsilon": [[e, *q] for e, q in self.curve.items()],
                "by_estimator": {name: self.quality(name, self.epsilon) for name in self.names},
            },
        }

    @property
    def network_seconds(self) -> float | None:
        """Waiting time of all round trips in seconds, if a latency was given."""
        return None if self.latency is None else self.chosen.round_trips * self.latency / 1000

    @property
    def names(self) -> list[str]:
        return list(dict.fromkeys(t.estimator for t in self.trials))

    def __str__(self) -> str:
        trial = self.chosen
        guarantee = f"epsilon {self.epsilon:g}, delta {self.delta:g}"
        sites = "1 site" if self.n_sites == 1 else f"{self.n_sites} sites"
        head = f"Plan for {self.n} records, {sites}, {guarantee}"
        lines = [head, "", f"  {self.advice}", "", "  noise on each sum, in records"]
        for n in self.noise:
            least = f"above the noise from {n.smallest} on"
            if n.smallest > self.n:
                least = (
                    f"counts below {n.smallest} are below the noise, and there are fewer records"
                )
            lines.append(f"    {n.deviation:10.1f}   round {n.rounds}: {n.query_name} ({least})")
        lines += ["", f"  {self.measure} on {self.proxy_rows}; mean +- spread over runs"]
        qualities = {f"epsilon {e:<16g}": quality for e, quality in self.curve.items()}
        qualities |= {f"{name:<24}": self.quality(name, self.epsilon) for name in self.names}
        for title, (mean, spread) in qualities.items():
            runs = " in one run" if spread is None else f" +- {spread:.3f}"
            lines.append(f"    {title} {mean:.3f}{runs}")
        took = (
            f"{trial.rounds} rounds, {trial.bytes_per_site} bytes per site, "
            f"{trial.seconds:.1f} seconds"
        )
        lines += ["", f"  {took} on this machine, the network not counted."]
        if trial.round_trips:
            lines.append(f"  {network_words(trial.round_trips, self.latency)}.")
        return "\n".join(lines)


def plan(
    schema: Schema,
    n: int,
    epsilon: float = 1.0,
    *,
    delta: float = DEFAULT_DELTA,
    n_sites: int = 1,
    proxy_rows: tuple[Any, Any] | None = None,
    public: bool = False,
    estimators: Sequence[str] = (),
    repeats: int = 2,
    max_rounds: int = 0,
    latency: float | None = None,
    progress: bool = False,
) -> Plan:
    """Estimate noise, rounds, bytes and quality of a fit; no budget is used.

    Parameters
    ----------
    schema : Schema
        As for the fit.
    n : int
        The public number of records of all sites together, approximately.
    epsilon, delta : float
        The privacy guarantee.
    n_sites : int, default=1
        Number of sites.
    proxy_rows : (X, y) or None, default=None
        Public rows that resemble those of the fit; they decide which estimator is recommended. None
        generates rows from the schema and takes the best method for this number of columns.
    public : bool, default=False
        Whether `proxy_rows` are public. A plan adds no noise: no guarantee covers what it shows of
        rows, or what is chosen by it. Rows that are not declared public are refused.
    estimators : sequence of str, default=()
        Names of estimators to compare on the proxy rows; by default our own three.
    repeats : int, default=2
        Runs of each.
    max_rounds : int, default=0
        The largest number of rounds that the study will allow; 0 leaves it to the method.
    latency : float or None, default=None
        Round-trip time of the network in milliseconds: the plan then adds the waiting time.
    progress : bool, default=False
        Whether to draw a progress bar on the terminal.

    Returns
    -------
    Plan
        Print it: `print(plan)`.

    """
    if not isinstance(n, int) or n < 8:
        raise ParameterError(f"n is {n!r}; give the number of records, 8 or more.")
    if not 1 <= n_sites <= MOST_PLANNED_SITES:
        raise ParameterError(
            f"n_sites is {n_sites!r}; a dry run takes 1 to {MOST_PLANNED_SITES} sites. Under "
            "'distributed' the noise of more is about the same."
        )
    if proxy_rows is not None and public is not True:
        raise ParameterError(
            "proxy_rows are not declared public, and a plan shows their results without noise; say "
            "public=True (--public) if they are public, or leave them out."
        )
    STUDY["max_rounds"].rule.check("max_rounds", max_rounds)
    if latency is not None and not 0 <= latency < math.inf:
        raise ParameterError(f"latency is {latency!r}; give milliseconds, 0 or more, or None.")
    check_outcome(schema, "a plan")
    kind = "Regressor" if schema.target is not None else "Classifier"
    own = [SURVIVAL_METHOD] if schema.survival else [name + kind for name in OWN_METHODS]
    names = list(estimators) or own
    by_rule = (
        None if estimators or proxy_rows or schema.survival else preferred_names(schema) + kind
    )
    rehearsal = DryRun(schema, delta, n_sites, proxy_rows, repeats, max_rounds)
    most = min(n, MAX_DRY_RUN_ROWS)
    factors = [factor for factor in FACTORS if factor != 1.0]
    # by doubling; the search ends with the first that helps
    sizes = [FEWEST_TRIED * 2**k for k in range(30)]
    sizes = [size for size in sizes if size <= min(MOST_TIMES * n, MAX_DRY_RUN_ROWS)]
    total = (len(names) + len(factors) + len(sizes)) * repeats
    with count_steps(progress, "dry runs", total) as step:
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
    measure = measure if schema.survival is None else "C-index"
    if _helps(chosen):
        advice = _advice(best, first, measure, by_rule is not None)
    else:
        advice = f"With {n} records at epsilon {epsilon:g} {NOTHING_HELPS}"
    source = "the rows you named, public as you said" if proxy_rows else MADE_UP
    return Plan(
        estimator=best,
        epsilon=epsilon,
        delta=delta,
        n=n,
        n_sites=n_sites,
        measure=measure,
        proxy_rows=f"{source}, {chosen[0].rows} of them",
        advice=f"{advice} {_from_so_many(fewest, epsilon)}",
        fewest=fewest,
        trials=(*first, *others),
        latency=latency,
    )


def _helps(trials: Sequence[Trial]) -> bool:
    """Whether runs beat a model without columns by more than their deviation."""
    gains = [trial.quality - trial.baseline for trial in trials]
    spread = float(np.std(gains, ddof=1)) if len(gains) > 1 else 0.0
    return float(np.mean(gains)) - spread > QUALITY_MARGIN


def _from_so_many(fewest: int | None, epsilon: float) -> str:
    if fewest is None:
        return f"At epsilon {epsilon:g} no number of records that was tried is enough."
    if fewest <= FEWEST_TRIED:
        return f"At epsilon {epsilon:g} it helps from the fewest records that were tried, {fewest}."
    return f"Below about {fewest} records at epsilon {epsilon:g} it would not help."


def preferred_names(schema: Schema) -> str:
    """Recommended estimators by public facts: generated rows cannot rank methods."""
    return "Forest" if len(schema.features) <= FEW_COLUMNS else OWN_METHODS[0]


def _best(names: Sequence[str], trials: Sequence[Trial]) -> str:
    """The best on average; ties go to the first name."""
    means = {n: float(np.mean([t.quality for t in trials if t.estimator == n])) for n in names}
    top = max(means.values())
    return next(name for name in names if means[name] >= top - TIE)


def _advice(best: str, trials: Sequence[Trial], measure: str, by_rule: bool) -> str:
    quality = float(np.mean([t.quality for t in trials if t.estimator == best]))
    others = sorted({t.estimator for t in trials} - {best})
    against = f"; compared with {', '.join(others)}" if others else ""
    why = f" {BY_RULE}" if by_rule else ""
    return f"Take {best}: {measure} about {quality:.3f} on the proxy{against}.{why}"
