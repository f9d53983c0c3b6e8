"""Cards, bills of materials and signatures: what their own readers say of them."""

from __future__ import annotations

import json
import math
import re
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import numpy as np
import pytest
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from typer.testing import CliRunner

import hedgerow as hr
from hedgerow.cli.main import app
from hedgerow.errors import ParameterError
from hedgerow.privacy.statement.record import About, Curator
from hedgerow.privacy.statement.statement import PrivacyStatement
from hedgerow.report import registry
from hedgerow.report.exports import cards
from hedgerow.report.exports.export import OF_STATEMENTS, write_signature
from privacy.test_statement import STUDIES, stated
from support.handed_on import CASES, answers, fitted, rows
from support.worlds import THREE

ELSEWHERE = "not installed here: make test-artifacts"
CARDS = {name: write for name, write in OF_STATEMENTS.items() if name not in ("registry", "skops")}
EACH = pytest.mark.parametrize(("name", "task"), CASES, ids=lambda value: value.replace(" ", "-"))
HOSTILE = "a|b <script>x</script> [c](http://d) `e` # f\n---\ng"


def one(task: str = "two classes"):
    return fitted("TreeRegressor" if task == "number" else "TreeClassifier", task)


def with_about(model, words: str):
    about = About(curators=(Curator("Five hospitals"),), intended_use=words, region="Bern")
    said = replace(model.privacy_, about=about)
    return namesake(model, said)


def namesake(model, said):
    """A model of the same class name with no more than what cards may read."""
    kind = type(type(model).__name__, (SimpleNamespace,), {})
    return kind(schema_=model.schema_, model_=model.model_, privacy_=said)


def complaint(text: str):
    """What CycloneDX's own checker says."""
    schema = pytest.importorskip("cyclonedx.schema", reason="cyclonedx-python-lib is missing")
    checking = pytest.importorskip("cyclonedx.validation.json")
    return checking.JsonStrictValidator(schema.SchemaVersion.V1_7).validate_str(text)


@EACH
def test_the_bill_of_materials_is_valid_and_has_every_fact(name, task):
    model = fitted(name, task)
    text = cards.cyclonedx(model)
    assert complaint(text) is None
    card = json.loads(text)["metadata"]["component"]["modelCard"]
    facts = {p["name"].removeprefix("hedgerow:"): p["value"] for p in card["properties"]}
    assert facts == cards.facts_of(model)
    assert facts["epsilon"] == str(model.privacy_.epsilon)
    assert len(card["modelParameters"]["inputs"]) == len(model.schema_.names)


def test_a_bill_of_materials_with_a_field_that_nobody_knows_is_seen():
    bill = json.loads(cards.cyclonedx(one()))
    bill["metadata"]["component"]["modelCard"]["epsilon"] = 1
    assert complaint(json.dumps(bill)) is not None


def test_facts_that_people_state_are_in_every_card_that_has_a_place_for_them():
    model = with_about(one(), "Planning of beds.")
    for name in ("model-card", "cyclonedx", "annex-iv"):
        assert "Planning of beds." in CARDS[name](model)
        assert "Five hospitals" in CARDS[name](model)
    assert complaint(cards.cyclonedx(model)) is None
    assert "intended_use" not in cards.facts_of(one())


def test_a_model_card_has_front_matter_and_says_the_guarantee():
    _, front, body = cards.model_card(one()).split("---\n", 2)
    assert yaml.safe_load(front)["pipeline_tag"] == "tabular-classification"
    assert one().privacy_.summary in body
    assert yaml.safe_load(cards.model_card(one("number")).split("---\n")[1]) | {"tags": 0} == {
        "library_name": "hedgerow",
        "pipeline_tag": "tabular-regression",
        "tags": 0,
    }


def test_words_of_strangers_are_shown_letter_by_letter():
    model = with_about(one(), HOSTILE)
    for name in ("model-card", "annex-iv"):
        text = CARDS[name](model)
        assert not re.search(r"(?<!\\)<script|(?<!\\)\[c", text)
        assert "\\<script\\>" in text
        assert "\n---\ng" not in text


def test_hugging_face_reads_the_card(tmp_path):
    hub = pytest.importorskip("huggingface_hub", reason=ELSEWHERE)
    path = one().export(tmp_path / "README.md", to="model-card")
    assert hub.ModelCard.load(path).data.library_name == "hedgerow"


@pytest.mark.skipif(shutil.which("pandoc") is None, reason="skops.card reads cards by pandoc")
def test_skops_reads_the_card_and_goes_on_with_it(tmp_path):
    card = pytest.importorskip("skops.card", reason="skops is not installed")
    model = one()
    read = card.parse_modelcard(model.export(tmp_path / "card.md", to="model-card"))
    title = "TreeClassifier by hedgerow"
    assert model.privacy_.summary in read.select(f"{title}/Privacy statement").content
    read.add(**{f"{title}/Contact": "the ward's office"})
    read.save(tmp_path / "more.md")
    found = (tmp_path / "more.md").read_text(encoding="utf-8")
    assert model.privacy_.summary in found
    assert "## Contact" in found


