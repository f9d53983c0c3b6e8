"""The papers' data sets, from a folder of Parquet files, with the schema an experiment declares.

An experiment takes the range of the whole file as public, as the papers do. A real study must
not: there the schema is written down before anybody looks at rows.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hedgerow.errors import DataError
from hedgerow.schema.schema import MAX_VALUES, Categorical, Feature, Numeric, Schema, Target

FOLDER_VARIABLE = "HEDGEROW_DATA"

# Columns that an experiment leaves out: ids, copies of the target, free text.
LEFT_OUT: dict[str, list[str]] = {
    "parkinsons": ["subject"],
    "appliances_energy": ["date", "rv1", "rv2"],
    "metro_traffic": ["date_time", "weather_description"],
    "puc_rio_har": ["user"],
}

# Sets whose paper leaves out rows that miss a value. Elsewhere a missing value has its own cell.
WHOLE_ROWS = ("credit_gmsc", "puc_rio_har")


@dataclass(frozen=True)
class Dataset:
    name: str
    X: pd.DataFrame
    y: NDArray[Any]
    schema: Schema


def folder(given: str | None) -> Path:
    """Where the Parquet files are: the option, else the variable HEDGEROW_DATA."""
    place = given or os.environ.get(FOLDER_VARIABLE)
    if not place or not Path(place).is_dir():
        raise DataError(
            f"the data folder is {place!r}; give a folder of Parquet files by --data or by the "
            f"variable {FOLDER_VARIABLE}."
        )
    return Path(place)


def load(
    name: str, where: Path, *, regression: bool = False, left_out: list[str] | None = None
) -> Dataset:
    """All rows, but of the sets whose paper has whole rows only, and their declared schema."""
    path = where / f"{name}.parquet"
    if not path.exists():
        raise DataError(f"{path} does not exist; the folder must hold {name}.parquet.")
    drop = LEFT_OUT.get(name, []) if left_out is None else left_out
    frame = pd.read_parquet(path).drop(columns=drop)
    if name in WHOLE_ROWS:
        frame = frame.dropna().reset_index(drop=True)
    target = frame.pop("target")
    return of_frame(name, frame, target, regression=regression)


def of_frame(name: str, X: pd.DataFrame, target: Any, *, regression: bool) -> Dataset:
    features = tuple(declared(X[c]) for c in X)
    if regression:
        y = np.asarray(target, np.float64)
        schema = Schema(features, target=Target(float(y.min()), float(y.max())))
    else:
        y = np.asarray([str(v) for v in target], dtype=object)
        schema = Schema(features, classes=tuple(sorted(set(y))))
    return Dataset(name, X, y, schema)


def declared(column: Any) -> Feature:
    """Range or categories of a column of the whole file."""
    if pd.api.types.is_numeric_dtype(column):
        low, high = float(column.min()), float(column.max())
        return Numeric(str(column.name), low, high if high > low else low + 1.0)
    values = tuple(sorted(str(v) for v in column.dropna().unique()))
    return Categorical(str(column.name), values)


def whole(feature: Feature, column: Any) -> Feature:
    """A cell for each value, where a column holds whole numbers of a small range."""
    if not isinstance(feature, Numeric) or column.dtype.kind not in "iu":
        return feature
    edges = tuple(float(e) for e in np.arange(feature.low + 0.5, feature.high))
    return replace(feature, edges=edges) if len(edges) < MAX_VALUES else feature
