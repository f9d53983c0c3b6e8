"""What several fits promise together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hedgerow.privacy.accounting.budget import exact
from hedgerow.privacy.accounting.guarantee import INFINITY, Guarantee, guarantee_of_words


@dataclass(frozen=True, kw_only=True)
class Total:
    """All fits of one ledger, up to and with this one.

    Each counts with all it was allowed, and as if all were of the same records: epsilons add,
    deltas add (basic composition, which holds for pure and for Gaussian fits side by side, and
    whatever decided how much the next one was allowed).
    """

    guarantee: Guarantee
    fits: int
    entry: int
    head: str
    """The hash of the ledger's last entry, in hexadecimal digits; it vouches for all before."""

    @property
    def epsilon(self) -> float:
        return self.guarantee.numbers[0]

    @property
    def delta(self) -> float:
        return self.guarantee.numbers[1]

    @property
    def promise(self) -> str:
        many = "1 fit" if self.fits == 1 else f"{self.fits} fits"
        return f"{self.guarantee.promise} over {many}"

    @property
    def place(self) -> str:
        return f"entry {self.entry}, head {self.head}"

    def to_dict(self) -> dict[str, Any]:
        """For JSON; numbers also by themselves, rounded up, for readers of numbers."""
        return {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "fits": self.fits,
            "entry": self.entry,
            "head": self.head,
            "guarantee": self.guarantee.to_dict(),
        }

    @staticmethod
    def from_dict(d: Mapping[str, Any], unit: str) -> Total:
        """`unit` is that of the newest fit, which older files do not repeat."""
        if "guarantee" in d:
            kept = Guarantee.from_dict(d["guarantee"])
        else:
            epsilon = math.inf if d["epsilon"] in (INFINITY, math.inf) else exact(d["epsilon"])
            kept = guarantee_of_words(unit, epsilon, exact(d["delta"]))
        return Total(guarantee=kept, fits=d["fits"], entry=d["entry"], head=d["head"])
