"""Dry runs before any budget is spent: on proxy rows for a plan, on made-up rows for a study."""

from __future__ import annotations

import math
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hedgerow.data.reading.encoding import Encoded, encode
from hedgerow.data.rows import Rows, public_draws
from hedgerow.data.site_rows import secret_draws
from hedgerow.federation.plausibility import Influence
from hedgerow.federation.server import Server
from hedgerow.federation.transports import in_process
from hedgerow.methods.blocks.flow import run
from hedgerow.methods.constants import constant
from hedgerow.methods.evaluate import on_held_out_records
from hedgerow.methods.inputs import checked_times
from hedgerow.methods.method import Method
from hedgerow.methods.registry import estimators
from hedgerow.methods.training import agree, public_seed
from hedgerow.models.survival import concordance
from hedgerow.privacy.accounting.budget import Cost, DPModel
from hedgerow.privacy.pricing import phrase_of
from hedgerow.privacy.queries import Query, Reply, SumQuery
from hedgerow.privacy.statement.record import silent
from hedgerow.privacy.statement.spending import ENTRY, total_cost, worst_path
from hedgerow.privacy.study import Study
from hedgerow.schema.arrays import FloatArray, Rng
from hedgerow.schema.schema import Categorical, Feature, Numeric, Schema

TEST_PART = constant(0.25, unit="part of the proxy rows for the test")
CLEAR = constant(2.0, unit="deviations by which a group must stand out of the noise")

# Proxy rows for the planning of a fit: public ones, or made up from the schema.


def split_proxy_rows(
    schema: Schema, n: int, proxy_rows: tuple[Any, Any] | None, seed: int
) -> tuple[Any, Any, Any, Any]:
    """Training rows, up to the number of the fit, and test rows."""
    rng = np.random.default_rng(seed)
    if proxy_rows is None:
        X, y = make_up_rows(schema, n + max(2000, int(TEST_PART * n)), rng)
        return X[:n], y[:n], X[n:], y[n:]
    X, labels, times = proxy_rows[0], proxy_rows[1], schema.survival
    if hasattr(X, "columns"):
        X = np.stack([np.asarray(X[name], dtype=object) for name in schema.columns], axis=1)
    X = np.asarray(X, dtype=object)
    y = np.asarray(labels, dtype=object) if times is None else checked_times(labels, times)
    order = rng.permutation(len(y))
    test = max(1, int(TEST_PART * len(y)))
    train = order[test:][:n]
    return X[train], y[train], X[order[:test]], y[order[:test]]


def make_up_rows(schema: Schema, n: int, rng: Rng) -> tuple[Any, Any]:
    """Random columns over their whole ranges, with an outcome that depends on some of them."""
    columns, effects = zip(
        *(_make_up_column(feature, n, rng) for feature in schema.features), strict=True
    )
    X = np.stack([np.asarray(column, dtype=object) for column in columns], axis=1)
    strengths = rng.exponential(1.0, len(effects)) * (rng.random(len(effects)) < 0.7)
    strengths = strengths if strengths.any() else np.ones(len(effects))  # of few, one matters
    score = 1.5 * (strengths @ np.stack(effects)) / float(np.linalg.norm(strengths))
    if schema.survival is not None:
        horizon = schema.survival.horizon
        times = np.minimum(horizon, 0.4 * horizon * rng.exponential(size=n) * np.exp(-0.5 * score))
        last = rng.uniform(0.1, 1.0, n) * horizon
        return X, np.where(times < last, times, -last)
    if schema.target is not None:
        width = schema.target.high - schema.target.low
        middle = schema.target.low + width / 2.0
        value = middle + width * 0.12 * (score + 0.5 * rng.normal(size=n))
        return X, np.clip(value, schema.target.low, schema.target.high)
    classes = np.asarray(schema.classes, dtype=object)
    noisy = score + rng.logistic(size=n)
    cuts = np.quantile(noisy, np.arange(1, len(classes)) / len(classes))
    return X, classes[np.searchsorted(cuts, noisy)]


def _make_up_column(feature: Feature, n: int, rng: Rng) -> tuple[Any, FloatArray]:
    """Values and their effects: a step plus a slope, of variance about one."""
    if isinstance(feature, Numeric):
        part = rng.beta(1.2, 2.0, n)
        step = (part > rng.uniform(0.2, 0.6)).astype(float)
        effect = step + rng.uniform(-1, 1) * part
        return feature.low + (feature.high - feature.low) * part, _standard(effect)
    values = feature.values if isinstance(feature, Categorical) else tuple(map(str, range(64)))
    code = rng.integers(0, len(values), n)
    effect = rng.normal(size=len(values))[code]
    return np.asarray(values, dtype=object)[code], _standard(effect)


def _standard(effect: FloatArray) -> FloatArray:
    spread = float(effect.std())
    return np.asarray((effect - effect.mean()) / spread) if spread > 0 else effect * 0.0


