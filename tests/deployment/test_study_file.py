"""study.toml: what it says, what its hash covers, and errors that name the line."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

import hedgerow as hr
from hedgerow.deployment.draft import typed_number
from hedgerow.deployment.study_file import ELSEWHERE, StudyFile, as_text
from hedgerow.errors import ParameterError
from hedgerow.methods.common import CommonParameters
from hedgerow.methods.parameters import declared_parameters
from hedgerow.methods.saving import read_parameters
from hedgerow.privacy.accounting.budget import written_number
from hedgerow.secagg.keys import Identity
from support.worlds import study_text

SITES = [Identity.from_bytes(bytes([k]) * 32).public.hex() for k in (1, 2, 3)]
COORDINATOR = Identity.from_bytes(bytes([9]) * 32).public.hex()
TEXT = f"""\
version = 1
name = "income"
public_seed = 7

[model]
estimator = "HistogramTreeClassifier"

[model.parameters]
max_depth = 2

[schema]
classes = ["no", "yes"]

[[schema.feature]]
name = "age"
low = 0
high = 100
bins = 8

[privacy]
epsilon = 1
delta = 1e-6

[coordinator]
key = "{COORDINATOR}"

[[site]]
name = "north"
key = "{SITES[0]}"

[[site]]
name = "south"
key = "{SITES[1]}"

[[site]]
name = "west"
key = "{SITES[2]}"

