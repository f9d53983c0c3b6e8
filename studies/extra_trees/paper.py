"""The numbers that Liu et al. 2020 print: Table 2, accuracy and F1 of ET, FET, FET-LDP, FET-GDP."""

from __future__ import annotations

REPEATS = 30
ROWS = {"kddcup99_10pct": 4_000_000}
"""Rows that the paper names for a set of which we have a part."""
PAPER: dict[str, dict[str, tuple[float, float]]] = {
    "spambase": {
        "ET": (0.934, 0.943),
        "FET": (0.932, 0.934),
        "LDP": (0.920, 0.920),
        "GDP": (0.919, 0.915),
    },
    "credit_default": {
        "ET": (0.805, 0.885),
        "FET": (0.814, 0.890),
        "LDP": (0.815, 0.852),
        "GDP": (0.811, 0.889),
    },
    "waveform": {
        "ET": (0.842, 0.842),
        "FET": (0.886, 0.886),
        "LDP": (0.882, 0.882),
        "GDP": (0.876, 0.876),
    },
    "letter": {
        "ET": (0.953, 0.953),
        "FET": (0.971, 0.971),
        "LDP": (0.940, 0.940),
        "GDP": (0.972, 0.972),
    },
    "kddcup99_10pct": {
        "ET": (0.994, 0.994),
        "FET": (0.994, 0.994),
        "LDP": (0.993, 0.993),
        "GDP": (0.993, 0.993),
    },
}
"""set -> method -> accuracy and F1."""
DEVIATIONS: dict[str, dict[str, float]] = {
    "spambase": {"ET": 0.005, "FET": 0.009, "LDP": 0.009, "GDP": 0.013},
    "credit_default": {"ET": 0.002, "FET": 0.004, "LDP": 0.003, "GDP": 0.012},
    "waveform": {"ET": 0.005, "FET": 0.010, "LDP": 0.011, "GDP": 0.012},
    "letter": {"ET": 0.002, "FET": 0.004, "LDP": 0.007, "GDP": 0.003},
    "kddcup99_10pct": {"ET": 0.001, "FET": 0.002, "LDP": 0.002, "GDP": 0.002},
}
"""Of the accuracy, printed behind it."""