def test_every_point_of_the_annex_is_there_and_names_facts_that_exist():
    text = cards.annex_iv(one())
    for point, title, names in cards.ANNEX_IV:
        assert text.count(f"\n## {point} {title}\n") == 1
        assert set(names.split()) <= set(cards.FACTS)
    assert cards.BY_PROVIDER in text


def test_the_schema_as_croissant_names_every_column(tmp_path):
    found = json.loads(cards.croissant(one()))
    fields = found["recordSet"][0]["field"]
    assert [field["name"] for field in fields] == [*one().schema_.names, "outcome"]
    assert fields[0]["dataType"] == "sc:Float"
    assert fields[2]["dataType"] == "sc:Text"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the package itself
def test_croissant_s_own_reader_finds_no_mistake(tmp_path):
    reader = pytest.importorskip("mlcroissant", reason=ELSEWHERE)
    path = one().export(tmp_path / "croissant.json", to="croissant")
    assert len(reader.Dataset(jsonld=str(path)).metadata.record_sets[0].fields) == 6


# ------------------------------------------------------------------------------------ exact counts
ROWS, YES = 7919, 5417


def counted(text: str) -> list[str]:
    """Exact counts of the world below that a text holds as numbers of their own."""
    known = (ROWS, YES, ROWS - YES)
    return [str(n) for n in known if re.search(rf"(?<![\w.]){n}(\.0)?(?![\w.])", text)]


def counted_model():
    X = np.linspace(0.0, 1.0, ROWS)[:, None]
    schema = hr.Schema((hr.Numeric("a", 0.0, 1.0),), classes=(0, 1))
    y = (np.arange(ROWS) < YES).astype(int)
    return hr.TreeClassifier(schema, epsilon=0.5).fit(X, y)


def test_no_card_holds_an_exact_count(tmp_path):
    model = counted_model()
    bare = namesake(model, model.privacy_)
    for name, write in CARDS.items():
        assert counted(write(model)) == [], name
        assert write(bare) == write(model), f"{name} reads more than statement, schema and digest"


def test_an_exact_count_would_be_seen():
    model = counted_model()
    model.privacy_ = replace(model.privacy_, caveats=(f"trained on {ROWS} records.",))
    assert counted(cards.cyclonedx(model)) == [str(ROWS)]
    assert counted(cards.annex_iv(model)) == [str(ROWS)]


# ------------------------------------------------------------------------------ skops, signatures
def test_skops_reads_what_was_written(tmp_path):
    io = pytest.importorskip("skops.io", reason="skops is not installed")
    model, X = one(), rows(40)
    path = model.export(tmp_path / "model.skops", to="skops")
    again = io.load(path, trusted=io.get_untrusted_types(file=path))
    assert np.array_equal(answers(again, X), answers(model, X))
    assert again.privacy_ == model.privacy_
    assert not hasattr(again, "data_report_")


def private_key(path):
    key = ec.generate_private_key(ec.SECP256R1())
    form = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, *form))
    public = serialization.PublicFormat.SubjectPublicKeyInfo
    beside = path.with_suffix(".pub")
    beside.write_bytes(key.public_key().public_bytes(serialization.Encoding.PEM, public))
    return beside


def test_the_signature_of_a_model_is_verified_and_a_changed_model_is_refused(tmp_path):
    signing = pytest.importorskip("model_signing", reason=ELSEWHERE)
    public, path = private_key(tmp_path / "key.pem"), tmp_path / "m" / "model.json"
    path.parent.mkdir()
    one().save(path)
    command = ["export", str(path), "--to", "signature", "-o", str(tmp_path / "model.sig")]
    done = CliRunner().invoke(app, [*command, "--key", str(tmp_path / "key.pem")])
    assert done.exit_code == 0, done.output
    verifier = signing.verifying.Config().use_elliptic_key_verifier(public_key=str(public))
    verifier.verify(str(path), str(tmp_path / "model.sig"))
    path.write_text(path.read_text().replace("two", "tow") + " ")
    with pytest.raises(ValueError, match=r"[Hh]ash|mismatch"):
        verifier.verify(str(path), str(tmp_path / "model.sig"))


def test_a_signature_without_a_key_is_refused(tmp_path):
    with pytest.raises(ParameterError, match="key is 'None'; give the PEM file"):
        write_signature(tmp_path / "model.json", tmp_path / "model.sig", None)


@pytest.mark.parametrize("to", CARDS)
def test_the_command_writes_each_card(to, tmp_path):
    one().save(tmp_path / "model.json")
    command = ["export", str(tmp_path / "model.json"), "--to", to, "-o", str(tmp_path / "card")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "card").read_text(encoding="utf-8") == CARDS[to](one())


