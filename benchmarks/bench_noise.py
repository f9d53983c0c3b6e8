"""A million noise draws against the random words that one draw each would need."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

from benchmarks.sizes import sized
from benchmarks.timing import Row, race
from hedgerow.kernels.noise import invert
from hedgerow.privacy.mechanisms.coins import SecretRandomness
from hedgerow.privacy.mechanisms.mechanisms import (
    DiscreteGaussian,
    DiscreteLaplace,
    NoiseLaw,
    PolyaDifference,
)
from hedgerow.privacy.mechanisms.sampling import draw

N_DRAWS = sized(1_000_000, 1_000)
LAWS: dict[str, NoiseLaw] = {
    "discrete Laplace, scale 10": DiscreteLaplace(Fraction(1, 10)),
    "discrete Laplace, scale 10,000": DiscreteLaplace(Fraction(1, 10_000)),
    "one of 100 shares of discrete Laplace, scale 100": PolyaDifference(Fraction(1, 100), 100),
    "discrete Gaussian, sigma 100": DiscreteGaussian(Fraction(100**2)),
    "discrete Gaussian, sigma 1e6": DiscreteGaussian(Fraction(10**12)),
}


def rows() -> list[Row]:
    secret = SecretRandomness()
    work = {name: partial(draw, law, N_DRAWS, secret, invert) for name, law in LAWS.items()}
    best = race({**work, "words": lambda: secret.words(N_DRAWS)})
    return [
        Row(
            work=f"1e6 draws of {name}",
            seconds=best[name],
            reference="AES-256-CTR, 1e6 words",
            reference_seconds=best["words"],
            most_ratio=10.0,
        )
        for name in LAWS
    ]
