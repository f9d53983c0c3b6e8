"""Whatever bytes arrive, a site or a coordinator reads them or refuses them with a code."""

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hedgerow.errors import SiteRefused
from hedgerow.secagg import messages
from hedgerow.secagg.encoding import (
    CAPSULE,
    SEALED_SHARE,
    SEED,
    SIGNATURE,
    Reader,
    members_field,
    messages_field,
    read_body,
    table_field,
    u32,
)
from hedgerow.secagg.envelope import Envelope, MessageKind, SignedHead, SignedHeader
from hedgerow.secagg.memory import StoredRound
from support.secagg_dry_run import consortium, masked_round, some_vectors

pytestmark = pytest.mark.property

sites = st.integers(0, 2**16 - 1)
members = st.lists(sites, unique=True, max_size=6).map(sorted).map(tuple)


def tables(width):
    return st.dictionaries(sites, st.binary(min_size=width, max_size=width), max_size=5)


def exactly(length):
    return st.binary(min_size=length, max_size=length)


heads = st.builds(
    SignedHead,
    st.tuples(st.integers(0, 2**63 - 1), exactly(32)),
    exactly(32),
    exactly(SIGNATURE),
)
attempts = st.integers(0, 2**32 - 1)


def one_field(write, read, values):
    return values.map(lambda value: (value, write(value), partial(read_body, read=read)))


whole_bodies = st.one_of(
    st.builds(
        messages.Keys,
        attempts,
        exactly(32),
        exactly(1184),
        exactly(32),
        st.dictionaries(sites, heads, max_size=4),
    ),
    st.builds(messages.Round, st.binary(max_size=50), members, st.binary(max_size=50)),
    st.builds(messages.Shares, tables(32), tables(SEED), tables(SEED)),
    st.builds(messages.Unmask, members, tables(SIGNATURE), tables(SEALED_SHARE)),
    st.builds(messages.Shares, tables(32), tables(SEED)),
)
bodies = st.one_of(
    one_field(u32, Reader.u32, attempts),
    one_field(table_field, Reader.capsules, tables(CAPSULE)),
    one_field(
        messages_field, Reader.messages, st.lists(st.binary(max_size=50), max_size=4).map(tuple)
    ),
    one_field(members_field, Reader.members, members),
    one_field(bytes, Reader.signature, exactly(SIGNATURE)),
    whole_bodies.map(lambda body: (body, body.to_bytes(), type(body).read)),
)


@given(bodies)
def test_a_body_comes_back_from_its_bytes(made):
    body, written, read = made
    assert read(written) == body


@given(bodies, st.integers(0, 300))
def test_a_cut_body_is_refused_or_was_not_cut(made, at):
    _, written, read = made
    if at < len(written):
        with pytest.raises(SiteRefused):
            read(written[:at])
    with pytest.raises(SiteRefused):
        read(written + b"\0")


@given(
    st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=9),
    tables(SEALED_SHARE),
    st.lists(st.integers(0, 2**32 - 1), max_size=4).map(tuple),
)
def test_a_masked_vector_comes_back_and_no_other_length_does(words, sealed, selections):
    vector = np.array(words, dtype="<u8")
    body = messages.Masked(vector, bytes(32), bytes(32), sealed, selections).to_bytes()
    again = messages.Masked.read(body, len(words), len(selections))
    np.testing.assert_array_equal(again.vector, vector)
    assert (again.sealed_shares, again.selections) == (sealed, selections)
    for other in (len(words) - 1, len(words) + 1, 2**32):
        with pytest.raises(SiteRefused):
            messages.Masked.read(body, other, len(selections))
    for other in (len(selections) + 1, 2**32 - 1):
        with pytest.raises(SiteRefused):
            messages.Masked.read(body, len(words), other)


@given(st.binary(max_size=400))
def test_arbitrary_bytes_are_refused_with_a_code(data):
    for read in (Envelope.parse, StoredRound.from_bytes, SignedHeader.read):
        with pytest.raises(SiteRefused):
            read(data)


GROUP = consortium(3)
ROUND = masked_round(GROUP, some_vectors(3))
BODIES = {
    MessageKind.OPEN: GROUP.sites[0].open,
    MessageKind.ROUND: GROUP.sites[0].begin,
    MessageKind.SURVIVORS: GROUP.sites[0].sign_set,
    MessageKind.UNMASK: GROUP.sites[0].unmask,
}


@settings(deadline=None)
@given(
    st.sampled_from([MessageKind.ROUND, MessageKind.SURVIVORS, MessageKind.UNMASK]),
    st.binary(max_size=200),
)
def test_a_body_the_coordinator_signs_but_nobody_can_read_is_refused(kind, body):
    with pytest.raises(SiteRefused):
        BODIES[kind](GROUP.forge(kind, body, round=1))