[timing]
patience_seconds = 5
"""


@pytest.fixture
def write(tmp_path):
    def written(text: str):
        path = tmp_path / "study.toml"
        path.write_text(text, encoding="utf-8")
        return path

    return written


def test_a_file_says_the_study_roster_timing_and_estimator(write):
    found = StudyFile.read(write(TEXT))
    assert found.study.n_sites == 3
    assert (found.study.colluders, found.study.threshold) == (1, 3)
    assert found.study.epsilon == 1
    assert found.study.delta == Fraction(1, 10**6)
    assert found.study.retry_budget == Fraction(1, 20)
    assert [key.hex() for key in found.roster.sites] == SITES
    assert found.names == ("north", "south", "west")
    assert found.timing.patience_seconds == 5
    model = found.estimator()
    assert isinstance(model, hr.HistogramTreeClassifier)
    assert (model.max_depth, model.random_state) == (2, 7)
    assert model.schema.names == ("age",)


def test_a_schema_may_stand_in_a_file_of_its_own(write, tmp_path):
    inline = StudyFile.read(write(TEXT))
    (tmp_path / "schema.toml").write_text(inline.schema_given.to_toml(), encoding="utf-8")
    start, end = TEXT.index("[schema]"), TEXT.index("[privacy]")
    apart = TEXT[:start] + '[schema]\nfile = "schema.toml"\n\n' + TEXT[end:]
    assert StudyFile.read(write(apart)).study.hash == inline.study.hash


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("patience_seconds = 5", "patience_seconds = 50"),
        ("epsilon = 1\n", "epsilon = 1.0  # the same\n"),
        ("epsilon = 1\n", 'epsilon = "1/1"\n'),
        ("max_depth = 2", "max_depth = 2\n\n"),
    ],
)
def test_spelling_and_timing_are_not_hashed(write, old, new):
    assert StudyFile.read(write(TEXT.replace(old, new))).study.hash == read_hash(write)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("max_depth = 2", "max_depth = 3"),
        ("epsilon = 1\n", "epsilon = 2\n"),
        ("public_seed = 7", "public_seed = 8"),
        ("high = 100", "high = 101"),
        ('name = "income"', 'name = "outcome"'),
        ('name = "north"', 'name = "nord"'),
        ("delta = 1e-6", 'delta = 1e-6\nunit = "person"'),
        (SITES[0], Identity.from_bytes(bytes([4]) * 32).public.hex()),
        (COORDINATOR, Identity.from_bytes(bytes([4]) * 32).public.hex()),
        ("delta = 1e-6", "delta = 1e-6\nretry_budget = 0.1"),
        ("delta = 1e-6", "delta = 1e-6\nrecords_per_person = 2"),
        ("[coordinator]", "[sum]\nthreshold = 2\n\n[coordinator]"),
        ("[coordinator]", "[sum]\nreply_interval_seconds = 2\n\n[coordinator]"),
    ],
)
def test_all_the_rest_is(write, old, new):
    assert TEXT.count(old) == 1
    assert StudyFile.read(write(TEXT.replace(old, new))).study.hash != read_hash(write)


ABOUT = """
[about]
intended_use = "Planning of beds."
region = "Switzerland"
publication_date = "2026-11-16"
curator = [{ name = "Five hospitals", kind = "Nonprofit" }]
"""


def test_what_people_say_of_the_model_is_read_written_and_not_hashed(write):
    found = StudyFile.read(write(TEXT + ABOUT))
    assert found.study.hash == read_hash(write)
    assert found.about.curators[0].name == "Five hospitals"
    assert dict(found.about.lines())["region"] == "Switzerland"
    assert StudyFile.read(write(as_text(found))).about == found.about
    assert StudyFile.read(write(TEXT)).about is None


def read_hash(write) -> bytes:
    return StudyFile.read(write(TEXT)).study.hash


TIMING = "[timing]"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("epsilon = 1\n", "epsilon = -1\n", r"line 21: epsilon is -1; use a finite number above"),
        ("max_depth = 2", "max_deep = 2", r"line 9: max_deep is no parameter of Histogram"),
        ("max_depth = 2", "epsilon = 2", r"line 9: epsilon stands among the parameters"),
        (
            "max_depth = 2",
            "hold_out = 5",
            r"line 9: hold_out stands .* belongs to .evaluation.",
        ),
        ("max_depth = 2", "max_depth = 0", r"line 9: max_depth is 0; use a whole number"),
        ("HistogramTreeClassifier", "Tree", r"line 6: estimator is 'Tree'; use one of"),
        ("HistogramTreeClassifier", "Schema", r"line 6: estimator is 'Schema'; use one of"),
        ("version = 1", "version = 2", r"line 1: version is 2; this hedgerow reads version 1"),
        ("version = 1", "", r"version is missing; add it"),
        ("delta = 1e-6", "dalta = 1e-6", r"line 22: privacy.dalta is no entry of a study"),
        (SITES[1], SITES[1][:-1], r"line 33: site.1.key is '.*'; let .hedgerow study invite. w"),
        (SITES[1], "", r"toml: keys are still missing; `hedgerow study invite` gets them"),
        (SITES[1], SITES[0], r"line 33: site.1.key stands above already; everybody needs a key"),
        (SITES[1], "00" * 64, r"line 33: site.1.key is no key that anybody can hold alone"),
        (TIMING, f"[sum]\nthreshold = 9\n{TIMING}", r"line 40: threshold is 9 and colluders is"),
        (TIMING, f"[sum]\ncolluders = 7\n{TIMING}", r"line 40: threshold is . and colluders is 7"),
        (TIMING, f'[sum]\ngraph = "sparse"\n{TIMING}', r"'sparse'; write \"complete\", or, for"),
        (TIMING, f"[sum]\ngraph = {{ sigma = 40 }}\n{TIMING}", r"graph.rounds is missing"),
        ('"south"', '"north"', r"line \d+: site.1.name is 'north', as another site's"),
        ('"south"', '"a b"', r"line 32: site.1.name is 'a b'; use letters"),
        ("high = 100", "high = -1", r"column 'age': low is 0.0 and high is -1.0"),
        ("[schema]\n", "[schema\n", r"not valid TOML: .*line 11.*; correct that line"),
        ("patience_seconds = 5", "patience_seconds = -5", r"line 40: timing.patience_seconds is"),
    ],
)
def test_an_error_names_the_line_and_what_to_do(write, old, new, said):
    assert TEXT.count(old) >= 1
    path = write(TEXT.replace(old, new, 1))
    with pytest.raises(hr.ParameterError, match=said) as caught:
        StudyFile.read(path)
    assert str(path) in str(caught.value)


def test_a_study_may_name_a_method_of_a_paper(write):
    named = TEXT.replace("HistogramTreeClassifier", "papers.gubler.algorithm_5", 1)
    model = StudyFile.read(write(named)).estimator()
    assert type(model) is hr.HistogramTreeClassifier
    assert (model.max_depth, model.consistency, model.n_bins) == (2, False, 10)


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("papers.gubler.algorithm_6_as_published", "epsilon is .*, which .* would not keep"),
        (
            "papers.maddock.ldp",
            "dp_model is 'distributed', but LDP is what it is by dp_model='per_site'",
        ),
        ("papers.gubler.algorithm_7", "estimator is 'papers.gubler.algorithm_7'; use one of"),
        ("papers.gubler.preset", "use one of"),
    ],
)
def test_a_method_that_cannot_keep_the_study_s_promise_is_refused(write, method, said):
    shares = TEXT.replace("delta = 1e-6", 'delta = 1e-6\ndp_model = "distributed"')
    with pytest.raises(hr.ParameterError, match=said):
        StudyFile.read(write(shares.replace("HistogramTreeClassifier", method, 1)))


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(hr.ParameterError, match="cannot be read"):
        StudyFile.read(tmp_path / "nowhere.toml")


def test_every_parameter_that_all_estimators_have_has_its_place_in_a_study():
    """One that stood among the model's own would be accepted, and no site would heed it."""
    assert {p.name for p in declared_parameters(CommonParameters)} == set(ELSEWHERE)


