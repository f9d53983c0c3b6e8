"""
Label skew
==========

For consortia whose members see different patients. One clinic treats mostly the sick, another
mostly the healthy. Methods that average finished models suffer from that. Sums do not: without
noise, the model of all sites is, bit for bit, the one of pooled rows, however the rows are
divided.

.. image:: /images/gallery/plot_05_label_skew.png
   :alt: Label skew
"""

# sphinx_gallery_thumbnail_path = "images/gallery/plot_05_label_skew.png"

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

import hedgerow as hr
from hedgerow.cli.demo import SCHEMA, patients

rng = np.random.default_rng(2)
rows, labels = patients(6_000, rng)
test_rows, test_labels = patients(10_000, rng)
sick = labels == "returns"


def auc(model):
    said = model.predict_proba(test_rows)[:, list(model.classes_).index("returns")]
    return roc_auc_score(test_labels == "returns", said)


def divided(skew):
    """Three sites; `skew` is how far the sick gather at the first one (0: not at all, 1: all)."""
    chance = np.where(
        sick[:, None], [1 + 2 * skew, 1 - skew, 1 - skew], [1 - skew / 2, 1, 1 + skew / 2]
    )
    chance = chance / chance.sum(axis=1, keepdims=True)
    return (rng.random(len(sick))[:, None] > chance.cumsum(axis=1)).sum(axis=1)


def tried(rows, labels, **who):
    """Noise is drawn anew for each of five fits: the mean of their AUC, and its error."""
    fits = [hr.ForestClassifier(SCHEMA, epsilon=1.0).fit(rows, labels, **who) for _ in range(5)]
    found = [auc(model) for model in fits]
    return np.mean(found), np.std(found, ddof=1) / np.sqrt(5)


# %%

skews = [0.0, 0.5, 0.9]
together, alone, shares = [], [], []
for skew in skews:
    site = divided(skew)
    shares.append([sick[site == k].mean() for k in range(3)])
    together.append(tried(rows, labels, site=site, sites=range(3)))
    alone.append([tried(rows[site == k], labels[site == k]) for k in range(3)])

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.8))
for k in range(3):
    left.bar(np.arange(3) + 0.25 * (k - 1), np.array(shares)[:, k], 0.22, label=f"site {k + 1}")
left.set_xticks(range(3), [f"skew {s:g}" for s in skews])
left.set_ylabel("part of the patients who return")
left.legend()
means, errors = np.array(together).T
right.errorbar(skews, means, yerr=errors, fmt="o-", capsize=3, color="C3", label="together")
for k in range(3):
    means, errors = np.array(alone)[:, k].T
    right.errorbar(skews, means, yerr=errors, fmt="o:", capsize=3, label=f"site {k + 1} alone")
right.set_xlabel("skew")
right.set_ylabel("AUC on other patients, mean of five fits")
right.legend(fontsize=8)
figure.tight_layout()

# %%
# Together it makes no difference where the sick are. Alone it does: sites 2 and 3, who hardly see
# any of them, learn less and less. Without noise it is the same forest, whatever the division:

scores = {
    skew: hr.ForestClassifier(SCHEMA, dp_model="none", random_state=0)
    .fit(rows, labels, site=divided(skew), sites=range(3))
    .predict_proba(test_rows[:1000])
    for skew in skews
}
print(all(np.array_equal(scores[0.0], scores[skew]) for skew in skews))
