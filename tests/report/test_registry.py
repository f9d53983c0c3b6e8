"""The registry's face of the statement: valid YAML of the right shape, the same words."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest
import yaml

from hedgerow.privacy.statement.record import About, Curator
from hedgerow.privacy.statement.statement import PrivacyStatement
from hedgerow.report import registry
from privacy.test_statement import STUDIES, stated
from support.worlds import THREE

SHAPE = json.loads((Path(__file__).parents[1] / "vectors/registry_schema.json").read_text("utf-8"))
EACH = pytest.mark.parametrize("name", STUDIES)


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


@EACH
def test_the_entry_of_every_placement_lacks_only_what_people_know(name):
    entry = entry_of(name)
    assert complaints(entry) == LEFT_OUT
    assert complaints(filled_in(entry)) == set()


@EACH
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
