"""Files that come back from an earlier day: what they may no longer do, and how they go on."""

import sqlite3
from contextlib import closing
from fractions import Fraction as Q

import numpy as np
import pytest

from hedgerow.errors import (
    BudgetExceeded,
    LedgerBroken,
    LedgerRolledBack,
    LedgerUnavailable,
    ParameterError,
    SiteRefused,
)
from hedgerow.federation.site_store import SiteStore, backup_store
from hedgerow.privacy.accounting.budget import Measure
from hedgerow.privacy.ledger.charges import Charge
from hedgerow.privacy.ledger.file import open_ledger
from hedgerow.privacy.ledger.sqlite import SqliteLedger
from hedgerow.secagg import client, masks, shamir
from hedgerow.secagg.client import Site
from hedgerow.secagg.encoding import members_field
from hedgerow.secagg.envelope import Envelope, MessageKind, SignedHeader
from hedgerow.secagg.messages import Masked, MemberTable, Round, Shares, Unmask
from hedgerow.secagg.opening import witness_digest
from hedgerow.secagg.parameters import Parameters
from support.secagg_dry_run import headers, refuses, restarted, ring_sum, some_vectors
from support.site_stores import ACCOUNT, COST, StoreConsortium

VICTIM, COLLUDER, DIM = 0, 4, 3


# --------------------------------------------------------------- two sets with restored files
class Attack:
    """Five sites, one of them the coordinator's; two honest ones are brought back to a copy.

    First everybody but site 3 is said to have survived, and a threshold opens the victim's
    self-mask. Then, with the two copies, everybody but the victim, and its pair seeds come out.
    Where a copy asks for witnesses it gets all that there are.
    """

    def __init__(self, folder):
        self.sites = StoreConsortium(folder, 5, Parameters(n_sites=5, colluders=1, threshold=4))
        self.group, self.vectors = self.sites.group, some_vectors(5, DIM)
        self.secure = self.group.coordinator.start(b"bundle", DIM)
        sent = self.sites.answers(self.secure.requests(), self.vectors)
        self.sent = {me: Masked.read(Envelope.parse(m).body, DIM) for me, m in sent.items()}

    def run(self, *, anchor=False):
        self.sites.copy((1, 2))
        first = self.open_set((0, 1, 2, 4))
        for me in (1, 2):
            self.sites.bring_back(me, anchor=anchor)
            self.sites.site_stores[me] = self.sites._opened(me)
            restarted(self.group, me, self.sites.site_stores[me].memory(ACCOUNT))
        second = self.open_set((1, 2, 3, 4))
        return self.victim_vector(first, second)

    def message(self, me, kind, body):
        """The coordinator says nothing of the heads it holds."""
        return self.group.forge(kind, body, round=self.secure.round, receiver=me)

    def open_set(self, members):
        certificate = {}
        for me in members:
            message = self.message(me, MessageKind.SURVIVORS, members_field(members))
            signed = Envelope.parse(self.group.sites[me].sign_set(message))
            if signed.header.kind is MessageKind.DOUBT:
                self.prove(me, members, bytes(signed.body))
                signed = Envelope.parse(self.group.sites[me].sign_set(message))
            certificate[me] = bytes(signed.body)
        answers = {}
        for me in members:
            sealed = {peer: self.sent[peer].sealed_shares[me] for peer in members if peer != me}
            body = Unmask(members, certificate, sealed).to_bytes()
            answer = self.group.sites[me].unmask(self.message(me, MessageKind.UNMASK, body))
            answers[me] = Shares.read(Envelope.parse(answer).body)
        return answers

    def prove(self, me, members, nonce):
        """Every witness that can be had; the colluder signs whatever it likes."""
        content = witness_digest(self.context, members, me, nonce)
        signatures = {COLLUDER: self.group.identities[COLLUDER].sign(content)}
        body = MemberTable(members, {me: nonce}).to_bytes()
        for peer in set(members) - {me, COLLUDER}:
            try:
                words = self.group.sites[peer].witness(
                    self.message(peer, MessageKind.WITNESS, body)
                )
            except SiteRefused:
                continue
            table = MemberTable.read(Envelope.parse(words).body, 64).table
            signatures[peer] = table[me]
        proof = MemberTable(members, signatures).to_bytes()
        self.group.sites[me].prove(self.message(me, MessageKind.PROVE, proof))

    @property
    def context(self):
        run = self.group.coordinator.run_id
        return self.group.sites[COLLUDER]._memory.outbox(run, 1).context

    def victim_vector(self, first, second):
        givers = (0, 1, 2, 4)
        shares = (shamir.from_bytes(first[me].shares[VICTIM]) for me in givers)
        secret = shamir.combine(shares, shamir.weights(givers))
        seeds = [answer.seeds[VICTIM] for answer in second.values()]
        vector = self.sent[VICTIM].vector.copy()
        masks.fold(vector, plus=[], minus=[masks.self_key(self.context, secret), *seeds])
        return masks.center(vector)


