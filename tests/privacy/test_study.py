"""A study's numbers and its one hash: what is refused, and what tells two studies apart."""

import json
import math
from dataclasses import fields, replace
from fractions import Fraction

import pytest

from hedgerow.errors import ParameterError
from hedgerow.privacy import declaration
from hedgerow.privacy import declaration as hashing
from hedgerow.privacy import study as terms
from hedgerow.privacy.accounting import conversions
from hedgerow.privacy.accounting.budget import DPModel, Measure
from hedgerow.privacy.mechanisms.response import BloomRandomizedResponse
from hedgerow.privacy.queries import Binning, Cells, ClassCounts, SumQuery
from hedgerow.schema.regions import EVERYONE
from hedgerow.schema.schema import Numeric, Schema
from hedgerow.secagg.parameters import Consortium
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
    assert study(TWO, 5).parameters == Consortium(n_sites=5, colluders=1, threshold=4)
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
