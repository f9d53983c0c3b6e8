"""
An audit
========

For those who do not believe what software says of itself. ``hedgerow audit`` fits the real
pipeline on made-up rows, puts *canaries* in (records that stand out, each with the toss of a
coin) and looks at everything that was released. This page does the same and draws what it
finds. The measured loss must not exceed the claim.

.. image:: /images/gallery/plot_08_audit.png
   :alt: An audit
"""

# sphinx_gallery_thumbnail_path = "images/gallery/plot_08_audit.png"

import matplotlib.pyplot as plt

import hedgerow as hr
from hedgerow.audit.running import audit_estimator

claims = (2.0, 4.0, 8.0)
verdicts = [audit_estimator(hr.TreeClassifier, epsilon=claim, fits=3) for claim in claims]

# %%
# *White box* knows everything but the noise; its lower bound should come close to the claim and
# stay below it. *One run* believes nothing about the noise and guesses which canaries were in;
# it is weaker, and with so few canaries it finds nothing.

figure, axis = plt.subplots(figsize=(6, 4))
axis.plot([0, 9], [0, 9], color="k", linewidth=1, label="claim")
axis.plot(claims, [v.white_box for v in verdicts], "o", label="white box: at least")
axis.plot(claims, [v.one_run for v in verdicts], "s", label="one run: at least")
axis.set_xlabel("claimed epsilon")
axis.set_ylabel("measured epsilon, lower bound")
axis.legend()
figure.tight_layout()

# %%
# Each kind of sum by itself: how loud is its noise, compared with what was claimed? 1 is right.
# Of a hundred numbers that is known to about a seventh; kinds with fewer are left out.

kinds = [k for k in verdicts[-1].kinds if k.numbers >= 100]
figure, axis = plt.subplots(figsize=(7, 0.6 + 0.5 * len(kinds)))
names = [f"{k.what}\n({k.numbers} numbers)" for k in kinds]
axis.barh(names, [k.noise for k in kinds])
axis.axvline(1.0, color="k", linewidth=1)
axis.set_xlabel("measured deviation of the noise over the claimed one")
figure.tight_layout()
print("sound" if all(v.is_sound for v in verdicts) else "NOT SOUND")
