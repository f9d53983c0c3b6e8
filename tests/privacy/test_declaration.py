"""One declaration: file, JSON Schema, options, estimators and approval say the same of an entry."""

from __future__ import annotations

import copy
import tomllib
from dataclasses import fields
from itertools import product
from pathlib import Path

import pytest
import typer

import hedgerow as hr
from hedgerow.cli.main import app
from hedgerow.deployment import file_forms
from hedgerow.deployment.approve import what_leaves
from hedgerow.deployment.study_file import COMMON, StudyFile, as_text
from hedgerow.methods import registry
from hedgerow.methods.parameters import declared_parameters
from hedgerow.privacy.declaration import (
    FIELD_OF,
    STUDY,
    TABLES,
    Declaration,
    approval,
    read_table,
)
from hedgerow.schema.rules import exact
from hedgerow.secagg.keys import Identity

papers = registry.papers()

PATH = Path("study.toml")
KEYS = [Identity.from_bytes(bytes([k]) * 32).public.hex() for k in (1, 2, 3, 9)]
CLASSES = hr.Schema({"age": (0, 100), "dose": (0, 8)}, ["no", "yes"])
NUMBERS = hr.Schema({"age": (0, 100), "dose": (0, 8)}, target=(0, 1))


def content(estimator="HistogramTreeClassifier", parameters=None, schema=CLASSES, **tables):
    return {
        "version": 1,
        "name": "wards",
        "public_seed": 7,
        "model": {"estimator": estimator, "parameters": parameters or {}},
        "schema": schema.to_dict(),
        "privacy": {"epsilon": 1},
        "coordinator": {"key": KEYS[-1]},
        "site": [{"name": f"site-{k}", "key": key} for k, key in enumerate(KEYS[:-1])],
        **tables,
    }


def again(found: StudyFile) -> StudyFile:
    return StudyFile.parse(as_text(found), PATH)


# --------------------------------------------------------------------- the method's own guarantee
@pytest.mark.parametrize("call", sorted(method.call for method in papers.METHODS))
def test_every_method_of_the_papers_is_a_study_by_its_name_alone(call):
    """With the paper's own delta and DP model, which the file that is written then says."""
    name, _, typed = call.removesuffix(")").partition("(")
    schema = NUMBERS if typed == "numbers" else CLASSES
    own = eval(f"dict({typed.partition(',')[2]})")
    alone = eval(call, {**vars(papers), "schema": schema, "numbers": schema})
    given = content(f"papers.{name}", own, schema)
    if "published_epsilon" in own:
        given["privacy"] = {}
    if alone._method(schema).needs.single_site:
        with pytest.raises(hr.ParameterError, match="needs all rows at one site"):
            StudyFile.checked(given, PATH)
        return
    found = StudyFile.checked(given, PATH)
    dp_model = alone.dp_model or "distributed"
    assert found.study.dp_model.name.lower() == dp_model
    assert found.study.delta == (0 if dp_model == "label" else exact(alone.delta))
    assert found.study.epsilon == exact(alone.epsilon)
    assert again(found).study.hash == found.study.hash
    written = tomllib.loads(as_text(found))
    assert written["privacy"]["dp_model"] == dp_model
    assert exact(written["privacy"]["delta"]) == found.study.delta
    assert file_forms.problems_of("study", written) == []


def test_only_a_method_that_works_out_its_epsilon_is_told_none():
    with pytest.raises(hr.ParameterError, match=r"privacy\.epsilon is missing; add it"):
        StudyFile.checked(content(privacy={}), PATH)
    assert file_forms.problems_of("study", content(privacy={})) != []


# --------------------------------------------------------------------------- one rule everywhere
SAID = {
    "epsilon": (0.5, "1/3"),
    "delta": (1e-9, "1/1000000000"),
    "unit": ("person",),
    "dp_model": ("per_site",),
    "records_per_person": (3,),
    "retry_budget": (0.25, "1/7"),
    "threshold": (2,),
    "colluders": (1,),
    "graph": ("complete",),
    "reply_interval_seconds": (30,),
    "hold_out": (4,),
}
REFUSED = {
    "epsilon": (0, -1, "x", True, 1e13),
    "delta": (1, -0.1, "1e-6", True),
    "unit": ("house", 1),
    "dp_model": ("moon", 1),
    "records_per_person": (0, 1.5, "2", True, 10**7),
    "retry_budget": (1, -0.1, "1/0", True),
    "threshold": (1, 2.5),
    "colluders": (0, "1"),
    "graph": ("sparse", 3, {"sigma": 40}),
    "reply_interval_seconds": (-1, 0.5, 86_401),
    "hold_out": (1, 0, 2.5, 10**7),
}
PLACES = [(table, name) for table, entries in TABLES.items() for name in entries]


