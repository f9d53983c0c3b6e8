"""Losing a site in one round opens none of its earlier rounds.

The coordinator keeps every byte it ever saw, and one site tells it all it knows. Every 32-byte
secret among these is tried as a pair seed, as a root and as an ephemeral key.
"""

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from hedgerow.errors import RoundFailed
from hedgerow.secagg import masks, shamir
from hedgerow.secagg.client import Site
from hedgerow.secagg.encoding import CIPHERTEXT
from hedgerow.secagg.envelope import Envelope, MessageKind
from hedgerow.secagg.keys import COORDINATOR, EphemeralKeys, gives, pair_seed
from hedgerow.secagg.messages import Masked, Shares
from hedgerow.secagg.parameters import Parameters
from hedgerow.secagg.session import SiteSession
from support.secagg_dry_run import consortium, masked_round, some_vectors

HONEST, COLLUDER, TARGET = 0, 1, 2


class RevealsRoot(Site):
    """Recovery as it must not be.

    The secret of the whole key session instead of one round's seed.
    """

    def secret_towards(self, peer):
        return self._membership.site_session.roots[peer]

    def unmask(self, message):
        answer = super().unmask(message)
        record = self._record_of(Envelope.parse(message).header)
        given = Shares.read(Envelope.parse(answer).body)
        seeds = {peer: self.secret_towards(peer) for peer in given.seeds}
        body = Shares(given.shares, seeds).to_bytes()
        header = record.header
        place = header.run_id, header.session_id, header.round, COORDINATOR, header.ledger
        return self._author.seal(MessageKind.SHARES, body, *place)


class RevealsKey(RevealsRoot):
    """The same with the ephemeral key itself."""

    def secret_towards(self, peer):
        return self._membership._keys.agreement.private_bytes_raw()


def play(site_class):
    """Round 1 with everybody, round 2 without the target; gives all answers, per round."""
    group = consortium(3, Parameters(n_sites=3, colluders=1, threshold=2), site_class)
    vectors, answers = some_vectors(3), []
    for lost in ([], [TARGET]):
        secure = masked_round(group, vectors, lost)
        for me, message in secure.close().items():
            secure.accept_signature(group.sites[me].sign_set(message))
        sent = {me: group.sites[me].unmask(m) for me, m in secure.unmask().items()}
        answers.append({me: Shares.read(Envelope.parse(m).body) for me, m in sent.items()})
        if not lost or site_class is Site:
            for message in sent.values():
                secure.accept_shares(message)
            secure.opened()
    return group, vectors, answers


def secrets_seen(group, answers):
    """All the coordinator and the colluder hold that could be a key."""
    for round_answers in answers:
        for answer in round_answers.values():
            yield from answer.shares.values()
            yield from answer.seeds.values()
    colluder = group.sites[COLLUDER]
    yield colluder._membership._keys.agreement.private_bytes_raw()
    yield from colluder._membership.site_session.roots.values()
    for record in group.memories[COLLUDER]._records.values():
        yield from (record.own_share, *record.seeds.values(), *record.share_keys.values())


def guesses(group, secret, context):
    """The seed of the target and the honest site, if `secret` were a seed, a root or a key."""
    yield secret
    yield pair_seed(secret, context, HONEST, TARGET)
    giver, taker = (HONEST, TARGET) if gives(HONEST, TARGET) else (TARGET, HONEST)
    ciphertext = group.coordinator._capsules[giver][taker][:CIPHERTEXT]
    broken = group.sites[taker]._membership._keys.encapsulation  # as if ML-KEM had fallen
    keys = EphemeralKeys(X25519PrivateKey.from_private_bytes(secret), broken)
    for me, peer in ((HONEST, TARGET), (TARGET, HONEST)):
        joined = SiteSession(group.coordinator.session, me, keys, 0)
        root = joined._root_with(peer, broken.decapsulate(ciphertext), ciphertext)
        yield pair_seed(root, context, HONEST, TARGET)


def vectors_recovered(group, answers):
    """Round 1's vector of the target under every guess."""
    run = group.coordinator.run_id
    message = group.memories[TARGET].outbox(run, 1).message  # sent, so the coordinator has it
    context = group.memories[COLLUDER].outbox(run, 1).context
    sent = Masked.read(Envelope.parse(message).body, 3).vector
    givers = (HONEST, COLLUDER)
    own = shamir.combine(
        (shamir.from_bytes(answers[0][giver].shares[TARGET]) for giver in givers),
        shamir.weights(givers),
    )
    with_colluder = group.memories[COLLUDER].outbox(run, 1).seeds[TARGET]
    for secret in secrets_seen(group, answers):
        for seed in guesses(group, secret, context):
            vector = sent.copy()
            masks.fold(vector, plus=[seed, with_colluder], minus=[masks.self_key(context, own)])
            yield masks.center(vector)


def test_a_site_lost_later_keeps_its_earlier_vectors_to_itself():
    group, vectors, answers = play(Site)
    recovered = list(vectors_recovered(group, answers))
    assert len(recovered) > 50
    assert not any(np.array_equal(guess, vectors[TARGET]) for guess in recovered)


@pytest.mark.parametrize("site_class", [RevealsRoot, RevealsKey])
def test_recovery_by_key_would_give_them_away(site_class):
    """The negative controls: the same attack, word for word, recovers the vector."""
    group, vectors, answers = play(site_class)
    assert any(
        np.array_equal(guess, vectors[TARGET]) for guess in vectors_recovered(group, answers)
    )


def test_one_round_s_seed_opens_that_round_and_no_other():
    group, _, answers = play(Site)
    run, revealed = group.coordinator.run_id, answers[1][HONEST].seeds[TARGET]
    records = [group.memories[TARGET].outbox(run, round) for round in (1, 2)]
    assert records[1].seeds[HONEST] == revealed
    assert records[0].seeds[HONEST] != revealed


def test_a_site_never_gives_a_share_and_a_seed_of_the_same_peer():
    _, _, answers = play(Site)
    for round_answers in answers:
        shared = set().union(*(answer.shares for answer in round_answers.values()))
        seeded = set().union(*(answer.seeds for answer in round_answers.values()))
        assert not shared & seeded


def test_a_lost_site_and_a_lost_answer_make_the_round_void_not_wrong():
    group = consortium(4)
    secure = masked_round(group, some_vectors(4), lost=[3])
    for me, message in secure.close().items():
        secure.accept_signature(group.sites[me].sign_set(message))
    messages = secure.unmask()
    for me in (0, 1):
        secure.accept_shares(group.sites[me].unmask(messages[me]))
    with pytest.raises(RoundFailed, match="the charge stays"):
        secure.opened()
    secure.accept_shares(group.sites[2].unmask(messages[2]))  # it came back
    assert secure.opened().members == (0, 1, 2)
