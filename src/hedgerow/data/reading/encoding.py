"""Encodes rows into cell codes, once per run, as a stream.

There are two modes. With `check=True`, for owners who look at their own data, the first value that
does not fit the schema raises a `DataError` that names it. Without it no single row ever raises,
because one record must not decide whether a site in a study answers: a number that cannot be parsed
is missing, an unknown category is `other`, and a row without a usable label is skipped. All are
counted, and the counts stay at the site. The same holds for the type of a column, which one row
could change: a date among objects is one unknown value.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.data.reading.columns import (
    Column,
    Strange,
    distinct,
    is_utf8,
    numbers,
    parsed_distinct,
    parsed_numbers,
)
from hedgerow.data.reading.containers import ROWS_READ, RowTable, as_column, check_named
from hedgerow.data.reading.sources import Source, open_table
from hedgerow.errors import DataError, ParameterError
from hedgerow.kernels.codes import encode_edges
from hedgerow.kernels.threads import blocks, map_parts
from hedgerow.schema.arrays import BoolArray, Codes, FloatArray, Int32, Words
from hedgerow.schema.features import LABEL, SMALLEST_TIME
from hedgerow.schema.grids import ColumnKind, Grid
from hedgerow.schema.schema import Schema, Survival, Target
from hedgerow.schema.tokens import MISSING_TEXTS, Unusable, spell, token_of

CHUNK_ROWS = 65_536
BLOCK_BYTES = 1 << 26
"""Bytes of codes per block while the number of rows is unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """Rows encoded on the schema's grid.

    `clamped` (values outside the range), `unknown` (texts that are neither a number nor a listed
    value), `missing`, `skipped` (rows without a usable label or person, malformed lines) and
    `reach` (smallest and largest number of a column) never leave the site.
    """

    codes: Codes  # (F, n), C-contiguous
    y: Codes | FloatArray | None  # (n,) class codes, or clamped targets
    persons: Words | None = None  # (n, 2) person of each record; None: undeclared
    clamped: dict[str, int] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)
    skipped: int = 0
    missing: dict[str, int] = field(default_factory=dict)
    reach: dict[str, tuple[float, float]] = field(default_factory=dict)
    site_rows: tuple[list[str], Int32] | None = None  # names, (n,) site of each row

    @property
    def n(self) -> int:
        return int(self.codes.shape[1])


def encode(
    source: Source,
    schema: Schema,
    *,
    y: Any = None,
    target: str | None = None,
    person: Any = None,
    site: str | None = None,
    check: bool = False,
    chunk_rows: int = CHUNK_ROWS,
) -> Encoded:
    """Reads and encodes `source` chunk by chunk.

    Labels are the column `target` of the source or the array `y`; with neither, only features are
    read. For survival data `target` is the column of times and the schema names the column of
    events; `y` is one signed number (`schema.features.Survival`). `person` is a column or an array
    that identifies whose record each row is: all rows of a person share a fold, and
    `Rows.of_each_person` limits their number. `site` is a column that names the site of each row,
    if one source has several.
    """
    columns = (y, target, person, site)
    return _fill(source, schema, columns, check, chunk_rows).finish()


def encode_blocks(
    source: Source, schema: Schema, *, target: str, check: bool, folder: Path
) -> list[Encoded]:
    """Encodes into blocks backed by anonymous memory-mapped files; the first has all counts."""
    columns = (None, target, None, None)
    return _fill(source, schema, columns, check, CHUNK_ROWS, folder).finish_blocks()


def _fill(
    source: Source,
    schema: Schema,
    columns: tuple[Any, str | None, Any, str | None],
    check: bool,
    chunk_rows: int,
    folder: Path | None = None,
) -> _Encoder:
    """Encodes; `columns` are labels, label column, persons (or their column), site column."""
    y, target, person, site = columns
    if y is not None and target is not None:
        raise ParameterError("labels were given twice, as y and as the column `target`; give one.")
    table = open_table(source, schema.columns)
    in_source = isinstance(person, str)
    outcome = () if target is None else schema.label_columns(target)
    whose = person if in_source else None
    check_named(table.where, table.names, target=outcome, person=whose, site=site)
    labels = None if y is None else one_per_row(table, y, "y", "label")
    persons = None if person is None or in_source else one_per_row(table, person, "person", "id")
    has_labels = target is not None or y is not None
    encoder = _Encoder(schema, table, check, target or LABEL, has_labels, folder)
    extra = [*outcome, *(name for name in (whose, site) if name is not None)]
    at = 0
    for chunk in table.chunks([*schema.columns, *extra], chunk_rows):
        features = [chunk[place] for place in schema.sources]
        rest = iter(chunk[len(schema.columns) :])
        rows = slice(at, at + len(chunk[0]))
        label_columns = [next(rest) for _ in outcome] or [_part(labels, rows)]
        person_column = next(rest) if in_source else _part(persons, rows)
        label = label_columns if len(label_columns) > 1 else label_columns[0]
        encoder.add(features, label, person_column, None if site is None else next(rest))
        at = rows.stop
        ROWS_READ.get()(table.where, at)
    return encoder


