"""Every message and every key is bound to study, run, key session, round, bundle, sets and ends."""

import itertools

import pytest

from hedgerow.errors import SiteRefused
from hedgerow.secagg import envelope, keys
from hedgerow.secagg.envelope import EMPTY_LEDGER, Envelope, MessageKind
from hedgerow.secagg.messages import Masked, Round, Unmask
from hedgerow.secagg.session import read_keys
from support.secagg_dry_run import (
    STUDY,
    answer,
    consortium,
    head,
    keys_of,
    masked_round,
    next_coordinator,
    refuses,
    restarted,
    some_vectors,
)

EVERYBODY = (0, 1, 2, 3)


class Played:
    """A round with one lost site, and every message of it, with the step that takes it."""

    def __init__(self):
        self.group = consortium(4, opened=False)
        self.steps = {}
        group, vectors = self.group, some_vectors(4)
        site, coordinator = group.sites[0], group.coordinator
        invitations = coordinator.join()
        self.steps["JOIN"] = (invitations[0], lambda m: site.join(m, lambda: EMPTY_LEDGER))
        keys_sent = [group.sites[me].join(m, lambda: EMPTY_LEDGER) for me, m in invitations.items()]
        self.steps["KEYS"] = (keys_sent[1], lambda m: read_keys(m, group.roster, STUDY))
        opens = coordinator.open(keys_sent)
        given = {me: group.sites[me].open(message) for me, message in opens.items()}
        self.steps["OPEN"] = (opens[0], site.open)
        self.steps["ENCAPS"] = (given[1], coordinator.accept_capsules)
        for message in given.values():
            coordinator.accept_capsules(message)
        binds = coordinator.bind(opens)
        self.steps["BIND"] = (binds[0], site.bind)
        for me, message in binds.items():
            group.sites[me].bind(message)
        self.secure = secure = coordinator.start(b"bundle", 3)
        requests = secure.requests()
        self.steps["ROUND"] = (requests[0], site.begin)
        sent = {me: answer(group, me, requests[me], vectors[me]) for me in EVERYBODY}
        for me in (0, 1, 2):
            secure.accept_masked(sent[me])
        survivors = secure.close()
        self.steps["SURVIVORS"] = (survivors[0], site.sign_set)
        signed = {me: group.sites[me].sign_set(survivors[me]) for me in (0, 1, 2)}
        self.steps["SIGNED_SET"] = (signed[1], secure.accept_signature)
        for message in signed.values():
            secure.accept_signature(message)
        unmask = secure.unmask()
        self.steps["UNMASK"] = (unmask[0], site.unmask)
        shares = group.sites[1].unmask(unmask[1])
        self.steps["SHARES"] = (shares, secure.accept_shares)
        late = coordinator.start(b"late", 3)
        masked = answer(group, 1, late.requests()[1], vectors[1])
        self.steps["MASKED"] = (masked, late.accept_masked)
        self._play_restart(vectors)
        root = bytes([7]) * 32
        ended = consortium(3)  # of its own: who has closed takes no other message
        close = ended.coordinator.close(root, 2)
        self.steps["CLOSE"] = (close[0], ended.sites[0].close)
        said = ended.sites[1].close(close[1])
        self.steps["CLOSED"] = (said, lambda m: ended.coordinator.accept_closed(m, root))

    def _play_restart(self, vectors):
        """Site 0 was started anew after everybody had answered; 1, 2 and 3 tell it who had."""
        group = consortium(4)
        secure = masked_round(group, vectors)
        secure.close()
        doubtful = restarted(group, 0)
        doubt = doubtful.unmask(secure.unmask()[0])
        self.steps["DOUBT"] = (doubt, secure.accept_doubt)
        secure.accept_doubt(doubt)
        asked = secure.ask_witnesses()
        self.steps["WITNESS"] = (asked[1], group.sites[1].witness)
        said = {me: group.sites[me].witness(message) for me, message in asked.items()}
        self.steps["WITNESSED"] = (said[1], secure.accept_witness)
        for message in said.values():
            secure.accept_witness(message)
        self.steps["PROVE"] = (secure.proofs()[0], doubtful.prove)


@pytest.fixture(scope="module")
def played():
    return Played()


KINDS = [kind.name for kind in MessageKind]


@pytest.mark.parametrize("kind", KINDS)
def test_the_untouched_message_is_taken(played, kind):
    message, step = played.steps[kind]
    step(message)


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_with_any_byte_changed_is_refused(played, kind):
    message, step = played.steps[kind]
    for place in range(len(message)):
        changed = bytearray(message)
        changed[place] ^= 1 << (place % 8)
        with pytest.raises(SiteRefused):
            step(bytes(changed))


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_cut_or_lengthened_is_refused(played, kind):
    message, step = played.steps[kind]
    for changed in (b"", message[:1], message[:-1], message[: len(message) // 2], message + b"\0"):
        with pytest.raises(SiteRefused):
            step(changed)


def test_a_header_outside_the_signature_would_be_noticed(monkeypatch):
    """The negative control: sign the body alone, and a changed ledger head goes through."""
    digest = envelope.digest
    blind = lambda tag, *parts: digest(tag, parts[-1])  # noqa: E731
    monkeypatch.setattr(envelope, "digest", blind)
    message, step = Played().steps["MASKED"]
    place = message.index(head(1, 2).head)
    step(message[:place] + bytes([message[place] ^ 1]) + message[place + 1 :])


@pytest.mark.parametrize(
    ("field", "value", "code"),
    [
        ("study_hash", bytes(32), "BadMessage"),
        ("receiver", 1, "BadMessage"),
        ("run_id", bytes(16), "RunSuperseded"),
        ("session_id", bytes(32), "RoundIdUsed"),
        ("round", 0, "OldRound"),
        ("kind", MessageKind.UNMASK, "BadMessage"),
    ],
)
def test_a_request_signed_for_another_place_is_refused(played, field, value, code):
    body = Round(b"bundle", EVERYBODY).to_bytes()
    message = played.group.forge(**({"kind": MessageKind.ROUND, "body": body} | {field: value}))
    with refuses(code):
        played.group.sites[0].begin(message)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("study_hash", bytes(32)),
        ("receiver", 1),
        ("run_id", bytes(16)),
        ("session_id", bytes(32)),
        ("round", 9),
        ("kind", MessageKind.SURVIVORS),
    ],
)
def test_an_unmasking_signed_for_another_place_is_refused(played, field, value):
    genuine = Envelope.parse(played.steps["UNMASK"][0])
    settings = {"kind": MessageKind.UNMASK, "body": bytes(genuine.body)}
    with pytest.raises(SiteRefused):
        played.group.sites[0].unmask(played.group.forge(**(settings | {field: value})))


