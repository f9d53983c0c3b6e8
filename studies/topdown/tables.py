"""The paper's three methods without a repair, beside the same with ours."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from studies.claims import lead
from studies.pages import markdown_table
from studies.topdown.claims import AS_PRINTED, THREE

HEADING = "## As printed"


def as_printed(tables: Mapping[str, pd.DataFrame]) -> str:
    table = tables["printed"]
    if table.empty:
        return f"{HEADING}\n\nNot run.\n"
    rows = []
    for (name, method), part in table.groupby(["name", "method"], sort=False):
        repaired = _repaired(tables["curves"], str(name), str(method))
        keys = ["seed", "alpha"]
        gap = part.set_index(keys)["test"] - repaired.set_index(keys)["test"]
        rows.append(
            {
                "set": name,
                "method": method,
                **{f"epsilon {a:g}": _mean(p) for a, p in part.groupby("alpha")},
                "runs": str(part["seed"].nunique()),
                "less the same with repairs": lead(gap).shown(),
            }
        )
    return f"""{HEADING}

`hedgerow.papers.wang`: a real report-noisy-max, tables of both sides of every split, every node
asked however loud its noise, leaves with their share alone, tables that need not agree. Test
accuracy; the last column pairs runs at one epsilon with the line that has our repairs:

{markdown_table(pd.DataFrame(rows))}
"""


def _repaired(curves: pd.DataFrame, name: str, method: str) -> pd.DataFrame:
    words = next(words for words, line in AS_PRINTED.items() if line == method)
    return curves[(curves["name"] == name) & (curves["method"] == THREE[words])]


def _mean(part: pd.DataFrame) -> str:
    return f"{part['test'].mean():.3f}"
