"""
Where noise is added
====================

For consortia that must choose whom to trust. The same forest over five sites: central DP,
distributed DP, per-site DP, randomized labels (local), and no noise at all.

.. image:: /images/gallery/plot_11_dp_models.png
   :alt: Where noise is added
"""

# sphinx_gallery_thumbnail_path = "images/gallery/plot_11_dp_models.png"

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


def auc(dp_model, epsilon):
    where = {} if dp_model == "central" else {"site": site, "sites": range(5)}
    model = hr.ForestClassifier(SCHEMA, dp_model=dp_model, epsilon=epsilon, random_state=0)
    model.fit(rows, labels, **where)
    said = model.predict_proba(test_rows)[:, list(model.classes_).index("returns")]
    return roc_auc_score(test_labels == "returns", said)


# %%

epsilons = [0.5, 1.0, 2.0, 5.0]
figure, axis = plt.subplots(figsize=(7, 4))
for dp_model in ("central", "distributed", "per_site", "label"):
    found = np.array([[auc(dp_model, e) for _ in range(FITS)] for e in epsilons])
    error = found.std(axis=1, ddof=1) / np.sqrt(FITS)
    axis.errorbar(epsilons, found.mean(axis=1), error, fmt="o-", capsize=3, label=dp_model)
axis.axhline(auc("none", 1.0), color="k", linestyle="--", linewidth=1, label="none")
axis.set_xscale("log")
axis.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
axis.minorticks_off()
axis.set_xlabel("epsilon")
axis.set_ylabel(f"AUC on other patients, mean and error of {FITS} fits")
axis.legend()
figure.tight_layout()

# %%
# ``label`` protects labels only, so its line is not to be compared with the others' guarantee.
# ``per_site`` needs no trust in anybody and pays for it: its noise has five times the variance.
