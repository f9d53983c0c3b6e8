"""The table of mutants is whole, and the bench tells a catch from a mishap."""

from __future__ import annotations

import re
from collections import Counter

import pytest

from mutants.bench import Outcome, judged, read_report
from mutants.mutant import Mutant, NoPlace
from mutants.mutants import MUTANTS
from mutants.page import kept, page
from mutants.run import PROJECT

SOME = Mutant("some mutant", "data/rows.py", "old", "new", "data/test_rows.py::test_it")
PACKAGES = {
    *("schema", "models", "kernels", "secagg", "privacy", "data", "federation", "methods"),
    *("deployment", "cli"),
}


def test_there_are_sixty_slips_and_more_in_every_package():
    assert len(MUTANTS) >= 60
    assert {mutant.path.split("/")[0] for mutant in MUTANTS} >= PACKAGES


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.words)
def test_a_slip_has_one_place_and_a_test_that_exists(mutant):
    source = mutant.file(PROJECT).read_text(encoding="utf-8")
    planted = mutant.planted(source)
    if mutant.path.endswith(".py"):
        compile(planted, mutant.path, "exec")
    file, name = mutant.test.split("[")[0].split("::")
    assert re.search(rf"^def {name}\(", (PROJECT / "tests" / file).read_text(), re.MULTILINE)


def test_no_two_slips_have_one_name_or_are_one_mistake():
    assert max(Counter(mutant.words for mutant in MUTANTS).values()) == 1
    assert max(Counter((mutant.path, mutant.old, mutant.new) for mutant in MUTANTS).values()) == 1


def test_a_text_that_is_there_twice_is_no_place():
    with pytest.raises(NoPlace, match="2 times"):
        SOME.planted("old and old")
    with pytest.raises(NoPlace, match="0 times"):
        SOME.planted("nothing")
    assert SOME.planted("an old thing") == "an new thing"


@pytest.mark.parametrize(
    ("failures", "errors", "caught"),
    [
        (("assert 1 == 2",), (), True),
        (("AssertionError: wrong",), (), True),
        (("Failed: DID NOT RAISE <class 'hedgerow.errors.ParameterError'>",), (), True),
        (("hedgerow.errors.LedgerBroken: entry 3",), (), True),
        (("NameError: name 'x' is not defined",), (), False),
        (("ImportError: cannot import name",), (), False),
        ((), ("collection failure",), False),
        ((), (), False),
    ],
)
def test_only_a_judgment_or_a_refusal_is_a_catch(failures, errors, caught):
    assert judged(SOME, Outcome(1, failures, errors), 1.0).caught is caught


def test_a_run_without_a_report_is_no_catch(tmp_path):
    outcome = read_report(tmp_path / "report.xml")
    assert not outcome.is_clean
    assert not judged(SOME, outcome, 1.0).caught


def test_failures_and_errors_are_read_apart(tmp_path):
    report = tmp_path / "report.xml"
    report.write_text(
        '<testsuites><testsuite><testcase name="a"/>'
        '<testcase name="b"><failure message="assert 1&#10;more">long</failure></testcase>'
        '<testcase name="c"><error message="collection failure">x&#10;E  NameError</error>'
        "</testcase></testsuite></testsuites>"
    )
    assert read_report(report) == Outcome(1, ("assert 1",), ("collection failure: E  NameError",))


def test_the_page_names_every_slip_and_no_other():
    caught = judged(SOME, Outcome(0, ("assert 0",), ()), 1.0)
    assert "1 mutants, 1 caught, 0 survived" in page([caught])
    shown = page(kept())
    assert f"{len(MUTANTS)} mutants, {len(MUTANTS)} caught, 0 survived" in shown
    for mutant in MUTANTS:
        assert f"| {mutant.words} | `{mutant.path}` | `{mutant.test}` |" in shown
