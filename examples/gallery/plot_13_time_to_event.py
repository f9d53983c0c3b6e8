"""
Time to an event
================

For clinical researchers. Made-up patients are followed until death or last contact;
``hr.SurvivalBoostedTrees`` learns their survival under differential privacy. We draw three
patients' curves at two epsilons beside the truth, which only this page knows, and the survival of
all patients as the model released it.

.. image:: /images/gallery/plot_13_time_to_event.png
   :alt: Time to an event
"""

# sphinx_gallery_thumbnail_path = "images/gallery/plot_13_time_to_event.png"

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

import hedgerow as hr

rng = np.random.default_rng(3)
n = 6_000
X = pd.DataFrame({"age": rng.uniform(30, 90, n), "stage": rng.choice(["I", "II", "III"], n)})


def mean_years(rows):
    """The expected time of each patient, if nothing ended follow-up."""
    risk = 0.05 * (rows["age"] - 60) + rows["stage"].map({"I": 0.0, "II": 0.6, "III": 1.4})
    return 8.0 * np.exp(-risk.to_numpy())


death, contact = rng.exponential(mean_years(X)), rng.uniform(1, 10, n)
y = pd.DataFrame({"years": np.minimum(death, contact), "died": death <= contact})
schema = hr.Schema(
    {"age": (18, 110), "stage": ["I", "II", "III"]},
    survival=hr.Survival(time="years", event="died", horizon=10, unit="years"),
)

# %%
# Curves of three patients. The grid of times is found by noisy counts, so it differs from fit to
# fit; between its points the chance is linear.

three = pd.DataFrame({"age": [45.0, 65.0, 80.0], "stage": ["I", "II", "III"]})
times = np.linspace(0, 9, 50)
figure, axes = plt.subplots(1, 3, figsize=(9, 3.2), sharey=True)
for axis, epsilon in zip(axes, (1.0, 8.0), strict=False):
    model = hr.SurvivalBoostedTrees(schema, epsilon=epsilon, random_state=0).fit(X, y)
    for k, curve in enumerate(model.predict_survival_function(three)):
        words = f"{three['age'][k]:.0f}, stage {three['stage'][k]}"
        axis.plot(times, curve(times), color=f"C{k}", label=words)
        truth = np.exp(-times / mean_years(three)[k])
        axis.plot(times, truth, color=f"C{k}", linestyle=":")
    axis.set_title(f"epsilon {epsilon:g} (dotted: truth)")
    axis.set_xlabel("years")
axes[0].legend(fontsize=7)
axes[0].set_ylabel("chance to be alive")

# %%
# All patients together: the model keeps the noisy counts behind this curve.

counts = model.curve_.everyone.table[0]
axes[2].step([0, *model.unique_times_], [1, *(1 - np.array(model.curve_.marginal))], where="post")
at_risk = np.round(counts.sum() - np.cumsum(counts.sum(axis=0)))[: len(model.unique_times_)]
axes[2].set_title("all patients, noisy")
axes[2].set_xlabel("years")
figure.tight_layout()

# %%
# Who is still at risk after each time, with noise:

print(dict(zip(model.unique_times_.round(1).tolist(), at_risk.tolist(), strict=True)))
