"""`hedgerow new` and `hedgerow rehearse`: what a project holds, and a whole study from it."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest
import yaml
from typer.testing import CliRunner

import hedgerow as hr
from hedgerow.cli.main import app
from hedgerow.deployment.rehearsal import RehearsalPlan
from hedgerow.deployment.study_file import StudyFile
from hedgerow.deployment.verify import verdict, verify_model
from hedgerow.errors import ParameterError
from hedgerow.federation.policy import SitePolicy

RUN = CliRunner()


@pytest.fixture
def project(tmp_path) -> Path:
    folder = tmp_path / "readmission"
    done = RUN.invoke(app, ["new", str(folder)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return folder


def test_a_new_project_has_all_files_and_each_is_what_its_reader_expects(project):
    plan = RehearsalPlan.of(project)
    assert list(plan.rows) == ["north", "south", "west"]
    assert plan.target == "outcome"
    for site, path in plan.policies.items():
        rules = SitePolicy.read(path)
        assert not rules.allows_nothing
        assert rules.policy.epsilon_per_study == 2, site
    compose = yaml.safe_load((project / "compose.yaml").read_text())
    assert set(compose["services"]) == {"north", "south", "west", "coordinator"}
    assert all(one["read_only"] for one in compose["services"].values())
    workflow = yaml.safe_load((project / ".github/workflows/rehearse.yml").read_text())
    assert workflow["jobs"]["rehearse"]["steps"][-1]["run"].startswith("hedgerow rehearse")
    for name in ("coordinator.key", "enrollment.json", "rehearsal-1"):
        assert any(
            Path(name).match(p.strip("/")) for p in (project / ".gitignore").read_text().split()
        )
    with pytest.raises(
        ParameterError, match="keys are still missing; `hedgerow study invite` gets them"
    ):
        StudyFile.read(project / "study/study.toml")
    refused = RUN.invoke(app, ["new", str(project)])
    assert "is not empty" in str(refused.exception)


def test_what_cannot_be_rehearsed_is_said_before_anything_starts(project, tmp_path):
    with pytest.raises(ParameterError, match=r"holds no study\.toml"):
        RehearsalPlan.of(tmp_path)
    (tmp_path / "a.csv").write_text("age,outcome,other\n1,yes,2\n")
    with pytest.raises(ParameterError, match=r"\['outcome', 'other'\] beside the schema's"):
        RehearsalPlan.of(project, [tmp_path / "a.csv", tmp_path / "b.csv"])
    with pytest.raises(ParameterError, match="at least two files"):
        RehearsalPlan.of(project, [tmp_path / "a.csv"], "outcome")
    (project / "sites/west/rows.csv").unlink()
    with pytest.raises(ParameterError, match="are not there; name rows with --data"):
        RehearsalPlan.of(project)


@pytest.mark.slow
@pytest.mark.network
def test_a_rehearsal_in_a_deep_folder_ends_with_a_valid_model_and_no_process(project, tmp_path):
    folder = tmp_path.joinpath(*["a_folder_of_a_project"] * 6) / "all"
    folder.parent.mkdir(parents=True)
    before = set(psutil.Process().children(recursive=True))
    words = ["rehearse", str(project), "--output", str(folder), "--no-browser"]
    done = RUN.invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert "live: http://127.0.0.1:" in done.output
    study = folder / "study"
    checks = verify_model(study / "model.json", study / "study.toml", study / "transcript.bin")
    assert verdict(checks) == (
        "valid, computed anew from what the sites signed, receipts of 3 of 3 sites"
    )
    assert hr.load(study / "model.json").evaluation_ is not None
    assert set(psutil.Process().children(recursive=True)) <= before
    text = (folder / "transcript.txt").read_text(encoding="utf-8")
    assert text.count("$ hedgerow site approve") == 3
