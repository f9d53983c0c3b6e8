"""
Sites alone against together
============================

For hospitals that wonder whether joining pays. Five hospitals of different sizes fit a private
model each, all with the same guarantee; then all together, while every row stays where it is.

.. image:: /images/gallery/plot_04_sites_alone_and_together.png
   :alt: Sites alone against together
"""

# sphinx_gallery_thumbnail_path = "images/gallery/plot_04_sites_alone_and_together.png"

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

import hedgerow as hr
from hedgerow.cli.demo import HOSPITALS, SCHEMA, SIZES, patients

rng = np.random.default_rng(1)
rows, labels = patients(sum(SIZES), rng)
hospital = np.repeat(HOSPITALS, SIZES)
test_rows, test_labels = patients(10_000, rng)


def auc(model):
    said = model.predict_proba(test_rows)[:, list(model.classes_).index("returns")]
    return roc_auc_score(test_labels == "returns", said)


def fitted(rows, labels, **who):
    return hr.BoostedTreesClassifier(SCHEMA, epsilon=1.0).fit(rows, labels, **who)


# %%
# Three fits of each, since noise is drawn anew.

alone = {
    name: [auc(fitted(rows[hospital == name], labels[hospital == name])) for _ in range(3)]
    for name in HOSPITALS
}
together = [auc(fitted(rows, labels, site=hospital, sites=HOSPITALS)) for _ in range(3)]

# %%

figure, axis = plt.subplots(figsize=(7, 4))
names = [f"{name}\n{size:,} patients" for name, size in zip(HOSPITALS, SIZES, strict=True)]
for k, name in enumerate(HOSPITALS):
    axis.plot([k] * 3, alone[name], "o", color="C0")
axis.axhspan(min(together), max(together), color="C1", alpha=0.3, label="all together, rows stay")
axis.set_xticks(range(len(names)), names, fontsize=8)
axis.set_ylabel("AUC on other patients")
axis.set_title("one hospital alone (dots) and all together, epsilon 1")
axis.legend(loc="lower right")
figure.tight_layout()

# %%
# Every hospital keeps the same guarantee to its patients either way. Alone, each has to hide a
# patient among a few hundred; together, among all.
