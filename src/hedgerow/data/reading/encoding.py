"""From rows to cell codes, once per run, streamed.

Two manners. `check=True` is for people looking at their own data: the first thing that does not
fit the schema is a `DataError` that names it. Without it nothing about a single row is ever an
error, for a site that has joined a study must not let one record decide whether it answers: a
number that cannot be parsed is missing, an unknown category is `other`, a row without a usable
label is skipped. All are counted, and the counts stay at the site. That goes for the type of a
column too, since one row decides it: a date among objects is one unknown value.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hedgerow.data.reading.columns import Column, Strange, distinct, is_utf8, numbers
from hedgerow.data.reading.containers import RowTable, as_column, check_named
from hedgerow.data.reading.sources import Source, open_table
from hedgerow.errors import DataError, SpecError
from hedgerow.kernels.codes import encode_edges
from hedgerow.kernels.threads import blocks, each
from hedgerow.schema.grids import ColumnKind, Grid
from hedgerow.schema.schema import Schema, Target
from hedgerow.schema.tokens import Unusable, spelled, token_of

CHUNK_ROWS = 65_536
BLOCK_BYTES = 1 << 26
"""Of codes that are put away together while nobody knows how many rows come."""
LABEL = "label"
"""What counts and messages call labels that came as an array, without a column name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoded:
    """Rows on the schema's grid: all that a run needs of them.

    `clamped` (values outside the range), `unknown` (texts that are no number or no listed value),
    `missing` and `skipped` (rows without a usable label or person, broken lines) are for the
    site's own eyes, as is `reach`: from where to where the numbers of a column go.
    """

    codes: NDArray[np.uint8]  # (F, n), C-contiguous
    y: NDArray[np.uint8] | NDArray[np.float64] | None  # (n,) class codes, or clamped targets
    persons: NDArray[np.uint64] | None = None  # (n, 2) whose record it is; None: nobody said
    clamped: dict[str, int] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)
    skipped: int = 0
    missing: dict[str, int] = field(default_factory=dict)
    reach: dict[str, tuple[float, float]] = field(default_factory=dict)
    holders: tuple[list[str], NDArray[np.int32]] | None = None  # names, and (n,) whose a row is

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
    party: str | None = None,
    check: bool = False,
    chunk_rows: int = CHUNK_ROWS,
) -> Encoded:
    """Reads `source` chunk by chunk.

    Labels are the column `target` of the source, or the array `y`; with neither, only features
    are read. `person` says whose record each row is, as a column of the source or as an array:
    all rows of one person fall in one fold, and `Rows.of_each_person` keeps a few of them.
    `party` is a column that says who holds each row, where one source has the rows of several.
    """
    if y is not None and target is not None:
        raise SpecError("labels were given twice, as y and as the column `target`; give one.")
    table = open_table(source, schema.names)
    in_source = isinstance(person, str)
    check_named(
        table.where, table.names, target=target, person=person if in_source else None, party=party
    )
    labels = None if y is None else one_per_row(table, y, "y", "label")
    persons = None if person is None or in_source else _persons_for(table, person)
    encoder = _Encoder(schema, table, check, target or LABEL, target is not None or y is not None)
    extra = [name for name in (target, person if in_source else None, party) if name is not None]
    at = 0
    for columns in table.chunks([*schema.names, *extra], chunk_rows):
        features, rest = columns[: len(schema.names)], iter(columns[len(schema.names) :])
        rows = slice(at, at + len(columns[0]))
        label = next(rest) if target is not None else _part(labels, rows)
        who = next(rest) if in_source else _part(persons, rows)
        encoder.add(features, label, who, None if party is None else next(rest))
        at = rows.stop
    return encoder.finish()


def encode_features(X: Source, schema: Schema) -> NDArray[np.uint8]:
    """(F, n) codes of rows to be predicted; every row given gets a column."""
    return encode(X, schema, check=True).codes


