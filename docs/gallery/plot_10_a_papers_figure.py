"""
A paper's figure in twenty lines
================================

For researchers. Gubler (2023) grows one tree from private histograms on mixtures of two
Gaussians and draws its accuracy against epsilon, for Algorithm 5 and for Algorithm 6, which
saves budget. Here is that figure in small: one setting, five runs, and both lines at the
epsilon they say.
"""

import matplotlib.pyplot as plt
import numpy as np

import hedgerow as hr

names = [f"x{k}" for k in range(10)]
schema = hr.Schema({name: (-4, 4) for name in names}, classes=(0, 1))


def mixture(n, rng):
    labels = rng.integers(0, 2, n)
    return np.where(labels[:, None] == 1, 0.6, -0.6) + rng.normal(size=(n, 10)), labels


epsilons = [0.5, 1.0, 2.0, 5.0, 10.0]
figure, axis = plt.subplots(figsize=(6.5, 4))
for saves, name in ((False, "Algorithm 5"), (True, "Algorithm 6, bounds paid for")):
    found = np.zeros((5, len(epsilons)))
    for run in range(5):
        rng = np.random.default_rng(run)
        (rows, labels), (test_rows, truth) = mixture(1_000, rng), mixture(2_000, rng)
        for k, epsilon in enumerate(epsilons):
            tree = hr.HistogramTreeClassifier(
                schema, epsilon=epsilon, delta=0.0, max_depth=4, save_budget=saves
            )
            tree.fit(rows, labels, party=np.arange(1_000) % 5, parties=range(5))
            found[run, k] = np.mean(tree.predict(test_rows) == truth)
    spread = found.std(axis=0, ddof=1) / np.sqrt(5)
    axis.errorbar(epsilons, found.mean(axis=0), yerr=spread, fmt="o-", capsize=3, label=name)
axis.set_xscale("log")
axis.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
axis.minorticks_off()
axis.set_xlabel("epsilon")
axis.set_ylabel("accuracy, mean and standard error of five runs")
axis.legend()
figure.tight_layout()

# %%
# The whole study, with every figure and a verdict on every claim, is on the results page of
# Gubler's tree.
