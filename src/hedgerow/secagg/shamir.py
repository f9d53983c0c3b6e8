"""Shamir's secret sharing over the integers modulo 2^255 - 19 (Shamir 1979).

A secret is the constant term of a random polynomial of degree threshold - 1; a share is its
value at a site's own point. Any `threshold` shares give the secret, fewer say nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

Entropy = Callable[[int], bytes]

PRIME = 2**255 - 19
WIDTH = 32


def random_element(entropy: Entropy) -> int:
    """Uniform in [0, PRIME): a candidate of 255 bits is kept unless it falls past the prime."""
    while True:
        candidate = int.from_bytes(entropy(WIDTH), "big") >> 1
        if candidate < PRIME:
            return candidate


def split(secret: int, threshold: int, sites: Iterable[int], entropy: Entropy) -> dict[int, int]:
    """One share for each of `sites`."""
    coefficients = [secret, *(random_element(entropy) for _ in range(threshold - 1))]
    return {site: _value(coefficients, _point(site)) for site in sites}


@lru_cache(maxsize=256)
def weights(sites: tuple[int, ...]) -> tuple[int, ...]:
    """Lagrange's weights at zero, in the order of `sites`; the same sites answer for everybody."""
    points = [_point(site) for site in sites]
    return tuple(_weight(point, points) for point in points)


def combine(shares: Iterable[int], weights: Iterable[int]) -> int:
    """The secret, from as many shares as there are weights."""
    return sum(s * w for s, w in zip(shares, weights, strict=True)) % PRIME


def to_bytes(element: int) -> bytes:
    return element.to_bytes(WIDTH, "big")


def from_bytes(data: bytes) -> int:
    return int.from_bytes(data, "big") % PRIME


def _point(site: int) -> int:
    """Never zero: the value at zero is the secret."""
    return site + 1


def _value(coefficients: Sequence[int], point: int) -> int:
    total = 0
    for coefficient in reversed(coefficients):
        total = (total * point + coefficient) % PRIME
    return total


def _weight(point: int, points: Sequence[int]) -> int:
    above = below = 1
    for other in points:
        if other != point:
            above = above * other % PRIME
            below = below * (other - point) % PRIME
    return above * pow(below, -1, PRIME) % PRIME
