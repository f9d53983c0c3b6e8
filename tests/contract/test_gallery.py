"""The gallery: every example runs, and kept pictures were made by the example as it stands.

Code beneath an example may have changed since: then it still runs, and `make gallery` draws anew.
"""

from __future__ import annotations

import hashlib
import re
import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "docs/gallery"
EXAMPLES = sorted((ROOT / "examples/gallery").glob("plot_*.py"))
CHANGED = "the example was changed after its pictures were made: run `make gallery`, look, commit"


def is_current(example: Path, kept: Path) -> bool:
    """Whether Sphinx will take what is kept instead of running the example again."""
    digest = hashlib.md5(example.read_bytes()).hexdigest()
    mark = kept / f"{example.name}.md5"
    return mark.is_file() and mark.read_text(encoding="utf-8") == digest


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The set_:PendingDeprecationWarning")  # SHAP on Matplotlib
@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
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
    assert len(EXAMPLES) >= 10


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_kept_pictures_are_of_the_present_example(example):
    assert is_current(example, KEPT), CHANGED
    page = (KEPT / f"{example.stem}.rst").read_text(encoding="utf-8")
    pictures = re.findall(r"/gallery/(images/sphx\S+\.png)", page)
    assert pictures
    assert not re.search(r"\w+Warning: ", page), "a reader is warned: say it in words instead"
    assert all((KEPT / name).is_file() for name in pictures)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_an_example_says_for_whom_it_is(example):
    assert re.search(r"^For ", example.read_text(encoding="utf-8"), re.M)


INTERNAL = re.compile(r"^(?:from|import) hedgerow\.(?!papers\b)([\w.]+)", re.M)


def test_examples_use_public_names_and_the_two_modules_that_are_kept_for_them():
    versions = (ROOT / "docs/versions.md").read_text(encoding="utf-8")
    used = {name for one in EXAMPLES for name in INTERNAL.findall(one.read_text(encoding="utf-8"))}
    assert used == {"demo", "audit.running"}
    assert all(f"`hedgerow.{name}" in versions for name in used)


def test_the_paper_s_figure_takes_twenty_lines():
    _, code = (ROOT / "examples/gallery/plot_10_a_papers_figure.py").read_text().split("at most.\n")
    lines = [line for line in code.splitlines() if line and not line.startswith("#")]
    assert len(lines) <= 20


def test_an_example_that_was_changed_would_be_seen(tmp_path):
    (tmp_path / "plot_x.py").write_text("a = 1\n", encoding="utf-8")
    digest = hashlib.md5(b"a = 1\n").hexdigest()
    (tmp_path / "plot_x.py.md5").write_text(digest, encoding="utf-8")
    assert is_current(tmp_path / "plot_x.py", tmp_path)
    (tmp_path / "plot_x.py").write_text("a = 2\n", encoding="utf-8")
    assert not is_current(tmp_path / "plot_x.py", tmp_path)