@pytest.mark.parametrize("sender", [1, 3, 4])
def test_only_the_coordinator_is_obeyed(played, sender):
    body = Round(b"bundle", EVERYBODY).to_bytes()
    signer = min(sender, 3)
    message = played.group.forge(MessageKind.ROUND, body, signer, sender=sender, ledger=head(0, 1))
    with refuses("UnknownKey"):
        played.group.sites[0].begin(message)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("study_hash", bytes(32)),
        ("receiver", 0),
        ("run_id", bytes(16)),
        ("session_id", bytes(32)),
        ("round", 9),
    ],
)
def test_an_answer_signed_for_another_place_is_refused(played, field, value):
    genuine = Envelope.parse(played.steps["SHARES"][0])
    settings = {"sender": 1, "round": 1, "ledger": head(1, 1)} | {field: value}
    message = played.group.forge(MessageKind.SHARES, bytes(genuine.body), signer=1, **settings)
    with refuses("BadMessage"):
        played.secure.accept_shares(message)


def test_an_answer_under_another_name_is_refused(played):
    genuine = Envelope.parse(played.steps["SHARES"][0])
    for signer, sender in ((1, 2), (2, 1)):
        message = played.group.forge(
            MessageKind.SHARES, bytes(genuine.body), signer, sender=sender, ledger=head(sender, 1)
        )
        with refuses("BadSignature"):
            played.secure.accept_shares(message)


@pytest.mark.parametrize("other", [(1, b"b"), (2, b"a")], ids=["bundle", "round"])
def test_sites_told_different_bundles_or_rounds_do_not_open_each_other(other):
    group = consortium(4)
    told = [(1, b"a"), other, (1, b"a"), (1, b"a")]
    sealed = {}
    for me, (round, bundle) in enumerate(told):
        body = Round(bundle, EVERYBODY).to_bytes()
        request = group.forge(MessageKind.ROUND, body, round=round, receiver=me)
        masked = Envelope.parse(answer(group, me, request, some_vectors(4)[me]))
        sealed[me] = Masked.read(masked.body, 3).sealed_shares
    body = Unmask(EVERYBODY, {}, {peer: sealed[peer][0] for peer in (1, 2, 3)}).to_bytes()
    with refuses("BadShare"):
        group.sites[0].unmask(group.forge(MessageKind.UNMASK, body))


def test_the_context_depends_on_each_thing_it_binds():
    group, other = consortium(4), consortium(4)
    session = group.coordinator.session
    contexts = [
        session.context(1, b"r" * 32, EVERYBODY),
        session.context(2, b"r" * 32, EVERYBODY),
        session.context(1, b"s" * 32, EVERYBODY),
        session.context(1, b"r" * 32, (0, 1, 2)),
        other.coordinator.session.context(1, b"r" * 32, EVERYBODY),
    ]
    assert len(set(contexts)) == len(contexts)


def test_round_keys_depend_on_root_context_ends_and_direction():
    roots, contexts = (bytes(32), bytes([1]) * 32), (bytes(32), bytes([2]) * 32)
    ends = list(itertools.combinations(range(3), 2))
    seeds = {keys.pair_seed(r, c, *e) for r in roots for c in contexts for e in ends}
    assert len(seeds) == 12
    assert keys.pair_seed(roots[0], contexts[0], 2, 1) in seeds
    sealing = {
        keys.share_key(r, c, *e)
        for r in roots
        for c in contexts
        for e in itertools.permutations(range(3), 2)
    }
    assert len(sealing) == 24
    assert not seeds & sealing


def test_a_sealed_share_opens_only_for_its_receiver_sender_and_round():
    key, share = bytes([3]) * 32, bytes(range(32))
    sealed = keys.seal_share(key, b"c" * 32, 0, 1, share)
    assert keys.open_share(key, b"c" * 32, 0, 1, sealed) == share
    for context, sender, receiver in ((b"d" * 32, 0, 1), (b"c" * 32, 1, 0), (b"c" * 32, 0, 2)):
        with refuses("BadShare"):
            keys.open_share(key, context, sender, receiver, sealed)


def test_the_epoch_depends_on_every_key_and_on_the_run():
    group = consortium(3, opened=False)
    messages = keys_of(group)
    group.coordinator.open(messages)
    first = group.coordinator.session.id
    group.coordinator.open(reversed(messages))
    assert group.coordinator.session.id == first
    group.coordinator.open(keys_of(group))
    second = group.coordinator.session.id
    group.coordinator = next_coordinator(group, {})
    group.coordinator.open(keys_of(group))
    assert len({first, second, group.coordinator.session.id}) == 3