@pytest.fixture
def attack(tmp_path):
    attack = Attack(tmp_path)
    yield attack
    attack.sites.close()


def test_two_restored_sites_do_not_open_a_second_set(attack):
    """The colluder may forget what it likes; honest copies meet their anchor."""
    with pytest.raises(LedgerRolledBack):
        attack.run()


def test_sets_that_the_anchor_did_not_count_would_give_a_vector_away(attack, monkeypatch):
    """The negative control: an anchor that counts charges alone.

    And a colluder that signs everything.
    """
    whole = SqliteLedger._raise_anchor

    def charges_only(chain):
        sets = chain._books.account(ACCOUNT).sets
        if chain._end.seq not in {opened.seq for opened in sets.values()}:
            whole(chain)

    monkeypatch.setattr(SqliteLedger, "_raise_anchor", charges_only)
    monkeypatch.setattr(Site, "_is_in_doubt", lambda site, record, members: False)
    collude(attack)
    np.testing.assert_array_equal(attack.run(), attack.vectors[VICTIM])


# ----------------------------------------------------- machines brought back with their anchors
def collude(attack):
    """The colluder signs whatever it is asked to."""
    memory = attack.group.sites[COLLUDER]._memory

    def sign_all(run_id, round, members, reply):
        return reply[1](memory.outbox(run_id, round).header.ledger)

    memory.open_set = sign_all


def test_machines_brought_back_with_their_anchors_open_no_second_set(attack):
    """Site 3 and the colluder witness it; that is one too few, and the copies none."""
    collude(attack)
    with refuses("BadCertificate"):
        attack.run(anchor=True)


WEAKER = {
    "a site that asks for no witnesses": (Site, "_is_in_doubt", lambda *unused: False),
    "one witness less": (
        client,
        "least_witnesses",
        lambda participants, threshold, colluders: participants - threshold + colluders,
    ),
    "copies that witness each other": (Site, "_is_own", lambda site, record: True),
}


@pytest.mark.parametrize("name", WEAKER)
def test_weaker_sites_that_were_brought_back_give_a_vector_away(attack, monkeypatch, name):
    """The negative controls; the first is what sites did before there were witnesses."""
    monkeypatch.setattr(*WEAKER[name])
    collude(attack)
    np.testing.assert_array_equal(attack.run(anchor=True), attack.vectors[VICTIM])


def test_a_witness_is_bound_and_speaks_to_one_process_alone(attack):
    """Its word to an earlier process of the site is no word to this one."""
    members, body = (0, 1, 2, 4), members_field((0, 1, 2, 4))
    attack.sites.restart(1)
    ask = attack.message(1, MessageKind.SURVIVORS, body)
    nonce = bytes(Envelope.parse(attack.group.sites[1].sign_set(ask)).body)
    asked = MemberTable(members, {1: nonce}).to_bytes()
    words = attack.group.sites[0].witness(attack.message(0, MessageKind.WITNESS, asked))
    assert attack.group.sites[0].witness(attack.message(0, MessageKind.WITNESS, asked)) == words
    other = members_field((0, 1, 2, 3))
    with refuses("SecondSet"):
        attack.group.sites[0].sign_set(attack.message(0, MessageKind.SURVIVORS, other))
    attack.prove(1, members, nonce)
    attack.sites.restart(1)  # before it has signed
    again = bytes(Envelope.parse(attack.group.sites[1].sign_set(ask)).body)
    assert len(again) == len(nonce)
    assert again != nonce
    with refuses("BadCertificate"):
        attack.prove(1, members, nonce)
    attack.prove(1, members, again)
    signed = attack.group.sites[1].sign_set(ask)
    attack.sites.restart(1)  # what its file holds is answered for again
    assert attack.group.sites[1].sign_set(ask) == signed


