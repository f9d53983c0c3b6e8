"""What several fits promise together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hedgerow.privacy.accounting.rounding import printed


@dataclass(frozen=True, kw_only=True)
class Total:
    """All fits of one ledger, up to and with this one.

    Each counts with all it was allowed, and as if all were of the same records: epsilons add,
    deltas add (basic composition, which holds for pure and for Gaussian fits side by side, and
    whatever decided how much the next one was allowed).
    """

    epsilon: float
    delta: float
    fits: int
    entry: int
    head: str
    """The hash of the ledger's last entry, in hexadecimal digits; it vouches for all before."""

    @property
    def promise(self) -> str:
        many = "1 fit" if self.fits == 1 else f"{self.fits} fits"
        return f"epsilon = {printed(self.epsilon)}, delta = {printed(self.delta)} over {many}"

    @property
    def place(self) -> str:
        return f"entry {self.entry}, head {self.head}"

    @staticmethod
    def from_dict(d: Mapping[str, Any]) -> Total:
        return Total(**{**d, "epsilon": float(d["epsilon"])})
