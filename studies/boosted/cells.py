"""What `python -m studies boosted` has measured, by cell, and what others measured beside it."""

from __future__ import annotations

import pandas as pd

DASH = "-"


class Cells:
    """Measured cells; a mean is over the splits that were run."""

    def __init__(self, table: pd.DataFrame) -> None:
        keys = ["dataset", "learner", "epsilon", "n_sites"]
        self.table = table
        grouped = table.drop(columns=["split", "code"], errors="ignore").groupby(keys)
        self.means, self.deviations = grouped.mean(), grouped.std(ddof=1)
        self._by_split = {k: rows.set_index("split") for k, rows in table.groupby(keys)}

    def value(
        self, dataset: str, learner: str, epsilon: float, measure: str = "auc", n_sites: int = 1
    ) -> float | None:
        key = (dataset, learner, epsilon, n_sites)
        return float(self.means.loc[key, measure]) if key in self.means.index else None

    def with_deviation(self, dataset: str, learner: str, epsilon: float) -> str:
        """Mean (sample deviation), or a dash."""
        found = self.aucs(dataset, learner, epsilon)
        if not len(found):
            return DASH
        spread = f" ({shown(float(found.std(ddof=1)))})" if len(found) > 1 else ""
        return f"{shown(float(found.mean()))}{spread}"

    def deviation(self, dataset: str, learner: str, epsilon: float) -> float:
        return float(self.deviations.loc[(dataset, learner, epsilon, 1), "auc"])

    def aucs(self, dataset: str, learner: str, epsilon: float, n_sites: int = 1) -> pd.Series:
        """By split; empty if the cell was not run."""
        return self.by_split(dataset, learner, epsilon, "auc", n_sites)

    def by_split(
        self, dataset: str, learner: str, epsilon: float, measure: str, n_sites: int = 1
    ) -> pd.Series:
        rows = self._by_split.get((dataset, learner, epsilon, n_sites))
        return NOTHING if rows is None else rows[measure]

    def seconds(self, dataset: str, learner: str, epsilon: float) -> float | None:
        """Median over splits: the first fit of a process also compiles."""
        t = self.table
        rows = t[(t.dataset == dataset) & (t.learner == learner) & (t.epsilon == epsilon)]
        return _median(rows[rows.n_sites == 1].seconds)

    def splits(self, learner: str, n_sites: int = 1) -> int:
        """How many splits a recipe was run on."""
        rows = self.table[(self.table.learner == learner) & (self.table.n_sites == n_sites)]
        return int(rows.split.nunique())


NOTHING = pd.Series(dtype=float)


class Peer:
    """A program whose script in benchmarks/peers has left its results; empty if it was not run."""

    def __init__(self, found: pd.DataFrame | None) -> None:
        table = pd.DataFrame(columns=["dataset", "epsilon"]) if found is None else found
        self._rows = {
            key: rows.set_index("split") for key, rows in table.groupby(["dataset", "epsilon"])
        }

    def aucs(self, dataset: str, epsilon: float) -> pd.Series:
        rows = self._rows.get((dataset, epsilon))
        return NOTHING if rows is None else rows.auc

    def seconds(self, dataset: str, epsilon: float) -> float | None:
        rows = self._rows.get((dataset, epsilon))
        return None if rows is None else _median(rows.seconds)

    def value(self, dataset: str, epsilon: float) -> float | None:
        found = self.aucs(dataset, epsilon)
        return float(found.mean()) if len(found) else None

    @property
    def splits(self) -> int:
        return max((len(rows) for rows in self._rows.values()), default=0)


def _median(values: pd.Series) -> float | None:
    return float(values.median()) if len(values) else None


def shown(value: float | None) -> str:
    return DASH if value is None else f"{value:.4f}".lstrip("0")
