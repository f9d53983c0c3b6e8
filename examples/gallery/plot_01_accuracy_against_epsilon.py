"""
Accuracy against epsilon
========================

For whoever must choose an epsilon. Made-up patients; who will be back in hospital within a
month? We fit the default boosted trees at several epsilons, a few times each, and look at the
AUC on patients that no model has seen. The dashed line is a plain model on the same patients:
scikit-learn's gradient boosting with small trees, which knows nothing of privacy.

.. image:: /images/gallery/plot_01_accuracy_against_epsilon.png
   :alt: Accuracy against epsilon
"""

# sphinx_gallery_thumbnail_path = "images/gallery/plot_01_accuracy_against_epsilon.png"

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.metrics import roc_auc_score

import hedgerow as hr
from hedgerow.cli.demo import SCHEMA, patients

warnings.simplefilter("ignore", hr.SignalWarning)  # said in words below
rng = np.random.default_rng(0)
test_rows, test_labels = patients(10_000, rng)
rows, labels = patients(16_000, rng)


def auc(model, others=test_rows):
    said = model.predict_proba(others)[:, list(model.classes_).index("returns")]
    return roc_auc_score(test_labels == "returns", said)


def table(rows):
    """As scikit-learn wants them: numbers, and categories that are marked as such."""
    frame = pd.DataFrame(rows, columns=SCHEMA.names).infer_objects()
    return frame.astype({"diabetes": "category", "ward": "category"})


# %%
# The same epsilons, with 4,000 and with 16,000 patients.

epsilons = [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0]
figure, axis = plt.subplots(figsize=(7, 4))
for n, color in ((4_000, "C0"), (16_000, "C1")):
    found = np.array(
        [
            [
                auc(hr.BoostedTreesClassifier(SCHEMA, epsilon=e).fit(rows[:n], labels[:n]))
                for e in epsilons
            ]
            for _ in range(3)
        ]
    )
    axis.plot(epsilons, found.mean(axis=0), "o-", color=color, label=f"{n:,} patients")
    axis.fill_between(epsilons, found.min(axis=0), found.max(axis=0), color=color, alpha=0.2)
    plain = HistGradientBoostingClassifier(learning_rate=0.05, max_leaf_nodes=4, random_state=0)
    plain.fit(table(rows[:n]), labels[:n])
    axis.axhline(auc(plain, table(test_rows)), color=color, linestyle="--", linewidth=1)
axis.set_xscale("log")
axis.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
axis.minorticks_off()
axis.set_xlabel("epsilon: the smaller, the stronger the guarantee")
axis.set_ylabel("AUC on other patients")
axis.legend(title="mean and range of three fits")
figure.tight_layout()

# %%
# Four times the patients reach the same AUC at about a quarter of the epsilon: the noise does
# not grow with the number of records, and what is to be learned does. At the smallest epsilon noise
# hides so much of 4,000 patients that a simpler model is trained, or none (an AUC of one half).
