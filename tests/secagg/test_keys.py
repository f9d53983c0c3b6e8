"""Keys: who may be in a roster, whom a site knows, and which ephemeral keys it agrees with."""

import pytest
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from hedgerow.errors import ParameterError, SiteRefused
from hedgerow.secagg import keys, session
from hedgerow.secagg.client import Site
from hedgerow.secagg.encoding import Reader, digest, messages_field, read_body, table_field, u32
from hedgerow.secagg.envelope import EMPTY_LEDGER, NO_SESSION, Envelope, MessageKind
from hedgerow.secagg.keys import COORDINATOR, EVERYBODY, Identity, Roster, check_pins
from hedgerow.secagg.membership import Membership
from hedgerow.secagg.messages import Keys
from hedgerow.secagg.parameters import Parameters
from support.secagg_dry_run import STUDY, consortium, keys_of, refuses, restarted

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


def keys_message(group, sender, ephemeral, signer=None, attempt=1, kem=None, **changed):
    kem = MLKEM768PrivateKey.generate().public_key().public_bytes_raw() if kem is None else kem
    body = Keys(attempt, ephemeral, kem, bytes(32), {}).to_bytes()
    header = {
        "session_id": NO_SESSION,
        "round": 0,
        "sender": sender,
        "receiver": EVERYBODY,
    } | changed
    return group.forge(MessageKind.KEYS, body, sender if signer is None else signer, **header)


def try_to_open(group, *foreign, me=0):
    """The coordinator signs an OPEN of the site's own KEYS and whatever else it likes."""
    everyone = (own_keys(group, me), *foreign)
    session_id = honest_session_id(everyone, group)
    message = {"session_id": session_id, "round": 0, "receiver": me}
    group.sites[me].open(group.forge(MessageKind.OPEN, messages_field(everyone), **message))


def own_keys(group, me=0, attempt=1):
    return group.sites[me].join(invitation(group, attempt, receiver=me), lambda: EMPTY_LEDGER)


def invitation(group, attempt=1, **changed):
    header = {"session_id": NO_SESSION, "round": 0} | changed
    return group.forge(MessageKind.JOIN, u32(attempt), **header)


def honest_session_id(messages, group):
    ordered = sorted(messages, key=lambda m: Envelope.parse(m).header.sender)
    return digest("epoch", STUDY, group.coordinator.run_id, *ordered)


@pytest.fixture(autouse=True)
def an_epoch_to_forge_from(group):
    """`forge` wants some key session; every test names its own."""
    group.coordinator._session = session.KeySession(
        group.coordinator.run_id, NO_SESSION, {}, {}, None
    )


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
    own = keys_message(group, COORDINATOR, fresh_public(), signer=-1)
    with refuses("UnknownKey"):
        try_to_open(group, good_keys(group, 1), good_keys(group, 2), own)


def test_a_key_replaced_by_somebody_else_is_refused(group):
    for signer in (0, 2, -1):
        replaced = keys_message(group, 1, fresh_public(), signer=signer)
        with refuses("BadSignature"):
            try_to_open(group, replaced, good_keys(group, 2))


def test_a_replaced_key_would_be_accepted_without_signatures(group, monkeypatch):
    """The negative control."""
    monkeypatch.setattr("hedgerow.secagg.envelope.verify_signature", lambda *arguments: None)
    try_to_open(group, keys_message(group, 1, fresh_public(), signer=2), good_keys(group, 2))


def test_keys_of_another_study_or_of_a_round_are_refused(group):
    elsewhere = (
        {"study_hash": bytes(32)},
        {"round": 1},
        {"run_id": bytes([1]) * 16},
        {"attempt": 2},
        {"receiver": 0},
        {"session_id": bytes([1]) * 32},
    )
    for changed in elsewhere:
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
    own = Keys.read(Envelope.parse(own_keys(group)).body)  # the same as try_to_open will get
    echo = keys_message(group, 1, own.ephemeral)
    with refuses("DuplicateKey"):
        try_to_open(group, echo, good_keys(group, 2))