def test_a_private_evaluation_that_is_kept_is_in_the_cards():
    model = counted_model()
    X = np.linspace(0.0, 1.0, 400)[:, None]
    found = hr.evaluate(model, X, (X[:, 0] < 0.7).astype(int), epsilon=20.0)
    text = cards.cyclonedx(model.keep(found))
    assert complaint(text) is None
    (first, *_) = json.loads(text)["metadata"]["component"]["modelCard"]["quantitativeAnalysis"][
        "performanceMetrics"
    ]
    assert first["slice"] == "all"
    assert f"| {first['type']} | all |" in cards.model_card(model)
    assert f"| {first['type']} | all |" in cards.annex_iv(model)


# --------------------------------------------------------------------------------------------------
# The registry's face of the statement: valid YAML of the right shape, the same words.
SHAPE = json.loads((Path(__file__).parents[1] / "vectors/registry_schema.json").read_text("utf-8"))
EACH_STUDY = pytest.mark.parametrize("name", STUDIES)


LEFT_OUT = {
    "'data_curator_type' is a required property",
    "'publication_date' is a required property",
}
"""What only people know and the registry has no word for."""


def entry_of(name: str) -> dict:
    model = SimpleNamespace(schema_=THREE, privacy_=stated(STUDIES[name]))
    text = registry.registry_text(model)
    found = yaml.safe_load(text)
    assert found == registry.registry_entry(model)
    return found


def filled_in(entry: dict) -> dict:
    entry["deployment"]["basic"]["publication_date"] = "2026-11-16"
    for curator in entry["deployment"]["basic"]["data_curators"]:
        curator["data_curator_type"] = "Nonprofit"
    return entry


def complaints(entry: dict) -> set[str]:
    checker = jsonschema.Draft7Validator(SHAPE, format_checker=jsonschema.FormatChecker())
    return {error.message for error in checker.iter_errors(entry)}


@EACH_STUDY
def test_the_entry_of_every_placement_lacks_only_what_people_know(name):
    entry = entry_of(name)
    assert complaints(entry) == LEFT_OUT
    assert complaints(filled_in(entry)) == set()


@EACH_STUDY
def test_the_entry_says_what_the_statement_says(name):
    found, said = entry_of(name)["deployment"], stated(STUDIES[name])
    numbers = found["privacy_loss"].get("privacy_parameters")
    if math.isinf(said.epsilon):
        assert numbers is None
        assert "infinite" in found["privacy_loss"]["privacy_parameters_details"]
        assert found["dp_variant"]["variant_name"] == "Custom"
    else:
        assert numbers == {"epsilon": said.epsilon, "delta": said.delta}
        pure = found["dp_variant"]["variant_name"] == "Pure DP"
        assert pure == (said.delta == 0)
    assert found["privacy_loss"]["privacy_unit"] == said.unit
    assert found["privacy_loss"]["privacy_unit_details"] == said.neighbors
    assert all(line in found["dp_variant"]["unprotected_quantities"] for line in said.unprotected)
    assert all(line in found["administrative"]["notes"] for line in said.caveats)
    federated = said.n_sites > 1
    assert (found["deployment_model"]["model_name"] == "Federated") == federated


def test_what_a_study_says_of_its_model_is_filled_in():
    about = About(
        curators=(Curator("Five hospitals", "Nonprofit"),),
        intended_use="Planning of beds.",
        region="Switzerland",
        sector="Healthcare",
        publication_date="2026-11-16",
    )
    said = replace(stated(STUDIES["distributed"]), about=about)
    model = SimpleNamespace(schema_=THREE, privacy_=said)
    entry = yaml.safe_load(registry.registry_text(model))
    assert complaints(entry) == set()
    basic = entry["deployment"]["basic"]
    assert basic["data_curators"][0]["data_curator_name"] == "Five hospitals"
    assert (basic["data_product_sector"], basic["intended_use"]) == (
        "Healthcare",
        "Planning of beds.",
    )
    assert "intended use" in str(said)
    assert PrivacyStatement.from_dict(json.loads(json.dumps(said.to_dict()))) == said


@pytest.mark.parametrize("lost", ["privacy_loss", "dp_variant", "accounting"])
def test_an_entry_that_lacks_a_part_is_seen(lost):
    """Twin: the shape is strict."""
    found = filled_in(entry_of("distributed"))
    del found["deployment"][lost]
    assert complaints(found) == {f"{lost!r} is a required property"}


def test_a_value_that_the_registry_does_not_list_is_seen():
    found = filled_in(entry_of("distributed"))
    found["deployment"]["dp_variant"]["variant_name"] = "none"
    found["deployment"]["basic"]["publication_date"] = "1/1/2026"
    assert len(complaints(found)) == 2


@pytest.mark.parametrize("odd", ['a "b": c\n- d', "# e\nf: g", "yes", "  x\ny ", "a\n\nb", "é\n|"])
def test_texts_with_quotes_colons_and_line_breaks_survive(odd):
    said = replace(stated(STUDIES["distributed"]), neighbors=odd)
    model = SimpleNamespace(schema_=THREE, privacy_=said)
    found = yaml.safe_load(registry.registry_text(model))["deployment"]
    assert found["privacy_loss"]["privacy_unit_details"] == odd
