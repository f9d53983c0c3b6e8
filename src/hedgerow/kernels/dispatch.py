"""When a loop over rows runs as plain NumPy and when compiled. Only this file starts numba.

A kernel is a *loop* that numba compiles and a *plain* NumPy form that is the definition; both
take the same arguments and leave the same bits. Starting numba costs more than a small fit, and
compiling a loop for the first time more than that. So a process begins with the plain forms and
changes over, for each loop, once they have run for as long as the change will take (the ski-rental
rule: never worse than twice the better choice made in hindsight). `compile_kernels` does it at
once.

numba keeps compiled loops in the package's own `__pycache__`, or, where that cannot be written, in
the user's cache folder; NUMBA_CACHE_DIR names another place. The log says so when a loop has to be
compiled. Where no folder can be written, every process compiles anew, and a warning says so.
`hedgerow compile` compiles all loops ahead of use.

A loop is never called as Python. Compiled, it checks no bounds: the function that calls it has
checked them. It is written for the compiler: indices are unsigned, since a signed one costs a
test for negative, and an element is read before it is chosen by, since a branch stays otherwise.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from time import thread_time
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from hedgerow.errors import DataError, warn
from hedgerow.schema.arrays import BoolArray, Codes, Int32

Array = NDArray[Any]

HELPERS: list[Callable[..., Any]] = []
_Function = TypeVar("_Function", bound=Callable[..., Any])


class Prices(NamedTuple):
    """CPU seconds of a change to compiled loops."""

    start: float  # importing numba and loading a first loop from the disk
    compile: float  # a loop that is not on the disk, for each unit of its effort


PRICES = Prices(start=0.6, compile=0.2)
KERNEL_LOG = logging.getLogger("hedgerow.kernels")


class Kernel:
    """A loop and its plain form; `run` picks one by the time spent so far in this process."""

    everyones_seconds: ClassVar[float] = 0.0

    def __init__(
        self, loop: Callable[..., Any], plain: Callable[..., Any], effort: int = 1
    ) -> None:
        """`effort` is how many times the time of a small loop this one takes to compile."""
        self.loop, self.plain, self.effort = loop, plain, effort
        self.seconds = 0.0

    def run(self, *args: Any) -> Any:
        if self._is_due():
            return self.run_compiled(*args)
        began = thread_time()
        result = self.plain(*args)
        spent = thread_time() - began
        self.seconds += spent
        Kernel.everyones_seconds += spent
        return result

    def run_compiled(self, *args: Any) -> Any:
        if not self.is_compiled():
            _tell_of_compiling(folder_of(self))
        return _compile(self.loop)(*args)

    def _is_due(self) -> bool:
        """Whether the plain forms have taken as long as a change will take."""
        if Kernel.everyones_seconds < PRICES.start:
            return False
        return self.seconds >= PRICES.compile * self.effort or self.is_compiled()

    def is_compiled(self) -> bool:
        """In this process, or by an earlier one."""
        return bool(_compile(self.loop).overloads) or _is_on_disk(self.loop)


def helper(function: _Function) -> _Function:
    """Registers a function that loops call, so that numba compiles it too.

    A helper stands in the file of the loops that call it: numba compiles a loop anew when the
    loop's own file has changed, and checks no other.
    """
    HELPERS.append(function)
    return function


def as_input(values: ArrayLike, dtype: DTypeLike) -> Array:
    """One layout and read-only: numba compiles a loop anew for every kind of array it meets."""
    array = np.ascontiguousarray(values, dtype=dtype).view()
    array.flags.writeable = False
    return array


@contextmanager
def assumed_costs(start: float, compile: float) -> Iterator[None]:
    """Changes the assumed prices for a while; at price 0 loops are compiled at once."""
    global PRICES
    before, PRICES = PRICES, Prices(start, compile)
    try:
        yield
    finally:
        PRICES = before


@cache
def _numba() -> Any:
    import numba
    from numba.extending import register_jitable

    for function in HELPERS:
        register_jitable(function)
    return numba


@cache
def _compile(loop: Callable[..., Any]) -> Any:
    """Compiled on first use and kept on disk for the next process, where the disk allows it."""
    try:
        dispatcher = _numba().njit(cache=True, nogil=True)(loop)
    except RuntimeError:  # no folder that numba tries can be written
        _warn_of_the_disk()
        return _numba().njit(nogil=True)(loop)
    for index in _indexes(loop, Path(dispatcher.stats.cache_path)):
        _drop_unreadable(index)
    return dispatcher


def _indexes(loop: Callable[..., Any], folder: Path) -> Iterator[Path]:
    """Files in which numba lists what it has compiled of a loop."""
    return folder.glob(f"*.{loop.__name__}-*.nbi")


def _drop_unreadable(index: Path) -> None:
    """Deletes an index of another release: numba reads it before checking its age, and fails.

    An index names the types of a loop's arguments; one that names a class which has moved since
    cannot be read any more.
    """
    try:
        with index.open("rb") as file:
            pickle.load(file), pickle.load(file)
    except FileNotFoundError:
        pass  # another process was faster
    except Exception:
        index.unlink(missing_ok=True)


def folder_of(kernel: Kernel) -> str | None:
    """Where a compiled loop is kept; None if no folder can be written."""
    folder: str | None = _compile(kernel.loop).stats.cache_path
    return folder


@cache
def _is_on_disk(loop: Callable[..., Any]) -> bool:
    """A guess by names: a stale file costs one compilation that was not paid for."""
    folder = _compile(loop).stats.cache_path
    return folder is not None and any(_indexes(loop, Path(folder)))


@cache
def _tell_of_compiling(folder: str | None) -> None:
    """Logs once per process that loops are compiled, which takes some seconds."""
    where = "for this process" if folder is None else f"once for this machine, kept in {folder}"
    KERNEL_LOG.warning(
        "hedgerow compiles loops %s; each takes some seconds. `hedgerow compile` does it ahead of "
        "use, NUMBA_CACHE_DIR names another folder.",
        where,
    )


@cache
def _warn_of_the_disk() -> None:
    warn(
        "compiled loops cannot be kept: neither hedgerow's folder nor the user's cache can be "
        "written, so every process compiles them anew, some seconds each. Set NUMBA_CACHE_DIR to "
        "a folder that can be written.",
        UserWarning,
    )


# --------------------------------------------------------------------------------------------------
# Checks that a compiled loop does not make: it has no bounds checks.
#
# A sum of labels or statistics passes here before its loop begins. What is wrong with all rows is
# an error of the caller; what is wrong with one record must not raise, since an error after a
# charge would reveal it: that record is left out.


def check_selection(rows: Int32, n_rows: int) -> None:
    if rows.size and not 0 <= rows.min() <= rows.max() < n_rows:
        raise DataError(f"rows {rows.min()} to {rows.max()} were selected of {n_rows}.")


def check_one_each(values: Array, n_rows: int) -> None:
    if len(values) != n_rows:
        raise DataError(
            f"{len(values)} labels or statistics for {n_rows} rows; give one for each row."
        )


def unknown_labels(labels: Codes, n_classes: int) -> BoolArray | None:
    """(n,) which records have a label that is no class; None if there are none, as should be."""
    if not labels.size or 0 <= labels.min() <= labels.max() < n_classes:
        return None
    return np.asarray((labels < 0) | (labels >= n_classes))


def rows_without(left_out: BoolArray, rows: Int32 | None) -> Int32:
    """The rows of a selection, but for those that are left out."""
    if rows is None:
        return np.flatnonzero(~left_out).astype(np.int32)
    check_selection(rows, len(left_out))
    return rows[~left_out[rows]]
