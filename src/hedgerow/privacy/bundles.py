"""Limits of one round, how a longer list is cut into rounds, and how large a method may become.

A list of queries may be longer than a bundle. No query in it depends on another's answer, and the
ledger's total depends on the charges, not on the rounds, so the list is cut, in order, into as many
rounds as needed. What cutting cannot fix is refused before the first charge: a method declares its
largest size.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from math import prod
from typing import Any, Final

from hedgerow.errors import UnsupportedQuery
from hedgerow.models.layers import Layer, NodeTests
from hedgerow.models.model import Additive, Curve
from hedgerow.models.surfaces import Basis
from hedgerow.models.tree import MOST_LEAVES, Tree
from hedgerow.models.validation import MOST_STEPS
from hedgerow.privacy.queries import BoundQuery, Query, SumQuery, Thresholds
from hedgerow.schema.candidates import Binning
from hedgerow.schema.grids import canonical_bytes
from hedgerow.schema.regions import Region, Split, Step

# Limits of one bundle, for sites, the coordinator and methods.

MOST_QUERIES = 4096
MOST_INTEGERS = 1 << 26
"""Most integers in an answer."""
MOST_BYTES = 1 << 26
"""Most bytes of queries and definitions."""
MOST_CANDIDATES = 1 << 20
"""Most candidates of one private selection."""


def length_of(bundle: Sequence[Query]) -> int:
    """The number of integers that leave each site."""
    return sum(prod(q.shape) for q in bundle if isinstance(q, SumQuery | BoundQuery))


# Upper bound on the bytes of queries, with all values they name, for sites that know none yet. It
# depends on the queries alone, not on the key session's history, so a resumed run cuts its bundles
# at the same places. Values sent by digest count once per bundle. `tests/privacy/test_admission.py`
# compares it with the wire.

NAME = 96
"""Bytes of a digest and its mark."""
DEFINITION = 512
"""Bytes of a named value besides its content; limits the names that a bundle can define."""
NUMBER, CELL, TEST, TEXT = 32, 5, 48, 64
"""Bytes of a number, a small integer, a packed test of an open node, a word."""


class Weight:
    """Upper bound on the bytes of the added queries."""

    def __init__(self) -> None:
        self.bytes = 0
        self._named_keys: set[Hashable] = set()

    def with_query(self, query: Query) -> int:
        """Adds a query; returns the bytes of all."""
        self.bytes += self._of(query)
        return self.bytes

    def _of(self, value: Any) -> int:
        if value is None or isinstance(value, bool | int | float):
            return NUMBER + of_digits(value) if type(value) is int else NUMBER
        if isinstance(value, str):
            return of_text(value)
        if isinstance(value, Fraction):
            return TEXT + of_digits(value.numerator) + of_digits(value.denominator)
        if isinstance(value, tuple):
            return self._of_tuple(value)
        return self._of_object(value)

    def _of_tuple(self, values: tuple[Any, ...]) -> int:
        if values and isinstance(values[0], Step):
            return NAME + self._of_region(values)
        if values and isinstance(values[0], int):
            return NUMBER + len(values) * of_cell(max(values))
        return NUMBER + sum(map(self._of, values))

    def _of_object(self, value: Any) -> int:
        match value:
            case Enum():
                return 2 * TEXT
            case NodeTests():
                return of_tests(value.feature.size)
            case Layer():
                return NAME + self._of_layer(value)
            case Additive():
                return NAME + self._once(("model", id(value)), lambda: self._of_fields(value))
            case Tree():
                return NAME + self._once(("tree", id(value)), lambda: of_tree(value))
            case Curve():
                size = prod((len(value.values), len(value.values[0])))
                return NAME + self._once(("curve", id(value)), lambda: NUMBER * (2 + size))
            case Basis():
                return NAME + self._once(("basis", id(value)), lambda: self._of_fields(value))
            case Binning() | Thresholds() | Split():
                return NAME + self._once(value, lambda: self._of_fields(value))
        return self._of_fields(value)

    def _of_fields(self, value: Any) -> int:
        return TEXT + sum(TEXT + self._of(getattr(value, f.name)) for f in fields(value))

    def _once(self, key: Hashable, size: Any) -> int:
        if key in self._named_keys:
            return 0
        self._named_keys.add(key)
        return DEFINITION + int(size())

    def _of_region(self, region: Region) -> int:
        """Counts each new step of a region with its test; the steps above a known one are known."""
        size = 0
        while region and region not in self._named_keys:
            self._named_keys.add(region)
            size += DEFINITION + self._of_fields(region[-1])
            region = region[:-1]
        return size

    def _of_layer(self, layer: Layer) -> int:
        size, above = 0, layer
        while above.above is not None and ("layer", id(above)) not in self._named_keys:
            self._named_keys.add(("layer", id(above)))
            assert above.node_tests is not None
            assert above.is_open is not None
            size += DEFINITION + of_tests(above.node_tests.feature.size) + above.is_open.size
            above = above.above
        return size + DEFINITION


def weight_of(bundle: Sequence[Query]) -> int:
    weight = Weight()
    for query in bundle:
        weight.with_query(query)
    return weight.bytes


def of_digits(number: int) -> int:
    """Decimal digits, rounded up generously."""
    return 2 + abs(number).bit_length() // 3


def of_cell(number: int) -> int:
    """A small number in a list of such."""
    return CELL * (1 + number.bit_length() // 10)


@lru_cache(maxsize=4096)
def of_text(text: str) -> int:
    return NUMBER + len(canonical_bytes(text))


def of_tests(n: int) -> int:
    return DEFINITION + TEST * n


def of_tree(tree: Tree) -> int:
    names = [of_text(name) for name in tree.features]
    of_tests = len(set(tree.tests)) * (DEFINITION // 2 + max(names, default=0))
    return DEFINITION + sum(names) + of_tests + of_leaves(tree.n_leaves, tree.n_outputs)


def of_leaves(leaves: int, outputs: int) -> int:
    """The nodes of a tree and the values of its leaves, without the tests that they name."""
    return leaves * (NUMBER // 2 + NUMBER * outputs)


def cut(queries: Sequence[Query], *, travels: bool) -> list[list[Query]]:
    """Divides the queries into bundles, in order, each as long as allowed.

    `travels`: whether they are sent as bytes. Raises for a query that is too large by itself,
    before any query is sent.
    """
    parts, integers, weight = list[list[Query]](), 0, Weight()
    for query in queries:
        own = length_of([query])
        integers += own
        heavy = travels and weight.with_query(query) > MOST_BYTES
        if not parts or len(parts[-1]) == MOST_QUERIES or integers > MOST_INTEGERS or heavy:
            parts.append([])
            integers, weight = own, Weight()
            _require_room(query, own, weight if travels else None)
        parts[-1].append(query)
    return parts


def _require_room(query: Query, integers: int, weight: Weight | None) -> None:
    size = 0 if weight is None else weight.with_query(query)
    if integers > MOST_INTEGERS or size > MOST_BYTES:
        raise UnsupportedQuery(
            f"one query asks for {integers} integers in about {size} bytes; a round holds "
            f"{MOST_INTEGERS} and {MOST_BYTES}. Nothing of it was asked, and what earlier rounds "
            "charged stays. Ask with fewer or smaller trees, fewer columns or fewer bins."
        )


@dataclass(frozen=True, kw_only=True)
class Size:
    """The largest size of a flow, known from public values before it runs.

    The first three fields are per round, the next two per query, then the leaves of one tree, and
    the rounds of the whole flow: over several sites, and at one site, where nothing is sent.
    """

    queries: int = 0
    integers: int = 0
    bytes: int = 0
    candidates: int = 0
    steps: int = 0
    leaves: int = 0
    rounds: int = 0
    rounds_alone: int = 0
    fewest_rounds: int = 0
    """Fewest rounds over several sites, if the study limits them: a flow may put more into each."""

    @staticmethod
    def of_step(
        queries: int = 1,
        *,
        integers: int = 0,
        bytes: int = 0,
        shared_bytes: int = 0,
        candidates: int = 0,
        steps: int = 0,
        leaves: int = 0,
    ) -> Size:
        """The size of one step: `queries` queries of at most this size, cut into rounds where
        needed.

        `shared_bytes` are the bytes of values that all of them name.
        """
        alone = min(MOST_QUERIES, MOST_INTEGERS // max(integers, 1))
        together = min(alone, (MOST_BYTES - shared_bytes) // max(bytes, 1))
        rounds = -(-queries // max(together, 1))
        return Size(
            queries=min(queries, MOST_QUERIES),
            integers=max(integers, min(queries * integers, MOST_INTEGERS)),
            bytes=max(shared_bytes + bytes, min(shared_bytes + queries * bytes, MOST_BYTES)),
            candidates=candidates,
            steps=steps,
            leaves=leaves,
            rounds=rounds,
            rounds_alone=-(-queries // max(alone, 1)),
            fewest_rounds=rounds,
        )

    def __add__(self, later: Size) -> Size:
        """The size of two flows, one after the other."""
        return self._larger(later, lambda mine, theirs: mine + theirs)

    def __or__(self, other: Size) -> Size:
        """The size of either flow, whichever runs."""
        return self._larger(other, max)

    def __mul__(self, times: int) -> Size:
        """The size of this flow repeated `times` times."""
        return self._larger(self, lambda mine, _: mine * times) if times else Size()

    def beside(self, step: Size) -> Size:
        """The size of two steps in the same round."""
        sums = {name: getattr(self, name) + getattr(step, name) for name in OF_ROUND}
        return replace(self | step, **sums)

    def _larger(self, other: Size, of_rounds: Callable[[int, int], int]) -> Size:
        rules = {name: of_rounds if "rounds" in name else max for name in vars(self)}
        return Size(
            **{
                name: join(getattr(self, name), getattr(other, name))
                for name, join in rules.items()
            }
        )

    def rounds_of(self, n_sites: int, allowed: int = 0) -> int:
        """The largest number of rounds; `allowed` is the study's limit, 0 if there is none."""
        if n_sites == 1:
            return self.rounds_alone
        most = max(self.rounds, self.rounds_alone)
        adapts = allowed and self.fewest_rounds < self.rounds
        return min(max(allowed, self.fewest_rounds), most) if adapts else self.rounds

    def excess(self, *, travels: bool, rounds: int = 0) -> str | None:
        """Which limit of a study is exceeded, and by how much; None if all fits."""
        for name, (most, words) in LIMITS.items():
            size = getattr(self, name)
            if size > most and (travels or name != "bytes"):
                return f"{size} {words}, and {most} are allowed"
        if rounds and (fewest := self.rounds_of(2, rounds)) > rounds:
            return f"{fewest} rounds, and the study allows {rounds} (max_rounds, or graph.rounds)"
        return None


OF_ROUND: Final = ("queries", "integers", "bytes")
LIMITS: Final = {
    "integers": (MOST_INTEGERS, "integers in one answer"),
    "bytes": (MOST_BYTES, "bytes in one message"),
    "candidates": (MOST_CANDIDATES, "candidates in one private selection"),
    "steps": (MOST_STEPS, "tests on the way to one node"),
    "leaves": (MOST_LEAVES, "leaves in one tree"),
}
"""Limits that cutting into rounds cannot change, by the field of a size."""