def has_label(values: Column, grid: Grid) -> BoolArray:
    """(n,) False where the label is one of the schema's words for a missing one."""
    if not grid.sentinels:
        return np.ones(len(values), np.bool_)
    labels, tokens = parsed_distinct(values, grid)
    empty = {None, *MISSING_TEXTS} - set(grid.values)
    return np.array([token not in empty for token in tokens], np.bool_)[labels.index]


def encode_features(X: Source, schema: Schema) -> Codes:
    """(F, n) codes of rows to predict; no row is skipped."""
    return encode(X, schema, check=True).codes


def one_per_row(table: RowTable, values: Any, name: str, noun: str) -> Column:
    column = as_column(values)
    if getattr(values, "ndim", 1) != 1 or len(column) != table.capacity:
        shape = getattr(values, "shape", (len(column),))
        raise DataError(
            f"{name} has shape {shape} and {table.where} has {table.capacity} rows; "
            f"give one {noun} per row."
        )
    return column


def _part(column: Column | None, rows: slice) -> Column | None:
    return None if column is None else column[rows]


@dataclass(slots=True)
class _Block:
    codes: Codes  # (F, capacity)
    y: NDArray[Any] | None
    n: int = 0

    @property
    def labels(self) -> NDArray[Any] | None:
        return None if self.y is None else self.y[: self.n]