@dataclass(frozen=True)
class PlannedNoise:
    """One kind of release: its rounds, its name, and the deviation of the noise of each sum."""

    rounds: str
    query_name: str
    deviation: float

    @property
    def smallest(self) -> int:
        """The number of records at which a group exceeds the noise."""
        return math.ceil(CLEAR * self.deviation)


@dataclass(frozen=True)
class Trial:
    """One run on proxy rows: quality on a test set, and its cost."""

    estimator: str
    epsilon: float
    quality: float
    noise: tuple[PlannedNoise, ...]
    rounds: int
    bytes_per_site: int
    seconds: float
    rows: int
    baseline: float
    """The quality of a model that uses no column."""
    round_trips: int = 0
    """Exchanges with all sites, each of which waits for the network once."""


@dataclass(frozen=True)
class DryRun:
    """What all trials of a plan have in common."""

    schema: Schema
    delta: float
    n_sites: int
    proxy_rows: tuple[Any, Any] | None
    repeats: int
    max_rounds: int = 0

    def runs(
        self, name: str, n: int, epsilon: float, step: Callable[[Trial], Trial]
    ) -> list[Trial]:
        rows = (
            split_proxy_rows(self._schema, n, self.proxy_rows, seed) for seed in range(self.repeats)
        )
        return [step(self._trial(name, proxy_rows, epsilon)) for proxy_rows in rows]

    @property
    def _schema(self) -> Schema:
        """Generated rows are already numbers, so nothing is parsed."""
        return self.schema if self.proxy_rows is not None else self.schema.without_parsers

    def _trial(self, name: str, rows: tuple[Any, Any, Any, Any], epsilon: float) -> Trial:
        X, y, X_test, y_test = rows
        schema, n_sites = self._schema, self.n_sites
        estimator = estimators()[name](schema, epsilon=epsilon, delta=self.delta, random_state=0)
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they concern the fit to come, not a dry run
            study, method = agree(estimator, schema, n_sites, max_rounds=self.max_rounds)
        owner = np.arange(len(y)) % n_sites
        site_rows = [
            Rows(
                encode(X[owner == k], study.schema, y=y[owner == k], check=True), study.schema, own
            )
            for k, own in enumerate(secret_draws(study.name, n_sites))
        ]
        federation = in_process.open_federation(study, site_rows)
        watching = _Watching(federation)
        rng = np.random.default_rng(public_seed(estimator))
        model = run(method.flow(study.schema, federation, rng), watching).model
        seconds = time.perf_counter() - began
        test = encode(X_test, study.schema, y=y_test)
        assert test.y is not None
        record = federation.record
        return Trial(
            estimator=name,
            epsilon=epsilon,
            quality=_quality(model.predict(test.codes), np.asarray(test.y), schema),
            noise=watching.noise,
            rounds=len(record.rounds),
            bytes_per_site=record.bytes_per_site,
            seconds=seconds,
            rows=len(y),
            baseline=_baseline_quality(np.asarray(test.y), schema),
            round_trips=_round_trips(federation),
        )


def is_binary(schema: Schema) -> bool:
    return len(schema.classes or ()) == 2


class _Watching:
    """Forwards queries and records the noise that each will carry."""

    def __init__(self, federation: Any) -> None:
        self.federation = federation
        self.numbers_by_noise = defaultdict[tuple[str, float], list[int]](list)

    def ask(self, queries: Sequence[Query]) -> Sequence[Reply]:
        replies: Sequence[Reply] = self.federation.ask(queries)
        number = len(self.federation.record.rounds)
        for query in queries:
            if isinstance(query, SumQuery):
                deviation = round(math.sqrt(self.federation.variance(query)), 6)
                self.numbers_by_noise[str(phrase_of(query)), deviation].append(number)
        return replies

    @property
    def noise(self) -> tuple[PlannedNoise, ...]:
        return tuple(
            PlannedNoise("-".join(dict.fromkeys([str(n[0]), str(n[-1])])), query, deviation)
            for (query, deviation), n in self.numbers_by_noise.items()
        )


def network_words(round_trips: int, latency: float | None) -> str:
    """The round trips of a run, and their waiting time at a latency in milliseconds."""
    words = f"{round_trips} round trips to all sites"
    if latency is None:
        return words
    return f"{words}: {round_trips * latency / 1000:.1f} s at a latency of {latency:g} ms"


def _round_trips(federation: Server) -> int:
    sites = federation.sites
    return sites.exchanges if isinstance(sites, in_process.InProcess) else 0


def _baseline_quality(truth: Any, schema: Schema) -> float:
    if schema.survival is not None or is_binary(schema):
        return 0.5
    return 0.0 if schema.target is not None else float(np.bincount(truth).max() / len(truth))


def _quality(predictions: FloatArray, truth: Any, schema: Schema) -> float:
    if schema.survival is not None:
        return concordance(predictions[:, 0], truth)
    if schema.target is not None:
        return float(1.0 - ((predictions[:, 0] - truth) ** 2).mean() / max(truth.var(), 1e-12))
    if is_binary(schema):
        return _auc(predictions[:, 1], truth == 1)
    return float((np.argmax(predictions, axis=1) == truth).mean())


