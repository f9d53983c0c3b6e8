"""stub"""

from pathlib import Path
import pandas as pd


def write(out: Path, tables: dict[str, pd.DataFrame]) -> None: ...
