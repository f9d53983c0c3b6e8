"""A model of a study can be checked by whoever has the study file; what was changed is named."""

from __future__ import annotations

import json
import re

import pytest
from typer.testing import CliRunner

import hedgerow as hr
from hedgerow.cli.main import app
from hedgerow.deployment import verify
from hedgerow.deployment.run import run_study
from hedgerow.deployment.verify import sign_fit, verdict, verify_model
from hedgerow.errors import DataError, ParameterError
from hedgerow.methods import model_file
from hedgerow.secagg.keys import Identity
from support.worlds import TWO, World, sample


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A finished run of three sites."""
    made = World(tmp_path_factory.mktemp("study"), dp_model="distributed")
    run_study(made.folder, made)
    yield made
    made.close()


def wrong(path, world):
    return {check.name for check in verify_model(path, world.folder.study_file) if check.has_failed}


def changed(world, tmp_path, change):
    """A copy whose digest was counted anew after a change: an editor can do that."""
    document = json.loads(world.folder.model_file.read_text())
    change(document)
    document["digest"] = model_file.digest_of_file(document)
    path = tmp_path / "model.json"
    path.write_text(json.dumps(document))
    return path


def test_a_model_of_a_study_is_signed_by_all_and_right(world):
    checks = verify_model(world.folder.model_file, world.folder.study_file)
    assert not any(check.has_failed for check in checks), checks
    names = [check.name for check in checks]
    assert {"digest", "rounds", "study", "coordinator", "site site-1", "receipts"} <= set(names)
    assert hr.load(world.folder.model_file).privacy_.n_sites == 3


def a_promise(document):
    said = document["content"]["privacy"]
    said["epsilon"], said["guarantee"]["epsilon"] = 0.1, "1/10"


def a_number(document):
    document["content"]["model"]["sharpness"] = 2.0


def spending(document):
    document["content"]["privacy"]["spending"][0]["part"] += 0.1


def less_spent(document):
    document["content"]["privacy"]["spent_fraction"] /= 2


def a_receipt_left_out(document):
    del document["signed"]["receipts"]["site-2"]


def a_receipt_exchanged(document):
    receipts = document["signed"]["receipts"]
    receipts["site-2"] = receipts["site-1"]


def a_receipt_edited(document):
    text = document["signed"]["receipts"]["site-3"]
    document["signed"]["receipts"]["site-3"] = text[:-2] + ("00" if text[-2:] != "00" else "01")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (a_promise, "guarantee"),
        (a_number, "coordinator"),
        (spending, "rounds"),
        (less_spent, "receipts"),
        (a_receipt_left_out, "coordinator"),
        (a_receipt_exchanged, "site site-2"),
        (a_receipt_edited, "site site-3"),
    ],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_whatever_is_changed_is_named(change, named, world, tmp_path):
    found = wrong(changed(world, tmp_path, change), world)
    assert {named, "coordinator"} <= found


@pytest.mark.parametrize("place", ["epsilon", "guarantee"])
def test_a_promise_that_is_changed_in_one_place_is_not_read(place, world, tmp_path):
    def half_a_promise(document):
        said = document["content"]["privacy"]
        if place == "epsilon":
            said["epsilon"] = 0.1
        else:
            said["guarantee"]["epsilon"] = "1/10"

    path = changed(world, tmp_path, half_a_promise)
    with pytest.raises(DataError, match="its statement says epsilon"):
        hr.load(path)


def test_a_model_of_another_study_is_not_this_one_s(world, tmp_path):
    other = World(tmp_path, dp_model="distributed", name="others")
    try:
        found = {
            c.name
            for c in verify_model(world.folder.model_file, other.folder.study_file)
            if c.has_failed
        }
    finally:
        other.close()
    assert {"study", "coordinator", "sites"} <= found


def test_the_command_says_what_passed_and_ends_with_1_if_something_failed(world, tmp_path):
    arguments = ["verify", str(world.folder.model_file), "--roster", str(world.folder.study_file)]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert "FAILED" not in done.output
    assert done.output.splitlines()[-1] == (
        "signed by the coordinator, receipts of 3 of 3 sites; not checked: transcript"
    )
    assert re.search(r"site site-1 +\d+\.\d% of the budget, by its own receipt", done.output)
    path = changed(world, tmp_path, a_number)
    done = CliRunner().invoke(app, ["verify", str(path), *arguments[2:]])
    assert done.exit_code == 1
    assert "FAILED  coordinator" in done.output
    assert done.output.splitlines()[-1] == "FAILED: coordinator"


def outcomes(*words: object) -> tuple[dict[str, str], str]:
    """What `verify` says of each check, and its last sentence; nothing fails."""
    done = CliRunner().invoke(app, ["verify", *map(str, words), "--json"])
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    return {check["what"]: check["outcome"] for check in told["checks"]}, told["verdict"]


def test_verify_says_of_a_check_that_it_did_not_make_that_it_was_skipped(
    world, tmp_path, monkeypatch
):
    found, said = outcomes(world.folder.model_file)
    assert found["digest"] == found["file format"] == "ok"
    assert found["signatures"] == "skipped"
    assert said == "intact; not checked: signatures"
    monkeypatch.setattr(verify, "find_spec", lambda name: None)
    found, said = outcomes(world.folder.model_file, "--roster", world.folder.study_file)
    assert found["file format"] == "skipped"
    assert said == (
        "signed by the coordinator, receipts of 3 of 3 sites; not checked: file format, transcript"
    )
    X, y = sample(120, TWO)
    hr.TreeClassifier(TWO, epsilon=1.0).fit(X, y).save(tmp_path / "model.json")
    monkeypatch.undo()
    found, said = outcomes(tmp_path / "model.json")
    assert found["signatures"] == "unsigned"
    assert said == "intact, unsigned"


def test_a_model_of_one_process_has_no_signatures_and_its_arithmetic_is_checked(world, tmp_path):
    X, y = sample(120, TWO)
    hr.TreeClassifier(TWO, epsilon=1.0).fit(X, y).save(tmp_path / "model.json")
    checks = verify_model(tmp_path / "model.json", None)
    assert not any(check.has_failed for check in checks)
    assert wrong(tmp_path / "model.json", world) == {"signatures"}
    text = (tmp_path / "model.json").read_text()
    (tmp_path / "model.json").write_text(text.replace('"epsilon":1.0', '"epsilon":2.0'))
    with pytest.raises(DataError, match="was changed"):
        verify_model(tmp_path / "model.json", None)


# ---------------------------------------------------------------------- a fit of one, signed by one
@pytest.fixture
def fitted(tmp_path):
    rows, y = sample(400, TWO)
    model = hr.TreeClassifier(TWO, epsilon=2.0, max_depth=2, random_state=0, hold_out=4)
    model.fit(rows, y).keep(hr.evaluate(model, rows, y, epsilon=2.0)).save(tmp_path / "model.json")
    return tmp_path / "model.json"


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_a_fit_of_one_is_signed_by_a_key_that_is_made_on_request(fitted, tmp_path):
    key = tmp_path / "own" / "key"
    refused = run("sign", fitted, "--key", key)
    assert isinstance(refused.exception, ParameterError)
    assert "make one with --new-key" in str(refused.exception)
    done = run("sign", fitted, "--key", key, "--new-key")
    assert done.exit_code == 0, done.output
    assert key.stat().st_mode & 0o777 == 0o600
    told = done.output.replace("\n", " ")
    mark = re.search(r"key ([0-9a-f]{64})", told).group(1)
    words = " ".join(told.split("its words: ")[1].split())
    by_whom = f"intact, signed with the key {mark}"
    assert verdict(verify_model(fitted, None)) == f"{by_whom}; not checked: signer"
    for signer in (mark, words):
        checks = verify_model(fitted, None, signer=signer)
        assert verdict(checks) == by_whom
        assert "signed with the model" in {c.name: c.words for c in checks}["evaluation"]
    assert verdict(verify_model(fitted, None, signer="0" * 64)) == "FAILED: signer"
    assert run("verify", fitted, "--signer", mark).exit_code == 0
    assert run("verify", fitted, "--signer", "another").exit_code == 1
    again = run("sign", fitted, "--key", key, "--new-key")
    assert "holds a key already" in str(again.exception)
    assert hr.load(fitted).predict(sample(5, TWO)[0]).shape == (5,)


def better(document):
    document["evaluation"]["confidence"] = 0.5


def other_model(document):
    document["content"]["parameters"]["max_depth"] = 3
    document["digest"] = model_file.digest_of_file(document)


def no_key(document):
    document["signer"]["key"] = "no hex"


@pytest.mark.parametrize("change", [better, other_model, no_key])
def test_what_was_changed_after_one_signed_is_told(fitted, tmp_path, change):
    assert run("sign", fitted, "--key", tmp_path / "key", "--new-key").exit_code == 0
    document = json.loads(fitted.read_text())
    change(document)
    fitted.write_text(json.dumps(document))
    assert verdict(verify_model(fitted, None)) == "FAILED: signature"


def test_nobody_signs_alone_what_a_study_has_signed(world, tmp_path):
    path = changed(world, tmp_path, lambda document: None)
    with pytest.raises(ParameterError, match="by the coordinator of its study"):
        sign_fit(path, Identity.generate())
    checks = verify_model(path, world.folder.study_file, signer="0" * 64)
    assert verdict(checks) == "FAILED: signer"
