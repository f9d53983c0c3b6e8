"""Tests never depend on how fast the machine happens to be."""

import gc
import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from hedgerow.kernels.build import build

for library in ("OPENBLAS", "OMP"):
    # Workers share the cores; threads of a library would only wait for each other, at full speed.
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")

HOWEVER_SLOW = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
# The short suite judges a change: same code, same examples. The long one looks for new ones.
settings.register_profile("short", derandomize=True, **HOWEVER_SLOW)
settings.register_profile("long", max_examples=200, **HOWEVER_SLOW)

IN_MEMORY, ROOM = Path("/dev/shm"), 4 * 2**30
"""Processes die in tests, not machines: thousands of ledgers and stores need not reach a disk."""


def has_room(folder: Path) -> bool:
    """Whether files of tests may lie there; some are libraries, which are run."""
    if not folder.is_dir() or os.statvfs(folder).f_flag & os.ST_NOEXEC:
        return False
    return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > ROOM


def pytest_configure(config: pytest.Config) -> None:
    """Says which suite this is, to Hypothesis and to `support/effort.py`."""
    gc.disable()  # until all is collected: modules and items stay to the end
    suite = "short" if "not slow" in config.option.markexpr else "long"
    os.environ["HEDGEROW_TESTS"] = suite
    settings.load_profile(suite)
    if "TMPDIR" not in os.environ and has_room(IN_MEMORY):
        os.environ["TMPDIR"] = tempfile.tempdir = str(IN_MEMORY)
    if not hasattr(config, "workerinput"):
        build()  # of this source, which may be newer than what is installed


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that wait for processes come first, then those of many tests: workers end together."""
    sizes = Counter(item.path for item in items)
    waiting = ("network", "browser")
    early = {item.path for item in items if any(map(item.get_closest_marker, waiting))}
    items.sort(key=lambda item: (item.path not in early, -sizes[item.path], item.path))


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(20_000)  # tests leave few cycles: looking for them at every turn is 5% of all
    gc.enable()
