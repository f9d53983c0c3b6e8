"""What stands under the pictures of a report: names of categories, numbers that people can read."""

from __future__ import annotations

import re

import numpy as np

import hedgerow as hr
from hedgerow.report.page.pictures import shape_figures

WARDS = ["heart", "medicine", "a very long name of a ward"]


def ticks(columns) -> dict[str, list[str]]:
    rng = np.random.default_rng(0)
    X = np.stack([_drawn(kind, rng) for kind in columns.values()], axis=1)
    schema = hr.Schema(columns, classes=("no", "yes"))
    y = np.where(np.sum(X[0] == X, axis=1) > 1, "yes", "no")  # every column matters
    model = hr.BoostedTreesClassifier(schema, placement="nowhere", random_state=0).fit(X, y)
    figures = [str(one) for one in shape_figures(model)]
    found = {re.search("<figcaption>(.*?)<", one)[1]: one for one in figures}
    return {name: re.findall(r'text-anchor="\w+">(.*?)</text>', one) for name, one in found.items()}


def _drawn(kind, rng):
    drawn = rng.choice(kind, 400) if isinstance(kind, list) else rng.integers(0, 2, 400)
    return np.asarray(drawn, dtype=object)


def test_categories_have_their_names_and_numbers_no_powers_of_ten():
    found = ticks({"ward": WARDS, "flag": (0, 1), "many": [f"c{k:02}" for k in range(9)]})
    assert found["ward"] == ["heart", "medicine", "a very lon…", "any other …"]
    assert found["many"] == ["c00", "any other value"]
    assert found["flag"][0] == "0"
    assert found["flag"][-1] == "1"
    assert len(set(found["flag"])) == len(found["flag"])
    assert not any("e-" in words for words in found["flag"])
