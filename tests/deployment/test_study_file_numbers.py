"""Numbers in study files are plain decimals of bounded length, read at once and in one way."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

import hedgerow as hr
from hedgerow.deployment.draft import typed_number
from hedgerow.deployment.study_file import StudyFile
from hedgerow.errors import SpecError
from hedgerow.methods.saving import read_parameters
from hedgerow.privacy.accounting.budget import written_number
from hedgerow.secagg.keys import Identity
from support.study_world import study_text

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
    with pytest.raises(SpecError, match=r"study\.toml") as caught:
        read(text.replace(old, new))
    assert len(str(caught.value)) < 600
    return str(caught.value)


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: ascii(odd)[:24])
def test_a_study_s_epsilon_and_delta_are_plain_decimals_of_bounded_length(odd):
    said_of("epsilon = 1\n", f"epsilon = {odd}\n")
    said_of("delta = 1e-6\n", f"delta = {odd}\n")
    said_of("retry_reserve = 0.3\n", f"retry_reserve = {odd}\n")


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
    text = study_text(KEYS[:3], KEYS[3], placement="shares")
    assert read(text.replace("epsilon = 1\n", f"epsilon = {plain}\n")).study.epsilon == means


@pytest.mark.parametrize("odd", ['"1e2"', '"١"', '" 1 "', '"1_0"', '"1e999"'])
def test_a_schema_s_numbers_are_spelled_as_python_spells_them(odd):
    text = hr.Schema({"age": (0, 1)}).to_toml()
    if odd == '"1e2"':
        assert hr.Schema.from_toml(text.replace("1.0", odd)).features[0].high == 100
        return
    with pytest.raises(SpecError, match="use a finite number"):
        hr.Schema.from_toml(text.replace("1.0", odd))


def test_counts_and_parameters_are_bounded():
    huge = "9" * 30
    said_of('placement = "nowhere"', f'placement = "nowhere"\nrecords_per_person = {huge}')
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
        with pytest.raises(SpecError, match="write a number in quotes"):
            take(odd)
    assert written_number("1e-5", "delta") == Fraction(1, 10**5)
    assert [typed_number(one) for one in ("2", "1e-6", "0.5", "1/3")] == [2, 1e-6, 0.5, "1/3"]
