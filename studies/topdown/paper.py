"""What Wang, Dick and Balcan 2020 say of their runs, and what their algorithm gives on mnist."""

from __future__ import annotations

RUNS = 100
ROWS = {"avazu": 1_100_000}
"""Rows that the paper names for a set of which we have a part."""
MNIST = {8.0: 0.42, 64.0: 0.56, 512.0: 0.671}
"""epsilon -> test accuracy of the authors' algorithm for one machine."""
MNIST_FALL = 0.174
"""How far it stays below its own tree without noise at the largest epsilon."""
ADULT_RANGES = {"file": (0.805, 0.829), "authors": (0.822, 0.837)}
"""Adult at epsilon 1 and without noise, with the file's ranges and with the authors'."""
