"""`make demo-network` from its start to its end: it shows a result and leaves no process behind."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from examples.network.walk import Walk

ROOT = Path(__file__).parents[2]


def processes_of(folder: Path) -> list[psutil.Process]:
    """That work in the folder, or were started with a path in it."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if str(folder) in " ".join([*process.cmdline(), process.cwd()]):
                found.append(process)
    return found


@pytest.fixture
def near_the_root():
    """A socket's path must be short, and a test's own folder need not be."""
    with tempfile.TemporaryDirectory(prefix="hr-demo-", dir="/tmp") as folder:
        yield Path(folder)


@pytest.mark.slow
def test_the_network_demo_shows_its_table_and_stops_all_it_started(near_the_root):
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "examples.network.https"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(near_the_root)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for words in ("one tree over three hospitals", "The audit log of north", "are stopped"):
        assert words in done.stdout
    assert processes_of(near_the_root) == []


def test_a_process_that_was_left_behind_is_found(tmp_path):
    """Twin."""
    waiting = "import sys; sys.stdin.read()"
    left = subprocess.Popen([sys.executable, "-c", waiting], cwd=tmp_path, stdin=subprocess.PIPE)
    try:
        assert [process.pid for process in processes_of(tmp_path)] == [left.pid]
    finally:
        left.communicate()


def test_a_demo_does_not_wait_for_what_a_process_that_ended_should_have_made(tmp_path):
    walk = Walk(tmp_path, say=lambda line: None)
    walk.leave_running("hedgerow site join nowhere")
    with pytest.raises(RuntimeError, match=r"ended: .*nowhere"):
        walk.wait_for([tmp_path / "never"])
