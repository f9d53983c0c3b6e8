"""A site that serves: one store, many studies, and everything else refused and written down."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from hedgerow.deployment.approve import approve, find_study, ledger_of, revoke
from hedgerow.deployment.serve import Service
from hedgerow.deployment.site_state import DataPlace, StateFolder, backup, restore, rotate_key
from hedgerow.deployment.study_file import StudyFile
from hedgerow.errors import BudgetExceeded, HedgerowError, LedgerUnavailable, ParameterError
from hedgerow.federation.audit_log import Audit
from hedgerow.federation.client import refusal, refusal_code
from hedgerow.federation.policy import SitePolicy
from hedgerow.privacy.ledger.events import Charged
from hedgerow.secagg.codes import Code
from hedgerow.secagg.keys import Identity, Roster
from hedgerow.secagg.server import Coordinator
from support.effort import LONG
from support.network import Direct, World, tree_of


class Served:
    """All sites of a world in this process, each with its own store in its own folder."""

    def __init__(self, world: World) -> None:
        self.world, self.all = world, [Service(site) for site in world.sites]
        self.transport = Direct(
            {s.name: one.daemon.handle for s, one in zip(world.sites, self.all, strict=True)}
        )

    def __enter__(self) -> Served:
        return self

    def __exit__(self, *unused: object) -> None:
        for one in self.all:
            one.close()

    def charges(self, study: Path) -> list[int]:
        account = StudyFile.read(study).study.account
        return [charged(site, account) for site in self.world.sites]


def charged(site: StateFolder, account: str) -> int:
    with ledger_of(site) as ledger:
        return sum(isinstance(e, Charged) and e.study == account for _, e in ledger.entries())


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


@pytest.fixture
def served(world: World):
    world.approve(world.study_file)
    with Served(world) as all_sites:
        yield all_sites


# ---------------------------------------------------------------------------------------- training
def test_sites_in_their_folders_grow_the_tree_that_one_process_grows(world, served):
    model = world.train(served.transport)
    assert tree_of(model) == tree_of(world.in_one_process())
    rounds = served.charges(world.study_file)
    assert len(set(rounds)) == 1
    for k in range(3):
        told = world.lines(k, "round")
        assert len(told) == rounds[k]
        assert "class counts" in told[0]["said"]
        assert told[0]["queries"][0]["cost"] == "infinity"


class Restarting:
    """A transport; before its fourth exchange the first site's service ends and another begins."""

    def __init__(self, served: Served) -> None:
        self.served, self.asked = served, 0

    def __call__(self, messages, accept, quorum):
        self.asked += 1
        if self.asked == 4:
            self.served.all[0].close()
            again = self.served.all[0] = Service(self.served.world.sites[0])
            self.served.transport._sites["site-1"] = again.daemon.handle
        return self.served.transport(messages, accept, quorum)


def test_a_service_that_is_started_again_goes_on(world, served):
    model = world.train(Restarting(served))
    assert tree_of(model) == tree_of(world.in_one_process())
    assert len(world.lines(0, "started")) == 2
    for site in world.sites:
        with ledger_of(site) as ledger:
            ledger.verify()


def test_two_processes_cannot_serve_one_folder(world, served):
    with pytest.raises(LedgerUnavailable, match="another process"):
        Service(world.sites[0])


# ---------------------------------------------------------------------------------------- refusals
def test_a_study_that_nobody_approved_is_refused_and_written_down(world, served):
    other = world.write_study("other")
    message = world.link(served.transport, other).coordinator.join()[0]
    assert served.all[0].daemon.handle(message) == refusal(Code.NOT_APPROVED)
    (line,) = world.lines(0, "refused")
    assert (line["code"], line["reason"].endswith("not approved here")) == ("NotApproved", True)
    assert served.charges(world.study_file) == [0, 0, 0]


@pytest.mark.parametrize("junk", [b"", b"\0" * 200, b"x" * 5000])
def test_bytes_that_are_no_letter_are_refused_and_written_down(world, served, junk):
    assert served.all[0].daemon.handle(junk) == refusal(Code.BAD_MESSAGE)
    assert world.lines(0, "refused")[0]["code"] == "BadMessage"


