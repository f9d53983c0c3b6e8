"""How far a computation is: plain lines with a total and an estimate, on a terminal or in a log."""

from __future__ import annotations

import csv
import io
import multiprocessing
import os
import sys
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TextIO

import pandas as pd

from hedgerow.errors import (
    DataWarning,
    ParameterError,
    PrivacyWarning,
    QualityWarning,
    SignalWarning,
)
from studies.code_version import code_version, gives_the_same
from studies.kept import Tables

SECONDS_BETWEEN_LINES = 10.0


class Progress:
    """Says how many of how many are done, at most every ten seconds, and at the end."""

    def __init__(
        self, title: str, total: int, out: TextIO, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.title, self.total, self.done = title, total, 0
        self._out, self._clock = out, clock
        self._began = self._said = clock()
        print(f"{title}: {total} to compute", file=out, flush=True)

    def advance(self) -> None:
        self.done += 1
        now = self._clock()
        if self.done == self.total or now - self._said >= SECONDS_BETWEEN_LINES:
            self._said = now
            print(self.line(now - self._began), file=self._out, flush=True)

    def line(self, seconds: float) -> str:
        left = seconds / self.done * (self.total - self.done)
        return (
            f"{self.title}: {self.done} of {self.total}, {_spoken(seconds)} gone, "
            f"about {_spoken(left)} left"
        )


def _spoken(seconds: float) -> str:
    if seconds < 100.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 6000.0 else f"{seconds / 3600.0:.1f} h"


# --------------------------------------------------------------------------------------------------
# Grids of fits on all cores: what is computed, what is reused, and how far it is.
#
# A cell is a mapping of plain values; its row lands in a file as soon as it is there, with the
# digest of the code that made it. By default everything is computed. `resume` takes rows that the
# same code has made, from a table or from a run that was cut short: Ctrl-C, kill -9 or a full disk
# lose one cell. A table is replaced only when a run ends, by the end of its grid or of its minutes;
# a cell that the run did not reach keeps the row it had, with the digest of the code that made that
# one.
Cell = Mapping[str, Any]
Work = Callable[..., Mapping[str, float]]
"""Called with a cell's values as keywords; gives measured numbers."""
Grid = tuple[Work, Sequence[Cell]]
Row = dict[str, str]

CODE = "code"
"""The column that says which code computed a row."""


@dataclass
class Computation:
    """One run of a study: where it writes, what it may take over, how long it may compute."""

    out: Path
    """Where the page and its figures go."""
    rows: Tables | None = None
    """Where tables are read and written; beside the page if not given."""
    resume: bool = False
    page_only: bool = False
    minutes: float | None = None
    workers: int | None = None
    only: tuple[str, ...] = ()
    """Tables to compute; the others stay as they are. None named are all of them."""
    computed: int = field(default=0, init=False)
    reused: int = field(default=0, init=False)
    wanted: int = field(default=0, init=False)
    rows_by: Counter[str] = field(default_factory=Counter, init=False)
    """How many rows there are by words for the code that made them; there may be several codes."""

    @property
    def kept(self) -> Tables:
        return self.rows or Tables(self.out)

    def tables(self, grids: Mapping[str, Grid]) -> dict[str, pd.DataFrame]:
        """By name, one row a finished cell. Grids without cells have no table."""
        asked = [_Table(self.kept, name, *grid) for name, grid in grids.items() if grid[1]]
        for name in set(self.only) - {table.name for table in asked}:
            raise ParameterError(
                f"--only {name} is no table of this study; it has "
                f"{', '.join(table.name for table in asked)}."
            )
        for table in asked:
            self._take_over(table)
        if not self.page_only:
            self._compute([table for table in asked if self._is_wanted(table)])
        for table in asked:
            self.rows_by += Counter(table.told(row) for row in table.asked())
        return {table.name: table.frame() for table in asked}

    def words(self) -> str:
        """What a page says about its rows: how many of those asked for, and by which code."""
        by = ", ".join(f"{n} {words}" for words, n in self.rows_by.most_common())
        return f"{self.rows_by.total()} of {self.wanted} fits: {by} (column `{CODE}` of the tables)"

    def summary(self) -> str:
        """What the command says when it ends."""
        missing = self.wanted - self.rows_by.total()
        left = f", {missing} left" if missing else ""
        return f"{self.computed} computed, {self.reused} reused{left}"

    def _take_over(self, table: _Table) -> None:
        self.wanted += len(table.cells)
        if self.page_only or not self._is_wanted(table):
            table.take(any_code=True)
        elif self.resume:
            table.take(any_code=False)
            table.begin()
        else:
            table.part.unlink(missing_ok=True)
        if self._is_wanted(table):
            self.reused += sum(table.is_present(row) for row in table.asked())

    def _is_wanted(self, table: _Table) -> bool:
        return not self.only or table.name in self.only

    def _compute(self, tables: Sequence[_Table]) -> None:
        waiting = [(table, cell) for table in tables for cell in table.waiting()]
        if waiting:
            for table, row in self._rows(waiting):
                table.add(row)
                self.computed += 1
        for table in tables:
            table.keep_what_was_not_reached()
            table.keep()

    def _rows(
        self, waiting: Sequence[tuple[_Table, Cell]]
    ) -> Iterator[tuple[_Table, Mapping[str, Any]]]:
        """Rows in the order in which they are ready, until time is over."""
        _one_thread()
        ends = None if self.minutes is None else time.monotonic() + 60.0 * self.minutes
        progress = Progress(self.out.name, len(waiting), sys.stderr)
        context = multiprocessing.get_context("spawn")
        workers = min(self.workers or os.cpu_count() or 1, len(waiting))
        with ProcessPoolExecutor(workers, context, _begin) as pool:
            try:
                running: dict[Future[Mapping[str, float]], tuple[_Table, Cell]] = {
                    pool.submit(table.work, **cell): (table, cell) for table, cell in waiting
                }
                for future in as_completed(running):
                    if future.cancelled():
                        continue
                    table, cell = running[future]
                    yield table, {**cell, **future.result(), CODE: table.code}
                    progress.advance()
                    if ends is not None and time.monotonic() > ends:
                        for other in running:
                            other.cancel()  # those that run are waited for
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


class _Table:
    """The rows of a grid: those that were taken over, and those of this run in a file beside."""

    def __init__(self, tables: Tables, name: str, work: Work, cells: Sequence[Cell]) -> None:
        self.tables, self.name, self.work, self.cells = tables, name, work, cells
        self.names = list(cells[0])
        self.wanted = {_key(cell) for cell in cells}
        self.rows: dict[tuple[str, ...], Row] = {}

    @cached_property
    def code(self) -> str:
        return code_version(self.work)

    @property
    def path(self) -> Path:
        assert self.tables.work is not None, "what an archive alone holds is read, not computed"
        return self.tables.work / f"{self.name}.csv"

    @property
    def part(self) -> Path:
        return self.path.with_suffix(".part.csv")

    def take(self, *, any_code: bool) -> None:
        """Finished rows, of the same code or of any; what a run left unfinished comes last."""
        for kind in ("csv", "part.csv"):
            for row in self._read(kind):
                row.setdefault(CODE, "")
                if any_code or self.is_present(row):
                    self.rows[self._key_of(row)] = row

    def is_present(self, row: Row) -> bool:
        """Made by the code of today, or by earlier code that gives the same answers."""
        module, cell = self.work.__module__, self._key_of(row)
        return row[CODE] == self.code or gives_the_same(module, row[CODE], cell)

    def told(self, row: Row) -> str:
        """How a page names the code of a row."""
        code = row[CODE]
        if not code:
            return "that name no code"
        same = code != self.code and self.is_present(row)
        return f"by code `{code}`{', which gives the answers of today' if same else ''}"

    def keep_what_was_not_reached(self) -> None:
        """Cells of this grid that time did not reach keep the rows they had.

        Not those that measured other things: a table has one set of columns.
        """
        columns = {name for row in self.rows.values() for name in row}
        for row in self._read("csv"):
            key = self._key_of(row)
            row.setdefault(CODE, "")
            if key in self.wanted and key not in self.rows and columns in (set(), set(row)):
                self.rows[key] = row

    def _read(self, kind: str) -> list[Row]:
        """The rows of a file, if it is there; a last line that a crash cut short is left out."""
        text = self.tables.text(f"{self.name}.{kind}") or ""
        lines = csv.DictReader(io.StringIO(text, newline=""))
        return [row for row in lines if None not in row.values()]

    def begin(self) -> None:
        """The unfinished rows anew: a line that a crash cut short must not get a second half."""
        self.part.unlink(missing_ok=True)
        if self.rows:
            _write(self.part, list(self.rows.values()))

    def asked(self) -> list[Row]:
        return [row for key, row in self.rows.items() if key in self.wanted]

    def waiting(self) -> list[Cell]:
        return [cell for cell in self.cells if _key(cell) not in self.rows]

    def add(self, row: Mapping[str, Any]) -> None:
        plain = {name: str(value) for name, value in row.items()}
        new = not self.part.exists()
        self.part.parent.mkdir(parents=True, exist_ok=True)
        with self.part.open("a", newline="", encoding="utf-8") as out:
            writer = csv.DictWriter(out, list(plain), lineterminator="\n")
            if new:
                writer.writeheader()
            writer.writerow(plain)
            out.flush()
            os.fsync(out.fileno())
        self.rows[self._key_of(plain)] = plain

    def _key_of(self, row: Row) -> tuple[str, ...]:
        return tuple(row[name] for name in self.names)

    def keep(self) -> None:
        """The table anew, in the order of its cells; rows that were not asked for come last."""
        if not self.rows:
            return
        place = {_key(cell): number for number, cell in enumerate(self.cells)}
        ordered = sorted(self.rows, key=lambda key: place.get(key, len(place)))
        _write(self.path, [self.rows[key] for key in ordered])
        self.part.unlink(missing_ok=True)

    def frame(self) -> pd.DataFrame:
        """The rows that were asked for, with the cells' own types."""
        rows = [self.rows[key] for cell in self.cells if (key := _key(cell)) in self.rows]
        table = pd.DataFrame(rows, columns=None if rows else [*self.names, CODE])
        for name in table.columns:
            if name in self.names:
                like = self.cells[0][name]
                table[name] = [_typed(text, like) for text in table[name]]
            elif name != CODE:
                table[name] = _numbers(list(table[name]))
        return table


def _begin() -> None:
    """What a worker does before its first fit."""
    threading.Thread(target=_end_with_the_command, daemon=True).start()
    _without_advice()


def _end_with_the_command() -> None:
    """A worker whose command was killed would compute on, unseen."""
    command = multiprocessing.parent_process()
    assert command is not None
    command.join()
    os._exit(1)


def _without_advice() -> None:
    """A study knows its deltas and its noise; advice on each of thousands of fits helps nobody."""
    for kind in (PrivacyWarning, DataWarning, QualityWarning, SignalWarning):
        warnings.simplefilter("ignore", kind)


def _one_thread() -> None:
    """Workers share the cores; a library that starts threads of its own would fight over them.

    Said before they start: a library reads it once, when it is imported.
    """
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = "1"


def _write(path: Path, rows: Sequence[Row]) -> None:
    """A whole file or none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_suffix(".new")
    with fresh.open("w", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    fresh.replace(path)


def _key(cell: Cell) -> tuple[str, ...]:
    return tuple(str(value) for value in cell.values())


def _numbers(texts: Sequence[str]) -> list[int] | list[float]:
    """Whole numbers if all are; "nan" and "inf" are numbers too."""
    whole = all(text.lstrip("-").isdigit() for text in texts)
    return [int(text) for text in texts] if whole else [float(text) for text in texts]


def _typed(text: str, like: Any) -> Any:
    return text == "True" if isinstance(like, bool) else type(like)(text)
