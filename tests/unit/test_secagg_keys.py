"""Keys: who may be in a roster, whom a site knows, and which ephemeral keys it agrees with."""

import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from hedgerow.errors import SpecError
from hedgerow.secagg import epoch, keys
from hedgerow.secagg.encoding import digest
from hedgerow.secagg.envelope import EMPTY_LEDGER, NO_EPOCH, NO_RUN, Envelope, MessageKind
from hedgerow.secagg.keys import COORDINATOR, Identity, Roster, check_pins
from hedgerow.secagg.messages import Keys, Open
from hedgerow.secagg.parameters import Parameters
from hedgerow.secagg.site import Site

sys.path.insert(0, str(Path(__file__).parents[1] / "vectors"))
from secagg_rehearsal import STUDY, consortium, refuses

# The encodings of points of small order below 2^255 (RFC 7748 section 6.1 asks for the check).
LOW_ORDER = [
    bytes(32),
    (1).to_bytes(32, "little"),
    bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
    bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157"),
    (2**255 - 20).to_bytes(32, "little"),
    (2**255 - 19).to_bytes(32, "little"),
    (2**255 - 18).to_bytes(32, "little"),
]


@pytest.fixture
def group():
    return consortium(3, opened=False)


def keys_message(group, sender, ephemeral, signer=None, **changed):
    body = Keys(ephemeral, bytes(32), {}).to_bytes()
    header = {"run_id": NO_RUN, "epoch_id": NO_EPOCH, "round": 0, "sender": sender} | changed
    return group.forge(MessageKind.KEYS, body, sender if signer is None else signer, **header)


def try_to_open(group, *foreign, me=0):
    """The coordinator signs an OPEN of the site's own KEYS and whatever else it likes."""
    own = group.sites[me].keys(EMPTY_LEDGER)
    everyone = (own, *foreign)
    epoch_id = honest_epoch_id(everyone, group)
    group.sites[me].open(
        group.forge(MessageKind.OPEN, Open(everyone).to_bytes(), epoch_id=epoch_id, round=0)
    )


def honest_epoch_id(messages, group):
    ordered = sorted(messages, key=lambda m: Envelope.parse(m).header.sender)
    return digest("epoch", STUDY, group.coordinator.run_id, *ordered)


@pytest.fixture(autouse=True)
def an_epoch_to_forge_from(group):
    """`forge` wants some epoch; every test names its own."""
    group.coordinator._epoch = epoch.Epoch(group.coordinator.run_id, NO_EPOCH, {}, None)


def fresh_public():
    return X25519PrivateKey.generate().public_key().public_bytes_raw()


def good_keys(group, sender):
    return keys_message(group, sender, fresh_public())


def test_an_open_of_everybody_s_good_keys_is_accepted(group):
    try_to_open(group, good_keys(group, 1), good_keys(group, 2))


def test_a_sender_outside_the_roster_is_refused(group):
    stranger = keys_message(group, 3, fresh_public(), signer=1)
    with refuses("UnknownKey"):
        try_to_open(group, good_keys(group, 1), good_keys(group, 2), stranger)


def test_the_coordinator_cannot_join_as_a_site(group):
    body = Keys(fresh_public(), bytes(32), {}).to_bytes()
    own = group.forge(
        MessageKind.KEYS, body, run_id=NO_RUN, epoch_id=NO_EPOCH, round=0, sender=COORDINATOR
    )
    with refuses("UnknownKey"):
        try_to_open(group, good_keys(group, 1), good_keys(group, 2), own)


def test_a_key_replaced_by_somebody_else_is_refused(group):
    for signer in (0, 2, -1):
        replaced = keys_message(group, 1, fresh_public(), signer=signer)
        with refuses("BadSignature"):
            try_to_open(group, replaced, good_keys(group, 2))


def test_a_replaced_key_would_be_accepted_without_signatures(group, monkeypatch):
    """The twin."""
    monkeypatch.setattr("hedgerow.secagg.envelope.verify", lambda *arguments: None)
    try_to_open(group, keys_message(group, 1, fresh_public(), signer=2), good_keys(group, 2))


def test_keys_of_another_study_or_of_a_round_are_refused(group):
    for changed in ({"study_hash": bytes(32)}, {"round": 1}, {"run_id": bytes([1]) * 16}):
        foreign = keys_message(group, 1, fresh_public(), **changed)
        with refuses("BadMessage"):
            try_to_open(group, foreign, good_keys(group, 2))