# ----------------------------------------------------------- charges that a copy has forgotten
def forget_charges(folder, rounds=5):
    """A lying coordinator has site 0 brought back with its anchor, to after the first round.

    Then it begins a key session, says nothing of the heads that it holds, and asks on. Gives what
    site 0 believes that it has spent, and what it has.
    """
    sites, vectors = StoreConsortium(folder, 4), some_vectors(4, DIM)
    hub = sites.group.coordinator
    for number in range(rounds):
        sites.answers(ask_with_headers(sites, number + 1), vectors)
        if number == 0:
            sites.copy([0])
    paid = sites.site_stores[0].ledger.spent(ACCOUNT)
    sites.bring_back(0, anchor=True)
    sites.site_stores[0] = sites._opened(0)
    restarted(sites.group, 0, sites.site_stores[0].memory(ACCOUNT))
    hub.heads.clear()
    try:
        sites.open_session()
        sites.answers(ask_with_headers(sites, rounds + 1), vectors)
        return sites.site_stores[0].ledger.spent(ACCOUNT), paid + COST
    finally:
        sites.close()


def ask_with_headers(sites, number):
    body = Round(b"bundle", (0, 1, 2, 3), receipts=headers(sites.group, number - 1)).to_bytes()
    forge = sites.group.forge
    return {me: forge(MessageKind.ROUND, body, round=number, receiver=me) for me in range(4)}


def test_peers_stop_a_machine_that_was_brought_back_with_its_anchor(tmp_path):
    with refuses("LedgerRolledBack"):
        forget_charges(tmp_path)


def test_peers_who_hear_no_heads_would_let_it_forget_what_it_paid(tmp_path, monkeypatch):
    """The negative control: heads were known as of the last key session alone."""
    monkeypatch.setattr(Site, "_hear", lambda *unused: None)
    believed, paid = forget_charges(tmp_path)
    assert believed == 2 * COST < paid == 6 * COST


def test_a_fork_is_kept_in_the_file_for_all_studies(sites):
    key, shown = sites.group.roster.sites[3], bytes(272)
    sites.site_stores[1].memory(ACCOUNT).see_fork(key, shown)
    sites.restart(1)
    assert sites.site_stores[1].memory("another study").fork(key) == shown
    assert sites.site_stores[1].memory(ACCOUNT).fork(sites.group.roster.sites[2]) is None


# ----------------------------------------------------------------------- inside of a round
@pytest.fixture
def sites(tmp_path):
    sites = StoreConsortium(tmp_path, 4)
    yield sites
    sites.close()


def masked(sites, bundle=b"bundle", lost=()):
    vectors = some_vectors(4, DIM)
    secure = sites.group.coordinator.start(bundle, DIM)
    for me, message in sites.answers(secure.requests(), vectors).items():
        if me not in lost:
            secure.accept_masked(message)
    return secure, vectors


def opened(sites, secure):
    for me, message in secure.close().items():
        secure.accept_signature(sites.group.sites[me].sign_set(message))
    for me, message in secure.unmask().items():
        answer = sites.group.sites[me].unmask(message)
        if Envelope.parse(answer).header.kind is MessageKind.DOUBT:
            secure.accept_doubt(answer)
            for peer, asked in secure.ask_witnesses().items():
                secure.accept_witness(sites.group.sites[peer].witness(asked))
            sites.group.sites[me].prove(secure.proofs()[me])
            answer = sites.group.sites[me].unmask(message)
        secure.accept_shares(answer)
    return secure.opened()


def test_a_copy_that_has_missed_nothing_goes_on_where_it_was(sites):
    secure, vectors = masked(sites)
    sites.copy([0])
    sites.bring_back(0)
    sites.site_stores[0] = sites._opened(0)
    restarted(sites.group, 0, sites.site_stores[0].memory(ACCOUNT))
    np.testing.assert_array_equal(opened(sites, secure).values, ring_sum(vectors, range(4)))


def test_a_copy_from_before_the_round_does_not_serve(sites):
    sites.copy([0])
    masked(sites)
    sites.bring_back(0)
    with pytest.raises(LedgerRolledBack):
        sites._opened(0)


def test_a_copy_from_before_the_set_does_not_serve(sites):
    secure, _ = masked(sites)
    sites.copy([0])
    opened(sites, secure)
    sites.bring_back(0)
    with pytest.raises(LedgerRolledBack):
        sites._opened(0)