# --------------------------------------------------------------------------------------------------
# Numbers in study files are plain decimals of bounded length, read at once and in one way.
KEYS = [Identity.generate().public.hex() for _ in range(4)]
ODD = ['"1e2"', '"1e100000"', '"١"', '"１"', '" 1"', '"1 "', '"1_0"', '" 1_0 "', '"+1"', '"1/0x2"']
ODD += ['"1."', '".5"', '"nan"', '"inf"', "nan", "inf", f'"{"9" * 13}"', "9" * 13, "1e12", '"1\\n"']
ODD += [f'"0.{"1" * 41}"', f'"1/{"3" * 21}"', "1" + "0" * 4000, f'"1{"0" * 4000}"', "9" * 5000]
ODD += [f"0x{'f' * 9000}", '"1e100000000"', '"1e-100000000"']


def read(text: str) -> StudyFile:
    return StudyFile.parse(text, Path("study.toml"))


def said_of(old: str, new: str) -> str:
    text = study_text(KEYS[:3], KEYS[3])
    assert old in text
    with pytest.raises(ParameterError, match=r"study\.toml") as caught:
        read(text.replace(old, new))
    assert len(str(caught.value)) < 600
    return str(caught.value)


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: ascii(odd)[:24])
def test_a_study_s_epsilon_and_delta_are_plain_decimals_of_bounded_length(odd):
    said_of("epsilon = 1\n", f"epsilon = {odd}\n")
    said_of("delta = 1e-6\n", f"delta = {odd}\n")
    said_of("retry_budget = 0.3\n", f"retry_budget = {odd}\n")


@pytest.mark.parametrize(
    ("plain", "means"),
    [
        ("1", Fraction(1)),
        ("0.5", Fraction(1, 2)),
        ('"0.5"', Fraction(1, 2)),
        ('"1/3"', Fraction(1, 3)),
        ('"0.1"', Fraction(1, 10)),
    ],
)
def test_plain_numbers_are_read_exactly(plain, means):
    text = study_text(KEYS[:3], KEYS[3], dp_model="distributed")
    assert read(text.replace("epsilon = 1\n", f"epsilon = {plain}\n")).study.epsilon == means


@pytest.mark.parametrize("odd", ['"1e2"', '"١"', '" 1 "', '"1_0"', '"1e999"'])
def test_a_schema_s_numbers_are_spelled_as_python_spells_them(odd):
    text = hr.Schema({"age": (0, 1)}).to_toml()
    if odd == '"1e2"':
        assert hr.Schema.from_toml(text.replace("1.0", odd)).features[0].high == 100
        return
    with pytest.raises(ParameterError, match="use a finite number"):
        hr.Schema.from_toml(text.replace("1.0", odd))


def test_counts_and_parameters_are_bounded():
    huge = "9" * 30
    said_of('dp_model = "none"', f'dp_model = "none"\nrecords_per_person = {huge}')
    said_of("max_depth = 2", f"max_depth = {huge}")
    said_of("max_depth = 2", f"max_depth = 0x{'f' * 9000}")
    said_of("max_depth = 2", 'max_depth = { fraction = "1e100000000" }')
    said_of("max_depth = 2", f"max_depth = {'[' * 5000}")
    said_of("asks = 2", f"asks = {huge}")
    said_of("answer_seconds = 1", 'answer_seconds = "1_0"')
    said_of("answer_seconds = 1", "answer_seconds = inf")


def test_fractions_of_a_model_file_are_spelled_as_python_spells_them():
    assert read_parameters({"a": {"fraction": "-1/3"}}) == {"a": Fraction(-1, 3)}
    for odd in ("1e9", "١", " 1", "1_0", "1" * 401):
        with pytest.raises(ValueError, match="a fraction is spelled"):
            read_parameters({"a": {"fraction": odd}})


@pytest.mark.parametrize("odd", ["1_0", " 1", "١", "1e100000000", "1e-100", "x", "1/0", "-1", ""])
def test_numbers_that_are_typed_or_stand_in_a_policy_are_plain_too(odd):
    for take in (typed_number, lambda text: written_number(text, "epsilon_per_study")):
        with pytest.raises(ParameterError, match="write a number in quotes"):
            take(odd)
    assert written_number("1e-5", "delta") == Fraction(1, 10**5)
    assert [typed_number(one) for one in ("2", "1e-6", "0.5", "1/3")] == [2, 1e-6, 0.5, "1/3"]


def test_a_method_that_asks_too_much_is_refused_when_the_file_is_read(write):
    """Before any site approves it: the coordinator would refuse it at the start of the run."""
    boosted = TEXT.replace("HistogramTree", "BoostedTrees")
    allowed = boosted.replace("max_depth = 2", "max_depth = 10")
    assert StudyFile.read(write(allowed)).longest_message < 2**26
    with pytest.raises(ParameterError, match="bytes in one message"):
        StudyFile.read(write(boosted.replace("max_depth = 2", "max_depth = 11")))
