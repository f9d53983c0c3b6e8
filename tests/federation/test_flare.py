"""The same study over a provisioned FLARE network with mutual TLS, locked as sites lock it."""

from __future__ import annotations

import json
import shutil
import socket
import ssl
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("nvflare", reason="the extra hedgerow[flare] is not installed")

from examples.network.engine import running
from examples.network.flare import ADMIN, FlareNetwork
from federation.test_transports import NAMES, SEVERAL, Shown, directly, grown, handles, over, world
from hedgerow.errors import ParameterError
from hedgerow.federation.exchange import RetryPolicy
from hedgerow.federation.transports import flare_locks
from hedgerow.federation.transports.flare import FlareExchange, write_job
from hedgerow.federation.transports.flare_locks import EXECUTOR, lock, untried_version
from hedgerow.federation.transports.socket import SocketListener
from hedgerow.privacy.accounting.budget import DPModel
from support.effort import LONG
from support.engine_world import FLARE_FAULTS
from support.faults import MAY_BE_VOID
from support.flare_world import Flare, flare_world
from support.network import tree_of

pytestmark = [pytest.mark.filterwarnings("ignore"), pytest.mark.network]
CODE_REFUSED = "BYOC not permitted"


@pytest.fixture(scope="module")
def flare(tmp_path_factory: pytest.TempPathFactory):
    """One network for all tests of this file; each has a study and a transport of its own."""
    with flare_world(tmp_path_factory.mktemp("flare")) as started:
        yield started


def test_a_tree_grown_over_flare_is_the_tree_of_one_process(flare, tmp_path):
    study, transport = flare.study(), flare.transport(tmp_path)
    try:
        model = flare.world.train(transport, study)
    finally:
        transport.close()
    assert tree_of(model) == tree_of(flare.world.in_one_process(study))
    assert transport.jobs == 1
    assert [len(rounds) for rounds in flare.charges(study)] == [len(model.run_.rounds)] * 3


# ------------------------------------------------------------------------------------ all methods
@pytest.fixture(scope="module")
def pipe(tmp_path_factory: pytest.TempPathFactory):
    """One job for all methods; which sites answer behind its sockets changes."""
    folder, behind = tmp_path_factory.mktemp("pipe"), dict[str, object]()
    sockets = {name: folder / f"{name}.socket" for name in NAMES}
    listeners = [
        SocketListener(path, lambda message, name=name: behind[name](message))
        for name, path in sockets.items()
    ]
    try:
        with running(FlareNetwork(folder / "f", sockets)) as network:
            transport = FlareExchange(network.admin_kit, ADMIN, NAMES, 3, folder / "pipe")
            yield transport, behind
            transport.close()
    finally:
        for one in listeners:
            one.close()


@pytest.mark.slow
@pytest.mark.parametrize(("method", "schema"), SEVERAL)
def test_every_recipe_over_flare_is_what_it_is_in_one_process(method, schema, pipe):
    transport, behind = pipe
    inner = world(method, schema, dp_model=DPModel.NONE)
    behind.update(handles(inner))
    link = over(transport, inner, RetryPolicy(NAMES), Shown(inner.coordinator))
    assert grown(method, link)[0].model.to_dict() == directly(method, schema)
    assert transport.jobs == 1


# ---------------------------------------------------------------------------------------- killed
@pytest.mark.slow
@pytest.mark.parametrize("fault", FLARE_FAULTS, ids=lambda fault: fault.name)
def test_whoever_is_killed_around_flare_costs_time_and_no_more_than_a_round(flare, tmp_path, fault):
    outcome, jobs = flare.play(fault, tmp_path)
    assert outcome.same_model
    assert outcome.charged_once
    assert max(outcome.charged) == outcome.rounds
    may_be_void = fault.who == "site" and (fault.kind, fault.when) in MAY_BE_VOID
    assert outcome.void <= may_be_void
    assert outcome.void or outcome.charged == (outcome.rounds,) * 3
    assert jobs >= fault.jobs


# -------------------------------------------------------------------------------------- intruders
@contextmanager
def connected(flare: Flare, certificate: Path | None):
    """To FLARE's server, by whoever shows this certificate, of whatever authority."""
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    tls.check_hostname = False
    tls.load_verify_locations(flare.network.kits / "site-1/startup/rootCA.pem")
    if certificate is not None:
        tls.load_cert_chain(certificate / "client.crt", certificate / "client.key")
    with (
        socket.create_connection(("127.0.0.1", flare.network.port), 60) as plain,
        tls.wrap_socket(plain) as spoken,
    ):
        yield spoken


def until_logged(flare: Flare, words: str, times: int = 1, who: str = "localhost") -> None:
    """In the log of FLARE's own process there: the server's, or a site's."""
    log, end = flare.network.folder / f"{who}.log", time.monotonic() + 120
    while log.read_text(errors="replace").count(words) < times:
        assert time.monotonic() < end, f"{who} did not say {words!r}"
        time.sleep(0.1)


@pytest.mark.slow
def test_nobody_comes_in_without_a_certificate_of_the_networks_own(flare, tmp_path):
    with (
        pytest.raises(ssl.SSLError, match="CERTIFICATE_REQUIRED"),
        connected(flare, None) as spoken,
    ):
        spoken.recv(1)
    other = FlareNetwork(tmp_path, flare.network.sockets)
    other.provision()
    with (
        pytest.raises(ssl.SSLError, match=r"UNKNOWN_CA|DECRYPT_ERROR|BAD_CERTIFICATE"),
        connected(flare, other.kits / "site-1/startup") as spoken,
    ):
        spoken.recv(1)
    of_two = "SSL site-2] is created"
    before = (flare.network.folder / "localhost.log").read_text().count(of_two)
    with connected(flare, flare.network.kits / "site-2/startup"):
        until_logged(
            flare, of_two, before + 1
        )  # negative control: a certificate of its own is taken


