"""Whatever bytes come, a site answers with a message or a constant code, and charges for neither
more nor less than what left it. A site with other rows answers the same with as many bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hedgerow.federation.client import REFUSED, Client, refusal
from hedgerow.federation.wire import Bundle, Sender
from hedgerow.models.tree import Tree
from hedgerow.privacy.queries import Cells, ClassCounts, Count, Leaves, SumQuery, Whole
from hedgerow.schema.candidates import Binning
from hedgerow.schema.regions import EVERYONE, Step
from hedgerow.secagg.codes import Code
from hedgerow.secagg.encoding import members_field, u32
from hedgerow.secagg.envelope import NO_SESSION, MessageKind
from hedgerow.secagg.messages import Round, Unmask
from support.worlds import TWO, federation, sample, site_rows, study

pytestmark = pytest.mark.property

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
def links(kind: str):
    """Of one study over two tables that share no row, the second all missing at its first site."""
    X, y = sample(30, TWO)
    other = np.full((7, X.shape[1]), None, dtype=object)
    other[4:] = X[:3]
    tables = [(X, y, np.arange(30) % 2), (other, y[:7][::-1], (np.arange(7) > 3).astype(int))]
    return [federation(study(TWO, 2), site_rows(*table, 2, TWO)).sites for table in tables]


@dataclass(frozen=True)
class Seen:
    """What a coordinator has of one message, and what it cost."""

    refused: bytes | None
    length: int
    charges: int


def seen(the_link, message: bytes) -> Seen:
    endpoint = the_link.clients[0]
    ledger, known = endpoint.store.ledger, dict(endpoint.receiver.definitions)
    before = len(ledger.entries)
    reply = endpoint.handle(message)
    refused = reply if reply.startswith(REFUSED) else None
    if refused is not None:
        assert refused in CODES
        assert endpoint.receiver.definitions == known
    return Seen(refused, len(reply), len(ledger.entries) - before)


def seen_of_both(kind: str, message_of) -> Seen:
    """The same from both tables, or a length, a code or a charge tells of rows."""
    first, second = (seen(the_link, message_of(the_link)) for the_link in links(kind))
    assert first == second
    return first


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


def check_one(questions: bytes, definitions: bytes) -> bool:
    """Whether it was answered; it is then charged, and only then."""

    def message(the_link) -> bytes:
        secure = the_link.coordinator.start(questions, 1)
        joined = the_link.clients[0].site._membership.site_session
        joined.heard_rounds[1] = (
            secure.round
        )  # as if the other site, which nobody asks, had been shown
        return secure.requests({0: definitions, 1: definitions})[0]

    found = seen_of_both("rounds", message)
    assert found.charges == int(found.refused is None)
    return found.refused is None


ALL_DEFINITIONS = b"".join(Sender().encode([query]).definitions for query in SEEDS)
FEW = settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
MANY = settings(max_examples=20_000, deadline=None, suppress_health_check=list(HealthCheck))


def on_raw_bytes(questions, definitions):
    check_one(questions, definitions)


def on_mutated_json(questions, cut):
    check_one(questions, ALL_DEFINITIONS[: len(ALL_DEFINITIONS) - cut])


def on_any_json(value):
    check_one(value.encode(), ALL_DEFINITIONS)


def on_any_message(message):
    found = seen_of_both("messages", lambda _: message)
    assert found.refused is not None
    assert found.charges == 0


MEMBERS = st.sampled_from([(), (0,), (1,), (0, 1)])
BODIES = st.one_of(
    st.binary(max_size=200),
    st.integers(0, 2**32 - 1).map(u32),
    MEMBERS.map(members_field),
    MEMBERS.map(lambda members: Unmask(members, {}, {}).to_bytes()),
    st.builds(
        lambda asked, members: Round(asked.encode(), members, ALL_DEFINITIONS).to_bytes(),
        st.sampled_from(DOCUMENTS),
        MEMBERS,
    ),
)
"""Of all kinds that a coordinator writes; none holds a key, so they are the same for both."""


def signed(the_link, kind, of_session, round, body) -> bytes:
    """What the coordinator itself signs; outside of a key session, too, as an invitation is."""
    coordinator = the_link.coordinator
    session = coordinator.session.id if of_session else NO_SESSION
    return coordinator._message(kind, 0, session, round, body)


def on_signed_message(kind, body, of_session, round, cut):
    """Of any kind and round, around a body of any kind."""
    short = body[: max(len(body) - cut, 0)]
    found = seen_of_both("signed", lambda it: signed(it, kind, of_session, round, short))
    answered = kind is MessageKind.ROUND and found.refused is None
    assert found.charges <= int(answered)  # a round that comes again is answered for nothing


FUZZ = {
    "raw bytes": (on_raw_bytes, (st.binary(max_size=60), st.binary(max_size=40))),
    "mutated questions": (on_mutated_json, (mutated(), st.sampled_from([0, 0, 0, 1, 50]))),
    "any JSON": (on_any_json, (JSON,)),
    "any message": (on_any_message, (st.binary(max_size=300),)),
    "signed message": (
        on_signed_message,
        (
            st.sampled_from(MessageKind),
            BODIES,
            st.booleans(),
            st.integers(0, 40) | st.integers(0, 2**63 - 1),
            st.sampled_from([0, 0, 0, 1, 7]),
        ),
    ),
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
    for query in SEEDS:
        bundle = Sender().encode([query])
        assert check_one(bundle.questions, bundle.definitions)


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (MessageKind.ROUND, Round(DOCUMENTS[0].encode(), (0, 1), ALL_DEFINITIONS).to_bytes()),
        (MessageKind.JOIN, u32(9)),
    ],
)
def test_signed_letters_with_a_fitting_body_are_answered(kind, body):
    """Twin: else all signed messages would end at their first line."""
    asks = kind is MessageKind.ROUND
    found = seen_of_both(
        f"negative control {kind}", lambda it: signed(it, kind, asks, int(asks), body)
    )
    assert found.refused is None


def test_a_reply_whose_length_tells_of_rows_is_seen(monkeypatch):
    """Twin: a site that leaves out what it does not have."""
    handle = Client.handle

    def telling(endpoint, message):
        rows = endpoint.rows.sums.rows.n
        return handle(endpoint, message) + b" " * rows

    links("rounds")  # joined before anything is wrong
    monkeypatch.setattr(Client, "handle", telling)
    with pytest.raises(AssertionError):
        check_one(b"[]", b"")


def test_bundles_of_the_fuzzer_are_bundles():
    assert Bundle(b"[]", b"").size == 2
