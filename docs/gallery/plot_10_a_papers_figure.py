"""
A paper's figure in twenty lines
================================

For researchers. Gubler (2023) grows one tree from private histograms on mixtures of two Gaussians
and draws its accuracy against epsilon, for Algorithm 5 and for Algorithm 6, which saves budget.
Here is that figure in small: one setting, five runs. Algorithm 6 stands there twice: paid for as it
must be, and as printed, drawn at the epsilon that it really costs.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

import hedgerow as hr
from hedgerow.papers import gubler

warnings.simplefilter("ignore", hr.QualityWarning)  # pure epsilon, as in the report
schema = hr.Schema({f"x{k}": (-4, 4) for k in range(10)}, classes=(0, 1))
methods = {
    "Algorithm 5": gubler.algorithm_5,
    "Algorithm 6, made sound": gubler.algorithm_6,
    "Algorithm 6, as printed": gubler.algorithm_6_as_printed,
}
epsilons = [0.5, 1.0, 2.0, 5.0]


def mixture(n, rng):
    labels = rng.integers(0, 2, n)
    return np.where(labels[:, None] == 1, 0.6, -0.6) + rng.normal(size=(n, 10)), labels


figure, axis = plt.subplots(figsize=(6.5, 4))
for name, method in methods.items():
    found, true_epsilon = np.zeros((5, len(epsilons))), []
    for k, epsilon in enumerate(epsilons):
        for run in range(5):
            rng = np.random.default_rng(run)
            (rows, labels), (test_rows, truth) = mixture(1_000, rng), mixture(2_000, rng)
            tree = method(schema, epsilon, max_depth=4).fit(rows, labels)
            found[run, k] = np.mean(tree.predict(test_rows) == truth)
        true_epsilon.append(tree.privacy_.epsilon)
    error = found.std(axis=0, ddof=1) / np.sqrt(5)
    axis.errorbar(true_epsilon, found.mean(axis=0), yerr=error, fmt="o-", capsize=3, label=name)
axis.set_xscale("log")
axis.set_xlabel("epsilon that is really kept")
axis.set_ylabel("accuracy, mean and standard error of five runs")
axis.legend()
figure.tight_layout()

# %%
# ``hr.papers`` has every method of the five papers under its own name, with the paper's numbers.
# The whole study, with its figures and the paper's claims one by one, is on the results page.
