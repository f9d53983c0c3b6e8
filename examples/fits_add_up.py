"""Several fits of the same records: one file adds up what they guarantee, and says when to stop."""

from __future__ import annotations

import numpy as np

import hedgerow as hr

SCHEMA = hr.Schema(
    features=[hr.Numeric(name, low=0, high=1) for name in "abc"], classes=("no", "yes")
)


def main() -> None:
    X = np.random.default_rng(0).random((500, 3))
    y = np.where(X[:, 0] > 0.5, "yes", "no")
    ledger = hr.Ledger("fits.sqlite", epsilon=2.0)  # for all fits that name it
    for epsilon in (0.5, 1.0, 1.0):
        try:
            hr.TreeClassifier(SCHEMA, epsilon=epsilon, delta=0.0, ledger=ledger).fit(X, y)
        except hr.BudgetExceeded as refused:
            print(f"refused: {refused}")
        else:
            print(f"all fits up to now: {ledger.total().summary}")


if __name__ == "__main__":
    main()