def declare_restored(sites, me):
    sites.bring_back(me)
    with open_ledger(sites.place(me), sites.group.identities[me], sites.anchor(me)) as ledger:
        ledger.restore()
    sites.site_stores[me] = sites._opened(me)
    return restarted(sites.group, me, sites.site_stores[me].memory(ACCOUNT))


def second_set(sites, secure):
    body = members_field((0, 1, 2))
    return sites.group.forge(MessageKind.SURVIVORS, body, round=secure.round)


def test_a_declared_restore_answers_for_no_round_that_was_stored_before(sites):
    secure, _ = masked(sites)
    sites.copy([0])
    opened(sites, secure)  # everybody
    site = declare_restored(sites, 0)
    with refuses("OldRound"):
        site.sign_set(second_set(sites, secure))


def test_a_restore_that_kept_stored_rounds_would_sign_a_second_set(sites, monkeypatch):
    """The negative control."""
    monkeypatch.setattr(SqliteLedger, "restored", lambda ledger: 0)
    secure, _ = masked(sites)
    sites.copy([0])
    opened(sites, secure)
    declare_restored(sites, 0).sign_set(second_set(sites, secure))


# --------------------------------------------------------------- backup, restore, reconcile
def lose(sites, me, rounds=2):
    """Backs a site up, lets rounds pass and loses its file; gives backup and receipts."""
    masked(sites)
    backup = sites.folder / "backup"
    backup_store(sites.place(me), backup)
    receipts = []
    for number in range(rounds):
        secure, _ = masked(sites, b"later %d" % number)
        opened(sites, secure)
        receipts += secure.receipts[me].values()
    sites.site_stores[me].close()
    sites.place(me).unlink()
    return backup, receipts


def restore(sites, me, backup, held=()):
    where = (backup, sites.place(me), sites.group.identities[me], sites.anchor(me))
    sites.site_stores[me] = SiteStore.restore(*where, held)
    return sites.site_stores[me]


def try_to_charge(sites, me):
    charge = Charge((), COST, "Count of all rows", ACCOUNT, Measure.PURE)
    sites.site_stores[me].ledger.reserve([charge], "new")


def test_a_backup_older_than_the_anchor_spends_nothing_until_it_is_reconciled(sites):
    backup, receipts = lose(sites, 0)
    site_store = restore(sites, 0, backup)
    assert site_store.ledger.spent(ACCOUNT) == 1
    with pytest.raises(BudgetExceeded, match="restored"):
        try_to_charge(sites, 0)
    site_store.reconcile(receipts)
    assert site_store.ledger.spent(ACCOUNT) == 3 * COST  # one round before the backup, two after
    try_to_charge(sites, 0)
    sites.restart(0)
    assert sites.site_stores[0].ledger.spent(ACCOUNT) == 4 * COST


def test_a_reconciled_site_takes_part_again(sites):
    backup, receipts = lose(sites, 0)
    restore(sites, 0, backup).reconcile(receipts)
    restarted(sites.group, 0, sites.site_stores[0].memory(ACCOUNT))
    sites.open_session()
    secure, vectors = masked(sites, b"after")
    np.testing.assert_array_equal(opened(sites, secure).values, ring_sum(vectors, range(4)))
    assert sites.spent() == {4 * COST}


@pytest.mark.parametrize("missing", range(4))
def test_every_entry_that_was_lost_needs_its_receipt(sites, missing):
    backup, receipts = lose(sites, 0)
    assert len(receipts) == 4  # a charge and a set, twice
    site_store = restore(sites, 0, backup)
    with pytest.raises(LedgerRolledBack, match="no receipt"):
        site_store.reconcile(receipts[:missing] + receipts[missing + 1 :])
    assert site_store.ledger.spent(ACCOUNT) == 1


@pytest.mark.parametrize("how", ["a changed cost", "of somebody else", "of a coordinator", "noise"])
def test_only_this_sites_own_receipts_reconcile(sites, how):
    backup, receipts = lose(sites, 0)
    site_store = restore(sites, 0, backup)
    last = receipts[-1]
    false = {
        "a changed cost": last.replace(b"3/100", b"2/100"),
        "of somebody else": masked_by_another(sites),
        "of a coordinator": message_of_the_coordinator(sites),
        "noise": b"no receipt at all",
    }[how]
    assert false != last
    with pytest.raises((SiteRefused, ParameterError)):
        site_store.reconcile([*receipts[:-1], false])
    assert site_store.ledger.spent(ACCOUNT) == 1


