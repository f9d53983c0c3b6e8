"""A schema drafted from rows, for a person to correct and to confirm.

Ranges are rounded outwards to round numbers, which is what people write; that hides nothing. Every
part is marked as read from rows, and a fit promises nothing until each mark is confirmed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from hedgerow.errors import DataError, DataWarning, SpecError, warn
from hedgerow.site.reading.columns import Column, is_number, numbers
from hedgerow.site.reading.containers import objects_of
from hedgerow.site.reading.encoding import CHUNK_ROWS, LABEL, one_per_row
from hedgerow.site.reading.inferring import (
    listed_or_hashed,
    met_classes,
    met_values,
    range_met,
    warn_of_identifiers,
)
from hedgerow.site.reading.sources import Source, open_table
from hedgerow.site.reading.tables import RowTable, other_separator
from hedgerow.values.features import Categorical, Feature, Mark, Numeric, Target
from hedgerow.values.grids import MISSING_TEXTS
from hedgerow.values.schema import Schema
from hedgerow.values.tokens import token_of

NO_LETTER = "\ufffd"
ROUND = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0)
"""What people take for round, within a decade."""
MOST_CLASSES = 20
"""Whole numbers with more values than this are numbers to be predicted."""
MISSING_MARKS = {"?", "-", ".", "unknown", "missing"}
"""What files write for a missing value beside the texts that are always read so."""


def draft_schema(data: Source, target: str | None = None, y: Any = None) -> Schema:
    if target is not None and y is not None:
        raise SpecError("labels were given twice, as y and as the column `target`; give one.")
    table = open_table(data)
    separated = other_separator(table)
    if separated:
        raise DataError(f"{table.where} has one column, {table.names[0]!r}. {separated}.")
    if target is not None and target not in table.names:
        raise DataError(f"{table.where} has no column {target!r}; it has {table.names}.")
    columns = dict(zip(table.names, _whole(table), strict=True))
    label = columns.pop(target) if target is not None else None
    if y is not None:
        label = one_per_row(table, y, "y", "label")
    if not columns:
        raise DataError(f"{table.where} has no columns beside {target!r}; nothing can be learned.")
    warn_of_identifiers(list(columns), list(columns.values()))
    if table.malformed:
        warn(
            f"{table.where}: {table.malformed} line(s) are left out, with an open quote or another "
            "number of cells than the header; correct them, or what they hold is not in the draft.",
            DataWarning,
        )
    features = tuple(_drafted(name, column) for name, column in columns.items())
    bare = Schema(features)
    if label is not None:
        classes = _classes(target or LABEL, label)
        bare = Schema(features, classes=classes, target=None if classes else _target(label))
    _warn_of_strange_letters(table, bare)
    return bare.marked(Mark())


def _warn_of_strange_letters(table: RowTable, schema: Schema) -> None:
    """Bytes that are no UTF-8 were read as a mark that stands for any of them."""
    texts = {f.name: (f.name, *getattr(f, "values", ())) for f in schema.features}
    texts["the classes"] = schema.classes or ()
    strange = [what for what, listed in texts.items() if any(NO_LETTER in one for one in listed)]
    if strange:
        warn(
            f"{table.where} is not UTF-8: some values of {strange} are read with {NO_LETTER} for "
            "letters that nobody can tell; save the file as UTF-8 and draft again.",
            DataWarning,
        )


def _whole(table: RowTable) -> list[Column]:
    """All rows as one column each; files come in parts."""
    parts = list(table.chunks(table.names, table.capacity or CHUNK_ROWS))
    if not parts:
        raise DataError(f"{table.where} holds no rows; give at least one.")
    if len(parts) == 1:
        return list(parts[0])
    return [_joined(column) for column in zip(*parts, strict=True)]


def _joined(parts: Sequence[Column]) -> Column:
    if any(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate([objects_of(part) for part in parts])
    return pa.concat_arrays(parts)


def _drafted(name: str, column: Column) -> Feature:
    if _says_numbers(column) and not _says_truths(column):
        return Numeric(name, *rounded(*range_met(name, column)))
    values = tuple(v for v in met_values(name, column) if v.strip() not in MISSING_TEXTS)
    if set(map(token_of, values)) == {"0", "1"}:
        return Categorical(name, values, other=False)
    return listed_or_hashed(name, values)


def _says_numbers(column: Column) -> bool:
    """By type, or, in a file of text, by every cell that is not blank."""
    if is_number(column):
        return True
    if isinstance(column, np.ndarray) or not pa.types.is_binary(column.type):
        return False
    values, strange = numbers(column)
    blank = all(_is_blank(value.decode("utf-8", "replace")) for value, _ in strange)
    return blank and bool(np.isfinite(values).any())


def _is_blank(text: str) -> bool:
    """Of a number's column; in one of texts a mark such as ? is a value like others."""
    return text.strip() in MISSING_TEXTS or text.strip().lower() in MISSING_MARKS


def _says_truths(column: Column) -> bool:
    values, _ = numbers(column)
    return set(np.unique(values[np.isfinite(values)]).tolist()) == {0.0, 1.0}


def _classes(name: str, label: Column) -> tuple[str | int | bool, ...] | None:
    """None for a number to be predicted: fractions, or more whole numbers than classes."""
    values = met_classes(name, label)
    if _says_numbers(label):
        found, _ = numbers(label)
        known = found[np.isfinite(found)]
        if len(values) > MOST_CLASSES or not np.array_equal(known, np.floor(known)):
            return None
    if len(values) < 2:
        raise DataError(
            f"column {name!r} holds {len(values)} class(es), {list(values)}; at least 2 are needed."
        )
    return values


def _target(label: Column) -> Target:
    return Target(*rounded(*range_met(LABEL, label)))


def rounded(low: float, high: float) -> tuple[float, float]:
    """The round numbers around a range; from zero, if the range reaches near it."""
    width = high - low
    if 0.0 <= low <= width:
        return 0.0, _above(high)
    if -width <= high <= 0.0:
        return -_above(-low), 0.0
    if low < 0.0 < high:
        return -_above(-low), _above(high)
    step = 10.0 ** math.floor(math.log10(width))
    return _tidy(math.floor(low / step) * step), _tidy(math.ceil(high / step) * step)


def _above(number: float) -> float:
    """The smallest round number that is not below."""
    decade = 10.0 ** math.floor(math.log10(number))
    return _tidy(next(r * decade for r in (*ROUND, 15.0) if r * decade >= number))


def _tidy(number: float) -> float:
    """Without the dust of binary fractions."""
    return float(f"{number:.12g}")
