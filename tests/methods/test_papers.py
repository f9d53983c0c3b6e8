"""The papers' methods by name: the table's lines run, and every parameter does something."""

from __future__ import annotations

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

import hedgerow as hr
from docs.make_pages import with_papers
from hedgerow.errors import ParameterError
from hedgerow.methods import registry
from hedgerow.methods.parameters import declared_parameters
from hedgerow.methods.presets import PRESETS, Departure
from methods.test_parameters import FREE, attempt_on, others
from support.audited_methods import SWITCHES, SWITCHLESS
from support.worlds import TWO, VALUE, sample

papers = registry.papers()

ROOT = Path(__file__).parents[2]
SMALL = {"n_estimators": 2, "max_depth": 2, "max_splits": 3, "hessian_rounds": 1}
MEASURED = ("consul", "gubler", "liu", "maddock", "wang")
"""Papers that have a study; others have none yet."""
SITES = 3
EACH = pytest.mark.parametrize("method", papers.METHODS, ids=lambda m: m.call)


def made(method, changes=()):
    """What the line of the table makes, with some parameters changed by name."""
    path, words = method.call[:-1].split("(")
    paper, name = path.split(".")
    _, _, rest = words.partition(", ")
    typed = {**eval(f"dict({rest})"), **dict(changes)}
    return getattr(getattr(papers, paper), name)(schema_of(method), **typed)


def schema_of(method):
    return VALUE if "(numbers" in method.call else TWO


def site_rows(method):
    needs = made(method)._method(schema_of(method)).needs
    return 1 if needs.single_site else SITES


def quick(method, changes=()):
    """The same, small; what the paper gives no number for stays as it is."""
    told = made(method).get_params()
    used = {p.name for p in declared_parameters(type(made(method))) if p.is_used(told)}
    few = {n: v for n, v in SMALL.items() if n in used and told[n] is not None}
    return made(method, {**few, **dict(changes)})


# ------------------------------------------------------------------------------------- the table
def test_the_page_of_papers_has_the_present_table():
    page = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    assert with_papers(page) == page
    for method in papers.METHODS:
        assert f"`{method.line}`" in page


def test_every_function_of_every_paper_stands_in_the_table():
    for paper in registry.paper_titles():
        here = {call.split(".")[2] for call in PRESETS if call.startswith(f"papers.{paper}.")}
        told = {m.call.split("(")[0].split(".")[1] for m in papers.METHODS if m.paper == paper}
        assert here == told
        assert all(callable(getattr(getattr(papers, paper), name)) for name in here)


def test_a_paper_s_own_file_registers_its_lines_of_the_table():
    measured = {page.stem for page in (ROOT / "docs/results").glob("*.md")}
    assert registry.paper_titles().keys() & measured == {*MEASURED}
    assert len(papers.METHODS) == len({method.line for method in papers.METHODS})
    assert len([method for method in papers.METHODS if method.paper in MEASURED]) == 40
    assert registry.paper_methods().keys() == PRESETS.keys()


@EACH
def test_the_line_as_it_stands_in_the_table_fits_and_says_its_epsilon(method):
    model = eval(method.line, {"hr": hr, "schema": TWO, "numbers": VALUE})
    assert model.get_params() == made(method).get_params()
    fits_and_says_its_epsilon(clone(model), schema_of(method))


def fits_and_says_its_epsilon(model, schema, n=60, sites=1):
    X, y = sample(n, schema)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, y, site=None if sites == 1 else np.arange(n) % sites)
    assert len(model.predict(X)) == n
    stays_within_its_declaration(model, sites)
    if model.dp_model == "none":
        assert model.privacy_.epsilon == float("inf")
    else:
        assert model.privacy_.epsilon <= model.epsilon * (1 + 1e-9)


def stays_within_its_declaration(model, sites):
    largest, rounds = model._method(model.schema_).largest(model.schema_), model.run_.rounds
    assert len(rounds) <= largest.rounds_of(sites)
    assert max(len(r.manifest) for r in rounds) <= largest.queries
    assert max(r.integers for r in rounds) <= largest.integers
    assert max(tree.n_leaves for tree in model.model_.score.trees) <= max(largest.leaves, 2**16)


SEVERAL = [
    m
    for m in papers.METHODS
    if site_rows(m) > 1 and (m.paper != "maddock" or m.call == "maddock.ldp(schema)")
]


@pytest.mark.parametrize("method", SEVERAL, ids=lambda m: m.call)
def test_what_papers_made_for_several_sites_fits_over_several(method):
    fits_and_says_its_epsilon(quick(method), schema_of(method), sites=SITES)


# ----------------------------------------------------------------- published means published
def repairs_left_on(presets, departures):
    """Names of a paper under which one of its departures runs although nobody typed it."""
    return {
        (preset.call, name)
        for preset in presets
        for departure in departures
        for name, value in (departure.published or {}).items()
        if preset.call.partition(".")[2] not in departure.corrected
        for model in [getattr(getattr(papers, preset.paper), preset.call.partition(".")[2])(TWO)]
        for parameter in declared_parameters(type(model))
        if parameter.name == name
        and parameter.is_used(model.get_params())
        and getattr(model, name) != value
    }


