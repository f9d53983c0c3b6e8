"""A site's policy is closed unless somebody opened it."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction
from functools import partial

import pytest

from hedgerow.errors import ParameterError, SiteRefused
from hedgerow.federation.policy import TEMPLATE, Policy, SitePolicy, Volume
from hedgerow.privacy.accounting.budget import DPModel, Measure
from support.worlds import TWO, study

STUDY = study(TWO, 3)
FITTING = Policy(
    methods=frozenset({"test"}),
    features=frozenset(TWO.names),
    dp_models=frozenset({DPModel.DISTRIBUTED}),
    epsilon_per_study=Fraction(1),
    delta_per_study=Fraction(1, 10**6),
)


def test_nothing_is_allowed_by_default():
    assert len(list(Policy().reasons(STUDY))) == 4
    with pytest.raises(SiteRefused, match="PolicyRefused"):
        Policy().check(STUDY)


@pytest.mark.parametrize(
    ("allowed", "method", "passes"),
    [
        ("BoostedTreesClassifier", "BoostedTreesClassifier", True),
        ("BoostedTreesClassifier", "BoostedTreesRegressor", False),
        ("BoostedTrees", "BoostedTreesClassifier", False),
        ("boostedtreesclassifier", "BoostedTreesClassifier", False),
        ("papers.wang.*", "papers.wang.local_rnm", True),
        ("papers.wang.*", "papers.liu.fet", False),
        ("papers.wang.*", "TopDownTreeClassifier", False),
    ],
)
def test_methods_are_named_as_users_type_them(allowed, method, passes):
    policy = replace(FITTING, methods=frozenset({allowed}))
    reasons = list(policy.reasons(replace(STUDY, method=method)))
    todo = "your policy does not allow this method; to allow it add: "
    todo += f'methods = ["{allowed}", "{method}"]'
    assert reasons == ([] if passes else [todo])


def test_an_open_policy_and_a_fitting_one_allow_the_study():
    Policy.open().check(STUDY)
    Policy.open().check(study(TWO, 1, DPModel.CENTRAL))
    FITTING.check(STUDY)


@pytest.mark.parametrize(
    "change",
    [
        {"methods": frozenset({"other"})},
        {"features": frozenset({"age"})},
        {"dp_models": frozenset({DPModel.PER_SITE})},
        {"epsilon_per_study": Fraction(1, 2)},
        {"fewest_sites": 4},
    ],
    ids=lambda change: next(iter(change)),
)
def test_each_part_alone_can_say_no(change):
    assert len(list(replace(FITTING, **change).reasons(STUDY))) == 1


@pytest.mark.parametrize(
    ("change", "asked", "why"),
    [
        ({"delta_per_study": Fraction(1, 10**7)}, {"delta": Fraction(1, 10**6)}, "delta 1/1000000"),
        ({"colluders_per_study": 1}, {"colluders": 2}, "colluders 2 is above the ceiling 1"),
        ({"fewest_colluders": 2}, {}, "colluders 1 are fewer than 2"),
        ({"records_per_person": 2}, {"records_per_person": 3}, "records per person 3"),
        (
            {"seconds_per_round": 9},
            {"reply_interval": 10},
            "reply interval 10 is above the ceiling 9",
        ),
    ],
)
def test_each_ceiling_of_a_study_alone_can_say_no(change, asked, why):
    wanted = replace(study(TWO, 5), **asked)
    fitting = replace(FITTING, epsilon_per_study=wanted.epsilon)
    assert list(fitting.reasons(wanted)) == []
    reasons = list(replace(fitting, **change).reasons(wanted))
    assert len(reasons) == 1
    assert why in reasons[0]


def test_rounds_of_a_study_have_a_ceiling_where_they_are_known():
    few = replace(FITTING, rounds_per_study=3)
    assert not list(few.reasons(STUDY)) + list(few.reasons(STUDY, 3))
    todo = "to allow it add: rounds_per_study = 4"
    assert few.reasons(STUDY, 4) == [f"rounds 4 is above the ceiling 3; {todo}"]


def test_the_longest_message_of_a_study_has_a_ceiling_where_it_is_known():
    short = replace(FITTING, message_bytes=1000)
    assert not list(short.reasons(STUDY)) + list(short.reasons(STUDY, message=1000))
    (reason,) = short.reasons(STUDY, message=1001)
    assert reason.startswith("bytes of a message 1001 is above the ceiling 1000")
    assert reason.endswith("to allow it add: message_bytes = 1001")


@pytest.mark.parametrize(
    ("change", "volume"),
    [
        ({"rounds_per_study": 2}, Volume(3, 0, 0)),
        ({"bytes_per_study": 99}, Volume(1, 100, 0)),
        ({"disk_per_study": 99}, Volume(1, 0, 100)),
    ],
)
def test_what_a_study_takes_has_ceilings(change, volume):
    FITTING.check_volume(STUDY, volume)
    with pytest.raises(SiteRefused, match="PolicyRefused"):
        replace(FITTING, **change).check_volume(STUDY, volume)


@pytest.mark.parametrize(
    ("size", "fractions", "passes"),
    [(100, ["1/10"], True), (101, ["1/10"], False), (1, ["1/10", "1/101"], False), (1, [], True)],
)
def test_a_message_has_a_ceiling_and_a_query_a_least_part_of_the_budget(size, fractions, passes):
    policy = replace(Policy.open(), message_bytes=100, least_fraction=Fraction(1, 100))
    check = partial(policy.check_request, STUDY, size, list(map(Fraction, fractions)))
    if passes:
        check()
    else:
        with pytest.raises(SiteRefused, match="PolicyRefused"):
            check()


def test_no_noise_is_refused_unless_it_was_allowed():
    quiet = study(TWO, 3, DPModel.NONE)
    with pytest.raises(SiteRefused):
        FITTING.check(quiet)


# --------------------------------------------------------------------------------------------------
# policy.toml: closed until somebody writes otherwise, and every mutant is named.
@pytest.fixture
def read(tmp_path):
    def reading(text: str) -> SitePolicy:
        path = tmp_path / "policy.toml"
        path.write_text(text, encoding="utf-8")
        return SitePolicy.read(path)

    return reading


@pytest.mark.parametrize("text", ["", TEMPLATE, "dp_models = []", "methods = []\nfeatures = []"])
def test_what_is_not_written_is_not_allowed(read, text):
    found = read(text)
    assert found.policy == Policy()
    assert found.lifetime == (Measure.PURE, 0)
    assert not found.pins


def test_what_is_written_is_allowed(read):
    found = read(
        'methods = ["a"]\nfeatures = "any"\ndp_models = ["distributed", "per_site"]\n'
        'epsilon_per_study = "1/2"\ndelta_per_study = "1e-6"\nfewest_sites = 5\n'
        "fewest_colluders = 2\ncolluders_per_study = 3\nrecords_per_person = 4\n"
        "rounds_per_study = 5\nbytes_per_study = 6\ndisk_per_study = 7\nseconds_per_round = 8\n"
        '[lifetime]\nepsilon = "2"\ndelta = "1e-6"\n[trusted_sites]\nb = "AB CD"\n'
    )
    assert found.policy.methods == {"a"}
    assert found.policy.features is None
    assert found.policy.dp_models == {DPModel.DISTRIBUTED, DPModel.PER_SITE}
    assert found.policy.epsilon_per_study == Fraction(1, 2)
    assert found.policy.delta_per_study == Fraction(1, 10**6)
    assert found.policy.fewest_sites == 5
    assert (found.policy.fewest_colluders, found.policy.colluders_per_study) == (2, 3)
    assert found.policy.records_per_person == 4
    assert (
        found.policy.rounds_per_study,
        found.policy.bytes_per_study,
        found.policy.disk_per_study,
    ) == (5, 6, 7)
    assert found.policy.seconds_per_round == 8
    measure, rho = found.lifetime
    assert measure is Measure.ZCDP
    assert 0 < rho < Fraction(1)
    assert found.pins == {"b": "abcd"}


def test_any_placement_has_to_be_written(read):
    assert read('dp_models = "any"').policy.dp_models == frozenset(DPModel)


def test_a_lifetime_without_a_delta_counts_in_epsilon(read):
    assert read('[lifetime]\nepsilon = "2"').lifetime == (Measure.PURE, 2)
    assert read('[lifetime]\nepsilon = "unlimited"').lifetime == (Measure.ZCDP, math.inf)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("method = []", "policy has no 'method'"),
        ("methods = 3", "methods is 3"),
        ('dp_models = ["moon"]', "DP models names 'moon'"),
        ("epsilon_per_study = 0.5", "epsilon_per_study is 0.5; write a number in quotes"),
        ('epsilon_per_study = "-1"', "use 0 or more"),
        ("fewest_sites = 0", "fewest_sites is 0"),
        ('rounds_per_study = "9"', "rounds_per_study is '9'"),
        ('delta_per_study = "1e-100000000"', "delta_per_study is"),
        ("bytes_per_study = 1.5", "bytes_per_study is 1.5"),
        ("lifetime = 3", "write it as a table"),
        ("[lifetime]\nrho = 1", "lifetime has no 'rho'"),
        ("[trusted_sites]\na = 1", "put them in quotes"),
        ("methods = [", "policy.toml"),
    ],
)
def test_a_slip_is_named(read, text, said):
    with pytest.raises(ParameterError, match=said):
        read(text)
