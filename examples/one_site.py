"""One site of rows: write a schema, fit, read the guarantee, save and load."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

import hedgerow as hr

# Public facts, written down before anybody looks at rows: names, ranges, classes.
RANGES = {"mean radius": (5, 30), "mean texture": (5, 40), "worst concave points": (0, 0.3)}
SCHEMA = hr.Schema(
    features=[hr.Numeric(name, low, high) for name, (low, high) in RANGES.items()],
    classes=("malignant", "benign"),
)


def main() -> None:
    data = load_breast_cancer()
    X = data.data[:, [list(data.feature_names).index(name) for name in RANGES]]
    X_train, X_test, y_train, y_test = train_test_split(X, data.target_names[data.target])

    model = hr.BoostedTreesClassifier(SCHEMA, epsilon=1.0, delta=1e-6).fit(X_train, y_train)
    print(f"test accuracy {model.score(X_test, y_test):.3f}\n")
    print(model.privacy_)

    model.save("model.json")  # noisy numbers only
    again = hr.load("model.json")
    assert np.array_equal(again.predict(X_test), model.predict(X_test))


if __name__ == "__main__":
    main()
