"""Two studies at once over the same sites, whose lifetime budget has room for one of them."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from deployment.test_serve import Served
from hedgerow.deployment.approve import approve, ledger_of, revoke
from hedgerow.deployment.site_state import DataPlace, StateFolder
from hedgerow.deployment.study_file import StudyFile
from hedgerow.errors import BudgetExceeded, RunEnded
from hedgerow.federation.audit_log import Audit
from hedgerow.federation.exchange import Timing
from hedgerow.federation.transports.https import HttpsExchange
from support.network import Processes, World

pytestmark = pytest.mark.network

DECIDING = Path(__file__).parents[1] / "support" / "deciding.py"
IMPATIENT = Timing(answer_seconds=1, asks=1, patience_seconds=1, return_seconds=1)


def approved_at_once(world: World, site: StateFolder, urls: dict[Path, str]) -> Path:
    """Two people say yes at the same moment; the study of the one whose yes was heard."""
    ready, authority, refused = threading.Barrier(len(urls)), world.certify(site), list[str]()

    def says_yes(study: Path) -> bool:
        rows = str(world.data_of(site))
        place = DataPlace(rows, "target", coordinator=urls[study], authority=authority)
        ready.wait()
        try:
            approve(site, StudyFile.read(study), place, Audit(site.audit_file))
        except BudgetExceeded as error:
            refused.append(str(error))
            return False
        return True

    with ThreadPoolExecutor(len(urls)) as pool:
        heard = dict(zip(urls, pool.map(says_yes, urls), strict=True))
    assert sorted(heard.values()) == [False, True]
    assert "lifetime" in refused[0]
    return next(study for study, was in heard.items() if was)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path, dp_model="distributed", lifetime="1.2")


def test_one_gets_the_budget_and_the_other_is_refused_and_nothing_is_spent_twice(world):
    studies = [world.write_study("first"), world.write_study("second")]
    with ExitStack() as opened:
        listeners = {}
        for study in studies:
            tls = world.authority.server_context(["127.0.0.1"])
            listeners[study] = opened.enter_context(
                closing(HttpsExchange(world.names, tls, "127.0.0.1"))
            )
        urls = {
            study: f"https://127.0.0.1:{listener.port}" for study, listener in listeners.items()
        }
        served = opened.enter_context(Served(world))
        winner = approved_at_once(world, world.sites[0], urls)
        loser = next(study for study in studies if study != winner)
        for site in world.sites[1:]:
            if approved_at_once(world, site, urls) == loser:  # these follow the first
                revoke(site, StudyFile.read(loser).name, Audit(site.audit_file))
                world.approve_at(site, winner, urls[winner])
        for one in served.all:
            one.look()
        with ThreadPoolExecutor(2) as pool:
            going = pool.submit(world.train, listeners[winner], winner)
            waiting = pool.submit(world.link(listeners[loser], loser, IMPATIENT).enter)
            model = going.result()
            with pytest.raises(RunEnded, match="0 of 3 sites are there"):
                waiting.result()
        rounds = len(model.run_.rounds)
        assert served.charges(winner) == [rounds] * 3
        assert served.charges(loser) == [0, 0, 0]
    account, other = (StudyFile.read(study).study.account for study in (winner, loser))
    for site in world.sites:
        with ledger_of(site) as ledger:
            ledger.verify()
            with ledger.current() as books:
                assert books.committed <= books.lifetime.limit
            assert 0 < ledger.spent(account) <= StudyFile.read(winner).study.total
            assert not ledger.is_open(other)


def approving_process(world: World, site: StateFolder, study: Path) -> subprocess.Popen[str]:
    rows = ("--data", world.data_of(site), "--state", site.root, "--yes")
    return subprocess.Popen(
        list(map(str, (sys.executable, DECIDING, "site", "approve", study, *rows))),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=Processes.environment(),
    )


def test_whoever_comes_second_for_the_last_budget_leaves_no_folder(world):
    """Two processes that both found room, and then both take it, one after the other."""
    site = world.sites[0]
    studies = [world.write_study("first"), world.write_study("second")]
    with ExitStack() as opened:
        deciding = [opened.enter_context(approving_process(world, site, one)) for one in studies]
        for one in deciding:
            assert "allowed\n" in iter(one.stdout.readline, "")
        said = [one.communicate("\n", timeout=120)[0] for one in deciding]
        ended = [one.returncode for one in deciding]
    assert list(map(bool, ended)) == [False, True], said
    assert "lifetime" in said[1]
    first, second = (StudyFile.read(study) for study in studies)
    assert [folder.path.name.split("-")[0] for folder in site.study_folders()] == [first.name]
    assert [line["name"] for line in world.lines(0, "not approved")] == [second.name]
    with ledger_of(site) as ledger:
        ledger.verify()
        assert not ledger.is_open(second.study.account)


def test_a_site_that_held_no_budget_back_would_take_both(tmp_path):
    """Twin: where there is room for two, both are heard."""
    world = World(tmp_path, dp_model="distributed", lifetime="3")
    for name in ("first", "second"):
        world.approve_at(world.sites[0], world.write_study(name))
    assert len([s for s in world.sites[0].study_folders() if s.is_approved]) == 2
