"""
Where the budget goes
=====================

For privacy officers and curious data scientists. Every model says what each round asked and
what part of the budget it took. Here for our three methods, side by side.

.. image:: /images/gallery/plot_07_budget_over_rounds.png
   :alt: Where the budget goes
"""

# sphinx_gallery_thumbnail_path = "images/gallery/plot_07_budget_over_rounds.png"

import matplotlib.pyplot as plt
import numpy as np

import hedgerow as hr
from hedgerow.cli.demo import SCHEMA, patients

rows, labels = patients(4_000, np.random.default_rng(3))
models = [
    hr.TreeClassifier(SCHEMA, epsilon=1.0).fit(rows, labels),
    hr.ForestClassifier(SCHEMA, epsilon=1.0).fit(rows, labels),
    hr.BoostedTreesClassifier(SCHEMA, epsilon=1.0).fit(rows, labels),
]

# %%

figure, axis = plt.subplots(figsize=(9, 3.6))
for k, model in enumerate(models):
    left = 0.0
    for j, spent in enumerate(model.privacy_.spending):
        axis.barh(k, spent.part, left=left, color=f"C{j}", edgecolor="white")
        if spent.part > 0.06:
            axis.text(
                left + spent.part / 2,
                k,
                f"round\n{spent.rounds}",
                ha="center",
                va="center",
                fontsize=8,
            )
        left += spent.part
axis.set_yticks(range(len(models)), [type(m).__name__ for m in models])
axis.set_xlabel("part of the budget that the most charged record has paid")
axis.set_xlim(0, 1)
figure.tight_layout()

# %%
# In words:

for model in models:
    print(type(model).__name__)
    for spent in model.privacy_.spending:
        print(f"  round {spent.rounds:<6} {spent.part:6.1%}  {spent.what}")