def with_entry(table, name, value):
    return content(**{table: {**({"epsilon": 1} if table == "privacy" else {}), name: value}})


@pytest.mark.parametrize(("table", "name"), PLACES)
def test_an_entry_is_read_written_hashed_and_in_the_json_schema_alike(table, name):
    for value in SAID[name]:
        found = StudyFile.checked(with_entry(table, name, value), PATH)
        assert again(found).study == found.study
        assert again(found).content[table][name] == value
        assert file_forms.problems_of("study", tomllib.loads(as_text(found))) == []
        meant = STUDY[FIELD_OF[table, name]]
        read = meant.rule.parse(meant.value_of(value))
        assert getattr(found.study, FIELD_OF[table, name]) == read
        assert found.study.to_dict()[FIELD_OF[table, name]] is not None


@pytest.mark.parametrize(("table", "name"), PLACES)
def test_what_an_entry_may_not_be_is_refused_by_name(table, name):
    for value in REFUSED[name]:
        with pytest.raises(hr.ParameterError, match=rf"{name}.* is "):
            StudyFile.checked(with_entry(table, name, value), PATH)


ODD = (None, True, -1, 2.5, float("nan"), 10**5000, "", "x", "1/0", [], [1], {}, {"a": 1}, [{}])


def places(value, place=()):
    """Of all entries, however deep."""
    if isinstance(value, dict | list):
        for key, part in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*place, key)
            yield from places(part, (*place, key))


def with_odd(whole, place, odd):
    changed = inner = copy.deepcopy(whole)
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = odd
    return changed


def test_whatever_stands_anywhere_in_a_file_is_read_or_refused_in_words():
    whole = content(
        sum={"graph": "complete"}, about={"curator": [{"name": "A"}]}, timing={"asks": 2}
    )
    StudyFile.checked(whole, PATH)
    said = []
    outside = [place for place in places(whole) if place[0] != "schema"]
    for place, odd in product(outside, ODD):
        try:
            StudyFile.checked(with_odd(whole, place, odd), PATH)
        except hr.ParameterError as error:
            said.append(str(error))
    assert len(said) > 250
    assert all(words.startswith("study.toml: ") for words in said)


def test_all_problems_of_a_file_are_told_at_once():
    problems = []
    read_table(TABLES["privacy"], {"epsilon": 0, "dalta": 1, "unit": 3}, ("privacy",), problems)
    assert [place for place, _ in problems] == [
        ("privacy", "dalta"),
        ("privacy", "epsilon"),
        ("privacy", "unit"),
    ]


def test_estimators_have_the_rules_and_words_of_the_declaration():
    ours = {p.name: p for p in declared_parameters(hr.TreeClassifier)}
    shared = set(STUDY) & COMMON
    assert shared == set(["epsilon", "delta", "dp_model", "colluders", "threshold"]) | {
        "records_per_person",
        "hold_out",
    }
    for name in shared:
        assert ours[name].text == STUDY[name].text
        assert ours[name].rule.expectation.startswith(STUDY[name].rule.expectation)


def test_init_has_an_option_for_every_entry_with_its_words():
    init = typer.main.get_group(app).commands["study"].commands["init"]
    helps = {one.name: one.help for one in init.params}
    for (_, name), of in FIELD_OF.items():
        assert helps[name] == STUDY[of].brief


def test_a_person_who_approves_reads_the_entries_that_are_not_usual():
    usual = StudyFile.checked(content(), PATH)
    assert [title for title, _ in approval(usual.study)] == ["a sum opens", "assumption"]
    more = content(sum={"reply_interval_seconds": 30}, evaluation={"hold_out": 5})
    told = what_leaves(StudyFile.checked(more, PATH))
    assert ("replies leave", "at fixed intervals of 30 seconds") in told
    assert ("held out", "one record in 5, by a secret random draw") in told


def test_every_field_of_a_study_is_an_entry_or_follows_from_the_file():
    assert {one.name for one in fields(Declaration) if "plain" not in one.metadata} == set()
    assert set(FIELD_OF.values()) == set(STUDY)