def _auc(scores: FloatArray, is_second: Any) -> float:
    """By mean ranks, so that ties count as half."""
    _, place, times = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(times) - (times - 1) / 2.0)[place]
    second, first = int(is_second.sum()), int((~is_second).sum())
    lowest = second * (second + 1) / 2.0
    return float((ranks[is_second].sum() - lowest) / (second * first)) if second * first else 0.5


# Forecast of a study: the same run in this process, on rows drawn from the public schema alone.
# Rounds and bytes of many methods depend slightly on the data, so the real run may take somewhat
# more or fewer, but never more than the study allows.

SITE_ROWS = constant(2000, unit="made-up rows of a site in a dry run")
"""Rows of each made-up site."""


@dataclass(frozen=True)
class Forecast:
    """Forecast of one run: rounds, bytes sent and received by a site, the largest charge."""

    study: Study
    rounds: int
    most_rounds: int
    bytes_out: int
    bytes_in: int
    spent: Cost
    dearest_round: int
    dearest: Cost
    round_trips: int

    def part(self, cost: Cost) -> str:
        """The cost as a fraction of the whole budget."""
        return "-" if cost == math.inf else f"{float(cost / self.study.total):.1%}"

    def lines(self, latency: float | None = None) -> Iterator[tuple[str, str]]:
        """`latency` is the network's round-trip time in milliseconds."""
        kib_out, kib_in = (f"{n / 1024:.0f} KiB" for n in (self.bytes_out, self.bytes_in))
        most = f"{self.most_rounds} at most"
        yield "rounds", f"{self.rounds} in a dry run with made-up rows, {most}"
        yield "network", network_words(self.round_trips, latency)
        yield "bytes", f"each site sends {kib_out} and gets {kib_in}"
        if self.study.dp_model is DPModel.NONE:
            yield "costs", "no noise is added: no guarantee, and nothing is charged"
            return
        yield "costs", f"{self.part(self.spent)} of the budget (worst-case record)"
        yield "costliest round", f"round {self.dearest_round}: {self.part(self.dearest)}"
        yield "reserve", f"{self.part(self.study.reserve)} for rounds that fail; {self._enough()}"

    def _enough(self) -> str:
        if self.dearest <= self.study.reserve:
            return "any one round may fail once"
        return (
            "a failure of the costliest round would end the run. Raise retry_budget, or let a sum "
            "be opened with fewer sites (threshold), if that is not wanted"
        )


def forecast(study: Study, method: Method, influence: Influence | None = None) -> Forecast:
    """Runs the study in this process, without any site."""
    study = replace(study, sites=(), coordinator=b"", names=(), reply_interval=0)
    rng = np.random.default_rng(study.public_seed)
    site_rows = [
        Rows(_random_rows(study.schema, rng), study.schema, public_draws(study.public_seed, place))
        for place in range(study.n_sites)
    ]
    federation = in_process.open_federation(study, site_rows, silent, None, influence)
    trained_model = run(method.flow(study.schema, federation, rng), federation)
    if study.asks_held_out:
        on_held_out_records(trained_model.model, federation)
    rounds, prices = federation.record.rounds, dict[int, Cost]()
    for number in {q.round for q in federation.queries} - {ENTRY}:
        round_queries = [q for q in federation.queries if q.round == number]
        prices[number] = total_cost(worst_path(round_queries))
    dearest = max(prices, key=lambda number: prices[number], default=0)
    return Forecast(
        study=federation.study,
        rounds=len(rounds),
        most_rounds=most_rounds(study, method) * (1 if influence is None else 2),
        bytes_out=sum(r.bytes_out for r in rounds),
        bytes_in=sum(r.bytes_in for r in rounds),
        spent=federation.sites.spent(),
        dearest_round=dearest,
        dearest=prices.get(dearest, 0.0),
        round_trips=_round_trips(federation),
    )


def _random_rows(schema: Schema, rng: Rng) -> Encoded:
    """Random rows over the whole grid, with labels that depend on every column."""
    codes = np.stack([rng.integers(0, grid.n_cells, SITE_ROWS, np.uint8) for grid in schema.grids])
    score = np.mean([c / grid.n_cells for c, grid in zip(codes, schema.grids, strict=True)], axis=0)
    rank = np.argsort(np.argsort(score)) / SITE_ROWS
    if schema.target is None:
        y: Any = (rank * len(schema.classes or ())).astype(np.uint8)
    else:
        y = schema.target.low + rank * (schema.target.high - schema.target.low)
    return Encoded(codes=codes, y=y, persons=None, clamped={}, unknown={}, skipped=0)


def most_rounds(study: Study, method: Method) -> int:
    """The most rounds of a run, without retries."""
    size = method.largest(study.schema)
    return size.rounds_of(study.n_sites, study.training_rounds) + bool(study.asks_held_out)