def test_an_open_without_the_running_process_key_is_refused(group):
    earlier = own_keys(group)
    others = (good_keys(group, 1), good_keys(group, 2))
    own_keys(group, attempt=2)
    for listed in ((earlier, *others), others):
        body, session_id = messages_field(listed), honest_session_id(listed, group)
        with refuses("UnknownKey"):
            group.sites[0].open(group.forge(MessageKind.OPEN, body, session_id=session_id, round=0))


def test_an_epoch_of_fewer_than_the_threshold_is_refused(group):
    with refuses("TooFew"):
        try_to_open(group, good_keys(group, 1))


@pytest.mark.parametrize("point", LOW_ORDER, ids=lambda p: p.hex()[:8])
def test_points_of_small_order_are_refused(group, point):
    with refuses("WeakKey"):
        try_to_open(group, keys_message(group, 1, point), good_keys(group, 2))


@pytest.mark.parametrize("point", LOW_ORDER, ids=lambda p: p.hex()[:8])
def test_the_library_itself_refuses_points_of_small_order(point):
    """Should `cryptography` stop doing so one day, `shared_secret` must look for zeros."""
    with pytest.raises(ValueError):
        X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(point))


def test_a_second_spelling_of_a_key_is_refused(group):
    spelled = bytearray(fresh_public())
    spelled[31] |= 0x80  # X25519 ignores this bit, so it would be the same key
    with refuses("WeakKey"):
        try_to_open(group, keys_message(group, 1, bytes(spelled)), good_keys(group, 2))


def test_the_two_ends_of_a_pair_find_the_same_root_and_nobody_else_does():
    group = consortium(3)
    roots = [site._membership.site_session.roots for site in group.sites]
    assert roots[0][1] == roots[1][0]
    assert len({roots[0][1], roots[0][2], roots[1][2]}) == 3


# ------------------------------------------------------------------- the other half of the secret
def test_one_encapsulation_key_under_two_names_is_refused(group):
    kem = MLKEM768PrivateKey.generate().public_key().public_bytes_raw()
    twice = [keys_message(group, sender, fresh_public(), kem=kem) for sender in (1, 2)]
    with refuses("DuplicateKey"):
        try_to_open(group, *twice)


def test_an_encapsulation_key_that_is_none_is_refused(group):
    with refuses("WeakKey"):
        try_to_open(
            group, keys_message(group, 1, fresh_public(), kem=b"\xff" * 1184), good_keys(group, 2)
        )


def test_of_two_sites_one_encapsulates_and_each_does_for_about_half_of_its_peers():
    for one in range(40):
        given = [other for other in range(40) if other != one and keys.gives(one, other)]
        assert 19 <= len(given) <= 20
        assert all(not keys.gives(other, one) for other in given)


def test_an_opening_that_came_twice_gets_the_same_answer_and_the_same_roots():
    group = consortium(3, opened=False)
    opening = group.coordinator.open(keys_of(group))
    first = group.sites[0].open(opening[0])
    roots = dict(group.sites[0]._membership.site_session.roots)
    assert group.sites[0].open(opening[0]) == first
    assert group.sites[0]._membership.site_session.roots == roots


def opened_and_bound(change):
    """Site 0 gives to site 1, whose BIND is changed on its way."""
    group = consortium(3, opened=False)
    opening = group.coordinator.open(keys_of(group))
    for me, message in opening.items():
        group.coordinator.accept_capsules(group.sites[me].open(message))
    table = read_body(Envelope.parse(group.coordinator.bind([1])[1]).body, Reader.capsules)
    message = {"round": 0, "receiver": 1}
    body = table_field(change(dict(table)))
    group.sites[1].bind(group.forge(MessageKind.BIND, body, **message))
    return group


def flipped_at(place):
    def change(table):
        damaged = bytearray(table[0])
        damaged[place] ^= 1
        return {0: bytes(damaged)}

    return change


