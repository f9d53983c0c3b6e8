"""A study's numbers and its one hash: what is refused, and what tells two studies apart."""

from __future__ import annotations

import copy
import json
import math
import tomllib
from dataclasses import fields, replace
from fractions import Fraction
from itertools import product
from pathlib import Path

import pytest
import typer

import hedgerow as hr
from hedgerow.cli.main import app
from hedgerow.deployment.approve import what_leaves
from hedgerow.deployment.study_file import COMMON, StudyFile, as_text
from hedgerow.deployment.verify import problems_of
from hedgerow.errors import ParameterError
from hedgerow.methods import registry
from hedgerow.methods.parameters import declared_parameters
from hedgerow.privacy import declaration
from hedgerow.privacy import declaration as hashing
from hedgerow.privacy import study as terms
from hedgerow.privacy.accounting import conversions
from hedgerow.privacy.accounting.budget import DPModel, Measure
from hedgerow.privacy.declaration import (
    FIELD_OF,
    STUDY,
    TABLES,
    Declaration,
    approval,
    read_table,
)
from hedgerow.privacy.mechanisms.response import BloomRandomizedResponse
from hedgerow.privacy.queries import Binning, Cells, ClassCounts, SumQuery
from hedgerow.schema.regions import EVERYONE
from hedgerow.schema.rules import exact
from hedgerow.schema.schema import Numeric, Schema
from hedgerow.secagg.keys import Identity
from hedgerow.secagg.parameters import Parameters
from support.worlds import THREE, TWO, VALUE, study


@pytest.mark.parametrize(
    ("n_sites", "colluders", "threshold"),
    [(3, 1, 1000), (3, 1, 4), (3, 3, 3), (3, 2, 1), (3, -1, 2), (5, 0, 0)],
)
def test_a_study_counts_on_no_more_shares_of_noise_than_there_are(n_sites, colluders, threshold):
    good = study(TWO, n_sites)
    with pytest.raises(ParameterError, match="do not fit"):
        replace(good, colluders=colluders, threshold=threshold)


def test_a_secure_sum_needs_two_sites_and_one_colluder():
    assert study(TWO, 5).parameters == Parameters(n_sites=5, colluders=1, threshold=4)
    in_the_clear = replace(study(TWO, 5), colluders=0, threshold=5)  # a paper's own setting
    with pytest.raises(ParameterError, match="use 1 or more"):
        in_the_clear.parameters  # noqa: B018
    with pytest.raises(ParameterError, match="cannot form a sum"):
        study(TWO, 1).parameters  # noqa: B018


def changed(**fields):
    return replace(study(TWO, 3), **fields)


SITES = tuple(bytes([i]) * 32 for i in range(3))
CHANGES = {
    "name": {"name": "other"},
    "schema": {"schema": THREE},
    "method": {"method": "other"},
    "epsilon": {"epsilon": 2 * study(TWO, 3).epsilon},
    "threshold": {"threshold": 2},
    "dp_model": {"dp_model": DPModel.PER_SITE},
    "people": {"records_per_person": 2},
    "reserve": {"retry_budget": study(TWO, 3).epsilon / 20},
    "roster": {"sites": SITES, "coordinator": b"c" * 32},
    "another roster": {"sites": SITES[::-1], "coordinator": b"c" * 32},
    "another coordinator": {"sites": SITES, "coordinator": b"d" * 32},
    "reply_interval": {"reply_interval": 10},
}


def test_everything_that_was_approved_is_in_the_hash():
    hashes = {changed(**change).hash for change in CHANGES.values()} | {changed().hash}
    assert len(hashes) == len(CHANGES) + 1
    assert changed().hash == changed().hash
    assert changed().account == changed().hash.hex()


@pytest.mark.parametrize("version", ["PROTOCOL", "NOISE_LAW_VERSION"])
def test_versions_are_in_the_hash(monkeypatch, version):
    before = changed().hash
    monkeypatch.setattr(declaration, version, 99)
    assert changed().hash != before


def test_no_float_is_hashed_and_near_ones_are_told_apart():
    hashed = json.dumps(hashing.without_floats(replace(changed(), schema=VALUE).to_dict()))
    assert not any(isinstance(leaf, float) for leaf in leaves(json.loads(hashed)))
    assert bounded(0.1).hash != bounded(math.nextafter(0.1, 1.0)).hash


def test_a_float_is_hashed_as_the_ratio_it_is_and_order_does_not_matter():
    assert hashing.without_floats({"x": [0.5, (1, "1")]}) == {"x": ["1/2", [1, "1"]]}
    assert hashing.content_hash({"a": 1, "b": 2}) == hashing.content_hash({"b": 2, "a": 1})


def bounded(low):
    schema = Schema((Numeric("age", low, 100.0, bins=8),), classes=("no", "yes"))
    return changed(schema=schema)


