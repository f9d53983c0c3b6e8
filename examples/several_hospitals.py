"""Several sites, simulated in one process: one tree, no pooled rows."""

from __future__ import annotations

import numpy as np

import hedgerow as hr

SCHEMA = hr.Schema(
    features=(
        hr.Numeric("age", low=0, high=110),
        hr.Categorical("ward", ("north", "south", "west")),
    ),
    classes=("home", "stays"),
)
HOSPITALS = ("Ahrenfels", "Birkental", "Cella", "Dornbach")


def rows(n: int = 4000) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Old patients stay, and most of the south ward."""
    rng = np.random.default_rng(0)
    age, ward = rng.uniform(0, 100, n), rng.choice(["north", "south", "west"], n)
    chance = 0.1 + 0.5 * (age > 70) + 0.3 * (ward == "south")
    stays = np.where(rng.random(n) < chance, "stays", "home")
    X = np.stack([age.astype(object), ward.astype(object)], axis=1)
    return X, stays, rng.choice(HOSPITALS, n)


def main() -> None:
    X, y, hospital = rows()
    model = hr.TreeClassifier(SCHEMA, epsilon=1.0, delta=1e-6)
    model.fit(X, y, site=hospital, sites=HOSPITALS)  # all who take part, also without rows
    print(hr.show_tree(model))
    print()
    print(hr.explain(model, X[:1])[0])
    print(f"\n{model.run_}")
    for who, what in model.privacy_.trust:
        print(f"against {who}: {what}")


if __name__ == "__main__":
    main()
