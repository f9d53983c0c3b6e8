"""Whatever bytes come, a site answers with a message or a constant code, and charges for neither
more nor less than what left it.
"""

from __future__ import annotations

import json
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contract.worlds import TWO, federation, holders, sample, study
from hedgerow.queries import Cells, ClassCounts, Count, Leaves, SumQuery, Whole
from hedgerow.secagg.codes import Code
from hedgerow.transport.endpoint import REFUSED, refusal
from hedgerow.transport.wire import Bundle, Sender
from hedgerow.values.binning import Binning
from hedgerow.values.regions import EVERYONE, Step
from hedgerow.values.trees import Tree

SPLIT = TWO.grids[0].split_values(range(3))
STUMP = Tree.of_preorder(TWO.names, [SPLIT, (0.0,), (1.0,)])
SHARE = Fraction(1, 10**9)
SEEDS = [
    SumQuery(EVERYONE, Count(), Whole(), SHARE),
    SumQuery((Step(SPLIT, 1),), ClassCounts(2), Cells((0, 2), Binning.of_cells(TWO)), SHARE),
    SumQuery(EVERYONE, ClassCounts(2), Leaves((STUMP, STUMP)), SHARE),
]
CODES = {refusal(code) for code in Code}


@cache
def link():
    X, y = sample(30, TWO)
    return federation(study(TWO, 2), holders(X, y, np.arange(30) % 2, 2, TWO)).link


DOCUMENTS = [Sender().encode([query]).questions.decode() for query in SEEDS]
"""Honest questions."""


LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=8),
    st.sampled_from(["Count", "ClassCounts", "Gradients", "LogLoss", "Whole", "SumQuery", "age"]),
    st.sampled_from([{"%": "1/2"}, {"%": "-1/3"}, {"#": ["Score", "GINI"]}, {"@": "0" * 64}]),
)
KEYS = st.sampled_from(["!", "@", "%", "#", "region", "share", "by"])
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
).map(json.dumps)
"""Texts, so that no two messages share a part."""


def changed(document, place, new):
    """One place of the document, counted through, replaced by something else."""
    places = []

    def walk(value, put):
        places.append(put)
        if isinstance(value, dict | list):
            parts = value.items() if isinstance(value, dict) else enumerate(value)
            inside(value, list(parts))

    def inside(value, parts):
        for key, part in parts:
            walk(part, lambda new, v=value, k=key: v.__setitem__(k, new))

    walk(document, lambda new: None)
    places[place % len(places)](json.loads(new))
    return document


@st.composite
def mutated(draw):
    document = json.loads(draw(st.sampled_from(DOCUMENTS)))
    for place, new in draw(st.lists(st.tuples(st.integers(0, 10**6), JSON), max_size=3)):
        document = changed(document, place, new)
    return json.dumps(document).encode()


def check_one(questions: bytes, definitions: bytes) -> None:
    the_link, endpoint = link(), link().endpoints[0]
    ledger = endpoint.safe.ledger
    before, known = len(ledger.entries), dict(endpoint.receiver.known)
    secure = the_link.coordinator.start(questions, 1)
    reply = endpoint.handle(secure.requests({0: definitions, 1: definitions})[0])
    left = not reply.startswith(REFUSED)
    assert left or reply in CODES
    assert len(ledger.entries) - before == int(left)
    if not left:
        assert endpoint.receiver.known == known


ALL_DEFINITIONS = b"".join(Sender().encode([query]).definitions for query in SEEDS)
FEW = settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=25_000, deadline=None, suppress_health_check=list(HealthCheck))


def on_raw_bytes(questions, definitions):
    check_one(questions, definitions)


def on_mutated_json(questions, cut):
    check_one(questions, ALL_DEFINITIONS[: len(ALL_DEFINITIONS) - cut])


def on_any_json(value):
    check_one(value.encode(), ALL_DEFINITIONS)


def on_any_letter(message):
    endpoint = link().endpoints[0]
    before = len(endpoint.safe.ledger.entries)
    assert endpoint.handle(message) in CODES
    assert len(endpoint.safe.ledger.entries) == before


FUZZ = {
    "raw bytes": (on_raw_bytes, (st.binary(max_size=60), st.binary(max_size=40))),
    "mutated questions": (on_mutated_json, (mutated(), st.sampled_from([0, 0, 0, 1, 50]))),
    "any JSON": (on_any_json, (JSON,)),
    "any letter": (on_any_letter, (st.binary(max_size=300),)),
}


@pytest.mark.parametrize("kind", FUZZ)
def test_no_message_makes_a_site_say_more_than_a_code(kind):
    """2,000 messages; the long suite sends 100,000."""
    check, drawn = FUZZ[kind]
    FEW(given(*drawn)(check))()


@pytest.mark.slow
@pytest.mark.parametrize("kind", FUZZ)
def test_a_hundred_thousand_messages(kind):
    check, drawn = FUZZ[kind]
    MANY(given(*drawn)(check))()


def test_the_seeds_are_answered():
    """Twin: if nothing were ever answered, the fuzzer would see nothing."""
    endpoint = link().endpoints[0]
    before = len(endpoint.safe.ledger.entries)
    for query in SEEDS:
        bundle = Sender().encode([query])
        check_one(bundle.questions, bundle.definitions)
    assert len(endpoint.safe.ledger.entries) == before + len(SEEDS)


def test_bundles_of_the_fuzzer_are_bundles():
    assert Bundle(b"[]", b"").size == 2
