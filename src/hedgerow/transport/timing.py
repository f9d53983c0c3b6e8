"""How long a run waits for whom. Known to the coordinator alone; no site's promise rests on it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Seconds, and how often the same thing is asked."""

    answer_seconds: float = 60.0
    """One exchange: how long all sites together may take to answer a letter."""
    asks: int = 3
    """How often silent sites are asked the same before the round goes on without them."""
    patience_seconds: float = 3600.0
    """How long a run waits while fewer sites are there than a sum needs; then it ends."""
    return_seconds: float = 60.0
    """How often a site that was lost is asked whether it is back."""
