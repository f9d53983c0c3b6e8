"""When a loop over rows runs as plain NumPy and when compiled. Only this file starts numba.

A kernel is a *loop* that numba compiles and a *plain* NumPy form that is the definition; both
take the same arguments and leave the same bits. Starting numba costs more than a small fit, so a
process begins with the plain forms and changes over once they have done about as much work as
starting would have cost (the ski-rental rule: never worse than twice the better choice made in
hindsight).

A loop is never called as Python. Compiled, it checks no bounds: the function that calls it has
checked them. It is written for the compiler: indices are unsigned, since a signed one costs a
test for negative, and an element is read before it is chosen by, since a branch stays otherwise.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

Array = NDArray[Any]

PLAIN_STEPS = 2**26  # plain work, in steps of a few ns, that costs as much as starting numba

HELPERS: list[Callable[..., Any]] = []
_Function = TypeVar("_Function", bound=Callable[..., Any])


class Kernel:
    """A loop and its plain form; `run` picks one by the work done so far in this process."""

    steps_so_far: ClassVar[int] = 0

    def __init__(self, loop: Callable[..., Any], plain: Callable[..., Any]) -> None:
        self.loop, self.plain = loop, plain

    def run(self, steps: int, *args: Any) -> Any:
        Kernel.steps_so_far += steps
        if Kernel.steps_so_far < PLAIN_STEPS:
            return self.plain(*args)
        return self.compiled(*args)

    def compiled(self, *args: Any) -> Any:
        return _compile(self.loop)(*args)


def helper(function: _Function) -> _Function:
    """Marks what loops call, so that numba will know it too.

    A helper stands in the file of the loops that call it: numba compiles a loop anew when the
    loop's own file has changed, and looks at no other.
    """
    HELPERS.append(function)
    return function


def as_input(values: ArrayLike, dtype: DTypeLike) -> Array:
    """One layout and read-only: numba compiles a loop anew for every kind of array it meets."""
    array = np.ascontiguousarray(values, dtype=dtype).view()
    array.flags.writeable = False
    return array


@cache
def _numba() -> Any:
    import numba
    from numba.extending import register_jitable

    for function in HELPERS:
        register_jitable(function)
    return numba


@cache
def _compile(loop: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled on first use and kept on disk for the next process, where the disk allows it."""
    compiled: Callable[..., Any]
    try:
        compiled = _numba().njit(cache=True, nogil=True)(loop)
    except RuntimeError:  # neither the package's folder nor the user's can be written
        compiled = _numba().njit(nogil=True)(loop)
    return compiled
