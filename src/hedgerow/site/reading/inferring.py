"""A schema as it stands in the rows. This protects nothing of them; statements say so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from hedgerow.errors import DataError, DataWarning, SpecError, warn
from hedgerow.site.reading.columns import Column, distinct, is_number, is_truth, numbers
from hedgerow.site.reading.encoding import LABEL, one_per_row, refuse_unusable
from hedgerow.site.reading.sources import Source, open_table
from hedgerow.site.reading.tables import RowTable
from hedgerow.values.features import MAX_VALUES, Categorical, Feature, Hashed, Mark, Numeric, Target
from hedgerow.values.schema import Schema
from hedgerow.values.tokens import Token, is_whole, spelled, token_of
from hedgerow.values.visible import has_hidden

ENOUGH_ROWS = 50
"""In fewer rows whole numbers may all differ by chance."""


def infer_schema(X: Source, y: Any = None, *, regression: bool = False) -> Schema:
    """Ranges, categories and classes as they stand in the rows. This protects nothing of them.

    A boolean or text column becomes categorical; more values than one byte holds are hashed.
    """
    table = open_table(X)
    whole = next(table.chunks(table.names, max(table.capacity, 1)), None)
    if whole is None:
        raise DataError(f"{table.where} holds no rows; give at least one, or a schema.")
    features = [_inferred(name, column) for name, column in zip(table.names, whole, strict=True)]
    warn_of_identifiers(table.names, whole)
    return _schema(table, features, y, regression).marked(Mark())


def _schema(table: RowTable, features: list[Feature], y: Any, regression: bool) -> Schema:
    if y is None:
        return Schema(tuple(features))
    labels = one_per_row(table, y, "y", "label")
    if regression:
        return Schema(tuple(features), target=Target(*range_met(LABEL, labels)))
    return Schema(tuple(features), classes=_inferred_classes(labels))


def declared_schema(X: Source, y: Any) -> Schema:
    """What the types of a table declare, without a look at its values; ranges are left open.

    Only where types do not hang on rows: a typed table, and labels that are true or false.
    """
    types = _types_of(X)
    if types is None:
        raise SpecError(
            "schema='private' takes types from a typed table (a data frame or an Arrow table), for "
            "those of an array or of objects hang on the rows; give "
            "hedgerow.Schema({'age': float, 'job': str}, classes=...)."
        )
    if np.asarray(y).dtype.kind != "b":
        raise SpecError(
            "schema='private' knows classes by their type only where labels are booleans; say what "
            "is public: hedgerow.Schema({'age': float, 'job': str}, classes=('no', 'yes')), or "
            "target=(low, high)."
        )
    return Schema(types, classes=(False, True))


def _types_of(X: Any) -> dict[str, type] | None:
    """A type for each column, None if one of them is of objects or X has no types."""
    if isinstance(X, pa.Table):
        found = {f.name: _type_of_arrow(f.type) for f in X.schema}
    elif hasattr(X, "dtypes") and hasattr(X, "columns"):
        found = {str(n): _type_of_numpy(kind) for n, kind in zip(X.columns, X.dtypes, strict=True)}
    else:
        return None
    known = {name: kind for name, kind in found.items() if kind is not None}
    return known if len(known) == len(found) else None


def _type_of_arrow(kind: Any) -> type | None:
    is_a = pa.types
    if is_a.is_boolean(kind):
        return bool
    if is_a.is_integer(kind) or is_a.is_floating(kind):
        return float
    return str if is_a.is_string(kind) or is_a.is_large_string(kind) else None


def _type_of_numpy(kind: Any) -> type | None:
    """Of pandas' columns too: `str` is a type of its own there, `object` is none."""
    letter = getattr(kind, "kind", "O")
    if letter == "b":
        return bool
    if letter in "iuf":
        return float
    return str if str(kind) in ("str", "string") else None


def warn_of_identifiers(names: Sequence[str], columns: Sequence[Column]) -> None:
    """A column that tells every record from every other teaches nothing, and names persons."""
    found = [n for n, column in zip(names, columns, strict=True) if is_identifier(column)]
    if found:
        warn(
            f"column(s) {found} hold another value in every row, as identifiers do. Nothing can "
            "be learned from them; leave them out. If they say whose record it is, pass them as "
            "`person`.",
            DataWarning,
        )


def is_identifier(column: Column) -> bool:
    """Texts or whole numbers, no two alike."""
    if len(column) < ENOUGH_ROWS:
        return False
    if is_number(column):
        values, _ = numbers(column)
        if not np.all(np.isfinite(values)) or not np.array_equal(values, np.floor(values)):
            return False
        return len(np.unique(values)) == len(values)
    return len({token for token in distinct(column).tokens() if token}) == len(column)


def _inferred(name: str, column: Column) -> Feature:
    if is_number(column):
        return Numeric(name, *range_met(name, column))
    values = met_values(name, column)
    if set(values) <= {"True", "False"}:
        return Categorical(name, ("False", "True"))
    return listed_or_hashed(name, values)


def listed_or_hashed(name: str, values: tuple[str, ...]) -> Feature:
    """Texts are hashed where there are more than one byte holds, and where none was met.

    What no schema may list, such as a text with a line break, falls under the other values.
    """
    shown = tuple(value for value in values if not has_hidden(value))
    return Categorical(name, shown) if shown and len(values) <= MAX_VALUES else Hashed(name)


def range_met(name: str, column: Column) -> tuple[float, float]:
    """Of the finite numbers; a constant is given some room towards zero."""
    values, strange = numbers(column)
    for value, _ in strange:
        refuse_unusable(f"column {name!r}", value)
    finite = values[np.isfinite(values)]
    if finite.size == 0:
        return 0.0, 1.0
    low, high = float(finite.min()), float(finite.max())
    room = max(1.0, abs(low)) if low == high else 0.0
    return (low - room, high) if low > 0 else (low, high + room)


def met_values(name: str, column: Column) -> tuple[str, ...]:
    """The values that occur, numbers in order of size."""
    met: dict[Token, str] = {}
    found = distinct(column)
    for value, _ in found.met([True] * len(found.values)):
        refuse_unusable(f"column {name!r}", value)
        if token_of(value):
            met.setdefault(token_of(value), str(spelled(value)))
    texts = list(met.values())
    try:
        return tuple(sorted(texts, key=float))
    except ValueError:
        return tuple(sorted(texts))


def met_classes(name: str, column: Column) -> tuple[str | int | bool, ...]:
    """The labels that occur, in the type of their column; a file of text has none, and there
    labels that print as whole numbers or as booleans are such.
    """
    texts = met_values(name, column)
    is_array = isinstance(column, np.ndarray)
    kinds = column if is_array or not pa.types.is_dictionary(column.type) else column.dictionary
    is_open = not is_array and bool(pa.types.is_binary(kinds.type))
    if set(texts) <= {"True", "False"} and (is_open or is_truth(kinds)):
        return tuple(text == "True" for text in texts)
    if (is_open or is_number(kinds)) and all(is_whole(text) for text in texts):
        return tuple(int(text) for text in texts)
    return texts


def _inferred_classes(labels: Column) -> tuple[str | int | bool, ...]:
    classes = met_classes(LABEL, labels)
    if len(classes) < 2:
        raise DataError(
            f"y holds {len(classes)} class(es), {list(classes)}; at least 2 are needed. Give a "
            "schema that lists all classes if this site simply never met the others."
        )
    return classes
