"""
Where noise is added
====================

For consortia that must choose whom to believe. The same forest over five sites: one trusted
holder, noise in shares, noise at each site by itself, told labels, and no noise at all.

.. image:: /images/gallery/plot_11_placements.png
   :alt: Where noise is added
"""

# sphinx_gallery_thumbnail_path = "images/gallery/plot_11_placements.png"

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

import hedgerow as hr
from hedgerow.cli.demo import SCHEMA, patients

rng = np.random.default_rng(4)
rows, labels = patients(5_000, rng)
test_rows, test_labels = patients(10_000, rng)
site = np.arange(5_000) % 5
FITS = 8


def auc(placement, epsilon):
    where = {} if placement == "curator" else {"party": site, "parties": range(5)}
    model = hr.ForestClassifier(SCHEMA, placement=placement, epsilon=epsilon, random_state=0)
    model.fit(rows, labels, **where)
    said = model.predict_proba(test_rows)[:, list(model.classes_).index("returns")]
    return roc_auc_score(test_labels == "returns", said)


# %%

epsilons = [0.5, 1.0, 2.0, 5.0]
figure, axis = plt.subplots(figsize=(7, 4))
for placement in ("curator", "shares", "silo", "label"):
    found = np.array([[auc(placement, e) for _ in range(FITS)] for e in epsilons])
    error = found.std(axis=1, ddof=1) / np.sqrt(FITS)
    axis.errorbar(epsilons, found.mean(axis=1), error, fmt="o-", capsize=3, label=placement)
axis.axhline(auc("nowhere", 1.0), color="k", linestyle="--", linewidth=1, label="nowhere")
axis.set_xscale("log")
axis.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
axis.minorticks_off()
axis.set_xlabel("epsilon")
axis.set_ylabel(f"AUC on other patients, mean and error of {FITS} fits")
axis.legend()
figure.tight_layout()

# %%
# ``label`` protects labels only, so its line is not to be compared with the others' promise.
# ``silo`` needs no trust in anybody and pays for it: its noise has five times the variance.
