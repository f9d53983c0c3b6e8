"""Every script in examples/ runs, in an empty folder."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from docs.make_gallery import MOST_BYTES, PICTURES, digest, examples, made, small
from hedgerow.deployment.rehearsal import Walk
from hedgerow.errors import EngineLost

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda script: script.stem)
def test_an_example_runs_and_has_something_to_say(script, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out.strip()


def test_there_are_examples():
    assert len(EXAMPLES) >= 3


# --------------------------------------------------------------------------------------------------
# `make demo-network` from its start to its end: it shows a result and leaves no process behind.
ROOT = Path(__file__).parents[2]


def processes_of(folder: Path) -> list[psutil.Process]:
    """That work in the folder, or were started with a path in it."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if str(folder) in " ".join([*process.cmdline(), process.cwd()]):
                found.append(process)
    return found


@pytest.mark.slow
def test_the_network_demo_shows_its_table_and_stops_all_it_started(tmp_path):
    path = os.pathsep.join([str(ROOT / "src"), str(ROOT)])
    done = subprocess.run(
        [sys.executable, "-m", "examples.network.walk"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for words in ("one tree over three hospitals", "The audit log of north", "are stopped"):
        assert words in done.stdout
    assert processes_of(tmp_path) == []


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
    walk.leave_running("hedgerow site serve nowhere")
    with pytest.raises(EngineLost, match=r"ended: .*nowhere"):
        walk.wait_for([tmp_path / "never"])


# --------------------------------------------------------------------------------------------------
# The gallery: every example runs, and kept pictures were made by the example as it stands.
GALLERY = examples()
CHANGED = "the example was changed after its pictures were made: run `make gallery`, look, commit"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The set_:PendingDeprecationWarning")  # SHAP on Matplotlib
@pytest.mark.parametrize("example", GALLERY, ids=lambda example: example.stem)
def test_an_example_runs_and_draws(example, tmp_path, monkeypatch):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from matplotlib import pyplot

    monkeypatch.chdir(tmp_path)
    pyplot.close("all")
    runpy.run_path(str(example), run_name="__main__")
    assert pyplot.get_fignums()
    pyplot.close("all")


def test_there_are_at_least_ten():
    assert len(GALLERY) >= 10


def shown(example: Path) -> list[str]:
    """Pictures that its page shows."""
    return re.findall(r"^\.\. image:: /images/gallery/(\S+)$", example.read_text("utf-8"), re.M)


@pytest.mark.parametrize("example", GALLERY, ids=lambda example: example.stem)
def test_kept_pictures_are_of_the_present_example(example):
    assert made().get(example.stem) == digest(example), CHANGED
    names = shown(example)
    assert names[0] == f"{example.stem}.png"
    assert all((PICTURES / name).stat().st_size <= MOST_BYTES for name in names)
    thumbnail = f'# sphinx_gallery_thumbnail_path = "images/gallery/{example.stem}.png"'
    assert thumbnail in example.read_text(encoding="utf-8")


def test_every_kept_picture_is_shown_and_no_example_runs_for_the_site():
    kept = {path.name for path in PICTURES.glob("*.png")}
    assert kept == {name for example in GALLERY for name in shown(example)}
    assert '"plot_gallery": False' in (ROOT / "docs/conf.py").read_text(encoding="utf-8")


def test_a_large_picture_is_kept_small():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from io import BytesIO

    import numpy as np
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(10, 6))
    axes.imshow(np.random.default_rng(0).random((200, 300)))
    large = BytesIO()
    figure.savefig(large, format="png", dpi=100)
    pyplot.close(figure)
    assert len(large.getvalue()) > MOST_BYTES >= len(small(large.getvalue()))


@pytest.mark.parametrize("example", GALLERY, ids=lambda example: example.stem)
def test_an_example_says_for_whom_it_is(example):
    assert re.search(r"^For ", example.read_text(encoding="utf-8"), re.M)


INTERNAL = re.compile(r"^(?:from|import) hedgerow\.(?!papers\b)([\w.]+)", re.M)


def test_examples_use_public_names_and_the_two_modules_that_are_kept_for_them():
    versions = (ROOT / "docs/versions.md").read_text(encoding="utf-8")
    used = {name for one in GALLERY for name in INTERNAL.findall(one.read_text(encoding="utf-8"))}
    assert used == {"cli.demo", "audit.running"}
    assert all(f"`hedgerow.{name}" in versions for name in used)


def test_the_paper_s_figure_takes_twenty_lines():
    _, code = (ROOT / "examples/gallery/plot_10_a_papers_figure.py").read_text().split("at most.\n")
    lines = [line for line in code.splitlines() if line and not line.startswith("#")]
    assert len(lines) <= 20


def test_an_example_that_was_changed_would_be_seen(tmp_path):
    example = tmp_path / "plot_x.py"
    example.write_text("a = 1\n", encoding="utf-8")
    before = digest(example)
    example.write_text("a = 2\n", encoding="utf-8")
    assert digest(example) != before
