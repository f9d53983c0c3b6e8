"""Runs a grid of experiments on all cores, keeps every finished cell, shows how far it is.

A cell is a mapping of plain values; its result is appended to a CSV file as soon as it is there.
Started again, finished cells are not run again: Ctrl-C, kill -9 or a full disk lose one cell.
"""

from __future__ import annotations

import csv
import multiprocessing
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

import pandas as pd
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

Cell = Mapping[str, Any]
Work = Callable[..., Mapping[str, float]]
"""Called with a cell's values as keywords; gives measured numbers."""


def run_grid(
    title: str, work: Work, cells: Sequence[Cell], results: Path, workers: int | None = None
) -> pd.DataFrame:
    """All cells' results as a table, one row a cell."""
    results.parent.mkdir(parents=True, exist_ok=True)
    done = _finished(results, cells)
    waiting = [c for c in cells if _key(c) not in done]
    if waiting:
        _run(title, work, waiting, results, workers or os.cpu_count() or 1)
    return _table(results, cells)


def finished(results: Path) -> pd.DataFrame:
    """All cells that are there, whoever asked for them."""
    return pd.read_csv(results)


def _run(title: str, work: Work, waiting: Sequence[Cell], results: Path, workers: int) -> None:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    _one_thread()
    context = multiprocessing.get_context("spawn")
    with (
        ProcessPoolExecutor(workers, mp_context=context) as pool,
        Progress(*columns) as progress,
    ):
        task = progress.add_task(title, total=len(waiting))
        running = {pool.submit(work, **cell): cell for cell in waiting}
        try:
            for future in as_completed(running):
                _append(results, {**running[future], **future.result()})
                progress.advance(task)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _one_thread() -> None:
    """Workers share the cores; a library that starts threads of its own would fight over them.

    Said before they start: a library reads it once, when it is imported.
    """
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"):
        os.environ[name] = "1"


def _append(results: Path, row: Mapping[str, Any]) -> None:
    new = not results.exists()
    with results.open("a", newline="", encoding="utf-8") as out:
        writer = csv.DictWriter(out, fieldnames=list(row))
        if new:
            writer.writeheader()
        writer.writerow(row)
        out.flush()
        os.fsync(out.fileno())


def _key(cell: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(str(v) for v in cell.values())


def _finished(results: Path, cells: Sequence[Cell]) -> set[tuple[str, ...]]:
    if not results.exists() or not cells:
        return set()
    names = list(cells[0])
    with results.open(newline="", encoding="utf-8") as lines:
        return {tuple(row[n] for n in names) for row in csv.DictReader(lines)}


def _table(results: Path, cells: Sequence[Cell]) -> pd.DataFrame:
    wanted = {_key(c) for c in cells}
    names = list(cells[0])
    table = pd.read_csv(results, dtype={n: str for n in names})
    keep = [tuple(row) in wanted for row in table[names].itertuples(index=False)]
    table = table[keep].copy()
    for name in names:
        table[name] = [type(cells[0][name])(_plain(v, cells[0][name])) for v in table[name]]
    return table.reset_index(drop=True)


def _plain(text: str, like: Any) -> Any:
    return text == "True" if isinstance(like, bool) else text
