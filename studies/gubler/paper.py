"""What Gubler's released code gives, and what the report says of its own study, as numbers."""

from __future__ import annotations

RUNS = 50
"""Of the report, for every point."""
SHALLOW, DEEP = 5, 10
"""Its two depths."""
LOW_RHO, HIGH_RHO = 0.3, 0.9
REPEATED_AT = {"n": 250, "rho": 0.3, "depth": 5}
AUTHORS: dict[tuple[int, float], dict[str, float]] = {
    (10, 1.0): {"plain": 0.686, "as released": 0.677, "with the report's bound": 0.601},
    (10, 5.0): {"plain": 0.716, "as released": 0.732, "with the report's bound": 0.684},
    (50, 1.0): {"plain": 0.665, "as released": 0.702, "with the report's bound": 0.635},
    (50, 5.0): {"plain": 0.716, "as released": 0.716, "with the report's bound": 0.571},
}
"""(features, epsilon) -> accuracy of hgubler/federated-private-trees, fc89ef9, run as it is and
with the local bound of the report's text put in."""
REACHES_LOCAL_BY = 2.0
"""The largest epsilon at which the report usually sees saving pass one party's own tree."""
REACHES_LOCAL_WITH_FEW_ROWS = 5.0
"""The same with 100 rows (appendix A.2)."""
ENOUGH = 200
"""Draws, of two epsilons each, below which no verdict is given: a rerun could reverse it."""
