"""
One tree, read aloud
====================

For clinicians, and for those who must explain a model to them. One private tree on
scikit-learn's breast cancer data, as a picture, as text, and one decision in words.

.. image:: /images/gallery/plot_02_one_tree_read_aloud.png
   :alt: One tree, read aloud
"""

# sphinx_gallery_thumbnail_path = "images/gallery/plot_02_one_tree_read_aloud.png"

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_breast_cancer

import hedgerow as hr

data = load_breast_cancer()
ranges = {
    "mean radius": (5, 30),
    "mean texture": (5, 40),
    "worst area": (100, 5000),
    "worst concave points": (0, 0.3),
}
columns = [list(data.feature_names).index(name) for name in ranges]
rows, labels = data.data[:, columns], data.target_names[data.target]
schema = hr.Schema(ranges, classes=("malignant", "benign"))

tree = hr.TreeClassifier(schema, epsilon=2.0, max_depth=3, random_state=0).fit(rows, labels)

# %%
# The picture grows from left to right. A bar is the probability of each class; the gray numbers
# are records, with two deviations of the noise in them. A question mark says that noise alone
# could change the class of a leaf.

path = hr.draw_tree(tree, "tree.png")
image = plt.imread(path)
figure, axis = plt.subplots(figsize=(13, 13 * image.shape[0] / image.shape[1]))
axis.imshow(image)
axis.axis("off")
figure.tight_layout(pad=0)

# %%
# The same as text.

print(hr.show_tree(tree))

# %%
# Why was the first tumour called what it was called?

print(hr.explain(tree, rows[:1])[0])
print(f"right on these {len(labels)} tumours: {np.mean(tree.predict(rows) == labels):.0%}")
