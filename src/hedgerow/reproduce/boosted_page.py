"""The results page of `hedgerow reproduce boosted`: tables beside the paper's, and figures."""

from __future__ import annotations

from pathlib import Path

import pandas as pd


def write(table: pd.DataFrame, out: Path, splits: int) -> None:
    pass
