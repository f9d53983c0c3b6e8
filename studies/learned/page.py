"""The page of `python -m studies learned`, read off its three tables."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from studies.harness import Computation
from studies.learned.constants import AND, OF_RECIPES
from studies.learned.differences import Difference, gains, paired
from studies.pages import markdown_table, write_page


def write(
    computation: Computation,
    tables: Mapping[str, pd.DataFrame],
    found: Mapping[tuple[str, str], str],
    command: str,
) -> None:
    write_page(computation, "README.md", "Constants that were learned", command, ["..."])
