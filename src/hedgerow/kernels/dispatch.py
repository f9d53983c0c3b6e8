"""Loops over rows: compiled where they are installed, else plain NumPy.

A kernel is a loop of `loops.c` together with a plain NumPy form that defines it; both take the same
arguments and give the same bits. `build.py` compiles the loops before hedgerow runs, so that no
first fit waits and no reply is delayed by a compiler. A loop releases Python's lock. It checks no
bounds: its caller has checked them, and types and layout are checked here.
"""

from __future__ import annotations

import ctypes
import logging
import struct
from array import array
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from hedgerow.errors import DataError
from hedgerow.kernels.build import FOR_ANY, FOR_AVX2, library
from hedgerow.schema.arrays import BoolArray, Codes, Int32

Array = NDArray[Any]

NO_MEMORY = -2
NO_SHAPE = (0, 0, 0, 0)
NUMBERS = {"N": float, "W": int}
FLOAT = struct.Struct("d32x")
PLAIN = "plain"
FORM = FOR_AVX2
"""The fastest form to use. Without AVX2 the generic form runs; tests set every form."""
KERNEL_LOG = logging.getLogger("hedgerow.kernels")


class Kernel:
    """A compiled loop, by its name, and its plain form.

    A loop that fuses the steps of others has no plain form: where it is not compiled, `run` is None
    and changes nothing, and its caller takes the steps, which are its definition.
    `types` has NumPy's letter for the type of each array argument; N is a float, W an integer.
    """

    def __init__(self, name: str, plain: Callable[..., Any] | None, types: str) -> None:
        self.name, self.plain = name, plain
        self.types = [NUMBERS.get(letter) or np.dtype(letter) for letter in types]

    def run(self, *args: Any) -> Any:
        loop = _loop(self.name, FORM)
        if loop is None:
            return self.plain and self.plain(*args)
        words = self._words(args)
        result = loop(words.buffer_info()[0])
        if result == NO_MEMORY:
            raise MemoryError
        return result

    def _words(self, args: tuple[Any, ...]) -> array[int]:
        """The arguments as loops read them: an address and a shape each, or a number."""
        words = array("q")
        for arg, kind in zip(_spread(args), self.types, strict=True):
            if kind is float:
                words.frombytes(FLOAT.pack(arg))
            elif kind is int:
                words.extend((arg, 0, 0, 0, 0))
            elif arg.dtype == kind and arg.flags.c_contiguous:
                words.extend((arg.ctypes.data, *arg.shape, *NO_SHAPE[arg.ndim :]))
            else:
                raise TypeError(f"{self.name}: {arg.dtype} {arg.strides}, expected {kind} in order")
        return words


def _spread(args: tuple[Any, ...]) -> Iterator[Any]:
    """Replaces a tuple of arguments by its members."""
    for arg in args:
        if isinstance(arg, tuple):
            yield from arg
        else:
            yield arg


@cache
def _loop(name: str, form: str) -> Callable[[int], int] | None:
    loops = _library(form)
    if loops is None:
        return None
    loop = getattr(loops, name)
    loop.argtypes, loop.restype = (ctypes.c_void_p,), ctypes.c_int64
    return cast(Callable[[int], int], loop)


@cache
def _library(form: str) -> ctypes.CDLL | None:
    """The loops for this processor; None if there are none, which is logged once."""
    if form == PLAIN:
        return None
    try:
        loops = ctypes.CDLL(str(library(FOR_ANY)))
        is_fast = form == FOR_AVX2 and loops.runs_avx2()
        return ctypes.CDLL(str(library(FOR_AVX2))) if is_fast else loops
    except OSError as error:
        KERNEL_LOG.warning(
            "hedgerow runs in plain NumPy, which is slower from some ten thousand rows on: it has "
            "no compiled loops. `python -m hedgerow.kernels.build` makes them with a C compiler. "
            "(%s)",
            error,
        )
        return None


def as_input(values: ArrayLike, dtype: DTypeLike) -> Array:
    """The values in the layout and type that a loop expects, read-only; copied if necessary."""
    array = np.ascontiguousarray(values, dtype=dtype).view()
    array.flags.writeable = False
    return array


# Checks that a compiled loop does not make. A problem with all rows is an error of the caller. A
# problem with one record must not raise, since an error after a charge would reveal it: that record
# is left out.


def check_selection(rows: Int32, n_rows: int) -> None:
    if rows.size and not 0 <= rows.min() <= rows.max() < n_rows:
        raise DataError(f"rows {rows.min()} to {rows.max()} were selected of {n_rows}.")


def check_one_each(values: Array, n_rows: int) -> None:
    if len(values) != n_rows:
        raise DataError(
            f"{len(values)} labels or statistics for {n_rows} rows; give one for each row."
        )


def unknown_labels(labels: Codes, n_classes: int) -> BoolArray | None:
    """(n,) which records have a label that is no class; None if there are none."""
    if not labels.size or 0 <= labels.min() <= labels.max() < n_classes:
        return None
    return np.asarray((labels < 0) | (labels >= n_classes))


def rows_without(left_out: BoolArray, rows: Int32 | None) -> Int32:
    """The rows of a selection without those that are left out."""
    if rows is None:
        return np.flatnonzero(~left_out).astype(np.int32)
    check_selection(rows, len(left_out))
    return rows[~left_out[rows]]