@pytest.mark.parametrize("place", [0, 500, 1087, 1088, 1119])
def test_a_ciphertext_or_a_tag_that_was_changed_is_seen_before_a_mask_is_made(place):
    opened_and_bound(dict)
    with refuses("BadKey"):
        opened_and_bound(flipped_at(place))


def test_without_the_tag_a_changed_ciphertext_would_show_only_in_the_sum(monkeypatch):
    """The negative control: ML-KEM gives another secret instead of an error."""
    monkeypatch.setattr(session.hmac, "compare_digest", lambda *given: True)
    group = opened_and_bound(flipped_at(0))
    roots = [site._membership.site_session.roots for site in group.sites]
    assert roots[0][1] != roots[1][0]


def test_an_answer_needs_a_root_with_everybody_who_takes_part():
    group = consortium(3, opened=False)
    opening = group.coordinator.open(keys_of(group))
    for me, message in opening.items():
        group.coordinator.accept_capsules(group.sites[me].open(message))
    messages = group.coordinator.start(b"bundle", 3).requests()
    with refuses("BadSet"):
        group.sites[0].begin(messages[0])
    for me, message in group.coordinator.bind(opening).items():
        group.sites[me].bind(message)
    group.sites[0].begin(messages[0])


def test_a_binding_without_a_capsule_asks_who_is_there():
    group = consortium(3)
    group.sites[0].bind(group.coordinator.asking([0])[0])
    restarted(group, 0)
    with refuses("UnknownKey"):
        group.sites[0].bind(group.coordinator.asking([0])[0])


def test_a_root_needs_both_secrets():
    low, high = (0, bytes(32)), (1, bytes([1]) * 32)
    made = {
        keys.root((kem, shared), bytes(32), low, high, ct)
        for kem in (b"k" * 32, b"K" * 32)
        for shared in (b"x" * 32, b"X" * 32)
        for ct in (b"c", b"C")
    }
    assert len(made) == 8


# ------------------------------------------------------------------- signatures that must last
def test_a_lasting_signature_is_that_of_the_key_in_the_roster():
    one, other = Identity.generate(), Identity.generate()
    signature = one.sign_lasting(b"closed")
    assert keys.is_signed_lasting(one.public, one.lasting, signature, b"closed")
    assert not keys.is_signed_lasting(one.public, one.lasting, signature, b"another")
    assert not keys.is_signed_lasting(one.public, other.lasting, signature, b"closed")
    forged = other.sign_lasting(b"closed")
    assert not keys.is_signed_lasting(one.public, other.lasting, forged, b"closed")
    assert Identity.from_bytes(one.to_bytes()).public == one.public


def test_a_library_without_these_keys_is_told_of_in_a_sentence(monkeypatch):
    def unsupported():
        raise UnsupportedAlgorithm("not here")

    monkeypatch.setattr(keys.MLKEM768PrivateKey, "generate", unsupported)
    keys.check_cryptography.cache_clear()
    with pytest.raises(ParameterError, match="needs version 48 or newer"):
        Identity.generate()
    keys.check_cryptography.cache_clear()


def test_a_roster_with_one_key_twice_is_refused():
    one, other = Identity.generate().public, Identity.generate().public
    for sites, coordinator in (((one, one), other), ((one, other), one)):
        with pytest.raises(ParameterError, match="are the same"):
            Roster(sites, coordinator)
    with pytest.raises(ParameterError, match="63 bytes"):
        Roster((one, other[:-1]), Identity.generate().public)


def test_a_site_must_hold_the_key_at_its_own_place(group):
    for me in (1, 2):
        with pytest.raises(ParameterError, match="does not hold this site's key"):
            site_at(group, me)
    four = Parameters(n_sites=4, colluders=1, threshold=3)
    with pytest.raises(ParameterError, match="4 sites"):
        site_at(group, 0, four)


def site_at(group, me, parameters=None, pins=None):
    pins = group.roster.fingerprints if pins is None else pins
    numbers, memory = parameters or group.parameters, group.memories[0]
    return Site(group.identities[0], group.roster, me, numbers, STUDY, memory, pins=pins)


