"""Compiled loops where they are, plain forms where not; nothing is compiled while hedgerow runs."""

from __future__ import annotations

import logging
import re
from pathlib import Path

import numpy as np
import pytest

from hedgerow.kernels import build, codes, dispatch, newton, noise, sums, surfaces, trees, units
from hedgerow.kernels.build import FOR_ANY, FOR_AVX2
from hedgerow.kernels.dispatch import PLAIN, Kernel, as_input
from hedgerow.models.packing import PackedTrees

MODULES = (codes, newton, noise, sums, surfaces, trees, units)
KERNELS = [
    kernel for module in MODULES for kernel in vars(module).values() if isinstance(kernel, Kernel)
]
TABLE = np.arange(256, dtype=np.uint8)[None, ::-1].copy()
CELLS = np.zeros((1, 4), np.uint8)
SOURCE = build.SOURCE.read_text(encoding="utf-8")


@pytest.fixture
def no_library(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """As after an installation without a compiler."""
    caches = (dispatch._loop, dispatch._library)
    for cached in caches:
        cached.cache_clear()
    monkeypatch.setattr(dispatch, "library", lambda kind: tmp_path / f"{kind}.so")
    yield
    for cached in caches:
        cached.cache_clear()


def test_every_kernel_runs_compiled_and_every_loop_has_a_kernel() -> None:
    loops = set(re.findall(r"^i64 (\w+)\(const Arg \*", SOURCE, re.M))
    assert {kernel.name for kernel in KERNELS} == loops
    assert all(dispatch._loop(kernel.name, FOR_AVX2) for kernel in KERNELS)


def test_the_plain_form_does_not_run_where_a_loop_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codes.RECODE, "plain", lambda *given: 1 // 0)
    assert codes.recode(CELLS, TABLE).tolist() == [[255] * 4]
    monkeypatch.setattr(dispatch, "FORM", PLAIN)
    with pytest.raises(ZeroDivisionError):
        codes.recode(CELLS, TABLE)


def test_without_loops_answers_are_the_same_and_the_log_says_once_what_to_do(
    no_library: None, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "hedgerow.kernels"):
        for _ in range(2):
            assert codes.recode(CELLS, TABLE).tolist() == [[255] * 4]
    assert caplog.text.count("python -m hedgerow.kernels.build") == 1


@pytest.mark.parametrize("cells", [CELLS.astype(np.int64), np.zeros((1, 8), np.uint8)[:, ::2]])
def test_a_loop_reads_no_array_of_another_type_or_layout(cells: np.ndarray) -> None:
    with pytest.raises(TypeError, match=r"recode.*expected uint8 in order"):
        codes.RECODE.run(cells, TABLE, np.empty((1, 4), np.uint8))


def test_any_layout_of_codes_becomes_the_one_that_loops_read() -> None:
    some = np.random.default_rng(1).integers(256, size=(3, 50), dtype=np.uint8)
    tables = np.tile(TABLE, (3, 1))
    for same in (np.asfortranarray(some), np.repeat(some, 2, axis=1)[:, ::2], some.astype(int)):
        np.testing.assert_array_equal(codes.recode(same, tables), 255 - some)
    assert as_input(some, np.uint8).base is some  # nothing is copied without need
    assert not as_input(some, np.uint8).flags.writeable


def test_loops_read_the_fields_of_packed_trees_in_their_order() -> None:
    listed = re.findall(r"enum \{ (ROOT.*?) \};\nenum \{ (.*?), N_FIELDS \};", SOURCE)
    names = re.sub(r" = .*?,", ",", ", ".join(listed[0])).lower().split(", ")
    assert tuple(names) == PackedTrees._fields
    assert len(trees.PACKED_TYPES) == len(names)


def test_a_loop_without_memory_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "_loop", lambda name, form: lambda words: dispatch.NO_MEMORY)
    with pytest.raises(MemoryError):
        codes.recode(CELLS, TABLE)
    assert f"NO_MEMORY = {dispatch.NO_MEMORY}," in SOURCE


# ------------------------------------------------------------------------------------ the library
def test_another_source_has_another_library(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, changed = build.library(FOR_ANY), tmp_path / "loops.c"
    changed.write_text(SOURCE.replace("BLOCK = 4096", "BLOCK = 2048"), encoding="utf-8")
    stale = tmp_path / "loops-any-0123456789ab.so"
    stale.touch()
    monkeypatch.setattr(build, "SOURCE", changed)
    build._digest.cache_clear()
    try:
        assert build.library(FOR_ANY).name != before.name
        made = build.build()
        assert all(path.stat().st_size > 10_000 for path in made)
        assert set(tmp_path.glob("loops-*")) == set(made)
    finally:
        build._digest.cache_clear()


def test_a_build_without_a_compiler_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(build.shutil, "which", lambda name: None)
    monkeypatch.setattr(build, "find_spec", lambda name: None)
    with pytest.raises(OSError, match="pip install ziglang"):
        build._compiler()
    monkeypatch.setattr(build, "find_spec", lambda name: object())
    assert build._compiler()[1:] == ["-m", "ziglang", "cc"]


def test_wheels_for_linux_need_no_newer_system_than_they_say() -> None:
    """`manylinux_2_17` is what releases are tagged with."""
    for path in build.build():
        found = re.findall(rb"GLIBC_2\.(\d+)", path.read_bytes())
        assert max(map(int, found), default=0) <= 17