def leaves(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from leaves(part)
    else:
        yield value


@pytest.mark.parametrize(
    "keys",
    [{"sites": SITES}, {"coordinator": b"c" * 32}, {"sites": SITES[:2], "coordinator": b"c"}],
)
def test_a_study_names_all_keys_or_none(keys):
    with pytest.raises(ParameterError, match="name all of them"):
        changed(**keys)


def test_no_field_of_a_study_is_left_out_of_its_hash():
    assert {field.name for field in fields(terms.Study)} <= set(changed().to_dict())


# ---------------------------------------------------------------------------------- there and back
TOLD_IN_BITS = study(
    TWO,
    3,
    dp_model=DPModel.LABEL,
    label_reports=BloomRandomizedResponse.for_epsilon(2, 4, 1, Fraction(1)),
)


@pytest.mark.parametrize(
    "one",
    [*(changed(**change) for change in CHANGES.values()), study(VALUE, 1), TOLD_IN_BITS],
    ids=[*CHANGES, "numbers", "told in bits"],
)
def test_a_study_comes_back_from_json_with_its_hash(one):
    back = terms.Study.from_dict(json.loads(json.dumps(one.to_dict())))
    assert back == one
    assert back.hash == one.hash


@pytest.mark.parametrize(
    "change",
    [
        {"protocol": 99},
        {"noise_law": 99},
        {"lattice": 3},
        {"more": 1},
        {"epsilon": "one"},
        {"epsilon": "2/2"},
        {"dp_model": "MOON"},
        {"sites": ["no key"]},
        {"asks": [["SumQuery", "a", "b", "c"]]},
        {"schema": {}},
        {"reply_interval": 1.0},
        {"n_sites": 0},
        {"graph": "round"},
        {"label_reports": {}},
    ],
    ids=lambda change: next(iter(change)),
)
def test_content_that_hedgerow_would_not_write_is_refused(change):
    with pytest.raises(ParameterError):
        terms.Study.from_dict({**changed().to_dict(), **change})


@pytest.mark.parametrize("name", sorted(changed().to_dict()))
def test_content_that_lacks_a_part_is_refused(name):
    partly = {key: value for key, value in changed().to_dict().items() if key != name}
    with pytest.raises(ParameterError):
        terms.Study.from_dict(partly)


# ------------------------------------------------------------------------ noise of Gaussian studies
def asked(share="1/8", shape=3):
    features = tuple(range(shape))
    by = Cells(features, Binning.of_cells(TWO))
    return SumQuery(EVERYONE, ClassCounts(2), by, Fraction(share))


def gaussian(n_sites=5, **more):
    return study(TWO, n_sites, delta="1/1000000", **more)


def test_a_person_moves_a_gaussian_sum_by_all_their_records_at_once():
    """Three records in one cell are a change of 3 there: nine times the variance of one."""
    one, three = gaussian(), gaussian(records_per_person=3)
    laws = [s.sum_law(asked()).sigma2 / s.refinement(asked()) ** 2 for s in (one, three)]
    assert 8.99 < laws[1] / laws[0] < 9.01


@pytest.mark.parametrize("epsilon", ["1/10", "1", "100"])
def test_finer_units_carry_noise_that_is_as_much_finer(epsilon):
    """However fine the integers are, their release costs what was paid, and hardly less."""
    the_study, query = gaussian(epsilon=epsilon), asked()
    moved = query.sensitivity(1).of_person(the_study.refinement(query))
    price = conversions.cost_of(Measure.GDP, the_study.sum_law(query), moved)
    assert the_study.cost(query) * Fraction(9999, 10000) <= price <= the_study.cost(query)


@pytest.mark.parametrize("n_sites", [2, 5, 50])
@pytest.mark.parametrize("epsilon", ["1", "10", "30"])
def test_every_gaussian_share_is_smooth(n_sites, epsilon):
    share = gaussian(n_sites, epsilon=epsilon).site_law(asked())
    assert share.sigma2 >= terms.SMOOTH_SHARE


@pytest.mark.parametrize("share", ["0", "-1/4"])
def test_a_query_asks_for_a_part_of_the_budget(share):
    with pytest.raises(ParameterError, match="use > 0"):
        study(TWO, 3).cost(asked(share))


# --------------------------------------------------------------------------------------------------
# One declaration: file, JSON Schema, options, estimators and approval say the same of an entry.
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
    assert problems_of("study", written) == []


def test_only_a_method_that_works_out_its_epsilon_is_told_none():
    with pytest.raises(hr.ParameterError, match=r"privacy\.epsilon is missing; add it"):
        StudyFile.checked(content(privacy={}), PATH)
    assert problems_of("study", content(privacy={})) != []


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
    "max_rounds": (40,),
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
    "max_rounds": (-1, 2.5, "20", 10**7),
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
        assert problems_of("study", tomllib.loads(as_text(found))) == []
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