def masked_by_another(sites):
    record = sites.site_stores[1].memory(ACCOUNT).outbox(sites.group.coordinator.run_id, 3)
    return Envelope.parse(record.message).receipt.to_bytes()


def message_of_the_coordinator(sites):
    message = sites.group.coordinator.message(MessageKind.ROUND, 0, 9, b"")
    return Envelope.parse(message).receipt.to_bytes()


def test_without_the_anchor_receipts_tell_what_was_lost(sites):
    backup, receipts = lose(sites, 0)
    sites.anchor(0).unlink()
    site_store = restore(sites, 0, backup, held=receipts[-1:])
    assert site_store.ledger.spent(ACCOUNT) == 1
    site_store.reconcile(receipts)
    assert site_store.ledger.spent(ACCOUNT) == 3 * COST


def test_a_peer_holds_the_highest_header_it_has_seen(sites):
    masked(sites)
    shown = [Envelope.parse(keys).receipt for keys in sites.group.coordinator.keys]

    def held():
        memory = sites.site_stores[1].memory(ACCOUNT)
        return [memory.receipt(key) for key in sites.group.roster.sites]

    assert held() == shown
    sites.restart(1)
    assert held() == shown


def test_a_peers_receipt_shows_a_loss_but_not_what_was_lost(sites):
    """KEYS say where a ledger stood, not what its last entry was."""
    backup, receipts = lose(sites, 0, rounds=1)
    site_store = restore(sites, 0, backup)
    restarted(sites.group, 0, site_store.memory(ACCOUNT))
    keys = Envelope.parse(sites.group.coordinator.keys[0]).receipt.to_bytes()
    with pytest.raises(LedgerRolledBack, match="no receipt"):
        site_store.reconcile([keys, receipts[0]])


def test_a_backup_holds_nothing_that_could_open_a_round(sites):
    backup, _ = lose(sites, 0)
    assert backup.stat().st_mode & 0o777 == 0o600
    with closing(sqlite3.connect(backup)) as file:
        assert file.execute("SELECT count(*) FROM outbox").fetchone() == (0,)
    site_store = restore(sites, 0, backup)
    assert site_store.memory(ACCOUNT).outbox(sites.group.coordinator.run_id, 1) is None


def test_a_restore_overwrites_nothing(sites):
    backup_store(sites.place(0), sites.folder / "backup")
    sites.site_stores[0].close()
    with pytest.raises(LedgerUnavailable, match="Move away"):
        restore(sites, 0, sites.folder / "backup")
    with pytest.raises(LedgerUnavailable, match="cannot be copied"):
        SiteStore.restore(
            sites.folder / "nowhere", sites.folder / "site 0" / "new" / "db",
            sites.group.identities[0], sites.anchor(0),
        )  # fmt: skip
    sites.site_stores[0] = sites._opened(0)


def test_a_backup_is_made_once_to_a_place(sites):
    backup_store(sites.place(0), sites.folder / "backup")
    with pytest.raises(LedgerUnavailable):
        backup_store(sites.place(0), sites.folder / "backup")


def test_a_restored_site_that_lost_its_secret_does_not_draw_another(sites):
    """With a new secret a record would be in another fold than the one that has paid."""
    backup = sites.folder / "backup"
    backup_store(sites.place(0), backup)
    secret = sites.site_stores[0].secret(ACCOUNT)
    secure, _ = masked(sites)
    opened(sites, secure)
    assert sites.site_stores[0].secret(ACCOUNT) == secret
    sites.site_stores[0].close()
    sites.place(0).unlink()
    site_store = restore(sites, 0, backup)
    site_store.reconcile(secure.receipts[0].values())
    with pytest.raises(LedgerBroken, match="secret is gone"):
        site_store.secret(ACCOUNT)


def test_the_cost_of_a_receipt_is_what_the_study_had_spent(sites):
    _, receipts = lose(sites, 0)
    told = [SignedHeader.read(one).header.ledger for one in receipts]
    assert [Q(head.spent) for head in told] == [2 * COST, 2 * COST, 3 * COST, 3 * COST]
    assert [head.seq for head in told] == list(range(told[0].seq, told[0].seq + 4))
