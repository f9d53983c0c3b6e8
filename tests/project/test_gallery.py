"""The gallery: every example runs, and kept pictures were made by the example as it stands.

Code beneath an example may have changed since: then it still runs, and `make gallery` draws anew.
"""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from docs.make_gallery import MOST_BYTES, PICTURES, digest, examples, made, small

ROOT = Path(__file__).parents[2]
EXAMPLES = examples()
CHANGED = "the example was changed after its pictures were made: run `make gallery`, look, commit"


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


def shown(example: Path) -> list[str]:
    """Pictures that its page shows."""
    return re.findall(r"^\.\. image:: /images/gallery/(\S+)$", example.read_text("utf-8"), re.M)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_kept_pictures_are_of_the_present_example(example):
    assert made().get(example.stem) == digest(example), CHANGED
    names = shown(example)
    assert names[0] == f"{example.stem}.png"
    assert all((PICTURES / name).stat().st_size <= MOST_BYTES for name in names)
    thumbnail = f'# sphinx_gallery_thumbnail_path = "images/gallery/{example.stem}.png"'
    assert thumbnail in example.read_text(encoding="utf-8")


def test_every_kept_picture_is_shown_and_no_example_runs_for_the_site():
    kept = {path.name for path in PICTURES.glob("*.png")}
    assert kept == {name for example in EXAMPLES for name in shown(example)}
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


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.stem)
def test_an_example_says_for_whom_it_is(example):
    assert re.search(r"^For ", example.read_text(encoding="utf-8"), re.M)


INTERNAL = re.compile(r"^(?:from|import) hedgerow\.(?!papers\b)([\w.]+)", re.M)


def test_examples_use_public_names_and_the_two_modules_that_are_kept_for_them():
    versions = (ROOT / "docs/versions.md").read_text(encoding="utf-8")
    used = {name for one in EXAMPLES for name in INTERNAL.findall(one.read_text(encoding="utf-8"))}
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