def test_a_study_with_too_few_pinned_peers_is_refused(group):
    peers = [identity.fingerprint for identity in group.identities[:3]]
    check_pins(group.roster, 0, peers[1:], threshold=3)
    check_pins(group.roster, 0, peers[2:], threshold=2)
    for pinned in (peers[:2], [], [peers[0]] * 3):
        with refuses("PolicyRefused"):
            check_pins(group.roster, 0, pinned, threshold=3)


def test_a_site_opens_no_study_in_which_it_knows_too_few_peers(group):
    peers = [identity.fingerprint for identity in group.identities[:3]]
    site_at(group, 0, pins=peers[1:])
    for pinned in ([], peers[:2], peers[2:]):
        with refuses("PolicyRefused"):
            site_at(group, 0, pins=pinned)


# --------------------------------------------------------------------------------- being invited
def test_only_an_invitation_makes_a_site_show_keys(group):
    assert Envelope.parse(own_keys(group)).header.kind == MessageKind.KEYS
    for changed in (
        {"signer": 1},
        {"study_hash": bytes(32)},
        {"receiver": 1},
        {"round": 1},
        {"session_id": bytes([1]) * 32},
        {"kind": MessageKind.OPEN},
    ):
        message = {"kind": MessageKind.JOIN, "body": u32(2), "session_id": NO_SESSION}
        with pytest.raises(SiteRefused):
            group.sites[0].join(
                group.forge(**({"round": 0} | message | changed)), lambda: EMPTY_LEDGER
            )


def test_the_same_invitation_gets_the_same_keys_while_the_process_lives(group):
    first = own_keys(group)
    assert own_keys(group) == first
    try_to_open(group, good_keys(group, 1), good_keys(group, 2))
    joined = group.sites[0]._membership.site_session
    assert own_keys(group) == first
    assert group.sites[0]._membership.site_session is joined
    restarted(group, 0)
    assert own_keys(group) != first


def test_a_new_invitation_ends_the_epoch_before_it(group):
    try_to_open(group, good_keys(group, 1), good_keys(group, 2))
    own_keys(group, attempt=2)
    assert group.sites[0]._membership.site_session is None


def test_an_invitation_from_the_past_is_refused_and_ends_nothing(group):
    own_keys(group, attempt=5)
    kept = group.sites[0]._membership._keys
    with refuses("OldRound"):
        own_keys(group, attempt=4)
    for attempt in (4, 5):
        with refuses("RunSuperseded"):
            group.sites[0].join(invitation(group, attempt, run_id=bytes(16)), lambda: EMPTY_LEDGER)
    assert group.sites[0]._membership._keys is kept
    group.sites[0].join(invitation(group, 6, run_id=bytes(16)), lambda: EMPTY_LEDGER)
    with refuses("OldRound"):
        group.sites[0].join(invitation(group, 0, run_id=bytes(16)), lambda: EMPTY_LEDGER)


def test_attempts_that_were_not_counted_would_let_an_old_letter_end_an_epoch(group, monkeypatch):
    """The negative control."""
    old = invitation(group, 1, run_id=bytes(16))
    try_to_open(group, good_keys(group, 1), good_keys(group, 2))
    monkeypatch.setattr(Membership, "_check", lambda self, invited: None)
    group.sites[0].join(old, lambda: EMPTY_LEDGER)
    assert group.sites[0]._membership.site_session is None


def test_a_study_has_a_last_attempt(group):
    group.coordinator.attempt = 2**32 - 2
    group.coordinator.join()
    with pytest.raises(ParameterError, match="no more"):
        group.coordinator.join()