def _persons_for(table: RowTable, person: Any) -> Column:
    return one_per_row(table, person, "person", "id")


def one_per_row(table: RowTable, values: Any, name: str, what: str) -> Column:
    column = as_column(values)
    if getattr(values, "ndim", 1) != 1 or len(column) != table.capacity:
        shape = getattr(values, "shape", (len(column),))
        raise DataError(
            f"{name} has shape {shape} and {table.where} has {table.capacity} rows; "
            f"give one {what} per row."
        )
    return column


def _part(column: Column | None, rows: slice) -> Column | None:
    return None if column is None else column[rows]


@dataclass(slots=True)
class _Block:
    codes: NDArray[np.uint8]  # (F, rows it has room for)
    y: NDArray[Any] | None
    n: int = 0

    @property
    def labels(self) -> NDArray[Any] | None:
        return None if self.y is None else self.y[: self.n]


class _Encoder:
    """Fills arrays that were reserved once, or one block after the other if nobody knew how many
    rows come.
    """

    def __init__(
        self, schema: Schema, table: RowTable, check: bool, label_name: str, has_labels: bool
    ) -> None:
        if has_labels and schema.classes is None and schema.target is None:
            raise SpecError("the schema declares neither classes nor a target; add one of them.")
        self._schema, self._table, self._check = schema, table, check
        self._label_name = label_name
        self._kind = np.uint8 if schema.classes is not None else np.float64
        self._has_labels = has_labels
        self._full: list[_Block] = []
        self._block = self._new_block(table.capacity)
        self._persons: list[NDArray[np.uint64]] = []
        self._holders: list[NDArray[np.int32]] = []
        self._holder_names: dict[str, int] = {}
        self._clamped: dict[str, int] = {}
        self._unknown: dict[str, int] = {}
        self._missing: dict[str, int] = {}
        self._reach: dict[str, tuple[float, float]] = {}
        self._skipped = 0

    def add(
        self,
        features: list[Column],
        label: Column | None,
        person: Column | None,
        party: Column | None = None,
    ) -> None:
        keep = np.ones(len(features[0]), np.bool_)
        self._make_room(len(keep))
        if person is not None:
            persons, keep = self._hashed_persons(person)
        block = self._block
        if label is not None and block.y is not None:
            values, labelled = self._labels(label)
            keep = keep & labelled
            block.y[block.n : block.n + int(keep.sum())] = values[keep]
        n = int(keep.sum())
        self._skipped += len(keep) - n
        each(lambda part: self._features(part, features, keep), blocks(len(features), 1))
        if person is not None:
            self._persons.append(persons[keep])
        if party is not None:
            self._holders.append(self._holders_of(party)[keep])
        block.n += n

    def _make_room(self, rows: int) -> None:
        """What is reserved and not yet used takes no memory."""
        if self._block.n + rows > self._block.codes.shape[1]:
            if self._block.n:
                self._full.append(self._block)
            self._block = self._new_block(max(rows, BLOCK_BYTES // len(self._schema.features)))

    def _new_block(self, rows: int) -> _Block:
        codes = np.empty((len(self._schema.features), rows), np.uint8)
        return _Block(codes, np.empty(rows, self._kind) if self._has_labels else None)

    def _holders_of(self, column: Column) -> NDArray[np.int32]:
        """(n,) the number of each row's holder, in the order in which they are met."""
        found = distinct(column)
        tokens = found.tokens()
        unnamed = [not isinstance(token, str) or token == "" for token in tokens]
        for value, times in found.met(unnamed):
            raise DataError(
                f"{self._table.where}: the party is {value!r} in {times} row(s); say for each row "
                "who holds it, or remove the row."
            )
        met, names = set(found.index.tolist()), self._holder_names
        numbers = [
            names.setdefault(str(token), len(names)) if place in met else -1
            for place, token in enumerate(tokens)
        ]
        return np.array(numbers, np.int32)[found.index]

    def finish(self) -> Encoded:
        self._skipped += self._broken_lines()
        self._full.append(self._block)
        self._block = self._new_block(0)
        codes, y = _joined(self._full)
        if self._check and not codes.shape[1]:
            raise DataError(f"{self._table.where} holds no rows; give at least one.")
        return Encoded(
            codes=codes,
            y=y,
            persons=np.concatenate(self._persons) if self._persons else None,
            holders=self._holders_in_order(),
            clamped=self._clamped,
            unknown=self._unknown,
            skipped=self._skipped,
            missing=self._missing,
            reach=self._reach,
        )

    def _holders_in_order(self) -> tuple[list[str], NDArray[np.int32]] | None:
        if not self._holders:
            return None
        return list(self._holder_names), np.concatenate(self._holders)

    def _broken_lines(self) -> int:
        broken = self._table.malformed
        if broken and self._check:
            raise DataError(
                f"{self._table.where} has {broken} line(s) with another number of cells than its "
                "header, with an open quote, or too long; correct or remove them."
            )
        return broken

    def _features(self, part: slice, columns: list[Column], keep: NDArray[np.bool_]) -> None:
        """Some columns of a chunk, on a thread of their own if there are several."""
        block = self._block
        at = slice(block.n, block.n + int(keep.sum()))
        for grid, column, out in zip(
            self._schema.grids[part], columns[part], block.codes[part], strict=True
        ):
            out[at] = self._feature(grid, column)[keep]

    def _feature(self, grid: Grid, column: Column) -> NDArray[np.uint8]:
        self._check_text(grid.feature, column)
        if grid.kind is ColumnKind.NUMERIC:
            values, strange = numbers(column)
            self._note(grid.feature, strange, "is not a number", "Correct it or leave it empty.")
            codes = np.empty(len(values), np.uint8)
            encode_edges(values, grid.edges, codes)
            self._count(self._clamped, grid.feature, grid.n_outside(values))
            self._count_missing(grid, codes, strange)
            self._note_reach(grid.feature, values)
            return codes
        found = distinct(column)
        tokens = found.tokens()
        strange = found.met([not grid.knows(token) for token in tokens])
        advice = f"Allowed are {list(grid.values[:20])}; set other to true to admit any value."
        self._note(grid.feature, strange, "is no value of the schema", advice, grid.other)
        codes = np.array([grid.category_code(token) for token in tokens], np.uint8)[found.index]
        self._count_missing(grid, codes, [] if grid.other else strange)
        return codes

    def _labels(self, column: Column) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """A value for each row, and whether the row has one."""
        name = self._label_name
        self._check_text(name, column)
        values: NDArray[Any]
        if self._schema.target is not None:
            values, strange = numbers(column)
            self._note(name, strange, "is not a number", "Correct it or remove the row.")
            missing = np.isnan(values)
            values = self._within(self._schema.target, values)
        else:
            values, missing, strange = self._class_codes(column)
            self._note(name, strange, "is no class", f"Allowed are {self._schema.classes}.")
        if self._check and missing.any():
            raise DataError(
                f"{self._table.where}, column {name!r}: {int(missing.sum())} label(s) are missing "
                "(empty or NaN); remove those rows."
            )
        return values, ~missing

    def _class_codes(self, column: Column) -> tuple[NDArray[np.uint8], NDArray[np.bool_], Strange]:
        found = distinct(column)
        tokens = found.tokens()
        known = [self._schema.class_code(token) for token in tokens]
        codes = np.array([code or 0 for code in known], np.uint8)
        missing = np.array([code is None for code in known], np.bool_)
        pairs = zip(known, tokens, strict=True)
        strange = found.met([code is None and token is not None for code, token in pairs])
        return codes[found.index], missing[found.index], strange

    def _hashed_persons(self, column: Column) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """(n, 2) 128 bits of each id's token, and whether the row has one.

        Rows without one belong to nobody knows whom, so that nothing could bound them together.
        """
        found = distinct(column)
        tokens = found.tokens()
        known = np.array([isinstance(token, str) and token != "" for token in tokens], np.bool_)
        if self._check:
            self._refuse_strangers(found.met((~known).tolist()))
        texts = [token if isinstance(token, str) else "" for token in tokens]
        digests = [hashlib.blake2b(t.encode("utf-8", "replace"), digest_size=16) for t in texts]
        joined = b"".join(digest.digest() for digest in digests)
        return np.frombuffer(joined, "<u8").reshape(-1, 2)[found.index], known[found.index]

    def _refuse_strangers(self, strange: Strange) -> None:
        for value, times in strange:
            refuse_unusable(f"{self._table.where}, the ids of persons", value)
            raise DataError(
                f"{self._table.where}: person is {value!r} in {times} row(s); say for each row "
                "whose record it is, or remove the row."
            )

    def _within(self, bound: Target, values: NDArray[np.float64]) -> NDArray[np.float64]:
        outside = (values < bound.low) | (values > bound.high)
        self._count(self._clamped, self._label_name, int(outside.sum()))
        return np.clip(values, bound.low, bound.high)

    def _check_text(self, name: str, column: Column) -> None:
        if self._check and not is_utf8(column):
            raise DataError(
                f"{self._table.where}, column {name!r} is not UTF-8 text; save the file as UTF-8."
            )

    def _note(
        self, name: str, strange: Strange, what: str, advice: str, allowed: bool = False
    ) -> None:
        if self._check:
            for value, _ in strange:
                where = f"{self._table.where}, column {name!r}"
                refuse_unusable(where, value)
                if not allowed:
                    raise DataError(f"{where}: {spelled(value)!r} {what}. {advice}")
        self._count(self._unknown, name, sum(times for _, times in strange))

    def _count_missing(self, grid: Grid, codes: NDArray[np.uint8], strange: Strange) -> None:
        """`strange` are unknown values that share the missing cell; they are counted already."""
        empty = int(np.count_nonzero(codes == grid.missing))
        self._count(self._missing, grid.feature, empty - sum(times for _, times in strange))

    def _note_reach(self, name: str, values: NDArray[np.float64]) -> None:
        finite = values[np.isfinite(values)] if self._check else values[:0]
        if finite.size:
            low, high = self._reach.get(name, (np.inf, -np.inf))
            self._reach[name] = (min(low, float(finite.min())), max(high, float(finite.max())))

    def _count(self, counts: dict[str, int], name: str, n: int) -> None:
        if n:
            counts[name] = counts.get(name, 0) + n


def _joined(blocks: list[_Block]) -> tuple[NDArray[np.uint8], NDArray[Any] | None]:
    """Codes and labels of all blocks. A block is let go as soon as it is copied, so that hardly
    more than its own memory is needed beside the result.
    """
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


def _without_the_rest(table: NDArray[np.uint8], n: int) -> NDArray[np.uint8]:
    """The first n columns, moved together in place: a copy would double the memory."""
    n_features, capacity = table.shape
    if n == capacity:
        return table
    flat = table.reshape(-1)
    for f in range(1, n_features):
        flat[f * n : (f + 1) * n] = table[f, :n]
    return flat[: n_features * n].reshape(n_features, n)


def refuse_unusable(where: str, value: object) -> None:
    """Tells an owner of a value that no schema can know."""
    token = token_of(value)
    if token is Unusable.TOO_LARGE:
        raise DataError(
            f"{where}: {value!r} is {token.value}, which a floating-point column cannot tell from "
            "its neighbours. Give the column as text, in the schema and in the rows."
        )
    if token is Unusable.NO_VALUE:
        raise DataError(
            f"{where} holds a {type(value).__name__}; use numbers, text or booleans. Turn a date "
            "into a number first, such as days since a public date."
        )
