"""
Shape functions with noise bands
================================

For clinicians and modellers. What does age add to the risk, all else equal? The default boosted
trees are a sum of curves, surfaces and small trees, so each column has a curve. It was made from
noisy sums, and the model knows how noisy: the band is two deviations of the privacy noise.

.. image:: /images/gallery/plot_03_shapes_with_noise_bands.png
   :alt: Shape functions with noise bands
"""

# sphinx_gallery_thumbnail_path = "images/gallery/plot_03_shapes_with_noise_bands.png"

import matplotlib.pyplot as plt
import numpy as np

import hedgerow as hr
from hedgerow.cli.demo import SCHEMA, patients

rows, labels = patients(6_000, np.random.default_rng(6))
models = {
    epsilon: hr.BoostedTreesClassifier(SCHEMA, epsilon=epsilon).fit(rows, labels)
    for epsilon in (0.5, 4.0)
}


def draw(axis, model, column):
    """A step for each bin; the last bin, that of missing values, is left out."""
    curve = hr.feature_effect(model, column)
    grid = model.schema_.grids[model.schema_.index(column)]
    cells = np.array(curve.cells[:-1])
    edges = [grid.low, *(grid.edges[cell - 1] for cell in cells[1:]), grid.high]
    low, high = (end[:-1, 0] for end in curve.band)
    axis.stairs(curve.values[:-1, 0], edges, baseline=None, color="C0", linewidth=1.5)
    axis.stairs(high, edges, baseline=low, fill=True, color="C0", alpha=0.25)
    axis.axhline(0.0, color="k", linewidth=0.5)
    axis.set_xlabel(column)


# %%
# The made-up patients follow a formula: risk rises by 1.8 beyond an age of 75, by 1.8 beyond a
# creatinine of 1.5, by 1.1 with each earlier stay. Curves are of the second class, who stay well.

columns = ("age", "creatinine", "earlier stays")
figure, axes = plt.subplots(2, 3, figsize=(10, 5.4), sharey=True)
for line, (epsilon, model) in zip(axes, models.items(), strict=True):
    for axis, column in zip(line, columns, strict=True):
        draw(axis, model, column)
    line[0].set_ylabel(f"epsilon {epsilon:g}\nlog-odds of {model.classes_[1]}")
axes[0, 0].set_ylim(-4.5, 2.5)
axes[0, 1].set_xlim(0, 4)
axes[1, 1].set_xlim(0, 4)
axes[0, 2].set_xlim(0, 8)
axes[1, 2].set_xlim(0, 8)
figure.tight_layout()

# %%
# With eight times the epsilon bins are finer and bands narrower, but for bins that hold next to
# nobody. The band speaks of the noise alone. It says neither what other patients would show nor
# how far smoothing pulls a step into a slope.
#
# Two columns may count together, beyond their curves: a surface. Its part, and its largest value.

for pair, (part, noise) in list(hr.pair_importances(models[4.0]).items())[:3]:
    most = np.abs(hr.pair_effect(models[4.0], *pair).values).max()
    print(f"{' with '.join(pair)}: {part:.1%} +- {2 * noise:.1%}, up to {most:.2f}")
