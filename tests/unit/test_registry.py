"""The registry's face of the statement: valid YAML of the right shape, the same words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jsonschema
import pytest
import yaml

from contract.worlds import THREE
from hedgerow.report import registry
from unit.test_statement import STUDIES, stated

SHAPE = json.loads((Path(__file__).parents[1] / "vectors/registry_schema.json").read_text("utf-8"))
EACH = pytest.mark.parametrize("name", STUDIES)


def entry_of(name: str) -> dict:
    model = SimpleNamespace(schema_=THREE, privacy_=stated(STUDIES[name]))
    text = registry.written(model)
    found = yaml.safe_load(text)
    assert found == registry.registry_entry(model)
    return found


@EACH
def test_the_entry_of_every_placement_is_valid(name):
    jsonschema.validate(entry_of(name), SHAPE)


@EACH
def test_the_entry_says_what_the_statement_says(name):
    found, said = entry_of(name), stated(STUDIES[name])
    numbers = found["privacy_loss"]["privacy_parameters"]
    assert float(numbers["epsilon"]) == said.epsilon
    assert numbers["delta"] == said.delta
    assert found["privacy_loss"]["privacy_unit"] == said.unit
    assert found["dp_variant"]["unprotected_quantities"] == list(said.unprotected)
    assert found["notes"] == list(said.caveats)
    federated = said.parties > 1
    assert (found["deployment_model"]["model_name"] == "Federated") == federated


@pytest.mark.parametrize("lost", ["privacy_loss", "dp_variant", "accounting"])
def test_an_entry_that_lacks_a_part_is_seen(lost):
    """Twin: the shape is strict."""
    found = entry_of("shares")
    del found[lost]
    with pytest.raises(jsonschema.ValidationError, match=lost):
        jsonschema.validate(found, SHAPE)


def test_texts_with_quotes_colons_and_line_breaks_survive():
    said = replace(stated(STUDIES["shares"]), caveats=('a "b": c\n- d', "# e", "yes"))
    model = SimpleNamespace(schema_=THREE, privacy_=said)
    assert yaml.safe_load(registry.written(model))["notes"] == list(said.caveats)
