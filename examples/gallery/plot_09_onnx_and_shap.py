"""
Export to ONNX, explain with SHAP
=================================

For engineers who serve models, and for those who already have tools. A private model leaves
hedgerow as ONNX and as XGBoost's own format; onnxruntime predicts the same, and SHAP explains
it.

.. image:: /images/gallery/plot_09_onnx_and_shap.png
   :alt: Export to ONNX, explain with SHAP
"""

# sphinx_gallery_thumbnail_path = "images/gallery/plot_09_onnx_and_shap.png"

import matplotlib.pyplot as plt
import numpy as np
import onnxruntime
import shap
import xgboost
from sklearn.datasets import load_breast_cancer

import hedgerow as hr

data = load_breast_cancer()
ranges = {
    "mean radius": (5, 30),
    "mean texture": (5, 40),
    "mean concavity": (0, 0.5),
    "worst area": (100, 5000),
    "worst smoothness": (0, 0.3),
    "worst concave points": (0, 0.3),
}
columns = [list(data.feature_names).index(name) for name in ranges]
rows, labels = data.data[:, columns], data.target_names[data.target]
schema = hr.Schema(ranges, classes=("malignant", "benign"))
model = hr.BoostedTreesClassifier(schema, epsilon=3.0).fit(rows, labels)

# %%
# ONNX: one input for each column.

model.export("model.onnx", to="onnx")
session = onnxruntime.InferenceSession("model.onnx")
inputs = {name: rows[:, [k]] for k, name in enumerate(ranges)}
(said,) = session.run(["probabilities"], inputs)
print("largest difference:", float(np.abs(said - model.predict_proba(rows)).max()))

# %%
# XGBoost's format, and with it SHAP.

model.export("model.json", to="xgboost")
booster = xgboost.Booster(model_file="model.json")
table = xgboost.DMatrix(
    rows, feature_names=booster.feature_names, feature_types=booster.feature_types
)
values = shap.TreeExplainer(booster).shap_values(table)

order = np.argsort(np.abs(values).mean(axis=0))
figure, axis = plt.subplots(figsize=(7, 3.6))
for place, k in enumerate(order):
    shade = np.argsort(np.argsort(rows[:, k])) / len(rows)
    jitter = place + 0.6 * (np.random.default_rng(k).random(len(rows)) - 0.5)
    points = axis.scatter(values[:, k], jitter, c=shade, cmap="coolwarm", s=5)
axis.set_yticks(range(len(order)), [list(ranges)[k] for k in order])
axis.set_xlabel("SHAP value: what the column adds to the log-odds of benign")
figure.colorbar(points, label="value of the column, low to high", ticks=[])
figure.tight_layout()
