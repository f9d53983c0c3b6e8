"""A paid evaluation is kept with the model it measured: in its file, on its page, with no other."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import numpy as np
import pytest
from typer.testing import CliRunner

import hedgerow as hr
from docs.make_formats import FOLDER
from hedgerow.cli.main import app
from hedgerow.deployment.run import run_study
from hedgerow.deployment.verify import verify_model
from hedgerow.errors import DataError, ParameterError
from hedgerow.methods import model_file
from support.worlds import THREE, TWO, VALUE, World, sample


def tree(schema=TWO, n=200, **how):
    X, y = sample(n, schema)
    kind = hr.TreeClassifier if schema.classes else hr.TreeRegressor
    return kind(schema, epsilon=40.0, **how).fit(X, y)


def measured(model, schema=TWO, **how):
    X, y = sample(300, schema, seed=1)
    return hr.evaluate(model, X, y, epsilon=50.0, **how)


@pytest.fixture(scope="module")
def model():
    made = tree()
    return made.keep(measured(made))


def page_of(model, folder) -> str:
    return model.report(folder / "page.html").read_text("utf-8")


def test_it_comes_back_from_the_file_and_stands_on_the_page(model, tmp_path):
    model.save(tmp_path / "model.json")
    published = json.loads((FOLDER / "model.schema.json").read_text("utf-8"))
    jsonschema.validate(json.loads((tmp_path / "model.json").read_text("utf-8")), published)
    loaded = hr.load(tmp_path / "model.json")
    assert loaded.evaluation_.to_dict() == model.evaluation_.to_dict()
    text = page_of(loaded, tmp_path)
    for title, name in (("AUC", "auc"), ("Accuracy", "accuracy")):
        value = loaded.evaluation_[name]
        assert title in text
        assert f"{value.value:.3f}" in text
        assert f"{value.low:.3f} to {value.high:.3f}" in text
    assert "epsilon = 50, delta = 0" in text
    added = "both add up for it: epsilon = 90, delta = 1e-6."
    assert f"If any of these records was trained on, {added}" in text
    assert "carries no evaluation" not in text


def test_a_model_file_of_before_loads_with_its_evaluation():
    """Written by format 5, whose digests were cut."""
    loaded = hr.load(Path(__file__).parents[1] / "vectors" / "model_version_5.json")
    assert loaded.evaluation_["accuracy"].value > 0.9
    assert loaded.predict([[30, 5], [80, 5]]).tolist() == ["no", "yes"]


def test_what_its_records_paid_is_not_part_of_the_model_s_own_statement(model):
    assert model.privacy_.epsilon == 40.0
    assert model.evaluation_.privacy_.epsilon == 50.0


def test_an_evaluation_of_another_model_is_refused(model):
    with pytest.raises(ParameterError, match="of another model"):
        tree(n=150).keep(model.evaluation_)


def test_of_several_models_each_keeps_its_own_part(model):
    other = tree(n=180)
    found = measured(model, compare_with=[other])
    assert other.keep(found).evaluation_.parts == (found.parts[1],)
    assert other.evaluation_.digests != model.evaluation_.digests


def test_a_new_fit_has_no_evaluation(tmp_path):
    model = tree()
    model.keep(measured(model))
    model.fit(*sample(250, TWO, seed=3))
    assert "carries no evaluation" in page_of(model, tmp_path)
    model.save(tmp_path / "model.json")
    assert not hasattr(hr.load(tmp_path / "model.json"), "evaluation_")


@pytest.mark.parametrize("schema", [THREE, VALUE], ids=["three-classes", "number"])
def test_other_tasks_have_their_own_measures_and_groups(schema, tmp_path):
    model = tree(schema)
    model.keep(measured(model, schema, by="ward"))
    text = page_of(model, tmp_path).partition('id="evaluation"')[2].partition("</section>")[0]
    assert ("Accuracy" if schema.classes else "Mean absolute error") in text
    assert text.count("<h3>") == 1 + len(model.evaluation_.groups) > 2
    assert text.index("<h3>all</h3>") == text.index("<h3>")


# --------------------------------------------------------------------------------- networked models
@pytest.fixture(scope="module")
def study(tmp_path_factory):
    made = World(tmp_path_factory.mktemp("study"), dp_model="distributed")
    run_study(made.folder, made)
    yield made
    made.close()


def test_the_command_keeps_it_and_signatures_stay_right(study, tmp_path):
    path = tmp_path / "model.json"
    path.write_bytes(study.folder.model_file.read_bytes())
    X, y = sample(300, TWO, seed=1)
    table = np.column_stack([np.asarray(X, object), y])
    rows = [",".join([*TWO.names, "outcome"]), *(",".join(map(str, row)) for row in table)]
    (tmp_path / "rows.csv").write_text("\n".join(rows), "utf-8")
    command = ["evaluate", str(path), "-d", str(tmp_path / "rows.csv"), "--epsilon", "50", "--keep"]
    done = CliRunner().invoke(app, [*command, "--target", "outcome", "--json"])
    assert done.exit_code == 0, done.output
    kept = hr.load(path).evaluation_
    assert json.loads(json.dumps(kept.to_dict())) == json.loads(done.stdout)
    checks = {check.name: check for check in verify_model(path, study.folder.study_file)}
    assert not any(check.has_failed for check in checks.values()), checks
    assert "signed by nobody" in checks["evaluation"].words


def test_the_page_of_a_networked_model_tells_what_each_site_spent(study, tmp_path):
    model = hr.load(study.folder.model_file)
    text = page_of(model, tmp_path)
    assert "The budget, site by site" in text
    for name in ("site-1", "site-2", "site-3"):
        assert name in text
    assert f"{model.privacy_.spent_fraction:.1%}" in text.partition("site by site")[2]


def test_saving_a_networked_model_again_keeps_its_signatures(study, tmp_path):
    hr.load(study.folder.model_file).save(tmp_path / "again.json")
    assert not any(
        c.has_failed for c in verify_model(tmp_path / "again.json", study.folder.study_file)
    )


def test_an_evaluation_of_another_model_in_the_file_is_seen(study, tmp_path, model):
    """Twin: somebody puts better numbers beside a model."""
    path = tmp_path / "model.json"
    path.write_bytes(study.folder.model_file.read_bytes())
    model_file.add(path, "evaluation", model.evaluation_.to_dict())
    with pytest.raises(DataError, match="of another model"):
        hr.load(path)
