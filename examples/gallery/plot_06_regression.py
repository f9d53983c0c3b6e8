"""
Predicting a number
===================

For data scientists whose target is a length of stay, a price, a dose. Friedman's function,
which comes with scikit-learn: ten columns, five of which matter. The schema also says the
public range of the target.

.. image:: /images/gallery/plot_06_regression.png
   :alt: Predicting a number
"""

# sphinx_gallery_thumbnail_path = "images/gallery/plot_06_regression.png"

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_friedman1

import hedgerow as hr

rows, target = make_friedman1(12_000, n_features=10, noise=1.0, random_state=0)
test_rows, truth = make_friedman1(2_000, n_features=10, noise=1.0, random_state=1)
names = [f"x{k}" for k in range(10)]
schema = hr.Schema({name: (0, 1) for name in names}, target=hr.Target(-10, 40))

# %%

figure, axes = plt.subplots(1, 3, figsize=(10, 3.6), sharey=True)
for axis, epsilon in zip(axes, (1.0, 3.0, 10.0), strict=True):
    model = hr.BoostedTreesRegressor(schema, epsilon=epsilon).fit(rows, target)
    said = model.predict(test_rows)
    r2 = 1 - np.mean((said - truth) ** 2) / np.var(truth)
    axis.scatter(truth, said, s=4, alpha=0.3)
    axis.plot([0, 30], [0, 30], color="k", linewidth=1)
    axis.set_title(f"epsilon {epsilon:g}: R2 {r2:.2f}")
    axis.set_xlabel("true value")
axes[0].set_ylabel("predicted")
figure.tight_layout()

# %%
# Which columns matter? The last model knows, and columns of pure noise get next to nothing.

found = hr.importances(model)
figure, axis = plt.subplots(figsize=(6, 3))
axis.barh(list(found)[::-1], list(found.values())[::-1])
axis.set_xlabel("part of the prediction's variation")
figure.tight_layout()