def test_two_keys_of_one_sender_are_refused(group):
    with refuses("DuplicateKey"):
        try_to_open(group, good_keys(group, 1), good_keys(group, 1), good_keys(group, 2))


def test_one_key_under_two_names_is_refused(group):
    ephemeral = fresh_public()
    twice = [keys_message(group, sender, ephemeral) for sender in (1, 2)]
    with refuses("DuplicateKey"):
        try_to_open(group, *twice)


def test_the_site_s_own_key_echoed_under_another_name_is_refused(group):
    own = group.sites[0].keys(EMPTY_LEDGER)
    group.sites[0].keys = lambda ledger: own
    echo = keys_message(group, 1, group.sites[0]._private.public_key().public_bytes_raw())
    with refuses("DuplicateKey"):
        try_to_open(group, echo, good_keys(group, 2))


def test_an_open_without_the_running_process_key_is_refused(group):
    earlier = group.sites[0].keys(EMPTY_LEDGER)
    others = (good_keys(group, 1), good_keys(group, 2))
    group.sites[0].keys(EMPTY_LEDGER)
    for listed in ((earlier, *others), others):
        body, epoch_id = Open(listed).to_bytes(), honest_epoch_id(listed, group)
        with refuses("UnknownKey"):
            group.sites[0].open(group.forge(MessageKind.OPEN, body, epoch_id=epoch_id, round=0))


def test_an_epoch_of_fewer_than_the_threshold_is_refused(group):
    with refuses("TooFew"):
        try_to_open(group, good_keys(group, 1))


@pytest.mark.parametrize("point", LOW_ORDER, ids=lambda p: p.hex()[:8])
def test_points_of_small_order_are_refused(group, point):
    with refuses("WeakKey"):
        try_to_open(group, keys_message(group, 1, point), good_keys(group, 2))


@pytest.mark.parametrize("point", LOW_ORDER, ids=lambda p: p.hex()[:8])
def test_the_library_itself_refuses_points_of_small_order(point):
    """Should a later version of `cryptography` stop doing so, `agree` must look for zeros."""
    with pytest.raises(ValueError):
        X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(point))


def test_a_second_spelling_of_a_key_is_refused(group):
    spelled = bytearray(fresh_public())
    spelled[31] |= 0x80  # X25519 ignores this bit, so it would be the same key
    with refuses("WeakKey"):
        try_to_open(group, keys_message(group, 1, bytes(spelled)), good_keys(group, 2))


def test_the_two_ends_of_a_pair_find_the_same_root_and_nobody_else_does():
    group = consortium(3)
    roots = [site._joined.roots for site in group.sites]
    assert roots[0][1] == roots[1][0]
    assert len({roots[0][1], roots[0][2], roots[1][2]}) == 3


def test_a_roster_with_one_key_twice_is_refused():
    one, other = Identity.generate().public, Identity.generate().public
    for sites, coordinator in (((one, one), other), ((one, other), one)):
        with pytest.raises(SpecError, match="are the same"):
            Roster(sites, coordinator)
    with pytest.raises(SpecError, match="31 bytes"):
        Roster((one, other[:-1]), Identity.generate().public)


def test_a_site_must_hold_the_key_at_its_own_place(group):
    for me in (1, 2):
        with pytest.raises(SpecError, match="does not hold this site's key"):
            Site(group.identities[0], group.roster, me, group.parameters, STUDY, group.memories[0])
    four = Parameters(parties=4, colluders=1, threshold=3)
    with pytest.raises(SpecError, match="4 sites"):
        Site(group.identities[0], group.roster, 0, four, STUDY, group.memories[0])


def test_a_study_with_too_few_pinned_peers_is_refused(group):
    peers = [identity.fingerprint for identity in group.identities[:3]]
    check_pins(group.roster, 0, peers[1:], threshold=3)
    check_pins(group.roster, 0, peers[2:], threshold=2)
    for pinned in (peers[:2], [], [peers[0]] * 3):
        with refuses("PolicyRefused"):
            check_pins(group.roster, 0, pinned, threshold=3)


def test_an_identity_comes_back_from_its_bytes_and_shows_no_secret():
    identity = Identity.generate()
    again = Identity.from_bytes(identity.to_bytes())
    assert (again.public, again.fingerprint) == (identity.public, identity.fingerprint)
    keys.verify(identity.public, again.sign(b"x"), b"x", keys.Code.BAD_SIGNATURE)
    assert identity.to_bytes().hex() not in repr(identity)