def test_a_flipped_bit_anywhere_is_refused_and_costs_nothing(world, served):
    hub = world.link(served.transport).coordinator
    message = hub.join()[0]
    rng = np.random.default_rng(0)
    for at in rng.choice(8 * len(message), 60, replace=False):
        flipped = bytearray(message)
        flipped[at // 8] ^= 1 << (at % 8)
        assert refusal_code(served.all[0].daemon.handle(bytes(flipped))) is not None
    assert served.charges(world.study_file) == [0, 0, 0]
    assert len(world.lines(0, "refused")) == 60
    assert refusal_code(served.all[0].daemon.handle(message)) is None


class Kept:
    """A transport that keeps every message it carried."""

    def __init__(self, inner) -> None:
        self.inner, self.messages = inner, []

    def __call__(self, messages, accept, quorum):
        self.messages.append(dict(messages))
        return self.inner(messages, accept, quorum)


def test_a_run_replayed_later_gets_stored_bytes_or_nothing_and_costs_nothing(world, served):
    kept = Kept(served.transport)
    world.train(kept)
    before = served.charges(world.study_file)
    assert kept.messages
    for messages in kept.messages:
        for site, message in messages.items():
            served.all[site].daemon.handle(message)
    assert served.charges(world.study_file) == before


def test_a_second_coordinator_is_refused(world, served):
    """Its messages name the right study and the right sites; only its key is another."""
    agreed, liar = StudyFile.read(world.study_file), Identity.generate()
    roster = Roster(agreed.roster.sites, liar.public)
    parameters = agreed.study.parameters
    message = Coordinator(liar, roster, parameters, agreed.study.hash).join()[0]
    assert served.all[0].daemon.handle(message) == refusal(Code.BAD_SIGNATURE)
    assert world.lines(0, "refused")[0]["code"] == "BadSignature"
    assert served.charges(world.study_file) == [0, 0, 0]


def test_a_study_file_changed_after_approval_is_not_served(world):
    world.approve(world.study_file)
    (folder,) = world.sites[0].study_folders()
    text = folder.study_file.read_text().replace("max_depth = 2", "max_depth = 3")
    folder.study_file.write_text(text)
    one = Service(world.sites[0])
    try:
        assert not one.daemon.studies
        assert "changed after it was approved" in world.lines(0, "cannot serve")[0]["what"]
    finally:
        one.close()


def test_a_roster_with_an_unknown_key_is_not_approved(world):
    """Twin of every approval in this file: one peer's key is not the one that was compared."""
    stranger = Identity.generate().public.hex()
    changed = world.write_study("changed", **{world.sites[1].identity().public.hex(): stranger})
    with pytest.raises(ParameterError, match="known here"):
        world.approve_at(world.sites[0], changed)
    assert world.lines(0, "not approved")
    assert not any(folder.is_approved for folder in world.sites[0].study_folders())


def with_line(world: World, line: str) -> None:
    """The same policy at all sites, with one more line."""
    for site in world.sites:
        site.policy_file.write_text(f"{line}\n{site.policy_file.read_text()}")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("rounds_per_study = 1", "rounds 3 is above the ceiling 1"),
        ("records_per_person = 1", None),
        ("fewest_colluders = 2", "colluders 1 are fewer than 2"),
    ],
)
def test_a_study_above_a_ceiling_of_the_policy_is_not_approved(world, line, why):
    with_line(world, line)
    if why is None:
        world.approve(world.study_file)
        return
    with pytest.raises(ParameterError, match=why):
        world.approve(world.study_file)
    assert not any(folder.is_approved for folder in world.sites[0].study_folders())


@pytest.mark.parametrize(
    "line", ["rounds_per_study = 1", "bytes_per_study = 900", "disk_per_study = 3000"]
)
def test_a_study_that_takes_more_than_the_policy_says_is_ended_there(world, line):
    """What a method asks is not always known before; a coordinator may ask more, too."""
    world.approve(world.study_file)
    with_line(world, line)
    with Served(world) as served:
        with pytest.raises(HedgerowError):
            world.train(served.transport)
        rounds = served.charges(world.study_file)
        assert max(rounds) <= 1  # of three; what was refused was not charged
        refused = {one["code"]: one["reason"] for one in world.lines(0, "refused")}
        assert "is above the ceiling" in refused["PolicyRefused"]
    with Served(world) as again:  # the count is not forgotten
        with pytest.raises(HedgerowError):
            world.train(again.transport)
        assert again.charges(world.study_file) == rounds


