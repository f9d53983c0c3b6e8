"""Scores of two settings, same rows and same noise: their mean difference and its error."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from studies.measures import student


@dataclass(frozen=True)
class Difference:
    """Of `n` pairs: the mean, and its standard error."""

    mean: float
    error: float
    n: int

    @staticmethod
    def of(values: pd.Series) -> Difference:
        n = len(values)
        error = float(values.std(ddof=1)) / n**0.5 if n > 1 else float("nan")
        return Difference(float(values.mean()), error, n)

    @property
    def is_better(self) -> bool:
        """Beyond Student's t at 95 %. Never for a single pair, nor where nothing moved."""
        return self.mean > student(self.n) * self.error

    @property
    def is_worse(self) -> bool:
        return -self.mean > student(self.n) * self.error

    def __str__(self) -> str:
        return f"{self.mean:+.4f} ({self.error:.4f})"


def paired(table: pd.DataFrame) -> pd.DataFrame:
    """Every fit with a setting beside the one without: `gain` is how much better it is."""
    keys = [name for name in table.columns if name not in ("setting", "score", "code")]
    without = table[table["setting"] == ""].set_index(keys)["score"].rename("without")
    joined = table[table["setting"] != ""].join(without, on=keys, how="inner")
    return joined.assign(gain=joined["score"] - joined["without"])


def gains(table: pd.DataFrame, learner: tuple[str, str]) -> dict[str, Difference]:
    """Of each setting that was tried on made tasks for this method and goal."""
    method, goal = learner
    mine = table[(table["method"] == method) & (table["goal"] == goal)]
    return {str(s): Difference.of(rows["gain"]) for s, rows in paired(mine).groupby("setting")}
