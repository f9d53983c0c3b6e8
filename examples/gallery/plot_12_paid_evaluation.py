"""
An evaluation that is paid for
==============================

For data scientists who publish numbers. ``hr.evaluate`` measures a model by one private query.
Here we compare its intervals with the truth, which only this page knows, and draw how well the
probabilities are calibrated.

.. image:: /images/gallery/plot_12_paid_evaluation.png
   :alt: An evaluation that is paid for
"""

# sphinx_gallery_thumbnail_path = "images/gallery/plot_12_paid_evaluation.png"

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

import hedgerow as hr
from hedgerow.cli.demo import SCHEMA, patients

rng = np.random.default_rng(5)
rows, labels = patients(4_000, rng)
others, truth = patients(4_000, rng)
many, many_truth = patients(50_000, rng)
model = hr.BoostedTreesClassifier(SCHEMA, epsilon=1.0).fit(rows, labels)
at = list(model.classes_).index("returns")
true_auc = roc_auc_score(many_truth == "returns", model.predict_proba(many)[:, at])

# %%
# Twelve evaluations at each epsilon; each would cost its epsilon.

figure, axis = plt.subplots(figsize=(8, 3.8))
for k, epsilon in enumerate((0.1, 0.3, 1.0)):
    for j in range(12):
        found = hr.evaluate(model, others, truth, epsilon=epsilon)["auc"]
        axis.plot([12 * k + j] * 2, [found.low, found.high], color=f"C{k}", linewidth=2)
        axis.plot(12 * k + j, found.value, "o", color=f"C{k}", markersize=4)
axis.axhline(true_auc, color="k", linestyle="--", linewidth=1)
axis.set_xticks([5.5, 17.5, 29.5], ["epsilon 0.1", "epsilon 0.3", "epsilon 1"])
axis.set_ylabel("AUC, 95 % interval")
axis.set_title("dashed: measured exactly on 50,000 other patients")
figure.tight_layout()

# %%
# Calibration: of those who were told a risk of 30 %, do 30 % return?

found = hr.evaluate(model, others, truth, epsilon=1.0)
bins = [b for b in found.parts[0][0].calibration if b.records > 50]
middle = [(b.low + b.high) / 2 for b in bins]
share = [b.share.value for b in bins]
error = [[b.share.value - b.share.low for b in bins], [b.share.high - b.share.value for b in bins]]
figure, axis = plt.subplots(figsize=(4.6, 4.2))
axis.plot([0, 1], [0, 1], color="k", linewidth=1)
axis.errorbar(middle, share, yerr=np.maximum(error, 0), fmt="o", capsize=3)
axis.set_xlabel("predicted probability of coming back")
axis.set_ylabel("part that came back, with noise")
figure.tight_layout()