def test_a_policy_that_was_never_written_allows_nothing(world):
    fresh = StateFolder.create(world.folder / "fresh", "site-1", world.folder / "fresh.anchor")
    assert fresh.policy() == SitePolicy()
    shown = StudyFile.read(world.study_file)
    with pytest.raises(ParameterError, match="does not allow 'study'") as caught:
        approve(fresh, shown, DataPlace("x.csv", "target"), Audit(fresh.audit_file))
    for reason in ("method", "dp_model", "epsilon", "features", "does not hold this site's key"):
        assert reason in str(caught.value)


# ------------------------------------------------------------------------------------------ ending
def test_a_service_ends_without_waiting_for_a_coordinator_that_is_silent(world):
    """Somebody takes the call and never says a word."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        url = f"https://127.0.0.1:{mute.getsockname()[1]}"
        world.approve_at(world.sites[0], world.study_file, url)
        one = Service(world.sites[0])
        mute.settimeout(LONG)
        line, _ = mute.accept()
        with line:
            line.settimeout(LONG)
            line.recv(1, socket.MSG_PEEK)
            one.close()
            assert any(thread.name == url for thread in threading.enumerate())  # it still waits
    assert world.lines(0, "stopped")


def test_a_service_ends_after_the_letter_that_it_is_answering(world, served):
    """Whoever ends it is kept waiting; what comes later is refused."""
    service, happened, waits = served.all[0].daemon, list[str](), threading.Event()
    (endpoint,) = service._clients.values()
    endpoint._lock, head = Watched(waits.set), endpoint.store.head

    def end() -> None:
        service.end()
        happened.append("ended")

    ending = threading.Thread(target=end)

    def while_somebody_ends_it():
        ending.start()
        assert waits.wait(LONG)
        happened.append("answered")
        return head()

    endpoint.store.head = while_somebody_ends_it
    message = world.link(served.transport).coordinator.join()[0]
    assert refusal_code(service.handle(message)) is None
    ending.join()
    assert happened == ["answered", "ended"]
    assert service.handle(message) == refusal(Code.LEDGER_UNAVAILABLE)


class Watched:
    """A lock that says when somebody has to wait for it."""

    def __init__(self, on_wait: Callable[[], None]) -> None:
        self.inner, self.on_wait = threading.Lock(), on_wait

    def __enter__(self) -> None:
        if not self.inner.acquire(blocking=False):
            self.on_wait()
            self.inner.acquire()

    def __exit__(self, *unused: object) -> None:
        self.inner.release()


def test_a_service_that_is_stopped_takes_no_other_study_up(world):
    stopped = threading.Event()
    for name in ("first", "second"):
        world.approve_at(world.sites[0], world.write_study(name))
    one = Service(world.sites[0], tell=lambda line: stopped.set(), stop_event=stopped)
    one.run()  # returns: it was stopped
    one.close()
    assert not world.lines(0, "serves")
    with closing(Service(world.sites[0])):
        assert len(world.lines(0, "serves")) == 2


# ------------------------------------------------------------------------------------------ budget
def test_of_two_studies_with_little_budget_left_one_gets_it(tmp_path):
    world = World(tmp_path, dp_model="distributed", lifetime="1.2")
    first, second = world.write_study("first"), world.write_study("second")
    world.approve(first)
    with pytest.raises(BudgetExceeded, match="lifetime"):
        world.approve_at(world.sites[0], second)
    with Served(world) as served:
        model = world.train(served.transport, first)
        assert served.all[0].daemon.studies == {StudyFile.read(first).study.hash}
        message = world.link(served.transport, second).coordinator.join()[0]
        assert served.all[0].daemon.handle(message) == refusal(Code.NOT_APPROVED)
        assert served.charges(second) == [0, 0, 0]
    assert model.privacy_.epsilon <= 1.0
    assert "simulated" not in str(model.privacy_)


def test_two_studies_are_served_at_once_from_one_vault(world, served):
    second = world.write_study("second", **{"max_depth = 2": "max_depth = 1"})
    world.approve(second)
    for one in served.all:
        one.look()
    models = [world.train(served.transport, study) for study in (world.study_file, second)]
    assert [tree_of(m) for m in models] == [
        tree_of(world.in_one_process(study)) for study in (world.study_file, second)
    ]


def test_a_revoked_study_is_let_go_at_once_and_its_budget_is_free(tmp_path):
    world = World(tmp_path, dp_model="distributed", lifetime="1.2")
    world.approve(world.study_file)
    with Served(world) as served:
        site = world.sites[0]
        revoke(site, "study", Audit(site.audit_file))
        messages = world.link(served.transport).coordinator.join()
        served.all[0].look()
        assert served.all[0].daemon.handle(messages[0]) == refusal(Code.NOT_APPROVED)
        with pytest.raises(ParameterError, match="0 approved"):
            find_study(site, "study")
        world.approve_at(site, world.write_study("another"))


# ------------------------------------------------------------------------------------ keeping state
def test_the_folder_is_its_owners_alone_and_the_anchor_is_elsewhere(world):
    site = world.sites[0]
    for path in site.root.rglob("*"):
        assert path.stat().st_mode & 0o077 == 0 or path.name == "policy.toml", path
    with pytest.raises(ParameterError, match="lies in the state folder"):
        StateFolder.create(world.folder / "a", "a", world.folder / "a/anchor")
    site.identity_file.chmod(0o644)
    with pytest.raises(ParameterError, match="read by others"):
        StateFolder.open(site.root)


def test_a_restored_backup_counts_what_it_forgot_as_spent(tmp_path):
    world = World(tmp_path, dp_model="distributed", lifetime="3")
    world.approve(world.study_file)
    site = world.sites[0]
    with Served(world) as served:
        backup(site, tmp_path / "copy")
        world.train(served.transport)
    account = StudyFile.read(world.study_file).study.account
    state, known = restore(tmp_path / "copy", tmp_path / "back", site.anchor, None)
    assert not known
    with ledger_of(state) as ledger:
        assert ledger.spent(account) == ledger.cap(account)
        ledger.verify()


def test_a_restored_backup_of_a_site_that_did_nothing_since_goes_on(tmp_path):
    world = World(tmp_path, dp_model="distributed", lifetime="3")
    world.approve(world.study_file)
    backup(world.sites[0], tmp_path / "copy")
    account = StudyFile.read(world.study_file).study.account
    state, known = restore(tmp_path / "copy", tmp_path / "back", world.sites[0].anchor, None)
    assert known
    with ledger_of(state) as ledger:
        assert ledger.spent(account) == 0


def test_a_new_key_keeps_what_the_old_one_gave_away(tmp_path):
    world = World(tmp_path, dp_model="distributed", lifetime="1.2")
    world.approve(world.study_file)
    with Served(world) as served:
        world.train(served.transport)
    site = world.sites[0]
    with pytest.raises(ParameterError, match="revoke them first"):
        rotate_key(site)
    revoke(site, "study", Audit(site.audit_file))
    with ledger_of(site) as ledger:
        before = ledger.committed()
    old = site.identity().public
    new, retired = rotate_key(site)
    assert site.identity().public == new.public != old
    assert before > 0
    with ledger_of(site) as ledger:
        ledger.verify()
        assert ledger.committed() == before
    assert (retired / "store.sqlite").exists()


def test_a_refused_code_never_says_why(world, served):
    """The reason is in the audit log; outside there is a code of constant length."""
    answers = {served.all[0].daemon.handle(junk) for junk in (b"", b"x" * 300)}
    assert {len(answer) for answer in answers} == {48}


def test_a_letter_for_another_site_is_refused(world, served):
    messages = world.link(served.transport).coordinator.join()
    assert refusal_code(served.all[0].daemon.handle(messages[1])) == "BadMessage"
    assert world.lines(0, "refused")[0]["code"] == "BadMessage"
