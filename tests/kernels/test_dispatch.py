"""Plain forms run until a change to compiled loops is paid for; the disk may help or not."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from hedgerow.kernels import codes, compilation, dispatch, newton, noise, sums, trees, units
from hedgerow.kernels.dispatch import Kernel, assumed_costs


class Clock:
    """Time that passes only while somebody works."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(dispatch, "thread_time", clock)
    monkeypatch.setattr(Kernel, "everyones_seconds", 0.0)
    monkeypatch.setattr(Kernel, "run_compiled", lambda self: "compiled")
    return clock


def kernel_of(clock: Clock, seconds: float, on_disk: bool) -> Kernel:
    """A kernel whose plain form takes `seconds`."""

    def plain() -> str:
        clock.now += seconds
        return "plain"

    kernel = Kernel(loop=lambda: "loop", plain=plain)
    kernel.is_compiled = lambda: on_disk  # type: ignore[method-assign]
    return kernel


def test_a_loop_on_the_disk_is_loaded_when_all_plain_work_has_paid_for_numba(clock: Clock) -> None:
    one, other = kernel_of(clock, 1.0, on_disk=True), kernel_of(clock, 1.0, on_disk=True)
    with assumed_costs(start=3.0, compile=100.0):
        forms = [kernel.run() for kernel in (one, other, one, other, one)]
    assert forms == ["plain", "plain", "plain", "compiled", "compiled"]


def test_a_new_loop_is_compiled_when_its_own_plain_work_has_paid_for_it(clock: Clock) -> None:
    rare, frequent = kernel_of(clock, 1.0, on_disk=False), kernel_of(clock, 4.0, on_disk=False)
    with assumed_costs(start=3.0, compile=10.0):
        assert [frequent.run() for _ in range(4)] == ["plain", "plain", "plain", "compiled"]
        assert rare.run() == "plain"


def test_a_long_loop_is_compiled_when_as_much_more_is_paid(clock: Clock) -> None:
    kernel = kernel_of(clock, 1.0, on_disk=False)
    kernel.effort = 4
    with assumed_costs(start=0.0, compile=1.0):
        assert [kernel.run() for _ in range(5)] == ["plain"] * 4 + ["compiled"]


@pytest.mark.parametrize("on_disk", [True, False])
@pytest.mark.parametrize("calls", [1, 5, 20, 1000])
def test_no_process_takes_twice_as_long_as_plain_forms_would(
    clock: Clock, on_disk: bool, calls: int
) -> None:
    """Up to the call during which the price is reached."""
    kernel, start, compile = kernel_of(clock, 0.25, on_disk), 0.5, 3.0
    with assumed_costs(start, compile):
        forms = [kernel.run() for _ in range(calls)]
    spent = clock.now
    if "compiled" in forms:
        spent += start + (0.0 if on_disk else compile)
    assert spent <= 2 * calls * 0.25 + start


def test_warm_loops_run_from_the_first_call_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Kernel, "everyones_seconds", 0.0)
    compilation.compile_kernels()
    monkeypatch.setattr(codes.RECODE, "plain", None)
    table = np.arange(256, dtype=np.uint8)[None, ::-1].copy()
    assert codes.recode(np.zeros((1, 2), np.uint8), table).tolist() == [[255, 255]]


def test_warming_knows_every_kernel_there_is() -> None:
    compilation.compile_kernels()
    rooms = (codes, newton, noise, sums, trees, units)
    kernels = {
        name: kernel
        for room in rooms
        for name, kernel in vars(room).items()
        if isinstance(kernel, Kernel)
    }
    assert len(kernels) > 10
    assert [n for n, k in kernels.items() if not dispatch._compile(k.loop).signatures] == []


# -------------------------------------------------------------------------------------- the disk
class ReadOnlyDisk:
    """numba, where no folder can be written."""

    @staticmethod
    def njit(cache: bool = False, nogil: bool = False) -> Any:
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return REAL_NUMBA.njit(nogil=nogil)


REAL_NUMBA = dispatch._numba()


@pytest.fixture
def read_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "_numba", ReadOnlyDisk)
    dispatch._warn_of_the_disk.cache_clear()


def test_a_disk_that_cannot_be_written_costs_time_and_one_warning_but_no_answer(
    read_only: None,
) -> None:
    cells = np.zeros((1, 4), np.uint8)
    table = np.arange(256, dtype=np.uint8)[None, ::-1].copy()
    out = np.empty_like(cells)
    compile = dispatch._compile.__wrapped__
    with pytest.warns(UserWarning, match="NUMBA_CACHE_DIR"):
        recode = compile(codes.RECODE.loop)
    compile(codes.SPLIT_ROWS.loop)  # a second warning would be an error
    recode(cells, table, out)
    assert recode.stats.cache_path is None
    np.testing.assert_array_equal(out, 255)


def test_who_waits_for_a_compiler_is_told_once_where_the_result_is_kept(tmp_path: Any) -> None:
    work = """
import numpy as np
from hedgerow.kernels import codes as encoding
from hedgerow.kernels.dispatch import assumed_costs
with assumed_costs(0, 0):
    encoding.recode(np.zeros((1, 1), np.uint8), np.zeros((1, 256), np.uint8))
    encoding.split_rows(np.zeros(1, np.uint8), None, 1)
"""
    for expected in (1, 0):  # the second process finds the loops
        command = [sys.executable, "-c", work]
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        done = subprocess.run(
            command, check=True, capture_output=True, text=True, env=environment
        ).stderr
        assert done.count("hedgerow compiles loops") == expected
        assert done.count(str(tmp_path)) == expected


def test_a_loop_that_another_process_compiled_is_found_on_the_disk(tmp_path: Any) -> None:
    work = """
import numpy as np
from hedgerow.kernels import codes as encoding
from hedgerow.kernels.dispatch import assumed_costs
print(encoding.RECODE.is_compiled(), encoding.SPLIT_ROWS.is_compiled())
with assumed_costs(0, 0):
    encoding.recode(np.zeros((1, 1), np.uint8), np.zeros((1, 256), np.uint8))
"""
    told = [run(work, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2)]
    assert told == ["False False", "True False"]
    for index in tmp_path.rglob("*.nbi"):  # as if it named a class that has moved since
        index.write_bytes(index.read_bytes().replace(b"Array", b"Moved"))
    assert run(work, NUMBA_CACHE_DIR=str(tmp_path)) == "False False"


def test_a_first_small_fit_does_not_start_numba() -> None:
    work = """
import sys
import numpy as np
from hedgerow.kernels.sums import count_cells
codes = np.zeros((30, 1000), np.uint8)
for node in range(31):
    count_cells(codes, None, range(30), codes[0], 32, 2)
print("numba" in sys.modules)
"""
    assert run(work) == "False"


def run(program: str, **environment: str) -> str:
    """What a fresh process prints."""
    command = [sys.executable, "-c", program]
    done = subprocess.run(
        command, check=True, capture_output=True, text=True, env={**os.environ, **environment}
    )
    return done.stdout.strip()
