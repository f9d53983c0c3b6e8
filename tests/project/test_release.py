"""What a release needs and no other test reads: workflows, recipe, metadata, lock."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from docs.release_check import PROJECT, lock_lines, placeholders
from hedgerow.version import __version__

ROOT = Path(__file__).parents[2]
WORKFLOWS = sorted((ROOT / ".github/workflows").glob("*.yml"))
PINNED = re.compile(r"[\w./-]+@[0-9a-f]{40}")


def unpinned(text: str) -> list[str]:
    """Actions that are named by a tag, which somebody may move."""
    named = re.findall(r"uses: (\S+)", text)
    return [name for name in named if not PINNED.fullmatch(name)]


def too_powerful(workflow: dict) -> list[str]:
    """Jobs that do not say what they may do, in a workflow that may do nothing by itself."""
    jobs = [name for name, job in workflow["jobs"].items() if "permissions" not in job]
    return jobs if workflow.get("permissions") == {} else ["workflow", *jobs]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_names_actions_by_their_hash_and_says_what_it_may_do(path):
    text = path.read_text(encoding="utf-8")
    assert unpinned(text) == []
    assert too_powerful(yaml.safe_load(text)) == []


def test_a_moving_tag_or_a_job_that_may_do_everything_would_be_seen():
    assert unpinned("- uses: actions/checkout@v4") == ["actions/checkout@v4"]
    assert too_powerful({"jobs": {"a": {}}}) == ["workflow", "a"]


def test_recipe_and_citation_are_of_this_release_and_ask_for_the_same():
    recipe = (ROOT / ".github/recipe.yaml").read_text(encoding="utf-8")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert f'version: "{__version__}"' in recipe
    assert citation["version"] == __version__
    needed = {line.replace(">=", " >=") for line in PROJECT["project"]["dependencies"]}
    run = yaml.safe_load(recipe)["requirements"]["run"]
    assert set(run) - {"python >=3.11"} == needed


def test_every_supported_python_is_tested():
    said = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["project"]["classifiers"]))
    ci = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text(encoding="utf-8"))
    assert ci["jobs"]["test"]["strategy"]["matrix"]["python"] == said


def test_the_license_is_one_text():
    assert (ROOT / "LICENSES/Apache-2.0.txt").read_bytes() == (ROOT / "LICENSE").read_bytes()


def test_addresses_stand_in_one_place():
    names = placeholders()
    (author,) = PROJECT["project"]["authors"]
    assert author["email"] in (ROOT / "r/DESCRIPTION").read_text(encoding="utf-8"), "R has its own"
    assert len(names) in (0, len(PROJECT["project"]["urls"]) + 1)
    tracked = [*ROOT.glob("*.md"), *(ROOT / ".github").rglob("*"), *(ROOT / "docs").glob("*.md")]
    texts = {p.name: p.read_text(encoding="utf-8") for p in tracked if p.is_file()}
    assert [name for name, text in texts.items() if "hedgerow.invalid" in text] == []


def test_a_lock_has_a_hash_for_every_distribution():
    report = {
        "install": [
            {
                "metadata": {"name": name, "version": "1"},
                "download_info": {"archive_info": {"hashes": {"sha256": "ab"}}},
            }
            for name in ("Rich", "numpy")
        ]
    }
    assert lock_lines(report) == ["numpy==1 --hash=sha256:ab", "rich==1 --hash=sha256:ab"]
    del report["install"][0]["download_info"]["archive_info"]["hashes"]["sha256"]
    with pytest.raises(KeyError):
        lock_lines(report)
