"""Shamir's secret sharing over the integers modulo 2^255 - 19 (Shamir 1979).

A secret is the constant term of a random polynomial of degree threshold - 1; a share is its value
at a site's own point. Any `threshold` shares give the secret, fewer reveal nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from operator import mul

Entropy = Callable[[int], bytes]

PRIME = 2**255 - 19
WIDTH = 32
_RUN_BITS = 512


def random_element(entropy: Entropy) -> int:
    """Uniform in [0, PRIME): candidates of 255 bits past the prime are rejected."""
    while True:
        candidate = int.from_bytes(entropy(WIDTH), "big") >> 1
        if candidate < PRIME:
            return candidate


def split(secret: int, threshold: int, sites: Iterable[int], entropy: Entropy) -> dict[int, int]:
    """One share for each of `sites`.

    The shares of the first threshold - 1 sites are drawn, and the others follow from them and the
    secret. A polynomial is determined by its values as well as by its coefficients, so both ways of
    drawing it have the same law. Few values then remain to be computed, since `threshold` is most
    of the sites.
    """
    points = sorted(_point(site) for site in sites)
    nodes, rest = (0, *points[: threshold - 1]), tuple(points[threshold - 1 :])
    values = [secret, *(random_element(entropy) for _ in nodes[1:])]
    shares = values[1:] + _values_at(rest, nodes, values)
    return {point - 1: share for point, share in zip(points, shares, strict=True)}


def weights(sites: tuple[int, ...]) -> tuple[int, ...]:
    """Lagrange weights at zero, in the order of `sites`."""
    points = tuple(_point(site) for site in sites)
    inverses, (product,) = _inverses(max(points).bit_length()), _products((0,), points)
    return tuple(
        -product * weight * inverses[point] % PRIME
        for point, weight in zip(points, _barycentric(points), strict=True)
    )


def combine(shares: Iterable[int], weights: Iterable[int]) -> int:
    """The secret, from as many shares as there are weights."""
    return sum(s * w for s, w in zip(shares, weights, strict=True)) % PRIME


def to_bytes(element: int) -> bytes:
    return element.to_bytes(WIDTH, "big")


def from_bytes(data: bytes) -> int:
    return int.from_bytes(data, "big") % PRIME


def _point(site: int) -> int:
    """The point of a site; never zero, where the value is the secret."""
    return site + 1


def _values_at(points: tuple[int, ...], nodes: tuple[int, ...], values: Sequence[int]) -> list[int]:
    """Evaluates the polynomial with these values at the nodes, at points beyond all of them.

    By the first barycentric formula: P(x) = L(x) sum v_i b_i / (x - x_i), L(x) = prod (x - x_i).
    Differences of points are small, so a table has their inverses.
    """
    terms = [v * b % PRIME for v, b in zip(values, _barycentric(nodes), strict=True)]
    inverses = _inverses(max(points, default=0).bit_length())
    return [
        product * sum(map(mul, terms, [inverses[point - node] for node in nodes])) % PRIME
        for point, product in zip(points, _products(points, nodes), strict=True)
    ]


@lru_cache(maxsize=2048)
def _barycentric(nodes: tuple[int, ...]) -> tuple[int, ...]:
    """1 / prod (x_i - x_j) over all other nodes, all inverted at the cost of one inversion
    (Montgomery 1987, "Speeding the Pollard and elliptic curve methods of factorization", section
    10.3.1).
    """
    below = [_product(node - x for x in nodes if x != node) for node in nodes]
    partial = list(accumulate(below, lambda a, b: a * b % PRIME, initial=1))
    inverse, result = pow(partial[-1], -1, PRIME), list[int]()
    for value, before in zip(reversed(below), reversed(partial[:-1]), strict=True):
        result.append(inverse * before % PRIME)
        inverse = inverse * value % PRIME
    return tuple(reversed(result))


@lru_cache(maxsize=2048)
def _products(points: tuple[int, ...], nodes: tuple[int, ...]) -> tuple[int, ...]:
    """L(x) = prod (x - x_i) at each of the points."""
    return tuple(_product(point - node for node in nodes) for point in points)


def _product(factors: Iterable[int]) -> int:
    """A product of small factors, reduced after each run of them."""
    total, run = 1, 1
    for factor in factors:
        run *= factor
        if run.bit_length() > _RUN_BITS:
            total, run = total * run % PRIME, 1
    return total * run % PRIME


@lru_cache(maxsize=32)
def _inverses(bits: int) -> tuple[int, ...]:
    """1 / k for each k of `bits` bits, from those of smaller numbers; 0 has none."""
    result = [0, 1]
    for k in range(2, 1 << bits):
        result.append(-(PRIME // k) * result[PRIME % k] % PRIME)
    return tuple(result)
