"""
Accuracy against epsilon
========================

For whoever must choose an epsilon. Made-up patients; who will be back in hospital within a
month? We fit the default boosted trees at several epsilons, a few times each, and look at the
AUC on patients that no model has seen. The dashed line is the same method without noise.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

import hedgerow as hr
from hedgerow.demo import SCHEMA, patients

rng = np.random.default_rng(0)
test_rows, test_labels = patients(10_000, rng)
rows, labels = patients(16_000, rng)


def auc(model):
    said = model.predict_proba(test_rows)[:, list(model.classes_).index("returns")]
    return roc_auc_score(test_labels == "returns", said)


# %%
# The same epsilons, with 4,000 and with 16,000 patients.

epsilons = [0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0]
figure, axis = plt.subplots(figsize=(7, 4))
for n, colour in ((4_000, "C0"), (16_000, "C1")):
    found = np.array(
        [
            [
                auc(hr.BoostedTreesClassifier(SCHEMA, epsilon=e).fit(rows[:n], labels[:n]))
                for e in epsilons
            ]
            for _ in range(3)
        ]
    )
    axis.plot(epsilons, found.mean(axis=0), "o-", color=colour, label=f"{n:,} patients")
    axis.fill_between(epsilons, found.min(axis=0), found.max(axis=0), color=colour, alpha=0.2)
    bare = hr.BoostedTreesClassifier(SCHEMA, placement="nowhere").fit(rows[:n], labels[:n])
    axis.axhline(auc(bare), color=colour, linestyle="--", linewidth=1)
axis.set_xscale("log")
axis.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
axis.minorticks_off()
axis.set_xlabel("epsilon: the smaller, the stronger the promise")
axis.set_ylabel("AUC on other patients")
axis.legend(title="mean and range of three fits")
figure.tight_layout()

# %%
# Four times the patients reach the same AUC at about a quarter of the epsilon: the noise does
# not grow with the number of records, and what is to be learned does.
