"""Training methods are flows (generators): `replies = yield queries`.

A flow yields a list of queries and receives their replies. Flows that run together share rounds:
one per step.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Mapping, Sequence
from typing import Protocol, TypeVar

from hedgerow.privacy.queries import Answer, Query, Reply, Selections, Summed

_T = TypeVar("_T")
_U = TypeVar("_U")
K = TypeVar("K", bound=Hashable)

Flow = Generator[Sequence[Query], Sequence[Reply], _T]


class NoiseModel(Protocol):
    """Public facts about the noise of a study, which a flow may use before it asks."""

    @property
    def is_pure(self) -> bool:
        """Whether the noise is Laplace (delta = 0) and not Gaussian."""
        ...

    @property
    def n_sites(self) -> int:
        """The number of sites with rows."""
        ...

    @property
    def max_rounds(self) -> int:
        """The largest number of rounds; 0 leaves it to the method."""
        ...

    def variance(self, query: Summed) -> float:
        """The noise variance of a query, in natural units."""
        ...


class Asks(Protocol):
    """Answers queries: a federation, or a test."""

    def ask(self, queries: Sequence[Query]) -> Sequence[Reply]: ...


def run(flow: Flow[_T], federation: Asks) -> _T:
    """Runs a flow to its end."""
    try:
        queries = next(flow)
        while True:
            queries = flow.send(federation.ask(queries))
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]


def together(flows: Mapping[K, Flow[_T]]) -> Flow[dict[K, _T]]:
    """Runs flows in lockstep: their queries at one step share one round."""
    results: dict[K, _T] = {}
    waiting: dict[K, Sequence[Query]] = {}

    def step(key: K, replies: Sequence[Reply] | None) -> None:
        try:
            waiting[key] = next(flows[key]) if replies is None else flows[key].send(replies)
        except StopIteration as stop:
            results[key] = stop.value
            waiting.pop(key, None)

    for key in flows:
        step(key, None)
    while waiting:
        open_flows = list(waiting.items())
        replies = yield [query for _, queries in open_flows for query in queries]
        start = 0
        for key, queries in open_flows:
            step(key, replies[start : start + len(queries)])
            start += len(queries)
    return {key: results[key] for key in flows}


def both(first: Flow[_T], second: Flow[_U]) -> Flow[tuple[_T, _U]]:
    """Runs two flows with different results in lockstep."""
    results = yield from together({"first": first, "second": second})
    return results["first"], results["second"]  # type: ignore[return-value]


def watch_first_round(flow: Flow[_T]) -> Flow[tuple[_T, list[tuple[Query, Reply]]]]:
    """The flow's result, and its first queries with their replies."""
    try:
        queries = next(flow)
    except StopIteration as stop:
        return stop.value, []
    replies = yield queries
    first = list(zip(queries, replies, strict=True))
    try:
        while True:
            replies = yield flow.send(replies)
    except StopIteration as stop:
        return stop.value, first


def ask(query: Summed) -> Flow[Answer]:
    """A flow of one sum."""
    (reply,) = yield [query]
    assert isinstance(reply, Answer)
    return reply


def selection(query: Query) -> Flow[tuple[int, ...]]:
    """A flow of one private selection."""
    (reply,) = yield [query]
    assert isinstance(reply, Selections)
    return reply.indices
