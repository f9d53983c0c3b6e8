"""The same study over a provisioned FLARE network with mutual TLS, locked as sites lock it."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

pytest.importorskip("nvflare", reason="the extra hedgerow[flare] is not installed")

from contract.network_world import World, tree_of
from demos.flare_network import ADMIN, FlareNetwork, flare_network
from hedgerow.agreement.approving import ledger_of
from hedgerow.agreement.serving import Serving
from hedgerow.agreement.study_file import StudyFile
from hedgerow.errors import SpecError
from hedgerow.privacy.ledger.events import Charged
from hedgerow.transport.flare import FlareCarrier, write_job
from hedgerow.transport.flare_locks import EXECUTOR, lock

pytestmark = pytest.mark.filterwarnings("ignore")


class Flare:
    """One network for all tests of this file; each has a study and a carrier of its own."""

    def __init__(self, world: World, network: FlareNetwork, serving: list[Serving]) -> None:
        self.world, self.network, self.serving = world, network, serving
        self.studies = 0

    def study(self) -> Path:
        """A new one, approved by all."""
        self.studies += 1
        path = self.world.write_study(f"study-{self.studies}")
        self.world.approve(path)
        for one in self.serving:
            one.look()
        return path

    def carrier(self, folder: Path) -> FlareCarrier:
        return FlareCarrier(self.network.admin_kit, ADMIN, self.world.names, 3, folder / "pipe")

    def charges(self, study: Path) -> list[int]:
        account = StudyFile.read(study).study.account
        counts = []
        for site in self.world.sites:
            with ledger_of(site) as ledger:
                ledger.verify()
                events = [event for _, event in ledger.entries()]
            counts.append(sum(isinstance(e, Charged) and e.study == account for e in events))
        return counts


@pytest.fixture(scope="module")
def flare(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("flare")
    world = World(folder)
    serving = [Serving(site) for site in world.sites]
    try:
        with flare_network(folder / "f", {s.name: s.socket for s in world.sites}) as network:
            yield Flare(world, network, serving)
    finally:
        for one in serving:
            one.close()


def test_a_tree_grown_over_flare_is_the_tree_of_one_process(flare, tmp_path):
    study, carrier = flare.study(), flare.carrier(tmp_path)
    try:
        model = flare.world.train(carrier, study)
    finally:
        carrier.close()
    assert tree_of(model) == tree_of(flare.world.in_one_process(study))
    assert carrier.jobs == 1
    rounds = len(model.run_.rounds)
    assert flare.charges(study) == [rounds] * 3


class Interrupted:
    """A carrier that lets something happen before its n-th exchange."""

    def __init__(self, inner: FlareCarrier, at: int, event) -> None:
        self.inner, self.at, self.event, self.asked = inner, at, event, 0

    def ask(self, letters, timeout):
        self.asked += 1
        if self.asked == self.at:
            self.event()
        return self.inner.ask(letters, timeout)


def trained_through(flare: Flare, folder: Path, event) -> int:
    """Trains while something happens; how many jobs it took. Nothing is charged twice."""
    study, carrier = flare.study(), flare.carrier(folder)
    try:
        model = flare.world.train(Interrupted(carrier, 5, event), study)
    finally:
        carrier.close()
    assert tree_of(model) == tree_of(flare.world.in_one_process(study))
    assert flare.charges(study) == [len(model.run_.rounds)] * 3
    return carrier.jobs


@pytest.mark.slow
def test_a_sites_job_process_that_is_killed_costs_another_job_and_no_charge(flare, tmp_path):
    def kill() -> None:
        jobs = [
            p for p in flare.network.processes("site-1") if "worker_process" in str(p.cmdline())
        ]
        assert jobs
        for process in jobs:
            process.kill()

    assert trained_through(flare, tmp_path, kill) == 2


@pytest.mark.slow
def test_a_server_that_is_killed_comes_back_and_nothing_is_charged_twice(flare, tmp_path):
    def kill() -> None:
        for process in flare.network.processes("localhost"):
            if "bash" not in process.name() and "sub_start" not in str(process.cmdline()):
                process.kill()

    assert trained_through(flare, tmp_path, kill) >= 2


# -------------------------------------------------------------------------------------- intruders
def refused(flare: Flare, job: Path, folder: Path) -> bool:
    """Whether a job never ran: nobody's mark is written, and no site heard a letter."""
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    before = [len(flare.world.lines(k, "joined")) for k in range(3)]
    session = new_secure_session(ADMIN, str(flare.network.admin_kit), timeout=20)
    try:
        try:
            id = session.submit_job(str(job))
        except Exception:
            return True
        end = time.monotonic() + 60
        while time.monotonic() < end:
            status = str(session.get_job_meta(id).get("status"))
            if status.startswith("FINISHED"):
                break
            time.sleep(0.5)
    finally:
        session.close()
    after = [len(flare.world.lines(k, "joined")) for k in range(3)]
    return not (folder / "mark").exists() and before == after and "COMPLETED" not in status


@pytest.mark.slow
def test_a_job_that_ships_code_is_refused(flare, tmp_path):
    write_job(tmp_path / "job", tmp_path / "pipe", flare.world.names, 3)
    custom = tmp_path / "job/app/custom"
    custom.mkdir()
    (custom / "evil.py").write_text(
        f"open({str(tmp_path / 'mark')!r}, 'w')\n"
        "from nvflare.apis.executor import Executor\nclass Evil(Executor): pass\n"
    )
    config = tmp_path / "job/app/config/config_fed_client.json"
    config.write_text(config.read_text().replace(EXECUTOR, "evil.Evil"))
    assert refused(flare, tmp_path / "job", tmp_path)


@pytest.mark.slow
def test_a_job_that_names_another_class_is_refused(flare, tmp_path):
    write_job(tmp_path / "job", tmp_path / "pipe", flare.world.names, 3)
    config = tmp_path / "job/app/config/config_fed_client.json"
    content = json.loads(config.read_text())
    content["components"] = [
        {"id": "x", "path": "subprocess.Popen", "args": {"args": ["touch", str(tmp_path / "mark")]}}
    ]
    config.write_text(json.dumps(content))
    assert refused(flare, tmp_path / "job", tmp_path)


# ------------------------------------------------------------------------------------------ locks
def test_locks_are_written_for_a_site_and_for_the_server(flare, tmp_path):
    kits = flare.network.kits
    site = json.loads((kits / "site-1/local/resources.json").read_text())
    assert site["class_allow_list"] == [EXECUTOR]
    assert (site["class_list_enforcement_mode"], site["allow_log_streaming"]) == ("enforce", False)
    assert "site_log_streamer" not in [one["id"] for one in site["components"]]
    rights = json.loads((kits / "site-1/local/authorization.json").read_text())["permissions"]
    assert {role["byoc"] for role in rights.values()} == {"none"}
    assert {role["shell_commands"] for role in rights.values()} == {"none"}
    with pytest.raises(SpecError, match="is a site's"):
        lock(kits / "site-1", None)
    with pytest.raises(SpecError, match="is the server's"):
        lock(kits / "localhost", tmp_path / "socket")
    with pytest.raises(SpecError, match="no start-up kit"):
        lock(tmp_path, None)
    shutil.rmtree(tmp_path, ignore_errors=True)