# ------------------------------------------------------------------------------- long-term keys
def encodings_of_small_order():
    """All spellings of the eight points whose order divides eight, by the curve's own addition."""
    prime, d = 2**255 - 19, -121665 * pow(121666, -1, 2**255 - 19) % (2**255 - 19)

    def double(x, y):
        t = d * x * x * y * y % prime
        first = 2 * x * y * pow(1 + t, -1, prime)
        return first % prime, (y * y + x * x) * pow(1 - t, -1, prime) % prime

    for y in keys._SMALL_ORDER:
        root = (y * y - 1) * pow(d * y * y + 1, -1, prime) % prime
        x = pow(root, (prime + 3) // 8, prime)
        if (x * x - root) % prime:
            x = x * pow(2, (prime - 1) // 4, prime) % prime
        assert (x * x - root) % prime == 0
        assert double(*double(*double(x, y))) == (0, 1)
        for spelling in (y, y + prime):
            for sign in (0, 1):
                if spelling < 2**255:
                    yield (spelling | sign << 255).to_bytes(32, "little")


def test_a_roster_with_a_key_of_small_order_or_an_odd_spelling_is_refused():
    good = [Identity.generate().public for _ in range(2)]
    weak = list(encodings_of_small_order())
    assert len(weak) == 5 * 2 + 2 * 2  # 0 and 1 have a second spelling below 2^255
    odd = (2**255 - 19 + 5).to_bytes(32, "little")
    for key in (one + bytes(32) for one in (*weak, odd)):
        for sites, coordinator in (((good[0], key), good[1]), (tuple(good), key)):
            with pytest.raises(ParameterError, match="not one that anybody"):
                Roster(sites, coordinator)
    for _ in range(100):
        assert not keys.is_weak(Identity.generate().public)


def test_a_key_of_small_order_would_sign_anything():
    """Why: under the neutral point one signature fits every message."""
    neutral = (1).to_bytes(32, "little")
    signature = neutral + bytes(32)
    assert all(keys.is_signed(neutral, signature, message) for message in (b"yes", b"no"))


def test_an_identity_derives_secrets_that_differ_by_purpose_and_owner():
    one, other = Identity.generate(), Identity.generate()
    assert one.derive("a") == Identity.from_bytes(one.to_bytes()).derive("a")
    assert len({one.derive("a"), one.derive("b"), other.derive("a"), one.to_bytes()}) == 4


def test_an_identity_comes_back_from_its_bytes_and_shows_no_secret():
    identity = Identity.generate()
    again = Identity.from_bytes(identity.to_bytes())
    assert (again.public, again.fingerprint) == (identity.public, identity.fingerprint)
    keys.verify_signature(identity.public, again.sign(b"x"), b"x", keys.Code.BAD_SIGNATURE)
    assert identity.to_bytes().hex() not in repr(identity)


# ---------------------------------------------------------------- signatures that are known here
def test_a_signature_made_here_is_right_for_its_own_bytes_alone(monkeypatch):
    """One that was made in this process is not verified again; one changed bit, and it is."""
    me, other = Identity.generate(), Identity.generate()
    signature = me.sign(b"a message")
    checked = []
    really = keys._is_signed
    monkeypatch.setattr(keys, "_is_signed", lambda *what: checked.append(what) or really(*what))
    assert keys.is_signed(me.public, signature, b"a message")
    assert checked == []
    forged = bytes([signature[0] ^ 1]) + signature[1:]
    for what in (
        (me.public, signature, b"A message"),
        (me.public, forged, b"a message"),
        (other.public, signature, b"a message"),
    ):
        assert not keys.is_signed(*what)
        assert not keys.is_signed(*what)
    assert len(checked) == 3


def test_a_signature_made_elsewhere_is_verified(monkeypatch):
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    far = Ed25519PrivateKey.generate()
    public = far.public_key().public_bytes_raw()
    checked = []
    really = keys._is_signed
    monkeypatch.setattr(keys, "_is_signed", lambda *what: checked.append(what) or really(*what))
    assert keys.is_signed(public, far.sign(b"a message"), b"a message")
    assert len(checked) == 1


def test_keys_of_a_round_are_expanded_as_rfc_5869_says():
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

    root, context = bytes(range(32)), bytes(range(32, 64))
    info = b"pair" + context + bytes([0, 1, 0, 2])
    assert keys.pair_seed(root, context, 2, 1) == HKDFExpand(SHA256(), 32, info).derive(root)
