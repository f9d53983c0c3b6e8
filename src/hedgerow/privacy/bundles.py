"""Limits of one round, the division of longer lists into rounds, and the size of a method.

A list of independent queries may be longer than a bundle. It is divided, in order, into as many
rounds as it takes; the ledger's total follows from the charges, not from the rounds. A query that
is too large alone is refused before the first charge, since a method declares the most that it may
ask.
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
"""Integers of the answer."""
MOST_BYTES = 1 << 26
"""Bytes of queries and the values they define."""
MOST_CANDIDATES = 1 << 20
"""Candidates of one private selection."""


def length_of(bundle: Sequence[Query]) -> int:
    """The number of integers that leave each site."""
    return sum(prod(q.shape) for q in bundle if isinstance(q, SumQuery | BoundQuery))


# An upper bound on the bytes of queries, with all values they name, for sites that know none of
# these. It follows from the queries alone, not from the history of the key session, so a resumed
# run divides its queries at the same places. Values that are sent by digest count once in a bundle.
# `tests/privacy/test_admission.py` compares the bound with the wire format.

NAME = 96
"""A digest and its tag."""
DEFINITION = 512
"""A named value beside its content, including a test of a column's cells. At so many bytes per name
a bundle has far fewer names than a site remembers.
"""
NUMBER, CELL, TEST, TEXT = 32, 5, 48, 64
"""A number; a small integer; a packed test of an open node; an identifier."""


class Weight:
    """An upper bound on the bytes of the queries that were added."""

    def __init__(self) -> None:
        self.bytes = 0
        self._named_keys: set[Hashable] = set()

    def with_query(self, query: Query) -> int:
        """Adds a query and returns the bytes of all queries."""
        self.bytes += self._of(query)
        return self.bytes

    def _of(self, value: Any) -> int:
        if value is None or isinstance(value, bool | int | float):
            return NUMBER + of_digits(value) if type(value) is int else NUMBER
        if isinstance(value, str):
            return of_text(value)
        if isinstance(value, Fraction):
            return TEXT + of_digits(value.numerator) + of_digits(value.denominator)
        if not isinstance(value, tuple):
            return self._of_object(value)
        if value and isinstance(value[0], Step):
            return NAME + self._of_region(value)
        if value and isinstance(value[0], int):
            return NUMBER + len(value) * of_cell(max(value))
        return NUMBER + sum(map(self._of, value))

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
        """Counts the new steps of a region with their tests; above a known step all are known."""
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


def of_digits(number: int) -> int:
    """An upper bound on the decimal digits."""
    return 2 + abs(number).bit_length() // 3


def of_cell(number: int) -> int:
    """An upper bound for one small integer in a list."""
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
    """The nodes and leaf values of a tree, without its tests."""
    return leaves * (NUMBER // 2 + NUMBER * outputs)


def cut(queries: Sequence[Query], *, travels: bool) -> list[list[Query]]:
    """Divides queries into bundles, in order, each as long as allowed.

    `travels` says whether they are sent as bytes. Raises `UnsupportedQuery` before any charge if
    one query alone exceeds the limits.
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

    `queries`, `integers` and `bytes` are of one round, `candidates` and `steps` of one query,
    `leaves` of one tree. `rounds` counts the rounds of the whole flow among several sites,
    `rounds_alone` those at one site, where nothing is sent.
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
    """The fewest rounds among sites: a flow may put more queries into each if rounds are limited.
    """

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
        """The size of one step of at most `queries` queries, in as many rounds as needed.

        `shared_bytes` counts the values that all of them name.
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

    def __or__(self, alternative: Size) -> Size:
        """The size of either flow, whichever runs."""
        return self._larger(alternative, max)

    def __mul__(self, times: int) -> Size:
        """The size of this many repetitions."""
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
        """The most rounds; `allowed` is the limit of the study, 0 if it has none."""
        if n_sites == 1:
            return self.rounds_alone
        most = max(self.rounds, self.rounds_alone)
        adapts = allowed and self.fewest_rounds < self.rounds
        return min(max(allowed, self.fewest_rounds), most) if adapts else self.rounds

    def excess(self, *, travels: bool, rounds: int = 0) -> str | None:
        """Which limit is exceeded, and by how much; None if everything fits."""
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
"""Limits that no division into rounds changes, by the field of a size."""