class _Encoder:
    """Fills preallocated arrays, or block after block if the number of rows is unknown."""

    def __init__(
        self,
        schema: Schema,
        table: RowTable,
        check: bool,
        label_name: str,
        has_labels: bool,
        folder: Path | None = None,
    ) -> None:
        if has_labels and schema.classes is None and schema.target is None:
            raise ParameterError(
                "the schema declares neither classes nor a target; add one of them."
            )
        self._schema, self._table, self._check = schema, table, check
        self._label_name = label_name
        self._sources = {grid.feature: grid.source for grid in schema.grids}
        self._kind = np.uint8 if schema.classes is not None else np.float64
        self._has_labels = has_labels
        self._full: list[_Block] = []
        self._folder = folder
        self._block = self._new_block(0 if folder else table.capacity)
        self._persons: list[Words] = []
        self._site_rows: list[Int32] = []
        self._site_names: dict[str, int] = {}
        self._clamped_counts, self._unknown, self._missing = (Counter[str]() for _ in range(3))
        self._reach: dict[str, tuple[float, float]] = {}
        self._n_skipped = 0

    def add(
        self,
        features: list[Column],
        label: Column | None,
        person: Column | None,
        site: Column | None = None,
    ) -> None:
        self._broken_lines()  # reports the first at once, not after the whole file
        keep = np.ones(len(features[0]), np.bool_)
        self._make_room(len(keep))
        if person is not None:
            persons, keep = self._hashed_persons(person)
        block = self._block
        if label is not None and block.y is not None:
            values, has_label = self._labels(label)
            keep = keep & has_label
            block.y[block.n : block.n + int(keep.sum())] = values[keep]
        n = int(keep.sum())
        self._n_skipped += len(keep) - n
        map_parts(lambda part: self._features(part, features, keep), blocks(len(features), 1))
        if person is not None:
            self._persons.append(persons[keep])
        if site is not None:
            self._site_rows.append(self._sites_of(site)[keep])
        block.n += n

    def _make_room(self, rows: int) -> None:
        """Reserves memory; untouched pages cost nothing."""
        if self._block.n + rows > self._block.codes.shape[1]:
            if self._block.n:
                self._full.append(self._block)
            self._block = self._new_block(max(rows, BLOCK_BYTES // len(self._schema.features)))

    def _new_block(self, rows: int) -> _Block:
        shape = (len(self._schema.features), rows)
        on_disk = self._folder is not None
        codes = map_cells(self._folder, shape) if on_disk else np.empty(shape, np.uint8)
        return _Block(codes, np.empty(rows, self._kind) if self._has_labels else None)

    def _sites_of(self, column: Column) -> Int32:
        """(n,) the number of each row's site, by first occurrence."""
        distinct_names = distinct(column)
        tokens = distinct_names.tokens()
        is_unnamed = [not isinstance(token, str) or token == "" for token in tokens]
        for value, times in distinct_names.met(is_unnamed):
            raise DataError(
                f"{self._table.where}: the site is {value!r} in {times} row(s); say for each row "
                "who holds it, or remove the row."
            )
        used_places, names = set(distinct_names.index.tolist()), self._site_names
        numbers = [
            names.setdefault(str(token), len(names)) if place in used_places else -1
            for place, token in enumerate(tokens)
        ]
        return np.array(numbers, np.int32)[distinct_names.index]

    def finish(self) -> Encoded:
        self._n_skipped += self._broken_lines()
        self._full.append(self._block)
        self._block = self._new_block(0)
        return self._finish(*_join_blocks(self._full))

    def finish_blocks(self) -> list[Encoded]:
        self._n_skipped += self._broken_lines()
        first, *others = [block for block in self._full if block.n] or [self._block]
        others += [self._block] if self._block.n and self._block is not first else []
        codes = [_without_the_rest(block.codes, block.n) for block in others]
        parts = zip(codes, [block.labels for block in others], strict=True)
        whole = self._finish(_without_the_rest(first.codes, first.n), first.labels)
        return [whole, *(Encoded(codes=part, y=y) for part, y in parts)]

    def _finish(self, codes: Codes, y: NDArray[Any] | None) -> Encoded:
        if self._check and not codes.shape[1]:
            raise DataError(f"{self._table.where} holds no rows; give at least one.")
        site_rows = None
        if self._site_rows:
            site_rows = list(self._site_names), np.concatenate(self._site_rows)
        return Encoded(
            codes=codes,
            y=y,
            persons=np.concatenate(self._persons) if self._persons else None,
            site_rows=site_rows,
            clamped=dict(+self._clamped_counts),
            unknown=dict(+self._unknown),
            skipped=self._n_skipped,
            missing=dict(+self._missing),
            reach=self._reach,
        )

    def _broken_lines(self) -> int:
        faults = self._table.faults
        if faults.n_malformed and self._check:
            problem = faults.first or f"{faults.n_malformed} line(s) are broken"
            raise DataError(
                f"{self._table.where}, {problem}; correct or remove it. A record has as many cells "
                "as the header and closes its quotes."
            )
        return faults.n_malformed

    def _features(self, part: slice, columns: list[Column], keep: BoolArray) -> None:
        """Encodes some columns of a chunk, possibly on one of several threads."""
        block = self._block
        at = slice(block.n, block.n + int(keep.sum()))
        for grid, column, out in zip(
            self._schema.grids[part], columns[part], block.codes[part], strict=True
        ):
            out[at] = self._feature(grid, column)[keep]

    def _feature(self, grid: Grid, column: Column) -> Codes:
        self._check_text(grid.source, column)
        if grid.kind is ColumnKind.NUMERIC:
            values, strange = parsed_numbers(column, grid)
            self._note(grid.feature, strange, *_no_number(grid))
            codes = np.empty(len(values), np.uint8)
            encode_edges(values, grid.edges, codes)
            outside = (values < grid.low) | (values > grid.high)
            self._clamped_counts[grid.feature] += int(np.count_nonzero(outside))
            self._count_missing(grid, codes, strange)
            self._note_reach(grid.feature, values)
            return codes
        distinct_values, tokens = parsed_distinct(column, grid)
        strange = distinct_values.met([not grid.knows(token) for token in tokens])
        advice = f"Allowed are {list(grid.values[:20])}; set other to true to admit any value."
        self._note(
            grid.feature, strange, "is not one of the values in the schema", advice, grid.other
        )
        cells = np.array([grid.category_code(token) for token in tokens], np.uint8)
        codes = cells[distinct_values.index]
        self._count_missing(grid, codes, [] if grid.other else strange)
        return codes

    def _labels(self, column: Column) -> tuple[NDArray[Any], BoolArray]:
        """A label per row, and whether the row has one."""
        name = self._label_name
        if not isinstance(column, list):
            self._check_text(name, column)
        values: NDArray[Any]
        if self._schema.survival is not None:
            values, missing = self._signed_times(self._schema.survival, column)
        elif self._schema.target is not None:
            values = self._label_numbers(name, column, self._schema.label_grids[0])
            missing = np.isnan(values)
            values = self._within(self._schema.target, values)
        else:
            values, missing, strange = self._class_codes(column)
            classes = ", ".join(map(str, self._schema.classes or ()))
            complaint = f"is not one of the classes ({classes})"
            self._note(name, strange, complaint, "Correct the label or the schema.")
        may_lack = self._schema.label_grids[0].sentinels and not self._is_array(name)
        if self._check and missing.any() and not may_lack:
            raise DataError(
                f"{self._place(name)}: {int(missing.sum())} label(s) are missing (empty or NaN); "
                "remove those rows."
            )
        return values, ~missing

    def _label_numbers(
        self, name: str, column: Column, grid: Grid, advice: str = "Correct it or remove the row."
    ) -> FloatArray:
        values, strange = parsed_numbers(column, grid)
        self._note(name, strange, _no_number(grid)[0], advice)
        return values

    def _signed_times(
        self, survival: Survival, columns: Column | list[Column]
    ) -> tuple[FloatArray, BoolArray]:
        """Event times, negated if censored, and which rows have one."""
        if isinstance(columns, list):
            time, event = self._schema.label_grids
            times = self._label_numbers(survival.time, columns[0], time)
            events = self._label_numbers(survival.event, columns[1], event, NO_CAUSES)
            if self._check:
                refuse_times(self._table.where, survival, times, events)
            values = signed_times(times, events)
        else:
            values = numbers(columns)[0]
        late = np.abs(values) > survival.horizon
        self._clamped_counts[self._label_name] += int(late.sum())
        return np.where(late, -survival.horizon, values), np.isnan(values)

    def _class_codes(self, column: Column) -> tuple[Codes, BoolArray, Strange]:
        distinct_values, tokens = parsed_distinct(column, self._schema.label_grids[0])
        class_codes = [self._schema.class_code(token) for token in tokens]
        codes = np.array([code or 0 for code in class_codes], np.uint8)
        missing = np.array([code is None for code in class_codes], np.bool_)
        pairs = zip(class_codes, tokens, strict=True)
        strange = distinct_values.met([code is None and token is not None for code, token in pairs])
        return codes[distinct_values.index], missing[distinct_values.index], strange

    def _hashed_persons(self, column: Column) -> tuple[Words, BoolArray]:
        """(n, 2) a 128-bit hash of each person's token, and whether the row has one.

        A row without a person is skipped: its contribution could not be bounded with the person's
        others.
        """
        distinct_values = distinct(column)
        tokens = distinct_values.tokens()
        is_named = np.array([isinstance(token, str) and token != "" for token in tokens], np.bool_)
        for value, times in distinct_values.met((~is_named).tolist()) if self._check else ():
            refuse_unusable(f"{self._table.where}, the ids of persons", value)
            raise DataError(
                f"{self._table.where}: person is {value!r} in {times} row(s); say for each row "
                "whose record it is, or remove the row."
            )
        texts = [token if isinstance(token, str) else "" for token in tokens]
        digests = [hashlib.blake2b(t.encode("utf-8", "replace"), digest_size=16) for t in texts]
        words = np.frombuffer(b"".join(d.digest() for d in digests), "<u8").reshape(-1, 2)
        return words[distinct_values.index], is_named[distinct_values.index]

    def _within(self, bound: Target, values: FloatArray) -> FloatArray:
        outside = (values < bound.low) | (values > bound.high)
        self._clamped_counts[self._label_name] += int(outside.sum())
        return np.clip(values, bound.low, bound.high)

    def _check_text(self, name: str, column: Column) -> None:
        if self._check and not is_utf8(column):
            raise DataError(
                f"{self._table.where}, column {name!r} is not UTF-8 text; save the file as UTF-8."
            )

    def _is_array(self, name: str) -> bool:
        """Whether labels came as an array; rows without one are then not skipped."""
        return name == LABEL and name not in self._table.names

    def _place(self, name: str, value: object = None) -> str:
        """The value's location in the user's terms: a column of the rows, or y."""
        if self._is_array(name):
            return "y"
        column = self._sources.get(name, name)
        line = None if value is None else self._table.find(column, value)
        return ", ".join(part for part in (self._table.where, line, f"column {column!r}") if part)

    def _note(
        self, name: str, strange: Strange, complaint: str, advice: str, is_allowed: bool = False
    ) -> None:
        if self._check:
            for value, _ in strange:
                where = self._place(name)
                refuse_unusable(where, value)
                if not is_allowed:
                    where = self._place(name, value)
                    raise DataError(f"{where}: {spell(value)!r} {complaint}. {advice}")
        self._unknown[name] += sum(times for _, times in strange)

    def _count_missing(self, grid: Grid, codes: Codes, strange: Strange) -> None:
        """Counts missing codes, without `strange` values, which are counted as unknown."""
        empty = int(np.count_nonzero(codes == grid.missing))
        self._missing[grid.feature] += empty - sum(times for _, times in strange)

    def _note_reach(self, name: str, values: FloatArray) -> None:
        finite = values[np.isfinite(values)] if self._check else values[:0]
        if finite.size:
            low, high = self._reach.get(name, (np.inf, -np.inf))
            self._reach[name] = (min(low, float(finite.min())), max(high, float(finite.max())))


def _no_number(grid: Grid) -> tuple[str, str]:
    if grid.parser is None:
        return "is not a number", "Correct it or leave it empty."
    words = ", ".join(f"{key} {value}" for key, value in grid.parser.entries.items())
    return f"cannot be read ({words})", "Correct it, or list it in `missing` of the column."


NO_CAUSES = (
    "Write 1 or TRUE for the event and 0 or FALSE for a record without it; `event_parse` declares "
    "other words. Competing risks are not supported: several causes need a model each, with the "
    "others censored, which answers another question."
)


def signed_times(times: Any, events: Any) -> FloatArray:
    """(n,) event times, negated if censored; NaN if time or event is missing."""
    t, e = np.asarray(times, np.float64), np.asarray(events, np.float64)
    with np.errstate(invalid="ignore"):
        usable = (t >= 0.0) & ((e == 0.0) | (e == 1.0))
    held_times = np.maximum(np.where(usable, t, np.nan), SMALLEST_TIME)
    return np.where(e == 1.0, held_times, -held_times)


def refuse_times(where: str, survival: Survival, times: Any, events: Any) -> None:
    """Raises for a time or event that is not valid."""
    for value in times[times < 0.0][:1]:
        raise DataError(f"{where}, column {survival.time!r} holds {value:g}; use times from 0 on.")
    for value in events[~np.isnan(events) & (events != 0.0) & (events != 1.0)][:1]:
        raise DataError(f"{where}, column {survival.event!r} holds {value:g}. {NO_CAUSES}")


def map_cells(folder: Path | None, shape: tuple[int, int]) -> Codes:
    """An array in an unnamed file, which the system removes when the process ends."""
    if not shape[1]:
        return np.empty(shape, np.uint8)
    try:
        with TemporaryFile(dir=folder) as file:
            if hasattr(os, "posix_fallocate"):  # detects a full disk now, not at a later write
                os.posix_fallocate(file.fileno(), 0, shape[0] * shape[1])
            return np.memmap(file, np.uint8, "w+", shape=shape)
    except OSError as error:
        raise DataError(
            f"temp_folder {str(folder)!r} cannot hold {shape[0] * shape[1]:,} bytes more "
            f"({error.strerror}); name a folder with room for one byte of each value."
        ) from None


def _join_blocks(blocks: list[_Block]) -> tuple[Codes, NDArray[Any] | None]:
    """Joins codes and labels; each block is freed once copied, to limit peak memory."""
    if len(blocks) == 1:
        (block,) = blocks
        return _without_the_rest(block.codes, block.n), block.labels
    labels = [block.labels for block in blocks if block.labels is not None]
    y = np.concatenate(labels) if labels else None
    codes = np.empty((len(blocks[0].codes), sum(block.n for block in blocks)), np.uint8)
    at = 0
    while blocks:
        block = blocks.pop(0)
        codes[:, at : at + block.n] = block.codes[:, : block.n]
        at += block.n
    return codes, y


def _without_the_rest(table: Codes, n: int) -> Codes:
    """The first n columns, compacted in place to avoid a second copy."""
    n_features, capacity = table.shape
    if n == capacity:
        return table
    flat = table.reshape(-1)
    for f in range(1, n_features):
        flat[f * n : (f + 1) * n] = table[f, :n]
    return flat[: n_features * n].reshape(n_features, n)


def refuse_unusable(where: str, value: object) -> None:
    """Raises for a value that no schema can describe."""
    token = token_of(value)
    if token is Unusable.TOO_LARGE:
        raise DataError(
            f"{where}: {value!r} is {token.value}, which a floating-point column cannot tell from "
            "its neighbors. Give the column as text, in the schema and in the rows."
        )
    if token is Unusable.NO_VALUE:
        raise DataError(
            f"{where} holds a {type(value).__name__}; use numbers, text or booleans. For a date "
            'declare parse = "date" in the schema: it becomes days since a public date.'
        )