@pytest.mark.slow
def test_a_site_does_not_pass_for_another(flare, tmp_path):
    """A FLARE client with the certificate of site-2 that says it is site-1."""
    before = [len(flare.world.lines(k, "joined")) for k in range(3)]
    kit = tmp_path / "kit"
    shutil.copytree(flare.network.kits / "site-1", kit)
    for name in ("client.crt", "client.key"):
        shutil.copy(flare.network.kits / "site-2/startup" / name, kit / "startup" / name)
    words = ["-m", "nvflare.private.fed.app.client.client_train", "-m", str(kit)]
    named = ["--set", "uid=site-1", "secure_train=true", "config_folder=config", "org=site1"]
    liar = subprocess.Popen(
        [sys.executable, *words, "-s", "fed_client.json", *named],
        cwd=kit,
        env=flare.network.environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until_logged(flare, "authenticated as 'site-2' but claimed endpoint 'site-1'")
    finally:
        liar.kill()
        liar.wait()
    assert [len(flare.world.lines(k, "joined")) for k in range(3)] == before


def refused(flare: Flare, job: Path, folder: Path) -> bool:
    """Whether a job never ran: no mark is written, no site heard a message, no ledger grew."""
    from nvflare.fuel.flare_api.flare_api import new_secure_session

    before = flare.heard_and_charged()
    session = new_secure_session(ADMIN, str(flare.network.admin_kit), timeout=LONG)
    try:
        try:
            id = session.submit_job(str(job))
        except Exception:
            return True
        end = time.monotonic() + LONG
        while time.monotonic() < end:
            status = str(session.get_job_meta(id).get("status"))
            if status.startswith("FINISHED"):
                break
            time.sleep(0.5)
    finally:
        session.close()
    unmarked = not (folder / "mark").exists()
    return unmarked and before == flare.heard_and_charged() and "COMPLETED" not in status


def job_with_code(flare: Flare, folder: Path) -> Path:
    write_job(folder / "job", folder / "pipe", flare.world.names, 3)
    custom = folder / "job/app/custom"
    custom.mkdir()
    (custom / "evil.py").write_text(
        f"open({str(folder / 'mark')!r}, 'w')\n"
        "from nvflare.apis.executor import Executor\nclass Evil(Executor): pass\n"
    )
    config = folder / "job/app/config/config_fed_client.json"
    config.write_text(config.read_text().replace(EXECUTOR, "evil.Evil"))
    return folder / "job"


@contextmanager
def server_that_takes_code(flare: Flare):
    """Its lock is taken off; what the sites locked is theirs."""
    rights = flare.network.kits / "localhost/local/authorization.json"
    locked = rights.read_text()
    rights.write_text(locked.replace('"byoc": "none"', '"byoc": "any"'))
    assert rights.read_text() != locked
    flare.network.kill_and_start_again("localhost")
    flare.network.wait_for_sites()
    try:
        yield
    finally:
        rights.write_text(locked)
        flare.network.kill_and_start_again("localhost")
        flare.network.wait_for_sites()


@pytest.mark.slow
def test_a_job_that_ships_code_is_refused(flare, tmp_path):
    assert refused(flare, job_with_code(flare, tmp_path), tmp_path)
    until_logged(flare, CODE_REFUSED)


@pytest.mark.slow
def test_sites_refuse_code_that_their_server_would_ship_and_log_it(flare, tmp_path):
    """FLARE's audit log at a site says who wanted to deploy; why not, it tells the server."""
    before = {name: audited(flare, name) for name in flare.world.names}
    with server_that_takes_code(flare):
        assert refused(flare, job_with_code(flare, tmp_path), tmp_path)
        for name in flare.world.names:
            until_logged(flare, f"{name}: NVFLARE_ERROR: {CODE_REFUSED}")
    for name in flare.world.names:
        assert audited(flare, name) == [*before[name], f"[U:{ADMIN}][A:train.deploy]"]


def audited(flare: Flare, name: str) -> list[str]:
    """Who wanted what of FLARE's client at a site, to begin a job, as its audit log has it."""
    log = (flare.network.kits / name / "audit.log").read_text()
    done = ["[U:" + line.partition("[U:")[2] for line in log.splitlines()]
    return [line for line in done if line.endswith(("train.deploy]", "train.start_job]"))]


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
    for name in flare.world.names:
        until_logged(flare, "'subprocess.Popen' at config path", who=name)


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
    with pytest.raises(ParameterError, match="is a site's"):
        lock(kits / "site-1", None)
    with pytest.raises(ParameterError, match="is the server's"):
        lock(kits / "localhost", tmp_path / "socket")
    with pytest.raises(ParameterError, match="no start-up kit"):
        lock(tmp_path, None)
    shutil.rmtree(tmp_path, ignore_errors=True)


def test_a_version_whose_locks_nobody_tried_is_told_of(monkeypatch):
    assert untried_version() is None  # these tests are run with one that is tried
    for found, told in (("2.9.3", None), ("2.10.0", "2.10.0"), ("2.91", "2.91")):
        monkeypatch.setattr(flare_locks, "version", lambda name, found=found: found)
        assert untried_version() == told