def switchless(departures, paper):
    """How many have no switch though what is published could be run."""
    for d in departures:
        ways = (d.published, d.published_as, d.unsound, d.reason)
        assert sum(map(bool, ways)) == 1, d.words
        honest = [PRESETS[f"papers.{paper}.{name}"] for name in d.published_as]
        assert all(preset.factor is not None for preset in honest)
    return sum(bool(d.reason) for d in departures)


def presets_of(paper):
    return [preset for preset in PRESETS.values() if preset.paper == paper]


@pytest.mark.parametrize("paper", registry.paper_titles())
def test_every_departure_is_off_under_the_paper_s_names_or_says_why_it_cannot_be(paper):
    departures = registry.paper_departures()[paper]
    assert switchless(departures, paper) == SWITCHLESS[paper]
    switches = {name for d in departures for name in d.published or {}}
    assert switches == SWITCHES[paper]
    assert repairs_left_on(presets_of(paper), departures) == set()


def test_a_repair_that_is_left_on_is_found():
    left_on = Departure("trees have a depth of their own", {"max_depth": 99})
    assert ("gubler.algorithm_5", "max_depth") in repairs_left_on(presets_of("gubler"), [left_on])


def test_a_departure_without_a_switch_is_found():
    with pytest.raises(AssertionError, match="trees are tall"):
        switchless([Departure("trees are tall")], "gubler")
    assert switchless([Departure("trees are tall", reason="they are")], "gubler") == 1


def test_no_docstring_lists_a_departure_of_its_own():
    """What differs from a paper stands in the list of its file, which the tests walk."""
    sources = (ROOT / "src/hedgerow/methods").rglob("*.py")
    found = [p.name for p in sources if re.search(r"Departures?( from [\w -]+)?:", p.read_text())]
    assert found == ["presets.py"]  # the heading of every name's help


@pytest.mark.parametrize("paper", registry.paper_titles())
def test_help_and_page_tell_each_departure(paper):
    page = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
    for departure in registry.paper_departures()[paper]:
        assert str(departure) in page
        for preset in presets_of(paper):
            told = getattr(getattr(papers, paper), preset.call.partition(".")[2]).__doc__
            assert str(departure) in told


# --------------------------------------------------------------------------------- no idle words
@EACH
def test_every_parameter_of_a_name_changes_what_is_built_or_is_refused_by_name(method):
    model, schema, sites = quick(method), schema_of(method), site_rows(method)
    before = attempt_on(model, schema, sites)
    assert not isinstance(before, str)
    for name in (p.name for p in declared_parameters(type(model)) if p.name not in FREE):
        known = [*others(type(model), name), getattr(type(model)(), name)]
        values = [value for value in known if value != getattr(model, name)]
        outcomes = [outcome(method, name, value) for value in values]
        assert any(found != before for found in outcomes), name
        nameless = [found for found in outcomes if isinstance(found, str) and name not in found]
        assert not nameless, name


def outcome(method, name, value):
    """What is built with one parameter changed, or why it is not."""
    try:
        return attempt_on(quick(method, {name: value}), schema_of(method), site_rows(method))
    except ParameterError as error:
        return str(error)


@EACH
def test_a_parameter_that_nobody_knows_is_refused(method):
    with pytest.raises(ParameterError, match="learnign_rate is no parameter of"):
        made(method, {"learnign_rate": 0.1})


def test_what_makes_a_method_cannot_be_changed_under_its_name():
    with pytest.raises(
        ParameterError, match=r"split is 'choice', but LocalRNM is what it is by split="
    ):
        papers.wang.local_rnm(TWO, split="choice")
    assert papers.wang.local_rnm(TWO, split="local_choice").split == "local_choice"


def test_root_gini_is_refused_where_a_choice_would_go_by_it():
    for make in (papers.wang.local_rnm, papers.wang.single_machine_rnm):
        with pytest.raises(ParameterError, match="root_gini"):
            make(TWO, criterion="root_gini")._method(TWO)


# --------------------------------------------------------------------------- epsilon, as it is
AS_PRINTED = [m for m in papers.METHODS if "published_epsilon" in m.call]


@pytest.mark.parametrize("method", AS_PRINTED, ids=lambda m: m.call)
def test_a_printed_epsilon_that_does_not_hold_cannot_be_claimed(method):
    with pytest.raises(ParameterError, match=r"epsilon is 1\.0, which .* would not keep"):
        made(method, {"epsilon": 1.0})


@pytest.mark.parametrize("method", AS_PRINTED, ids=lambda m: m.call)
def test_what_is_printed_needs_the_number_of_features(method):
    with pytest.raises(ParameterError, match="depends on the number of features"):
        eval(method.line, {"hr": hr, "schema": None})


def test_the_honest_epsilon_is_the_printed_one_times_its_factor():
    five = hr.Schema(tuple(hr.Numeric(name, 0, 1) for name in "abcde"), classes=("no", "yes"))
    assert papers.consul.diprime_exp_as_published(five, published_epsilon=2.0).epsilon == 3.75
    assert papers.consul.honest_factor_of_medians(4) * 8 == 13
